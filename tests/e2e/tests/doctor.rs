//! `kymo doctor` on kernels with which nothing is wrong: it lists what they do not record.

use std::path::Path;

use kymo_e2e::demo::RISCV64;
use kymo_e2e::{hello, kymo, patience, recording, run, scratch};
use serde_json::Value;

/// The findings on a healthy trace: severity and message.
fn findings(trace: &Path) -> Vec<String> {
    let output = run(kymo(["doctor", "--json"]).arg(trace), 0);
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = all["findings"].as_array().unwrap().iter();
    let of = |finding: &Value| {
        let text = |key: &str| finding[key].as_str().unwrap().to_owned();
        format!("{}: {}", text("severity"), text("message"))
    };
    findings.map(of).collect()
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn hello_is_healthy_and_hooks_three_lines() {
    let out = scratch("doctor-hello").join("trace");
    let mut command = recording(&hello(), &out);
    run(
        command.args([
            "--deterministic",
            "--timeout",
            patience(),
            "--append",
            "events=100000",
        ]),
        0,
    );
    assert_eq!(
        findings(&out),
        [
            "missing: Interrupt 5 has no name",
            "hint: Of scheduling, not: sched_wakeup, sched_wakeup_new, sched_enter, sched_exit, \
             thread_create, thread_exit, thread_suspend, thread_resume, thread_delay, \
             thread_yield, sched_pi_setprio, sched_run_queue, thread_state",
            "hint: Of interrupts and exceptions, not: exception, irq_name",
            "hint: No event of system calls: sys_enter, sys_exit, syscall_name",
            "hint: No event of locks: lock_wait, lock_acquired, lock_release, lock_failed, \
             lock_name, lock_state",
            "hint: No event of memory: page_fault, mm_page_alloc, mm_page_free",
            "hint: No event of messages: ipc_send, ipc_receive, pipe_write, pipe_read, \
             queue_send, queue_receive",
            "hint: No event of processes: sched_process_fork, sched_process_exit, \
             sched_process_exec, process_kill, process_name, process_state",
        ]
    );
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn the_demo_kernel_is_healthy() {
    let out = scratch("doctor-demo").join("trace");
    let mut command = recording(&RISCV64.kernel(), &out);
    let options = ["--cpus", "4", "--timeout", patience(), "--append"];
    run(command.args(options).arg("workload=all rounds=40"), 0);
    let found = findings(&out);
    let names: Vec<&String> = found
        .iter()
        .filter(|of| !of.starts_with("hint: "))
        .collect();
    assert_eq!(names, ["missing: System call 300 has no name"]);
    // It hooks everything; only what did not happen is listed.
    assert!(
        found.iter().all(|of| !of.contains("No event of")),
        "{found:#?}"
    );
}
