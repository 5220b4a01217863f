//! ports/arceos: an application of ArceOS, whose crates are those of the registry. What the
//! application has counted itself is in its trace.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use kymo_ctf::{Item, Trace};
use kymo_e2e::{babeltrace, built, kymo, patience, recording, run, scratch};
use serde_json::Value;

/// Records the application; returns its console too. Not with `--deterministic`: at boot, a CPU of
/// ArceOS waits for another one without a timer, and QEMU would never let that one run.
fn recorded(folder: &str, append: &str) -> (PathBuf, String) {
    let out = scratch(folder).join("trace");
    let mut command = recording(&built("KYMO_PORT_ARCEOS"), &out);
    let options = ["--cpus", "4", "--timeout", patience(), "--append", append];
    let output = run(command.args(options), 0);
    (out, String::from_utf8(output.stdout).unwrap())
}

/// The number in the word `KEY=NUMBER` of the line with this beginning.
fn number(console: &str, line: &str, key: &str) -> u64 {
    let mut words = console
        .lines()
        .filter_map(|text| text.split_once(line))
        .flat_map(|(_, words)| words.split_whitespace());
    let word = words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    let word = word.unwrap_or_else(|| panic!("no {key} in {console}"));
    word.parse().unwrap()
}

/// What the trace counts.
#[derive(Default)]
struct Counted {
    /// Events by name.
    events: BTreeMap<String, u64>,
    /// Names by thread.
    names: BTreeMap<u64, String>,
    /// Switches by the name of the thread that left its CPU, and the reason.
    left: BTreeMap<(String, u64), u64>,
    /// Samples on CPUs that have switched.
    samples: u64,
    /// Interrupts by CPU.
    interrupts: BTreeMap<u64, u64>,
    /// CPUs on which threads that are not idle ran.
    cpus: BTreeSet<u64>,
}

/// `SwitchReason`.
const EXPIRED: u64 = 1;
const YIELDED: u64 = 2;
const WAITS: u64 = 3;
const ENDED: u64 = 5;

impl Counted {
    fn of(trace: &Path) -> Counted {
        let mut counted = Counted::default();
        let mut left: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        let mut running: BTreeMap<u64, u64> = BTreeMap::new();
        for item in Trace::open(trace).unwrap().events() {
            let event = match item.unwrap() {
                Item::Event(event) => event,
                Item::Loss(loss) => panic!("{loss:?}"),
                _ => continue,
            };
            let field = |name: &str| event.fields.get(name).unwrap();
            let number = |name: &str| field(name).as_u64().unwrap();
            let cpu = event.cpu().unwrap();
            match event.name() {
                "sched_switch" => {
                    *left
                        .entry((number("prev_tid"), number("reason")))
                        .or_default() += 1;
                    running.insert(cpu, number("next_tid"));
                    if number("next_tid") != 0 {
                        counted.cpus.insert(cpu);
                    }
                }
                "thread_name" => {
                    let name = field("name").as_str().unwrap().to_owned();
                    counted.names.insert(number("tid"), name);
                }
                // A sample asks ArceOS who runs, and not the hooks of switches: none was missed.
                "sample" => {
                    let expected = running.get(&cpu).copied();
                    assert!(
                        expected.is_none_or(|tid| tid == number("tid")),
                        "{expected:?} {event:?}"
                    );
                    counted.samples += u64::from(expected.is_some());
                }
                "irq_handler_entry" => *counted.interrupts.entry(cpu).or_default() += 1,
                _ => {}
            }
            *counted.events.entry(event.name().to_owned()).or_default() += 1;
        }
        for ((tid, reason), count) in left {
            let name = counted.names.get(&tid).cloned().unwrap_or_default();
            *counted.left.entry((name, reason)).or_default() += count;
        }
        counted
    }

    fn events(&self, name: &str) -> u64 {
        self.events.get(name).copied().unwrap_or(0)
    }

    /// How often the thread left its CPU for this reason.
    fn left(&self, name: &str, reason: u64) -> u64 {
        let key = (name.to_owned(), reason);
        self.left.get(&key).copied().unwrap_or(0)
    }
}

const TASKS: [&str; 10] = [
    "turns 0",
    "turns 1",
    "sleeper",
    "receiver",
    "compute a",
    "compute b",
    "lock a",
    "lock b",
    "lock c",
    "sender",
];

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn the_trace_has_what_the_application_did() {
    let (trace, console) = recorded("port-arceos", "");
    let counted = Counted::of(&trace);
    let said = |key: &str| number(&console, "arceos: ", key);
    assert_eq!((said("cpus"), said("tasks")), (4, TASKS.len() as u64));

    let count = |name: &str| counted.events(name);
    assert_eq!(count("lock_acquired"), said("locks"));
    assert_eq!(count("lock_release"), said("locks"));
    assert_eq!(count("work"), said("work"));
    assert_eq!(count("thread_create"), said("tasks"));
    assert_eq!(count("sched_wakeup_new"), said("tasks"));
    assert_eq!(count("thread_exit"), said("tasks"));
    // Other CPUs may be in an interrupt when the recording begins or ends.
    let unpaired = count("irq_handler_entry").abs_diff(count("irq_handler_exit"));
    assert!(unpaired < said("cpus"), "{unpaired}");
    let interrupts = counted.interrupts.get(&said("tick_cpu")).copied();
    assert!(
        interrupts.unwrap_or(0) >= said("ticks"),
        "{interrupts:?}\n{console}"
    );
    assert!(said("ticks") > 0, "{console}");

    let names: BTreeSet<&str> = counted.names.values().map(String::as_str).collect();
    for name in TASKS.iter().chain(&["main", "idle", "gc"]) {
        assert!(names.contains(name), "{name}: {names:?}");
    }
    for name in TASKS {
        assert_eq!(counted.left(name, ENDED), 1, "{name}");
    }
    // A yield that let the other task run is a switch, unless the time slice ended just before.
    for (name, line) in [
        ("turns 0", "arceos: turns_0:"),
        ("turns 1", "arceos: turns_1:"),
    ] {
        let (yielded, expired) = (counted.left(name, YIELDED), counted.left(name, EXPIRED));
        let let_run = number(&console, line, "let_run");
        assert!(let_run > 100, "{console}");
        assert!(yielded + expired >= let_run, "{name} {yielded}\n{console}");
        // `axtask` yields where a task is woken just before it waits, and it waits twice.
        let yields = number(&console, line, "yields");
        assert!(yielded <= yields + 2, "{name} {yielded}\n{console}");
    }
    assert!(counted.samples > 100, "{}", counted.samples);
    // It waits once a sleep, unless the time was up before it could.
    let waits = counted.left("sleeper", WAITS);
    assert!((1..=said("sleeps")).contains(&waits), "{waits}\n{console}");
    assert!(counted.cpus.len() >= 2, "{:?}", counted.cpus);

    run(kymo(["check", "--no-losses"]).arg(&trace), 0);
    babeltrace::compare(&trace);
    samples_name_the_functions(&trace);
    what_cannot_be_hooked_is_listed(&trace);
}

/// The samples have ArceOS's functions, and the application's, from the outermost one on.
fn samples_name_the_functions(trace: &Path) {
    let output = run(kymo(["flame", "--format", "folded"]).arg(trace), 0);
    let stacks = String::from_utf8(output.stdout).unwrap();
    let computing = stacks
        .lines()
        .filter(|stack| stack.contains(";arceos_example::collatz"));
    let mut count = 0;
    for stack in computing {
        assert!(stack.starts_with("axtask::task::task_entry;"), "{stack}");
        count += 1;
    }
    assert!(count > 0, "{stacks}");
}

/// The list of ports/arceos/README.md.
fn what_cannot_be_hooked_is_listed(trace: &Path) {
    let output = run(kymo(["doctor", "--json"]).arg(trace), 0);
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = all["findings"].as_array().unwrap().iter();
    let found: Vec<String> = findings
        .map(|finding| {
            let text = |key: &str| finding[key].as_str().unwrap();
            // How often threads waited differs from run to run.
            let message = text("message").split(" again ").next().unwrap();
            format!("{}: {message}", text("severity"))
        })
        // A CPU that was busy all the time.
        .filter(|message| !message.starts_with("hint: No idle thread ran on CPU"))
        .collect();
    assert_eq!(
        found,
        [
            "missing: The trace has no sched_wakeup, but threads that waited ran",
            "hint: Of scheduling, not: sched_wakeup, sched_enter, sched_exit, thread_suspend, \
             thread_resume, thread_delay, thread_yield, sched_pi_setprio, sched_run_queue",
            "hint: No event of system calls: sys_enter, sys_exit, syscall_name",
            "hint: Of locks, not: lock_state",
            "hint: No event of memory: page_fault, mm_page_alloc, mm_page_free",
            "hint: No event of messages: ipc_send, ipc_receive, pipe_write, pipe_read, \
             queue_send, queue_receive",
            "hint: No event of processes: sched_process_fork, sched_process_exit, \
             sched_process_exec, process_kill, process_name, process_state",
            "hint: In the vocabulary, but never recorded: exception, lock_failed",
        ]
    );
}
