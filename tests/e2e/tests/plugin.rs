//! The plugin under QEMU: exact on loops of known counts, on every architecture, on one CPU and on
//! four in parallel, with traps and interrupts that call the same function from within; and its
//! arguments.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use kymo_e2e::guest::{self, Function, Guest, PerCall};
use kymo_e2e::{built, run, scratch};
use serde_json::Value;

/// The value of `-plugin`.
fn plugin(arguments: &str) -> OsString {
    let mut value = built("KYMO_COST_PLUGIN").into_os_string();
    value.push(",");
    value.push(arguments);
    value
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("no number: {value}"))
}

/// The histogram of a quantity per call.
fn histogram(function: &Value, quantity: &str) -> Vec<(u64, u64)> {
    let pairs = function["per_call"][quantity]["histogram"]
        .as_array()
        .unwrap();
    pairs
        .iter()
        .map(|pair| (number(&pair[0]), number(&pair[1])))
        .collect()
}

/// The plugin's arguments for all functions of the guest.
fn ranges(guest: &Guest) -> String {
    let range = |function: &Function| {
        let (start, end) = (guest.base + function.start, guest.base + function.end);
        format!("name={},start={start:#x},end={end:#x}", function.name)
    };
    guest
        .functions
        .iter()
        .map(range)
        .collect::<Vec<_>>()
        .join(",")
}

/// Runs the guest, and compares the report with the known counts.
fn counts(guest: &Guest, cpus: u32, accelerator: &[&str], folder: &Path) {
    let what = format!("{} on {cpus} CPUs, {accelerator:?}", guest.qemu);
    let (image, out) = (folder.join("guest.elf"), folder.join("report.json"));
    guest.write(&image, cpus);
    let arguments = format!("{},out={}", ranges(guest), out.display());
    let mut command = Command::new(guest.qemu);
    command
        .args(guest.arguments)
        .args(accelerator)
        .args(["-smp", &cpus.to_string(), "-kernel"])
        .arg(&image);
    run(command.arg("-plugin").arg(plugin(&arguments)), guest.status);

    let report: Value = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap();
    assert_eq!(
        report["target"],
        guest.qemu.trim_start_matches("qemu-system-")
    );
    let functions = report["functions"].as_array().unwrap();
    assert_eq!(functions.len(), guest.functions.len());
    for (found, function) in functions.iter().zip(&guest.functions) {
        let what = format!("{what}, {}", function.name);
        let calls = number(&found["calls"]);
        let least = function.calls * u64::from(cpus);
        println!("{what}: {calls} calls");
        if function.exactly {
            assert_eq!(calls, least, "{what}");
        } else {
            assert!(calls > least, "{what}: nothing interrupted it: {calls}");
        }
        let PerCall(instructions, loads, stores) = function.per_call;
        for (quantity, per_call) in [
            ("instructions", instructions),
            ("loads", loads),
            ("stores", stores),
        ] {
            assert_eq!(
                number(&found[quantity]),
                calls * per_call,
                "{what}: {quantity}"
            );
            assert_eq!(
                histogram(found, quantity),
                [(per_call, calls)],
                "{what}: {quantity} per call"
            );
        }
        assert_eq!(
            (
                number(&found["outside_calls"]),
                number(&found["unfinished"])
            ),
            (0, 0),
            "{what}"
        );
        let by_cpu = found["cpus"].as_array().unwrap();
        assert_eq!(by_cpu.len(), cpus as usize, "{what}");
        for cpu in by_cpu {
            if function.exactly {
                assert_eq!(number(&cpu["calls"]), function.calls, "{what}: {cpu}");
            }
        }
    }
}

const ICOUNT: [&str; 2] = ["-icount", "shift=0,sleep=off"];
const ONE_THREAD: [&str; 2] = ["-accel", "tcg,thread=single"];
const ALL_AT_ONCE: [&str; 2] = ["-accel", "tcg,thread=multi"];

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn loops_of_known_counts_on_one_cpu() {
    let folder = scratch("plugin-one");
    for guest in guest::all() {
        counts(&guest, 1, &ONE_THREAD, &folder);
        counts(&guest, 1, &ICOUNT, &folder);
    }
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn loops_of_known_counts_on_four_cpus_at_once() {
    let folder = scratch("plugin-four");
    for guest in guest::all() {
        for _ in 0..3 {
            counts(&guest, 4, &ALL_AT_ONCE, &folder);
        }
    }
}

/// In QEMU's user mode every thread is a CPU, and the number of threads is not known in advance.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_program_of_forty_threads() {
    let folder = scratch("plugin-program");
    let (program, path, out) = (
        guest::program(),
        folder.join("program"),
        folder.join("report.json"),
    );
    program.write(&path, 0);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&path, mode).unwrap();
    let [function] = &program.functions[..] else {
        panic!("it has one function")
    };
    let PerCall(instructions, loads, stores) = function.per_call;
    for _ in 0..3 {
        let mut command = Command::new(program.qemu);
        let arguments = format!("{},out={}", ranges(&program), out.display());
        run(
            command.arg("-plugin").arg(plugin(&arguments)).arg(&path),
            program.status,
        );
        let report: Value = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap();
        let found = &report["functions"][0];
        assert_eq!(number(&found["calls"]), function.calls);
        for (quantity, per_call) in [
            ("instructions", instructions),
            ("loads", loads),
            ("stores", stores),
        ] {
            assert_eq!(
                histogram(found, quantity),
                [(per_call, function.calls)],
                "{quantity}"
            );
        }
    }
    // Without a file, text is printed at the end, beside the output of QEMU and the program.
    let mut command = Command::new(program.qemu);
    let text = run(
        command
            .arg("-plugin")
            .arg(plugin(&ranges(&program)))
            .arg(&path),
        program.status,
    )
    .stderr;
    let text = String::from_utf8(text).unwrap();
    let (calls, all) = (
        function.calls,
        [instructions, loads, stores].map(|each| each * function.calls),
    );
    let line = format!(
        "  {} instructions, {} loads, {} stores, {calls} calls, on ",
        all[0], all[1], all[2]
    );
    assert!(
        text.starts_with("kymo-cost: f 0x") && text.contains(&line),
        "{text}"
    );
    assert!(
        text.contains("instructions per call: minimum 30, median 30, p90 30, p99 30, maximum 30"),
        "{text}"
    );
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn arguments_that_cannot_be_used_end_qemu_with_one_sentence() {
    let folder = scratch("plugin-arguments");
    let (program, path) = (guest::program(), folder.join("program"));
    program.write(&path, 0);
    let elsewhere = folder.join("none").join("report.json");
    let elsewhere = format!("start=0x10,end=0x20,out={}", elsewhere.display());
    for (arguments, sentence) in [
        (
            "out=x",
            "there is nothing to count: give start=ADDRESS,end=ADDRESS.",
        ),
        (
            "start=0x10",
            "start=0x10 has no end: give start=ADDRESS,end=ADDRESS.",
        ),
        (
            "end=0x10",
            "end=0x10 has no start: give start=ADDRESS,end=ADDRESS, in this order.",
        ),
        (
            "start=0x20,end=0x10",
            "start=0x20,end=0x10 is empty: end must be greater than start.",
        ),
        (
            "start=0x10,end=0x10",
            "start=0x10,end=0x10 is empty: end must be greater than start.",
        ),
        (
            "start=+16,end=0x20",
            "start=+16 is no address: write it as 0x80201000, or in decimal, within 64 bits.",
        ),
        (
            "start= 16,end=0x20",
            "start= 16 is no address: write it as 0x80201000, or in decimal, within 64 bits.",
        ),
        (
            "start=0x10,end=0x10000000000000000",
            "end=0x10000000000000000 is no address: write it as 0x80201000, or in decimal, within \
             64 bits.",
        ),
        (
            "start=0x10,end=0x20,step=2",
            "\"step=2\" is no argument: there are start=ADDRESS, end=ADDRESS, name=TEXT, \
             entry=ADDRESS, test=ADDRESS, test_end=ADDRESS, mark=ADDRESS, callee=ADDRESS, out=FILE \
             and from=FILE.",
        ),
        ("from=/no/file", "the file /no/file cannot be read: "),
        (elsewhere.as_str(), "report.json cannot be made"),
    ] {
        let mut command = Command::new(program.qemu);
        let output = run(command.arg("-plugin").arg(plugin(arguments)).arg(&path), 1);
        let text = String::from_utf8(output.stderr).unwrap();
        let first = text.lines().next().unwrap();
        assert!(
            first.starts_with("kymo-cost: ") && first.contains(sentence),
            "{arguments}: {text}"
        );
        assert!(
            text.contains("Could not load plugin") && text.lines().count() == 2,
            "{arguments}: {text}"
        );
    }
}
