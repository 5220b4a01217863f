//! `cargo xtask test`: everything that must hold before a commit; CI runs the same.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::process::{cargo, run as run_command, target};
use crate::setup::{self, Toolchain};
use crate::step::Steps;
use crate::{
    Usage, bench, bench_ctf, big_trace, compiled_out, conformance, export, fuzz, kernel, mistakes,
    overhead, package, rules, stress, tracers,
};

/// In the order in which they run: what fails fast comes first.
pub(crate) const STEPS: [&str; 23] = [
    "setup",
    "fmt",
    "rules",
    "clippy",
    "unit",
    "conformance",
    "doc",
    "kernels",
    "cli",
    "package",
    "big-trace",
    "export",
    "models",
    "mistakes",
    "cost",
    "bench",
    "compiled-out",
    "overhead",
    "stress",
    "e2e",
    "babeltrace2",
    "tracers",
    "fuzz",
];

/// How the name of one file of the end-to-end tests begins.
const ONE_FILE: &str = "e2e:";

/// Runs the steps with these names, or all; stops at the first that fails. `e2e:FILE` is one file
/// of the end-to-end tests.
pub(crate) fn run(only: &[&str]) -> Result<()> {
    let is_step = |name: &str| STEPS.contains(&name) || name.starts_with(ONE_FILE);
    if let Some(unknown) = only.iter().find(|name| !is_step(name)) {
        bail!(Usage(format!(
            "There is no step \"{unknown}\". The steps are: {}.",
            STEPS.join(" ")
        )));
    }
    let mut steps = Steps::default();
    for name in STEPS {
        if only.is_empty() || only.contains(&name) {
            steps.run(name, || step(name))?;
        }
    }
    for name in only.iter().filter(|name| name.starts_with(ONE_FILE)) {
        steps.run(name, || step(name))?;
    }
    Ok(())
}

fn step(name: &str) -> Result<()> {
    match name {
        "setup" => setup::run().map(drop),
        "fmt" => {
            run_command(&mut cargo(&["fmt", "--all", "--check"]))?;
            run_command(cargo(&["fmt", "--check"]).current_dir(bench::folder()))?;
            kernel::ALL.into_iter().try_for_each(|name| {
                run_command(cargo(&["fmt", "--check"]).current_dir(kernel::folder(name)))
            })
        }
        "clippy" => {
            run_command(&mut cargo(&[
                "clippy",
                "--workspace",
                "--all-targets",
                "--all-features",
                "--",
                "-Dwarnings",
            ]))?;
            // With all features the plugin is that for QEMU 9.2 and later.
            run_command(&mut cargo(&[
                "clippy",
                "-p",
                "kymo-cost",
                "--",
                "-Dwarnings",
            ]))?;
            // The library's other feature sets: a kernel's, and tracepoints compiled out.
            for features in [
                &["--no-default-features"][..],
                &["--no-default-features", "--features", "std"],
                &[],
            ] {
                let mut clippy = cargo(&["clippy", "-p", "kymo"]);
                run_command(clippy.args(features).args(["--", "-Dwarnings"]))?;
            }
            mistakes::clippy()?;
            bench::clippy()?;
            match setup::toolchain()? {
                Toolchain::Rustup => kernel::ALL.into_iter().try_for_each(kernel::clippy),
                Toolchain::Debian => {
                    println!("The kernels are not linted: Debian's compiler comes without clippy.");
                    Ok(())
                }
            }
        }
        "unit" => {
            run_command(&mut cargo(&["test", "--all-features"]))?;
            // Compiled out: fields are checked and not evaluated.
            for tests in [&["--doc"][..], &["--test", "evaluation"]] {
                run_command(
                    cargo(&[
                        "test",
                        "-p",
                        "kymo",
                        "--no-default-features",
                        "--features",
                        "std",
                    ])
                    .args(tests),
                )?;
            }
            unit_32_bits()
        }
        "conformance" => conformance::run(),
        "doc" => run_command(
            cargo(&["doc", "--workspace", "--no-deps", "--all-features"])
                .env("RUSTDOCFLAGS", "-Dwarnings"),
        ),
        "kernels" => kernels().map(drop),
        "cli" => cli().map(drop),
        "rules" => rules::run(),
        "package" => package::run(),
        "big-trace" => big_trace::short(),
        "export" => export::run(),
        "models" => mistakes::models(0),
        // Those of their tests that are no models are in `unit`.
        "mistakes" => mistakes::run(&[], mistakes::Tests::Passed),
        // The one test whose figures are to be read.
        "cost" => {
            run_command(e2e()?.args(["--test", "cost", "--", "--include-ignored", "--nocapture"]))
        }
        "bench" => {
            bench::trace(bench::Form::Short)?;
            bench_ctf::run(bench_ctf::Form::Short)
        }
        "compiled-out" => ["hello", "demo"]
            .into_iter()
            .try_for_each(compiled_out::run),
        "overhead" => overhead::run(false),
        "stress" => stress::run(10_000_000),
        // One at a time: each has a machine of four harts of its own.
        "e2e" => run_command(e2e()?.args([
            "--no-fail-fast",
            "--",
            "--include-ignored",
            "--test-threads=1",
        ])),
        "babeltrace2" => {
            let packages = [
                "test",
                "--all-features",
                "-p",
                "kymo-ctf",
                "-p",
                "kymo-cli",
                "--",
                "--ignored",
            ];
            // Those that need traces are in `tracers`.
            let others = [
                "--skip",
                "values_are_the_same",
                "--skip",
                "lines_of_tracers_are_the_same",
            ];
            run_command(&mut cargo(&[&packages[..], &others].concat()))
        }
        "tracers" => tracers::run(),
        "fuzz" => fuzz::ctf(20, false),
        other => match other.strip_prefix(ONE_FILE) {
            Some(file) => run_command(e2e()?.args([
                "--test",
                file,
                "--",
                "--include-ignored",
                "--test-threads=1",
            ])),
            None => bail!("step {other} has no command"),
        },
    }
}

/// Builds the `kymo` command, and the plugin beside it. Returns the command's path.
pub(crate) fn cli() -> Result<PathBuf> {
    run_command(&mut cargo(&[
        "build",
        "--release",
        "-p",
        "kymo-cli",
        "-p",
        "kymo-cost",
    ]))?;
    Ok(target().join("release/kymo"))
}

/// The ring's tests on a 32-bit machine, which an x86-64 with Linux is too.
fn unit_32_bits() -> Result<()> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux"))
        || !setup::add_targets(&[setup::I686])
    {
        println!(
            "NOT RUN: the ring's tests on a 32-bit machine, for which an x86-64 with Linux and the \
             target {} are needed.",
            setup::I686
        );
        return Ok(());
    }
    let mut command = cargo(&["test", "-p", "kymo", "--lib", "--target", setup::I686]);
    run_command(command.env("CARGO_TARGET_I686_UNKNOWN_LINUX_MUSL_LINKER", "rust-lld"))
}

/// Builds the kernels. Returns what they made; see [`kernel::all`].
pub(crate) fn kernels() -> Result<Vec<(&'static str, PathBuf)>> {
    kernel::all(setup::toolchain()?)
}

/// The end-to-end tests, with what they need built: they find it by these variables.
pub(crate) fn e2e() -> Result<Command> {
    let kernels = kernels()?;
    let mut command = cargo(&["test", "-p", "kymo-e2e", "--release"]);
    command
        .envs(kernels)
        .env("KYMO_BIN", cli()?)
        .env("KYMO_COST_PLUGIN", target().join("release/libkymo_cost.so"));
    if cfg!(target_arch = "x86_64") {
        command
            .env("KYMO_HOST_PROBES", kernel::host_probes()?)
            .env("KYMO_HOST_MEASURE", kernel::host_measure()?);
    }
    Ok(command)
}

/// The long form of the end-to-end tests in tests/e2e/tests/kill.rs: the same, more often.
pub(crate) fn kill(count: u32) -> Result<()> {
    setup::run()?;
    run_command(e2e()?.env("KYMO_KILLS", count.to_string()).args([
        "--test",
        "kill",
        "--",
        "--include-ignored",
        "--nocapture",
    ]))
}
