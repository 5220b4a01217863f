//! Signals that nest writers three deep while readers drain: see the crate's documentation.
//! `cargo xtask stress [EVENTS]` runs it longer.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(missing_docs, clippy::panic)]

use kymo::Overflow;
use kymo_stress::{AtGs, Portable, Report, Tsc, run};

type Run = fn(Overflow, u64, u64) -> Report;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} is a number"))
    })
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn signals_nest_writers_while_readers_drain() {
    let (events, seed) = (
        number("KYMO_STRESS_EVENTS", 10_000_000),
        number("KYMO_SEED", 1),
    );
    println!("KYMO_SEED={seed}, {events} events");
    // Small rings are slow to read, especially on a busy machine, so they get fewer events.
    let runs: [(Run, u64); 3] = [(run::<Portable>, 23), (run::<Tsc>, 23), (run::<AtGs>, 4)];
    let mut read = 0;
    for (run, percent) in runs {
        for overflow in [Overflow::Overwrite, Overflow::Discard] {
            // Rounded up, so that the total is at least the requested number.
            let report = run(overflow, (events * percent).div_ceil(100), seed);
            println!("{report}");
            it_happened(&report, overflow);
            read += report.read;
        }
    }
    assert!(read >= events, "only {read} events were verified");
    println!("{read} events, each one's sequence and checksum verified");
}

/// Checks that the run nested writers, lapped and filled rings.
fn it_happened(report: &Report, overflow: Overflow) {
    for (depth, [hot, ..]) in (1..).zip(report.signals) {
        assert!(
            hot > 0,
            "no signal came inside of the hot path at depth {depth}"
        );
    }
    assert!(
        report.signals.iter().map(|[_, slow, _]| slow).sum::<u64>() > 0,
        "no signal came inside of the slow path"
    );
    assert!(
        report.nested[3] > 0,
        "three writers were never stopped at once"
    );
    assert!(report.dumps > 0, "no dump was checked");
    match overflow {
        Overflow::Overwrite => assert!(report.overwritten > 0, "the reader was never lapped"),
        Overflow::Discard => assert!(report.dropped > 0, "the ring was never full"),
    }
}
