//! `kymo count`, on the command itself.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kymo"));
    command.arg("count").stdin(Stdio::null());
    // The counts of a command, apart from the messages.
    if arguments.contains(&"--") && !arguments.contains(&"-o") {
        command.args(["-o", "-"]);
    }
    command.args(arguments);
    // As where no driver states a number.
    command.env("KYMO_PERF_GROUP_MAX_EVENTS", "4");
    command
}

fn count(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

/// What it printed, its messages, and its exit status.
pub(crate) fn said(arguments: &[&str]) -> (String, String, Option<i32>) {
    let output = count(arguments);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        text(output.stdout),
        text(output.stderr),
        output.status.code(),
    )
}

/// Whether this process may count; says so where it may not. The test harness keeps back what
/// `eprintln` prints for a test that passes.
pub(crate) fn may_count() -> bool {
    let (_, message, status) = said(&["-e", "page-faults", "--", "true"]);
    if status != Some(0) {
        not_run(&message);
    }
    status == Some(0)
}

pub(crate) fn not_run(reason: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // In one piece: other tests write at the same time.
    let line = format!("NOT RUN: {test}: {}\n", reason.trim());
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// The JSON objects of the lines.
pub(crate) fn objects(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

pub(crate) fn raw(total: &Value, group: usize, event: usize) -> u64 {
    total["groups"][group]["events"][event]["raw"]
        .as_u64()
        .unwrap()
}

/// K-10, K-17.
#[test]
fn a_command_is_counted_in_groups() {
    if !may_count() {
        return;
    }
    let events = "{page-faults,faults},{context-switches,task-clock},cs";
    let (text, message, status) = said(&["-e", events, "--json", "--", "true"]);
    assert_eq!((message.as_str(), status), ("", Some(0)));
    let [total] = &objects(&text)[..] else {
        panic!("{text}");
    };
    let groups = total["groups"].as_array().unwrap();
    let sizes: Vec<usize> = groups
        .iter()
        .map(|group| group["events"].as_array().unwrap().len())
        .collect();
    assert_eq!(sizes, [2, 2, 1]);
    assert!(raw(total, 0, 0) > 10, "{text}");
    assert_eq!(raw(total, 0, 0), raw(total, 0, 1));
    assert_eq!(raw(total, 1, 0), raw(total, 2, 0));
    assert!(raw(total, 1, 1) > 0);
    assert_eq!(total["groups"][1]["events"][1]["unit"], "ns");
    for group in groups {
        assert_eq!(group["share"], 1.0);
        for event in group["events"].as_array().unwrap() {
            assert_eq!(event["raw"], event["scaled"]);
            assert_eq!(event["error"], Value::Null);
        }
    }
    assert_eq!(
        (&total["part"], &total["status"]),
        (&"total".into(), &0.into())
    );
}

/// K-10: what never ran is null.
#[test]
fn what_never_ran_is_null() {
    if !may_count() {
        return;
    }
    let mut sleeper = Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = sleeper.id().to_string();
    // It has its last processor time behind it when it sleeps.
    while !fs::read_to_string(format!("/proc/{pid}/stat"))
        .unwrap()
        .contains("(sleep) S")
    {
        std::thread::yield_now();
    }
    let mut kymo = command(&["-e", "page-faults", "--json", "-I", "20", "-p", &pid]);
    let mut kymo = kymo.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(kymo.stdout.take().unwrap()).lines();
    let first: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(first["part"], "interval");
    let event = &first["groups"][0]["events"][0];
    assert_eq!((&event["raw"], &event["scaled"]), (&0.into(), &Value::Null));
    assert_eq!(first["groups"][0]["share"], Value::Null);
    // It ends with the process.
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    let last = lines.map(|line| line.unwrap()).last().unwrap();
    let last: Value = serde_json::from_str(&last).unwrap();
    assert_eq!(
        (&last["part"], &last["status"]),
        (&"total".into(), &Value::Null)
    );
    assert!(kymo.wait().unwrap().success());
}

#[test]
fn the_exit_status_is_the_commands() {
    if !may_count() {
        return;
    }
    for (script, status, message) in [
        ("exit 0", 0, ""),
        ("exit 3", 3, "kymo: sh ended with exit status 3.\n"),
        ("kill -9 $$", 137, "kymo: sh was ended by signal 9.\n"),
    ] {
        let (text, said, code) = said(&["-e", "page-faults", "--", "sh", "-c", script]);
        assert_eq!((code, said.as_str()), (Some(status), message));
        assert!(text.contains("page-faults "), "{text}");
    }
    let missing = said(&["-e", "page-faults", "--", "/nowhere/program"]);
    let sentence = "kymo: cannot start /nowhere/program: No such file or directory (os error 2)\n";
    assert_eq!(missing, (String::new(), sentence.to_owned(), Some(4)));
}

/// The last interval ends with the command.
#[test]
fn the_intervals_add_up_to_the_total() {
    if !may_count() {
        return;
    }
    let script = "for i in 1 2 3 4 5; do true | true; sleep 0.02; done; true | true";
    let events = "{page-faults,cs},task-clock";
    let (text, _, status) = said(&["-e", events, "-I", "20", "--json", "--", "sh", "-c", script]);
    assert_eq!(status, Some(0));
    let lines = objects(&text);
    let (total, intervals) = lines.split_last().unwrap();
    assert!(intervals.len() >= 2, "{text}");
    assert!(intervals.iter().all(|line| line["part"] == "interval"));
    for (group, event) in [(0, 0), (0, 1), (1, 0)] {
        let counts = intervals.iter().map(|line| raw(line, group, event));
        let sum: u64 = counts.sum();
        assert!(sum > 0, "{text}");
        assert_eq!(sum, raw(total, group, event), "{text}");
    }
    let number = |line: &Value, name: &str| line[name].as_f64().unwrap();
    let times = intervals.iter().map(|line| number(line, "time"));
    assert!(times.collect::<Vec<f64>>().is_sorted());
    let elapsed = intervals.iter().map(|line| number(line, "elapsed"));
    let difference = elapsed.sum::<f64>() - number(total, "elapsed");
    assert!(difference.abs() < 1e-6, "{text}");
    assert_eq!(total["time"], intervals.last().unwrap()["time"]);
}

#[test]
fn the_table_fits_and_the_commands_output_is_not_in_the_file() {
    if !may_count() {
        return;
    }
    let file = std::env::temp_dir().join(format!("kymo-count-{}", std::process::id()));
    let path = file.to_str().unwrap();
    let events = "{task-clock,page-faults},{cs,faults:u}";
    let (text, message, status) = said(&[
        "-e",
        events,
        "-I",
        "10",
        "-o",
        path,
        "--",
        "sh",
        "-c",
        "echo hi; sleep 0.1",
    ]);
    assert_eq!(
        (text.as_str(), message.as_str(), status),
        ("hi\n", "", Some(0))
    );
    let table = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    assert!(
        table.lines().all(|line| line.chars().count() <= 100),
        "{table}"
    );
    assert!(table.starts_with("     time  event"), "{table}");
    for words in [
        "\nevent ",
        "\ntask-clock (ns) ",
        "\n\ncs ",
        "100.0 %",
        " CPUs\n",
        " s elapsed\n",
    ] {
        assert!(table.contains(words), "{words:?} in {table}");
    }
    assert!(!table.contains("hi\n"));
}

/// The standard output is the command's alone.
#[test]
fn the_table_of_a_command_is_on_the_standard_error() {
    if !may_count() {
        return;
    }
    for json in [&[][..], &["--json"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_kymo"))
            .args(["count", "-e", "minor-faults,major-faults"])
            .args(json)
            .args(["--", "sh", "-c", "echo hi"])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "hi\n");
        let table = String::from_utf8_lossy(&output.stderr);
        assert!(table.contains("minor-faults"), "{table}");
        assert!(table.contains("major-faults"), "{table}");
    }
}

/// Of an interval in which the process did not run, there is no estimate; that the group never got
/// a counter would be another thing.
#[test]
fn a_process_that_sleeps_is_not_on_a_cpu() {
    if !may_count() {
        return;
    }
    let mut sleeper = Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = sleeper.id().to_string();
    while !fs::read_to_string(format!("/proc/{pid}/stat"))
        .unwrap()
        .contains("(sleep) S")
    {
        std::thread::yield_now();
    }
    let mut kymo = command(&["-e", "page-faults", "-I", "20", "-p", &pid]);
    let mut kymo = kymo.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(kymo.stdout.take().unwrap()).lines();
    let row = lines.nth(1).unwrap().unwrap();
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    lines.for_each(drop);
    kymo.wait().unwrap();
    assert!(row.contains("not on a CPU"), "{row}");
}

/// What a machine can count, without -e: at least what every kernel counts itself.
#[test]
fn without_events_the_usual_ones_are_counted() {
    if !may_count() {
        return;
    }
    let (text, _, status) = said(&["--", "true"]);
    assert_eq!(status, Some(0));
    for name in ["task-clock (ns)", "context-switches", "page-faults"] {
        assert!(text.contains(name), "{text}");
    }
}

#[test]
fn cpus_are_counted_while_a_command_runs() {
    let (_, message, status) = said(&["-e", "cpu-clock", "-C", "0", "--", "true"]);
    if status != Some(0) {
        return not_run(&message);
    }
    let (text, _, status) = said(&[
        "-a",
        "-e",
        "{cpu-clock,cs}",
        "--json",
        "--",
        "sleep",
        "0.05",
    ]);
    assert_eq!(status, Some(0));
    let [total] = &objects(&text)[..] else {
        panic!("{text}");
    };
    // All CPUs together, each for as long as the command ran.
    let cpus = kymo_perf::online_cpus().unwrap().len() as f64;
    let elapsed = total["elapsed"].as_f64().unwrap();
    let clock = raw(total, 0, 0) as f64 / 1e9;
    assert!(
        clock <= cpus * elapsed * 1.01 && clock > cpus * 0.05 * 0.5,
        "{text}"
    );
    assert!(raw(total, 0, 1) > 0, "{text}");
}

#[test]
fn an_interrupt_ends_the_command_and_the_counts_are_printed() {
    if !may_count() {
        return;
    }
    let mut kymo = command(&[
        "-e",
        "page-faults",
        "-I",
        "10",
        "--json",
        "--",
        "sleep",
        "1000",
    ]);
    let mut kymo = kymo
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(kymo.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    let pid = rustix::process::Pid::from_child(&kymo);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let last = lines.map(|line| line.unwrap()).last().unwrap();
    let last: Value = serde_json::from_str(&last).unwrap();
    assert_eq!(
        (&last["part"], &last["status"]),
        (&"total".into(), &143.into())
    );
    assert_eq!(kymo.wait().unwrap().code(), Some(143));
}

/// Ends it after the second object that it prints, which is returned: the first interval is also
/// printed by what ends at once.
fn second_of(mut kymo: Command) -> (Option<Value>, String, Option<i32>) {
    let kymo = kymo.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut kymo = kymo.spawn().unwrap();
    let mut lines = BufReader::new(kymo.stdout.take().unwrap()).lines();
    let second = lines.nth(1).map(|line| line.unwrap());
    // It may have ended: its entry stays until it is waited for.
    let pid = rustix::process::Pid::from_child(&kymo);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    lines.for_each(drop);
    let output = kymo.wait_with_output().unwrap();
    let second = second.map(|line| serde_json::from_str(&line).unwrap());
    let message = String::from_utf8(output.stderr).unwrap();
    (second, message, output.status.code())
}

/// The number of a thread stands for its process, as long as the thread lives.
#[test]
fn a_thread_stands_for_its_process() {
    if !may_count() {
        return;
    }
    let (tell, told) = std::sync::mpsc::channel();
    let (end, wait) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        tell.send(rustix::thread::gettid()).unwrap();
        let _ = wait.recv();
    });
    let number = told.recv().unwrap().as_raw_nonzero().to_string();
    let arguments = ["-e", "task-clock", "-I", "10", "--json", "-p", &number];
    let (second, message, status) = second_of(command(&arguments));
    assert_eq!(second.unwrap()["part"], "interval");
    assert_eq!((message.as_str(), status), ("", Some(0)));
    // It ends with the thread.
    let kymo = command(&arguments).stdout(Stdio::piped()).spawn();
    let mut kymo = kymo.unwrap();
    let mut lines = BufReader::new(kymo.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    drop(end);
    thread.join().unwrap();
    let last = lines.map(|line| line.unwrap()).last().unwrap();
    let last: Value = serde_json::from_str(&last).unwrap();
    assert_eq!(last["part"], "total");
    assert!(kymo.wait().unwrap().success());
}

/// Whatever number of files kymo may open: it counts until both processes have ended, or says why
/// not.
#[test]
fn processes_that_cannot_be_watched_are_an_error() {
    if !may_count() {
        return;
    }
    // Should this test fail, they end soon, and hold no output back.
    let [mut first, mut second] = [(); 2].map(|()| {
        let mut sleeper = Command::new("sleep");
        sleeper.arg("60").stdout(Stdio::null());
        sleeper.stderr(Stdio::null()).spawn().unwrap()
    });
    let pids = format!("{},{}", first.id(), second.id());
    let mut failures = 0;
    for files in 4..64 {
        let mut kymo = Command::new("sh");
        let script = "ulimit -n $0 && exec \"$@\"";
        kymo.args(["-c", script, &files.to_string()]);
        kymo.arg(env!("CARGO_BIN_EXE_kymo")).args(["count", "-e"]);
        kymo.args(["page-faults", "-I", "10", "--json", "-p", &pids]);
        let kymo = kymo.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut kymo = kymo.spawn().unwrap();
        let mut lines = BufReader::new(kymo.stdout.take().unwrap()).lines();
        let counts = lines.next().is_some();
        if counts {
            // It goes on after the end of one of them.
            first.kill().unwrap();
            first.wait().unwrap();
            for line in lines.by_ref().take(10) {
                let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
                assert_eq!(line["part"], "interval", "{files} files: {line}");
            }
            second.kill().unwrap();
            second.wait().unwrap();
        }
        lines.for_each(drop);
        let output = kymo.wait_with_output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.success(), counts, "{files} files: {message}");
        if counts {
            break;
        }
        assert!(!message.contains("no process"), "{files} files: {message}");
        failures += u32::from(message.contains("may open no more files"));
    }
    assert!(failures > 1, "{failures}");
}

/// At a terminal, ^C goes to the command too, but not a signal for kymo alone.
#[test]
fn a_signal_that_the_terminal_does_not_send_is_passed_on() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    if !may_count() {
        return;
    }
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    for (signal, status) in [
        (rustix::process::Signal::TERM, 143),
        (rustix::process::Signal::HUP, 129),
    ] {
        let input = fs::File::open(name.to_str().unwrap()).unwrap();
        // A command that nobody ends ends well.
        let arguments = ["-e", "faults", "-I", "10", "--json", "--", "sleep", "20"];
        let mut kymo = command(&arguments);
        let kymo = kymo.stdin(input).stdout(Stdio::piped());
        let mut kymo = kymo.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(kymo.stdout.take().unwrap()).lines();
        lines.next().unwrap().unwrap();
        let pid = rustix::process::Pid::from_child(&kymo);
        rustix::process::kill_process(pid, signal).unwrap();
        let last = lines.map(|line| line.unwrap()).last().unwrap();
        let last: Value = serde_json::from_str(&last).unwrap();
        assert_eq!(last["status"], status);
        assert_eq!(kymo.wait().unwrap().code(), Some(status));
    }
}

/// K-14, K-15, K-16, K-20, and what else is refused, with one sentence each.
#[test]
fn what_cannot_be_counted_is_refused_in_a_sentence() {
    let seventeen = format!("{{{}}}", ["faults"; 17].join(","));
    let nothing = "there is nothing to count; give a command after --";
    for (arguments, status, words) in [
        (&[][..], 2, nothing),
        (&["-e", "page-faults"], 2, nothing),
        (
            &["-p", "0"],
            2,
            "-p takes the numbers of processes, and 0 is none",
        ),
        (
            &["-p", "1,0"],
            2,
            "-p takes the numbers of processes, and 0 is none",
        ),
        (
            &["-e", "cylces", "--", "true"],
            2,
            "no event is called \"cylces\" (did you mean cycles?)",
        ),
        (
            &["-e", "cylces", "--kernel", "kernel.elf"],
            2,
            "no event is called \"cylces\" (did you mean cycles?)",
        ),
        (
            &["-e", "cycles:pp", "--kernel", "kernel.elf"],
            2,
            "\"cycles:pp\" has the modifier p (precise addresses of samples), which counting does \
             not have; give the event alone, or with :u or :k to count one mode",
        ),
        (
            &["-e", "{cs,cycles:G}", "--", "true"],
            2,
            "\"cycles:G\" has the modifier G (only virtual machines)",
        ),
        (
            &["-e", "no_such_pmu/event=1,umask=2/u,cs", "--", "true"],
            4,
            "this kernel has no PMU \"no_such_pmu\"; it has ",
        ),
        (
            &["-e", "software/evnt=1/", "--", "true"],
            2,
            "software has no event or parameter evnt; give config=NUMBER",
        ),
        (
            &["-A", "--", "true"],
            2,
            "-A is about CPUs (-a, -C CPUS) or threads that run already (-p PID)",
        ),
        (
            &["-r", "3", "-a"],
            2,
            "--repeat runs a command several times",
        ),
        (
            &["-e", "{cs},{cs},{cs},{cs},{cs}", "--kernel", "kernel.elf"],
            2,
            "-e: a kernel counts at most 4 groups, and these are 5",
        ),
        (
            &["-e", "{cs", "--kernel", "kernel.elf"],
            2,
            "a brace is not closed",
        ),
        (
            &["-e", &seventeen, "--kernel", "kernel.elf"],
            2,
            "has 17 events, and a group has at most 16",
        ),
        (
            &["--smp", "3", "--", "true"],
            2,
            "--smp, --append and --deterministic are about a machine; add --kernel",
        ),
        (&["--deterministic", "-a"], 2, "add --kernel"),
        (&["--kernel", "no-such-kernel.elf"], 3, "no-such-kernel.elf"),
        (
            &["-e", "{cs,{faults}}", "--", "true"],
            2,
            "a group cannot be inside another",
        ),
        (
            &["-e", "system-calls", "--", "true"],
            2,
            "count the tracepoint raw_syscalls:sys_enter",
        ),
        (
            &["-e", "interrupts", "--", "true"],
            2,
            "count the tracepoint irq:irq_handler_entry",
        ),
        (
            &["-e", "{r1,r2,r3,r4,r5}", "--", "true"],
            2,
            "the group led by r1 needs 5 PMU slots, and the PMU has 4; split the group",
        ),
        (
            &["-e", &seventeen, "--", "true"],
            2,
            "the group led by page-faults has 17 events, and a group has at most 16; split",
        ),
        (
            &["-C", "0-", "--", "true"],
            2,
            "\"0-\" is no list of CPUs; write 0,2-3",
        ),
        (
            &["-C", "60000", "--", "true"],
            2,
            "CPU 60000 does not run here; these do: 0",
        ),
        (&["-p", "4000000000"], 4, "there is no process 4000000000"),
        (
            &["-e", "cs", "-o", "/nowhere/file", "--", "true"],
            4,
            "cannot create /nowhere/file",
        ),
    ] {
        let (text, message, code) = said(arguments);
        assert_eq!(
            (text.as_str(), code),
            ("", Some(status)),
            "{arguments:?} {message}"
        );
        assert!(message.contains(words), "{words}: {message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
}

/// K-14, K-20: 32 is clamped to 16, which is said, and then 5 are no more too many.
#[test]
fn the_limit_of_slots_comes_from_the_environment() {
    let five = ["-e", "{r1,r2,r3,r4,r5}", "--", "true"];
    for (value, words) in [
        (
            "32",
            "KYMO_PERF_GROUP_MAX_EVENTS is 32, and a group has 1 to 16 events; 16 is used.\n",
        ),
        ("4", "needs 5 PMU slots, and the PMU has 4"),
        (
            "many",
            "KYMO_PERF_GROUP_MAX_EVENTS is \"many\"; it must be a number from 1 to 16",
        ),
    ] {
        let output = command(&five)
            .env("KYMO_PERF_GROUP_MAX_EVENTS", value)
            .output()
            .unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.contains(words), "{value}: {message}");
        let is_too_large = message.contains("PMU slots");
        assert_eq!(is_too_large, value == "4", "{message}");
    }
}

#[test]
fn the_list_says_what_is_counted_here() {
    let (text, _, status) = said(&["--list"]);
    assert_eq!(status, Some(0));
    for name in [
        "cycles ",
        "page-faults ",
        "L1-dcache-load-misses ",
        "rNNN ",
        "system:name ",
    ] {
        assert!(
            text.lines().any(|line| line.starts_with(name)),
            "{name}: {text}"
        );
    }
    let (text, _, _) = said(&["--list", "--json"]);
    let rows: Value = serde_json::from_str(&text).unwrap();
    let row = |name: &str| {
        let mut rows = rows.as_array().unwrap().iter();
        rows.find(|row| row["event"] == name).unwrap()
    };
    assert_eq!(row("system-calls")["available"], false);
    assert_eq!(row("cycles")["kind"], "hardware");
    if may_count() {
        assert_eq!(row("page-faults")["available"], true);
        let can_count = said(&["-e", "cycles", "--", "true"]).2 == Some(0);
        assert_eq!(row("cycles")["available"], can_count);
    }
    let (text, message, status) = said(&["--list", "nothing*"]);
    assert_eq!((text.as_str(), status), ("", Some(3)));
    assert!(
        message.contains("no event is called \"nothing*\""),
        "{message}"
    );
}
