//! Counting on the CPUs that a test thread is in turn, and what every reader makes of it.

use super::{
    BUCKETS, Counters, Declaration, Declared, Distribution, HISTOGRAM_WORDS, Kind, Value, bounds,
    bucket,
};
use crate::channel::ChannelKind;
use crate::event::{Event, Vocabulary};
use crate::platform::Platform;
use crate::ring::config::{Config, Error};
use crate::ring::layout::{Clock, HEADER_WORDS, Header};
use crate::ring::local::ByPointer;
use crate::ring::masked::Masked;
use crate::ring::reader::{Region, View};
use crate::ring::region::Memory;
use crate::ring::source::{Bytes, Live, Outside, Source};
use crate::session::Session;
use crate::thread_cpu::{BLOCK, Block, CLOCK, NoInterrupts, leaked};
use crate::tracer::Tracer;
use crate::vocabulary::{CounterValue, GaugeValue, HistogramValue};

crate::counter! {
    /// Threads that became ready: "woken", or new.
    #[id(0)] #[unit(threads)]
    struct Woken;
}
crate::counter! {
    /// Interrupts.
    #[id(3)] #[unit(interrupts)] #[name("irqs")] #[unnested]
    struct Interrupts;
}
crate::gauge! {
    /// Threads that are ready.
    #[id(1)] #[unit(threads)]
    struct Ready;
}
crate::histogram! {
    /// Delays.
    #[id(100)] #[unit(ticks)]
    struct Delay;
}

const COUNTERS: Counters = crate::counters![Woken, Ready, Delay, Interrupts];
const WORDS: u32 = COUNTERS.words();
static VOCABULARY: Vocabulary = crate::vocabulary![CounterValue, GaugeValue, HistogramValue];

/// A machine like those of the other tests, with counters.
#[derive(Debug)]
struct Counting;
// SAFETY: see `Block`; every test gives its memory `WORDS`.
unsafe impl Platform for Counting {
    type Reserve = Masked<NoInterrupts>;
    type Local = ByPointer<Block>;
    const COUNTERS: Counters = COUNTERS;
    fn clock() -> u64 {
        CLOCK.get()
    }
    fn synchronize() {}
}

type Kymo = Tracer<Counting>;

fn memory() -> Memory {
    leaked(256 << 10, 2).with_counters(WORDS)
}

fn config() -> Config {
    Config {
        cpus: 2,
        packet_size: 1024,
        packets: 16,
        names_packets: 4,
        clock: Clock::at(1_000),
        hosted: true,
        ..Config::DEFAULT
    }
}

fn start(memory: Memory, config: &Config) -> Session<Counting> {
    Kymo::start(memory, config, &VOCABULARY).unwrap()
}

/// From here on the thread is this CPU.
fn be(memory: &Memory, cpu: u32) {
    BLOCK.set(memory.control(cpu));
}

#[test]
fn a_declaration_says_all_of_a_counter() {
    let schema = Interrupts::SCHEMA;
    assert_eq!(
        (schema.id, schema.name, schema.unit, schema.kind),
        (3, "irqs", "interrupts", Kind::Counter)
    );
    assert_eq!(schema.doc.trim(), "Interrupts.");
    assert_eq!((Woken::NESTS, Interrupts::NESTS), (true, false));
    assert_eq!((Woken::SCHEMA.name, Delay::SCHEMA.words()), ("woken", 66));
    assert_eq!(WORDS, 100 + HISTOGRAM_WORDS);
    assert_eq!(Counters::NONE.words(), 0);
}

#[test]
fn each_number_of_bits_has_a_bucket() {
    for (value, expected) in [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (u64::MAX, 64)] {
        assert_eq!(bucket(value), expected, "{value}");
        assert_eq!(super::by_bytes(value), expected, "{value}");
    }
    let mut next = 0;
    for index in 0..BUCKETS {
        let (least, greatest) = bounds(index);
        assert_eq!(
            (least, bucket(least), bucket(greatest)),
            (next, index, index)
        );
        next = greatest.wrapping_add(1);
    }
    let every_power = (0..64).map(|bits| 1u64 << bits);
    for value in every_power.flat_map(|power| [power - 1, power, power + 1]) {
        assert_eq!(super::by_bytes(value), bucket(value), "{value}");
    }
    assert_eq!(next, 0, "the last bucket ends with the greatest number");
}

#[test]
fn a_quantile_is_the_bucket_of_the_value_at_its_rank() {
    assert_eq!(Distribution::default().quantile(500), None);
    let mut found = Distribution::default();
    // 98 ones, a nine and a thousand.
    (found.buckets[1], found.buckets[4], found.buckets[10]) = (98, 1, 1);
    assert_eq!(found.quantile(0), Some((1, 1)));
    assert_eq!(found.quantile(500), Some((1, 1)));
    assert_eq!(found.quantile(980), Some((1, 1)));
    assert_eq!(found.quantile(990), Some((8, 15)));
    assert_eq!(found.quantile(1000), Some((512, 1023)));
    found.add(&Distribution {
        buckets: [u64::MAX; BUCKETS],
        sum: 0,
    });
    assert_eq!(
        found.quantile(1000),
        Some(bounds(64)),
        "it does not overflow"
    );
}

/// What the region's readers see of a CPU.
fn seen(source: &impl Source, cpu: u32) -> [Value; 4] {
    let region = Region::open(source).unwrap();
    COUNTERS
        .list()
        .iter()
        .map(|schema| {
            region
                .counter_value(source, cpu, schema.kind, schema.id)
                .unwrap()
        })
        .collect::<Vec<_>>()
        .try_into()
        .unwrap()
}

#[test]
fn every_reader_sees_what_was_counted_before_during_and_after_a_session() {
    let memory = memory();
    be(&memory, 0);
    Kymo::add::<Woken>(5);
    let session = start(memory, &config());
    Kymo::add::<Woken>(2);
    Kymo::add::<Ready>(2);
    be(&memory, 1);
    Kymo::add::<Ready>(-3);
    Kymo::add::<Interrupts>(1);
    Kymo::observe::<Delay>(0);
    Kymo::observe::<Delay>(700);
    Kymo::observe::<Delay>(513);
    session.stop().unwrap();
    Kymo::add::<Interrupts>(1);

    assert_eq!(
        (memory.counted::<Woken>(0), memory.counted::<Woken>(1)),
        (Some(7), Some(0))
    );
    assert_eq!(
        (memory.counted::<Woken>(2), memory.total::<Woken>()),
        (None, 7)
    );
    assert_eq!(
        (memory.counted::<Ready>(1), memory.total::<Ready>()),
        (Some(-3), -1)
    );
    let mut expected = Distribution::default();
    (expected.buckets[0], expected.buckets[10], expected.sum) = (1, 2, 1213);
    assert_eq!(memory.observed::<Delay>(1), Some(expected));
    assert_eq!(memory.observed::<Delay>(0), Some(Distribution::default()));

    let live = memory.live();
    let own = |cpu| {
        COUNTERS
            .list()
            .iter()
            .map(move |schema| memory.value(cpu, schema).unwrap())
    };
    assert!(own(0).eq(seen(&live, 0)) && own(1).eq(seen(&live, 1)));
    let first = [
        Value::Counter(7),
        Value::Gauge(2),
        Value::Histogram(Distribution::default()),
        Value::Counter(0),
    ];
    let second = [
        Value::Counter(0),
        Value::Gauge(-3),
        Value::Histogram(expected),
        Value::Counter(2),
    ];
    assert_eq!((seen(&live, 0), seen(&live, 1)), (first, second));
    let dump = bytes(&live);
    assert_eq!(
        (seen(&Bytes(&dump), 0), seen(&Bytes(&dump), 1)),
        (first, second)
    );
    // The blocks of the next CPU are where they were: its channels can be read.
    let region = Region::open(&live).unwrap();
    assert!(region.counter_words() >= WORDS);
    assert!(region.channel(&live, 1, ChannelKind::Names).is_ok());
    let past = region.counter_words();
    for (cpu, id) in [(2, 0), (0, past), (0, u32::MAX)] {
        assert!(region.counter_value(&live, cpu, Kind::Counter, id).is_err());
    }
    assert!(
        region
            .counter_value(&live, 0, Kind::Histogram, past - 1)
            .is_err()
    );
}

#[test]
fn what_an_earlier_boot_has_left_is_cleared() {
    let memory = memory();
    be(&memory, 1);
    Kymo::add::<Woken>(1);
    Kymo::observe::<Delay>(u64::MAX);
    // The control blocks, which stand between the counters, stay as they are.
    start(memory, &config()).stop().unwrap();
    memory.clear_counters();
    assert_eq!(memory.total::<Woken>(), 0);
    assert_eq!(memory.observed::<Delay>(1), Some(Distribution::default()));
    let live = memory.live();
    let region = Region::open(&live).unwrap();
    assert!(region.channel(&live, 1, ChannelKind::Names).is_ok());
}

/// V-12: no CPU's counters share a line with another's, nor with control blocks.
#[test]
fn each_cpu_has_lines_of_its_own() {
    let memory = memory();
    let (first, second) = (memory.control(0).addr(), memory.control(1).addr());
    let lines = |from: usize, bytes: usize| from / 128..(from + bytes).div_ceil(128);
    let counters = lines(
        first + super::offset(0),
        WORDS as usize * size_of::<usize>(),
    );
    assert!(counters.start >= lines(first, super::offset(0)).end);
    assert!(counters.end <= lines(second, 1).start);
}

fn bytes(live: &Live) -> Vec<u8> {
    let words = 0..live.len() / 4;
    words
        .flat_map(|word| live.load(4 * word).unwrap().to_le_bytes())
        .collect()
}

#[cfg(target_pointer_width = "64")]
#[test]
fn the_words_of_a_32_bit_kernel_are_half_as_wide() {
    use crate::ring::layout::{HEADER_WORDS, Header};

    let memory = memory();
    be(&memory, 0);
    let session = start(memory, &config());
    session.stop().unwrap();
    let live = memory.live();
    let mut dump = bytes(&live);
    let mut words = [0; HEADER_WORDS];
    live.copy(0, &mut words).unwrap();
    let header = Header::from_words(&words).unwrap();
    let narrow = Header {
        word_size: 4,
        ..header.clone()
    };
    for (bytes, word) in dump.chunks_mut(4).zip(narrow.to_words()) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    let at = header.control_offset as usize + super::offset(0);
    dump[at..at + 8].copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 0xfe, 0xff, 0xff, 0xff]);
    let source = Bytes(&dump);
    let region = Region::open(&source).unwrap();
    let value = |kind, id| region.counter_value(&source, 0, kind, id).unwrap();
    assert_eq!(value(Kind::Counter, 0), Value::Counter(u32::MAX.into()));
    assert_eq!(value(Kind::Gauge, 1), Value::Gauge(-2));
    assert_eq!(
        region.counter_words(),
        2 * Region::open(&live).unwrap().counter_words()
    );
}

/// A region of any size, whose words are random behind the header.
struct Anything {
    header: [u32; HEADER_WORDS],
    len: u64,
}

impl Source for Anything {
    fn len(&self) -> u64 {
        self.len
    }
    fn load(&self, offset: u64) -> Result<u32, Outside> {
        if !offset.is_multiple_of(4) || offset > self.len - 4 {
            return Err(Outside);
        }
        let word = (offset / 4) as usize;
        let random = (offset ^ self.len).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        Ok(self.header.get(word).copied().unwrap_or(random as u32))
    }
    fn load_long(&self, offset: u64) -> Result<u64, Outside> {
        let high = self.load(offset.checked_add(4).ok_or(Outside)?)?;
        Ok(u64::from(high) << 32 | u64::from(self.load(offset)?))
    }
}

/// V-12: whatever a header says, words are those of the region and of the CPU's own, or there are
/// none.
#[test]
fn any_header_has_counters_or_none() {
    let memory = memory();
    start(memory, &config()).stop().unwrap();
    let good = Region::open(&memory.live()).unwrap().header().clone();
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        state >> 20
    };
    let (mut accepted, mut read) = (0, 0);
    for _ in 0..20_000 {
        let mut any = |usual: u64| match random() % 12 {
            0 => random() >> (random() % 44),
            1 => u64::MAX - random() % 5_000,
            2 => usual.wrapping_add(8 * (random() % 3)),
            _ => usual,
        };
        let header = Header {
            total_size: any(good.total_size),
            incompat: any(good.incompat.into()) as u32,
            cpus: any(good.cpus.into()) as u32,
            kinds: any(good.kinds.into()) as u32,
            control_offset: any(good.control_offset),
            control_size: any(good.control_size.into()) as u32,
            word_size: if random() % 2 == 0 { 4 } else { 8 },
            ..good.clone()
        };
        let source = Anything {
            header: header.to_words(),
            len: header.total_size.max(1 << 20),
        };
        let Ok(region) = Region::open(&source) else {
            continue;
        };
        accepted += 1;
        let words = region.counter_words();
        let near = [
            0,
            words / 2,
            words.wrapping_sub(66),
            words.wrapping_sub(1),
            words,
        ];
        let cpus = [0, header.cpus - 1, header.cpus, u32::MAX];
        for id in near.into_iter().chain([u32::MAX, random() as u32]) {
            for (cpu, kind) in cpus
                .into_iter()
                .flat_map(|cpu| Kind::ALL.map(|kind| (cpu, kind)))
            {
                let value = region.counter_value(&source, cpu, kind, id);
                let end = u64::from(id) + u64::from(kind.words());
                let inside = cpu < header.cpus && end <= u64::from(words);
                assert_eq!(
                    value.is_ok(),
                    inside,
                    "{kind:?} {id} of CPU {cpu}: {header:?}"
                );
                read += u32::from(inside);
            }
        }
    }
    assert!(accepted > 2_000 && read > 20_000, "{accepted}, {read}");
}

#[test]
fn memory_with_too_few_words_is_refused() {
    let memory = leaked(256 << 10, 2).with_counters(WORDS - 1);
    let refused = Kymo::start(memory, &config(), &VOCABULARY).unwrap_err();
    assert!(
        matches!(refused, Error::Config(what) if what.contains("counters")),
        "{refused}"
    );
    let endless = Config {
        counters_period: 1 << 62,
        ..config()
    };
    assert!(Kymo::start(self::memory(), &endless, &VOCABULARY).is_err());
}

#[test]
fn a_region_without_counters_is_as_it_was() {
    let memory = leaked(256 << 10, 2);
    let session = Tracer::<crate::thread_cpu::OneThread<Masked<NoInterrupts>>>::start(
        memory,
        &config(),
        &VOCABULARY,
    );
    session.unwrap().stop().unwrap();
    let region = Region::open(&memory.live()).unwrap();
    assert_eq!((region.header().kinds, region.counter_words()), (3, 0));
    assert_eq!(region.header().incompat & crate::ring::layout::COUNTERS, 0);
}

/// The records of a CPU's events: id and payload.
fn records(memory: &Memory, cpu: u32) -> Vec<(u32, Vec<u32>)> {
    let live = memory.live();
    let region = Region::open(&live).unwrap();
    let mut reader = region.channel(&live, cpu, ChannelKind::Events).unwrap();
    let (mut records, mut scratch) = (Vec::new(), vec![0; reader.scratch_words()]);
    while let Some(mut batch) = reader.read(&live, View::PostMortem, &mut scratch).unwrap() {
        while let Some(record) = batch.next_record(&VOCABULARY) {
            records.push((record.id, record.payload.to_vec()));
        }
    }
    records
}

#[test]
fn counts_are_recorded_at_their_period_and_at_the_end() {
    let memory = memory();
    CLOCK.set(1_000);
    be(&memory, 1);
    let session = start(
        memory,
        &Config {
            counters_period: 100,
            ..config()
        },
    );
    // One bit, in the upper half of the words.
    let many = usize::MAX / 2 + 1;
    Kymo::add::<Woken>(many);
    Kymo::add::<Ready>(-1);
    Kymo::observe::<Delay>(6);
    Kymo::tick();
    assert_eq!(records(&memory, 1), [], "the period has not passed");
    CLOCK.set(1_100);
    Kymo::tick();
    Kymo::tick();
    let long = |value: u64| [value as u32, (value >> 32) as u32];
    let delay = |cpu, sum, first, buckets: &[u32]| {
        let longs = buckets.iter().flat_map(|&count| [count, 0]);
        let mut words = vec![cpu, 100, sum, 0, first, buckets.len() as u32];
        words.extend(longs);
        (HistogramValue::ID, words)
    };
    let first = [
        (CounterValue::ID, [&[1, 0][..], &long(many as u64)].concat()),
        (GaugeValue::ID, vec![1, 1, u32::MAX, u32::MAX]),
        delay(1, 6, 3, &[1]),
        (CounterValue::ID, vec![1, 3, 0, 0]),
    ];
    assert_eq!(records(&memory, 1), first);
    // The next is due a period after the last one.
    CLOCK.set(1_199);
    Kymo::tick();
    assert_eq!(records(&memory, 1).len(), 4);
    CLOCK.set(1_250);
    Kymo::tick();
    assert_eq!(records(&memory, 1).len(), 8);
    Kymo::add::<Interrupts>(9);
    be(&memory, 0);
    for value in [0, 4, 0, 1 << 16, 1 << 15] {
        Kymo::observe::<Delay>(value);
    }
    session.stop().unwrap();
    // The CPU that stops records all of them.
    let last = records(&memory, 0);
    assert_eq!(last.len(), 9);
    let sum = 4 + (1 << 16) + (1 << 15);
    assert_eq!(last[1], (GaugeValue::ID, vec![0, 1, 0, 0]));
    // No record has more than 16 buckets.
    assert_eq!(last[2], delay(0, sum, 0, &[2, 0, 0, 1]));
    assert_eq!(last[3], delay(0, sum, 16, &[1, 1]));
    assert_eq!(last[8], (CounterValue::ID, vec![1, 3, 9, 0]));
    assert_eq!(last[7].1[2], 6);
}

#[test]
fn an_empty_histogram_is_recorded_too() {
    let memory = memory();
    be(&memory, 0);
    start(memory, &config()).stop().unwrap();
    let last = records(&memory, 0);
    assert_eq!(last[2], (HistogramValue::ID, vec![0, 100, 0, 0, 0, 0]));
}

#[test]
fn what_is_switched_off_is_not_recorded() {
    let memory = memory();
    be(&memory, 0);
    let is_on = |event: &crate::event::EventSchema| event.id == GaugeValue::ID;
    let config = Config {
        counters_period: 1,
        ..config()
    };
    let session = Kymo::start_with(memory, &config, &VOCABULARY, is_on).unwrap();
    CLOCK.set(CLOCK.get() + 1);
    Kymo::tick();
    session.stop().unwrap();
    let ids: Vec<_> = records(&memory, 0).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, [GaugeValue::ID; 3]);
}

#[test]
fn the_metadata_names_the_counters() {
    let memory = memory();
    be(&memory, 0);
    start(memory, &config()).stop().unwrap();
    let live = memory.live();
    let header = Region::open(&live).unwrap().header().clone();
    let at = header.metadata_offset as usize;
    let metadata = bytes(&live)[at..at + header.metadata_len as usize].to_vec();
    let metadata = String::from_utf8(metadata).unwrap();
    let bits = usize::BITS;
    let declared = format!(
        "\tkymo_counter_0 = \"woken: counter of {bits} bits, threads: Threads that became ready: \
         \\\"woken\\\", or new.\";\n"
    );
    for line in [
        declared.as_str(),
        "typealias enum : uint32_t { \"woken\" = 0, \"irqs\" = 3 } := counter_number_t;\n",
        "\tcounter_number_t _counter;\n",
        "typealias enum : uint32_t { \"ready\" = 1 } := gauge_number_t;\n",
        "\tgauge_number_t _counter;\n",
    ] {
        assert!(metadata.contains(line), "{metadata}");
    }
    let found = Declaration::all(&metadata).map(|found| (found.id, found.name, found.kind));
    let declared = COUNTERS.list().iter();
    assert!(found.eq(declared.map(|schema| (schema.id, schema.name, schema.kind))));
    for bad in [
        ("kymo_counter_", "a: counter of 64 bits, b: c"),
        ("kymo_counter_1", "a: number of 64 bits, b: c"),
        ("kymo_counter_1", "a: counter of 65 bits, b: c"),
        ("counter_1", "a: counter of 64 bits, b: c"),
        ("kymo_counter_1", ""),
    ] {
        assert_eq!(Declaration::parse(bad.0, bad.1), None, "{bad:?}");
    }
}

#[test]
fn a_cpu_without_blocks_says_that_it_counted() {
    BLOCK.set(std::ptr::null());
    let before = super::uncounted();
    Kymo::add::<Woken>(5);
    Kymo::observe::<Delay>(5);
    assert_eq!(super::uncounted() - before, 2);
}
