//! The ring: a row of fixed-size packets per CPU and channel, written by that CPU alone, read by
//! anyone who can read memory.
//!
//! - [`layout`]: the region, word by word.
//! - [`long`]: its 64-bit words, even on processors that have none.
//! - [`region`]: memory, and how a region is laid out in it.
//! - `running`: which regions have a session of this boot.
//! - `slot`: one packet slot in this address space.
//! - [`local`], [`switches`]: how code reaches the control blocks of its CPU, and what is recorded.
//! - `masked`, `local_cas`: the two ways to reserve space. Each has a fast path of one screen and a
//!   slow path that opens packets.
//! - [`payload`]: where a record's words come from.
//! - `name_epoch`: when names have to be recorded again.
//! - `without_ring`: records of CPUs that have no ring are counted.
//! - [`source`], [`reader`]: copy a packet, then check that it is still the same one.
//!
//! The ring knows neither events nor sessions: a record is an id, a channel and words. What it asks
//! of the code around it is [`Environment`].
//!
//! Invariants that both sides rely on:
//! 1. Only one CPU writes a channel's control block (but for `consumed`) and its packets.
//! 2. `prep` moves before any byte of the packet in the slot that it takes is touched: packet `k`
//!    is intact while `k + packets > prep`.
//! 3. A record becomes visible last: `Masked` publishes `cursor` after the record, `LocalCas` adds
//!    to `commit` after it.
//! 4. Payload, slot headers and control words are only touched as atomics of their own size.

pub mod config;
#[cfg(test)]
pub(crate) mod harness;
pub mod layout;
pub mod local;
#[cfg(target_pointer_width = "64")]
pub mod local_cas;
pub mod long;
pub mod masked;
#[cfg(test)]
#[cfg(loom)]
pub(crate) mod models;
pub(crate) mod name_epoch;
pub mod payload;
pub mod reader;
pub mod region;
mod running;
mod slot;
pub mod source;
pub mod switches;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
pub(crate) mod without_ring;

use crate::channel::ChannelKind;
use crate::sync::Ordering::Relaxed;
use layout::{Control, ReserveKind};
use local::Local;
use payload::Payload;

/// What is known of a record when the code is compiled.
pub trait RecordType {
    /// Its channel.
    const CHANNEL: ChannelKind;
    /// Its id; `None` where that is known at run time only.
    const ID: Option<u32>;
}

/// A record of the events channel whose id is known at run time.
#[derive(Debug)]
pub struct RawEvent;

impl RecordType for RawEvent {
    const CHANNEL: ChannelKind = ChannelKind::Events;
    const ID: Option<u32> = None;
}

/// A record of the names channel whose id is known at run time.
#[derive(Debug)]
pub struct RawName;

impl RecordType for RawName {
    const CHANNEL: ChannelKind = ChannelKind::Names;
    const ID: Option<u32> = None;
}

/// What the writers ask of the code around them. Every [`Platform`](crate::platform::Platform) is
/// one; the functions are documented there.
///
/// # Safety
/// - `Local` leads to control blocks that no other CPU writes, in a region that stays mapped.
/// - From the moment a writer fetches them until its record is written, the code neither moves to
///   another CPU nor is switched out: `Masked` ensures this itself; with `LocalCas`, `pin` and
///   `unpin` do.
/// - Code that the rules of its `Reserve` cannot keep out of a writer writes no record. Neither do
///   the functions that a writer calls: all but `synchronize`.
pub unsafe trait Environment: 'static {
    /// Where this CPU's control blocks are.
    type Local: Local;

    /// The clock, in ticks.
    fn clock() -> u64;

    /// The clock as the hot path of `Masked` reads it.
    #[inline(always)]
    fn quick_clock() -> u64 {
        Self::clock()
    }

    /// Keeps the code on this CPU until [`unpin`](Self::unpin).
    #[inline(always)]
    fn pin() {}

    /// Ends what [`pin`](Self::pin) began.
    #[inline(always)]
    fn unpin() {}

    /// Returns when no writer is inside a record that it was writing at the time of the call.
    fn synchronize();

    /// The block to record in instead of `control`, which belongs to no session; with `None` the
    /// record is counted as lost here.
    fn claim(control: &Control) -> Option<&'static Control> {
        without_ring::count_closed(control);
        None
    }

    /// How deep this context is nested in interrupts.
    fn nesting() -> u32 {
        1
    }

    /// The record that reports a step back of the clock, for the names channel of this CPU; `None`
    /// where none is wanted.
    fn report_step_back(step: StepBack) -> Option<Report> {
        let _ = step;
        None
    }
}

/// A writer found its clock behind the time window of the record before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepBack {
    /// The writer's channel.
    pub channel: ChannelKind,
    /// How often its writer has found a step back, including this one.
    pub count: u32,
    /// How many ticks the clock was behind the window.
    pub ticks: u64,
}

/// A record that a writer makes about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The id.
    pub id: u32,
    /// The payload.
    pub words: [u32; 4],
}

/// How a writer gets room for a record: [`masked::Masked`], [`local_cas::LocalCas`] or
/// [`local_cas::MaskedCas`]. Each build
/// has one of them, chosen by target.
pub trait Reserve {
    /// The kind, which readers must know.
    const KIND: ReserveKind;

    /// Writes a record, and returns whether there was room for it; safe wherever the environment's
    /// contract holds. Pins the code to its CPU, unless the strategy has its own way. `id` is
    /// `R::ID`, where there is one.
    #[inline(always)]
    fn record<N: Environment, R: RecordType>(id: u32, payload: impl Payload) -> bool {
        N::pin();
        // SAFETY: pinned, and a strategy that needs masked interrupts has its own `record`.
        let recorded = unsafe { Self::record_masked::<N, R>(id, payload) };
        N::unpin();
        recorded
    }

    /// Writes a record where the caller has interrupts masked already, and so is pinned.
    ///
    /// # Safety
    /// The code stays on its CPU until this returns. Where `Self` is
    /// [`Masked`](masked::Masked), nothing else on this CPU records an event meanwhile.
    unsafe fn record_masked<N: Environment, R: RecordType>(id: u32, payload: impl Payload) -> bool;
}

/// A record that found no room: it was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lost;

/// The report that is due where `control`'s writer found its clock `ticks` behind the window of the
/// record before, and the names channel of this CPU, where it goes. A clock that stays behind is
/// noticed at every record: only the 1st, 2nd, 4th, 8th ... time is reported.
fn step_back<N: Environment>(control: &Control, ticks: u64) -> Option<(&'static Control, Report)> {
    let count = control.clock_back.load(Relaxed);
    if !count.is_power_of_two() {
        return None;
    }
    let report = N::report_step_back(StepBack {
        channel: ChannelKind::from_number(control.kind.load(Relaxed))?,
        count,
        ticks,
    })?;
    Some((
        N::Local::control(N::Local::cpu()?, ChannelKind::Names),
        report,
    ))
}
