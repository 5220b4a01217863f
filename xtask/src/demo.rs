//! `cargo xtask demo`: from a fresh clone to a kernel's trace that `babeltrace2` reads.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::clib::{self, Firmware};
use crate::process::{show, target};
use crate::setup::{AARCH64, X86_64};
use crate::{kernel, setup, test};

/// The architecture of the kernel to boot.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Arch {
    Riscv64,
    #[value(name = "x86_64")]
    X86_64,
    Aarch64,
}

/// A kernel that is not an architecture's usual one.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Kernel {
    /// An RTOS in C, on one core of 32 bits
    FirmwareC,
    /// A kernel in C, on four harts of RV64
    SmpC,
    /// A kernel in C for several processors; the demo runs it on 32-bit x86
    ThreadsC,
}

/// QEMU's command for a kernel of 32-bit x86, up to its image: `kymo record` has no machine for it.
#[rustfmt::skip]
const X86_32: [&str; 11] = [
    "--", "qemu-system-i386", "-M", "pc", "-m", "32M", "-nographic", "-no-reboot", "-net", "none",
    "-kernel",
];

/// Boots the kernel and shows what it recorded; with `views`, in the browser at the end.
pub(crate) fn run(arch: Arch, kernel: Option<Kernel>, views: bool) -> Result<()> {
    let toolchain = setup::run()?;
    let machine: &[&str] = match kernel {
        Some(Kernel::SmpC) => &["--cpus", "4"],
        Some(Kernel::ThreadsC) => &X86_32,
        _ => &[],
    };
    let kernel = match (kernel, arch) {
        (Some(Kernel::FirmwareC), _) => clib::firmware(Firmware::Work)?,
        (Some(Kernel::SmpC), _) => clib::smp()?,
        (Some(Kernel::ThreadsC), _) => clib::threads_i386()?,
        (None, Arch::Riscv64) => kernel::hello(toolchain)?,
        (None, Arch::X86_64) => kernel::demo(X86_64, toolchain)?,
        (None, Arch::Aarch64) => kernel::demo(AARCH64, toolchain)?,
    };
    let kymo = test::cli()?;
    let trace = target().join("demo/trace");
    if trace.exists() {
        fs::remove_dir_all(&trace).context("the old trace cannot be removed")?;
    }
    fs::create_dir_all(target().join("demo"))?;

    show(
        Command::new(&kymo)
            .arg("record")
            .arg("--out")
            .arg(&trace)
            .args(machine)
            .arg(&kernel),
    )?;
    show(Command::new(&kymo).args(["dump", "--count"]).arg(&trace))?;
    show(
        Command::new(&kymo)
            .args(["report", "--top", "5"])
            .arg(&trace),
    )?;

    // babeltrace2 may only report counted losses on its standard error; anything else is an error
    // in the trace.
    let mut babeltrace2 = Command::new("babeltrace2");
    let output = babeltrace2
        .arg(&trace)
        .args(["--component", "sink.utils.counter", "--params", "step=+0"])
        .output();
    let output = output.context("babeltrace2 cannot be started")?;
    let messages = String::from_utf8_lossy(&output.stderr);
    let faults: Vec<&str> = messages
        .lines()
        .filter(|line| !line.is_empty() && !line.contains("Tracer discarded"))
        .collect();
    print!("{}", String::from_utf8_lossy(&output.stdout));
    if !output.status.success() || !faults.is_empty() {
        bail!(
            "babeltrace2 does not accept the trace ({}):\n{messages}",
            output.status
        );
    }
    println!("babeltrace2 accepts the trace: {}", trace.display());
    if views {
        return show(Command::new(&kymo).arg("view").arg(&trace));
    }
    let (trace, kymo) = (trace.display(), kymo.display());
    println!("Next, look at it in a browser:   {kymo} view {trace}");
    println!("or see all of its report:        {kymo} report {trace} --top 0");
    println!("or draw it for ui.perfetto.dev:  {kymo} export {trace} demo.pftrace --to perfetto");
    Ok(())
}
