//! Records a machine that is already running, without disturbing it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use kymo::ring::reader::View;

use crate::locate;
use crate::processes::{FileId, MappedBy};
use crate::region::Summary;
use crate::source::{self, MemorySource, Progress, Source};

/// Interval between checks that the machine's process exists.
const CHECK: Duration = Duration::from_millis(100);

/// Why nothing was recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No trace could be read from the memory or its copy.
    #[error(transparent)]
    Source(#[from] source::Error),
    /// QEMU could not be asked for the machine's memory.
    #[cfg(unix)]
    #[error(transparent)]
    Qmp(#[from] crate::qmp::Error),
    /// The recording ended before the kernel started a trace.
    #[error(
        "{ending}, and its kernel had not started a trace; check that it calls Kymo's `start`, and \
         that this gives no error"
    )]
    NotStarted {
        /// Why it ended.
        ending: Ending,
    },
    /// No process has the file mapped.
    #[error(
        "no process on this host has {path} mapped, so no machine is running in it; use `kymo \
         recover` to read what one has left there; one in a container may be found by --qmp"
    )]
    NotRunning {
        /// The file.
        path: String,
    },
}

impl Error {
    /// The cause: [`InvalidInput`](std::io::ErrorKind::InvalidInput) for the request,
    /// [`InvalidData`](std::io::ErrorKind::InvalidData) for the input, anything else for the
    /// system.
    pub fn kind(&self) -> std::io::ErrorKind {
        match self {
            Error::Source(error) => error.kind(),
            #[cfg(unix)]
            Error::Qmp(error) => error.kind(),
            Error::NotStarted { .. } | Error::NotRunning { .. } => std::io::ErrorKind::InvalidData,
        }
    }

    /// Advice for the user, as a clause that begins with a verb; `None` if the message includes it.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Error::Source(source::Error::Region(locate::Error::Read { source, .. })) => Some(
                locate::to_read(source, "give the file that holds the machine's memory"),
            ),
            Error::Source(source::Error::Damaged { .. }) => {
                Some("try kymo recover on the machine's memory")
            }
            Error::Source(error) => error.advice(),
            #[cfg(unix)]
            Error::Qmp(error) => error.advice(),
            Error::NotStarted { .. } | Error::NotRunning { .. } => None,
        }
    }
}

/// Why an attached recording ended, as a sentence. The machine mostly goes on, unlike after a
/// [`record::Ending`](crate::record::Ending). In each case the trace is complete up to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The user interrupted the recording; the machine keeps running.
    Interrupted,
    /// The requested duration elapsed; the machine keeps running.
    Duration,
    /// The kernel stopped its session; the machine keeps running.
    Stopped,
    /// The kernel began another session; the machine keeps running.
    AnotherSession,
    /// The guest powered its machine off.
    PoweredOff,
    /// The machine's process ended.
    Gone,
    /// The machine was stopped while its memory was copied, and then resumed.
    Copied,
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Ending::Interrupted => "the recording was interrupted and the machine was left running",
            Ending::Duration => "the requested duration elapsed and the machine was left running",
            Ending::Stopped => "the kernel has stopped its session",
            Ending::AnotherSession => "the kernel has begun another session",
            Ending::PoweredOff => "the machine powered off",
            Ending::Gone => "the machine has ended",
            Ending::Copied => "the machine was stopped while its memory was copied, and resumed",
        })
    }
}

/// The machine to record.
#[derive(Clone, Copy, Debug)]
pub enum Machine<'a> {
    /// The machine that runs in this RAM file.
    Ram {
        /// The file.
        file: &'a Path,
        /// Physical address of its first byte, if it is not one of the usual ones.
        base: Option<u64>,
    },
    /// The machine whose QEMU listens at this socket.
    #[cfg(unix)]
    Qmp {
        /// The socket.
        socket: &'a Path,
        /// Stops the machine while its memory is copied, instead of following it.
        snapshot: bool,
    },
}

/// Options of an attached recording.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The machine.
    pub machine: Machine<'a>,
    /// The trace directory.
    pub out: &'a Path,
    /// Ends the recording this long after it began.
    pub duration: Option<Duration>,
    /// Set when the user interrupts.
    pub interrupted: &'a AtomicBool,
}

/// Result of an attached recording.
#[derive(Clone, Debug)]
pub struct Attached {
    /// Events and losses by channel.
    pub summary: Summary,
    /// The session waits for a host to free its packets, but another program does that, or the
    /// memory is read-only.
    pub only_looked: bool,
    /// Why it ended.
    pub ending: Ending,
}

/// How to detect the machine's end.
enum Watch {
    #[cfg(unix)]
    Qmp(crate::qmp::Qmp),
    Processes(FileId, Vec<u32>, Instant),
    /// Its end cannot be detected.
    Nothing,
}

impl Watch {
    /// Why the machine ended; `None` while it runs.
    fn end(&mut self) -> Option<Ending> {
        match self {
            #[cfg(unix)]
            Watch::Qmp(qmp) => match qmp.fate() {
                crate::qmp::Fate::Runs => None,
                crate::qmp::Fate::PoweredOff => Some(Ending::PoweredOff),
                crate::qmp::Fate::Gone => Some(Ending::Gone),
            },
            Watch::Processes(file, processes, checked) => {
                if checked.elapsed() < CHECK {
                    return None;
                }
                *checked = Instant::now();
                (!file.is_mapped_by(processes)).then_some(Ending::Gone)
            }
            Watch::Nothing => None,
        }
    }
}

/// Records the machine's session, from the events that it still retains until the session or the
/// machine ends or the user stops it, to the directory `out`, which must exist and be empty.
/// `progress` is called about every two milliseconds.
///
/// # Errors
/// See [`Error`].
pub fn attach(
    options: &Options<'_>,
    mut progress: impl FnMut(Progress),
) -> Result<Attached, Error> {
    let segments = |file: &Path, base| locate::segments(file, base).map_err(source::Error::from);
    let (file, segments, watch) = match options.machine {
        // Report an unreadable file before checking that a machine runs in it.
        Machine::Ram { file, base } => (file.to_owned(), segments(file, base)?, watch(file)?),
        #[cfg(unix)]
        Machine::Qmp { socket, snapshot } => {
            let mut qmp = crate::qmp::Qmp::connect(socket)?;
            if snapshot {
                return copy(&mut qmp, options.out);
            }
            let memory = qmp.memory()?;
            let segments = segments(&memory.file, memory.base)?;
            (memory.file, segments, Watch::Qmp(qmp))
        }
    };
    let memory = MemorySource::new(&file, segments, options.out);
    follow(options, memory, watch, &mut progress)
}

fn watch(file: &Path) -> Result<Watch, Error> {
    let Some(id) = FileId::of(file) else {
        return Ok(Watch::Nothing);
    };
    match id.mapped_by() {
        MappedBy::These(processes) => Ok(Watch::Processes(id, processes, Instant::now())),
        MappedBy::Nobody => Err(Error::NotRunning {
            path: file.display().to_string(),
        }),
        MappedBy::Unknown => Ok(Watch::Nothing),
    }
}

fn follow(
    options: &Options<'_>,
    mut memory: MemorySource,
    mut watch: Watch,
    progress: &mut impl FnMut(Progress),
) -> Result<Attached, Error> {
    let mut begun: Option<Instant> = None;
    let ending = |memory: &mut MemorySource| {
        if memory.has_begun() {
            begun.get_or_insert_with(Instant::now);
        }
        let late = |begun: Instant| {
            options
                .duration
                .is_some_and(|limit| begun.elapsed() >= limit)
        };
        let stopped = memory.is_stopped();
        let ending = match watch.end() {
            Some(ending) => ending,
            None if options.interrupted.swap(false, Relaxed) => Ending::Interrupted,
            None if stopped => Ending::Stopped,
            None if memory.is_over() => Ending::AnotherSession,
            None if begun.is_some_and(late) => Ending::Duration,
            None => return Ok::<_, Error>(None),
        };
        // Writers may be active unless the session or the machine has ended.
        let dead = stopped || matches!(ending, Ending::PoweredOff | Ending::Gone);
        let view = if dead { View::PostMortem } else { View::Live };
        Ok(Some((ending, view)))
    };
    let ending = source::drain(&mut memory, ending, progress)?;
    let not_found = memory.not_found();
    let Some(outcome) = memory.finish()? else {
        return Err(match not_found {
            None | Some(locate::Error::None { .. } | locate::Error::Packed { .. }) => {
                Error::NotStarted { ending }
            }
            Some(error) => source::Error::from(error).into(),
        });
    };
    Ok(Attached {
        summary: outcome.summary,
        only_looked: outcome.only_looked,
        ending,
    })
}

/// Records from a copy of the memory; the machine is stopped during the copy.
#[cfg(unix)]
fn copy(qmp: &mut crate::qmp::Qmp, out: &Path) -> Result<Attached, Error> {
    let core = out.join(".core");
    let recovered = qmp
        .copy_memory(&core)
        .map_err(Error::from)
        .and_then(|()| Ok(crate::recover::recover(&core, None, out)?));
    // QEMU may not have created the file.
    let _ = std::fs::remove_file(&core);
    Ok(Attached {
        summary: recovered?.summary,
        only_looked: false,
        ending: Ending::Copied,
    })
}
