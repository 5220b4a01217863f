//! `kernels/demo` records itself by its own system calls: its program `perf` sends exactly the
//! trace over a virtio serial port.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use kymo::Diagnostics;
use kymo::wire::Open;
use kymo_ctf::{Event, Item, Trace, Value};
use kymo_e2e::demo::{ARCHES, Counts, LEDGER, RECORDED, counts, is_the_librarys, ledger, sum};
use kymo_e2e::port::{Host, Received, boot, machine};
use kymo_e2e::{babeltrace, kymo, run, scratch};

/// Records with which each hart says, at the end of a session, what the kernel's own counters have.
const OWN_COUNTERS: u64 = 9;

/// How many of them a trace has.
fn own_counters(trace: &Path) -> u64 {
    let items = Trace::open(trace).unwrap().events();
    let own = items.filter(|item| match item.as_ref().unwrap() {
        Item::Event(event) => is_the_librarys(event) && event.name() != "kymo_session_end",
        _ => false,
    });
    own.count() as u64
}

/// Checks that the sent trace has every event that the kernel counted, hart by hart, without
/// losses, and that babeltrace2 reads the same.
fn account(received: &Received, harts: usize) -> Vec<Counts> {
    let trace = received.trace();
    let (counts, lost) = counts(&trace, harts);
    assert_eq!(lost, 0);
    for (hart, (counts, ledger)) in counts
        .iter()
        .zip(&ledger(received.arch, &received.ram(), RECORDED, harts))
        .enumerate()
    {
        assert_eq!(counts, ledger, "hart {hart}: the trace, and the ledger");
    }
    // And the library's totals at the end, and what the kernel's own counters have, if their events
    // are on.
    let own = own_counters(&trace);
    assert!([0, OWN_COUNTERS * harts as u64].contains(&own), "{own}");
    assert_eq!(
        babeltrace::compare(&trace),
        (sum(&counts) + 1 + own, BTreeMap::new())
    );
    assert_eq!(received.close, Some(Diagnostics::default()));
    counts
}

fn events(trace: &Path) -> impl Iterator<Item = Event> {
    Trace::open(trace)
        .unwrap()
        .events()
        .map(|item| match item.unwrap() {
            Item::Event(event) => event,
            other => panic!("{other:?}"),
        })
}

/// Number of events of this name in the whole machine.
fn total(counts: &[Counts], event: &str) -> u64 {
    counts.iter().filter_map(|counts| counts.get(event)).sum()
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_workload_is_recorded_and_sent_while_it_runs() {
    for arch in &ARCHES {
        for harts in [1, 4] {
            let received = boot(
                arch,
                &format!("perf-record-{harts}"),
                harts,
                "kymo=send workload=faults rounds=200",
                Host::Takes,
            )
            .expect_code(0);
            assert_eq!(
                received.open,
                Some(Open {
                    channels: 1 + 2 * harts as u32,
                    flags: 0
                })
            );
            let counts = account(&received, harts);
            // The whole subject is in the trace.
            assert!(total(&counts, "page_fault") > 1240);
            // Operations before and after the session were counted, but not recorded.
            assert!(sum(&ledger(received.arch, &received.ram(), LEDGER, harts)) > sum(&counts));
        }
    }
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn rings_that_are_too_small_are_read_many_times_and_every_loss_is_told() {
    for arch in &ARCHES {
        // Four packets of 512 bytes are full again long before the next poll.
        let received = boot(
            arch,
            "perf-small",
            2,
            "kymo=send workload=switch packets=4 packet_size=512",
            Host::Takes,
        )
        .expect_code(0);
        let trace = received.trace();
        let (counts, lost) = counts(&trace, 2);
        assert!(sum(&counts) > 0 && lost > 0, "{counts:?}, {lost} lost");
        // There is room for those of the end, or they are lost too.
        let own = own_counters(&trace);
        assert_eq!(
            sum(&counts) + own + lost,
            sum(&ledger(received.arch, &received.ram(), RECORDED, 2)) + 2 * OWN_COUNTERS
        );
        assert_eq!(received.close.unwrap().discarded, lost);
        let (events, losses) = babeltrace::compare(&trace);
        assert_eq!(
            (
                events,
                losses.values().map(|(events, _)| events).sum::<u64>()
            ),
            (sum(&counts) + own + 1, lost)
        );
        let bytes: usize = received.channels.values().map(Vec::len).sum();
        assert!(bytes > 4 * 2 * 4 * 512, "{bytes} bytes");
    }
}

/// The guest waits for the host, and records the wait.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_slow_host_loses_nothing() {
    for arch in &ARCHES {
        let received = boot(
            arch,
            "perf-slow-host",
            2,
            "kymo=send workload=faults rounds=400",
            Host::IsSlow,
        )
        .expect_code(0);
        account(&received, 2);
        let trace = received.folder.join("trace");
        let clock = Trace::open(&trace).unwrap().metadata().clocks()[0].frequency;
        // 100 us
        let waits = |event: &Event| {
            let ticks = event.fields.get("ticks").and_then(Value::as_u64);
            event.name() == "thread_delay" && ticks == Some(clock / 10_000)
        };
        assert!(
            events(&trace).any(|event| waits(&event)),
            "the port has never been full"
        );
    }
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_recording_ends_when_the_host_says_so() {
    for arch in &ARCHES {
        // This program never ends and is not killed.
        let received = boot(
            arch,
            "perf-host-stops",
            2,
            "kymo=send run=loop",
            Host::Stops(50_000),
        )
        .expect_code(0);
        let counts = account(&received, 2);
        assert_eq!(total(&counts, "sched_process_exec"), 1);
        assert_eq!(total(&counts, "process_kill"), 0);
    }
}

/// One process starts the session, another one stops and sends it; objects from before the start
/// are known nevertheless.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_session_is_stopped_and_gathered_by_another_process() {
    for arch in &ARCHES {
        let append = "kymo=off run=locks run=perf,start,--rolling run=faults run=perf,status run=perf,stop run=perf,status run=perf,dump,20";
        let received = boot(arch, "perf-start-stop", 4, append, Host::Takes).expect_code(0);
        assert_eq!(
            received.open,
            Some(Open {
                channels: 9,
                flags: kymo::flags::ROLLING
            })
        );
        let counts = account(&received, 4);
        assert!(
            received.printed("perf: running, 9 channels, rolling"),
            "{}",
            received.console
        );
        assert!(
            received.printed("perf: idle, 0 channels"),
            "{}",
            received.console
        );
        let dumped = received
            .console
            .lines()
            .filter(|line| line.contains(" cpu") && line.starts_with("    "))
            .count();
        assert_eq!(dumped, 20, "{}", received.console);
        // The existing objects are in the trace, and those that were used have names.
        let names = |event: &str| {
            events(&received.folder.join("trace"))
                .filter(|found| found.name() == event)
                .map(|event| {
                    event
                        .fields
                        .get("name")
                        .unwrap()
                        .as_str()
                        .unwrap()
                        .to_owned()
                })
                .collect::<Vec<_>>()
        };
        let threads = names("thread_state");
        // Recorded at the start, and before the stop.
        assert_eq!(
            threads.iter().filter(|name| *name == "idle").count(),
            2 * 4,
            "{threads:?}"
        );
        assert!(
            threads.contains(&"main".to_owned()) && threads.contains(&"perf".to_owned()),
            "{threads:?}"
        );
        assert_eq!(names("process_state"), ["perf", "perf"]);
        assert_eq!(names("lock_name"), ["perf"]);
        for (event, name) in [
            ("irq_name", "timer"),
            ("syscall_name", "map"),
            ("syscall_name", "perf_start"),
            ("process_name", "touch"),
            ("thread_name", "touch"),
        ] {
            assert!(
                names(event).contains(&name.to_owned()),
                "{event}: {:?}",
                names(event)
            );
        }
        // The session began inside a call, whose end is the first event of a call.
        let exit = events(&received.folder.join("trace"))
            .find(|event| event.name() == "sys_exit")
            .unwrap();
        let call = exit.fields.get("id").unwrap().as_u64();
        let told = events(&received.folder.join("trace"))
            .find(|event| event.name() == "syscall_name")
            .unwrap();
        assert_eq!(
            (
                told.fields.get("id").unwrap().as_u64(),
                told.time <= exit.time
            ),
            (call, true)
        );
        // Each once per hart, as two harts may first use an object at the same time.
        let trace = received.folder.join("trace");
        let told = events(&trace).filter(|event| event.name() == "syscall_name");
        let told: Vec<_> = told
            .map(|event| (event.cpu(), event.fields.get("id").unwrap().as_u64()))
            .collect();
        assert_eq!(total(&counts, "syscall_name"), told.len() as u64);
        assert_eq!(
            told.iter().collect::<BTreeSet<_>>().len(),
            told.len(),
            "{told:?}"
        );
    }
}

/// The rings hold the end of a long run; names have been overwritten several times, and every
/// object in its events has a name.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_flight_recorder_has_the_names_of_all_that_it_shows() {
    for arch in &ARCHES {
        // Half of the names ring holds the names of all objects in the events ring.
        for (harts, packets, names_packets, runs) in [
            (1, 256, 4, "run=switch run=locks"),
            (
                2,
                64,
                8,
                "run=switch run=ipc run=faults run=switch run=ipc run=faults run=switch run=ipc \
             run=faults",
            ),
        ] {
            let append = format!(
                "kymo=off rounds=800 packet_size=512 packets={packets} \
             run=perf,start,--rolling,--names-packets,{names_packets} {runs} run=perf,stop"
            );
            let received = boot(arch, "perf-names", harts, &append, Host::Takes).expect_code(0);
            let trace = received.trace();
            let (mut named, mut used, mut names) = (BTreeSet::new(), BTreeSet::new(), 0);
            for item in Trace::open(&trace).unwrap().events() {
                let Item::Event(event) = item.unwrap() else {
                    continue;
                };
                let fields: &[_] = match event.name() {
                    "thread_name" => &[("thread", "tid")],
                    "process_name" => &[("process", "pid")],
                    "lock_name" => &[("lock", "lock")],
                    "irq_name" => &[("irq", "irq")],
                    "syscall_name" => &[("call", "id")],
                    "sched_switch" => &[("thread", "prev_tid"), ("thread", "next_tid")],
                    "sched_wakeup" | "sched_wakeup_new" => {
                        &[("thread", "tid"), ("thread", "waker_tid")]
                    }
                    "sched_pi_setprio" => &[("thread", "tid"), ("lock", "lock")],
                    "thread_create" | "thread_exit" => &[("thread", "tid"), ("process", "pid")],
                    "sched_process_exec" | "sched_process_exit" => {
                        &[("thread", "tid"), ("process", "pid")]
                    }
                    "sched_process_fork" => &[
                        ("thread", "parent_tid"),
                        ("process", "parent_pid"),
                        ("thread", "child_tid"),
                        ("process", "child_pid"),
                    ],
                    "thread_yield" | "thread_delay" | "thread_suspend" | "thread_resume" => {
                        &[("thread", "tid")]
                    }
                    "process_kill" => &[("process", "pid"), ("thread", "killer_tid")],
                    "lock_wait" => &[("lock", "lock"), ("thread", "owner_tid")],
                    "lock_acquired" | "lock_release" => &[("lock", "lock")],
                    "irq_handler_entry" => &[("irq", "irq")],
                    "sys_enter" => &[("call", "id")],
                    _ => &[],
                };
                let is_name = event.name().ends_with("_name");
                let ids = fields.iter().map(|&(kind, field)| {
                    (kind, event.fields.get(field).unwrap().as_u64().unwrap())
                });
                // 0 is no thread, except the idle thread where it runs; an unknown system call has
                // no name.
                let ids = ids.filter(|&(kind, id)| {
                    (id != 0 || is_name || event.name() == "sched_switch")
                        && (kind, id) != ("call", 300)
                });
                names += u64::from(event.name() == "thread_name");
                if is_name {
                    named.extend(ids)
                } else {
                    used.extend(ids)
                }
            }
            let recorded = total(
                &ledger(received.arch, &received.ram(), RECORDED, harts),
                "thread_name",
            );
            assert!(
                2 * recorded > 3 * names,
                "{runs}: {names} of {recorded} names of threads are there: too few were overwritten"
            );
            assert!(used.len() > 10, "{used:?}");
            assert_eq!(
                used.difference(&named).collect::<Vec<_>>(),
                Vec::<&(&str, u64)>::new(),
                "{runs}"
            );
        }
    }
}

/// A trace that is recorded from boot and sent at the end.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn what_was_recorded_from_boot_on_is_sent_in_the_end() {
    for arch in &ARCHES {
        let received = boot(
            arch,
            "perf-start-send",
            2,
            "kymo=start,send workload=ipc",
            Host::Takes,
        )
        .expect_code(0);
        let counts = account(&received, 2);
        assert!(
            total(&counts, "ipc_send") > 0 && total(&counts, "thread_create") > 5,
            "{counts:?}"
        );
    }
}

/// P-52: every recording call in every state, the order of refusals, cycles, and the data written
/// to a program's memory. The numbers of cells are checked so that a missing one is detected.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn the_calls_answer_as_they_must() {
    for arch in &ARCHES {
        for (harts, cells) in [(1, 345), (4, 357)] {
            let received = boot(
                arch,
                &format!("perf-calls-{harts}"),
                harts,
                "kymo=off run=callstest",
                Host::Takes,
            )
            .expect_code(0);
            let answered: Vec<&str> = received
                .console
                .lines()
                .filter_map(|line| line.trim_end().strip_prefix("callstest: "))
                .collect();
            let denied = "19 cells passed, 0 failed";
            assert_eq!(
                answered,
                [
                    denied,
                    denied,
                    denied,
                    &format!("{cells} cells passed, 0 failed")
                ],
                "{harts} harts"
            );
        }
    }
}

/// Recording begins before memory allocation and threads.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn recording_begins_before_all_else_if_the_command_line_says_so() {
    for arch in &ARCHES {
        let received = boot(
            arch,
            "perf-boot",
            2,
            "kymo=start,rolling run=faults run=perf,stop",
            Host::Takes,
        )
        .expect_code(0);
        assert_eq!(received.open.unwrap().flags, kymo::flags::ROLLING);
        let counts = account(&received, 2);
        assert!(total(&counts, "mm_page_alloc") > 1240);
        let events: Vec<Event> = events(&received.folder.join("trace")).collect();
        let first = events
            .iter()
            .position(|event| event.name() == "thread_create")
            .unwrap();
        let field = |name: &str| events[first].fields.get(name).unwrap().as_u64().unwrap();
        assert_eq!((field("tid"), field("parent_tid")), (1, 0));
        // Harts have timer interrupts before there is a thread.
        let beside = |name: &&str| name.ends_with("_name") || name.starts_with("irq_handler_");
        let before = events[..first]
            .iter()
            .map(Event::name)
            .filter(|name| !beside(name));
        assert!(
            before.clone().all(|name| name == "thread_state"),
            "{:?}",
            before.collect::<Vec<_>>()
        );
        assert!(
            events[..first]
                .iter()
                .all(|event| event.name() != "mm_page_alloc")
        );
    }
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn nothing_is_recorded_if_the_command_line_says_so() {
    for arch in &ARCHES {
        let received =
            boot(arch, "perf-off", 2, "kymo=off workload=faults", Host::Takes).expect_code(0);
        assert_eq!(sum(&ledger(received.arch, &received.ram(), RECORDED, 2)), 0);
        assert!(sum(&ledger(received.arch, &received.ram(), LEDGER, 2)) > 10_000);
        let out = received.folder.join("recovered");
        let refused = run(
            &mut kymo([
                "recover".as_ref(),
                received.ram().as_os_str(),
                "--out".as_ref(),
                out.as_os_str(),
            ]),
            3,
        );
        assert!(
            String::from_utf8(refused.stderr)
                .unwrap()
                .contains("no Kymo region")
        );
    }
}

/// Covers events named on the command line, and those switched during the session.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn only_the_events_that_are_on_are_recorded() {
    for arch in &ARCHES {
        let append = "kymo=start,events=irq_*:mark run=faults run=perf,on,span_* run=faults run=perf,off,mark run=faults run=perf,stop";
        let received = boot(arch, "perf-events", 2, append, Host::Takes).expect_code(0);
        let counts = account(&received, 2);
        let recorded: Vec<&str> = kymo::vocabulary::ALL
            .events()
            .iter()
            .filter(|event| {
                event.channel == kymo::ChannelKind::Events && total(&counts, event.name) > 0
            })
            .map(|event| event.name)
            .collect();
        assert_eq!(
            recorded,
            [
                "irq_handler_entry",
                "irq_handler_exit",
                "mark",
                "span_begin",
                "span_end"
            ]
        );
        // 500 by each `faults`: three for marks, three for spans.
        assert_eq!(
            (total(&counts, "mark"), total(&counts, "span_begin")),
            (1000, 1000)
        );
    }
}

/// The program reports errors, and the machine ends with 1.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn the_program_says_what_it_cannot_do() {
    for arch in &ARCHES {
        for (append, line) in [
            (
                "kymo=off run=perf,stop",
                "perf: cannot stop: no such event, driver, program or ring, or no session (EINVAL)",
            ),
            (
                "run=perf,start",
                "perf: cannot start: a session is in progress, which perf stop ends (EINPROGRESS)",
            ),
            (
                "run=perf,on,nothing",
                "perf: cannot switch: no such event, driver, program or ring, or no session (EINVAL)",
            ),
            (
                "kymo=off run=perf,start,--packets,1048576",
                "perf: cannot start: the memory is too small (ENOMEM)",
            ),
            (
                "kymo=off run=perf,record,--,nothing",
                "perf: cannot run that program: no such event, driver, program or ring, or no session \
             (EINVAL)",
            ),
            (
                "run=perf",
                "perf stop                                      stop any recording, and send the rest",
            ),
            (
                "run=perf,dump,much",
                "perf stop                                      stop any recording, and send the rest",
            ),
        ] {
            let received = boot(arch, "perf-cannot", 1, append, Host::Takes).expect_code(1);
            assert!(received.printed(line), "{append}:\n{}", received.console);
        }
    }
}

/// Only one process can send at a time; a killed one leaves a session that another one can collect.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn one_process_at_a_time_sends() {
    for arch in &ARCHES {
        let received = boot(
            arch,
            "perf-rivals",
            2,
            "kymo=off run=rivals",
            Host::TakesTwo,
        )
        .expect_code(0);
        let line = "perf: cannot send: another process uses it (EBUSY)";
        let refused = received
            .console
            .lines()
            .filter(|printed| printed.trim_end() == line)
            .count();
        assert_eq!(refused, 3, "{}", received.console);
        assert_eq!(received.close, Some(Diagnostics::default()));
        let (counts, lost) = counts(&received.trace(), 2);
        assert_eq!((total(&counts, "mark"), lost), (100, 0));
    }
}

/// An invalid command line is refused at once.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn words_that_cannot_be_used_are_named() {
    for arch in &ARCHES {
        let folder = scratch(&format!("perf-words-{}", arch.name));
        let long = format!("run=perf,dump,{}", "7".repeat(300));
        for (code, append, said) in [
            (2, "run=switch,3", "cannot use \"run=switch,3\""),
            (2, "run=,perf", "cannot use \"run=,perf\""),
            (2, "kymo=send run=switch run=locks", "cannot use \"locks\""),
            (
                2,
                "kymo=send run=switch run=perf,status",
                "cannot use \"perf,status\"",
            ),
            (2, "kymo=start=", "cannot use \"start=\""),
            (
                2,
                "tick_us=18446744073709551",
                "cannot use \"tick_us=18446744073709551\"",
            ),
            (1, &long, "cannot be run: it is too long"),
        ] {
            let output = run(&mut machine(arch, &folder, 1, append), arch.exit_code(code));
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(text.contains(said), "{append}: {text}");
        }
    }
}

/// A machine without a port records nevertheless, and reports that it cannot send.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_machine_without_a_port_prints() {
    for arch in &ARCHES {
        let folder = scratch(&format!("perf-no-port-{}", arch.name));
        let output = run(
            &mut machine(arch, &folder, 1, "run=perf,stop run=perf,dump,7"),
            0,
        );
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            text.contains("perf: stopped. The machine has no port to send through"),
            "{text}"
        );
        assert_eq!(
            text.lines().filter(|line| line.contains(" cpu0 ")).count(),
            7,
            "{text}"
        );
        let output = run(
            &mut machine(arch, &folder, 1, "kymo=send workload=switch"),
            arch.exit_code(1),
        );
        assert!(
            String::from_utf8(output.stdout)
                .unwrap()
                .contains("the machine has no virtio serial port (ENXIO)")
        );
    }
}
