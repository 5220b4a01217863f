//! Writers and readers against each other, with a clock of the test's own: every record that comes
//! out is the one that went in, and what does not come out is counted.

use std::cell::Cell;
#[cfg(target_pointer_width = "64")]
use std::sync::atomic::AtomicU64;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};

use super::Reserve;
use super::layout::{ChannelKind, Clock, Consumer, Control, Overflow, TIME_BITS};
#[cfg(target_pointer_width = "64")]
use super::local_cas::LocalCas;
use super::masked::Masked;
use super::reader::{ChannelReader, Losses, Region, View};
use super::source::{Bytes, Source};
use crate::event::{Event, Text, Vocabulary};
use crate::platform::{ByPointer, Platform};
use crate::ring::config::{Config, Error};
use crate::ring::region::Memory;
use crate::session::Session;
use crate::thread_cpu::{BLOCK, Block, CLOCK, NoInterrupts, leaked};
use crate::tracer::Tracer;

crate::event! { #[id(21)] struct Short { seq: u32, check: u32 } }
crate::event! { #[id(22)] struct Tiny { seq: u32 } }
crate::event! { #[id(40)] struct Long { seq: u32, bytes: [u8; 37], name: Text<20> } }

static VOCABULARY: Vocabulary = crate::vocabulary![Short, Tiny, Long];

fn check_of(seq: u32) -> u32 {
    seq.wrapping_mul(0x9e37_79b9) ^ 0x5bd1_e995
}

/// There is no such writer on 32-bit processors.
#[cfg(target_pointer_width = "32")]
type LocalCas = Masked<NoInterrupts>;

struct Test<R>(std::marker::PhantomData<R>);
// SAFETY: see `Block`.
unsafe impl<R: Reserve + 'static> Platform for Test<R> {
    type Reserve = R;
    type Local = ByPointer<Block>;
    fn clock() -> u64 {
        CLOCK.get()
    }
    fn synchronize() {}
    fn nesting() -> u32 {
        0
    }
}

fn config(overflow: Overflow, consumer: Consumer, packet_size: u32, packets: u32) -> Config {
    Config {
        cpus: 2,
        packet_size,
        packets,
        names_packets: 4,
        overflow,
        consumer,
        clock: Clock::at(1_000_000_000),
        seed: 1,
        hosted: true,
        ..Config::DEFAULT
    }
}

fn memory() -> Memory {
    leaked(2 << 20, 2)
}

fn start<R: Reserve + 'static>(memory: Memory, config: &Config) -> Session<Test<R>> {
    let session = Tracer::<Test<R>>::start(memory, config, &VOCABULARY).unwrap();
    BLOCK.set(memory.control(0));
    session
}

fn dump(session_memory: &impl Source) -> Vec<u8> {
    (0..session_memory.len() / 4)
        .flat_map(|word| session_memory.load(4 * word).unwrap().to_le_bytes())
        .collect()
}

/// A small generator of numbers (SplitMix64), the same on every run.
struct Random(u64);
impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }
}

fn emit<R: Reserve + 'static>(which: u64, seq: u32) {
    type T<R> = Tracer<Test<R>>;
    match which {
        0 => T::<R>::record(Tiny { seq }),
        1 => T::<R>::record_masked(Long {
            seq,
            bytes: [seq as u8; 37],
            name: Text::new("abcdefghijklmnopqrstuvwxyz"),
        }),
        _ => T::<R>::record(Short {
            seq,
            check: check_of(seq),
        }),
    }
}

/// Reads what there is; checks each record against its own sequence number.
fn read_all(
    reader: &mut ChannelReader,
    source: &impl Source,
    view: View,
    mut each: impl FnMut(u32, u64),
) {
    let mut scratch = vec![0; reader.scratch_words()];
    while let Some(mut batch) = reader.read(source, view, &mut scratch).unwrap() {
        while let Some(record) = batch.next_record(&VOCABULARY) {
            let seq = record.payload[0];
            match record.id {
                Tiny::ID => assert_eq!(record.payload.len(), 1),
                Short::ID => assert_eq!(record.payload, [seq, check_of(seq)]),
                Long::ID => {
                    assert_eq!(record.payload.len(), 17);
                    assert_eq!(record.payload[1] & 0xff, seq & 0xff);
                    assert_eq!(record.payload[11], 0x8000_0014);
                }
                other => panic!("event {other} was never written"),
            }
            each(seq, record.time);
        }
    }
}

/// Random events, random clock (forward only), a reader that comes now and then; everything is
/// accounted for.
fn account<R: Reserve + 'static>(overflow: Overflow, consumer: Consumer, seed: u64) -> Losses {
    let mut random = Random(seed);
    let memory = memory();
    let session = start::<R>(
        memory,
        &config(
            overflow,
            consumer,
            256 << random.next(3),
            4 << random.next(3),
        ),
    );
    let live = session.live();
    let region = Region::open(&live).unwrap();
    let mut reader = region.channel(&live, 0, ChannelKind::Events).unwrap();
    let mut times = Vec::new();
    let mut seen = 0u64;
    let mut last = None;
    for seq in 0..3000u32 {
        let jump = match random.next(200) {
            0 => 1 << TIME_BITS,
            1 => (1 << 32) + random.next(2),
            2 => (1 << TIME_BITS) - 1,
            _ => random.next(50),
        };
        CLOCK.set(CLOCK.get() + jump);
        times.push(CLOCK.get());
        emit::<R>(random.next(4), seq);
        if random.next(60) == 0 {
            read_all(&mut reader, &live, View::Live, |seq, time| {
                assert!(last.is_none_or(|last| last < seq));
                last = Some(seq);
                assert_eq!(time, times[seq as usize], "time of record {seq}");
                seen += 1;
            });
            if consumer != Consumer::None {
                reader.release(&live).unwrap();
            }
        }
    }
    // The rest from a dump, by the rules of dumps.
    let bytes = dump(&live);
    read_all(
        &mut reader,
        &Bytes(&bytes),
        View::PostMortem,
        |seq, time| {
            assert!(last.is_none_or(|last| last < seq));
            last = Some(seq);
            assert_eq!(time, times[seq as usize]);
            seen += 1;
        },
    );
    reader.refresh_dropped(&live).unwrap();
    let losses = reader.losses();
    assert_eq!(seen, reader.emitted());
    assert_eq!(seen + losses.events(), 3000, "seed {seed}: {losses:?}");
    match overflow {
        Overflow::Overwrite => assert_eq!(last, Some(2999)),
        Overflow::Discard => assert_eq!(
            (losses.overwritten, losses.packets),
            (0, 0),
            "what is not consumed stays"
        ),
    }
    assert_eq!(losses.packets > 0, losses.overwritten > 0, "{losses:?}");
    assert_eq!(losses.unreadable, 0);
    losses
}

#[test]
fn everything_written_is_read_or_counted() {
    let mut sum = [0u64; 3];
    for seed in 0..60 {
        for (slot, (overflow, consumer)) in [
            (Overflow::Discard, Consumer::None),
            (Overflow::Discard, Consumer::Host),
            (Overflow::Overwrite, Consumer::None),
        ]
        .into_iter()
        .enumerate()
        {
            sum[slot] += account::<LocalCas>(overflow, consumer, seed).events();
            sum[slot] += account::<Masked<NoInterrupts>>(overflow, consumer, seed).events();
        }
    }
    assert!(
        sum.iter().all(|&lost| lost > 1000),
        "the test is to see losses of every kind: {sum:?}"
    );
}

fn steps_back<R: Reserve + 'static>() {
    let memory = memory();
    let window = 1u64 << TIME_BITS;
    CLOCK.set(5 * window + 100);
    let session = start::<R>(
        memory,
        &config(Overflow::Overwrite, Consumer::None, 4096, 4),
    );
    let stamps = [
        5 * window + 200,
        5 * window + 150,
        5 * window + 300,
        4 * window + 900,
        5 * window + 301,
        6 * window,
        6 * window + 1,
        6 * window + (1 << 32) + 1,
    ];
    for (seq, stamp) in stamps.into_iter().enumerate() {
        CLOCK.set(stamp);
        emit::<R>(2, seq as u32);
    }
    let live = session.live();
    let mut reader = Region::open(&live)
        .unwrap()
        .channel(&live, 0, ChannelKind::Events)
        .unwrap();
    let mut times = Vec::new();
    read_all(&mut reader, &live, View::Live, |_, time| times.push(time));
    let mut expected = stamps;
    expected[1] = stamps[0];
    expected[3] = stamps[2];
    assert_eq!(times, expected);
    assert_eq!(reader.losses().clamped, 2);
    // SAFETY: the block of a leaked region.
    let control = unsafe { &*memory.control(0) };
    assert_eq!(
        control.clock_back.load(Relaxed),
        1,
        "one step left its window"
    );
    // And over a packet's end.
    CLOCK.set(window);
    for seq in 0..1000 {
        emit::<R>(2, seq);
    }
    let mut last = 0;
    read_all(&mut reader, &live, View::Live, |_, time| {
        assert!(time >= last);
        last = time;
    });
}

/// Memory in which the writer goes on while it is read: after every so many words that the reader
/// loads.
struct Interleaved<'a, W: Fn()> {
    live: super::source::Live,
    left: Cell<u64>,
    every: u64,
    write: &'a W,
}

impl<W: Fn()> Interleaved<'_, W> {
    fn step(&self) {
        self.left.set(self.left.get() - 1);
        if self.left.get() == 0 {
            self.left.set(self.every);
            (self.write)();
        }
    }
}

impl<W: Fn()> Source for Interleaved<'_, W> {
    fn len(&self) -> u64 {
        self.live.len()
    }
    fn load(&self, offset: u64) -> Result<u32, super::source::Outside> {
        self.step();
        self.live.load(offset)
    }
    fn load_long(&self, offset: u64) -> Result<u64, super::source::Outside> {
        self.step();
        self.live.load_long(offset)
    }
}

/// A writer between any two loads of the reader: what the reader takes for whole is whole, and the
/// rest is counted.
fn interleave<R: Reserve + 'static>(every: u64, burst: u32, earlier_packets: u64) {
    let memory = memory();
    CLOCK.set(0);
    let config = config(Overflow::Overwrite, Consumer::None, 256, 4);
    if earlier_packets > 0 {
        start::<R>(memory, &config).stop().unwrap();
        // SAFETY: the block of a leaked region.
        unsafe { &*memory.control(0) }
            .prep
            .store(earlier_packets, Relaxed);
    }
    let session = start::<R>(memory, &config);
    let seq = Cell::new(0u32);
    let write = || {
        for _ in 0..burst {
            CLOCK.set(CLOCK.get() + 5);
            emit::<R>(u64::from(seq.get() % 5), seq.replace(seq.get() + 1));
        }
    };
    let source = Interleaved {
        live: session.live(),
        left: Cell::new(every),
        every,
        write: &write,
    };
    let mut reader = Region::open(&session.live())
        .unwrap()
        .channel(&session.live(), 0, ChannelKind::Events)
        .unwrap();
    let (mut seen, mut last) = (0, None);
    let mut scratch = vec![0; reader.scratch_words()];
    for _ in 0..400 {
        let Some(mut batch) = reader.read(&source, View::Live, &mut scratch).unwrap() else {
            continue;
        };
        while let Some(record) = batch.next_record(&VOCABULARY) {
            assert!(
                last.is_none_or(|last| last < record.payload[0]),
                "{last:?} then {}",
                record.payload[0]
            );
            assert_eq!(record.time, 5 * (u64::from(record.payload[0]) + 1));
            last = Some(record.payload[0]);
            seen += 1;
        }
    }
    read_all(&mut reader, &session.live(), View::Live, |_, _| seen += 1);
    assert_eq!(
        seen + reader.losses().events(),
        u64::from(seq.get()),
        "every {every}, burst {burst}: {:?}",
        reader.losses()
    );
}

#[test]
fn a_writer_between_any_two_loads_of_the_reader_is_noticed() {
    for every in [1, 2, 3, 5, 7, 11, 30, 64, 65, 100] {
        for burst in [1, 2, 5, 17, 40] {
            interleave::<LocalCas>(every, burst, 0);
            interleave::<Masked<NoInterrupts>>(every, burst, 0);
        }
    }
}

/// 32-bit processors store 64-bit numbers in halves: readers come in between while they are carried
/// over.
#[test]
fn packet_numbers_grow_past_31_and_32_bits() {
    for carry in [1 << 31, 1 << 32] {
        for earlier in 1..5 {
            for (every, burst) in [(1, 1), (1, 7), (2, 3), (3, 20), (64, 40)] {
                interleave::<LocalCas>(every, burst, carry - earlier);
                interleave::<Masked<NoInterrupts>>(every, burst, carry - earlier);
            }
        }
    }
}

/// A record with the usual header comes right after a change of window: the extended header is
/// needed once.
fn window<R: Reserve + 'static>() {
    CLOCK.set(0);
    let memory = memory();
    let _session = start::<R>(
        memory,
        &config(Overflow::Overwrite, Consumer::None, 1024, 4),
    );
    // SAFETY: the block of a leaked region.
    let control = unsafe { &*memory.control(0) };
    let lengths = [0, 1 << TIME_BITS, (1 << TIME_BITS) + 1].map(|time| {
        CLOCK.set(time);
        let before = control.cursor.load(Relaxed);
        emit::<R>(2, 0);
        control.cursor.load(Relaxed) - before
    });
    assert_eq!(lengths, [12, 24, 12]);
}

#[test]
fn a_new_window_costs_one_extended_header() {
    window::<LocalCas>();
    window::<Masked<NoInterrupts>>();
}

/// The machine dies while a writer that was interrupted has not written its record, and the one
/// that interrupted it has.
#[test]
#[cfg(target_pointer_width = "64")]
fn records_behind_a_hole_are_counted_in_a_dump() {
    CLOCK.set(0);
    let memory = memory();
    let session = start::<LocalCas>(
        memory,
        &config(Overflow::Overwrite, Consumer::None, 1024, 4),
    );
    for seq in 0..10 {
        emit::<LocalCas>(2, seq);
    }
    let mut bytes = dump(&session.live());
    let region = Region::open(&Bytes(&bytes)).unwrap();
    // SAFETY: the block of a leaked region.
    let ring = unsafe { (*memory.control(0)).ring_offset.load(Relaxed) } as usize;
    // The fourth record: 12 words of header, three words each. Its reservation stands, its words
    // and its commit do not.
    let record = ring + 4 * (12 + 3 * 3);
    bytes[record..record + 12].fill(0);
    let commit = u32::from_le_bytes(bytes[ring..ring + 4].try_into().unwrap()) - (1 << 16) - 3;
    bytes[ring..ring + 4].copy_from_slice(&commit.to_le_bytes());
    let mut reader = region
        .channel(&Bytes(&bytes), 0, ChannelKind::Events)
        .unwrap();
    let mut seen = Vec::new();
    read_all(&mut reader, &Bytes(&bytes), View::PostMortem, |seq, _| {
        seen.push(seq)
    });
    assert_eq!((seen, reader.losses().unreadable), (vec![0, 1, 2], 6));
    // To a reader on the run the packet is not whole yet: it waits.
    let mut reader = region
        .channel(&Bytes(&bytes), 0, ChannelKind::Events)
        .unwrap();
    read_all(&mut reader, &Bytes(&bytes), View::Live, |_, _| {
        panic!("the packet is being written")
    });
}

crate::event! { #[id(99)] struct Undeclared { seq: u32 } }

/// An event that the vocabulary does not have cannot be walked over: what stands behind it in its
/// packet is counted, the next packet is read.
fn undeclared<R: Reserve + 'static>() {
    CLOCK.set(0);
    let memory = memory();
    let session = start::<R>(
        memory,
        &config(Overflow::Overwrite, Consumer::None, 256, 64),
    );
    let live = session.live();
    let mut reader = Region::open(&live)
        .unwrap()
        .channel(&live, 0, ChannelKind::Events)
        .unwrap();
    let mut seen = Vec::new();
    for seq in 0..3 {
        emit::<R>(2, seq);
    }
    Tracer::<Test<R>>::record(Undeclared { seq: 3 });
    for seq in 4..9 {
        emit::<R>(2, seq);
    }
    // 256 bytes hold 48 of header, 9 records of 12 and, at most, a few more.
    read_all(&mut reader, &live, View::Live, |seq, _| seen.push(seq));
    assert_eq!(
        (&seen[..], reader.losses().events()),
        (&[0, 1, 2][..], 0),
        "the packet may yet be closed"
    );
    let mut dead = reader.clone();
    for _ in 0..2 {
        read_all(&mut dead, &live, View::PostMortem, |seq, _| seen.push(seq));
        assert_eq!((seen.len(), dead.losses().unreadable), (3, 6));
    }
    for seq in 9..100 {
        emit::<R>(2, seq);
    }
    read_all(&mut reader, &live, View::Live, |seq, _| seen.push(seq));
    assert_eq!(*seen.last().unwrap(), 99);
    assert_eq!(seen.len() as u64 + reader.losses().unreadable, 100);
}

#[test]
fn an_undeclared_event_costs_its_packet_and_is_counted() {
    undeclared::<LocalCas>();
    undeclared::<Masked<NoInterrupts>>();
}

#[test]
fn control_blocks_beyond_the_memorys_cpus_do_not_exist() {
    let memory = memory();
    assert!(!memory.control(1).is_null());
    assert!(memory.control(2).is_null());
    // SAFETY: as `memory`; too small for its CPUs.
    let small = unsafe { Memory::new(std::ptr::without_provenance_mut(4096), 4096 + 512, 2) };
    assert!(small.control(0).is_null());
    // SAFETY: never touched, because it is refused.
    let odd = unsafe { Memory::new(std::ptr::without_provenance_mut(4096 + 64), 1 << 20, 2) };
    let refused = Tracer::<Test<LocalCas>>::start(
        odd,
        &config(Overflow::Discard, Consumer::None, 256, 4),
        &VOCABULARY,
    )
    .map(drop);
    assert_eq!(refused, Err(Error::Alignment));
}

#[test]
fn a_clock_that_steps_back_is_clamped_and_counted() {
    steps_back::<LocalCas>();
    steps_back::<Masked<NoInterrupts>>();
}

/// A clock whose halves are read one after the other, with a carry in between every third time:
/// such a reading must leave no trace.
#[test]
fn a_carry_between_the_halves_of_a_quick_clock_leaves_no_trace() {
    struct Carries;
    // SAFETY: see `Block`.
    unsafe impl Platform for Carries {
        type Reserve = Masked<NoInterrupts>;
        type Local = ByPointer<Block>;
        fn clock() -> u64 {
            CLOCK.get()
        }
        fn quick_clock() -> u64 {
            CLOCK.get()
                + if CLOCK.get().is_multiple_of(3) {
                    1 << 32
                } else {
                    0
                }
        }
        fn synchronize() {}
    }
    CLOCK.set(0);
    let memory = memory();
    let session = Tracer::<Carries>::start(
        memory,
        &config(Overflow::Discard, Consumer::None, 4096, 8),
        &VOCABULARY,
    )
    .unwrap();
    BLOCK.set(memory.control(0));
    let mut times = Vec::new();
    for seq in 0..400 {
        // A few carries of the real clock among them.
        CLOCK.set(CLOCK.get() + if seq % 100 == 99 { (1 << 32) - 5 } else { 1 });
        times.push(CLOCK.get());
        Tracer::<Carries>::record(Short {
            seq,
            check: check_of(seq),
        });
    }
    let live = session.live();
    let mut reader = Region::open(&live)
        .unwrap()
        .channel(&live, 0, ChannelKind::Events)
        .unwrap();
    let mut read = Vec::new();
    read_all(&mut reader, &live, View::Live, |_, time| read.push(time));
    assert_eq!(read, times);
    reader.refresh_dropped(&live).unwrap();
    assert_eq!(reader.losses(), Losses::default());
}

/// The record that closed a packet is overwritten before it is read, and the clock steps back: the
/// packet's end is the latest time that was read.
fn steps_back_behind_an_end<R: Reserve + 'static>() {
    CLOCK.set(0);
    let session = start::<R>(
        memory(),
        &config(Overflow::Overwrite, Consumer::None, 256, 4),
    );
    let live = session.live();
    let mut reader = Region::open(&live)
        .unwrap()
        .channel(&live, 0, ChannelKind::Events)
        .unwrap();
    let mut scratch = vec![0; reader.scratch_words()];
    let mut seq = 0;
    let mut record = |time: u64, count: u32| {
        CLOCK.set(time);
        (0..count).for_each(|_| {
            emit::<R>(2, seq);
            seq += 1;
        });
    };
    let per_packet = (256 - 48 - 4) / 12;
    record(1000, per_packet);
    record(5000, 1);
    let mut first = reader
        .read(&live, View::Live, &mut scratch)
        .unwrap()
        .unwrap();
    assert_eq!(first.end(), Some(5000));
    while first.next_record(&VOCABULARY).is_some() {}
    record(2000, 8 * per_packet);
    let mut after = 0;
    read_all(&mut reader, &live, View::Live, |_, time| {
        assert_eq!(time, 5000);
        after += 1;
    });
    let losses = reader.losses();
    assert!(after > 0 && losses.overwritten > 0, "{after} {losses:?}");
    assert_eq!(losses.clamped, after);
}

#[test]
fn a_clock_that_steps_back_behind_a_packets_end_is_clamped_and_counted() {
    steps_back_behind_an_end::<LocalCas>();
    steps_back_behind_an_end::<Masked<NoInterrupts>>();
}

/// A writer on one thread, a reader on another, both as fast as they can.
fn race<R: Reserve + 'static>(overflow: Overflow, consumer: Consumer, count: u32) {
    let memory = memory();
    let session = start::<R>(memory, &config(overflow, consumer, 1024, 16));
    let live = session.live();
    let done = AtomicBool::new(false);
    let (mut seen, mut last) = (0u64, None);
    let mut reader = Region::open(&live)
        .unwrap()
        .channel(&live, 0, ChannelKind::Events)
        .unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            BLOCK.set(memory.control(0));
            for seq in 0..count {
                CLOCK.set(CLOCK.get() + 3 + u64::from(seq % 1000 == 0) * (1 << 26));
                emit::<R>(u64::from(seq % 7), seq);
            }
            done.store(true, SeqCst);
        });
        loop {
            let finished = done.load(SeqCst);
            read_all(&mut reader, &live, View::Live, |seq, _| {
                assert!(last.is_none_or(|last| last < seq), "{last:?} then {seq}");
                last = Some(seq);
                seen += 1;
            });
            if consumer != Consumer::None {
                reader.release(&live).unwrap();
            }
            if finished {
                break;
            }
            std::thread::yield_now();
        }
    });
    read_all(&mut reader, &live, View::Live, |_, _| seen += 1);
    reader.refresh_dropped(&live).unwrap();
    assert_eq!(
        seen + reader.losses().events(),
        u64::from(count),
        "{:?}",
        reader.losses()
    );
    assert!(seen > 0);
}

#[test]
fn a_reader_on_another_thread_sees_whole_records_and_exact_losses() {
    for (overflow, consumer) in [
        (Overflow::Discard, Consumer::Host),
        (Overflow::Overwrite, Consumer::None),
    ] {
        race::<LocalCas>(overflow, consumer, 200_000);
        race::<Masked<NoInterrupts>>(overflow, consumer, 200_000);
    }
}

/// A nested writer at any point of the outer one: here at each clock read, which lies between
/// position and swap.
#[test]
#[cfg(target_pointer_width = "64")]
fn nested_writers_keep_time_order_and_lose_nothing() {
    thread_local! {
        static DEPTH: Cell<u32> = const { Cell::new(0) };
        static SEQ: Cell<u32> = const { Cell::new(0) };
    }
    struct Nesting;
    // SAFETY: as `Test`; the nested writer runs to its end inside of the outer one, as an interrupt
    // does.
    unsafe impl Platform for Nesting {
        type Reserve = LocalCas;
        type Local = ByPointer<Block>;
        fn clock() -> u64 {
            CLOCK.set(CLOCK.get() + 1);
            let now = CLOCK.get();
            if DEPTH.get() < 3 && CLOCK.get().is_multiple_of(3) {
                DEPTH.set(DEPTH.get() + 1);
                let seq = SEQ.replace(SEQ.get() + 1);
                Tracer::<Nesting>::record(Short {
                    seq,
                    check: check_of(seq),
                });
                DEPTH.set(DEPTH.get() - 1);
            }
            now
        }
        fn synchronize() {}
    }
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let memory = memory();
    let session = Tracer::<Nesting>::start(
        memory,
        &config(Overflow::Overwrite, Consumer::None, 256, 1024),
        &VOCABULARY,
    )
    .unwrap();
    BLOCK.set(memory.control(0));
    for _ in 0..5000 {
        let seq = SEQ.replace(SEQ.get() + 1);
        Tracer::<Nesting>::record(Short {
            seq,
            check: check_of(seq),
        });
    }
    CALLS.store(u64::from(SEQ.get()), Relaxed);
    let live = session.live();
    let mut reader = Region::open(&live)
        .unwrap()
        .channel(&live, 0, ChannelKind::Events)
        .unwrap();
    let mut seen = vec![false; SEQ.get() as usize];
    let mut last = 0;
    read_all(&mut reader, &live, View::Live, |seq, time| {
        assert!(
            !std::mem::replace(&mut seen[seq as usize], true),
            "record {seq} came twice"
        );
        assert!(time >= last);
        last = time;
    });
    assert_eq!(reader.losses().clamped, 0, "time order under nesting");
    assert_eq!(
        reader.emitted() + reader.losses().events(),
        CALLS.load(Relaxed)
    );
    assert!(CALLS.load(Relaxed) > 6000);
}

#[test]
fn sessions_start_once_stop_once_and_go_on_in_the_same_memory() {
    let memory = memory();
    let config = config(Overflow::Overwrite, Consumer::None, 256, 4);
    let session = start::<LocalCas>(memory, &config);
    assert_eq!(
        Tracer::<Test<LocalCas>>::start(memory, &config, &VOCABULARY).map(drop),
        Err(Error::Running)
    );
    assert!(Tracer::<Test<LocalCas>>::is_on::<Tiny>());
    emit::<LocalCas>(0, 7);
    assert_eq!(session.stop(), Ok(()));
    assert!(!Tracer::<Test<LocalCas>>::is_on::<Tiny>());
    assert_eq!(session.stop(), Err(Error::NotRunning));
    let first = Region::open(&session.live()).unwrap().header().clone();
    let again = start::<LocalCas>(memory, &config);
    emit::<LocalCas>(0, 8);
    let live = again.live();
    let region = Region::open(&live).unwrap();
    assert!(region.header().session_id > first.session_id);
    assert_ne!(region.header().uuid, first.uuid);
    let mut reader = region.channel(&live, 0, ChannelKind::Events).unwrap();
    let mut seen = Vec::new();
    read_all(&mut reader, &live, View::Live, |seq, _| seen.push(seq));
    assert_eq!(
        seen,
        [8],
        "nothing of the first session is taken for the second's"
    );
    // SAFETY: the block of a leaked region.
    assert!(unsafe { (*memory.control(0)).first_packet.load(Relaxed) } > 0);
}

/// A reader and a handle of one session have nothing to do with the next one over the same memory.
#[test]
fn a_reader_of_one_session_takes_nothing_of_the_next() {
    let memory = memory();
    let config = config(Overflow::Overwrite, Consumer::None, 256, 4);
    let first = start::<LocalCas>(memory, &config);
    let live = first.live();
    let mut reader = Region::open(&live)
        .unwrap()
        .channel(&live, 0, ChannelKind::Events)
        .unwrap();
    emit::<LocalCas>(0, 1);
    first.stop().unwrap();
    let second = start::<LocalCas>(
        memory,
        &Config {
            names_packets: 8,
            ..config
        },
    );
    for seq in 2..500 {
        emit::<LocalCas>(0, seq);
    }
    read_all(&mut reader, &live, View::Live, |seq, _| {
        panic!("event {seq} is of the second session")
    });
    assert_eq!(reader.losses(), Losses::default());
    assert_eq!(
        first.stop(),
        Err(Error::NotRunning),
        "it is not this handle's session that runs"
    );
    assert_eq!(second.stop(), Ok(()));
}

#[test]
fn a_configuration_that_cannot_work_is_refused_in_words() {
    let good = config(Overflow::Overwrite, Consumer::None, 256, 4);
    let small = memory();
    for bad in [
        Config { cpus: 0, ..good },
        Config { cpus: 3, ..good },
        Config {
            packet_size: 300,
            ..good
        },
        Config {
            packet_size: 128,
            ..good
        },
        Config { packets: 3, ..good },
        #[cfg(target_pointer_width = "64")]
        Config { packets: 5, ..good },
        Config {
            clock: Clock {
                frequency_hz: 0,
                ..good.clock
            },
            ..good
        },
        Config {
            packets: 1 << 20,
            ..good
        },
    ] {
        let error = Tracer::<Test<LocalCas>>::start(small, &bad, &VOCABULARY)
            .map(drop)
            .unwrap_err();
        assert!(error.to_string().len() > 20, "{error}");
    }
    assert!(
        Tracer::<Test<Masked<NoInterrupts>>>::start(
            small,
            &Config { packets: 5, ..good },
            &VOCABULARY
        )
        .is_ok()
    );
}

/// Whatever stands in the memory: a reader ends, and neither panics nor reads outside.
#[test]
fn damaged_memory_is_survived() {
    let memory = memory();
    CLOCK.set(77);
    let session = start::<LocalCas>(memory, &config(Overflow::Overwrite, Consumer::None, 256, 8));
    for seq in 0..500 {
        emit::<LocalCas>(u64::from(seq % 4), seq);
    }
    let bytes = dump(&session.live());
    let used = Region::open(&Bytes(&bytes)).unwrap().header().total_size as usize;
    let mut random = Random(9);
    for _ in 0..2000 {
        let mut damaged = bytes[..used].to_vec();
        for _ in 0..=random.next(4) {
            let at = random.next(used as u64) as usize;
            damaged[at] ^= 1 << random.next(8);
        }
        damaged.truncate(
            used - if random.next(4) == 0 {
                random.next(used as u64) as usize
            } else {
                0
            },
        );
        let source = Bytes(&damaged);
        let Ok(region) = Region::open(&source) else {
            continue;
        };
        for view in [View::PostMortem, View::Live] {
            let Ok(mut reader) = region.channel(&source, 0, ChannelKind::Events) else {
                continue;
            };
            let mut scratch = vec![0; reader.scratch_words()];
            while let Ok(Some(mut batch)) = reader.read(&source, view, &mut scratch) {
                while batch.next_record(&VOCABULARY).is_some() {}
            }
        }
    }
}

/// Readers from before there were sequences would take a sequence's size for a text's.
#[test]
fn older_readers_refuse_what_they_cannot_measure() {
    use crate::event::Sequence;
    crate::event! { #[id(21)] struct Bytes { data: Sequence<u8, 8> } }
    crate::event! { #[id(22)] struct Words { name: crate::Text<4>, data: Sequence<u16, 8> } }
    static NARROW: Vocabulary = crate::vocabulary![Bytes];
    static WIDE: Vocabulary = crate::vocabulary![Bytes, Words];
    for (vocabulary, incompat) in [(&NARROW, 0), (&WIDE, 1)] {
        let config = config(Overflow::Overwrite, Consumer::None, 256, 8);
        let session = Tracer::<Test<LocalCas>>::start(memory(), &config, vocabulary).unwrap();
        let live = session.live();
        let region = Region::open(&live).unwrap();
        assert_eq!(region.header().incompat, incompat);
        for (index, event) in vocabulary.events().iter().enumerate() {
            assert_eq!(
                region.shape(&live, index as u32),
                Ok((event.id, event.shape()))
            );
        }
        session.stop().unwrap();
    }
}

mod losses;

/// Whatever way an event is recorded, it is one record of the same words: by the declaration, by number,
/// and in place; in hot path and slow path, with one-word and two-word headers.
fn record_in_every_way<R: Reserve + 'static>() {
    crate::event! { #[id(63)] struct Chain { seq: u32, ips: [u64; 20] } }
    static VOCABULARY: Vocabulary = crate::vocabulary![Tiny, Chain];
    type T<R> = Tracer<Test<R>>;
    let memory = memory();
    let config = config(Overflow::Discard, Consumer::None, 1024, 256);
    BLOCK.set(memory.control(0));
    let session = T::<R>::start(memory, &config, &VOCABULARY).unwrap();
    assert!(T::<R>::is_on_raw(Tiny::ID) && T::<R>::is_on_raw(Chain::ID));
    assert!(!T::<R>::is_on_raw(Short::ID) && !T::<R>::is_on_raw_name(Tiny::ID));
    let address = |seq: u32, step: u64| u64::from(seq) << 32 | step;
    for seq in 0..600 {
        CLOCK.set(CLOCK.get() + (1 << 20));
        let chain: [u64; 20] = core::array::from_fn(|step| address(seq, step as u64));
        match seq % 6 {
            0 => T::<R>::record(Chain { seq, ips: chain }),
            1 => T::<R>::record_raw(Tiny::ID, &[seq]),
            2 => T::<R>::record_in_place::<Chain>(41, |out| {
                assert_eq!(out.room(), 41);
                assert!(out.push(seq));
                assert!(chain.into_iter().all(|ip| out.push_long(ip)));
                assert!(
                    !out.push(7) && !out.push_long(7),
                    "there is no room for more"
                );
            }),
            3 => T::<R>::record_raw_masked(Tiny::ID, &[seq]),
            4 => T::<R>::record_in_place_masked::<Chain>(41, |out| {
                // What is left is zero, whatever the ring held.
                out.push(seq);
            }),
            _ => {
                let mut words = [0; 41];
                words[0] = seq;
                for (pair, ip) in words[1..].chunks_mut(2).zip(chain) {
                    pair.copy_from_slice(&[ip as u32, (ip >> 32) as u32]);
                }
                T::<R>::record_raw(Chain::ID, &words);
            }
        }
    }
    // Longer than a packet.
    T::<R>::record_in_place::<Chain>(1000, |_| panic!("there is no room to write to"));
    T::<R>::record_raw(Chain::ID, &[0; 1000]);
    session.stop().unwrap();
    let live = session.live();
    let region = Region::open(&live).unwrap();
    let mut reader = region.channel(&live, 0, ChannelKind::Events).unwrap();
    let mut scratch = vec![0; reader.scratch_words()];
    let mut next = 0;
    while let Some(mut batch) = reader.read(&live, View::Live, &mut scratch).unwrap() {
        while let Some(record) = batch.next_record(&VOCABULARY) {
            let seq = record.payload[0];
            assert_eq!(seq, next, "each of them once, and in order");
            next += 1;
            if seq % 2 == 1 && seq % 6 != 5 {
                assert_eq!((record.id, record.payload), (Tiny::ID, &[seq][..]));
                continue;
            }
            assert_eq!((record.id, record.payload.len()), (Chain::ID, 41));
            for (step, pair) in record.payload[1..].chunks(2).enumerate() {
                let expected = if seq % 6 == 4 {
                    0
                } else {
                    address(seq, step as u64)
                };
                let found = u64::from(pair[0]) | u64::from(pair[1]) << 32;
                assert_eq!(found, expected, "{seq}, {step}");
            }
        }
    }
    assert_eq!(next, 600);
    reader.refresh_losses(&live).unwrap();
    assert_eq!(
        (reader.losses().too_large, reader.losses().events()),
        (2, 2)
    );
}

#[test]
fn records_made_in_place_and_by_number_are_those_of_the_declaration() {
    record_in_every_way::<LocalCas>();
    record_in_every_way::<Masked<NoInterrupts>>();
    #[cfg(target_arch = "x86_64")]
    record_in_every_way::<crate::arch::x86_64::TscCas>();
}

/// A record made in place that another one interrupts: both are whole.
#[cfg(target_pointer_width = "64")]
#[test]
fn a_record_made_in_place_is_interrupted() {
    type T = Tracer<Test<LocalCas>>;
    let session = start::<LocalCas>(
        memory(),
        &config(Overflow::Discard, Consumer::None, 256, 64),
    );
    for seq in (0..200).step_by(2) {
        T::record_in_place::<Short>(2, |out| {
            out.push(seq);
            T::record(Tiny { seq: seq + 1 });
            out.push(check_of(seq));
        });
    }
    session.stop().unwrap();
    let live = session.live();
    let region = Region::open(&live).unwrap();
    let mut reader = region.channel(&live, 0, ChannelKind::Events).unwrap();
    let mut seen = Vec::new();
    read_all(&mut reader, &live, View::Live, |seq, _| seen.push(seq));
    seen.sort_unstable();
    assert_eq!(seen, (0..200).collect::<Vec<_>>());
}
