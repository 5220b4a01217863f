//! The demo kernel's own counters: in its memory, in its trace, and in what is made of that.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use kymo_capture::locate;
use kymo_ctf::{Item, Trace};
use kymo_e2e::demo::{ARCHES, Arch, LEDGER, ledger, sum};
use kymo_e2e::{babeltrace, kymo, patience, recording, run, scratch, wait_until};
use serde_json::Value;

/// Records the kernel on this many harts; returns what it printed of its counters at its end, by
/// name. (It compares them with its run queues by itself, and panics where they differ.)
fn record(arch: &Arch, out: &Path, harts: usize, append: &str) -> BTreeMap<String, String> {
    let (mut command, harts) = (recording(&arch.kernel(), out), harts.to_string());
    command.args(["--timeout", patience(), "--cpus", &harts]);
    let output = run(command.args(["--append", append]), 0);
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
        let memory = record(arch, &out, HARTS, "workload=all rounds=60 counters_us=2000");
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
        for (name, event) in COUNTED {
            assert_eq!(
                total(&events, event),
                values[name],
                "{event} on {}:\n{events}",
                arch.name
            );
        }
    }
}

/// V-13: a thread that is suspended while it is in a run queue is taken out of it, and counted.
///
/// One hart runs the thread that suspends, so the other is in the queue each time.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_thread_that_is_suspended_leaves_its_queue() {
    let arch = &ARCHES[0];
    let out = scratch("counters-suspended").join("trace");
    let memory = record(arch, &out, 1, "workload=switch rounds=60");
    let (mut length, mut put_in, mut taken_out) = (0, 0, 0);
    // Whether the last event suspended a thread, and how many of these left the queue with it.
    let (mut suspended, mut left) = (false, 0);
    for item in Trace::open(&out).unwrap().events() {
        let Item::Event(event) = item.unwrap() else {
            panic!("something was lost")
        };
        if event.name() == "sched_run_queue" {
            let new = event.fields.get("len").unwrap().as_u64().unwrap();
            if new > length {
                put_in += new - length;
            } else {
                taken_out += length - new;
                left += u64::from(suspended);
            }
            length = new;
        }
        suspended = event.name() == "thread_suspend";
    }
    assert!(left >= 3, "{left} threads left their queue suspended");
    let counted = ["enqueues", "dequeues", "threads"]
        .map(|what| memory[format!("run_queue_{what}").as_str()].clone());
    assert_eq!(
        counted,
        [put_in, taken_out, length].map(|count| count.to_string())
    );
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
    let memory = record(arch, &out, HARTS, "workload=ipc rounds=60");
    let text = run(kymo(["report"]).arg(&out), 0).stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("\nThe kernel's own counters\n"), "{text}");
    let line = text
        .lines()
        .find(|line| line.starts_with("context_switches "))
        .unwrap();
    // One record of each CPU is no rate: the table has no column for it.
    let mut heads = text.lines().filter(|line| line.starts_with("counter  "));
    let head = heads.next().unwrap();
    assert!(
        line.contains(" switches ") && !head.contains("per second"),
        "{text}"
    );
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

/// The events that the kernel's ledger counts where a counter counts.
const COUNTED: [(&str, &str); 5] = [
    ("context_switches", "sched_switch"),
    ("system_calls", "sys_enter"),
    ("page_faults", "page_fault"),
    ("interrupts", "irq_handler_entry"),
    ("ipc_messages", "ipc_send"),
];
const HARTS: usize = 4;

/// A machine that runs the demo kernel until it is dropped.
struct Machine {
    child: Child,
    arch: &'static Arch,
    folder: PathBuf,
}

impl Machine {
    /// Starts it, and waits until its kernel has traced this many operations.
    fn start(
        name: &str,
        arch: &'static Arch,
        append: &str,
        more: &[&str],
        operations: u64,
    ) -> Self {
        let folder = scratch(name);
        let [program, words @ ..] = &arch.qemu(Some(&folder.join("ram")))[..] else {
            panic!("no program")
        };
        let mut command = Command::new(program);
        command.args(words).args(["-smp", &HARTS.to_string()]);
        command.args(["-append", append]).args(more);
        command.arg("-kernel").arg(arch.kernel());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().unwrap();
        let machine = Machine {
            child,
            arch,
            folder,
        };
        let ram = machine.ram();
        let traces = || {
            let found = locate::segments(&ram, None).and_then(|all| locate::region(&ram, &all));
            found.is_ok() && sum(&ledger(arch, &ram, LEDGER, HARTS)) >= operations
        };
        wait_until(traces);
        machine
    }

    fn ram(&self) -> PathBuf {
        self.folder.join("ram")
    }

    /// What the kernel's ledger has, by the name of the counter that counts the same.
    fn counted(&self) -> BTreeMap<&'static str, i64> {
        let harts = ledger(self.arch, &self.ram(), LEDGER, HARTS);
        let of = |event| {
            harts
                .iter()
                .filter_map(move |hart| hart.get(event))
                .sum::<u64>()
        };
        let counted = COUNTED.map(|(name, event)| (name, of(event).cast_signed()));
        counted.into()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Checks the counters of a trace: those that the ledger has too lie between two readings of it,
/// each hart being anywhere between counting in the one and in the other; those of run queues agree
/// with each other.
fn lie_between(trace: &Path, before: &BTreeMap<&str, i64>, after: &BTreeMap<&str, i64>) {
    babeltrace::compare(trace);
    run(kymo(["check"]).arg(trace), 0);
    let report = report(trace);
    let mut values = BTreeMap::new();
    for counter in report["own_counters"].as_array().unwrap() {
        let name = counter["name"].as_str().unwrap();
        assert_eq!(counter["cpus"].as_object().unwrap().len(), HARTS, "{name}");
        values.insert(name, counter["value"].as_i64().unwrap());
    }
    let near = HARTS as i64;
    for (name, _) in COUNTED {
        let between = before[name] - near..=after[name] + near;
        assert!(
            between.contains(&values[name]),
            "{name}: {values:?}, {between:?}"
        );
    }
    let agree =
        |one: i64, other: i64| (one - other).abs() <= near + after_all(after) - after_all(before);
    let [enqueues, dequeues, threads] = ["enqueues", "dequeues", "threads"]
        .map(|what| values[format!("run_queue_{what}").as_str()]);
    assert!(agree(enqueues - dequeues, threads), "{values:?}");
    let histogram = &report["own_histograms"][0];
    assert!(
        agree(histogram["count"].as_i64().unwrap(), enqueues),
        "{histogram}"
    );
}

fn after_all(counted: &BTreeMap<&str, i64>) -> i64 {
    counted.values().sum()
}

/// N-15: a kernel that has recorded no counter leaves them in its memory, and so in the trace.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_killed_machines_trace_has_what_its_memory_has() {
    for arch in &ARCHES {
        let name = format!("counters-killed-{}", arch.name);
        let append = "workload=all rounds=1000000 kymo=start,rolling";
        let mut machine = Machine::start(&name, arch, append, &[], 20_000);
        machine.child.kill().unwrap();
        machine.child.wait().unwrap();
        let counted = machine.counted();
        let out = machine.folder.join("trace");
        run(
            kymo(["recover"]).arg(machine.ram()).arg("--out").arg(&out),
            0,
        );
        lie_between(&out, &counted, &counted);
        // Every reader sees them.
        let events = run(kymo(["dump", "--count"]).arg(&out), 0).stdout;
        let events = String::from_utf8(events).unwrap();
        assert_eq!(total(&events, "kymo_counter"), 7 * HARTS as i64, "{events}");
        let json = out.with_extension("json");
        run(kymo(["export", "--to", "chrome"]).arg(&out).arg(&json), 0);
        let text = fs::read_to_string(json).unwrap();
        assert!(text.contains("run_queue_enqueues, cpu3"));
    }
}

/// N-15: what is attached to has the newest values, behind those that the kernel has recorded.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn an_attached_trace_ends_with_what_memory_has() {
    let arch = &ARCHES[0];
    let socket = std::env::temp_dir().join(format!("kymo-counters-{}", std::process::id()));
    let qmp = format!("unix:{},server=on,wait=off", socket.display());
    let append = "workload=all rounds=1000000 kymo=start,rolling counters_us=1000000";
    let machine = Machine::start("counters-attach", arch, append, &["-qmp", &qmp], 20_000);
    let (ram, socket) = (machine.ram(), socket.display().to_string());
    let ram = ram.to_str().unwrap();
    for (out, options) in [
        ("by-file", vec![ram, "--duration", "0.2"]),
        ("by-socket", vec!["--qmp", &socket, "--duration", "0.2"]),
        ("copy", vec!["--qmp", &socket, "--snapshot"]),
    ] {
        let (before, out) = (machine.counted(), machine.folder.join(out));
        run(kymo(["attach"]).args(options).arg("--out").arg(&out), 0);
        lie_between(&out, &before, &machine.counted());
    }
    let _ = fs::remove_file(socket);
}
