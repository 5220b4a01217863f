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

/// Builds the kernels whose environment variables are wanted. Returns each image with the variable,
/// by which the end-to-end tests find it.
pub(crate) fn images(
    toolchain: Toolchain,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<(&'static str, PathBuf)>> {
    let probes =
        |target| build("probes", target, toolchain).map(|folder| folder.join("libkymo_probes.a"));
    let stress = |target| build("stress", target, toolchain).map(|folder| folder.join("stress"));
    let cortex_m =
        |target| build("cortex-m", target, toolchain).map(|folder| folder.join("cortex-m-probes"));
    type Image<'a> = (&'static str, &'a dyn Fn() -> Result<PathBuf>);
    let images: [Image<'_>; 28] = [
        ("KYMO_HELLO", &|| hello(toolchain)),
        ("KYMO_DEMO_RISCV64", &|| demo(RISCV64, toolchain)),
        ("KYMO_DEMO_X86_64", &|| demo(X86_64, toolchain)),
        ("KYMO_DEMO_AARCH64", &|| demo(AARCH64, toolchain)),
        ("KYMO_TEACHING", &|| teaching(toolchain)),
        ("KYMO_DEMO_WITHOUT_TRACE_RISCV64", &|| {
            demo_without_trace(RISCV64, toolchain)
        }),
        ("KYMO_DEMO_WITHOUT_TRACE_X86_64", &|| {
            demo_without_trace(X86_64, toolchain)
        }),
        ("KYMO_DEMO_WITHOUT_TRACE_AARCH64", &|| {
            demo_without_trace(AARCH64, toolchain)
        }),
        ("KYMO_PROBES_RISCV64", &|| probes(RISCV64)),
        ("KYMO_PROBES_RISCV32", &|| probes(RISCV32)),
        ("KYMO_MEASURE_RISCV64", &|| measure(RISCV64, toolchain)),
        ("KYMO_MEASURE_RISCV32", &|| measure(RISCV32, toolchain)),
        ("KYMO_MEASURE_AARCH64", &|| measure(AARCH64, toolchain)),
        ("KYMO_PORT_ARCEOS", &|| arceos(toolchain)),
        ("KYMO_PORT_EMBASSY", &|| {
            Ok(build(EMBASSY, THUMB7M, toolchain)?.join("embassy-example"))
        }),
        ("KYMO_CORTEX_M_THUMBV7M", &|| cortex_m(THUMB7M)),
        ("KYMO_CORTEX_M_THUMBV6M", &|| cortex_m(THUMB6M)),
        ("KYMO_TINY_C", &clib::tiny),
        ("KYMO_TINY_C_RECORDER", &clib::recorder),
        ("KYMO_FIRMWARE_C", &|| clib::firmware(Firmware::Work)),
        ("KYMO_FIRMWARE_C_OFF", &|| clib::firmware(Firmware::Off)),
        ("KYMO_FIRMWARE_C_TRACE_SCHED", &|| {
            clib::firmware(Firmware::TraceSched)
        }),
        ("KYMO_PORT_FREERTOS", &port_kernels::freertos),
        ("KYMO_PORT_ZEPHYR", &|| port_kernels::zephyr(false)),
        ("KYMO_PORT_ZEPHYR_LATER", &|| port_kernels::zephyr(true)),
        ("KYMO_STRESS_RISCV64", &|| stress(RISCV64)),
        ("KYMO_STRESS_RISCV32", &|| stress(RISCV32)),
        ("KYMO_STRESS_X86_64", &|| stress(X86_64)),
    ];
    images
        .into_iter()
        .filter(|(variable, _)| is_wanted(variable))
        .map(|(variable, build)| Ok((variable, build()?)))
        .collect()
}

/// Builds kernels/probes for this machine's processor.
pub(crate) fn host_probes() -> Result<PathBuf> {
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
pub(crate) fn host_measure() -> Result<PathBuf> {
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
