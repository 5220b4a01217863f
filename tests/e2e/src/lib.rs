//! What the end-to-end tests share: the programs they run, the demo kernel's ledger, babeltrace2.
//!
//! The tests need a built kernel, QEMU and babeltrace2, and fail without them: `cargo xtask test`
//! builds and installs these and names them in `KYMO_HELLO` (the kernel's ELF file), `KYMO_BIN`
//! (the `kymo` command), and others; see `xtask/src/kernel.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod aarch64;
pub mod babeltrace;
pub mod demo;
pub mod guest;
pub mod interrupted;
pub mod ledger;
pub mod port;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A file that `cargo xtask test` names.
pub fn built(variable: &str) -> PathBuf {
    let path = std::env::var_os(variable).unwrap_or_else(|| {
        panic!(
            "{variable} is not set: run these tests by `cargo xtask test e2e`, which builds \
                 what they need"
        )
    });
    PathBuf::from(path)
}

/// The kernel.
pub fn hello() -> PathBuf {
    built("KYMO_HELLO")
}

/// A `kymo` command line.
pub fn kymo<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(arguments: I) -> Command {
    let mut command = Command::new(built("KYMO_BIN"));
    command.args(arguments);
    command
}

/// A new, empty folder for a test's files.
pub fn scratch(name: &str) -> PathBuf {
    // Beside this test's program, which is target/PROFILE/deps/NAME, as /tmp may be small.
    let program = std::env::current_exe().unwrap();
    let target = program.ancestors().nth(3).unwrap();
    let path = target.join("e2e").join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

/// Runs the command to its end; panics with its output if the exit code differs.
pub fn run(command: &mut Command, code: i32) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert_eq!(
        output.status.code(),
        Some(code),
        "{command:?}\n{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// `kymo record` of a kernel to a trace directory, to which options may be added.
pub fn recording(kernel: &Path, out: &Path) -> Command {
    let mut command = kymo(["record"]);
    command.arg(kernel).arg("--out").arg(out);
    command
}

/// Records the kernel with this command line.
pub fn record(out: &Path, append: &str, more: &[&str]) -> Output {
    let mut command = recording(&hello(), out);
    command
        .args(["--timeout", "120", "--append", append])
        .args(more);
    run(&mut command, 0)
}

/// Reproducible pseudo-random numbers (SplitMix64).
pub struct Random(pub u64);

impl Random {
    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

/// The seed of a random test: `KYMO_SEED`, or the time. Printed, so that a failure can be
/// reproduced.
pub fn seed() -> u64 {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_nanos() as u64;
    let seed =
        std::env::var("KYMO_SEED").map_or(now, |text| text.parse().expect("KYMO_SEED is a number"));
    eprintln!("KYMO_SEED={seed}");
    seed
}
