//! The ready questions, beside the report of `kymo-analysis`, which `kymo report --json` prints.

use std::collections::BTreeMap;
use std::path::Path;

use kymo_analysis::{Analysis, Report};
use kymo_ctf::Trace;
use kymo_sql::{Session, questions};
use serde_json::{Value, json};

use crate::made::{Three, asked, session};

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

/// The numbers of these columns, by the key columns as text.
pub fn by(rows: &[Value], key: &[&str], columns: [&str; 3]) -> BTreeMap<String, [u64; 3]> {
    let mut all = BTreeMap::new();
    for row in rows {
        let numbers = columns.map(|name| row[name].as_u64().unwrap());
        let cells = key.iter().map(|name| row[*name].to_string());
        let key = cells.collect::<Vec<_>>().join(" ");
        let before = all.insert(key, numbers);
        assert_eq!(before, None, "two rows have the same key: {row}");
    }
    all
}

#[test]
fn calls_and_wakes_are_those_of_the_report() {
    let mut three = Three::new("ready", 5, 400);
    for path in three.paths() {
        let (session, report) = (session(&[&path]), report(&path));
        let rows = ask(&session, "syscalls", &[]);
        let columns = ["calls", "total_ns", "longest_ns"];
        let found = by(&rows, &["number", "name"], columns);
        let wanted = report.system_calls.iter().map(|of| {
            let key = format!("{} {}", json!(of.id), json!(of.name));
            let lasted = &of.durations;
            (key, [lasted.count, lasted.total_ns, lasted.max_ns.unwrap()])
        });
        assert_eq!(found, wanted.collect());
        assert!(!found.is_empty());
        let failed: u64 = rows.iter().map(|row| row["failed"].as_u64().unwrap()).sum();
        let wanted = report.system_calls.iter().map(|of| of.errors);
        assert_eq!(failed, wanted.sum::<u64>());

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
    }
}

#[test]
fn event_counts_are_those_of_the_events() {
    let mut three = Three::new("event-counts", 6, 200);
    for path in three.paths() {
        let session = session(&[&path]);
        let trace = Trace::open(&path).unwrap();
        let (map, mut wanted) = (trace.map(), BTreeMap::new());
        let mut reader = map.read();
        while let Some(item) = reader.next() {
            if let kymo_ctf::ItemRef::Event(event) = item {
                *wanted.entry(event.name().to_owned()).or_insert(0_u64) += 1;
            }
        }
        let found = ask(&session, "event-counts", &[]);
        let found = found.iter().map(|row| {
            let name = row["name"].as_str().unwrap().to_owned();
            (name, row["events"].as_u64().unwrap())
        });
        assert_eq!(found.collect::<BTreeMap<_, _>>(), wanted);
    }
}

/// The spans of the model, counted by hand.
#[test]
fn questions_have_the_figures_of_the_spans() {
    let mut three = Three::new("spans", 8, 500);
    for (place, path) in three.paths().into_iter().enumerate() {
        let session = session(&[&path]);
        let sums = sums(&path);
        for (name, key, columns) in QUESTIONS_OF_SPANS {
            let found = by(&ask(&session, name, &[]), key, columns);
            let wanted = sums.iter().filter(|((of, _), _)| *of == name);
            let wanted: BTreeMap<String, [u64; 3]> =
                wanted.map(|((_, key), sum)| (key.clone(), *sum)).collect();
            // LTTng records no locks.
            assert_eq!(
                wanted.is_empty(),
                place == 2 && name.starts_with("lock"),
                "{name}"
            );
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
}

/// Questions that sum up spans: the columns of their key, and their numbers.
const QUESTIONS_OF_SPANS: [(&str, &[&str], [&str; 3]); 5] = [
    ("cpu-time", &["tid"], ["slices", "on_cpu_ns", "longest_ns"]),
    ("off-cpu", &["tid"], ["times", "off_cpu_ns", "longest_ns"]),
    (
        "lock-waits",
        &["number"],
        ["waits", "waited_ns", "longest_ns"],
    ),
    (
        "lock-holds",
        &["number"],
        ["holds", "held_ns", "longest_ns"],
    ),
    (
        "interrupts",
        &["number", "soft"],
        ["interrupts", "total_ns", "longest_ns"],
    ),
];

/// Number, sum and greatest of the spans of each question, by its key.
fn sums(path: &Path) -> BTreeMap<(&'static str, String), [u64; 3]> {
    use kymo_machine::{Machine, Named, Span, SpanKind};
    let trace = Trace::open(path).unwrap();
    let (map, mut machine) = (trace.map(), Machine::new());
    let mut sums: BTreeMap<(&str, String), [u64; 3]> = BTreeMap::new();
    let mut reader = map.read();
    while let Some(item) = reader.next() {
        machine.add(&item);
        let changes = machine.changes().iter();
        for span in changes.filter_map(|of| Span::of(of, &machine)) {
            let number = |number: Option<u64>| number.unwrap().to_string();
            let (question, key) = match span.kind {
                SpanKind::OnCpu => ("cpu-time", number(span.tid)),
                SpanKind::OffCpu => ("off-cpu", number(span.tid)),
                SpanKind::LockWait => ("lock-waits", number(span.object)),
                SpanKind::LockHold => ("lock-holds", number(span.object)),
                SpanKind::Interrupt => {
                    let Some(Named::Irq(line)) = span.of else {
                        panic!("an interrupt has no line");
                    };
                    let soft = u64::from(line.is_soft());
                    ("interrupts", format!("{} {soft}", number(span.object)))
                }
                _ => continue,
            };
            let sum = sums.entry((question, key)).or_default();
            *sum = [sum[0] + 1, sum[1] + span.nanos(), sum[2].max(span.nanos())];
        }
    }
    sums
}

#[test]
fn losses_are_those_of_the_report() {
    let mut three = Three::new("losses", 9, 20);
    three.lose();
    for (place, path) in three.paths().into_iter().enumerate() {
        let (session, report) = (session(&[&path]), report(&path));
        let mut wanted: BTreeMap<String, [u64; 3]> = BTreeMap::new();
        for loss in &report.losses.intervals {
            let key = format!("{} {}", json!(loss.cpu), json!(loss.kind));
            let [times, lost, _] = wanted.entry(key).or_default();
            (*times, *lost) = (*times + 1, *lost + loss.count);
        }
        wanted.values_mut().for_each(|of| of[2] = of[1]);
        let found = ask(&session, "losses", &[]);
        assert_eq!(
            by(&found, &["cpu", "kind"], ["losses", "lost", "lost"]),
            wanted
        );
        assert_eq!(wanted.len(), [2, 1, 0][place]);
    }
}

/// Its join keeps the threads, and not all events; the order spills to disk.
#[test]
fn events_of_all_threads_take_bounded_memory() {
    let mut made = crate::made::busy("bounded", 37, 60_000);
    let path = made.finish().to_owned();
    let traces = kymo_sql::Traces::open([&path]).unwrap();
    let limits = kymo_sql::Limits {
        memory: 36 << 20,
        threads: 2,
    };
    let session = Session::new(&traces, limits).unwrap();
    let found = ask(&session, "events-of", &[]);
    let all = crate::brute::all(&path).into_iter();
    let ran = all.filter(|row| row.tid.is_some()).map(|row| row.ns);
    let ns = found.iter().map(|row| row["ns"].as_i64().unwrap());
    assert!(ns.eq(ran));
    assert!(found.len() > 150_000);
}

#[test]
fn events_of_a_thread_are_those_in_which_it_ran() {
    let mut three = Three::new("events-of", 10, 200);
    let threads: [(&str, &[u64]); 3] = [("ui-2", &[2]), ("ui-2", &[2]), ("ui-server", &[101, 201])];
    for (path, (name, tids)) in three.paths().into_iter().zip(threads) {
        let session = session(&[&path]);
        let found = ask(&session, "events-of", &[("thread", name)]);
        let found: Vec<_> = found
            .iter()
            .map(|row| {
                let name = row["name"].as_str().unwrap().to_owned();
                (
                    row["ns"].as_i64().unwrap(),
                    row["cpu"].as_i64().unwrap(),
                    name,
                )
            })
            .collect();
        let all = crate::brute::all(&path).into_iter();
        let ran = all.filter(|row| row.tid.is_some_and(|tid| tids.contains(&tid)));
        let wanted: Vec<_> = ran.map(|row| (row.ns, row.cpu, row.name)).collect();
        assert!(wanted.len() > 10);
        assert_eq!(found, wanted);
    }
}
