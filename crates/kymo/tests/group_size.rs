//! K-15, K-18: what the compiler says of a constant group that a PMU can never count.
//!
//! The texts are those of one version of the compiler; `TRYBUILD=overwrite` writes them anew. That
//! such groups do not compile, the documentation of `kymo::count::group` tests with any version.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(loom), not(miri)))]

use std::io::Write as _;

/// The compiler whose texts are in group_size/*.stderr.
const COMPILER: &str = "rustc 1.95.";

#[test]
fn a_group_that_cannot_fit_does_not_compile() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = std::process::Command::new(rustc)
        .arg("--version")
        .output()
        .unwrap();
    let version = String::from_utf8_lossy(&version.stdout);
    if !version.starts_with(COMPILER) {
        // The test harness keeps back what `eprintln` prints for a test that passes.
        let line = format!(
            "NOT RUN: a_group_that_cannot_fit_does_not_compile: the expected texts are those of \
             {COMPILER}x, and this is {version}"
        );
        let _ = std::io::stderr().write_all(line.as_bytes());
        return;
    }
    trybuild::TestCases::new().compile_fail("tests/group_size/*.rs");
}
