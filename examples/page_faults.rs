//! Page faults of this thread, on any CPU, while it touches memory for the first time and again.
//!
//! ```sh
//! cargo run --release -p kymo-perf --example page_faults
//! ```
//!
//! A second group counts branches. It is a group of its own because it says nothing about the page
//! faults: where the PMU is shared, the two need not count at the same time.

use std::hint::black_box;

use kymo::count::{EventSpec, Hardware, Software};
use kymo_perf::{Group, Options, SlotLimit, Target};

const PAGE: usize = 4096;
const PAGES: usize = 1000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limit = SlotLimit::of_machine()?;
    // Process 0 is the caller, CPU -1 is any.
    let target = Target::from_numbers(0, -1)?;
    let mut faults = EventSpec::software(Software::PageFaults);
    // An eBPF program would run at every fault.
    faults.period = 1;
    let mut group = Group::new(target, Options::default(), limit);
    let faults = group.add(faults)?;
    group.start()?;

    let mut others = Group::new(target, Options::default(), limit);
    let branches = others.add(EventSpec::hardware(Hardware::Branches));
    match &branches {
        Ok(_) => others.start()?,
        Err(error) => println!("branches are not counted: {error}"),
    }

    let mut memory = vec![0_u8; PAGES * PAGE];
    for what in ["the first time", "again"] {
        let before = group.read(faults)?.raw;
        for page in memory.chunks_mut(PAGE) {
            page[0] = 1;
        }
        black_box(&mut memory);
        let faults = group.read(faults)?.raw - before;
        println!("{PAGES} pages written {what}: {faults} page faults");
    }
    if let Ok(branches) = branches {
        println!("{} branches", others.read(branches)?.raw);
    }
    Ok(())
}
