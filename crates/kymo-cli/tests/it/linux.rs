//! Traces of the Linux kernel with the layout of LTTng's kernel tracer (field names, sizes and
//! order of its instrumentation of sched, irq, syscalls and state dump): `kymo report` interprets
//! them according to the kernel's release, and `kymo export` agrees.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::kymo;
use serde_json::{Value, json};

const MS: u64 = 1_000_000;
/// UUID of the machine's clock, which tracers derive from the boot.
const CLOCK: &str = "d18e6374-35a1-4d42-8e70-a9cffa712793";

/// Metadata with LTTng's large event header.
fn metadata(release: &str) -> String {
    let switch = "char _prev_comm[16]; pid _prev_tid; pid _prev_prio; long _prev_state; \
                  char _next_comm[16]; pid _next_tid; pid _next_prio;";
    let wakeup = "char _comm[16]; pid _tid; pid _prio; pid _target_cpu;";
    let process = "char _comm[16]; pid _tid; pid _prio;";
    let fork = "char _parent_comm[16]; pid _parent_tid; pid _parent_pid; u32 _parent_ns_inum; \
                char _child_comm[16]; pid _child_tid; u8 __vtids_length; \
                pid _vtids[__vtids_length]; pid _child_pid; u32 _child_ns_inum;";
    let state = "pid _tid; pid _vtid; pid _pid; pid _vpid; pid _ppid; pid _vppid; \
                 char _name[16]; pid _type; pid _mode; pid _submode; pid _status; u32 _cpu;";
    // Tracers for older kernels omitted the subsystem.
    let irq = if release.starts_with("4.1.") {
        ""
    } else {
        "irq_"
    };
    let softirq = ["entry", "exit"].map(|end| format!("{irq}softirq_{end}"));
    let events = [
        ("sched_switch", switch),
        ("sched_waking", wakeup),
        ("sched_wakeup", wakeup),
        ("sched_process_fork", fork),
        ("sched_process_exit", process),
        ("irq_handler_entry", "pid _irq; string _name;"),
        ("irq_handler_exit", "pid _irq; pid _ret;"),
        (&softirq[0], "u32 _vec;"),
        (&softirq[1], "u32 _vec;"),
        ("syscall_entry_read", "u32 _fd; long _count;"),
        ("syscall_exit_read", "long _ret; long _buf;"),
        ("lttng_statedump_process_state", state),
    ];
    let events = events.iter().enumerate().map(|(id, (name, fields))| {
        format!(
            "event {{ name = \"{name}\"; id = {id}; stream_id = 0; fields := struct {{ {fields} \
             }}; }};\n"
        )
    });
    format!(
        "/* CTF 1.8 */
typealias integer {{ size = 8; align = 8; signed = false; }} := u8;
typealias integer {{ size = 8; align = 8; signed = true; encoding = UTF8; }} := char;
typealias integer {{ size = 32; align = 8; signed = true; }} := pid;
typealias integer {{ size = 32; align = 8; signed = false; }} := u32;
typealias integer {{ size = 64; align = 8; signed = true; }} := long;
trace {{ major = 1; minor = 8; byte_order = le; }};
env {{ domain = \"kernel\"; sysname = \"Linux\"; kernel_release = \"{release}\"; tracer_name = \
         \"lttng-modules\"; }};
clock {{ name = monotonic; uuid = \"{CLOCK}\"; freq = 1000000000; }};
typealias integer {{ size = 64; align = 8; map = clock.monotonic.value; }} := time;
stream {{
    id = 0;
    packet.context := struct {{ time timestamp_begin; time timestamp_end; u32 cpu_id; }};
    event.header := struct {{ integer {{ size = 16; align = 8; }} id; time timestamp; }};
}};
{}",
        events.collect::<String>()
    )
}

/// One CPU's stream under construction.
#[derive(Default)]
struct Stream(Vec<u8>);

fn comm(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    bytes
}

impl Stream {
    fn event(&mut self, at: u64, id: u16) -> &mut Self {
        self.0.extend(id.to_le_bytes());
        self.0.extend(at.to_le_bytes());
        self
    }
    fn pids(&mut self, numbers: &[i32]) -> &mut Self {
        numbers
            .iter()
            .for_each(|number| self.0.extend(number.to_le_bytes()));
        self
    }
    fn long(&mut self, number: i64) -> &mut Self {
        self.0.extend(number.to_le_bytes());
        self
    }
    fn comm(&mut self, name: &str) -> &mut Self {
        self.0.extend(comm(name));
        self
    }
    fn switch(&mut self, at: u64, prev: (&str, i32), state: i64, next: (&str, i32)) {
        self.event(at, 0)
            .comm(prev.0)
            .pids(&[prev.1, 20])
            .long(state);
        self.comm(next.0).pids(&[next.1, 20]);
    }
    fn wakes(&mut self, at: u64, id: u16, woken: (&str, i32)) {
        self.event(at, id).comm(woken.0).pids(&[woken.1, 20, 0]);
    }
}

const IDLE: (&str, i32) = ("swapper/0", 0);
const SHELL: (&str, i32) = ("bash", 100);
const WORKER: (&str, i32) = ("kworker/0:1", 20);
const CHILD: (&str, i32) = ("sleep", 101);

/// A kernel's values of `prev_state`: for a preempted thread, an idle kernel thread, a thread that
/// only a fatal signal wakes, and a dead one.
struct States {
    release: &'static str,
    preempted: i64,
    without_work: i64,
    killable: i64,
    dead: i64,
}

const RELEASES: [States; 4] = [
    States {
        release: "4.1.27-1-generic",
        preempted: 0x400,
        without_work: 0x1,
        killable: 0x82,
        dead: 0x40,
    },
    States {
        release: "4.9.0-19-amd64",
        preempted: 0x1000,
        without_work: 0x402,
        killable: 0x82,
        dead: 0x40,
    },
    States {
        release: "4.14.336",
        preempted: 0x100,
        without_work: 0x80,
        killable: 0x2,
        dead: 0x10,
    },
    States {
        release: "6.1.0-13-amd64",
        preempted: 0x100,
        without_work: 0x80,
        killable: 0x2,
        dead: 0x20,
    },
];

/// The shell forks a child and is preempted by a kernel thread; the child waits, is woken, and
/// ends.
fn trace(test: &str, states: &States) -> PathBuf {
    let name = format!(
        "kymo-linux-{}-{test}-{}",
        std::process::id(),
        states.release
    );
    let directory = std::env::temp_dir().join(name);
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    let mut stream = Stream::default();
    stream.long(0).long(20 * MS as i64).pids(&[0]);
    // The state dump: type user thread, waits.
    stream
        .event(0, 11)
        .pids(&[100, 100, 100, 100, 1, 1])
        .comm("bash");
    stream.pids(&[0, 0, 0, 5, 0]);
    stream.switch(MS, IDLE, 0, SHELL);
    stream.event(2 * MS, 9).pids(&[3]).long(64);
    stream.event(3 * MS, 10).long(-4).long(0);
    stream.event(4 * MS, 3).comm("bash").pids(&[100, 100, 1]);
    stream.comm("bash").pids(&[101]).0.push(1);
    stream.pids(&[101, 101, 1]);
    stream.event(5 * MS, 5).pids(&[9]).0.extend(b"eth0\0");
    stream.wakes(5 * MS + 1, 1, WORKER);
    stream.wakes(5 * MS + 2, 2, WORKER);
    stream.event(6 * MS, 6).pids(&[9, 1]);
    stream.event(6 * MS + 1, 7).pids(&[1]);
    stream.event(6 * MS + 2, 8).pids(&[1]);
    stream.switch(7 * MS, SHELL, states.preempted, WORKER);
    stream.switch(8 * MS, WORKER, states.without_work, CHILD);
    stream.switch(9 * MS, CHILD, states.killable, SHELL);
    stream.wakes(11 * MS, 2, CHILD);
    stream.switch(12 * MS, SHELL, 1, CHILD);
    stream.event(13 * MS, 4).comm("sleep").pids(&[101, 20]);
    stream.switch(14 * MS, CHILD, states.dead, IDLE);
    std::fs::write(directory.join("metadata"), metadata(states.release)).unwrap();
    std::fs::write(directory.join("channel0_0"), &stream.0).unwrap();
    directory
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
        let directory = trace("doctor", states);
        let all: Value =
            serde_json::from_slice(&succeeds(&["doctor", "--json"], &directory)).unwrap();
        let findings = all["findings"].as_array().unwrap();
        assert_eq!(findings.len(), 0, "{}: {all}", states.release);
        // A second call before the end of the first.
        let stream = directory.join("channel0_0");
        let mut more = Stream(std::fs::read(&stream).unwrap());
        more.switch(15 * MS, IDLE, 0, SHELL);
        more.event(16 * MS, 9).pids(&[3]).long(64);
        more.event(17 * MS, 9).pids(&[3]).long(64);
        std::fs::write(&stream, &more.0).unwrap();
        let output = kymo(&["doctor", "--json"], &directory);
        let all: Value = serde_json::from_slice(&output.stdout).unwrap();
        let expected = json!([{
            "severity": "wrong", "rule": "system-call-pairs",
            "message": "System call read was entered and never left once",
            "time_ns": 17 * MS, "cpu": 0, "remedy": null, "page": null,
        }]);
        assert_eq!(all["findings"], expected, "{}", states.release);
        assert_eq!(output.status.code(), Some(1));
        std::fs::remove_dir_all(directory).unwrap();
    }
}

#[test]
fn threads_of_every_kernel_release_do_what_they_did() {
    for states in &RELEASES {
        let directory = trace("report", states);
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
        std::fs::remove_dir_all(&directory).unwrap();
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
    let kernel = trace("both", &RELEASES[3]);
    let both = kernel.with_extension("both");
    let _ = std::fs::remove_dir_all(&both);
    std::fs::create_dir_all(both.join("ust")).unwrap();
    std::fs::rename(&kernel, both.join("kernel")).unwrap();
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
