//! `kymo count --list`: what can be counted.

use std::fmt::Write as _;

use anyhow::Context as _;
use kymo::count::{Cache, CacheAccess, CacheLevel, EventKind, EventSpec, Hardware, Software};
use kymo_perf::{Error, Group, Options, SlotLimit, Target, Tracepoints};
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
    let tracepoints = Tracepoints::default().names();
    let mut rows = Vec::new();
    for (kind, what) in named() {
        let name = kind.to_string();
        if pattern.is_none_or(|pattern| matches(pattern, &name)) {
            let reason = reason(EventSpec::of(kind), limit);
            rows.push(Row {
                name,
                kind: what,
                reason,
            });
        }
    }
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

/// Why an event cannot be counted for a thread of this process.
fn reason(event: EventSpec, limit: SlotLimit) -> Option<&'static str> {
    let mut group = Group::new(Target::SELF, Options::default(), limit);
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
