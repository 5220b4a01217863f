//! One channel as a CTF stream, a packet a call, into a buffer of the caller's: what a kernel's
//! `read` gives.

use super::packet::{HEADER_WORDS, PacketBuilder, StreamId, Totals, widened};
use crate::ring::reader::{ChannelReader, Losses, Shapes, View};
use crate::ring::source::{Outside, Source};

/// A channel that is read. What its packets hold, one after the other, is a CTF stream file.
#[derive(Clone, Debug)]
pub struct Stream {
    reader: ChannelReader,
    id: StreamId,
    /// What the last packet told of; `None` before the anchor, an empty packet at the session's
    /// start from which readers count losses.
    told: Option<Reported>,
    /// When the last packet ended.
    end: u64,
}

impl Stream {
    /// The stream of `reader`'s channel, of a session that began at `clock_start`.
    pub fn new(reader: ChannelReader, uuid: [u8; 16], clock_start: u64) -> Stream {
        let id = StreamId {
            uuid,
            kind: reader.kind(),
            cpu: reader.cpu(),
        };
        Stream {
            reader,
            id,
            told: None,
            end: clock_start,
        }
    }

    /// Words that a buffer has at least, for a channel with packets of `packet_words` and records
    /// of at most `record_words`: a packet of the trace with one record, and a packet of the ring.
    pub const fn buffer_words(packet_words: usize, record_words: usize) -> usize {
        HEADER_WORDS + widened(record_words) + packet_words
    }

    /// The channel's reader.
    pub fn reader(&self) -> &ChannelReader {
        &self.reader
    }

    /// Writes the next packet to the front of `buffer`, and gives its length in words; 0 where
    /// there is nothing new. The words behind it are undefined. `after` is called after each ring
    /// packet, whole or not, whose records were taken.
    ///
    /// With [`View::PostMortem`] the last packet, empty if need be, tells of all losses, and ends
    /// at `now` or later.
    ///
    /// # Errors
    /// [`Outside`] where the memory has shrunk, or `buffer` is shorter than
    /// [`buffer_words`](Self::buffer_words).
    pub fn read(
        &mut self,
        source: &impl Source,
        shapes: &impl Shapes,
        (view, now): (View, u64),
        record_words: usize,
        buffer: &mut [u32],
        mut after: impl FnMut(&ChannelReader) -> Result<(), Outside>,
    ) -> Result<usize, Outside> {
        let room = buffer
            .len()
            .checked_sub(self.reader.scratch_words())
            .ok_or(Outside)?;
        let (out, scratch) = buffer.split_at_mut_checked(room).ok_or(Outside)?;
        if room < HEADER_WORDS + widened(record_words) {
            return Err(Outside);
        }
        let Some(before) = self.told else {
            return Ok(self.seal(PacketBuilder::new(self.end), out, Reported::default()));
        };
        let mut told = before.next();
        let mut packet = PacketBuilder::new(self.end);
        while let Some(mut batch) = self.reader.read(source, view, scratch)? {
            if told.lacks(&batch.losses()) {
                // Readers put a loss between the ends of the packet before and of the packet that
                // tells of it, so that one begins here.
                if packet.events() > 0 {
                    break;
                }
                packet = PacketBuilder::new(batch.begin().max(self.end));
                told.take(&batch.losses());
            }
            let end = batch.end();
            let mut more = true;
            while more && packet.words() + widened(record_words) <= room {
                more = batch
                    .next_record(shapes)
                    .is_some_and(|record| packet.push(out, &record));
            }
            if more {
                break; // There is no room for what is left.
            }
            if let Some(end) = end {
                self.end = self.end.max(end);
            }
            after(&self.reader)?;
            if end.is_none() {
                break; // The open packet: a writer as fast as this reader must not keep it here.
            }
        }
        if packet.events() == 0 {
            if view == View::PostMortem {
                self.reader.refresh_dropped(source)?;
            }
            if told.lacks(&self.reader.losses()) {
                told.take(&self.reader.losses());
                self.end = self.end.max(now);
            } else if told.lost_packets == before.lost_packets
                && told.totals.events_discarded == before.totals.events_discarded
            {
                return Ok(0);
            }
        }
        Ok(self.seal(packet, out, told))
    }

    fn seal(&mut self, packet: PacketBuilder, out: &mut [u32], told: Reported) -> usize {
        self.end = self.end.max(packet.last());
        self.told = Some(told);
        packet.seal(out, &self.id, self.end, told.totals(), false)
    }
}

/// What a packet tells of: its number, and what was lost before it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reported {
    totals: Totals,
    /// Ring packets lost before it.
    lost_packets: u64,
}

impl Reported {
    /// Of the packet behind it, if nothing more is lost.
    pub fn next(self) -> Reported {
        let sequence = self.totals.sequence.saturating_add(1);
        Reported {
            totals: Totals {
                sequence,
                ..self.totals
            },
            ..self
        }
    }

    /// As the packet's context has it.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Whether there were losses that it does not tell of.
    pub fn lacks(&self, losses: &Losses) -> bool {
        losses.events() > self.totals.events_discarded || losses.packets > self.lost_packets
    }

    /// Makes it tell of them.
    pub fn take(&mut self, losses: &Losses) {
        let packets = losses.packets.saturating_sub(self.lost_packets);
        self.totals.sequence = self.totals.sequence.saturating_add(packets);
        self.totals.events_discarded = self.totals.events_discarded.max(losses.events());
        self.lost_packets = self.lost_packets.max(losses.packets);
    }
}
