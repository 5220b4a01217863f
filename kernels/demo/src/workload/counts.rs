//! Loops of known length, counted, and groups that take turns. Tests compare what is printed.

use kymo::count::{EventKind, EventSpec, Exclude, GroupSpec, Handle, Hardware, Software};

use crate::console::println;
use crate::{arch, counting, sched, thread};

const CYCLES: EventSpec = EventSpec::hardware(Hardware::Cycles);
const INSTRUCTIONS: EventSpec = EventSpec::hardware(Hardware::Instructions);
const SWITCHES: EventSpec = EventSpec::software(Software::ContextSwitches);

/// Instructions of the loops.
const LENGTHS: [usize; 3] = [1_000, 50_000, 200_000];

/// Counts the loops with groups of several makes.
pub fn run() {
    for events in [
        &[INSTRUCTIONS][..],
        &[CYCLES, INSTRUCTIONS],
        &[INSTRUCTIONS, SWITCHES, INSTRUCTIONS],
    ] {
        let counted = GroupSpec::new(events).and_then(|group| counting::attach(&group));
        let group = match counted {
            Ok(group) => group,
            Err(refused) => {
                println!("COUNT refused {refused}");
                continue;
            }
        };
        for length in LENGTHS {
            // A tick or another thread would be counted too.
            let on = arch::mask();
            let [nothing, loops] = [1, 1 + length / 2].map(|rounds| count_around(group, rounds));
            arch::restore(on);
            for (event, (loops, nothing)) in events.iter().zip(loops.iter().zip(nothing)) {
                println!(
                    "COUNT {} events, {event}, loop {length}: {loops} with it, {nothing} without",
                    events.len(),
                );
            }
        }
        counting::detach(group).expect("it was attached");
    }
    thread::check_stack(sched::running_here().slot);
}

/// What a group counts from before a loop to behind it. Whatever the loop's length, all else that
/// is executed is the same.
#[inline(never)]
fn count_around(group: Handle, rounds: usize) -> [u64; 3] {
    let before = raw(group);
    arch::spin(rounds);
    let after = raw(group);
    core::array::from_fn(|index| after[index] - before[index])
}

/// The raw counts of a group of at most three events. (Snapshots are large for a thread's stack.)
#[inline(never)]
fn raw(group: Handle) -> [u64; 3] {
    let counts = counting::read(group).expect("it was attached");
    assert_eq!(counts.time_enabled, counts.time_running);
    let raw = |index: usize| counts.members().get(index).map_or(0, |member| member.raw);
    core::array::from_fn(raw)
}

/// Three groups of four counters each, of which a processor with seven has one at a time, while the
/// work goes on evenly.
pub fn take_turns(rounds: u32) {
    let of_kinds = |exclude| {
        let kinds = [
            EventKind::Hardware(Hardware::Instructions),
            EventKind::Hardware(Hardware::Cycles),
            // Instructions and cycles once more, by the numbers that AArch64 gives them.
            EventKind::Raw(0x08),
            EventKind::Raw(0x11),
        ];
        kinds.map(|kind| EventSpec {
            kind,
            exclude,
            period: 0,
        })
    };
    let excludes = [(false, false), (false, true), (true, false)];
    let groups = excludes.map(|(kernel, user)| {
        let events = of_kinds(Exclude { kernel, user });
        GroupSpec::new(&events).and_then(|group| counting::attach(&group))
    });
    for _ in 0..rounds {
        arch::spin(100_000);
    }
    for group in groups {
        let counts = match group.and_then(counting::read) {
            Ok(counts) => counts,
            Err(refused) => {
                println!("TURNS refused {refused}");
                continue;
            }
        };
        for member in counts.members() {
            println!(
                "TURNS {}: {} scaled from {}, {} ns of {}",
                member.event,
                member.scaled.unwrap_or(0),
                member.raw,
                counts.time_running,
                counts.time_enabled,
            );
        }
    }
    for group in groups.into_iter().flatten() {
        counting::detach(group).expect("it was attached");
    }
    thread::check_stack(sched::running_here().slot);
}
