//! Machines and recorders that are killed at random moments.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use kymo_capture::locate;
use kymo_capture::qemu::{Launch, Qemu};
use kymo_ctf::{Item, Trace};
use kymo_e2e::{
    Random, babeltrace, hello, kymo, ledger, patience, record, recording, run, scratch, seed,
    wait_until,
};

/// Number of kills: 10, or `KYMO_KILLS` (the long form).
fn kills() -> u32 {
    std::env::var("KYMO_KILLS").map_or(10, |text| text.parse().expect("KYMO_KILLS is a number"))
}

fn find(ram: &Path) -> Result<locate::Found, locate::Error> {
    locate::region(ram, &locate::segments(ram, None)?)
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn kill_qemu_and_recover_every_event_whose_call_had_returned() {
    let mut random = Random(seed());
    let folder = scratch("kill-qemu");
    let (mut alive, mut total) = (0, 0);
    // Numbers without a marker, and in total, of the threads on harts with roomy rings, and of
    // those that were switched to and away again within the rest of a ring.
    let (mut absent, mut hasty) = ((0, 0), (0, 0));
    for turn in 0..kills() {
        let ram = folder.join("ram");
        let work = if random.below(2) == 0 {
            "mixed"
        } else {
            "markers"
        };
        // Half of the rings hold many turns of both of a hart's threads, half are lapped
        // constantly.
        let roomy = turn % 2 == 0;
        let (packets, packet_size) = if roomy {
            (256, 4096)
        } else {
            (4 << random.below(4), 512 << random.below(3))
        };
        let append = format!(
            "kymo=rolling work={work} events=1000000000 packets={packets} \
             packet_size={packet_size} tick_us=500"
        );
        let launch = Launch::kernel(&hello(), 4, Some(&append), &ram).unwrap();
        let mut machine = Qemu::spawn(&launch, Stdio::null()).unwrap();
        // Every fifth kill may come before the trace begins or while it begins.
        let begun = turn % 5 < 4;
        if begun {
            wait_until(|| find(&ram).is_ok());
        }
        sleep(Duration::from_micros(random.below(300_000)));
        assert!(machine.try_wait().unwrap().is_none(), "{append}");
        machine.kill().unwrap();
        let out = folder.join(format!("trace{turn}"));
        let started = find(&ram).is_ok();
        assert!(
            started || !begun,
            "turn {turn}: the session is gone; {append}"
        );
        let code = if started { 0 } else { 3 };
        run(
            &mut kymo([
                "recover".as_ref(),
                ram.as_os_str(),
                "--out".as_ref(),
                out.as_os_str(),
            ]),
            code,
        );
        if !started {
            continue;
        }
        alive += 1;
        let ledger = ledger::read(&ram, &hello(), 4);
        let (_, losses) = babeltrace::compare(&out);
        let mut last = BTreeMap::<u64, u64>::new();
        let mut in_trace = [0u64; 4];
        // The target of a hart's newest switch, and those of earlier ones.
        let (mut newest_switch, mut switched_to) = ([None; 4], BTreeSet::new());
        for item in Trace::open(&out).unwrap().events() {
            if let Item::Event(event) = item.unwrap() {
                if event.name() == "sched_switch" {
                    let next = event.fields.get("next_tid").unwrap().as_u64();
                    switched_to.extend(std::mem::replace(
                        &mut newest_switch[event.cpu().unwrap() as usize],
                        next,
                    ));
                }
                if event.name() != "thread_name" {
                    in_trace[event.cpu().unwrap() as usize] += 1;
                }
                if event.name() == "marker" {
                    let field = |name: &str| event.fields.get(name).unwrap().as_u64().unwrap();
                    let before = last.insert(field("tid"), field("seq"));
                    assert!(before.is_none_or(|before| before < field("seq")));
                }
            }
        }
        for (hart, ledger) in ledger.iter().enumerate() {
            let lost = losses
                .get(&format!("events_{hart}"))
                .map_or(0, |lost| lost.0);
            for (thread, &returned) in ledger.last.iter().enumerate() {
                let tid = 2 * hart as u64 + thread as u64 + 1;
                let newest = last.get(&tid).copied();
                // A thread may have been off the CPU for longer than the ring reaches back.
                assert!(
                    newest.is_some() || lost > 0 || returned == 0,
                    "turn {turn}, thread {tid} has no marker; {append}"
                );
                // If a busy host delays the guest, the next tick may be due as soon as a thread
                // runs, which is then switched out before its first marker.
                if switched_to.contains(&tid) {
                    hasty.0 += u64::from(newest.is_none());
                    hasty.1 += 1;
                }
                // In a roomy ring this only happens if a busy host missed the guest's timer.
                if roomy && returned > 0 {
                    absent.0 += u64::from(newest.is_none());
                    absent.1 += 1;
                }
                if let Some(newest) = newest {
                    assert!(
                        newest == returned || newest == returned + 1,
                        "turn {turn}, thread {tid}: {newest} in the trace, {returned} returned; \
                         {append}"
                    );
                }
            }
            // At least the thread that last ran on the hart has left a marker.
            if ledger.marker > 0 {
                assert!(
                    (1..3).any(|thread| last.contains_key(&(2 * hart as u64 + thread))),
                    "turn {turn}, hart {hart}"
                );
            }
            let accounted = in_trace[hart] + lost;
            // A call may have written its record without being counted yet, in the thread and in
            // the interrupt on top of it.
            assert!(
                (ledger.events()..=ledger.events() + 2).contains(&accounted),
                "turn {turn}, hart {hart}: {accounted} of {}; {append}",
                ledger.events()
            );
            total += accounted;
        }
        fs::remove_dir_all(out).unwrap();
    }
    println!(
        "{alive} of {} machines had started to trace when they were killed; {total} events accounted for",
        kills()
    );
    for ((without, all), which) in [
        (absent, "have no marker in a roomy ring"),
        (hasty, "ran, and left no marker"),
    ] {
        assert!(2 * without <= all, "{without} of {all} threads {which}");
    }
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn kill_the_recorder_and_the_trace_opens() {
    let mut random = Random(seed());
    let folder = scratch("kill-recorder");
    let mut opened = 0;
    for turn in 0..kills() {
        let out = folder.join(format!("trace{turn}"));
        let mut command = recording(&hello(), &out);
        command.args([
            "--append",
            "kymo=rolling work=markers events=1000000000 packets=128",
        ]);
        let mut recorder = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        if turn % 5 < 4 {
            wait_until(|| out.join("events_3").exists());
        }
        // Half of them have written more than the first, empty page, even on a slow host.
        if turn % 2 == 0 {
            wait_until(|| fs::metadata(out.join("events_3")).is_ok_and(|meta| meta.len() > 4096));
        }
        sleep(Duration::from_micros(random.below(700_000)));
        recorder.kill().unwrap();
        recorder.wait().unwrap();
        assert_machine_ends(&out.join(".ram").to_string_lossy());
        if out.join("metadata").exists() {
            let (events, _) = babeltrace::compare(&out);
            opened += u32::from(events > 0);
        }
        // One that nobody waited for may not have begun its folder.
        if out.exists() {
            fs::remove_dir_all(out).unwrap();
        }
    }
    println!(
        "{opened} of {} traces had events when their recorder was killed",
        kills()
    );
    assert!(opened * 2 >= kills(), "too few had");
}

/// The machine ends with its recorder: no process has the RAM file on its command line.
fn assert_machine_ends(ram: &str) {
    wait_until(|| {
        let mut pgrep = Command::new("pgrep");
        let found = pgrep.args(["-f", ram]).output().expect("pgrep runs");
        found.stdout.is_empty()
    });
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn the_time_limit_ends_the_machine_and_the_trace_is_complete() {
    let out = scratch("time-limit").join("trace");
    let record_for = |seconds: &str| {
        let mut command = recording(&hello(), &out);
        command
            .args([
                "--timeout",
                seconds,
                "--append",
                "events=1000000000 kymo=rolling",
            ])
            .output()
            .unwrap()
    };
    // A busy host may take longer to start the machine.
    let limits = ["6", "60", patience()];
    let mut outputs = limits.into_iter().map(record_for);
    let output = outputs.find(|output| output.status.code() != Some(3));
    let output = output.expect("the machine starts to trace");
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(1) && text.contains("was ended at the time limit"),
        "{text}"
    );
    assert!(babeltrace::compare(&out).0 > 1000);
    assert!(!out.join(".ram").exists());
    // A completed recording leaves no memory file behind either.
    let out = scratch("no-ram").join("trace");
    record(&out, "events=1000", &[]);
    assert!(!out.join(".ram").exists());
}
