//! Clocks that step back, as report and check show them.

use crate::run::printed;
use kymo::ChannelKind;
use kymo::vocabulary::{ClockBack, ClockStep, Mark, SessionEnd};
use kymo_made::{Made, US};

/// A trace of four events and its session's end, on two CPUs.
fn trace(name: &str, add: impl Fn(&mut Made)) -> Made {
    let mut made = Made::new(name);
    for (cpu, time) in [(0, 1), (1, 2)] {
        made.event(cpu, time * US, Mark { id: 1, value: 0 });
    }
    add(&mut made);
    for (cpu, time) in [(0, 8), (1, 9)] {
        made.event(cpu, time * US, Mark { id: 1, value: 0 });
    }
    made.event(
        0,
        9 * US,
        SessionEnd {
            recorded: 4,
            reused: 0,
            discarded: 0,
            too_large: 0,
            clock_back: 0,
            abandoned: 0,
            without_ring: 0,
        },
    );
    made
}

fn behind(count: u32) -> ClockBack {
    ClockBack {
        channel: ChannelKind::Events,
        count,
        ticks: 77,
    }
}

/// Report and check tell each step. The events that say so were not recorded, so they do not make
/// up for missing ones.
#[test]
fn steps_that_only_a_reader_sees() {
    let mut made = trace("steps", |made| {
        made.event(0, 3 * US, ClockStep { ticks: 1 });
        made.event(1, 4 * US, ClockStep { ticks: 3_000 });
    });
    let path = made.finish();
    let (status, report) = printed(&["report"], path);
    assert_eq!(status, Some(0));
    assert!(
        report.contains(
            " It stepped back 2 times, by 3,000 ticks at most: events have the time of an earlier \
             one until it caught up."
        ),
        "{report}"
    );
    let (status, check) = printed(&["check"], path);
    assert_eq!(
        (status, &*check),
        (
            Some(1),
            "   0.000003000  cpu0  clock-back: the clock stepped back by 1 tick\n   \
             0.000004000  cpu1  clock-back: the clock stepped back by 3000 ticks\n"
        )
    );
    std::fs::write(path.join("events_1"), b"").unwrap();
    let (_, report) = printed(&["report"], path);
    assert!(report.contains("2 events are missing"), "{report}");
}

/// What a writer tells is a finding of its own where no reader saw the step.
#[test]
fn steps_that_only_a_writer_tells() {
    let mut made = trace("behind", |made| {
        made.event(0, 3 * US, behind(1));
        made.event(0, 4 * US, behind(2));
        made.event(1, 4 * US, behind(1));
        made.event(1, 5 * US, ClockStep { ticks: 99 });
    });
    let path = made.finish();
    let (_, report) = printed(&["report"], path);
    assert!(
        report.contains(" It stepped back 1 time, by 99 ticks at most")
            && report.contains(" The kernel found it behind its time window 3 times."),
        "{report}"
    );
    let (status, check) = printed(&["check"], path);
    let words = "the writer of events found its clock 77 ticks behind its time window";
    assert_eq!(
        (status, check),
        (
            Some(1),
            format!(
                "   0.000003000  cpu0  clock-back: {words}\n   0.000004000  cpu0  clock-back: \
                 {words}, 2 times so far\n   0.000005000  cpu1  clock-back: the clock stepped \
                 back by 99 ticks\n"
            )
        )
    );
}

/// However often a writer tells of it, on a CPU whose steps were seen only those are findings.
#[test]
fn steps_that_both_see_count_once() {
    let mut made = trace("both", |made| {
        made.event(0, 3 * US, behind(1));
        for count in 1..=150 {
            made.event(1, 4 * US, behind(count));
        }
        made.event(1, 5 * US, ClockStep { ticks: 99 });
    });
    let (status, check) = printed(&["check"], made.finish());
    assert_eq!((status, check.lines().count()), (Some(1), 2), "{check}");
}
