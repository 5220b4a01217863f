//! Misses of the cache and of the branch predictor, for two ways through the same memory.
//!
//! ```sh
//! cargo run --release -p kymo-perf --example cache_group
//! ```
//!
//! The four events are one group, so that each rate is of two counts of the same time. Where the
//! machine's PMU is missing or hidden, the example says so and counts the kernel's events.

use std::hint::black_box;

use kymo::count::{GroupSpec, MAX_EVENTS, Snapshot};
use kymo_perf::{Error, EventNames, Group, Options, SlotLimit, Target};

const HARDWARE: &str = "{cache-references,cache-misses,branches,branch-misses}";
const SOFTWARE: &str = "{task-clock,page-faults,context-switches}";

/// Numbers in the memory: 32 MiB.
const LEN: usize = 4 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limit = SlotLimit::of_machine()?;
    let open = |events: &str| {
        let groups = EventNames::default().groups(events)?;
        let spec: &GroupSpec = &groups[0].spec;
        Group::open(Target::SELF, spec, Options::default(), limit)
    };
    let mut group = match open(HARDWARE) {
        Err(Error::NotOnThisMachine { event }) => {
            println!("this machine does not count {event}, so the kernel's events are counted");
            open(SOFTWARE)?
        }
        group => group?,
    };
    let numbers: Vec<u64> = (0..LEN as u64).collect();
    group.start()?;
    let mut before = group.read_all()?;
    for (what, step) in [("in order", 1), ("with leaps", 4099)] {
        black_box(add_up(&numbers, step));
        let after = group.read_all()?;
        print(what, &before, &after);
        before = after;
    }
    Ok(())
}

/// Every number once, `step` after `step`.
#[inline(never)]
fn add_up(numbers: &[u64], step: usize) -> u64 {
    let mut sum = 0_u64;
    let mut at = 0;
    for _ in 0..numbers.len() {
        sum = sum.wrapping_add(numbers[at]);
        at = (at + step) % numbers.len();
    }
    sum
}

/// What was counted between two snapshots, by the events' ids.
fn print(what: &str, before: &Snapshot, after: &Snapshot) {
    let running = after.time_running - before.time_running;
    println!(
        "{what}: the group counted for {:.3} ms",
        running as f64 / 1e6
    );
    let mut counts = [0; MAX_EVENTS];
    for (count, member) in counts.iter_mut().zip(after.members()) {
        let earlier = before.member(member.id).map_or(0, |member| member.raw);
        *count = member.raw - earlier;
        // Per second of the time in which it was counted: that needs no scaling.
        let per_second = *count as f64 * 1e9 / running.max(1) as f64;
        println!(
            "  id {:>4}  {:18} {:>12}  {per_second:>16.0}/s",
            member.id, member.event, count
        );
    }
    for (at, member) in after.members().iter().enumerate() {
        let divisor = member.event.kind.divisor();
        let by = after
            .members()
            .iter()
            .position(|by| Some(by.event.kind) == divisor);
        if let Some(by) = by.filter(|by| counts[*by] > 0) {
            let share = counts[at] as f64 * 100.0 / counts[by] as f64;
            println!(
                "  {share:.2} % {} of {}",
                member.event,
                after.members()[by].event
            );
        }
    }
}
