//! CTF to CTF: a trace written anew, whole or in part, in the form that every reader takes.
//!
//! - [`lower`] makes of each class of the source the class that is written, and a plan of how a
//!   value gets from the one to the other;
//! - [`metadata_tsdl`] and [`metadata_json`] print the classes;
//! - [`value`] writes values, [`framing`] says what stands around them, [`packets`] builds packets,
//!   one of each stream at a time.
//!
//! Every packet of the source is a packet of what is written, so that what was lost between two of
//! them is told in the same interval. Long ones are split.

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

/// Which version of the format is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// CTF 1.8, which all readers read. What only CTF 2 has becomes what is nearest to it.
    #[default]
    Ctf18,
    /// CTF 2.
    Ctf2,
}

/// What becomes of an event or loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// It is written.
    Take,
    /// It is not.
    Leave,
    /// Neither it nor anything after it.
    End,
}

/// How much of the source may be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All of it: every packet of the source is written.
    Whole,
    /// Part of it: packets of which nothing is taken are left out.
    Part,
    /// Part of it, and nothing before this time, in nanoseconds from the clock's origin: packets
    /// that are over by then are not read.
    Since(i128),
}

/// What was written, and what had to be mended in what was read.
#[derive(Debug, Default)]
pub struct Converted {
    /// Events that were written.
    pub events: u64,
    /// Packets that were written.
    pub packets: u64,
    /// Times that stepped back and are written as the time before.
    pub clamped: u64,
    /// Packets that were never closed; those written are.
    pub closed: u64,
    /// Counters of packets or of lost events that stepped back.
    pub counters: u64,
    /// The first thing that could not be read. All that can be is written.
    pub damage: Option<Error>,
}

/// Why nothing, or not all, was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The operating system refused it. If there was no room, whole packets are there and the trace
    /// opens; otherwise nothing is.
    #[error("cannot write the trace to {}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The source asks for metadata that no reader would take, such as more fields than are
    /// supported.
    #[error("cannot write the trace: its metadata would not be readable: {0}")]
    Metadata(Error),
    /// An integer of varying size is more than 64 bits, and CTF 1.8 has no class for both it and
    /// smaller ones.
    #[error(
        "the trace cannot be written in CTF 1.8: in {stream}, packet {packet}, a variable-length \
         integer is {}, and more than 64 bits need CTF 2",
        .value.brief()
    )]
    Wide {
        /// Name of the stream's file.
        stream: String,
        /// The packet's place in its file, from 0.
        packet: u64,
        /// The integer.
        value: WideInt,
    },
    /// A value does not fit its field, or packets and events are not written in their order.
    #[error("cannot write to {stream}: {reason}")]
    Value {
        /// Name of the stream.
        stream: String,
        /// What does not fit, in words.
        reason: String,
    },
}

impl WriteError {
    /// What is to blame: [`InvalidInput`](io::ErrorKind::InvalidInput), what was asked for;
    /// [`InvalidData`](io::ErrorKind::InvalidData), what was read; anything else, the system.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            WriteError::Io { .. } => io::ErrorKind::Other,
            WriteError::Metadata(_) | WriteError::Wide { .. } => io::ErrorKind::InvalidData,
            WriteError::Value { .. } => io::ErrorKind::InvalidInput,
        }
    }

    /// What can be done about it, as the rest of a sentence that begins with a verb; `None` where
    /// the message says it.
    pub fn advice(&self) -> Option<&'static str> {
        Some(match self {
            WriteError::Io { .. } => {
                "make room there, or give another place to which you may write"
            }
            WriteError::Metadata(_) => "read it with kymo dump, or write CTF 2 with --ctf2",
            WriteError::Wide { .. } => {
                "write CTF 2 with --ctf2, or leave these events out with --event"
            }
            WriteError::Value { .. } => return None,
        })
    }

    /// Whether there was no room, so that what is there should stay.
    pub fn is_full(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        matches!(self, WriteError::Io { source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge))
    }
}

/// Writes what `choose` takes of the trace to the directory `out`, which must be there and empty.
///
/// `extent` says what `choose` may take. A tree of traces becomes the same tree.
///
/// # Errors
/// [`WriteError`]; what was made is taken away again, unless there was no room. Damage of the
/// source is no error: [`Converted::damage`].
pub fn convert(
    trace: &Trace,
    out: &Path,
    format: Format,
    extent: Extent,
    choose: impl FnMut(&ItemRef<'_>) -> Keep,
) -> Result<Converted, WriteError> {
    let mut conversion = Conversion {
        made: Vec::new(),
        converted: Converted::default(),
        extent,
    };
    match conversion.run(trace, out, format, choose) {
        Ok(()) => Ok(conversion.converted),
        Err(error) => {
            if !error.is_full() {
                conversion.undo();
            }
            Err(error)
        }
    }
}

/// Takes away what [`convert`] has made in `out`.
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

struct Conversion {
    /// Files and directories, in the order they were made.
    made: Vec<PathBuf>,
    converted: Converted,
    extent: Extent,
}

/// A stream of the source, and what is written of it.
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
            // A text that is refused here would be refused by others too.
            Metadata::parse(&text).map_err(WriteError::Metadata)?;
            let directory = out.join(directory);
            self.directory(&directory)?;
            self.file(&directory.join("metadata"), text.as_bytes())?;
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
            // A stream without packets stays one.
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

    /// What the reader has stepped over can be read again, so that another reason than size is not
    /// to be expected.
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
            // Half a metadata text is none.
            let _ = fs::remove_file(path);
            WriteError::Io {
                path: path.to_owned(),
                source,
            }
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
