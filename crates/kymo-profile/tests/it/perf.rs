//! Samples of `perf`: what their fields mean.

use std::sync::Arc;

use kymo_ctf::Trace;
use kymo_made::perf::{KERNEL, Perf, Sampled, USER};
use kymo_profile::{
    AddressSpace, By, Chains, Collector, Kind, Mode, Options, PeriodUnit, Profile, Wanted,
};

const IN_KERNEL: u64 = 0xffff_ffff_8100_1024;

fn collected(made: &Perf) -> (Vec<Kind>, Chains) {
    let trace = Trace::open(made.finish()).unwrap();
    let (map, mut collector) = (trace.map(), Collector::new(Options::default()));
    let mut reader = map.read();
    while let Some(item) = reader.next() {
        collector.add(&item, true);
    }
    (collector.kinds().to_vec(), collector.finish())
}

fn profile(made: &Perf) -> Profile {
    collected(made).1.symbolize(|_| [])
}

fn of_program() -> Sampled<'static> {
    Sampled {
        tid: 43,
        pid: 42,
        ip: 0x1000,
        period: 7,
        chain: &[USER, 0x1000],
    }
}

fn of_kernel() -> Sampled<'static> {
    Sampled {
        chain: &[KERNEL, IN_KERNEL],
        ip: IN_KERNEL,
        ..of_program()
    }
}

/// Only clocks have a period in nanoseconds; those of two events have no sum.
#[test]
fn a_period_is_in_the_unit_of_its_event() {
    let unit = |names: &[&str]| {
        let mut made = Perf::new("perf-units");
        for (time, name) in (1..).zip(names) {
            let event = made.sampled(name);
            made.sample(event, time, of_program());
        }
        let profile = profile(&made);
        let ticks: Vec<u64> = profile.rows.iter().map(|row| row.ticks).collect();
        (profile.period_unit, ticks, profile.period)
    };
    let events = |name: &str| PeriodUnit::Events(Arc::from(name));
    for (name, wanted) in [
        ("cpu-clock", PeriodUnit::Nanoseconds),
        ("task-clock:u", PeriodUnit::Nanoseconds),
        ("cycles:pp", events("cycles:pp")),
        ("cpu_core/event=0x3c/", events("cpu_core/event=0x3c/")),
        ("page-faults", events("page-faults")),
    ] {
        assert_eq!(unit(&[name]), (wanted, vec![7], Some(7)), "{name}");
    }
    let nothing = (PeriodUnit::Ticks, vec![0], None);
    assert_eq!(unit(&["sched:sched_switch"]), nothing);
    assert_eq!(unit(&["cycles", "page-faults"]).1, [0]);
    assert_eq!(unit(&["cycles", "page-faults"]).2, None);
}

/// A profile of several kinds of events says so.
#[test]
fn the_kinds_of_events_are_counted() {
    let mut made = Perf::new("perf-kinds");
    let (cycles, faults) = (made.sampled("cycles:u"), made.sampled("page-faults"));
    let wakes = made.sampled("sched:sched_wakeup");
    for (event, time) in [(cycles, 1), (faults, 2), (cycles, 3), (wakes, 4)] {
        made.sample(event, time, of_program());
    }
    // A tracepoint has no instruction, and without -g no chain.
    let nothing = Sampled {
        ip: 0,
        chain: &[],
        ..of_program()
    };
    made.sample(wakes, 5, nothing);
    let (kinds, chains) = collected(&made);
    let kinds: Vec<_> = kinds
        .iter()
        .map(|kind| {
            (
                &*kind.name,
                kind.kept,
                kind.unit.is_some(),
                kind.is_of_time(),
            )
        })
        .collect();
    let wanted = [
        ("cycles:u", 2, true, true),
        ("page-faults", 1, true, false),
        ("sched:sched_wakeup", 1, false, false),
    ];
    assert_eq!(kinds, wanted);
    assert_eq!(chains.totals().kept, 4);
}

/// Linux's threads with the number 0 are idle; a tracepoint in one is an event all the same.
#[test]
fn a_sample_of_thread_0_is_idle() {
    let mut made = Perf::new("perf-idle");
    let (clock, interrupt) = (
        made.sampled("cpu-clock"),
        made.sampled("irq:irq_handler_entry"),
    );
    let idle = Sampled {
        tid: 0,
        pid: 0,
        ..of_kernel()
    };
    made.sample(clock, 1, idle);
    made.sample(clock, 2, of_kernel());
    made.sample(interrupt, 3, idle);
    let (_, chains) = collected(&made);
    let totals = *chains.totals();
    assert_eq!((totals.idle, totals.kept), (1, 2));
    let modes: Vec<Mode> = chains
        .symbolize(|_| [])
        .rows
        .iter()
        .map(|row| row.mode)
        .collect();
    assert_eq!(modes, [Mode::Kernel, Mode::Kernel]);
}

/// What is not known is not the kernel.
#[test]
fn a_thread_has_the_process_of_its_samples() {
    let mut made = Perf::new("perf-processes");
    let clock = made.sampled("cpu-clock");
    made.comm(0, 42, 42, "server");
    made.comm(0, 42, 43, "worker");
    made.sample(clock, 1, of_program());
    made.sample(
        clock,
        2,
        Sampled {
            tid: 44,
            ..of_program()
        },
    );
    let (tid, pid) = (51, 50);
    made.sample(
        clock,
        3,
        Sampled {
            tid,
            pid,
            ..of_program()
        },
    );
    made.sample(
        clock,
        4,
        Sampled {
            tid: 60,
            pid: -1,
            ..of_program()
        },
    );
    let profile = profile(&made);
    assert_eq!(
        profile.folded(By::Process),
        "process (50);0x1000 1\nserver (42);0x1000 2\nunknown process;0x1000 1\n"
    );
    let threads: Vec<String> = profile.threads.iter().map(|of| of.label()).collect();
    assert_eq!(
        threads,
        ["worker (43)", "thread (44)", "thread (51)", "thread (60)"]
    );
}

/// A position-independent program is found where perf says that it was loaded, and so are its
/// libraries.
#[test]
fn a_process_says_where_its_files_were_loaded() {
    let mut made = Perf::new("perf-mappings");
    let clock = made.sampled("cpu-clock");
    made.comm(0, 42, 42, "pie");
    made.mappings(&[
        (0x5555_0000_1000, "/usr/bin/pie"),
        (0x7f00_0000_0000, "//anon"),
        (0x7f00_0020_0000, "/lib/libc.so.6"),
        (0x7f00_0028_0000, "/lib/libc.so.6"),
    ]);
    made.sample(clock, 1, of_program());
    let (_, chains) = collected(&made);
    let (space, mappings) = chains.mappings().first().unwrap();
    let own = AddressSpace { pid: 42, execs: 0 };
    assert_eq!(*space, own);
    let found: Vec<_> = mappings
        .iter()
        .map(|of| (of.begin, &*of.path, of.is_base))
        .collect();
    let wanted = [
        (0x5555_0000_1000, "/usr/bin/pie", false),
        (0x7f00_0020_0000, "/lib/libc.so.6", false),
    ];
    assert_eq!(found, wanted);
    let wanted = Wanted::Process {
        name: "pie",
        space: Some(own),
    };
    assert_eq!(chains.wanted().nth(1), Some(wanted));
}
