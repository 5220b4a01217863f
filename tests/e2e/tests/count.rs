//! `kernels/demo` counts loops of known length with its processors' counters.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::Command;

use kymo_e2e::demo::{AARCH64, ARCHES, Arch, RISCV64};
use kymo_e2e::run;

/// What the workload prints of one event: the group, the event, the loop's length, and the counts.
#[derive(Debug, PartialEq)]
struct Count {
    events: u64,
    event: String,
    length: u64,
    with: u64,
    without: u64,
}

impl Count {
    fn read(line: &str) -> Count {
        let words: Vec<&str> = line
            .split([' ', ',', ':'])
            .filter(|it| !it.is_empty())
            .collect();
        let [
            "COUNT",
            events,
            "events",
            event,
            "loop",
            length,
            with,
            "with",
            "it",
            without,
            "without",
        ] = words[..]
        else {
            panic!("{line}");
        };
        let number = |word: &str| word.parse().unwrap();
        Count {
            events: number(events),
            event: event.to_owned(),
            length: number(length),
            with: number(with),
            without: number(without),
        }
    }
}

/// The lines that a workload prints where each instruction takes a nanosecond.
fn lines(arch: &Arch, workload: &str, begin: &str) -> Vec<String> {
    let words = arch.qemu(None);
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .args(["-icount", "shift=0,sleep=off", "-kernel"]);
    command
        .arg(arch.kernel())
        .args(["-append", &format!("run={workload} kymo=off")]);
    let output = run(&mut command, 0);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.lines().filter(|line| line.starts_with(begin));
    lines.map(str::to_owned).collect()
}

/// N-18: instructions are those of the loop, once those of an empty one are subtracted. Members
/// that count the same event have the same count.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn instructions_are_those_of_the_loop() {
    for arch in [RISCV64, AARCH64] {
        are_those_of_the_loop(&arch);
    }
}

fn are_those_of_the_loop(arch: &Arch) {
    let lines = lines(arch, "counts", "COUNT ");
    let counts: Vec<Count> = lines.iter().map(|line| Count::read(line)).collect();
    assert_eq!(counts.len(), 3 * (1 + 2 + 3));
    for count in &counts {
        let expected = match count.event.as_str() {
            "instructions" => count.length,
            // QEMU's processors take one cycle for each.
            "cycles" => count.length,
            "context-switches" => 0,
            _ => panic!("{count:?}"),
        };
        assert_eq!(count.with - count.without, expected, "{count:?}");
        let equal = counts
            .iter()
            .filter(|it| it.events == count.events && it.length == count.length);
        for other in equal.filter(|it| it.event == count.event) {
            assert_eq!(other, count);
        }
    }
}

/// A processor without counters refuses what it cannot count, and says so.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_processor_without_counters_refuses_groups() {
    for arch in ARCHES.iter().filter(|arch| arch.name == "x86_64") {
        let refused = "COUNT refused the group led by";
        let lines = lines(arch, "counts", "COUNT ");
        assert_eq!(lines.len(), 3);
        assert!(
            lines.iter().all(|line| line.starts_with(refused)),
            "{lines:?}"
        );
        assert!(lines[1].ends_with("led by cycles needs 2 PMU slots, and the PMU has 0"));
    }
}

/// K-11, K-17: three groups that need the whole PMU each have a third of the time, and what they
/// would have counted is within 3 % of the truth: each instruction takes a nanosecond.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn groups_that_take_turns_are_scaled_to_the_truth() {
    let lines = lines(&AARCH64, "count_turns", "TURNS ");
    assert_eq!(lines.len(), 3 * 4);
    for line in &lines {
        let words: Vec<&str> = line.split(' ').collect();
        let [
            "TURNS",
            event,
            scaled,
            "scaled",
            "from",
            raw,
            running,
            "ns",
            "of",
            enabled,
        ] = words[..]
        else {
            panic!("{line}");
        };
        let number = |word: &str| word.trim_end_matches(',').parse::<u64>().unwrap() as f64;
        let (scaled, raw) = (number(scaled), number(raw));
        let (running, enabled) = (number(running), number(enabled));
        let share = running / enabled;
        assert!((share - 1.0 / 3.0).abs() < 0.03, "{line}");
        // The work is the kernel's.
        let is_of_programs = event.trim_end_matches(':').ends_with(":u");
        let truth = if is_of_programs { 0.0 } else { enabled };
        assert!((scaled - truth).abs() <= 0.03 * enabled, "{line}");
        assert!((raw - truth * share).abs() <= 0.03 * enabled, "{line}");
    }
}
