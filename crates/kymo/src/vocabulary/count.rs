//! Counts: what the processors' counters and the kernel's showed.

use super::NAME_BYTES;
use crate::count::MAX_EVENTS;
use crate::{Sequence, Text};

crate::event! {
    /// An event that a group of the session counts. Four bytes, then the name.
    #[id(176)]
    #[channel(Names)]
    pub struct CountedEvent {
        /// The group's number.
        pub group: u8,
        /// How many groups the session counts.
        pub groups: u8,
        /// Its place in the group, and in every sequence of the group's counts; 0 is the leader.
        pub place: u8,
        /// How many events the group has.
        pub events: u8,
        /// Its name, such as `cycles` or `cache-misses:u`.
        pub name: Text<NAME_BYTES>,
    }
}

crate::event! {
    /// What a group of a CPU's has counted since the CPU began to count in this session. Groups
    /// that do not fit the PMU together take turns, so each has its own times.
    #[id(177)]
    pub struct GroupCount {
        /// Nanoseconds since then.
        pub time_enabled: u64,
        /// Nanoseconds of these during which the group was on the PMU.
        pub time_running: u64,
        /// The group's number.
        pub group: u8,
        /// The counts, in the order of the group. None if the CPU cannot count the group.
        pub counts: Sequence<u64, MAX_EVENTS>,
    }
}

crate::event! {
    /// What a group of the CPU's had counted when the event before was recorded: the last one of
    /// its id on this CPU. There is one such record for each group that was on the PMU. The group's
    /// number is behind the event's id in the same word, and the fourth byte is padding.
    #[id(178)]
    pub struct EventCount {
        /// The event's id.
        pub event: u16,
        /// The group's number.
        pub group: u8,
        /// How often the group was put on the PMU or taken off it. Between two records of the group
        /// with the same number, the group counted all the time.
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
