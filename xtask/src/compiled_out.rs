//! `cargo xtask compiled-out`: checks that compiled-out tracepoints leave nothing; see
//! tests/compiled-out.

use anyhow::{Result, bail};

use crate::failure::Usage;
use crate::kernel;
use crate::process::{program, run_program, target};
use crate::setup::{self, RISCV64};

pub(crate) fn run(name: &str) -> Result<()> {
    let folder = kernel::folder(name);
    if !folder.join("Cargo.toml").is_file() {
        bail!(Usage(format!(
            "There is no kernel \"{name}\" under kernels/."
        )));
    }
    let mut compiled_out = program("kymo-compiled-out")?;
    compiled_out
        .arg(folder)
        .args(["--target", RISCV64, "--scratch"])
        .arg(target().join("compiled-out"))
        .arg("--")
        .args(kernel::build_words(RISCV64, setup::toolchain()?));
    run_program(&mut compiled_out)
}
