//! ports/embassy on QEMU's mps2-an385, a Cortex-M3: what the application has counted itself is in
//! its trace, which leaves the machine through an RTT up-buffer.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use kymo_ctf::{Item, Trace, Value};
use kymo_e2e::{babeltrace, built, kymo, limited, patience, run, scratch};
use serde_json::Value as Json;

/// Boots an image, and records what it sends. Returns the trace and the console.
fn recorded(image: &Path, folder: &str) -> (PathBuf, String) {
    let folder = scratch(folder);
    let (ram, trace) = (folder.join("ram"), folder.join("trace"));
    File::create(&ram).unwrap().set_len(16 << 20).unwrap();
    let mut record = kymo(["record", "--timeout", patience(), "--rtt"]);
    record.arg(&ram).arg("--out").arg(&trace);
    record.stdout(Stdio::piped()).stderr(Stdio::piped());
    let record = record.spawn().unwrap();
    let mut qemu = limited("qemu-system-arm");
    qemu.args(["-M", "mps2-an385,memory-backend=ram", "-object"]);
    qemu.arg(format!(
        "memory-backend-file,id=ram,size=16M,share=on,mem-path={}",
        ram.display()
    ));
    qemu.args(["-display", "none", "-serial", "none", "-monitor", "none"]);
    qemu.args(["-semihosting-config", "enable=on,target=native", "-kernel"]);
    let console = run(qemu.arg(image), 0).stdout;
    let output = record.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(
        text.contains("the kernel has sent its whole trace"),
        "{text}"
    );
    assert!(text.contains("the kernel reports no event lost"), "{text}");
    (trace, String::from_utf8(console).unwrap())
}

/// The number behind `what` in a line of its own.
fn number(console: &str, what: &str) -> u64 {
    let line = console
        .lines()
        .find_map(|line| line.strip_prefix(what)?.strip_prefix(" = "));
    line.unwrap_or_else(|| panic!("no {what} in {console}"))
        .parse()
        .unwrap()
}

/// What a trace says of a task.
#[derive(Debug, Default)]
struct Task {
    name: String,
    created: u64,
    ended: u64,
    first_wakeups: u64,
    wakeups: u64,
    by_interrupt: u64,
    runs: u64,
    /// How often it left the CPU, by reason.
    left: BTreeMap<String, u64>,
}

fn task_of(tasks: &mut BTreeMap<u64, Task>, tid: u64) -> &mut Task {
    tasks.entry(tid).or_default()
}

/// The tasks by number, and the entries and exits of handlers by interrupt.
fn read(trace: &Path) -> (BTreeMap<u64, Task>, BTreeMap<u64, [u64; 2]>) {
    let mut tasks = BTreeMap::<u64, Task>::new();
    let mut handlers = BTreeMap::<u64, [u64; 2]>::new();
    for item in Trace::open(trace).unwrap().events() {
        let event = match item.unwrap() {
            Item::Event(event) => event,
            Item::Loss(loss) => panic!("{loss:?}"),
            _ => continue,
        };
        let field = |name: &str| event.fields.get(name).unwrap();
        let number = |name: &str| field(name).as_u64().unwrap();
        match event.name() {
            "sched_switch" => {
                task_of(&mut tasks, number("next_tid")).runs += 1;
                let left = &mut task_of(&mut tasks, number("prev_tid")).left;
                *left.entry(text(field("reason"))).or_default() += 1;
            }
            "sched_wakeup" => {
                let task = task_of(&mut tasks, number("tid"));
                task.wakeups += 1;
                task.by_interrupt += u64::from(number("waker_tid") == 0);
            }
            "sched_wakeup_new" => task_of(&mut tasks, number("tid")).first_wakeups += 1,
            "thread_create" => task_of(&mut tasks, number("tid")).created += 1,
            "thread_exit" => task_of(&mut tasks, number("tid")).ended += 1,
            "thread_name" => {
                task_of(&mut tasks, number("tid")).name = text(field("name"));
            }
            "irq_handler_entry" => handlers.entry(number("irq")).or_default()[0] += 1,
            "irq_handler_exit" => handlers.entry(number("irq")).or_default()[1] += 1,
            _ => {}
        }
    }
    (tasks, handlers)
}

/// The label of an enumeration, or a text.
fn text(value: &Value) -> String {
    match value {
        Value::Enum { labels, .. } => labels[0].to_string(),
        other => other.as_str().unwrap().to_owned(),
    }
}

/// Alarms and the urgent executor: interrupts 9 and 20, which are exceptions 25 and 36.
const ALARM: u64 = 25;
const URGENT: u64 = 36;

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn embassys_tasks_run_as_often_as_they_are_polled() {
    let (trace, console) = recorded(&built("KYMO_PORT_EMBASSY"), "port-embassy");
    assert_eq!(number(&console, "dropped frames"), 0);
    let (tasks, handlers) = read(&trace);
    let of_name = |name: &str| {
        let mut of = tasks.values().filter(|task| task.name == name);
        let task = of.next().unwrap_or_else(|| panic!("no {name}"));
        assert!(of.next().is_none(), "{name}");
        task
    };
    for name in ["sensor", "filter", "worker 1", "worker 2", "urgent"] {
        let task = of_name(name);
        let left = |reason: &str| task.left.get(reason).copied().unwrap_or(0);
        let polls = number(&console, &format!("polls {name}"));
        // After an interruption it goes on: that is the same poll.
        assert_eq!(task.runs - left("Preempted"), polls, "{name}: {task:?}");
        // Something has woken it before each poll: before it stopped, or later.
        let woken = task.first_wakeups + task.wakeups + left("Yielded");
        assert_eq!(woken, polls, "{name}: {task:?}");
        assert_eq!(
            (task.created, task.first_wakeups, task.ended),
            (1, 1, 1),
            "{name}"
        );
        assert_eq!(left("Ended"), 1, "{name}");
    }
    for name in ["worker 1", "worker 2"] {
        let left = &of_name(name).left;
        // Each round has an interruption by the urgent task, and a yield.
        assert!(left["Preempted"] >= 40, "{left:?}");
        assert_eq!(left["Yielded"], 40, "{left:?}");
    }
    // The alarm wakes the sensor; the workers wake the urgent task, in whose handler none runs.
    assert!(of_name("sensor").by_interrupt > 0);
    assert_eq!(of_name("urgent").by_interrupt, 0);
    assert!(of_name("send").runs > 0);
    assert_eq!(tasks.len(), 7, "the tasks, and the idle thread: {tasks:?}");
    let alarms = number(&console, "alarms");
    assert_eq!(handlers[&ALARM], [alarms, alarms]);
    assert_eq!(handlers[&URGENT][0], handlers[&URGENT][1]);
    run(&mut kymo(["check".as_ref(), trace.as_os_str()]), 0);
    babeltrace::compare(&trace);
}

/// What doctor would have: what Embassy does not have, and what the application does not record.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn doctor_misses_nothing_in_embassys_trace() {
    let (trace, _) = recorded(&built("KYMO_PORT_EMBASSY"), "port-embassy-doctor");
    let output = run(
        &mut kymo(["doctor".as_ref(), "--json".as_ref(), trace.as_os_str()]),
        0,
    );
    let report: Json = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let mut rules: Vec<(&str, &str)> = findings
        .iter()
        .map(|one| {
            let text = |key: &str| one[key].as_str().unwrap();
            (text("severity"), text("rule"))
        })
        .collect();
    rules.dedup();
    // Never recorded: `thread_state`, as there is no task when the recording starts.
    let expected = [("hint", "not-hooked"), ("hint", "never-recorded")];
    assert_eq!(rules, expected, "{findings:#?}");
}
