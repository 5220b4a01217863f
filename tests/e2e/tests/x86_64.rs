//! `kymo record` with a kernel for x86-64: the same command, the machine that the kernel needs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Output;

use kymo_e2e::{babeltrace, built, kymo, ledger, patience, run, scratch};

fn record(out: &Path, more: &[&str], code: i32) -> Output {
    let kernel = built("KYMO_STRESS_X86_64");
    let mut command = kymo([
        "record".as_ref(),
        kernel.as_os_str(),
        "--out".as_ref(),
        out.as_os_str(),
    ]);
    run(command.args(["--timeout", patience()]).args(more), code)
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn recorded_live_and_recovered_from_its_memory() {
    let folder = scratch("x86-64-record");
    let out = folder.join("trace");
    let output = record(
        &out,
        &[
            "--cpus",
            "3",
            "--keep-ram",
            "--append",
            "events=90000 packets=1024",
        ],
        0,
    );
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .contains("recording on 3 CPUs"),
        "the serial port is on the standard output"
    );
    let ram = out.join(".ram");
    let calls: Vec<u64> = ledger::words(&ram, &built("KYMO_STRESS_X86_64"), 0, 3)
        .iter()
        .map(|words| words[..5].iter().sum())
        .collect();
    assert!(calls.iter().all(|&calls| calls >= 30_000), "{calls:?}");
    // The session's end is an event too.
    let total = calls.iter().sum::<u64>() + 1;
    let recovered = folder.join("recovered");
    run(
        &mut kymo([
            "recover".as_ref(),
            ram.as_os_str(),
            "--out".as_ref(),
            recovered.as_os_str(),
        ]),
        0,
    );
    for trace in [&out, &recovered] {
        let (events, losses) = babeltrace::compare(trace);
        let lost: u64 = losses.values().map(|lost| lost.0).sum();
        assert_eq!(events + lost, total, "{}", trace.display());
        assert!(events > total / 2);
    }
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_recording_under_icount_is_the_same_every_time() {
    let folder = scratch("x86-64-deterministic");
    type Files = BTreeMap<String, Vec<u8>>;
    let mut first: Option<(Vec<u8>, Files)> = None;
    for turn in 0..3 {
        let (out, recovered) = (
            folder.join(format!("run{turn}")),
            folder.join(format!("recovered{turn}")),
        );
        let append = "mode=discard events=40000 tick_us=20";
        let serial = record(
            &out,
            &["--deterministic", "--keep-ram", "--append", append],
            0,
        )
        .stdout;
        let ram = out.join(".ram");
        run(
            &mut kymo([
                "recover".as_ref(),
                ram.as_os_str(),
                "--out".as_ref(),
                recovered.as_os_str(),
            ]),
            0,
        );
        let entries = fs::read_dir(&recovered).unwrap().map(Result::unwrap);
        let files = entries
            .map(|entry| {
                (
                    entry.file_name().into_string().unwrap(),
                    fs::read(entry.path()).unwrap(),
                )
            })
            .collect();
        match &first {
            None => first = Some((serial, files)),
            Some((text, trace)) => assert!(
                *text == serial && *trace == files,
                "run {turn} is another one"
            ),
        }
        fs::remove_dir_all(out).unwrap();
    }
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn what_does_not_work_is_said() {
    let out = scratch("x86-64-errors").join("trace");
    // The kernel's exit code 2, as passed on by QEMU's isa-debug-exit.
    let text = String::from_utf8(record(&out, &["--append", "mode=sideways"], 3).stderr).unwrap();
    assert!(
        text.contains("status 5") && text.contains("before its kernel had started a trace"),
        "{text}"
    );
    // Without the PVH note, QEMU would only report that it cannot load the kernel.
    let mut image = fs::read(built("KYMO_STRESS_X86_64")).unwrap();
    let note = [4u32, 4, 18, u32::from_le_bytes(*b"Xen\0")]
        .map(u32::to_le_bytes)
        .concat();
    let at = image
        .windows(note.len())
        .position(|bytes| bytes == note)
        .expect("the kernel has a PVH note");
    image[at + 8] = 17;
    let other = out.with_file_name("no-note");
    fs::write(&other, image).unwrap();
    let output = run(
        &mut kymo([
            "record".as_ref(),
            other.as_os_str(),
            "--out".as_ref(),
            out.as_os_str(),
        ]),
        3,
    );
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.contains("no PVH entry") && text.lines().count() == 1,
        "{text}"
    );
    // The emulator is not installed.
    let kernel = built("KYMO_STRESS_X86_64");
    let mut command = kymo([
        "record".as_ref(),
        kernel.as_os_str(),
        "--out".as_ref(),
        out.as_os_str(),
    ]);
    let text = String::from_utf8(run(command.env("PATH", "/nowhere"), 4).stderr).unwrap();
    assert!(text.contains("apt-get install qemu-system-x86"), "{text}");
    assert!(!out.exists(), "nothing is left behind");
}
