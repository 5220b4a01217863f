//! Queues of threads, linked by `Thread::next`: ready ones, or the waiters of a lock. A thread is
//! in at most one queue.

use crate::thread::{Slot, Thread};

/// A queue by priority, FIFO among equals.
#[derive(Debug)]
pub struct Queue {
    head: Option<Slot>,
    len: u32,
}

/// Side of the threads of the same priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Before,
    Behind,
}

impl Queue {
    pub const fn new() -> Queue {
        Queue { head: None, len: 0 }
    }

    /// The first thread.
    pub fn first(&self) -> Option<Slot> {
        self.head
    }

    /// Number of threads.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Inserts a thread.
    pub fn insert(&mut self, threads: &mut [Thread], slot: Slot, side: Side) {
        let prio = threads[slot].prio;
        let goes_first = |other: Slot| match side {
            Side::Before => threads[other].prio > prio,
            Side::Behind => threads[other].prio >= prio,
        };
        let (mut before, mut behind) = (None, self.head);
        while let Some(other) = behind.filter(|&other| goes_first(other)) {
            (before, behind) = (Some(other), threads[other].next);
        }
        threads[slot].next = behind;
        self.link(threads, before, Some(slot));
        self.len += 1;
    }

    /// Removes a thread, if it is in the queue. Returns whether it was.
    pub fn remove(&mut self, threads: &mut [Thread], slot: Slot) -> bool {
        let (mut before, mut at) = (None, self.head);
        while let Some(other) = at.filter(|&other| other != slot) {
            (before, at) = (Some(other), threads[other].next);
        }
        let is_there = at == Some(slot);
        if is_there {
            let next = threads[slot].next.take();
            self.link(threads, before, next);
            self.len -= 1;
        }
        is_there
    }

    /// Removes the first thread.
    pub fn pop(&mut self, threads: &mut [Thread]) -> Option<Slot> {
        let first = self.head?;
        self.head = threads[first].next.take();
        self.len -= 1;
        Some(first)
    }

    fn link(&mut self, threads: &mut [Thread], before: Option<Slot>, slot: Option<Slot>) {
        match before {
            Some(before) => threads[before].next = slot,
            None => self.head = slot,
        }
    }
}
