//! Samples, by the thread that was found running.

use std::cmp::Reverse;

use kymo::vocabulary::CpuMode;
use kymo_machine::ThreadId;
use serde::Serialize;

use super::{End, PerThread, ThreadRef, percent};

/// Samples of the CPUs, by thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Samples {
    /// Samples in the trace.
    pub count: u64,
    /// Samples that were due and could not be taken; `None` if the tracer does not count them.
    pub missed: Option<u64>,
    /// Samples of CPUs that had nothing to do.
    pub idle: u64,
    /// Samples whose thread is unknown, idle CPUs left out.
    pub threadless: u64,
    /// Threads, most samples first.
    pub threads: Vec<ThreadSamples>,
}

/// A thread's samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadSamples {
    /// The thread.
    pub thread: ThreadRef,
    /// Samples in its program.
    pub user: u64,
    /// Samples in the kernel.
    pub kernel: u64,
    /// Its part of all samples of busy CPUs, in percent.
    pub share_percent: f64,
}

#[derive(Debug, Default)]
struct State {
    thread: Option<ThreadId>,
    user: u64,
    kernel: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Sampled {
    /// What is known without the threads.
    sums: Samples,
    threads: PerThread<State>,
}

impl Sampled {
    pub(crate) fn add(&mut self, thread: Option<ThreadId>, mode: CpuMode, missed: Option<u64>) {
        self.sums.count += 1;
        if let Some(missed) = missed {
            let sum = self.sums.missed.get_or_insert(0);
            *sum = sum.saturating_add(missed);
        }
        match (mode, thread) {
            (CpuMode::Idle, _) => self.sums.idle += 1,
            (_, None) => self.sums.threadless += 1,
            (_, Some(id)) => {
                let state = self.threads.get(id);
                state.thread = Some(id);
                match mode {
                    CpuMode::User => state.user += 1,
                    _ => state.kernel += 1,
                }
            }
        }
    }

    pub(crate) fn finish(self, end: &End<'_>) -> Option<Samples> {
        let busy = self.sums.count - self.sums.idle;
        let row = |state: &State| {
            Some(ThreadSamples {
                thread: ThreadRef::of(end.machine, state.thread?)?,
                user: state.user,
                kernel: state.kernel,
                share_percent: percent(state.user + state.kernel, busy),
            })
        };
        let mut threads: Vec<_> = self.threads.iter().filter_map(row).collect();
        threads.sort_by_key(|of| (Reverse(of.user + of.kernel), of.thread.tid));
        (self.sums.count > 0).then_some(Samples {
            threads,
            ..self.sums
        })
    }

    pub(crate) fn live(&self) -> usize {
        self.threads.iter().count()
    }
}
