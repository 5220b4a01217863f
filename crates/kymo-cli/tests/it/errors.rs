//! Messages for unusable inputs: one line with the error and advice.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kymo_made::{MS, Made};

/// Verbs that begin the advice.
const VERBS: [&str; 23] = [
    "give", "take", "see", "make", "get", "move", "use", "keep", "build", "install", "mend",
    "write", "free", "change", "leave", "add", "check", "choose", "correct", "drop", "start",
    "try", "copy",
];

/// Runs the command, expects the exit code, and returns the message, which must include advice.
fn refused(code: i32, arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_kymo"))
        .args(arguments)
        .env("PATH", "/nowhere")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?} {text}");
    let sentence = text
        .strip_prefix("kymo: ")
        .unwrap_or_else(|| panic!("{text}"))
        .trim_end();
    assert_eq!(sentence.lines().count(), 1, "{text}");
    let ends = [": ", "; ", ". ", " ("].map(|end| {
        sentence
            .rmatch_indices(end)
            .map(|(at, _)| at + end.len())
            .collect::<Vec<_>>()
    });
    let says = ends.concat().into_iter().any(|at| {
        let word = sentence[at..]
            .split([' ', '.'])
            .next()
            .unwrap()
            .to_ascii_lowercase();
        VERBS.contains(&word.as_str())
    });
    assert!(says, "nothing to do: {text}");
    sentence.to_owned()
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("kymo-errors-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.0.join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_is_no_trace() {
    let folder = Folder::new("trace");
    let file = folder.file("metadata", b"/* CTF 1.8 */ trace { major = ");
    let here = folder.path("");
    for verb in ["dump", "report", "check", "doctor"] {
        refused(2, &[verb, &file]);
        assert!(refused(2, &[verb, "/dev/null"]).contains("is a file"));
        refused(3, &[verb, &folder.path("nothing")]);
        assert!(refused(3, &[verb, &here]).contains("line 1"));
    }
    folder.file("metadata", b"/* CTF 2.0 */ trace { };");
    assert!(refused(3, &["dump", &here]).contains("give a trace in CTF 1.8"));
}

#[test]
fn traces_that_are_damaged() {
    let mut made = Made::new("errors");
    made.event(0, MS, kymo::vocabulary::SchedEnter {});
    let trace = made.finish();
    let stream = trace.join("events_0");
    let bytes = fs::read(&stream).unwrap();
    let changed = |at: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        bytes
    };
    let last = bytes.len() - 4;
    for (bytes, says) in [
        (
            bytes[..bytes.len() - 1].to_vec(),
            "copy the trace again after its tracer has ended",
        ),
        (changed(0, 0), "move the file away if it is not part"),
        (changed(84, 0), "copy the trace again: it is damaged there"),
        (changed(20, 99), "give the metadata"),
        (changed(last, 0xfd), "give the metadata"),
    ] {
        fs::write(&stream, bytes).unwrap();
        for verb in ["dump", "report", "check", "doctor"] {
            let path = trace.to_str().unwrap();
            let text = refused(3, &[verb, path]);
            assert!(text.contains(says), "{says}: {text}");
            let begin = format!("{path}: events_0, packet ");
            assert!(text.starts_with(&begin), "{text}");
        }
    }
    // A packet with another UUID than the metadata is read, with a message; --strict refuses it.
    fs::write(&stream, changed(5, 99)).unwrap();
    let path = trace.to_str().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_kymo"))
        .args(["dump", path])
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert_eq!(output.status.code(), Some(0), "{text:?}");
    assert!(
        text.iter()
            .any(|text| text.contains("the packet's UUID differs")),
        "{text:?}"
    );
    let text = refused(3, &["dump", path, "--strict"]);
    assert!(text.contains("move the file"), "{text}");
    let report = Command::new(env!("CARGO_BIN_EXE_kymo"))
        .args(["report", path])
        .output()
        .unwrap();
    assert_eq!(report.status.code(), Some(0));
    let text = String::from_utf8(report.stdout).unwrap();
    assert!(text.contains("the packet's UUID differs"), "{text}");
    fs::write(&stream, &bytes).unwrap();
}

/// KVM runs no machine but the host's, and counts no instructions.
#[test]
#[cfg(not(target_arch = "riscv64"))]
fn kvm_is_for_the_hosts_own_machine() {
    let folder = Folder::new("kvm");
    let mut riscv = vec![0; 64];
    riscv[..6].copy_from_slice(b"\x7fELF\x02\x01");
    riscv[18] = 243;
    let (kernel, out) = (folder.file("kernel", &riscv), folder.path("out"));
    let record = ["record", &kernel, "--out", &out, "--accel", "kvm"];
    let text = refused(2, &record);
    assert!(text.contains("not that of qemu-system-riscv64"), "{text}");
    let text = refused(2, &[&record[..], &["--deterministic"]].concat());
    assert!(text.contains("does not count instructions"), "{text}");
}

#[test]
fn memory_and_kernels() {
    let folder = Folder::new("memory");
    let (out, noise) = (folder.path("out"), folder.file("noise", &[0xa5; 8192]));
    let here = folder.path("");
    refused(3, &["recover", &folder.path("nothing"), "--out", &out]);
    refused(3, &["recover", &noise, "--out", &out]);
    refused(2, &["recover", &here, "--out", &out]);
    refused(2, &["recover", &noise, "--out", &here]);
    refused(2, &["recover", &noise, "--out", &noise]);
    refused(4, &["recover", &noise, "--out", "/proc/no/such/place"]);
    refused(3, &["record", &folder.path("nothing"), "--out", &out]);
    refused(3, &["record", &noise, "--out", &out]);
    if cfg!(target_os = "linux") {
        refused(3, &["record", "--out", &out, "--", "ls"]);
        refused(2, &["record", "--rolling", "--out", &out, "--", "ls"]);
    }
    refused(2, &["record", "--", "qemu-system-riscv64"]);
    refused(
        2,
        &["record", "--out", &out, "--", "qemu-system-riscv64", "-M"],
    );
    refused(
        2,
        &[
            "record",
            "--out",
            &out,
            "--",
            "qemu-system-riscv64",
            "-M",
            "virt",
            "-m",
            "much",
        ],
    );
    refused(
        2,
        &[
            "record",
            "--out",
            &out,
            "--",
            "qemu-system-riscv64",
            "-M",
            "toaster",
        ],
    );
    // PATH has no programs.
    refused(
        4,
        &[
            "record",
            "--out",
            &out,
            "--",
            "qemu-system-riscv64",
            "-M",
            "virt",
        ],
    );
    refused(3, &["cost", &noise]);
    refused(3, &["cost", &folder.path("nothing")]);
    // This test's own program has symbols, but no Kymo.
    let program = std::env::current_exe().unwrap();
    refused(
        3,
        &[
            "cost",
            program.to_str().unwrap(),
            "--symbol",
            "no such function",
        ],
    );
    assert!(!Path::new(&out).exists(), "nothing is left behind");
}

/// select.rs has further invalid selections.
#[test]
fn what_has_no_code_sizes() {
    let folder = Folder::new("size");
    let noise = folder.file("noise", &[0xa5; 8192]);
    let program = fs::read(env!("CARGO_BIN_EXE_kymo")).unwrap();
    let half = folder.file("half", &program[..program.len() / 2]);
    // The header says where the table of sections is; without it there are no symbols.
    let mut stripped = program[..4096].to_vec();
    stripped[0x28..0x30].fill(0);
    stripped[0x3c..0x40].fill(0);
    let stripped = folder.file("stripped", &stripped);
    for file in [&noise, &half, &folder.path("nothing"), &folder.path("")] {
        refused(3, &["size", file]);
    }
    assert!(refused(3, &["size", &stripped]).contains("has no symbols of functions; give"));
    let program = env!("CARGO_BIN_EXE_kymo");
    refused(4, &["size", program, "-o", "/proc/no/such/place"]);
}

#[test]
fn what_a_trace_does_not_have() {
    let mut made = Made::new("errors-select");
    made.event(0, MS, kymo::vocabulary::SchedEnter {});
    let trace = made.finish().to_str().unwrap();
    for selection in [
        ["--cpu", "9"],
        ["--tid", "9"],
        ["--thread", "x"],
        ["--event", "sched_entr"],
        ["--event", "quite another"],
    ] {
        let text = refused_or_hinted(&[&["dump", trace], &selection[..]].concat());
        assert!(
            text.contains("kymo") || text.contains("did you mean") || text.contains("it has"),
            "{text}"
        );
    }
    refused(2, &["dump", trace, "--from", "2s", "--to", "1s"]);

    let folder = Folder::new("expect");
    for text in [
        &b"[[expect]]\nnothing = 1\n"[..],
        b"\xff",
        b"",
        b"[[expect",
        b"[[expect]]\nevent = \"no_such\"\ncount = 1\n",
    ] {
        refused(
            3,
            &[
                "check",
                trace,
                "--expect",
                &folder.file("expect.toml", text),
            ],
        );
    }
    refused(
        3,
        &["check", trace, "--expect", &folder.path("nothing.toml")],
    );
}

/// Runs the command; returns the message, which may have a hint instead of advice.
fn refused_or_hinted(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_kymo"))
        .args(arguments)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// One file that cannot be opened does not prevent the others from being read.
#[test]
#[cfg(unix)]
fn a_stream_that_cannot_be_opened() {
    let mut made = Made::new("errors-link");
    made.event(0, MS, kymo::vocabulary::SchedEnter {});
    let trace = made.finish();
    std::os::unix::fs::symlink("nowhere", trace.join("events_1")).unwrap();
    for verb in ["dump", "report"] {
        let output = Command::new(env!("CARGO_BIN_EXE_kymo"))
            .args([verb, trace.to_str().unwrap()])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{verb} {text}");
        assert!(text.contains("events_1: No such file"), "{text}");
        assert!(!output.stdout.is_empty(), "{verb}");
    }
}

/// Room on the disk does not help where a file is in the way.
#[test]
fn an_output_below_a_file() {
    let folder = Folder::new("below");
    let below = folder.file("file", b"") + "/out";
    let mut made = Made::new("errors-below");
    made.event(0, MS, kymo::vocabulary::SchedEnter {});
    let trace = made.finish().to_str().unwrap();
    for (code, arguments) in [
        (4, ["export", trace, &below, "--to", "chrome"].as_slice()),
        (4, &["export", trace, &below, "--to", "csv"]),
        (2, &["convert", trace, &below]),
    ] {
        let text = refused(code, arguments);
        assert!(text.contains("Not a directory"), "{text}");
        assert!(!text.contains("make room"), "{text}");
    }
}

/// A full disk.
#[test]
#[cfg(target_os = "linux")]
fn an_output_that_cannot_be_written() {
    let mut made = Made::new("errors-full");
    made.event(0, MS, kymo::vocabulary::SchedEnter {});
    let trace = made.finish();
    for verb in ["dump", "report"] {
        let full = fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_kymo"))
            .arg(verb)
            .arg(trace)
            .stdout(full)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(4), "{verb} {text}");
        assert!(
            text.contains("make room") && text.lines().count() == 1,
            "{text}"
        );
    }
}

/// Events are interpreted by the trace's metadata, so several traces with different metadata do not
/// count as one.
#[test]
fn a_tree_of_different_traces_is_not_one_trace() {
    let metadata = |name: &str| {
        format!(
            "/* CTF 1.8 */\ntrace {{ major = 1; minor = 8; byte_order = le; }};\nevent {{ name = \
             {name}; fields := struct {{ integer {{ size = 8; }} x; }}; }};\n"
        )
    };
    let folder = Folder::new("tree");
    for (part, name) in [("one", "a"), ("two", "b")] {
        fs::create_dir_all(folder.path(part)).unwrap();
        folder.file(&format!("{part}/metadata"), metadata(name).as_bytes());
        folder.file(&format!("{part}/stream"), &[1, 2]);
    }
    let tree = folder.path("");
    let out = std::env::temp_dir().join(format!("kymo-errors-{}-tree.json", std::process::id()));
    let out = out.to_str().unwrap();
    let verbs: [&[&str]; 4] = [
        &["report", &tree],
        &["check", &tree],
        &["export", &tree, out, "--to", "chrome"],
        &["dump", "--event", "a", &tree],
    ];
    for verb in verbs {
        let sentence = refused(2, verb);
        assert!(
            sentence.contains("traces with different metadata"),
            "{sentence}"
        );
    }
    assert!(!Path::new(out).exists());
    // Parts of one trace.
    folder.file("two/metadata", metadata("a").as_bytes());
    for verb in [
        &["report", "--json", &tree][..],
        &["dump", "--event", "a", "--count", &tree],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_kymo"))
            .args(verb)
            .output()
            .unwrap();
        assert_eq!(
            output.status.code(),
            Some(0),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
