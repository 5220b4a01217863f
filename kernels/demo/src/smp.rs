//! Requests between harts, besides rescheduling: to answer, and to stop.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use core::sync::atomic::{AtomicBool, AtomicU32};

use crate::{MAX_HARTS, arch, counting};

/// The online harts, as bits.
static ONLINE: AtomicU32 = AtomicU32::new(0);
/// Number of requested answers, and the last one that each hart has given.
static ASKED: AtomicU32 = AtomicU32::new(0);
static ANSWERED: [AtomicU32; MAX_HARTS] = [const { AtomicU32::new(0) }; MAX_HARTS];
static STOP: AtomicBool = AtomicBool::new(false);

fn is_online(hart: usize) -> bool {
    ONLINE.load(Acquire) & 1 << hart != 0
}

/// Brings this hart online: it answers from now on.
pub fn come_online() {
    ONLINE.fetch_or(1 << arch::hart(), AcqRel);
}

/// Number of online harts.
pub fn count_online() -> usize {
    ONLINE.load(Acquire).count_ones() as usize
}

/// Harts that were interrupted for something else than a sample.
static POKED: [AtomicBool; MAX_HARTS] = [const { AtomicBool::new(false) }; MAX_HARTS];

/// Interrupts another hart: it answers, and looks at its queue.
pub fn poke(hart: usize) {
    POKED[hart].store(true, Release);
    arch::interrupt(hart);
}

/// Whether this hart was poked since the last call.
pub fn was_poked() -> bool {
    POKED[arch::hart()].swap(false, Acquire)
}

/// The online harts but this one.
pub fn others() -> impl Iterator<Item = usize> {
    let here = arch::hart();
    (0..MAX_HARTS).filter(move |&hart| hart != here && is_online(hart))
}

/// Waits until every other hart has taken an interrupt, and so has finished any record that it was
/// writing. Must not be called with a lock for which another hart may wait, nor on two harts at
/// once.
pub fn synchronize() {
    // Masked, so that this hart stays the same and does not wait for itself.
    let interrupts = arch::mask();
    let question = ASKED.fetch_add(1, AcqRel) + 1;
    for hart in others() {
        poke(hart);
        while is_online(hart) && ANSWERED[hart].load(Acquire) < question {
            arch::relax();
        }
    }
    arch::restore(interrupts);
}

/// Gives all requested answers. The hart has noticed by then what was set before the requests.
pub fn answer() {
    let asked = ASKED.load(Acquire);
    counting::notice();
    ANSWERED[arch::hart()].store(asked, Release);
}

/// Stops all other harts for good, each at the end of its next trap. Called once, with interrupts
/// masked.
pub fn park_others() {
    STOP.store(true, Release);
    for hart in others() {
        poke(hart);
        while is_online(hart) {
            // It may itself wait for an answer.
            answer();
            arch::relax();
        }
    }
}

/// Stops this hart if another one has requested it.
pub fn park_if_asked() {
    if STOP.load(Acquire) {
        arch::timer::disarm();
        ONLINE.fetch_and(!(1 << arch::hart()), AcqRel);
        arch::park();
    }
}
