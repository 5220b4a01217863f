//! How losses are reported: in which packet, where among its records, and at a session's end.

use super::*;

/// The machine dies while a writer opens a packet: what interrupts dropped then stands in no
/// packet, and is reported all the same.
#[test]
#[cfg(target_pointer_width = "64")]
fn the_last_packet_tells_what_was_dropped_when_the_machine_died() {
    CLOCK.set(0);
    let memory = memory();
    let session = start::<LocalCas>(memory, &config(Overflow::Overwrite, Consumer::None, 256, 4));
    // Seventeen records of three words fill a packet; the next one opens another.
    (0..18).for_each(|seq| emit::<LocalCas>(2, seq));
    let mut bytes = dump(&session.live());
    let region = Region::open(&Bytes(&bytes)).unwrap();
    // SAFETY: the block of a leaked region.
    let ring = unsafe { (*memory.control(0)).ring_offset.load(Relaxed) } as usize;
    let slot = ring + 256;
    assert_eq!(bytes[slot + 8..slot + 16], 1u64.to_le_bytes(), "it is open");
    bytes[slot..slot + 4].fill(0);
    bytes[slot + 8..slot + 16].fill(0xff);
    let discarded = crate::ring::layout::CONTROL_OFFSET + std::mem::offset_of!(Control, discarded);
    bytes[discarded] = 5;
    let source = Bytes(&bytes);
    let reader = region.channel(&source, 0, ChannelKind::Events).unwrap();
    let mut stream = crate::ctf::stream::Stream::new(reader, [7; 16], 0);
    let mut buffer = vec![0; 1024];
    let mut read = |view| {
        let words = stream
            .read(
                &source,
                &VOCABULARY,
                (view, 99),
                VOCABULARY.max_record_words(),
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

fn overwritten_before_it_was_taken<R: Reserve + 'static>() {
    const OPENED: u64 = (5 << TIME_BITS) + 1000;
    CLOCK.set(OPENED - 500);
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
    // Seventeen records fill a packet; the next one opens another.
    (0..17).for_each(|seq| emit::<R>(2, seq));
    CLOCK.set(OPENED);
    emit::<R>(2, 17);
    let mut batch = reader
        .read(&live, View::Live, &mut scratch)
        .unwrap()
        .unwrap();
    while batch.next_record(&VOCABULARY).is_some() {}
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
    let record = batch.next_record(&VOCABULARY).unwrap();
    assert_eq!((begin, record.time), (OPENED, OPENED));
    session.stop().unwrap();
}

/// A time that the reader has only looked at holds back later ones too, and then the batch says so:
/// a packet of the trace that begins there contains the time to which they were clamped.
#[test]
fn a_batch_begins_where_its_records_are_clamped() {
    overwritten_before_it_was_taken::<Masked<NoInterrupts>>();
    #[cfg(target_pointer_width = "64")]
    overwritten_before_it_was_taken::<LocalCas>();
}

fn dropped_behind<R: Reserve + 'static>() {
    CLOCK.set(0);
    let session = start::<R>(memory(), &config(Overflow::Discard, Consumer::Host, 256, 4));
    let live = session.live();
    let mut reader = Region::open(&live)
        .unwrap()
        .channel(&live, 0, ChannelKind::Events)
        .unwrap();
    let mut scratch = vec![0; reader.scratch_words()];
    let mut dropped = |reader: &mut ChannelReader| {
        let mut dropped = Vec::new();
        while let Some(mut batch) = reader.read(&live, View::Live, &mut scratch).unwrap() {
            dropped.push(batch.losses().dropped);
            while batch.next_record(&VOCABULARY).is_some() {}
            reader.release(&live).unwrap();
        }
        dropped
    };
    // Seventeen records fill a packet; five find all four full.
    (0..4 * 17 + 5).for_each(|seq| emit::<R>(2, seq));
    assert_eq!(
        dropped(&mut reader),
        [0; 4],
        "{}: they were dropped behind all records",
        std::any::type_name::<R>()
    );
    assert_eq!(reader.losses().dropped, 5);
    emit::<R>(2, 100);
    assert_eq!(dropped(&mut reader).last(), Some(&5), "and before this one");
    session.stop().unwrap();
}

/// A packet that was full when events were dropped tells how many; they lie behind its records, not
/// before them.
#[test]
fn what_a_full_ring_drops_lies_behind_its_records() {
    dropped_behind::<Masked<NoInterrupts>>();
    #[cfg(target_pointer_width = "64")]
    dropped_behind::<LocalCas>();
}

/// Everything that a channel gives to a reader that comes last, id and payload.
fn records_of(
    session: &Session<Test<impl Reserve + 'static>>,
    kind: ChannelKind,
    vocabulary: &Vocabulary,
) -> Vec<(u32, Vec<u32>)> {
    let live = session.live();
    let mut reader = Region::open(&live)
        .unwrap()
        .channel(&live, 0, kind)
        .unwrap();
    let (mut records, mut scratch) = (Vec::new(), vec![0; reader.scratch_words()]);
    while let Some(mut batch) = reader.read(&live, View::PostMortem, &mut scratch).unwrap() {
        while let Some(record) = batch.next_record(vocabulary) {
            records.push((record.id, record.payload.to_vec()));
        }
    }
    records
}

fn diagnostics<R: Reserve + 'static>() {
    use crate::vocabulary::{ClockBack, SessionEnd};
    crate::event! { #[id(41)] #[channel(Names)] struct Name { seq: u32 } }
    static VOCABULARY: Vocabulary =
        crate::vocabulary![Short, Tiny, Long, Name, ClockBack, SessionEnd];
    CLOCK.set(5);
    let memory = memory();
    let session = Tracer::<Test<R>>::start(
        memory,
        &config(Overflow::Overwrite, Consumer::None, 256, 4),
        &VOCABULARY,
    )
    .unwrap();
    BLOCK.set(memory.control(0));
    let mut calls = 0;
    let mut at = |time: u64, record: &dyn Fn(u32)| {
        CLOCK.set(time);
        calls += 1;
        record(calls);
    };
    let (short, name) = (
        |seq| emit::<R>(2, seq),
        |seq| Tracer::<Test<R>>::record(Name { seq }),
    );
    at(5 << TIME_BITS, &short);
    // Within the window of the record before the reader finds it out.
    at((5 << TIME_BITS) + 9, &short);
    at((5 << TIME_BITS) + 3, &short);
    // A clock that stays behind: ten times.
    (0..10).for_each(|step| at((4 << TIME_BITS) + 100 * step, &short));
    // The channel of names is not behind then: nothing was recorded there in the later window.
    at(6 << TIME_BITS, &name);
    at((6 << TIME_BITS) - 1, &name);
    // And packets that go: 17 records each.
    (0..200).for_each(|_| at(7 << TIME_BITS, &short));
    session.stop().unwrap();
    let names = records_of(&session, ChannelKind::Names, &VOCABULARY);
    let reports: Vec<_> = names
        .iter()
        .filter(|(id, _)| *id == ClockBack::ID)
        .map(|(_, payload)| &payload[..])
        .collect();
    let behind = |step: u32| (1 << TIME_BITS) - 100 * step;
    let expected: [&[u32]; 5] = [
        &[0, 1, behind(0), 0],
        &[0, 2, behind(1), 0],
        &[0, 4, behind(3), 0],
        &[0, 8, behind(7), 0],
        &[1, 1, 1, 0],
    ];
    assert_eq!(reports[..5], expected);
    // (The last of them is in the later window already, as far as the names are concerned.)
    assert_eq!(reports[5..], [] as [&[u32]; 0]);
    let (last, payload) = names.last().unwrap();
    let long = |index: usize| u64::from(payload[index]) | u64::from(payload[index + 1]) << 32;
    let [
        recorded,
        reused,
        discarded,
        too_large,
        clock_back,
        abandoned,
    ] = [0, 2, 4, 6, 8, 10].map(long);
    assert_eq!(*last, SessionEnd::ID);
    assert_eq!((discarded, too_large, abandoned), (0, 0, 0));
    // The calls, and the reports that came between.
    assert_eq!(recorded, u64::from(calls) + reports.len() as u64);
    let kept = names.len() + records_of(&session, ChannelKind::Events, &VOCABULARY).len();
    assert_eq!(reused + kept as u64, recorded + 1, "but for this one");
    assert!(reused > 100);
    // That which tells of the names' step was behind too.
    assert_eq!(clock_back, 10 + 2);

    // Off, or not in the vocabulary: nothing of it.
    let session = Tracer::<Test<R>>::start(
        memory,
        &config(Overflow::Discard, Consumer::None, 256, 4),
        &VOCABULARY,
    )
    .unwrap();
    session.switch(&ClockBack::SCHEMA, false).unwrap();
    session.switch(&SessionEnd::SCHEMA, false).unwrap();
    CLOCK.set(9 << TIME_BITS);
    short(1);
    CLOCK.set(8 << TIME_BITS);
    short(2);
    session.stop().unwrap();
    assert_eq!(records_of(&session, ChannelKind::Names, &VOCABULARY), []);
    assert_eq!(
        records_of(&session, ChannelKind::Events, &VOCABULARY).len(),
        2
    );
}

#[test]
fn the_library_tells_what_went_wrong() {
    diagnostics::<LocalCas>();
    diagnostics::<Masked<NoInterrupts>>();
}

/// What was dropped, and why, at the end of a session whose ring was full.
#[test]
fn a_session_ends_with_its_totals() {
    use crate::vocabulary::SessionEnd;
    static VOCABULARY: Vocabulary = crate::vocabulary![Short, SessionEnd];
    crate::event! { #[id(42)] struct Huge { data: [u32; 100] } }
    let memory = memory();
    let session = Tracer::<Test<LocalCas>>::start(
        memory,
        &config(Overflow::Discard, Consumer::None, 256, 4),
        &VOCABULARY,
    )
    .unwrap();
    for cpu in [1, 0] {
        BLOCK.set(memory.control(cpu));
        (0..100).for_each(|seq| emit::<LocalCas>(2, seq));
    }
    Tracer::<Test<LocalCas>>::record(Huge { data: [0; 100] });
    session.stop().unwrap();
    let names = records_of(&session, ChannelKind::Names, &VOCABULARY);
    // Seventeen records in each of four packets, twice.
    let expected = [136, 0, 0, 0, 65, 0, 1, 0, 0, 0, 0, 0];
    assert_eq!(names, [(SessionEnd::ID, expected.to_vec())]);
}
