//! Threads that take turns and wake each other, a fixed amount of work: `cargo xtask overhead`
//! counts its instructions. (`switch` works for a time, however much tracing costs.)

use super::{compute, together};
use crate::semaphore::Semaphore;
use crate::thread;

/// What one thread waits for, and another one gives.
static TURN: Semaphore = Semaphore::new("turn", 0);

/// Steps of computing in a turn.
const STEPS: usize = 1_000;

pub fn run(rounds: u32) {
    together(
        [
            ("turn.a", 6, yields),
            ("turn.b", 6, yields),
            ("gives", 6, gives),
            // More urgent than the others, so that it runs as soon as it is woken.
            ("waits", 7, waits),
        ],
        rounds,
    );
}

fn yields(rounds: usize) {
    for _ in 0..rounds {
        compute(STEPS);
        thread::yield_now();
    }
}

fn gives(rounds: usize) {
    for _ in 0..rounds {
        compute(STEPS);
        TURN.up();
    }
}

fn waits(rounds: usize) {
    for _ in 0..rounds {
        TURN.down();
        compute(STEPS);
    }
}
