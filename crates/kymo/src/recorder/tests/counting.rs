//! The mode `count`: every CPU counts groups and records what they have counted.

use super::*;
use crate::count::pmu::Model;
use crate::count::{self, Cpu, EventKind, EventSpec, Exclude, GroupSpec, Groups, Hardware};
use crate::vocabulary::{CountedEvent, EventCount, GroupCount, SessionEnd};

static VOCABULARY: Vocabulary = crate::vocabulary![Beat, CountedEvent, GroupCount, EventCount];
type T = Tracer<Test>;

const COUNT: u32 = Mode::Count as u32;
const CYCLES: EventKind = EventKind::Hardware(Hardware::Cycles);
const INSTRUCTIONS: EventKind = EventKind::Hardware(Hardware::Instructions);
/// Nanoseconds.
const PERIOD: u64 = 1_000;

/// A CPU's counters, the thread on it, and the time.
struct Machine {
    recorder: &'static TestRecorder,
    cpu: Cpu<Model<2>>,
    thread: Groups,
    now: u64,
    /// Whether the CPU ticks before the kernel has looked at a group.
    is_eager: bool,
    /// Whether the CPU had begun when a group was refused.
    had_begun: bool,
}

thread_local! {
    static MACHINE: RefCell<Option<Machine>> = const { RefCell::new(None) };
}

/// What the platform does when counting begins or ends.
pub(super) fn counting(group: Option<&GroupSpec>) -> Result<(), Refused> {
    MACHINE.with_borrow_mut(|machine| {
        let Some(machine) = machine else {
            return Err(Refused::NotBuilt);
        };
        if machine.is_eager {
            machine.notice();
        }
        if let Some(group) = group
            && let Err(refused) = count::check(machine.cpu.pmu(), group)
        {
            machine.had_begun = !machine.cpu.own().is_empty();
            return Err(Refused::Count(refused));
        }
        machine.notice();
        Ok(())
    })
}

/// What the platform does when an event has a context.
pub(super) fn context(event: u32) {
    MACHINE.with_borrow(|machine| {
        if let Some(machine) = machine
            && machine.recorder.context(event).counts
        {
            T::event_count(&machine.cpu, event, machine.now);
        }
    });
}

impl Machine {
    fn notice(&mut self) {
        let counting = self.recorder.counting();
        T::count(counting, &mut self.cpu, &mut self.thread, self.now);
    }
}

fn machine() -> &'static TestRecorder {
    let memory = leaked(1 << 20, 2);
    BLOCK.set(memory.control(0));
    let recorder: &TestRecorder = Box::leak(Box::new(Recorder::new(memory, &VOCABULARY)));
    let (mut cpu, mut thread) = (Cpu::new(Model::new(48)), Groups::NONE);
    cpu.switch_in(&mut thread, 0);
    MACHINE.set(Some(Machine {
        recorder,
        cpu,
        thread,
        now: 0,
        is_eager: false,
        had_begun: false,
    }));
    recorder
}

fn group(kinds: &[EventKind]) -> GroupSpec {
    let events: Vec<_> = kinds.iter().copied().map(EventSpec::of).collect();
    GroupSpec::new(&events).unwrap()
}

/// Time passes, events happen, and the kernel ticks.
fn tick(nanos: u64, cycles: u64, instructions: u64) {
    MACHINE.with_borrow_mut(|machine| {
        let machine = machine.as_mut().unwrap();
        machine.now += nanos;
        machine.cpu.pmu_mut().happen(CYCLES, true, cycles);
        machine
            .cpu
            .pmu_mut()
            .happen(INSTRUCTIONS, true, instructions);
        let (cpu, thread) = (&mut machine.cpu, &mut machine.thread);
        cpu.tick(thread, machine.now);
        machine.notice();
    });
}

/// All records of a channel of the first CPU: their ids and words.
fn records(recorder: &TestRecorder, kind: ChannelKind) -> Vec<(u32, Vec<u32>)> {
    let live = recorder.ground.memory().live();
    let region = Region::open(&live).unwrap();
    let mut reader = region.channel(&live, 0, kind).unwrap();
    let (mut all, mut scratch) = (Vec::new(), vec![0; reader.scratch_words()]);
    while let Some(mut batch) = reader.read(&live, View::Live, &mut scratch).unwrap() {
        while let Some(record) = batch.next_record(&VOCABULARY) {
            all.push((record.id, record.payload.to_vec()));
        }
    }
    all
}

/// The words of a record of counts: 32-bit fields as they are, then 64-bit ones.
fn words(short: &[u32], long: &[u64]) -> Vec<u32> {
    let long = long
        .iter()
        .flat_map(|word| [*word as u32, (*word >> 32) as u32]);
    short.iter().copied().chain(long).collect()
}

/// Words of a `group_count` of the first group.
fn group_count(enabled: u64, running: u64, counts: &[u64]) -> (u32, Vec<u32>) {
    count_of(0, enabled, running, counts)
}

/// Words of a `group_count`.
fn count_of(group: u8, enabled: u64, running: u64, counts: &[u64]) -> (u32, Vec<u32>) {
    let group = u32::from_ne_bytes([group, 0, 0, 0]);
    let mut all = words(&[], &[enabled, running]);
    all.extend(words(&[group, counts.len() as u32], counts));
    (GroupCount::ID, all)
}

/// The first words of an `event_count`: the event, the group and the turns.
fn event_count(event: u32, group: u8, turns: u32) -> [u32; 2] {
    let [low, high] = (event as u16).to_ne_bytes();
    [u32::from_ne_bytes([low, high, group, 0]), turns]
}

#[test]
fn a_session_counts_from_its_start_to_its_stop() {
    let recorder = machine();
    tick(500, 11, 22);
    recorder
        .set_counting(COUNT, [group(&[CYCLES, INSTRUCTIONS])], PERIOD)
        .unwrap();
    recorder.start(COUNT, 0, Some(&CONFIG)).unwrap();
    tick(PERIOD - 1, 100, 200);
    tick(1, 30, 60);
    // It is late by more than a period, and on time again from there on.
    tick(3 * PERIOD, 1, 1);
    tick(PERIOD - 1, 1, 1);
    recorder.stop(COUNT).unwrap();
    tick(PERIOD, 9, 9);
    let names: Vec<_> = records(recorder, ChannelKind::Names);
    let expected = [(0, "cycles"), (1, "instructions")].map(|(place, name)| {
        let name = crate::Text::new(name);
        let event = CountedEvent {
            group: 0,
            groups: 1,
            place,
            events: 2,
            name,
        };
        let (words, used) = event.encode();
        (CountedEvent::ID, words.as_ref()[..used].to_vec())
    });
    let (end, names) = names.split_last().unwrap();
    assert_eq!((names, end.0), (&expected[..], SessionEnd::ID));
    // The state that the platform tells at the start is another event.
    let events = records(recorder, ChannelKind::Events);
    let counts: Vec<_> = events
        .iter()
        .filter(|(id, _)| *id != Beat::ID)
        .cloned()
        .collect();
    let at = |time: u64, cycles, instructions| group_count(time, time, &[cycles, instructions]);
    assert_eq!(
        counts,
        [
            at(0, 0, 0),
            at(PERIOD, 130, 260),
            at(4 * PERIOD, 131, 261),
            at(5 * PERIOD - 1, 132, 262),
        ]
    );
    // Another session counts from zero.
    recorder.finish(COUNT).unwrap();
    recorder.start(COUNT, 0, Some(&CONFIG)).unwrap();
    tick(PERIOD, 5, 6);
    let events = records(recorder, ChannelKind::Events);
    let counts: Vec<_> = events
        .into_iter()
        .filter(|(id, _)| *id != Beat::ID)
        .collect();
    assert_eq!(counts, [at(0, 0, 0), at(PERIOD, 5, 6)]);
    recorder.finish(COUNT).unwrap();
}

/// Ticks do not come exactly when counts are due. One that is late moves none after it.
#[test]
fn a_late_tick_does_not_move_the_next_record() {
    let recorder = machine();
    let group = group(&[CYCLES]);
    recorder.set_counting(COUNT, [group], PERIOD).unwrap();
    recorder.start(COUNT, 0, Some(&CONFIG)).unwrap();
    for late in [300, 999, 0, 1] {
        tick(PERIOD + late, 1, 0);
        tick(PERIOD - late, 1, 0);
    }
    recorder.stop(COUNT).unwrap();
    let all = records(recorder, ChannelKind::Events);
    let counts = all.iter().filter(|(id, _)| *id == GroupCount::ID);
    // At the start, at the stop, and in each of eight periods.
    assert_eq!(counts.count(), 10);
}

#[test]
fn events_carry_the_counts_that_are_asked_for() {
    let recorder = machine();
    recorder
        .set_counting(COUNT, [group(&[CYCLES])], PERIOD)
        .unwrap();
    recorder.start(TRACE, 0, Some(&CONFIG)).unwrap();
    assert_eq!(recorder.counts(COUNT, "beat", true), Err(Refused::Invalid));
    recorder.start(COUNT, 0, Some(&CONFIG)).unwrap();
    assert_eq!(recorder.counts(TRACE, "beat", true), Err(Refused::Invalid));
    for name in ["bea", "group_count", "counted_event"] {
        assert_eq!(recorder.counts(COUNT, name, true), Err(Refused::Invalid));
    }
    let beat = |seq: u32| {
        T::record(Beat { seq });
        T::context_of::<Beat>();
    };
    beat(10);
    assert_eq!(recorder.counts(COUNT, "b*", true), Ok(1));
    tick(1, 70, 0);
    beat(11);
    tick(1, 8, 0);
    beat(12);
    assert_eq!(recorder.counts(COUNT, "beat", false), Ok(1));
    beat(13);
    recorder.counts(COUNT, "beat", true).unwrap();
    recorder.stop(COUNT).unwrap();
    beat(14);
    let is_ours = |(id, words): &(u32, Vec<u32>)| {
        *id == EventCount::ID || (*id == Beat::ID && words[0] >= 10)
    };
    let events = records(recorder, ChannelKind::Events);
    let events: Vec<_> = events.into_iter().filter(is_ours).collect();
    let beat = |seq| (Beat::ID, vec![seq]);
    let [first, turns] = event_count(Beat::ID, 0, 0);
    let count = |count| (EventCount::ID, words(&[first, turns, 1], &[count]));
    let expected = [
        beat(10),
        beat(11),
        count(70),
        beat(12),
        count(78),
        beat(13),
        beat(14),
    ];
    assert_eq!(events, expected);
    // The next session has no contexts.
    recorder.finish(COUNT).unwrap();
    recorder.finish(TRACE).unwrap();
    recorder.start(TRACE, 0, Some(&CONFIG)).unwrap();
    recorder.start(COUNT, 0, Some(&CONFIG)).unwrap();
    assert_eq!(recorder.context(Beat::ID), Context::NONE);
    recorder.finish(COUNT).unwrap();
    recorder.finish(TRACE).unwrap();
}

/// A thread's group takes the counters from time to time. Nothing is recorded while the session's
/// is off the PMU, and records tell whether it counted all the time between two of them.
#[test]
fn a_group_that_was_off_the_pmu_between_two_records_says_so() {
    let recorder = machine();
    recorder
        .set_counting(COUNT, [group(&[CYCLES, INSTRUCTIONS])], PERIOD)
        .unwrap();
    recorder.start(COUNT, 0, Some(&CONFIG)).unwrap();
    assert_eq!(turns(recorder), [(0, 0)]);
    tick(10, 1, 1);
    assert_eq!(turns(recorder), [(0, 0)]);
    MACHINE.with_borrow_mut(|machine| {
        let machine = machine.as_mut().unwrap();
        let (cpu, now) = (&mut machine.cpu, machine.now);
        let other = group(&[EventKind::Raw(1), EventKind::Raw(2)]);
        let attached = cpu.change(&mut machine.thread, now, |pmu, _, of_thread| {
            of_thread.attach(pmu, &other)
        });
        attached.unwrap();
    });
    let mut seen = vec![turns(recorder)];
    for _ in 0..4 {
        tick(10, 1, 1);
        seen.push(turns(recorder));
    }
    // Another number each time that it is on.
    let off = vec![];
    let on = |turns| vec![(0, turns)];
    assert_eq!(seen, [on(0), off.clone(), on(2), off, on(4)]);
    recorder.finish(COUNT).unwrap();
}

/// The groups and turns of the records that an event makes now.
fn turns(recorder: &TestRecorder) -> Vec<(u8, u32)> {
    let before = records(recorder, ChannelKind::Events).len();
    let is_any = MACHINE.with_borrow(|machine| {
        let machine = machine.as_ref().unwrap();
        T::event_count(&machine.cpu, Beat::ID, machine.now)
    });
    let made = records(recorder, ChannelKind::Events).split_off(before);
    let turns: Vec<_> = made
        .iter()
        .map(|(_, words)| {
            let [low, high, group, padding] = words[0].to_ne_bytes();
            let event = u16::from_ne_bytes([low, high]);
            assert_eq!((u32::from(event), padding), (Beat::ID, 0));
            (group, words[1])
        })
        .collect();
    assert_eq!(is_any, !turns.is_empty());
    turns
}

/// Two groups need more counters than there are. They take turns at each tick, and each has the
/// time and the events of its own turns, to the event.
#[test]
fn groups_that_do_not_fit_together_take_turns() {
    let recorder = machine();
    let groups = [
        group(&[CYCLES, INSTRUCTIONS]),
        group(&[INSTRUCTIONS, EventKind::Raw(7)]),
    ];
    recorder.set_counting(COUNT, groups, PERIOD).unwrap();
    recorder.start(COUNT, 0, Some(&CONFIG)).unwrap();
    assert_eq!(turns(recorder), [(0, 0)]);
    // The first is on for 300, 500 and 100 ns; the second for 400 and 600 ns.
    let mut seen = Vec::new();
    for (nanos, cycles, instructions) in [
        (300, 1_000, 100),
        (400, 2_000, 200),
        (500, 4_000, 400),
        (600, 8_000, 800),
        (100, 16_000, 1_600),
    ] {
        tick(nanos, cycles, instructions);
        seen.push(turns(recorder));
    }
    let expected = [[(1, 2)], [(0, 2)], [(1, 4)], [(0, 4)], [(1, 6)]];
    assert_eq!(seen, expected);
    recorder.stop(COUNT).unwrap();
    let names = records(recorder, ChannelKind::Names);
    let names = names.iter().filter(|(id, _)| *id == CountedEvent::ID);
    let heads: Vec<_> = names.map(|(_, words)| words[0].to_ne_bytes()).collect();
    // Sessions of other tests begin name epochs, too, and in each the names are recorded again.
    let all = [[0, 2, 0, 2], [0, 2, 1, 2], [1, 2, 0, 2], [1, 2, 1, 2]];
    assert_eq!(heads, all.repeat((heads.len() / 4).max(1)));
    let events = records(recorder, ChannelKind::Events);
    let counts: Vec<_> = events
        .into_iter()
        .filter(|(id, _)| *id == GroupCount::ID)
        .collect();
    let expected = [
        count_of(0, 0, 0, &[0, 0]),
        count_of(1, 0, 0, &[0, 0]),
        // Due after 1,000 ns.
        count_of(0, 1_200, 800, &[5_000, 500]),
        count_of(1, 1_200, 400, &[200, 0]),
        // At the stop.
        count_of(0, 1_900, 900, &[21_000, 2_100]),
        count_of(1, 1_900, 1_000, &[1_000, 0]),
    ];
    assert_eq!(counts, expected);
    recorder.finish(COUNT).unwrap();
}

/// Groups that fit together count all the time, equal events on one counter.
#[test]
fn groups_that_fit_together_count_all_the_time() {
    let recorder = machine();
    let groups = [
        group(&[CYCLES]),
        group(&[INSTRUCTIONS, CYCLES]),
        group(&[INSTRUCTIONS]),
    ];
    recorder.set_counting(COUNT, groups, PERIOD).unwrap();
    recorder.start(COUNT, 0, Some(&CONFIG)).unwrap();
    tick(PERIOD, 70, 7);
    assert_eq!(turns(recorder), [(0, 0), (1, 0), (2, 0)]);
    tick(PERIOD - 1, 30, 3);
    recorder.stop(COUNT).unwrap();
    let events = records(recorder, ChannelKind::Events);
    let counts = events.iter().filter(|(id, _)| *id == GroupCount::ID);
    let counts: Vec<_> = counts.cloned().collect();
    let at = |time, cycles, instructions| {
        [
            count_of(0, time, time, &[cycles]),
            count_of(1, time, time, &[instructions, cycles]),
            count_of(2, time, time, &[instructions]),
        ]
    };
    let expected = [at(0, 0, 0), at(PERIOD, 70, 7), at(2 * PERIOD - 1, 100, 10)];
    assert_eq!(counts, expected.concat());
    recorder.finish(COUNT).unwrap();
    // Nothing of them is left.
    MACHINE.with_borrow(|machine| assert!(machine.as_ref().unwrap().cpu.own().is_empty()));
}

#[test]
fn what_cannot_be_counted_is_refused_and_nothing_runs() {
    let recorder = machine();
    let start = || recorder.start(COUNT, 0, Some(&CONFIG));
    let nothing = Refused::Config(Error::Config("the events to count (none)"));
    assert_eq!(start(), Err(nothing));
    let three = group(&[CYCLES, INSTRUCTIONS, EventKind::Raw(1)]);
    recorder.set_counting(COUNT, [three], PERIOD).unwrap();
    let (needed, slots, leader) = (3, 2, CYCLES);
    let too_many = count::Refused::TooManySlots {
        leader,
        needed,
        slots,
    };
    assert_eq!(start(), Err(Refused::Count(too_many)));
    assert_eq!(recorder.state(Mode::Count), State::Idle);
    assert!(!T::is_on::<GroupCount>() && !T::is_on::<CountedEvent>());
    // Another mode goes on when counting is refused.
    recorder.start(TRACE, 0, Some(&CONFIG)).unwrap();
    assert_eq!(start(), Err(Refused::Count(too_many)));
    assert_eq!(recorder.state(Mode::Trace), State::Running);
    assert!(T::is_on::<Beat>() && !T::is_on::<GroupCount>());
    // It is read as what it is: nothing is left of the session that did not begin.
    let live = recorder.ground.memory().live();
    let uuid = Region::open(&live).unwrap().header().uuid;
    let mut packet = vec![0; recorder.buffer_words(CONFIG.packet_size)];
    assert!(recorder.read(TRACE, 2, Some(&mut packet)).unwrap() > 0);
    let bytes: Vec<u8> = packet[1..5]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    assert_eq!(bytes, uuid);
    let one = group(&[CYCLES]);
    assert_eq!(
        recorder.set_counting(TRACE, [one], 1),
        Err(Refused::Invalid)
    );
    recorder.set_counting(COUNT, [one], PERIOD).unwrap();
    start().unwrap();
    assert_eq!(
        recorder.set_counting(COUNT, [one], 1),
        Err(Refused::InProgress)
    );
    recorder.finish(COUNT).unwrap();
    // A kernel that counts nothing.
    MACHINE.set(None);
    assert_eq!(start(), Err(Refused::NotBuilt));
    recorder.finish(TRACE).unwrap();
}

/// A mode that is stopped and started again in one session counts the same groups, from zero; other
/// groups need another session, for a trace has the names of one set.
#[test]
fn a_session_counts_the_same_groups_again() {
    let recorder = machine();
    let (one, other) = (group(&[CYCLES]), group(&[INSTRUCTIONS]));
    recorder.start(TRACE, 0, Some(&CONFIG)).unwrap();
    recorder.set_counting(COUNT, [one], PERIOD).unwrap();
    recorder.set_counting(COUNT, [other], PERIOD).unwrap();
    recorder.start(COUNT, 0, Some(&CONFIG)).unwrap();
    tick(PERIOD, 1, 2);
    recorder.finish(COUNT).unwrap();
    for groups in [vec![one], vec![other, one], vec![]] {
        let refused = recorder.set_counting(COUNT, groups, PERIOD);
        assert_eq!(refused, Err(Refused::InProgress));
    }
    recorder.set_counting(COUNT, [other], 2 * PERIOD).unwrap();
    recorder.start(COUNT, 0, Some(&CONFIG)).unwrap();
    tick(2 * PERIOD, 3, 4);
    recorder.finish(COUNT).unwrap();
    let events = records(recorder, ChannelKind::Events);
    let counts: Vec<_> = events
        .into_iter()
        .filter(|(id, _)| *id != Beat::ID)
        .collect();
    let at = |time, count| group_count(time, time, &[count]);
    let first = [at(0, 0), at(PERIOD, 2), at(PERIOD, 2)];
    let second = [at(0, 0), at(2 * PERIOD, 4), at(2 * PERIOD, 4)];
    assert_eq!(counts, [first, second].concat());
    recorder.finish(TRACE).unwrap();
    recorder.set_counting(COUNT, [one], PERIOD).unwrap();
}

/// The last counts are recorded even where another CPU looks at what is asked for; and a CPU that
/// missed the end records nothing of it in the next session.
#[test]
fn the_last_counts_are_recorded_whoever_looks() {
    let recorder = machine();
    recorder
        .set_counting(COUNT, [group(&[CYCLES])], PERIOD)
        .unwrap();
    recorder.start(COUNT, 0, Some(&CONFIG)).unwrap();
    tick(1, 5, 0);
    let claim = recorder.counting().claim().unwrap();
    recorder.stop(COUNT).unwrap();
    drop(claim);
    let events = records(recorder, ChannelKind::Events);
    assert_eq!(events.last(), Some(&group_count(1, 1, &[5])));
    recorder.finish(COUNT).unwrap();
    recorder.start(COUNT, 0, Some(&CONFIG)).unwrap();
    let machine = MACHINE.take();
    recorder.finish(COUNT).unwrap();
    recorder.start(TRACE, 0, Some(&CONFIG)).unwrap();
    MACHINE.set(machine);
    recorder.start(COUNT, 0, Some(&CONFIG)).unwrap();
    let events = records(recorder, ChannelKind::Events);
    let counts: Vec<_> = events
        .into_iter()
        .filter(|(id, _)| *id != Beat::ID)
        .collect();
    assert_eq!(counts, [group_count(0, 0, &[0])]);
    recorder.finish(COUNT).unwrap();
    recorder.finish(TRACE).unwrap();
}

/// A CPU whose own groups leave room for one group records that it does not count the other.
#[test]
fn a_cpu_without_room_for_a_group_says_so() {
    let recorder = machine();
    MACHINE.with_borrow_mut(|machine| {
        let Machine {
            cpu, thread, now, ..
        } = machine.as_mut().unwrap();
        cpu.change(thread, *now, |pmu, own, _| {
            for _ in 0..3 {
                own.attach(pmu, &group(&[CYCLES])).unwrap();
            }
        });
    });
    let groups = [group(&[CYCLES]), group(&[INSTRUCTIONS])];
    recorder.set_counting(COUNT, groups, PERIOD).unwrap();
    recorder.start(COUNT, 0, Some(&CONFIG)).unwrap();
    tick(PERIOD, 5, 1);
    let events = records(recorder, ChannelKind::Events);
    let counts: Vec<_> = events
        .into_iter()
        .filter(|(id, _)| *id != Beat::ID)
        .collect();
    assert_eq!(
        counts,
        [
            count_of(1, 0, 0, &[]),
            count_of(0, 0, 0, &[0]),
            count_of(0, PERIOD, PERIOD, &[5]),
        ]
    );
    recorder.finish(COUNT).unwrap();
}

/// A group that cannot be counted is refused, whichever it is, and so are too many: then no CPU
/// has begun to count.
#[test]
fn each_group_is_checked_before_any_is_counted() {
    let recorder = machine();
    let small = group(&[CYCLES]);
    let large = group(&[CYCLES, INSTRUCTIONS, EventKind::Raw(1)]);
    for groups in [
        [large, small, small],
        [small, large, small],
        [small, small, large],
    ] {
        recorder.set_counting(COUNT, groups, PERIOD).unwrap();
        let refused = recorder.start(COUNT, 0, Some(&CONFIG)).unwrap_err();
        assert!(matches!(refused, Refused::Count(_)), "{refused:?}");
        MACHINE.with_borrow(|machine| assert!(!machine.as_ref().unwrap().had_begun));
        MACHINE.with_borrow(|machine| assert!(machine.as_ref().unwrap().cpu.own().is_empty()));
        tick(PERIOD, 1, 1);
        MACHINE.with_borrow(|machine| assert!(machine.as_ref().unwrap().cpu.own().is_empty()));
    }
    let most = count::MAX_GROUPS;
    let too_many = vec![small; most + 1];
    assert_eq!(
        recorder.set_counting(COUNT, too_many, PERIOD),
        Err(Refused::Count(count::Refused::TooManyGroups(most)))
    );
    recorder
        .set_counting(COUNT, vec![small; most], PERIOD)
        .unwrap();
    recorder.start(COUNT, 0, Some(&CONFIG)).unwrap();
    assert_eq!(turns(recorder).len(), most);
    recorder.finish(COUNT).unwrap();
}

/// A CPU that ticks between the beginning and the refusal records no counts of it, and gives the
/// groups up; those of the next start have their own names.
#[test]
fn what_a_refused_start_began_is_forgotten() {
    let recorder = machine();
    recorder.start(TRACE, 0, Some(&CONFIG)).unwrap();
    let large = group(&[CYCLES, INSTRUCTIONS, EventKind::Raw(1)]);
    let groups = [group(&[CYCLES]), large];
    recorder.set_counting(COUNT, groups, PERIOD).unwrap();
    let eager = |is_eager| {
        MACHINE.with_borrow_mut(|machine| machine.as_mut().unwrap().is_eager = is_eager);
    };
    eager(true);
    recorder.start(COUNT, 0, Some(&CONFIG)).unwrap_err();
    MACHINE.with_borrow(|machine| {
        let machine = machine.as_ref().unwrap();
        assert!(machine.had_begun && machine.cpu.own().is_empty());
    });
    eager(false);
    let had = records(recorder, ChannelKind::Events);
    let begun = [count_of(1, 0, 0, &[]), group_count(0, 0, &[0])];
    assert!(had.ends_with(&begun), "{had:?}");
    let other = group(&[INSTRUCTIONS]);
    recorder.set_counting(COUNT, [other], PERIOD).unwrap();
    recorder.start(COUNT, 0, Some(&CONFIG)).unwrap();
    let is_named = |name: &[u8], (id, words): &(u32, Vec<u32>)| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        *id == CountedEvent::ID && bytes.windows(name.len()).any(|at| at == name)
    };
    let all = records(recorder, ChannelKind::Names);
    let named = all.iter().rev().find(|(id, _)| *id == CountedEvent::ID);
    assert!(
        named.is_some_and(|event| is_named(b"instructions", event)),
        "{all:?}"
    );
    recorder.finish(COUNT).unwrap();
    recorder.finish(TRACE).unwrap();
}

/// The word `kymo=` starts the mode, with its group and the events that carry counts.
#[test]
fn a_command_line_has_the_kernel_count() {
    let recorder = machine();
    let line = "kymo=counters=cycles:k+instructions++instructions,count_ns=7,counters_on=beat";
    let options = Options::parse(line).unwrap();
    recorder.start_as(&options, 0, &CONFIG).unwrap();
    assert_eq!(recorder.state(Mode::Trace), State::Running);
    assert_eq!(recorder.state(Mode::Count), State::Running);
    assert!(recorder.context(Beat::ID).counts);
    let asked = recorder.counting().group(0).unwrap();
    let exclude = Exclude {
        user: true,
        ..Exclude::NOTHING
    };
    let cycles = EventSpec {
        exclude,
        ..EventSpec::of(CYCLES)
    };
    assert_eq!(asked.events(), [cycles, EventSpec::of(INSTRUCTIONS)]);
    let other = group(&[INSTRUCTIONS]);
    let counting = recorder.counting();
    assert_eq!((counting.group(1), counting.len()), (Some(other), 2));
    recorder.finish(COUNT).unwrap();
    recorder.finish(TRACE).unwrap();
    let options = Options::parse("kymo=mode=count").unwrap();
    recorder.start_as(&options, 0, &CONFIG).unwrap();
    assert_eq!(recorder.state(Mode::Trace), State::Idle);
    recorder.finish(COUNT).unwrap();
}
