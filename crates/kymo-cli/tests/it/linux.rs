//! Traces of the Linux kernel by LTTng: `kymo report` interprets them according to the kernel's
//! release, and `kymo export` agrees.

use std::path::Path;
use std::process::Command;

use crate::run::kymo;
use kymo_made::MS;
use kymo_made::lttng::{CLOCK, Lttng, RELEASES, States, Stream, Task};
use serde_json::{Value, json};

const IDLE: Task<'_> = ("swapper/0", 0);
const SHELL: Task<'_> = ("bash", 100);
const WORKER: Task<'_> = ("kworker/0:1", 20);
const CHILD: Task<'_> = ("sleep", 101);

/// The shell forks a child and is preempted by a kernel thread; the child waits, is woken, and
/// ends.
fn trace(test: &str, states: &States) -> Lttng {
    let mut made = Lttng::new(test, states.release, 1, 20 * MS);
    let stream = made.cpu(0);
    stream.state(0, SHELL);
    stream.switch(MS, IDLE, 0, SHELL);
    stream.read_entry(2 * MS);
    stream.read_exit(3 * MS, -4);
    stream.fork(4 * MS, SHELL, CHILD.1);
    stream.irq_entry(5 * MS, 9, "eth0");
    stream.waking(5 * MS + 1, WORKER);
    stream.wakeup(5 * MS + 2, WORKER);
    stream.irq_exit(6 * MS, 9);
    stream.softirq_entry(6 * MS + 1, 1);
    stream.softirq_exit(6 * MS + 2, 1);
    stream.switch(7 * MS, SHELL, states.preempted, WORKER);
    stream.switch(8 * MS, WORKER, states.without_work, CHILD);
    stream.switch(9 * MS, CHILD, states.killable, SHELL);
    stream.wakeup(11 * MS, CHILD);
    stream.switch(12 * MS, SHELL, 1, CHILD);
    stream.exit(13 * MS, CHILD);
    stream.switch(14 * MS, CHILD, states.dead, IDLE);
    made
}

fn succeeds(arguments: &[&str], directory: &Path) -> Vec<u8> {
    let output = kymo(arguments, directory);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    output.stdout
}

/// Nothing is wrong in them, and no remedy is for somebody else's kernel.
#[test]
fn the_doctor_finds_nothing_wrong_in_linux() {
    for states in &RELEASES {
        let mut made = trace("doctor", states);
        let directory = made.finish().to_owned();
        let all: Value =
            serde_json::from_slice(&succeeds(&["doctor", "--json"], &directory)).unwrap();
        let findings = all["findings"].as_array().unwrap();
        assert_eq!(findings.len(), 0, "{}: {all}", states.release);
        // A second call before the end of the first.
        let more = made.cpu(0);
        more.switch(15 * MS, IDLE, 0, SHELL);
        more.read_entry(16 * MS);
        more.read_entry(17 * MS);
        made.finish();
        let output = kymo(&["doctor", "--json"], &directory);
        let all: Value = serde_json::from_slice(&output.stdout).unwrap();
        let expected = json!([{
            "severity": "wrong", "rule": "system-call-pairs",
            "message": "System call read was entered and never left once",
            "time_ns": 17 * MS, "cpu": 0, "remedy": null, "page": null,
        }]);
        assert_eq!(all["findings"], expected, "{}", states.release);
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn threads_of_every_kernel_release_do_what_they_did() {
    for states in &RELEASES {
        let made = trace("report", states);
        let directory = made.finish().to_owned();
        let report: Value =
            serde_json::from_slice(&succeeds(&["report", "--json"], &directory)).unwrap();
        let thread = |tid: i32| {
            let threads = report["threads"].as_array().unwrap();
            let found = threads.iter().find(|thread| thread["tid"] == tid);
            found.unwrap_or_else(|| panic!("{}: no thread {tid}", states.release))
        };
        let of = |tid: i32| {
            let thread = thread(tid);
            [
                "name",
                "cpu_ns",
                "runnable_ns",
                "blocked_ns",
                "unknown_ns",
                "last_state",
            ]
            .map(|column| thread[column].clone())
        };
        // Preempted from 7 to 9 ms; waits from 12 ms.
        let shell = [
            json!("bash"),
            json!(9 * MS),
            json!(2 * MS),
            json!(2 * MS),
            json!(0),
            json!("blocked"),
        ];
        assert_eq!(of(100), shell, "{}", states.release);
        // Woken in an interrupt at 5 ms, already by sched_waking; waits for work from 8 ms.
        let worker = of(20);
        assert_eq!(
            (&worker[1], &worker[3], &worker[5]),
            (&json!(MS), &json!(6 * MS), &json!("blocked")),
            "{}",
            states.release
        );
        // Created at 4 ms, ran at 8 ms, waited from 9 to 11 ms, ran at 12 ms, ended at 13 ms.
        let child = of(101);
        assert_eq!(
            (&child[0], &child[3], &child[5]),
            (&json!("sleep"), &json!(2 * MS), &json!("ended")),
            "{}",
            states.release
        );
        assert_eq!(thread(101)["pid"], 101);
        let irq = |line: u64, soft: bool| {
            let lines = report["interrupts"].as_array().unwrap();
            let is_it = |of: &&Value| of["irq"] == line && of["soft"].is_boolean() == soft;
            lines.iter().find(is_it).unwrap()["name"].clone()
        };
        assert_eq!(
            (irq(9, false), irq(1, true)),
            (json!("eth0"), json!("TIMER"))
        );
        let call = &report["system_calls"][0];
        assert_eq!(
            (&call["name"], &call["errors"]),
            (&json!("read"), &json!(1))
        );
        assert_eq!(report["wake_latency"]["worst"][0]["latency_ns"], 2 * MS - 1);
        assert_eq!(report["contradictions"]["counts"], json!({}));
        exported(states, &directory);
    }
}

/// Checks that the timeline's state slices have the same times.
fn exported(states: &States, directory: &Path) {
    let out = directory.with_extension("json");
    succeeds(
        &["export", "--to", "chrome", directory.to_str().unwrap()],
        &out,
    );
    let text = std::fs::read_to_string(&out).unwrap();
    std::fs::remove_file(&out).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    let events = file["traceEvents"].as_array().unwrap();
    let begins = |name: &str| {
        let slices = events
            .iter()
            .filter(|event| event["ph"] == "B" && event["name"] == name);
        slices
            .map(|event| event["ts"].as_f64().unwrap())
            .collect::<Vec<_>>()
    };
    // The idle thread, the worker in the interrupt, the preempted shell, the woken child.
    assert_eq!(
        begins("runnable"),
        [1_000.0, 5_000.001, 7_000.0, 11_000.0],
        "{}",
        states.release
    );
    assert_eq!(
        begins("blocked"),
        [8_000.0, 9_000.0, 12_000.0],
        "{}",
        states.release
    );
    assert_eq!(begins("eth0"), [5_000.0]);
    assert_eq!(begins("softirq TIMER"), [6_000.001]);
    assert_eq!(begins("read"), [2_000.0]);
}

/// A program's trace and the kernel's of the same boot give one report and one timeline.
#[test]
fn a_program_and_the_kernel_under_it_are_one_report() {
    let made = trace("both", &RELEASES[3]);
    let kernel = made.finish();
    let both = kernel.with_extension("both");
    let _ = std::fs::remove_dir_all(&both);
    std::fs::create_dir_all(both.join("ust")).unwrap();
    std::fs::rename(kernel, both.join("kernel")).unwrap();
    let metadata = |clock: &str| {
        format!(
            "/* CTF 1.8 */
typealias integer {{ size = 32; align = 8; signed = true; }} := pid;
trace {{ major = 1; minor = 8; byte_order = le; }};
env {{ domain = \"ust\"; tracer_name = \"lttng-ust\"; }};
clock {{ name = monotonic; uuid = \"{clock}\"; freq = 1000000000; }};
typealias integer {{ size = 64; align = 8; map = clock.monotonic.value; }} := time;
stream {{
    packet.context := struct {{ integer {{ size = 32; align = 8; }} cpu_id; }};
    event.header := struct {{ time timestamp; }};
    event.context := struct {{ pid _vtid; }};
}};
event {{ name = \"app:request\"; fields := struct {{ pid _number; }}; }};
"
        )
    };
    let mut stream = Stream::default();
    stream.pids(&[0]).long(2 * MS as i64 + 5).pids(&[100, 1]);
    std::fs::write(both.join("ust/metadata"), metadata(CLOCK)).unwrap();
    std::fs::write(both.join("ust/channel_0"), &stream.0).unwrap();

    let report: Value = serde_json::from_slice(&succeeds(&["report", "--json"], &both)).unwrap();
    assert_eq!(
        (&report["events"], &report["end_ns"]),
        (&json!(19), &json!(14 * MS))
    );
    succeeds(&["check"], &both);
    let out = both.with_extension("json");
    succeeds(&["export", "--to", "chrome", both.to_str().unwrap()], &out);
    let text = std::fs::read_to_string(&out).unwrap();
    std::fs::remove_file(&out).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    let events = file["traceEvents"].as_array().unwrap();
    let request = events
        .iter()
        .find(|event| event["name"] == "app:request")
        .unwrap();
    // The event is on the track of the thread that runs there according to the kernel's trace.
    let track = events.iter().find(|event| {
        event["ph"] == "M" && event["tid"] == request["tid"] && event["name"] == "thread_name"
    });
    assert_eq!(track.unwrap()["args"]["name"], "bash 100: events");

    // For another boot, the order is unknown.
    std::fs::write(
        both.join("ust/metadata"),
        metadata(&CLOCK.replace('d', "e")),
    )
    .unwrap();
    let refused = Command::new(env!("CARGO_BIN_EXE_kymo"))
        .arg("report")
        .arg(&both)
        .output();
    let refused = refused.unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("no common clock"));
    std::fs::remove_dir_all(&both).unwrap();
}
