//! Builds the examples of ports/, kernels that others wrote.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::clib::{Form, build, gcc};
use crate::process::{packages, root, run, target};
use crate::setup::RISCV32;

/// The folder of a package of a registry that the manifest in `folder` names. Cargo fetches it.
fn package(folder: &Path, name: &str) -> Result<PathBuf> {
    let mut packages = packages(folder, "--locked")?.into_iter();
    let Some(package) = packages.find(|package| package.name == name) else {
        bail!("{} does not depend on {name}", folder.display());
    };
    package.folder().map(Path::to_owned)
}

/// Builds ports/freertos/example with the kernel that a package of the registry carries. Returns its
/// ELF image.
pub(crate) fn freertos() -> Result<PathBuf> {
    let port = root().join("ports/freertos");
    let kernel = package(&port.join("source"), "freertos-next")?.join("FreeRTOS-Kernel");
    let riscv = kernel.join("portable/GCC/RISC-V");
    let image = target().join("clib/freertos");
    let mut gcc = gcc(&port.join("example"));
    gcc.args(["-g", "-I", ".", "-I", "..", "-I", "include"]);
    for folder in [
        kernel.join("include"),
        riscv.clone(),
        riscv.join("chip_specific_extensions/RISCV_MTIME_CLINT_no_extensions"),
    ] {
        gcc.arg("-I").arg(folder);
    }
    // A cast in FreeRTOS's port to RISC-V.
    gcc.arg("-Wno-int-to-pointer-cast");
    gcc.args(["start.s", "main.c", "../kymo_port.c"]);
    for file in ["tasks.c", "queue.c", "list.c", "portable/MemMang/heap_4.c"] {
        gcc.arg(kernel.join(file));
    }
    for file in ["port.c", "portASM.S"] {
        gcc.arg(riscv.join(file));
    }
    run(gcc
        .arg(build(RISCV32, Form::ONE_CPU)?)
        .args(["-lgcc", "-o"])
        .arg(&image))?;
    Ok(image)
}

/// Builds ports/zephyr with its example: a schedule on a stand-in for Zephyr 3.7.0, or for a later
/// release. Returns its ELF image.
pub(crate) fn zephyr(is_later: bool) -> Result<PathBuf> {
    let name = if is_later { "zephyr-later" } else { "zephyr" };
    let image = target().join("clib").join(name);
    let mut gcc = gcc(&root().join("ports/zephyr/example"));
    if is_later {
        gcc.arg("-DLATER");
    }
    gcc.args(["-g", "-I", "include", "-imacros", "include/autoconf.h"])
        .args(["start.s", "main.c", "kernel.c", "printk.c"])
        .args(["../kymo_zephyr.c", "../kymo_port.c"]);
    run(gcc
        .arg(build(RISCV32, Form::ONE_CPU)?)
        .args(["-lgcc", "-o"])
        .arg(&image))?;
    Ok(image)
}
