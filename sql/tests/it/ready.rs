//! The ready questions, beside the report of `kymo-analysis`, which `kymo report --json` prints.

use std::collections::BTreeMap;
use std::path::Path;

use kymo_analysis::{Analysis, Report};
use kymo_ctf::Trace;
use kymo_sql::{Session, questions};
use serde_json::Value;

use crate::made::{asked, busy, session};

pub fn report(path: &Path) -> Report {
    let trace = Trace::open(path).unwrap();
    let (map, mut analysis) = (trace.map(), Analysis::new(trace.metadata()));
    let mut reader = map.read();
    while let Some(item) = reader.next() {
        analysis.add(&item);
    }
    analysis.finish()
}

pub fn ask(session: &Session, name: &str, given: &[(&str, &str)]) -> Vec<Value> {
    let question = questions()
        .into_iter()
        .find(|question| question.name == name)
        .unwrap();
    let values = question.parameters.iter().map(|of| {
        let given = given.iter().find(|(name, _)| *name == of.name);
        (
            of.name.to_owned(),
            given.map_or(of.default, |(_, value)| value).to_owned(),
        )
    });
    asked(session, question.sql, &values.collect::<Vec<_>>()).unwrap()
}

/// The numbers of these columns, by the key column.
fn by(rows: &[Value], key: &str, columns: [&str; 3]) -> BTreeMap<u64, [u64; 3]> {
    let each = rows.iter().map(|row| {
        let numbers = columns.map(|name| row[name].as_u64().unwrap());
        (row[key].as_u64().unwrap(), numbers)
    });
    each.collect()
}

#[test]
fn questions_have_the_figures_of_the_report() {
    for seed in [5, 6, 7] {
        let mut made = busy("ready", seed, 400);
        let path = made.finish().to_owned();
        let (session, report) = (session(&[&path]), report(&path));

        let found = by(
            &ask(&session, "syscalls", &[]),
            "number",
            ["calls", "total_ns", "longest_ns"],
        );
        let wanted = report.system_calls.iter().map(|of| {
            let lasted = &of.durations;
            (
                of.id.unwrap(),
                [lasted.count, lasted.total_ns, lasted.max_ns.unwrap()],
            )
        });
        assert_eq!(found, wanted.collect());
        assert!(!found.is_empty());
        let failed: u64 = ask(&session, "syscalls", &[])
            .iter()
            .map(|row| row["failed"].as_u64().unwrap())
            .sum();
        assert_eq!(
            failed,
            report.system_calls.iter().map(|of| of.errors).sum::<u64>()
        );

        let found = ask(&session, "worst-wakes", &[]);
        let column = |name: &str| {
            let cells = found.iter().map(|row| row[name].as_u64().unwrap());
            cells.collect::<Vec<_>>()
        };
        let wake_latency = report.wake_latency.as_ref().unwrap();
        let worst = &wake_latency.worst;
        let latencies = worst.iter().map(|wake| wake.latency_ns);
        assert_eq!(column("latency_ns"), latencies.collect::<Vec<_>>());

        let wakes: u64 = ask(&session, "wake-latency", &[])
            .iter()
            .map(|row| row["wakes"].as_u64().unwrap())
            .sum();
        assert_eq!(wakes, wake_latency.durations.count);

        let counts = ask(&session, "event-counts", &[]);
        let all: u64 = counts
            .iter()
            .map(|row| row["events"].as_u64().unwrap())
            .sum();
        let count = Trace::open(&path).unwrap();
        let map = count.map();
        let (mut reader, mut wanted) = (map.read(), 0);
        while let Some(item) = reader.next() {
            wanted += u64::from(matches!(item, kymo_ctf::ItemRef::Event(_)));
        }
        assert_eq!(all, wanted);
    }
}

/// The spans of the model, counted by hand.
#[test]
fn questions_have_the_figures_of_the_spans() {
    use kymo_machine::{Machine, Span, SpanKind};
    let mut made = busy("spans", 8, 500);
    let path = made.finish().to_owned();
    let session = session(&[&path]);
    let trace = Trace::open(&path).unwrap();
    let (map, mut machine) = (trace.map(), Machine::new());
    let mut sums: BTreeMap<(&str, u64), [u64; 3]> = BTreeMap::new();
    let mut reader = map.read();
    while let Some(item) = reader.next() {
        machine.add(&item);
        for span in machine
            .changes()
            .iter()
            .filter_map(|of| Span::of(of, &machine))
        {
            let (question, key) = match span.kind {
                SpanKind::OnCpu => ("cpu-time", span.tid),
                SpanKind::OffCpu => ("off-cpu", span.tid),
                SpanKind::LockWait => ("lock-waits", span.object),
                SpanKind::LockHold => ("lock-holds", span.object),
                SpanKind::Interrupt => ("interrupts", span.object),
                _ => continue,
            };
            let sum = sums.entry((question, key.unwrap())).or_default();
            *sum = [sum[0] + 1, sum[1] + span.nanos(), sum[2].max(span.nanos())];
        }
    }
    let columns = [
        ("cpu-time", "tid", ["slices", "on_cpu_ns", "longest_ns"]),
        ("off-cpu", "tid", ["times", "off_cpu_ns", "longest_ns"]),
        ("lock-waits", "number", ["waits", "waited_ns", "longest_ns"]),
        ("lock-holds", "number", ["holds", "held_ns", "longest_ns"]),
        (
            "interrupts",
            "number",
            ["interrupts", "total_ns", "longest_ns"],
        ),
    ];
    for (name, key, columns) in columns {
        let found = by(&ask(&session, name, &[]), key, columns);
        let wanted = sums.iter().filter(|((of, _), _)| *of == name);
        let wanted: BTreeMap<u64, [u64; 3]> = wanted.map(|((_, key), sum)| (*key, *sum)).collect();
        assert!(!wanted.is_empty(), "{name}");
        assert_eq!(found, wanted, "{name}");
    }
    // A parameter takes some of the rows.
    let all = ask(&session, "cpu-time", &[]);
    let ui = ask(&session, "cpu-time", &[("thread", "ui*")]);
    let is_ui = |row: &&Value| {
        row["thread"]
            .as_str()
            .is_some_and(|name| name.starts_with("ui"))
    };
    assert_eq!(ui, all.iter().filter(is_ui).cloned().collect::<Vec<_>>());
    assert!(!ui.is_empty() && ui.len() < all.len());
}

#[test]
fn losses_are_rows() {
    let mut made = busy("losses", 9, 20);
    made.lose(0, 17, 1_000_000);
    made.lose(1, 4, 1_000_000);
    let path = made.finish().to_owned();
    let session = session(&[&path]);
    let found = ask(&session, "losses", &[]);
    let lost: Vec<_> = found
        .iter()
        .map(|row| (row["cpu"].clone(), row["lost"].clone()))
        .collect();
    assert_eq!(lost, [(0.into(), 17.into()), (1.into(), 4.into())]);
}

#[test]
fn events_of_a_thread_are_those_of_the_column() {
    let mut made = busy("events-of", 10, 200);
    let path = made.finish().to_owned();
    let session = session(&[&path]);
    let found = ask(&session, "events-of", &[("thread", "ui-2")]);
    let sql = "select count(*) as n from events where tid = 2";
    let wanted = crate::made::rows(&session, sql).unwrap()[0]["n"]
        .as_u64()
        .unwrap();
    assert!(wanted > 0);
    assert_eq!(found.len() as u64, wanted);
}
