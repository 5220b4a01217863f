//! The other ready questions and tables, beside the report and loops.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use kymo_ctf::{ItemRef, Trace};
use kymo_machine::{Machine, Span, SpanKind, Waker};
use serde_json::Value;

use crate::made::{Three, busy, rows, session};
use crate::ready::{ask, by, report};

fn number(row: &Value, name: &str) -> u64 {
    let value = &row[name];
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{name} of {row} is {value}"))
}

/// The spans of a trace, with the numbers of their threads, owners and wakers.
fn spans(path: &Path) -> Vec<(Span, [Option<u64>; 3])> {
    let trace = Trace::open(path).unwrap();
    let (map, mut machine, mut all) = (trace.map(), Machine::new(), Vec::new());
    let mut reader = map.read();
    while let Some(item) = reader.next() {
        machine.add(&item);
        let found = machine.changes().iter();
        for span in found.filter_map(|of| Span::of(of, &machine)) {
            let tid = |id| machine.thread(id).map(|thread| thread.tid);
            let waker = match span.waker {
                Some(Waker::Thread(id)) => tid(id),
                _ => None,
            };
            let of = [span.tid, span.owner.and_then(tid), waker];
            all.push((span, of));
        }
    }
    all
}

#[test]
fn states_are_those_of_the_report() {
    let mut three = Three::new("states", 21, 400);
    for path in three.paths() {
        let (session, report) = (session(&[&path]), report(&path));
        let mut found: BTreeMap<u64, BTreeMap<String, u64>> = BTreeMap::new();
        for row in ask(&session, "thread-states", &[]) {
            let state = row["state"].as_str().unwrap().to_owned();
            let of = found.entry(number(&row, "tid")).or_default();
            of.insert(state, number(&row, "total_ns"));
        }
        assert!(!found.is_empty());
        // Every CPU has an idle thread of the number 0.
        let mut wanted: BTreeMap<u64, BTreeMap<String, u64>> = BTreeMap::new();
        for thread in &report.threads {
            let of = wanted.entry(thread.tid).or_default();
            for (state, ns) in [
                ("running", thread.cpu_ns),
                ("runnable", thread.runnable_ns),
                ("blocked", thread.blocked_ns),
                ("sleeping", thread.sleeping_ns),
            ] {
                *of.entry(state.to_owned()).or_default() += ns;
            }
        }
        for of in wanted.values_mut() {
            of.retain(|_, ns| *ns > 0);
        }
        wanted.retain(|_, of| !of.is_empty());
        assert_eq!(found, wanted);

        let load = ask(&session, "cpu-load", &[]);
        let found: Vec<_> = load
            .iter()
            .map(|row| ["cpu", "busy_ns", "idle_ns"].map(|name| number(row, name)))
            .collect();
        let cpus = report.cpus.iter();
        let wanted: Vec<_> = cpus.map(|of| [of.cpu, of.busy_ns, of.idle_ns]).collect();
        assert_eq!(found, wanted);
    }
}

#[test]
fn processes_and_cpus_are_those_of_the_report() {
    let mut made = busy("processes", 24, 300);
    let path = made.finish().to_owned();
    let (session, report) = (session(&[&path]), report(&path));
    let named = rows(&session, "select pid, process from processes order by pid").unwrap();
    let named: Vec<_> = named
        .iter()
        .map(|row| {
            (
                number(row, "pid"),
                row["process"].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    assert_eq!(
        named,
        [(1, "program-1".to_owned()), (2, "program-2".to_owned())]
    );
    let cpus = rows(
        &session,
        "select cpu, events, begin_ns, end_ns from cpus order by cpu",
    );
    let cpus = cpus.unwrap();
    let numbers: Vec<_> = cpus.iter().map(|row| number(row, "cpu")).collect();
    let wanted: Vec<_> = report.cpus.iter().map(|of| of.cpu).collect();
    assert_eq!(numbers, wanted);
    let events: u64 = cpus.iter().map(|row| number(row, "events")).sum();
    assert_eq!(events, report.events);
    let end = cpus.iter().map(|row| number(row, "end_ns")).max();
    assert_eq!(end, report.end_ns.map(|end| end as u64));
}

#[test]
fn who_woke_and_who_held_are_those_of_the_spans() {
    let mut three = Three::new("who", 25, 600);
    for (place, path) in three.paths().into_iter().enumerate() {
        let (session, spans) = (session(&[&path]), spans(&path));
        let sums = |kind: SpanKind, of: usize| {
            let mut sums: BTreeMap<String, [u64; 3]> = BTreeMap::new();
            for (span, numbers) in spans.iter().filter(|(span, _)| span.kind == kind) {
                let mut key = serde_json::json!(numbers[of]).to_string();
                if kind == SpanKind::WakeLatency {
                    key += match span.waker {
                        Some(Waker::Thread(_)) => r#" "thread""#,
                        Some(Waker::Interrupt) => r#" "interrupt""#,
                        _ => " null",
                    };
                }
                let sum = sums.entry(key).or_default();
                *sum = [sum[0] + 1, sum[1] + span.nanos(), sum[2].max(span.nanos())];
            }
            sums
        };
        let columns = ["wakes", "latency_ns", "longest_ns"];
        let wakers = ask(&session, "wakers", &[]);
        let woken = sums(SpanKind::WakeLatency, 2);
        assert!(woken.len() > 1, "{woken:?}");
        assert_eq!(by(&wakers, &["waker_tid", "waker"], columns), woken);
        let columns = ["waits", "waited_ns", "longest_ns"];
        let owners = ask(&session, "lock-owners", &[]);
        let waited = sums(SpanKind::LockWait, 1);
        assert_eq!(waited.is_empty(), place == 2);
        assert_eq!(by(&owners, &["owner_tid"], columns), waited);
        let name = ["ui-1", "ui-1", "ui-server"][place];
        assert!(
            wakers.iter().any(|row| row["waker_name"] == name),
            "{wakers:?}"
        );
    }
}

#[test]
fn the_longest_are_the_longest() {
    let mut three = Three::new("longest", 26, 600);
    for (place, path) in three.paths().into_iter().enumerate() {
        let (session, report) = (session(&[&path]), report(&path));
        let spans = spans(&path);
        for (question, kind) in [
            ("longest-syscalls", SpanKind::SystemCall),
            ("longest-interrupts", SpanKind::Interrupt),
            ("longest-lock-waits", SpanKind::LockWait),
            ("longest-off-cpu", SpanKind::OffCpu),
        ] {
            let of_kind = spans.iter().filter(|(span, _)| span.kind == kind);
            let mut wanted: Vec<_> = of_kind.map(|(span, _)| span.nanos()).collect();
            wanted.sort_unstable_by(|a, b| b.cmp(a));
            wanted.truncate(20);
            let found = ask(&session, question, &[]);
            let found: Vec<_> = found.iter().map(|row| number(row, "duration_ns")).collect();
            assert_eq!(found, wanted, "{question}");
            let has_none = place == 2 && kind == SpanKind::LockWait;
            assert_eq!(found.len(), if has_none { 0 } else { 20 }, "{question}");
        }
        let longest = report
            .interrupts
            .iter()
            .filter_map(|of| of.durations.max_ns)
            .max();
        let found = ask(&session, "longest-interrupts", &[]);
        assert_eq!(found[0]["duration_ns"].as_u64(), longest);
    }
}

#[test]
fn failed_calls_are_those_of_the_report() {
    let mut three = Three::new("failed", 27, 400);
    for path in three.paths() {
        let (session, report) = (session(&[&path]), report(&path));
        let mut found: BTreeMap<String, u64> = BTreeMap::new();
        for row in ask(&session, "failed-syscalls", &[]) {
            let key = format!("{} {}", row["number"], row["name"]);
            *found.entry(key).or_default() += number(&row, "failed");
        }
        let calls = report.system_calls.iter().filter(|of| of.errors > 0);
        let key = |of: &kymo_analysis::SystemCall| {
            use serde_json::json;
            format!("{} {}", json!(of.id), json!(of.name))
        };
        let wanted: BTreeMap<String, u64> = calls.map(|of| (key(of), of.errors)).collect();
        assert!(!wanted.is_empty());
        assert_eq!(found, wanted);
    }
}

#[test]
fn times_of_processes_are_those_of_the_spans() {
    let mut three = Three::new("process-time", 30, 400);
    for (place, path) in three.paths().into_iter().enumerate() {
        let (session, trace) = (session(&[&path]), Trace::open(&path).unwrap());
        let (map, mut machine) = (trace.map(), Machine::new());
        let mut wanted: BTreeMap<String, [u64; 3]> = BTreeMap::new();
        let mut threads: BTreeSet<(String, u64)> = BTreeSet::new();
        let mut reader = map.read();
        while let Some(item) = reader.next() {
            machine.add(&item);
            let changes = machine.changes().iter();
            let spans = changes.filter_map(|of| Span::of(of, &machine));
            for span in spans.filter(|span| span.kind == SpanKind::OnCpu) {
                let thread = span
                    .thread
                    .and_then(|thread| machine.thread(thread))
                    .unwrap();
                let pid = serde_json::json!(thread.pid).to_string();
                let sum = wanted.entry(pid.clone()).or_default();
                let is_new = threads.insert((pid, thread.tid));
                *sum = [
                    sum[0] + u64::from(is_new),
                    sum[1] + 1,
                    sum[2] + span.nanos(),
                ];
            }
        }
        // Only LTTng's trace says which process a thread is of.
        assert_eq!(wanted.len() > 1, place == 2, "{wanted:?}");
        let found = ask(&session, "process-time", &[]);
        assert_eq!(
            by(&found, &["pid"], ["threads", "slices", "on_cpu_ns"]),
            wanted
        );
    }
}

#[test]
fn counts_over_time_are_those_of_the_events() {
    let mut three = Three::new("over-time", 28, 400);
    for path in three.paths() {
        let (session, step) = (session(&[&path]), 5_000);
        let mut wanted: BTreeMap<u64, u64> = BTreeMap::new();
        for row in crate::brute::all(&path) {
            *wanted.entry(row.ns as u64 / step * step).or_default() += 1;
        }
        let found = ask(&session, "events-over-time", &[("step", "5us")]);
        let found: BTreeMap<u64, u64> = found
            .iter()
            .map(|row| (number(row, "from_ns"), number(row, "events")))
            .collect();
        assert_eq!(found, wanted);
        assert!(found.len() > 10);
    }
}

#[test]
fn values_are_those_of_the_counters() {
    let mut three = Three::new("values", 36, 400);
    for (place, path) in three.paths().into_iter().enumerate() {
        let session = session(&[&path]);
        let wanted = counters(&path);
        let found = ask(&session, "counters", &[]);
        let found: BTreeMap<String, _> = found
            .iter()
            .map(|row| {
                let [least, greatest, last] =
                    ["least", "greatest", "last"].map(|name| row[name].as_i64().unwrap());
                let name = row["name"].as_str().unwrap().to_owned();
                (name, (number(row, "changes"), least, greatest, last))
            })
            .collect();
        let of_threads = found.keys().filter(|name| name.ends_with(": priority"));
        assert!(of_threads.count() > 1, "{found:?}");
        let of_all = found
            .into_iter()
            .filter(|(name, _)| name.starts_with("counter "));
        assert_eq!(of_all.collect::<BTreeMap<_, _>>(), wanted);
        assert_eq!(wanted.len(), if place == 2 { 0 } else { 2 });
    }
}

/// Each counter's number of values, and the least, the greatest and the last of them.
fn counters(path: &Path) -> BTreeMap<String, (u64, i64, i64, i64)> {
    let trace = Trace::open(path).unwrap();
    let (map, mut values) = (trace.map(), BTreeMap::new());
    let mut reader = map.read();
    while let Some(item) = reader.next() {
        if let ItemRef::Event(event) = &item
            && event.name() == "counter"
        {
            let id = event.field("id").unwrap().as_u64().unwrap();
            let value = event.field("value").unwrap().as_i64().unwrap();
            let of = values.entry(format!("counter {id}"));
            let of = of.or_insert((0, i64::MAX, i64::MIN, 0));
            *of = (of.0 + 1, of.1.min(value), of.2.max(value), value);
        }
    }
    values
}

/// How long threads ran while an interrupt was handled on another CPU: by `overlap`, and by loops.
#[test]
fn spans_of_two_tables_overlap() {
    let mut made = busy("overlap", 29, 60);
    let path = made.finish().to_owned();
    let (session, spans) = (session(&[&path]), spans(&path));
    let of = |kind: SpanKind| {
        spans
            .iter()
            .map(|(span, _)| span)
            .filter(move |of| of.kind == kind)
    };
    let mut wanted = 0;
    for slice in of(SpanKind::OnCpu) {
        for irq in of(SpanKind::Interrupt).filter(|irq| irq.cpu != slice.cpu) {
            let from = slice.begin_ns.max(irq.begin_ns);
            wanted += (slice.end_ns.min(irq.end_ns) - from).max(0);
        }
    }
    let sql = "select sum(overlap(s.begin_ns, s.end_ns, i.begin_ns, i.end_ns)) as ns \
               from slices s join interrupts i on s.cpu <> i.cpu";
    assert!(wanted > 0);
    assert_eq!(rows(&session, sql).unwrap()[0]["ns"].as_i64(), Some(wanted));
    let sql = "select overlap(1, 5, 3, 9) as some, overlap(1, 2, 3, 4) as none, \
               overlap(1, 2, null, 4) as unknown";
    let found = rows(&session, sql).unwrap();
    assert_eq!(
        found[0],
        serde_json::json!({"some": 2, "none": 0, "unknown": null})
    );
}
