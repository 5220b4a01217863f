//! Threads in a row, linked by their own `next`: ready ones, or the waiters of a lock. A thread is
//! in one row at most.

use crate::thread::{Slot, Thread};

/// A row, by priority; of equal ones, who came first is first.
#[derive(Debug)]
pub struct Queue {
    head: Option<Slot>,
}

/// On which side of those of its own priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Before,
    Behind,
}

impl Queue {
    pub const fn new() -> Queue {
        Queue { head: None }
    }

    /// The first.
    pub fn first(&self) -> Option<Slot> {
        self.head
    }

    /// Puts a thread in.
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
    }

    /// Takes a thread out, if it is in.
    pub fn remove(&mut self, threads: &mut [Thread], slot: Slot) {
        let (mut before, mut at) = (None, self.head);
        while let Some(other) = at.filter(|&other| other != slot) {
            (before, at) = (Some(other), threads[other].next);
        }
        if at == Some(slot) {
            let next = threads[slot].next.take();
            self.link(threads, before, next);
        }
    }

    /// Takes the first out.
    pub fn pop(&mut self, threads: &mut [Thread]) -> Option<Slot> {
        let first = self.head?;
        self.head = threads[first].next.take();
        Some(first)
    }

    fn link(&mut self, threads: &mut [Thread], before: Option<Slot>, slot: Option<Slot>) {
        match before {
            Some(before) => threads[before].next = slot,
            None => self.head = slot,
        }
    }
}
