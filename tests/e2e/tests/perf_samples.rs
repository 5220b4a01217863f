//! the program `perf` of `kernels/demo` starts, stops, reads and finishes samples, alone and
//! with events, by the system calls that record events.

use std::collections::BTreeMap;

use kymo::Diagnostics;
use kymo::vocabulary::SamplingDriver;
use kymo_ctf::{Event, Item, Trace, Value};
use kymo_e2e::babeltrace;
use kymo_e2e::demo::{AARCH64, ARCHES};
use kymo_e2e::port::{Host, Received, boot};

/// The events of a sent trace without losses, which babeltrace2 reads too.
fn events(received: &Received) -> Vec<Event> {
    let trace = received.trace();
    let items = Trace::open(&trace).unwrap().events();
    let events: Vec<Event> = items
        .map(|item| match item.unwrap() {
            Item::Event(event) => event,
            other => panic!("{other:?}"),
        })
        .collect();
    let read = (events.len() as u64, BTreeMap::new());
    assert_eq!(babeltrace::compare(&trace), read);
    assert_eq!(received.close, Some(Diagnostics::default()));
    events
}

fn number(event: &Event, field: &str) -> u64 {
    let value = event.fields.get(field).and_then(|value| value.as_u64());
    value.unwrap_or_else(|| panic!("{field} of {}", event.name()))
}

fn named<'e>(events: &'e [Event], name: &str) -> Vec<&'e Event> {
    events.iter().filter(|event| event.name() == name).collect()
}

/// Nanoseconds in ticks of the trace's clock.
fn ticks(received: &Received, nanoseconds: u64) -> u64 {
    let trace = Trace::open(&received.folder.join("trace")).unwrap();
    nanoseconds * trace.metadata().clocks()[0].frequency / 1_000_000_000
}

/// How many samples the machine says were due, and of those, how many nobody took.
fn due(received: &Received) -> (u64, u64) {
    let mut lines = received.console.lines();
    let line = lines.find(|line| line.contains("samples were due"));
    let words = line.expect(&received.console).split(' ');
    let numbers: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
    (numbers[0], numbers[2])
}

/// Checks that each sample that was due is in the trace, or in a count there, but for those after
/// the last one of a hart.
fn account(received: &Received, events: &[Event], harts: u64) {
    let samples = named(events, "sample");
    let missed: u64 = samples.iter().map(|event| number(event, "missed")).sum();
    let (due, open) = due(received);
    let kept = samples.len() as u64;
    assert!(kept > 200, "{kept} samples\n{}", received.console);
    let told = kept + missed + open;
    assert!(
        told <= due && due - told <= 2 * harts,
        "{kept} kept, {missed} missed, {open} open, of {due}"
    );
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn samples_are_recorded_with_events() {
    for arch in &ARCHES {
        let append =
            "kymo=off run=perf,record,--mode,trace:sample,--hz,10000,--depth,3,--,known,2000";
        let received = boot(arch, "perf-both", 2, append, Host::Takes).expect_code(0);
        let open = received.open.unwrap();
        assert_eq!(
            (open.channels, open.flags),
            (1 + 3 * 2, kymo::flags::SAMPLES)
        );
        let events = events(&received);
        account(&received, &events, 2);
        // As asked, and not again after the end.
        let settings = named(&events, "sampling");
        let settings: Vec<_> = settings
            .iter()
            .map(|event| ["period", "depth", "driver"].map(|field| number(event, field)))
            .collect();
        assert_eq!(settings, [[ticks(&received, 100_000), 3, 0]]);
        let samples = named(&events, "sample").into_iter();
        let depths = samples.map(|event| match event.fields.get("callchain") {
            Some(Value::Array(callers)) => callers.len(),
            other => panic!("{other:?}"),
        });
        assert_eq!(depths.max(), Some(3));
        // The events are those of the mode `trace`.
        assert!(!named(&events, "sys_enter").is_empty());
    }
}

/// One process starts the samples and another one collects them, by the driver that needs a hart of
/// its own.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn samples_alone_are_collected_by_another_process() {
    for arch in &ARCHES {
        let append = format!(
            "kymo=off run=perf,start,--mode,sample,--period,100,--driver,{} run=known,1000 \
             run=perf,status run=perf,stop run=perf,status",
            arch.remote_driver
        );
        let received = boot(arch, "perf-samples", 3, &append, Host::Takes).expect_code(0);
        for line in [
            "perf: running, 10 channels, with samples",
            "perf: idle, 0 channels",
        ] {
            assert!(received.printed(line), "{}", received.console);
        }
        let events = events(&received);
        account(&received, &events, 3);
        assert!(named(&events, "sys_enter").is_empty());
        assert!(!named(&events, "sched_process_exec").is_empty());
    }
}

/// A counter makes the samples that a program asks for.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn samples_by_a_counter_are_sent() {
    let append =
        "kymo=off run=perf,record,--mode,sample,--driver,cycles,--count,50000,--,known,2000";
    let received = boot(&AARCH64, "perf-cycles", 1, append, Host::Takes).expect_code(0);
    let events = events(&received);
    account(&received, &events, 1);
    let settings = named(&events, "sampling");
    let settings = ["period", "driver"].map(|field| number(settings[0], field));
    assert_eq!(settings, [50_000, SamplingDriver::Cycles as u64]);
    let samples = named(&events, "sample");
    assert!(samples.iter().all(|it| number(it, "period") == 50_000));
}

/// What the host asks of a kernel that sends.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn the_command_line_has_samples_sent() {
    for arch in &ARCHES {
        let append = "kymo=send,mode=sample,period_ns=150000,depth=0 run=known,2000";
        let received = boot(arch, "perf-send-samples", 1, append, Host::Takes).expect_code(0);
        let events = events(&received);
        account(&received, &events, 1);
        let settings = named(&events, "sampling");
        let period = ticks(&received, 150_000);
        assert_eq!(
            (number(settings[0], "period"), number(settings[0], "depth")),
            (period, 0)
        );
        assert!(named(&events, "sys_enter").is_empty());
    }
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn what_cannot_be_sampled_is_refused() {
    let usage =
        "perf stop                                      stop any recording, and send the rest";
    let invalid =
        "perf: cannot start: no such event, driver, program or ring, or no session (EINVAL)";
    for arch in &ARCHES {
        let other = match arch.remote_driver {
            "nmi" => "ipi",
            _ => "nmi",
        };
        for (options, line) in [
            ("--mode,profile", usage),
            ("--counters,cycles", usage),
            ("--mode,count,--counters,cycels", invalid),
            ("--hz,1000", usage),
            ("--mode,sample,--events,mark", usage),
            ("--mode,sample,--hz,0", usage),
            ("--mode,sample,--hz,1000,--period,1000", usage),
            ("--mode,sample,--driver,pmu", usage),
            (&format!("--mode,trace:sample,--driver,{other}"), invalid),
            // Times are for clocks, and counts for counters.
            ("--mode,sample,--count,1000", invalid),
            ("--mode,sample,--hz,1000,--driver,cycles", invalid),
            // It would have no other hart to sample.
            (
                &format!("--mode,sample,--driver,{}", arch.remote_driver),
                invalid,
            ),
        ] {
            let append = format!("kymo=off run=perf,start,{options} run=perf,status");
            let received = boot(arch, "perf-no-samples", 1, &append, Host::Takes).expect_code(1);
            assert!(received.printed(line), "{append}:\n{}", received.console);
            assert!(received.printed("perf: idle, 0 channels"), "{options}");
        }
    }
}
