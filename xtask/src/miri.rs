//! `cargo xtask miri`: tests of the crate `kymo` under Miri, which interprets them and reports what
//! the language leaves undefined: data races, accesses outside of an allocation or against the
//! rules of references, values that are not initialized or not aligned.
//!
//! Miri needs a nightly tool chain. Nothing else here does: no crate uses a nightly feature.

use std::process::Command;

use anyhow::{Result, bail};

use crate::failure::{Environment, NotRun};
use crate::process::{quiet, root, run as run_command, target};

/// What to type where the tool chain cannot be installed from here.
const INSTALL: &str =
    "rustup toolchain install nightly --profile minimal --component miri --component rust-src";

/// Parts of the names of tests: the encoders, the reader, both writers, and shared values.
const SHORT: [&str; 6] = [
    "event::",
    "exclusive::",
    "ctf::packet::",
    "ring::long::",
    "ring::tests::losses::",
    THREADS,
];

/// The others that end in minutes: times, a reader that is lapped, streams, the recorder.
const LONG: [&str; 8] = [
    "boot::",
    "channel::",
    "ctf::stream::tests::each_of_two_gaps",
    "recorder::mode::",
    "recorder::tests::a_start_that_fails_late",
    "ring::tests::clock::a_batch_begins",
    "ring::tests::clock::a_carry_between_the_halves",
    "ring::tests::clock::a_clock_that_steps_back_behind",
];

/// A writer and a reader on two threads: what a seed decides.
const THREADS: &str = "ring::tests::accounting::a_reader_on_another_thread";

/// The step of `cargo xtask test`: few tests, one seed.
pub(crate) fn short() -> Result<()> {
    if !is_installed() {
        bail!(NotRun(format!(
            "Miri is missing and cannot be installed from here. Type: {INSTALL}"
        )));
    }
    test(&SHORT, "")
}

/// All tests that are listed here, and the threads under this many seeds.
pub(crate) fn long(seeds: u32) -> Result<()> {
    if !is_installed() {
        bail!(Environment(format!(
            "Miri is missing and cannot be installed from here. Type: {INSTALL}"
        )));
    }
    test(&SHORT, "")?;
    test(&LONG, "")?;
    test(&[THREADS], &format!("-Zmiri-many-seeds=0..{seeds}"))
}

/// Whether Miri is there; installs it if rustup can.
fn is_installed() -> bool {
    let version = || quiet(miri().arg("--version"));
    if version().is_none() {
        let mut words = INSTALL.split(' ');
        let mut install = Command::new(words.next().unwrap_or_default());
        // The result is what counts.
        let _ = run_command(install.args(words));
    }
    version().is_some()
}

fn miri() -> Command {
    let mut command = Command::new("rustup");
    command.current_dir(root());
    command.args(["run", "nightly", "cargo", "miri"]);
    command
}

fn test(names: &[&str], more: &str) -> Result<()> {
    let mut command = miri();
    command.args(["test", "-p", "kymo", "--lib", "--"]);
    // The memory of a session lives for ever, so tests leak it. Slots are found by their addresses,
    // which the control blocks hold as numbers: `with_exposed_provenance`.
    let flags = format!("-Zmiri-ignore-leaks -Zmiri-permissive-provenance {more}");
    command.args(names).env("MIRIFLAGS", flags.trim_end());
    run_command(command.env("CARGO_TARGET_DIR", target().join("miri")))
}
