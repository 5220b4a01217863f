//! `kymo doctor` on traces with one mistake each, and on one without.

use std::fs;
use std::path::Path;

use crate::run::{kymo, printed};
use kymo::vocabulary::{
    Address, ChainEnd, CountedEvent, CpuMode, GroupCount, IrqEnter, IrqExit, IrqName, LockAcquired,
    LockKind, LockName, LockReleased, Mark, Object, PipeWrite, Sample, SessionEnd, SwitchReason,
    Syscall, SyscallEnter, SyscallExit, SyscallName, ThreadName, ThreadState, Tid,
};
use kymo::{Irq, Sequence, Text};
use kymo_made::{MS, Made, US};
use serde_json::Value;

const WAITS: (ThreadState, SwitchReason) = (ThreadState::Blocked, SwitchReason::Waits);
const EXPIRED: (ThreadState, SwitchReason) = (ThreadState::Runnable, SwitchReason::Expired);
const IDLE: (ThreadState, SwitchReason) = (ThreadState::Runnable, SwitchReason::Idle);

fn switch(made: &mut Made, cpu: u32, time: u64, prev: (u32, (ThreadState, SwitchReason)), to: u32) {
    let (tid, (state, reason)) = prev;
    made.switch(cpu, time, (tid, state, reason), (to, 1));
}

fn name(made: &mut Made, tid: u32, name: &str) {
    let (tid, name) = (Tid(tid), Text::from(name));
    made.event(0, 0, ThreadName { tid, name });
}

fn interrupt(made: &mut Made, cpu: u32, time: u64) {
    made.event(cpu, time, IrqEnter { irq: Irq(9) });
    made.event(cpu, time + US, IrqExit { irq: Irq(9) });
}

fn enter(made: &mut Made, cpu: u32, time: u64, id: u32) {
    let id = Syscall(id);
    made.event(cpu, time, SyscallEnter { id, arg0: 0 });
}

fn exit(made: &mut Made, cpu: u32, time: u64, id: u32) {
    let id = Syscall(id);
    made.event(cpu, time, SyscallExit { id, ret: 0 });
}

/// The names of threads 5 (on CPU 0) and 6 (on CPU 1), interrupt 9, call 4 and lock 0xbeef.
fn named(title: &str) -> Made {
    let mut made = Made::with_samples(&format!("doctor-{title}"));
    name(&mut made, 5, "reader");
    name(&mut made, 6, "writer");
    let (irq, id, lock) = (Irq(9), Syscall(4), Object(0xbeef));
    made.event(
        0,
        0,
        IrqName {
            irq,
            name: Text::new("disk"),
        },
    );
    made.event(
        0,
        0,
        SyscallName {
            id,
            name: Text::new("write"),
        },
    );
    let (kind, name) = (LockKind::Mutex, Text::new("table"));
    made.event(0, 0, LockName { lock, kind, name });
    made
}

/// Two CPUs on which all is well until 10 ms: on each, its thread waits, is woken by an interrupt,
/// and makes a call with a lock. At the end both threads run.
fn healthy(title: &str) -> Made {
    let mut made = named(title);
    for (cpu, tid) in [(0, 5), (1, 6)] {
        for round in 0..10 {
            let begin = round * MS + MS / 2;
            switch(&mut made, cpu, begin, (0, IDLE), tid);
            enter(&mut made, cpu, begin + 10 * US, 4);
            let (lock, kind, contended) = (Object(0xbeef), LockKind::Mutex, false);
            made.event(
                cpu,
                begin + 20 * US,
                LockAcquired {
                    lock,
                    kind,
                    contended,
                },
            );
            made.event(cpu, begin + 30 * US, LockReleased { lock, kind });
            exit(&mut made, cpu, begin + 40 * US, 4);
            switch(&mut made, cpu, begin + 50 * US, (tid, WAITS), 0);
            interrupt(&mut made, cpu, begin + 60 * US);
            made.wake(cpu, begin + 70 * US, tid, 0);
        }
        switch(&mut made, cpu, 11 * MS, (0, IDLE), tid);
    }
    made
}

/// Exit status and the whole answer.
fn examined(trace: &Path) -> (Option<i32>, Value) {
    let (code, text) = printed(&["doctor", "--json"], trace);
    let all: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(all["healthy"], code == Some(0), "{text}");
    let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src");
    for page in all["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|of| &of["page"])
    {
        let Some(page) = page.as_str() else { continue };
        let (file, section) = page.split_once('#').unwrap();
        let text = fs::read_to_string(book.join(file)).unwrap();
        let anchor = |line: &str| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
            title
                .chars()
                .filter(kept)
                .collect::<String>()
                .replace(' ', "-")
        };
        let mut headings = text.lines().filter(|line| line.starts_with('#'));
        assert!(headings.any(|line| anchor(line) == section), "{page}");
    }
    (code, all)
}

/// The findings but for the list of what was not recorded: severity, rule, message, and the time
/// since the trace began in microseconds with the CPU.
fn findings(all: &Value) -> Vec<[String; 4]> {
    let begin = all["zero_ns"].as_i64().unwrap_or(0);
    let of = |finding: &Value| {
        let text = |key: &str| finding[key].as_str().unwrap().to_owned();
        let place = finding["time_ns"].as_i64().map_or(String::new(), |time| {
            format!("{} us on {}", (time - begin) / 1000, finding["cpu"])
        });
        [text("severity"), text("rule"), text("message"), place]
    };
    let all = all["findings"].as_array().unwrap().iter().map(of);
    all.filter(|of| of[1] != "never-recorded").collect()
}

/// The trace has exactly these findings.
#[track_caller]
fn has(trace: &Path, expected: &[[&str; 4]]) {
    let (code, all) = examined(trace);
    let found = findings(&all);
    assert_eq!(found, expected, "{found:#?}");
    let is_wrong = expected.iter().any(|of| of[0] == "wrong");
    assert_eq!(code, Some(i32::from(is_wrong)));
    let remedies = all["findings"].as_array().unwrap();
    assert!(remedies.iter().all(|of| of["remedy"].is_string()), "{all}");
}

#[test]
fn a_healthy_trace_is_told_in_one_sentence_with_what_was_looked_at() {
    let mut made = healthy("healthy");
    let trace = made.finish();
    has(trace, &[]);
    let (code, text) = printed(&["doctor"], trace);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(code, Some(0), "{text}");
    assert!(
        lines[0].starts_with("hint     In the vocabulary, but never recorded: "),
        "{text}"
    );
    assert!(
        !lines[0].contains("sched_switch") && lines[0].contains(", mm_page_alloc,"),
        "{text}"
    );
    assert_eq!(lines[2], "Nothing is wrong with the trace; 1 hint.");
    let looked = "Looked at: events 187, CPUs 2, clocks 1, switches 42, wake-ups 20, interrupts \
                  20, system calls 20, locks 1, names 5, samples 0, lost events 0.";
    assert_eq!(lines[3..], [looked]);
}

#[test]
fn findings_have_a_place_and_a_remedy() {
    let mut made = healthy("text");
    switch(&mut made, 1, 12 * MS, (77, EXPIRED), 6);
    let (code, text) = printed(&["doctor"], made.finish());
    let begin = "wrong    A switch from thread 77, but thread 6 ran here. [switch-chain]\n         \
                 First at 0.012000000 on cpu1.\n         Record `sched_switch` at every switch";
    assert!(text.starts_with(begin), "{text}");
    assert!(
        text.contains("gives this CPU's blocks: your-kernel.md#record\n"),
        "{text}"
    );
    let verdict = "\n1 thing is wrong; 1 thing is missing, 1 hint.\n";
    assert!(text.contains(verdict), "{text}");
    assert_eq!(code, Some(1));
}

#[test]
fn cpus_without_switches() {
    let mut made = healthy("no-switch");
    interrupt(&mut made, 2, 12 * MS);
    enter(&mut made, 2, 13 * MS, 4);
    let message = "CPU 2 has 1 interrupt and 1 system call, but no sched_switch";
    has(
        made.finish(),
        &[["missing", "switches", message, "12000 us on 2"]],
    );
    let mut made = named("no-switches");
    interrupt(&mut made, 0, MS);
    let message = "The trace has no sched_switch: which thread runs is not known";
    has(made.finish(), &[["missing", "switches", message, ""]]);
}

#[test]
fn cpus_without_an_idle_thread() {
    let mut made = healthy("no-idle");
    for round in 0..5 {
        switch(&mut made, 2, 12 * MS + 2 * round * US, (7, EXPIRED), 8);
        switch(
            &mut made,
            2,
            12 * MS + (2 * round + 1) * US,
            (8, EXPIRED),
            7,
        );
    }
    name(&mut made, 7, "a");
    name(&mut made, 8, "b");
    let message = "No idle thread ran on CPU 2: the report counts all time there as busy";
    has(made.finish(), &[["hint", "idle", message, "12000 us on 2"]]);
}

#[test]
fn wakeups_that_are_missing() {
    // One thread's.
    let mut made = healthy("no-wake");
    name(&mut made, 7, "alone");
    for round in 0..3 {
        switch(&mut made, 2, 12 * MS + 2 * round * MS, (0, IDLE), 7);
        switch(&mut made, 2, 13 * MS + 2 * round * MS, (7, WAITS), 0);
    }
    let message = "No wake-up is recorded of threads that waited and ran again: thread 7 2 times";
    has(
        made.finish(),
        &[["missing", "wake-ups", message, "14000 us on 2"]],
    );
    // All.
    let mut made = named("no-wakes");
    for round in 0..2 {
        switch(&mut made, 0, 2 * round * MS, (0, IDLE), 5);
        switch(&mut made, 0, (2 * round + 1) * MS, (5, WAITS), 0);
    }
    let message = "The trace has no sched_wakeup, but threads that waited ran again once";
    has(
        made.finish(),
        &[["missing", "wake-ups", message, "2000 us on 0"]],
    );
}

#[test]
fn states_that_are_always_runnable() {
    let mut made = named("runnable");
    for round in 0..4 {
        switch(&mut made, 0, 4 * round * MS, (0, IDLE), 5);
        switch(&mut made, 0, (4 * round + 1) * MS, (5, EXPIRED), 0);
        made.wake(0, (4 * round + 2) * MS, 5, 0);
    }
    let message = "All 4 wake-ups are of threads that ran or were runnable, by the switches before";
    has(
        made.finish(),
        &[["wrong", "wake-state", message, "2000 us on 0"]],
    );
}

#[test]
fn what_has_no_name() {
    let mut made = healthy("names");
    let (lock, kind, contended) = (Object(0xf00d), LockKind::Mutex, false);
    switch(&mut made, 1, 12 * MS, (6, EXPIRED), 7);
    for tid in 8..18 {
        switch(
            &mut made,
            1,
            12 * MS + u64::from(tid) * US,
            (tid - 1, EXPIRED),
            tid,
        );
    }
    made.event(
        1,
        14 * MS,
        LockAcquired {
            lock,
            kind,
            contended,
        },
    );
    made.event(1, 15 * MS, LockReleased { lock, kind });
    for irq in [2, 3] {
        made.event(1, 16 * MS, IrqEnter { irq: Irq(irq) });
        made.event(1, 16 * MS, IrqExit { irq: Irq(irq) });
    }
    enter(&mut made, 1, 17 * MS, 300);
    exit(&mut made, 1, 18 * MS, 300);
    let threads = "Threads 7, 8, 9, 10, 11, 12, 13, 14 and 3 more have no names";
    has(
        made.finish(),
        &[
            ["missing", "names", threads, "12000 us on 1"],
            [
                "missing",
                "names",
                "Interrupts 2 and 3 have no names",
                "16000 us on 1",
            ],
            [
                "missing",
                "names",
                "System call 300 has no name",
                "17000 us on 1",
            ],
            [
                "missing",
                "names",
                "Lock 0xf00d has no name",
                "14000 us on 1",
            ],
        ],
    );
}

#[test]
fn interrupts_that_begin_or_end_only() {
    let mut made = healthy("irq");
    for round in 0..3 {
        made.event(0, 12 * MS + round * US, IrqEnter { irq: Irq(9) });
    }
    let message = "Interrupt 9 (disk) begins 23 times and ends 20 times";
    has(
        made.finish(),
        &[["wrong", "interrupt-pairs", message, "560 us on 0"]],
    );
    // One open handler a CPU is none too many.
    let mut made = healthy("irq-open");
    for cpu in [0, 1] {
        made.event(cpu, 12 * MS, IrqEnter { irq: Irq(9) });
    }
    has(made.finish(), &[]);
    let mut made = named("irq-exit");
    switch(&mut made, 0, MS, (0, IDLE), 5);
    for round in 2..7 {
        made.event(0, round * MS, IrqEnter { irq: Irq(9) });
    }
    let message = "irq_handler_entry came 5 times, but irq_handler_exit never did";
    has(
        made.finish(),
        &[["wrong", "counterpart", message, "2000 us on 0"]],
    );
}

#[test]
fn calls_that_begin_or_end_only() {
    let mut made = healthy("calls");
    // That the last one is pending is no finding, nor that a thread was in a call at the begin.
    for round in 0..4 {
        enter(&mut made, 0, 12 * MS + round * US, 4);
    }
    for round in 0..3 {
        exit(&mut made, 1, 13 * MS + round * US, 4);
    }
    let never_left = "System call 4 (write) was entered and never left 3 times";
    let never_entered = "System call 4 (write) was left without having been entered 2 times";
    has(
        made.finish(),
        &[
            ["wrong", "system-call-pairs", never_left, "12001 us on 0"],
            ["wrong", "system-call-pairs", never_entered, "13001 us on 1"],
        ],
    );
}

#[test]
fn events_without_their_counterpart() {
    let mut made = named("counterpart");
    switch(&mut made, 0, MS, (0, IDLE), 5);
    for round in 1..6 {
        let (lock, kind, contended) = (Object(0xbeef), LockKind::Mutex, false);
        made.event(
            0,
            MS + round * US,
            LockAcquired {
                lock,
                kind,
                contended,
            },
        );
        made.event(
            0,
            MS + round * US,
            PipeWrite {
                pipe: Object(1),
                len: 4,
            },
        );
    }
    let locks = "lock_acquired came 5 times, but lock_release never did";
    let pipes = "pipe_write came 5 times, but pipe_read never did";
    has(
        made.finish(),
        &[
            ["wrong", "counterpart", locks, "1001 us on 0"],
            ["hint", "counterpart", pipes, "1001 us on 0"],
        ],
    );
}

#[test]
fn contradictions_are_counted_by_rule() {
    let mut made = healthy("contradictions");
    switch(&mut made, 0, 12 * MS, (77, EXPIRED), 5);
    switch(&mut made, 0, 13 * MS, (77, EXPIRED), 5);
    made.event(
        0,
        14 * MS,
        LockReleased {
            lock: Object(0xbeef),
            kind: LockKind::Mutex,
        },
    );
    name(&mut made, 77, "other");
    let message = "A switch from thread 77, but thread 5 ran here; the trace has 2 such \
                   contradictions";
    let lock = "Lock 0xbeef is released, but nobody holds it";
    has(
        made.finish(),
        &[
            ["wrong", "lock-held", lock, "14000 us on 0"],
            ["wrong", "switch-chain", message, "12000 us on 0"],
        ],
    );
}

#[test]
fn clocks_of_cpus_that_differ() {
    // Thread 5 moves to CPU 1, whose clock is behind: it runs there before it leaves CPU 0.
    let mut made = healthy("skew");
    switch(&mut made, 1, 12 * MS, (6, EXPIRED), 5);
    switch(&mut made, 0, 12 * MS + 7 * US, (5, EXPIRED), 0);
    let message = "The clock of CPU 1 is at least 7000 ns behind that of CPU 0: thread 5 runs on \
                   CPU 1 before it leaves CPU 0; something runs before its cause once";
    has(
        made.finish(),
        &[["wrong", "clock-skew", message, "12000 us on 1"]],
    );
    // It waits, and runs on CPU 1 before CPU 0 wakes it.
    let mut made = healthy("skew-wake");
    switch(&mut made, 0, 12 * MS, (5, WAITS), 0);
    switch(&mut made, 1, 13 * MS, (6, EXPIRED), 5);
    made.wake(0, 13 * MS + 2 * US, 5, 0);
    let message = "The clock of CPU 1 is at least 2000 ns behind that of CPU 0: thread 5 runs on \
                   CPU 1 before it is woken on CPU 0; something runs before its cause once";
    has(
        made.finish(),
        &[["wrong", "clock-skew", message, "13000 us on 1"]],
    );
}

#[test]
fn clocks_that_do_not_run() {
    let mut made = healthy("slow");
    let trace = made.finish().to_owned();
    let metadata = fs::read_to_string(trace.join("metadata")).unwrap();
    let slow = metadata.replace("freq = 1000000000;", "freq = 1;");
    assert_ne!(metadata, slow);
    fs::write(trace.join("metadata"), slow).unwrap();
    let message = "The clock `kymo` is said to have 1 ticks per second, which no clock has";
    has(&trace, &[["wrong", "clock-frequency", message, ""]]);
    let mut made = named("still");
    switch(&mut made, 0, 0, (0, IDLE), 5);
    interrupt(&mut made, 0, 0);
    let mut still = named("still");
    switch(&mut still, 0, 0, (0, IDLE), 5);
    switch(&mut still, 0, 0, (5, EXPIRED), 0);
    let message = "All 2 events have the time 0";
    has(
        still.finish(),
        &[["wrong", "clock-still", message, "0 us on 0"]],
    );
    let mut coarse = healthy("coarse");
    for round in 0..200 {
        coarse.event(0, 20 * MS + round / 100, Mark { id: 1, value: 2 });
    }
    let message = "198 of 382 events have the time of the event before them on their CPU: a tick \
                   of the clock is longer than what the kernel does in between";
    has(
        coarse.finish(),
        &[["hint", "clock-coarse", message, "500 us on 0"]],
    );
}

#[test]
fn lost_events() {
    let mut made = healthy("lost");
    made.lose(0, 186, 12 * MS);
    switch(&mut made, 0, 13 * MS, (5, EXPIRED), 0);
    let (_, all) = examined(made.finish());
    let found = findings(&all);
    let [severity, rule, message, place] = &found[0];
    assert_eq!(
        (&**severity, &**rule, &**place),
        ("missing", "losses", "11000 us on 0")
    );
    let lost = "events_0 lost 186 of 278 events: about 5 kB would have held them all";
    assert_eq!(message, lost);
    assert_eq!(found.len(), 1, "{found:?}");
    // What the session has counted, and the trace lacks.
    let mut made = healthy("missing");
    let end = SessionEnd {
        recorded: 200,
        reused: 0,
        discarded: 0,
        too_large: 0,
        clock_back: 0,
        abandoned: 0,
        without_ring: 0,
    };
    made.event(0, 12 * MS, end);
    let message = "The kernel counted 13 events more than the trace and its losses have";
    has(made.finish(), &[["wrong", "missing-events", message, ""]]);
}

fn sample(made: &mut Made, time: u64, mode: CpuMode, callers: &[u64], ip: u64, end: ChainEnd) {
    let addresses: Vec<Address> = callers.iter().copied().map(Address).collect();
    let is_kernel = mode == CpuMode::Kernel;
    let ends = |part| if part { end } else { ChainEnd::Absent };
    let sample = Sample {
        ip: Address(ip),
        tid: Tid(5),
        period: 100,
        missed: 0,
        mode,
        kernel_callers: if is_kernel { callers.len() as u8 } else { 0 },
        kernel_end: ends(is_kernel),
        user_end: ends(!is_kernel),
        callchain: Sequence::new(&addresses),
    };
    made.event(0, time, sample);
}

#[test]
fn samples_without_callers_or_in_one_place() {
    use ChainEnd::{Complete, NotRising};
    use CpuMode::{Kernel, User};
    let times = || (0..20).map(|round| (12 * MS + round * US, round));
    // Samples alone need no switches.
    let mut made = named("samples");
    times().for_each(|(time, ip)| sample(&mut made, time, Kernel, &[1], ip, Complete));
    has(made.finish(), &[]);
    let mut made = healthy("alone");
    times().for_each(|(time, ip)| sample(&mut made, time, Kernel, &[], ip, Complete));
    let message = "None of the 20 samples in the kernel has callers";
    has(
        made.finish(),
        &[["missing", "call-chains", message, "12000 us on 0"]],
    );
    let mut made = healthy("alone-user");
    times().for_each(|(time, ip)| sample(&mut made, time, User, &[], ip, Complete));
    let message = "None of the 20 samples in programs has callers";
    has(
        made.finish(),
        &[["missing", "call-chains", message, "12000 us on 0"]],
    );
    let mut made = healthy("broken");
    times().for_each(|(time, ip)| sample(&mut made, time, Kernel, &[1], ip, NotRising));
    let message = "The call chain in the kernel breaks off 20 times in 20 samples";
    has(
        made.finish(),
        &[["missing", "call-chains", message, "12000 us on 0"]],
    );
    let mut made = healthy("masked");
    times().for_each(|(time, ip)| {
        sample(
            &mut made,
            time,
            Kernel,
            &[1],
            if ip == 3 { 3 } else { 0x80 },
            Complete,
        );
    });
    let message = "19 of 20 samples in the kernel are at 0x80, probably where interrupts are \
                   unmasked";
    has(
        made.finish(),
        &[["missing", "sample-places", message, "12000 us on 0"]],
    );
}

#[test]
fn counters_that_never_count() {
    let mut made = healthy("counters");
    let (place, events, name) = (0, 1, Text::new("cycles"));
    made.event(
        0,
        0,
        CountedEvent {
            group: 0,
            groups: 1,
            place,
            events,
            name,
        },
    );
    for (cpu, running) in [(0, 0), (1, 1)] {
        for round in 1..3 {
            let group = GroupCount {
                time_enabled: round * MS,
                time_running: running * round * MS,
                group: 0,
                counts: Sequence::new(&[running * round]),
            };
            made.event(cpu, 12 * MS + round * MS, group);
        }
    }
    let message = "The counters never counted on CPU 0";
    has(made.finish(), &[["missing", "counters", message, ""]]);
}

#[test]
fn what_is_not_hooked_is_listed_by_subject() {
    let mut made = healthy("hooks");
    let trace = made.finish().to_owned();
    let metadata = fs::read_to_string(trace.join("metadata")).unwrap();
    let is_kept = |block: &&str| {
        let gone = [
            "page_fault",
            "mm_page_alloc",
            "mm_page_free",
            "thread_delay",
        ];
        !gone
            .iter()
            .any(|name| block.contains(&format!("name = \"{name}\"")))
    };
    let kept: Vec<&str> = metadata
        .split_inclusive("};\n\nevent {")
        .filter(is_kept)
        .collect();
    fs::write(trace.join("metadata"), kept.concat()).unwrap();
    let memory = "No event of memory: page_fault, mm_page_alloc, mm_page_free";
    has(
        &trace,
        &[
            ["hint", "not-hooked", "Of scheduling, not: thread_delay", ""],
            ["hint", "not-hooked", memory, ""],
        ],
    );
    // A program has no scheduler.
    let program = metadata.replace("domain = \"bare\"", "domain = \"ust\"");
    assert_ne!(program, metadata);
    fs::write(trace.join("metadata"), program).unwrap();
    let (_, all) = examined(&trace);
    assert_eq!(all["findings"].as_array().unwrap().len(), 0, "{all}");
}

#[test]
fn empty_and_damaged_traces() {
    let mut made = Made::new("doctor-empty");
    let trace = made.finish();
    has(trace, &[["wrong", "empty", "The trace has no events", ""]]);
    let mut made = named("only-names");
    let message = "None of the 5 events of the trace is one of what the kernel does";
    has(made.finish(), &[["wrong", "empty", message, ""]]);
    let mut made = healthy("damaged");
    let trace = made.finish().to_owned();
    let stream = trace.join("events_0");
    let bytes = fs::read(&stream).unwrap();
    fs::write(&stream, &bytes[..bytes.len() - 1]).unwrap();
    let output = kymo(&["doctor"], &trace);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.starts_with("wrong    The trace is damaged: "),
        "{text}"
    );
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (output.status.code(), error.lines().count()),
        (Some(3), 1),
        "{error}"
    );
}
