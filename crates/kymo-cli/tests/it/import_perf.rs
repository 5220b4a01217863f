//! `kymo import perf`, on what `perf record` has written of a program with known work.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::count::not_run;
use crate::sampled::{
    UNIT, are_shares_of_work, at_most, enough, hot, kymo, programs, samples, text,
};

/// `perf record OPTIONS -- ./work`; what the program says of itself. `None`, with the reason said,
/// where there is no `perf`.
fn perf_record(folder: &Path, options: &[&str]) -> Option<String> {
    let mut perf = Command::new("perf");
    perf.args(["record", "-q"]).args(options);
    perf.args(["--", "./work", UNIT])
        .current_dir(folder)
        .env("WORK", folder);
    match perf.stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => Some(text(&output.stdout)),
        Ok(output) => {
            not_run(&format!("perf: {}", text(&output.stderr)));
            None
        }
        Err(error) => {
            not_run(&format!("perf: {error}"));
            None
        }
    }
}

/// Functions of the program and its library.
const OWN: [&str; 8] = [
    "main",
    "timed",
    "outer",
    "inner",
    "leaf",
    "in_library",
    "in_thread",
    "in_child",
];

/// How often each stack is there, from `main` to the last of the program's own functions: around
/// them are functions of the C library and of the kernel whose names only one of the two may know.
fn stacks(lines: impl Iterator<Item = (Vec<String>, u64)>) -> BTreeMap<String, u64> {
    let mut stacks = BTreeMap::new();
    let is_own = |frame: &String| OWN.contains(&frame.as_str());
    for (frames, count) in lines {
        let main = frames.iter().position(|frame| frame == "main");
        let (Some(main), Some(last)) = (main, frames.iter().rposition(is_own)) else {
            continue;
        };
        *stacks.entry(frames[main..=last].join(";")).or_default() += count;
    }
    stacks
}

/// The events in a message such as `(cpu-clock:u, page-faults:u)`, without their modifiers.
fn events(message: &str) -> Vec<&str> {
    let names = message.split_once(" samples (").unwrap().1;
    let names = names.split_once(')').unwrap().0.split(", ");
    names.map(|name| name.split(':').next().unwrap()).collect()
}

/// Shares are those of the work, and stacks those that `perf script` prints.
#[test]
fn samples_of_perf_are_those_of_its_own_tools() {
    let Some(folder) = programs() else { return };
    let hz = at_most(4_000);
    let rate = hz.to_string();
    let options = ["-e", "cpu-clock", "-F", &rate, "-g", "-o", "perf.data"];
    let Some(said) = perf_record(folder, &options) else {
        return;
    };
    let output = kymo(
        folder,
        &["import", "perf", "perf.data", "--out", "imported"],
    );
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    assert!(
        errors.contains("of 3 threads in 2 processes, none lost."),
        "{errors}"
    );
    let hot = hot(folder, "imported", &[]);
    assert!(samples(&hot) >= enough(&said, hz), "{said}{errors}");
    are_shares_of_work(&said, &hot);

    let folded = kymo(folder, &["flame", "imported", "--format", "folded"]);
    let folded = text(&folded.stdout);
    let ours = stacks(folded.lines().map(|line| {
        let (frames, count) = line.rsplit_once(' ').unwrap();
        (
            frames.split(';').map(str::to_owned).collect(),
            count.parse().unwrap(),
        )
    }));
    let mut script = Command::new("perf");
    script
        .args(["script", "-i", "perf.data", "-F", "ip,sym"])
        .current_dir(folder);
    let script = text(&script.output().unwrap().stdout);
    let theirs = stacks(script.split("\n\n").map(|sample| {
        let frame = |line: &str| line.split_whitespace().nth(1).unwrap_or("?").to_owned();
        let frames = sample.lines().filter(|line| {
            let address = line.trim();
            !address.is_empty() && !address.starts_with("ffffffff")
        });
        (frames.rev().map(frame).collect(), 1)
    }));
    assert!(
        ours.values().sum::<u64>() > enough(&said, hz) / 2,
        "{folded}"
    );
    assert_eq!(ours, theirs);
}

/// Compressed files, several events, and what goes through a pipe.
#[test]
fn files_of_other_kinds_are_read_as_well() {
    let Some(folder) = programs() else { return };
    let clock = ["-e", "cpu-clock", "-F", "500"];
    let small = [&clock[..], &["-z", "-g", "-o", "small.data"]].concat();
    let Some(_) = perf_record(folder, &small) else {
        return;
    };
    let both = ["-e", "cpu-clock,page-faults", "-F", "500"];
    let both = [&both[..], &["-o", "events.data"]].concat();
    perf_record(folder, &both).unwrap();
    let mut piped = Command::new("sh");
    piped.args([
        "-c",
        "perf record -q -e cpu-clock -F 500 -g -o - -- ./work 9999999 > piped.data",
    ]);
    assert!(
        piped
            .current_dir(folder)
            .env("WORK", folder)
            .status()
            .unwrap()
            .success()
    );
    for (file, names) in [
        ("small.data", &["cpu-clock"][..]),
        ("events.data", &["cpu-clock", "page-faults"]),
        ("piped.data", &["cpu-clock"]),
    ] {
        let out = format!("{file}.trace");
        let output = kymo(folder, &["import", "perf", file, "--out", &out]);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{errors}");
        assert_eq!(events(&errors), names, "{file}: {errors}");
        assert!(errors.contains("none lost."), "{file}: {errors}");
    }
    // Cut off, it gives what it holds.
    let bytes = fs::read(folder.join("events.data")).unwrap();
    fs::write(folder.join("cut.data"), &bytes[..bytes.len() / 2]).unwrap();
    let output = kymo(folder, &["import", "perf", "cut.data", "--out", "cut"]);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{errors}");
    assert!(
        errors.contains("cut.data is cut off") && errors.contains("samples ("),
        "{errors}"
    );
    assert!(samples(&hot(folder, "cut", &[])) > 0);
}

#[test]
fn what_is_no_file_of_perf_is_refused_in_a_sentence() {
    let folder = std::env::temp_dir().join(format!("kymo-no-perf-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("text"), "PERFILE3 and so on").unwrap();
    fs::write(folder.join("short"), "PERFILE2").unwrap();
    for (file, says) in [
        (
            "text",
            "text: this is no file of perf record: it does not begin as one",
        ),
        (
            "short",
            "short: this is no file of perf record: its header is cut off",
        ),
        ("nothing", "nothing: "),
        (".", ".: "),
    ] {
        let output = kymo(&folder, &["import", "perf", file, "--out", "trace"]);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
        assert!(errors.contains(says), "{errors}");
        assert!(!folder.join("trace").exists(), "{file}");
    }
    let _ = fs::remove_dir_all(&folder);
}
