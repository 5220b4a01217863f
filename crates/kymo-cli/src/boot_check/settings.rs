//! Compares how samples were taken and what was counted with what the kernel was asked for.

use std::collections::{BTreeMap, BTreeSet};

use kymo::event::{Enumeration as _, Event as _};
use kymo::vocabulary::{CountedEvent, EventStack, Sample, Sampling, SamplingDriver};
use kymo_capture::qemu::Boot;
use kymo_ctf::{Event, Value};

use crate::{group_list, summary};

/// How the trace says that samples were taken, and what it says was counted.
#[derive(Debug, Default)]
pub(super) struct Settings {
    /// Ticks of the trace's clock in a second; 0 for a trace without a clock.
    frequency: u64,
    /// The first period of samples, and what makes them, where the trace says that.
    period: Option<(u64, Option<SamplingDriver>)>,
    /// Most callers of a sample, as the kernel says.
    depth: Option<u64>,
    /// The longest chain of callers.
    longest: u64,
    /// By group, the names of what was counted.
    counted: BTreeMap<u64, BTreeSet<String>>,
}

impl Settings {
    /// Nothing yet, of a trace with this clock.
    pub(super) fn of_clock(frequency: u64) -> Settings {
        Settings {
            frequency,
            ..Settings::default()
        }
    }

    /// Notes what this event says.
    pub(super) fn see(&mut self, event: &Event) {
        let number = |field: &str| event.fields.get(field).and_then(Value::as_u64);
        let name = event.name();
        if name == Sampling::SCHEMA.name {
            let driver = number("driver").and_then(SamplingDriver::from_value);
            if let Some(period) = number("period").filter(|&period| period > 0)
                && !matches!(self.period, Some((_, Some(_))))
            {
                // More accurate than a sample that came before it in time.
                (self.period, self.depth) = (Some((period, driver)), number("depth"));
            }
        } else if name == CountedEvent::SCHEMA.name {
            let name = event.fields.get("name").and_then(Value::as_str);
            let group = self
                .counted
                .entry(number("group").unwrap_or(0))
                .or_default();
            group.extend(name.map(str::to_owned));
        } else if [Sample::SCHEMA.name, EventStack::SCHEMA.name].contains(&name) {
            if self.period.is_none() {
                self.period = number("period").map(|period| (period, None));
            }
            if let Some(Value::Array(callers)) = event.fields.get("callchain") {
                self.longest = self.longest.max(callers.len() as u64);
            }
        }
    }

    /// What differs from what the kernel was asked for, a sentence each.
    pub(super) fn differences(&self, boot: &Boot) -> Vec<String> {
        let driver = self.period.and_then(|(_, driver)| driver);
        let other_driver = match (boot.driver, driver) {
            (Some(asked), Some(took)) if asked != took => Some(format!(
                "the kernel was asked for samples by {}, and takes them by {}",
                word(asked),
                word(took)
            )),
            _ => None,
        };
        // The periods of two drivers count different things.
        let period = match other_driver {
            None => self.other_period(boot, driver),
            Some(_) => None,
        };
        let differences = [
            other_driver,
            period,
            self.other_depth(boot),
            self.other_counters(boot),
        ];
        differences.into_iter().flatten().collect()
    }

    fn other_period(&self, boot: &Boot, driver: Option<SamplingDriver>) -> Option<String> {
        let (took, _) = self.period?;
        let differs = |asked: u64| asked.abs_diff(took) > (asked / 100).max(1);
        let sentence = |asked: u64, took: u64, unit: &str| {
            let [asked, took] = [asked, took].map(summary::thousands);
            format!(
                "the kernel was asked for a sample every {asked} {unit}, and takes one every {took}"
            )
        };
        if let Some(asked) = boot.count.filter(|&asked| differs(asked)) {
            return Some(sentence(asked, took, driver.map_or("events", word)));
        }
        let nanos = boot.period_ns.filter(|_| self.frequency > 0)?;
        let scaled = |number: u64, by: u64, part: u64| {
            let scaled = u128::from(number) * u128::from(by) / u128::from(part);
            u64::try_from(scaled).unwrap_or(u64::MAX)
        };
        let asked = scaled(nanos, self.frequency, 1_000_000_000);
        differs(asked).then(|| {
            let took = scaled(took, 1_000_000_000, self.frequency);
            sentence(nanos, took, "ns")
        })
    }

    fn other_depth(&self, boot: &Boot) -> Option<String> {
        let asked = u64::from(boot.depth?);
        // Without samples the kernel does not say how many callers of events it keeps at most.
        let took = self.depth.unwrap_or(0).max(self.longest);
        let differs = took > asked || self.depth.is_some_and(|depth| depth < asked);
        differs.then(|| {
            format!(
                "the kernel was asked to keep {}, and keeps up to {took}",
                summary::count(asked, "caller", "callers")
            )
        })
    }

    fn other_counters(&self, boot: &Boot) -> Option<String> {
        let mut asked = (0..).zip(&boot.counters);
        let counts = |(group, names): (u64, &Vec<String>)| {
            let counted = self.counted.get(&group);
            counted.is_some_and(|counted| names.iter().all(|name| counted.contains(name)))
        };
        // A trace without counts has a sentence of its own.
        if self.counted.is_empty() || asked.all(counts) {
            return None;
        }
        let asked = boot.counters.iter();
        let asked = asked.map(|names| names.iter().map(String::as_str).collect());
        let counted = self.counted.values();
        let counted: Vec<_> = counted
            .map(|names| names.iter().map(String::as_str).collect())
            .collect();
        Some(format!(
            "the kernel was asked to count {}, and counts {}",
            group_list::join(asked),
            group_list::join(counted.into_iter())
        ))
    }
}

/// The word for what makes the samples, or for what its counter counts.
fn word(driver: SamplingDriver) -> &'static str {
    match driver {
        SamplingDriver::Timer => "timer",
        SamplingDriver::Nmi => "nmi",
        SamplingDriver::Ipi => "ipi",
        SamplingDriver::ThreadTime => "thread time",
        SamplingDriver::Cycles => "cycles",
        SamplingDriver::Instructions => "instructions",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use kymo::Sequence;
    use kymo::vocabulary::{Address, ChainEnd, CpuMode, Tid};
    use kymo_ctf::{Item, Trace};
    use kymo_made::Made;

    use super::*;

    /// What is said of a trace with these events, where the kernel was asked for this.
    fn said(add: impl Fn(&mut Made), boot: &Boot) -> String {
        let mut made = Made::with_samples("boot-settings");
        add(&mut made);
        let mut settings = Settings::of_clock(1_000_000_000);
        let trace = Trace::open(made.finish()).unwrap();
        for item in trace.events() {
            if let Item::Event(event) = item.unwrap() {
                settings.see(&event);
            }
        }
        settings.differences(boot).join("; ")
    }

    fn sampling(period: u64, depth: u32, driver: SamplingDriver) -> impl Fn(&mut Made) {
        move |made| {
            let off = Sampling {
                period: 0,
                depth: 127,
                driver: SamplingDriver::Timer,
            };
            made.event(0, 1, off);
            let on = Sampling {
                period,
                depth,
                driver,
            };
            made.event(0, 2, on);
        }
    }

    /// A sample with this period and so many callers.
    fn sample(made: &mut Made, period: u64, callers: usize) {
        made.event(
            0,
            3,
            Sample {
                ip: Address(1),
                tid: Tid(1),
                period,
                missed: 0,
                mode: CpuMode::Kernel,
                kernel_callers: callers as u8,
                kernel_end: ChainEnd::Cut,
                user_end: ChainEnd::Absent,
                callchain: Sequence::new(&vec![Address(2); callers]),
            },
        );
    }

    fn every(period_ns: u64) -> Boot {
        Boot {
            period_ns: Some(period_ns),
            ..Boot::default()
        }
    }

    #[test]
    fn another_period_is_told() {
        let timer = |period| sampling(period, 127, SamplingDriver::Timer);
        let told = "the kernel was asked for a sample every 100,000 ns, and takes one every \
                    1,000,000";
        assert_eq!(said(timer(1_000_000), &every(100_000)), told);
        // A sample says it where the kernel does not.
        assert_eq!(
            said(|made| sample(made, 1_000_000, 0), &every(100_000)),
            told
        );
        // A timer's ticks need not divide it.
        for period in [99_100, 100_000, 100_900] {
            assert_eq!(said(timer(period), &every(100_000)), "", "{period}");
        }
        assert_eq!(said(|_| {}, &every(100_000)), "");
        let count = Boot {
            count: Some(5_000),
            driver: Some(SamplingDriver::Cycles),
            ..Boot::default()
        };
        assert_eq!(
            said(sampling(1_000_000, 127, SamplingDriver::Cycles), &count),
            "the kernel was asked for a sample every 5,000 cycles, and takes one every 1,000,000"
        );
        assert_eq!(
            said(sampling(5_000, 127, SamplingDriver::Cycles), &count),
            ""
        );
    }

    #[test]
    fn another_driver_is_told_and_its_period_is_not_compared() {
        let boot = Boot {
            driver: Some(SamplingDriver::Nmi),
            ..every(100_000)
        };
        assert_eq!(
            said(sampling(1_000_000, 127, SamplingDriver::Timer), &boot),
            "the kernel was asked for samples by nmi, and takes them by timer"
        );
    }

    #[test]
    fn another_depth_is_told() {
        let boot = Boot {
            depth: Some(4),
            ..Boot::default()
        };
        let of = |depth| said(sampling(1_000, depth, SamplingDriver::Timer), &boot);
        assert_eq!(of(4), "");
        let told = "the kernel was asked to keep 4 callers, and keeps up to ";
        assert_eq!(of(127), format!("{told}127"));
        assert_eq!(of(3), format!("{told}3"));
        // Without samples, only a longer chain shows it.
        let stack = |callers: usize| {
            move |made: &mut Made| {
                made.event(
                    0,
                    3,
                    EventStack {
                        event: 1,
                        ip: Address(1),
                        tid: Tid(1),
                        kernel_callers: callers as u8,
                        kernel_end: ChainEnd::Complete,
                        user_end: ChainEnd::Absent,
                        callchain: Sequence::new(&vec![Address(2); callers]),
                    },
                );
            }
        };
        assert_eq!(said(stack(3), &boot), "");
        assert_eq!(said(stack(5), &boot), format!("{told}5"));
    }

    #[test]
    fn other_counters_are_told() {
        let counted_in = |made: &mut Made, group: u8, name: &str| {
            let counted = CountedEvent {
                group,
                groups: 2,
                place: 0,
                events: 1,
                name: kymo::Text::new(name),
            };
            made.event(0, 1, counted);
        };
        let counted = |made: &mut Made| counted_in(made, 0, "cycles");
        let boot = |names: &[&str]| Boot {
            counters: vec![names.iter().map(|name| (*name).to_owned()).collect()],
            ..Boot::default()
        };
        let two = |names: [&str; 2]| Boot {
            counters: names.map(|name| vec![name.to_owned()]).to_vec(),
            ..Boot::default()
        };
        let both = |made: &mut Made| {
            counted_in(made, 0, "cycles");
            counted_in(made, 1, "branches");
        };
        assert_eq!(said(both, &two(["cycles", "branches"])), "");
        assert_eq!(
            said(both, &two(["branches", "cycles"])),
            "the kernel was asked to count {branches},{cycles}, and counts {cycles},{branches}"
        );
        assert_eq!(
            said(counted, &two(["cycles", "branches"])),
            "the kernel was asked to count {cycles},{branches}, and counts cycles"
        );
        assert_eq!(said(counted, &boot(&["cycles"])), "");
        assert_eq!(
            said(counted, &boot(&["cycles", "instructions"])),
            "the kernel was asked to count cycles,instructions, and counts cycles"
        );
    }
}
