//! kernels/teaching, a kernel that was written before it had Kymo: what its traces say.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kymo_e2e::{built, kymo, patience, run, scratch};
use serde_json::Value;

/// Types these lines, each at the prompt, while the kernel is recorded. Returns what it printed and
/// the trace.
fn session(name: &str, lines: &[&str], code: i32) -> (String, PathBuf) {
    let trace = scratch(name).join("trace");
    let mut command = kymo(["record", "--stdin", "--timeout", patience(), "--out"]);
    command.arg(&trace).arg(built("KYMO_TEACHING"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut recorder = command.spawn().unwrap();
    let mut input = recorder.stdin.take().unwrap();
    let mut output = recorder.stdout.take().unwrap();
    let (mut text, mut byte) = (Vec::new(), [0]);
    let mut lines = lines.iter();
    while output.read(&mut byte).unwrap() == 1 {
        text.push(byte[0]);
        if text.ends_with(b"\n$ ")
            && let Some(line) = lines.next()
        {
            writeln!(input, "{line}").unwrap();
        }
    }
    let text = String::from_utf8(text).unwrap();
    assert_eq!(recorder.wait().unwrap().code(), Some(code), "{text}");
    (text, trace)
}

fn output(command: &mut Command, code: i32) -> String {
    String::from_utf8(run(command, code).stdout).unwrap()
}

fn check(trace: &Path, expectations: &Path, code: i32) -> String {
    let mut command = kymo(["check", "--no-losses", "--expect"]);
    output(command.arg(expectations).arg(trace), code)
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn what_the_shell_ran_is_in_the_trace() {
    let lines = [
        "run disk 3",
        "run pipe",
        "run spin &",
        "run loop &",
        "kill 9",
        "wait",
        "off",
    ];
    let (text, trace) = session("teaching", &lines, 0);
    let ended = text.lines().filter(|line| line.contains(" ended: "));
    assert_eq!(
        ended.count(),
        6,
        "those that the shell itself waits for: {text}"
    );
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    check(&trace, &root.join("expectations/teaching.toml"), 0);

    let report = output(kymo(["report", "--json"]).arg(&trace), 0);
    let report: Value = serde_json::from_str(&report).unwrap();
    let names = |table: &str| -> Vec<String> {
        let rows = report[table].as_array().unwrap().iter();
        let names = rows.filter_map(|row| Some(row["name"].as_str()?.to_owned()));
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    };
    assert_eq!(
        names("threads"),
        [
            "disk", "disk", "disk", "loop", "pipe", "reader", "sh", "spin", "writer"
        ]
    );
    assert_eq!(names("interrupts"), ["console", "timer"]);
    assert_eq!(report["cpus"].as_array().unwrap().len(), 4);
}

/// `hog` keeps the lock of `disk` while it computes.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn who_holds_a_lock_too_long_is_named() {
    let lines = ["run hog &", "run disk 2", "off"];
    let (_, trace) = session("teaching-hog", &lines, 0);
    let expectations = trace.with_file_name("hold.toml");
    let text = "[[expect]]\nduration = \"lock_hold\"\nof = { lock = \"disk\", thread = \"hog\" }\n\
                max = \"20 ms\"\n";
    fs::write(&expectations, text).unwrap();
    let text = check(&trace, &expectations, 1);
    assert!(text.contains("1 of them over 20 ms"), "{text}");
    assert!(text.contains("(hog)"), "{text}");
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_panic_prints_what_every_hart_did_last() {
    let (text, trace) = session("teaching-panic", &["run disk 2", "panic"], 1);
    let (_, last) = text.split_once("panicked at").expect(&text);
    for cpu in 0..4 {
        assert!(last.contains(&format!(" cpu{cpu} ")), "{text}");
    }
    output(kymo(["check", "--no-losses"]).arg(&trace), 0);
}
