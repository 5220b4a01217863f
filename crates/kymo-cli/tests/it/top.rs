//! `kymo top`: windows are those of the trace, and a terminal is as before afterwards.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use kymo::vocabulary::SessionEnd;
use kymo_made::MS;

use crate::pages::machine;
use crate::run::{kymo, printed};

/// The tables of a complete trace are those of its report.
#[test]
fn all_of_a_trace_is_its_report() {
    let mut made = machine("top", 60, 60);
    let trace = made.finish().to_owned();
    for (sections, sort) in [
        ("threads", "on a CPU"),
        ("cpus,interrupts", "max"),
        ("system-calls,locks", "max"),
    ] {
        let options = ["--section", sections, "--top", "3", "--sort", sort];
        let (status, report) = printed(&[&["report"][..], &options].concat(), &trace);
        assert_eq!(status, Some(0));
        let (status, top) = printed(&[&["top"][..], &options].concat(), &trace);
        assert_eq!(status, Some(0));
        let tables = |text: &str| text.split_once("\n\n").unwrap().1.trim_end().to_owned();
        assert_eq!(tables(&top), tables(&report), "{sections}");
        let events = report.split(' ').next().unwrap();
        let head = top.lines().next().unwrap();
        assert!(head.contains(&format!(": {events} events in ")), "{head}");
        assert!(head.ends_with(", none lost"), "{head}");
    }
}

/// Each window has what has come since the one before.
#[test]
fn windows_follow_one_another() {
    let mut made = machine("top-follow", 5, 5);
    let trace = made.finish().to_owned();
    let mut top = Command::new(env!("CARGO_BIN_EXE_kymo"))
        .args(["top", "--follow", "--every", "0.1", "--windows", "3"])
        .args(["--section", "events"])
        .arg(&trace)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(top.stdout.take().unwrap()).lines();
    // The window's number of events.
    let mut window = || {
        let head = lines.find(|line| line.as_ref().unwrap().ends_with(", none lost"));
        let head = head.unwrap().unwrap();
        let (_, rest) = head.split_once(" s: ").unwrap();
        rest.split(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let mut all = window();
    for number in 1..=2 {
        let begin = number * 3_600_000 * MS;
        for at in [0, 1, 2, 3] {
            made.wake(1, begin + at, 1, 0);
        }
        made.finish();
        let events = window();
        all += events;
        assert!(events == 4, "{events}");
    }
    assert!(top.wait().unwrap().success());
    let report = kymo(&["report", "--json"], &trace);
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(report["events"], all);
}

/// What is missing is said as the report says it, also what came too late for a window.
#[test]
fn what_a_window_lacks_is_said() {
    let mut made = machine("top-lost", 5, 5);
    made.lose(0, 7, 1_000 * MS);
    made.wake(0, 1_001 * MS, 1, 0);
    let trace = made.finish().to_owned();
    let (_, whole) = printed(&["top"], &trace);
    let head = whole.lines().next().unwrap();
    assert!(head.ends_with("; 7 more were lost"), "{head}");
    let mut top = Command::new(env!("CARGO_BIN_EXE_kymo"))
        .args(["top", "--follow", "--every", "0.1", "--windows", "2"])
        .arg(&trace)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(top.stdout.take().unwrap()).lines();
    let mut head = || {
        let head = lines.find(|line| line.as_ref().unwrap().contains(" events in "));
        head.unwrap().unwrap()
    };
    let first = head();
    assert!(first.ends_with("; 7 more were lost"), "{first}");
    // Of another CPU, which was not read so far.
    made.wake(3, 900 * MS, 1, 0);
    made.finish();
    let second = head();
    assert!(second.contains(": 0 events in "), "{second}");
    assert!(
        second.ends_with(", none lost; 1 event too late for a window"),
        "{second}"
    );
    assert!(top.wait().unwrap().success());
}

/// It ends with the recording, whose last event says so, and says how many windows there were.
#[test]
fn a_recording_that_has_ended_has_no_more_windows() {
    let mut made = machine("top-ended", 5, 5);
    let end = SessionEnd {
        recorded: 0,
        reused: 0,
        discarded: 0,
        too_large: 0,
        clock_back: 0,
        abandoned: 0,
        without_ring: 0,
    };
    made.event(0, 9_000 * MS, end);
    let trace = made.finish().to_owned();
    for (windows, says) in [
        (
            &["--windows", "5"][..],
            "kymo: the recording has ended after 1 window of 5.\n",
        ),
        (&[], "kymo: the recording has ended after 1 window.\n"),
    ] {
        let mut top = Command::new(env!("CARGO_BIN_EXE_kymo"))
            .args(["top", "--follow", "--every", "0.1"])
            .args(windows)
            .arg(&trace)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It would wait for ever.
        let begin = Instant::now();
        while top.try_wait().unwrap().is_none() {
            if begin.elapsed() > Duration::from_secs(120) {
                top.kill().unwrap();
                panic!("it waits for windows of a recording that has ended");
            }
            thread::sleep(Duration::from_millis(20));
        }
        let output = top.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(String::from_utf8(output.stderr).unwrap(), says);
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(printed.matches(" events in ").count(), 1, "{printed}");
    }
}

/// It ends where nobody reads its windows any more.
#[test]
fn windows_that_nobody_reads_are_the_last_ones() {
    let mut made = machine("top-unread", 5, 5);
    let trace = made.finish().to_owned();
    let mut top = Command::new(env!("CARGO_BIN_EXE_kymo"))
        .args(["top", "--follow", "--every", "0.1"])
        .arg(&trace)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(top.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    drop(lines);
    made.wake(1, 3_600_000 * MS, 1, 0);
    made.wake(1, 3_600_001 * MS, 1, 0);
    made.finish();
    assert!(top.wait().unwrap().success());
}

#[test]
fn what_cannot_be_shown_is_said_in_a_sentence() {
    let nothing = std::env::temp_dir().join(format!("kymo-top-none-{}", std::process::id()));
    for (options, status) in [(&[][..], 3), (&["--follow"], 3), (&["--windows", "3"], 2)] {
        let output = kymo(&[&["top"][..], options].concat(), &nothing);
        assert_eq!(output.status.code(), Some(status), "{options:?}");
        let message = String::from_utf8(output.stderr).unwrap();
        if status == 3 {
            assert_eq!(message.lines().count(), 1, "{message}");
        }
    }
}

#[cfg(target_os = "linux")]
mod on_terminal {
    use std::fs::File;
    use std::io::{Read as _, Write as _};

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

    use super::*;

    /// Keys choose tables, their order and their rows; at the end, the terminal is as before.
    #[test]
    fn keys_choose_what_is_shown() {
        let mut made = machine("top-keys", 40, 40);
        let trace = made.finish().to_owned();
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let size = Winsize {
            ws_row: 30,
            ws_col: 100,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&terminal, size).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let line = || {
            let mut options = File::options();
            let line = options.read(true).write(true);
            line.open(name.to_str().unwrap()).unwrap()
        };
        let kept = line();
        let is_as_typed = |line: &File| {
            let modes = tcgetattr(line).unwrap().local_modes;
            modes.contains(LocalModes::ICANON | LocalModes::ECHO)
        };
        assert!(is_as_typed(&kept));
        let start = || {
            let mut top = Command::new(env!("CARGO_BIN_EXE_kymo"));
            top.arg("top").arg(&trace).env("TERM", "xterm");
            top.env_remove("COLUMNS").stdin(line()).stdout(line());
            top.spawn().unwrap()
        };
        let mut top = start();
        let mut terminal = File::from(terminal);
        let mut shown = String::new();
        // What is written until this is in it.
        let mut until = |terminal: &mut File, wanted: &str| {
            shown.clear();
            while !shown.contains(wanted) {
                let mut bytes = [0; 1 << 12];
                let read = terminal.read(&mut bytes).unwrap();
                shown += &String::from_utf8_lossy(&bytes[..read]);
            }
            shown.clone()
        };
        let first = until(&mut terminal, "q quit");
        assert!(first.contains("[threads] "), "{first}");
        assert!(first.contains("in interrupts") && first.contains("on a CPU"));
        assert!(!is_as_typed(&kept));
        terminal.write_all(b"q").unwrap();
        until(&mut terminal, "\u{1b}[?1049l");
        assert!(top.wait().unwrap().success());
        assert!(is_as_typed(&kept));

        let mut top = start();
        until(&mut terminal, "q quit");
        for (key, wanted) in [
            ("s", "[threads by "),
            ("S", "[threads] "),
            ("\t", "[calls] "),
            ("\t", "[locks] "),
            ("\u{1b}[Z", "[calls] "),
            (" ", "[calls, paused] "),
        ] {
            terminal.write_all(key.as_bytes()).unwrap();
            until(&mut terminal, wanted);
        }
        // Somebody ends it.
        let pid = rustix::process::Pid::from_child(&top);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        until(&mut terminal, "\u{1b}[?1049l");
        assert!(top.wait().unwrap().success());
        assert!(is_as_typed(&kept));
    }
}
