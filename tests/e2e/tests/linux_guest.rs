//! Counters under a real Linux: Debian's kernel for AArch64 in QEMU, where each instruction takes a
//! nanosecond and a cycle. The programs in the guest are described in tests/linux-guest.

use std::io::Write as _;
use std::sync::LazyLock;

use kymo_e2e::{built, limited, run};
use serde_json::Value;

/// How a command in the guest ended.
struct Ended {
    out: String,
    err: String,
    status: String,
}

/// Boots the guest, which runs these commands, separated by semicolons. `None`, and a word about
/// it, where there is no guest.
fn boot(commands: &str) -> Option<Vec<Ended>> {
    if let Some(missing) = std::env::var_os("KYMO_LINUX_MISSING") {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("a test");
        let line = format!("NOT RUN: {test}: {}\n", missing.to_string_lossy());
        let _ = std::io::stderr().write_all(line.as_bytes());
        return None;
    }
    let mut qemu = limited("qemu-system-aarch64");
    qemu.args(["-M", "virt,gic-version=3"])
        .args(["-cpu", "cortex-a72", "-smp", "1", "-m", "512M"])
        .args(["-nographic", "-no-reboot", "-icount", "shift=0,sleep=off"])
        .arg("-kernel")
        .arg(built("KYMO_LINUX"))
        .arg("-initrd")
        .arg(built("KYMO_LINUX_FILES"))
        .arg("-append")
        .arg(format!(
            "console=ttyAMA0 quiet loglevel=0 panic=-1 nokaslr norandmaps guest.run=\"{commands}\""
        ))
        .stdin(std::process::Stdio::null());
    let output = run(&mut qemu, 0);
    let console = String::from_utf8_lossy(&output.stdout).into_owned();
    let ended = (0..commands.split(';').count()).map(|number| ended(&console, number));
    Some(ended.collect())
}

/// What the console says of a command.
fn ended(console: &str, number: usize) -> Ended {
    let lines = |kind: &str| -> Vec<&str> {
        let begin = format!("guest: {kind} {number} ");
        let lines = console.lines().map(|line| line.trim_end_matches('\r'));
        lines.filter_map(|line| line.strip_prefix(&begin)).collect()
    };
    let [status] = lines("end")[..] else {
        panic!("command {number} did not end:\n{console}");
    };
    Ended {
        out: lines("out").join("\n"),
        err: lines("err").join("\n"),
        status: status.to_owned(),
    }
}

/// Runs a file of tests in the guest: all of them must pass, and run.
fn pass(commands: &str, tests: &[&str], not_run: &[&str]) {
    let Some(ended) = boot(commands) else {
        return;
    };
    for Ended { out, err, status } in &ended {
        assert_eq!(status, "0", "{out}\n{err}");
    }
    let out: Vec<&str> = ended.iter().flat_map(|ended| ended.out.lines()).collect();
    for test in tests {
        let line = format!("test {test} ... ok");
        assert!(out.iter().any(|it| *it == line), "{test} is not in {out:?}");
    }
    let err = ended.iter().flat_map(|ended| ended.err.lines());
    for line in err.filter(|line| line.starts_with("NOT RUN")) {
        assert!(not_run.iter().any(|words| line.contains(words)), "{line}");
    }
}

/// K-10, K-11, K-13, K-14, K-15, K-17, K-20, K-22: groups of the processor's counters, beside
/// system calls without kymo-perf.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn groups_of_the_processors_counters_are_those_of_plain_system_calls() {
    pass(
        "groups --include-ignored --test-threads=1",
        &[
            "a_group_that_fills_the_processors_counters_counts_every_instruction",
            "groups_that_take_turns_are_scaled_to_the_truth",
            "a_group_that_is_too_large_is_refused_or_never_runs",
        ],
        &[],
    );
}

/// K-05, K-07, and the tests of groups of software events: this kernel lets them run where another
/// one may not.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn programs_on_members_run_and_the_tests_of_groups_pass_on_another_kernel() {
    pass(
        "bpf --test-threads=1;linux --test-threads=1",
        &[
            "a_program_on_a_member_counts",
            "a_program_on_a_member_of_the_hardware_runs_after_each_period",
            "what_an_event_cannot_run_is_refused_and_the_group_is_as_before",
            "a_group_is_read_by_one_system_call",
            "members_of_other_pmus_count_with_their_leader",
        ],
        &["this machine has one CPU"],
    );
}

/// The only JSON object that a command printed.
fn object(ended: &Ended) -> Value {
    assert_eq!(ended.status, "0", "{}", ended.err);
    serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {}", ended.out))
}

fn number(object: &Value, group: usize, event: usize, field: &str) -> u64 {
    let value = &object["groups"][group]["events"][event][field];
    value.as_u64().unwrap_or_else(|| panic!("{object}"))
}

/// Counts of `perf stat -x,` by line: the count, then an empty unit and the name, then the
/// nanoseconds that the event ran.
fn perfs(ended: &Ended) -> Vec<u64> {
    assert_eq!(ended.status, "0", "{}", ended.err);
    let counts = ended.err.lines().map(|line| {
        let count = line.split(',').next().unwrap_or_default();
        count.parse().unwrap_or_else(|_| panic!("{line}"))
    });
    counts.collect()
}

/// K-10, K-13: `kymo count` and `perf stat` count the same program, from its first instruction to
/// its last.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn kymo_count_counts_what_perf_stat_counts() {
    static COMMANDS: LazyLock<String> = LazyLock::new(|| {
        let events = "{cycles:u,instructions:u},{page-faults:u,r8:u}";
        let lengths = [1_000_000, 2_000_000].map(|loops| {
            format!(
                "kymo count -o - --json -e {events} -- spin {loops};\
                 perf stat -x, -e {events} spin {loops}"
            )
        });
        lengths.join(";")
    });
    let Some(ended) = boot(&COMMANDS) else {
        return;
    };
    let [short, perf_short, long, perf_long] = &ended[..] else {
        panic!("4 commands");
    };
    let (short, long) = (object(short), object(long));
    let (perf_short, perf_long) = (perfs(perf_short), perfs(perf_long));
    assert_eq!((perf_short.len(), perf_long.len()), (4, 4));
    for (at, (group, event)) in [(0, 0), (0, 1), (1, 0), (1, 1)].into_iter().enumerate() {
        let [of_short, of_long] = [&short, &long].map(|object| number(object, group, event, "raw"));
        // The million loops that one executes more, two instructions each.
        let loops = if at == 2 { 0 } else { 2 * 1_000_000 };
        // A few instructions depend on what is where in the program's memory.
        for (count, truth) in [
            (of_long - of_short, loops),
            (of_short, perf_short[at]),
            (of_long, perf_long[at]),
        ] {
            assert!(count.abs_diff(truth) < 100, "{count} {truth}");
        }
        assert_eq!(number(&long, group, event, "scaled"), of_long);
    }
    assert_eq!(long["ratios"][0]["value"], 1.0);
}

/// K-11, K-17, K-22: four groups for a processor with room for one at a time, and one that has room
/// for none.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn kymo_count_scales_groups_that_take_turns_as_perf_stat_does() {
    let loops = 50_000_000;
    let four = ["{r8:u,r8:u,r8:u,r8:u}"; 4].join(",");
    let seven = format!("{{{}}}", ["r8:u"; 7].join(","));
    let commands = format!(
        "kymo count -o - --json -e {four} -- spin {loops};\
         perf stat -x, -e {four} spin {loops};\
         KYMO_PERF_GROUP_MAX_EVENTS=16 kymo count -o - --json -a -e {seven} -- spin 1000;\
         KYMO_PERF_GROUP_MAX_EVENTS=16 kymo count -o - -a -e {seven} -- spin 1000;\
         kymo count -e {seven} -- spin 1000;\
         KYMO_PERF_GROUP_MAX_EVENTS=16 kymo count -e {seven} -- spin 1000"
    );
    let Some(ended) = boot(&commands) else {
        return;
    };
    let [turns, perf, never, table, refused, invalid] = &ended[..] else {
        panic!("6 commands");
    };
    let (turns, perf) = (object(turns), perfs(perf));
    let truth = f64::from(2 * loops);
    let near = |count: u64| (count as f64 - truth).abs() < 0.03 * truth;
    for group in 0..4 {
        let share = turns["groups"][group]["share"].as_f64().unwrap();
        assert!((share - 0.25).abs() < 0.05, "{turns}");
        for event in 0..4 {
            let scaled = number(&turns, group, event, "scaled");
            let by_perf = perf[4 * group + event];
            assert!(near(scaled) && near(by_perf), "{scaled} {by_perf}");
            assert!(number(&turns, group, event, "raw") < scaled / 3, "{turns}");
        }
    }
    let never = object(never);
    let group = &never["groups"][0];
    assert!(group["time_enabled"].as_u64().unwrap() > 0, "{never}");
    assert_eq!(
        (&group["time_running"], &group["share"]),
        (&0.into(), &0.0.into())
    );
    for event in 0..7 {
        let event = &group["events"][event];
        assert_eq!((&event["raw"], &event["scaled"]), (&0.into(), &Value::Null));
    }
    assert_eq!(table.out.matches("never ran").count(), 7, "{}", table.out);
    assert_eq!(refused.status, "2");
    let words = "needs 7 PMU slots, and the PMU has 4; split the group, or set";
    assert!(refused.err.contains(words), "{}", refused.err);
    // Linux looks at once whether a group fits that starts with a program.
    assert_eq!(invalid.status, "4");
    assert!(
        invalid.err.contains("in a smaller group"),
        "{}",
        invalid.err
    );
}

/// What this machine has is listed, and counted where nothing is named.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn kymo_count_finds_the_processors_counters() {
    let Some(ended) = boot("kymo count --list --json;kymo count -o - -- spin 1000000") else {
        return;
    };
    let [list, table] = &ended[..] else {
        panic!("2 commands");
    };
    let rows = object(list);
    let rows = rows.as_array().unwrap();
    for (name, available) in [
        ("cycles", true),
        ("instructions", true),
        ("LLC-loads", false),
    ] {
        let row = rows.iter().find(|row| row["event"] == name).unwrap();
        assert_eq!(row["available"], available, "{row}");
    }
    let words = "1.000 instructions per cycle";
    assert!(table.out.contains(words), "{}", table.out);
    assert_eq!(table.err, "");
}
