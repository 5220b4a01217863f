//! Tests of groups on PMUs in software.

mod arm;
mod property;
mod refused;
mod riscv;
mod rules;
mod x86;

use super::Snapshot;
use super::event::{EventKind, EventSpec, Exclude, Hardware, Software};
use super::group::GroupSpec;

const CYCLES: EventSpec = EventSpec::hardware(Hardware::Cycles);
const INSTRUCTIONS: EventSpec = EventSpec::hardware(Hardware::Instructions);
const BRANCHES: EventSpec = EventSpec::hardware(Hardware::Branches);
const MISSES: EventSpec = EventSpec::hardware(Hardware::CacheMisses);
const FAULTS: EventSpec = EventSpec::software(Software::PageFaults);

fn raw(number: u64) -> EventSpec {
    EventSpec::of(EventKind::Raw(number))
}

fn group(events: &[EventSpec]) -> GroupSpec {
    GroupSpec::new(events).unwrap()
}

/// What the members of a group have counted.
fn raws(counts: &Snapshot) -> Vec<u64> {
    counts.members().iter().map(|member| member.raw).collect()
}
