//! CTF packets around records.
//!
//! A packet of the trace is not a packet of the ring: the reader puts as many records into one as
//! the buffer holds. Header and context are laid out as the metadata in [`super::tsdl`] declares
//! them; [`HEADER_WORDS`], and a test that reads the one by the other, keep the two in step.

use crate::ring::layout::{
    COMPACT_IDS, ChannelKind, EXTENDED, EXTENDED_WORDS, MEDIUM, TIME_BITS, compact_header,
};
use crate::ring::reader::Record;

/// First word of every packet.
pub const MAGIC: u32 = 0xc1fc_1fc1;
/// Words before the first record: packet header (8) and packet context (13).
pub const HEADER_WORDS: usize = 21;

/// Which stream a packet belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamId {
    /// UUID of the trace.
    pub uuid: [u8; 16],
    /// Stream class.
    pub kind: ChannelKind,
    /// Instance of the stream class.
    pub cpu: u32,
}

/// The totals that a packet's context carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of the packet in its stream; grows by one, and by one more for every ring packet lost
    /// before it.
    pub sequence: u64,
    /// Events lost since the session began. Never decreases.
    pub events_discarded: u64,
}

/// A packet under construction in a buffer of words.
#[derive(Clone, Copy, Debug)]
pub struct PacketBuilder {
    used: usize,
    /// Bytes of the last word that are padding. The content ends before them: readers look for a
    /// record in whatever is left.
    padding: u8,
    begin: u64,
    last: u64,
    events: u64,
}

impl PacketBuilder {
    /// An empty packet that begins at `begin`.
    pub fn new(begin: u64) -> Self {
        PacketBuilder {
            used: HEADER_WORDS,
            padding: 0,
            begin,
            last: begin,
            events: 0,
        }
    }

    /// How many records it holds.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// How many words it has so far, including the header.
    pub fn words(&self) -> usize {
        self.used
    }

    /// Time of the last record, or of the beginning.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Appends a record; `false` where it does not fit.
    ///
    /// The header is compact or medium inside of the time window of the record before (of the
    /// packet's beginning), else extended. A time before the last one is clamped to it: readers
    /// reject what steps back.
    pub fn push(&mut self, buffer: &mut [u32], record: &Record<'_>) -> bool {
        let time = record.time.max(self.last);
        let id = record.id;
        let halves = [time as u32, (time >> 32) as u32];
        let header: &[u32] = if time >> TIME_BITS != self.last >> TIME_BITS {
            &[EXTENDED, id, halves[0], halves[1]]
        } else if id < COMPACT_IDS {
            &[compact_header(time, id)]
        } else {
            &[compact_header(time, MEDIUM), id]
        };
        let end = self.used + header.len() + record.payload.len();
        let Some(room) = buffer.get_mut(self.used..end) else {
            return false;
        };
        for (to, from) in room.iter_mut().zip(header.iter().chain(record.payload)) {
            *to = *from;
        }
        self.used = end;
        self.padding = record.padding;
        self.last = time;
        self.events += 1;
        true
    }

    /// Writes header and context, fills the rest of `buffer` with zeros if `pad`, and gives the
    /// packet's length in words.
    ///
    /// May be called again after more records were pushed. 0 where `buffer` is shorter than a
    /// header.
    pub fn seal(
        &self,
        buffer: &mut [u32],
        stream: &StreamId,
        end: u64,
        totals: Totals,
        pad: bool,
    ) -> usize {
        let len = if pad { buffer.len() } else { self.used };
        let end = end.max(self.last);
        let [u0, u1, u2, u3] = [0, 4, 8, 12].map(|at| {
            let byte = |index: usize| stream.uuid.get(at + index).copied().unwrap_or(0);
            u32::from_le_bytes([byte(0), byte(1), byte(2), byte(3)])
        });
        let (content_bits, packet_bits) = (
            32 * self.used as u64 - 8 * u64::from(self.padding),
            32 * len as u64,
        );
        let long = |value: u64| [value as u32, (value >> 32) as u32];
        let longs = [
            u64::from(stream.cpu),
            self.begin,
            end,
            content_bits,
            packet_bits,
            totals.sequence,
            totals.events_discarded,
        ];
        let words = [MAGIC, u0, u1, u2, u3, stream.kind as u32]
            .into_iter()
            .chain(longs.into_iter().flat_map(long))
            .chain([stream.cpu]);
        if self.used > len {
            return 0;
        }
        let Some(header) = buffer.get_mut(..HEADER_WORDS) else {
            return 0;
        };
        for (to, from) in header.iter_mut().zip(words) {
            *to = from;
        }
        if let Some(padding) = buffer.get_mut(self.used..len) {
            padding.fill(0);
        }
        len
    }
}

/// Most words that a record of `words` (payload and usual header) can take in a packet of the
/// trace.
pub const fn widened(words: usize) -> usize {
    words + EXTENDED_WORDS - 1
}

const _: () = assert!(HEADER_WORDS == 6 + 2 * 7 + 1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_in_another_window_gets_an_extended_header_and_times_never_step_back() {
        let mut buffer = [0xaaaa_aaaa; 64];
        let begin = (5 << TIME_BITS) - 1;
        let mut packet = PacketBuilder::new(begin);
        let record = |time, id| Record {
            time,
            id,
            payload: &[7],
            padding: 3,
            stepped_back: 0,
        };
        assert!(packet.push(&mut buffer, &record(begin, 3)));
        assert!(packet.push(&mut buffer, &record(5 << TIME_BITS, 3)));
        assert!(packet.push(&mut buffer, &record(0, 32)));
        let expected = [
            compact_header(begin, 3),
            7,
            EXTENDED,
            3,
            5 << TIME_BITS,
            0,
            7,
            compact_header(5 << TIME_BITS, MEDIUM),
            32,
            7,
        ];
        assert_eq!(buffer[HEADER_WORDS..HEADER_WORDS + 10], expected);
        let stream = StreamId {
            uuid: [1; 16],
            kind: ChannelKind::Names,
            cpu: 3,
        };
        let totals = Totals {
            sequence: 8,
            events_discarded: 9,
        };
        assert_eq!(
            packet.seal(&mut buffer, &stream, 0, totals, false),
            HEADER_WORDS + 10
        );
        assert_eq!(buffer[8..10], [begin as u32, (begin >> 32) as u32]);
        assert_eq!(buffer[10..12], [5 << TIME_BITS, 0]);
        assert_eq!(buffer[12], 32 * (HEADER_WORDS as u32 + 10) - 24);
        assert_eq!(buffer[20], 3);
        assert_eq!(packet.seal(&mut buffer, &stream, 0, totals, true), 64);
        assert!(buffer[HEADER_WORDS + 10..].iter().all(|&word| word == 0));
        assert!(!packet.push(&mut buffer[..HEADER_WORDS + 10], &record(5 << TIME_BITS, 3)));
    }
}
