//! `kymo record -- program`, on programs as they are.

use std::fs;
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
        let compiled = gcc.output().map_err(|error| format!("gcc: {error}"))?;
        if !compiled.status.success() {
            return Err(String::from_utf8_lossy(&compiled.stderr).into_owned());
        }
    }
    fs::copy(folder.join("work"), folder.join("other")).unwrap();
    let tried = record(&folder, "tried", &[], &["true"]).output().unwrap();
    match tried.status.code() {
        Some(0) => Ok(folder),
        _ => Err(String::from_utf8_lossy(&tried.stderr).into_owned()),
    }
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
    let options = ["--hz", "8000", "--flame", "work.svg"];
    let output = record(folder, "shares", &options, &["./work", UNIT])
        .output()
        .unwrap();
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let hot = hot(folder, "shares", &[]);
    assert!(samples(&hot) >= 4_000, "{errors}");
    are_shares_of_work(&text(&output.stdout), &hot);
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
    let mut kymo = record(
        folder,
        "lost",
        &["--hz", "40000"],
        &["./work", "1000000000"],
    );
    let kymo = kymo
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(500));
    send("-STOP", &kymo);
    std::thread::sleep(Duration::from_millis(2500));
    send("-CONT", &kymo);
    let output = kymo.wait_with_output().unwrap();
    let errors = text(&output.stderr);
    let first = errors.lines().next().unwrap();
    let (_, lost) = first.rsplit_once("processes, ").unwrap();
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
        kymo.args(["record", "--", "../work", "100000000000"]);
        kymo.current_dir(folder).stdin(Stdio::null());
        let kymo = kymo.stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(700));
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
    let mut work = Command::new("./work");
    let work = work
        .arg("100000000000")
        .current_dir(folder)
        .stdin(Stdio::null());
    let mut work = work.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let pid = work.id().to_string();
    let options = ["-p", &pid, "--duration", "0.7"];
    let output = record(folder, "running", &options, &[]).output().unwrap();
    work.kill().unwrap();
    work.wait().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let hot = hot(folder, "running", &[]);
    assert!(samples(&hot) > 100, "{hot}");
    assert!(place(&hot, "inner").0 > 0.9, "{hot}");
}

/// A limit on the size of files is like a full disk: whole packets are left.
#[test]
fn what_was_written_before_the_disk_was_full_can_be_read() {
    let Some(folder) = programs() else { return };
    let script = "trap '' XFSZ; ulimit -f 300; exec \"$@\"";
    let mut shell = Command::new("sh");
    shell.args([
        "-c",
        script,
        "sh",
        env!("CARGO_BIN_EXE_kymo"),
        "record",
        "--hz",
        "8000",
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
    assert!(samples > 100, "{errors}");
    let said = errors.replace(',', "");
    assert!(
        said.contains(&format!("full has {samples} samples")),
        "{errors}"
    );
}
