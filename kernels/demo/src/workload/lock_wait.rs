//! A thread holds a lock that a more urgent one wants. With one hart, that one waits little more
//! than 5 ms.

use super::{compute_for, together};
use crate::mutex::Mutex;
use crate::recording;
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
    // The state has the lock and its owner.
    recording::snapshot();
    // The other thread runs at once, and its wait switches back here.
    TAKEN.up();
    compute_for(5_000);
    drop(table);
}
