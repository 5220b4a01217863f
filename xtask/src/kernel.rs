//! Builds the kernels, which are separate workspaces with their own targets.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::clib::{self, Firmware};
use crate::port_kernels;
use crate::process::{cargo, root, run, target};
use crate::setup::{AARCH64, RISCV32, RISCV64, THUMB6M, THUMB7M, Toolchain, X86_64};

/// All kernels by folder, and the programs that one of them carries.
pub(crate) const ALL: [&str; 10] = [
    "hello",
    "probes",
    "stress",
    "demo",
    "demo/user",
    "teaching",
    "guide",
    "cortex-m",
    ARCEOS,
    EMBASSY,
];

/// The application of ArceOS, and the library for it.
const ARCEOS: &str = "ports/arceos";
/// The application of Embassy.
const EMBASSY: &str = "ports/embassy/example";

/// Folder of the kernel of this name: below kernels/, but for those of ports.
pub(crate) fn folder(name: &str) -> PathBuf {
    if name.starts_with("ports/") {
        return root().join(name);
    }
    root().join("kernels").join(name)
}

/// Builds kernels/hello. Returns its ELF image.
pub(crate) fn hello(toolchain: Toolchain) -> Result<PathBuf> {
    Ok(build("hello", RISCV64, toolchain)?.join("hello"))
}

/// Builds kernels/hello with its tracepoints compiled out.
pub(crate) fn hello_compiled_out(toolchain: Toolchain) -> Result<PathBuf> {
    let built = target().join("compiled-out");
    let mut command = build_command(RISCV64, toolchain);
    run(command
        .current_dir(folder("hello"))
        .args(["--no-default-features", "--target", RISCV64])
        .arg("--target-dir")
        .arg(&built))?;
    Ok(built.join(RISCV64).join("release/hello"))
}

/// Builds kernels/demo. Returns its ELF image.
pub(crate) fn demo(triple: &str, toolchain: Toolchain) -> Result<PathBuf> {
    Ok(build("demo", triple, toolchain)?.join("demo"))
}

/// Builds kernels/demo with all debug information. Returns its ELF image.
pub(crate) fn demo_with_debug_information(toolchain: Toolchain) -> Result<PathBuf> {
    let built = target().join("kernels-with-debug-information");
    let mut command = build_command(RISCV64, toolchain);
    command
        .current_dir(folder("demo"))
        .env("CARGO_PROFILE_RELEASE_DEBUG", "full")
        .args(["--target", RISCV64, "--target-dir"]);
    run(command.arg(&built))?;
    Ok(built.join(RISCV64).join("release/demo"))
}

/// Builds kernels/teaching. Returns its ELF image.
fn teaching(toolchain: Toolchain) -> Result<PathBuf> {
    Ok(build("teaching", RISCV64, toolchain)?.join("teaching"))
}

/// Builds the application of ArceOS. Returns an ELF image that QEMU can load: ArceOS links its image
/// to virtual addresses only.
fn arceos(toolchain: Toolchain) -> Result<PathBuf> {
    let built = target().join("kernels");
    let mut command = build_command(RISCV64, toolchain);
    if toolchain == Toolchain::Debian {
        command.env("CARGO_UNSTABLE_BUILD_STD", "core,alloc");
    }
    command
        .current_dir(folder(ARCEOS))
        .args(["--locked", "--target", RISCV64, "--target-dir"]);
    run(command.arg(&built))?;
    let linked = built.join(RISCV64).join("release/arceos-example");
    let image = linked.with_extension("elf");
    let mut objcopy = Command::new("riscv64-unknown-elf-objcopy");
    objcopy.args(["--change-section-lma", "*-0xffffffc000000000"]);
    run(objcopy.arg(linked).arg(&image))?;
    Ok(image)
}

/// Builds kernels/guide, the code of the guide.
pub(crate) fn guide(toolchain: Toolchain) -> Result<()> {
    [RISCV64, RISCV32]
        .into_iter()
        .try_for_each(|triple| build("guide", triple, toolchain).map(drop))
}

/// An image, by the variable of the environment by which the end-to-end tests find it.
type Image<Build> = (&'static str, Build);
/// Builds an image with a tool chain.
type Build = fn(Toolchain) -> Result<PathBuf>;
/// Builds an image for which there is one compiler only.
type Link = fn() -> Result<PathBuf>;

/// Images of Rust's kernels.
const IN_RUST: [Image<Build>; 20] = [
    ("KYMO_HELLO", hello),
    ("KYMO_DEMO_RISCV64", |with| demo(RISCV64, with)),
    ("KYMO_DEMO_X86_64", |with| demo(X86_64, with)),
    ("KYMO_DEMO_AARCH64", |with| demo(AARCH64, with)),
    ("KYMO_TEACHING", teaching),
    ("KYMO_DEMO_WITHOUT_TRACE_RISCV64", |with| {
        demo_without_trace(RISCV64, with)
    }),
    ("KYMO_DEMO_WITHOUT_TRACE_X86_64", |with| {
        demo_without_trace(X86_64, with)
    }),
    ("KYMO_DEMO_WITHOUT_TRACE_AARCH64", |with| {
        demo_without_trace(AARCH64, with)
    }),
    ("KYMO_PROBES_RISCV64", |with| probes(RISCV64, with)),
    ("KYMO_PROBES_RISCV32", |with| probes(RISCV32, with)),
    ("KYMO_MEASURE_RISCV64", |with| measure(RISCV64, with)),
    ("KYMO_MEASURE_RISCV32", |with| measure(RISCV32, with)),
    ("KYMO_MEASURE_AARCH64", |with| measure(AARCH64, with)),
    ("KYMO_PORT_ARCEOS", arceos),
    ("KYMO_PORT_EMBASSY", |with| {
        Ok(build(EMBASSY, THUMB7M, with)?.join("embassy-example"))
    }),
    ("KYMO_CORTEX_M_THUMBV7M", |with| cortex_m(THUMB7M, with)),
    ("KYMO_CORTEX_M_THUMBV6M", |with| cortex_m(THUMB6M, with)),
    ("KYMO_STRESS_RISCV64", |with| stress(RISCV64, with)),
    ("KYMO_STRESS_RISCV32", |with| stress(RISCV32, with)),
    ("KYMO_STRESS_X86_64", |with| stress(X86_64, with)),
];

/// Images of kernels in C, which are linked to the library.
const IN_C: &[Image<Link>] = &[
    ("KYMO_TINY_C", clib::tiny),
    ("KYMO_TINY_C_RECORDER", clib::recorder),
    ("KYMO_FIRMWARE_C", || clib::firmware(Firmware::Work)),
    ("KYMO_FIRMWARE_C_OFF", || clib::firmware(Firmware::Off)),
    ("KYMO_FIRMWARE_C_SEND", || clib::firmware(Firmware::Send)),
    ("KYMO_FIRMWARE_C_STACK", || clib::firmware(Firmware::Stack)),
    ("KYMO_FIRMWARE_C_DUMP", || clib::firmware(Firmware::Dump)),
    ("KYMO_FIRMWARE_C_SAMPLE", || {
        clib::firmware(Firmware::Sample)
    }),
    ("KYMO_FIRMWARE_C_TRACE_SCHED", || {
        clib::firmware(Firmware::TraceSched)
    }),
    ("KYMO_SMP_C", clib::smp),
    ("KYMO_THREADS_C_I386", clib::threads_i386),
    ("KYMO_THREADS_C_X86_64", clib::threads_x86_64),
    ("KYMO_THREADS_C_AARCH64", clib::threads_aarch64),
    ("KYMO_THREADS_C_RISCV64", clib::threads_riscv64),
    ("KYMO_THREADS_C_CORTEX_M4", clib::threads_cortex_m4),
    ("KYMO_THREADS_C_CORTEX_M0", clib::threads_cortex_m0),
    ("KYMO_PORT_FREERTOS", port_kernels::freertos),
    ("KYMO_PORT_ZEPHYR", || port_kernels::zephyr(false)),
    ("KYMO_PORT_ZEPHYR_LATER", || port_kernels::zephyr(true)),
];

/// Those that run on this machine's processor, if it is x86-64.
const ON_HOST: [Image<Link>; 2] = [
    ("KYMO_HOST_PROBES", host_probes),
    ("KYMO_HOST_MEASURE", host_measure),
];

/// Builds the images of Rust's kernels, and those for this machine. Returns each with its name.
pub(crate) fn images_in_rust(toolchain: Toolchain) -> Result<Vec<Image<PathBuf>>> {
    let kernels = IN_RUST
        .into_iter()
        .map(|(name, build)| Ok((name, build(toolchain)?)));
    let host = ON_HOST.into_iter().filter(|_| IS_X86_64);
    let host = host.map(|(name, build)| Ok((name, build()?)));
    kernels.chain(host).collect()
}

/// Builds the images of kernels in C. Returns each with its name.
pub(crate) fn images_in_c() -> Result<Vec<Image<PathBuf>>> {
    let built = IN_C
        .iter()
        .copied()
        .map(|(name, build)| Ok((name, build()?)));
    built.collect()
}

/// Builds all images. Returns each with its name.
pub(crate) fn images(toolchain: Toolchain) -> Result<Vec<Image<PathBuf>>> {
    Ok([images_in_rust(toolchain)?, images_in_c()?].concat())
}

/// Builds the image of this name, if there is one.
pub(crate) fn image(toolchain: Toolchain, name: &str) -> Result<Option<PathBuf>> {
    let in_rust = IN_RUST.into_iter().find(|(known, _)| *known == name);
    if let Some((_, build)) = in_rust {
        return build(toolchain).map(Some);
    }
    let host = ON_HOST.into_iter().filter(|_| IS_X86_64);
    let found = IN_C
        .iter()
        .copied()
        .chain(host)
        .find(|(known, _)| *known == name);
    found.map(|(_, build)| build()).transpose()
}

const IS_X86_64: bool = cfg!(target_arch = "x86_64");

fn probes(triple: &str, toolchain: Toolchain) -> Result<PathBuf> {
    Ok(build("probes", triple, toolchain)?.join("libkymo_probes.a"))
}

fn stress(triple: &str, toolchain: Toolchain) -> Result<PathBuf> {
    Ok(build("stress", triple, toolchain)?.join("stress"))
}

fn cortex_m(triple: &str, toolchain: Toolchain) -> Result<PathBuf> {
    Ok(build("cortex-m", triple, toolchain)?.join("cortex-m-probes"))
}

/// Builds kernels/probes for this machine's processor.
fn host_probes() -> Result<PathBuf> {
    let built = target().join("host-probes");
    run(cargo(&["build", "--release", "--target-dir"])
        .arg(&built)
        .current_dir(folder("probes")))?;
    Ok(built.join("release/libkymo_probes.a"))
}

/// Builds kernels/demo with its tracepoints compiled out.
pub(crate) fn demo_without_trace(triple: &str, toolchain: Toolchain) -> Result<PathBuf> {
    let built = target().join("kernels-without-trace");
    let mut command = build_command(triple, toolchain);
    command.current_dir(folder("demo")).args([
        "--no-default-features",
        "--target",
        triple,
        "--target-dir",
    ]);
    run(command.arg(&built))?;
    Ok(built.join(triple).join("release/demo"))
}

const MEASURE: [&str; 4] = ["--features", "measure", "--bin", "measure"];

/// Builds the kernel that runs the probes, without replacing the archive.
fn measure(triple: &str, toolchain: Toolchain) -> Result<PathBuf> {
    let built = target().join("kernels");
    let mut command = build_command(triple, toolchain);
    run(command
        .current_dir(folder("probes"))
        .args(MEASURE)
        .args(["--target", triple, "--target-dir"])
        .arg(&built))?;
    Ok(built.join(triple).join("release/measure"))
}

/// Builds the program that runs the probes on this machine's processor.
fn host_measure() -> Result<PathBuf> {
    let built = target().join("host-probes");
    run(cargo(&["build", "--release"])
        .args(MEASURE)
        .arg("--target-dir")
        .arg(&built)
        .current_dir(folder("probes")))?;
    Ok(built.join("release/measure"))
}

/// Builds a kernel. Returns the folder of its artifacts.
fn build(name: &str, triple: &str, toolchain: Toolchain) -> Result<PathBuf> {
    let built = target().join("kernels");
    let mut command = build_command(triple, toolchain);
    run(command
        .current_dir(folder(name))
        .args(["--target", triple, "--target-dir"])
        .arg(&built))?;
    Ok(built.join(triple).join("release"))
}

/// Lints a kernel with rustup's tool chain, for each of its targets.
pub(crate) fn clippy(name: &str) -> Result<()> {
    let triples: &[&str] = match name {
        "stress" => &[RISCV64, RISCV32, X86_64],
        "probes" => &[RISCV64, RISCV32, AARCH64],
        "guide" => &[RISCV64, RISCV32],
        "cortex-m" => &[THUMB7M, THUMB6M],
        EMBASSY => &[THUMB7M],
        "demo" | "demo/user" => &[RISCV64, X86_64, AARCH64],
        _ => &[RISCV64],
    };
    triples.iter().try_for_each(|triple| {
        let mut command = cargo(&["clippy", "--release", "--target", triple, "--target-dir"]);
        run(command
            .current_dir(folder(name))
            .arg(target().join("kernels"))
            .args(["--all-features", "--", "-Dwarnings"]))
    })
}

/// The `cargo build --release` command for a kernel, without its folder.
pub(crate) fn build_command(triple: &str, toolchain: Toolchain) -> Command {
    let mut command = bare_command(triple, toolchain);
    command.arg("--release");
    command
}

/// The `cargo build` command for a target without an operating system, without a profile.
pub(crate) fn bare_command(triple: &str, toolchain: Toolchain) -> Command {
    const BUILD: [&str; 1] = ["build"];
    match toolchain {
        Toolchain::Rustup => cargo(&BUILD),
        Toolchain::Debian => {
            // rustup's environment variables would redirect Debian's cargo to rustup's tools.
            let mut command = Command::new("/usr/bin/cargo");
            for variable in ["RUSTUP_TOOLCHAIN", "RUSTC_WRAPPER", "CARGO"] {
                command.env_remove(variable);
            }
            // There is no compiled `core` for the target, so it is built, too, which stable cargo
            // does only with RUSTC_BOOTSTRAP. Set by the environment, so that a kernel's build
            // script can build its programs.
            command
                .env("RUSTC", "/usr/bin/rustc")
                .env("RUSTC_BOOTSTRAP", "1")
                .env("CARGO_UNSTABLE_BUILD_STD", "core")
                .args(BUILD);
            command.env(
                format!(
                    "CARGO_TARGET_{}_LINKER",
                    triple.to_uppercase().replace('-', "_")
                ),
                "ld.lld-22",
            );
            command
        }
    }
}

/// [`build_command`] as words, for programs that build kernels themselves; `env` sets the command's
/// environment variables.
pub(crate) fn build_words(triple: &str, toolchain: Toolchain) -> Vec<OsString> {
    let command = build_command(triple, toolchain);
    let mut words: Vec<OsString> = vec!["env".into()];
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => {
                let mut set = name.to_owned();
                set.push("=");
                set.push(value);
                words.push(set);
            }
            None => words
                .splice(1..1, ["-u".into(), name.to_owned()])
                .for_each(drop),
        }
    }
    words.push(command.get_program().to_owned());
    words.extend(command.get_args().map(OsString::from));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_gets_the_settings_of_debians_compiler_as_words() {
        let words = build_words(RISCV64, Toolchain::Debian);
        let words: Vec<String> = words
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let line = words.join(" ");
        assert!(line.starts_with("env -u "), "{line}");
        assert!(line.contains(" -u RUSTUP_TOOLCHAIN "), "{line}");
        assert!(line.contains(" RUSTC=/usr/bin/rustc "), "{line}");
        assert!(line.ends_with(" /usr/bin/cargo build --release"), "{line}");
    }
}
