//! The first lines of a report: how much there is, what is missing, and what cannot be told.

use std::fmt::Write as _;

use kymo_analysis::{ClockHealth, Report};

use super::{Text, duration, passed};
use crate::summary::{count, missing_events, thousands};

/// Most losses that are printed; JSON has more.
const LOSSES: usize = 5;
/// Most damaged places that are printed; JSON has more.
const DAMAGE: usize = 3;

// Writing to a `String` cannot fail; the results of `write!` are dropped in the functions below.
impl Text<'_> {
    pub(super) fn trace(&mut self, report: &Report) {
        self.sum(report);
        self.losses(report);
        self.damage(report);
        if self.style.is_partial {
            let sentence = "Only of what was selected. A duration counts if its last event was.";
            self.paragraph(0, sentence);
        } else if report.events > 0 && report.cpus.iter().all(|cpu| cpu.switches == 0) {
            self.paragraph(
                0,
                "The trace has no scheduling events: who ran and who waited is not recorded.",
            );
        }
        if report.events_without_place > 0 {
            let placeless = count(
                report.events_without_place,
                "event has no time or no CPU and is",
                "events have no time or no CPU and are",
            );
            self.paragraph(0, format!("{placeless} only counted."));
        }
        for clock in &report.clocks {
            self.paragraph(0, health(clock));
        }
        if report.events > 0 {
            self.paragraph(0, "Points in time are in seconds since the trace began.");
        }
    }

    fn sum(&mut self, report: &Report) {
        let line = sum(report);
        match report.losses.any() || !report.damage.is_empty() {
            true => self.alarm(0, line),
            false => self.paragraph(0, line),
        }
    }

    fn losses(&mut self, report: &Report) {
        let losses = &report.losses;
        for loss in losses.intervals.iter().take(LOSSES) {
            let (begin, end) = (self.at(loss.begin_ns), self.at(loss.end_ns));
            let one = loss.kind.trim_end_matches('s');
            let mut line = format!(
                "{} on {}, between {begin} and {end}",
                count(loss.count, one, loss.kind),
                loss.stream
            );
            if let Some((begin, end)) = loss.begin_ns.zip(loss.end_ns) {
                let _ = write!(line, " ({})", duration(passed(begin, end)));
            }
            self.paragraph(2, line);
        }
        let more =
            losses.intervals.len().saturating_sub(LOSSES) as u64 + losses.intervals_not_listed;
        if more > 0 {
            let more = count(more, "more time", "more times");
            self.paragraph(2, format!("and {more}; kymo dump shows where"));
        }
        if losses.missing > 0 && losses.reported() {
            self.alarm(0, format!("Besides, {}.", missing_events(losses.missing)));
        }
        if losses.reported() {
            let sentence = "No figure below includes lost events, and no duration spans a loss.";
            self.paragraph(0, sentence);
        }
    }

    fn damage(&mut self, report: &Report) {
        for sentence in report.damage.iter().take(DAMAGE) {
            self.alarm(0, format!("Damaged: {sentence}."));
        }
        let more = report.damage.len().saturating_sub(DAMAGE);
        if more > 0 {
            let places = count(more as u64, "more place", "more places");
            self.paragraph(0, format!("Damaged: {places}; kymo lint lists them."));
        }
    }
}

/// How much a report is about, and how much is missing: one line, which a colon ends if lines about
/// that follow.
pub fn sum(report: &Report) -> String {
    let span = passed(report.begin_ns.unwrap_or(0), report.end_ns.unwrap_or(0));
    let mut line = format!(
        "{} in {}",
        count(report.events, "event", "events"),
        duration(span)
    );
    let losses = &report.losses;
    let more = |events| count(events, "more was lost", "more were lost");
    let missing = |packets| count(packets, "packet is missing", "packets are missing");
    line += &match (losses.events, losses.packets) {
        (0, 0) if losses.missing > 0 => format!("; {}.", missing_events(losses.missing)),
        (0, 0) if report.damage.is_empty() => ", none lost.".to_owned(),
        (0, 0) => ", none lost except by the damage:".to_owned(),
        (events, 0) => format!("; {}:", more(events)),
        (0, packets) => format!("; {}, with more events:", missing(packets)),
        (events, packets) => format!("; {}, and {}:", more(events), missing(packets)),
    };
    line
}

/// How fine and how steady a clock is.
fn health(clock: &ClockHealth) -> String {
    let mut line = format!(
        "Clock {}: {} ticks per second. ",
        clock.name,
        thousands(clock.frequency_hz)
    );
    let _ = match clock.smallest_step_ticks {
        Some(step) => write!(
            line,
            "Different times on one CPU are at least {} apart, ",
            count(step, "tick", "ticks")
        ),
        None => write!(line, "No CPU has events at two different times, "),
    };
    let _ = match clock.equal_stamps {
        0 => write!(line, "and no two events have the same time."),
        pairs => write!(
            line,
            "and {} the same time.",
            count(pairs, "pair of events has", "pairs of events have")
        ),
    };
    if let Some(longest) = clock.longest_step_back_ticks {
        let _ = write!(
            line,
            " It stepped back {}, by {} at most: events have the time of an earlier one until it \
             caught up.",
            count(clock.steps_back, "time", "times"),
            count(longest, "tick", "ticks")
        );
    }
    if clock.times_behind > 0 {
        let _ = write!(
            line,
            " The kernel found it behind its time window {}.",
            count(clock.times_behind, "time", "times")
        );
    }
    line
}
