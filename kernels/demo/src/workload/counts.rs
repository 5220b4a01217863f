//! Loops of known length, counted. Tests compare what is printed.

use kymo::count::{EventSpec, GroupSpec, Handle, Hardware, Refused, Snapshot, Software};

use crate::console::println;
use crate::{arch, counting};

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
            let reads = [1, 1 + length / 2].map(|rounds| read_around(group, rounds));
            arch::restore(on);
            let [(Ok(from), Ok(nothing)), (Ok(before), Ok(after))] = reads else {
                println!("COUNT stale");
                continue;
            };
            for (index, member) in after.members().iter().enumerate() {
                let raw = |counts: &Snapshot| counts.members()[index].raw;
                println!(
                    "COUNT {} events, {}, loop {length}: {} with it, {} without",
                    events.len(),
                    member.event,
                    raw(&after) - raw(&before),
                    raw(&nothing) - raw(&from),
                );
            }
            assert_eq!(after.time_enabled, after.time_running);
        }
        counting::detach(group).expect("it was attached");
    }
}

/// Reads before and after a loop. Whatever its length, all else that is executed is the same.
#[inline(never)]
fn read_around(
    group: Handle,
    rounds: usize,
) -> (Result<Snapshot, Refused>, Result<Snapshot, Refused>) {
    let before = counting::read(group);
    arch::spin(rounds);
    (before, counting::read(group))
}
