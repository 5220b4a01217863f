//! The kernel's own counters, gauges and histograms, as it recorded them from time to time.

use std::collections::BTreeMap;

use kymo::counter::{Declaration, Distribution, Kind};
use kymo_ctf::{EnvValue, Metadata};
use kymo_machine::passed;
use serde::Serialize;

/// A counter or a gauge of the kernel's own.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OwnCounter {
    /// Its name.
    pub name: String,
    /// What it counts.
    pub unit: String,
    /// What the kernel says about it.
    pub doc: String,
    /// `counter` or `gauge`.
    pub kind: &'static str,
    /// Its last value, of all CPUs together.
    pub value: i128,
    /// How much a counter grew in a second, from its first record to its last.
    pub per_second: Option<f64>,
    /// What each CPU has counted or added.
    pub cpus: BTreeMap<u64, i128>,
}

/// A histogram of the kernel's own, of all CPUs together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OwnHistogram {
    /// Its name.
    pub name: String,
    /// What its values count.
    pub unit: String,
    /// What the kernel says about it.
    pub doc: String,
    /// Number of values.
    pub count: u64,
    /// Their mean.
    pub mean: Option<f64>,
    /// The bounds of the bucket in which the median lies.
    pub p50: Option<(u64, u64)>,
    /// Those of the 90th percentile.
    pub p90: Option<(u64, u64)>,
    /// Those of the 99th percentile.
    pub p99: Option<(u64, u64)>,
    /// Those of the maximum.
    pub max: Option<(u64, u64)>,
    /// The buckets from the first to the last that has values.
    pub buckets: Vec<OwnBucket>,
}

/// A bucket of a histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OwnBucket {
    /// The least value in it.
    pub least: u64,
    /// The greatest.
    pub greatest: u64,
    /// Number of values.
    pub count: u64,
}

/// What the metadata says of a counter.
#[derive(Debug)]
struct Declared {
    kind: Kind,
    bits: u32,
    name: String,
    unit: String,
    doc: String,
}

/// One counter of one CPU.
#[derive(Clone, Copy, Debug)]
struct Course {
    first: (i128, i64),
    last: (i128, i64),
}

/// The state of all of them.
#[derive(Debug, Default)]
pub(crate) struct OwnCounters {
    declared: BTreeMap<u64, Declared>,
    courses: BTreeMap<u64, BTreeMap<u64, Course>>,
    histograms: BTreeMap<u64, BTreeMap<u64, Distribution>>,
}

impl OwnCounters {
    /// Takes the declarations from the environment of a trace.
    pub(crate) fn of(metadata: &Metadata) -> OwnCounters {
        let declared = metadata.env().iter().filter_map(|(name, value)| {
            let EnvValue::Text(entry) = value else {
                return None;
            };
            let declared = Declaration::parse(name, entry)?;
            let Declaration {
                id,
                kind,
                bits,
                name,
                unit,
                doc,
            } = declared;
            let declared = Declared {
                kind,
                bits,
                name: name.to_owned(),
                unit: unit.to_owned(),
                doc: doc.to_owned(),
            };
            Some((u64::from(id), declared))
        });
        OwnCounters {
            declared: declared.collect(),
            ..OwnCounters::default()
        }
    }

    /// A counter's value, which wraps around, or a gauge's.
    pub(crate) fn set(&mut self, cpu: u64, id: u64, value: i64, now: i64) {
        let declared = self.declared.get(&id);
        let counts = declared.is_some_and(|declared| declared.kind == Kind::Counter);
        let bits = declared.map_or(64, |declared| declared.bits);
        let cpus = self.courses.entry(id).or_default();
        let raw = if counts {
            i128::from(value.cast_unsigned())
        } else {
            i128::from(value)
        };
        let course = cpus.entry(cpu).or_insert(Course {
            first: (raw, now),
            last: (raw, now),
        });
        let value = if counts && bits >= 64 {
            // It never wraps around: a lower value is an earlier one, read on another CPU whose
            // clock was ahead.
            raw.max(course.last.0)
        } else if counts {
            // What it grew since the record before is less than what its words hold.
            course.last.0 + (raw - course.last.0).rem_euclid(1 << bits)
        } else {
            raw
        };
        course.last = (value, now);
    }

    /// The count of a bucket, or with bucket 65 the sum.
    pub(crate) fn bucket(&mut self, cpu: u64, id: u64, bucket: u64, count: u64) {
        let bits = self.declared.get(&id).map_or(64, |declared| declared.bits);
        let cpus = self.histograms.entry(id).or_default();
        let found = cpus.entry(cpu).or_default();
        let place = usize::try_from(bucket).unwrap_or(usize::MAX);
        match found.buckets.get_mut(place) {
            Some(place) => *place = count,
            None if bits >= 64 => found.sum = count,
            // The sum wraps around as a counter does.
            None => {
                let grown = count.wrapping_sub(found.sum) & ((1 << bits) - 1);
                found.sum = found.sum.wrapping_add(grown);
            }
        }
    }

    pub(crate) fn counters(&self) -> Vec<OwnCounter> {
        let rows = self.courses.iter().map(|(id, cpus)| {
            let declared = self.declared.get(id);
            let is_gauge = declared.is_some_and(|declared| declared.kind == Kind::Gauge);
            let rate = |course: &Course| {
                let time = passed(course.first.1, course.last.1);
                (time > 0).then(|| (course.last.0 - course.first.0) as f64 * 1e9 / time as f64)
            };
            let rates = cpus.values().filter_map(rate);
            let per_second = rates.reduce(|sum, rate| sum + rate).filter(|_| !is_gauge);
            OwnCounter {
                kind: declared
                    .map_or(Kind::Counter, |declared| declared.kind)
                    .name(),
                value: cpus.values().map(|course| course.last.0).sum(),
                per_second,
                cpus: cpus.iter().map(|(cpu, at)| (*cpu, at.last.0)).collect(),
                name: name(*id, declared),
                unit: declared.map_or_else(String::new, |declared| declared.unit.clone()),
                doc: declared.map_or_else(String::new, |declared| declared.doc.clone()),
            }
        });
        rows.collect()
    }

    pub(crate) fn histograms(&self) -> Vec<OwnHistogram> {
        let rows = self.histograms.iter().map(|(id, cpus)| {
            let declared = self.declared.get(id);
            let mut all = Distribution::default();
            cpus.values().for_each(|cpu| all.add(cpu));
            let used = |bucket: &usize| all.buckets.get(*bucket).is_some_and(|&count| count > 0);
            let first = (0..all.buckets.len()).find(used);
            let last = (0..all.buckets.len()).rfind(used);
            let range = first
                .zip(last)
                .map_or(0..0, |(first, last)| first..last + 1);
            let buckets = range.filter_map(|bucket| {
                let (least, greatest) = kymo::counter::bounds(bucket);
                let count = *all.buckets.get(bucket)?;
                Some(OwnBucket {
                    least,
                    greatest,
                    count,
                })
            });
            let count = all.count();
            OwnHistogram {
                name: name(*id, declared),
                unit: declared.map_or_else(String::new, |declared| declared.unit.clone()),
                doc: declared.map_or_else(String::new, |declared| declared.doc.clone()),
                count,
                mean: (count > 0).then(|| all.sum as f64 / count as f64),
                p50: all.quantile(500),
                p90: all.quantile(900),
                p99: all.quantile(990),
                max: all.quantile(1000),
                buckets: buckets.collect(),
            }
        });
        rows.collect()
    }

    pub(crate) fn live(&self) -> usize {
        let courses = self.courses.values().map(BTreeMap::len);
        let histograms = self.histograms.values().map(BTreeMap::len);
        courses.chain(histograms).sum()
    }
}

/// The counter's name; its number where the metadata has none.
fn name(id: u64, declared: Option<&Declared>) -> String {
    declared.map_or_else(|| id.to_string(), |declared| declared.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: Kind, bits: u32) -> OwnCounters {
        let declared = Declared {
            kind,
            bits,
            name: "woken".to_owned(),
            unit: "threads".to_owned(),
            doc: String::new(),
        };
        OwnCounters {
            declared: [(3, declared)].into(),
            ..OwnCounters::default()
        }
    }

    #[test]
    fn a_counter_that_wraps_around_goes_on() {
        let mut counters = of(Kind::Counter, 32);
        for (time, value) in [(0, 0xffff_fff0), (500_000_000, 0x10), (2_000_000_000, 0x20)] {
            counters.set(1, 3, value, time);
        }
        counters.set(0, 3, 7, 0);
        let [counter] = counters.counters().try_into().unwrap();
        assert_eq!(counter.cpus, [(0, 7), (1, 0x1_0000_0020)].into());
        assert_eq!((counter.value, counter.kind), (0x1_0000_0027, "counter"));
        // 48 in two seconds; one record is no rate.
        assert_eq!(counter.per_second, Some(24.0));
    }

    #[test]
    fn a_counter_of_64_bits_is_not_negative() {
        let mut counters = of(Kind::Counter, 64);
        counters.set(0, 3, -1, 0);
        assert_eq!(counters.counters()[0].value, (1 << 64) - 1);
    }

    /// The last record of a CPU may be made by another one, whose clock is behind.
    #[test]
    fn a_counter_of_64_bits_does_not_wrap_around() {
        let mut counters = of(Kind::Counter, 64);
        for (value, time) in [(1_000, 5), (999, 6), (1_001, 7), (1_000, 8)] {
            counters.set(0, 3, value, time);
        }
        assert_eq!(counters.counters()[0].value, 1_001);
    }

    #[test]
    fn a_sum_of_32_bits_wraps_around() {
        let mut counters = of(Kind::Histogram, 32);
        for (bucket, count) in [(1, 2), (65, 0xffff_fff0), (65, 0x10)] {
            counters.bucket(0, 3, bucket, count);
        }
        let mean = counters.histograms()[0].mean;
        assert_eq!(mean, Some(f64::from(0x10_u32) / 2.0 + 2_f64.powi(31)));
    }

    #[test]
    fn a_gauge_is_the_sum_of_what_cpus_have_added() {
        let mut counters = of(Kind::Gauge, 64);
        for (cpu, value) in [(0, 5), (1, -3), (0, 4)] {
            counters.set(cpu, 3, value, 9 * value);
        }
        let [gauge] = counters.counters().try_into().unwrap();
        assert_eq!((gauge.value, gauge.per_second), (1, None));
    }

    #[test]
    fn a_histogram_is_put_together_from_its_parts() {
        let mut counters = of(Kind::Histogram, 64);
        // The last of a bucket's records holds; a later record need not have all buckets.
        for (cpu, bucket, count) in [(0, 1, 50), (0, 20, 1), (0, 1, 97), (1, 2, 2), (1, 65, 6)] {
            counters.bucket(cpu, 3, bucket, count);
        }
        let [histogram] = counters.histograms().try_into().unwrap();
        assert_eq!((histogram.count, histogram.mean), (100, Some(0.06)));
        assert_eq!((histogram.p50, histogram.p90), (Some((1, 1)), Some((1, 1))));
        assert_eq!(histogram.p99, Some((2, 3)));
        assert_eq!(histogram.max, Some((1 << 19, (1 << 20) - 1)));
        assert_eq!(histogram.buckets.len(), 20);
        // Without its declaration it has a number.
        counters.declared.clear();
        assert_eq!(counters.histograms()[0].name, "3");
    }
}
