//! Single samples, one after another.

use kymo_ctf::ItemRef;
use kymo_machine::{ChainOf, Machine, Period, ThreadId};

use crate::collect::{Finder, Options};
use crate::profile::Mode;
use crate::stacks::Unwind;
use crate::tally::{NONE, Tally};

/// Gives each sample of a trace, in time order, while memory grows only with the distinct chains.
///
/// The samples are those that a [`Collector`](crate::Collector) with the same options counts. If it
/// was given the same items, all of them selected, then [`SingleSample::row`] is the index of the
/// sample's row in its [`Profile`](crate::Profile), where the stack is.
#[derive(Debug)]
pub struct Samples<'u> {
    finder: Finder<'u>,
    tally: Tally,
}

/// A sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SingleSample {
    /// Nanoseconds from the clock's origin.
    pub time_ns: i64,
    /// Index of its row in the profile.
    pub row: u32,
    /// The CPU, if the trace says.
    pub cpu: Option<u64>,
    /// The thread, if the trace says.
    pub thread: Option<ThreadId>,
    /// What the CPU was doing.
    pub mode: Mode,
    /// Where the CPU was; `None` for a chain without addresses.
    pub address: Option<u64>,
    /// How much the sample stands for, and what of. `None` if the trace does not say.
    pub period: Option<(u64, Period)>,
    /// Samples that were due since the CPU's previous one and could not be taken, if they are
    /// counted.
    pub missed: Option<u64>,
}

impl<'u> Samples<'u> {
    /// The samples of a trace whose items are added from the first on.
    pub fn new(options: Options, unwind: Option<Box<Unwind<'u>>>) -> Samples<'u> {
        Samples {
            finder: Finder::new(options, unwind),
            tally: Tally::default(),
        }
    }

    /// The machine's state after the last item.
    pub fn machine(&self) -> &Machine {
        &self.finder.machine
    }

    /// Adds the next item, and gives its sample, if it is one.
    pub fn add(&mut self, item: &ItemRef<'_>) -> Option<SingleSample> {
        let found = self.finder.add(item, true)?;
        let (counted, finder) = (found.counted, &self.finder);
        let (period, missed) = match found.chain.of {
            ChainOf::Sample {
                period,
                unit,
                missed,
            } => {
                let unit = match (unit, found.period_is_events) {
                    (Period::Ticks, true) => Period::Events,
                    (unit, _) => unit,
                };
                ((period > 0).then_some((period, unit)), missed)
            }
            ChainOf::EventBefore { .. } | ChainOf::This => (None, None),
        };
        let cpu = counted.key.cpu;
        Some(SingleSample {
            time_ns: finder.machine.now(),
            row: self.tally.add_sample(&counted, &finder.addresses),
            cpu: (cpu != NONE).then_some(cpu.into()),
            thread: found.thread,
            mode: counted.key.mode,
            address: finder.addresses.first().copied(),
            period,
            missed,
        })
    }
}
