//! Regions as damaged memory may hold them: recovered, read as live memory, printed on the target,
//! and begun again over.
//!
//! The checksum of the header is made to fit, so that damage in it is read, too.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use kymo::counter::{Counters, Kind as CounterKind};
use kymo::event::{Event, Shape};
use kymo::platform::{ByPointer, LocalCas, Masked, Platform};
use kymo::ring::Reserve;
use kymo::ring::layout::{CONTROL_OFFSET, CONTROL_SIZE, Crc32, HEADER_WORDS, Header, STATE_WORD};
use kymo::ring::reader::{Losses, Region, Shapes, View};
use kymo::ring::source::{Bytes, Source};
use kymo::vocabulary::{CounterValue, GaugeValue, HistogramValue, ThreadName, Tid};
use kymo::{
    ChannelKind, Clock, Config, History, Memory, Mode, Overflow, Recorder, Session, Text, Tracer,
    Vocabulary,
};
use kymo_ctf::Trace;

use crate::mutate::Random;
use crate::thread_cpu::{BLOCK, Block, CLOCK, NoInterrupts, OneThread, leaked};

kymo::event! { #[id(21)] struct Tick { seq: u32, check: u32 } }
kymo::event! { #[id(40)] struct Said { seq: u64, text: Text<24> } }

static VOCABULARY: Vocabulary = kymo::vocabulary![
    Tick,
    Said,
    ThreadName,
    CounterValue,
    GaugeValue,
    HistogramValue
];

/// Memory that the largest input fits into.
const BYTES: usize = 32 << 10;
const CPUS: u32 = 2;
const CONFIG: Config = Config {
    cpus: 1,
    packet_size: 256,
    packets: 4,
    names_packets: 4,
    overflow: Overflow::Overwrite,
    clock: Clock::at(1_000_000),
    hosted: true,
    ..Config::DEFAULT
};

fn start<R: Reserve + 'static>(memory: Memory, overflow: Overflow) -> Session<OneThread<R>> {
    BLOCK.set(memory.control(0));
    let config = Config { overflow, ..CONFIG };
    Tracer::<OneThread<R>>::start(memory, &config, &VOCABULARY)
        .expect("a session starts over any memory in which none of this program runs")
}

kymo::counter! { #[id(0)] #[unit(times)] struct Times; }
kymo::gauge! { #[id(1)] #[unit(things)] struct Things; }
kymo::histogram! { #[id(2)] #[unit(ticks)] struct Sizes; }

/// A machine with counters of its own.
struct Counts;
// SAFETY: see `Block`; its memory has the counters' words.
unsafe impl Platform for Counts {
    type Reserve = LocalCas;
    type Local = ByPointer<Block>;
    const COUNTERS: Counters = kymo::counters![Times, Things, Sizes];
    fn clock() -> u64 {
        CLOCK.get()
    }
    fn synchronize() {}
}

/// A region with counters, whose session runs.
fn seed_of_counters(cpus: u32) -> Vec<u8> {
    let memory = leaked(BYTES, cpus).with_counters(Counts::COUNTERS.words());
    let config = Config { cpus, ..CONFIG };
    let session = Tracer::<Counts>::start(memory, &config, &VOCABULARY);
    session.expect("it is new memory");
    for cpu in 0..cpus {
        BLOCK.set(memory.control(cpu));
        Tracer::<Counts>::add::<Times>(7);
        Tracer::<Counts>::add::<Things>(-1);
        (0..64).for_each(|bits| Tracer::<Counts>::observe::<Sizes>(1 << bits));
    }
    bytes_of(memory)
}

fn record<R: Reserve + 'static>(events: u32) {
    type T<R> = Tracer<OneThread<R>>;
    T::<R>::record(ThreadName {
        tid: Tid(5),
        name: Text::new("worker"),
    });
    for seq in 0..events {
        CLOCK.set(CLOCK.get() + 100);
        T::<R>::record(Tick { seq, check: !seq });
        if seq % 5 == 0 {
            T::<R>::record(Said {
                seq: seq.into(),
                text: Text::new("damage"),
            });
        }
    }
}

/// The region in `memory`.
fn bytes_of(memory: Memory) -> Vec<u8> {
    let live = memory.live();
    let region = Region::open(&live).expect("a session has begun");
    (0..region.header().total_size.div_ceil(4))
        .flat_map(|word| live.load(4 * word).unwrap_or(0).to_le_bytes())
        .collect()
}

fn seed<R: Reserve + 'static>(events: u32, overflow: Overflow, stops: bool) -> Vec<u8> {
    let memory = leaked(BYTES, 1);
    CLOCK.set(1 << 26);
    let session = start::<R>(memory, overflow);
    record::<R>(events);
    if stops {
        session.stop().expect("it runs");
    }
    bytes_of(memory)
}

/// Regions of both writers, with rings that were never full, and that went round; and some with
/// counters.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![seed_of_counters(1), seed_of_counters(CPUS)];
    for events in [0, 5, 20, 200] {
        for overflow in [Overflow::Overwrite, Overflow::Discard] {
            for stops in [false, true] {
                seeds.push(seed::<Masked<NoInterrupts>>(events, overflow, stops));
                seeds.push(seed::<LocalCas>(events, overflow, stops));
            }
        }
    }
    seeds
}

/// Where a word of a control block lies: no checksum covers it, and it says how long walks are.
pub(crate) fn control_word(random: &mut Random) -> usize {
    /// The first words of the writer's own line, the shared one, the consumer's and the constants.
    const LINE: usize = 128;
    let block = CONTROL_OFFSET + random.below(ChannelKind::ALL.len()) * CONTROL_SIZE;
    block + random.below(4) * LINE + 8 * random.below(8)
}

/// Makes the header's checksum fit.
fn repair(bytes: &mut [u8]) {
    /// Word index of the checksum.
    const CRC_WORD: usize = 4;
    let Some(header) = bytes.get_mut(..4 * HEADER_WORDS) else {
        return;
    };
    let mut crc = Crc32::new();
    for (index, word) in header.chunks(4).enumerate() {
        if index >= 2 && index != CRC_WORD && index != STATE_WORD {
            crc.update(word);
        }
    }
    header[4 * CRC_WORD..4 * CRC_WORD + 4].copy_from_slice(&crc.finish().to_le_bytes());
}

/// Makes the metadata's checksum fit.
fn repair_metadata(bytes: &mut [u8]) {
    let Ok(region) = Region::open(&Bytes(bytes)) else {
        return;
    };
    let header = region.header();
    let mut crc = Crc32::new();
    let begin = header.metadata_offset as usize;
    crc.update(&bytes[begin..begin + header.metadata_len as usize]);
    let header = Header {
        metadata_crc: crc.finish(),
        ..header.clone()
    };
    // It may say another version than this one, or have unknown words.
    if region.header().metadata_crc != header.metadata_crc {
        for (to, word) in bytes.chunks_mut(4).zip(header.to_words()) {
            to.copy_from_slice(&word.to_le_bytes());
        }
    }
}

struct Table(HashMap<u32, Shape>);

impl Shapes for Table {
    fn shape(&self, id: u32) -> Option<Shape> {
        self.0.get(&id).copied()
    }
}

pub(crate) fn execute(input: &[u8], folder: &Path) {
    let mut bytes = input.to_vec();
    repair(&mut bytes);
    repair_metadata(&mut bytes);
    for view in [View::PostMortem, View::Live] {
        read(&bytes, view);
    }
    recover(&bytes, folder);
    let memory = memory(&bytes);
    print(memory);
    reopen(memory);
    if input.len().is_multiple_of(2) {
        begin_again::<LocalCas>(memory);
    } else {
        begin_again::<Masked<NoInterrupts>>(memory);
    }
}

/// Every channel, which has an end: no more packets than the ring holds.
fn read(bytes: &[u8], view: View) {
    let source = Bytes(bytes);
    let Ok(region) = Region::open(&source) else {
        return;
    };
    let shapes = (0..region.header().shapes_len).map(|index| region.shape(&source, index));
    let Ok(shapes) = shapes.collect::<Result<_, _>>().map(Table) else {
        return;
    };
    count(&region, &source);
    for (cpu, kind) in region.channels().streams() {
        let Ok(mut reader) = region.channel(&source, cpu, kind) else {
            continue;
        };
        let mut scratch = vec![0; reader.scratch_words()];
        let mut batches = 0;
        while let Ok(Some(mut batch)) = reader.read(&source, view, &mut scratch) {
            while batch.next_record(&shapes).is_some() {}
            batches += 1;
            assert!(batches <= reader.packets() + 1, "the walk has no end");
        }
        let _ = reader.refresh_losses(&source);
        std::hint::black_box(reader.losses().events());
    }
}

/// Counters, of every CPU and beyond.
fn count(region: &Region, source: &impl Source) {
    let words = region.counter_words();
    for cpu in [0, region.header().cpus - 1, region.header().cpus] {
        for id in (0..8).chain([words / 2, words.saturating_sub(1), words, u32::MAX]) {
            for kind in CounterKind::ALL {
                let value = region.counter_value(source, cpu, kind, id);
                let inside = cpu < region.header().cpus && id < words;
                assert!(inside || value.is_err(), "{kind:?} {id} of CPU {cpu}");
            }
        }
    }
}

/// What is recovered can be read, unless it is refused.
fn recover(bytes: &[u8], folder: &Path) {
    let (image, out) = (folder.join("memory"), folder.join("recovered"));
    let _ = fs::remove_dir_all(&out);
    fs::write(&image, bytes).expect("the folder can be written");
    let Ok(recovered) = kymo_capture::recover::recover(&image, None, &out) else {
        return;
    };
    std::hint::black_box((recovered.summary.events(), recovered.summary.lost()));
    if let Ok(trace) = Trace::open(&out) {
        std::hint::black_box(trace.events().count());
    }
}

/// Memory of this program's own with `bytes`, and zeros behind them.
fn memory(bytes: &[u8]) -> Memory {
    static MEMORY: OnceLock<Memory> = OnceLock::new();
    let memory = *MEMORY.get_or_init(|| leaked(BYTES, CPUS));
    let base = memory.control(0).cast::<u8>().wrapping_sub(CONTROL_OFFSET);
    for (index, chunk) in (0..BYTES / 4).zip(bytes.chunks(4).chain(std::iter::repeat(&[][..]))) {
        let word = chunk
            .first_chunk()
            .map_or(0, |word| u32::from_le_bytes(*word));
        // SAFETY: a word of `BYTES` that were allocated for the region, and are never freed.
        unsafe { (*base.cast::<AtomicU32>().add(index)).store(word, Relaxed) };
    }
    memory
}

/// What a serial line gets to see.
fn print(memory: Memory) {
    let history = History::new(memory, &VOCABULARY);
    let mut out = String::new();
    let _ = history.dump(&mut out, 6);
    for cpu in 0..CPUS {
        let _ = history.dump_on_panic(&mut out, cpu, 6);
    }
    std::hint::black_box((history.counts().total(), history.is_enabled()));
    std::hint::black_box(history.get(3, &mut [0; 3]));
    history.clear();
    let _ = history.dump(&mut out, 6);
    std::hint::black_box(out);
}

/// What a kernel reads after a warm reset. Each call reports more than the one before, or nothing.
fn reopen(memory: Memory) {
    const TRACE: u32 = Mode::Trace as u32;
    static RECORDER: OnceLock<Recorder<OneThread<LocalCas>, { CPUS as usize }>> = OnceLock::new();
    BLOCK.set(memory.control(0));
    let recorder = RECORDER.get_or_init(|| Recorder::new(memory, &VOCABULARY));
    let Some(remains) = recorder.reopen(TRACE).expect("no session runs here") else {
        return;
    };
    let mut buffer = vec![0; remains.buffer_words];
    for channel in 0..remains.channels {
        let calls = (0..10_000)
            .take_while(|_| {
                let read = recorder.read(TRACE, channel, Some(&mut buffer));
                read.is_ok_and(|bytes| bytes > 0)
            })
            .count();
        assert!(calls < 10_000, "channel {channel} has no end");
    }
    recorder.finish(TRACE).expect("it was reopened");
}

/// A session over such memory has nothing of what was there.
fn begin_again<R: Reserve + 'static>(memory: Memory) {
    let session = start::<R>(memory, Overflow::Overwrite);
    record::<R>(20);
    session.stop().expect("it runs");
    let live = memory.live();
    let region = Region::open(&live).expect("a session has begun");
    let reader = region.channel(&live, 0, ChannelKind::Events);
    let mut reader = reader.expect("its first CPU has events");
    let mut scratch = vec![0; reader.scratch_words()];
    let mut seen: Vec<u32> = Vec::new();
    while let Ok(Some(mut batch)) = reader.read(&live, View::PostMortem, &mut scratch) {
        while let Some(record) = batch.next_record(&VOCABULARY) {
            if record.id == Tick::ID {
                seen.extend(record.payload.first());
            }
        }
    }
    assert_eq!(seen, Vec::from_iter(0..20));
    assert_eq!(reader.losses(), Losses::default());
}
