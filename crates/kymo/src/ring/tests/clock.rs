//! Times: windows, clamping, and clocks that step back or are read while they carry.

use std::sync::atomic::Ordering::Relaxed;

use super::*;
use crate::ring::harness::control;
use crate::ring::layout::TIME_BITS;
use crate::ring::reader::Losses;

fn steps_back<R: Reserve + 'static>() {
    let window = 1u64 << TIME_BITS;
    CLOCK.set(5 * window + 100);
    let memory = form::<R>(
        memory(),
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
    let live = memory.live();
    let mut reader = events(&live);
    let mut times = Vec::new();
    read_all(&mut reader, &live, View::Live, |_, time| times.push(time));
    let mut expected = stamps;
    expected[1] = stamps[0];
    expected[3] = stamps[2];
    assert_eq!(times, expected);
    assert_eq!(
        (reader.losses().steps_back, reader.losses().clamped),
        (2, 2)
    );
    assert_eq!(
        control(&memory).clock_back.load(Relaxed),
        1,
        "one step left its window"
    );
    // The clock also steps back over a packet's end.
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

/// A record with the usual header comes right after a change of window: the extended header is
/// needed once.
fn window<R: Reserve + 'static>() {
    CLOCK.set(0);
    let memory = form::<R>(
        memory(),
        &config(Overflow::Overwrite, Consumer::None, 1024, 4),
    );
    let control = control(&memory);
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
    unsafe impl Environment for Carries {
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
    type Writer = Masked<NoInterrupts>;
    let memory = memory();
    let config = config(Overflow::Discard, Consumer::None, 4096, 8);
    memory
        .form::<Carries>(&config, Writer::KIND, &RECORDS)
        .unwrap();
    BLOCK.set(memory.control(0));
    let mut times = Vec::new();
    for seq in 0..400 {
        // A few of these steps carry the real clock.
        CLOCK.set(CLOCK.get() + if seq % 100 == 99 { (1 << 32) - 5 } else { 1 });
        times.push(CLOCK.get());
        Writer::record::<Carries, RawEvent>(SHORT, &[seq, check_of(seq)][..]);
    }
    let live = memory.live();
    let mut reader = events(&live);
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
    let memory = form::<R>(
        memory(),
        &config(Overflow::Overwrite, Consumer::None, 256, 4),
    );
    let live = memory.live();
    let mut reader = events(&live);
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
    while first.next_record(&RECORDS).is_some() {}
    record(2000, 8 * per_packet);
    let mut after = 0;
    read_all(&mut reader, &live, View::Live, |_, time| {
        assert_eq!(time, 5000);
        after += 1;
    });
    let losses = reader.losses();
    assert!(after > 0 && losses.overwritten > 0, "{after} {losses:?}");
    assert_eq!((losses.steps_back, losses.clamped), (1, after));
}

#[test]
fn a_clock_that_steps_back_behind_a_packets_end_is_clamped_and_counted() {
    steps_back_behind_an_end::<LocalCas>();
    steps_back_behind_an_end::<Masked<NoInterrupts>>();
}

/// The first record behind a step back does not fit: it opens a packet, and is counted there.
fn steps_back_at_an_end<R: Reserve + 'static>() {
    const WINDOW: u64 = 1 << TIME_BITS;
    CLOCK.set(5 * WINDOW);
    let memory = form::<R>(
        memory(),
        &config(Overflow::Overwrite, Consumer::None, 256, 4),
    );
    let control = control(&memory);
    // Seventeen records fill a packet; the next one opens another.
    (0..17).for_each(|seq| emit::<R>(2, seq));
    CLOCK.set(4 * WINDOW);
    emit::<R>(2, 17);
    assert_eq!(control.clock_back.load(Relaxed), 1);
    CLOCK.set(5 * WINDOW);
    (18..34).for_each(|seq| emit::<R>(2, seq));
    // No record of the packet that is full by now has stepped back, and neither has the next one.
    emit::<R>(2, 34);
    assert_eq!(control.clock_back.load(Relaxed), 1);
    let live = memory.live();
    let mut read = 0;
    read_all(&mut events(&live), &live, View::Live, |_, time| {
        assert_eq!(time, 5 * WINDOW);
        read += 1;
    });
    assert_eq!(read, 35);
}

#[test]
fn a_step_back_at_a_packets_end_is_counted() {
    steps_back_at_an_end::<LocalCas>();
    steps_back_at_an_end::<Masked<NoInterrupts>>();
}

fn overwritten_before_it_was_taken<R: Reserve + 'static>() {
    const OPENED: u64 = (5 << TIME_BITS) + 1000;
    CLOCK.set(OPENED - 500);
    let memory = form::<R>(
        memory(),
        &config(Overflow::Overwrite, Consumer::None, 256, 4),
    );
    let live = memory.live();
    let mut reader = events(&live);
    let mut scratch = vec![0; reader.scratch_words()];
    // Seventeen records fill a packet; the next one opens another.
    (0..17).for_each(|seq| emit::<R>(2, seq));
    CLOCK.set(OPENED);
    emit::<R>(2, 17);
    let mut batch = reader
        .read(&live, View::Live, &mut scratch)
        .unwrap()
        .unwrap();
    while batch.next_record(&RECORDS).is_some() {}
    let batch = reader
        .read(&live, View::Live, &mut scratch)
        .unwrap()
        .unwrap();
    assert_eq!(batch.begin(), OPENED);
    // Its record is not taken, and the ring is written twice with the clock set back.
    CLOCK.set(1000);
    (18..8 * 17).for_each(|seq| emit::<R>(2, seq));
    let mut batch = reader
        .read(&live, View::Live, &mut scratch)
        .unwrap()
        .unwrap();
    let begin = batch.begin();
    assert!(batch.losses().packets > 0);
    let record = batch.next_record(&RECORDS).unwrap();
    assert_eq!((begin, record.time), (OPENED, OPENED));
}

/// A time that the reader has only looked at holds back later ones too, and then the batch says so:
/// a packet of the trace that begins there contains the time to which they were clamped.
#[test]
fn a_batch_begins_where_its_records_are_clamped() {
    overwritten_before_it_was_taken::<Masked<NoInterrupts>>();
    #[cfg(target_pointer_width = "64")]
    overwritten_before_it_was_taken::<LocalCas>();
}
