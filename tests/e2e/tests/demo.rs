//! `kernels/demo`, recorded live: the trace has every operation that the kernel counted, hart by
//! hart and event by event, and is consistent.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::PathBuf;

use kymo_ctf::{Event, Item, Trace, Value};
use kymo_e2e::demo::{
    AARCH64, ARCHES, Arch, Counts, LEDGER, X86_64, is_the_librarys, ledger, name_of,
};
use kymo_e2e::{babeltrace, kymo, patience, recording, run, scratch};

/// Of `LockKind`.
const SEMAPHORE: u64 = 1;
const SPIN: u64 = 2;

/// The numbers of x86-64's NMIs, and of AArch64's pseudo-NMIs.
const NMI: u64 = 2;
const PSEUDO_NMI: u64 = 1;

/// System calls.
const GETPID: u64 = 1;
const EXEC: u64 = 6;

/// The state into which a trace is replayed, by hart and by thread.
#[derive(Default)]
struct Machine {
    /// The serial port's interrupt.
    uart: u64,
    /// The number of its NMIs, if it has some.
    nmi: Option<u64>,
    heap: Range<u64>,
    /// By hart: the running thread, the active interrupts, whether the scheduler is active.
    running: Vec<u64>,
    handled: Vec<Vec<u64>>,
    looking: Vec<bool>,
    /// By thread: the lock for which it waits, and those that it holds. Semaphores have no owner.
    waits: BTreeMap<u64, u64>,
    has: BTreeSet<(u64, u64)>,
    spins: BTreeSet<u64>,
    /// By thread: its current system call.
    calls: BTreeMap<u64, u64>,
    /// Harts that the device has interrupted.
    interrupted: BTreeSet<usize>,
    /// Living processes.
    processes: BTreeSet<u64>,
    /// Lengths of the run queues by hart, and of the queue between kernel threads.
    queues: BTreeMap<u64, u64>,
    depth: u64,
    created: BTreeSet<u64>,
    ended: BTreeSet<u64>,
    prio: BTreeMap<u64, i64>,
    /// Counts of the expected situations.
    seen: BTreeMap<&'static str, u64>,
}

impl Machine {
    fn new(arch: &Arch, harts: usize) -> Machine {
        Machine {
            uart: arch.uart,
            nmi: match arch.name {
                "x86_64" => Some(NMI),
                "aarch64" => Some(PSEUDO_NMI),
                _ => None,
            },
            heap: arch.heap.clone(),
            running: vec![0; harts],
            handled: vec![Vec::new(); harts],
            looking: vec![false; harts],
            ..Machine::default()
        }
    }

    fn saw(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn event(&mut self, event: &Event) {
        let cpu = event.cpu().unwrap() as usize;
        let field = |name: &str| {
            event
                .fields
                .get(name)
                .unwrap_or_else(|| panic!("{event:?} has no {name}"))
        };
        let number = |name: &str| field(name).as_u64().unwrap();
        let tid = self.running[cpu];
        match event.name() {
            "sched_enter" => assert!(
                !std::mem::replace(&mut self.looking[cpu], true),
                "{event:?}"
            ),
            "sched_exit" => assert!(
                std::mem::replace(&mut self.looking[cpu], false),
                "{event:?}"
            ),
            "irq_handler_entry" => {
                self.handled[cpu].push(number("irq"));
                if Some(number("irq")) == self.nmi {
                    self.saw("NMIs");
                }
                if number("irq") == self.uart {
                    self.saw("device interrupts");
                    self.interrupted.insert(cpu);
                }
            }
            "irq_handler_exit" => {
                assert_eq!(self.handled[cpu].pop(), Some(number("irq")), "{event:?}")
            }
            "sched_switch" => self.switch(
                cpu,
                number("prev_tid"),
                number("next_tid"),
                field("next_prio").as_i64().unwrap(),
                number("reason"),
            ),
            "sched_wakeup" | "sched_wakeup_new" => assert!(
                self.handled[cpu].is_empty() || number("waker_tid") == 0,
                "{event:?}"
            ),
            "thread_create" => {
                assert!(self.created.insert(number("tid")), "{event:?}");
                assert_eq!(number("parent_tid"), tid, "{event:?}");
                self.prio
                    .insert(number("tid"), field("prio").as_i64().unwrap());
            }
            "thread_exit" => {
                assert_eq!(number("tid"), tid, "{event:?}");
                assert!(self.ended.insert(tid), "{event:?}");
                assert!(
                    !self.has.iter().any(|&(owner, _)| owner == tid),
                    "thread {tid} ends with a lock"
                );
            }
            "thread_yield" | "thread_delay" => assert_eq!(number("tid"), tid, "{event:?}"),
            "sched_pi_setprio" => {
                let old = self
                    .prio
                    .insert(number("tid"), field("newprio").as_i64().unwrap());
                assert_eq!(old, field("oldprio").as_i64(), "{event:?}");
                self.saw("priority lent or given back");
            }
            "lock_wait" => {
                assert_eq!(self.waits.insert(tid, number("lock")), None, "{event:?}");
                // A thread does not wait for its own lock.
                assert!(number("owner_tid") != tid, "{event:?}");
            }
            "lock_acquired" => {
                let contended = number("contended") != 0;
                assert_eq!(
                    self.waits.remove(&tid),
                    contended.then(|| number("lock")),
                    "{event:?} of thread {tid}"
                );
                if contended {
                    self.saw("lock contended");
                }
                match number("kind") {
                    SEMAPHORE => {}
                    SPIN => assert!(self.spins.insert(tid), "{event:?}"),
                    _ => assert!(self.has.insert((tid, number("lock"))), "{event:?}"),
                }
            }
            "lock_release" => match number("kind") {
                SEMAPHORE => {}
                SPIN => assert!(self.spins.remove(&tid), "{event:?} of thread {tid}"),
                _ => assert!(
                    self.has.remove(&(tid, number("lock"))),
                    "{event:?} of thread {tid}"
                ),
            },
            "sys_enter" => {
                let before = self.calls.insert(tid, number("id"));
                assert!(
                    before.is_none_or(|before| before == EXEC),
                    "{event:?}: thread {tid} was in call {before:?}"
                );
                if number("id") == GETPID {
                    self.saw("getpid");
                }
            }
            "sys_exit" => {
                assert_eq!(
                    self.calls.remove(&tid),
                    Some(number("id")),
                    "{event:?} of thread {tid}"
                );
                if field("ret").as_i64().unwrap() < 0 {
                    self.saw("failed calls");
                }
            }
            "page_fault" if self.heap.contains(&number("address")) => self.saw("heap faults"),
            "process_kill" if number("killer_tid") == 0 => self.saw("ended for a fault"),
            "process_kill" => self.saw("killed"),
            "sched_process_exec" => self.saw("programs begun"),
            "sched_process_fork" => {
                assert_eq!(number("parent_tid"), tid, "{event:?}");
                assert!(self.created.contains(&number("child_tid")), "{event:?}");
                assert!(self.processes.insert(number("child_pid")), "{event:?}");
                self.saw("forked");
            }
            "sched_process_exit" => {
                assert_eq!(number("tid"), tid, "{event:?}");
                assert!(self.processes.remove(&number("pid")), "{event:?}");
                self.saw(match field("status").as_i64().unwrap() {
                    0 => "exited",
                    _ => "ended otherwise",
                });
            }
            "sched_run_queue" => {
                let (queue, len) = (number("cpu"), number("len"));
                let old = self.queues.insert(queue, len).unwrap_or(0);
                assert_eq!(old.abs_diff(len), 1, "{event:?}");
            }
            "queue_send" | "queue_receive" => {
                let old = self.depth;
                self.depth = number("depth");
                let sends = event.name() == "queue_send";
                let expected = if sends { old + 1 } else { old - 1 };
                assert_eq!(self.depth, expected, "{event:?}");
                self.saw(if sends { "put" } else { "taken" });
            }
            "ipc_send" => self.saw(if number("path") == 0 {
                "sent fast"
            } else {
                "sent slow"
            }),
            "ipc_receive" => self.saw(if number("path") == 0 {
                "received fast"
            } else {
                "received slow"
            }),
            "pipe_write" => *self.seen.entry("bytes written").or_default() += number("len"),
            "pipe_read" => *self.seen.entry("bytes read").or_default() += number("len"),
            "exception" => self.saw("exceptions"),
            _ => {}
        }
    }

    fn switch(&mut self, cpu: usize, prev: u64, next: u64, prio: i64, reason: u64) {
        assert_eq!(
            self.running[cpu], prev,
            "the thread that leaves hart {cpu} is the one that ran there"
        );
        assert_ne!(prev, next);
        assert!(
            self.handled[cpu].is_empty(),
            "a switch inside of an interrupt's handler"
        );
        assert!(
            !self.spins.contains(&prev),
            "thread {prev} leaves with a spin lock"
        );
        assert_eq!(
            prev == 0,
            reason == 6,
            "idle threads leave because they are idle"
        );
        assert_eq!(
            self.prio.get(&next).copied().unwrap_or(-1),
            prio,
            "priority of thread {next}"
        );
        self.running[cpu] = next;
        self.saw(
            [
                "preempted",
                "expired",
                "yielded",
                "waits",
                "suspended",
                "ended",
                "idle",
            ][reason as usize],
        );
    }
}

/// Records a workload, and compares the trace with the kernel's ledger and babeltrace2. Returns the
/// counts of the expected situations.
fn account(
    arch: &Arch,
    workload: &str,
    harts: usize,
    more: &[&str],
) -> BTreeMap<&'static str, u64> {
    let words = workload.split(' ').next().unwrap();
    let name = &format!("demo-{}-{words}-{harts}", arch.name);
    let out = scratch(name).join("trace");
    let mut command = recording(&arch.kernel(), &out);
    command.args([
        "--keep-ram",
        "--timeout",
        patience(),
        "--cpus",
        &harts.to_string(),
        "--append",
        &format!("workload={workload}"),
    ]);
    run(command.args(more), 0);
    let ram: PathBuf = out.join(".ram");
    let ledger = ledger(arch, &ram, LEDGER, harts);
    fs::remove_file(ram).unwrap();

    let mut counts = vec![Counts::new(); harts];
    let (mut machine, mut told) = (Machine::new(arch, harts), Vec::new());
    let mut snapshots = 0;
    for item in Trace::open(&out).unwrap().events() {
        match item.unwrap() {
            Item::Event(event) => {
                // The library's own events are not operations of the kernel.
                if is_the_librarys(&event) {
                    match event.fields.get("recorded").and_then(Value::as_u64) {
                        Some(recorded) => told.push(recorded),
                        // What the kernel's own counters have.
                        None => snapshots += 1,
                    }
                    continue;
                }
                *counts[event.cpu().unwrap() as usize]
                    .entry(name_of(&event))
                    .or_default() += 1;
                machine.event(&event);
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    for (hart, (counts, ledger)) in counts.iter().zip(&ledger).enumerate() {
        assert_eq!(
            counts, ledger,
            "{name}, hart {hart}: the trace, and the ledger"
        );
    }
    let (events, losses) = babeltrace::compare(&out);
    assert!(losses.is_empty(), "{name}: {losses:?}");
    // No general rule is violated.
    run(&mut kymo(["check".as_ref(), out.as_os_str()]), 0);
    let counted = counts.iter().flat_map(Counts::values).sum::<u64>() + snapshots;
    assert_eq!(
        (told, events),
        (vec![counted], counted + 1),
        "{name}: the kernel's totals at the end, which are an event too"
    );
    assert!(
        machine.processes.is_empty() && machine.queues.values().all(|len| *len == 0),
        "{name}: {:?}, {:?}",
        machine.processes,
        machine.queues
    );
    assert_eq!(
        machine.waits,
        BTreeMap::new(),
        "{name}: who waited has got it"
    );
    let alive: Vec<&u64> = machine.created.difference(&machine.ended).collect();
    assert_eq!(
        alive,
        [&1],
        "{name}: only the first thread lives at the end"
    );
    if workload.starts_with("switch") || workload.starts_with("all") {
        let idle = counts
            .iter()
            .filter(|counts| !counts.contains_key("sched_switch"))
            .count();
        assert_eq!(idle, 0, "{name}: every hart had something to do");
    }
    if !machine.interrupted.is_empty() {
        assert_eq!(
            machine.interrupted.len(),
            harts,
            "{name}: the device has interrupted every hart"
        );
    }
    println!("{name}: {events} events; {:?}", machine.seen);
    machine.seen
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn threads_take_turns() {
    for arch in &ARCHES {
        for harts in [1, 4] {
            let seen = account(arch, "switch", harts, &[]);
            let all = [
                "preempted",
                "expired",
                "yielded",
                "waits",
                "suspended",
                "ended",
                "idle",
            ];
            // With one hart no thread is suspended while it runs, as the suspending thread runs
            // itself.
            let expected = all
                .into_iter()
                .filter(|&reason| reason != "suspended" || harts > 1);
            for reason in expected {
                assert!(
                    seen.contains_key(reason),
                    "{harts} harts: nobody was {reason}"
                );
            }
        }
    }
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn threads_want_the_same_locks() {
    for arch in &ARCHES {
        for harts in [1, 4] {
            let seen = account(arch, "locks", harts, &[]);
            for what in ["lock contended", "priority lent or given back"] {
                assert!(seen.contains_key(what), "{harts} harts: no {what}");
            }
        }
    }
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn processes_do_what_their_programs_say() {
    for arch in &ARCHES {
        for harts in [1, 4] {
            let seen = account(arch, "faults rounds=200", harts, &[]);
            let expected = [
                // `calls` runs twice from the start, once as a child, and once by `exec`.
                ("getpid", 200 + 200 + 50 + 50),
                // Each of these ends with a call that fails.
                ("failed calls", 4),
                // `touch` runs twice from the start and once as a child.
                ("heap faults", 1000 + 200 + 40),
                // 5 from the start, 6 children, one `exec`.
                ("programs begun", 12),
                ("forked", 11),
                ("exited", 7),
                ("ended otherwise", 4),
                ("killed", 2),
                // `wild` and `illegal`.
                ("ended for a fault", 2),
                ("exceptions", 1),
            ];
            for (what, count) in expected {
                assert_eq!(seen.get(what), Some(&count), "{harts} harts: {what}");
            }
        }
    }
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn processes_send_each_other_messages_and_bytes() {
    for arch in &ARCHES {
        for harts in [1, 4] {
            let seen = account(arch, "ipc rounds=200", harts, &[]);
            let count = |what: &str| seen.get(what).copied().unwrap_or(0);
            // The client's messages, the server's answers, and messages without an answer.
            assert_eq!(
                count("sent fast") + count("sent slow"),
                600,
                "{harts} harts"
            );
            for path in ["fast", "slow"] {
                let (sent, received) = (
                    count(&format!("sent {path}")),
                    count(&format!("received {path}")),
                );
                assert!(sent > 0, "{harts} harts: nothing was sent the {path} way");
                assert_eq!(sent, received, "{harts} harts, {path}");
            }
            assert_eq!(
                (count("bytes written"), count("bytes read")),
                (3200, 3200),
                "{harts} harts"
            );
            // Between kernel threads: the giver fills the queue, as it is more urgent.
            assert_eq!((count("put"), count("taken")), (200, 200), "{harts} harts");
            assert_eq!(
                count("exceptions") + count("ended for a fault"),
                0,
                "{harts} harts: each program got what it waited for"
            );
        }
    }
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn all_of_it_on_eight_harts_and_on_sixteen() {
    for arch in &ARCHES {
        account(arch, "all rounds=100", 8, &[]);
        account(arch, "all rounds=60", 16, &[]);
    }
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_device_interrupts_every_hart_once_a_byte() {
    for arch in &ARCHES {
        for harts in [1, 4] {
            let seen = account(arch, "irqs rounds=200", harts, &[]);
            let bytes = 2 * 20 * "demo: sent by interrupts\n".len() as u64;
            assert_eq!(seen.get("device interrupts"), Some(&bytes), "{harts} harts");
        }
    }
}

/// On x86-64 and AArch64: RISC-V has no NMI that QEMU lets a kernel send. They come inside the
/// writers, in the places of x86-64's kernel where `gs` is still or already a program's, or where
/// AArch64's masks interrupts, and in programs.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn nmis_come_everywhere() {
    for arch in [X86_64, AARCH64] {
        for harts in [1, 4] {
            let seen = account(&arch, "nmis rounds=500", harts, &[]);
            let nmis = seen.get("NMIs").copied().unwrap_or(0);
            assert!(nmis > 1000, "{} with {harts} harts: {nmis} NMIs", arch.name);
        }
    }
}

/// Not by the kernel: the library records the first when a clock steps back, and `session::tests`
/// do; programs that sample themselves record the second, and `cargo xtask test program` does.
const NOT_BY_A_KERNEL: [&str; 2] = ["kymo_clock_back", "stack_copy"];

/// The names of all events of a run.
fn names_of(arch: &Arch, name: &str, append: &str) -> BTreeSet<String> {
    let out = scratch(&format!("{name}-{}", arch.name)).join("trace");
    let mut command = recording(&arch.kernel(), &out);
    run(
        command.args(["--timeout", patience(), "--cpus", "2", "--append", append]),
        0,
    );
    let items = Trace::open(&out).unwrap().events();
    let names = items.filter_map(|item| match item.unwrap() {
        Item::Event(event) => Some(event.name().to_owned()),
        _ => None,
    });
    names.collect()
}

/// An event that no kernel of the repository records is one that nobody has tried.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn every_event_of_the_vocabulary_is_recorded() {
    for arch in &ARCHES {
        let mut seen = names_of(arch, "demo-every", "workload=all rounds=40");
        seen.extend(names_of(arch, "demo-every-counter", "workload=trace_sched"));
        seen.extend(names_of(arch, "demo-every-lock", "workload=lock_wait"));
        // A session that begins while processes live.
        let late = "kymo=off run=perf,start,--rolling run=switch run=perf,stop";
        seen.extend(names_of(arch, "demo-every-late", late));
        let sampled = "run=known,40 kymo=start,mode=trace:sample:count,\
                       stacks=sched_switch,counters=context-switches,counters_on=sched_switch";
        seen.extend(names_of(arch, "demo-every-sample", sampled));
        let declared = kymo::vocabulary::TYPES.iter().copied().flatten();
        let missing: Vec<_> = declared
            .filter(|(_, name)| !seen.contains(*name) && !NOT_BY_A_KERNEL.contains(name))
            .collect();
        assert!(missing.is_empty(), "no kernel records {missing:?}");
    }
}

/// L-01: where switches are off, events with a context say in which task they were recorded.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn events_say_in_which_task_without_switches() {
    for arch in &ARCHES {
        let out = scratch(&format!("demo-task-{}", arch.name)).join("trace");
        let mut command = recording(&arch.kernel(), &out);
        command.args(["--events", "sys_enter", "--stacks", "sys_enter"]);
        command.args(["--depth", "0", "--cpus", "2", "--timeout", patience()]);
        run(command.args(["--append", "run=calls,40"]), 0);
        let (mut programs, mut calls, mut tasks) = (BTreeSet::new(), 0, BTreeMap::new());
        for item in Trace::open(&out).unwrap().events() {
            let Item::Event(event) = item.unwrap() else {
                panic!("nothing is lost");
            };
            let field = |name: &str| event.fields.get(name);
            let tid = || field("tid").and_then(Value::as_u64).unwrap();
            match event.name() {
                "thread_name" | "thread_state"
                    if field("name").and_then(Value::as_str) == Some("calls") =>
                {
                    programs.insert(tid());
                }
                "sys_enter" => calls += 1,
                "event_stack" => {
                    let none = Value::Array(Vec::new());
                    assert_eq!(field("callchain"), Some(&none), "{event:?}");
                    *tasks.entry(tid()).or_default() += 1;
                }
                "sched_switch" => panic!("it is off"),
                _ => {}
            }
        }
        assert!(calls > 100, "{}: {calls} calls", arch.name);
        assert_eq!(programs.len(), 1, "{}: {programs:?}", arch.name);
        let expected: BTreeMap<u64, u64> = programs.into_iter().map(|tid| (tid, calls)).collect();
        assert_eq!(tasks, expected, "{}", arch.name);
    }
}
