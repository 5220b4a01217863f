//! Two threads, A and B, with each event of a scheduler's trace once, in a known order; on one
//! hart, every run is the same.
//!
//! Before, a third thread floods the rings, so that the two threads' events are the retained ones:
//! with `packets=8 packet_size=512` the oldest events are overwritten. The console and a counter in
//! the trace give their number.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use kymo::vocabulary::{Counter, UserName};
use kymo::{Text, Tid};

use super::{compute, together};
use crate::console::println;
use crate::recording::RECORDER;
use crate::{arch, thread};

/// The number of the counter.
const OVERWRITTEN: u32 = 1;
/// Number of yields of the flood: more than fit into the rings.
const YIELDS: usize = 2 * (256 + 8);
/// Two default ticks of the scheduler, in microseconds.
const TWO_TICKS: u64 = 2_000;

static B: AtomicU32 = AtomicU32::new(0);
static ENOUGH: AtomicBool = AtomicBool::new(false);

pub fn run() {
    together([("verifier", 0, floods)], 0);
    // This thread is more urgent than both: they start when it waits for them.
    let a = thread::spawn("A", 4, is_a, 0);
    let b = thread::spawn("B", 4, is_b, 0);
    B.store(b.0, Relaxed);
    [a, b].into_iter().for_each(thread::join);
}

fn floods(_: usize) {
    (0..YIELDS).for_each(|_| thread::yield_now());
    let counts = RECORDER.history().counts();
    let interrupts = arch::mask();
    record!(UserName {
        id: OVERWRITTEN,
        name: Text::new("overwritten")
    });
    record!(Counter {
        id: OVERWRITTEN,
        value: counts.overwritten as i64
    });
    arch::restore(interrupts);
    println!(
        "demo: {} events retained, {} overwritten, {} in all",
        counts.retained,
        counts.overwritten,
        counts.total()
    );
}

fn is_a(_: usize) {
    let b = Tid(B.load(Relaxed));
    thread::yield_now();
    thread::sleep(TWO_TICKS);
    assert!(thread::suspend(b), "B can be suspended");
    assert!(thread::resume(b), "B can be resumed");
    ENOUGH.store(true, Relaxed);
}

/// Records nothing while it waits, which would fill the rings.
fn is_b(_: usize) {
    while !ENOUGH.load(Relaxed) {
        compute(100);
    }
}
