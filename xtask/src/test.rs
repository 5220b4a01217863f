//! `cargo xtask test`: all checks that must pass before a commit; CI runs all of them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::bench::{count, samples, trace, verbs};
use crate::clib;
use crate::failure::Usage;
use crate::linux_guest::Guest;
use crate::process::{cargo, program, root, run as run_command, target};
use crate::setup::{self, Toolchain};
use crate::step::Steps;
use crate::{
    compiled_out, conformance, export, flame, fuzz, kernel, linux_guest, miri, mistakes, models,
    overhead, package, ports, rules, stress, tracers,
};

/// A step of `cargo xtask test`.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    /// Description for the help.
    what: &'static str,
    run: fn() -> Result<()>,
    /// The command with the long form, for which CI has no time.
    long: Option<&'static str>,
}

const fn step(name: &'static str, what: &'static str, run: fn() -> Result<()>) -> Step {
    Step {
        name,
        what,
        run,
        long: None,
    }
}

impl Step {
    const fn long(self, command: &'static str) -> Step {
        Step {
            long: Some(command),
            ..self
        }
    }
}

/// All steps, in the order in which they run: those that fail fast come first.
pub(crate) const STEPS: [Step; 27] = [
    step("setup", "finds the tools, installs what is missing", || {
        setup::run().map(drop)
    }),
    step("fmt", "formatting, of the kernels too", fmt),
    step(
        "rules",
        "every rule of docs/rules.md has a test, and a mistake for it",
        rules::run,
    )
    .long("cargo xtask rules"),
    step("ports", "counts the lines that each port adds", ports::run),
    step("clippy", "lints as errors, of the kernels too", clippy),
    step("unit", "cargo test, with all features and with none", unit),
    step(
        "conformance",
        "the specifications of CTF, case by case",
        conformance::run,
    ),
    step("doc", "the API documentation, warnings as errors", doc),
    step("kernels", "builds the kernels, for all processors", || {
        kernels().map(drop)
    }),
    step("cli", "builds kymo and QEMU's plugin", || cli().map(drop)),
    step(
        "package",
        "each crate compiles from its package, and installs",
        package::run,
    ),
    step(
        "big-trace",
        "memory and answers of the verbs on known traces",
        short_traces,
    )
    .long("cargo xtask big-trace"),
    step("export", "other tools read what is exported", export::run),
    step(
        "profiles",
        "other tools read profiles; flame graphs in a browser",
        export::profiles,
    ),
    step(
        "program",
        "an ordinary program samples itself, and its stacks are whole",
        flame::check,
    )
    .long("cargo xtask flame"),
    step("models", "the ring under a model checker", || {
        models::run(0)
    })
    .long("cargo xtask models"),
    step("miri", "few tests of the ring under Miri", miri::short).long("cargo xtask miri"),
    // Their tests that are not models are in `unit`.
    step(
        "mistakes",
        "a third of the deliberate mistakes: tests notice them",
        || mistakes::run(&[], mistakes::Tests::Passed),
    )
    .long("cargo xtask mistakes"),
    step("cost", "counts the instructions of an event", cost),
    step("bench", "the short forms of the benchmarks", bench)
        .long("cargo xtask bench trace, cargo xtask bench verbs, cargo xtask bench samples"),
    step(
        "compiled-out",
        "tracepoints that are compiled out leave nothing",
        || {
            ["hello", "demo"]
                .into_iter()
                .try_for_each(compiled_out::run)
        },
    ),
    step(
        "overhead",
        "counts what tracing costs a whole kernel",
        || overhead::run(false),
    ),
    step("stress", "signals nest writers while readers drain", || {
        stress::run(10_000_000)
    })
    .long("cargo xtask stress"),
    step("e2e", "kernels under QEMU, and what users see", all_e2e)
        .long("cargo xtask kill-test, cargo xtask stress qemu"),
    step(
        "babeltrace2",
        "the reader of traces beside babeltrace2",
        babeltrace2,
    ),
    step("tracers", "traces by other tracers", tracers::run),
    step(
        "fuzz",
        "each parser of foreign bytes, and damaged memory, for 10 s",
        || fuzz::ctf(10, false),
    )
    .long("cargo xtask fuzz ctf --minutes 30"),
];

/// Prefix of the name of one file of the end-to-end tests.
const ONE_FILE: &str = "e2e:";

/// The steps for the help, one per line.
pub(crate) fn help() -> String {
    let mut help = "Steps, in their order:\n".to_owned();
    for Step {
        name, what, long, ..
    } in &STEPS
    {
        help.push_str(&format!("  {name:<12} {what}"));
        if let Some(long) = long {
            help.push_str(&format!("; long form: {long}"));
        }
        help.push('\n');
    }
    help.push_str("\nExample: cargo xtask test unit clippy e2e:demo");
    help
}

/// Checks the name of a step on the command line.
pub(crate) fn step_name(name: &str) -> Result<String, String> {
    if name.starts_with(ONE_FILE) || STEPS.iter().any(|step| step.name == name) {
        return Ok(name.to_owned());
    }
    let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
    Err(format!("no such step; the steps are: {}", names.join(" ")))
}

/// Runs the steps with these names, or all; stops at the first that fails. `e2e:FILE` is one file
/// of the end-to-end tests, `e2e:FILE::TEST` one test of it.
pub(crate) fn run(only: &[String]) -> Result<()> {
    let mut steps = Steps::default();
    for step in &STEPS {
        if only.is_empty() || only.iter().any(|name| name == step.name) {
            steps.run(step.name, step.run)?;
        }
    }
    for name in only {
        if let Some(file) = name.strip_prefix(ONE_FILE) {
            steps.run(name, || one_e2e(file))?;
        }
    }
    Ok(())
}

fn fmt() -> Result<()> {
    run_command(&mut cargo(&["fmt", "--all", "--check"]))?;
    for folder in [trace::folder(), count::folder()] {
        run_command(cargo(&["fmt", "--check"]).current_dir(folder))?;
    }
    kernel::ALL.into_iter().try_for_each(|name| {
        run_command(cargo(&["fmt", "--check"]).current_dir(kernel::folder(name)))
    })
}

fn clippy() -> Result<()> {
    run_command(&mut cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--all-features",
        "--",
        "-Dwarnings",
    ]))?;
    // With all features, the plugin is built for QEMU 9.2 and later.
    run_command(&mut cargo(&[
        "clippy",
        "-p",
        "kymo-cost",
        "--",
        "-Dwarnings",
    ]))?;
    // The library's other feature sets: a kernel's, and tracepoints compiled out.
    for features in [&["--no-default-features"][..], &[]] {
        let mut clippy = cargo(&["clippy", "-p", "kymo"]);
        run_command(clippy.args(features).args(["--", "-Dwarnings"]))?;
    }
    // Only the writer of trace directories, as in a program that records itself.
    let mut clippy = cargo(&["clippy", "-p", "kymo-capture", "--no-default-features"]);
    run_command(clippy.args(["--", "-Dwarnings"]))?;
    models::clippy()?;
    trace::clippy()?;
    samples::clippy()?;
    count::clippy()?;
    match setup::toolchain()? {
        Toolchain::Rustup => kernel::ALL.into_iter().try_for_each(kernel::clippy),
        Toolchain::Debian => {
            println!("The kernels are not linted: Debian's compiler comes without clippy.");
            Ok(())
        }
    }
}

fn unit() -> Result<()> {
    run_command(&mut cargo(&["test", "--all-features"]))?;
    // Compiled out: calls do nothing, and fields are checked but not evaluated.
    run_command(&mut cargo(&[
        "test",
        "-p",
        "kymo",
        "--no-default-features",
        "--test",
        "compiled_out",
    ]))?;
    run_command(&mut cargo(&[
        "test",
        "-p",
        "kymo-hosted",
        "--no-default-features",
    ]))?;
    unit_32_bits()
}

fn doc() -> Result<()> {
    run_command(
        cargo(&["doc", "--workspace", "--no-deps", "--all-features"])
            .env("RUSTDOCFLAGS", "-Dwarnings"),
    )
}

/// Prints the figures.
fn cost() -> Result<()> {
    run_command(e2e()?.args(["--test", "cost", "--", "--include-ignored", "--nocapture"]))
}

fn bench() -> Result<()> {
    trace::measure_all(trace::Form::Short)?;
    samples::measure(samples::Form::Short)?;
    verbs::run(verbs::Form::Short, &verbs::Choice::default())
}

/// Runs one test at a time, as each starts a machine of four harts.
fn all_e2e() -> Result<()> {
    run_command(e2e()?.args([
        "--no-fail-fast",
        "--",
        "--include-ignored",
        "--test-threads=1",
    ]))
}

/// Runs a file of the end-to-end tests, or with `FILE::TEST` one of its tests.
fn one_e2e(name: &str) -> Result<()> {
    let (file, test) = match name.split_once("::") {
        Some((file, test)) => (file, Some(test)),
        None => (name, None),
    };
    let source = e2e_source(file)?;
    if let Some(test) = test.filter(|test| !source.contains(&function_of(test))) {
        bail!(Usage(format!("e2e:{file} has no test \"{test}\".")));
    }
    let source = test.map_or(source.clone(), |test| without_other_tests(&source, test));
    // Kernels take long to build: only those that the source names.
    let mut command = e2e_with(|variable| {
        let by_function = match variable {
            "KYMO_HELLO" => "hello()",
            _ if variable.starts_with("KYMO_DEMO_WITHOUT_TRACE") => "kernel_without_trace()",
            _ if variable.starts_with("KYMO_DEMO") => "kymo_e2e::demo::",
            _ => variable,
        };
        source.contains(by_function)
    })?;
    command.args([
        "--test",
        file,
        "--",
        "--include-ignored",
        "--test-threads=1",
    ]);
    if let Some(test) = test {
        command.args(["--exact", test]);
    }
    run_command(&mut command)
}

/// The source of one file of the end-to-end tests, and of its modules.
fn e2e_source(file: &str) -> Result<String> {
    let folder = root().join("tests/e2e/tests");
    let mut files = vec![folder.join(file).with_extension("rs")];
    if let Ok(entries) = fs::read_dir(folder.join(file)) {
        files = entries
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<_>>()?;
    }
    let mut source = String::new();
    for file in files {
        let text = fs::read_to_string(&file);
        source.push_str(&text.with_context(|| format!("cannot read {}", file.display()))?);
    }
    Ok(source)
}

/// How a test's function begins.
fn function_of(test: &str) -> String {
    let name = test.rsplit("::").next().unwrap_or(test);
    format!("fn {name}(")
}

/// The source without the functions of all tests but one.
fn without_other_tests(source: &str, test: &str) -> String {
    let mut parts = source.split("\n#[test]\n");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (function, behind) = part.split_once("\n}\n").unwrap_or((part, ""));
        if function.contains(&function_of(test)) {
            kept.push_str(function);
        }
        kept.push_str(behind);
    }
    kept
}

fn babeltrace2() -> Result<()> {
    let packages = [
        "test",
        "--all-features",
        "-p",
        "kymo-ctf",
        "-p",
        "kymo-cli",
        "-p",
        "kymo-c",
        "--",
        "--ignored",
    ];
    // Tests that need traces are in `tracers`.
    let others = [
        "--skip",
        "values_are_the_same",
        "--skip",
        "lines_of_tracers_are_the_same",
        "--skip",
        "chains_of_perf_are_drawn",
    ];
    run_command(&mut cargo(&[&packages[..], &others].concat()))
}

/// Runs [`big_trace`]'s checks on two short traces.
fn short_traces() -> Result<()> {
    if !cfg!(target_os = "linux") {
        println!("NOT RUN: the memory that a command takes is measured on Linux only.");
        return Ok(());
    }
    let kymo = cli()?;
    let mut compare = program("kymo-big-trace")?;
    compare.arg("compare").arg("--kymo").arg(kymo);
    run_command(
        compare
            .arg("--folder")
            .arg(target().join("big-trace/short")),
    )
}

/// Checks the verbs on a trace of this size with known counts.
pub(crate) fn big_trace(megabytes: u64) -> Result<()> {
    let kymo = cli()?;
    let name = megabytes.to_string();
    let mut read = program("kymo-big-trace")?;
    read.args(["read", "--megabytes", &name]);
    read.arg("--kymo").arg(kymo).arg("--folder");
    run_command(read.arg(target().join("big-trace").join(&name)))
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

/// Runs the ring's tests as 32-bit programs, on x86-64 Linux.
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

/// Builds all kernels; see [`kernel::images`].
pub(crate) fn kernels() -> Result<Vec<(&'static str, PathBuf)>> {
    let toolchain = setup::toolchain()?;
    kernel::guide(toolchain)?;
    clib::links()?;
    kernel::images(toolchain, |_| true)
}

/// Builds what the end-to-end tests need; returns their command, with the environment variables by
/// which they find it.
pub(crate) fn e2e() -> Result<Command> {
    e2e_with(|_| true)
}

/// [`e2e`] with the kernels and probes of these variables.
fn e2e_with(is_wanted: impl Fn(&str) -> bool) -> Result<Command> {
    let kernels = kernel::images(setup::toolchain()?, &is_wanted)?;
    let mut command = cargo(&["test", "-p", "kymo-e2e", "--release"]);
    command
        .envs(kernels)
        .env("KYMO_BIN", cli()?)
        .env("KYMO_COST_PLUGIN", target().join("release/libkymo_cost.so"));
    if is_wanted("KYMO_LINUX") {
        match linux_guest::build()? {
            Guest::Ready { kernel, files } => command
                .env("KYMO_LINUX", kernel)
                .env("KYMO_LINUX_FILES", files),
            Guest::Missing(what) => command.env("KYMO_LINUX_MISSING", what),
        };
    }
    let (probes, measure) = ("KYMO_HOST_PROBES", "KYMO_HOST_MEASURE");
    if cfg!(target_arch = "x86_64") && is_wanted(probes) {
        command.env(probes, kernel::host_probes()?);
    }
    if cfg!(target_arch = "x86_64") && is_wanted(measure) {
        command.env(measure, kernel::host_measure()?);
    }
    Ok(command)
}

/// Runs the end-to-end tests of tests/e2e/tests/kill.rs with this many kills.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_test_and_what_it_calls_is_left_of_a_file() {
        let test = |name| format!("\n#[test]\nfn {name}() {{\n    built(\"{name}\");\n}}\n");
        let helper = "\nfn helper() {\n    hello();\n}\n";
        let source = format!("use a;\n{}{helper}{}{helper}", test("one"), test("two"));
        let left = without_other_tests(&source, "two");
        assert!(
            left.contains("\"two\"") && !left.contains("\"one\""),
            "{left}"
        );
        assert_eq!(left.matches("hello()").count(), 2, "{left}");
    }
}
