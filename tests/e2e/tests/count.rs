//! `kernels/demo` counts loops of known length with its processors' counters.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::Command;

use kymo_e2e::demo::{ARCHES, Arch, RISCV64};
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

/// The lines that the workload prints where each instruction takes the same time.
fn lines(arch: &Arch) -> Vec<String> {
    let words = arch.qemu(None);
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .args(["-icount", "shift=0,sleep=off", "-kernel"]);
    command
        .arg(arch.kernel())
        .args(["-append", "run=counts kymo=off"]);
    let output = run(&mut command, 0);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.lines().filter(|line| line.starts_with("COUNT "));
    lines.map(str::to_owned).collect()
}

/// N-18: instructions are those of the loop, once those of an empty one are subtracted. Members that
/// count the same event have the same count.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn instructions_are_those_of_the_loop() {
    let lines = lines(&RISCV64);
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
        let lines = lines(arch);
        assert_eq!(lines.len(), 3);
        assert!(
            lines.iter().all(|line| line.starts_with(refused)),
            "{lines:?}"
        );
        assert!(lines[1].ends_with("led by cycles needs 2 PMU slots, and the PMU has 0"));
    }
}
