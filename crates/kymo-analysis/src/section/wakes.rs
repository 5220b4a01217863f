//! Wake-up latencies: the time from a wake-up until the thread ran.

use kymo_machine::{ThreadId, Waker};
use serde::Serialize;

use super::{Durations, End, ThreadRef};
use crate::histogram::Histogram;

/// The time from a wake-up until the thread ran.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WakeLatency {
    /// Latencies of all threads.
    pub durations: Durations,
    /// The five longest latencies.
    pub worst: Vec<WorstWake>,
}

/// One of the longest latencies.
#[derive(Clone, Debug, Serialize)]
pub struct WorstWake {
    /// Its length.
    pub latency_ns: u64,
    /// Time of the wake-up.
    pub woken_ns: i64,
    /// Time at which the thread began to run.
    pub ran_ns: i64,
    /// The thread.
    pub thread: ThreadRef,
    /// The thread that woke it; `None` if an interrupt did, or if unknown.
    pub waker: Option<ThreadRef>,
    /// Whether an interrupt woke it.
    pub by_interrupt: bool,
    /// The CPU on which it ran.
    pub cpu: u64,
}

/// Number of longest latencies that are kept.
const WORST: usize = 5;

#[derive(Debug)]
pub(crate) struct Worst {
    pub(crate) latency: u64,
    pub(crate) woken: i64,
    pub(crate) ran: i64,
    pub(crate) thread: ThreadId,
    pub(crate) waker: Waker,
    pub(crate) cpu: u64,
}

/// Latencies of all threads.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    all: Histogram,
    worst: Vec<Worst>,
}

impl Wakes {
    pub(crate) fn add(&mut self, wake: Worst) {
        self.all.add(wake.latency);
        let longer = |worst: &Worst| worst.latency >= wake.latency;
        let place = self.worst.partition_point(longer);
        if place < WORST {
            self.worst.insert(place, wake);
            self.worst.truncate(WORST);
        }
    }

    pub(crate) fn finish(&self, end: &End<'_>) -> Option<WakeLatency> {
        let worst = self.worst.iter().filter_map(|worst| {
            Some(WorstWake {
                latency_ns: worst.latency,
                woken_ns: worst.woken,
                ran_ns: worst.ran,
                thread: ThreadRef::of(end.machine, worst.thread)?,
                waker: match worst.waker {
                    Waker::Thread(thread) => ThreadRef::of(end.machine, thread),
                    _ => None,
                },
                by_interrupt: worst.waker == Waker::Interrupt,
                cpu: worst.cpu,
            })
        });
        (self.all.count() > 0).then(|| WakeLatency {
            durations: Durations::of(&self.all),
            worst: worst.collect(),
        })
    }

    pub(crate) fn live(&self) -> usize {
        self.worst.len() + self.all.buckets()
    }
}
