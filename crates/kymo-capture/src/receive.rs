//! Records what a running kernel sends over a line that Kymo does not provide: a serial line, an
//! RTT up-buffer, or a file that it has written.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use kymo::ring::reader::View;

use crate::framed::Received;
use crate::source::{self, PortSource, Probe, Progress, RttLine, Source};

/// How much longer than the requested duration to wait for a first frame: a kernel may boot.
const FIRST_FRAME: Duration = Duration::from_secs(5);

/// Where the frames come from.
#[derive(Clone, Copy, Debug)]
pub enum Line<'a> {
    /// A serial device.
    Serial {
        /// The device.
        path: &'a Path,
        /// Bits a second.
        baud: u32,
    },
    /// An RTT up-buffer in a RAM file: see [`RttLine::open`].
    Rtt {
        /// The RAM file.
        path: &'a Path,
        /// The address of its first byte.
        base: Option<u64>,
    },
    /// An RTT up-buffer behind a debug probe: see [`Probe::connect`] and [`RttLine::behind`].
    RttGdb {
        /// The probe's server, `HOST:PORT`.
        server: &'a str,
        /// The addresses where the block may be.
        ranges: &'a [Range<u64>],
        /// The time between two halts, if the server reads memory only of a halted machine.
        halt_every: Option<Duration>,
        /// The time limit for each of the server's answers.
        patience: Duration,
    },
    /// A file that is complete, such as one written by semihosting.
    File(&'a Path),
}

impl Line<'_> {
    fn name(&self) -> String {
        match self {
            Line::Serial { path, .. } | Line::Rtt { path, .. } | Line::File(path) => {
                path.display().to_string()
            }
            Line::RttGdb { server, .. } => (*server).to_owned(),
        }
    }
}

/// Why nothing was received.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The line cannot be opened.
    #[error("cannot receive from {path}: {source}")]
    Open {
        /// The device or file.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// The path is not one of a file.
    #[error("{path} is not a file; use --serial for a device")]
    NotAFile {
        /// The path.
        path: String,
    },
    /// Another program reads this RAM file.
    #[error("another program reads {path}; an up-buffer has one reader")]
    Taken {
        /// The file.
        path: String,
    },
    /// The kernel's file does not say where its memory is.
    #[error("{path} is not an ELF file with a symbol _SEGGER_RTT or writable memory")]
    NoMemory {
        /// The file.
        path: String,
    },
    /// No frame arrived.
    #[error("{ending}, and no frame of a trace had arrived from {path}: {}", .advice)]
    Nothing {
        /// Why it ended.
        ending: Ending,
        /// The device or file.
        path: String,
        /// What to look at first.
        advice: &'static str,
    },
    /// The trace cannot be written.
    #[error(transparent)]
    Source(#[from] source::Error),
}

impl Error {
    /// The cause: [`InvalidInput`](io::ErrorKind::InvalidInput) for the request,
    /// [`InvalidData`](io::ErrorKind::InvalidData) for the input, anything else for the system.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Error::Open { source, .. } => match source.kind() {
                io::ErrorKind::InvalidInput => io::ErrorKind::InvalidInput,
                io::ErrorKind::NotFound => io::ErrorKind::InvalidData,
                _ => io::ErrorKind::Other,
            },
            Error::NotAFile { .. } => io::ErrorKind::InvalidInput,
            Error::Taken { .. } => io::ErrorKind::Other,
            Error::Nothing { .. } | Error::NoMemory { .. } => io::ErrorKind::InvalidData,
            Error::Source(error) => error.kind(),
        }
    }

    /// Advice for the user, as a clause that begins with a verb; `None` if the message includes it.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Error::Source(error) => error.advice(),
            Error::Taken { .. } => Some("end the other one first"),
            Error::NoMemory { .. } => Some("give the kernel's file, or the address with --base"),
            Error::Open { .. } | Error::NotAFile { .. } | Error::Nothing { .. } => None,
        }
    }
}

/// Why receiving ended, as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The kernel has sent the end of its trace.
    Closed,
    /// The line, or the file, has ended.
    LineEnded,
    /// The user interrupted.
    Interrupted,
    /// The requested duration elapsed.
    Duration,
    /// The time limit elapsed.
    TimeLimit,
    /// The debug probe's server has failed, in this way.
    Failed(String),
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Ending::Closed => "the kernel has sent its whole trace",
            Ending::LineEnded => "the line has ended",
            Ending::Interrupted => "the recording was interrupted",
            Ending::Duration => "the requested duration elapsed",
            Ending::TimeLimit => "the time limit elapsed",
            Ending::Failed(how) => how,
        })
    }
}

/// Options of receiving.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Where the frames come from.
    pub line: Line<'a>,
    /// The trace directory.
    pub out: &'a Path,
    /// Ends the recording this long after its first frame. If none comes, it ends 5 s later than if
    /// one had come at once.
    pub duration: Option<Duration>,
    /// Ends the recording after this time.
    pub timeout: Option<Duration>,
    /// How long to wait for the rest of the trace after asking the kernel to stop, which only a
    /// serial line can.
    pub grace: Duration,
    /// Set when the user interrupts. Reset when it has been handled.
    pub interrupted: &'a AtomicBool,
}

/// Receives a trace and writes it to the directory `out`, which must exist and be empty. `progress`
/// is called about every two milliseconds.
///
/// # Errors
/// See [`Error`].
pub fn receive(
    options: &Options<'_>,
    progress: impl FnMut(Progress),
) -> Result<(Received, Ending), Error> {
    let open = |source| Error::Open {
        path: options.line.name(),
        source,
    };
    match options.line {
        Line::Serial { path, baud } => {
            let line = source::open_serial(path, baud).map_err(open)?;
            let source = PortSource::new(line, options.out).of_running();
            drain(options, source, progress)
        }
        Line::Rtt { path, base } => {
            check_file(path).map_err(open)??;
            let line = RttLine::open(path, base).map_err(|error| match error.kind() {
                io::ErrorKind::ResourceBusy => Error::Taken {
                    path: path.display().to_string(),
                },
                _ => open(error),
            })?;
            let source = PortSource::one_way(line, options.out).of_running();
            drain(options, source, progress)
        }
        Line::RttGdb {
            server,
            ranges,
            halt_every,
            patience,
        } => {
            let probe = Probe::connect(server, patience, halt_every).map_err(open)?;
            let line = RttLine::behind(probe, ranges.to_vec());
            let source = PortSource::one_way(line, options.out).of_running();
            drain(options, source, progress)
        }
        Line::File(path) => {
            check_file(path).map_err(open)??;
            let line = File::open(path).map_err(open)?;
            drain(options, PortSource::one_way(line, options.out), progress)
        }
    }
}

/// Refuses what is no file: a FIFO would make `open` wait for its writer, and a device may have no
/// end.
fn check_file(path: &Path) -> io::Result<Result<(), Error>> {
    let is_file = fs::metadata(path)?.is_file();
    Ok(is_file.then_some(()).ok_or_else(|| Error::NotAFile {
        path: path.display().to_string(),
    }))
}

fn drain<L: Read + Write>(
    options: &Options<'_>,
    mut source: PortSource<L>,
    progress: impl FnMut(Progress),
) -> Result<(Received, Ending), Error> {
    let started = Instant::now();
    let mut begun: Option<Instant> = None;
    let mut asked: Option<(Ending, Instant)> = None;
    let late = |limit: Option<Duration>, since: Instant| {
        limit.is_some_and(|limit| since.elapsed() >= limit)
    };
    let without_frames = options
        .duration
        .map(|duration| duration.saturating_add(FIRST_FRAME));
    let ending = |source: &mut PortSource<L>| {
        if source.has_begun() {
            begun.get_or_insert_with(Instant::now);
        }
        let interrupted = options.interrupted.swap(false, Relaxed);
        let ending = match &asked {
            _ if source.is_complete() => Ending::Closed,
            _ if source.has_ended() => match (options.line, source.failure()) {
                (Line::RttGdb { .. }, Some(error)) => Ending::Failed(error.to_string()),
                _ => Ending::LineEnded,
            },
            _ if late(options.timeout, started) => Ending::TimeLimit,
            Some((ending, since)) if interrupted || late(Some(options.grace), *since) => {
                ending.clone()
            }
            Some(_) => return Ok(None),
            None if interrupted => Ending::Interrupted,
            None if begun.is_some_and(|begun| late(options.duration, begun)) => Ending::Duration,
            None if begun.is_none() && late(without_frames, started) => Ending::Duration,
            None => return Ok(None),
        };
        let by_user = matches!(ending, Ending::Interrupted | Ending::Duration);
        if by_user && asked.is_none() && source.ask_to_stop() {
            asked = Some((ending, Instant::now()));
            return Ok::<_, Error>(None);
        }
        Ok(Some((ending, View::PostMortem)))
    };
    let ending = source::drain(&mut source, ending, progress)?;
    let received = source.finish()?;
    if received.flags.is_none() && received.bytes == 0 {
        return Err(Error::Nothing {
            ending,
            path: options.line.name(),
            advice: match options.line {
                Line::Serial { .. } => "check the device, its speed, and that the kernel sends",
                Line::Rtt { .. } => {
                    "check that the kernel has an up-buffer named Kymo in this memory, and give \
                     --base if the block is not one of Kymo's own"
                }
                Line::RttGdb { .. } => {
                    "check that the kernel has an up-buffer named Kymo, and that --kernel or \
                     --base says where its block is"
                }
                Line::File(_) => "check that the kernel has written it in Kymo's frames",
            },
        });
    }
    Ok((received, ending))
}

/// Where in memory the RTT block of the kernel `elf` may be: at its symbol `_SEGGER_RTT`, or else
/// anywhere in its writable segments.
///
/// # Errors
/// [`Error::Open`] and [`Error::NoMemory`].
pub fn rtt_ranges(elf: &Path) -> Result<Vec<Range<u64>>, Error> {
    use object::elf::PF_W;
    use object::{Object, ObjectSegment, ObjectSymbol, SegmentFlags};
    let wrong = || Error::NoMemory {
        path: elf.display().to_string(),
    };
    let bytes = fs::read(elf).map_err(|source| Error::Open {
        path: elf.display().to_string(),
        source,
    })?;
    let file = object::File::parse(&*bytes).map_err(|_| wrong())?;
    let is_block = |symbol: &object::Symbol<'_, '_>| {
        symbol.is_definition() && symbol.name() == Ok("_SEGGER_RTT")
    };
    if let Some(block) = file.symbols().find(is_block) {
        return Ok(vec![block.address()..block.address().saturating_add(4)]);
    }
    let ranges = file.segments().filter_map(|segment| {
        let SegmentFlags::Elf { p_flags } = segment.flags() else {
            return None;
        };
        let range = segment.address()..segment.address().saturating_add(segment.size());
        (p_flags & PF_W != 0 && !range.is_empty()).then_some(range)
    });
    let ranges: Vec<_> = ranges.collect();
    (!ranges.is_empty()).then_some(ranges).ok_or_else(wrong)
}
