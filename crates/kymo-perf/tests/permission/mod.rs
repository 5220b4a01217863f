//! Whether this process may count, for tests that need it.

use std::io::Write as _;

use kymo::count::{EventSpec, Software};
use kymo_perf::{Group, Options, SlotLimit, Target};

/// Whether this process may count what its own thread does; says so where it may not.
pub fn may_count() -> bool {
    let limit = SlotLimit::of_machine().unwrap();
    let mut group = Group::new(Target::SELF, Options::default(), limit);
    match group.add(EventSpec::software(Software::PageFaults)) {
        Ok(_) => true,
        Err(error) => {
            not_run(&error.to_string());
            false
        }
    }
}

/// Says that the rest of a test does not run. The test harness keeps back what `eprintln` prints
/// for a test that passes.
pub fn not_run(reason: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // In one piece: other tests write at the same time.
    let line = format!("NOT RUN: {test}: {reason}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
