//! Tests `kymo export` as a user runs it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use kymo::Text;
use kymo::vocabulary::{
    Irq, IrqEnter, IrqExit, Object, Pid, SwitchReason, Syscall, SyscallEnter, SyscallExit,
    ThreadCreate, ThreadName, ThreadState, Tid,
};
use kymo::vocabulary::{LockAcquired, LockKind, LockReleased, LockWait};
use kymo_made::{Made, US};
use serde_json::Value;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path =
            std::env::temp_dir().join(format!("kymo-exported-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn kymo(trace: &Path, out: &Path, to: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kymo"))
        .arg("export")
        .args([trace, out])
        .args(["--to", to])
        .output()
        .unwrap()
}

fn exported(trace: &Path, out: &Path, to: &str) {
    let output = kymo(trace, out, to);
    let text = String::from_utf8_lossy(&output.stderr);
    let next = format!("kymo: wrote {}; ", out.display());
    assert_eq!((output.status.code(), text.lines().count()), (Some(0), 1));
    assert!(text.starts_with(&next), "{text}");
}

fn refused(trace: &Path, out: &Path, to: &str, code: i32) -> String {
    let output = kymo(trace, out, to);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (output.status.code(), text.lines().count()),
        (Some(code), 1),
        "{text}"
    );
    text
}

fn small(name: &str) -> Made {
    let (lock, kind) = (Object(0xbeef), LockKind::Mutex);
    let mut made = Made::new(name);
    made.event(
        0,
        0,
        ThreadName {
            tid: Tid(11),
            name: Text::new("a,\"b\""),
        },
    );
    for tid in [11, 12] {
        made.event(
            0,
            US,
            ThreadCreate {
                tid: Tid(tid),
                pid: Pid(5),
                parent_tid: Tid(0),
                prio: -3,
            },
        );
    }
    made.switch(
        0,
        1_234_567,
        (0, ThreadState::Runnable, SwitchReason::Idle),
        (11, 1),
    );
    made.event(
        0,
        1_234_568,
        LockAcquired {
            lock,
            kind,
            contended: false,
        },
    );
    made.switch(
        1,
        2_000_000,
        (0, ThreadState::Runnable, SwitchReason::Idle),
        (12, 1),
    );
    made.event(
        1,
        2_000_000,
        LockWait {
            lock,
            owner_tid: Tid(11),
            kind,
        },
    );
    made.event(0, 2_000_050, IrqEnter { irq: Irq(5) });
    made.wake(0, 2_000_150, 13, 0);
    made.event(0, 2_000_200, IrqExit { irq: Irq(5) });
    made.event(0, 2_000_300, LockReleased { lock, kind });
    made.event(
        1,
        2_000_400,
        LockAcquired {
            lock,
            kind,
            contended: true,
        },
    );
    made.event(
        1,
        2_000_500,
        SyscallEnter {
            id: Syscall(4),
            arg0: u64::MAX,
        },
    );
    made.event(
        1,
        2_000_600,
        SyscallExit {
            id: Syscall(4),
            ret: -5,
        },
    );
    made
}

/// Event counts of `kymo dump`, by name.
fn counts(trace: &Path) -> BTreeMap<String, u64> {
    let output = Command::new(env!("CARGO_BIN_EXE_kymo"))
        .arg("dump")
        .arg(trace)
        .args(["--count", "--json"])
        .output()
        .unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut counts = BTreeMap::new();
    for event in told["events"].as_array().unwrap() {
        *counts
            .entry(event["name"].as_str().unwrap().to_owned())
            .or_default() += event["count"].as_u64().unwrap();
    }
    counts
}

/// The files that are not those of losses and of spans, which must be there.
fn files_of_events(out: &Path, ending: &str) -> Vec<String> {
    let names = fs::read_dir(out).unwrap().map(|entry| {
        let name = entry.unwrap().file_name();
        name.into_string().unwrap()
    });
    let (of_others, of_events): (Vec<_>, Vec<_>) = names.partition(|name| name.starts_with('_'));
    let calls = format!("_syscalls.{ending}");
    for name in ["_losses.csv", &calls] {
        assert!(of_others.iter().any(|other| other == name), "{of_others:?}");
    }
    of_events
}

#[test]
fn csv_has_every_event_and_every_loss() {
    let (folder, mut made) = (Folder::new("csv"), small("csv"));
    made.lose(1, 3, 2_000_700);
    made.event(
        1,
        2_000_800,
        SyscallExit {
            id: Syscall(4),
            ret: 1,
        },
    );
    let (trace, out) = (made.finish().to_owned(), folder.path("tables"));
    exported(&trace, &out, "csv");
    let read = |name: &str| fs::read_to_string(out.join(format!("{name}.csv"))).unwrap();
    for (name, count) in counts(&trace) {
        assert_eq!(read(&name).lines().count() as u64, count + 1, "{name}");
    }
    assert_eq!(
        files_of_events(&out, "csv").len(),
        counts(&trace).len(),
        "{out:?}"
    );
    assert_eq!(
        read("sys_exit").lines().next(),
        Some("time_ns,cycles,cpu,stream,id,ret")
    );
    assert_eq!(
        read("sys_exit").split("\r\n").nth(1),
        Some("2000600,2000600,1,events_1,4,-5")
    );
    assert!(read("sys_enter").contains(",4,18446744073709551615\r\n"));
    assert!(
        read("thread_name").contains("\"a,\"\"b\"\"\""),
        "{}",
        read("thread_name")
    );
    assert!(
        read("sched_switch").contains("Runnable,Idle,1"),
        "{}",
        read("sched_switch")
    );
    let losses = read("_losses");
    assert_eq!(
        losses.split("\r\n").next(),
        Some("stream,cpu,kind,count,begin_ns,end_ns,error")
    );
    assert!(losses.contains("events_1,1,events,3,2000600,"), "{losses}");
}

/// As the format requires, beginnings and ends are in order on each track, and arrows have both
/// ends.
#[test]
fn chrome_is_json_whose_slices_and_arrows_are_closed() {
    let (folder, mut made) = (Folder::new("chrome"), small("chrome"));
    let out = folder.path("trace.json");
    exported(made.finish(), &out, "chrome");
    let text = fs::read_to_string(&out).unwrap();
    let told: Value = serde_json::from_str(&text).unwrap();
    let mut open: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    let (mut arrows, mut names, mut last) = (BTreeMap::<u64, i32>::new(), BTreeMap::new(), 0.0);
    for event in told["traceEvents"].as_array().unwrap() {
        let phase = event["ph"].as_str().unwrap();
        let track = (
            event["pid"].as_u64().unwrap(),
            event["tid"].as_u64().unwrap_or(0),
        );
        if phase == "M" {
            names.insert(track, event["args"]["name"].as_str().unwrap().to_owned());
            continue;
        }
        let time = event["ts"].as_f64().unwrap();
        assert!(time >= last && names.contains_key(&track), "{event}");
        last = time;
        match phase {
            "B" => *open.entry(track).or_default() += 1,
            "E" => *open.get_mut(&track).unwrap() -= 1,
            "s" => assert_eq!(arrows.insert(event["id"].as_u64().unwrap(), 1), None),
            "f" => *arrows.get_mut(&event["id"].as_u64().unwrap()).unwrap() -= 1,
            "i" | "X" | "C" => {}
            other => panic!("{other}"),
        }
    }
    assert!(
        open.values().all(|depth| *depth == 0) && arrows.values().all(|ends| *ends == 0),
        "{text}"
    );
    assert!(open.len() > 6 && arrows.len() == 2, "{text}");
    assert!(
        text.contains("\"ts\":1234.567,") && text.contains("\"ts\":2000.050,"),
        "{text}"
    );
    assert!(
        names.values().any(|name| name == "a,\"b\" 11: state")
            && names.values().any(|name| name == "CPU 1"),
        "{names:?}"
    );
    assert!(text.contains(r#""lock":"0xbeef""#), "{text}");
}

/// `-` is the standard output for a timeline; tables are directories.
#[test]
fn a_timeline_goes_to_the_standard_output() {
    let (folder, mut made) = (Folder::new("standard-output"), small("standard-output"));
    let trace = made.finish();
    for to in ["chrome", "perfetto"] {
        let file = folder.path(to);
        exported(trace, &file, to);
        let output = Command::new(env!("CARGO_BIN_EXE_kymo"))
            .current_dir(&folder.0)
            .arg("export")
            .args([trace, Path::new("-")])
            .args(["--to", to])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert!(output.stdout == fs::read(&file).unwrap(), "{to}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
    let message = refused(trace, Path::new("-"), "csv", 2);
    assert!(message.contains("give a directory"), "{message}");
    assert!(!folder.path("-").exists() && !Path::new("-").exists());
}

#[test]
fn an_empty_trace_gives_files_that_can_be_read() {
    let folder = Folder::new("empty");
    let mut made = Made::new("empty-export");
    let trace = made.finish();
    exported(trace, &folder.path("json"), "chrome");
    exported(trace, &folder.path("pf"), "perfetto");
    exported(trace, &folder.path("csv"), "csv");
    assert!(serde_json::from_slice::<Value>(&fs::read(folder.path("json")).unwrap()).unwrap()["traceEvents"].is_array());
    assert_eq!(fs::read(folder.path("pf")).unwrap(), b"");
}

#[test]
fn places_that_cannot_be_written_are_refused_in_a_sentence() {
    let (folder, mut made) = (Folder::new("refused"), small("refused"));
    let trace = made.finish();
    let full = folder.path("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("file"), "").unwrap();
    assert!(refused(trace, &full, "csv", 2).contains("give a directory that is new or empty"));
    assert!(refused(trace, &full.join("file"), "csv", 2).contains("not an empty directory"));
    assert!(refused(trace, &full.join("none/file"), "perfetto", 4).contains("give another place"));
    assert!(refused(trace, &full, "chrome", 4).contains("cannot write"));
    // A file there would be read as a stream.
    for to in ["perfetto", "csv"] {
        assert!(refused(trace, &trace.join("new"), to, 2).contains("choose another directory"));
        assert!(
            refused(trace, &trace.join("events_0"), to, 2).contains("lies inside the input trace")
        );
    }
    assert!(
        refused(&folder.path("no-trace"), &folder.path("out"), "csv", 3)
            .contains("give the directory of a CTF trace")
    );
    assert!(!folder.path("out").exists());
}

#[cfg(not(feature = "parquet"))]
#[test]
fn without_parquet_the_sentence_says_how_to_get_it() {
    let (folder, mut made) = (Folder::new("none"), small("none"));
    let text = refused(made.finish(), &folder.path("out"), "parquet", 4);
    assert!(text.contains("--features parquet"), "{text}");
    assert!(!folder.path("out").exists());
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_has_a_folder_for_each_event() {
    let (folder, mut made) = (Folder::new("parquet"), small("parquet"));
    let (trace, out) = (made.finish().to_owned(), folder.path("out"));
    exported(&trace, &out, "parquet");
    for name in counts(&trace).keys() {
        let bytes = fs::read(out.join(format!("event={name}/part-0.parquet"))).unwrap();
        assert!(
            bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"),
            "{name}"
        );
    }
    assert_eq!(files_of_events(&out, "parquet").len(), counts(&trace).len());
}

/// `kymo export --into` is `kymo query --into`: its program gets the words.
#[test]
fn a_trace_goes_into_a_store_by_the_program_of_queries() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut made = small("export-into");
    let trace = made.finish().to_owned();
    let folder = Folder::new("into");
    let program = folder.path("kymo-query");
    fs::write(&program, "#!/bin/sh\nprintf '%s\\n' \"$@\"\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let into = |words: &[&str]| {
        let path = format!("{}:{}", folder.0.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(env!("CARGO_BIN_EXE_kymo"));
        command
            .arg("export")
            .arg(&trace)
            .args(words)
            .env("PATH", path);
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let failed = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), said, failed)
    };
    let words = [
        "--to", "parquet", "--into", "a store", "--", "--host", "web-1",
    ];
    let (code, said, failed) = into(&words);
    assert_eq!(code, Some(0), "{failed}");
    let trace = trace.display();
    assert_eq!(said, format!("--into\na store\n{trace}\n--host\nweb-1\n"));
    let wrong: [(&[&str], &str); 4] = [
        (&["--to", "csv", "--into", "store"], "give --to parquet"),
        (
            &["--to", "parquet", "--into", "store", "--kernel", "k"],
            "behind --",
        ),
        (&["--to", "parquet"], "required"),
        (
            &["out", "--to", "parquet", "--into", "store"],
            "cannot be used",
        ),
    ];
    for (words, says) in wrong {
        let (code, _, failed) = into(words);
        assert_eq!(code, Some(2), "{words:?}: {failed}");
        assert!(failed.contains(says), "{words:?}: {failed}");
    }
}
