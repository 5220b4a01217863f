//! Counts how often each value occurred, exactly: every value has its own bucket.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Values below this are counted in an array.
const SMALL: usize = 1024;

/// A histogram that one thread writes and any thread can read.
pub struct Histogram {
    small: Box<[AtomicU64]>,
    large: Mutex<BTreeMap<u64, u64>>,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram {
            small: (0..SMALL).map(|_| AtomicU64::new(0)).collect(),
            large: Mutex::default(),
        }
    }
}

impl Histogram {
    /// Counts one more occurrence.
    pub fn count(&self, value: u64) {
        match usize::try_from(value)
            .ok()
            .and_then(|value| self.small.get(value))
        {
            Some(count) => count.store(count.load(Relaxed) + 1, Relaxed),
            None => {
                *self
                    .large
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .entry(value)
                    .or_default() += 1
            }
        }
    }

    /// Adds everything to `sum`.
    pub fn add_to(&self, sum: &mut BTreeMap<u64, u64>) {
        let small = (0..)
            .zip(self.small.iter().map(|count| count.load(Relaxed)))
            .filter(|&(_, count)| count > 0);
        let large = self.large.lock().unwrap_or_else(PoisonError::into_inner);
        for (value, count) in small.chain(large.iter().map(|(&value, &count)| (value, count))) {
            *sum.entry(value).or_default() += count;
        }
    }
}
