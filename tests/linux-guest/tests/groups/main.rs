//! Groups of a processor's counters, beside system calls without `kymo_perf`.
//!
//! They run in a Linux guest of QEMU with a Cortex-A72, which has six counters and one more for
//! cycles, and where each instruction takes a nanosecond and a cycle: see
//! tests/e2e/tests/linux_guest.rs.

#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod raw;

use kymo::count::{EventSpec, GroupSpec, Refused, Snapshot};
use kymo_linux_guest::spin;
use kymo_perf::{DEFAULT_SLOTS, Error, Group, LimitSource, Options, SlotLimit, Target};

/// The processor's numbers of an instruction that was executed, and of a cycle.
const INSTRUCTION: u64 = 0x08;
const CYCLE: u64 = 0x11;

/// Counters of the processor for any event.
const COUNTERS: usize = 6;

/// A limit that somebody states.
fn stated(slots: usize) -> SlotLimit {
    let source = LimitSource::Variable;
    SlotLimit { slots, source }
}

/// A group of raw events outside of the kernel, by number.
fn group_of(numbers: &[u64], limit: SlotLimit) -> Result<Group, Error> {
    let events: Vec<EventSpec> = numbers
        .iter()
        .map(|number| EventSpec::from_name(&format!("r{number:x}:u")).unwrap())
        .collect();
    let spec = GroupSpec::new(&events).unwrap();
    Group::open(Target::SELF, &spec, Options::default(), limit)
}

/// What the group counts while this thread executes so many loops.
fn counted(group: &mut Group, loops: u64) -> Snapshot {
    group.start().unwrap();
    spin(loops);
    group.stop().unwrap();
    group.read_all().unwrap()
}

fn raws(counts: &Snapshot) -> Vec<u64> {
    counts.members().iter().map(|member| member.raw).collect()
}

/// A snapshot has the numbers that a plain read of the same group gives.
fn assert_same(group: &Group, counts: &Snapshot) {
    let leader = group.handles().next().unwrap();
    let values = raw::read(group.descriptor(leader).unwrap());
    assert_eq!(
        (values.enabled, values.running),
        (counts.time_enabled, counts.time_running)
    );
    let members = counts.members().iter();
    let members: Vec<_> = members.map(|member| (member.raw, member.id)).collect();
    assert_eq!(values.counts, members);
}

/// K-10, K-13, K-17.
#[test]
#[ignore = "in a Linux guest: cargo xtask test e2e:linux_guest runs it"]
fn a_group_that_fills_the_processors_counters_counts_every_instruction() {
    let mut numbers = vec![INSTRUCTION; COUNTERS];
    numbers.insert(1, CYCLE);
    let mut group = group_of(&numbers, stated(numbers.len())).unwrap();
    let first = counted(&mut group, 1);
    assert_eq!(first.time_enabled, first.time_running);
    assert_same(&group, &first);
    let plain = raw::Group::open(&[INSTRUCTION, CYCLE]);
    let plain_counted = |loops| {
        plain.enable();
        let before = plain.read();
        spin(loops);
        plain.disable();
        let after = plain.read();
        [0, 1].map(|event| after.counts[event].0 - before.counts[event].0)
    };
    for loops in [2, 1000, 1_000_000] {
        let instructions = 2 * (loops - 1);
        let counts = counted(&mut group, loops);
        for (count, first) in raws(&counts).iter().zip(raws(&first)) {
            assert_eq!(count - first, instructions, "{counts:?}");
        }
        for member in counts.members() {
            assert_eq!(member.scaled, Some(member.raw));
        }
    }
    drop(group);
    let first = plain_counted(1);
    for loops in [2, 1000, 1_000_000] {
        let counts = plain_counted(loops);
        for (count, first) in counts.iter().zip(first) {
            assert_eq!(count - first, 2 * (loops - 1));
        }
    }
}

/// K-11, K-17, K-20: three groups that need all counters each.
#[test]
#[ignore = "in a Linux guest: cargo xtask test e2e:linux_guest runs it"]
fn groups_that_take_turns_are_scaled_to_the_truth() {
    let loops = 100_000_000;
    let truth = 2.0 * loops as f64;
    let near = |what: &str, count: f64| {
        assert!(
            (count - truth).abs() < 0.03 * truth,
            "{what} {count} of {truth}"
        );
    };
    let third = |running: u64, enabled: u64| {
        let share = running as f64 / enabled as f64;
        assert!((share - 1.0 / 3.0).abs() < 0.03, "{share}");
    };
    let numbers = [INSTRUCTION; COUNTERS];
    let mut groups = [(); 3].map(|()| group_of(&numbers, stated(COUNTERS)).unwrap());
    groups.iter_mut().for_each(|group| group.start().unwrap());
    spin(loops);
    groups.iter_mut().for_each(|group| group.stop().unwrap());
    for group in &groups {
        let counts = group.read_all().unwrap();
        assert_same(group, &counts);
        third(counts.time_running, counts.time_enabled);
        let scaled: Vec<u64> = counts
            .members()
            .iter()
            .map(|it| it.scaled.unwrap())
            .collect();
        assert!(scaled.iter().all(|count| *count == scaled[0]), "{counts:?}");
        near("scaled", scaled[0] as f64);
        assert!(counts.raw < scaled[0] / 2, "{counts:?}");
    }
    drop(groups);
    // Without kymo_perf.
    let groups = [(); 3].map(|()| raw::Group::open(&numbers));
    groups.iter().for_each(raw::Group::enable);
    spin(loops);
    groups.iter().for_each(raw::Group::disable);
    for group in &groups {
        let values = group.read();
        third(values.running, values.enabled);
        near("without kymo_perf", values.scaled(0));
    }
}

/// K-14, K-15, K-20, K-22: the limit refuses it; where the limit is wrong, the kernel opens it, and
/// it never runs.
#[test]
#[ignore = "in a Linux guest: cargo xtask test e2e:linux_guest runs it"]
fn a_group_that_is_too_large_is_refused_or_never_runs() {
    let numbers = [INSTRUCTION; COUNTERS + 1];
    let limit = SlotLimit::of_machine().unwrap();
    assert_eq!(
        (limit.slots, limit.source),
        (DEFAULT_SLOTS, LimitSource::Default)
    );
    match group_of(&numbers, limit) {
        Err(Error::Refused(Refused::TooManySlots {
            needed: 7,
            slots: 4,
            ..
        })) => {}
        other => panic!("{other:?}"),
    }
    let mut group = group_of(&numbers, stated(16)).unwrap();
    let counts = counted(&mut group, 1_000_000);
    assert_same(&group, &counts);
    assert!(counts.time_enabled > 0, "{counts:?}");
    assert_eq!(counts.time_running, 0);
    for member in counts.members() {
        assert_eq!((member.raw, member.scaled), (0, None));
    }
    drop(group);
    let plain = raw::Group::open(&numbers);
    plain.enable();
    spin(1_000_000);
    plain.disable();
    let values = plain.read();
    assert!(values.enabled > 0 && values.running == 0, "{values:?}");
    assert!(
        values.counts.iter().all(|(count, _)| *count == 0),
        "{values:?}"
    );
}
