//! What the library records about the recording itself: diagnostics, where a vocabulary lists them.
//! Nobody else records these.
//!
//! Losses are not among them: `events_discarded` and `packet_seq_num` of the trace's packets are
//! exact, and say where.

use crate::channel::ChannelKind;

crate::event! {
    /// This CPU's clock stepped back, out of the time window (2^27 ticks) of the record before; the
    /// record got that window's beginning as its time. Recorded at the 1st, 2nd, 4th, 8th ... time
    /// that a channel's writer finds it so.
    #[id(144)]
    #[name("kymo_clock_back")]
    #[channel(Names)]
    pub struct ClockBack {
        /// The channel whose writer found it.
        pub channel: ChannelKind,
        /// How often it has found this so far.
        pub count: u32,
        /// How far the clock was behind the window, in its ticks: it stepped back by that at least.
        pub ticks: u64,
    }
}

crate::event! {
    /// Recording was stopped: the totals of all channels up to here, this event not among them.
    #[id(145)]
    #[name("kymo_session_end")]
    #[channel(Names)]
    pub struct SessionEnd {
        /// Events that were recorded.
        pub recorded: u64,
        /// Of these, events in packets that were used again: what nobody had read of them is
        /// overwritten.
        pub reused: u64,
        /// Events that were dropped.
        pub discarded: u64,
        /// Of these, events that no packet could hold.
        pub too_large: u64,
        /// How often a writer found its clock behind the time window of the record before.
        pub clock_back: u64,
        /// Packets given up because a writer had died in them.
        pub abandoned: u64,
    }
}

super::subject! {
    ClockBack,
    SessionEnd,
}
