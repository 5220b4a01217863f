//! Lengths of run queues.

use std::collections::BTreeMap;

use kymo_machine::passed;
use serde::Serialize;

/// The length of a run queue: the number of threads that are ready and do not run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunQueue {
    /// Its CPU; `None` for a queue that CPUs share.
    pub cpu: Option<u64>,
    /// Number of threads that were put in.
    pub enqueued: u64,
    /// Number of threads that were taken out.
    pub dequeued: u64,
    /// Mean over the time for which the length is known.
    pub mean: Option<f64>,
    /// Maximum.
    pub max: u64,
}

#[derive(Debug, Default)]
struct Queue {
    enqueued: u64,
    dequeued: u64,
    max: u64,
    /// The length and the time since when, until the next loss.
    last: Option<(u64, i64)>,
    /// Sum of the times with a known length, and of each multiplied by the length.
    time: u64,
    area: u128,
}

impl Queue {
    /// Adds the time up to `now`.
    fn pass(&mut self, now: i64) {
        if let Some((len, since)) = &mut self.last {
            let time = passed(*since, now);
            self.time += time;
            self.area += u128::from(*len) * u128::from(time);
            *since = now;
        }
    }
}

/// All run queues, by CPU; those without one last.
#[derive(Debug, Default)]
pub(crate) struct RunQueues(BTreeMap<(bool, u64), Queue>);

impl RunQueues {
    pub(crate) fn set(&mut self, cpu: Option<u64>, len: u64, now: i64) {
        let key = (cpu.is_none(), cpu.unwrap_or(0));
        let queue = self.0.entry(key).or_default();
        queue.pass(now);
        if let Some((last, _)) = queue.last {
            queue.enqueued += len.saturating_sub(last);
            queue.dequeued += last.saturating_sub(len);
        }
        queue.last = Some((len, now));
        queue.max = queue.max.max(len);
    }

    /// Any CPU may have recorded a change of any queue, so a loss on one makes all unknown.
    pub(crate) fn lose(&mut self, now: i64) {
        for queue in self.0.values_mut() {
            queue.pass(now);
            queue.last = None;
        }
    }

    pub(crate) fn finish(mut self, end: i64) -> Vec<RunQueue> {
        let queues = self.0.iter_mut().map(|(&(shared, cpu), queue)| {
            queue.pass(end);
            RunQueue {
                cpu: (!shared).then_some(cpu),
                enqueued: queue.enqueued,
                dequeued: queue.dequeued,
                // Beyond 2^53 the last digits go, below what is shown.
                mean: (queue.time > 0).then(|| queue.area as f64 / queue.time as f64),
                max: queue.max,
            }
        });
        queues.collect()
    }

    pub(crate) fn live(&self) -> usize {
        self.0.len()
    }
}
