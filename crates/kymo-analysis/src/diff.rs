//! Two reports compared, of a system before and after a change.
//!
//! Rows are matched by name, or by number where there is no name. A difference is tested in two
//! ways:
//!
//! - Durations by the rank test of Mann and Whitney, with its correction for ties: it asks whether
//!   values of one side tend to be larger, and assumes no distribution. Durations of kernels have
//!   long tails, which make tests of means useless. The values are those of the buckets of
//!   [`Histogram`], at most 1/64 wide, so smaller shifts cannot be seen.
//! - Numbers of events by the conditional test of two rates: if both were equal, each of all events
//!   would be on the first side with a probability that is that side's part of the time.
//!
//! Both take single values as independent, which bursts are not: a difference that they show may
//! still be chance, and what they call noise is no proof of equality. As many rows are tested at
//! once, a probability is multiplied by the number of tests (Bonferroni). Below [`FEW`] values,
//! nothing is said.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::histogram::Histogram;
use crate::section::{Durations, Report};

/// Fewest values on each side, or events on both together, for a test.
pub const FEW: u64 = 10;
/// A difference is more than noise if its probability, times the number of tests, is below this.
pub const LEVEL: f64 = 0.05;

/// A figure before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pair<T> {
    /// That of the first trace.
    pub before: T,
    /// That of the second trace.
    pub after: T,
}

impl<T> Pair<T> {
    fn of<S>(before: S, after: S, figure: impl Fn(S) -> T) -> Pair<T> {
        Pair {
            before: figure(before),
            after: figure(after),
        }
    }
}

/// What a test says of a difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    /// There are too few values, or none on one side.
    #[default]
    TooFew,
    /// Chance alone makes such a difference.
    Noise,
    /// The second side has less, or shorter ones.
    Less,
    /// The second side has more, or longer ones.
    More,
}

/// What a test found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Tested {
    /// What it says.
    pub difference: Difference,
    /// The probability of at least such a difference if there is none, not corrected for the number
    /// of tests; `None` if there are too few values.
    pub p: Option<f64>,
    /// How far the second side is from the first, in standard deviations.
    #[serde(skip)]
    z: f64,
}

/// One thing in both traces, or in one of them.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Compared {
    /// Its name, or its number.
    pub name: String,
    /// Number of events.
    pub count: Pair<u64>,
    /// Events in a second of the trace's time; `None` if that has no length.
    pub per_second: Pair<Option<f64>>,
    /// Its part of all CPUs' time, in percent; of threads only of the time that is known.
    pub share_percent: Option<Pair<f64>>,
    /// Distributions of its durations.
    pub durations: Pair<Durations>,
    /// The test of the numbers of events.
    pub counts_test: Tested,
    /// The test of the durations.
    pub durations_test: Tested,
}

/// Two reports compared. Rows are in the order of the first report, then what only the second has.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Diff {
    /// Lengths of the traces in nanoseconds.
    pub span_ns: Pair<u64>,
    /// Numbers of events.
    pub events: Pair<u64>,
    /// Events and packets that the traces lack.
    pub lost: Pair<u64>,
    /// Numbers of tests.
    pub tests: u64,
    /// Threads: switches away from them, shares of CPU time, and latencies from wake-up to running.
    pub threads: Vec<Compared>,
    /// System calls: from entry to exit.
    pub system_calls: Vec<Compared>,
    /// Interrupts: from entry to exit.
    pub interrupts: Vec<Compared>,
    /// Waits for locks.
    pub lock_waits: Vec<Compared>,
    /// Times for which locks are held.
    pub lock_holds: Vec<Compared>,
}

/// A row of one report.
struct Row<'r> {
    name: String,
    count: u64,
    share: Option<f64>,
    durations: &'r Durations,
}

impl Diff {
    /// Compares two reports.
    pub fn of(before: &Report, after: &Report) -> Diff {
        let span = Pair::of(before, after, span);
        let compare = |rows: fn(&Report) -> Vec<Row<'_>>| compare(rows(before), rows(after), span);
        let mut diff = Diff {
            span_ns: span,
            events: Pair::of(before, after, |report| report.events),
            lost: Pair::of(before, after, |report| {
                report.losses.events.saturating_add(report.losses.packets)
            }),
            tests: 0,
            threads: compare(threads),
            system_calls: compare(system_calls),
            interrupts: compare(interrupts),
            lock_waits: compare(lock_waits),
            lock_holds: compare(lock_holds),
        };
        diff.judge();
        diff
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Tested> {
        let parts = [
            &mut self.threads,
            &mut self.system_calls,
            &mut self.interrupts,
            &mut self.lock_waits,
            &mut self.lock_holds,
        ];
        parts.into_iter().flatten().flat_map(|row| {
            let Compared {
                counts_test,
                durations_test,
                ..
            } = row;
            [counts_test, durations_test]
        })
    }

    /// Says what differs, which depend on how many tests there are.
    fn judge(&mut self) {
        let tests = self.all().filter(|tested| tested.p.is_some()).count();
        self.tests = tests as u64;
        for tested in self.all() {
            tested.difference = match tested.p {
                None => Difference::TooFew,
                Some(p) if p * tests as f64 >= LEVEL => Difference::Noise,
                Some(_) if tested.z < 0.0 => Difference::Less,
                Some(_) => Difference::More,
            };
        }
    }
}

fn span(report: &Report) -> u64 {
    let (Some(begin), Some(end)) = (report.begin_ns, report.end_ns) else {
        return 0;
    };
    kymo_machine::passed(begin, end)
}

fn called(number: impl std::fmt::Display, name: Option<&String>) -> String {
    name.cloned().unwrap_or_else(|| number.to_string())
}

fn threads(report: &Report) -> Vec<Row<'_>> {
    let threads = report.threads_by_name.iter();
    let rows = threads.map(|thread| Row {
        name: match (&thread.name, thread.cpu) {
            (None, Some(cpu)) => format!("{}/{cpu}", thread.tid),
            (name, _) => called(thread.tid, name.as_ref()),
        },
        count: thread.switches.values().sum(),
        share: Some(thread.share_percent),
        durations: &thread.wake_latency,
    });
    rows.collect()
}

fn system_calls(report: &Report) -> Vec<Row<'_>> {
    let calls = report.system_calls.iter();
    let rows = calls.map(|call| Row {
        name: match (&call.name, call.id) {
            (Some(name), _) => name.clone(),
            (None, id) => id.map_or_else(|| "-".to_owned(), |id| id.to_string()),
        },
        count: call.count,
        share: None,
        durations: &call.durations,
    });
    rows.collect()
}

fn interrupts(report: &Report) -> Vec<Row<'_>> {
    let lines = report.interrupts_by_name.iter();
    let rows = lines.map(|line| {
        let name = called(line.irq, line.name.as_ref());
        Row {
            name: if line.soft {
                format!("softirq {name}")
            } else {
                name
            },
            count: line.count,
            share: Some(line.share_percent),
            durations: &line.durations,
        }
    });
    rows.collect()
}

fn lock_waits(report: &Report) -> Vec<Row<'_>> {
    let locks = report.locks_by_name.iter();
    let rows = locks.map(|lock| Row {
        name: called(format_args!("{:#x}", lock.lock), lock.name.as_ref()),
        count: lock.wait.count,
        share: None,
        durations: &lock.wait,
    });
    rows.filter(|row| row.count > 0).collect()
}

fn lock_holds(report: &Report) -> Vec<Row<'_>> {
    let locks = report.locks_by_name.iter();
    let rows = locks.map(|lock| Row {
        name: called(format_args!("{:#x}", lock.lock), lock.name.as_ref()),
        count: lock.acquired,
        share: None,
        durations: &lock.hold,
    });
    rows.filter(|row| row.count > 0).collect()
}

/// Matches the rows of both sides by name.
fn compare(before: Vec<Row<'_>>, after: Vec<Row<'_>>, span: Pair<u64>) -> Vec<Compared> {
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut pairs: Vec<Pair<Option<Row<'_>>>> = Vec::new();
    for row in before {
        places.insert(row.name.clone(), pairs.len());
        pairs.push(Pair {
            before: Some(row),
            after: None,
        });
    }
    for row in after {
        match places
            .get(&row.name)
            .and_then(|place| pairs.get_mut(*place))
        {
            Some(pair) => pair.after = Some(row),
            None => pairs.push(Pair {
                before: None,
                after: Some(row),
            }),
        }
    }
    let rows = pairs.iter().map(|pair| compared(pair, span));
    rows.collect()
}

fn compared(pair: &Pair<Option<Row<'_>>>, span: Pair<u64>) -> Compared {
    let (before, after) = (pair.before.as_ref(), pair.after.as_ref());
    let count = Pair::of(before, after, |row| row.map_or(0, |row| row.count));
    let share = |row: Option<&Row<'_>>| row.and_then(|row| row.share);
    let rate = |count: u64, span: u64| (span > 0).then(|| count as f64 * 1e9 / span as f64);
    let nothing = Durations::default();
    let durations = Pair::of(before, after, |row| {
        row.map_or(&nothing, |row| row.durations)
    });
    Compared {
        name: before
            .or(after)
            .map_or_else(String::new, |row| row.name.clone()),
        count,
        per_second: Pair {
            before: rate(count.before, span.before),
            after: rate(count.after, span.after),
        },
        share_percent: share(before)
            .or(share(after))
            .map(|_| Pair::of(before, after, |row| share(row).unwrap_or(0.0))),
        durations: Pair {
            before: durations.before.clone(),
            after: durations.after.clone(),
        },
        counts_test: rates(count, span),
        durations_test: ranks(&durations.before.values, &durations.after.values),
    }
}

impl Tested {
    fn of(z: f64) -> Tested {
        Tested {
            difference: Difference::default(),
            p: Some(two_sided(z)),
            z,
        }
    }
}

/// The conditional test of two rates.
fn rates(count: Pair<u64>, span: Pair<u64>) -> Tested {
    let all = count.before.saturating_add(count.after);
    if all < FEW || span.before == 0 || span.after == 0 {
        return Tested::default();
    }
    let part = span.after as f64 / (span.before as f64 + span.after as f64);
    let all = all as f64;
    Tested::of((count.after as f64 - all * part) / (all * part * (1.0 - part)).sqrt())
}

/// The rank test of Mann and Whitney on binned values, with the correction for ties.
fn ranks(before: &Histogram, after: &Histogram) -> Tested {
    let (first, second) = (before.count(), after.count());
    if first.min(second) < FEW {
        return Tested::default();
    }
    let mut bins: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for (value, count) in before.bins() {
        bins.entry(value).or_default().0 += count;
    }
    for (value, count) in after.bins() {
        bins.entry(value).or_default().1 += count;
    }
    let (first, second) = (first as f64, second as f64);
    let all = first + second;
    // Of all pairs of a value of each side, those in which the second is larger; ties count half.
    let (mut larger, mut below, mut ties) = (0.0, 0.0, 0.0);
    for (one, other) in bins.into_values() {
        let (one, other) = (one as f64, other as f64);
        larger += other * (below + one / 2.0);
        below += one;
        let tied = one + other;
        ties += tied * tied * tied - tied;
    }
    let variance = first * second / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)));
    match variance > 0.0 {
        true => Tested::of((larger - first * second / 2.0) / variance.sqrt()),
        // All values are in one bin.
        false => Tested::of(0.0),
    }
}

/// The probability that a normal variable is at least this far from its mean, in standard
/// deviations, on either side: Abramowitz and Stegun, 7.1.26, whose error is below 1.5e-7.
fn two_sided(z: f64) -> f64 {
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let terms = [
        1.061_405_429,
        -1.453_152_027,
        1.421_413_741,
        -0.284_496_736,
        0.254_829_592,
    ];
    let sum = terms.iter().fold(0.0, |sum, term| (sum + term) * t);
    (sum * (-x * x).exp()).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(values: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::default();
        values.into_iter().for_each(|value| histogram.add(value));
        histogram
    }

    #[test]
    fn probabilities_are_those_of_the_normal_distribution() {
        for (z, p) in [
            (0.0, 1.0),
            (1.0, 0.317_310_5),
            (-1.959_964, 0.05),
            (4.0, 6.334e-5),
        ] {
            assert!((two_sided(z) - p).abs() < 2e-7, "{z} {}", two_sided(z));
        }
    }

    #[test]
    fn ranks_are_compared() {
        let first = histogram((1..=10).map(|value| value * 10));
        let second = histogram((1..=10).map(|value| value * 10 + 35));
        let tested = ranks(&first, &second);
        // No value is on both sides, so the variance is 10 * 10 * 21 / 12.
        let expected = (larger(&first, &second) - 50.0) / 175_f64.sqrt();
        assert!((tested.z - expected).abs() < 1e-9, "{tested:?} {expected}");
        assert!(ranks(&second, &first).z < 0.0);
        assert_eq!(ranks(&first, &first).z, 0.0);
        assert_eq!(ranks(&first, &histogram([1; 9])).p, None);
        // All values are equal.
        assert_eq!(
            ranks(&histogram([5; 20]), &histogram([5; 30])).p,
            Some(two_sided(0.0))
        );
    }

    fn larger(first: &Histogram, second: &Histogram) -> f64 {
        let pairs = first
            .bins()
            .flat_map(|(one, _)| second.bins().map(move |(two, _)| (one, two)));
        pairs.filter(|(one, two)| two > one).count() as f64
    }

    #[test]
    fn rates_depend_on_the_time() {
        let pair = |before, after| Pair { before, after };
        let same = rates(pair(100, 200), pair(1_000, 2_000));
        assert!(same.z.abs() < 1e-9, "{same:?}");
        let more = rates(pair(100, 200), pair(1_000, 1_000));
        assert!((more.z - 50.0 / 75_f64.sqrt()).abs() < 1e-9, "{more:?}");
        assert_eq!(rates(pair(4, 5), pair(1, 1)).p, None);
        assert_eq!(rates(pair(40, 50), pair(0, 1)).p, None);
    }
}
