//! `kernels/demo` counts loops of known length with its processors' counters.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use kymo_ctf::{Event, Item, Trace, Value};
use kymo_e2e::demo::{AARCH64, ARCHES, Arch, RISCV64};
use kymo_e2e::{babeltrace, kymo, patience, run, scratch};

/// What the workload prints of one event: the group, the event, the loop's length, and the counts.
#[derive(Debug, PartialEq)]
struct Count {
    events: u64,
    event: String,
    length: u64,
    with: u64,
    without: u64,
}

impl Count {
    fn read(line: &str) -> Count {
        let words: Vec<&str> = line
            .split([' ', ',', ':'])
            .filter(|it| !it.is_empty())
            .collect();
        let [
            "COUNT",
            events,
            "events",
            event,
            "loop",
            length,
            with,
            "with",
            "it",
            without,
            "without",
        ] = words[..]
        else {
            panic!("{line}");
        };
        let number = |word: &str| word.parse().unwrap();
        Count {
            events: number(events),
            event: event.to_owned(),
            length: number(length),
            with: number(with),
            without: number(without),
        }
    }
}

/// The lines that a workload prints where each instruction takes a nanosecond.
fn lines(arch: &Arch, workload: &str, begin: &str) -> Vec<String> {
    let words = arch.qemu(None);
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .args(["-icount", "shift=0,sleep=off", "-kernel"]);
    command
        .arg(arch.kernel())
        .args(["-append", &format!("run={workload} kymo=off")]);
    let output = run(&mut command, 0);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.lines().filter(|line| line.starts_with(begin));
    lines.map(str::to_owned).collect()
}

/// N-18: instructions are those of the loop, once those of an empty one are subtracted. Members
/// that count the same event have the same count.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn instructions_are_those_of_the_loop() {
    for arch in [RISCV64, AARCH64] {
        are_those_of_the_loop(&arch);
    }
}

fn are_those_of_the_loop(arch: &Arch) {
    let lines = lines(arch, "counts", "COUNT ");
    let counts: Vec<Count> = lines.iter().map(|line| Count::read(line)).collect();
    assert_eq!(counts.len(), 3 * (1 + 2 + 3));
    for count in &counts {
        let expected = match count.event.as_str() {
            "instructions" => count.length,
            // QEMU's processors take one cycle for each.
            "cycles" => count.length,
            "context-switches" => 0,
            _ => panic!("{count:?}"),
        };
        assert_eq!(count.with - count.without, expected, "{count:?}");
        let equal = counts
            .iter()
            .filter(|it| it.events == count.events && it.length == count.length);
        for other in equal.filter(|it| it.event == count.event) {
            assert_eq!(other, count);
        }
    }
}

/// A processor without counters refuses what it cannot count, and says so.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_processor_without_counters_refuses_groups() {
    for arch in ARCHES.iter().filter(|arch| arch.name == "x86_64") {
        let refused = "COUNT refused the group led by";
        let lines = lines(arch, "counts", "COUNT ");
        assert_eq!(lines.len(), 3);
        assert!(
            lines.iter().all(|line| line.starts_with(refused)),
            "{lines:?}"
        );
        assert!(lines[1].ends_with("led by cycles needs 2 PMU slots, and the PMU has 0"));
    }
}

/// K-11, K-17: three groups that need the whole PMU each have a third of the time, and what they
/// would have counted is within 3 % of the truth: each instruction takes a nanosecond.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn groups_that_take_turns_are_scaled_to_the_truth() {
    let lines = lines(&AARCH64, "count_turns", "TURNS ");
    assert_eq!(lines.len(), 3 * 4);
    for line in &lines {
        let words: Vec<&str> = line.split(' ').collect();
        let [
            "TURNS",
            event,
            scaled,
            "scaled",
            "from",
            raw,
            running,
            "ns",
            "of",
            enabled,
        ] = words[..]
        else {
            panic!("{line}");
        };
        let number = |word: &str| word.trim_end_matches(',').parse::<u64>().unwrap() as f64;
        let (scaled, raw) = (number(scaled), number(raw));
        let (running, enabled) = (number(running), number(enabled));
        let share = running / enabled;
        assert!((share - 1.0 / 3.0).abs() < 0.03, "{line}");
        // The work is the kernel's.
        let is_of_programs = event.trim_end_matches(':').ends_with(":u");
        let truth = if is_of_programs { 0.0 } else { enabled };
        assert!((scaled - truth).abs() <= 0.03 * enabled, "{line}");
        assert!((raw - truth * share).abs() <= 0.03 * enabled, "{line}");
    }
}

/// The group of the sessions below: each instruction takes a cycle and a nanosecond.
const GROUP: [&str; 5] = [
    "instructions",
    "cycles",
    "context-switches",
    "system-calls",
    "interrupts",
];

/// Records a workload with counts, and gives the trace.
fn recorded(arch: &Arch, name: &str, append: &str, options: &[&str]) -> PathBuf {
    let trace = scratch(&format!("{name}-{}", arch.name)).join("trace");
    let mut command = kymo([
        "record".as_ref(),
        arch.kernel().as_os_str(),
        "--out".as_ref(),
    ]);
    command
        .arg(&trace)
        .args(["--cpus", "3", "--deterministic", "--append", append])
        .args(options);
    run(&mut command, 0);
    trace
}

fn report(trace: &Path) -> serde_json::Value {
    let output = run(
        &mut kymo(["report".as_ref(), "--json".as_ref(), trace.as_os_str()]),
        0,
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What the report says of a session's only group.
fn only_group(report: &serde_json::Value) -> &serde_json::Value {
    let groups = report["counters"]["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 1);
    &groups[0]
}

fn events(trace: &Path) -> Vec<Event> {
    let items = Trace::open(trace).unwrap().events();
    let events = items.filter_map(|item| match item.unwrap() {
        Item::Event(event) => Some(event),
        _ => None,
    });
    events.collect()
}

/// The counts of a record.
fn counts(event: &Event) -> Vec<u64> {
    let Some(Value::Array(counts)) = event.fields.get("counts") else {
        panic!("{event:?}");
    };
    counts.iter().filter_map(Value::as_u64).collect()
}

/// V-14, N-18: a session's snapshots tell what each CPU has counted: as many switches, system calls
/// and interrupts as the trace has, and as many instructions as nanoseconds.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_session_counts_what_its_trace_shows() {
    for arch in [RISCV64, AARCH64] {
        let group = GROUP.join(",");
        let options = ["--counters", &group, "--counters-every", "1"];
        let trace = recorded(
            &arch,
            "count-session",
            "workload=ipc rounds=200 tick_us=500",
            &options,
        );
        babeltrace::compare(&trace);
        // By CPU: the first and the last counts, and the trace's own count of events between them.
        type Of = (Vec<u64>, Vec<u64>, [u64; 3], u64);
        let mut cpus: BTreeMap<u64, Of> = BTreeMap::new();
        let mut since: BTreeMap<u64, [u64; 3]> = BTreeMap::new();
        for event in events(&trace) {
            let Some(cpu) = event.cpu() else { continue };
            let seen = since.entry(cpu).or_default();
            match event.name() {
                "sched_switch" => seen[0] += 1,
                "sys_enter" => seen[1] += 1,
                "irq_handler_entry" => seen[2] += 1,
                "group_count" => {
                    let now = counts(&event);
                    assert_eq!(now.len(), GROUP.len());
                    let of = cpus.entry(cpu).or_insert_with(|| {
                        *seen = [0; 3];
                        (now.clone(), now.clone(), [0; 3], 0)
                    });
                    (of.1, of.2) = (now, *seen);
                    of.3 += 1;
                }
                _ => {}
            }
        }
        assert_eq!(cpus.len(), 3);
        let report = report(&trace);
        let counters = only_group(&report);
        assert_eq!(counters["events"], serde_json::json!(GROUP));
        assert_eq!(counters["cpus"].as_array().unwrap().len(), 3);
        // On how many CPUs there were switches, calls and interrupts: which ones the threads
        // choose is chance.
        let mut busy = [0; 3];
        for (row, (cpu, (first, last, seen, snapshots))) in
            counters["cpus"].as_array().unwrap().iter().zip(&cpus)
        {
            assert!(*snapshots > 2, "{snapshots} on CPU {cpu}");
            let counted: Vec<u64> = last.iter().zip(first).map(|(b, a)| b - a).collect();
            assert_eq!(counted[2..], *seen, "CPU {cpu} of {}", arch.name);
            for (busy, seen) in busy.iter_mut().zip(seen) {
                *busy += usize::from(*seen > 0);
            }
            assert_eq!(row["raw"], serde_json::json!(counted));
            assert_eq!(row["scaled"], row["raw"], "nothing else was counted");
            let nanos = row["time_running_ns"].as_u64().unwrap();
            for same in &counted[..2] {
                let off = same.abs_diff(nanos) as f64 / nanos as f64;
                assert!(
                    off < 0.03,
                    "{same} in {nanos} ns on CPU {cpu} of {}",
                    arch.name
                );
            }
        }
        let [switches, calls, interrupts] = busy;
        assert!(switches > 1 && calls > 1 && interrupts == 3, "{busy:?}");
    }
}

/// The counts that events carry tell whose they are: what threads and interrupts have counted adds
/// up to what the CPUs have between these events.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn threads_calls_and_interrupts_share_the_counts() {
    for arch in [RISCV64, AARCH64] {
        let options = [
            "--counters",
            "instructions,cycles",
            "--counters-on",
            "sched_switch,sys_*,irq_*",
        ];
        let trace = recorded(&arch, "count-events", "workload=ipc rounds=200", &options);
        babeltrace::compare(&trace);
        let report = report(&trace);
        let counters = only_group(&report);
        let sum = |table: &str, counts: &str| -> u64 {
            let rows = counters[table].as_array().unwrap().iter();
            rows.map(|row| row[counts][0].as_u64().unwrap()).sum()
        };
        // By CPU: from the first event with counts to the last one.
        let mut spans: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for event in events(&trace) {
            if event.name() == "event_count" {
                let now = counts(&event)[0];
                spans.entry(event.cpu().unwrap()).or_insert((now, now)).1 = now;
            }
        }
        assert_eq!(spans.len(), 3);
        let whole: u64 = spans.values().map(|(first, last)| last - first).sum();
        let shared = sum("threads", "counts") + sum("interrupts", "counts");
        assert_eq!(shared, whole);
        assert!(whole <= sum("cpus", "raw"));
        assert_eq!(counters["intervals_not_counted"], 0);
        assert!(sum("system_calls", "counts") < sum("threads", "counts"));
        // A call's time, its thread always running, is its instructions.
        let calls = report["system_calls"].as_array().unwrap();
        let call = calls.iter().find(|call| call["name"] == "send").unwrap();
        let rows = counters["system_calls"].as_array().unwrap();
        let counted = rows.iter().find(|row| row["name"] == "send").unwrap();
        let (nanos, counted) = (&call["durations"]["total_ns"], &counted["counts"][0]);
        let (nanos, counted) = (nanos.as_u64().unwrap(), counted.as_u64().unwrap());
        assert!(counted > 0 && counted < nanos, "{counted} in {nanos} ns");
        let text = run(&mut kymo(["report".as_ref(), trace.as_os_str()]), 0).stdout;
        let text = String::from_utf8(text).unwrap();
        for title in [
            "Counters",
            "Counted while threads ran",
            "Counted in system calls",
        ] {
            assert!(text.contains(&format!("\n{title}")), "{title}");
        }
        assert!(text.contains("instructions each"), "{text}");
        // The idle threads are one row.
        let (_, threads) = text.split_once("\nCounted while threads ran").unwrap();
        let (threads, _) = threads.split_once("\nCounted in system calls").unwrap();
        let idle = threads.lines().filter(|line| line.starts_with("idle ("));
        let idle: Vec<_> = idle.collect();
        let rows = counters["threads"].as_array().unwrap().iter();
        let idle_rows = rows.filter(|row| row["thread"]["name"] == "idle").count();
        assert!(idle_rows > 1, "{counters}");
        let one = format!("idle ({idle_rows} threads) ");
        assert!(idle.len() == 1 && idle[0].starts_with(&one), "{threads}");
    }
}

/// For how many nanoseconds a group was enabled and on the PMU, and its counts.
type Counted = (u64, u64, Vec<u64>);

/// What a CPU's two groups of a session have counted, and what its trace shows.
#[derive(Debug, Default)]
struct TwoGroups {
    /// By group, the first record and the last one: the times, and the counts.
    spans: [Option<[Counted; 2]>; 2],
    /// By group, the counts and turns of the last event that has some, and how many switches there
    /// have been since.
    at_events: [Option<(u64, u64, u64)>; 2],
    /// Switches, system calls and interrupts since the first record.
    since: [u64; 3],
    /// Those among them until the last record.
    seen: [u64; 3],
    /// Pairs of events between which a group was on the PMU all the time.
    pairs: u64,
}

impl TwoGroups {
    /// Each CPU's; counts at events are compared with the switches between them.
    fn of(trace: &Path) -> BTreeMap<u64, TwoGroups> {
        let mut cpus: BTreeMap<u64, TwoGroups> = BTreeMap::new();
        for event in events(trace) {
            let Some(cpu) = event.cpu() else { continue };
            let of_cpu = cpus.entry(cpu).or_default();
            let number = |field: &str| event.fields.get(field).and_then(Value::as_u64).unwrap();
            match event.name() {
                "sched_switch" => {
                    of_cpu.since[0] += 1;
                    let all = of_cpu.at_events.iter_mut().flatten();
                    all.for_each(|(_, _, switches)| *switches += 1);
                }
                "sys_enter" => of_cpu.since[1] += 1,
                "irq_handler_entry" => of_cpu.since[2] += 1,
                "group_count" => {
                    let group = number("group") as usize;
                    let times = (number("time_enabled"), number("time_running"));
                    let now = (times.0, times.1, counts(&event));
                    match &mut of_cpu.spans[group] {
                        Some([_, last]) => *last = now,
                        first => {
                            *first = Some([now.clone(), now]);
                            of_cpu.since = [0; 3];
                        }
                    }
                    of_cpu.seen = of_cpu.since;
                }
                "event_count" => {
                    let (group, turns) = (number("group") as usize, number("turns"));
                    assert_eq!(turns % 2, 0, "it is on the PMU");
                    let switches = counts(&event)[0];
                    let now = (switches, turns, 0);
                    if let Some(before) = of_cpu.at_events[group].replace(now)
                        && before.1 == turns
                    {
                        assert_eq!(switches - before.0, before.2, "on CPU {cpu}");
                        of_cpu.pairs += 1;
                    }
                }
                _ => {}
            }
        }
        cpus
    }

    /// What a group has counted between its first record and its last one, with the times.
    fn counted(&self, group: usize) -> Counted {
        let [first, last] = self.spans[group].as_ref().unwrap();
        let counts = last.2.iter().zip(&first.2).map(|(b, a)| b - a);
        (last.0 - first.0, last.1 - first.1, counts.collect())
    }
}

/// K-17, V-14: two groups of a session's that need eight counters of the seven there are take
/// turns. At any time one of them counts, so together they have all of the time to the nanosecond,
/// and all switches, system calls and interrupts to the event. Each is scaled by its own times.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn two_groups_of_a_session_take_turns() {
    const SOFTWARE: &str = "context-switches,system-calls,interrupts";
    let group = |modes: &str| {
        let hardware = ["instructions", "cycles", "r8", "r11"];
        let hardware = hardware.map(|name| format!("{name}{modes}")).join(",");
        format!("{{{SOFTWARE},{hardware}}}")
    };
    let counters = [group(""), group(":k")].join(",");
    let options = [
        "--counters",
        &counters,
        "--counters-every",
        "5",
        "--counters-on",
        "sched_switch,sys_*,irq_*",
    ];
    let append = "workload=ipc rounds=400 tick_us=500";
    let trace = recorded(&AARCH64, "count-turns-session", append, &options);
    babeltrace::compare(&trace);
    let cpus = TwoGroups::of(&trace);
    assert_eq!(cpus.len(), 3);
    let report = report(&trace);
    let groups = report["counters"]["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 2);
    for (cpu, of_cpu) in &cpus {
        let all = [0, 1].map(|group| of_cpu.counted(group));
        let [(enabled, first, one), (same, second, other)] = &all;
        assert_eq!((enabled, first + second), (same, *enabled), "CPU {cpu}");
        let software = one.iter().zip(other).take(3).map(|(a, b)| a + b);
        assert_eq!(software.collect::<Vec<_>>(), of_cpu.seen, "CPU {cpu}");
        assert!(of_cpu.pairs > 20, "{of_cpu:?}");
        for ((_, running, counts), (number, group)) in all.iter().zip((0..).zip(groups)) {
            let share = *running as f64 / *enabled as f64;
            // A hart without work has no ticks, at which groups take turns.
            assert!((0.1..0.9).contains(&share), "group {number} has {share}");
            let row = &group["cpus"][*cpu as usize];
            assert_eq!(
                (&group["group"], &row["cpu"]),
                (&number.into(), &(*cpu).into())
            );
            assert_eq!(row["time_running_ns"], *running);
            assert_eq!(row["raw"], serde_json::json!(counts));
            let scaled: Vec<_> = counts
                .iter()
                .map(|raw| kymo::count::scale(*raw, *enabled, *running))
                .collect();
            assert_eq!(row["scaled"], serde_json::json!(scaled));
        }
        // Each instruction takes a nanosecond.
        let off = one[3].abs_diff(*first) as f64 / *first as f64;
        assert!(off < 0.03, "{} in {first} ns on CPU {cpu}", one[3]);
    }
    let text = run(&mut kymo(["report".as_ref(), trace.as_os_str()]), 0).stdout;
    let text = String::from_utf8(text).unwrap();
    for title in ["Counters (group 0)", "Counters (group 1)"] {
        assert!(text.contains(&format!("\n{title}\n")), "{text}");
    }
}

/// Groups that fit together count all the time, and `kymo count --kernel` prints each.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn groups_of_a_session_that_fit_together_do_not_wait() {
    let counters = "{context-switches,instructions},{context-switches,cycles}";
    for arch in [RISCV64, AARCH64] {
        let append = "workload=ipc rounds=100 tick_us=500";
        let options = ["--counters", counters, "--counters-every", "1"];
        let trace = recorded(&arch, "count-two", append, &options);
        let cpus = TwoGroups::of(&trace);
        assert_eq!(cpus.len(), 3);
        for of_cpu in cpus.values() {
            for group in [0, 1] {
                let (enabled, running, counts) = of_cpu.counted(group);
                assert_eq!((running, counts[0]), (enabled, of_cpu.seen[0]));
            }
        }
        let file = scratch(&format!("count-kernel-two-{}", arch.name)).join("counts");
        let mut command = kymo(["count", "--json", "--deterministic", "--smp", "3", "-o"]);
        command
            .arg(&file)
            .args(["-e", counters, "--append", append, "--kernel"]);
        run(command.arg(arch.kernel()), 0);
        let counts = std::fs::read_to_string(&file).unwrap();
        let counts: serde_json::Value = serde_json::from_str(&counts).unwrap();
        let raw = |group: usize| counts["groups"][group]["events"][0]["raw"].as_u64();
        assert_eq!(
            (raw(0), counts["groups"].as_array().unwrap().len()),
            (raw(1), 2)
        );
        assert!(raw(0) > Some(100), "{counts}");
    }
}

/// `kymo count --kernel` boots the kernel and adds up what its CPUs have counted, the same each
/// time; the intervals add up to the total.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_kernel_is_counted_from_outside() {
    for arch in [RISCV64, AARCH64] {
        let folder = scratch(&format!("count-kernel-{}", arch.name));
        let counted = |name: &str, options: &[&str]| -> Vec<serde_json::Value> {
            let file = folder.join(name);
            let mut command = kymo(["count", "--json", "--deterministic", "--smp", "3", "-o"]);
            command
                .arg(&file)
                .args(["--append", "workload=ipc rounds=100", "--kernel"]);
            run(command.arg(arch.kernel()).args(options), 0);
            let text = std::fs::read_to_string(file).unwrap();
            text.lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect()
        };
        let group = ["-e", "{instructions,cycles,context-switches}"];
        let totals = counted("total", &group);
        let [total] = &totals[..] else {
            panic!("{totals:?}");
        };
        let raw = |counts: &serde_json::Value, event: usize| {
            counts["groups"][0]["events"][event]["raw"]
                .as_u64()
                .unwrap()
        };
        let nanos = total["groups"][0]["time_running"].as_u64().unwrap();
        for event in 0..2 {
            let off = raw(total, event).abs_diff(nanos) as f64 / nanos as f64;
            assert!(off < 0.03, "{total} of {}", arch.name);
        }
        assert!(raw(total, 2) > 100, "{total}");
        assert_eq!(counted("again", &group), totals, "the same each time");
        let mut parts = counted("intervals", &[&group[..], &["-I", "1"]].concat());
        let total = parts.pop().unwrap();
        assert!(parts.len() > 1);
        let switches: u64 = parts.iter().map(|part| raw(part, 2)).sum();
        assert_eq!(switches, raw(&total, 2));
    }
}

/// A program of the guest's that records by system calls gives the same counts.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn both_ways_out_give_the_same_counts() {
    let options = [
        "--counters",
        "instructions,context-switches",
        "--counters-on",
        "sched_switch,sys_*",
        "--via",
        "both",
    ];
    let trace = recorded(&RISCV64, "count-both", "workload=ipc rounds=50", &options);
    let [memory, syscall] = ["memory", "syscall"].map(|way| events(&trace.join(way)));
    assert_eq!(memory, syscall);
    for name in ["group_count", "event_count", "counted_event"] {
        assert!(memory.iter().any(|event| event.name() == name), "{name}");
    }
}

/// NMIs are counted as interrupts, and carry counts, without disturbing a hart that looks at its
/// counters.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn nmis_come_while_a_hart_counts() {
    for arch in ARCHES.iter().filter(|arch| arch.name != "riscv64") {
        let trace = scratch(&format!("count-nmis-{}", arch.name)).join("trace");
        let mut command = kymo([
            "record".as_ref(),
            arch.kernel().as_os_str(),
            "--out".as_ref(),
        ]);
        command.arg(&trace).args([
            "--timeout",
            patience(),
            "--append",
            "workload=nmis tick_us=200",
            "--counters",
            "interrupts,context-switches",
            "--counters-every",
            "1",
            "--counters-on",
            "irq_*,sched_switch",
        ]);
        run(&mut command, 0);
        let report = report(&trace);
        let counters = only_group(&report);
        assert!(counters["intervals"].as_u64() > Some(100), "{counters}");
        assert_eq!(counters["intervals_not_counted"], 0);
    }
}

/// A kernel refuses what its processors cannot count, in one sentence.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_session_that_cannot_count_does_not_start() {
    for arch in ARCHES.iter().filter(|arch| arch.name == "x86_64") {
        let trace = scratch("count-refused").join("trace");
        let mut command = kymo([
            "record".as_ref(),
            arch.kernel().as_os_str(),
            "--out".as_ref(),
        ]);
        command.arg(&trace).args(["--counters", "cycles"]);
        let output = command.output().unwrap();
        assert_ne!(output.status.code(), Some(0));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let sentence = "the group led by cycles needs 1 PMU slots, and the PMU has 0";
        assert!(text.contains(sentence), "{text}");
        let mut command = kymo(["count", "-e", "cycles", "--kernel"]);
        let output = run(command.arg(arch.kernel()), 3);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains(sentence), "{text}");
    }
}
