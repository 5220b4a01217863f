//! Recording a machine while it runs.

use std::fs;
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use kymo::ctf::directory::{Summary, TraceWriter};
use kymo::ring::reader::View;

use crate::image::{self, Segment};
use crate::mapping::Mapping;
use crate::qemu::{self, Launch, Qemu, Ram};

/// How often the rings are read, and how often half-filled pages go to the files.
const POLL: Duration = Duration::from_millis(2);
const FLUSH: Duration = Duration::from_millis(250);
/// How often the region is looked for before it is there.
const LOOK: Duration = Duration::from_millis(20);

/// Why nothing was recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The machine cannot be run.
    #[error(transparent)]
    Qemu(#[from] qemu::Error),
    /// Its memory holds no region that can be read.
    #[error(transparent)]
    Image(#[from] image::Error),
    /// The machine ended, or its time was over, and its kernel had not started a trace.
    #[error("the machine {ending} before its kernel had started a trace: {}", advice(.ending))]
    NotStarted {
        /// How it ended.
        ending: Ending,
    },
    /// Something cannot be written, or the region turned out to be damaged.
    #[error("cannot write the trace to {out}: {source}")]
    Write {
        /// The trace directory.
        out: String,
        /// What the system says.
        source: io::Error,
    },
    /// The memory cannot be mapped.
    #[error("cannot map the machine's memory {path}: {source}")]
    Map {
        /// The RAM file.
        path: String,
        /// What the system says.
        source: io::Error,
    },
}

fn advice(ending: &Ending) -> &'static str {
    match ending {
        Ending::Status(_) => "what it printed may say why",
        _ => "does it call Kymo's `start`?",
    }
}

/// Why a recording ended. In each case the trace is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The machine powered itself off.
    PoweredOff,
    /// QEMU ended with another status than 0, or was killed.
    Status(ExitStatus),
    /// The time limit was reached; the machine was ended.
    TimeLimit,
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
            Ending::Interrupted => f.write_str("was ended by an interrupt"),
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
    /// Ends the machine after this time.
    pub timeout: Option<Duration>,
    /// Leaves the RAM file where it is.
    pub keep_ram: bool,
    /// Becomes true when the user interrupts.
    pub interrupted: &'a AtomicBool,
    /// Gets what the machine writes to its serial port, whole lines where they come in one piece; on a thread of its own. `None`: it goes to
    /// this program's standard output.
    pub console: Option<fn(&[u8])>,
}

/// Where a recording stands.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Since the machine was started.
    pub elapsed: Duration,
    /// Events in the trace and events lost; `None` before the kernel has started to trace.
    pub events: Option<(u64, u64)>,
}

/// What was recorded.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Events and losses by channel.
    pub summary: Summary,
    /// Why it ended.
    pub ending: Ending,
    /// The kernel began another session after this one, which is not in the trace.
    pub another_session: bool,
}

/// The default place of the RAM file: hidden in the trace directory, where readers pass it over.
pub fn ram_file(out: &Path) -> PathBuf {
    out.join(".ram")
}

/// Runs the machine to its end and writes what it records to the directory `out`, which exists and is empty. `progress` is called about every two milliseconds.
///
/// # Errors
/// See [`Error`]. The machine is ended in every case.
pub fn record(options: &Options<'_>, mut progress: impl FnMut(Progress)) -> Result<Recorded, Error> {
    let ram = options.launch.ram().clone();
    let result = run(options, &ram, &mut progress);
    if !options.keep_ram && ram.file == ram_file(options.out) {
        // It may never have been made.
        let _ = fs::remove_file(&ram.file);
    }
    result
}

fn run(options: &Options<'_>, ram: &Ram, progress: &mut impl FnMut(Progress)) -> Result<Recorded, Error> {
    let started = Instant::now();
    let mut machine = Qemu::spawn(options.launch, if options.console.is_some() { Stdio::piped() } else { Stdio::inherit() })?;
    let console =
        options.console.zip(machine.take_stdout()).map(|(console, serial)| std::thread::spawn(move || copy(serial, console)));
    let result = drain(options, ram, &mut machine, started, progress);
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
    while serial.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        console(&line);
        line.clear();
    }
}

fn drain(
    options: &Options<'_>,
    ram: &Ram,
    machine: &mut Qemu,
    started: Instant,
    progress: &mut impl FnMut(Progress),
) -> Result<Recorded, Error> {
    let segment = Segment { offset: 0, len: ram.size, phys: Some(ram.base) };

    // Until the kernel has started its trace.
    let found = loop {
        let ending = ending(options, machine, started)?;
        match image::find(&ram.file, &[segment]) {
            Ok(found) => break found,
            Err(error) if error.is_final() => return Err(error.into()),
            Err(error) => match (ending, error) {
                (None, _) => {}
                (Some(ending), image::Error::None { .. }) => return Err(Error::NotStarted { ending }),
                (Some(_), error) => return Err(error.into()),
            },
        }
        progress(Progress { elapsed: started.elapsed(), events: None });
        std::thread::sleep(LOOK);
    };

    let map = |source| Error::Map { path: ram.file.display().to_string(), source };
    let write = |source| Error::Write { out: options.out.display().to_string(), source };
    let mapping = Mapping::open(&ram.file).map_err(map)?;
    let (live, _kept) = mapping.live(found.offset).ok_or_else(|| map(io::Error::from(io::ErrorKind::InvalidData)))?;
    let mut writer = TraceWriter::create(options.out, &live).map_err(|error| write(error.into()))?;
    let consumer = writer.is_host_consumer();
    let mut flushed = Instant::now();
    loop {
        // Whether it has ended is asked before reading: what it wrote before its end is read then.
        let ending = ending(options, machine, started)?;
        let view = if ending.is_some() { View::PostMortem } else { View::Live };
        let events = if consumer { writer.consume(&live, view) } else { writer.poll(&live, view) }.map_err(write)?;
        if let Some(ending) = ending {
            let another_session = writer.is_over(&live);
            let summary = writer.finish(&live).map_err(write)?;
            return Ok(Recorded { summary, ending, another_session });
        }
        if flushed.elapsed() >= FLUSH {
            writer.flush().map_err(write)?;
            flushed = Instant::now();
        }
        progress(Progress { elapsed: started.elapsed(), events: Some(writer.progress()) });
        if events == 0 {
            std::thread::sleep(POLL);
        }
    }
}

/// Whether the machine has ended; ends it where the user or the clock says so.
fn ending(options: &Options<'_>, machine: &mut Qemu, started: Instant) -> Result<Option<Ending>, Error> {
    if let Some(status) = machine.try_wait()? {
        return Ok(Some(if status.success() { Ending::PoweredOff } else { Ending::Status(status) }));
    }
    let late = options.timeout.is_some_and(|timeout| started.elapsed() >= timeout);
    let interrupted = options.interrupted.load(Relaxed);
    if !late && !interrupted {
        return Ok(None);
    }
    machine.end()?;
    Ok(Some(if interrupted { Ending::Interrupted } else { Ending::TimeLimit }))
}
