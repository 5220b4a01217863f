//! ports/freertos: what tasks on FreeRTOS have counted themselves is in the trace, one for one.

use std::collections::BTreeMap;
use std::path::Path;

use kymo_ctf::{Item, Trace};
use kymo_e2e::{babeltrace, built, kymo, patience, recording, run, scratch};
use serde_json::Value as Json;

/// How many events of each name; interrupts and locks with their number and kind.
fn counted(trace: &Path) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::<String, u64>::new();
    for item in Trace::open(trace).unwrap().events() {
        match item.unwrap() {
            Item::Event(event) => {
                let name = event.name();
                let field = |name: &str| event.fields.get(name).unwrap().as_u64().unwrap();
                let name = match name {
                    "irq_handler_entry" | "irq_handler_exit" => {
                        format!("{name} {}", field("irq"))
                    }
                    "lock_acquired" | "lock_release" => format!("{name} {}", field("kind")),
                    _ => name.to_owned(),
                };
                *counts.entry(name).or_default() += 1;
            }
            Item::Loss(loss) => panic!("{loss:?}"),
            _ => {}
        }
    }
    counts
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn the_trace_has_what_the_tasks_did() {
    let trace = scratch("port-freertos").join("trace");
    let mut command = recording(&built("KYMO_PORT_FREERTOS"), &trace);
    let output = run(
        command.args(["--deterministic", "--timeout", patience()]),
        0,
    );
    let console = String::from_utf8(output.stdout).unwrap();
    let printed = |what: &str| -> u64 {
        let mut lines = console.lines().filter_map(|line| line.split_once(' '));
        let line = lines.find(|(_, name)| *name == what);
        line.unwrap_or_else(|| panic!("no {what} in {console}"))
            .0
            .parse()
            .unwrap()
    };
    let counts = counted(&trace);
    let count = |name: &str| counts.get(name).copied().unwrap_or(0);
    for (what, event) in [
        ("ticks", "irq_handler_entry 7"),
        ("ticks", "irq_handler_exit 7"),
        ("interrupts", "irq_handler_entry 3"),
        ("interrupts", "irq_handler_exit 3"),
        ("interrupts", "lock_release 1"),
        ("sent", "queue_send"),
        ("received", "queue_receive"),
        ("taken", "lock_acquired 0"),
        ("given", "lock_release 0"),
        ("signalled", "lock_acquired 1"),
        ("waited", "lock_failed"),
        ("created", "thread_create"),
        ("ended", "thread_exit"),
    ] {
        assert_eq!(count(event), printed(what), "{event}\n{console}");
    }
    // Each round lends a priority and takes it back.
    assert_eq!(count("sched_pi_setprio"), 2 * printed("signalled"));
    assert_eq!((count("thread_suspend"), count("thread_resume")), (1, 1));
    // The five tasks and the idle one; three queues.
    assert_eq!((count("thread_name"), count("lock_name")), (6, 3));

    run(&mut kymo(["check".as_ref(), trace.as_os_str()]), 0);
    let output = run(kymo(["doctor", "--json"]).arg(&trace), 0);
    let found: Json = serde_json::from_slice(&output.stdout).unwrap();
    let found = found["findings"].as_array().unwrap();
    // What the application did not do, or FreeRTOS has no macro for.
    let message = "In the vocabulary, but never recorded: sched_wakeup_new, sched_enter, \
                   sched_exit, thread_yield, sched_run_queue, thread_state, exception, sys_enter, \
                   sys_exit, syscall_name, lock_state, page_fault, mm_page_alloc, mm_page_free, \
                   ipc_send, ipc_receive, pipe_write, pipe_read, sched_process_fork, \
                   sched_process_exit, sched_process_exec, process_kill, process_name, process_state";
    let messages: Vec<&Json> = found.iter().map(|one| &one["message"]).collect();
    assert_eq!(messages, [message]);
    babeltrace::compare(&trace);
}
