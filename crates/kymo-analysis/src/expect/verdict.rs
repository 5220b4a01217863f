//! The outcome of an expectation, in words.

use std::collections::HashSet;

use super::names::NameClass;
use super::tally::{Found, State, Tally};
use super::{Expectation, Pattern, Subject};
use kymo_machine::SpanKind;

/// The outcome of an expectation.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Its name in the file, or else its content in words.
    pub name: String,
    /// Its line in the file, from 1.
    pub line: usize,
    /// Whether the trace meets the expectation.
    pub holds: bool,
    /// Expected and actual result, without a full stop.
    pub message: String,
    /// The first ten events or losses that violate it; for durations, the ten farthest off. If too
    /// few events were found, these events.
    pub found: Vec<Found>,
    /// Number of further ones.
    pub more: u64,
}

pub(super) fn verdict(
    expectation: &Expectation,
    state: &State,
    missing: &HashSet<&(NameClass, String)>,
    damage: &[String],
) -> Verdict {
    let subject = &expectation.subject;
    let name = expectation
        .name
        .clone()
        .unwrap_or_else(|| subject.to_string());
    let mut verdict = Verdict {
        name,
        line: expectation.line,
        holds: true,
        message: String::new(),
        found: Vec::new(),
        more: 0,
    };
    let tally = state.tallies.first();
    let (count, over) = tally.map_or((0, 0), |tally| (tally.count, tally.over));
    let kept = |list: fn(&Tally) -> &Vec<(u64, Found)>| {
        let list = tally.map(|tally| list(tally).iter().map(|(_, found)| found.clone()));
        list.into_iter().flatten().collect::<Vec<Found>>()
    };
    match subject {
        Subject::Count { bounds, .. } => {
            verdict.holds = bounds.hold(count);
            verdict.message = format!("{bounds} expected, {count} found");
            if !verdict.holds {
                let too_many = bounds.most.is_some_and(|most| count > most);
                verdict.found = if too_many {
                    kept(|tally| &tally.worst)
                } else {
                    kept(|tally| &tally.first)
                };
                let all = if too_many { over } else { count };
                verdict.more = all.saturating_sub(verdict.found.len() as u64);
            }
        }
        Subject::Order(steps) => order(steps, state, &mut verdict),
        Subject::Duration {
            least,
            most,
            bounds,
            ..
        } => {
            verdict.holds = bounds.hold(count) && over == 0;
            let limits = match (least, most) {
                (None, None) => String::new(),
                (Some(least), None) => format!(", {over} of them under {}", nanos(*least)),
                (None, Some(most)) => format!(", {over} of them over {}", nanos(*most)),
                (Some(least), Some(most)) => format!(
                    ", {over} of them not within {} and {}",
                    nanos(*least),
                    nanos(*most)
                ),
            };
            verdict.message = match bounds.hold(count) {
                true => format!("{count} measured{limits}"),
                false => format!("{bounds} expected, {count} measured{limits}"),
            };
            verdict.found = kept(|tally| &tally.worst);
            verdict.more = over.saturating_sub(verdict.found.len() as u64);
        }
        Subject::Losses {
            packets, bounds, ..
        } => {
            verdict.holds = bounds.hold(count);
            let what = if *packets { "packets" } else { "events" };
            verdict.message = format!("{bounds} lost {what} expected, {count} lost");
            if !verdict.holds {
                verdict.found = kept(|tally| &tally.worst);
                verdict.more = over.saturating_sub(verdict.found.len() as u64);
            }
        }
        Subject::Timestamps => {
            verdict.holds = over == 0 && count > 0 && damage.is_empty();
            verdict.message = match (damage.first(), count) {
                (Some(damage), _) => damage.clone(),
                (None, 0) => "no event has a time".to_owned(),
                (None, _) => format!("{over} of {count} events are earlier than the one before"),
            };
            verdict.found = kept(|tally| &tally.worst);
            verdict.more = over.saturating_sub(verdict.found.len() as u64);
        }
    }
    if state.overrun {
        verdict.holds = false;
        verdict.message = "undecided: too many numbers appear before their names".to_owned();
    }
    if let Some((class, text)) = subject
        .names()
        .into_iter()
        .find(|name| missing.contains(name))
    {
        verdict.holds = false;
        verdict.message = format!("the trace has no {} named {text:?}", class.label());
    }
    verdict
}

fn order(steps: &[Vec<Pattern>], state: &State, verdict: &mut Verdict) {
    let mut tallies = state.tallies.iter();
    let mut before: Vec<(&Pattern, &(u64, Found))> = Vec::new();
    for step in steps {
        let mut these = Vec::new();
        for pattern in step {
            let Some(first) = tallies.next().and_then(|tally| tally.first.first()) else {
                verdict.holds = false;
                verdict.message = format!("the trace has no {pattern}");
                return;
            };
            these.push((pattern, first));
        }
        for (earlier, (a, first)) in &before {
            for (later, (b, second)) in &these {
                // Equal times on two CPUs have no order.
                let apart = first.time() != second.time() || first.cpu() == second.cpu();
                if b < a && apart {
                    verdict.holds = false;
                    verdict.message = format!("the first {later} comes before the first {earlier}");
                    verdict.found = vec![second.clone(), first.clone()];
                    return;
                }
            }
        }
        before = these;
    }
    verdict.message = format!("{} in order", state.tallies.len());
}

/// Formats a duration in the largest unit that gives an integer.
fn nanos(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let unit = units
        .into_iter()
        .find(|(size, _)| ns > 0 && ns.is_multiple_of(*size));
    unit.map_or_else(
        || format!("{ns} ns"),
        |(size, unit)| format!("{} {unit}", ns / size),
    )
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list = |f: &mut std::fmt::Formatter<'_>, patterns: &[Pattern], word: &str| {
            for (index, pattern) in patterns.iter().enumerate() {
                write!(f, "{}{pattern}", if index == 0 { "" } else { word })?;
            }
            Ok(())
        };
        match self {
            // The verdict's message has the bounds.
            Subject::Count { any, .. } => list(f, any, " or "),
            Subject::Order(steps) => {
                for (index, step) in steps.iter().enumerate() {
                    f.write_str(if index == 0 { "" } else { ", then " })?;
                    list(f, step, " and ")?;
                }
                Ok(())
            }
            Subject::Duration {
                kind,
                of,
                least,
                most,
                ..
            } => {
                let name = SpanKind::ALL
                    .into_iter()
                    .find(|(_, of)| of == kind)
                    .map_or("duration", |(name, _)| name);
                f.write_str(name)?;
                super::terms(f, of)?;
                if let Some(least) = least {
                    write!(f, ", {} at least", nanos(*least))?;
                }
                if let Some(most) = most {
                    write!(f, ", {} at most", nanos(*most))?;
                }
                Ok(())
            }
            Subject::Losses {
                packets, on_cpu, ..
            } => {
                write!(f, "lost {}", if *packets { "packets" } else { "events" })?;
                if let Some(cpu) = on_cpu {
                    write!(f, " on CPU {cpu}")?;
                }
                Ok(())
            }
            Subject::Timestamps => f.write_str("timestamps are non-decreasing"),
        }
    }
}
