//! The ring: a row of fixed-size packets per CPU and channel, written by that CPU alone, read by
//! anyone who can read memory.
//!
//! - [`layout`]: the region, word by word.
//! - [`long`]: its 64-bit words, also where a processor has none.
//! - `slot`: one packet slot in this address space.
//! - `masked`, `local_cas`: the two ways to reserve space. Each has a fast path of one screen and a
//!   slow path that opens packets.
//! - [`source`], [`reader`]: copy a packet, then check that it is still the same one.
//!
//! Invariants that both sides rely on:
//! 1. Only one CPU writes a channel's control block (but for `consumed`) and its packets.
//! 2. `prep` moves before any byte of the packet in the slot that it takes is touched: packet `k`
//!    is intact while `k + packets > prep`.
//! 3. A record becomes visible last: `Masked` publishes `cursor` after the record, `LocalCas` adds
//!    to `commit` after it.
//! 4. Payload, slot headers and control words are only touched as atomics of their own size.

pub mod layout;
#[cfg(target_pointer_width = "64")]
pub mod local_cas;
pub mod long;
pub mod masked;
#[cfg(test)]
#[cfg(loom)]
mod models;
pub(crate) mod name_epoch;
pub mod reader;
mod slot;
pub mod source;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

use crate::event::Event;
use crate::platform::{Local, Platform};
use crate::sync::Ordering::Relaxed;
use crate::tracer::Tracer;
use crate::vocabulary::{Channel, ClockBack};
use layout::{ChannelKind, Control, ReserveKind};

/// How a writer gets room for a record: [`masked::Masked`] or [`local_cas::LocalCas`]. One a build,
/// chosen by target.
pub trait Reserve {
    /// What readers must know of it.
    const KIND: ReserveKind;

    /// Writes a record; safe wherever the platform's contract holds. Pins the code to its CPU,
    /// unless the strategy has its own way.
    #[inline(always)]
    fn record<P: Platform, E: Event>(event: E) {
        P::pin();
        Self::record_masked::<P, E>(event);
        P::unpin();
    }

    /// Writes a record where the caller has interrupts masked already, and so is pinned.
    fn record_masked<P: Platform, E: Event>(event: E);
}

/// What is to be told where `control`'s writer found its clock `ticks` behind the window of the
/// record before, and the names channel of this CPU, where it goes. A clock that stays behind is
/// found so at every record: only the 1st, 2nd, 4th, 8th ... time is told.
fn step_back<P: Platform>(control: &Control, ticks: u64) -> Option<(&'static Control, ClockBack)> {
    let count = control.clock_back.load(Relaxed);
    if !count.is_power_of_two() || !Tracer::<P>::is_on::<ClockBack>() {
        return None;
    }
    let channel = ChannelKind::from_number(control.kind.load(Relaxed)).map(Channel::of)?;
    Some((
        P::Local::control(P::Local::cpu()?, ChannelKind::Names),
        ClockBack {
            channel,
            count,
            ticks,
        },
    ))
}
