//! Rows of samples that have everything in common, and a thread that counts them.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use rustc_hash::FxHashMap;

use crate::chains::{ChainTable, Header};
use crate::profile::{Mode, Sample};

/// Stands for no thread, no CPU and no chain.
pub(crate) const NONE: u32 = u32::MAX;

/// Samples that are counted in one go.
const BATCH: usize = 512;
/// Batches that wait for the counting thread.
const WAITING: usize = 4;

/// What a row counts, apart from its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// Index of the thread in the profile.
    pub(crate) thread: u32,
    pub(crate) cpu: u32,
    pub(crate) chain: u32,
    /// Index of the names that stand before the chain.
    pub(crate) prefix: u32,
    pub(crate) mode: Mode,
}

/// Distinct chains, rows, and the times of samples.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) chains: ChainTable,
    pub(crate) rows: Vec<Key>,
    /// Weight and ticks of each row: apart, as they change with every sample.
    pub(crate) weights: Vec<(u64, u64)>,
    row_places: FxHashMap<Key, u32>,
    pub(crate) samples: Vec<Sample>,
}

impl Tally {
    /// Adds to the row of this key, and gives its index.
    #[inline]
    pub(crate) fn add(&mut self, key: Key, weight: u64, ticks: u64) -> u32 {
        let next = self.rows.len() as u32;
        let place = *self.row_places.entry(key).or_insert(next);
        if place == next {
            self.rows.push(key);
            self.weights.push((0, 0));
        }
        if let Some((sum, of_ticks)) = self.weights.get_mut(place as usize) {
            *sum = sum.saturating_add(weight);
            *of_ticks = of_ticks.saturating_add(ticks);
        }
        place
    }

    /// Adds a sample, and gives the index of its row.
    #[inline]
    pub(crate) fn add_sample(&mut self, sample: &Counted, addresses: &[u64]) -> u32 {
        let chain = self.chains.intern(sample.header, addresses);
        let key = Key {
            chain,
            ..sample.key
        };
        self.add(key, 1, sample.ticks)
    }

    fn add_all(&mut self, batch: &Batch) {
        let mut rest = &batch.addresses[..];
        for sample in &batch.samples {
            let (addresses, others) = rest.split_at(sample.len.min(rest.len()));
            rest = others;
            let row = self.add_sample(sample, addresses);
            if let Some(time_ns) = sample.time_ns {
                self.samples.push(Sample { time_ns, row });
            }
        }
    }
}

/// A sample to count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    pub(crate) header: Header,
    /// Number of addresses.
    pub(crate) len: usize,
    /// Its row, apart from the chain.
    pub(crate) key: Key,
    pub(crate) ticks: u64,
    /// Its time, where it is to be kept.
    pub(crate) time_ns: Option<i64>,
}

/// Samples, and the addresses of all their chains one behind the other.
#[derive(Debug, Default)]
struct Batch {
    samples: Vec<Counted>,
    addresses: Vec<u64>,
}

/// Counts samples in the order in which they are added. Of long traces, a thread of its own does
/// it: finding a sample's chain takes about as long as reading it.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    batch: Batch,
    place: Place,
}

/// Where samples are counted.
#[derive(Debug, Default)]
enum Place {
    /// Not decided before the first batch is full.
    #[default]
    Undecided,
    /// Here, as the system has no thread for it.
    Here(Tally),
    Thread(SyncSender<Batch>, JoinHandle<Tally>),
}

impl Counter {
    #[inline]
    pub(crate) fn add(&mut self, sample: Counted, addresses: &[u64]) {
        self.batch.samples.push(sample);
        self.batch.addresses.extend_from_slice(addresses);
        if self.batch.samples.len() >= BATCH {
            self.pass_on();
        }
    }

    /// Counts a batch, or passes it to the thread, which is started for the first.
    #[cold]
    fn pass_on(&mut self) {
        let fresh = Batch {
            samples: Vec::with_capacity(BATCH),
            addresses: Vec::with_capacity(self.batch.addresses.capacity()),
        };
        let batch = std::mem::replace(&mut self.batch, fresh);
        if let Place::Undecided = self.place {
            self.place = start();
        }
        match &mut self.place {
            // A thread that has panicked takes nothing more; `finish` passes its panic on.
            Place::Thread(sender, _) => drop(sender.send(batch)),
            Place::Here(tally) => tally.add_all(&batch),
            Place::Undecided => {}
        }
    }

    /// What was counted.
    pub(crate) fn finish(self) -> Tally {
        let here = |mut tally: Tally, last| {
            tally.add_all(last);
            tally
        };
        match self.place {
            Place::Undecided => here(Tally::default(), &self.batch),
            Place::Here(tally) => here(tally, &self.batch),
            Place::Thread(sender, thread) => {
                drop(sender.send(self.batch));
                drop(sender);
                match thread.join() {
                    Ok(tally) => tally,
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        }
    }
}

/// Starts a thread, if the system has one more.
fn start() -> Place {
    let (sender, receiver) = sync_channel::<Batch>(WAITING);
    let count = move || {
        let mut tally = Tally::default();
        for batch in receiver {
            tally.add_all(&batch);
        }
        tally
    };
    match Builder::new().name("count".to_owned()).spawn(count) {
        Ok(thread) => Place::Thread(sender, thread),
        Err(_) => Place::Here(Tally::default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kymo_machine::{CallChain, ChainOf, ChainPart};

    fn sample(number: u64) -> (Counted, Vec<u64>) {
        let addresses: Vec<u64> = (0..number % 5).map(|at| at * 16 + number % 7).collect();
        let chain = CallChain {
            of: ChainOf::This,
            tid: None,
            mode: kymo::vocabulary::CpuMode::Kernel,
            kernel: ChainPart {
                len: addresses.len(),
                ..ChainPart::ABSENT
            },
            user: ChainPart::ABSENT,
        };
        let key = Key {
            thread: (number % 3) as u32,
            cpu: 0,
            chain: NONE,
            prefix: NONE,
            mode: Mode::Kernel,
        };
        let counted = Counted {
            header: Header::new(&chain, 0),
            len: addresses.len(),
            key,
            ticks: number,
            time_ns: Some(number as i64),
        };
        (counted, addresses)
    }

    /// Batches that are full, one that is not, and the thread give what one tally gives.
    #[test]
    fn a_thread_counts_what_would_be_counted_here() {
        for count in [0, 1, BATCH as u64 - 1, BATCH as u64, 9 * BATCH as u64 + 3] {
            let (mut counter, mut here) = (Counter::default(), Tally::default());
            let mut without_thread = Counter {
                place: Place::Here(Tally::default()),
                ..Counter::default()
            };
            for number in 0..count {
                let (sample, addresses) = sample(number);
                counter.add(sample, &addresses);
                without_thread.add(sample, &addresses);
                let chain = here.chains.intern(sample.header, &addresses);
                let key = Key {
                    chain,
                    ..sample.key
                };
                let row = here.add(key, 1, number);
                let time_ns = number as i64;
                here.samples.push(Sample { time_ns, row });
            }
            for tally in [counter.finish(), without_thread.finish()] {
                assert_eq!(tally.rows, here.rows, "{count} samples");
                assert_eq!(tally.weights, here.weights);
                assert_eq!(tally.samples, here.samples);
                assert_eq!(tally.chains.len(), here.chains.len());
            }
        }
    }
}
