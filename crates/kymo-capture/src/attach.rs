//! Recording a machine that runs already, without disturbing it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use kymo::ring::reader::View;

use crate::locate;
use crate::processes::{FileId, MappedBy};
use crate::region::Summary;
use crate::source::{self, MemorySource, Progress, Source};

/// How often it is looked whether the machine's process is there.
const CHECK: Duration = Duration::from_millis(100);

/// Why nothing was recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The memory or its copy gave no trace.
    #[error(transparent)]
    Source(#[from] source::Error),
    /// The machine cannot be asked where its memory is.
    #[cfg(unix)]
    #[error(transparent)]
    Qmp(#[from] crate::qmp::Error),
    /// It ended, or was left, and its kernel had not started a trace.
    #[error(
        "{ending}, and its kernel had not started a trace until then: see that it calls Kymo's \
         `start`"
    )]
    NotStarted {
        /// Why it ended.
        ending: Ending,
    },
    /// Nothing runs in the file.
    #[error(
        "no program on this machine has {path} mapped, so that no machine runs in it: `kymo recover` takes out what one has left there; \
         one in a container may be found by --qmp"
    )]
    NotRunning {
        /// The file.
        path: String,
    },
}

impl Error {
    /// What is to blame: [`InvalidInput`](std::io::ErrorKind::InvalidInput), what was asked for;
    /// [`InvalidData`](std::io::ErrorKind::InvalidData), what was read; anything else, the system.
    pub fn kind(&self) -> std::io::ErrorKind {
        match self {
            Error::Source(error) => error.kind(),
            #[cfg(unix)]
            Error::Qmp(error) => error.kind(),
            Error::NotStarted { .. } | Error::NotRunning { .. } => std::io::ErrorKind::InvalidData,
        }
    }

    /// What can be done about it, as the rest of a sentence that begins with a verb; `None` where
    /// the message says it.
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

/// Why an attached recording ended. In each case the trace is complete as far as it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The user interrupted; the machine runs on.
    Interrupted,
    /// The recording was as long as it should be; the machine runs on.
    Duration,
    /// The kernel stopped its session; the machine runs on.
    Stopped,
    /// The kernel began another session; the machine runs on.
    AnotherSession,
    /// The guest powered its machine off.
    PoweredOff,
    /// The machine's process has gone.
    Gone,
    /// The machine stood still while its memory was copied, and runs on.
    Copied,
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Ending::Interrupted => "the machine was left running at an interrupt",
            Ending::Duration => {
                "the machine was left running after the duration that was asked for"
            }
            Ending::Stopped => "the kernel has stopped its session",
            Ending::AnotherSession => "the kernel has begun another session",
            Ending::PoweredOff => "the machine powered off",
            Ending::Gone => "the machine has ended",
            Ending::Copied => "the machine stood still while its memory was copied, and runs on",
        })
    }
}

/// Which machine.
#[derive(Clone, Copy, Debug)]
pub enum Machine<'a> {
    /// The one that runs in this file.
    Ram {
        /// The file.
        file: &'a Path,
        /// Physical address of its first byte, where it is none of the usual ones.
        base: Option<u64>,
    },
    /// The one whose QEMU listens at this socket.
    #[cfg(unix)]
    Qmp {
        /// The socket.
        socket: &'a Path,
        /// Has it stopped for as long as a copy of its memory takes, instead of following it.
        snapshot: bool,
    },
}

/// What to do.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The machine.
    pub machine: Machine<'a>,
    /// The trace directory.
    pub out: &'a Path,
    /// Ends the recording this long after it has begun.
    pub duration: Option<Duration>,
    /// Becomes true when the user interrupts.
    pub interrupted: &'a AtomicBool,
}

/// What was recorded.
#[derive(Clone, Debug)]
pub struct Attached {
    /// Events and losses by channel.
    pub summary: Summary,
    /// The session waits for a host to free its packets, and another program does that, or nobody
    /// may.
    pub only_looked: bool,
    /// Why it ended.
    pub ending: Ending,
}

/// How the machine is watched.
enum Watch {
    #[cfg(unix)]
    Qmp(crate::qmp::Qmp),
    Processes(FileId, Vec<u32>, Instant),
    /// Nothing tells its end.
    Nothing,
}

impl Watch {
    /// Why the machine does not run any more.
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

/// Reads the machine's session from what it still retains on, until the session or the machine ends
/// or the user wants no more, and writes it to the directory `out`, which exists and is empty.
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
        // Whether the file can be read is said before whether a machine runs in it.
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
        // A writer may be at work unless the session or the machine has ended.
        let dead = stopped || matches!(ending, Ending::PoweredOff | Ending::Gone);
        let view = if dead { View::PostMortem } else { View::Live };
        Ok(Some((ending, view)))
    };
    let ending = source::drain(&mut memory, ending, progress)?;
    let not_found = memory.not_found();
    let Some(outcome) = memory.finish()? else {
        return Err(match not_found {
            None | Some(locate::Error::None { .. }) => Error::NotStarted { ending },
            Some(error) => source::Error::from(error).into(),
        });
    };
    Ok(Attached {
        summary: outcome.summary,
        only_looked: outcome.only_looked,
        ending,
    })
}

/// The trace out of a copy of the memory, during which the machine stands still.
#[cfg(unix)]
fn copy(qmp: &mut crate::qmp::Qmp, out: &Path) -> Result<Attached, Error> {
    let core = out.join(".core");
    let recovered = qmp
        .copy_memory(&core)
        .map_err(Error::from)
        .and_then(|()| Ok(crate::recover::recover(&core, None, out)?));
    // QEMU may not have come so far as to make it.
    let _ = std::fs::remove_file(&core);
    Ok(Attached {
        summary: recovered?.summary,
        only_looked: false,
        ending: Ending::Copied,
    })
}
