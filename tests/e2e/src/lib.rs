//! What the end-to-end tests share: the programs they run, the demo kernel's ledger, babeltrace2.
//!
//! The tests need kernels, QEMU and babeltrace2, and fail without them. `cargo xtask test` installs
//! the tools; [`built`] has it build what else a test takes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod aarch64;
pub mod babeltrace;
pub mod demo;
pub mod guest;
pub mod interrupted;
pub mod ledger;
pub mod port;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

/// A kernel or a program that `cargo xtask` builds, see `xtask/src/kernel.rs`: the file that the
/// variable names, or else what `xtask image` builds now.
pub fn built(variable: &str) -> PathBuf {
    if let Some(path) = std::env::var_os(variable) {
        return PathBuf::from(path);
    }
    static BUILT: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock().expect("no other test panics here");
    let build = || build(variable);
    built
        .entry(variable.to_owned())
        .or_insert_with(build)
        .clone()
}

fn build(variable: &str) -> PathBuf {
    let xtask = std::env::var_os("KYMO_XTASK").unwrap_or_else(|| {
        panic!("KYMO_XTASK is not set: run these tests by `cargo xtask test e2e`")
    });
    // One at a time: a test must not start what another one is about to replace.
    let lock = File::create(target().join("e2e-images.lock"));
    let lock = lock.expect("the lock can be created");
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("the lock works");
    let output = Command::new(xtask).args(["image", variable]).output();
    let output = output.expect("xtask runs");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (paths, messages) = (text(&output.stdout), text(&output.stderr));
    assert!(
        output.status.success(),
        "{variable} cannot be built:\n{messages}"
    );
    PathBuf::from(paths.lines().last().expect("xtask prints the path"))
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

/// The target folder, in which this test's program is PROFILE/deps/NAME.
fn target() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.ancestors().nth(3).unwrap().to_owned()
}

/// A new, empty folder for a test's files.
pub fn scratch(name: &str) -> PathBuf {
    // Not below /tmp, which may be small.
    let path = target().join("e2e").join(name);
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
        .args(["--timeout", patience(), "--append", append])
        .args(more);
    run(&mut command, 0)
}

/// Seconds after which a test gives up what it waits for, far longer than that takes on a busy
/// host: 600, or `KYMO_TEST_PATIENCE`.
pub fn patience() -> &'static str {
    static SECONDS: LazyLock<String> =
        LazyLock::new(|| std::env::var("KYMO_TEST_PATIENCE").unwrap_or_else(|_| "600".to_owned()));
    &SECONDS
}

/// Waits for progress; panics when [`patience`] ends.
pub fn wait_until(done: impl Fn() -> bool) {
    let limit = Duration::from_secs(patience().parse().expect("KYMO_TEST_PATIENCE is a number"));
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < limit, "nothing happens");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A command that `timeout` ends when [`patience`] does.
pub fn limited(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("timeout");
    command.arg(patience()).arg(program);
    command
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
