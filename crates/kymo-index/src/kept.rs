//! Chunks and parts that were read: as many as there is room for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use crate::code::Coded;
use crate::error::Error;

/// Memory for them, in bytes.
const MOST: usize = 128 << 20;

/// Which chunk, or which part of which level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Which {
    Chunk(usize),
    /// The last chunk up to this time: it may get more.
    Open(u64),
    Part(usize, usize),
}

/// One of them. Whoever reads it holds the lock, and others wait for it instead of reading it, too.
type Slot = Arc<Mutex<Option<Arc<Coded>>>>;

/// What was read and was used last. It never changes while an index grows.
#[derive(Debug)]
pub(crate) struct Kept {
    most: usize,
    store: Mutex<Store>,
}

#[derive(Debug, Default)]
struct Store {
    slots: FxHashMap<Which, Used>,
    /// Of all together.
    bytes: usize,
    /// Counts uses.
    now: u64,
}

#[derive(Debug, Default)]
struct Used {
    slot: Slot,
    bytes: usize,
    last: u64,
}

impl Default for Kept {
    fn default() -> Kept {
        Kept::of_size(MOST)
    }
}

/// Nothing is left half done where a thread panics.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Kept {
    /// Room for so many bytes.
    pub(crate) fn of_size(most: usize) -> Kept {
        Kept {
            most,
            store: Mutex::default(),
        }
    }

    /// Whether it is there.
    pub(crate) fn has(&self, which: Which) -> bool {
        let store = lock(&self.store);
        store.slots.get(&which).is_some_and(|used| used.bytes > 0)
    }

    /// What is there, or is read if it is not.
    pub(crate) fn get(
        &self,
        which: Which,
        read: impl FnOnce() -> Result<Coded, Error>,
    ) -> Result<Arc<Coded>, Error> {
        let slot = lock(&self.store).slot(which);
        let mut part = lock(&slot);
        if let Some(part) = &*part {
            return Ok(Arc::clone(part));
        }
        let new = Arc::new(read()?);
        *part = Some(Arc::clone(&new));
        lock(&self.store).add(which, new.size().max(1), self.most);
        Ok(new)
    }
}

impl Store {
    fn slot(&mut self, which: Which) -> Slot {
        self.now += 1;
        let used = self.slots.entry(which).or_default();
        used.last = self.now;
        Arc::clone(&used.slot)
    }

    /// Counts the bytes of what was read, and makes room for it.
    fn add(&mut self, which: Which, bytes: usize, most: usize) {
        if let Some(used) = self.slots.get_mut(&which) {
            used.bytes = bytes;
            self.bytes += bytes;
        }
        while self.bytes > most {
            let full = self.slots.iter().filter(|(_, used)| used.bytes > 0);
            let Some(oldest) = full.min_by_key(|(_, used)| used.last) else {
                return;
            };
            let oldest = *oldest.0;
            let removed = self.slots.remove(&oldest);
            self.bytes -= removed.map_or(0, |removed| removed.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::part::{Content, Part};
    use crate::run::Run;

    fn part(runs: u64) -> Coded {
        let runs = (0..runs).map(|at| Run::slice(at, at + 1, 0)).collect();
        let part = Part {
            begin: 0,
            end: 10,
            rows: vec![(0, Content::Runs(runs))],
        };
        Coded::of(&part).unwrap()
    }

    /// The chunks that were used last stay; all of them together are never larger than allowed.
    #[test]
    fn bytes_are_bounded_and_the_last_used_stay() {
        let one = part(100).size();
        let kept = Kept::of_size(3 * one);
        let reads = Cell::new(0);
        let get = |number| {
            kept.get(Which::Chunk(number), || {
                reads.set(reads.get() + 1);
                Ok(part(100))
            })
            .unwrap()
        };
        for number in [1, 2, 3, 1, 4, 1] {
            get(number);
            assert!(lock(&kept.store).bytes <= 3 * one);
        }
        assert_eq!(reads.get(), 4);
        assert_eq!(
            [1, 2, 3, 4].map(|number| kept.has(Which::Chunk(number))),
            [true, false, true, true]
        );
        get(2);
        assert_eq!(
            (
                reads.get(),
                kept.has(Which::Chunk(3)),
                kept.has(Which::Chunk(1))
            ),
            (5, false, true)
        );
        // One that is too large for all is given, and not kept.
        kept.get(Which::Part(0, 9), || Ok(part(10_000))).unwrap();
        assert!(!kept.has(Which::Part(0, 9)) && lock(&kept.store).bytes == 0);
    }

    /// A chunk and a part of the same number are two.
    #[test]
    fn parts_of_every_level_are_kept() {
        let kept = Kept::default();
        let all = [Which::Chunk(1), Which::Part(0, 1), Which::Part(1, 1)];
        for (which, runs) in all.into_iter().zip(1..) {
            kept.get(which, || Ok(part(runs * 100))).unwrap();
        }
        for (which, runs) in all.into_iter().zip(1..) {
            let again = kept.get(which, || Ok(part(0))).unwrap();
            assert_eq!(again.size(), part(runs * 100).size());
        }
    }

    #[test]
    fn what_two_threads_want_is_read_once() {
        let (kept, reads) = (Kept::default(), AtomicU32::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let read = || {
                        reads.fetch_add(1, Relaxed);
                        thread::sleep(Duration::from_millis(20));
                        Ok(part(1))
                    };
                    kept.get(Which::Chunk(5), read).unwrap();
                });
            }
        });
        assert_eq!(reads.into_inner(), 1);
    }

    #[test]
    fn what_cannot_be_read_is_tried_again() {
        let kept = Kept::default();
        assert!(
            kept.get(Which::Chunk(5), || Err(Error::Keep(String::new())))
                .is_err()
        );
        assert!(!kept.has(Which::Chunk(5)));
        assert!(kept.get(Which::Chunk(5), || Ok(part(1))).is_ok() && kept.has(Which::Chunk(5)));
    }
}
