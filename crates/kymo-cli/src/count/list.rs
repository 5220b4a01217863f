//! `kymo count --list`: what can be counted.

use std::fmt::Write as _;

use anyhow::Context as _;
use kymo::count::{Cache, CacheAccess, CacheLevel, EventKind, EventSpec, Hardware, Software};
use kymo_perf::{Error, EventNames, Group, NamedEvent, Options, Pmus, SlotLimit, Target};
use serde_json::{Value, json};

use crate::dump::{deliver, flush};
use crate::exit::{BadInput, Code};
use crate::pattern::matches;

/// An event of the list.
struct Row {
    name: String,
    kind: &'static str,
    /// Why it cannot be counted; `None` if it can, or, for a tracepoint, if it was not tried.
    reason: Option<&'static str>,
}

/// Names of all events but tracepoints, raw numbers and breakpoints, by kind.
fn named() -> impl Iterator<Item = (EventKind, &'static str)> {
    let hardware = Hardware::ALL.iter().copied().map(EventKind::Hardware);
    let software = Software::ALL.iter().copied().map(EventKind::Software);
    let caches = CacheLevel::ALL.iter().flat_map(|level| {
        CacheAccess::ALL.iter().flat_map(|access| {
            [false, true].map(|misses| {
                EventKind::Cache(Cache {
                    level: *level,
                    access: *access,
                    misses,
                })
            })
        })
    });
    let hardware = hardware.map(|kind| (kind, "hardware"));
    let software = software.map(|kind| (kind, "software"));
    hardware
        .chain(software)
        .chain(caches.map(|kind| (kind, "cache")))
}

/// The names of events that are known everywhere.
pub fn known() -> Vec<String> {
    named().map(|(kind, _)| kind.to_string()).collect()
}

/// Prints the list; with a pattern, the events and tracepoints that match.
pub fn print(pattern: Option<&str>, json: bool) -> anyhow::Result<Code> {
    let limit = SlotLimit::of_machine()?;
    let names = EventNames::default();
    let tracepoints = names.tracepoints.names();
    let mut rows = Vec::new();
    for (kind, what) in named() {
        let name = kind.to_string();
        if pattern.is_none_or(|pattern| matches(pattern, &name)) {
            let reason = reason(EventSpec::of(kind).into(), limit);
            rows.push(Row {
                name,
                kind: what,
                reason,
            });
        }
    }
    rows.extend(of_pmus(&names.pmus, pattern, |event| reason(event, limit)));
    if let Some(pattern) = pattern {
        let matching = tracepoints.iter().filter(|name| matches(pattern, name));
        rows.extend(matching.map(|name| Row {
            name: name.clone(),
            kind: "tracepoint",
            reason: None,
        }));
        if rows.is_empty() {
            let hint = match tracepoints.is_empty() {
                true => "; tracepoints can be listed only where tracefs is mounted and readable",
                false => "; write '*' for any letters, as in 'sched:*'",
            };
            return Err(BadInput(format!("no event is called {pattern:?}{hint}")).into());
        }
    }
    let text = match json {
        true => {
            let rows: Vec<Value> = rows.iter().map(object).collect();
            serde_json::to_string(&rows).context("cannot write JSON")? + "\n"
        }
        false => table(&rows, pattern.is_none().then_some(tracepoints.len())),
    };
    let mut out = std::io::stdout().lock();
    if deliver(&mut out, text.as_bytes())? {
        flush(&mut out)?;
    }
    Ok(Code::Ok)
}

/// The events that PMUs have names for, those that match a pattern.
fn of_pmus(
    pmus: &Pmus,
    pattern: Option<&str>,
    reason: impl Fn(NamedEvent) -> Option<&'static str>,
) -> Vec<Row> {
    let names = pmus.names().into_iter();
    let names = names.filter(|name| pattern.is_none_or(|pattern| matches(pattern, name)));
    let row = |name: String| Row {
        reason: match pmus.event(&name) {
            Ok(event) => reason(event),
            Err(_) => Some("with a parameter: count it to see which"),
        },
        name,
        kind: "pmu",
    };
    names.map(row).collect()
}

/// Why an event cannot be counted for a thread of this process, or for the CPU that counts for
/// others.
fn reason(event: NamedEvent, limit: SlotLimit) -> Option<&'static str> {
    let shared = event.pmus.first().filter(|pmu| pmu.is_shared);
    let cpu = shared.and_then(|pmu| pmu.cpus.as_ref()?.first().copied());
    let target = cpu.map_or(Target::SELF, Target::Cpu);
    let mut group = Group::new(target, Options::default(), limit);
    match group.add(event) {
        Ok(_) => None,
        Err(Error::NotOnLinux { instead, .. }) => Some(match instead {
            "raw_syscalls:sys_enter" => "count the tracepoint raw_syscalls:sys_enter",
            _ => "count the tracepoint irq:irq_handler_entry",
        }),
        Err(Error::NotPermitted { .. }) => Some("not permitted"),
        Err(Error::InUse { .. }) => Some("all counters are in use"),
        Err(_) => Some("not on this machine"),
    }
}

fn object(row: &Row) -> Value {
    json!({
        "event": row.name,
        "kind": row.kind,
        "available": row.reason.is_none(),
        "reason": row.reason,
    })
}

fn table(rows: &[Row], tracepoints: Option<usize>) -> String {
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for row in rows {
        let reason = row.reason.unwrap_or_default();
        let line = format!("{:width$}  {:10}  {reason}", row.name, row.kind);
        let _ = writeln!(text, "{}", line.trim_end());
    }
    if let Some(tracepoints) = tracepoints {
        for (name, kind, what) in [
            ("rNNN", "raw", "the processor's number, hexadecimal"),
            (
                "mem:ADDRESS[/LEN][:rwx]",
                "breakpoint",
                "an address, hexadecimal",
            ),
            (
                "PMU/NAME=N,.../[uk]",
                "pmu",
                "parameters of a PMU of /sys/bus/event_source/devices",
            ),
        ] {
            let _ = writeln!(text, "{name:width$}  {kind:10}  {what}");
        }
        let name = "system:name";
        let _ = match tracepoints {
            0 => writeln!(
                text,
                "{name:width$}  tracepoint  not readable here (root, with tracefs mounted)"
            ),
            _ => writeln!(
                text,
                "{name:width$}  tracepoint  {tracepoints} of them; --list 'sched:*' lists some"
            ),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// K-14: the events of PMUs are listed, with those of one kind once.
    #[test]
    fn events_of_pmus_are_listed() {
        let folder = std::env::temp_dir().join(format!("kymo-list-{}", std::process::id()));
        for (file, text) in [
            ("imc_0/type", "20"),
            ("imc_0/cpumask", "0"),
            ("imc_0/events/reads", "config=1"),
            ("imc_1/type", "21"),
            ("imc_1/cpumask", "0"),
            ("imc_1/events/reads", "config=1"),
            ("cpu/type", "4"),
            ("cpu/events/of-core", "config=?"),
        ] {
            let file = folder.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let rows = |pattern| {
            let rows = of_pmus(&Pmus::of(&folder), pattern, |event| {
                assert_eq!(event.pmus.len(), 2, "{event:?}");
                None
            });
            table(&rows, None)
        };
        assert_eq!(rows(Some("imc/*")), "imc/reads/  pmu\n");
        let all = rows(None);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(
            all,
            "cpu/of-core/  pmu         with a parameter: count it to see which\n\
             imc/reads/    pmu\n"
        );
    }
}
