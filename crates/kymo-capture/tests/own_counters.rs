//! The kernel's own counters at the end of a trace: what the memory has, unless the session was
//! stopped.
#![cfg(target_pointer_width = "64")]
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../kymo/tests/thread_cpu/mod.rs"]
mod thread_cpu;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use kymo::counter::Counters;
use kymo::platform::{ByPointer, LocalCas, Platform};
use kymo::ring::layout::{Crc32, Header};
use kymo::ring::reader::{Region, View};
use kymo::ring::source::{Bytes, Live, Source};
use kymo::vocabulary::{CounterValue, GaugeValue, HistogramValue};
use kymo::{Clock, Config, Memory, Overflow, Session, Tracer, Vocabulary};
use kymo_capture::{Summary, TraceWriter};
use kymo_ctf::{Item, Trace, Value};
use thread_cpu::{BLOCK, Block, CLOCK, OneThread, leaked};

kymo::counter! { #[id(0)] #[unit(threads)] struct Woken; }
kymo::gauge! { #[id(1)] #[unit(threads)] struct Ready; }
kymo::histogram! { #[id(10)] #[unit(ticks)] struct Delay; }
kymo::counter! { #[id(80)] #[unit(bytes)] struct Sent; }
kymo::event! { #[id(21)] pub struct Beat { pub seq: u32 } }

static VOCABULARY: Vocabulary = kymo::vocabulary![Beat, CounterValue, GaugeValue, HistogramValue];
static WITHOUT_VALUES: Vocabulary = kymo::vocabulary![Beat];

struct Counting;
// SAFETY: see `Block`; every test gives its memory the counters' words.
unsafe impl Platform for Counting {
    type Reserve = LocalCas;
    type Local = ByPointer<Block>;
    const COUNTERS: Counters = kymo::counters![Woken, Ready, Delay, Sent];
    fn clock() -> u64 {
        CLOCK.set(CLOCK.get() + 3);
        CLOCK.get()
    }
    fn synchronize() {}
}
type Kymo = Tracer<Counting>;

/// Counters that take more than a packet, and code that counts in all of their buckets.
macro_rules! wide {
    ($($name:ident $id:literal),*) => {
        $(kymo::histogram! { #[id($id)] #[unit(ticks)] struct $name; })*
        const WIDE: Counters = kymo::counters![$($name),*];
        fn observe_all() {
            for value in (0..65).map(|bits: u32| (1_u64 << (bits.max(1) - 1)) & !u64::from(bits == 0)) {
                $(Tracer::<Wide>::observe::<$name>(value);)*
            }
        }
    };
}
wide!(A 0, B 66, C 132, D 198, E 264, F 330, G 396, H 462);

struct Wide;
// SAFETY: as above.
unsafe impl Platform for Wide {
    type Reserve = LocalCas;
    type Local = ByPointer<Block>;
    const COUNTERS: Counters = WIDE;
    fn clock() -> u64 {
        CLOCK.get()
    }
    fn synchronize() {}
}

const CONFIG: Config = Config {
    cpus: 2,
    packet_size: 4096,
    packets: 8,
    names_packets: 4,
    overflow: Overflow::Overwrite,
    clock: Clock::at(1_000_000),
    hosted: true,
    counters_period: 300,
    ..Config::DEFAULT
};

fn memory() -> Memory {
    leaked(1 << 20, 2).with_counters(Counting::COUNTERS.words())
}

fn start(memory: Memory) -> Session<Counting> {
    CLOCK.set(1_000);
    Kymo::start(memory, &CONFIG, &VOCABULARY).unwrap()
}

/// Events of both CPUs, and counts that snapshots have recorded.
fn work(memory: Memory) {
    for seq in 0..200 {
        BLOCK.set(memory.control(seq % 2));
        Kymo::record(Beat { seq });
        Kymo::add::<Woken>(1);
        Kymo::add::<Ready>(if seq % 2 == 0 { 2 } else { -1 });
        Kymo::observe::<Delay>(u64::from(seq));
        Kymo::tick();
    }
}

/// Counts that no snapshot has recorded: in buckets of all parts of a histogram, and of all 64
/// bits.
fn go_on(memory: Memory) {
    BLOCK.set(memory.control(1));
    Kymo::add::<Woken>(5);
    Kymo::add::<Ready>(-1_000);
    Kymo::add::<Sent>(1 << 63 | 7);
    for value in [0, 1 << 20, u64::MAX] {
        Kymo::observe::<Delay>(value);
    }
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("kymo-own-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    folder
}

fn write(source: &impl Source, out: &Path) -> Summary {
    let mut writer = TraceWriter::create(out, source).unwrap();
    writer.poll(source, View::PostMortem).unwrap();
    writer.finish(source).unwrap()
}

/// What a trace says last of each counter of each CPU, by both numbers.
#[derive(Debug, Default, PartialEq)]
struct Last {
    values: BTreeMap<(u64, u64), i128>,
    /// Sum and buckets.
    histograms: BTreeMap<(u64, u64), (u64, BTreeMap<u64, u64>)>,
}

/// Reads a trace, in which nothing is lost and no time steps back; gives the number of its events
/// too.
fn last(trace: &Path) -> (Last, u64) {
    let (mut last, mut events, mut before) = (Last::default(), 0, None);
    for item in Trace::open(trace).unwrap().events() {
        let Item::Event(event) = item.unwrap() else {
            panic!("nothing is lost")
        };
        events += 1;
        assert!(before <= event.time, "time steps back");
        before = event.time;
        let is_of_session = event.name() == "kymo_session_end";
        if is_of_session || !event.name().starts_with("kymo_") {
            continue;
        }
        let field = |name: &str| event.fields.get(name).unwrap();
        let number = |name: &str| field(name).as_u64().unwrap();
        let key = (number("counter"), number("cpu"));
        if event.name() == "kymo_histogram" {
            let (sum, buckets) = last.histograms.entry(key).or_default();
            *sum = number("sum");
            let Value::Array(counts) = field("buckets") else {
                panic!("no buckets")
            };
            for (bucket, count) in (number("first")..).zip(counts) {
                buckets.insert(bucket, count.as_u64().unwrap());
            }
            buckets.retain(|_, count| *count > 0);
        } else {
            let value = match field("value") {
                Value::Int(value) => i128::from(*value),
                value => i128::from(value.as_u64().unwrap()),
            };
            last.values.insert(key, value);
        }
    }
    (last, events)
}

/// What [`work`] counts, and what [`go_on`] counts.
fn counted(work: bool, more: bool) -> Last {
    let work_of = |count: i128| if work { count } else { 0 };
    let more_of = |count: i128| if more { count } else { 0 };
    let mut histograms = BTreeMap::new();
    for cpu in [0, 1] {
        let values = (0..200).filter(|value| work && value % 2 == cpu);
        let late = [0, 1 << 20, u64::MAX].into_iter();
        let late = late.filter(|_| more && cpu == 1);
        let (sum, buckets) = histograms
            .entry((10, cpu))
            .or_insert((0_u64, BTreeMap::new()));
        for value in values.chain(late) {
            *sum = sum.wrapping_add(value);
            *buckets
                .entry(64 - u64::from(value.leading_zeros()))
                .or_insert(0) += 1;
        }
    }
    let values = [
        ((0, 0), work_of(100)),
        ((0, 1), work_of(100) + more_of(5)),
        ((1, 0), work_of(200)),
        ((1, 1), work_of(-100) - more_of(1_000)),
        ((80, 0), 0),
        ((80, 1), more_of(1 << 63 | 7)),
    ];
    Last {
        values: values.into(),
        histograms,
    }
}

/// The stream files of a trace.
fn files(trace: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(trace)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect()
}

fn dump(live: &Live) -> Vec<u8> {
    (0..live.len() / 4)
        .flat_map(|word| live.load(4 * word).unwrap().to_le_bytes())
        .collect()
}

#[test]
fn a_session_that_was_not_stopped_ends_with_what_memory_has() {
    let memory = memory();
    let session = start(memory);
    work(memory);
    go_on(memory);
    let live = session.live();
    let dump = dump(&live);
    for is_live in [true, false] {
        let out = folder("running");
        let summary = match is_live {
            true => write(&live, &out),
            false => write(&Bytes(&dump), &out),
        };
        let (found, events) = last(&out);
        assert_eq!(found, counted(true, true), "live: {is_live}");
        assert_eq!((summary.events(), summary.lost()), (events, 0));
        fs::remove_dir_all(out).unwrap();
    }
}

/// A CPU's counters may take more than a packet.
#[test]
fn more_counters_than_a_packet_holds_are_in_several() {
    let memory = leaked(1 << 20, 2).with_counters(WIDE.words());
    let session = Tracer::<Wide>::start(memory, &CONFIG, &VOCABULARY).unwrap();
    BLOCK.set(memory.control(1));
    observe_all();
    let out = folder("wide");
    let summary = write(&session.live(), &out);
    let (found, events) = last(&out);
    assert_eq!(events, summary.events());
    for (&(id, cpu), (sum, buckets)) in &found.histograms {
        // One value of each number of bits, the least.
        let expected = (0..65).map(|bits| (bits, 1)).filter(|_| cpu == 1);
        assert_eq!(buckets, &expected.collect(), "{id} of CPU {cpu}");
        assert_eq!(*sum, if cpu == 1 { u64::MAX } else { 0 });
    }
    assert_eq!(found.histograms.len(), 2 * WIDE.list().len());
    // The first, at the start, is empty; the others are pages too.
    let bytes = fs::read(out.join("events_1")).unwrap();
    assert_eq!(bytes.len(), 3 * 4096);
    fs::remove_dir_all(out).unwrap();
}

/// What is in memory after the stop was counted after it.
#[test]
fn nothing_is_added_to_a_session_that_was_stopped() {
    let memory = memory();
    let session = start(memory);
    work(memory);
    session.stop().unwrap();
    go_on(memory);
    let out = folder("stopped");
    let summary = write(&session.live(), &out);
    assert_eq!(last(&out), (counted(true, false), summary.events()));
    fs::remove_dir_all(out).unwrap();
}

/// The files as they are before the end and after it.
fn ended(
    source: &impl Source,
    out: &Path,
    meanwhile: impl FnOnce(),
) -> [BTreeMap<PathBuf, Vec<u8>>; 2] {
    let mut writer = TraceWriter::create(out, source).unwrap();
    writer.poll(source, View::Live).unwrap();
    writer.flush().unwrap();
    let before = files(out);
    meanwhile();
    writer.finish(source).unwrap();
    let after = files(out);
    fs::remove_dir_all(out).unwrap();
    [before, after]
}

#[test]
fn nothing_is_added_from_another_session() {
    let memory = memory();
    let session = start(memory);
    work(memory);
    let live = session.live();
    let [before, after] = ended(&live, &folder("another"), || {
        session.stop().unwrap();
        start(memory);
    });
    assert!(before == after);
    // Recovering again, with no session begun since, changes nothing.
    let session = start(self::memory());
    let [before, after] = ended(&session.live(), &folder("same"), || ());
    assert!(before != after);
}

#[test]
fn a_trace_without_counters_stays_as_it_is() {
    type Plain = Tracer<OneThread<LocalCas>>;
    let memory = memory();
    let session = Plain::start(memory, &CONFIG, &VOCABULARY).unwrap();
    BLOCK.set(memory.control(0));
    for seq in 0..300 {
        Plain::record(Beat { seq });
    }
    let [before, after] = ended(&session.live(), &folder("plain"), || ());
    assert!(before == after);
    // Nor where the kernel's vocabulary has no events for their values.
    let memory = self::memory();
    let session = Kymo::start(memory, &CONFIG, &WITHOUT_VALUES).unwrap();
    go_on(memory);
    let [before, after] = ended(&session.live(), &folder("silent"), || ());
    assert!(before == after);
}

/// Puts `new` in place of `old` everywhere in the metadata, and makes the checksums fit.
fn damage(dump: &[u8], old: &str, new: &str, word_size: u8) -> Vec<u8> {
    let mut bytes = dump.to_vec();
    let header = Region::open(&Bytes(dump)).unwrap().header().clone();
    let begin = header.metadata_offset as usize;
    let metadata = &mut bytes[begin..begin + header.metadata_len as usize];
    let text = std::str::from_utf8(metadata).unwrap();
    assert!(
        text.contains(old) && old.len() == new.len(),
        "{old}: {text}"
    );
    let text = text.replace(old, new);
    metadata.copy_from_slice(text.as_bytes());
    let mut crc = Crc32::new();
    crc.update(metadata);
    let header = Header {
        metadata_crc: crc.finish(),
        word_size,
        ..header
    };
    for (to, word) in bytes.chunks_mut(4).zip(header.to_words()) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

#[test]
fn counters_that_memory_cannot_have_are_left_out() {
    let memory = memory();
    let session = start(memory);
    go_on(memory);
    let dump = dump(&session.live());
    for (old, new, left) in [
        // Beyond the CPU's words, wholly or in part.
        ("kymo_counter_80 ", "kymo_counter_99 ", &[0, 1, 10][..]),
        ("kymo_counter_10 ", "kymo_counter_40 ", &[0, 1, 80]),
        // A word of the histogram's.
        ("kymo_counter_80 ", "kymo_counter_75 ", &[0, 1, 10]),
        // Words of another size than the region's.
        ("counter of 64 bits", "counter of 32 bits", &[1, 10]),
        // Of no kind, or without a number.
        ("sent: counter", "sent: nothing", &[0, 1, 10]),
        ("kymo_counter_80 ", "kymo_counter_xy ", &[0, 1, 10]),
    ] {
        let out = folder("damaged");
        write(&Bytes(&damage(&dump, old, new, 8)), &out);
        let mut expected = counted(false, true);
        expected.values.retain(|(id, _), _| left.contains(id));
        expected.histograms.retain(|(id, _), _| left.contains(id));
        assert_eq!(last(&out).0, expected, "{new}");
        fs::remove_dir_all(out).unwrap();
    }
}

/// A region as a 32-bit kernel leaves it. Its other numbers are small enough to read the same.
#[test]
fn words_of_32_bits_are_read_and_extended() {
    let memory = memory();
    let session = start(memory);
    let dump = dump(&session.live());
    let mut narrow = damage(&dump, " of 64 bits, ", " of 32 bits, ", 4);
    let header = Region::open(&Bytes(&narrow)).unwrap().header().clone();
    let mut put = |cpu: u32, id: u32, value: u32| {
        let block = (cpu * header.kinds + 3) * header.control_size;
        let at = header.control_offset as usize + (block + 4 * id) as usize;
        narrow[at..at + 4].copy_from_slice(&value.to_le_bytes());
    };
    put(0, 0, u32::MAX);
    put(0, 1, -2_i32 as u32);
    put(1, 10 + 32, u32::MAX);
    put(1, 10 + 65, 9);
    put(1, 80, 1);
    let out = folder("narrow");
    write(&Bytes(&narrow), &out);
    let values = [
        ((0, 0), u32::MAX.into()),
        ((0, 1), 0),
        ((1, 0), -2),
        ((1, 1), 0),
        ((80, 0), 0),
        ((80, 1), 1),
    ];
    let buckets = [(32, u32::MAX.into())];
    let expected = Last {
        values: values.into(),
        histograms: [
            ((10, 0), (0, BTreeMap::new())),
            ((10, 1), (9, buckets.into())),
        ]
        .into(),
    };
    assert_eq!(last(&out).0, expected);
    fs::remove_dir_all(out).unwrap();
}
