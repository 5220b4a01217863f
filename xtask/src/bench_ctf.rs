//! `cargo xtask bench ctf`: how fast traces are read, beside babeltrace2, in one run on one
//! machine.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::process::{quiet, target};
use crate::{Environment, book, lttng, memory, setup, test};

/// How much is measured, and what becomes of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The traces of the goals.
    Full,
    /// The same, and the table goes into the book.
    Book,
    /// Small traces, for CI: everything runs, and the times mean nothing.
    Short,
}

/// A trace: how `record` calls it, what it is, and how many events it has.
struct Trace {
    kind: &'static str,
    what: &'static str,
    events: u64,
}

const FULL: [Trace; 2] = [
    Trace {
        kind: "pair",
        what: "two integers",
        events: 10_000_000,
    },
    Trace {
        kind: "mixed",
        what: "string, array, enumeration, numbers",
        events: 4_000_000,
    },
];
const SHORT: [Trace; 2] = [
    Trace {
        kind: "pair",
        what: "two integers",
        events: 100_000,
    },
    Trace {
        kind: "mixed",
        what: "string, array, enumeration, numbers",
        events: 40_000,
    },
];

/// What counting must be faster than babeltrace2's, what text must, what two jobs must be faster
/// than one, and the most memory, in MiB.
const GOALS: (f64, f64, f64, f64) = (30.0, 8.0, 1.7, 32.0);
/// How often both readers take turns, of which the least time counts.
#[derive(Clone, Copy)]
struct Rounds {
    count: usize,
    text: usize,
}

/// Rounds in which one job and two take turns.
const JOB_PAIRS: usize = 7;

const PAGE: &str = "docs/src/reading-speed.md";
const BEGIN: &str = "<!-- bench ctf: begin -->";
const END: &str = "<!-- bench ctf: end -->";

/// Records the traces if they are not there yet, measures, prints.
pub(crate) fn run(form: Form) -> Result<()> {
    let obstacle = match std::thread::available_parallelism() {
        _ if !cfg!(all(target_arch = "x86_64", target_os = "linux")) => {
            Some("it is for x86-64 processors under Linux".to_owned())
        }
        Ok(cpus) if cpus.get() < 2 => Some("it needs two CPUs".to_owned()),
        _ => setup::lttng().err().map(|error| format!("{error:#}")),
    };
    match obstacle {
        Some(obstacle) if form == Form::Short => {
            eprintln!("\nNOT MEASURED: bench ctf: {obstacle}\n");
            return Ok(());
        }
        Some(obstacle) => bail!(Environment(format!(
            "bench ctf cannot run here: {obstacle}."
        ))),
        None => {}
    }
    let kymo = Kymo {
        program: test::cli()?,
    };
    let folder = target().join("bench-ctf");
    fs::create_dir_all(&folder)?;
    let rounds = if form == Form::Short {
        Rounds { count: 1, text: 1 }
    } else {
        Rounds { count: 7, text: 3 }
    };
    let mut table = Table::default();
    for trace in if form == Form::Short { SHORT } else { FULL } {
        let directory = recorded(&folder, &trace)?;
        measure(&kymo, &trace, &directory, rounds, &mut table)?;
    }
    let text = table.text();
    println!("\n{text}");
    match form {
        Form::Short => println!("The traces are small and the times mean little."),
        Form::Full => {}
        Form::Book => book::write(PAGE, (BEGIN, END), &text)?,
    }
    Ok(())
}

/// The `kymo` command.
struct Kymo {
    program: PathBuf,
}

impl Kymo {
    fn dump(&self, trace: &Path, arguments: &[&str]) -> Vec<String> {
        let words = [
            self.program.display().to_string(),
            "dump".into(),
            trace.display().to_string(),
        ];
        words
            .into_iter()
            .chain(arguments.iter().map(|&word| word.to_owned()))
            .collect()
    }

    fn text(&self, trace: &Path) -> Vec<String> {
        self.dump(trace, &["--format", "babeltrace"])
    }
}

fn babeltrace2(trace: &Path, arguments: &[&str]) -> Vec<String> {
    let words = ["babeltrace2".to_owned(), trace.display().to_string()];
    words
        .into_iter()
        .chain(arguments.iter().map(|&word| word.to_owned()))
        .collect()
}

/// The trace's folder; recorded once, and kept.
fn recorded(folder: &Path, trace: &Trace) -> Result<PathBuf> {
    let home = folder.join(format!("{}-{}", trace.kind, trace.events));
    let done = home.join("done");
    if !done.is_file() {
        if home.exists() {
            fs::remove_dir_all(&home)?;
        }
        fs::create_dir_all(&home)?;
        lttng::record(&home, trace.kind, trace.events, &home.join("trace"))?;
        fs::write(&done, "")?;
    }
    lttng::trace_folder(&home.join("trace"))
}

/// Seconds of a command: by the clock on the wall, and of the processor.
#[derive(Clone, Copy)]
struct Seconds {
    wall: f64,
    cpu: f64,
}

impl Seconds {
    fn least(self, other: Seconds) -> Seconds {
        Seconds {
            wall: self.wall.min(other.wall),
            cpu: self.cpu.min(other.cpu),
        }
    }
}

/// Runs a command with its output going nowhere. The shell has the processor's time of its
/// children, to the millisecond.
fn time(words: &[String]) -> Result<Seconds> {
    let script = r#"exec 3>&2; TIMEFORMAT="%R %U %S"; { time TZ=UTC "$@" >/dev/null 2>&3; } 2>&1"#;
    let output = Command::new("bash")
        .args(["-c", script, "bash"])
        .args(words)
        .stderr(Stdio::piped())
        .output()?;
    if !output.status.success() {
        bail!(
            "this failed ({}): {}\n{}",
            output.status,
            words.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = text
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    match numbers[..] {
        [wall, user, system] => Ok(Seconds {
            wall,
            cpu: user + system,
        }),
        _ => bail!("the shell's time makes no sense: {text}"),
    }
}

/// How many lines are the same in both outputs, from the first on.
///
/// # Errors
/// The first pair of lines that differ.
fn same_lines(ours: &[String], theirs: &[String]) -> Result<u64> {
    let start = |words: &[String]| -> Result<_> {
        let (program, arguments) = words.split_first().context("there is no command")?;
        let mut child = Command::new(program)
            .args(arguments)
            .env("TZ", "UTC")
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().context("a command has no output")?;
        Ok((child, BufReader::with_capacity(1 << 20, output)))
    };
    let ((mut child, mut ours), (mut their_child, mut theirs)) = (start(ours)?, start(theirs)?);
    let (mut our_line, mut their_line) = (Vec::new(), Vec::new());
    let mut number = 0;
    let differ = loop {
        our_line.clear();
        their_line.clear();
        let lengths = (
            ours.read_until(b'\n', &mut our_line)?,
            theirs.read_until(b'\n', &mut their_line)?,
        );
        if our_line != their_line {
            break true;
        }
        if lengths == (0, 0) {
            break false;
        }
        number += 1;
    };
    drop((ours, theirs));
    child.wait()?;
    their_child.wait()?;
    if differ {
        let text = |line: &[u8]| String::from_utf8_lossy(line).trim_end().to_owned();
        bail!(
            "line {} differs:\n  kymo        {}\n  babeltrace2 {}",
            number + 1,
            text(&our_line),
            text(&their_line)
        );
    }
    Ok(number)
}

fn measure(
    kymo: &Kymo,
    trace: &Trace,
    directory: &Path,
    rounds: Rounds,
    table: &mut Table,
) -> Result<()> {
    let count = [
        kymo.dump(directory, &["--count"]),
        babeltrace2(directory, &["--component=sink.utils.dummy"]),
    ];
    let text = [kymo.text(directory), babeltrace2(directory, &[])];

    let output = Command::new(&kymo.program)
        .args(["dump", "--count", "--json"])
        .arg(directory)
        .output()?;
    if !output.status.success() {
        bail!(
            "kymo cannot count the trace: {}",
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    let json = String::from_utf8_lossy(&output.stdout);
    if !json.contains(&trace.events.to_string()) {
        bail!("kymo does not count {} events: {json}", trace.events);
    }
    for (what, goal, words, rounds) in [
        ("counting", GOALS.0, &count, rounds.count),
        ("text", GOALS.1, &text, rounds.text),
    ] {
        let [mut ours, mut theirs] = [time(&words[0])?, time(&words[1])?];
        for _ in 1..rounds {
            ours = ours.least(time(&words[0])?);
            theirs = theirs.least(time(&words[1])?);
        }
        table.row(trace, what, ours, theirs, goal);
    }
    let memory = memory::own(&count[0])?;
    table.notes.push(format!(
        "Memory of its own while counting {} events ({}): {:.1} MiB (goal: below {}).",
        trace.events,
        trace.what,
        memory as f64 / 1024.0,
        GOALS.3
    ));
    let lines = same_lines(&text[0], &text[1])?;
    table.notes.push(format!(
        "Text of {}: {lines} lines are equal to babeltrace2's.",
        trace.what
    ));

    let (one, two) = (
        kymo.dump(directory, &["--count", "--jobs", "1"]),
        kymo.dump(directory, &["--count", "--jobs", "2"]),
    );
    let (mut least_one, mut least_two) = (f64::MAX, f64::MAX);
    for _ in 0..JOB_PAIRS {
        least_one = least_one.min(time(&one)?.wall);
        least_two = least_two.min(time(&two)?.wall);
    }
    let ratio = least_one / least_two;
    table.notes.push(format!(
        "Two jobs on {}: {ratio:.2} times one, best of {JOB_PAIRS} pairs that take turns (goal: \
         {}).",
        trace.what, GOALS.2
    ));
    Ok(())
}

#[derive(Default)]
struct Table {
    rows: Vec<String>,
    notes: Vec<String>,
}

impl Table {
    fn row(&mut self, trace: &Trace, what: &str, ours: Seconds, theirs: Seconds, goal: f64) {
        let per_event = |seconds: f64| seconds * 1e9 / trace.events as f64;
        let ratio = theirs.cpu / ours.cpu.max(0.001);
        self.rows.push(format!(
            "| {}, {} | {what} | {:.0} | {:.1} | {ratio:.1} | {:.1} | {goal} |",
            trace.events,
            trace.what,
            per_event(theirs.cpu),
            per_event(ours.cpu),
            theirs.wall / ours.wall.max(0.001)
        ));
    }

    fn text(&self) -> String {
        let version = quiet(Command::new("babeltrace2").arg("--version")).unwrap_or_default();
        let version = version.split_whitespace().nth(1).unwrap_or("").to_owned();
        let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu = cpu
            .lines()
            .find_map(|line| line.strip_prefix("model name"))
            .unwrap_or("unknown")
            .trim_start_matches(['\t', ' ', ':']);
        let mut text = format!(
            "Measured by `cargo xtask bench ctf` in one run ({cpu}); babeltrace2 {version}; one thread each; text is the same lines, to /dev/null.\n\n\
             | events | what | babeltrace2, ns/event | kymo, ns/event | times faster (CPU) | times faster (elapsed) | goal |\n\
             | --- | --- | --- | --- | --- | --- | --- |\n"
        );
        for row in &self.rows {
            text.push_str(row);
            text.push('\n');
        }
        text.push('\n');
        for note in &self.notes {
            text.push_str(&format!("- {note}\n"));
        }
        text
    }
}
