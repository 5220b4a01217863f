//! One channel as a CTF stream: ring packets in, trace packets out, losses counted once.
//!
//! Two readers use it. A kernel's `read` has a buffer of the caller's and fills it with one packet
//! a call: [`Stream::read`]. A host that writes files keeps a packet open until its page is full:
//! [`Stream::fill`], [`Stream::append`], [`Stream::seal`], [`Stream::next_packet`].

use super::packet::{HEADER_WORDS, PacketBuilder, StreamId, Totals, widened};
use crate::counter::{Records, Value};
use crate::event::Event;
use crate::ring::reader::{ChannelReader, Losses, Record, Shapes, View};
use crate::ring::source::{Outside, Source};
use crate::vocabulary::{ClockStep, Cpu, HistogramValue};

/// A channel that is read. What its packets hold, one after the other, is a CTF stream file.
#[derive(Clone, Debug)]
pub struct Stream {
    reader: ChannelReader,
    id: StreamId,
    /// The packet under construction.
    packet: PacketBuilder,
    /// What that packet reports.
    reported: Reported,
    /// What the packet before it reported; `None` where it is the anchor, an empty packet at the
    /// session's start from which readers count losses.
    before: Option<Reported>,
    /// When the packet ends, as far as is known: not before its last record.
    end: u64,
}

/// Why [`Stream::fill`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// There is nothing more now; what comes later may join the packet.
    Drained,
    /// The packet is complete: the next record does not fit, or a loss stands before it. An empty
    /// packet is complete where the buffer is too short for the record.
    Complete,
}

impl Stream {
    /// The stream of `reader`'s channel, of a session that began at `clock_start`. Its first packet
    /// is the anchor.
    pub fn new(reader: ChannelReader, uuid: [u8; 16], clock_start: u64) -> Stream {
        let id = StreamId {
            uuid,
            kind: reader.kind(),
            cpu: reader.cpu(),
        };
        Stream {
            reader,
            id,
            packet: PacketBuilder::new(clock_start),
            reported: Reported::default(),
            before: None,
            end: clock_start,
        }
    }

    /// Words that a buffer of [`read`](Self::read) has at least, for a channel with packets of
    /// `packet_words` and records of at most `record_words`: a packet of the trace with one record,
    /// and a packet of the ring.
    pub const fn buffer_words(packet_words: usize, record_words: usize) -> usize {
        HEADER_WORDS + Self::entry_words(record_words) + packet_words
    }

    /// Most words that a record of `words` (payload and usual header) takes in a packet of the
    /// trace, with the [`ClockStep`] that may stand before it.
    pub const fn entry_words(words: usize) -> usize {
        const STEP: usize =
            widened(ClockStep::SCHEMA.header_words() + ClockStep::SCHEMA.max_payload_words());
        STEP + widened(words)
    }

    /// The channel's reader.
    pub fn reader(&self) -> &ChannelReader {
        &self.reader
    }

    /// The trace, the kind of channel and the CPU.
    pub fn id(&self) -> &StreamId {
        &self.id
    }

    /// When the packet under construction ends, as far as is known.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Whether no record is in the packet under construction.
    pub fn is_empty(&self) -> bool {
        self.packet.events() == 0
    }

    /// Whether the packet has something to say: records, losses, or that the stream begins.
    pub fn has_news(&self) -> bool {
        !self.is_empty()
            || self
                .before
                .is_none_or(|before| before.next() != self.reported)
    }

    /// Writes the next packet to the front of `buffer`, and gives its length in words; 0 where
    /// there is nothing new. The words behind it are undefined. `after` is called after each ring
    /// packet, whole or not, whose records were taken.
    ///
    /// With [`View::PostMortem`] the last packet, empty if need be, reports all losses, and ends at
    /// `now` or later.
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
        after: impl FnMut(&ChannelReader) -> Result<(), Outside>,
    ) -> Result<usize, Outside> {
        let room = buffer
            .len()
            .checked_sub(self.reader.scratch_words())
            .ok_or(Outside)?;
        let (out, scratch) = buffer.split_at_mut_checked(room).ok_or(Outside)?;
        if room < HEADER_WORDS + Self::entry_words(record_words) {
            return Err(Outside);
        }
        if self.before.is_some() {
            // Discard what a call that failed has put into another buffer.
            self.packet = PacketBuilder::new(self.end);
            self.fill(source, shapes, view, out, scratch, after)?;
            if self.is_empty() {
                self.report_losses(source, view, now)?;
            }
            if !self.has_news() {
                return Ok(0);
            }
        }
        let words = self.seal(out, false);
        self.next_packet();
        Ok(words)
    }

    /// Puts what is new into the packet under construction, in `out`, which holds what was put
    /// there before. `scratch` has the reader's [`scratch_words`](ChannelReader::scratch_words).
    /// `after` is called after each ring packet, whole or not, whose records were taken.
    ///
    /// With [`View::Live`] it ends at the packet that is being written: a writer as fast as this
    /// reader must not keep it here.
    ///
    /// # Errors
    /// [`Outside`] where the memory has shrunk, and what `after` gives.
    pub fn fill<E: From<Outside>>(
        &mut self,
        source: &impl Source,
        shapes: &impl Shapes,
        view: View,
        out: &mut [u32],
        scratch: &mut [u32],
        mut after: impl FnMut(&ChannelReader) -> Result<(), E>,
    ) -> Result<Filled, E> {
        while let Some(mut batch) = self.reader.read(source, view, scratch)? {
            if self.reported.lacks(&batch.losses()) {
                // Readers place a loss between the ends of the packet before and of the packet that
                // reports it, so that packet begins here.
                if self.packet.events() > 0 {
                    return Ok(Filled::Complete);
                }
                self.packet = PacketBuilder::new(batch.begin().max(self.end));
                self.reported.take(&batch.losses());
            }
            let end = batch.end();
            while let Some(fits) =
                batch.offer_record(shapes, |record| push(&mut self.packet, out, record))
            {
                if !fits {
                    return Ok(Filled::Complete);
                }
            }
            self.end = self.end.max(self.packet.last()).max(end.unwrap_or(0));
            after(&self.reader)?;
            if end.is_none() && view == View::Live {
                break;
            }
        }
        Ok(Filled::Drained)
    }

    /// Makes the empty packet under construction report what was lost behind the last record, if no
    /// packet has yet; it then ends at `now` or later. With [`View::PostMortem`] the writer's last
    /// counts are taken first.
    ///
    /// # Errors
    /// [`Outside`] where the memory has shrunk.
    pub fn report_losses(
        &mut self,
        source: &impl Source,
        view: View,
        now: u64,
    ) -> Result<(), Outside> {
        if view == View::PostMortem {
            self.reader.refresh_dropped(source)?;
        }
        if self.reported.lacks(&self.reader.losses()) {
            self.reported.take(&self.reader.losses());
            self.end = self.end.max(now);
        }
        Ok(())
    }

    /// Appends what this CPU has counted in a counter, as
    /// [`Region::counter_value`](crate::ring::reader::Region::counter_value) has found it in
    /// memory, to the packet under construction, in `out`: with the records that the kernel would
    /// make of it at the time `now`, or at that of the last record if this is later. Gives their
    /// number; `None` where they do not fit, and the packet is as it was.
    ///
    /// A session that is stopped records all that was counted. Where it was not, a reader does that
    /// behind its last packet.
    pub fn append(
        &mut self,
        out: &mut [u32],
        now: u64,
        counter: u32,
        value: &Value,
    ) -> Option<u64> {
        let mut appended = Appended {
            packet: self.packet,
            out,
            now,
            fits: true,
        };
        value.records(Cpu(self.id.cpu), counter, &mut appended);
        let Appended { packet, fits, .. } = appended;
        let count = packet.events() - self.packet.events();
        if !fits {
            return None;
        }
        self.packet = packet;
        Some(count)
    }

    /// Writes header and context of the packet under construction, and zeros to the end of `out` if
    /// `pad`. Gives its length in words. More records may be put into it afterwards.
    pub fn seal(&mut self, out: &mut [u32], pad: bool) -> usize {
        self.end = self.end.max(self.packet.last());
        self.packet
            .seal(out, &self.id, self.end, self.reported.totals, pad)
    }

    /// The packet under construction is finished: the next one begins where it ends.
    pub fn next_packet(&mut self) {
        self.end = self.end.max(self.packet.last());
        self.before = Some(self.reported);
        self.reported = self.reported.next();
        self.packet = PacketBuilder::new(self.end);
    }
}

/// Appends a record, and before it the [`ClockStep`] if one stands there; `false` where they do not
/// fit.
#[inline]
fn push(packet: &mut PacketBuilder, out: &mut [u32], record: &Record<'_>) -> bool {
    if record.stepped_back == 0 {
        return packet.push(out, record);
    }
    let step = ClockStep {
        ticks: record.stepped_back,
    };
    let (words, used) = step.encode();
    let step = Record {
        id: ClockStep::ID,
        payload: words.get(..used).unwrap_or(&words),
        padding: 0,
        ..*record
    };
    let before = *packet;
    let both = packet.push(out, &step) && packet.push(out, record);
    if !both {
        *packet = before;
    }
    both
}

/// Words of the longest record of a counter's value.
const LONGEST_VALUE: usize = HistogramValue::SCHEMA.max_payload_words();

/// A packet to which a counter's value is appended.
struct Appended<'a> {
    packet: PacketBuilder,
    out: &'a mut [u32],
    now: u64,
    /// Whether all records had room.
    fits: bool,
}

impl Records for Appended<'_> {
    fn record(&mut self, id: u32, len: usize, words: impl Iterator<Item = u32>) {
        let mut payload = [0; LONGEST_VALUE];
        for (to, from) in payload.iter_mut().zip(words) {
            *to = from;
        }
        let record = Record {
            time: self.now,
            id,
            payload: payload.get(..len).unwrap_or(&payload),
            padding: 0,
            stepped_back: 0,
        };
        self.fits = self.fits && self.packet.push(self.out, &record);
    }
}

/// What a packet reports: its number, and what was lost before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reported {
    totals: Totals,
    /// Ring packets lost before it.
    lost_packets: u64,
}

impl Reported {
    /// What the next packet reports if nothing more is lost.
    fn next(self) -> Reported {
        let sequence = self.totals.sequence.saturating_add(1);
        Reported {
            totals: Totals {
                sequence,
                ..self.totals
            },
            ..self
        }
    }

    /// Whether there were losses that it does not report.
    fn lacks(&self, losses: &Losses) -> bool {
        losses.events() > self.totals.events_discarded || losses.packets > self.lost_packets
    }

    /// Makes it report them.
    fn take(&mut self, losses: &Losses) {
        let packets = losses.packets.saturating_sub(self.lost_packets);
        self.totals.sequence = self.totals.sequence.saturating_add(packets);
        self.totals.events_discarded = self.totals.events_discarded.max(losses.events());
        self.lost_packets = self.lost_packets.max(losses.packets);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
#[cfg(target_pointer_width = "64")]
mod tests {
    use super::*;
    use crate::channel::ChannelSet;
    use crate::event::Vocabulary;
    use crate::ring::config::Config;
    use crate::ring::layout::{CONTROL_OFFSET, ChannelKind, Clock, Consumer, Control, Overflow};
    use crate::ring::local_cas::LocalCas;
    use crate::ring::reader::Region;
    use crate::ring::source::Bytes;
    use crate::sync::Ordering::Relaxed;
    use crate::thread_cpu::{BLOCK, CLOCK, OneThread, leaked};

    crate::event! { #[id(21)] struct Short { seq: u32, check: u32 } }
    static VOCABULARY: Vocabulary = crate::vocabulary![Short];
    const CHANNELS: ChannelSet = ChannelSet {
        cpus: 2,
        samples: false,
    };
    type T = crate::Tracer<OneThread<LocalCas>>;

    /// The machine dies while a writer opens a packet: what interrupts dropped then stands in no
    /// packet, and is reported all the same.
    #[test]
    fn the_last_packet_tells_what_was_dropped_when_the_machine_died() {
        CLOCK.set(0);
        let memory = leaked(2 << 20, 2);
        let config = Config {
            cpus: 2,
            packet_size: 256,
            packets: 4,
            names_packets: 4,
            overflow: Overflow::Overwrite,
            clock: Clock::at(1_000_000_000),
            hosted: true,
            ..Config::DEFAULT
        };
        let session = T::start(memory, &config, &VOCABULARY).unwrap();
        BLOCK.set(memory.control(0));
        // Seventeen records of three words fill a packet; the next one opens another.
        (0..18).for_each(|seq| _ = T::record(Short { seq, check: !seq }));
        let live = session.live();
        let mut bytes: Vec<u8> = (0..live.len() / 4)
            .flat_map(|word| live.load(4 * word).unwrap().to_le_bytes())
            .collect();
        let region = Region::open(&Bytes(&bytes)).unwrap();
        // SAFETY: the block of a leaked region.
        let ring = unsafe { (*memory.control(0)).ring_offset.load(Relaxed) } as usize;
        let slot = ring + 256;
        assert_eq!(bytes[slot + 8..slot + 16], 1u64.to_le_bytes(), "it is open");
        bytes[slot..slot + 4].fill(0);
        bytes[slot + 8..slot + 16].fill(0xff);
        let discarded = CONTROL_OFFSET + core::mem::offset_of!(Control, discarded);
        bytes[discarded] = 5;
        let source = Bytes(&bytes);
        let reader = region.channel(&source, 0, ChannelKind::Events).unwrap();
        let mut stream = Stream::new(reader, [7; 16], 0);
        let mut buffer = vec![0; 1024];
        let mut read = |view| {
            let words = stream
                .read(
                    &source,
                    &VOCABULARY,
                    (view, 99),
                    VOCABULARY.max_record_words(CHANNELS),
                    &mut buffer,
                    |_| Ok(()),
                )
                .unwrap();
            // Words, end, number, and events discarded.
            (words, buffer[10], buffer[16], buffer[18])
        };
        assert_eq!(read(View::Live), (21, 0, 0, 0), "the anchor");
        assert_eq!(read(View::Live), (21 + 51, 0, 1, 0), "what is whole");
        assert_eq!(read(View::Live).0, 0);
        // One packet of the ring is gone with its writer.
        assert_eq!(read(View::PostMortem), (21, 99, 3, 5));
        assert_eq!(read(View::PostMortem).0, 0);
    }
    /// Two gaps wait in a ring that drops: each loss is reported by the packet behind it, also
    /// where the record at which that packet begins was refused once, for the loss or for want of
    /// room.
    #[test]
    fn each_of_two_gaps_is_reported_where_it_lies() {
        /// Room for the header and seventeen records of three words, which fill a ring packet.
        const ONE: usize = HEADER_WORDS + 17 * 3;
        assert_eq!(
            two_gaps(1024),
            [(17, 0), (17, 0), (34, 0), (17, 5), (1, 12)]
        );
        assert_eq!(
            two_gaps(ONE),
            [(17, 0), (17, 0), (17, 0), (17, 0), (17, 5), (1, 12)]
        );
    }

    /// Records and discarded events of the packets that `read` gives: two of `ONE`, then those of a
    /// buffer with `room` beside the copy.
    fn two_gaps(room: usize) -> Vec<(u32, u32)> {
        const COPY: usize = 256 / 4;
        CLOCK.set(0);
        let memory = leaked(2 << 20, 2);
        let config = Config {
            cpus: 2,
            packet_size: 256,
            packets: 4,
            names_packets: 4,
            overflow: Overflow::Discard,
            consumer: Consumer::Kernel,
            clock: Clock::at(1_000_000_000),
            hosted: true,
            ..Config::DEFAULT
        };
        let session = T::start(memory, &config, &VOCABULARY).unwrap();
        BLOCK.set(memory.control(0));
        let record =
            |count: u32| (0..count).for_each(|seq| _ = T::record(Short { seq, check: !seq }));
        let live = session.live();
        let region = Region::open(&live).unwrap();
        let reader = region.channel(&live, 0, ChannelKind::Events).unwrap();
        let mut stream = Stream::new(reader, [7; 16], 0);
        let mut read = |room: usize| {
            let mut buffer = vec![0; room + COPY];
            let record_words = VOCABULARY.max_record_words(CHANNELS);
            let words = stream
                .read(
                    &live,
                    &VOCABULARY,
                    (View::Live, 0),
                    record_words,
                    &mut buffer,
                    |reader| reader.release(&live),
                )
                .unwrap();
            let records = (words as u32).checked_sub(HEADER_WORDS as u32)? / 3;
            Some((records, buffer[18]))
        };
        assert_eq!(read(room), Some((0, 0)), "the anchor");
        let mut packets = Vec::new();
        record(4 * 17 + 5);
        packets.extend(read(HEADER_WORDS + 17 * 3));
        record(17 + 7);
        packets.extend(read(HEADER_WORDS + 17 * 3));
        record(1);
        packets.extend(std::iter::from_fn(|| read(room)));
        packets
    }
}
