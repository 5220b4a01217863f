//! `kymo record -- program`, on programs as they are.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::count::not_run;

/// Does known work, and says how much processor time each part of it took, in nanoseconds.
///
/// `work UNIT` calls functions in functions, a library's, those of a thread, and executes
/// `other UNIT` in a child; `other` is the same program under another name. Each function calls
/// another one: gcc leaves frame pointers out where none is called.
const WORK: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#define APART __attribute__((noinline, noclone))
void in_library(unsigned long rounds);
static volatile unsigned long sink;
static unsigned long unit;
APART void end(void) { __asm__ volatile (""); }
#define WORK for (unsigned long i = 0; i < rounds; i++) sink += i; end()
APART void leaf(unsigned long rounds) { WORK; }
APART void inner(unsigned long rounds) { leaf(rounds); sink++; }
APART void outer(unsigned long rounds) { inner(rounds); sink++; }
APART void in_thread(unsigned long rounds) { WORK; }
APART void in_child(unsigned long rounds) { WORK; }
static void timed(const char *name, void (*function)(unsigned long), unsigned long rounds) {
    struct timespec from, to;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    function(rounds);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    printf("%s %ld\n", name, (to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec - from.tv_nsec);
    fflush(stdout);
}
static void *thread(void *nothing) { timed("in_thread", in_thread, unit); return nothing; }
int main(int count, char **arguments) {
    unit = strtoul(arguments[1], 0, 10);
    if (strstr(arguments[0], "other")) { timed("in_child", in_child, unit); return 0; }
    timed("outer", outer, 2 * unit);
    timed("in_library", in_library, unit);
    pthread_t other;
    pthread_create(&other, 0, thread, 0);
    pthread_join(other, 0);
    if (count > 2) return 7;
    if (fork() == 0) {
        char path[4096];
        snprintf(path, sizeof path, "%s/other", getenv("WORK"));
        execl(path, "other", arguments[1], (char *)0);
        _exit(9);
    }
    wait(0);
    return 0;
}
"#;

const LIBRARY: &str = r#"
static volatile unsigned long sink;
void in_library(unsigned long rounds) { for (unsigned long i = 0; i < rounds; i++) sink += i; }
"#;

/// So much work takes a tenth of a second, or several.
pub(crate) const UNIT: &str = "500000000";

/// So much work ends in no test.
const ENDLESS: &str = "1000000000000";

/// The folder with the programs; `None`, with the reason said, where they cannot be compiled or
/// sampled.
pub(crate) fn programs() -> Option<&'static Path> {
    static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match FOLDER.get_or_init(compiled) {
        Ok(folder) => Some(folder),
        Err(reason) => {
            not_run(reason);
            None
        }
    }
}

fn compiled() -> Result<PathBuf, String> {
    let folder = std::env::temp_dir().join(format!("kymo-sampled-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("work.c"), WORK).unwrap();
    fs::write(folder.join("library.c"), LIBRARY).unwrap();
    let frames = ["-O1", "-fno-omit-frame-pointer", "-fno-shrink-wrap"];
    for arguments in [
        &["-shared", "-fPIC", "-o", "libwork.so", "library.c"][..],
        &[
            "-o",
            "work",
            "work.c",
            "-L.",
            "-lwork",
            "-pthread",
            "-Wl,-rpath,$ORIGIN",
        ],
    ] {
        let mut gcc = Command::new("gcc");
        gcc.args(frames).args(arguments).current_dir(&folder);
        let compiled = match gcc.output() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(format!("gcc: {error}"));
            }
            compiled => compiled.unwrap(),
        };
        assert!(compiled.status.success(), "{}", text(&compiled.stderr));
    }
    fs::copy(folder.join("work"), folder.join("other")).unwrap();
    let tried = record(&folder, "tried", &[], &["true"]).output().unwrap();
    match not_permitted(&tried) {
        Some(reason) => Err(reason),
        None => {
            assert_eq!(tried.status.code(), Some(0), "{}", text(&tried.stderr));
            Ok(folder)
        }
    }
}

/// What it said, if it may not take samples here.
fn not_permitted(output: &Output) -> Option<String> {
    let errors = text(&output.stderr);
    let reasons = [
        "this process may not take samples: ",
        "it was built without CONFIG_PERF_EVENTS",
    ];
    let is_said = reasons.iter().any(|reason| errors.contains(reason));
    (output.status.code() == Some(4) && is_said).then_some(errors)
}

/// So many samples a second, or as many as this kernel takes.
pub(crate) fn at_most(hz: u64) -> u64 {
    let most = fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate");
    let most = most.ok().and_then(|most| most.trim().parse().ok());
    most.map_or(hz, |most: u64| hz.min(most))
}

/// How long a test waits for what must happen.
const FAR: Duration = Duration::from_secs(600);

/// Waits until it is so.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < FAR, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The words of `/proc/PID/stat` behind the process' name, from its state on.
fn stat(pid: u32) -> Option<(String, Vec<String>)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (name, words) = stat.rsplit_once(") ")?;
    let (_, name) = name.split_once(" (")?;
    let words = words.split_whitespace().map(str::to_owned).collect();
    Some((name.to_owned(), words))
}

/// Processor time that a process has used, in seconds; Linux counts hundredths.
fn used(pid: u32) -> f64 {
    let (_, words) = stat(pid).unwrap();
    let ticks = |place: usize| words[place].parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) / 100.0
}

/// Waits until a process has used so much more processor time.
fn wait_for_use(pid: u32, seconds: f64) {
    let end = used(pid) + seconds;
    wait_until("processor time", || used(pid) >= end);
}

/// The program `work` that a recorder has started.
fn work_of(kymo: &mut Child) -> u32 {
    let parent = kymo.id().to_string();
    let is_work =
        |pid: &u32| stat(*pid).is_some_and(|(name, words)| name == "work" && words[1] == parent);
    let mut found = None;
    wait_until("the program", || {
        assert!(kymo.try_wait().unwrap().is_none());
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        found = pids.find(is_work);
        found.is_some()
    });
    found.unwrap()
}

/// `kymo record OPTIONS --out NAME -- COMMAND`, in the folder.
fn record(folder: &Path, name: &str, options: &[&str], command: &[&str]) -> Command {
    let mut kymo = Command::new(env!("CARGO_BIN_EXE_kymo"));
    kymo.arg("record").args(options).args(["--out", name]);
    if !command.is_empty() {
        kymo.arg("--").args(command);
    }
    kymo.current_dir(folder)
        .env("WORK", folder)
        .stdin(Stdio::null());
    kymo
}

pub(crate) fn kymo(folder: &Path, arguments: &[&str]) -> Output {
    let mut kymo = Command::new(env!("CARGO_BIN_EXE_kymo"));
    kymo.args(arguments).current_dir(folder).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What `kymo hot --json` says of a trace.
pub(crate) fn hot(folder: &Path, trace: &str, options: &[&str]) -> Value {
    let output = kymo(folder, &[&["hot", trace, "--json"][..], options].concat());
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Share of the samples in a function and what it calls, and the file that has it.
pub(crate) fn place(hot: &Value, function: &str) -> (f64, String) {
    let places = hot["places"].as_array().unwrap();
    let place = places.iter().find(|of| of["function"] == function);
    let place = place.unwrap_or_else(|| panic!("{function}: {hot:#}"));
    let image = place["image"].as_str().unwrap_or_default();
    (place["total"]["share"].as_f64().unwrap(), image.to_owned())
}

pub(crate) fn samples(hot: &Value) -> u64 {
    hot["samples"].as_u64().unwrap()
}

/// Half the samples that the work must have with so many a second: a busy machine takes fewer.
pub(crate) fn enough(said: &str, hz: u64) -> u64 {
    let times = said.lines().filter_map(|line| line.split_once(' '));
    let all: u64 = times.map(|(_, time)| time.parse::<u64>().unwrap()).sum();
    all / 1_000_000 * hz / 1_000 / 2
}

/// The shares are within 2 points of what the program says of itself.
pub(crate) fn are_shares_of_work(said: &str, hot: &Value) {
    let parts: Vec<(&str, f64)> = said
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(name, time)| (name, time.parse().unwrap()))
        .collect();
    assert_eq!(parts.len(), 4, "{parts:?}");
    let all: f64 = parts.iter().map(|(_, time)| time).sum();
    for (name, time) in &parts {
        let (share, image) = place(hot, name);
        assert!(
            (share - time / all).abs() < 0.02,
            "{name}: {share}, {}",
            time / all
        );
        let wanted = match *name {
            "in_library" => "/libwork.so",
            "in_child" => "other",
            _ => "work",
        };
        assert!(image.ends_with(wanted), "{name}: {image}");
    }
}

/// The program says itself what it spent its time on.
#[test]
fn shares_are_those_of_threads_children_and_libraries() {
    let Some(folder) = programs() else { return };
    let hz = at_most(8_000);
    let options = ["--hz", &hz.to_string(), "--flame", "work.svg"];
    let output = record(folder, "shares", &options, &["./work", UNIT])
        .output()
        .unwrap();
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let hot = hot(folder, "shares", &[]);
    let said = text(&output.stdout);
    assert!(samples(&hot) >= enough(&said, hz), "{said}{errors}");
    are_shares_of_work(&said, &hot);
    // Callers, by frame pointers.
    let (outer, inner, leaf) = (
        place(&hot, "outer"),
        place(&hot, "inner"),
        place(&hot, "leaf"),
    );
    assert!(
        outer.0 - inner.0 < 0.01 && inner.0 - leaf.0 < 0.01,
        "{hot:#}"
    );
    // What the user sees at once.
    let number = samples(&hot).to_string();
    let said = errors.lines().next().unwrap().replace(',', "");
    assert!(
        said.starts_with(&format!("kymo: shares has {number} samples (c")),
        "{said}"
    );
    assert!(
        said.ends_with(" of 3 threads in 2 processes none lost."),
        "{said}"
    );
    let table: Vec<&str> = errors.lines().filter(|line| line.contains("%  ")).collect();
    assert_eq!(table.len(), 6, "{errors}");
    let leaf = |line: &&str| line.ends_with("  leaf  (work)");
    assert!(table[1..].iter().any(leaf), "{errors}");
    let svg = fs::read_to_string(folder.join("work.svg")).unwrap();
    assert!(svg.contains("in_thread") && svg.contains("in_child"));
}

/// The other verbs see threads, and times of the day.
#[test]
fn every_verb_reads_the_trace() {
    let Some(folder) = programs() else { return };
    let output = record(folder, "verbs", &["--hz", "2000"], &["./work", UNIT])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let all = samples(&hot(folder, "verbs", &[]));
    let other = samples(&hot(folder, "verbs", &["--thread", "other"]));
    assert!(other > all / 10 && other < all / 3, "{other} of {all}");
    for (arguments, words) in [
        (
            &["report", "verbs"][..],
            &["work (2 threads)", "other ("][..],
        ),
        (
            &["dump", "--names", "verbs"],
            &["perf_fork", "tid = other", "libwork.so"],
        ),
        (
            &["flame", "verbs", "--format", "folded"],
            &["main;timed;outer;inner;leaf "],
        ),
        (
            &["flame", "verbs", "--format", "folded", "--by", "process"],
            &["other"],
        ),
        (&["check", "verbs"], &[]),
    ] {
        let output = kymo(folder, arguments);
        let (out, errors) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(
            output.status.code(),
            Some(0),
            "{arguments:?}: {out}{errors}"
        );
        for word in words {
            assert!(out.contains(word), "{arguments:?}: {word}: {out}");
        }
    }
    let output = kymo(
        folder,
        &["export", "verbs", "verbs.trace", "--to", "perfetto"],
    );
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

/// The program, which works until it is ended.
fn endless(folder: &Path) -> Child {
    let mut work = Command::new("./work");
    work.arg(ENDLESS).current_dir(folder).stdin(Stdio::null());
    work.spawn().unwrap()
}

fn send(signal: &str, to: &Child) {
    let sent = Command::new("kill")
        .args([signal, &to.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
}

/// A recorder that does not run cannot empty its buffers.
#[test]
fn lost_records_are_counted_alike_everywhere() {
    let Some(folder) = programs() else { return };
    let hz = at_most(40_000);
    let options = ["--hz", &hz.to_string()];
    let mut kymo = record(folder, "lost", &options, &["./work", ENDLESS]);
    let kymo = kymo.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut kymo = kymo.spawn().unwrap();
    let work = work_of(&mut kymo);
    wait_for_use(work, 0.1);
    send("-STOP", &kymo);
    // More samples than the buffers of two CPUs hold.
    wait_for_use(work, 100_000.0 / hz as f64);
    send("-CONT", &kymo);
    // The kernel tells what was lost before the next record.
    wait_for_use(work, 0.1);
    send("-INT", &kymo);
    let output = kymo.wait_with_output().unwrap();
    let errors = text(&output.stderr);
    let first = errors.lines().next().unwrap();
    let (_, lost) = first.rsplit_once(", ").unwrap();
    let lost = lost
        .strip_suffix(" records lost.")
        .expect(&errors)
        .replace(',', "");
    assert_eq!(hot(folder, "lost", &[])["lost"].to_string(), lost);
    let report = super::sampled::kymo(folder, &["report", "lost"]);
    let report = text(&report.stdout).replace(',', "");
    assert!(
        report.contains(&format!("; {lost} more were lost")),
        "{report}"
    );
}

#[test]
fn how_the_program_ends_is_how_kymo_ends() {
    let Some(folder) = programs() else { return };
    for (name, options, command, status, words) in [
        (
            "fails",
            &[][..],
            &["./work", "1000000", "fail"][..],
            1,
            "./work ended with exit status 7.",
        ),
        (
            "killed",
            &[],
            &["sh", "-c", "kill -9 $$"],
            1,
            "sh was ended by signal 9.",
        ),
        ("at-once", &[], &["true"], 0, "none lost."),
        (
            "missing",
            &[],
            &["./none"],
            3,
            "kymo: cannot start ./none: No such file",
        ),
        (
            "option",
            &["--rolling"],
            &["true"],
            2,
            "--rolling: only kernels have that",
        ),
        (
            "mode",
            &["--mode", "trace"],
            &["true"],
            2,
            "--mode trace and count: only kernels",
        ),
        (
            "rate",
            &["--hz", "10000000"],
            &["true"],
            2,
            "perf_event_max_sample_rate",
        ),
        (
            "gone",
            &["-p", "4194304"],
            &[],
            4,
            "there is no process 4194304",
        ),
    ] {
        let output = record(folder, name, options, command).output().unwrap();
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{name}: {errors}");
        assert!(errors.contains(words), "{name}: {errors}");
        let trace = folder.join(name);
        assert_eq!(trace.exists(), status < 2, "{name}");
        if status < 2 {
            let dumped = kymo(folder, &["dump", name]);
            assert_eq!(
                dumped.status.code(),
                Some(0),
                "{name}: {}",
                text(&dumped.stderr)
            );
            assert!(text(&dumped.stdout).contains("perf_exit"), "{name}");
        }
    }
}

/// Also without --out: the directory is named after the program, and never an older one.
#[test]
fn an_interrupt_keeps_what_was_recorded() {
    let Some(folder) = programs() else { return };
    let folder = &folder.join("interrupted");
    fs::create_dir_all(folder).unwrap();
    for name in ["trace-work", "trace-work-2"] {
        let mut kymo = Command::new(env!("CARGO_BIN_EXE_kymo"));
        kymo.args(["record", "--", "../work", ENDLESS]);
        kymo.current_dir(folder).stdin(Stdio::null());
        let mut kymo = kymo.stderr(Stdio::piped()).spawn().unwrap();
        let work = work_of(&mut kymo);
        wait_for_use(work, 0.5);
        send("-INT", &kymo);
        let began = Instant::now();
        let output = kymo.wait_with_output().unwrap();
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{errors}");
        assert!(began.elapsed() < Duration::from_secs(20), "{errors}");
        assert!(samples(&hot(folder, name, &[])) > 100, "{errors}");
    }
}

#[test]
fn a_running_process_is_recorded_with_its_files() {
    let Some(folder) = programs() else { return };
    let mut work = endless(folder);
    wait_for_use(work.id(), 0.1);
    let options = ["-p", &work.id().to_string()];
    let mut kymo = record(folder, "running", &options, &[]);
    let mut kymo = kymo.stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the trace", || {
        assert!(kymo.try_wait().unwrap().is_none());
        folder.join("running/metadata").exists()
    });
    wait_for_use(work.id(), 0.5);
    send("-INT", &kymo);
    let output = kymo.wait_with_output().unwrap();
    work.kill().unwrap();
    work.wait().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let hot = hot(folder, "running", &[]);
    assert!(samples(&hot) > 10, "{hot}");
    assert!(place(&hot, "inner").0 > 0.9, "{hot}");
}

#[test]
fn all_cpus_are_recorded_with_what_runs_on_them() {
    let Some(folder) = programs() else { return };
    let mut work = endless(folder);
    wait_for_use(work.id(), 0.1);
    let options = ["-a", "--duration", "1"];
    let output = record(folder, "all", &options, &[]).output().unwrap();
    work.kill().unwrap();
    work.wait().unwrap();
    if let Some(reason) = not_permitted(&output) {
        return not_run(&reason);
    }
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let hot = hot(folder, "all", &[]);
    let (share, image) = place(&hot, "inner");
    assert!(share > 0.0 && image.ends_with("work"), "{share} {image}");
}

/// A limit on the size of files is like a full disk: whole packets are left.
#[test]
fn what_was_written_before_the_disk_was_full_can_be_read() {
    let Some(folder) = programs() else { return };
    let hz = at_most(8_000);
    // The limit is reached with fewer samples too.
    let limit = (hz * 300 / 8_000).max(20);
    let script = format!("trap '' XFSZ; ulimit -f {limit}; exec \"$@\"");
    let mut shell = Command::new("sh");
    shell.args([
        "-c",
        &script,
        "sh",
        env!("CARGO_BIN_EXE_kymo"),
        "record",
        "--hz",
        &hz.to_string(),
    ]);
    shell.args(["--out", "full", "--", "./work", UNIT]);
    let output = shell
        .current_dir(folder)
        .env("WORK", folder)
        .output()
        .unwrap();
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{errors}");
    assert!(
        errors.contains("kymo: cannot write the trace to full/perf_stream_"),
        "{errors}"
    );
    let samples = samples(&hot(folder, "full", &[]));
    assert!(samples > 10, "{errors}");
    let said = errors.replace(',', "");
    assert!(
        said.contains(&format!("full has {samples} samples")),
        "{errors}"
    );
}
