//! Records that were copied, one after the other: where each ends, and what is counted at their
//! end.

use super::{ChannelReader, Losses, Shapes};
use crate::ring::layout::{COMPACT_IDS, EXTENDED, EXTENDED_WORDS, ID_BITS, TIME_BITS, TIME_MASK};

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// When, in ticks of the region's clock; never earlier than the record before.
    pub time: u64,
    /// Which event.
    pub id: u32,
    /// Its fields.
    pub payload: &'a [u32],
    /// Bytes of the payload's last word that are padding: 0 to 3.
    pub padding: u8,
    /// Ticks by which the clock stepped back since the record before; usually 0.
    pub stepped_back: u64,
}

/// Records that were copied and are known to be whole. Records that are not taken with
/// [`next_record`](Batch::next_record) come again.
#[derive(Debug)]
pub struct Batch<'a> {
    pub(super) reader: &'a mut ChannelReader,
    pub(super) words: &'a [u32],
    pub(super) begin: u64,
    pub(super) end: Option<u64>,
    pub(super) closed: bool,
    /// Events that the writer says are in the packet, where that is final.
    pub(super) committed: Option<u64>,
    /// Whether the reader still stands in this packet.
    pub(super) reader_is_here: bool,
}

impl<'a> Batch<'a> {
    /// No record of the batch is earlier. Usually this is when the packet was opened, or the time
    /// of the record before; where the writer's clock has stepped back, the latest time that the
    /// reader has seen, also in a packet that was overwritten before its records were taken.
    pub fn begin(&self) -> u64 {
        self.begin
    }

    /// When the packet was closed, if it is.
    pub fn end(&self) -> Option<u64> {
        self.end
    }

    /// Losses up to this batch. What was dropped after its records is among those of the next one,
    /// and of the [reader](ChannelReader::losses).
    pub fn losses(&self) -> Losses {
        Losses {
            dropped: self.reader.dropped_before,
            ..self.reader.losses
        }
    }

    /// The next record; `None` at the batch's end.
    pub fn next_record(&mut self, shapes: &impl Shapes) -> Option<Record<'a>> {
        let mut next = None;
        self.offer_record(shapes, |record| {
            next = Some(*record);
            true
        });
        next
    }

    /// Offers the next record to `take`, which says whether it takes it: a record that it refuses
    /// comes again. Returns its answer; `None` at the batch's end.
    #[inline]
    pub fn offer_record(
        &mut self,
        shapes: &impl Shapes,
        take: impl FnOnce(&Record<'a>) -> bool,
    ) -> Option<bool> {
        if !self.reader_is_here {
            return None;
        }
        let reader = &mut *self.reader;
        let rest = self.words.get(reader.done..).unwrap_or(&[]);
        let Some((mut record, header)) = split_record(rest, reader.time, shapes) else {
            self.finish_packet();
            return None;
        };
        let stored_time = record.time;
        let clamped = stored_time < reader.time;
        record.stepped_back = reader.stored_time.saturating_sub(stored_time);
        record.time = stored_time.max(reader.time);
        if !take(&record) {
            return Some(false);
        }
        reader.losses.clamped += u64::from(clamped);
        reader.losses.steps_back += u64::from(record.stepped_back > 0);
        reader.stored_time = stored_time;
        reader.time = record.time;
        reader.done += header + record.payload.len();
        reader.walked += 1;
        reader.emitted += 1;
        Some(true)
    }

    /// Ends the batch: a closed packet is left behind, and what it held beyond is counted.
    fn finish_packet(&mut self) {
        let reader = &mut *self.reader;
        if !self.reader_is_here {
            return;
        }
        // In an open packet the last record may be counted and not yet published; it is missing
        // only if the walk ended before.
        let ended_early = self.closed || reader.done < self.words.len();
        if let (Some(committed), true) = (self.committed, ended_early) {
            reader.losses.unreadable = reader
                .losses
                .unreadable
                .saturating_add(committed.saturating_sub(reader.walked));
            reader.walked = reader.walked.max(committed);
        }
        if !self.closed {
            reader.stuck_at = if reader.done < self.words.len() {
                self.words.len()
            } else {
                0
            };
        } else {
            self.reader_is_here = false;
            // The record that closed it may be overwritten before it is read; the packet's end is
            // counted all the same.
            let end = self.end.unwrap_or(0);
            reader.time = reader.time.max(end);
            reader.stored_time = reader.stored_time.max(end);
            reader.go_to(reader.next.saturating_add(1));
        }
    }
}

/// The record at the front of `words`, and the words of its header; `None` where there is none, or
/// no whole one.
fn split_record<'a>(
    words: &'a [u32],
    now: u64,
    shapes: &impl Shapes,
) -> Option<(Record<'a>, usize)> {
    let Extent {
        time,
        id,
        header,
        bytes,
    } = extent(words.len(), |index| words.get(index).copied(), now, shapes)?;
    let len = bytes.div_ceil(4);
    let payload = words.get(header..header + len)?;
    Some((
        Record {
            time,
            id,
            payload,
            padding: (4 * len - bytes) as u8,
            stepped_back: 0,
        },
        header,
    ))
}

/// What a record's header and the lengths in it say.
pub(super) struct Extent {
    pub(super) time: u64,
    pub(super) id: u32,
    /// Words of its header.
    pub(super) header: usize,
    /// Bytes of its payload.
    pub(super) bytes: usize,
}

/// The record at the front of `len` words, of which `word` gives those that are asked for; `None`
/// where there is none, or no whole one.
pub(super) fn extent(
    len: usize,
    word: impl Fn(usize) -> Option<u32>,
    now: u64,
    shapes: &impl Shapes,
) -> Option<Extent> {
    let first = word(0)?;
    let short = first & ((1 << ID_BITS) - 1);
    // Inside a run of compact records the low bits never decrease but for a step back: their window
    // is that of the record before.
    let compact_time = (now >> TIME_BITS << TIME_BITS) | (u64::from(first >> ID_BITS) & TIME_MASK);
    let (time, id, header) = match short {
        0 => return None,
        EXTENDED => {
            let time = u64::from(word(2)?) | u64::from(word(3)?) << 32;
            (time, word(1)?, EXTENDED_WORDS)
        }
        COMPACT_IDS => (compact_time, word(1)?, 2),
        id => (compact_time, id, 1),
    };
    let bytes = shapes
        .shape(id)?
        .payload_bytes_of(len.checked_sub(header)?, |index| word(header + index))?;
    Some(Extent {
        time,
        id,
        header,
        bytes,
    })
}
