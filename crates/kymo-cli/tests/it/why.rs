//! `kymo why` on traces in which the answer is known.

use std::fs;
use std::path::Path;

use kymo::Text;
use kymo::vocabulary::{
    Irq, IrqEnter, IrqExit, IrqName, LockAcquired, LockKind, LockName, LockReleased, LockWait,
    Object, SwitchReason, Syscall, SyscallEnter, SyscallExit, SyscallName, ThreadName, ThreadState,
    Tid,
};
use kymo_made::{MS, Made, US};
use serde_json::{Value, json};

use crate::run::kymo;

const IDLE: (u32, ThreadState, SwitchReason) = (0, ThreadState::Runnable, SwitchReason::Idle);

fn waits(tid: u32) -> (u32, ThreadState, SwitchReason) {
    (tid, ThreadState::Blocked, SwitchReason::Waits)
}

fn preempted(tid: u32) -> (u32, ThreadState, SwitchReason) {
    (tid, ThreadState::Runnable, SwitchReason::Preempted)
}

fn named(name: &str) -> Made {
    let mut made = Made::new(name);
    for (tid, name) in [(11, "logger"), (12, "control loop"), (13, "batch job")] {
        let (tid, name) = (Tid(tid), Text::new(name));
        made.event(0, 0, ThreadName { tid, name });
    }
    for (irq, name) in [(5, "disk"), (6, "network")] {
        let (irq, name) = (Irq(irq), Text::new(name));
        made.event(0, 0, IrqName { irq, name });
    }
    let (lock, kind, name) = (LOCK, LockKind::Mutex, Text::new("log buffer"));
    made.event(0, 0, LockName { lock, kind, name });
    let (id, name) = (Syscall(3), Text::new("write"));
    made.event(0, 0, SyscallName { id, name });
    made
}

const LOCK: Object = Object(0xbeef);

/// The control loop waits 6.25 ms for a lock. The logger, which holds it, is preempted by the batch
/// job for 3 ms, and then interrupted by the disk for 0.6 ms.
pub fn held_up(name: &str) -> Made {
    let (lock, kind) = (LOCK, LockKind::Mutex);
    let acquired = |contended| LockAcquired {
        lock,
        kind,
        contended,
    };
    let mut made = named(name);
    made.switch(1, MS / 2, IDLE, (11, 5));
    made.switch(0, MS, IDLE, (12, 9));
    made.event(1, 3 * MS / 2, acquired(false));
    let id = Syscall(3);
    made.event(0, 19 * MS / 10, SyscallEnter { id, arg0: 1 });
    let owner_tid = Tid::UNKNOWN;
    let wait = LockWait {
        lock,
        owner_tid,
        kind,
    };
    made.event(0, 2 * MS, wait);
    made.switch(0, 2 * MS + 100 * US, waits(12), (0, 0));
    made.switch(1, 3 * MS, preempted(11), (13, 7));
    made.switch(1, 6 * MS, preempted(13), (11, 5));
    made.event(1, 7 * MS, IrqEnter { irq: Irq(5) });
    made.event(1, 7 * MS + 600 * US, IrqExit { irq: Irq(5) });
    made.event(1, 8 * MS, LockReleased { lock, kind });
    made.wake(1, 8 * MS + 50 * US, 12, 11);
    made.switch(0, 8 * MS + 200 * US, IDLE, (12, 9));
    made.event(0, 8 * MS + 250 * US, acquired(true));
    made.event(0, 8 * MS + 400 * US, LockReleased { lock, kind });
    made.event(0, 8 * MS + 500 * US, SyscallExit { id, ret: 1 });
    made.switch(0, 9 * MS, waits(12), (0, 0));
    made.switch(1, 9 * MS + 100 * US, waits(11), (13, 7));
    made.switch(1, 10 * MS, waits(13), (0, 0));
    made
}

fn json_of(arguments: &[&str], trace: &Path) -> Value {
    let all = [&["why", "--json"], arguments].concat();
    let output = kymo(&all, trace);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{message}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn text_of(arguments: &[&str], trace: &Path) -> String {
    let output = kymo(&[&["why"], arguments].concat(), trace);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{message}");
    String::from_utf8(output.stdout).unwrap()
}

/// Kind, number of the responsible thread, interrupt or idle CPU, and length in microseconds.
fn short(path: &Value) -> Vec<(String, String, u64)> {
    let segments = path["segments"].as_array().unwrap().iter();
    let segments = segments.map(|segment| {
        let who = &segment["who"];
        let number = ["tid", "irq", "cpu"].map(|of| who[of].as_u64());
        let number = number.into_iter().flatten().next();
        let who = match (who["is"].as_str().unwrap(), number) {
            (is, Some(number)) => format!("{is} {number}"),
            (is, None) => is.to_owned(),
        };
        let kind = segment["kind"].as_str().unwrap().to_owned();
        (kind, who, segment["ns"].as_u64().unwrap() / US)
    });
    segments.collect()
}

fn expected(segments: &[(&str, &str, u64)]) -> Vec<(String, String, u64)> {
    let segments = segments.iter();
    segments
        .map(|(kind, who, us)| ((*kind).to_owned(), (*who).to_owned(), *us))
        .collect()
}

#[test]
fn a_lock_whose_holder_is_preempted_and_interrupted_is_explained() {
    let mut made = held_up("why-lock");
    let trace = made.finish();
    // By its time, and because it is the thread's longest wait.
    let path = json_of(&["--thread", "control loop", "--at", "5ms"], trace);
    assert_eq!(path, json_of(&["--tid", "12"], trace));
    assert_eq!(path["stretch"], "lock_wait");
    assert_eq!(
        path["lock"],
        json!({ "lock": 0xbeef, "name": "log buffer" })
    );
    assert_eq!([&path["begin_ns"], &path["ns"]], [2 * MS, 6250 * US]);
    let way = [
        ("running", "thread 11", 1000),
        ("runnable", "thread 13", 3000),
        ("running", "thread 11", 1000),
        ("interrupt", "interrupt 5", 600),
        ("running", "thread 11", 400),
        ("running", "thread 11", 50),
        ("runnable", "idle_cpu 0", 150),
        ("running", "thread 12", 50),
    ];
    assert_eq!(short(&path), expected(&way));
    let because = &path["segments"][1]["because"];
    assert_eq!(because["why"], "holds");
    assert_eq!(because["waiter"]["tid"], 12);
    assert_eq!(because["lock"]["name"], "log buffer");
    assert_eq!(path["segments"][5]["because"]["why"], "wakes");
    assert_eq!(path["segments"][7]["call"]["name"], "write");
    assert_eq!(path["by_who"][0]["who"]["name"], "batch job");
    assert_eq!(path["by_who"][0]["ns"], 3 * MS);
    assert_eq!(path["by_who"][1]["ns"], 2450 * US);
    assert_eq!(path["losses"], 0);
    let text = text_of(&["--thread", "control*"], trace);
    for line in [
        "control loop (12) waited 6.250 ms for the lock log buffer, from 0.002000000 to 0.00825",
        "batch job (13)",
        "runs while logger (11) is runnable",
        "interrupts logger (11)",
        "has log buffer, control loop (12) waits",
        "runs nothing, though control loop (12) is runnable",
        "48.0%",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn a_stretch_is_what_contains_the_time() {
    let mut made = held_up("why-stretch");
    let trace = made.finish();
    // It runs: from its wake-up to its next wait.
    let path = json_of(&["--tid", "12", "--at", "8.8ms"], trace);
    assert_eq!(path["stretch"], "activation");
    assert_eq!([&path["begin_ns"], &path["end_ns"]], [8050 * US, 9 * MS]);
    // Preempted.
    let path = json_of(&["--tid", "11", "--at", "4ms"], trace);
    assert_eq!(path["stretch"], "off_cpu");
    assert_eq!(short(&path), expected(&[("runnable", "thread 13", 3000)]));
    // Any other.
    let path = json_of(&["--tid", "11", "--from", "6.5ms", "--to", "+1ms"], trace);
    let way = [
        ("running", "thread 11", 500),
        ("interrupt", "interrupt 5", 500),
    ];
    assert_eq!(path["stretch"], "given");
    assert_eq!(short(&path), expected(&way));
    // The wait that lasts until the end of the trace is not the longest one that ended.
    let path = json_of(&["--tid", "12", "--at", "9.5ms"], trace);
    assert_eq!(path["is_open"], true);
    assert_eq!(path["segments"][0]["note"], "not_woken");
    let text = text_of(&["--tid", "12", "--at", "9.5ms"], trace);
    assert!(
        text.contains("had not ended at the end of the trace"),
        "{text}"
    );
}

#[test]
fn only_the_longest_segments_are_printed() {
    let mut made = held_up("why-top");
    let text = text_of(&["--tid", "12", "--top", "2"], made.finish());
    assert!(
        text.contains("and 6 shorter ones, 2.250 ms together; --top 0 prints all"),
        "{text}"
    );
    assert!(!text.contains("interrupts logger"), "{text}");
}

/// A thread is woken by the disk's interrupt on the other CPU, inside of which the network's is
/// handled.
#[test]
fn a_thread_that_an_interrupt_woke_waited_for_it() {
    let mut made = named("why-interrupt");
    made.switch(0, MS / 2, IDLE, (12, 9));
    made.switch(1, MS / 2, IDLE, (13, 9));
    made.switch(0, MS, waits(12), (0, 0));
    made.event(1, 4 * MS, IrqEnter { irq: Irq(5) });
    made.event(1, 4 * MS + 100 * US, IrqEnter { irq: Irq(6) });
    made.event(1, 4 * MS + 130 * US, IrqExit { irq: Irq(6) });
    made.wake(1, 4 * MS + 200 * US, 12, 0);
    made.event(1, 4 * MS + 300 * US, IrqExit { irq: Irq(5) });
    made.switch(0, 4 * MS + 500 * US, IDLE, (12, 9));
    let trace = made.finish();
    let path = json_of(&["--tid", "12"], trace);
    let way = [
        ("blocked", "interrupt 5", 3000),
        ("interrupt", "interrupt 5", 100),
        ("interrupt", "interrupt 6", 30),
        ("interrupt", "interrupt 5", 70),
        ("runnable", "idle_cpu 0", 300),
    ];
    assert_eq!(short(&path), expected(&way));
    let text = text_of(&["--tid", "12"], trace);
    for part in [
        "control loop (12) is blocked until it happens",
        "wakes control loop (12)",
        "interrupt disk (5)",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

/// Without wake-ups and locks nobody can be named.
#[test]
fn what_the_trace_does_not_say_is_said() {
    let mut made = named("why-nothing");
    made.switch(0, MS, IDLE, (12, 9));
    made.switch(0, 2 * MS, waits(12), (13, 0));
    made.switch(0, 5 * MS, waits(13), (12, 0));
    let trace = made.finish();
    let path = json_of(&["--tid", "12"], trace);
    assert_eq!(short(&path), expected(&[("blocked", "unknown", 3000)]));
    assert_eq!(path["segments"][0]["note"], "waker");
    let text = text_of(&["--tid", "12"], trace);
    for part in ["not recorded", "the trace does not say who woke it"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

/// The logger's CPU loses events while the control loop waits for it.
#[test]
fn a_loss_is_said_and_not_guessed_over() {
    let mut made = named("why-loss");
    made.switch(1, MS / 2, IDLE, (11, 5));
    made.switch(0, MS, IDLE, (12, 9));
    made.switch(0, 2 * MS, waits(12), (0, 0));
    made.event(1, 3 * MS, IrqEnter { irq: Irq(5) });
    made.event(1, 3 * MS + 100 * US, IrqExit { irq: Irq(5) });
    made.lose(1, 10, 5 * MS);
    made.switch(1, 5 * MS + 100 * US, preempted(13), (11, 5));
    made.wake(1, 6 * MS, 12, 11);
    made.switch(0, 6 * MS + 100 * US, IDLE, (12, 9));
    let trace = made.finish();
    // What it did off CPU is unknown, too, so that this is no wait that the verb finds by itself.
    let output = kymo(&["why", "--tid", "12"], trace);
    assert_eq!(output.status.code(), Some(2));
    let path = json_of(&["--tid", "12", "--from", "2ms", "--to", "6.1ms"], trace);
    assert_eq!(path["losses"], 1);
    let way = [
        ("unknown", "unknown", 4000),
        ("runnable", "idle_cpu 0", 100),
    ];
    assert_eq!(short(&path), expected(&way));
    let text = text_of(&["--tid", "12", "--from", "2ms", "--to", "6.1ms"], trace);
    for part in [
        "(1 loss)",
        "the trace does not say what control loop (12) does",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

/// A file that is no stream makes unknown what all threads did: this is said with the refusal.
#[test]
fn damage_is_said_with_a_refusal() {
    let mut made = held_up("why-damaged");
    let trace = made.finish();
    assert_eq!(kymo(&["why", "--tid", "12"], trace).status.code(), Some(0));
    fs::write(trace.join("noise"), [0; 4096]).unwrap();
    let output = kymo(&["why", "--tid", "12"], trace);
    let message = String::from_utf8(output.stderr).unwrap();
    let [damage, refusal] = message.lines().collect::<Vec<_>>()[..] else {
        panic!("{message}");
    };
    assert!(damage.contains("noise, packet 0, byte 0: expected a packet"));
    assert!(refusal.contains("no whole wait of thread 12"), "{refusal}");
    assert_eq!(output.status.code(), Some(2));
    // A stretch that is given has its path, of which nothing is known.
    let output = kymo(
        &["why", "--tid", "12", "--from", "2ms", "--to", "3ms"],
        trace,
    );
    assert_eq!(output.status.code(), Some(3));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("unknown"), "{text}");
}

/// Two threads wait for each other's locks until the end of the trace.
#[test]
fn a_deadlock_is_named() {
    let mut made = named("why-deadlock");
    let other = Object(0xcafe);
    let kind = LockKind::Mutex;
    let acquired = |lock| LockAcquired {
        lock,
        kind,
        contended: false,
    };
    let wait = |lock| LockWait {
        lock,
        owner_tid: Tid::UNKNOWN,
        kind,
    };
    made.switch(0, MS, IDLE, (11, 5));
    made.switch(1, MS, IDLE, (12, 5));
    made.event(0, 2 * MS, acquired(LOCK));
    made.event(1, 2 * MS + US, acquired(other));
    made.event(0, 3 * MS, wait(other));
    made.switch(0, 3 * MS + US, waits(11), (0, 0));
    made.event(1, 4 * MS, wait(LOCK));
    made.switch(1, 4 * MS + US, waits(12), (13, 0));
    made.switch(1, 9 * MS, waits(13), (0, 0));
    let trace = made.finish();
    let path = json_of(&["--tid", "12"], trace);
    let way = [("blocked", "thread 12", 5000)];
    assert_eq!(short(&path), expected(&way), "{path:#}");
    assert_eq!(path["segments"][0]["note"], "deadlock");
    let text = text_of(&["--tid", "12"], trace);
    assert!(text.contains("a deadlock"), "{text}");
}

#[test]
fn what_is_not_in_the_trace_is_refused_in_one_sentence() {
    let mut made = held_up("why-refused");
    let trace = made.finish();
    for (arguments, sentence) in [
        (
            &["--thread", "control lop"][..],
            "no thread of the trace is named \"control lop\"; did you mean \"control loop\"?",
        ),
        (
            &["--tid", "99"],
            "the trace has no event that names thread 99; kymo report lists the threads",
        ),
        (
            &["--tid", "12", "--at", "1s"],
            "the trace has nothing at 1.000000000: its events are from 0.000500000 to 0.010000000",
        ),
        (
            &["--tid", "12", "--from", "1s"],
            "the trace has nothing at 1.000000000: its events are from 0.000500000 to 0.010000000",
        ),
        (
            &["--tid", "12", "--from", "3ms", "--to", "2ms"],
            "--to is before --from; change one of them",
        ),
        (
            &["--tid", "12", "--at", "0.6ms"],
            "the trace does not say since when thread 12 waits or runs at 0.000600000; --from and \
             --to give any stretch",
        ),
        (
            &["--thread", "*o*", "--from", "3ms"],
            "3 threads are named *o* (11, 12, ...); give one by --tid",
        ),
    ] {
        let output = kymo(&[&["why"], arguments].concat(), trace);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(message, format!("kymo: {sentence}\n"));
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty());
    }
    // One of both is needed.
    assert_eq!(kymo(&["why"], trace).status.code(), Some(2));
}
