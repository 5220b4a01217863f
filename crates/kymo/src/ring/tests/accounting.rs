//! Every record that comes out is the one that went in, and what does not come out is counted.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};

use super::*;
use crate::ring::harness::control;
use crate::ring::layout::TIME_BITS;
use crate::ring::reader::Losses;
use crate::ring::source::{Bytes, Live, Outside};

/// Random events, random clock (forward only), a reader that comes now and then; everything is
/// accounted for.
fn account<R: Reserve + 'static>(overflow: Overflow, consumer: Consumer, seed: u64) -> Losses {
    let mut random = Random(seed);
    let memory = form::<R>(
        memory(),
        &config(
            overflow,
            consumer,
            256 << random.next(3),
            4 << random.next(3),
        ),
    );
    let live = memory.live();
    let mut reader = events(&live);
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

/// A record that fits into no packet is counted as dropped, and among these as too large.
fn too_large<R: Reserve + 'static>() {
    CLOCK.set(0);
    let memory = form::<R>(
        memory(),
        &config(Overflow::Overwrite, Consumer::None, 256, 4),
    );
    let live = memory.live();
    let mut reader = events(&live);
    emit::<R>(2, 0);
    // A packet of 64 words has twelve of header, and leaves one free.
    for words in [50, 51, 70] {
        let recorded = R::record::<Cpu<R>, RawEvent>(TINY, &vec![1; words][..]);
        assert_eq!(recorded, words == 50, "{words} words");
    }
    reader.refresh_dropped(&live).unwrap();
    let losses = reader.losses();
    assert_eq!((losses.dropped, losses.too_large), (2, 2), "{losses:?}");
}

#[test]
fn a_record_that_no_packet_holds_is_counted() {
    too_large::<LocalCas>();
    too_large::<Masked<NoInterrupts>>();
}

/// Memory in which the writer goes on while it is read: after every so many words that the reader
/// loads.
struct Interleaved<'a, W: Fn()> {
    live: Live,
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
    fn load(&self, offset: u64) -> Result<u32, Outside> {
        self.step();
        self.live.load(offset)
    }
    fn load_long(&self, offset: u64) -> Result<u64, Outside> {
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
        form::<R>(memory, &config).close();
        control(&memory).prep.store(earlier_packets, Relaxed);
    }
    form::<R>(memory, &config);
    let seq = Cell::new(0u32);
    let write = || {
        for _ in 0..burst {
            CLOCK.set(CLOCK.get() + 5);
            emit::<R>(u64::from(seq.get() % 5), seq.replace(seq.get() + 1));
        }
    };
    let source = Interleaved {
        live: memory.live(),
        left: Cell::new(every),
        every,
        write: &write,
    };
    let mut reader = events(&memory.live());
    let (mut seen, mut last) = (0, None);
    let mut scratch = vec![0; reader.scratch_words()];
    for _ in 0..400 {
        let Some(mut batch) = reader.read(&source, View::Live, &mut scratch).unwrap() else {
            continue;
        };
        while let Some(record) = batch.next_record(&RECORDS) {
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
    read_all(&mut reader, &memory.live(), View::Live, |_, _| seen += 1);
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

/// A writer on one thread, a reader on another, both as fast as they can.
fn race<R: Reserve + 'static>(overflow: Overflow, consumer: Consumer, count: u32) {
    // Miri takes long for each word.
    let (packet_size, packets) = if cfg!(miri) { (256, 4) } else { (1024, 16) };
    let memory = form::<R>(memory(), &config(overflow, consumer, packet_size, packets));
    let live = memory.live();
    let done = AtomicBool::new(false);
    let (mut seen, mut last) = (0u64, None);
    let mut reader = events(&live);
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
        let count = if cfg!(miri) { 150 } else { 200_000 };
        race::<LocalCas>(overflow, consumer, count);
        race::<Masked<NoInterrupts>>(overflow, consumer, count);
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
    fn call() {
        let seq = SEQ.replace(SEQ.get() + 1);
        LocalCas::record::<Nesting, RawEvent>(SHORT, &[seq, check_of(seq)][..]);
    }
    struct Nesting;
    // SAFETY: as `Cpu`; the nested writer runs to its end inside of the outer one, as an interrupt
    // does.
    unsafe impl Environment for Nesting {
        type Local = ByPointer<Block>;
        fn clock() -> u64 {
            CLOCK.set(CLOCK.get() + 1);
            let now = CLOCK.get();
            if DEPTH.get() < 3 && CLOCK.get().is_multiple_of(3) {
                DEPTH.set(DEPTH.get() + 1);
                call();
                DEPTH.set(DEPTH.get() - 1);
            }
            now
        }
        fn synchronize() {}
    }
    let memory = memory();
    let config = config(Overflow::Overwrite, Consumer::None, 256, 1024);
    memory
        .form::<Nesting>(&config, LocalCas::KIND, &RECORDS)
        .unwrap();
    BLOCK.set(memory.control(0));
    (0..5000).for_each(|_| call());
    let calls = SEQ.get();
    let live = memory.live();
    let mut reader = events(&live);
    let mut seen = vec![false; calls as usize];
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
        u64::from(calls)
    );
    assert!(calls > 6000);
}
