//! Threads that compete for locks.

use super::{compute, compute_for, together};
use crate::lock::TracedSpin;
use crate::mutex::Mutex;
use crate::semaphore::Semaphore;
use crate::thread;

static ACCOUNTS: Mutex = Mutex::new("accounts");
static JOURNAL: Mutex = Mutex::new("journal");
static HAS_JOURNAL: Semaphore = Semaphore::new("has_journal", 0);
static HAS_ACCOUNTS: Semaphore = Semaphore::new("has_accounts", 0);
static ITEMS: Semaphore = Semaphore::new("items", 0);
static ROOM: Semaphore = Semaphore::new("room", 4);
/// Sum and count of the additions, which show whether the lock excluded others.
static TOTAL: TracedSpin<(u64, u64)> = TracedSpin::new("total", (0, 0));

pub fn run(rounds: u32) {
    let before = *TOTAL.lock();
    together(
        [
            ("chain.low", 2, holds_the_end),
            ("chain.middle", 4, holds_the_middle),
            ("chain.high", HIGH, wants),
            ("hog", 6, hog),
        ],
        rounds,
    );
    together(
        [
            ("low", 2, transfer),
            ("middle.a", 4, transfer),
            ("middle.b", 4, transfer),
            ("high", HIGH, hurried),
        ],
        rounds,
    );
    together(
        [
            ("producer", 5, produce),
            ("consumer", 5, consume),
            ("adder.a", 5, add),
            ("adder.b", 5, add),
        ],
        rounds,
    );
    let after = *TOTAL.lock();
    let added = (after.0 - before.0, after.1 - before.1);
    assert_eq!(
        added,
        (2 * 7 * u64::from(rounds), 2 * u64::from(rounds)),
        "the spin lock let two harts in"
    );
}

/// The highest priority in the chain of three threads, of which each waits for the next.
const HIGH: i16 = 9;

/// Holds the journal until it has inherited the priority of the chain's other end.
fn holds_the_end(rounds: usize) {
    for _ in 0..rounds / 10 {
        let journal = JOURNAL.lock();
        HAS_JOURNAL.up();
        while thread::priority() < HIGH {
            thread::yield_now();
        }
        drop(journal);
    }
}

/// Holds the accounts, and wants the journal.
fn holds_the_middle(rounds: usize) {
    for _ in 0..rounds / 10 {
        HAS_JOURNAL.down();
        let accounts = ACCOUNTS.lock();
        // Its holder waits until this thread wants it.
        assert!(JOURNAL.try_lock().is_none());
        HAS_ACCOUNTS.up();
        drop(JOURNAL.lock());
        drop(accounts);
    }
}

/// Wants the accounts.
fn wants(rounds: usize) {
    for _ in 0..rounds / 10 {
        HAS_ACCOUNTS.down();
        drop(ACCOUNTS.lock());
    }
}

/// Holds one mutex, and then a second one: a waiter for the second lends its priority along the
/// chain.
fn transfer(rounds: usize) {
    for round in 0..rounds {
        let accounts = ACCOUNTS.lock();
        compute(1_000);
        if round % 3 == 0 {
            let journal = JOURNAL.lock();
            compute(1_000);
            drop(journal);
        }
        drop(accounts);
        if let Some(journal) = JOURNAL.try_lock() {
            compute(500);
            drop(journal);
        }
    }
}

/// Rarely wants the mutex, but urgently.
fn hurried(rounds: usize) {
    for round in 0..rounds / 10 {
        thread::sleep(800);
        let wanted = if round % 2 == 0 { &ACCOUNTS } else { &JOURNAL };
        let held = wanted.lock();
        compute(300);
        drop(held);
    }
}

/// Wants no lock, but keeps threads of lower priority off the hart while they hold one.
fn hog(rounds: usize) {
    for _ in 0..rounds / 10 {
        compute_for(300);
        thread::sleep(600);
    }
}

fn produce(rounds: usize) {
    for _ in 0..rounds {
        ROOM.down();
        compute(300);
        ITEMS.up();
    }
}

fn consume(rounds: usize) {
    for _ in 0..rounds {
        ITEMS.down();
        compute(200);
        ROOM.up();
    }
}

fn add(rounds: usize) {
    for _ in 0..rounds {
        let mut total = TOTAL.lock();
        total.0 += 7;
        compute(50);
        total.1 += 1;
        drop(total);
        compute(200);
    }
}
