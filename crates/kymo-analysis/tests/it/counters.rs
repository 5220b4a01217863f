//! Whose the counts of a trace are.

use kymo::event::Event;
use kymo::vocabulary::{
    CountedEvent, EventCount, GroupCount, IrqEnter, IrqExit, SchedSwitch, SwitchReason, Syscall,
    SyscallEnter, SyscallExit, ThreadState,
};
use kymo::{Irq, Sequence, Text};
use kymo_analysis::{Analysis, Counters, GroupCounters};
use kymo_ctf::Trace;
use kymo_made::{Made, US};

/// What the groups of a trace have counted.
fn all(made: &mut Made) -> Option<Counters> {
    let trace = Trace::open(made.finish()).unwrap();
    let mut analysis = Analysis::new(trace.metadata());
    let map = trace.map();
    let mut reader = map.read();
    while let Some(item) = reader.next() {
        analysis.add(&item);
    }
    analysis.finish().counters
}

/// What the only group of a trace has counted.
fn counters(made: &mut Made) -> Option<GroupCounters> {
    let mut groups = all(made)?.groups;
    let group = groups.pop();
    assert!(groups.is_empty(), "{groups:?}");
    group
}

/// A trace whose group counts cycles and instructions.
fn made(name: &str) -> Made {
    let mut made = Made::new(name);
    name_events(&mut made, (0, 1), &["cycles", "instructions"]);
    made
}

/// Names the events of a group, by its number and how many groups there are.
fn name_events(made: &mut Made, (group, groups): (u8, u8), names: &[&str]) {
    for (place, name) in (0..).zip(names) {
        let counted = CountedEvent {
            group,
            groups,
            place,
            events: names.len() as u8,
            name: Text::new(name),
        };
        made.event(0, 0, counted);
    }
}

/// The counts that belong to an event of this id. There is always half an instruction a cycle.
fn count<E: Event>(made: &mut Made, cpu: u32, time: u64, turns: u32, cycles: u64) {
    count_of::<E>(made, (cpu, time), (0, turns), &[cycles, cycles / 2]);
}

/// The counts of a group that belong to an event of this id.
fn count_of<E: Event>(
    made: &mut Made,
    (cpu, time): (u32, u64),
    (group, turns): (u8, u32),
    counts: &[u64],
) {
    let count = EventCount {
        event: E::ID as u16,
        group,
        turns,
        counts: Sequence::new(counts),
    };
    made.event(cpu, time, count);
}

fn switch(made: &mut Made, time: u64, prev: u32, next: u32) {
    let left = (prev, ThreadState::Runnable, SwitchReason::Expired);
    made.switch(0, time, left, (next, 1));
}

fn group(made: &mut Made, cpu: u32, time: u64, times: (u64, u64), counts: &[u64]) {
    group_of(made, 0, (cpu, time), times, counts);
}

fn group_of(
    made: &mut Made,
    group: u8,
    (cpu, time): (u32, u64),
    (time_enabled, time_running): (u64, u64),
    counts: &[u64],
) {
    let count = GroupCount {
        time_enabled,
        time_running,
        group,
        counts: Sequence::new(counts),
    };
    made.event(cpu, time, count);
}

/// What is counted between two events belongs to what ran there: the innermost interrupt, or the
/// thread and the system call that it is in.
#[test]
fn counts_belong_to_what_ran() {
    let mut made = made("counts-shared");
    let id = Syscall(3);
    switch(&mut made, US, 1, 2);
    count::<SchedSwitch>(&mut made, 0, US, 0, 1_000);
    made.event(0, 2 * US, SyscallEnter { id, arg0: 0 });
    count::<SyscallEnter>(&mut made, 0, 2 * US, 0, 1_010);
    made.event(0, 3 * US, IrqEnter { irq: Irq(5) });
    count::<IrqEnter>(&mut made, 0, 3 * US, 0, 1_030);
    made.event(0, 4 * US, IrqExit { irq: Irq(5) });
    count::<IrqExit>(&mut made, 0, 4 * US, 0, 1_130);
    // The thread leaves in the middle of its call, and comes back to it.
    switch(&mut made, 5 * US, 2, 3);
    count::<SchedSwitch>(&mut made, 0, 5 * US, 0, 1_132);
    switch(&mut made, 6 * US, 3, 2);
    count::<SchedSwitch>(&mut made, 0, 6 * US, 0, 2_132);
    made.event(0, 7 * US, SyscallExit { id, ret: 0 });
    count::<SyscallExit>(&mut made, 0, 7 * US, 0, 2_136);
    switch(&mut made, 8 * US, 2, 3);
    count::<SchedSwitch>(&mut made, 0, 8 * US, 0, 2_236);
    let counters = counters(&mut made).unwrap();
    let threads = counters.threads.iter();
    let threads: Vec<_> = threads
        .map(|row| (row.thread.as_ref().unwrap().tid, row.counts.clone()))
        .collect();
    let of_2 = 10 + 20 + 2 + 4 + 100;
    assert_eq!(threads, [(3, vec![1_000, 500]), (2, vec![of_2, of_2 / 2])]);
    let [call] = &counters.system_calls[..] else {
        panic!("{counters:?}");
    };
    assert_eq!((call.id, &call.counts[..]), (Some(3), &[26, 13][..]));
    let [line] = &counters.interrupts[..] else {
        panic!("{counters:?}");
    };
    assert_eq!((line.irq, &line.counts[..]), (5, &[100, 50][..]));
    assert_eq!((counters.intervals, counters.intervals_not_counted), (7, 0));
    let names = ["cycles", "instructions"].map(|name| Some(name.to_owned()));
    assert_eq!(counters.events, names);
}

/// Nothing is known of an interval in which the group was off the PMU, nor of one with a loss.
#[test]
fn intervals_that_were_not_counted_are_left_out() {
    let mut made = made("counts-turns");
    switch(&mut made, US, 1, 2);
    // Off, on, off at both ends, on all the time, and off in between.
    for (time, turns, cycles) in [
        (1, 1, 0),
        (2, 2, 10),
        (3, 3, 30),
        (4, 3, 30),
        (5, 4, 70),
        (6, 4, 90),
        (7, 6, 200),
    ] {
        count::<SchedSwitch>(&mut made, 0, time * US, turns, cycles);
    }
    made.lose(0, 1, 9 * US);
    switch(&mut made, 10 * US, 3, 4);
    count::<SchedSwitch>(&mut made, 0, 10 * US, 6, 1_000);
    count::<SchedSwitch>(&mut made, 0, 11 * US, 6, 1_004);
    let counters = counters(&mut made).unwrap();
    assert_eq!((counters.intervals, counters.intervals_not_counted), (7, 5));
    let threads = counters.threads.iter();
    let threads: Vec<_> = threads
        .map(|row| (row.thread.as_ref().unwrap().tid, row.counts[0]))
        .collect();
    assert_eq!(threads, [(2, 20), (4, 4)]);
}

/// A CPU's counts are those between its first record and its last one, scaled to all that time.
#[test]
fn a_cpus_counts_are_scaled_to_its_time() {
    let mut made = made("counts-groups");
    group(&mut made, 0, US, (100, 50), &[7, 9]);
    group(&mut made, 1, US, (0, 0), &[]);
    group(&mut made, 0, 2 * US, (200, 90), &[17, 29]);
    group(&mut made, 2, 2 * US, (5, 0), &[0, 0]);
    group(&mut made, 2, 3 * US, (9, 0), &[0, 0]);
    group(&mut made, 0, 4 * US, (500, 150), &[107, 9]);
    let counters = counters(&mut made).unwrap();
    assert_eq!(counters.cpus_without, [1]);
    let [first, third] = &counters.cpus[..] else {
        panic!("{counters:?}");
    };
    assert_eq!((first.time_enabled_ns, first.time_running_ns), (400, 100));
    assert_eq!(
        (&first.raw[..], &first.scaled[..]),
        (&[100, 0][..], &[Some(400), Some(0)][..])
    );
    assert_eq!((third.cpu, &third.scaled[..]), (2, &[None, None][..]));
}

/// Two groups that take turns: each is scaled by its own times, and what it counted at events is
/// apart from what the other did.
#[test]
fn each_group_has_its_own_share_of_the_time() {
    let mut made = Made::new("counts-two");
    name_events(&mut made, (0, 2), &["cycles", "instructions"]);
    name_events(&mut made, (1, 2), &["branches"]);
    group_of(&mut made, 0, (0, US), (0, 0), &[0, 0]);
    group_of(&mut made, 1, (0, US), (0, 0), &[0]);
    group_of(&mut made, 1, (1, US), (0, 0), &[]);
    switch(&mut made, US, 1, 2);
    count_of::<SchedSwitch>(&mut made, (0, US), (0, 0), &[10, 5]);
    switch(&mut made, 2 * US, 2, 3);
    count_of::<SchedSwitch>(&mut made, (0, 2 * US), (0, 0), &[110, 55]);
    // The other group's turn: 3 runs, then 2.
    switch(&mut made, 3 * US, 3, 2);
    count_of::<SchedSwitch>(&mut made, (0, 3 * US), (1, 2), &[7]);
    switch(&mut made, 4 * US, 2, 3);
    count_of::<SchedSwitch>(&mut made, (0, 4 * US), (1, 2), &[27]);
    // The first group's again.
    switch(&mut made, 5 * US, 3, 2);
    count_of::<SchedSwitch>(&mut made, (0, 5 * US), (0, 2), &[1_000, 500]);
    group_of(&mut made, 0, (0, 9 * US), (8_000, 2_000), &[1_000, 500]);
    group_of(&mut made, 1, (0, 9 * US), (8_000, 6_000), &[30]);
    let counters = all(&mut made).unwrap();
    let [first, second] = &counters.groups[..] else {
        panic!("{counters:?}");
    };
    assert_eq!((first.group, second.group), (0, 1));
    let names =
        |group: &GroupCounters| -> Vec<String> { group.events.iter().flatten().cloned().collect() };
    assert_eq!(names(first), ["cycles", "instructions"]);
    assert_eq!(names(second), ["branches"]);
    let scaled = |group: &GroupCounters| {
        let [cpu] = &group.cpus[..] else {
            panic!("{group:?}");
        };
        (cpu.cpu, cpu.time_running_ns, cpu.scaled.clone())
    };
    assert_eq!(scaled(first), (0, 2_000, vec![Some(4_000), Some(2_000)]));
    assert_eq!(scaled(second), (0, 6_000, vec![Some(40)]));
    assert_eq!(
        (&first.cpus_without[..], &second.cpus_without[..]),
        (&[][..], &[1][..])
    );
    let threads = |group: &GroupCounters| -> Vec<(u64, Vec<u64>)> {
        let threads = group.threads.iter();
        threads
            .map(|row| (row.thread.as_ref().unwrap().tid, row.counts.clone()))
            .collect()
    };
    assert_eq!(threads(first), [(2, vec![100, 50])]);
    assert_eq!(threads(second), [(2, vec![20])]);
    let intervals = |group: &GroupCounters| (group.intervals, group.intervals_not_counted);
    assert_eq!((intervals(first), intervals(second)), ((2, 1), (1, 0)));
}

#[test]
fn a_trace_without_counts_has_no_such_table() {
    let mut made = made("counts-none");
    switch(&mut made, US, 1, 2);
    assert_eq!(all(&mut made), None);
}
