//! The demo kernel's own counters: in its memory, in its trace, and in what is made of that.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use kymo_e2e::demo::{ARCHES, Arch};
use kymo_e2e::{kymo, recording, run, scratch};
use serde_json::Value;

/// Records the kernel; returns what it printed of its counters at its end, by name. (It compares
/// them with its run queues by itself, and panics where they differ.)
fn record(arch: &Arch, out: &Path, append: &str) -> BTreeMap<String, String> {
    let mut command = recording(&arch.kernel(), out);
    let output = run(
        command.args(["--timeout", "120", "--cpus", "4", "--append", append]),
        0,
    );
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines = text
        .lines()
        .filter_map(|line| line.trim_end().strip_prefix("COUNTER "));
    let counts = lines.filter_map(|line| line.split_once(": "));
    counts
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn report(trace: &Path) -> Value {
    let output = run(kymo(["report", "--json"]).arg(trace), 0);
    serde_json::from_slice(&output.stdout).unwrap()
}

/// V-12, V-13, N-15: what the trace has last is what the memory has, and that is what happened.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn the_last_snapshot_is_what_memory_has() {
    for arch in &ARCHES {
        let out = scratch(&format!("counters-{}", arch.name)).join("trace");
        let memory = record(arch, &out, "workload=all rounds=60 counters_us=2000");
        let report = report(&out);
        let counters = report["own_counters"].as_array().unwrap();
        assert_eq!(counters.len(), 8, "{counters:#?}");
        let mut values = BTreeMap::new();
        for counter in counters {
            let name = counter["name"].as_str().unwrap();
            assert_eq!(counter["value"].to_string(), memory[name], "{name}");
            values.insert(name, counter["value"].as_i64().unwrap());
            let grows = counter["kind"] == "counter" && values[name] > 0;
            assert_eq!(
                counter["per_second"]
                    .as_f64()
                    .is_some_and(|rate| rate > 0.0),
                grows
            );
        }
        // V-13: all that was put in was taken out, or is there.
        let ready = values["run_queue_threads"];
        assert_eq!(
            values["run_queue_enqueues"] - values["run_queue_dequeues"],
            ready
        );
        assert!(
            values["run_queue_enqueues"] > 500 && ready >= 0,
            "{values:?}"
        );
        let [histogram] = report["own_histograms"].as_array().unwrap().as_slice() else {
            panic!("{}", report["own_histograms"])
        };
        assert_eq!(
            histogram["count"].as_i64().unwrap(),
            values["run_queue_enqueues"]
        );
        let printed = memory["run_queue_length"].split_once(" values, ").unwrap();
        assert_eq!(histogram["count"].to_string(), printed.0);
        let sum: f64 = printed.1.strip_suffix(" in all").unwrap().parse().unwrap();
        let mean = sum / histogram["count"].as_f64().unwrap();
        assert!((histogram["mean"].as_f64().unwrap() - mean).abs() < 1e-9);
        // V-12: the events of the trace, counted one by one, since nothing was lost.
        let events = run(kymo(["dump", "--count"]).arg(&out), 0);
        let events = String::from_utf8(events.stdout).unwrap();
        for (name, event) in [
            ("context_switches", "sched_switch"),
            ("system_calls", "sys_enter"),
            ("page_faults", "page_fault"),
            ("interrupts", "irq_handler_entry"),
            ("ipc_messages", "ipc_send"),
        ] {
            assert_eq!(
                total(&events, event),
                values[name],
                "{event} on {}:\n{events}",
                arch.name
            );
        }
    }
}

/// The count of an event in the table of `kymo dump --count`.
fn total(table: &str, event: &str) -> i64 {
    let of = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let at = words.iter().position(|word| *word == event)?;
        let numbers = words.iter().enumerate().filter(|(index, _)| *index != at);
        let mut numbers = numbers.filter_map(|(_, word)| word.replace(',', "").parse::<i64>().ok());
        numbers.next_back()
    };
    table.lines().find_map(of).unwrap_or(0)
}

/// N-15: the tables show names, rates and the histogram; babeltrace2 shows the names.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn counters_have_names_everywhere() {
    let arch = &ARCHES[0];
    let out = scratch("counters-names").join("trace");
    let memory = record(arch, &out, "workload=ipc rounds=60");
    let text = run(kymo(["report"]).arg(&out), 0).stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("\nThe kernel's own counters\n"), "{text}");
    let line = text
        .lines()
        .find(|line| line.starts_with("context_switches "))
        .unwrap();
    // One record of each CPU is no rate.
    assert!(line.contains(" switches           -  "), "{line}");
    assert!(text.contains("\nrun_queue_length: "), "{text}");
    assert!(
        text.lines()
            .any(|line| line.starts_with("1 ") && line.ends_with('#')),
        "{text}"
    );
    let lines = run(Command::new("babeltrace2").arg(&out), 0).stdout;
    let lines = String::from_utf8(lines).unwrap();
    let named = |line: &&str| line.contains("counter = ( \"run_queue_threads\" : container = 7 )");
    assert_eq!(lines.lines().filter(named).count(), 4);
    // A track for each counter of each CPU, which ends with the last snapshot.
    let json = out.with_extension("json");
    run(kymo(["export", "--to", "chrome"]).arg(&out).arg(&json), 0);
    let json: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let events = json["traceEvents"]
        .as_array()
        .unwrap_or_else(|| json.as_array().unwrap());
    let (mut enqueues, name) = (BTreeMap::new(), "run_queue_enqueues, cpu");
    for event in events.iter().filter(|event| event["ph"] == "C") {
        if let Some(cpu) = event["name"].as_str().unwrap().strip_prefix(name) {
            enqueues.insert(cpu.to_owned(), event["args"]["value"].as_i64().unwrap());
        }
    }
    let last: i64 = enqueues.values().sum();
    assert_eq!(
        (enqueues.len(), last.to_string()),
        (4, memory["run_queue_enqueues"].clone())
    );
}
