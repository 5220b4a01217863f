//! Which events are recorded: switches that are one static of the kernel's.

use super::layout::{CHANNEL_KINDS, MORE_SWITCHES, SWITCHES, switch};
use crate::channel::ChannelKind;
use crate::sync::{AtomicU8, Ordering::Relaxed};

/// Switches of all events, by channel: `static SWITCHES: Switches = Switches::new();`
#[derive(Debug)]
pub struct Switches([(ByteSwitches, BitSwitches); CHANNEL_KINDS]);

/// The switches of the compact ids of a channel, and those of all other ids.
pub(crate) type ByteSwitches = [AtomicU8; SWITCHES];
pub(crate) type BitSwitches = [AtomicU8; MORE_SWITCHES];

impl Switches {
    /// Switches that are all off.
    #[allow(clippy::new_without_default)] // Made for statics.
    pub const fn new() -> Self {
        Switches(
            [const {
                (
                    [const { AtomicU8::new(0) }; SWITCHES],
                    [const { AtomicU8::new(0) }; MORE_SWITCHES],
                )
            }; CHANNEL_KINDS],
        )
    }

    /// Whether an event of this channel and id is on. Where the id is a constant, so is the place.
    #[inline(always)]
    pub(crate) fn is_on(&self, kind: ChannelKind, id: u32) -> bool {
        let (bytes, bits) = &self.0[kind as usize];
        is_on(bytes, bits, id)
    }

    /// The switches of one channel.
    pub(crate) fn of(&self, kind: ChannelKind) -> (&ByteSwitches, &BitSwitches) {
        let (bytes, bits) = &self.0[kind as usize];
        (bytes, bits)
    }
}

/// Whether the event of this id is on, by the switches of its channel. An id without a switch is
/// off.
#[inline(always)]
pub(crate) fn is_on(bytes: &ByteSwitches, bits: &BitSwitches, id: u32) -> bool {
    let place = switch(id);
    let byte = if place.more {
        bits.get(place.byte)
    } else {
        bytes.get(place.byte)
    };
    byte.is_some_and(|byte| byte.load(Relaxed) & place.mask != 0)
}
