//! Attaches to a machine that the test controls, and records one.
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod machine;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use kymo_capture::attach::{self, Attached, Ending, Error, Options};
use kymo_capture::qemu::Launch;
use kymo_capture::{record, recover};
use kymo_ctf::{Item, Trace};
use machine::{Kymo, Machine, emulator, scratch};

/// Far longer than any test takes: an attachment that misses its end is stopped by this limit, and
/// its test fails.
const LONG: Duration = Duration::from_secs(600);
/// More marks than the rings hold.
const TOO_MANY: u32 = 3000;

/// Attaches. `meanwhile` runs as soon as all earlier events have been read; it interrupts the
/// recording by setting the flag.
fn attached(
    machine: &mut Machine,
    out: &str,
    meanwhile: impl FnOnce(&mut Machine, &AtomicBool),
) -> Attached {
    let (out, ram, interrupted) = (
        machine.folder.join(out),
        machine.ram.clone(),
        AtomicBool::new(false),
    );
    std::fs::create_dir(&out).unwrap();
    let ram = attach::Machine::Ram {
        file: &ram,
        base: None,
    };
    let options = Options {
        machine: ram,
        out: &out,
        duration: Some(LONG),
        interrupted: &interrupted,
    };
    let mut meanwhile = Some(meanwhile);
    let attached = attach::attach(&options, |progress| {
        if let Some(meanwhile) = progress.events.and_then(|_| meanwhile.take()) {
            meanwhile(machine, &interrupted);
        }
    });
    attached.unwrap()
}

fn leave(_: &mut Machine, interrupted: &AtomicBool) {
    interrupted.store(true, SeqCst);
}

/// The numbers of the marks in the trace.
fn marks(machine: &Machine, trace: &str) -> Vec<u64> {
    marks_in(&machine.folder.join(trace))
}

fn marks_in(trace: &Path) -> Vec<u64> {
    let mark = |item| match item {
        Ok(Item::Event(event)) if event.name() == "mark" => {
            event.fields.get("id").and_then(|id| id.as_u64())
        }
        Ok(_) => None,
        Err(error) => panic!("{error}"),
    };
    Trace::open(trace)
        .unwrap()
        .events()
        .filter_map(mark)
        .collect()
}

fn numbers(range: std::ops::Range<u32>) -> Vec<u64> {
    range.map(u64::from).collect()
}

#[test]
fn a_machine_whose_process_ends_has_ended() {
    let mut machine = Machine::start("ends", "rolling");
    machine.does("record 10");
    let attached = attached(&mut machine, "trace", |machine, _| {
        machine.does("record 10");
        machine.kill();
    });
    assert_eq!(attached.ending, Ending::Gone);
    assert_eq!(marks(&machine, "trace"), numbers(0..20), "up to the last");
}

#[test]
fn what_stands_before_a_record_that_was_cut_short_is_there_in_the_end() {
    let mut machine = Machine::start("inside", "rolling");
    machine.does("record 10");
    machine.does("inside");
    // While the machine lives, its writer may resume, so nothing of the packet can be read.
    let live = attached(&mut machine, "live", leave);
    assert_eq!(
        (live.ending, marks(&machine, "live")),
        (Ending::Interrupted, numbers(0..0))
    );
    let dead = attached(&mut machine, "dead", |machine, _| machine.kill());
    assert_eq!(
        (dead.ending, marks(&machine, "dead")),
        (Ending::Gone, numbers(0..10))
    );
}

/// A machine that is recorded from memory and powers off inside a record.
#[test]
fn a_machine_that_powers_off_inside_of_a_record_leaves_all_before_it() {
    let folder = scratch("record");
    let out = folder.join("trace");
    std::fs::create_dir(&out).unwrap();
    let ram = record::ram_file(&out);
    let program = emulator(&folder, &ram, &["start", "record 10", "inside"]);
    let launch = Launch::command(&[program.into(), "-M".into(), "virt".into()], &ram).unwrap();
    let interrupted = AtomicBool::new(false);
    let options = record::Options {
        timeout: Some(LONG),
        ..record::Options::new(&launch, &out, &interrupted)
    };
    let recorded = record::record(&options, |_| ()).unwrap();
    assert_eq!(
        (recorded.ending, marks_in(&out)),
        (record::Ending::PoweredOff, numbers(0..10))
    );
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_session_is_over_when_it_was_stopped_and_when_another_has_begun() {
    let mut machine = Machine::start("stopped", "rolling");
    machine.does("record 10");
    let stopped = attached(&mut machine, "stopped", |machine, _| {
        machine.does("record 10");
        machine.does("stop");
    });
    assert_eq!(
        (stopped.ending, marks(&machine, "stopped")),
        (Ending::Stopped, numbers(0..20))
    );
    machine.does("finish");
    machine.does("start");
    machine.does("record 10");
    let replaced = attached(&mut machine, "replaced", |machine, _| {
        for what in ["stop", "finish", "start"] {
            machine.does(what);
        }
    });
    assert_eq!(
        (replaced.ending, marks(&machine, "replaced")),
        (Ending::AnotherSession, numbers(20..30))
    );
}

#[test]
fn memory_in_which_nobody_runs_is_refused() {
    let mut machine = Machine::start("nobody", "rolling");
    machine.does("record 10");
    machine.kill();
    let (out, interrupted) = (machine.folder.join("trace"), AtomicBool::new(true));
    let ram = attach::Machine::Ram {
        file: &machine.ram,
        base: None,
    };
    let options = Options {
        machine: ram,
        out: &out,
        duration: Some(LONG),
        interrupted: &interrupted,
    };
    let error = attach::attach(&options, |_| ()).unwrap_err();
    assert!(matches!(error, Error::NotRunning { .. }), "{error}");
    assert!(!out.exists());
}

#[test]
fn rings_that_wait_for_a_host_are_emptied_by_one_program_and_then_by_the_next() {
    let mut machine = Machine::start("host", "discard,reader=host");
    machine.does(&format!("record {TOO_MANY}"));
    let first = attached(&mut machine, "first", |machine, interrupted| {
        machine.does("record 10");
        assert!(
            attached(machine, "second", leave).only_looked,
            "another one empties them"
        );
        leave(machine, interrupted);
    });
    assert!(!first.only_looked);
    assert!(
        marks(&machine, "first").ends_with(&numbers(TOO_MANY..TOO_MANY + 10)),
        "there was room for these"
    );
    machine.does(&format!("record {TOO_MANY}"));
    let third = attached(&mut machine, "third", |machine, interrupted| {
        machine.does("record 10");
        leave(machine, interrupted);
    });
    assert!(!third.only_looked, "whoever comes then takes over");
    let last = 2 * TOO_MANY + 10;
    assert!(marks(&machine, "third").ends_with(&numbers(last..last + 10)));
}

/// What was overwritten before somebody came was not lost by the recording.
#[test]
fn losses_from_before_the_recording_are_told_apart() {
    let mut machine = Machine::start("late", "rolling");
    machine.does(&format!("record {TOO_MANY}"));
    let late = attached(&mut machine, "late", leave).summary;
    assert!(late.lost_before() > 0, "{late:?}");
    assert_eq!(late.lost_before(), late.lost());
    let mut machine = Machine::start("lapped", "rolling");
    machine.does("record 10");
    let lapped = attached(&mut machine, "lapped", |machine, interrupted| {
        machine.does(&format!("record {TOO_MANY}"));
        leave(machine, interrupted);
    });
    let lapped = lapped.summary;
    assert!(lapped.lost() > 0 && lapped.lost_before() == 0, "{lapped:?}");
}

/// Whether the session ends, the host leaves or the machine is killed: the events of a CPU without a
/// ring are lost, and every reader of the trace hears so.
#[test]
fn events_without_a_ring_are_lost_however_the_recording_ends() {
    let lost_in = |trace: &Path| {
        let trace = Trace::open(trace).unwrap();
        let loss = |item| match item {
            Ok(Item::Loss(loss)) => Some(loss.count),
            _ => None,
        };
        trace.events().filter_map(loss).sum::<u64>()
    };
    type Ends = fn(&mut Machine, &AtomicBool);
    let ends: [(&str, Ends); 3] = [
        ("left", leave),
        ("stopped", |machine, _| machine.does("stop")),
        ("killed", |machine, _| machine.kill()),
    ];
    for (name, end) in ends {
        let mut machine = Machine::start(&format!("without-{name}"), "rolling");
        machine.does("record 10");
        machine.does("elsewhere 7");
        let summary = attached(&mut machine, name, |machine, interrupted| {
            machine.does("elsewhere 5");
            end(machine, interrupted);
        });
        let summary = summary.summary;
        assert_eq!((summary.lost(), summary.lost_before()), (12, 7), "{name}");
        assert_eq!(lost_in(&machine.folder.join(name)), 12, "{name}");
    }
    let mut machine = Machine::start("without-dump", "rolling");
    machine.does("record 10");
    machine.does("elsewhere 7");
    machine.kill();
    let out = machine.folder.join("recovered");
    std::fs::create_dir(&out).unwrap();
    let recovered = recover::recover(&machine.ram, None, &out).unwrap();
    assert_eq!(recovered.summary.lost(), 7);
    assert_eq!(lost_in(&out), 7);
    // The next session counts anew.
    let mut machine = Machine::start("without-next", "rolling");
    machine.does("elsewhere 7");
    machine.does("stop");
    machine.does("finish");
    machine.does("start");
    assert_eq!(attached(&mut machine, "next", leave).summary.lost(), 0);
}
