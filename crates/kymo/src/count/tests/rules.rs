//! The rules of groups, one by one.

use super::*;
use crate::count::group::MAX_EVENTS;
use crate::count::pmu::{Model, Pmu};
use crate::count::{Cpu, Groups, Handle, Overflow, Refused, check_leaders};

type Thread = Groups<4>;

fn pmu() -> Model<4> {
    Model::new(48)
}

/// A CPU that runs a thread with one group.
fn counting(events: &[EventSpec]) -> (Cpu<Model<4>>, Thread, Vec<Handle>) {
    let (mut cpu, mut thread) = (Cpu::new(pmu()), Thread::NONE);
    let leader = thread.attach(cpu.pmu(), &group(events)).unwrap();
    let handles = thread.handles(leader).unwrap().collect();
    cpu.switch_in(&mut thread, 0);
    (cpu, thread, handles)
}

fn happen(cpu: &mut Cpu<Model<4>>, event: EventSpec, times: u64) {
    cpu.pmu_mut().happen(event.kind, true, times);
}

/// K-08.
#[test]
fn adding_a_member_restarts_the_whole_group_from_zero() {
    let (mut cpu, mut thread, handles) = counting(&[CYCLES, INSTRUCTIONS]);
    happen(&mut cpu, CYCLES, 10);
    assert_eq!(cpu.read(&mut thread, handles[0], 50).unwrap().raw, 10);
    let added = cpu.change(&mut thread, 60, |pmu, _, thread| {
        thread.join(pmu, handles[0], BRANCHES).unwrap()
    });
    happen(&mut cpu, CYCLES, 3);
    happen(&mut cpu, BRANCHES, 2);
    let counts = cpu.read(&mut thread, added, 100).unwrap();
    assert_eq!(raws(&counts), [3, 0, 2]);
    assert_eq!((counts.time_enabled, counts.time_running), (40, 40));
}

/// K-09, as design.md settles it: a leader with members stays.
#[test]
fn a_leader_with_members_is_detached_only_with_all_of_them() {
    let (mut cpu, mut thread, handles) = counting(&[CYCLES, INSTRUCTIONS, BRANCHES]);
    let [leader, member, _] = handles[..] else {
        unreachable!()
    };
    cpu.change(&mut thread, 0, |_, _, thread| {
        assert_eq!(thread.detach(leader), Err(Refused::HasMembers(2)));
        assert_eq!(thread.detach(member), Ok(()));
        assert_eq!(thread.detach(leader), Err(Refused::HasMembers(1)));
        assert_eq!(thread.detach_all(leader), Ok(1));
        assert!(thread.is_empty());
    });
    let says = Refused::HasMembers(2).to_string();
    assert_eq!(
        says,
        "the leader has 2 members: detach these first, or the whole group"
    );
    assert_eq!(cpu.pmu().counted().count(), 0);
}

/// K-06: a handle of what is gone is refused, although its place is in use again.
#[test]
fn stale_handles_are_refused() {
    let (mut cpu, mut thread, handles) = counting(&[CYCLES, INSTRUCTIONS]);
    cpu.change(&mut thread, 0, |pmu, _, thread| {
        thread.detach_all(handles[0]).unwrap();
        let again = thread.attach(pmu, &group(&[CYCLES, INSTRUCTIONS])).unwrap();
        for stale in &handles {
            assert_eq!(thread.read(*stale), Err(Refused::Stale));
            assert_eq!(thread.detach(*stale), Err(Refused::Stale));
            assert_eq!(thread.detach_all(*stale), Err(Refused::Stale));
            assert_eq!(thread.join(pmu, *stale, BRANCHES), Err(Refused::Stale));
            assert_eq!(thread.enable(*stale, true), Err(Refused::Stale));
            assert_eq!(thread.reset(*stale), Err(Refused::Stale));
            assert_eq!(thread.inherit(*stale, true), Err(Refused::Stale));
        }
        assert!(thread.read(again).is_ok());
    });
    assert_eq!(cpu.read(&mut thread, handles[0], 1), Err(Refused::Stale));
}

/// K-06: a slot that another thread has now gives it no group of the last one's.
#[test]
fn handles_are_stale_after_a_clear() {
    let mut thread = Thread::NONE;
    let before = thread.attach(&pmu(), &group(&[CYCLES])).unwrap();
    thread.clear().unwrap();
    assert!(thread.is_empty());
    let after = thread.attach(&pmu(), &group(&[CYCLES])).unwrap();
    assert_eq!(thread.read(before), Err(Refused::Stale));
    assert!(thread.read(after).is_ok());
    let mut cpu: Cpu<Model<4>> = Cpu::new(pmu());
    cpu.switch_in(&mut thread, 0);
    assert_eq!(thread.clear(), Err(Refused::OnPmu));
}

/// K-13: a member's read gives the member's count, wherever in the group it stands now.
#[test]
fn a_member_reads_its_own_count_by_its_id() {
    let (mut cpu, mut thread, handles) = counting(&[CYCLES, INSTRUCTIONS, BRANCHES]);
    for (event, times) in [(CYCLES, 5), (INSTRUCTIONS, 6), (BRANCHES, 7)] {
        happen(&mut cpu, event, times);
    }
    for (handle, raw) in handles.iter().zip([5, 6, 7]) {
        let counts = cpu.read(&mut thread, *handle, 10).unwrap();
        assert_eq!((counts.raw, counts.scaled), (raw, Some(raw)));
        assert_eq!(counts.members()[0].event, CYCLES);
        assert_eq!(counts.member(handle.id()).unwrap().raw, raw);
        assert_eq!(counts.member(99), None);
    }
    cpu.change(&mut thread, 10, |_, _, thread| thread.detach(handles[1]))
        .unwrap();
    let counts = cpu.read(&mut thread, handles[2], 20).unwrap();
    assert_eq!((counts.raw, raws(&counts)), (7, vec![5, 7]));
}

/// K-11: no number where nothing was measured.
#[test]
fn a_group_that_never_ran_has_no_scaled_count() {
    let (mut cpu, mut thread, _) = counting(&[CYCLES, INSTRUCTIONS, BRANCHES]);
    let waits = cpu.change(&mut thread, 0, |pmu, _, thread| {
        thread.attach(pmu, &group(&[MISSES, raw(1)])).unwrap()
    });
    let counts = cpu.read(&mut thread, waits, 100).unwrap();
    assert_eq!((counts.raw, counts.scaled), (0, None));
    assert_eq!((counts.time_enabled, counts.time_running), (100, 0));
    assert!(
        counts
            .members()
            .iter()
            .all(|member| member.scaled.is_none())
    );
    // Once it has had its turn there is one.
    cpu.tick(&mut thread, 100);
    happen(&mut cpu, MISSES, 4);
    let counts = cpu.read(&mut thread, waits, 200).unwrap();
    assert_eq!((counts.raw, counts.scaled), (4, Some(8)));
}

/// K-14, K-15.
#[test]
fn groups_that_can_never_fit_are_refused_with_the_numbers() {
    let mut thread = Thread::NONE;
    let five: Vec<EventSpec> = (1..6).map(raw).collect();
    let refused = thread.attach(&pmu(), &group(&five)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the group led by r1 needs 5 PMU slots, and the PMU has 4"
    );
    let leader = thread.attach(&pmu(), &group(&five[..4])).unwrap();
    assert_eq!(
        thread.join(&pmu(), leader, five[4]),
        Err(Refused::TooManySlots {
            leader: EventKind::Raw(1),
            needed: 5,
            slots: 4
        })
    );
    // Software events take none.
    assert!(thread.join(&pmu(), leader, FAULTS).is_ok());
    let all = [FAULTS; MAX_EVENTS + 1];
    assert_eq!(
        GroupSpec::new(&all).unwrap_err().to_string(),
        "the group led by page-faults has 17 events, and a group has at most 16"
    );
    let whole = group(&all[..MAX_EVENTS]);
    let leader = thread.attach(&pmu(), &whole).unwrap();
    let events = MAX_EVENTS + 1;
    assert_eq!(
        thread.join(&pmu(), leader, FAULTS),
        Err(Refused::TooManyEvents {
            leader: FAULTS.kind,
            events
        })
    );
    assert_eq!(GroupSpec::new(&[]), Err(Refused::Empty));
    assert_eq!(raws(&thread.read(leader).unwrap()), [0; MAX_EVENTS]);
}

/// K-16.
#[test]
fn circles_of_leaders_and_members_that_lead_are_refused() {
    assert_eq!(check_leaders(&[]), Ok(()));
    assert_eq!(
        check_leaders(&[None, Some(0), None, Some(2), Some(0)]),
        Ok(())
    );
    for circle in [
        &[Some(0)][..],
        &[Some(1), Some(0)],
        &[None, Some(2), Some(3), Some(1)],
    ] {
        assert_eq!(check_leaders(circle), Err(Refused::Cycle), "{circle:?}");
    }
    // It leads into a circle without being in it.
    let into = [Some(1), Some(2), Some(1)];
    assert_eq!(check_leaders(&into), Err(Refused::Cycle));
    assert_eq!(
        check_leaders(&[None, Some(0), Some(1)]),
        Err(Refused::NotALeader)
    );
    assert_eq!(check_leaders(&[Some(9)]), Err(Refused::Stale));
    let (mut cpu, mut thread, handles) = counting(&[CYCLES, INSTRUCTIONS]);
    cpu.change(&mut thread, 0, |pmu, _, thread| {
        let joined = thread.join(pmu, handles[1], BRANCHES);
        assert_eq!(joined, Err(Refused::NotALeader));
        assert_eq!(thread.detach_all(handles[1]), Err(Refused::NotALeader));
    });
}

#[test]
fn what_nothing_counts_is_refused() {
    let exclude = Exclude {
        kernel: true,
        user: false,
    };
    let of_mode = |event: EventSpec| EventSpec { exclude, ..event };
    let with_period = |event: EventSpec| EventSpec { period: 9, ..event };
    let mut thread = Thread::NONE;
    for event in [
        of_mode(EventSpec::software(Software::TaskClock)),
        of_mode(EventSpec::of(EventKind::Tracepoint(1))),
        with_period(FAULTS),
        with_period(EventSpec::of(EventKind::Tracepoint(1))),
    ] {
        let refused = thread.attach(&pmu(), &group(&[CYCLES, event]));
        assert_eq!(refused, Err(Refused::NotSupported(event)));
    }
    assert!(thread.is_empty());
    // A CPU without counters counts software events.
    assert!(
        thread
            .attach(&Model::<0>::new(64), &group(&[FAULTS]))
            .is_ok()
    );
}

#[test]
fn groups_change_only_while_they_are_off_the_pmu() {
    let (cpu, mut thread, handles) = counting(&[CYCLES]);
    let spec = group(&[BRANCHES]);
    assert_eq!(thread.attach(cpu.pmu(), &spec), Err(Refused::OnPmu));
    assert_eq!(
        thread.join(cpu.pmu(), handles[0], BRANCHES),
        Err(Refused::OnPmu)
    );
    assert_eq!(thread.detach(handles[0]), Err(Refused::OnPmu));
    assert_eq!(thread.detach_all(handles[0]), Err(Refused::OnPmu));
    assert_eq!(thread.enable(handles[0], false), Err(Refused::OnPmu));
    assert_eq!(thread.reset(handles[0]), Err(Refused::OnPmu));
    assert_eq!(thread.inherit(handles[0], true), Err(Refused::OnPmu));
}

/// A thread's groups count while it runs, on whatever CPU; a CPU's own whoever runs there.
#[test]
fn a_threads_groups_follow_it_and_a_cpus_stay() {
    let (mut one, mut other) = (Cpu::<Model<4>>::new(pmu()), Cpu::<Model<4>>::new(pmu()));
    let (mut thread, mut idle) = (Thread::NONE, Thread::NONE);
    let of_thread = thread.attach(one.pmu(), &group(&[CYCLES, FAULTS])).unwrap();
    one.switch_in(&mut idle, 0);
    other.switch_in(&mut idle.clone(), 0);
    let of_cpu = one.change(&mut idle, 0, |pmu, own, _| {
        own.attach(pmu, &group(&[CYCLES])).unwrap()
    });
    happen(&mut one, CYCLES, 1);
    one.switch(&mut idle, &mut thread, 10);
    happen(&mut one, CYCLES, 10);
    one.happened(Software::PageFaults, false);
    one.switch(&mut thread, &mut idle, 20);
    happen(&mut one, CYCLES, 100);
    one.happened(Software::PageFaults, false);
    other.switch_in(&mut thread, 50);
    happen(&mut other, CYCLES, 1_000);
    other.happened(Software::PageFaults, false);
    other.switch_out(&mut thread, 70);
    happen(&mut other, CYCLES, 10_000);
    let counts = thread.read(of_thread).unwrap();
    assert_eq!(raws(&counts), [1_010, 2]);
    assert_eq!((counts.time_enabled, counts.time_running), (30, 30));
    let counts = one.read_own(&mut idle, of_cpu, 100).unwrap();
    assert_eq!((counts.raw, counts.time_enabled), (111, 100));
}

#[test]
fn what_children_count_is_added_when_they_end() {
    let (mut cpu, mut parent, handles) = counting(&[CYCLES, FAULTS]);
    let not_inherited = cpu.change(&mut parent, 0, |pmu, _, thread| {
        thread.inherit(handles[0], true).unwrap();
        thread.attach(pmu, &group(&[BRANCHES])).unwrap()
    });
    happen(&mut cpu, CYCLES, 5);
    happen(&mut cpu, BRANCHES, 5);
    cpu.switch_out(&mut parent, 10);
    let mut child = parent.child();
    assert_eq!(raws(&child.read(handles[0]).unwrap()), [0, 0]);
    assert_eq!(child.read(not_inherited), Err(Refused::Stale));
    cpu.switch_in(&mut child, 10);
    happen(&mut cpu, CYCLES, 7);
    happen(&mut cpu, BRANCHES, 7);
    cpu.happened(Software::PageFaults, true);
    cpu.switch_out(&mut child, 30);
    parent.absorb(&child);
    let counts = parent.read(handles[0]).unwrap();
    assert_eq!(raws(&counts), [12, 1]);
    assert_eq!((counts.time_enabled, counts.time_running), (30, 30));
    assert_eq!(parent.read(not_inherited).unwrap().raw, 5);
    // A group that was changed since is no longer the one that the child had.
    parent.join(cpu.pmu(), handles[0], MISSES).unwrap();
    parent.absorb(&child);
    assert_eq!(raws(&parent.read(handles[0]).unwrap()), [0, 0, 0]);
}

#[test]
fn what_is_excluded_does_not_count() {
    let exclude = |kernel, user| Exclude { kernel, user };
    let all = [
        exclude(false, false),
        exclude(true, false),
        exclude(false, true),
    ];
    let of = |event: EventSpec| all.map(|exclude| EventSpec { exclude, ..event });
    for event in [CYCLES, FAULTS] {
        let (mut cpu, mut thread, handles) = counting(&of(event));
        for (in_kernel, times) in [(true, 3), (false, 5)] {
            match event.kind {
                EventKind::Software(fault) => {
                    (0..times).for_each(|_| cpu.happened(fault, in_kernel));
                }
                kind => cpu.pmu_mut().happen(kind, in_kernel, times),
            }
        }
        let counts = cpu.read(&mut thread, handles[0], 1).unwrap();
        assert_eq!(raws(&counts), [8, 5, 3]);
    }
}

/// Every period overflows once, however counters are taken off and put on again meanwhile.
#[test]
fn each_period_overflows_once() {
    for width in [10, 32, 64] {
        let period = 100;
        let sampled = EventSpec { period, ..CYCLES };
        let mut cpu: Cpu<Model<4>> = Cpu::new(Model::new(width));
        let (mut thread, mut idle) = (Thread::NONE, Thread::NONE);
        let handle = thread
            .attach(cpu.pmu(), &group(&[sampled, BRANCHES]))
            .unwrap();
        cpu.switch_in(&mut thread, 0);
        let (mut overflows, mut happened) = (0, 0);
        for step in 0..2_000 {
            let times = step * 7 % 333;
            cpu.pmu_mut().happen(sampled.kind, true, times);
            happened += times;
            cpu.overflow(&mut thread, step, |overflow: Overflow| {
                assert_eq!((overflow.event, overflow.handle), (sampled, handle));
                assert!(overflow.is_of_thread);
                overflows += 1 + overflow.missed;
            });
            assert_eq!(overflows, happened / period, "step {step}");
            if step % 5 == 0 {
                cpu.switch(&mut thread, &mut idle, step);
                cpu.switch(&mut idle, &mut thread, step);
            }
        }
        assert_eq!(cpu.read(&mut thread, handle, 2_000).unwrap().raw, happened);
    }
}

/// Counters with few bits are counted on past their end.
#[test]
fn narrow_counters_count_on() {
    let mut cpu: Cpu<Model<4>> = Cpu::new(Model::new(8));
    let mut thread = Thread::NONE;
    let handle = thread.attach(cpu.pmu(), &group(&[CYCLES])).unwrap();
    cpu.switch_in(&mut thread, 0);
    for step in 0..100 {
        cpu.pmu_mut().happen(CYCLES.kind, true, 200);
        cpu.overflow(&mut thread, step, |_| unreachable!("it has no period"));
    }
    assert_eq!(cpu.read(&mut thread, handle, 100).unwrap().raw, 20_000);
}

/// A PMU with a counter for cycles only, one for branches and misses, and one for anything.
#[derive(Debug)]
struct Uneven {
    programmed: [Option<EventKind>; 3],
    refuses: Option<EventKind>,
    started: u64,
}

impl Uneven {
    const NEW: Uneven = Uneven {
        programmed: [None; 3],
        refuses: None,
        started: 0,
    };
}

impl Pmu for Uneven {
    const SLOTS: usize = 3;
    const FIXED: u64 = 0b100;

    fn counters(&self, event: EventKind, _: Exclude) -> u64 {
        match event {
            _ if event == CYCLES.kind => 0b101,
            _ if event == BRANCHES.kind || event == MISSES.kind => 0b011,
            _ if event == INSTRUCTIONS.kind => 0b001,
            _ => 0,
        }
    }

    fn width(&self, _: u32) -> u32 {
        64
    }

    fn program(&mut self, counter: u32, event: EventKind, _: Exclude, _: u64) -> bool {
        assert_ne!(self.counters(event, Exclude::NOTHING) & 1 << counter, 0);
        self.programmed[counter as usize] = Some(event);
        self.refuses != Some(event)
    }

    fn read(&self, _: u32) -> u64 {
        0
    }

    fn write(&mut self, _: u32, _: u64) {}

    fn start(&mut self, counters: u64) {
        self.started |= counters;
    }

    fn stop(&mut self, counters: u64) {
        self.started &= !counters;
    }

    fn overflowed(&mut self) -> u64 {
        0
    }
}

/// N-18.
#[test]
fn events_find_the_counters_that_can_count_them() {
    let all = [CYCLES, INSTRUCTIONS, BRANCHES, MISSES];
    // Every choice of events in every order: it fits if each has a counter of its own.
    for choice in 0..4_usize.pow(3) {
        let events: Vec<EventSpec> = (0..3).map(|at| all[choice >> (2 * at) & 3]).collect();
        let mut thread = Thread::NONE;
        let attached = thread.attach(&Uneven::NEW, &group(&events));
        // Equal events share a counter.
        let mut kinds: Vec<EventKind> = Vec::new();
        for event in &events {
            if !kinds.contains(&event.kind) {
                kinds.push(event.kind);
            }
        }
        let masks = kinds.iter();
        let masks = masks.map(|kind| Uneven::NEW.counters(*kind, Exclude::NOTHING));
        let masks: Vec<u64> = masks.collect();
        let orders = [
            [0, 1, 2],
            [0, 2, 1],
            [1, 0, 2],
            [1, 2, 0],
            [2, 0, 1],
            [2, 1, 0],
        ];
        let can = |order: &[usize; 3]| {
            masks
                .iter()
                .zip(order)
                .all(|(mask, at)| mask & 1 << at != 0)
        };
        let fits = orders.iter().any(can);
        let leader = events[0].kind;
        match attached {
            Ok(_) => assert!(fits, "{events:?}"),
            Err(refused) => {
                assert_eq!(refused, Refused::NeverTogether { leader });
                assert!(!fits, "{events:?}");
                continue;
            }
        }
        let mut cpu: Cpu<Uneven> = Cpu::new(Uneven::NEW);
        cpu.switch_in(&mut thread, 0);
        let programmed = cpu.pmu().programmed.into_iter().flatten();
        let mut programmed: Vec<EventKind> = programmed.collect();
        let mut wanted: Vec<EventKind> = kinds.to_vec();
        programmed.sort_by_key(|kind| kind.to_string());
        wanted.sort_by_key(|kind| kind.to_string());
        assert_eq!(programmed, wanted);
        assert_eq!(cpu.pmu().started.count_ones() as usize, wanted.len());
    }
    let refused = Refused::NotSupported(raw(9));
    let mut thread = Thread::NONE;
    let unknown = thread.attach(&Uneven::NEW, &group(&[CYCLES, raw(9)]));
    assert_eq!(unknown, Err(refused));
}

/// N-18: what a counter of its own can count leaves the others free.
#[test]
fn fixed_counters_are_preferred() {
    let mut cpu: Cpu<Uneven> = Cpu::new(Uneven::NEW);
    let mut thread = Thread::NONE;
    thread.attach(cpu.pmu(), &group(&[CYCLES])).unwrap();
    cpu.switch_in(&mut thread, 0);
    assert_eq!(cpu.pmu().programmed, [None, None, Some(CYCLES.kind)]);
    assert_eq!(cpu.pmu().started, 0b100);
}

/// A group of which the PMU takes one event and refuses another does not run at all.
#[test]
fn a_counter_that_refuses_keeps_the_whole_group_off() {
    let mut cpu: Cpu<Uneven> = Cpu::new(Uneven::NEW);
    cpu.pmu_mut().refuses = Some(BRANCHES.kind);
    let mut thread = Thread::NONE;
    let pair = thread
        .attach(cpu.pmu(), &group(&[INSTRUCTIONS, BRANCHES]))
        .unwrap();
    let single = thread.attach(cpu.pmu(), &group(&[CYCLES])).unwrap();
    cpu.switch_in(&mut thread, 0);
    assert!(!thread.runs(pair) && thread.runs(single));
    assert_eq!(cpu.pmu().started, 0b100);
    let counts = cpu.read(&mut thread, pair, 10).unwrap();
    assert_eq!((counts.time_enabled, counts.time_running), (10, 0));
}

#[test]
fn a_clock_that_steps_back_takes_no_time_away() {
    let (mut cpu, mut thread, handles) = counting(&[EventSpec::software(Software::TaskClock)]);
    assert_eq!(cpu.read(&mut thread, handles[0], 100).unwrap().raw, 100);
    let counts = cpu.read(&mut thread, handles[0], 40).unwrap();
    assert_eq!((counts.raw, counts.time_running), (100, 100));
    let counts = cpu.read(&mut thread, handles[0], 130).unwrap();
    assert_eq!((counts.raw, counts.time_running), (130, 130));
}

/// Counts of the same event in groups that run at the same time are the same.
#[test]
fn equal_events_have_equal_counts() {
    let sampled = EventSpec {
        period: 50,
        ..CYCLES
    };
    let (mut cpu, mut thread, handles) = counting(&[CYCLES, INSTRUCTIONS, CYCLES]);
    let other = cpu.change(&mut thread, 0, |pmu, _, thread| {
        thread.attach(pmu, &group(&[BRANCHES, sampled])).unwrap()
    });
    assert_eq!(cpu.pmu().counted().count(), 3);
    let mut overflows = 0;
    for step in 0..100 {
        happen(&mut cpu, CYCLES, 70);
        cpu.overflow(&mut thread, step, |it| overflows += 1 + it.missed);
    }
    assert_eq!(
        raws(&cpu.read(&mut thread, handles[0], 100).unwrap()),
        [7_000, 0, 7_000]
    );
    assert_eq!(
        raws(&cpu.read(&mut thread, other, 100).unwrap()),
        [0, 7_000]
    );
    assert_eq!(overflows, 140);
}

/// A raw read gives what a snapshot has, running or not.
#[test]
fn raw_counts_are_those_of_the_snapshot() {
    let mut cpu: Cpu<Model<4>> = Cpu::new(Model::new(12));
    let mut thread = Thread::NONE;
    let events = [CYCLES, FAULTS, BRANCHES];
    let leader = thread.attach(cpu.pmu(), &group(&events)).unwrap();
    let handles: Vec<Handle> = thread.handles(leader).unwrap().collect();
    cpu.switch_in(&mut thread, 0);
    for step in 0..100 {
        happen(&mut cpu, CYCLES, 3_000);
        cpu.happened(Software::PageFaults, true);
        let raw: [u64; 3] = cpu.raw(&thread, leader).unwrap();
        assert_eq!(raws(&cpu.read(&mut thread, leader, step).unwrap()), raw);
        if step % 10 == 0 {
            cpu.switch_out(&mut thread, step);
            assert_eq!(cpu.raw(&thread, leader), Some(raw));
            cpu.switch_in(&mut thread, step);
        }
    }
    assert_eq!(cpu.raw(&thread, leader), Some([300_000, 100]));
    assert_eq!(cpu.raw::<4, 4>(&thread, leader), None);
    assert_eq!(cpu.raw::<4, 1>(&thread, handles[1]), None);
    cpu.change(&mut thread, 100, |_, _, thread| thread.detach_all(leader))
        .unwrap();
    assert_eq!(cpu.raw::<4, 1>(&thread, leader), None);
}

/// A child's own groups are not the parent's, although their ids may be equal.
#[test]
fn what_was_not_inherited_is_not_added() {
    let mut parent = Thread::NONE;
    let mut child = parent.child();
    let of_parent = parent.attach(&pmu(), &group(&[CYCLES])).unwrap();
    let of_child = child.attach(&pmu(), &group(&[BRANCHES])).unwrap();
    assert_eq!(of_parent, of_child);
    let mut cpu: Cpu<Model<4>> = Cpu::new(pmu());
    cpu.switch_in(&mut child, 0);
    happen(&mut cpu, BRANCHES, 7);
    cpu.switch_out(&mut child, 10);
    parent.absorb(&child);
    let counts = parent.read(of_parent).unwrap();
    assert_eq!((counts.raw, counts.time_enabled), (0, 0));
}

/// One group of the CPU's and two of the thread's, of which one fits at a time.
#[test]
fn no_group_starves_beside_those_of_another_owner() {
    let (mut cpu, mut thread) = (Cpu::<Model<1>>::new(Model::new(48)), Thread::NONE);
    cpu.switch_in(&mut thread, 0);
    let (own, first, second) = cpu.change(&mut thread, 0, |pmu, own, thread| {
        let own = own.attach(pmu, &group(&[raw(1)])).unwrap();
        let first = thread.attach(pmu, &group(&[raw(2)])).unwrap();
        (own, first, thread.attach(pmu, &group(&[raw(3)])).unwrap())
    });
    for now in 1..=400 {
        cpu.tick(&mut thread, now);
    }
    let own = cpu.read_own(&mut thread, own, 400).unwrap();
    assert_eq!(own.time_running, 200);
    for handle in [first, second] {
        let counts = cpu.read(&mut thread, handle, 400).unwrap();
        assert_eq!(counts.time_running, 100);
    }
}

/// Two threads take turns at each tick: neither they nor the CPU wait for ever.
#[test]
fn no_group_starves_where_each_tick_switches() {
    let mut cpu: Cpu<Model<1>> = Cpu::new(Model::new(48));
    let mut threads = [Thread::NONE, Thread::NONE];
    let mut nobody = Thread::NONE;
    cpu.switch_in(&mut nobody, 0);
    let own = cpu.change(&mut nobody, 0, |pmu, own, _| {
        own.attach(pmu, &group(&[raw(1)])).unwrap()
    });
    let handles = [2, 3].map(|number| {
        let thread = &mut threads[number as usize - 2];
        thread.attach(cpu.pmu(), &group(&[raw(number)])).unwrap()
    });
    cpu.switch(&mut nobody, &mut threads[0], 0);
    for now in 1..=400 {
        let [one, other] = &mut threads;
        let (runs, waits) = if now % 2 == 1 {
            (one, other)
        } else {
            (other, one)
        };
        cpu.tick(runs, now);
        cpu.switch(runs, waits, now);
    }
    for (thread, handle) in threads.iter().zip(handles) {
        let counts = thread.read(handle).unwrap();
        assert!((80..=120).contains(&counts.time_running), "{counts:?}");
    }
    let own = cpu.read_own(&mut nobody, own, 400).unwrap();
    assert!((160..=240).contains(&own.time_running), "{own:?}");
}

/// A counter overflows, and before its interrupt comes the tick gives it to another group.
#[test]
fn an_overflow_that_waits_is_not_lost_and_not_anothers() {
    let mut cpu: Cpu<Model<1>> = Cpu::new(Model::new(48));
    let (mut thread, period) = (Thread::NONE, 100);
    let of = |number| EventSpec {
        period,
        ..raw(number)
    };
    let events = [of(1), of(2)];
    let handles = events.map(|event| thread.attach(cpu.pmu(), &group(&[event])).unwrap());
    cpu.switch_in(&mut thread, 0);
    let (mut overflows, mut happened) = ([0, 0], [0, 0]);
    for step in 1..=1_000 {
        for (at, event) in events.iter().enumerate() {
            if thread.runs(handles[at]) {
                happened[at] += 37 * (step % 9);
            }
            cpu.pmu_mut().happen(event.kind, true, 37 * (step % 9));
        }
        if step % 3 == 0 {
            cpu.tick(&mut thread, step);
        }
        cpu.overflow(&mut thread, step, |it| {
            let at = handles.iter().position(|handle| *handle == it.handle);
            overflows[at.unwrap()] += 1 + it.missed;
        });
        for at in 0..2 {
            let late = happened[at] / period - overflows[at];
            // What waits comes with the group's next overflow.
            assert!(late < 4, "step {step}: {late}");
        }
    }
    assert!(
        overflows.iter().all(|overflows| *overflows > 300),
        "{overflows:?}"
    );
}

/// A counter stands exactly at its end, or one beyond, when its group is taken off: the overflow
/// comes with the next one.
#[test]
fn an_overflow_at_the_exact_end_is_not_lost() {
    for beyond in [0, 1] {
        let mut cpu: Cpu<Model<1>> = Cpu::new(Model::new(48));
        let mut thread = Thread::NONE;
        let period = 100;
        let event = EventSpec { period, ..raw(1) };
        thread.attach(cpu.pmu(), &group(&[event])).unwrap();
        cpu.switch_in(&mut thread, 0);
        cpu.pmu_mut().happen(event.kind, true, period + beyond);
        cpu.switch_out(&mut thread, 10);
        cpu.switch_in(&mut thread, 20);
        cpu.pmu_mut().happen(event.kind, true, period - beyond);
        let mut overflows = 0;
        cpu.overflow(&mut thread, 30, |it| overflows += 1 + it.missed);
        assert_eq!(overflows, 2, "{beyond} beyond the end");
    }
}

/// The child of a thread that runs has its groups on no PMU: its counters may be another group's.
#[test]
fn a_child_of_a_running_thread_does_not_run() {
    let mut cpu: Cpu<Model<2>> = Cpu::new(Model::new(48));
    let mut parent = Thread::NONE;
    let handle = parent.attach(cpu.pmu(), &group(&[raw(1), raw(2)])).unwrap();
    parent.inherit(handle, true).unwrap();
    cpu.switch_in(&mut parent, 0);
    let (mut child, mut disabled) = (parent.child(), parent.child());
    assert!(parent.runs(handle) && !child.runs(handle));
    // It counts as the parent's would.
    cpu.switch(&mut parent, &mut child, 10);
    cpu.pmu_mut().happen(raw(1).kind, true, 7);
    cpu.switch(&mut child, &mut parent, 20);
    let counts = child.read(handle).unwrap();
    assert_eq!((raws(&counts), counts.time_running), (vec![7, 0], 10));
    // Disabled before it runs for the first time.
    disabled.enable(handle, false).unwrap();
    cpu.switch(&mut parent, &mut disabled, 30);
    assert!(!disabled.runs(handle));
    assert_eq!(cpu.pmu().counted().count(), 0);
    // The CPU's own group takes the whole PMU.
    let mut child = parent.child();
    cpu.change(&mut disabled, 30, |pmu, own, _| {
        own.attach(pmu, &group(&[raw(7), raw(8)])).unwrap();
    });
    cpu.switch(&mut disabled, &mut child, 40);
    for (number, times) in [(7, 1_000), (8, 500)] {
        cpu.pmu_mut().happen(raw(number).kind, true, times);
    }
    cpu.switch_out(&mut child, 50);
    let counts = child.read(handle).unwrap();
    assert_eq!((raws(&counts), counts.time_running), (vec![0, 0], 0));
}

/// Of three groups with one counter, the second takes no turn: it is disabled, or always runs.
#[test]
fn groups_that_do_not_wait_take_no_turns() {
    for is_disabled in [true, false] {
        let mut cpu: Cpu<Model<1>> = Cpu::new(Model::new(48));
        let mut thread = Thread::NONE;
        let second = if is_disabled { raw(2) } else { FAULTS };
        let handles = [raw(1), second, raw(3)]
            .map(|event| thread.attach(cpu.pmu(), &group(&[event])).unwrap());
        thread.enable(handles[1], !is_disabled).unwrap();
        cpu.switch_in(&mut thread, 0);
        // The CPU's own group of software events takes none either.
        cpu.change(&mut thread, 0, |pmu, own, _| {
            own.attach(pmu, &group(&[FAULTS])).unwrap();
        });
        for now in 1..=60 {
            cpu.tick(&mut thread, now);
        }
        let ran = |handle| thread.read(handle).unwrap().time_running;
        assert_eq!(
            (ran(handles[0]), ran(handles[2])),
            (30, 30),
            "{is_disabled}"
        );
    }
}
