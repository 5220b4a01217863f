//! `kymo cost`: the plugin's counts equal the trace's and the budgets', and every invalid input
//! gives a message.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use kymo_e2e::{built, hello, kymo, patience, run, scratch};
use object::{Object, ObjectSymbol};
use serde_json::Value;

const APPEND: [&str; 2] = ["--append", "events=40000"];

/// `kymo cost` on a kernel: its standard output.
fn cost(kernel: &Path, more: &[&str]) -> String {
    let mut command = kymo([OsStr::new("cost"), kernel.as_os_str()]);
    command.args(["--timeout", patience()]).args(more);
    String::from_utf8(run(&mut command, 0).stdout).unwrap()
}

fn json(kernel: &Path, more: &[&str]) -> Value {
    let text = cost(kernel, &[more, &["--json"]].concat());
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&report["type"], text.lines().count()),
        (&Value::from("cost"), 1)
    );
    report
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("no number: {value}"))
}

/// Checks that every event's calls equal the trace's events, and the sum of its sites' calls.
/// Returns the number of events.
fn agrees(report: &Value) -> u64 {
    let counted = report["events"].as_array().unwrap().iter();
    let differ: Vec<&Value> = counted
        .filter(|event| !event["calls"].is_null() && event["calls"] != event["recorded"])
        .collect();
    assert!(differ.is_empty(), "{differ:#?}");
    assert_eq!(report["agrees"], true, "{report}");
    assert_eq!(number(&report["lost"]), 0);
    let (events, sites) = (
        report["events"].as_array().unwrap(),
        report["sites"].as_array().unwrap(),
    );
    for event in events {
        let calls = number(&event["calls"]);
        assert_eq!(calls, number(&event["recorded"]), "{event}");
        let of_event = sites.iter().filter(|site| site["event"] == event["name"]);
        assert_eq!(
            of_event
                .map(|site| number(&site["recorded_calls"]))
                .sum::<u64>(),
            calls,
            "{event}"
        );
    }
    events.iter().map(|event| number(&event["calls"])).sum()
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn every_events_calls_are_the_events_of_the_trace() {
    let report = json(&hello(), &APPEND);
    assert!(agrees(&report) >= 40_000);
    let events = report["events"].as_array().unwrap();
    let bytes = |name: &str| &events.iter().find(|event| event["name"] == name).unwrap()["bytes"];
    assert_eq!(events.len(), 6);
    assert_eq!(
        (
            number(bytes("sched_switch")),
            number(bytes("irq_handler_entry"))
        ),
        (16, 8)
    );
    assert_eq!(*bytes("thread_name"), Value::Null, "it varies");
    // The inlined hot path, and the slow path.
    let sites = report["sites"].as_array().unwrap();
    let marker = sites.iter().find(|site| site["event"] == "marker").unwrap();
    assert_eq!(marker["inlined_in"], "hello::sched::thread");
    let instructions = &marker["per_call"]["instructions"];
    assert!(
        (15..=23).contains(&number(&instructions["median"])),
        "{instructions}"
    );
    assert_eq!(number(&marker["per_call"]["stores"]["median"]), 5);
    let slow = sites
        .iter()
        .filter(|site| site["kind"] == "slow path")
        .map(|site| number(&site["calls"]))
        .sum::<u64>();
    assert!(slow > 0 && slow < 4000, "{slow}");

    // A second run prints the same bytes.
    assert_eq!(report, json(&hello(), &APPEND));
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn four_cpus_at_once_are_counted_exactly() {
    let report = json(&hello(), &[&APPEND[..], &["--parallel"]].concat());
    assert!(agrees(&report) >= 40_000);
    // Interrupts occur inside the counted code; calls are still counted correctly.
    let marker = report["sites"]
        .as_array()
        .unwrap()
        .iter()
        .find(|site| site["event"] == "marker")
        .unwrap();
    assert_eq!(
        (
            number(&marker["outside_calls"]),
            marker["cpus"].as_array().unwrap().len()
        ),
        (0, 4)
    );
}

/// In kernels/demo the compiler copies tests and records, and the library records counters by their
/// numbers, which no tracepoint names.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn copied_tracepoints_are_counted_in_a_large_kernel() {
    for arch in kymo_e2e::demo::ARCHES {
        let append = "workload=all rounds=20 packets=4096";
        let mut report = json(&arch.kernel(), &["--cpus", "1", "--append", append]);
        let events = report["events"].as_array_mut().unwrap();
        let uncounted: Vec<Value> = events
            .iter()
            .filter(|event| event["calls"].is_null())
            .cloned()
            .collect();
        events.retain(|event| !event["calls"].is_null());
        assert!(!uncounted.is_empty());
        for event in uncounted {
            assert!(
                event["name"].as_str().unwrap().starts_with("kymo_"),
                "{event}"
            );
        }
        assert!(agrees(&report) > 1000, "{}", arch.name);
        let sites = report["sites"].as_array().unwrap();
        let copied = sites.iter().filter(|site| {
            site["kind"] == "event" && site["entries"].as_array().unwrap().len() > 1
        });
        assert!(copied.count() > 0, "{}: nothing was copied", arch.name);
    }
}

/// The events of the report, without those that the library records itself: it must be these.
fn without_the_librarys(report: &mut Value) {
    let events = report["events"].as_array_mut().unwrap();
    events.retain(|event| {
        let name = event["name"].as_str().unwrap();
        let is_librarys = name.starts_with("kymo_")
            || matches!(
                name,
                "counted_event"
                    | "group_count"
                    | "event_count"
                    | "event_stack"
                    | "sample"
                    | "sampling"
            );
        assert_eq!(event["calls"].is_null(), is_librarys, "{event}");
        !is_librarys
    });
}

/// In C, too, every copy of a tracepoint is found, and each event's calls are those of the trace:
/// with one CPU and with four, where programs call, and where NMIs record.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn events_of_kernels_in_c_are_counted() {
    for (kernel, least) in [("KYMO_FIRMWARE_C", 900), ("KYMO_SMP_C", 3000)] {
        let mut report = json(&built(kernel), &[]);
        without_the_librarys(&mut report);
        assert!(agrees(&report) > least, "{kernel}");
        let sites = report["sites"].as_array().unwrap();
        // What mutex_lock records, the compiler has copied to where it had to wait.
        let copied = sites
            .iter()
            .find(|site| site["event"] == "lock_acquired" && site["inlined_in"] == "mutex_lock");
        assert!(number(&copied.unwrap()["recorded_calls"]) > 100, "{kernel}");
        let library = sites.iter().filter(|site| site["kind"] == "library");
        let calls: u64 = library.map(|site| number(&site["calls"])).sum();
        assert!(calls > least, "{kernel}: {calls}");
    }
    let image = built("KYMO_THREADS_C_X86_64");
    let mut command = kymo(["cost", "--json", "--timeout", patience(), "--"]);
    command.args(["qemu-system-x86_64", "-M", "pc", "-m", "16M"]);
    command.args(["-display", "none", "-serial", "stdio", "-no-reboot"]);
    command.args(["-icount", "shift=0,sleep=off", "-kernel"]);
    let mut report = serde_json::from_slice(&run(command.arg(&image), 0).stdout).unwrap();
    without_the_librarys(&mut report);
    assert!(agrees(&report) > 20_000);
    let some = json(&built("KYMO_FIRMWARE_C"), &["--event", "sched_switch"]);
    assert_eq!(some["events"].as_array().unwrap().len(), 1);
    let refused = refused(3, &built("KYMO_THREADS_C_CORTEX_M4"), &[]);
    assert!(refused.contains("cannot be counted"), "{refused}");
}

/// The console of a kernel whose cost is counted can be typed at, as with `kymo record`.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_counted_kernel_reads_the_standard_input() {
    let mut command = kymo([OsStr::new("cost")]);
    command.arg(kymo_e2e::demo::RISCV64.kernel());
    command.args([
        "--timeout",
        patience(),
        "--append",
        "workload=echo",
        "--stdin",
    ]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut running = command.spawn().unwrap();
    let mut lines = BufReader::new(running.stderr.take().unwrap()).lines();
    let prompt = lines.find(|line| line.as_ref().unwrap().ends_with("type a line"));
    assert!(prompt.is_some());
    let mut input = running.stdin.take().unwrap();
    input.write_all(b"hello, kernel\n").unwrap();
    drop(input);
    let is_read = lines.any(|line| line.unwrap().ends_with("demo: read hello, kernel"));
    lines.for_each(drop);
    assert_eq!((is_read, running.wait().unwrap().code()), (true, Some(0)));
}

/// The kernel is that of the command's `-kernel`.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_command_names_its_kernel() {
    let hello = hello();
    let mut command = kymo(["cost", "--json", "--timeout", patience(), "--"]);
    command.args([
        "qemu-system-riscv64",
        "-M",
        "virt",
        "-smp",
        "4",
        "-m",
        "128M",
    ]);
    command.args(["-nographic", "-no-reboot", "-icount", "shift=0,sleep=off"]);
    command
        .args(["-append", "events=40000", "-kernel"])
        .arg(&hello);
    let report: Value = serde_json::from_slice(&run(&mut command, 0).stdout).unwrap();
    assert!(agrees(&report) >= 40_000);
    assert_eq!(report["kernel"], hello.to_str().unwrap());
    let mut without = kymo(["cost", "--", "qemu-system-riscv64", "-M", "virt"]);
    let message = String::from_utf8(run(&mut without, 2).stderr).unwrap();
    assert!(message.contains("no option -kernel"), "{message}");
    let message = String::from_utf8(run(&mut kymo(["cost"]), 2).stderr).unwrap();
    assert!(message.contains("<KERNEL>"), "{message}");
}

/// Interrupts, and NMIs on x86-64, record inside writers: every call is still exactly one event.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn nested_calls_are_told_apart() {
    for kernel in ["KYMO_STRESS_RISCV64", "KYMO_STRESS_X86_64"] {
        let report = json(
            &built(kernel),
            &["--parallel", "--append", "events=40000 packets=1024"],
        );
        assert!(agrees(&report) >= 40_000, "{kernel}");
        let sites = report["sites"].as_array().unwrap().iter();
        for site in
            sites.filter(|site| site["kind"] == "event" && number(&site["recorded_calls"]) > 0)
        {
            let instructions = &site["per_call"]["instructions"];
            // No call has instructions of another: at most, a compare-and-swap is retried, seldom
            // twice. The number of retries depends on the interrupts, so check that there are few
            // distinct counts: mixed-up nested calls would give many.
            let (median, max) = (
                number(&instructions["median"]),
                number(&instructions["max"]),
            );
            let paths = instructions["histogram"].as_array().unwrap().len();
            assert!(paths <= 6 && max < 2 * median, "{kernel}: {site}");
            assert_eq!(number(&site["outside_calls"]), 0, "{kernel}: {site}");
        }
    }
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn only_some_events_and_a_kept_trace() {
    let out = scratch("cost-some").join("trace");
    let text = cost(
        &hello(),
        &[
            &APPEND[..],
            &[
                "--event",
                "SchedSwitch",
                "--event",
                "hello::Marker",
                "--out",
                out.to_str().unwrap(),
            ],
        ]
        .concat(),
    );
    let events: Vec<&str> = text
        .lines()
        .skip_while(|line| !line.starts_with("event"))
        .skip(1)
        .collect();
    let names: Vec<&str> = events
        .iter()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(names, ["marker", "sched_switch"]);
    for line in events {
        let words: Vec<&str> = line.split_whitespace().collect();
        let bytes = if words[0] == "sched_switch" {
            "16"
        } else {
            "12"
        };
        assert!(words[1] == words[2] && words[3] == bytes, "{text}");
    }
    assert!(kymo_e2e::babeltrace::compare(&out).0 >= 40_000);
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn functions_and_ranges() {
    let image = fs::read(hello()).unwrap();
    let image = object::File::parse(&*image).unwrap();
    let switch = image
        .symbols()
        .find(|symbol| symbol.name().unwrap() == "switch_stacks")
        .unwrap();
    assert_eq!(switch.size(), 0, "assembly says no sizes");
    let start = switch.address();
    // A part of the function: the range on the command line applies.
    let range = format!("{start:#x}..{:#x}", start + 60);
    let report = json(
        &hello(),
        &[
            &APPEND[..],
            &[
                "--symbol",
                "hello::sched::tr?p",
                "--symbol",
                "*::slow_short",
                "--symbol",
                "is_on<hello::Virt, hello::Marker>",
                "--range",
                &range,
            ],
        ]
        .concat(),
    );
    let sites = report["sites"].as_array().unwrap();
    let names: Vec<&str> = sites
        .iter()
        .map(|site| site["name"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), 5, "{names:?}");
    assert_eq!((names[0], names[4]), ("hello::sched::trap", range.as_str()));
    assert_eq!(sites[3]["inlined_in"], "hello::sched::thread");
    assert!(
        names[1..3]
            .iter()
            .all(|name| *name == "kymo::ring::masked::slow_short"),
        "{names:?}"
    );
    assert!(number(&sites[0]["calls"]) > 100 && number(&sites[4]["calls"]) > 1000);
    assert!(
        number(&sites[3]["calls"]) > 10_000,
        "every marker is tested for"
    );
    assert_eq!(report["events"].as_array().unwrap().len(), 0);
}

/// For out-of-line functions, the numbers equal the budget's. This kernel has no DWARF, so its
/// functions are found by their symbols.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_function_costs_its_budget() {
    let budgets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../budgets.toml");
    let budgets: toml::Table = fs::read_to_string(budgets).unwrap().parse().unwrap();
    let is_it = |entry: &&toml::Value| {
        entry["arch"].as_str() == Some("riscv64")
            && entry["probe"].as_str() == Some("kymo_probe_two_fields")
    };
    let budget = budgets["event"]
        .as_array()
        .unwrap()
        .iter()
        .find(is_it)
        .unwrap();
    let report = json(
        &built("KYMO_MEASURE_RISCV64"),
        &["--cpus", "1", "--symbol", "kymo_probe_two_fields"],
    );
    let site = &report["sites"][0];
    assert_eq!(number(&site["calls"]), 2500);
    for quantity in ["instructions", "loads", "stores"] {
        let expected = budget[quantity].as_integer().unwrap() as u64;
        assert_eq!(
            number(&site["per_call"][quantity]["median"]),
            expected,
            "{quantity}"
        );
    }
    assert_eq!(
        number(&site["per_call"]["instructions"]["min"]),
        budget["off"].as_integer().unwrap() as u64
    );
}

/// A command line has room for 128 KiB in a word.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn all_functions_of_a_kernel_are_counted() {
    let report = json(&hello(), &[&APPEND[..], &["--symbol", "*"]].concat());
    let sites = report["sites"].as_array().unwrap();
    assert!(sites.len() > 4000, "{}", sites.len());
    let all = |name: &str| {
        let of = |site: &&Value| site["name"] == name && site["inlined_in"].is_null();
        sites
            .iter()
            .filter(of)
            .map(|site| number(&site["calls"]))
            .sum::<u64>()
    };
    assert!(all("hello::sched::trap") > 0);
}

/// Runs the command, expects the exit code, and returns the message.
fn refused(code: i32, kernel: &Path, more: &[&str]) -> String {
    let mut command = kymo([OsStr::new("cost"), kernel.as_os_str()]);
    let output = run(command.args(more), code);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        !text.contains("panicked") && output.stdout.is_empty(),
        "{text}"
    );
    if code != 2 {
        assert!(
            text.starts_with("kymo: ") && text.lines().count() == 1,
            "one sentence: {text}"
        );
    }
    text
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn what_cannot_be_counted_is_said_in_one_sentence() {
    let folder = scratch("cost-errors");
    let hello = hello();
    assert!(refused(3, &folder.join("none"), &[]).contains("cannot be read"));
    let text = folder.join("text");
    fs::write(&text, "no kernel").unwrap();
    assert!(refused(3, &text, &[]).contains("not an ELF file"));
    assert!(refused(3, &hello, &["--symbol", "no::such::*"]).contains("no function of"));
    let sentence = refused(3, &hello, &["--event", "NoSuch"]);
    assert!(
        sentence.contains(
            "\"NoSuch\"; choose one of IrqEnter, IrqExit, Marker, SchedSwitch, SessionEnd, \
             ThreadName"
        ),
        "{sentence}"
    );
    for range in [
        "1",
        "0x20..0x10",
        "0x10..0x10",
        "+1..2",
        "-1..2",
        "1..0x10000000000000000",
        "..",
        "1..2..3",
    ] {
        assert!(
            refused(2, &hello, &[&format!("--range={range}")]).contains("--range"),
            "{range}"
        );
    }
    refused(2, &hello, &["--cpus", "0"]);
    refused(
        2,
        &hello,
        &["--parallel", "--", "qemu-system-riscv64", "-M", "virt"],
    );
    assert!(refused(2, &hello, &["--", "ls"]).contains("qemu-system"));
    let sentence = refused(
        4,
        &hello,
        &["--plugin", folder.join("none.so").to_str().unwrap()],
    );
    assert!(
        sentence.contains("cargo build --release -p kymo-cost"),
        "{sentence}"
    );
    fs::create_dir(folder.join("full")).unwrap();
    fs::write(folder.join("full/file"), "x").unwrap();
    assert!(
        refused(2, &hello, &["--out", folder.join("full").to_str().unwrap()]).contains("not empty")
    );
    let stripped = folder.join("stripped");
    run(
        Command::new("riscv64-unknown-elf-objcopy")
            .arg("--strip-debug")
            .arg(&hello)
            .arg(&stripped),
        0,
    );
    let sentence = refused(3, &stripped, &[]);
    assert!(
        sentence.contains("no DWARF") && sentence.contains("--symbol"),
        "{sentence}"
    );
    assert!(
        refused(3, &stripped, &["--symbol", "x"]).contains("without DWARF"),
        "{sentence}"
    );
    // QEMU is not installed.
    let mut command = kymo([OsStr::new("cost"), hello.as_os_str()]);
    let output = run(command.env("PATH", &folder), 4);
    let sentence = String::from_utf8(output.stderr).unwrap();
    assert!(
        sentence.contains("apt-get install qemu-system-misc") && sentence.lines().count() == 1,
        "{sentence}"
    );
}

/// Truncated or overwritten DWARF gives figures or a message, and no panic.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn damaged_kernels() {
    let folder = scratch("cost-damaged");
    let image = fs::read(hello()).unwrap();
    let damaged = folder.join("damaged");
    let mut random = kymo_e2e::Random(7);
    for turn in 0..30 {
        let mut bytes = image.clone();
        if turn < 6 {
            bytes.truncate(image.len() * (turn + 1) / 8);
        } else {
            // Damage the part after the code: symbols and DWARF.
            for _ in 0..200 {
                bytes[0x10000 + random.below(image.len() as u64 - 0x10000) as usize] =
                    random.below(256) as u8;
            }
        }
        fs::write(&damaged, bytes).unwrap();
        // Nothing is run, as there is no such plugin.
        let mut command = kymo([OsStr::new("cost"), damaged.as_os_str()]);
        let output = command.args(["--plugin", "none.so"]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(
            matches!(output.status.code(), Some(3 | 4)) && !text.contains("panicked"),
            "{output:?}"
        );
    }
}

/// A machine that does not end by itself is ended, and the counts so far are reported.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_time_limit_ends_the_machine_and_leaves_the_figures() {
    let mut command = kymo([OsStr::new("cost"), hello().as_os_str()]);
    command.args([
        "--append",
        "events=1000000000 packets=64",
        "--parallel",
        "--json",
        "--timeout",
        "2",
    ]);
    let output = run(&mut command, 1);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let calls: u64 = report["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| number(&event["calls"]))
        .sum();
    assert!(calls > 1000, "{report}");
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("time limit")
    );
}
