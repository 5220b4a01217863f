//! Kernels: workspaces of their own, each for its own target.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::process::{cargo, root, run, target};
use crate::setup::{RISCV32, RISCV64, Toolchain};

/// All of them, by the names of their folders.
pub(crate) const ALL: [&str; 2] = ["hello", "probes"];

/// Where the kernel of this name is.
pub(crate) fn folder(name: &str) -> PathBuf {
    root().join("kernels").join(name)
}

/// Builds kernels/hello. Returns its ELF image.
pub(crate) fn hello(toolchain: Toolchain) -> Result<PathBuf> {
    Ok(build("hello", RISCV64, toolchain)?.join("hello"))
}

/// Builds kernels/probes, no kernel but functions to disassemble, for RV64 and RV32. Returns the archives.
pub(crate) fn probes(toolchain: Toolchain) -> Result<[PathBuf; 2]> {
    let build = |target| build("probes", target, toolchain).map(|folder| folder.join("libkymo_probes.a"));
    Ok([build(RISCV64)?, build(RISCV32)?])
}

/// Builds kernels/probes for this machine's own processor.
pub(crate) fn host_probes() -> Result<PathBuf> {
    let built = target().join("host-probes");
    run(cargo(&["build", "--release", "--target-dir"]).arg(&built).current_dir(folder("probes")))?;
    Ok(built.join("release/libkymo_probes.a"))
}

/// Returns the folder with what was built.
fn build(name: &str, target_name: &str, toolchain: Toolchain) -> Result<PathBuf> {
    let built = target().join("kernels");
    let mut command = build_command(target_name, toolchain);
    run(command.current_dir(folder(name)).args(["--target", target_name, "--target-dir"]).arg(&built))?;
    Ok(built.join(target_name).join("release"))
}

/// Checks one of them, with rustup's tool chain.
pub(crate) fn clippy(name: &str) -> Command {
    let mut command = cargo(&["clippy", "--release", "--target", RISCV64, "--target-dir"]);
    command.current_dir(folder(name)).arg(target().join("kernels")).args(["--", "-Dwarnings"]);
    command
}

/// `cargo build --release` for a kernel, wherever it is.
pub(crate) fn build_command(target_name: &str, toolchain: Toolchain) -> Command {
    const BUILD: [&str; 2] = ["build", "--release"];
    match toolchain {
        Toolchain::Rustup => cargo(&BUILD),
        Toolchain::Debian => {
            // rustup's settings for its own tools would send Debian's cargo back to them.
            let mut command = Command::new("/usr/bin/cargo");
            for variable in ["RUSTUP_TOOLCHAIN", "RUSTC_WRAPPER", "CARGO"] {
                command.env_remove(variable);
            }
            // There is no compiled `core` for the target: it is built along, which stable cargo does only when told that it may.
            command.env("RUSTC", "/usr/bin/rustc").env("RUSTC_BOOTSTRAP", "1").args(BUILD).arg("-Zbuild-std=core");
            command.env(format!("CARGO_TARGET_{}_LINKER", target_name.to_uppercase().replace('-', "_")), "ld.lld-22");
            command
        }
    }
}
