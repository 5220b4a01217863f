use kymo::count::pmu::Model;
use kymo::count::{EventKind, EventSpec, GroupSpec, Software, group};

const fn raw(number: u64) -> EventSpec {
    EventSpec::of(EventKind::Raw(number))
}

const GROUP: GroupSpec = group!(
    Model<4>,
    raw(1),
    raw(2),
    EventSpec::software(Software::PageFaults),
    raw(3),
    raw(4),
    raw(5),
);

fn main() {
    assert_eq!(GROUP.slots(), 5);
}
