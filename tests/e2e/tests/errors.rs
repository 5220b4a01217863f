//! User errors and invalid files: one message with advice, the documented exit code, no panic.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use kymo::ring::layout::{HEADER_WORDS, Header};
use kymo_e2e::{Random, hello, kymo, record, run, scratch};

/// Runs the command, expects the exit code, and returns the message.
fn refused<S: AsRef<OsStr>>(code: i32, arguments: impl IntoIterator<Item = S>) -> String {
    let output = run(&mut kymo(arguments), code);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!text.contains("panicked"), "{text}");
    if code != 2 {
        assert_eq!(text.lines().count(), 1, "one sentence: {text}");
        assert!(text.starts_with("kymo: "), "{text}");
    }
    text
}

/// A trace with its memory, recorded once.
fn recorded(name: &str) -> std::path::PathBuf {
    let out = scratch(name).join("trace");
    record(&out, "events=20000 packets=32", &["--keep-ram"]);
    out
}

fn os(words: &[&str]) -> Vec<std::ffi::OsString> {
    words.iter().map(Into::into).collect()
}

fn paths<'a>(before: &[&'a str], path: &'a Path, after: &[&'a str]) -> Vec<std::ffi::OsString> {
    let mut words = os(before);
    words.push(path.into());
    words.extend(os(after));
    words
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn command_lines_that_make_no_sense() {
    let folder = scratch("usage");
    let full = folder.join("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("file"), "x").unwrap();
    refused(2, os(&["record"]));
    refused(2, os(&["no-such-verb"]));
    refused(
        2,
        paths(
            &["record", "--out"],
            &folder.join("t"),
            &["--cpus", "0", "kernel"],
        ),
    );
    refused(
        2,
        paths(
            &["record", "--out"],
            &folder.join("t"),
            &["--timeout", "-1", "kernel"],
        ),
    );
    // A program is sampled; what only kernels can do is refused.
    assert!(
        refused(
            2,
            paths(
                &["record", "--rolling", "--out"],
                &folder.join("t"),
                &["--", "ls", "-l"]
            )
        )
        .contains("--rolling")
    );
    for (says, options) in [
        ("--hz is for samples", &["--hz", "100"][..]),
        (
            "--driver is for samples",
            &["--driver", "nmi", "--mode", "trace"],
        ),
        ("--count is for samples", &["--count", "1000"]),
        (
            "--count is for a counter",
            &["--count", "1000", "--mode", "sample"],
        ),
        (
            "take --count, not --hz or --period",
            &["--hz", "100", "--driver", "cycles", "--mode", "sample"],
        ),
        ("--depth is for callers", &["--depth", "3"]),
        (
            "--stacks is for events",
            &["--stacks", "irq_*", "--mode", "sample"],
        ),
        (
            "cannot be used with",
            &["--mode=sample", "--hz=1", "--period=1"],
        ),
    ] {
        let more: Vec<&str> = ["kernel"].iter().chain(options).copied().collect();
        let text = refused(2, paths(&["record", "--out"], &folder.join("t"), &more));
        assert!(text.contains(says), "{text}");
    }
    let out = full.to_str().unwrap();
    assert!(refused(2, paths(&["record"], &hello(), &["--out", out])).contains("not empty"));
    let file = full.join("file");
    assert!(
        refused(
            2,
            paths(&["record"], &hello(), &["--out", file.to_str().unwrap()])
        )
        .contains("cannot be used as a trace directory")
    );
    assert!(
        refused(
            2,
            paths(
                &["recover"],
                &full,
                &["--out", folder.join("t").to_str().unwrap()]
            )
        )
        .contains("is a directory")
    );
    assert!(!folder.join("t").exists(), "nothing is left behind");
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn kernels_that_cannot_be_run_or_do_not_trace() {
    let folder = scratch("kernels");
    let out = folder.join("trace");
    let text = refused(3, paths(&["record", "no-such-kernel", "--out"], &out, &[]));
    assert!(text.contains("no-such-kernel"), "{text}");
    let garbage = folder.join("garbage");
    fs::write(&garbage, "this is no ELF file").unwrap();
    assert!(
        refused(
            3,
            paths(&["record", garbage.to_str().unwrap(), "--out"], &out, &[])
        )
        .contains("ELF")
    );
    // A kernel that refuses its command line, and one that never starts a trace.
    for (words, part) in [
        ("kymo=sideways", "sideways"),
        ("kymo=events=irq_*:sched_swich", "sched_swich"),
    ] {
        let refuses = run(
            &mut kymo(paths(
                &["record"],
                &hello(),
                &["--out", out.to_str().unwrap(), "--append", words],
            )),
            3,
        );
        assert!(
            String::from_utf8(refuses.stdout).unwrap().contains(part),
            "the kernel's own sentence is passed on"
        );
    }
    let never = paths(
        &["record", "--timeout", "0.5", "--out"],
        &out,
        &[
            "--",
            "qemu-system-riscv64",
            "-M",
            "virt",
            "-nographic",
            "-S",
        ],
    );
    assert!(refused(3, never).contains("time limit"));
    assert!(!out.exists(), "nothing is left behind");
    // The emulator is not installed.
    let mut command = kymo(paths(
        &["record"],
        &hello(),
        &["--out", out.to_str().unwrap()],
    ));
    let output = run(command.env("PATH", "/nowhere"), 4);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.contains("qemu-system-misc"),
        "it names what to install: {text}"
    );
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn memory_that_holds_no_region_or_a_bad_one() {
    let trace = recorded("bad-memory");
    let folder = trace.parent().unwrap();
    let ram = fs::read(trace.join(".ram")).unwrap();
    let out = folder.join("out");
    let recover = |bytes: &[u8], name: &str, code: i32| {
        let image = folder.join(name);
        fs::write(&image, bytes).unwrap();
        let text = refused(
            code,
            paths(&["recover"], &image, &["--out", out.to_str().unwrap()]),
        );
        let _ = fs::remove_dir_all(&out);
        fs::remove_file(image).unwrap();
        text
    };
    let image = trace.join(".ram");
    let found = kymo_capture::locate::region(
        &image,
        &kymo_capture::locate::segments(&image, None).unwrap(),
    )
    .unwrap();
    let at = found.offset as usize;
    let words: [u32; HEADER_WORDS] = std::array::from_fn(|index| {
        u32::from_le_bytes(ram[at + 4 * index..at + 4 * index + 4].try_into().unwrap())
    });
    assert!(Header::from_words(&words).is_ok());

    recover(&ram, "good", 0);
    assert!(recover(b"", "empty", 3).contains("no Kymo region"));
    assert!(recover(&vec![0xa5; 1 << 20], "noise", 3).contains("no Kymo region"));
    let mut newer = ram.clone();
    newer[at + 8] += 1;
    let text = recover(&newer, "newer", 3);
    assert!(
        text.contains("layout version 3") && text.contains("use the kymo"),
        "{text}"
    );
    let mut damaged = ram.clone();
    damaged[at + 100] ^= 1;
    assert!(recover(&damaged, "damaged", 3).contains("checksum"));
    let mut forming = ram.clone();
    forming[at + 20] = 0;
    assert!(recover(&forming, "forming", 3).contains("before the kernel had started"));
    assert!(recover(&ram[..at + 8192], "truncated", 3).contains("outside of the memory"));
    let mut metadata = ram.clone();
    metadata[at + found.header.metadata_offset as usize + 50] ^= 1;
    assert!(recover(&metadata, "metadata", 3).contains("metadata"));
    // Beside a stale copy and an older session, the real region is used. A copy alone is refused.
    let mut copies = ram.clone();
    let region = ram[at..at + found.header.total_size as usize].to_vec();
    let elsewhere = 100 << 20;
    copies[elsewhere..elsewhere + region.len()].copy_from_slice(&region);
    recover(&copies, "copies", 0);
    copies[at..at + 4096].fill(0);
    let text = recover(&copies, "copy", 3);
    assert!(text.contains("copy") && text.contains("--base"), "{text}");
    // Any other damage gives a trace or a message, and no panic.
    let mut random = Random(11);
    for _ in 0..20 {
        let mut damaged = ram.clone();
        for _ in 0..50 {
            damaged[at + 192 + random.below(region.len() as u64 - 192) as usize] ^=
                1 << random.below(8);
        }
        let image = folder.join("random");
        fs::write(&image, &damaged).unwrap();
        let output = kymo(paths(
            &["recover"],
            &image,
            &["--out", out.to_str().unwrap()],
        ))
        .output()
        .unwrap();
        assert!(
            [Some(0), Some(3)].contains(&output.status.code()),
            "{output:?}"
        );
        let _ = fs::remove_dir_all(&out);
    }
}

/// On a full disk or at a quota, the output consists of whole packets and can be opened.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_disk_that_fills_up() {
    let trace = recorded("full-disk");
    let out = trace.parent().unwrap().join("out");
    // The limit is in 512-byte blocks: the third page of a file does not fit.
    let script = "trap '' XFSZ; ulimit -f 17; exec \"$0\" recover \"$1\" --out \"$2\"";
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", script])
        .arg(kymo_e2e::built("KYMO_BIN"))
        .arg(trace.join(".ram"))
        .arg(&out);
    let text = String::from_utf8(run(&mut command, 4).stderr).unwrap();
    assert!(
        text.starts_with("kymo: cannot write the trace to") && text.lines().count() == 1,
        "{text}"
    );
    for entry in fs::read_dir(&out).unwrap().map(Result::unwrap) {
        let len = entry.metadata().unwrap().len();
        assert!(
            entry.file_name() == "metadata" || len.is_multiple_of(4096),
            "{:?} has {len} bytes",
            entry.file_name()
        );
    }
    assert!(kymo_e2e::babeltrace::compare(&out).0 > 0);
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn traces_that_are_cut_damaged_or_none_at_all() {
    let trace = recorded("bad-trace");
    let folder = trace.parent().unwrap();
    assert!(refused(3, paths(&["dump"], &folder.join("nothing"), &[])).contains("nothing"));
    let empty = folder.join("empty");
    fs::create_dir(&empty).unwrap();
    assert!(refused(3, paths(&["dump"], &empty, &[])).contains("metadata"));
    assert!(
        refused(2, paths(&["dump"], &trace.join("events_0"), &[]))
            .contains("give the trace directory")
    );
    let whole = run(&mut kymo(paths(&["dump"], &trace, &[])), 0).stdout;
    let stream = trace.join("events_1");
    let bytes = fs::read(&stream).unwrap();
    for cut in [bytes.len() - 1, bytes.len() - 4095, 4096 + 50, 30] {
        fs::write(&stream, &bytes[..cut]).unwrap();
        let output = run(&mut kymo(paths(&["dump"], &trace, &[])), 3);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(
            text.contains("events_1") && text.lines().count() == 1,
            "{text}"
        );
        assert!(
            output.stdout.len() > whole.len() / 2,
            "the other streams are printed"
        );
    }
    fs::write(&stream, vec![0x5a; 4096]).unwrap();
    assert!(refused(3, paths(&["dump"], &trace, &["--json"])).contains("events_1"));
    fs::write(&stream, &bytes).unwrap();
    fs::write(trace.join("metadata"), "/* CTF 1.8 */ trace { major = ").unwrap();
    assert!(refused(3, paths(&["dump"], &trace, &[])).contains("line 1"));
}
