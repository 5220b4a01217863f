//! Where the instructions go that tracing costs a kernel: `kymo cost` counts the parts.

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::Figures;
use crate::kernel::{Kernel, Recording};

/// The kernel's counts of its operations, for its tests: all of them, and those that are recorded.
const COUNTS: &str = "count<kymo::vocabulary::*";
/// Looks whether a name is due, before an event with a number.
const NAMES: &str = "named<*";

/// Instructions of all calls, and the number of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    calls: u64,
    instructions: u64,
}

/// What was counted in a run that records everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// On/off tests and records, as inlined.
    records: Sum,
    /// What the library does where a packet is full, or a time window ends.
    slow: Sum,
    /// The kernel's second count of each event, which is made only if the event is recorded.
    counts: Sum,
    /// Looks whether a name is due.
    names: Sum,
}

impl Parts {
    /// Counts the parts of this kernel's work.
    pub fn count(kymo: &Path, kernel: &Kernel, units: u32, image: &Path) -> Result<Parts> {
        let run = |recording, symbols: &[&str]| {
            let words = kernel.words(units, recording);
            cost(kymo, kernel, image, &words, symbols)
        };
        let events = run(Recording::On, &[])?;
        let (on, off) = (
            run(Recording::On, &[COUNTS, NAMES])?,
            run(Recording::Never, &[COUNTS])?,
        );
        let is_count = |site: &Value| {
            site["name"]
                .as_str()
                .is_some_and(|of| of.contains("count<"))
        };
        let (all, first) = (sum(&on, is_count), sum(&off, is_count));
        Ok(Parts {
            records: sum(&events, |site| site["kind"] == "event"),
            slow: sum(&events, |site| site["kind"] == "slow path"),
            counts: Sum {
                calls: all.calls.saturating_sub(first.calls),
                instructions: all.instructions.saturating_sub(first.instructions),
            },
            names: sum(&on, |site| !is_count(site)),
        })
    }

    /// The parts as a table, with the rest of what recording everything costs.
    pub fn table(&self, figures: &Figures) -> String {
        let mut table = "| part | a unit of work | instructions each | instructions a unit of work | of all |\n| --- | ---: | ---: | ---: | ---: |\n".to_owned();
        let units = figures.on.units as f64;
        let all = figures.on.per_unit() - figures.compiled_out.per_unit();
        let mut rest = all;
        for (name, part) in [
            ("records, with their on/off tests", self.records),
            ("full packets and new time windows", self.slow),
            ("the kernel's count of what it recorded", self.counts),
            ("looks whether a name is due", self.names),
        ] {
            let (calls, instructions) = (part.calls as f64, part.instructions as f64);
            rest -= instructions / units;
            // Writing to a string cannot fail.
            let _ = writeln!(
                table,
                "| {name} | {:.1} | {:.1} | {:.1} | {:.0} % |",
                calls / units,
                instructions / calls.max(1.0),
                instructions / units,
                100.0 * instructions / units / all
            );
        }
        let _ = writeln!(
            table,
            "| the rest: counters, tests for callers, code around | | | {rest:.1} | {:.0} % |",
            100.0 * rest / all
        );
        let _ = writeln!(table, "| all | | | {all:.1} | 100 % |");
        table
    }
}

/// The instructions and calls of the sites that fit.
fn sum(report: &Value, fits: impl Fn(&Value) -> bool) -> Sum {
    let sites = report["sites"].as_array();
    let sites = sites.into_iter().flatten().filter(|site| fits(site));
    sites.fold(Sum::default(), |sum, site| {
        let number = |key: &str| site[key].as_u64().unwrap_or_default();
        Sum {
            calls: sum.calls + number("calls"),
            instructions: sum.instructions + number("instructions"),
        }
    })
}

/// What `kymo cost` says of the kernel with this command line.
fn cost(
    kymo: &Path,
    kernel: &Kernel,
    image: &Path,
    words: &str,
    symbols: &[&str],
) -> Result<Value> {
    let mut command = Command::new(kymo);
    command.arg("cost").arg(image);
    command.args(["--json", "--timeout", crate::SECONDS, "--append", words]);
    command.args(["--cpus", &kernel.harts.to_string()]);
    for symbol in symbols {
        command.args(["--symbol", symbol]);
    }
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("{} cannot be started", kymo.display()))?;
    if !output.status.success() {
        bail!(
            "`kymo cost` failed ({}) with \"{words}\":\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    serde_json::from_slice(&output.stdout).context("the output of `kymo cost`")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;
    use crate::Figure;

    #[test]
    fn parts_and_the_rest_are_the_whole() {
        let report = json!({ "sites": [
            { "kind": "event", "name": "A", "calls": 100, "instructions": 2100 },
            { "kind": "event", "name": "B", "calls": 100, "instructions": 1900 },
            { "kind": "slow path", "name": "s", "calls": 2, "instructions": 200 },
        ] });
        let records = sum(&report, |site| site["kind"] == "event");
        let parts = Parts {
            records,
            slow: sum(&report, |site| site["kind"] == "slow path"),
            counts: Sum {
                calls: 200,
                instructions: 2000,
            },
            names: Sum::default(),
        };
        assert_eq!(
            records,
            Sum {
                calls: 200,
                instructions: 4000
            }
        );
        let figure = |instructions| Figure {
            units: 100,
            instructions,
            events: 200,
        };
        let figures = Figures {
            compiled_out: figure(100_000),
            off: figure(100_000),
            stopped: figure(100_000),
            on: figure(110_000),
        };
        let table = parts.table(&figures);
        assert!(table.contains("| 2.0 | 20.0 | 40.0 | 40 % |"), "{table}");
        assert!(table.contains("| | | 38.0 | 38 % |"), "{table}");
        assert!(table.contains("| all | | | 100.0 | 100 % |"), "{table}");
    }
}
