//! The worst cases of a report are the longest spans of the trace, and its largest losses.

use std::collections::BTreeMap;

use kymo::Text;
use kymo::vocabulary::{Irq, IrqEnter, IrqExit, IrqName};
use kymo_analysis::{Analysis, CaseKind, SpanKind};
use kymo_ctf::{ItemRef, Trace};
use kymo_made::{MS, Made, US};

use crate::path_oracle::schedule;

/// What is longest of each kind, by all spans of random schedules.
#[test]
fn the_longest_of_each_kind_are_told() {
    let kinds = [
        (SpanKind::Interrupt, CaseKind::Interrupt),
        (SpanKind::SystemCall, CaseKind::SystemCall),
        (SpanKind::WakeLatency, CaseKind::WakeLatency),
        (SpanKind::LockWait, CaseKind::LockWait),
    ];
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 0..40 {
        let (mut made, _) = schedule(seed);
        let trace = Trace::open(made.finish()).unwrap();
        let map = trace.map();
        let mut analysis = Analysis::new(trace.metadata());
        let mut spans = Vec::new();
        let mut reader = map.read();
        while let Some(item) = reader.next() {
            analysis.add(&item);
            spans.extend(analysis.spans().map(|span| (span.kind, span.nanos())));
        }
        let report = analysis.finish();
        for (span, kind) in kinds {
            let of_kind = spans.iter().filter(|(kind, _)| *kind == span);
            let mut wanted: Vec<u64> = of_kind.map(|(_, nanos)| *nanos).collect();
            wanted.sort_unstable_by_key(|nanos| std::cmp::Reverse(*nanos));
            wanted.truncate(5);
            let cases = report.worst_cases.iter().filter(|case| case.kind == kind);
            let told: Vec<u64> = cases.map(|case| case.nanos()).collect();
            assert_eq!(told, wanted, "{seed}: {}", kind.label());
            *found.entry(kind.label()).or_default() += told.len();
        }
    }
    // The schedules have these kinds.
    assert!(
        found["wake-up latency"] > 100 && found["interrupt"] > 10,
        "{found:?}"
    );
}

/// Names may come behind what they name, and a loss is told by its size.
#[test]
fn cases_have_names_and_losses_their_number() {
    let mut made = Made::new("worst");
    let irq = Irq(5);
    made.event(0, MS, IrqEnter { irq });
    made.event(0, MS + 70 * US, IrqExit { irq });
    made.lose(0, 3, 2 * MS);
    made.event(0, 3 * MS, IrqEnter { irq: Irq(6) });
    made.event(0, 3 * MS + 90 * US, IrqExit { irq: Irq(6) });
    made.lose(0, 900, 5 * MS);
    let name = Text::from("timer");
    made.event(0, 6 * MS, IrqName { irq, name });
    let trace = Trace::open(made.finish()).unwrap();
    let (map, mut analysis) = (trace.map(), Analysis::new(trace.metadata()));
    let mut reader = map.read();
    while let Some(item) = reader.next() {
        analysis.add(&item);
    }
    let cases = analysis.finish().worst_cases;
    let told = cases.iter().map(|case| {
        let (what, cpu) = (case.kind.label(), case.cpu.unwrap());
        format!("{what} {} {} cpu{cpu}", case.name, case.nanos() / US)
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            "interrupt 6 90 cpu0",
            "interrupt timer 70 cpu0",
            "loss 900 events, events_0 1910 cpu0",
            "loss 3 events, events_0 930 cpu0",
        ]
    );
}

/// Of hundreds of losses, the five largest: not those of the list, which has the first hundred, and
/// none without a time.
#[test]
fn the_largest_losses_are_the_largest_of_all() {
    let mut made = Made::new("largest");
    for number in 1..=300_u64 {
        made.event(0, number * MS, IrqEnter { irq: Irq(5) });
        made.lose(0, number, number * MS + 70 * US);
    }
    let trace = Trace::open(made.finish()).unwrap();
    let (map, mut analysis) = (trace.map(), Analysis::new(trace.metadata()));
    let mut reader = map.read();
    while let Some(item) = reader.next() {
        if let ItemRef::Loss(loss) = &item {
            let mut timeless = (*loss).clone();
            (timeless.begin, timeless.begin_nanos) = (None, None);
            (timeless.end, timeless.end_nanos) = (None, None);
            timeless.count += 1000;
            analysis.add(&ItemRef::Loss(&timeless));
        }
        analysis.add(&item);
    }
    let report = analysis.finish();
    assert_eq!(report.losses.intervals.len(), 100);
    assert_eq!(report.losses.intervals_not_listed, 500);
    let cases = report.worst_cases.iter();
    let lost = cases.filter(|case| case.kind == CaseKind::Loss);
    let lost: Vec<_> = lost
        .map(|case| (case.name.as_str(), case.begin_ns))
        .collect();
    let largest = [
        ("300 events, events_0", 300_000_000),
        ("299 events, events_0", 299_000_000),
        ("298 events, events_0", 298_000_000),
        ("297 events, events_0", 297_000_000),
        ("296 events, events_0", 296_000_000),
    ];
    assert_eq!(lost, largest);
}
