//! Channels: what a session records into, and what its readers read.

/// What a channel carries. Its number is also the CTF stream class id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ChannelKind {
    /// Events.
    Events = 0,
    /// Names of threads, locks, interrupts: once each, out of reach of the traffic.
    Names = 1,
}

impl ChannelKind {
    /// Every kind, by number.
    pub const ALL: [ChannelKind; 2] = [ChannelKind::Events, ChannelKind::Names];

    /// The first part of its stream files' names.
    pub const fn label(self) -> &'static str {
        match self {
            ChannelKind::Events => "events",
            ChannelKind::Names => "names",
        }
    }

    /// From its number.
    pub fn from_number(number: u32) -> Option<ChannelKind> {
        ChannelKind::ALL.get(number as usize).copied()
    }
}
