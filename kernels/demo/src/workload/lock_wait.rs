//! A thread has a lock that a more urgent one wants: with one hart, that one waits 5 ms, and little
//! more.

use super::{compute_for, together};
use crate::mutex::Mutex;
use crate::semaphore::Semaphore;

static TABLE: Mutex = Mutex::new("table");
/// The table is taken.
static TAKEN: Semaphore = Semaphore::new("taken", 0);

pub fn run() {
    together([("high", 8, wants), ("low", 2, has)], 0);
}

fn wants(_: usize) {
    TAKEN.down();
    drop(TABLE.lock());
}

fn has(_: usize) {
    let table = TABLE.lock();
    // The other one runs at once, and comes back here when it waits.
    TAKEN.up();
    compute_for(5_000);
    drop(table);
}
