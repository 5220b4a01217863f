//! Counts of a command that runs several times.

use std::fmt::Write as _;
use std::time::Duration;

use kymo_perf::{NamedGroup, Total};
use serde_json::{Value, json};

use super::output::{ratios, scale_and_unit, unit};
use super::table::{NAME, decimal, padded, ratio_lines, share, shown, width_of};
use super::watch::Counts;
use crate::summary::thousands;

/// The counts of each run.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    /// Seconds that each took.
    elapsed: Vec<f64>,
    /// By group and event: the scaled counts, of the runs that have one.
    scaled: Vec<Vec<Vec<f64>>>,
    /// By group: the counts of all runs together.
    sums: Vec<Total>,
}

/// How numbers are spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Their mean.
    pub mean: f64,
    /// Their relative standard deviation, from 0 on; `None` of fewer than two numbers, or where the
    /// mean is 0:
    ///
    /// ```text
    /// sqrt(sum((x - mean)^2) / (n - 1)) / mean
    /// ```
    ///
    /// It says how far one run is from another, and does not shrink with more runs. `perf stat -r`
    /// prints how far the mean is from that of many more runs: this, divided by `sqrt(n)`.
    pub deviation: Option<f64>,
    /// The least of them.
    pub least: f64,
    /// The greatest.
    pub most: f64,
}

impl Spread {
    /// `None` of no numbers.
    pub fn of(numbers: &[f64]) -> Option<Spread> {
        let count = numbers.len() as f64;
        let first = numbers.first()?;
        let mean = numbers.iter().sum::<f64>() / count;
        let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
        let deviation = (squares / (count - 1.0)).sqrt() / mean;
        Some(Spread {
            mean,
            deviation: (numbers.len() > 1 && mean != 0.0).then_some(deviation),
            least: numbers.iter().copied().fold(*first, f64::min),
            most: numbers.iter().copied().fold(*first, f64::max),
        })
    }
}

impl Runs {
    /// How many there were.
    pub fn len(&self) -> usize {
        self.elapsed.len()
    }

    /// Adds a run.
    pub fn add(&mut self, run: &Counts<'_>) {
        self.elapsed.push(run.elapsed.as_secs_f64());
        self.sums.resize(run.totals.len(), Total::default());
        self.scaled.resize(run.totals.len(), Vec::new());
        let all = self.sums.iter_mut().zip(&mut self.scaled);
        for ((sum, scaled), total) in all.zip(&run.totals) {
            sum.add_total(total);
            scaled.resize(total.events.len(), Vec::new());
            for (numbers, event) in scaled.iter_mut().zip(&total.events) {
                numbers.extend(total.scaled(event).map(|count| count as f64));
            }
        }
    }

    /// All runs as one, for the ratios.
    fn together<'g>(&self, groups: &'g [NamedGroup]) -> Counts<'g> {
        let elapsed = Duration::try_from_secs_f64(self.elapsed.iter().sum()).unwrap_or_default();
        Counts {
            groups,
            labels: &[],
            totals: self.sums.clone(),
            readings: None,
            elapsed,
            time: elapsed,
        }
    }

    fn spread(&self, group: usize, event: usize) -> Option<Spread> {
        Spread::of(self.scaled.get(group)?.get(event)?)
    }

    /// A table of means and deviations, of at most 100 columns.
    pub fn table(&self, groups: &[NamedGroup]) -> String {
        let mut text = String::new();
        let together = self.together(groups);
        let all = groups.iter().zip(&self.sums);
        let names = all.clone().flat_map(|(group, sum)| {
            let events = sum.events.iter().enumerate();
            events.map(|(number, event)| shown(group, event, number))
        });
        let width = width_of(names).min(NAME);
        let _ = writeln!(
            text,
            "{:width$}  {:>14}  {:>8}  {:>14}  {:>14}  {:>8}",
            "event", "mean", "±", "least", "most", "running"
        );
        let mut events_before = 1;
        for (at, (group, sum)) in all.enumerate() {
            if at > 0 && sum.events.len().max(events_before) > 1 {
                text.push('\n');
            }
            events_before = sum.events.len();
            for (number, event) in sum.events.iter().enumerate() {
                let name = padded(&shown(group, event, number), width, 0);
                let unit = unit(group, number).map(|(scale, _)| scale);
                let Some(spread) = self.spread(at, number) else {
                    let never = match sum.time_enabled {
                        0 => "not on a CPU",
                        _ => "never ran",
                    };
                    let _ = writeln!(text, "{name}  {never:>14}");
                    continue;
                };
                let [mean, least, most] =
                    [spread.mean, spread.least, spread.most].map(|number| count(number, unit));
                let deviation = percent(spread.deviation);
                let share = share(sum);
                let _ = writeln!(
                    text,
                    "{name}  {mean:>14}  {deviation:>8}  {least:>14}  {most:>14}  {share:>8}"
                );
            }
        }
        text.push('\n');
        text += &ratio_lines(&together);
        let elapsed = Spread::of(&self.elapsed);
        let (mean, deviation) = elapsed.map_or((0.0, None), |of| (of.mean, of.deviation));
        let (runs, deviation) = (self.len(), percent(deviation));
        let _ = writeln!(
            text,
            "{mean:.6} s elapsed, ± {deviation}, mean of {runs} runs"
        );
        text
    }

    /// The same as an object of JSON.
    pub fn object(&self, groups: &[NamedGroup], status: Option<u8>) -> Value {
        let together = self.together(groups);
        let objects = groups.iter().zip(&self.sums).enumerate();
        let objects = objects.map(|(at, (group, sum))| {
            let events = sum.events.iter().enumerate().map(|(number, event)| {
                let (scale, unit) = scale_and_unit(Some(group), event, number);
                let mut object = spread_object(self.spread(at, number), scale);
                object["event"] = json!(group.names.get(number));
                object["unit"] = json!(unit);
                object["runs"] = json!(
                    self.scaled
                        .get(at)
                        .and_then(|of| Some(of.get(number)?.len()))
                );
                object
            });
            json!({
                "time_enabled": sum.time_enabled,
                "time_running": sum.time_running,
                "share": sum.share(),
                "events": events.collect::<Vec<Value>>(),
            })
        });
        let ratios = ratios(&together);
        let ratios = ratios
            .iter()
            .map(|ratio| json!({ "event": ratio.event, "by": ratio.by, "value": ratio.value }));
        json!({
            "part": "runs",
            "runs": self.len(),
            "elapsed": spread_object(Spread::of(&self.elapsed), 1.0),
            "status": status,
            "groups": objects.collect::<Vec<Value>>(),
            "ratios": ratios.collect::<Vec<Value>>(),
        })
    }
}

fn spread_object(spread: Option<Spread>, scale: f64) -> Value {
    json!({
        "mean": spread.map(|of| of.mean * scale),
        "deviation": spread.and_then(|of| of.deviation),
        "least": spread.map(|of| of.least * scale),
        "most": spread.map(|of| of.most * scale),
    })
}

/// A count, or the mean of counts: with a decimal where it has few digits.
fn count(number: f64, scale: Option<f64>) -> String {
    match scale {
        Some(scale) => decimal(number * scale),
        None if number.fract() != 0.0 && number < 1_000.0 => format!("{number:.1}"),
        None => thousands(number.round() as u64),
    }
}

fn percent(deviation: Option<f64>) -> String {
    match deviation {
        Some(deviation) => format!("{:.1} %", deviation * 100.0),
        None => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use kymo_perf::EventNames;

    use super::*;

    /// K-22: by hand, the sample standard deviation of 2, 4 and 9 is sqrt(26 / 2).
    #[test]
    fn the_deviation_is_that_of_a_sample() {
        let spread = Spread::of(&[2.0, 4.0, 9.0]).unwrap();
        assert_eq!((spread.mean, spread.least, spread.most), (5.0, 2.0, 9.0));
        let expected = 13.0_f64.sqrt() / 5.0;
        assert!((spread.deviation.unwrap() - expected).abs() < 1e-12);
        assert_eq!(Spread::of(&[7.0]).unwrap().deviation, None);
        assert_eq!(Spread::of(&[0.0, 0.0]).unwrap().deviation, None);
        assert_eq!(Spread::of(&[3.0, 3.0]).unwrap().deviation, Some(0.0));
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn runs_are_a_table_of_their_means() {
        let groups = EventNames::default()
            .groups("{instructions,cycles},branches")
            .unwrap();
        let mut runs = Runs::default();
        for (counts, running) in [([1_000, 2_000, 3], 0), ([1_500, 2_000, 4], 0)] {
            let mut totals = vec![Total::default(); 2];
            let events = groups[0].spec.events().iter().copied().zip(counts);
            totals[0].add(100, 50, events);
            totals[1].add(
                100,
                running,
                [(groups[1].spec.leader(), counts[2])].into_iter(),
            );
            runs.add(&Counts {
                groups: &groups,
                labels: &[],
                totals,
                readings: None,
                elapsed: Duration::from_secs(2),
                time: Duration::from_secs(2),
            });
        }
        let text = runs.table(&groups);
        let lines = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>());
        let lines: Vec<String> = lines.map(|line| line.join(" ")).collect();
        assert_eq!(
            lines,
            [
                "event mean ± least most running",
                "instructions 2,500 28.3 % 2,000 3,000 50.0 %",
                "cycles 4,000 0.0 % 4,000 4,000 50.0 %",
                "",
                "branches never ran",
                "",
                "0.625 instructions per cycle",
                "2.000000 s elapsed, ± 0.0 %, mean of 2 runs",
            ]
        );
        let widest = "x".repeat(NAME).len() + 2 + 14 + 2 + 8 + 2 + 14 + 2 + 14 + 2 + 8;
        assert!(widest <= 100);
        let object = runs.object(&groups, Some(0));
        let events = &object["groups"][0]["events"];
        assert_eq!(
            (&events[0]["mean"], &events[0]["runs"]),
            (&json!(2500.0), &json!(2))
        );
        let never = &object["groups"][1]["events"][0];
        assert_eq!((&never["mean"], &never["runs"]), (&Value::Null, &json!(0)));
        assert_eq!(
            (&object["runs"], &object["elapsed"]["mean"]),
            (&json!(2), &json!(2.0))
        );
    }

    #[test]
    fn few_counts_have_a_decimal() {
        for (number, scale, text) in [
            (2.0, None, "2"),
            (2.25, None, "2.2"),
            (12_345.6, None, "12,346"),
            (1000.0, Some(0.5), "500.00"),
        ] {
            assert_eq!(count(number, scale), text);
        }
    }
}
