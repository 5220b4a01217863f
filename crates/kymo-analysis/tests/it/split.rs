//! Reports of parts of a trace, one behind the other, are those of the same parts by themselves.

use kymo_analysis::{Analysis, Part, Report};
use kymo_ctf::{ItemRef, Trace, TraceMap};
use serde_json::{Map, Value};

use crate::path_oracle::schedule;

/// What the two kinds of reports have in common: distances of stamps are of the whole trace.
fn told(report: &Report) -> Map<String, Value> {
    let mut told = serde_json::to_value(report).unwrap();
    let told = told.as_object_mut().unwrap();
    told.remove("clocks");
    std::mem::take(told)
}

/// The report of the events behind `from`, up to `to`.
fn part(trace: &Trace, map: &TraceMap, from: Option<i64>, to: i64) -> Report {
    let part = Part {
        from_ns: from,
        to_ns: Some(to),
        ..Part::default()
    };
    let mut analysis = Analysis::of_part(trace.metadata(), part);
    let mut reader = map.read();
    while let Some(item) = reader.next() {
        let ItemRef::Event(event) = &item else {
            continue;
        };
        let at = event.nanos().map(|at| i64::try_from(at).unwrap());
        match at > from && at <= Some(to) {
            true => analysis.add(&item),
            false => analysis.pass_over(&item),
        }
    }
    analysis.finish()
}

#[test]
fn parts_in_succession_are_those_by_themselves() {
    let mut parts = 0;
    for seed in 0..60 {
        let (mut made, _) = schedule(seed);
        let trace = Trace::open(made.finish()).unwrap();
        let map = trace.map();
        let mut analysis = Analysis::new(trace.metadata());
        let mut reader = map.read();
        let (mut from, mut last, mut events) = (None, 0, 0);
        let mut check = |analysis: &mut Analysis, last: i64| {
            let report = analysis.split(trace.metadata());
            let wanted = part(&trace, &map, from, last);
            for ((name, is), wanted) in told(&report).iter().zip(told(&wanted).values()) {
                assert_eq!(is, wanted, "{seed}: {name}, {from:?} to {last}");
            }
            from = Some(last);
            parts += 1;
            report.events
        };
        let mut number = 0_u64;
        while let Some(item) = reader.next() {
            analysis.add(&item);
            if let ItemRef::Event(event) = &item {
                last = i64::try_from(event.nanos().unwrap()).unwrap();
                number += 1;
                if number.wrapping_mul(0x9e37_79b9_7f4a_7c15 + seed) >> 58 == 0 {
                    events += check(&mut analysis, last);
                }
            }
        }
        events += check(&mut analysis, last);
        // Nothing has happened since.
        let nothing = analysis.split(trace.metadata());
        assert_eq!((nothing.events, nothing.begin_ns), (0, nothing.end_ns));
        assert!(nothing.threads.iter().all(|thread| thread.cpu_ns == 0));
        assert_eq!(events, number);
    }
    assert!(parts > 100, "{parts}");
}
