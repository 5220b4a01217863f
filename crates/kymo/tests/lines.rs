//! No two CPUs' words lie on one line of 128 bytes (two of 64, which x86 fetches in pairs), and the
//! consumer's word on none that a writer touches.
//!
//! Each CPU records in turn, and what changes in the memory is what its writer writes: control
//! words, slot headers, records, over several laps. That is compared with where the layout says
//! that its blocks and rings are.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod thread_cpu;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use kymo::platform::{ByPointer, LocalCas, Masked, Platform};
use kymo::ring::Reserve;
use kymo::ring::layout::{CONTROL_OFFSET, CONTROL_SIZE, REGION_ALIGN};
use kymo::ring::reader::{Region, View};
use kymo::ring::source::{Consume, Live, Outside, Source};
use kymo::{
    ChannelKind, Clock, Config, Consumer, Error, Memory, Overflow, RegionMemory, Tracer, Vocabulary,
};
use thread_cpu::{BLOCK, Block, NoInterrupts};

const LINE: u64 = 128;
const CPUS: u32 = 3;

kymo::event! { #[id(21)] struct Happened { seq: u32, of: u32 } }
kymo::event! { #[id(22)] #[channel(Names)] struct Named { seq: u32, of: u32 } }

static VOCABULARY: Vocabulary = kymo::vocabulary![Happened, Named];

struct Machine<R>(PhantomData<R>);
// SAFETY: as above.
unsafe impl<R: Reserve + 'static> Platform for Machine<R> {
    type Reserve = R;
    type Local = ByPointer<Block>;
    fn clock() -> u64 {
        // Now and then a new time window; now and then a step back.
        static TICKS: AtomicU64 = AtomicU64::new(1 << 30);
        let now = TICKS.fetch_add(1 << 22, Relaxed);
        if now >> 22 & 63 == 63 {
            now - (1 << 28)
        } else {
            now
        }
    }
    fn synchronize() {}
}

type Lines = BTreeSet<u64>;

/// The lines of `bytes` in memory that begins at `base`.
fn lines(base: u64, bytes: std::ops::Range<u64>) -> impl Iterator<Item = u64> {
    (base + bytes.start) / LINE..=(base + bytes.end - 1) / LINE
}

fn words(live: &Live) -> Vec<u32> {
    let mut words = vec![0; live.len() as usize / 4];
    live.copy(0, &mut words).unwrap();
    words
}

/// The lines that `work` changes.
fn changed(base: u64, live: &Live, work: impl FnOnce()) -> Lines {
    let before = words(live);
    work();
    let pairs = before.into_iter().zip(words(live));
    let changed = (0u64..)
        .zip(pairs)
        .filter(|(_, (before, after))| before != after);
    changed
        .flat_map(|(index, _)| lines(base, 4 * index..4 * index + 4))
        .collect()
}

/// Memory that remembers where a consumer wrote.
struct Watched<'a>(&'a Live, Cell<Option<u64>>);

impl Source for Watched<'_> {
    fn len(&self) -> u64 {
        self.0.len()
    }
    fn load(&self, offset: u64) -> Result<u32, Outside> {
        self.0.load(offset)
    }
    fn load_long(&self, offset: u64) -> Result<u64, Outside> {
        self.0.load_long(offset)
    }
}

impl Consume for Watched<'_> {
    fn store(&self, offset: u64, value: u32) -> Result<(), Outside> {
        self.1.set(Some(offset));
        self.0.store(offset, value)
    }
    fn store_long(&self, offset: u64, value: u64) -> Result<(), Outside> {
        self.1.set(Some(offset));
        self.0.store_long(offset, value)
    }
}

fn config(overflow: Overflow, packets: u32, names_packets: u32) -> Config {
    Config {
        cpus: CPUS,
        packet_size: 256,
        packets,
        names_packets,
        overflow,
        consumer: Consumer::Kernel,
        clock: Clock::at(1_000_000_000),
        hosted: true,
        ..Config::DEFAULT
    }
}

fn no_two_cpus_share_a_line<R: Reserve + 'static>(
    memory: Memory,
    overflow: Overflow,
    packets: u32,
    names_packets: u32,
) {
    let config = config(overflow, packets, names_packets);
    let session = Tracer::<Machine<R>>::start(memory, &config, &VOCABULARY).unwrap();
    let live = session.live();
    let base = memory.control(0) as u64 - CONTROL_OFFSET as u64;
    let region = Region::open(&live).unwrap();
    let total = region.header().total_size;

    // Where the layout puts each CPU: blocks in a row from CONTROL_OFFSET, rings in a row at the
    // region's end.
    let kinds = ChannelKind::ALL.len() as u64;
    let ring_bytes = 256 * u64::from(packets + names_packets);
    let rings = total - ring_bytes * u64::from(CPUS);
    let blocks_of = |cpu: u64| {
        let begin = CONTROL_OFFSET as u64 + cpu * kinds * CONTROL_SIZE as u64;
        lines(base, begin..begin + kinds * CONTROL_SIZE as u64)
    };
    let rings_of = |cpu: u64| {
        lines(
            base,
            rings + cpu * ring_bytes..rings + (cpu + 1) * ring_bytes,
        )
    };

    let mut owner = std::collections::BTreeMap::new();
    let mut claim = |whose: &str, line: u64| {
        let before = owner.insert(line, whose.to_owned());
        assert!(
            before.as_ref().is_none_or(|before| before == whose),
            "line {line:#x} is {whose}'s and {before:?}'s"
        );
    };
    lines(base, 0..CONTROL_OFFSET as u64).for_each(|line| claim("the header", line));
    lines(
        base,
        CONTROL_OFFSET as u64 + u64::from(CPUS) * kinds * CONTROL_SIZE as u64..rings,
    )
    .for_each(|line| claim("the metadata", line));

    for cpu in 0..CPUS {
        BLOCK.set(memory.control(cpu));
        let mut written = Lines::new();
        let mut readers = [ChannelKind::Events, ChannelKind::Names]
            .map(|kind| region.channel(&live, cpu, kind).unwrap());
        let mut consumed = Lines::new();
        // Several laps; what is stored again unchanged shows in another round.
        for seq in 0..400 {
            written.extend(changed(base, &live, || {
                Tracer::<Machine<R>>::record(Happened { seq, of: cpu });
                Tracer::<Machine<R>>::record(Named { seq: !seq, of: cpu });
            }));
            let watched = Watched(&live, Cell::new(None));
            for reader in &mut readers {
                let mut scratch = [0; 64];
                while let Some(mut batch) = reader.read(&live, View::Live, &mut scratch).unwrap() {
                    while batch.next_record(&VOCABULARY).is_some() {}
                }
                reader.release(&watched).unwrap();
                consumed.extend(
                    watched
                        .1
                        .take()
                        .into_iter()
                        .flat_map(|at| lines(base, at..at + 8)),
                );
            }
        }
        for line in &written {
            let inside = blocks_of(cpu.into())
                .chain(rings_of(cpu.into()))
                .any(|own| own == *line);
            assert!(
                inside,
                "CPU {cpu} wrote to line {line:#x}, outside of its blocks and rings"
            );
        }
        assert!(
            rings_of(cpu.into()).all(|line| written.contains(&line)),
            "several laps leave no line of the rings out"
        );
        assert_eq!(
            consumed.len(),
            if overflow == Overflow::Discard {
                readers.len()
            } else {
                0
            }
        );
        for line in written {
            claim(&format!("CPU {cpu}'s writer"), line);
        }
        for line in consumed {
            claim(&format!("CPU {cpu}'s consumer"), line);
        }
    }
    // This holds also where nothing was seen to change: blocks and rings belong to one CPU each, to
    // their last line.
    for cpu in 0..u64::from(CPUS) {
        let others = (0..u64::from(CPUS)).filter(|&other| other != cpu);
        let others: Lines = others
            .flat_map(|other| blocks_of(other).chain(rings_of(other)))
            .collect();
        assert!(
            blocks_of(cpu)
                .chain(rings_of(cpu))
                .all(|line| !others.contains(&line)),
            "CPU {cpu} shares a line"
        );
    }
    session.stop().unwrap();
}

fn every_mode<R: Reserve + 'static>(memory: Memory, packets: u32, names_packets: u32) {
    for overflow in [Overflow::Overwrite, Overflow::Discard] {
        no_two_cpus_share_a_line::<R>(memory, overflow, packets, names_packets);
    }
}

#[test]
fn no_two_cpus_words_lie_on_one_line() {
    static REGION: RegionMemory<{ 64 << 10 }, { CPUS as usize }> = RegionMemory::new();
    static OTHER: RegionMemory<{ 64 << 10 }, { CPUS as usize }> = RegionMemory::new();
    every_mode::<LocalCas>(REGION.memory(), 4, 4);
    every_mode::<LocalCas>(REGION.memory(), 8, 4);
    every_mode::<Masked<NoInterrupts>>(OTHER.memory(), 4, 4);
    every_mode::<Masked<NoInterrupts>>(OTHER.memory(), 5, 7);
}

/// Offsets tell lines only if the memory begins on one.
#[test]
fn memory_begins_on_a_line() {
    static REGION: RegionMemory<{ 64 << 10 }, 1> = RegionMemory::new();
    const _: () =
        assert!(align_of::<RegionMemory<{ 64 << 10 }, 1>>().is_multiple_of(LINE as usize));
    const _: () = assert!(
        REGION_ALIGN.is_multiple_of(LINE as usize) && CONTROL_SIZE.is_multiple_of(LINE as usize)
    );
    let base = REGION
        .control(0)
        .wrapping_byte_sub(CONTROL_OFFSET)
        .cast_mut()
        .cast::<u8>();
    let config = Config {
        cpus: 1,
        ..config(Overflow::Discard, 4, 4)
    };
    for moved in [8, 64, 128, 2048] {
        // SAFETY: inside of the static; `start` refuses it.
        let memory = unsafe { Memory::new(base.wrapping_add(moved), (64 << 10) - moved, 1) };
        let refused = Tracer::<Machine<LocalCas>>::start(memory, &config, &VOCABULARY);
        assert!(
            matches!(refused, Err(Error::Alignment)),
            "{moved} bytes off"
        );
    }
    assert!(Tracer::<Machine<LocalCas>>::start(REGION.memory(), &config, &VOCABULARY).is_ok());
}
