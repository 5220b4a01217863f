use kymo::count::pmu::Model;
use kymo::count::{EventSpec, GroupSpec, Software, group};

const FAULTS: EventSpec = EventSpec::software(Software::PageFaults);

const GROUP: GroupSpec = group!(
    Model<4>,
    FAULTS, FAULTS, FAULTS, FAULTS, FAULTS, FAULTS, FAULTS, FAULTS, FAULTS, FAULTS, FAULTS,
    FAULTS, FAULTS, FAULTS, FAULTS, FAULTS, FAULTS,
);

fn main() {
    assert_eq!(GROUP.slots(), 0);
}
