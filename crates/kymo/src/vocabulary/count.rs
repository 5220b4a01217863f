//! Counts: what the processors' counters and the kernel's showed.

use super::NAME_BYTES;
use crate::count::MAX_EVENTS;
use crate::{Sequence, Text};

crate::event! {
    /// An event that the session's group counts.
    #[id(176)]
    #[channel(Names)]
    pub struct CountedEvent {
        /// Its place in the group, and in every sequence of counts; 0 is the leader.
        pub place: u32,
        /// How many events the group has.
        pub events: u32,
        /// Its name, such as `cycles` or `cache-misses:u`.
        pub name: Text<NAME_BYTES>,
    }
}

crate::event! {
    /// What a CPU's group has counted since the CPU began to count in this session.
    #[id(177)]
    pub struct GroupCount {
        /// Nanoseconds since then.
        pub time_enabled: u64,
        /// Nanoseconds of these during which the group was on the PMU.
        pub time_running: u64,
        /// The counts, in the order of the group. None if the CPU cannot count the group.
        pub counts: Sequence<u64, MAX_EVENTS>,
    }
}

crate::event! {
    /// What the CPU's group had counted when the event before was recorded: the last one of its id
    /// on this CPU.
    #[id(178)]
    pub struct EventCount {
        /// The event's id.
        pub event: u32,
        /// How often the group was put on the PMU or taken off it: odd while it is off. Between two
        /// records with the same even number, the group counted all the time.
        pub turns: u32,
        /// The counts, in the order of the group.
        pub counts: Sequence<u64, MAX_EVENTS>,
    }
}

super::subject! {
    CountedEvent,
    GroupCount,
    EventCount,
}
