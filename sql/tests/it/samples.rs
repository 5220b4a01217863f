//! The table of samples, beside the profile that `kymo flame` and `kymo hot` show.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser;
use kymo::vocabulary::{Address, ChainEnd, CpuMode, Sample, ThreadName, Tid};
use kymo::{Sequence, Text};
use kymo_ctf::Trace;
use kymo_made::elf::{Elf, function};
use kymo_made::perf::{KERNEL, Perf, Sampled, USER};
use kymo_made::{Made, US};
use kymo_profile::{By, Collector, Options, Place, Profile};
use kymo_sql::{Limits, Session, Symbols, Traces};
use serde_json::json;

use crate::made::{Random, rows, session};
use crate::ready::ask;

const BASE: u64 = 0xffff_ffff_8000_0000;

fn sample(tid: u32, mode: CpuMode, chain: &[u64]) -> Sample {
    let callers: Vec<Address> = chain[1..].iter().copied().map(Address).collect();
    Sample {
        ip: Address(chain[0]),
        tid: Tid(tid),
        period: 100_000,
        missed: 0,
        mode,
        kernel_callers: callers.len() as u8,
        kernel_end: ChainEnd::Complete,
        user_end: ChainEnd::Absent,
        callchain: Sequence::new(&callers),
    }
}

/// Samples of two CPUs in three functions of a kernel, some of an idle CPU.
fn sampled(name: &str, seed: u64) -> Made {
    let (mut made, mut random) = (Made::with_samples(name), Random(seed));
    for tid in 1..=3 {
        let name = Text::from(["ui", "work", "net"][tid as usize - 1]);
        let tid = Tid(tid);
        made.event(0, 0, ThreadName { tid, name });
    }
    for step in 1..=400 {
        let depth = 1 + random.below(4);
        let chain: Vec<u64> = (0..depth)
            .map(|_| BASE + random.below(3) * 0x100 + 8)
            .collect();
        let (tid, mode) = match random.below(5) {
            0 => (0, CpuMode::Idle),
            tid => (1 + tid as u32 % 3, CpuMode::Kernel),
        };
        made.event(
            step % 2,
            u64::from(step) * 10 * US,
            sample(tid, mode, &chain),
        );
    }
    made
}

/// A kernel with three functions of 256 bytes.
fn kernel(beside: &Path) -> PathBuf {
    let names = ["scheduler", "copy; paste", "timer"];
    let symbols: Vec<_> = (0..)
        .zip(names)
        .map(|(place, name)| function(name, 0x1000 + place * 0x100, 0x100))
        .collect();
    let elf = Elf {
        symbols: &symbols,
        ..Elf::program()
    };
    let path = beside.with_extension("elf");
    std::fs::write(&path, elf.bytes()).unwrap();
    path
}

#[derive(Parser)]
struct Given {
    #[command(flatten)]
    symbols: Symbols,
}

/// The options as the command line has them.
fn symbols(kernel: &Path) -> Symbols {
    let kernel = format!("--kernel={}@{BASE:#x}", kernel.display());
    Given::parse_from(["kymo", &kernel]).symbols
}

/// What `kymo flame` shows.
fn profile(path: &Path, symbols: &Symbols) -> Profile {
    let trace = Trace::open(path).unwrap();
    let (map, mut collector) = (trace.map(), Collector::new(Options::default()));
    let mut reader = map.read();
    while let Some(item) = reader.next() {
        collector.add(&item, true);
    }
    let chains = collector.finish();
    symbols
        .symbolize(chains, path, &trace, &mut |_| {})
        .unwrap()
}

#[test]
fn stacks_and_functions_are_those_of_the_profile() {
    for seed in [31, 32, 33] {
        let mut made = sampled("stacks", seed);
        let path = made.finish().to_owned();
        let elf = kernel(&path);
        let traces = Traces::open([&path]).unwrap();
        let traces = traces.with_symbols(symbols(&elf)).unwrap();
        let session = Session::new(&traces, Limits::default()).unwrap();
        let profile = profile(&path, &symbols(&elf));

        let found = ask(&session, "stacks", &[]);
        let folded: Vec<_> = found
            .iter()
            .map(|row| format!("{} {}", row["stack"].as_str().unwrap(), row["samples"]))
            .collect();
        let mut wanted: Vec<_> = profile
            .folded(By::Nothing)
            .lines()
            .map(str::to_owned)
            .collect();
        wanted.sort_unstable();
        let mut sorted = folded.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, wanted);
        assert!(
            folded
                .iter()
                .any(|line| line.contains("scheduler;copy: paste")),
            "{folded:?}"
        );

        let hot = profile.hot(Place::Function);
        let own = hot.iter().filter(|place| place.own.weight > 0);
        let wanted: BTreeMap<_, _> = own
            .map(|place| (place.function.replace(';', ":"), place.own.weight))
            .collect();
        let found: BTreeMap<_, _> = ask(&session, "hot", &[])
            .iter()
            .map(|row| {
                let name = row["function"].as_str().unwrap().to_owned();
                (name, row["samples"].as_u64().unwrap())
            })
            .collect();
        assert_eq!(found, wanted);
        assert_eq!(found.len(), 3);
        assert!(traces.notes().is_empty(), "{:?}", traces.notes());
        std::fs::remove_file(elf).unwrap();
    }
}

/// Every column, beside the samples as they were made.
#[test]
fn columns_are_those_of_the_samples() {
    let mut made = Made::with_samples("columns");
    let name = Text::from("ui");
    made.event(0, 0, ThreadName { tid: Tid(7), name });
    made.event(
        0,
        10 * US,
        sample(7, CpuMode::Kernel, &[BASE + 8, BASE + 0x108]),
    );
    let idle = Sample {
        missed: 3,
        ..sample(0, CpuMode::Idle, &[BASE + 0x208])
    };
    made.event(1, 20 * US, idle);
    let path = made.finish().to_owned();
    let elf = kernel(&path);
    let traces = Traces::open([&path]).unwrap();
    let traces = traces.with_symbols(symbols(&elf)).unwrap();
    let session = Session::new(&traces, Limits::default()).unwrap();
    let sql = "select stack, ns, cpu, tid, thread, event, mode, period, unit, missed, address, \
               function, depth from samples order by ns";
    let found = rows(&session, sql).unwrap();
    assert_eq!(
        found,
        [
            json!({
                "stack": "copy: paste;scheduler", "ns": 10_000, "cpu": 0, "tid": 7,
                "thread": "ui", "event": "sample", "mode": "kernel", "period": 100_000,
                "unit": "ticks", "missed": 0, "address": BASE + 8, "function": "scheduler",
                "depth": 2,
            }),
            json!({
                "stack": "timer", "ns": 20_000, "cpu": 1, "tid": 0, "thread": null,
                "event": "sample", "mode": "idle", "period": 100_000, "unit": "ticks", "missed": 3,
                "address": BASE + 0x208, "function": "timer", "depth": 1,
            }),
        ]
    );
    std::fs::remove_file(elf).unwrap();
}

/// Another tracer's samples are of the events after which they are named.
#[test]
fn samples_of_events_are_told_apart() {
    let mut perf = Perf::new("sql-samples");
    let (cycles, faults) = (perf.sampled("cycles"), perf.sampled("page-faults"));
    perf.comm(1, 42, 43, "editor");
    let of = |period, chain| Sampled {
        tid: 43,
        pid: 42,
        ip: 0,
        period,
        chain,
    };
    let kernel = [KERNEL, 0x8000, 0x9001, USER, 0x1000, 0x2001];
    for step in 0..10 {
        perf.sample(cycles, 10 + step, of(1_000 + step, &kernel));
    }
    perf.sample(faults, 30, of(1, &kernel[3..]));
    let path = perf.finish().to_owned();
    let session = session(&[&path]);
    let sql = "select event, thread, process, unit, count(*) as n, sum(period) as periods, \
               min(stack) as low, max(depth) as deep from samples \
               group by event, thread, process, unit order by event";
    let stack = "0x2000;0x1000;0x9000;0x8000";
    assert_eq!(
        rows(&session, sql).unwrap(),
        [
            json!({
                "event": "cycles", "thread": "editor", "process": null, "unit": "events", "n": 10,
                "periods": 10_045, "low": stack, "deep": 4,
            }),
            json!({
                "event": "page-faults", "thread": "editor", "process": null, "unit": "events",
                "n": 1, "periods": 1, "low": "0x2000;0x1000", "deep": 2,
            }),
        ]
    );
    let hot = ask(&session, "hot", &[("event", "cyc*")]);
    assert_eq!(hot.len(), 1);
    assert_eq!(
        (&hot[0]["function"], &hot[0]["percent"]),
        (&json!("0x8000"), &json!(100.0))
    );
}

#[test]
fn a_trace_without_samples_has_no_rows() {
    let mut made = crate::made::busy("no-samples", 34, 50);
    let path = made.finish().to_owned();
    let session = session(&[&path]);
    assert!(rows(&session, "select * from samples").unwrap().is_empty());
}

/// The command takes the kernel as `kymo flame` does, and says when it is missing.
#[test]
fn the_command_takes_files_with_names() {
    let mut made = sampled("command", 35);
    let path = made.finish().to_owned();
    let elf = kernel(&path);
    let run = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kymo-query"));
        let sql = "select distinct function from samples order by 1";
        command.arg(&path).args(more).args(["--format=csv", sql]);
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (
            output.status.code(),
            text(output.stdout),
            text(output.stderr),
        )
    };
    let given = format!("--kernel={}@{BASE:#x}", elf.display());
    let names = "function\ncopy: paste\nscheduler\ntimer\n".to_owned();
    assert_eq!(run(&[&given]), (Some(0), names, String::new()));
    let (status, printed, said) = run(&[]);
    assert_eq!(status, Some(0));
    assert_eq!(
        printed.lines().nth(1),
        Some("0xffffffff80000008"),
        "{printed}"
    );
    assert_eq!(
        said,
        "kymo: functions of the kernel are shown as addresses; give the kernel with --kernel ELF.\n"
    );
    std::fs::write(&elf, "no ELF file").unwrap();
    for given in [given, "--kernel=/nowhere".to_owned()] {
        let (status, _, said) = run(&[&given]);
        assert_eq!((status, said.lines().count()), (Some(3), 1), "{said}");
        assert!(said.starts_with("kymo: cannot read"), "{said}");
        assert!(said.contains("; give "), "{said}");
    }
    std::fs::remove_file(elf).unwrap();
}
