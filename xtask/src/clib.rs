//! Builds the library for kernels in C, `libkymo.a`, and the kernels that use it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::failure::Usage;
use crate::kernel::{bare_command, folder};
use crate::process::{root, run, target};
use crate::setup::{self, RISCV32, RISCV64, Toolchain, add_targets};

/// The targets of the library. A kernel that is compiled for other registers of arguments cannot be
/// linked with it: hence one target for RV64 with floating-point registers (`-mabi=lp64d`), and one
/// for Cortex-M (`-mfloat-abi=hard`).
pub(crate) const TARGETS: [&str; 11] = [
    "riscv32i-unknown-none-elf",
    "riscv32imac-unknown-none-elf",
    "riscv64imac-unknown-none-elf",
    "riscv64gc-unknown-none-elf",
    "thumbv6m-none-eabi",
    "thumbv7m-none-eabi",
    "thumbv7em-none-eabi",
    "thumbv7em-none-eabihf",
    "aarch64-unknown-none-softfloat",
    "x86_64-unknown-none",
    X86_32,
];

/// There is no target for 32-bit x86 without an operating system: this one has no instructions that
/// a kernel lacks (SSE), and nothing of the operating system is linked.
const X86_32: &str = "i586-unknown-linux-gnu";

const X86_32_FLAGS: [&str; 4] = [
    "-m32",
    "-march=i586",
    "-mgeneral-regs-only",
    "-Wl,-m,elf_i386",
];

/// What a library is built for, besides the processor.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Form {
    /// For one CPU: it asks nobody which one it is.
    pub(crate) one_cpu: bool,
    /// For NMIs that record.
    pub(crate) nmi: bool,
}

impl Form {
    pub(crate) const ONE_CPU: Form = Form {
        one_cpu: true,
        nmi: false,
    };

    /// The crate's features.
    fn features(self) -> Vec<&'static str> {
        let all = [(self.one_cpu, "one-cpu"), (self.nmi, "nmi")];
        all.into_iter().filter(|of| of.0).map(|of| of.1).collect()
    }
}

/// Builds the library for a target. Returns its path.
pub(crate) fn build(triple: &str, form: Form) -> Result<PathBuf> {
    if !TARGETS.contains(&triple) {
        bail!(Usage(format!(
            "there is no library for {triple}. Its targets are {}.",
            TARGETS.join(", ")
        )));
    }
    if form.nmi
        && !["riscv64", "aarch64", "x86_64"]
            .iter()
            .any(|of| triple.starts_with(of))
    {
        bail!(Usage(format!(
            "NMIs can record on 64-bit processors only, and {triple} is a 32-bit target: leave \
             --nmi out."
        )));
    }
    let toolchain = match setup::toolchain()? {
        Toolchain::Rustup if add_targets(&[triple]) => Toolchain::Rustup,
        _ => {
            setup::debian()?;
            Toolchain::Debian
        }
    };
    let mut command = bare_command(triple, toolchain);
    // Debian's compiler has its own folder, so that neither builds anew what the other one has.
    let built = match toolchain {
        Toolchain::Rustup => target().join("clib/build"),
        Toolchain::Debian => target().join("clib/build-debian"),
    };
    command
        .args(["-p", "kymo-c", "--profile", "clib", "--target", triple])
        .arg("--target-dir")
        .arg(&built)
        .current_dir(root());
    let features = form.features();
    command.args(["--features", &features.join(",")]);
    if triple == X86_32 {
        // Programs are loaded anywhere, which takes a table of addresses; kernels are not.
        command.env(
            "CARGO_TARGET_I586_UNKNOWN_LINUX_GNU_RUSTFLAGS",
            "-Crelocation-model=static",
        );
    }
    run(&mut command)?;
    let name = [&[triple], &*features].concat().join("-");
    let out = target().join("clib").join(name);
    fs::create_dir_all(&out)?;
    let archive = out.join("libkymo.a");
    let from = built.join(triple).join("clib/libkymo_c.a");
    fs::copy(&from, &archive).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(archive)
}

/// Builds the library for all its targets. Where there is a C compiler for the processor, links a
/// kernel that does nothing but call all of the library: nothing may be missing, and nothing may
/// disagree.
pub(crate) fn links() -> Result<()> {
    const RISCV: &str = "riscv64-unknown-elf-gcc";
    let kernels: [(&str, &str, &[&str]); 5] = [
        (
            "riscv32i-unknown-none-elf",
            RISCV,
            &["-march=rv32i", "-mabi=ilp32", "-mcmodel=medany"],
        ),
        (
            "riscv64gc-unknown-none-elf",
            RISCV,
            &["-march=rv64gc", "-mabi=lp64d", "-mcmodel=medany"],
        ),
        (
            "riscv64imac-unknown-none-elf",
            RISCV,
            &["-march=rv64imac", "-mabi=lp64", "-mcmodel=medany"],
        ),
        (
            "x86_64-unknown-none",
            "gcc",
            &[
                "-mcmodel=kernel",
                "-mno-red-zone",
                "-mgeneral-regs-only",
                "-Wl,-Ttext=0xffffffff80000000",
            ],
        ),
        (X86_32, "gcc", &X86_32_FLAGS),
    ];
    for (triple, compiler, flags) in kernels {
        let archive = build(triple, Form::default())?;
        run(Command::new(compiler)
            .args(flags)
            .args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror"])
            .args([
                "-ffreestanding",
                "-nostdlib",
                "-static",
                "-fno-pie",
                "-no-pie",
            ])
            .args(["-fno-stack-protector", "-Wl,--gc-sections,-e,start"])
            .arg("-I")
            .arg(root().join("crates/kymo-c/include"))
            .arg(folder("tiny-c").join("link.c"))
            .arg(folder("tiny-c").join("runtime.c"))
            .arg(archive)
            .arg("-o")
            .arg(target().join("clib").join(format!("link-{triple}"))))?;
    }
    for triple in TARGETS {
        if !kernels.iter().any(|(linked, ..)| *linked == triple) {
            build(triple, Form::default())?;
        }
    }
    for triple in [
        "x86_64-unknown-none",
        RISCV64,
        "aarch64-unknown-none-softfloat",
    ] {
        let form = Form {
            one_cpu: false,
            nmi: true,
        };
        build(triple, form)?;
    }
    Ok(())
}

/// The compiler of kernels in C for RV32, in the folder of one; every warning is an error.
pub(crate) fn gcc(folder: &Path) -> Command {
    riscv_gcc(folder, ["-march=rv32imac_zicsr", "-mabi=ilp32"])
}

fn riscv_gcc(folder: &Path, processor: [&str; 2]) -> Command {
    let mut gcc = Command::new("riscv64-unknown-elf-gcc");
    gcc.args(processor)
        .arg("-mcmodel=medany")
        .args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror"])
        .args(["-ffreestanding", "-nostdlib", "-ffunction-sections"])
        .args(["-T", "link.ld", "-Wl,--gc-sections,--no-warn-rwx-segments"])
        .arg("-I")
        .arg(root().join("crates/kymo-c/include"))
        .current_dir(folder);
    gcc
}

/// Builds kernels/tiny-c, a kernel in C for RV32. Returns its ELF image.
pub(crate) fn tiny() -> Result<PathBuf> {
    tiny_of("tiny-c", "main.c")
}

/// Builds another program of kernels/tiny-c, which only records.
pub(crate) fn recorder() -> Result<PathBuf> {
    tiny_of("tiny-c-recorder", "recorder.c")
}

fn tiny_of(name: &str, main: &str) -> Result<PathBuf> {
    let archive = build(RISCV32, Form::ONE_CPU)?;
    let image = target().join("clib").join(name);
    let mut gcc = gcc(&folder("tiny-c"));
    run(gcc
        .args(["start.s", main])
        .arg(archive)
        .arg("-o")
        .arg(&image))?;
    Ok(image)
}

/// An image of kernels/firmware-c.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Firmware {
    /// Tasks of all kinds; a host reads the trace meanwhile.
    Work,
    /// [`Work`](Self::Work) with `KYMO_OFF`, and without the library.
    Off,
    /// Two tasks in a known order, and a flight recorder.
    TraceSched,
    /// Functions that take known parts of the time, sampled.
    Sample,
    /// What was recorded is shown on the console.
    Dump,
    /// What was recorded is sent in frames.
    Send,
    /// How much stack calls take.
    Stack,
}

/// Builds kernels/firmware-c, an RTOS in C for RV32. Returns its ELF image.
pub(crate) fn firmware(which: Firmware) -> Result<PathBuf> {
    let (name, app, define): (_, _, &[&str]) = match which {
        Firmware::Work => ("firmware-c", "apps/work.c", &[]),
        Firmware::Off => ("firmware-c-off", "apps/work.c", &["-DKYMO_OFF"]),
        Firmware::TraceSched => (
            "firmware-c-trace-sched",
            "apps/trace_sched.c",
            &["-DTRACE_SCHED"],
        ),
        Firmware::Sample => (
            "firmware-c-sample",
            "apps/sample.c",
            &["-DTRACE_SAMPLES=512"],
        ),
        Firmware::Dump => (
            "firmware-c-dump",
            "apps/dump.c",
            &["-DTRACE_SCHED", "-DSTACK_WORDS=1024"],
        ),
        Firmware::Send => (
            "firmware-c-send",
            "apps/send.c",
            &["-DTRACE_SEND", "-DSTACK_WORDS=1024"],
        ),
        Firmware::Stack => (
            "firmware-c-stack",
            "apps/stack.c",
            &["-DTRACE_SCHED", "-DTRACE_ROOM=32768", "-DSTACK_WORDS=2048"],
        ),
    };
    let image = target().join("clib").join(name);
    let mut gcc = gcc(&folder("firmware-c"));
    gcc.args(define).args(["-g", "-I", ".", app]);
    gcc.arg("-fno-omit-frame-pointer");
    gcc.args(["start.s", "main.c", "task.c", "sync.c", "channels.c"]);
    gcc.args(["trap.c", "port.c"]);
    if matches!(which, Firmware::Stack) {
        gcc.arg("apps/contexts.c");
    }
    if matches!(which, Firmware::Off) {
        fs::create_dir_all(target().join("clib"))?;
    } else {
        gcc.arg(build(RISCV32, Form::ONE_CPU)?);
    }
    run(gcc.args(["-lgcc", "-o"]).arg(&image))?;
    Ok(image)
}

/// Builds kernels/smp-c, a kernel in C for four harts of RV64 with programs in user mode. Returns
/// its ELF image.
pub(crate) fn smp() -> Result<PathBuf> {
    let archive = build(RISCV64, Form::default())?;
    let image = target().join("clib/smp-c");
    let mut gcc = riscv_gcc(&folder("smp-c"), ["-march=rv64imac_zicsr", "-mabi=lp64"]);
    gcc.args([
        "-g",
        "-fno-omit-frame-pointer",
        "start.s",
        "main.c",
        "thread.c",
    ]);
    gcc.args(["trap.c", "program.c", "port.c", "pmu.c"]);
    run(gcc.arg(archive).args(["-lgcc", "-o"]).arg(&image))?;
    Ok(image)
}

/// Builds kernels/threads-c, a kernel in C for one processor, for 32-bit x86. Returns its ELF
/// image.
pub(crate) fn threads_i386() -> Result<PathBuf> {
    let mut gcc = Command::new("gcc");
    gcc.args(X86_32_FLAGS).arg("pc.c");
    threads("i386", X86_32, Form::ONE_CPU, gcc)
}

/// Builds kernels/threads-c for x86-64. Its NMIs record, so it is linked with the library built
/// with `nmi`.
pub(crate) fn threads_x86_64() -> Result<PathBuf> {
    let form = Form {
        one_cpu: true,
        nmi: true,
    };
    let mut gcc = Command::new("gcc");
    gcc.args(["-m64", "-mno-red-zone", "-mgeneral-regs-only", "-DKYMO_NMI"]);
    gcc.arg("pc.c");
    threads("x86_64", "x86_64-unknown-none", form, gcc)
}

/// Builds kernels/threads-c for AArch64 with clang.
pub(crate) fn threads_aarch64() -> Result<PathBuf> {
    let clang = clang(
        "aarch64-none-elf",
        &["-mgeneral-regs-only", "-mstrict-align"],
    )?;
    threads(
        "aarch64",
        "aarch64-unknown-none-softfloat",
        Form::ONE_CPU,
        clang,
    )
}

/// Builds kernels/threads-c for RV64 in S-mode.
pub(crate) fn threads_riscv64() -> Result<PathBuf> {
    let mut gcc = Command::new("riscv64-unknown-elf-gcc");
    gcc.args(["-march=rv64imac_zicsr", "-mabi=lp64", "-mcmodel=medany"]);
    gcc.arg("-Wl,--no-warn-rwx-segments");
    threads("riscv64", RISCV64, Form::ONE_CPU, gcc)
}

/// Builds kernels/threads-c for a Cortex-M4 with clang.
pub(crate) fn threads_cortex_m4() -> Result<PathBuf> {
    let clang = clang(
        "thumbv7em-none-eabi",
        &["-mcpu=cortex-m4", "-mfloat-abi=soft"],
    )?;
    threads("cortex-m", "thumbv7em-none-eabi", Form::ONE_CPU, clang)
}

/// Builds kernels/threads-c for a Cortex-M0. Armv6-M has no compare-and-swap, so the library takes
/// another path.
pub(crate) fn threads_cortex_m0() -> Result<PathBuf> {
    let clang = clang(
        "thumbv6m-none-eabi",
        &["-mcpu=cortex-m0", "-mfloat-abi=soft"],
    )?;
    threads("cortex-m", "thumbv6m-none-eabi", Form::ONE_CPU, clang)
}

/// The compiler of kernels in C for ARM's processors.
fn clang(target: &str, flags: &[&str]) -> Result<Command> {
    setup::clang()?;
    let mut clang = Command::new("clang");
    clang.arg(format!("--target={target}")).args(flags);
    clang.args(["-fuse-ld=lld", "-mno-omit-leaf-frame-pointer"]);
    Ok(clang)
}

fn threads(processor: &str, triple: &str, form: Form, mut compiler: Command) -> Result<PathBuf> {
    let archive = build(triple, form)?;
    let image = target().join(match triple {
        "thumbv6m-none-eabi" => "clib/threads-c-cortex-m0".to_owned(),
        _ => format!("clib/threads-c-{processor}"),
    });
    compiler
        .args(["-std=c11", "-O2", "-g", "-Wall", "-Wextra", "-Werror"])
        .args(["-ffreestanding", "-nostdlib", "-static", "-fno-pie"])
        .args(["-fno-stack-protector", "-fno-omit-frame-pointer"])
        .args(["-ffunction-sections", "-Wl,--build-id=none,-no-pie"])
        .args(["-Wl,--gc-sections", "-T"])
        .arg(format!("{processor}/link.ld"))
        .args(["-I", ".", "-I", processor, "-I"])
        .arg(root().join("crates/kymo-c/include"))
        .arg(format!("{processor}/start.s"))
        .arg(format!("{processor}/machine.c"))
        .args(["main.c", "../tiny-c/runtime.c"])
        .current_dir(folder("threads-c"));
    run(compiler.arg(archive).arg("-o").arg(&image))?;
    Ok(image)
}
