//! Converts CTF to CTF: rewrites a trace, whole or in part, in a form that every reader accepts.
//!
//! - [`lower`] turns each class of the source into the written class, with a plan for converting
//!   the values;
//! - [`metadata_tsdl`] and [`metadata_json`] print the classes;
//! - [`value`] writes values, [`framing`] defines the headers and contexts, [`packets`] builds
//!   packets, one of each stream at a time.
//!
//! Every packet of the source becomes a packet of the output, so that losses keep their intervals.
//! Long packets are split.

mod encode;
mod framing;
mod index;
mod lower;
mod metadata_json;
mod metadata_tsdl;
mod names;
mod packets;
mod part;
mod ranges;
mod value;
pub(crate) mod writer;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::class::wide_int::WideInt;
use crate::error::{DecodeError, Error};
use crate::metadata::Metadata;
use crate::stream::event_ref::ItemRef;
use crate::stream::item::{Consequence, Problem};
use crate::stream::source::Slice;
use crate::stream::{Next, Note, Stream};
use crate::trace::Trace;
use crate::trace::reader::Reader;

use packets::Packets;
use part::Part;
use value::Unwritten;

/// The version of the format to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// CTF 1.8, which all readers support. Classes that only CTF 2 has become the nearest ones.
    #[default]
    Ctf18,
    /// CTF 2.
    Ctf2,
}

/// Decision about an event or loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Writes it.
    Take,
    /// Leaves it out.
    Leave,
    /// Leaves out this and everything after it.
    End,
}

/// The part of the source from which items are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The whole trace: every packet of the source is written.
    Whole,
    /// A part: packets from which nothing is taken are left out.
    Part,
    /// A part that begins at this time, in nanoseconds from the clock's origin: packets that end
    /// earlier are not read.
    Since(i128),
}

/// What was written, and what was repaired.
#[derive(Debug, Default)]
pub struct Converted {
    /// Number of events written.
    pub events: u64,
    /// Number of packets written.
    pub packets: u64,
    /// Number of steps back of clocks: until they caught up, times were written as the latest one.
    pub clamped: u64,
    /// Number of packets that were never closed and now are.
    pub closed: u64,
    /// Number of steps back of packet or loss counters, which were continued.
    pub counters: u64,
    /// The first error in reading the source; everything readable is written.
    pub damage: Option<Error>,
}

/// Why the trace was not written, or not completely.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The operating system refused an operation. If the disk was full, whole packets are left and
    /// the trace opens; otherwise nothing is left.
    #[error("cannot write the trace to {}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The output's metadata would be unreadable, such as with more fields than are supported.
    #[error("cannot write the trace: its metadata would not be readable: {0}")]
    Metadata(Error),
    /// A variable-length integer exceeds 64 bits, and CTF 1.8 has no class for both it and smaller
    /// ones.
    #[error(
        "the trace cannot be written in CTF 1.8: in {stream}, packet {packet}, a variable-length \
         integer is {}, and more than 64 bits need CTF 2",
        .value.brief()
    )]
    Wide {
        /// Name of the stream file.
        stream: String,
        /// Index of the packet in its file, from 0.
        packet: u64,
        /// The integer.
        value: WideInt,
    },
    /// A value does not fit its field, or packets and events are not written in order.
    #[error("cannot write to {stream}: {reason}")]
    Value {
        /// Name of the stream.
        stream: String,
        /// Description of the error.
        reason: String,
    },
}

impl WriteError {
    /// The cause: [`InvalidInput`](io::ErrorKind::InvalidInput) for the request,
    /// [`InvalidData`](io::ErrorKind::InvalidData) for the input, anything else for the system.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            WriteError::Io { .. } => io::ErrorKind::Other,
            WriteError::Metadata(_) | WriteError::Wide { .. } => io::ErrorKind::InvalidData,
            WriteError::Value { .. } => io::ErrorKind::InvalidInput,
        }
    }

    /// Advice for the user, as a clause that begins with a verb; `None` if the message includes it.
    pub fn advice(&self) -> Option<&'static str> {
        Some(match self {
            WriteError::Io { .. } if self.is_full() => "make room there, or give another directory",
            WriteError::Io { .. } => "give another, writable directory",
            WriteError::Metadata(_) => "read it with kymo dump, or write CTF 2 with --ctf2",
            WriteError::Wide { .. } => {
                "write CTF 2 with --ctf2, or leave these events out with --event"
            }
            WriteError::Value { .. } => return None,
        })
    }

    /// Whether the disk was full, so that the packets written so far should be kept.
    pub fn is_full(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        matches!(self, WriteError::Io { source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge))
    }
}

/// Writes the items of the trace that `choose` takes to the directory `out`, which must exist and
/// be empty.
///
/// The metadata gets its name last: what is left of a conversion that was interrupted is no trace.
///
/// `extent` is the part of the trace from which `choose` takes items. A tree of traces becomes the
/// same tree.
///
/// # Errors
/// [`WriteError`]; the output is removed again, unless the disk was full. Damage in the source is
/// not an error, but reported in [`Converted::damage`].
pub fn convert(
    trace: &Trace,
    out: &Path,
    format: Format,
    extent: Extent,
    choose: impl FnMut(&ItemRef<'_>) -> Keep,
) -> Result<Converted, WriteError> {
    let mut conversion = Conversion {
        made: Vec::new(),
        metadata: Vec::new(),
        converted: Converted::default(),
        extent,
    };
    let done = conversion.run(trace, out, format, choose);
    if done.as_ref().is_err_and(|error| !error.is_full()) {
        conversion.undo();
        return done.map(|()| conversion.converted);
    }
    let complete = conversion.complete();
    done.and(complete).map(|()| conversion.converted)
}

/// Removes the output of [`convert`] in `out`.
pub fn discard(out: &Path) {
    let Ok(entries) = fs::read_dir(out) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        let _ = if path.is_dir() {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
    }
}

/// Name of the metadata file while the streams are written.
const UNFINISHED_METADATA: &str = "metadata.part";

struct Conversion {
    /// Created files and directories, in order.
    made: Vec<PathBuf>,
    /// Metadata files under the names that they have until the end.
    metadata: Vec<PathBuf>,
    converted: Converted,
    extent: Extent,
}

/// A stream of the source, and its output.
struct Pair {
    part: Arc<Part>,
    packets: Packets,
}

impl Conversion {
    fn run(
        &mut self,
        trace: &Trace,
        out: &Path,
        format: Format,
        choose: impl FnMut(&ItemRef<'_>) -> Keep,
    ) -> Result<(), WriteError> {
        let mut parts: Vec<(Arc<Metadata>, Arc<Part>)> = Vec::new();
        for (directory, metadata) in trace.places() {
            let part = Part::new(metadata, format);
            let text = part.text(format);
            // If this reader refuses the text, others would, too.
            Metadata::parse(&text).map_err(WriteError::Metadata)?;
            let directory = out.join(directory);
            self.directory(&directory)?;
            let file = directory.join(UNFINISHED_METADATA);
            self.file(&file, text.as_bytes())?;
            self.metadata.push(file);
            parts.push((Arc::clone(metadata), Arc::new(part)));
        }
        let is_partial = self.extent != Extent::Whole;
        let map = trace.map();
        let mut pairs = Vec::new();
        for (metadata, relative, length) in trace.relative_files() {
            let part = parts
                .iter()
                .find(|(of, _)| Arc::ptr_eq(of, metadata))
                .map(|(_, part)| Arc::clone(part));
            let Some(part) = part else { continue };
            let path = out.join(relative);
            // A stream without packets stays an empty file.
            if length == 0 && !is_partial {
                self.file(&path, &[])?;
            }
            pairs.push(Pair {
                part,
                packets: Packets::new(path, is_partial),
            });
        }
        self.read(&map, &mut pairs, choose)?;
        let failed = map.into_failed().into_iter().next();
        self.converted.damage = failed.or(self.converted.damage.take());
        Ok(())
    }

    fn read(
        &mut self,
        map: &crate::trace::TraceMap,
        pairs: &mut [Pair],
        mut choose: impl FnMut(&ItemRef<'_>) -> Keep,
    ) -> Result<(), WriteError> {
        let mut reader = Reader::of(map.unread().map(Stream::telling_packets));
        if let Extent::Since(from) = self.extent {
            reader = reader.between(Some(from), None);
        }
        while let Some((place, next)) = reader.step() {
            let (Some(pair), Some(stream)) = (pairs.get_mut(place), reader.stream(place)) else {
                continue;
            };
            match next {
                Next::End => {}
                Next::Event => match reader.item(place).map(|item| choose(&item)) {
                    Some(Keep::Take) => self.event(pair, stream)?,
                    Some(Keep::Leave) | None => {}
                    Some(Keep::End) => break,
                },
                Next::Note => match &stream.notes.current {
                    Some(Note::Packet) => self.packet(pair, stream)?,
                    Some(Note::Problem(problem)) => self.problem(problem),
                    Some(Note::Loss(loss)) => match choose(&ItemRef::Loss(loss)) {
                        Keep::Take => pair.packets.lose(loss),
                        Keep::Leave => {}
                        Keep::End => break,
                    },
                    None => {}
                },
            }
        }
        for pair in pairs {
            pair.packets.close(u64::MAX, &mut self.made)?;
            self.converted.packets += pair.packets.count();
        }
        Ok(())
    }

    fn packet(&mut self, pair: &mut Pair, stream: &Stream<Slice<'_>>) -> Result<(), WriteError> {
        pair.packets.close(stream.clock.now, &mut self.made)?;
        let Some(head) = &stream.packet.head else {
            return Ok(());
        };
        match pair.part.packet(head, stream) {
            Ok(packet) => pair.packets.open(packet, &mut self.made),
            Err(unwritten) => self.unwritten(stream, unwritten),
        }
    }

    fn event(&mut self, pair: &mut Pair, stream: &Stream<Slice<'_>>) -> Result<(), WriteError> {
        pair.packets.make_room(&mut self.made)?;
        match pair.packets.event(stream) {
            Ok(()) => self.converted.events += 1,
            Err(unwritten) => self.unwritten(stream, unwritten)?,
        }
        Ok(())
    }

    fn problem(&mut self, problem: &Problem) {
        match (&problem.reason, problem.consequence) {
            (DecodeError::TimeWentBack { .. }, Consequence::Clamped) => self.converted.clamped += 1,
            (DecodeError::NeverClosed, Consequence::Clamped) => self.converted.closed += 1,
            (_, Consequence::Clamped) => self.converted.counters += 1,
            _ => drop(
                self.converted
                    .damage
                    .get_or_insert_with(|| problem.clone().into()),
            ),
        }
    }

    /// Handles a value that was not written. The reader has already skipped its record without an
    /// error, so the only expected reason is the size of an integer.
    fn unwritten(
        &mut self,
        stream: &Stream<Slice<'_>>,
        unwritten: Unwritten,
    ) -> Result<(), WriteError> {
        let reason = match unwritten {
            Unwritten::Wide(value) => {
                return Err(WriteError::Wide {
                    stream: stream.name.to_string(),
                    packet: stream.packet.number,
                    value,
                });
            }
            Unwritten::Unread(reason) => reason,
        };
        self.converted.damage.get_or_insert_with(|| Error::Stream {
            file: stream.name.to_string(),
            packet: stream.packet.number,
            offset: stream.packet.offset + stream.record.body / 8,
            reason,
            resumes: Some(stream.packet.offset + stream.packet.position / 8),
        });
        Ok(())
    }

    fn directory(&mut self, path: &Path) -> Result<(), WriteError> {
        if path.is_dir() {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            self.directory(parent)?;
        }
        fs::create_dir(path).map_err(|source| WriteError::Io {
            path: path.to_owned(),
            source,
        })?;
        self.made.push(path.to_owned());
        Ok(())
    }

    fn file(&mut self, path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
        self.made.push(path.to_owned());
        let written = fs::write(path, bytes);
        written.map_err(|source| {
            // An incomplete metadata file is useless.
            let _ = fs::remove_file(path);
            WriteError::Io {
                path: path.to_owned(),
                source,
            }
        })
    }

    /// Gives the metadata its name, which makes the output a trace.
    fn complete(&self) -> Result<(), WriteError> {
        self.metadata.iter().try_for_each(|file| {
            let path = file.with_file_name("metadata");
            fs::rename(file, &path).map_err(|source| WriteError::Io { path, source })
        })
    }

    fn undo(&mut self) {
        for path in self.made.drain(..).rev() {
            let _ = if path.is_dir() {
                fs::remove_dir(&path)
            } else {
                fs::remove_file(&path)
            };
        }
    }
}
