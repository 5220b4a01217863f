//! Commands whose output is passed on as it comes, and kept: the end of a run lists what failed
//! with its last lines, and what was not run.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How the line of a test or a step begins that was not run.
pub(crate) const NOT_RUN: &str = "NOT RUN: ";

/// How long output may still come after a command has ended. (A daemon that it has started keeps
/// its pipes open.)
const REST: Duration = Duration::from_secs(1);

/// What was not run since the list was taken last: the lines without [`NOT_RUN`].
static NOTED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Commands that take this long are followed by a line with their time.
const LONG: Duration = Duration::from_secs(1);

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) status: ExitStatus,
    /// The lines of both outputs, in the order in which they arrived.
    pub(crate) lines: Vec<String>,
}

/// Notes that a part of a step is not run, and prints it.
pub(crate) fn not_run(why: &str) {
    eprintln!("{NOT_RUN}{why}");
    note(&format!("{NOT_RUN}{why}"));
}

/// The parts that were not run since this was called last.
pub(crate) fn take_not_run() -> Vec<String> {
    NOTED.lock().map_or_else(
        |poisoned| std::mem::take(&mut *poisoned.into_inner()),
        |mut noted| std::mem::take(&mut *noted),
    )
}

fn note(line: &str) {
    if let (Some(why), Ok(mut noted)) = (line.strip_prefix(NOT_RUN), NOTED.lock()) {
        noted.push(why.to_owned());
    }
}

/// Runs a command to its end. Its outputs go where this program's go.
pub(crate) fn watch(command: &mut Command) -> io::Result<Watched> {
    if io::IsTerminal::is_terminal(&io::stderr()) {
        command.env("CARGO_TERM_COLOR", "always");
    }
    let begin = Instant::now();
    let watched = run(command, io::stdout(), io::stderr());
    print_time(begin);
    watched
}

/// Runs a command to its end, and shows nothing of its outputs.
pub(crate) fn keep(command: &mut Command) -> io::Result<Watched> {
    run(command.stdin(Stdio::null()), io::sink(), io::sink())
}

fn run(
    command: &mut Command,
    stdout: impl Write + Send + 'static,
    stderr: impl Write + Send + 'static,
) -> io::Result<Watched> {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (sender, lines) = channel();
    if let Some(output) = child.stdout.take() {
        pass_on(output, stdout, sender.clone());
    }
    if let Some(output) = child.stderr.take() {
        pass_on(output, stderr, sender.clone());
    }
    drop(sender);
    let mut all = Vec::new();
    let status = loop {
        match lines.recv_timeout(REST) {
            Ok(line) => all.push(line),
            Err(RecvTimeoutError::Disconnected) => break child.wait()?,
            Err(RecvTimeoutError::Timeout) => {
                if let Some(status) = child.try_wait()? {
                    break status;
                }
            }
        }
    };
    all.iter().for_each(|line| note(line));
    Ok(Watched { status, lines: all })
}

/// Prints how long it took, if it was long.
pub(crate) fn print_time(begin: Instant) {
    let time = begin.elapsed();
    if time >= LONG {
        eprintln!("  ({:.1} s)", time.as_secs_f64());
    }
}

/// Copies an output, and sends each line of it. Ends with the output, in a thread of its own.
fn pass_on(
    from: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
    sender: Sender<String>,
) {
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while let Ok(1..) = from.read_until(b'\n', &mut line) {
            // A reader that has gone does not end the command.
            let _ = to.write_all(&line).and_then(|()| to.flush());
            let text = String::from_utf8_lossy(&line);
            let _ = sender.send(text.trim_end_matches(['\r', '\n']).to_owned());
            line.clear();
        }
    });
}
