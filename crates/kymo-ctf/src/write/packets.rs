//! Packets of one stream: built in memory one at a time and written whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::framing::{self, Values};
use super::part::SourcePacket;
use super::value::Unwritten;
use super::{WriteError, index};
use crate::stream::Stream;
use crate::stream::item::{Loss, LossKind};
use crate::stream::source::Slice;

/// A packet of this many bytes is ended.
const LARGE: usize = 1 << 20;
/// A packet that reports lost events is ended only at this size, as its end is the end of the loss
/// interval.
const LARGE_WITH_LOSSES: usize = 64 << 20;

/// The packets of an output stream.
#[derive(Debug)]
pub(super) struct Packets {
    path: PathBuf,
    partial: bool,
    current: Option<Current>,
    /// The previous packet, if it was left out: the interval of a loss after it begins there.
    left_out: Option<Current>,
    /// Losses to report in the next packet.
    losses: Losses,
    /// Counters of the last written packet.
    last: Option<Last>,
    count: u64,
    /// Bytes written.
    offset: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Losses {
    events: u64,
    packets: u64,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    end: u64,
    sequence: u64,
    discarded: u64,
}

/// A packet being built.
#[derive(Debug)]
struct Current {
    packet: SourcePacket,
    losses: Losses,
    /// The packet's bytes, with room for header and context.
    bytes: Vec<u8>,
    /// Times of the first and last event.
    first: Option<u64>,
    latest: u64,
    /// Whether it continues a long packet that was split.
    continues: bool,
}

/// A packet that was written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed {
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) discarded: u64,
    pub(super) class: u64,
    pub(super) instance: u64,
    pub(super) sequence: u64,
}

impl Current {
    fn new(packet: SourcePacket, losses: Losses, continues: bool) -> Self {
        let mut bytes = framing::head(
            &packet.class.header,
            &packet.class.context,
            &Values::default(),
        );
        bytes.extend_from_slice(&packet.own);
        Current {
            packet,
            losses,
            bytes,
            first: None,
            latest: 0,
            continues,
        }
    }
}

impl Packets {
    pub(super) fn new(path: PathBuf, partial: bool) -> Self {
        Packets {
            path,
            partial,
            current: None,
            left_out: None,
            losses: Losses::default(),
            last: None,
            count: 0,
            offset: 0,
        }
    }

    /// Number of packets written.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Records a loss before the next packet.
    pub(super) fn lose(&mut self, loss: &Loss) {
        let count = match loss.kind {
            LossKind::Events => &mut self.losses.events,
            LossKind::Packets => &mut self.losses.packets,
        };
        *count = count.saturating_add(loss.count);
    }

    /// Begins a packet of the source.
    pub(super) fn open(
        &mut self,
        packet: SourcePacket,
        made: &mut Vec<PathBuf>,
    ) -> Result<(), WriteError> {
        let losses = std::mem::take(&mut self.losses);
        if losses.events > 0 || losses.packets > 0 {
            // The loss interval begins at the end of that packet.
            if let Some(before) = self.left_out.take() {
                let end = before.packet.end.unwrap_or(before.latest);
                self.write(before, end, made)?;
            }
        }
        self.current = Some(Current::new(packet, losses, false));
        Ok(())
    }

    /// Ends the packet of the source. The next one begins at `limit`, and this one must not end
    /// later.
    pub(super) fn close(&mut self, limit: u64, made: &mut Vec<PathBuf>) -> Result<(), WriteError> {
        let Some(current) = self.current.take() else {
            return Ok(());
        };
        let has_time = !current.packet.class.context.clock || current.packet.begin.is_some();
        let tells = current.losses.events > 0 || current.losses.packets > 0;
        if current.first.is_none() && !tells && (self.partial || current.continues || !has_time) {
            if !current.continues {
                self.left_out = Some(current);
            }
            return Ok(());
        }
        self.left_out = None;
        let end = current.packet.end.unwrap_or(current.latest).min(limit);
        self.write(current, end, made)
    }

    /// Splits the packet if it is long.
    pub(super) fn make_room(&mut self, made: &mut Vec<PathBuf>) -> Result<(), WriteError> {
        let Some(current) = &self.current else {
            return Ok(());
        };
        let large = if current.losses.events > 0 {
            LARGE_WITH_LOSSES
        } else {
            LARGE
        };
        if current.bytes.len() < large || current.first.is_none() {
            return Ok(());
        }
        let Some(current) = self.current.take() else {
            return Ok(());
        };
        let latest = current.latest;
        // The next packet begins where this one ends.
        let next = current.packet.clone();
        self.write(current, latest, made)?;
        self.current = Some(Current::new(next, Losses::default(), true));
        Ok(())
    }

    /// Adds the stream's current event.
    pub(super) fn event(&mut self, stream: &Stream<Slice<'_>>) -> Result<(), Unwritten> {
        let Some(current) = &mut self.current else {
            return Ok(());
        };
        let class = &current.packet.class;
        let Some(event) = class.events.get(stream.record.event as usize) else {
            return Ok(());
        };
        let time = stream.clock.now;
        let length = current.bytes.len();
        class.event_header.put(&mut current.bytes, event.id, time);
        let mut place = stream.place_at_body();
        let mut parts = [&class.event_context, &event.context, &event.fields]
            .into_iter()
            .flatten();
        if let Err(reason) = parts.try_for_each(|part| part.put(&mut place, &mut current.bytes)) {
            current.bytes.truncate(length);
            return Err(reason);
        }
        current.first.get_or_insert(time);
        current.latest = time;
        Ok(())
    }

    fn write(
        &mut self,
        mut current: Current,
        end: u64,
        made: &mut Vec<PathBuf>,
    ) -> Result<(), WriteError> {
        let Current { packet, losses, .. } = &current;
        // Counters continue from the source's first values; only reported losses add to them.
        let (sequence, discarded) = match self.last {
            Some(last) => {
                let step = losses.packets.saturating_add(1);
                (
                    last.sequence.saturating_add(step),
                    last.discarded.saturating_add(losses.events),
                )
            }
            // A counter of more than 64 bits may be about to exceed its low 64 bits.
            None => [packet.sequence, packet.discarded]
                .map(|first| first.filter(|first| *first <= u64::MAX / 2).unwrap_or(0))
                .into(),
        };
        let before = self.last.map_or(0, |last| last.end);
        let begin = packet.begin.or(current.first).unwrap_or(before).max(before);
        let end = end.max(begin).max(current.latest);
        let bytes = current.bytes.len() as u64;
        let values = Values {
            class: packet.class.id,
            instance: packet.instance,
            begin,
            end,
            bits: bytes.saturating_mul(8),
            sequence,
            discarded,
            cpu: packet.cpu,
        };
        let head = framing::head(&packet.class.header, &packet.class.context, &values);
        if let Some(room) = current.bytes.get_mut(..head.len()) {
            room.copy_from_slice(&head);
        }
        let placed = Placed {
            offset: self.offset,
            bytes,
            begin,
            end,
            discarded,
            class: values.class,
            instance: values.instance,
            sequence,
        };
        if self.count == 0 {
            made.push(self.path.clone());
        }
        append(&self.path, self.offset, &current.bytes)?;
        if current.packet.class.context.clock {
            self.index(&placed, made)?;
        }
        self.last = Some(Last {
            end,
            sequence,
            discarded,
        });
        self.offset += bytes;
        self.count += 1;
        Ok(())
    }

    fn index(&self, placed: &Placed, made: &mut Vec<PathBuf>) -> Result<(), WriteError> {
        let path = crate::trace::index_of(&self.path);
        let folder = path.parent().unwrap_or(Path::new("."));
        let entry = index::entry(placed);
        if self.count > 0 {
            return append(&path, 16 + self.count * entry.len() as u64, &entry);
        }
        if !folder.is_dir() {
            fs::create_dir(folder).map_err(|source| WriteError::Io {
                path: folder.to_owned(),
                source,
            })?;
            made.push(folder.to_owned());
        }
        made.push(path.clone());
        append(&path, 0, &[index::header(), entry].concat())
    }
}

/// Appends bytes to a file of `length` bytes, all or none.
///
/// The file is opened each time, as a trace may have more streams than a process may open files.
fn append(path: &Path, length: u64, bytes: &[u8]) -> Result<(), WriteError> {
    let fail = |source: io::Error| WriteError::Io {
        path: path.to_owned(),
        source,
    };
    let mut file: File = OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .map_err(fail)?;
    file.write_all(bytes).map_err(|error| {
        let _ = file.set_len(length);
        fail(error)
    })
}
