//! Starts a machine and records it.

use std::fs;
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use kymo::ring::reader::View;

use crate::framed::Received;
use crate::locate::{self, Segment};
use crate::qemu::{self, Launch, Qemu, Ram};
use crate::source::{self, MemoryOutcome, MemorySource, PortSource, Source};

pub use crate::source::Progress;

/// Minimum time between two interrupts of the user: some programs send the same interrupt twice.
const AGAIN: Duration = Duration::from_millis(300);

/// Why nothing was recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The machine cannot be run.
    #[error(transparent)]
    Qemu(#[from] qemu::Error),
    /// No trace could be read from its memory or port.
    #[error(transparent)]
    Source(#[from] source::Error),
    /// The machine ended, or hit its time limit, before its kernel started a trace.
    #[error(
        "the machine {ending} before its kernel had {}: {}",
        if *.sending { "sent anything over its port" } else { "started a trace" },
        first_step(.ending, *.sending, *.own_firmware)
    )]
    NotStarted {
        /// How it ended.
        ending: Ending,
        /// Whether the machine was to send its trace.
        sending: bool,
        /// Whether it is a RISC-V machine without firmware: who lets its kernel read the time?
        own_firmware: bool,
    },
    /// This system has no sockets for a machine's port.
    #[error("recording over a port works only on Unix systems; use `--via memory`")]
    NoPorts,
}

impl Error {
    /// The cause: [`InvalidInput`](io::ErrorKind::InvalidInput) for the request,
    /// [`InvalidData`](io::ErrorKind::InvalidData) for the input, anything else for the system.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Error::Qemu(error) => error.kind(),
            Error::Source(error) => error.kind(),
            Error::NotStarted { .. } => io::ErrorKind::InvalidData,
            Error::NoPorts => io::ErrorKind::Unsupported,
        }
    }

    /// Advice for the user, as a clause that begins with a verb; `None` if the message includes it.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Error::Qemu(error) => error.advice(),
            Error::Source(source::Error::Damaged { .. }) => {
                Some("keep the memory with --keep-ram, and try kymo recover on it")
            }
            Error::Source(error) => error.advice(),
            Error::NotStarted { .. } | Error::NoPorts => None,
        }
    }
}

fn first_step(ending: &Ending, sending: bool, own_firmware: bool) -> &'static str {
    match (ending, sending) {
        (Ending::Status(_), _) => "see its output",
        (_, false) if own_firmware => {
            "check that it calls Kymo's `start`, that this gives no error, and, if it runs in \
             S-mode, that it has set the bit of `time` in `mcounteren`, without which its first \
             event faults"
        }
        (_, false) => "check that it calls Kymo's `start`, and that this gives no error",
        (_, true) => {
            "check that it supports the word kymo=send and has a driver for virtio serial ports"
        }
    }
}

/// How the recorded machine ended, and with it the recording: continues `the machine`. In each case
/// the trace is complete up to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// QEMU ended with status 0: the machine powered itself off, or somebody ended QEMU.
    PoweredOff,
    /// QEMU ended with a nonzero status, or was killed.
    Status(ExitStatus),
    /// The time limit was reached, which ended the machine.
    TimeLimit,
    /// The requested duration elapsed, which ended the machine.
    Duration,
    /// The user interrupted the recording, which ended the machine.
    Interrupted,
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ending::PoweredOff => f.write_str("ended"),
            Ending::Status(status) => match status.code() {
                Some(code) => write!(f, "ended with status {code}"),
                None => write!(f, "was ended by a {status}"),
            },
            Ending::TimeLimit => f.write_str("was ended at the time limit"),
            Ending::Duration => f.write_str("was ended after the requested duration"),
            Ending::Interrupted => f.write_str("was ended by an interrupt"),
        }
    }
}

/// How a trace leaves the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Via {
    /// Kymo reads it in the machine's memory, without help from the guest.
    #[default]
    Memory,
    /// A program in the guest reads it by system calls and sends it over a port.
    Syscall,
    /// Both ways, to the directories `memory` and `syscall`.
    Both,
}

impl Via {
    /// Directory of the trace that is read from memory, if there is one.
    pub fn memory(self, out: &Path) -> Option<PathBuf> {
        match self {
            Via::Memory => Some(out.to_owned()),
            Via::Syscall => None,
            Via::Both => Some(out.join("memory")),
        }
    }

    /// Directory of the trace that the guest sends, if there is one.
    pub fn syscall(self, out: &Path) -> Option<PathBuf> {
        match self {
            Via::Memory => None,
            Via::Syscall => Some(out.to_owned()),
            Via::Both => Some(out.join("syscall")),
        }
    }
}

/// Options of a recording.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The machine.
    pub launch: &'a Launch,
    /// The trace directory.
    pub out: &'a Path,
    /// How the trace leaves the machine.
    pub via: Via,
    /// Ends the recording, and the machine, this long after the kernel started its trace.
    pub duration: Option<Duration>,
    /// Ends the machine after this time.
    pub timeout: Option<Duration>,
    /// How long to wait for the rest of the trace after asking the guest to stop.
    pub grace: Duration,
    /// Keeps the RAM file.
    pub keep_ram: bool,
    /// Set when the user interrupts. Reset when it has been handled, so that a second interrupt is
    /// noticed.
    pub interrupted: &'a AtomicBool,
    /// Receives the machine's serial output, split at line ends if possible, on a separate thread.
    /// `None` sends it to this program's standard output.
    pub console: Option<fn(&[u8])>,
}

impl<'a> Options<'a> {
    /// Options to record from memory until the machine ends or the user interrupts.
    pub fn new(launch: &'a Launch, out: &'a Path, interrupted: &'a AtomicBool) -> Options<'a> {
        let grace = Duration::from_secs(10);
        let via = Via::Memory;
        Options {
            launch,
            out,
            via,
            duration: None,
            timeout: None,
            grace,
            keep_ram: false,
            interrupted,
            console: None,
        }
    }
}

/// Result of a recording.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The trace from memory, if it was asked for and the kernel had started one.
    pub memory: Option<MemoryOutcome>,
    /// The trace that the guest sent, if it was asked for.
    pub received: Option<Received>,
    /// Why there is no confirmation that the guest sent the rest, if it was asked to.
    pub unanswered: Option<Unanswered>,
    /// Why it ended.
    pub ending: Ending,
}

/// Why the wait for the rest of a guest's trace ended without its confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// The grace time elapsed, or the machine ended.
    InTime,
    /// The user interrupted again.
    Interrupted,
}

/// The default RAM file: hidden in the trace directory, so that readers ignore it.
pub fn ram_file(out: &Path) -> PathBuf {
    out.join(".ram")
}

/// Runs the machine and writes its trace to the directory `out`, which must exist and be empty.
/// `progress` is called about every two milliseconds.
///
/// # Errors
/// See [`Error`]. The machine is ended in any case.
pub fn record(
    options: &Options<'_>,
    mut progress: impl FnMut(Progress),
) -> Result<Recorded, Error> {
    let ram = options.launch.ram().clone();
    let result = run(options, &ram, &mut progress);
    if !options.keep_ram && ram.file == ram_file(options.out) {
        // The file may never have been created.
        let _ = fs::remove_file(&ram.file);
    }
    result
}

fn run(
    options: &Options<'_>,
    ram: &Ram,
    progress: &mut impl FnMut(Progress),
) -> Result<Recorded, Error> {
    let stdout = if options.console.is_some() {
        Stdio::piped()
    } else {
        Stdio::inherit()
    };
    let (mut machine, port) = match options.via.syscall(options.out) {
        None => (Qemu::spawn(options.launch, stdout)?, None),
        Some(out) => spawn_with_port(options.launch, stdout, &out)?,
    };
    let memory = options.via.memory(options.out).map(|out| {
        let segment = Segment {
            offset: 0,
            len: ram.size,
            phys: Some(ram.base),
        };
        MemorySource::new(&ram.file, vec![segment], &out)
    });
    let console = options
        .console
        .zip(machine.take_stdout())
        .map(|(console, serial)| std::thread::spawn(move || copy(serial, console)));
    let recording = Recording {
        options,
        started: Instant::now(),
        begun: None,
        asked: None,
        cut_short: false,
    };
    let result = recording.run(&mut machine, (memory, port), progress);
    // Ending the machine closes the pipe.
    drop(machine);
    if let Some(console) = console {
        // A panic was already reported by the thread itself.
        let _ = console.join();
    }
    result
}

/// Passes the serial output on, split at line ends.
fn copy(serial: impl io::Read, console: fn(&[u8])) {
    let mut serial = io::BufReader::new(serial);
    let mut line = Vec::new();
    // Runs until the pipe is closed or fails.
    while serial
        .read_until(b'\n', &mut line)
        .is_ok_and(|read| read > 0)
    {
        console(&line);
        line.clear();
    }
}

/// The host's end of a machine's port.
#[cfg(unix)]
type Line = std::os::unix::net::UnixStream;
#[cfg(not(unix))]
type Line = fs::File;

/// The sources that are read.
type Sources = (Option<MemorySource>, Option<PortSource<Line>>);

/// Starts the machine with a port, whose trace goes to `out`.
#[cfg(unix)]
fn spawn_with_port(
    launch: &Launch,
    stdout: Stdio,
    out: &Path,
) -> Result<(Qemu, Option<PortSource<Line>>), Error> {
    let (machine, socket) = Qemu::spawn_with_port(launch, stdout)?;
    socket
        .set_nonblocking(true)
        .map_err(|source| qemu::Error::Process {
            program: "The machine's port".to_owned(),
            action: "listened to",
            source,
        })?;
    Ok((machine, Some(PortSource::new(socket, out))))
}

#[cfg(not(unix))]
fn spawn_with_port(
    _: &Launch,
    _: Stdio,
    _: &Path,
) -> Result<(Qemu, Option<PortSource<Line>>), Error> {
    Err(Error::NoPorts)
}

/// A running recording.
struct Recording<'a> {
    options: &'a Options<'a>,
    started: Instant,
    /// When the kernel's session was first noticed.
    begun: Option<Instant>,
    /// Why and when the guest was asked to stop.
    asked: Option<(Ending, Instant)>,
    /// Whether the user interrupted again while the guest was sending the rest.
    cut_short: bool,
}

impl Recording<'_> {
    fn run(
        mut self,
        machine: &mut Qemu,
        mut sources: Sources,
        progress: &mut impl FnMut(Progress),
    ) -> Result<Recorded, Error> {
        let ending = |sources: &mut Sources| {
            let ending = self.ending(machine, sources)?;
            Ok::<_, Error>(ending.map(|ending| (ending, View::PostMortem)))
        };
        let ending = source::drain(&mut sources, ending, progress)?;
        self.finish(ending, sources)
    }

    /// Whether the machine has ended. Ends it if the user or a time limit requires it and the guest
    /// has had time to send the rest.
    fn ending(
        &mut self,
        machine: &mut Qemu,
        sources: &mut Sources,
    ) -> Result<Option<Ending>, Error> {
        if sources.has_begun() {
            self.begun.get_or_insert_with(Instant::now);
        }
        if let Some(status) = machine.try_wait()? {
            let by_itself = if status.success() {
                Ending::PoweredOff
            } else {
                Ending::Status(status)
            };
            // A guest may power off when it is asked to stop.
            let asked = self
                .asked
                .filter(|_| status.success())
                .map(|(ending, _)| ending);
            return Ok(Some(asked.unwrap_or(by_itself)));
        }
        let late = |limit: Option<Duration>, since: Instant| {
            limit.is_some_and(|limit| since.elapsed() >= limit)
        };
        let interrupted = self.options.interrupted.swap(false, Relaxed);
        let ending = match self.asked {
            _ if late(self.options.timeout, self.started) => Ending::TimeLimit,
            Some((ending, since)) => {
                let complete = sources.is_complete();
                let impatient = interrupted && since.elapsed() >= AGAIN;
                if !complete && !impatient && since.elapsed() < self.options.grace {
                    return Ok(None);
                }
                self.cut_short = !complete && impatient;
                ending
            }
            None if interrupted => Ending::Interrupted,
            None if self
                .begun
                .is_some_and(|begun| late(self.options.duration, begun)) =>
            {
                Ending::Duration
            }
            None => return Ok(None),
        };
        let waits = self.asked.is_none() && ending != Ending::TimeLimit;
        if waits && sources.ask_to_stop() {
            self.asked = Some((ending, Instant::now()));
            return Ok(None);
        }
        machine.end()?;
        Ok(Some(ending))
    }

    fn finish(self, ending: Ending, mut sources: Sources) -> Result<Recorded, Error> {
        let not_found = sources.0.as_mut().and_then(MemorySource::not_found);
        let (memory, received) = sources.finish()?;
        let memory = memory.flatten();
        let nothing = |received: &Received| received.flags.is_none() && received.bytes == 0;
        if memory.is_none() && received.as_ref().is_none_or(nothing) {
            let sending = received.is_some();
            return Err(match not_found {
                None | Some(locate::Error::None { .. } | locate::Error::Packed { .. }) => {
                    let own_firmware = self.options.launch.is_own_firmware();
                    Error::NotStarted {
                        ending,
                        sending,
                        own_firmware,
                    }
                }
                Some(error) => source::Error::from(error).into(),
            });
        }
        let unanswered = match self.asked {
            Some(_)
                if received
                    .as_ref()
                    .is_some_and(|received| received.closed.is_none()) =>
            {
                Some(if self.cut_short {
                    Unanswered::Interrupted
                } else {
                    Unanswered::InTime
                })
            }
            _ => None,
        };
        Ok(Recorded {
            memory,
            received,
            unanswered,
            ending,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Ending, Error};

    /// A kernel that is its own firmware often faults at its first event.
    #[test]
    fn a_machine_that_has_not_started_a_trace_is_told_what_to_look_at() {
        let not_started = |ending, own_firmware| {
            let sending = false;
            let error = Error::NotStarted {
                ending,
                sending,
                own_firmware,
            };
            error.to_string()
        };
        assert!(not_started(Ending::TimeLimit, true).contains("mcounteren"));
        assert!(!not_started(Ending::TimeLimit, false).contains("mcounteren"));
    }

    /// QEMU's status does not tell a machine that powered off from one whose QEMU was ended.
    #[test]
    fn an_end_without_a_cause_names_none() {
        assert_eq!(Ending::PoweredOff.to_string(), "ended");
        let interrupted = Ending::Interrupted.to_string();
        assert_eq!(interrupted, "was ended by an interrupt");
    }
}
