//! Threads that take turns, for every reason of a switch.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use super::{Worker, compute, compute_for, together};
use crate::{MAX_HARTS, arch, frame, sampling, thread};

pub fn run(rounds: u32) {
    // More computing threads than harts, for longer than their time slice, and some that preempt
    // them.
    crowd(("spin", 4, spin), rounds);
    together(
        [
            ("spin.a", 4, spin),
            ("spin.b", 4, spin),
            ("spin.c", 4, spin),
            ("spin.d", 4, spin),
            ("sleep.a", 9, sleeps),
            ("sleep.b", 9, sleeps),
        ],
        rounds,
    );
    crowd(("yield", 6, yields), rounds);
    together(
        [
            ("control", 8, controls),
            ("parent", 7, makes),
            ("frames.a", 5, frames),
            ("frames.b", 5, frames),
        ],
        rounds,
    );
}

/// Nine equal threads, or one more than there are harts.
fn crowd(worker: Worker, rounds: u32) {
    const FEW: usize = 9;
    const MANY: usize = MAX_HARTS + 1;
    if sampling::count_harts() < FEW {
        together([worker; FEW], rounds);
    } else {
        together([worker; MANY], rounds);
    }
}

/// Harts that a spinner has run on, as bits.
static SPUN: AtomicU32 = AtomicU32::new(0);

/// Computes for a given time, and until every hart has run a spinner.
fn spin(rounds: usize) {
    let mut round = 0;
    while round < rounds || (SPUN.load(Relaxed).count_ones() as usize) < sampling::count_harts() {
        SPUN.fetch_or(1 << arch::hart(), Relaxed);
        compute_for(100);
        round += 1;
    }
}

/// The yielder that ran last on each hart, and whether one found another there after its yield.
static LAST: [AtomicU32; MAX_HARTS] = [const { AtomicU32::new(0) }; MAX_HARTS];
static YIELDERS: AtomicU32 = AtomicU32::new(0);
static GIVEN: AtomicBool = AtomicBool::new(false);

/// Yields a given number of times, and until a yield has given a hart to another yielder. None of
/// them ends before, and there are more of them than harts.
fn yields(rounds: usize) {
    let me = YIELDERS.fetch_add(1, Relaxed) + 1;
    let mut round = 0;
    while round < rounds || !GIVEN.load(Relaxed) {
        compute(500 + round % 7 * 100);
        let hart = arch::hart();
        LAST[hart].store(me, Relaxed);
        thread::yield_now();
        if LAST[hart].load(Relaxed) != me {
            GIVEN.store(true, Relaxed);
        }
        round += 1;
        if round >= rounds {
            // Each hart may have found only its own yielder, while a more urgent thread keeps the
            // hart of all others. After a sleep they meet.
            thread::sleep(100);
        }
    }
}

fn sleeps(rounds: usize) {
    for round in 0..rounds / 10 {
        thread::sleep(500 + round as u64 % 5 * 100);
        compute(2_000);
    }
}

static ENOUGH: AtomicBool = AtomicBool::new(false);

/// Suspends and resumes a thread of lower priority.
fn controls(rounds: usize) {
    ENOUGH.store(false, Relaxed);
    let victim = thread::spawn("victim", 3, victim, 0);
    for _ in 0..rounds / 10 {
        thread::sleep(100);
        thread::suspend(victim);
        thread::sleep(100);
        thread::resume(victim);
    }
    ENOUGH.store(true, Relaxed);
    thread::join(victim);
}

fn victim(_: usize) {
    while !ENOUGH.load(Relaxed) {
        compute(1_000);
    }
}

/// Creates threads that end at once.
fn makes(rounds: usize) {
    for _ in 0..rounds / 10 {
        thread::spawn("brief", 7, |_| compute(1_000), 0);
        thread::yield_now();
    }
}

/// Allocates and frees memory.
fn frames(rounds: usize) {
    for round in 0..rounds {
        let order = round as u32 % 4;
        let taken = frame::alloc(order).expect("there is memory");
        compute(100);
        frame::free(taken, order);
    }
}
