//! Results of `kymo report` and `kymo check` for workloads of `kernels/demo` with known answers. On
//! one hart under `--deterministic`, so times are the machine's own and equal on every run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kymo_e2e::demo::{ARCHES, Arch};
use kymo_e2e::{babeltrace, kymo, patience, recording, run, scratch};
use serde_json::{Value, json};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// The trace of a run.
fn recorded(arch: &Arch, name: &str, append: &str) -> PathBuf {
    let out = scratch(&format!("scenario-{name}-{}", arch.name)).join("trace");
    let mut command = recording(&arch.kernel(), &out);
    run(
        command.args([
            "--deterministic",
            "--cpus",
            "1",
            "--timeout",
            patience(),
            "--append",
            append,
        ]),
        0,
    );
    babeltrace::compare(&out);
    out
}

fn report(trace: &Path) -> Value {
    let output = run(
        &mut kymo(["report".as_ref(), "--json".as_ref(), trace.as_os_str()]),
        0,
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The output of `kymo check`, with this exit code.
fn check(trace: &Path, expectations: &Path, code: i32) -> String {
    let arguments = [
        "check".as_ref(),
        "--expect".as_ref(),
        expectations.as_os_str(),
        trace.as_os_str(),
    ];
    String::from_utf8(run(&mut kymo(arguments), code).stdout).unwrap()
}

/// [`check`], with the text of the expectation file.
fn check_text(trace: &Path, expectations: &str, code: i32) -> String {
    let file = trace.with_file_name("expectations.toml");
    fs::write(&file, expectations).unwrap();
    check(trace, &file, code)
}

/// The expectations of `trace_sched`, in which A sleeps for 20,000 ticks of the clock: 2 ms.
fn trace_sched(arch: &Arch) -> PathBuf {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("expectations/trace_sched.toml");
    let text = fs::read_to_string(file).unwrap();
    let ticks = format!("ticks = {}", 2 * arch.ticks_per_ms);
    assert_eq!(text.matches("ticks = 20_000").count(), 1);
    let file = scratch(&format!("scenario-expectations-{}", arch.name)).join("trace_sched.toml");
    fs::write(&file, text.replace("ticks = 20_000", &ticks)).unwrap();
    file
}

/// The row of a table whose member `key` is this.
fn row<'a>(table: &'a Value, key: &str, value: &str) -> &'a Value {
    let found = table
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row[key] == value);
    found.unwrap_or_else(|| panic!("no {key} is {value} in {table}"))
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn every_check_of_the_event_log_passes() {
    for arch in &ARCHES {
        let trace = recorded(
            arch,
            "trace-sched",
            "workload=trace_sched packets=8 packet_size=512",
        );
        let text = check(&trace, &trace_sched(arch), 0);
        for number in 1..=15 {
            assert_eq!(
                text.matches(&format!("holds  L{number}: ")).count(),
                1,
                "check {number}\n{text}"
            );
        }
        assert!(text.contains("18 of 18 expectations hold"), "{text}");

        // Larger rings overwrite nothing, and only this expectation fails.
        let roomy = recorded(arch, "trace-sched-roomy", "workload=trace_sched");
        let text = check(&roomy, &trace_sched(arch), 1);
        let failed: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("FAILS"))
            .collect();
        assert_eq!(failed.len(), 1, "{text}");
        assert!(failed[0].starts_with("FAILS  L14: "), "{text}");

        // Another workload does not have the two threads.
        let other = recorded(arch, "trace-sched-other", "workload=long_irq");
        let text = check(&other, &trace_sched(arch), 1);
        assert_eq!(text.matches("FAILS").count(), 16, "{text}");
    }
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_thread_waits_5_ms_for_a_lock_that_a_less_urgent_one_has() {
    for arch in &ARCHES {
        let trace = recorded(arch, "lock-wait", "workload=lock_wait");
        let report = report(&trace);
        let lock = row(&report["locks"], "name", "table");
        // From the wait to the acquisition of the lock, including the two switches.
        let within = 5 * MS..5 * MS + 20 * US;
        let longest = &lock["longest_wait"];
        let ns = longest["ns"].as_u64().unwrap();
        assert!(within.contains(&ns), "{lock}");
        assert_eq!(lock["wait"]["max_ns"], ns);
        assert_eq!(
            longest["end_ns"].as_i64().unwrap() - longest["begin_ns"].as_i64().unwrap(),
            ns as i64
        );
        let names = [&longest["waiter"]["name"], &longest["owner"]["name"]];
        assert_eq!(names, [&json!("high"), &json!("low")]);
        assert_eq!(
            [&longest["waiter_priority"], &longest["owner_priority"]],
            [&json!(8), &json!(2)]
        );
        let high = row(&report["threads"], "name", "high");
        let blocked = row(&high["blocked_on"], "name", "table")["ns"]
            .as_u64()
            .unwrap();
        assert!((5 * MS..ns).contains(&blocked), "{high}");

        let expectations = "
        [[expect]]
        duration = \"lock_wait\"
        of = { lock = \"table\", thread = \"high\" }
        min = \"5 ms\"
        max = \"5020 us\"
        count = 1
        [[expect]]
        name = \"the owner is lent the priority of who waits, and gives it back\"
        order = [
            { is = \"lock_state\", lock = \"table\", owner_tid = \"low\" },
            { is = \"lock_wait\", lock = \"table\", owner_tid = \"low\" },
            { is = \"sched_pi_setprio\", tid = \"low\", oldprio = 2, newprio = 8 },
            { is = \"sched_pi_setprio\", tid = \"low\", oldprio = 8, newprio = 2 },
            { is = \"lock_acquired\", lock = \"table\", contended = true },
        ]";
        check_text(&trace, expectations, 0);
        let text = check_text(
            &trace,
            &expectations
                .replace("5020 us", "4 ms")
                .replace("min = \"5 ms\"", ""),
            1,
        );
        assert!(
            text.contains("1 measured, 1 of them over 4 ms\n")
                && text.contains("in thread 2 (high), after 5.00"),
            "{text}"
        );
    }
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn an_interrupt_takes_200_us() {
    for arch in &ARCHES {
        let trace = recorded(arch, "long-irq", "workload=long_irq");
        let report = report(&trace);
        let uart = row(&report["interrupts"], "name", "uart");
        let max = uart["durations"]["max_ns"].as_u64().unwrap();
        assert!((200 * US..202 * US).contains(&max), "{uart}");
        // One for each of the 23 bytes.
        assert_eq!(uart["count"], 23);
        let p50 = uart["durations"]["p50_ns"].as_u64().unwrap();
        assert!((20 * US..22 * US).contains(&p50), "{uart}");
        assert!(
            uart["longest_at_ns"].as_i64().unwrap() > 0 && uart["longest_cpu"] == 0,
            "{uart}"
        );
        let timer = row(&report["interrupts"], "name", "timer");
        assert!(
            timer["durations"]["max_ns"].as_u64().unwrap() < 5 * US,
            "{timer}"
        );

        let limit = "[[expect]]\nname = \"no interrupt over 50 us\"\nduration = \"interrupt\"\nmax = \"50 us\"\n";
        let text = check_text(&trace, limit, 1);
        assert!(
            text.contains("1 of them over 50 us\n")
                && text.contains(&format!("irq_handler_exit {{ irq = {} }}", arch.uart)),
            "{text}"
        );
        check_text(&trace, &limit.replace("50 us\"\n", "202 us\"\n"), 0);
    }
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_process_faults_a_thousand_pages() {
    for arch in &ARCHES {
        let trace = recorded(arch, "page-faults", "workload=page_faults");
        let report = report(&trace);
        let faults = &report["page_faults"];
        let process = row(&faults["processes"], "name", "touch");
        // Faults of its heap, and at most a few of its stack and data.
        let count = process["count"].as_u64().unwrap();
        assert!((1000..=1008).contains(&count), "{faults}");
        assert_eq!(faults["count"], count, "no other process has any");
        let [thread] = &faults["threads"].as_array().unwrap()[..] else {
            panic!("{faults}")
        };
        assert_eq!(
            (
                &thread["thread"]["name"],
                &thread["user"],
                &thread["kernel"]
            ),
            (&json!("touch"), &json!(count), &json!(0))
        );
        assert!(
            thread["causes"]["store"].as_u64().unwrap() >= 1000,
            "{thread}"
        );

        let (heap, end) = (arch.heap.start, arch.heap.end - 1);
        let heap = format!(
            "[[expect]]\nevent = {{ is = \"page_fault\", address = {{ at_least = {heap}, at_most = {end} }} }}\n\
             count = 1000\n"
        );
        check_text(&trace, &heap, 0);
        check_text(&trace, &heap.replace("1000\n", "999\n"), 1);
    }
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn the_kernel_without_tracing_does_the_same_and_says_so() {
    for arch in &ARCHES {
        // The workload's own output; without tracing the history is empty.
        let says = [
            (
                "1",
                "trace_sched",
                "demo: 0 events retained, 0 overwritten, 0 in all",
            ),
            ("4", "all rounds=40", "demo: sent by interrupts"),
        ];
        for (harts, workload, said) in says {
            let mut words = arch.qemu(None).into_iter();
            let mut command = Command::new(words.next().unwrap());
            command.args(words).args(["-smp", harts, "-kernel"]);
            command
                .arg(arch.kernel_without_trace())
                .args(["-append", &format!("workload={workload}")]);
            let output = run(&mut command, 0);
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(
                text.contains("demo: built without tracing: nothing is recorded"),
                "{text}"
            );
            assert!(
                text.contains(said) && !text.contains("recording on"),
                "{text}"
            );
        }
    }
}
