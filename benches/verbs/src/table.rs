//! The tables, in Markdown, and whether each figure reaches its goal.

use std::cell::Cell;
use std::fmt::{Display, Formatter, Write as _};
use std::fs;
use std::process::Command;

use crate::long::{Long, MEMORY_GOAL, PART_GOAL};
use crate::verb::Baseline;

/// The speed of a verb on a trace.
pub(crate) struct Speed {
    pub(crate) trace: String,
    pub(crate) verb: &'static str,
    pub(crate) nanoseconds: f64,
    pub(crate) way: Baseline,
    /// babeltrace2's nanoseconds per event.
    pub(crate) theirs: f64,
    pub(crate) goal: Option<f64>,
}

/// Judges whether each figure reaches its goal, and counts.
pub(crate) struct Judge {
    is_on: bool,
    goals: Cell<usize>,
    missed: Cell<usize>,
}

impl Judge {
    pub(crate) fn new(is_on: bool) -> Judge {
        Judge {
            is_on,
            goals: Cell::new(0),
            missed: Cell::new(0),
        }
    }

    fn verdict(&self, reached: bool) -> &'static str {
        if !self.is_on {
            return "";
        }
        self.goals.set(self.goals.get() + 1);
        if reached {
            return "ok";
        }
        self.missed.set(self.missed.get() + 1);
        "MISSED"
    }
}

impl Display for Judge {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let (goals, missed) = (self.goals.get(), self.missed.get());
        write!(f, "{} of {goals} goals reached.", goals - missed)
    }
}

/// Describes the machine and the method.
pub(crate) fn machine() -> String {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or("unknown")
        .trim_start_matches(['\t', ' ', ':']);
    let version = Command::new("babeltrace2").arg("--version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let version = version.unwrap_or_default();
    let version = version.split_whitespace().nth(1).unwrap_or("");
    format!(
        "Measured by `cargo xtask bench verbs` in one run ({cpu}); babeltrace2 {version}; one \
         thread each; lines go to /dev/null, files to the disk. Nanoseconds of the processor an \
         event.\n"
    )
}

pub(crate) fn speeds(speeds: &[Speed], judge: &Judge) -> String {
    let mut text = "| trace, events | `kymo` | ns | babeltrace2, ns | times | goal | |\n\
                    | --- | --- | ---: | ---: | ---: | ---: | --- |\n"
        .to_owned();
    for speed in speeds {
        let times = speed.theirs / speed.nanoseconds.max(0.001);
        let (goal, verdict) = match speed.goal {
            Some(goal) => (format!("{goal}"), judge.verdict(times >= goal)),
            None => ("-".into(), ""),
        };
        let _ = writeln!(
            text,
            "| {} | `{}` | {:.1} | {} {:.0} | {times:.1} | {goal} | {verdict} |",
            speed.trace,
            speed.verb,
            speed.nanoseconds,
            speed.way.name(),
            speed.theirs
        );
    }
    text
}

pub(crate) fn parts(long: &Long, judge: &Judge) -> String {
    let mut text = format!(
        "A millisecond of a trace of {:.2} GB ({:.1} M events), beside a whole pass of the same \
         verb:\n\n| `kymo` | ms | whole pass, ms | % | goal, % | |\n\
         | --- | ---: | ---: | ---: | ---: | --- |\n",
        long.bytes as f64 / 1e9,
        long.events as f64 / 1e6
    );
    for part in &long.parts {
        let percent = part.part / part.whole.max(0.001) * 100.0;
        let (goal, verdict) = if part.has_goal {
            (PART_GOAL.to_string(), judge.verdict(percent <= PART_GOAL))
        } else {
            ("-".into(), "")
        };
        let _ = writeln!(
            text,
            "| `{}` | {:.0} | {:.0} | {percent:.2} | {goal} | {verdict} |",
            part.command,
            part.part * 1e3,
            part.whole * 1e3
        );
    }
    text
}

pub(crate) fn memory(long: &Long, judge: &Judge) -> String {
    let mut text = "The most memory besides the map (`RssAnon`) on that trace:\n\n\
                    | `kymo` | MiB | goal | |\n| --- | ---: | ---: | --- |\n"
        .to_owned();
    for (verb, mebibytes) in &long.memory {
        let verdict = judge.verdict(*mebibytes <= MEMORY_GOAL);
        let _ = writeln!(
            text,
            "| `{verb}` | {mebibytes:.1} | {MEMORY_GOAL} | {verdict} |"
        );
    }
    text
}
