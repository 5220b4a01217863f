//! Sessions over memory of the test's own: which of them runs, what belongs to which, and what the
//! library records about them.

use core::mem::offset_of;

use super::*;
use crate::event::{Sequence, Text};
use crate::ring::layout::{CONTROL_OFFSET, CONTROL_SIZE, Consumer, Control, TIME_BITS};
#[cfg(target_pointer_width = "64")]
use crate::ring::local_cas::LocalCas;
use crate::ring::masked::Masked;
use crate::ring::reader::{ChannelReader, Losses};
use crate::ring::source::{Consume, Source};
use crate::thread_cpu::{BLOCK, CLOCK, NoInterrupts, OneThread, leaked};
use crate::vocabulary::ClockBack;

crate::event! { #[id(21)] struct Short { seq: u32, check: u32 } }
crate::event! { #[id(22)] struct Tiny { seq: u32 } }
crate::event! { #[id(41)] #[channel(Names)] struct Name { seq: u32 } }

static VOCABULARY: Vocabulary = crate::vocabulary![Short, Tiny];

/// There is no such writer on 32-bit processors.
#[cfg(target_pointer_width = "32")]
type LocalCas = Masked<NoInterrupts>;

fn config(overflow: Overflow) -> Config {
    Config {
        cpus: 2,
        packet_size: 256,
        packets: 4,
        names_packets: 4,
        overflow,
        consumer: Consumer::None,
        clock: Clock::at(1_000_000_000),
        seed: 1,
        hosted: true,
        ..Config::DEFAULT
    }
}

fn memory() -> Memory {
    leaked(2 << 20, 2)
}

/// The count of records without a ring is the program's: the tests that look at it take turns.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn start<R: Reserve + 'static>(
    memory: Memory,
    config: &Config,
    vocabulary: &'static Vocabulary,
) -> Session<OneThread<R>> {
    let session = Tracer::<OneThread<R>>::start(memory, config, vocabulary).unwrap();
    BLOCK.set(memory.control(0));
    session
}

fn short<R: Reserve + 'static>(seq: u32) {
    Tracer::<OneThread<R>>::record(Short { seq, check: !seq });
}

fn tiny(seq: u32) {
    Tracer::<OneThread<LocalCas>>::record(Tiny { seq });
}

fn reader(live: &Live, kind: ChannelKind) -> ChannelReader {
    let region = Region::open(live).unwrap();
    region.channel(live, 0, kind).unwrap()
}

/// What is new to a reader, id and payload.
fn read(
    reader: &mut ChannelReader,
    live: &Live,
    view: View,
    vocabulary: &Vocabulary,
) -> Vec<(u32, Vec<u32>)> {
    let (mut records, mut scratch) = (Vec::new(), vec![0; reader.scratch_words()]);
    while let Some(mut batch) = reader.read(live, view, &mut scratch).unwrap() {
        while let Some(record) = batch.next_record(vocabulary) {
            records.push((record.id, record.payload.to_vec()));
        }
    }
    records
}

/// Everything that a channel of the first CPU gives to a reader that comes last.
fn records_of(
    session: &Session<OneThread<impl Reserve + 'static>>,
    kind: ChannelKind,
    vocabulary: &Vocabulary,
) -> Vec<(u32, Vec<u32>)> {
    let live = session.live();
    read(
        &mut reader(&live, kind),
        &live,
        View::PostMortem,
        vocabulary,
    )
}

#[test]
fn sessions_start_once_stop_once_and_go_on_in_the_same_memory() {
    type T = Tracer<OneThread<LocalCas>>;
    let memory = memory();
    let config = config(Overflow::Overwrite);
    let session = start::<LocalCas>(memory, &config, &VOCABULARY);
    assert_eq!(
        T::start(memory, &config, &VOCABULARY).map(drop),
        Err(Error::Running)
    );
    assert!(T::is_on::<Tiny>());
    tiny(7);
    assert_eq!(session.stop(), Ok(()));
    assert!(!T::is_on::<Tiny>());
    assert_eq!(session.stop(), Err(Error::NotRunning));
    let first = Region::open(&session.live()).unwrap().header().clone();
    let again = start::<LocalCas>(memory, &config, &VOCABULARY);
    tiny(8);
    let live = again.live();
    let region = Region::open(&live).unwrap();
    assert!(region.header().session_id > first.session_id);
    assert_ne!(region.header().uuid, first.uuid);
    let mut reader = reader(&live, ChannelKind::Events);
    assert_eq!(
        read(&mut reader, &live, View::Live, &VOCABULARY),
        [(Tiny::ID, vec![8])],
        "nothing of the first session is taken for the second's"
    );
    // SAFETY: the block of a leaked region.
    assert!(unsafe { (*memory.control(0)).first_packet.load(Relaxed) } > 0);
}

/// A reader and a handle of one session have nothing to do with the next one over the same memory.
#[test]
fn a_reader_of_one_session_takes_nothing_of_the_next() {
    let memory = memory();
    let config = config(Overflow::Overwrite);
    let first = start::<LocalCas>(memory, &config, &VOCABULARY);
    let live = first.live();
    let mut reader = reader(&live, ChannelKind::Events);
    tiny(1);
    first.stop().unwrap();
    let second = start::<LocalCas>(
        memory,
        &Config {
            names_packets: 8,
            ..config
        },
        &VOCABULARY,
    );
    (2..500).for_each(tiny);
    assert_eq!(
        read(&mut reader, &live, View::Live, &VOCABULARY),
        [],
        "events of the second session"
    );
    assert_eq!(reader.losses(), Losses::default());
    assert_eq!(
        first.stop(),
        Err(Error::NotRunning),
        "it is not this handle's session that runs"
    );
    assert_eq!(second.stop(), Ok(()));
}

/// Readers from before there were sequences would take a sequence's size for a text's.
#[test]
fn older_readers_refuse_what_they_cannot_measure() {
    crate::event! { #[id(21)] struct Bytes { data: Sequence<u8, 8> } }
    crate::event! { #[id(22)] struct Words { name: Text<4>, data: Sequence<u16, 8> } }
    static NARROW: Vocabulary = crate::vocabulary![Bytes];
    static WIDE: Vocabulary = crate::vocabulary![Bytes, Words];
    for (vocabulary, incompat) in [(&NARROW, 0), (&WIDE, 1)] {
        let config = config(Overflow::Overwrite);
        let session = start::<LocalCas>(memory(), &config, vocabulary);
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

fn diagnostics<R: Reserve + 'static>() {
    static VOCABULARY: Vocabulary = crate::vocabulary![Short, Tiny, Name, ClockBack, SessionEnd];
    CLOCK.set(5);
    let memory = memory();
    let session = start::<R>(memory, &config(Overflow::Overwrite), &VOCABULARY);
    let mut calls = 0;
    let mut at = |time: u64, record: &dyn Fn(u32)| {
        CLOCK.set(time);
        calls += 1;
        record(calls);
    };
    let (short, name) = (
        |seq| short::<R>(seq),
        |seq| _ = Tracer::<OneThread<R>>::record(Name { seq }),
    );
    at(5 << TIME_BITS, &short);
    // A step back within the window of the record before is found by the reader.
    at((5 << TIME_BITS) + 9, &short);
    at((5 << TIME_BITS) + 3, &short);
    // A clock that stays behind: ten times.
    (0..10).for_each(|step| at((4 << TIME_BITS) + 100 * step, &short));
    // The channel of names is not behind then: nothing was recorded there in the later window.
    at(6 << TIME_BITS, &name);
    at((6 << TIME_BITS) - 1, &name);
    // Then packets are overwritten, with 17 records each.
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
    // (The report of the last step is in the later window already, as far as the names are
    // concerned.)
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
        without_ring,
    ] = [0, 2, 4, 6, 8, 10, 12].map(long);
    assert_eq!(*last, SessionEnd::ID);
    assert_eq!(
        (discarded, too_large, abandoned, without_ring),
        (0, 0, 0, 0)
    );
    // The calls were recorded, and the reports that came between.
    assert_eq!(recorded, u64::from(calls) + reports.len() as u64);
    let kept = names.len() + records_of(&session, ChannelKind::Events, &VOCABULARY).len();
    assert_eq!(reused + kept as u64, recorded + 1, "but for this one");
    assert!(reused > 100);
    // The report of the names' step was behind too.
    assert_eq!(clock_back, 10 + 2);

    // Where the two events are off, nothing is reported.
    let session = start::<R>(memory, &config(Overflow::Discard), &VOCABULARY);
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
    let _alone = alone();
    diagnostics::<LocalCas>();
    diagnostics::<Masked<NoInterrupts>>();
}

/// What was dropped, and why, at the end of a session whose ring was full.
#[test]
fn a_session_ends_with_its_totals() {
    let _alone = alone();
    static VOCABULARY: Vocabulary = crate::vocabulary![Short, SessionEnd];
    crate::event! { #[id(42)] struct Huge { data: [u32; 100] } }
    let memory = memory();
    let session = start::<LocalCas>(memory, &config(Overflow::Discard), &VOCABULARY);
    for cpu in [1, 0] {
        BLOCK.set(memory.control(cpu));
        (0..100).for_each(short::<LocalCas>);
    }
    Tracer::<OneThread<LocalCas>>::record(Huge { data: [0; 100] });
    session.stop().unwrap();
    let names = records_of(&session, ChannelKind::Names, &VOCABULARY);
    // Seventeen records in each of four packets, twice.
    let expected = [136, 0, 0, 0, 65, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(names, [(SessionEnd::ID, expected.to_vec())]);
}

/// An event that the session's vocabulary does not list is not recorded, whichever listed
/// ids are near: readers could not tell its size. The library's own are in every vocabulary.
fn unlisted_events<R: Reserve + 'static>() {
    crate::event! { #[id(1168)] #[channel(Names)] struct BesideClockBack { seq: u32 } }
    crate::event! { #[id(1169)] #[channel(Names)] struct BesideSessionEnd { seq: u32 } }
    crate::event! { #[id(1066)] struct BesideUnlisted { seq: u32 } }
    crate::event! { #[id(42)] struct Unlisted { data: [u32; 5] } }
    static VOCABULARY: Vocabulary =
        crate::vocabulary![Short, BesideClockBack, BesideSessionEnd, BesideUnlisted];
    CLOCK.set(5 << TIME_BITS);
    let session = start::<R>(memory(), &config(Overflow::Overwrite), &VOCABULARY);
    type T<R> = Tracer<OneThread<R>>;
    assert!(T::<R>::is_on::<BesideUnlisted>() && !T::<R>::is_on::<Unlisted>());
    assert!(T::<R>::is_on_raw(1066) && !T::<R>::is_on_raw(42));
    for id in [1066 + 1024, 1066 + 2048, u32::MAX] {
        assert!(!T::<R>::is_on_raw(id), "{id}");
    }
    short::<R>(1);
    T::<R>::record(BesideClockBack { seq: 2 });
    CLOCK.set(4 << TIME_BITS);
    short::<R>(3);
    session.stop().unwrap();
    let events = records_of(&session, ChannelKind::Events, &VOCABULARY);
    assert_eq!(events.len(), 2);
    let names = records_of(&session, ChannelKind::Names, &VOCABULARY);
    let ids: Vec<u32> = names.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [BesideClockBack::ID, ClockBack::ID, SessionEnd::ID]);
    assert_eq!(names.first().unwrap().1, [2]);
}

#[test]
fn what_no_vocabulary_lists_is_not_recorded() {
    unlisted_events::<LocalCas>();
    unlisted_events::<Masked<NoInterrupts>>();
}

/// CPU 1 has control blocks and no ring, as the session was started for one CPU; CPU 2 has none.
fn cpus_without_a_ring<R: Reserve + 'static>() {
    static VOCABULARY: Vocabulary = crate::vocabulary![Short, Name, SessionEnd];
    type T<R> = Tracer<OneThread<R>>;
    let memory = memory();
    for cpus in [2, 1] {
        let config = Config {
            cpus,
            ..config(Overflow::Discard)
        };
        let session = start::<R>(memory, &config, &VOCABULARY);
        for cpu in 0..3 {
            BLOCK.set(memory.control(cpu));
            for seq in 0..5 {
                if T::<R>::is_on::<Short>() {
                    assert_eq!(T::<R>::record(Short { seq, check: !seq }), cpu < cpus);
                }
                assert!(!T::<R>::is_on::<Tiny>(), "no vocabulary lists it");
            }
            let named = crate::NameEpoch::new();
            T::<R>::named(&named, || Name { seq: cpu });
            assert_eq!(named.due().is_none(), cpu < cpus);
        }
        session.switch(&Short::SCHEMA, false).unwrap();
        for cpu in 0..3 {
            BLOCK.set(memory.control(cpu));
            assert!(!T::<R>::is_on::<Short>(), "CPU {cpu}");
        }
        BLOCK.set(memory.control(0));
        session.stop().unwrap();
        let names = records_of(&session, ChannelKind::Names, &VOCABULARY);
        let (id, payload) = names.last().unwrap();
        let (recorded, lost) = (6 * cpus, 6 * (3 - cpus));
        assert_eq!(*id, SessionEnd::ID);
        let expected = [recorded, 0, 0, 0, lost, 0, 0, 0, 0, 0, 0, 0, lost, 0];
        assert_eq!(payload[..], expected, "{cpus} CPUs");
    }
    for cpu in 0..3 {
        BLOCK.set(memory.control(cpu));
        assert!(!T::<R>::is_on::<Short>(), "after the stop, on CPU {cpu}");
    }
}

#[test]
fn events_of_cpus_without_a_ring_are_counted() {
    let _alone = alone();
    cpus_without_a_ring::<LocalCas>();
    cpus_without_a_ring::<Masked<NoInterrupts>>();
    #[cfg(target_arch = "x86_64")]
    cpus_without_a_ring::<crate::arch::x86_64::TscCas>();
    #[cfg(target_arch = "aarch64")]
    cpus_without_a_ring::<crate::arch::aarch64::CounterCas>();
}

/// Whoever has a session can store the consumer's words and no others: a writer relies on all words
/// of its block but `consumed`, which may say anything.
#[test]
fn a_reader_of_the_own_memory_stores_the_consumers_words_only() {
    let memory = memory();
    let session = start::<LocalCas>(memory, &config(Overflow::Discard), &VOCABULARY);
    tiny(1);
    let live = session.live();
    let mut stored = Vec::new();
    for offset in (0..live.len()).step_by(4) {
        let before = live.load(offset).unwrap();
        let words = [
            live.store(offset, !before).is_ok(),
            live.store_long(offset, u64::MAX).is_ok(),
        ];
        if words.contains(&true) {
            stored.push(offset);
        } else {
            assert_eq!(live.load(offset), Ok(before), "{offset}");
        }
    }
    let block = |index: u64| CONTROL_OFFSET as u64 + index * CONTROL_SIZE as u64;
    // A 32-bit processor stores the two halves.
    let halves = (0..8).step_by(size_of::<usize>());
    let consumed = (0..6).flat_map(|index| {
        let consumed = block(index) + offset_of!(Control, consumed) as u64;
        halves.clone().map(move |half| consumed + half)
    });
    assert!(
        consumed.eq(stored.iter().copied().filter(|&offset| offset < block(6))),
        "{} words",
        stored.len()
    );
    (2..1000).for_each(tiny);
    session.stop().unwrap();
}
