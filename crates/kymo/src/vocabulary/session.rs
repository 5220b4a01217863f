//! Diagnostics of the recording itself. Only the library records these events, and every vocabulary
//! has them; [`ClockStep`] is put in by whoever writes the trace.
//!
//! Losses need no events: `events_discarded` and `packet_seq_num` of the trace's packets give exact
//! numbers and places.

use crate::channel::ChannelKind;

crate::event! {
    /// This CPU's clock stepped back out of the time window (2^27 ticks) of the previous record.
    /// The record got the beginning of that window as its time. Recorded at the 1st, 2nd, 4th, 8th
    /// ... such step that a channel's writer finds.
    #[id(144)]
    #[name("kymo_clock_back")]
    #[channel(Names)]
    pub struct ClockBack {
        /// The channel whose writer found the step.
        pub channel: ChannelKind,
        /// Number of steps that it has found so far.
        pub count: u32,
        /// Distance of the clock behind the window in ticks: the clock stepped back by at least as
        /// much.
        pub ticks: u64,
    }
}

crate::event! {
    /// Recording was stopped. The totals are of all channels so far, without this event.
    #[id(145)]
    #[name("kymo_session_end")]
    #[channel(Names)]
    pub struct SessionEnd {
        /// Number of recorded events.
        pub recorded: u64,
        /// Those in packets that were reused; the unread ones among them are overwritten.
        pub reused: u64,
        /// Number of dropped events.
        pub discarded: u64,
        /// Those dropped because they were larger than a packet.
        pub too_large: u64,
        /// Number of times that a writer found its clock behind the time window of the previous
        /// record.
        pub clock_back: u64,
        /// Number of packets abandoned because a writer had died in them.
        pub abandoned: u64,
        /// Events, among those dropped, of CPUs that have no ring: the session was started for
        /// fewer. The trace has them among the losses of CPU 0.
        pub without_ring: u64,
    }
}

crate::event! {
    /// This CPU's clock stepped back within a time window: the next event was recorded at an
    /// earlier time than the event before it. From here on events have the earlier event's time,
    /// until the clock has caught up. Whoever writes the trace inserts this event, in each channel;
    /// every trace declares it, and no kernel lists it.
    #[id(146)]
    #[name("kymo_clock_step")]
    pub struct ClockStep {
        /// Distance between the two times in ticks.
        pub ticks: u64,
    }
}

super::subject! {
    ClockBack,
    SessionEnd,
}
