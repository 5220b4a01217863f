//! Name epochs: names are recorded again before the ring of names has rolled over them.
//!
//! A thing's name goes to the names channel once, and events carry its id. In a flight recorder
//! that ring overwrites too, so once would not be enough. Time is cut into name epochs: a new one
//! begins with every session, and in `Overwrite` whenever a CPU has opened so many packets of names
//! that three such epochs still fit into the ring. A thing keeps the epoch in which it was last
//! named; whoever uses it compares that with the present one, and names it anew where they differ.
//!
//! # Invariants
//! - While a thing's word is the present epoch, its name lies in the ring: the epoch was loaded
//!   before the name was recorded, and the CPU that recorded it has opened fewer packets since than
//!   the ring holds, or it would have begun another epoch itself. This needs no order between CPUs.
//! - Three epochs fit: a thing that was used in the epoch before is named in the ring too, even if
//!   that one began between the look at the thing's word and the use, so that the name is of the
//!   epoch before it. (A writer that is interrupted between opening a packet and beginning the
//!   epoch makes the one before longer, by what interrupts name meanwhile.)
//! - A name whose record was dropped leaves the word as it is.
//! - The word is stored after the name, and loaded before the use is recorded: a dump that has the
//!   use has the name. Partners: the two functions of [`NameEpoch`].
//!
//! In `Discard` the epoch stays as it is all session long: what was recorded is not overwritten.

use super::layout::{Control, Overflow};
use crate::channel::ChannelKind;
use crate::sync::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// The present epoch, of all sessions. Never [`NEVER`] for long.
static EPOCH: AtomicU32 = AtomicU32::new(NEVER + 1);

/// The epoch of a thing that nobody has named.
const NEVER: u32 = 0;

/// The name epoch in which a thing was named last; kept beside its id. See
/// [`Tracer::named`](crate::Tracer::named).
///
/// A thing that is created gets a new one: ids are used again, names are not.
#[derive(Debug)]
#[repr(transparent)]
pub struct NameEpoch(AtomicU32);

impl NameEpoch {
    /// The name epoch of a thing that was never named.
    #[allow(clippy::new_without_default)] // Made for statics and fields.
    pub const fn new() -> NameEpoch {
        NameEpoch(AtomicU32::new(NEVER))
    }

    /// The present epoch, if the thing was not named in it: for kernels whose events are declared
    /// at run time. Others call [`Tracer::named`](crate::Tracer::named).
    #[inline(always)]
    pub fn due(&self) -> Option<u32> {
        let present = EPOCH.load(Relaxed);
        // Partner: the release in `named_in`.
        (self.0.load(Acquire) != present).then_some(present)
    }

    /// Notes that the thing was named, and the name recorded; [`due`](Self::due) gave `epoch`
    /// before that.
    pub fn named_in(&self, epoch: u32) {
        // Partner: the acquire in `due`.
        self.0.store(epoch, Release);
    }
}

/// Begins another epoch. An addition is safe from several CPUs at once: a late one never brings an
/// old epoch back.
pub(crate) fn advance() {
    if EPOCH.fetch_add(1, Relaxed) == u32::MAX {
        EPOCH.fetch_add(1, Relaxed);
    }
}

/// Called by the writer that has opened packet `number` of a channel, on its slow path.
pub(crate) fn opened(control: &Control, number: u64) {
    let rolls = control.overflow.load(Relaxed) == Overflow::Overwrite as u32;
    if !rolls || control.kind.load(Relaxed) != ChannelKind::Names as u32 {
        return;
    }
    // Of N packets, N - 1 hold names for certain: one may be taken already to be opened next.
    let length = control.packets.load(Relaxed).saturating_sub(1) / 3;
    // Every 2^32 packets, one epoch is shorter than the others.
    let passed = number.wrapping_sub(control.first_packet.load(Relaxed)) as u32;
    if passed.checked_rem(length) == Some(0) {
        advance();
    }
}
