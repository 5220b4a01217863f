//! `kymo count`: the parts of what it counts, several runs, and events of PMUs.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::count::{command, may_count, not_run, objects, raw, said};

/// K-22: the counts of the CPUs add up to those of all.
#[test]
fn each_cpu_is_counted_by_itself() {
    let (_, message, status) = said(&["-e", "cpu-clock", "-C", "0", "--", "true"]);
    if status != Some(0) {
        return not_run(&message);
    }
    let events = ["-a", "-A", "-e", "cs,{cpu-clock,faults}"];
    let until = ["--", "sleep", "0.05"];
    let (text, _, status) = said(&[&events[..], &["--json"], &until].concat());
    assert_eq!(status, Some(0));
    let [total] = &objects(&text)[..] else {
        panic!("{text}");
    };
    let cpus = kymo_perf::online_cpus().unwrap();
    for (group, events) in [(0, 1), (1, 2)] {
        let targets = total["groups"][group]["targets"].as_array().unwrap();
        let numbers = targets
            .iter()
            .map(|target| target["cpu"].as_u64().unwrap() as u32);
        assert_eq!(numbers.collect::<Vec<u32>>(), cpus, "{text}");
        for event in 0..events {
            let counts = targets
                .iter()
                .map(|target| target["events"][event]["raw"].as_u64());
            let sum: u64 = counts.map(Option::unwrap).sum();
            assert_eq!(sum, raw(total, group, event), "{text}");
        }
    }
    let (text, _, status) = said(&[&events[..], &["-I", "20"], &until].concat());
    assert_eq!(status, Some(0));
    for cpu in cpus {
        let row = format!("  CPU {cpu} ");
        // In the total, and in one interval at least, below each of three events.
        assert!(text.matches(&row).count() >= 6, "{text}");
        assert!(text.contains(&format!("\n{row}")), "{text}");
    }
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
}

/// K-22: a thread is called by its name and number.
#[test]
fn each_thread_of_a_process_is_counted_by_itself() {
    if !may_count() {
        return;
    }
    let mut sleeper = Command::new("sleep").arg("1000").spawn().unwrap();
    let own = std::process::id().to_string();
    let pids = format!("{own},{}", sleeper.id());
    let mut kymo = command(&["-e", "cs", "-A", "-I", "10", "--json", "-p", &pids]);
    let mut kymo = kymo.stdout(Stdio::piped()).spawn().unwrap();
    let lines = std::io::BufReader::new(kymo.stdout.take().unwrap());
    let first = std::io::BufRead::lines(lines).next().unwrap().unwrap();
    kymo.kill().unwrap();
    kymo.wait().unwrap();
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    let first: Value = serde_json::from_str(&first).unwrap();
    let targets = first["groups"][0]["targets"].as_array().unwrap();
    let mut names = targets.iter().map(|of| of["target"].as_str().unwrap());
    let wanted = format!("sleep-{}", sleeper.id());
    assert!(names.clone().any(|name| name == wanted), "{first}");
    // This process has a thread for each test that runs, whose name Linux cuts to 15 letters.
    assert!(
        names.any(|name| name.starts_with("count_parts::ea")),
        "{first}"
    );
    assert!(targets.iter().all(|of| of["cpu"].is_null()), "{first}");
}

/// K-22: the command runs so often; its status is that of the first run that fails.
#[test]
fn a_command_is_counted_in_several_runs() {
    if !may_count() {
        return;
    }
    let file = std::env::temp_dir().join(format!("kymo-runs-{}", std::process::id()));
    let script = format!(
        "echo run >> {0}; test $(wc -l < {0}) -ne 2 || exit 5",
        file.display()
    );
    let events = "{page-faults,task-clock}";
    let arguments = ["-e", events, "-r", "3", "--json", "--", "sh", "-c", &script];
    let (text, message, status) = said(&arguments);
    let runs = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!((runs.as_str(), status), ("run\nrun\nrun\n", Some(5)));
    assert_eq!(message, "kymo: sh ended with exit status 5.\n");
    let [total] = &objects(&text)[..] else {
        panic!("{text}");
    };
    assert_eq!((&total["runs"], &total["status"]), (&3.into(), &5.into()));
    let number = |event: usize, name: &str| {
        let event = &total["groups"][0]["events"][event];
        event[name].as_f64().unwrap()
    };
    for event in 0..2 {
        let (least, mean, most) = (
            number(event, "least"),
            number(event, "mean"),
            number(event, "most"),
        );
        assert!(0.0 < least && least <= mean && mean <= most, "{text}");
        assert_eq!(number(event, "runs"), 3.0);
        let deviation = number(event, "deviation");
        // Of three numbers it is at most the square root of 3.
        assert!((0.0..1.8).contains(&deviation), "{text}");
    }
    let (text, _, status) = said(&["-e", "page-faults", "--repeat", "2", "--", "true"]);
    assert_eq!(status, Some(0));
    assert!(text.contains(" s elapsed, ± "), "{text}");
    assert!(text.ends_with("mean of 2 runs\n"), "{text}");
}

/// A signal ends the repetition: what was complete is counted.
#[test]
fn a_signal_ends_the_runs() {
    if !may_count() {
        return;
    }
    let file = std::env::temp_dir().join(format!("kymo-ended-{}", std::process::id()));
    let script = format!(
        "echo run >> {0}; test $(wc -l < {0}) -lt 2 || exec sleep 1000",
        file.display()
    );
    let arguments = [
        "-e", "faults", "-r", "5", "--json", "--", "sh", "-c", &script,
    ];
    let mut kymo = command(&arguments);
    let kymo = kymo
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It is there when the first run has begun.
    let lines = || std::fs::read_to_string(&file).map_or(0, |text| text.lines().count());
    while lines() < 2 {
        std::thread::yield_now();
    }
    let pid = rustix::process::Pid::from_child(&kymo);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let output = kymo.wait_with_output().unwrap();
    std::fs::remove_file(&file).unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(143), "{message}");
    assert!(
        message.ends_with("interrupted; 1 of 5 runs are in the counts.\n"),
        "{message}"
    );
    let total: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&total["runs"], &total["status"]), (&1.into(), &143.into()));
}

/// K-14: the PMU `software` has numbers and no names; page faults are its number 2.
#[test]
fn an_event_of_a_pmu_is_counted_by_its_number() {
    if !may_count() {
        return;
    }
    let (text, message, status) = said(&[
        "-e",
        "{faults:u,software/config=2/u}",
        "--json",
        "--",
        "true",
    ]);
    assert_eq!((message.as_str(), status), ("", Some(0)));
    let [total] = &objects(&text)[..] else {
        panic!("{text}");
    };
    assert!(raw(total, 0, 0) > 0, "{text}");
    assert_eq!(raw(total, 0, 0), raw(total, 0, 1), "{text}");
    let event = &total["groups"][0]["events"][1];
    assert_eq!(event["event"], "software/config=2/u");
    assert_eq!(event["value"], event["raw"].as_f64().unwrap());
}
