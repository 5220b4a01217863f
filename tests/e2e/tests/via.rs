//! `kymo record --via syscall|both`, `--duration`, `--rolling`, `--events`: the data that a guest
//! sends arrives, or its loss is reported. The guest is `src/bin/sender.rs`, a recorder that is
//! read by its calls, which can be made to fail.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use kymo_ctf::{Event, Item, Trace};
use kymo_e2e::demo::ARCHES;
use kymo_e2e::{Random, babeltrace, kymo, patience, run, scratch, seed, wait_until};

/// The command to record the stand-in, controlled by `words`.
fn command(folder: &Path, words: &str, options: &[&str]) -> Command {
    let program = folder.join("qemu-system-riscv64");
    if !program.exists() {
        symlink(env!("CARGO_BIN_EXE_sender"), &program).unwrap();
    }
    let mut command = kymo(["record", "--timeout", patience(), "--out"]);
    command
        .arg(folder.join("trace"))
        .args(options)
        .arg("--")
        .arg(program)
        .args(["-M", "virt", "-append", "quiet"]);
    command.env("KYMO_SENDER", words);
    command
}

fn recorded(name: &str, words: &str, options: &[&str], code: i32) -> (PathBuf, String) {
    let folder = scratch(name);
    let output = run(&mut command(&folder, words, options), code);
    (folder.join("trace"), said(output))
}

fn said(output: Output) -> String {
    String::from_utf8(output.stderr).unwrap()
}

/// Time, CPU, name and fields of each event; and the numbers of the marks, in order.
fn events(trace: &Path) -> (Vec<String>, Vec<u64>) {
    let event = |item| match item {
        Ok(Item::Event(event)) => event,
        other => panic!("{other:?}"),
    };
    let all: Vec<Event> = Trace::open(trace).unwrap().events().map(event).collect();
    let line = |event: &Event| {
        format!(
            "{:?} {:?} {} {:?}",
            event.time,
            event.cpu(),
            event.name(),
            event.fields
        )
    };
    let mark = |event: &Event| event.fields.get("id").and_then(|id| id.as_u64());
    let mut marks: Vec<u64> = all
        .iter()
        .filter(|event| event.name() == "mark")
        .filter_map(mark)
        .collect();
    marks.sort_unstable();
    (all.iter().map(line).collect(), marks)
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn both_ways_out_of_the_machine_give_the_same_events() {
    for (name, words, options) in [
        ("both", "events=5000", &["--via", "both"][..]),
        // Packets of several pages; the memory of a rolling session.
        (
            "both-large",
            "events=60000 burst=6000",
            &["--via", "both", "--rolling"],
        ),
    ] {
        let (trace, text) = recorded(name, words, options, 0);
        let (memory, syscall) = (trace.join("memory"), trace.join("syscall"));
        assert!(
            text.contains("the machine ended; ") && text.contains("no event lost"),
            "{text}"
        );
        let (seen, marks) = events(&memory);
        assert!(events(&syscall).0 == seen, "{name}");
        assert_eq!(
            marks,
            (0..if name == "both" { 5000 } else { 60_000 }).collect::<Vec<_>>(),
            "{name}"
        );
        assert_eq!(
            fs::read(memory.join("metadata")).unwrap(),
            fs::read(syscall.join("metadata")).unwrap()
        );
        assert_eq!(babeltrace::compare(&memory).0, seen.len() as u64);
        assert_eq!(babeltrace::compare(&syscall).0, seen.len() as u64);
        assert!(!trace.join(".ram").exists());
        assert_eq!(fs::read_dir(&trace).unwrap().count(), 2);
    }
}

/// A run of `kernels/demo`, whose program `perf` sends over its virtio port.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn both_ways_out_of_the_demo_give_the_same_events() {
    for arch in &ARCHES {
        let demo = arch.kernel();
        for (name, options, append, ended) in [
            ("demo-both", &[][..], "workload=all rounds=30", "ended; "),
            (
                "demo-both-rolling",
                &["--rolling", "--events", "sched_*,irq_*"],
                "workload=all rounds=30",
                "ended; ",
            ),
            (
                "demo-both-duration",
                &["--duration", "1"],
                "workload=all rounds=1000000",
                "was ended after the requested duration",
            ),
        ] {
            let trace = scratch(&format!("{name}-{}", arch.name)).join("trace");
            // A guest on a busy host may take long to send the rest.
            let mut command = kymo([
                "record",
                "--via",
                "both",
                "--timeout",
                patience(),
                "--grace",
                patience(),
                "--append",
                append,
                "--out",
            ]);
            let text = said(run(command.arg(&trace).args(options).arg(&demo), 0));
            assert!(
                text.contains(&format!("the machine {ended}")) && text.contains("no event lost"),
                "{text}"
            );
            let seen = events(&trace.join("memory")).0;
            assert!(
                seen.len() > 500 && events(&trace.join("syscall")).0 == seen,
                "{name}: {} events",
                seen.len()
            );
            babeltrace::compare(&trace.join("syscall"));
        }
    }
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_duration_and_an_interrupt_have_the_guest_send_the_rest() {
    let after_duration = |name: &str, words: &str| {
        let (trace, text) = recorded(
            name,
            words,
            &["--via", "both", "--duration", "0.5", "--grace", patience()],
            0,
        );
        assert!(
            text.contains("the machine was ended after the requested duration; "),
            "{text}"
        );
        trace
    };
    let after_interrupt = |name: &str, words: &str| {
        let folder = scratch(name);
        let trace = folder.join("trace");
        let mut command = command(&folder, words, &["--via", "both", "--grace", patience()]);
        let child = command
            .process_group(0)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_until(|| {
            trace.join("syscall/events_1").exists() && trace.join("memory/events_1").exists()
        });
        let text = interrupted(child, 0);
        assert!(
            text.contains("the machine was ended by an interrupt; "),
            "{text}"
        );
        trace
    };
    for trace in [
        after_duration("duration", "until_stop"),
        after_duration("duration-stay", "until_stop stay"),
        after_interrupt("interrupt", "until_stop stay"),
    ] {
        let (seen, marks) = events(&trace.join("syscall"));
        assert!(
            !marks.is_empty() && marks == (0..marks.len() as u64).collect::<Vec<_>>(),
            "all up to the last: {marks:?}"
        );
        assert!(
            events(&trace.join("memory")).0 == seen,
            "{}",
            trace.display()
        );
        babeltrace::compare(&trace.join("syscall"));
    }
}

/// Sends Ctrl-C like a terminal, to the whole process group of the child; waits, and returns its
/// messages.
fn interrupted(child: Child, code: i32) -> String {
    run(
        Command::new("kill").args(["-INT", "--", &format!("-{}", child.id())]),
        0,
    );
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    said(output)
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_guest_that_does_not_answer_is_told_of() {
    let (trace, text) = recorded(
        "mute",
        "until_stop mute",
        &["--via", "syscall", "--duration", "0.3", "--grace", "0.3"],
        1,
    );
    assert!(text.contains("did not confirm within 0.3 s"), "{text}");
    assert!(babeltrace::compare(&trace).0 > 0);
    // A second interrupt ends the wait.
    let folder = scratch("mute-interrupt");
    let mut command = command(
        &folder,
        "until_stop mute",
        &["--via", "syscall", "--grace", "600"],
    );
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    wait_until(|| folder.join("trace/events_1").exists());
    let mut interrupts = 0;
    while child.try_wait().unwrap().is_none() {
        run(
            Command::new("kill").args(["-INT", &child.id().to_string()]),
            0,
        );
        interrupts += 1;
        sleep(Duration::from_millis(100));
    }
    let text = said(child.wait_with_output().unwrap());
    assert!(
        interrupts > 1
            && text.contains("was ended by an interrupt")
            && text.contains("interrupted while waiting for the guest to stop"),
        "{text}"
    );
    assert!(babeltrace::compare(&folder.join("trace")).0 > 0);

    let (trace, text) = recorded("noclose", "noclose", &["--via", "syscall"], 1);
    assert!(
        text.contains("the machine ended; ")
            && text.contains("ended before the guest had sent everything"),
        "{text}"
    );
    assert_eq!(events(&trace).1.len(), 2000);
    let (trace, text) = recorded("status", "status=7", &["--via", "syscall"], 1);
    assert!(
        text.contains("ended with status 7") && !text.contains("ended before the guest"),
        "{text}"
    );
    assert_eq!(events(&trace).1.len(), 2000);
    let (trace, text) = recorded("again", "again", &["--via", "both"], 0);
    assert!(
        text.contains("opened another session after this one"),
        "{text}"
    );
    assert_eq!(events(&trace.join("syscall")).1.len(), 2000);
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn damage_on_the_way_is_counted_and_the_rest_is_read() {
    let (trace, text) = recorded("damage", "flip=20 drop=30", &["--via", "syscall"], 1);
    assert!(
        text.contains("2 frames were lost") && text.contains("bytes in 1 place were damaged"),
        "{text}"
    );
    let (events, losses) = babeltrace::compare(&trace);
    assert!(events > 1000, "{events}");
    assert_eq!(
        losses.values().map(|lost| lost.1).sum::<u64>(),
        2,
        "each was one packet: {losses:?}"
    );
    // The metadata is the first data.
    let (_, text) = recorded("no-metadata", "drop=1", &["--via", "syscall"], 1);
    assert!(
        text.contains("1 frame was lost") && text.contains("no reader can open"),
        "{text}"
    );
    // The session's opening is damaged: all data is there, and the fault is reported.
    let (trace, text) = recorded("no-opening", "flip=0", &["--via", "syscall"], 1);
    assert!(text.contains("1 frame was lost"), "{text}");
    assert_eq!(self::events(&trace).1.len(), 2000);
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_kernel_that_does_not_do_what_it_was_asked_for_is_told_of() {
    for via in ["memory", "syscall"] {
        let options = ["--via", via, "--rolling", "--events", "sched_*,thread_exit"];
        let (_, text) = recorded(&format!("deaf-{via}"), "deaf", &options, 1);
        assert!(
            text.contains("keeps the oldest events, although it was asked to keep the newest"),
            "{text}"
        );
        assert!(
            text.contains("asked to record sched_*,thread_exit and recorded mark"),
            "{text}"
        );
        let options = ["--via", via, "--rolling", "--events", "mark,sched_*"];
        let (trace, text) = recorded(&format!("follows-{via}"), "", &options, 0);
        assert_eq!(events(&trace).1.len(), 2000, "{text}");
        let (trace, _) = recorded(
            &format!("silent-{via}"),
            "",
            &["--via", via, "--events", "sched_*"],
            0,
        );
        let names = events(&trace).0;
        assert!(
            !names.is_empty()
                && names
                    .iter()
                    .all(|line| line.contains("thread_name") || line.contains(" kymo_")),
            "{names:?}"
        );
    }
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn kill_the_recorder_and_what_was_sent_opens() {
    let mut random = Random(seed());
    let mut opened = 0;
    for turn in 0..10 {
        let folder = scratch("kill-via");
        let trace = folder.join("trace");
        let burst = ["burst=7", "burst=500", "burst=5000"][turn % 3];
        let mut command = command(
            &folder,
            &format!("until_stop {burst}"),
            &["--via", "syscall"],
        );
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        wait_until(|| trace.join("events_1").exists());
        // Every other one has written more than the first, empty packet, even on a slow host.
        if turn % 2 == 0 {
            wait_until(|| fs::metadata(trace.join("events_1")).is_ok_and(|meta| meta.len() > 4096));
        }
        sleep(Duration::from_micros(random.below(200_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        opened += u32::from(babeltrace::compare(&trace).0 > 0);
    }
    assert!(
        opened >= 5,
        "{opened} of 10 had events when their recorder was killed"
    );
}

/// On a full disk or at a quota, the output consists of whole packets and can be opened.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_disk_that_fills_up_while_a_guest_sends() {
    let folder = scratch("full-via");
    let inner = command(&folder, "events=60000 burst=6000", &["--via", "syscall"]);
    // The limit is in 512-byte blocks and applies to the trace's files; the RAM file is sparse and
    // elsewhere.
    let ram = folder.join("ram");
    fs::File::create(&ram).unwrap().set_len(128 << 20).unwrap();
    let script = "trap '' XFSZ; ulimit -f 333; exec \"$@\"";
    let mut command = Command::new("sh");
    command
        .args(["-c", script, "sh"])
        .arg(inner.get_program())
        .args(inner.get_args())
        .env("KYMO_SENDER", "events=60000 burst=6000");
    let object = format!(
        "memory-backend-file,id=m,size=128M,share=on,mem-path={}",
        ram.display()
    );
    command.args(["-machine", "memory-backend=m", "-object", &object]);
    let text = said(run(&mut command, 4));
    assert!(
        text.starts_with("kymo: cannot write the trace to") && text.lines().count() == 1,
        "{text}"
    );
    assert!(babeltrace::compare(&folder.join("trace")).0 > 0);
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn command_lines_that_make_no_sense() {
    let folder = scratch("via-usage");
    let out = folder.join("trace");
    let out = out.to_str().unwrap();
    let refused = |words: &[&str], part: &str| {
        let output = run(&mut kymo(["record", "--out", out].iter().chain(words)), 2);
        let text = said(output);
        assert!(text.contains(part), "{text}");
        assert!(!Path::new(out).exists());
    };
    let qemu = ["--", "qemu-system-riscv64", "-M", "virt"];
    refused(&[&["--rolling"], &qemu[..]].concat(), "has no -append");
    refused(
        &[&["--via", "syscall"], &qemu[..]].concat(),
        "has no -append",
    );
    refused(
        &[&["--rolling"], &qemu[..], &["-append", "kymo=discard"]].concat(),
        "\"discard\"",
    );
    refused(
        &[&["--events", "a"], &qemu[..], &["-append", "kymo=events=b"]].concat(),
        "\"events=b\"",
    );
    refused(
        &[
            "--via",
            "both",
            "--",
            "qemu-system-riscv64",
            "-M",
            "spike",
            "-append",
            "",
        ],
        "virtio serial port",
    );
    refused(
        &[&["--events", "a b"], &qemu[..]].concat(),
        "\"a b\" is not a valid event name",
    );
    refused(&[&["--duration=-1"], &qemu[..]].concat(), "not be negative");
    refused(&[&["--via", "telepathy"], &qemu[..]].concat(), "telepathy");
}
