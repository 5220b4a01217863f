//! Compiles programs in C and C++ against the header, and builds the library for this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

pub const C: [&str; 2] = ["cc", "-std=c11"];
pub const CPP: [&str; 4] = ["c++", "-x", "c++", "-std=c++11"];
pub const STRICT: [&str; 5] = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-O1"];

pub fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// An empty folder for one test.
pub fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The compiler with the header's folder.
pub fn compiler(language: &[&str], more: &[&str]) -> Command {
    let mut command = Command::new(language[0]);
    command.args(&language[1..]).args(STRICT).args(more);
    command
        .arg("-I")
        .arg(here("include"))
        .arg("-I")
        .arg(here("tests/c"));
    command
}

pub fn run(command: &mut Command) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{text}",
        output.status
    );
    output
}

/// The library for this machine.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| library_in("library", &[]))
}

/// The library for kernels whose NMIs record.
pub fn library_for_nmis() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| library_in("library-nmi", &["--features", "nmi"]))
}

fn library_in(folder: &str, features: &[&str]) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--quiet", "--manifest-path"])
        .arg(here("Cargo.toml"))
        .args(features);
    run(cargo.arg("--target-dir").arg(&target));
    target.join("debug/libkymo_c.a")
}
