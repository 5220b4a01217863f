//! Recording a machine that is started for it.

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

/// An interrupt this long after the first is a second one: some programs send the same one twice.
const AGAIN: Duration = Duration::from_millis(300);

/// Why nothing was recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The machine cannot be run.
    #[error(transparent)]
    Qemu(#[from] qemu::Error),
    /// Its memory or its port gave no trace.
    #[error(transparent)]
    Source(#[from] source::Error),
    /// The machine ended, or its time was over, and its kernel had not started a trace.
    #[error("the machine {ending} before its kernel had {}: {}", if *.sending { "sent anything over its port" } else { "started a trace" }, first_step(.ending, *.sending))]
    NotStarted {
        /// How it ended.
        ending: Ending,
        /// It was to send its trace.
        sending: bool,
    },
    /// This system has no sockets that a machine's port could be connected to.
    #[error("a machine's port can be listened to on Unix systems only: record `--via memory`")]
    NoPorts,
}

impl Error {
    /// What is to blame: [`InvalidInput`](io::ErrorKind::InvalidInput), what was asked for;
    /// [`InvalidData`](io::ErrorKind::InvalidData), what was read; anything else, the system.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Error::Qemu(error) => error.kind(),
            Error::Source(error) => error.kind(),
            Error::NotStarted { .. } => io::ErrorKind::InvalidData,
            Error::NoPorts => io::ErrorKind::Unsupported,
        }
    }

    /// What can be done about it, as the rest of a sentence that begins with a verb; `None` where
    /// the message says it.
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

fn first_step(ending: &Ending, sending: bool) -> &'static str {
    match (ending, sending) {
        (Ending::Status(_), _) => "see what it printed",
        (_, false) => "see that it calls Kymo's `start`",
        (_, true) => {
            "see that it knows the word kymo=send and has a driver for virtio serial ports"
        }
    }
}

/// Why a recording ended. In each case the trace is complete as far as it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The machine powered itself off.
    PoweredOff,
    /// QEMU ended with another status than 0, or was killed.
    Status(ExitStatus),
    /// The time limit was reached; the machine was ended.
    TimeLimit,
    /// The recording was as long as it should be; the machine was ended.
    Duration,
    /// The user interrupted; the machine was ended.
    Interrupted,
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ending::PoweredOff => f.write_str("powered off"),
            Ending::Status(status) => match status.code() {
                Some(code) => write!(f, "ended with status {code}"),
                None => write!(f, "was ended by a {status}"),
            },
            Ending::TimeLimit => f.write_str("was ended at the time limit"),
            Ending::Duration => f.write_str("was ended after the duration that was asked for"),
            Ending::Interrupted => f.write_str("was ended by an interrupt"),
        }
    }
}

/// The way that a trace takes out of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Via {
    /// Kymo reads it in the machine's memory; the guest does nothing for it.
    #[default]
    Memory,
    /// A program in the guest reads it by system calls and sends it over a port.
    Syscall,
    /// Each of them, to directories of their own: `memory` and `syscall`.
    Both,
}

impl Via {
    /// Where the trace out of the memory goes, if there is one.
    pub fn memory(self, out: &Path) -> Option<PathBuf> {
        match self {
            Via::Memory => Some(out.to_owned()),
            Via::Syscall => None,
            Via::Both => Some(out.join("memory")),
        }
    }

    /// Where the trace goes that the guest sends, if there is one.
    pub fn syscall(self, out: &Path) -> Option<PathBuf> {
        match self {
            Via::Memory => None,
            Via::Syscall => Some(out.to_owned()),
            Via::Both => Some(out.join("syscall")),
        }
    }
}

/// What to do.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The machine.
    pub launch: &'a Launch,
    /// The trace directory.
    pub out: &'a Path,
    /// The way out of the machine.
    pub via: Via,
    /// Ends the recording, and the machine, this long after the kernel has begun it.
    pub duration: Option<Duration>,
    /// Ends the machine after this time.
    pub timeout: Option<Duration>,
    /// How long a guest that sends has to send the rest, once it was asked to.
    pub grace: Duration,
    /// Leaves the RAM file where it is.
    pub keep_ram: bool,
    /// Becomes true when the user interrupts. Taken back when it was seen, so that a second
    /// interrupt is seen too.
    pub interrupted: &'a AtomicBool,
    /// Gets what the machine writes to its serial port, whole lines where they come in one piece;
    /// on a thread of its own. `None`: it goes to this program's standard output.
    pub console: Option<fn(&[u8])>,
}

impl<'a> Options<'a> {
    /// Out of the memory, to the machine's own end or an interrupt.
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

/// What was recorded.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// What was read in the memory, where that was asked for and the kernel had started.
    pub memory: Option<MemoryOutcome>,
    /// What the guest sent, where it was to.
    pub received: Option<Received>,
    /// The guest was asked to send the rest, and has not said that it had.
    pub unanswered: Option<Unanswered>,
    /// Why it ended.
    pub ending: Ending,
}

/// Why a guest that was asked to send the rest was not waited for any longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// Its time was over, or the machine ended.
    InTime,
    /// The user interrupted again.
    Interrupted,
}

/// The default place of the RAM file: hidden in the trace directory, where readers pass it over.
pub fn ram_file(out: &Path) -> PathBuf {
    out.join(".ram")
}

/// Runs the machine to its end and writes what it records to the directory `out`, which exists and
/// is empty. `progress` is called about every two milliseconds.
///
/// # Errors
/// See [`Error`]. The machine is ended in every case.
pub fn record(
    options: &Options<'_>,
    mut progress: impl FnMut(Progress),
) -> Result<Recorded, Error> {
    let ram = options.launch.ram().clone();
    let result = run(options, &ram, &mut progress);
    if !options.keep_ram && ram.file == ram_file(options.out) {
        // It may never have been made.
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
    // The pipe ends with the machine.
    drop(machine);
    if let Some(console) = console {
        // A panic in there was reported by the thread itself.
        let _ = console.join();
    }
    result
}

/// Hands over what comes, cut at line ends.
fn copy(serial: impl io::Read, console: fn(&[u8])) {
    let mut serial = io::BufReader::new(serial);
    let mut line = Vec::new();
    // Ends with the pipe, or with an error on it.
    while serial
        .read_until(b'\n', &mut line)
        .is_ok_and(|read| read > 0)
    {
        console(&line);
        line.clear();
    }
}

/// What a machine's port is connected to.
#[cfg(unix)]
type Line = std::os::unix::net::UnixStream;
#[cfg(not(unix))]
type Line = fs::File;

/// The ways out of the machine that are taken.
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

/// A recording on the run.
struct Recording<'a> {
    options: &'a Options<'a>,
    started: Instant,
    /// When the kernel had begun a session, for all that can be seen here.
    begun: Option<Instant>,
    /// Why and when the guest was asked to send the rest.
    asked: Option<(Ending, Instant)>,
    /// The user has interrupted again while the guest sent the rest.
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

    /// Whether the machine has ended; ends it where the user or a clock says so and the guest has
    /// had time to send the rest.
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
            // A guest that was asked to stop may well power off then.
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
                None | Some(locate::Error::None { .. }) => Error::NotStarted { ending, sending },
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
