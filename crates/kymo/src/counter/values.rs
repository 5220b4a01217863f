//! What was counted, read from memory: by the kernel itself ([`Memory`]), or by anyone who reads
//! its region ([`Region`]).
//!
//! Nobody is stopped: words that belong together, such as the buckets of a histogram, may be of
//! different moments, as far apart as the reading takes.

use super::snapshot::Records;
use super::{BUCKETS, Counted, CounterSchema, Kind, Observed, Step, bounds};
use crate::ring::layout::{CHANNEL_KINDS, COUNTERS};
use crate::ring::reader::Region;
use crate::ring::region::Memory;
use crate::ring::source::{Outside, Source};
use crate::vocabulary::Cpu;

/// What a histogram has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Distribution {
    /// How many values each bucket has.
    pub buckets: [u64; BUCKETS],
    /// The sum of the values, modulo 2 to the number of bits of a machine word.
    pub sum: u64,
}

impl Default for Distribution {
    fn default() -> Self {
        Distribution {
            buckets: [0; BUCKETS],
            sum: 0,
        }
    }
}

impl Distribution {
    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.buckets
            .iter()
            .fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The least and the greatest value that can be the one which `per_mille` thousandths of the
    /// values do not exceed: 500 for the median, 1000 for the greatest value. `None` where there
    /// are no values.
    pub fn quantile(&self, per_mille: u32) -> Option<(u64, u64)> {
        let count: u128 = self.buckets.iter().map(|&count| u128::from(count)).sum();
        if count == 0 {
            return None;
        }
        let rank = (count * u128::from(per_mille.min(1000))).div_ceil(1000);
        let mut below = 0;
        let bucket = self.buckets.iter().position(|&count| {
            below += u128::from(count);
            below >= rank.max(1)
        });
        bucket.map(bounds)
    }

    /// Adds what another CPU has counted.
    pub fn add(&mut self, other: &Distribution) {
        for (sum, count) in self.buckets.iter_mut().zip(other.buckets) {
            *sum = sum.saturating_add(count);
        }
        self.sum = self.sum.wrapping_add(other.sum);
    }

    /// Reads it word by word.
    fn read<E>(mut word: impl FnMut(u32) -> Result<u64, E>) -> Result<Distribution, E> {
        let mut found = Distribution::default();
        for (index, count) in found.buckets.iter_mut().enumerate() {
            *count = word(index as u32)?;
        }
        found.sum = word(BUCKETS as u32)?;
        Ok(found)
    }
}

impl Memory {
    /// What a CPU has counted so far; `None` where the memory has no such CPU or word.
    pub fn counted<C: Counted>(&self, cpu: u32) -> Option<C::Step> {
        self.counter(cpu, C::SCHEMA.id).map(C::Step::of)
    }

    /// What all CPUs have counted so far.
    pub fn total<C: Counted>(&self) -> C::Step {
        let words = (0..self.cpus()).filter_map(|cpu| self.counter(cpu, C::SCHEMA.id));
        C::Step::of(words.fold(0, usize::wrapping_add))
    }

    /// What a CPU has observed so far; `None` as for [`counted`](Self::counted).
    pub fn observed<H: Observed>(&self, cpu: u32) -> Option<Distribution> {
        self.distribution(cpu, &H::SCHEMA)
    }

    /// What a CPU has counted so far, of whatever kind; `None` as for [`counted`](Self::counted).
    pub fn value(&self, cpu: u32, schema: &CounterSchema) -> Option<Value> {
        match schema.kind {
            Kind::Counter => {
                let word = self.counter(cpu, schema.id)?;
                Some(Value::Counter(word as u64))
            }
            Kind::Gauge => {
                let word = self.counter(cpu, schema.id)?;
                Some(Value::Gauge(word.cast_signed() as i64))
            }
            Kind::Histogram => self.distribution(cpu, schema).map(Value::Histogram),
        }
    }

    fn distribution(&self, cpu: u32, schema: &CounterSchema) -> Option<Distribution> {
        Distribution::read(|index| {
            let word = self.counter(cpu, schema.id.saturating_add(index));
            word.map(|word| word as u64).ok_or(Outside)
        })
        .ok()
    }
}

/// What one CPU has counted.
#[allow(clippy::large_enum_variant)] // Without allocation there is no box; it is soon taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// The count of a counter. It wraps around at the width of the kernel's machine words.
    Counter(u64),
    /// The level of a gauge.
    Gauge(i64),
    /// The distribution of a histogram.
    Histogram(Distribution),
}

impl Value {
    /// What was read.
    pub const fn kind(&self) -> Kind {
        match self {
            Value::Counter(_) => Kind::Counter,
            Value::Gauge(_) => Kind::Gauge,
            Value::Histogram(_) => Kind::Histogram,
        }
    }

    /// Makes the records that a snapshot of it has.
    pub(crate) fn records(&self, cpu: Cpu, counter: u32, out: &mut impl Records) {
        let word = |index: u32| match self {
            Value::Counter(value) => *value,
            Value::Gauge(value) => value.cast_unsigned(),
            Value::Histogram(found) => {
                let count = found.buckets.get(index as usize);
                count.copied().unwrap_or(found.sum)
            }
        };
        self.kind().records(cpu, counter, word, out);
    }
}

impl Region {
    /// How many words of counters each CPU has.
    pub fn counter_words(&self) -> u32 {
        let header = self.header();
        if header.incompat & COUNTERS == 0 {
            return 0;
        }
        let blocks = header.kinds.saturating_sub(CHANNEL_KINDS as u32);
        let bytes = u64::from(blocks) * u64::from(header.control_size);
        u32::try_from(bytes / u64::from(header.word_size)).unwrap_or(0)
    }

    /// What a CPU has counted in `words` words from number `id` on: `kind` says how they are read.
    ///
    /// # Errors
    /// [`Outside`] where the region has no such CPU or words.
    pub fn counter_value(
        &self,
        source: &impl Source,
        cpu: u32,
        kind: Kind,
        id: u32,
    ) -> Result<Value, Outside> {
        let header = self.header();
        let narrow = header.word_size == 4;
        let word = |index: u32| {
            let word = id.checked_add(index).ok_or(Outside)?;
            if cpu >= header.cpus || word >= self.counter_words() {
                return Err(Outside);
            }
            // Behind the blocks of its channels.
            let block = u64::from(cpu) * u64::from(header.kinds) + CHANNEL_KINDS as u64;
            let first = header.control_offset + block * u64::from(header.control_size);
            let at = first + u64::from(word) * u64::from(header.word_size);
            if narrow {
                source.load(at).map(u64::from)
            } else {
                source.load_long(at)
            }
        };
        Ok(match kind {
            Kind::Counter => Value::Counter(word(0)?),
            Kind::Gauge if narrow => Value::Gauge(i64::from(word(0)? as u32 as i32)),
            Kind::Gauge => Value::Gauge(word(0)? as i64),
            Kind::Histogram => Value::Histogram(Distribution::read(word)?),
        })
    }
}
