//! Tests what `kymo flame`, `hot` and `export` say of damaged traces and of options that they
//! cannot use.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::run::kymo;
use kymo::vocabulary::{Address, ChainEnd, CpuMode, Sample};
use kymo::{Sequence, Tid};
use kymo_made::{Made, US};

/// A trace with 200 samples of thread 5 in its program, on CPU 0.
fn made(name: &str) -> Made {
    let mut made = Made::with_samples(name);
    for round in 0..200 {
        let sample = Sample {
            ip: Address(0x1000),
            tid: Tid(5),
            period: 100,
            missed: 0,
            mode: CpuMode::User,
            kernel_callers: 0,
            kernel_end: ChainEnd::Absent,
            user_end: ChainEnd::Complete,
            callchain: Sequence::new(&[]),
        };
        made.event(0, round * US, sample);
    }
    made
}

/// Changes a file of a trace.
fn change(trace: &Path, file: &str, how: impl FnOnce(&mut Vec<u8>)) {
    let path = trace.join(file);
    let mut bytes = fs::read(&path).unwrap();
    how(&mut bytes);
    fs::write(path, bytes).unwrap();
}

/// The exit status and the messages.
fn said(output: Output) -> (Option<i32>, String) {
    (
        output.status.code(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

fn difference(before: &Path, after: &Path) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_kymo"))
        .args(["flame", "--diff"])
        .args([before, after])
        .output()
        .unwrap();
    said(output)
}

/// If the samples are in a damaged part of the trace, the error is the damage. It is not that the
/// trace was recorded without samples.
#[test]
fn damage_that_hides_all_samples_is_reported() {
    let mut made = made("flame-hidden");
    let trace = made.finish();
    change(trace, "samples_0", |bytes| bytes.fill(0xa5));
    let sentence = format!(
        "kymo: {} is damaged, and nothing to show was found in the rest: samples_0, packet 0",
        trace.display()
    );
    for verb in ["flame", "hot"] {
        let (code, message) = said(kymo(&[verb], trace));
        assert_eq!(code, Some(3), "{message}");
        assert!(message.starts_with(&sentence), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
}

#[test]
fn samples_before_damage_are_shown_and_the_hole_is_counted() {
    let mut made = made("flame-truncated");
    let trace = made.finish();
    change(trace, "samples_0", |bytes| bytes.truncate(bytes.len() - 8));
    let (code, message) = said(kymo(&["flame", "--format=folded"], trace));
    assert_eq!(code, Some(3), "{message}");
    for sentence in [
        "kymo: an unknown number lost in 1 hole in the trace.\n",
        "\nkymo: samples_0, packet ",
    ] {
        assert!(message.contains(sentence), "{sentence} {message}");
    }
    let output = kymo(&["flame"], trace);
    let svg = String::from_utf8(output.stdout).unwrap();
    assert!(svg.contains("none missed; an unknown number lost"), "{svg}");
}

/// Of two traces, the message names the one that cannot be used.
#[test]
fn errors_of_a_difference_name_the_trace() {
    let (mut before, mut after) = (made("flame-good"), made("flame-bad"));
    let (good, bad) = (before.finish(), after.finish());
    change(bad, "samples_0", |bytes| bytes.truncate(bytes.len() - 8));
    let of_samples = format!("kymo: {}: samples_0, packet ", bad.display());
    for traces in [[good, bad], [bad, good]] {
        let (code, message) = difference(traces[0], traces[1]);
        assert_eq!(code, Some(3), "{message}");
        let last = message.lines().last().unwrap();
        assert!(last.starts_with(&of_samples), "{message}");
    }
    fs::remove_file(bad.join("samples_0")).unwrap();
    let (code, message) = difference(good, bad);
    let without = format!("kymo: {} has no samples", bad.display());
    assert_eq!(code, Some(3), "{message}");
    let last = message.lines().last().unwrap();
    assert!(last.starts_with(&without), "{message}");
    change(bad, "metadata", |bytes| bytes.truncate(bytes.len() / 2));
    let (code, message) = difference(good, bad);
    let of_metadata = format!("kymo: {}: metadata, line ", bad.display());
    assert_eq!(code, Some(3), "{message}");
    let last = message.lines().last().unwrap();
    assert!(last.starts_with(&of_metadata), "{message}");
}

/// No sample is in the kernel, and none in a program that the trace names: the paths are checked
/// all the same.
#[test]
fn files_that_are_not_there_are_reported_even_if_no_sample_needs_them() {
    let mut made = made("flame-paths");
    let trace = made.finish();
    let empty = trace.with_extension("elf");
    fs::write(&empty, b"\x7fELF").unwrap();
    for (option, sentence) in [
        ("--kernel=/no/such/kernel", "/no/such/kernel: "),
        ("--image=/bin/no=/no/such/program", "/no/such/program: "),
        ("--images=/no/such/folder", "/no/such/folder: "),
        (
            &format!("--image={}", empty.display()),
            &format!("{}: a damaged or truncated ELF file; ", empty.display()),
        ),
    ] {
        let (code, message) = said(kymo(&["hot", option], trace));
        assert_eq!(code, Some(3), "{option} {message}");
        let sentence = format!("kymo: cannot read {sentence}");
        assert!(message.starts_with(&sentence), "{option} {message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
    fs::remove_file(&empty).unwrap();
}

#[test]
fn options_without_effect_are_refused() {
    let mut made = made("flame-options");
    let trace = made.finish();
    for waits in ["--off-cpu", "--locks"] {
        let (code, message) = said(kymo(&["flame", waits, "--event=sched_switch"], trace));
        assert_eq!(code, Some(2), "{message}");
        assert!(message.contains("--event"), "{message}");
    }
    let elf = std::env::current_exe().unwrap();
    let out = trace.with_extension("tables");
    for format in ["csv", "parquet"] {
        let output = Command::new(env!("CARGO_BIN_EXE_kymo"))
            .args(["export", "--to", format, "--kernel"])
            .args([&elf, trace, &out])
            .output()
            .unwrap();
        let (code, message) = said(output);
        assert_eq!(code, Some(2), "{message}");
        assert!(
            message.starts_with("kymo: --kernel, --image, --images and --inlined are"),
            "{message}"
        );
        assert!(!out.exists());
    }
}
