//! Seeks to a time without reading the events before it, using the packets' times as an index.
//!
//! If all packets of a stream have the same size, or an LTTng index lists them, the packet is found
//! by binary search; otherwise by going from header to header. Each header on the way must be valid
//! and belong to this stream. If one does not, or if packets do not have full times, the stream is
//! read from its beginning.

use std::sync::Arc;

use super::{Previous, Stream};
use crate::decode::plan::Plans;
use crate::decode::state::Slots;
use crate::metadata::clock::Ticks;
use crate::stream::packet::{self, Head};
use crate::stream::source::{Slice, Source as _};

/// Where the packets of a stream begin.
enum Packets {
    /// At multiples of this many bytes.
    Equal {
        size: u64,
        count: u64,
    },
    Listed(Arc<[u64]>),
}

impl Packets {
    fn count(&self) -> u64 {
        match self {
            Packets::Equal { count, .. } => *count,
            Packets::Listed(offsets) => offsets.len() as u64,
        }
    }

    fn offset(&self, number: u64) -> Option<u64> {
        match self {
            Packets::Equal { size, .. } => number.checked_mul(*size),
            Packets::Listed(offsets) => offsets.get(usize::try_from(number).ok()?).copied(),
        }
    }
}

/// The heads of a stream's packets, read one by one and in any order.
struct Heads<'a> {
    source: Slice<'a>,
    plans: Arc<Plans>,
    slots: Slots,
    first: Head,
}

impl<'a> Heads<'a> {
    fn of(stream: &Stream<Slice<'a>>) -> Option<Self> {
        let (mut source, plans) = (stream.source.clone(), Arc::clone(&stream.plans));
        let mut slots = Slots::new(plans.metadata.slots);
        source.seek(0, u64::MAX).ok()?;
        let first = packet::read(source.bytes(), &plans, &mut slots).ok()?;
        Some(Heads {
            source,
            plans,
            slots,
            first,
        })
    }

    /// The head at `offset`, if a packet of the first packet's stream begins there.
    fn at(&mut self, offset: u64) -> Option<Head> {
        self.source.seek(offset, u64::MAX).ok()?;
        let head = packet::read(self.source.bytes(), &self.plans, &mut self.slots).ok()?;
        let stream = |head: &Head| (head.plan.class.id, head.instance);
        (stream(&head) == stream(&self.first)).then_some(head)
    }

    /// When a packet begins, in nanoseconds from the clock's origin; `None` if no packet of this
    /// stream is there, or it has no time.
    fn begin_of(&mut self, packets: &Packets, number: u64) -> Option<i128> {
        let head = self.at(packets.offset(number)?)?;
        if let Packets::Equal { size, count } = packets
            && number + 1 < *count
            && head.packet_size? / 8 != *size
        {
            return None;
        }
        let clock = head.plan.class.clock.as_ref()?;
        Some(clock.nanos_from_origin(Ticks(full(head.begin)?)))
    }

    /// Where packets begin, by going from each to the next.
    fn offsets(&mut self) -> Option<Arc<[u64]>> {
        let (mut offsets, mut offset) = (Vec::new(), 0);
        while offset < self.source.len() {
            offsets.push(offset);
            offset = offset.checked_add(self.at(offset)?.packet_size? / 8)?;
        }
        Some(offsets.into())
    }
}

impl Stream<Slice<'_>> {
    /// Seeks to the last packet that begins before `from`, in nanoseconds from the clock's origin:
    /// no event or loss of an earlier packet reaches `from`. Call it before reading. It has no
    /// effect if that packet cannot be determined.
    pub(crate) fn skip_to(&mut self, from: i128) {
        let Some(mut heads) = Heads::of(self) else {
            return;
        };
        // Packets that seem to have the same size may turn out not to.
        let packets = self.packets_of_one_size(&mut heads);
        if self.skip_in(packets, &mut heads, from).is_none() {
            let packets = self.packets_by_head(&mut heads);
            let _ = self.skip_in(packets, &mut heads, from);
        }
    }

    /// Time of the stream's last event, in nanoseconds from the clock's origin. Call it before
    /// reading.
    pub(crate) fn last_event_nanos(self) -> Option<i128> {
        let mut heads = Heads::of(&self);
        let packets = heads.as_mut().and_then(|heads| {
            let packets = self.packets_of_one_size(heads);
            packets
                .filter(|packets| {
                    let last = packets.count().saturating_sub(1);
                    heads.begin_of(packets, last).is_some()
                })
                .or_else(|| self.packets_by_head(heads))
        });
        let mut number = packets.as_ref().map_or(0, Packets::count);
        loop {
            // The last packets may have no events.
            number = number.saturating_sub(1);
            let mut stream = self.unread(self.strict);
            if let (Some(packets), Some(heads)) = (&packets, &mut heads)
                && number > 0
                && stream.start_at(packets, heads, number).is_none()
            {
                number = 0;
            }
            let last = stream.read_to_last_event();
            if last.is_some() || number == 0 {
                return last;
            }
        }
    }

    /// Reads to the end; returns the time of the last event.
    fn read_to_last_event(&mut self) -> Option<i128> {
        let mut last = None;
        loop {
            let mut time = None;
            self.skim(usize::MAX, |_, _, clock| time = Some(clock));
            if time.is_none() {
                match self.advance() {
                    super::Next::Event => time = Some(self.clock.now),
                    super::Next::Note => {}
                    super::Next::End => return last,
                }
            }
            let clock = self.plan().and_then(|plan| plan.class.clock.as_ref());
            last = last.max(
                clock
                    .zip(time)
                    .map(|(clock, time)| clock.nanos_from_origin(Ticks(time))),
            );
        }
    }

    fn skip_in(
        &mut self,
        packets: Option<Packets>,
        heads: &mut Heads<'_>,
        from: i128,
    ) -> Option<()> {
        let packets = packets?;
        // Binary search for the first packet that does not begin before `from`.
        let (mut low, mut high) = (0, packets.count());
        while low < high {
            let middle = low + (high - low) / 2;
            if heads.begin_of(&packets, middle)? < from {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        match low.checked_sub(1) {
            None | Some(0) => Some(()),
            Some(number) => self.start_at(&packets, heads, number),
        }
    }

    /// Starts at packet `number`, which is not the first, as if those before it had been read.
    fn start_at(&mut self, packets: &Packets, heads: &mut Heads<'_>, number: u64) -> Option<()> {
        let offset = packets.offset(number)?;
        let before = heads.at(packets.offset(number.checked_sub(1)?)?)?;
        let clock = before.plan.class.clock.as_ref()?;
        self.first_begin = Some(clock.nanos_from_origin(Ticks(full(heads.first.begin)?)));
        self.has_begun = true;
        let end = before.end.and_then(|end| full(Some(end)));
        self.clock.now = end.unwrap_or(full(before.begin)?);
        self.previous = Some(Previous::of(&before, end.map(Ticks)));
        (self.packet.offset, self.packet.number) = (offset, number);
        Some(())
    }

    /// The packets, if all seem to have the size of the first: only the second and the last are
    /// read here, the others when they are used.
    fn packets_of_one_size(&self, heads: &mut Heads<'_>) -> Option<Packets> {
        if !self.index.is_empty() {
            return Some(Packets::Listed(Arc::clone(&self.index)));
        }
        // Without a magic number, bytes of events could pass for a header.
        self.magic()?;
        let size = heads.first.packet_size? / 8;
        let count = self.source.len().div_ceil(size.max(1));
        let packets = Packets::Equal { size, count };
        for number in [1, count.checked_sub(1)?] {
            if number < count {
                heads.begin_of(&packets, number)?;
            }
        }
        Some(packets)
    }

    /// The packets, found by reading each one's header; this is done once for all readers.
    fn packets_by_head(&self, heads: &mut Heads<'_>) -> Option<Packets> {
        let offsets = self.walked.get_or_init(|| heads.offsets());
        offsets.clone().map(Packets::Listed)
    }
}

/// A clock value, if it has all 64 bits.
fn full(value: Option<(u64, u8)>) -> Option<u64> {
    value
        .filter(|(_, size)| *size == 64)
        .map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::plan::Plans;
    use crate::{ItemRef, Metadata, Reader};

    const METADATA: &str = "/* CTF 1.8 */
        typealias integer { size = 32; align = 8; } := u32;
        typealias integer { size = 64; align = 8; map = clock.c.value; } := time;
        trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u32 magic; }; };
        clock { name = c; freq = 1000000000; };
        stream {
            packet.context := struct {
                time timestamp_begin; time timestamp_end; u32 content_size; u32 packet_size;
                u32 packet_seq_num; u32 events_discarded;
            };
            event.header := struct { time timestamp; };
        };
        event { name = tick; };";

    /// 40 packets of `size` bytes each, with occasional lost events and packets.
    fn stream(size: impl Fn(u64) -> u32, shift: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in 0..40 {
            let begin = bytes.len();
            let events = number % 4;
            let time = |step: u64| number * 100 + step * 20 + shift;
            bytes.extend(0xc1fc_1fc1_u32.to_le_bytes());
            bytes.extend(time(0).to_le_bytes());
            bytes.extend(time(4).to_le_bytes());
            bytes.extend(((36 + events as u32 * 8) * 8).to_le_bytes());
            bytes.extend((size(number) * 8).to_le_bytes());
            bytes.extend((number as u32 + number as u32 / 7).to_le_bytes());
            bytes.extend((number as u32 / 3).to_le_bytes());
            (0..events).for_each(|step| bytes.extend(time(step + 1).to_le_bytes()));
            bytes.resize(begin + size(number) as usize, 0);
        }
        bytes
    }

    fn shown(item: &ItemRef<'_>) -> String {
        match item {
            ItemRef::Event(event) => format!(
                "{:?} {} {}",
                event.nanos(),
                event.packet_number(),
                event.packet_offset()
            ),
            item => format!("{item:?}"),
        }
    }

    #[test]
    fn an_interval_has_what_a_whole_pass_has_of_it() {
        let metadata = Arc::new(Metadata::parse(METADATA).unwrap());
        let sizes: [fn(u64) -> u32; 3] = [
            |_| 80,
            |number| 80 + number as u32 % 5 * 8,
            |number| {
                if number == 39 { 64 } else { 72 }
            },
        ];
        for size in sizes {
            let streams = [stream(size, 0), stream(size, 7)];
            let streams = || streams.iter().map(|bytes| (&metadata, "s", &bytes[..]));
            let mut whole = Vec::new();
            let mut reader = Reader::new(streams());
            while let Some(item) = reader.next() {
                let (begin, end) = match &item {
                    ItemRef::Event(event) => (event.nanos().unwrap(), event.nanos().unwrap()),
                    ItemRef::Loss(loss) => (loss.begin_nanos.unwrap(), loss.end_nanos.unwrap()),
                    ItemRef::Problem(problem) => panic!("{problem:?}"),
                };
                whole.push((begin, end, shown(&item)));
            }
            assert!(whole.len() > 100);
            let begin = reader.begin_nanos();
            for from in (-20..4_100).step_by(15).map(Some).chain([None]) {
                for length in [0, 30, 2_000] {
                    let to = from.map(|from| from + length).filter(|_| length < 2_000);
                    let mut reader = Reader::new(streams()).between(from, to);
                    assert_eq!(reader.begin_nanos(), begin);
                    let mut part = Vec::new();
                    while let Some(item) = reader.next() {
                        part.push(shown(&item));
                    }
                    let wanted: Vec<_> = whole
                        .iter()
                        .filter(|(begin, end, _)| {
                            from.is_none_or(|from| from <= *end) && to.is_none_or(|to| *begin <= to)
                        })
                        .map(|(.., shown)| shown.clone())
                        .collect();
                    assert_eq!(part, wanted, "{from:?} to {to:?}");
                }
            }
        }
    }

    #[test]
    fn the_last_event_is_found_from_the_end() {
        let plans = Plans::of(&Arc::new(Metadata::parse(METADATA).unwrap()));
        let bytes = stream(|_| 80, 0);
        for packets in [1, 2, 3, 5, 38, 40] {
            let bytes = &bytes[..packets * 80];
            let last = Stream::new(Arc::clone(&plans), "s", Slice::new(bytes)).last_event_nanos();
            // Every fourth packet is empty.
            let number = (packets as i128 - 1) - i128::from(packets as i128 % 4 == 1);
            let wanted = (number >= 0).then(|| number * 100 + number % 4 * 20);
            assert_eq!(last, wanted, "{packets} packets");
        }
    }
}
