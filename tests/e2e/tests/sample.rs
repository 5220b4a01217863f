//! `kernels/demo`, sampled: where the time goes, by each driver, on each architecture.

use std::collections::BTreeMap;
use std::path::Path;

use kymo_ctf::{Event, Item, LossKind, Trace};
use kymo_e2e::demo::{AARCH64, ARCHES, Arch, RISCV64, X86_64};
use kymo_e2e::{kymo, patience, recording, run, scratch};

/// The functions of the program `known` and of the kernel's part of it, with their parts of 100
/// (kernels/demo/user/src/bin/known.rs, kernels/demo/src/workload/known.rs).
const KNOWN: [(&str, f64); 7] = [
    ("known::user_outer", 20.0),
    ("known::user_inner", 15.0),
    ("user_inlined", 10.0),
    ("demo::workload::known::known_outer", 15.0),
    ("demo::workload::known::known_inner", 10.0),
    ("known_inlined", 10.0),
    ("demo::workload::known::known_masked", 20.0),
];
const MASKED: &str = "demo::workload::known::known_masked";

/// Records the kernel's samples.
fn sampled(arch: &Arch, name: &str, append: &str, more: &[&str]) -> std::path::PathBuf {
    let out = scratch(&format!("{name}-{}", arch.name)).join("trace");
    let mut command = recording(&arch.kernel(), &out);
    command
        .args([
            "--mode",
            "sample",
            "--timeout",
            patience(),
            "--append",
            append,
        ])
        .args(more);
    run(&mut command, 0);
    out
}

/// The folded stacks of a trace, as the command prints them, and what it says of them.
fn folded(trace: &Path, more: &[&str]) -> (Vec<(Vec<String>, u64)>, String) {
    let mut command = kymo(["flame"]);
    command.arg(trace).args(["--format", "folded"]).args(more);
    let output = run(&mut command, 0);
    let text = String::from_utf8(output.stdout).unwrap();
    let line = |line: &str| {
        let (stack, count) = line.rsplit_once(' ').unwrap();
        let frames = stack.split(';').map(str::to_owned).collect();
        (frames, count.parse().unwrap())
    };
    let says = String::from_utf8(output.stderr).unwrap();
    (text.lines().map(line).collect(), says)
}

/// Parts of 100 by known function: of the samples whose innermost known function it is.
fn shares(stacks: &[(Vec<String>, u64)]) -> BTreeMap<&'static str, f64> {
    let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
    for (frames, count) in stacks {
        let known = |frame: &String| KNOWN.iter().find(|(name, _)| frame == name);
        if let Some((name, _)) = frames.iter().rev().find_map(known) {
            *counts.entry(name).or_default() += count;
        }
    }
    let all: u64 = counts.values().sum();
    let share = |(name, count)| (name, 100.0 * count as f64 / all as f64);
    counts.into_iter().map(share).collect()
}

/// Which functions' shares are more than 2 of 100 parts off.
fn wrong(shares: &BTreeMap<&'static str, f64>, expected: &[(&'static str, f64)]) -> Vec<String> {
    let all: f64 = expected.iter().map(|(_, part)| part).sum();
    let off = |(name, part): &(&'static str, f64)| {
        let (found, expected) = (shares.get(name).copied().unwrap_or(0.0), 100.0 * part / all);
        let is_off = (found - expected).abs() > 2.0;
        is_off.then(|| format!("{name}: {found:.1} instead of {expected:.1}"))
    };
    expected.iter().filter_map(off).collect()
}

/// the shares of functions in user mode and in the kernel, nested and inlined,
/// are what they execute. An NMI sees code with interrupts masked like any other; a timer sees
/// none of it.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn shares_are_those_of_the_work() {
    for arch in &ARCHES {
        for (driver, cpus) in [("timer", "1"), (arch.remote_driver, "2")] {
            let options = [
                "--hz",
                "10000",
                "--deterministic",
                "--driver",
                driver,
                "--cpus",
                cpus,
            ];
            let name = format!("sample-shares-{driver}");
            let trace = sampled(arch, &name, "run=known,4000", &options);
            let (stacks, _) = folded(&trace, &[]);
            let shares = shares(&stacks);
            let sees_masked = driver == "nmi";
            let expected: Vec<_> = KNOWN
                .into_iter()
                .filter(|(name, _)| sees_masked || *name != MASKED)
                .collect();
            assert!(
                wrong(&shares, &expected).is_empty(),
                "{} {driver}: {:?}",
                arch.name,
                wrong(&shares, &expected)
            );
            assert_eq!(
                shares.contains_key(MASKED),
                sees_masked,
                "{} {driver}",
                arch.name
            );
            // Two that are swapped would be noticed.
            let mut swapped = expected.clone();
            (swapped[0].1, swapped[1].1) = (swapped[1].1, swapped[0].1);
            assert_eq!(wrong(&shares, &swapped).len(), 2);
            // The chains lead from the kernel into the program that made the call.
            let joined = |frames: &[String]| {
                let at = |name: &str| frames.iter().position(|frame| frame == name);
                at("known::main") < at("trap_entry") && at("trap_entry") < at("known_inlined")
            };
            let through = stacks.iter().filter(|(frames, _)| joined(frames));
            let count: u64 = through.map(|(_, count)| count).sum();
            assert!(count > 400, "{} {driver}: {count}", arch.name);
        }
    }
}

/// A field of an event.
fn number(event: &Event, name: &str) -> u64 {
    event
        .fields
        .get(name)
        .and_then(|value| value.as_u64())
        .unwrap()
}

/// What the samples of a trace add up to.
#[derive(Debug, Default, PartialEq)]
struct Totals {
    kept: u64,
    missed: u64,
    lost: u64,
    idle: u64,
}

fn totals(trace: &Path) -> Totals {
    let mut totals = Totals::default();
    for item in Trace::open(trace).unwrap().events() {
        match item.unwrap() {
            Item::Event(event) if event.name() == "sample" => {
                totals.kept += 1;
                totals.missed += number(&event, "missed");
                totals.idle += u64::from(number(&event, "mode") == 2);
            }
            Item::Loss(loss) if loss.stream.starts_with("samples_") => {
                assert_eq!(loss.kind, LossKind::Events, "{loss:?}");
                totals.lost += loss.count;
            }
            _ => {}
        }
    }
    totals
}

/// Samples of a hart by one of its counters: how many periods they stand for, those missed
/// included, and how many nanoseconds lie between two periods on average.
fn periods(trace: &Path, period: u64) -> (u64, f64) {
    let (mut periods, mut times) = (0, Vec::new());
    for item in Trace::open(trace).unwrap().events() {
        let Item::Event(event) = item.unwrap() else {
            panic!("nothing is lost");
        };
        if event.name() == "sample" {
            assert_eq!(number(&event, "period"), period);
            periods += 1 + number(&event, "missed");
            times.push(event.nanos().unwrap());
        }
    }
    let (first, last) = (times[0], times[times.len() - 1]);
    (periods, (last - first) as f64 / (periods - 1) as f64)
}

/// N-18: a counter's overflow makes a sample after each period, and loses only what it counts while
/// it is written for the next. An instruction takes a cycle, and a nanosecond.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn counters_that_overflow_make_the_samples() {
    const PERIOD: u64 = 37_003;
    // On RISC-V the firmware writes the counter, which stands still meanwhile.
    for (arch, driver, most_lost) in [
        (AARCH64, "cycles", 8.0),
        (RISCV64, "cycles", 1_000.0),
        (RISCV64, "instructions", 1_000.0),
    ] {
        let count = PERIOD.to_string();
        let options = ["--deterministic", "--driver", driver, "--count", &count];
        let options = [&options[..], &["--cpus", "1"]].concat();
        let name = format!("sample-overflow-{driver}");
        let trace = sampled(&arch, &name, "run=known,2000", &options);
        let (periods, apart) = periods(&trace, PERIOD);
        let lost = apart - PERIOD as f64;
        println!(
            "{} {driver}: {periods} periods, {lost:.1} lost in each",
            arch.name
        );
        assert!(periods > 10_000, "{} {driver}: {periods}", arch.name);
        assert!(
            lost >= 0.0 && lost < most_lost,
            "{} {driver}: {lost} of each {PERIOD} are lost",
            arch.name
        );
        let (stacks, _) = folded(&trace, &[]);
        let shares = shares(&stacks);
        let expected: Vec<_> = KNOWN
            .into_iter()
            .filter(|(name, _)| *name != MASKED)
            .collect();
        let wrong = wrong(&shares, &expected);
        assert!(wrong.is_empty(), "{} {driver}: {wrong:?}", arch.name);
    }
}

/// A machine whose counters do not interrupt says so.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn counters_that_cannot_interrupt_are_refused() {
    for (arch, driver, count, says) in [
        (X86_64, "cycles", "1000", "interrupts after 1000 Cycles"),
        // The event counters have 32 bits.
        (
            AARCH64,
            "instructions",
            "5000000000",
            "interrupts after 5000000000 Instructions",
        ),
    ] {
        let out = scratch(&format!("sample-refused-{}", arch.name)).join("trace");
        let mut command = recording(&arch.kernel(), &out);
        command.args([
            "--mode",
            "sample",
            "--timeout",
            patience(),
            "--driver",
            driver,
        ]);
        let output = run(command.args(["--count", count]), 3);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find(|line| line.starts_with("demo: "));
        let line = line.unwrap_or_else(|| panic!("{text}"));
        let begin = format!("demo: no counter of this machine {says}: use Timer, or ");
        assert!(line.starts_with(&begin), "{line}");
    }
}

/// of a million samples at 10 kHz on three harts, each is in the trace or counted. (CI takes
/// 30,000; the whole number with `KYMO_SAMPLES=1000000`.)
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn every_sample_is_accounted_for() {
    let wanted = std::env::var("KYMO_SAMPLES").map_or(30_000, |count| count.parse().unwrap());
    for arch in &ARCHES {
        for driver in ["timer", arch.remote_driver] {
            // A round is 0.2 ms; the sampling hart has none by NMI or interrupt.
            let (harts, rounds) = match driver {
                "timer" => ("3", wanted / 6 + 100),
                _ => ("4", wanted / 6 + 100),
            };
            let out = scratch(&format!("sample-all-{driver}-{}", arch.name)).join("trace");
            let mut command = recording(&arch.kernel(), &out);
            let append = format!("run=known,{rounds} kymo=discard,reader=host");
            command.args(["--mode", "sample", "--hz", "10000", "--deterministic"]);
            command.args(["--driver", driver, "--cpus", harts, "--append", &append]);
            let output = run(&mut command, 0);
            let says = String::from_utf8(output.stdout).unwrap();
            let line = says
                .lines()
                .find(|line| line.contains("samples were due"))
                .unwrap();
            let numbers: Vec<u64> = line
                .split(' ')
                .filter_map(|word| word.parse().ok())
                .collect();
            let (due, missed, open) = (numbers[0], numbers[1], numbers[2]);
            let totals = totals(&out);
            let what = format!("{} {driver}: {totals:?}, {line}", arch.name);
            assert_eq!(
                totals.kept + totals.missed + totals.lost + open,
                due,
                "{what}"
            );
            // The kernel and the host say the same.
            if totals.lost == 0 {
                assert_eq!(missed, totals.missed, "{what}");
            }
            assert!(due >= wanted && totals.kept > due / 2, "{what}");
            assert!(totals.idle > due / 4, "{what}");
            // The flame graph's root is the samples kept, and what it leaves out is printed.
            let (stacks, says) = folded(&out, &[]);
            let drawn: u64 = stacks.iter().map(|(_, count)| count).sum();
            assert_eq!(drawn, totals.kept - totals.idle, "{what}");
            let (stacks, _) = folded(&out, &["--include-idle"]);
            let drawn: u64 = stacks.iter().map(|(_, count)| count).sum();
            assert_eq!(drawn, totals.kept, "{what}\n{says}");
        }
    }
}
