//! What the book shows of the command's output is what it prints: `KYMO_BLESS=1` writes it anew.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use kymo::Text;
use kymo::vocabulary::{
    Irq, IrqEnter, IrqExit, IrqName, LockAcquired, LockKind, LockName, LockReleased, LockWait,
    Object, SwitchReason, Syscall, SyscallEnter, SyscallExit, SyscallName, ThreadName, ThreadState,
    Tid,
};
use kymo_made::{MS, Made, US};

/// Threads, and the lock and the system call of each.
const THREADS: [(u32, &str, &str, &str); 3] = [
    (10, "web server", "page cache", "read"),
    (11, "database writer", "table of open files", "fsync"),
    (12, "indexer", "page cache", "write"),
];
const LOCKS: [&str; 2] = ["page cache", "table of open files"];
const LINES: [&str; 2] = ["network", "disk"];

/// So many rounds of 10 ms on two CPUs. In each a thread of a CPU's three calls the kernel, waits
/// for a lock and is interrupted, by the disk for `disk` microseconds more than by the network.
pub fn machine(name: &str, rounds: u64, disk: u64) -> Made {
    let mut made = Made::new(name);
    for (tid, name, _, _) in THREADS {
        let name = Text::new(name);
        made.event(
            0,
            0,
            ThreadName {
                tid: Tid(tid),
                name,
            },
        );
    }
    for (id, (_, _, _, call)) in (0..).zip(THREADS) {
        let (id, name) = (Syscall(id), Text::new(call));
        made.event(0, 0, SyscallName { id, name });
    }
    for (lock, name) in (1..).zip(LOCKS) {
        let (lock, kind, name) = (Object(lock), LockKind::Mutex, Text::new(name));
        made.event(0, 0, LockName { lock, kind, name });
    }
    for (irq, name) in (5..).zip(LINES) {
        let (irq, name) = (Irq(irq), Text::new(name));
        made.event(0, 0, IrqName { irq, name });
    }
    for round in 0..rounds {
        let t = (round + 1) * 10 * MS;
        let at = |turn: u64| (turn % 3) as usize;
        let (tid, _, lock, _) = THREADS[at(round)];
        let (next, ..) = THREADS[at(round + 1)];
        let lock = LOCKS.iter().position(|name| *name == lock).unwrap();
        let (lock, kind) = (Object(lock as u64 + 1), LockKind::Mutex);
        // Different in each round, and the same in every trace.
        let some = (round * 37 % 101) * US;
        let id = Syscall(at(round) as u32);
        made.event(0, t, SyscallEnter { id, arg0: 0 });
        let owner_tid = Tid(next);
        let wait = LockWait {
            lock,
            owner_tid,
            kind,
        };
        made.event(0, t + 10 * US, wait);
        let contended = true;
        let acquired = LockAcquired {
            lock,
            kind,
            contended,
        };
        made.event(0, t + 20 * US + some, acquired);
        made.event(0, t + MS, LockReleased { lock, kind });
        made.event(0, t + MS + some, SyscallExit { id, ret: 0 });
        for (irq, more) in [(5, 0), (6, disk)] {
            let (irq, t) = (Irq(irq), t + u64::from(irq - 4) * MS);
            made.event(1, t, IrqEnter { irq });
            made.event(1, t + 20 * US + some + more * US, IrqExit { irq });
        }
        made.wake(0, t + 4 * MS, next, tid);
        let how = (tid, ThreadState::Blocked, SwitchReason::Waits);
        made.switch(0, t + 5 * MS, how, (next, 20));
    }
    made
}

/// A page, a folder with the traces that its commands name, and these.
struct Page {
    path: PathBuf,
    folder: PathBuf,
    _traces: Vec<Made>,
}

impl Page {
    fn new(name: &str, traces: Vec<(&str, Made)>) -> Page {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Relaxed);
        let own = format!("kymo-page-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(own);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let traces = traces.into_iter().map(|(name, mut made)| {
            let copied = folder.join(name);
            fs::create_dir(&copied).unwrap();
            for file in fs::read_dir(made.finish()).unwrap() {
                let file = file.unwrap();
                fs::copy(file.path(), copied.join(file.file_name())).unwrap();
            }
            made
        });
        let _traces = traces.collect();
        let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src");
        Page {
            path: book.join(name),
            folder,
            _traces,
        }
    }

    /// `kymo` as a line of the page runs it: `COLUMNS=80 kymo dump trace | head -5`.
    fn run(&self, line: &str) -> (Command, Option<usize>) {
        let (line, lines) = match line.split_once(" | head -") {
            Some((line, lines)) => (line, Some(lines.parse().unwrap())),
            None => (line, None),
        };
        let mut words = shlex::split(line).unwrap().into_iter();
        let mut command = Command::new(env!("CARGO_BIN_EXE_kymo"));
        command.current_dir(&self.folder).env_remove("COLUMNS");
        command.env_remove("NO_COLOR");
        for word in words.by_ref() {
            match word.split_once('=') {
                Some((name, value)) => command.env(name, value),
                None => {
                    assert_eq!(word, "kymo", "{line}");
                    break;
                }
            };
        }
        command.args(words);
        (command, lines)
    }

    /// What the line prints: both outputs, as in a terminal.
    fn printed(&self, line: &str) -> String {
        let (mut command, lines) = self.run(line);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        let lines = text.lines().take(lines.unwrap_or(usize::MAX));
        lines.map(|line| format!("{}\n", line.trim_end())).collect()
    }

    /// The page with the outputs behind its lines `$ kymo ...` replaced by what these print, and how
    /// many there are.
    fn written_anew(&self) -> (String, String, usize) {
        let text = fs::read_to_string(&self.path).unwrap();
        let (mut anew, mut count, mut is_output) = (String::new(), 0, false);
        let (mut is_console, mut in_block) = (false, false);
        for line in text.lines() {
            if let Some(language) = line.strip_prefix("```") {
                in_block = !in_block;
                is_console = in_block && language == "console";
                is_output = false;
            }
            let command = line.strip_prefix("$ ").filter(|_| is_console);
            if command.is_some() || !is_output {
                anew += line;
                anew += "\n";
            }
            if let Some(command) = command {
                anew += &self.printed(command);
                count += 1;
                is_output = true;
            }
        }
        (text, anew, count)
    }

    /// Compares the page with what its commands print.
    fn check(&self) -> usize {
        let (text, anew, count) = self.written_anew();
        if std::env::var_os("KYMO_BLESS").is_some() {
            fs::write(&self.path, &anew).unwrap();
        } else if let Some((line, (has, prints))) = (1..)
            .zip(text.lines().zip(anew.lines()))
            .find(|(_, (has, prints))| has != prints)
        {
            panic!(
                "{}, line {line}:\n{has}\nis now\n{prints}\nKYMO_BLESS=1 cargo test -p kymo-cli \
                 pages:: writes it",
                self.path.display()
            );
        } else {
            assert_eq!(text, anew, "{}", self.path.display());
        }
        count
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn terminals() -> Page {
    let traces = [
        ("trace", machine("page-trace", 30, 60)),
        ("before", machine("page-before", 120, 60)),
        ("after", machine("page-after", 120, 130)),
    ];
    Page::new("terminals.md", traces.into())
}

/// No line is wider than its command's `COLUMNS`, but for those of `dump`, which are an event each.
#[test]
fn what_the_page_of_widths_shows_is_what_is_printed() {
    let page = terminals();
    assert_eq!(page.check(), 11);
    for columns in [80, 100, 200] {
        for verb in ["report trace", "diff before after", "--help"] {
            let text = page.printed(&format!("COLUMNS={columns} kymo {verb}"));
            for line in text.lines() {
                let width = line.chars().count();
                assert!(width <= columns, "{verb} at {columns}: {line}");
            }
            assert!(text.lines().count() > 10, "{verb}\n{text}");
        }
    }
}

#[test]
fn what_the_page_of_waits_shows_is_what_is_printed() {
    let page = Page::new("why.md", vec![("trace", crate::why::held_up("page-why"))]);
    assert_eq!(page.check(), 2);
}

/// A terminal gets what a file gets with the same width, in colours.
#[cfg(target_os = "linux")]
#[test]
fn a_terminal_gets_the_same_text_in_colours() {
    let page = terminals();
    for columns in [80, 100, 200] {
        for verb in [
            "report trace",
            "diff before after",
            "dump --to 0.01 trace",
            "--help",
        ] {
            let shown = on_terminal(page.run(&format!("kymo {verb}")).0, columns);
            let plain = page.printed(&format!("COLUMNS={columns} kymo {verb}"));
            let lines = without_colours(&shown);
            let lines = lines.lines().map(|line| format!("{}\n", line.trim_end()));
            assert_eq!(lines.collect::<String>(), plain, "{verb} at {columns}");
            let is_coloured = shown.contains("\u{1b}[");
            assert_eq!(is_coloured, !verb.starts_with("dump"), "{verb}");
        }
    }
}

/// What a terminal with this many columns gets.
#[cfg(target_os = "linux")]
fn on_terminal(mut command: Command, columns: u16) -> String {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{Winsize, tcsetwinsize};
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let size = Winsize {
        ws_row: 50,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&terminal, size).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let mut options = fs::File::options();
    let line = options.read(true).write(true);
    let line = line.open(name.to_str().unwrap()).unwrap();
    command.env("TERM", "xterm").stdin(Stdio::null());
    let mut child = command.stdout(line).stderr(Stdio::null()).spawn().unwrap();
    // The command's end of the line is closed with the command, and with this.
    drop(command);
    let mut bytes = Vec::new();
    let mut terminal = fs::File::from(terminal);
    // At the end, the kernel reports an error instead of an end.
    let _ = terminal.read_to_end(&mut bytes);
    assert!(child.wait().unwrap().success());
    String::from_utf8(bytes).unwrap().replace("\r\n", "\n")
}

/// Without the sequences that select colours.
#[cfg(target_os = "linux")]
fn without_colours(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |plain, part| {
        let (_, rest) = part.split_once('m').unwrap_or(("", part));
        plain + rest
    })
}
