//! `cargo xtask test`: all checks that must pass before a commit; CI runs all of them.

pub(crate) mod e2e;
mod manifests;
mod unchanged;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::bench::{count, samples, trace, verbs};
use crate::clib;
use crate::disk::{self, Room};
use crate::failure::LeftOut;
use crate::process::{
    WORKSPACE, build, cargo, program, root, run as run_command, side_by_side, target,
};
use crate::setup::{self, Toolchain};
use crate::step::Steps;
use crate::suite::{self, Suite};
use crate::watched::not_run;
use crate::{
    book, compiled_out, conformance, export, flame, fuzz, kernel, miri, mistakes, models, overhead,
    package, ports, rules, sql, stress, tracers,
};

use unchanged::Inputs;

/// How much a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// What every commit must pass.
    Short,
    /// All there is, in hours.
    All,
}

/// A step of `cargo xtask test`.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    /// Description for the help.
    what: &'static str,
    run: fn(Form) -> Result<()>,
    /// Steps without which it cannot pass. All need `setup`.
    needs: &'static [&'static str],
    /// What it depends on, if it guards only a part of the tree: the short form leaves it out while
    /// nothing of this has changed.
    inputs: Option<Inputs>,
    /// The command with the long form, for which CI has no time.
    long: Option<&'static str>,
    /// Large folders below the target folder that no later step uses.
    leaves: &'static [&'static str],
    /// Bytes of the disk without which the short form does not run it.
    room: u64,
}

const fn step(name: &'static str, what: &'static str, run: fn(Form) -> Result<()>) -> Step {
    Step {
        name,
        what,
        run,
        needs: &[],
        inputs: None,
        long: None,
        leaves: &[],
        room: 0,
    }
}

impl Step {
    const fn long(self, command: &'static str) -> Step {
        Step {
            long: Some(command),
            ..self
        }
    }

    const fn needs(self, needs: &'static [&'static str]) -> Step {
        Step { needs, ..self }
    }

    const fn leaves(self, leaves: &'static [&'static str]) -> Step {
        Step { leaves, ..self }
    }

    const fn takes_room(self, room: u64) -> Step {
        Step { room, ..self }
    }

    const fn guards(
        self,
        packages: &'static [&'static str],
        paths: &'static [&'static str],
    ) -> Step {
        Step {
            inputs: Some(Inputs { packages, paths }),
            ..self
        }
    }

    /// Whether the short form may leave it out.
    pub(crate) fn is_guard(&self) -> bool {
        self.inputs.is_some()
    }

    /// If the short form may leave it out: its name, and where tests are that run in no other step.
    pub(crate) fn tests(&self) -> Option<impl Iterator<Item = &'static str>> {
        let only_here: &[&str] = match self.name {
            "models" => &["models"],
            "stress" => &["tests/stress"],
            "stress-qemu" => &["tests/e2e/tests/stress", "tests/e2e/tests/sample_stress.rs"],
            "kill" => &["tests/e2e/tests/kill.rs"],
            _ => &[],
        };
        let all = [self.name].into_iter().chain(only_here.iter().copied());
        self.is_guard().then_some(all)
    }

    /// Runs it; in the short form only if something that it depends on has changed.
    fn run(&self, form: Form) -> Result<()> {
        if let (Form::Short, Some(inputs)) = (form, &self.inputs)
            && let Some(reason) = unchanged::reason(self.name, inputs)?
        {
            bail!(LeftOut(reason));
        }
        if form == Form::Short {
            disk::check(self.room)?;
        }
        (self.run)(form)
    }
}

/// All steps, in the order in which they run: those that fail fast come first.
pub(crate) const STEPS: &[Step] = &[
    step("setup", "finds the tools, installs what is missing", |_| {
        setup::run().map(drop)
    }),
    step("fmt", "formatting, of the kernels too", |_| fmt()),
    step(
        "rules",
        "every rule of docs/rules.md has a test, and a mistake for it",
        rules::run,
    )
    .long("cargo xtask rules"),
    step("book", "links of the book lead somewhere", book::run).long("cargo xtask book"),
    step("ports", "counts the lines that each port adds", |_| {
        ports::run()
    }),
    step("clippy", "lints as errors, of the kernels too", |_| {
        clippy()
    }),
    step(
        "unit",
        "cargo test, with all features and with none",
        |_| unit(),
    )
    .leaves(&[disk::TESTS]),
    step(
        "conformance",
        "sections of the specifications of CTF without a case",
        |_| conformance::sections(),
    ),
    step("doc", "the API documentation, warnings as errors", |_| {
        doc()
    })
    .leaves(&["doc"]),
    step("kernels", "builds the kernels, for all processors", |_| {
        kernels().map(drop)
    }),
    step("cli", "builds kymo and QEMU's plugin", |_| {
        build("kymo")?;
        plugin().map(drop)
    }),
    step(
        "package",
        "each crate compiles from its package, and installs",
        package::run,
    )
    .leaves(&["packaging", "install"])
    .guards(
        &["kymo-package"],
        &[
            ":(glob)crates/*/Cargo.toml",
            ":(glob)ports/*/Cargo.toml",
            "README.md",
        ],
    ),
    step(
        "big-trace",
        "memory and answers of the verbs on known traces",
        |form| {
            short_traces()?;
            match form {
                Form::Short => Ok(()),
                Form::All => big_trace(BIG_TRACE),
            }
        },
    )
    .needs(&["cli"])
    .guards(&["kymo-big-trace", "kymo-cli"], &[])
    .long("cargo xtask big-trace"),
    step("export", "other tools read what is exported", |_| {
        export::run()
    })
    .leaves(&["export"]),
    step(
        "profiles",
        "other tools read profiles; flame graphs in a browser",
        |_| export::profiles(),
    )
    .leaves(&["profiles"]),
    step(
        "view",
        "the page of kymo view: its types, and a browser that opens it",
        |_| export::view(),
    )
    .needs(&["cli"])
    .leaves(&["view", "page"]),
    step(
        "program",
        "an ordinary program samples itself, and its stacks are whole",
        |_| flame::check(),
    )
    .long("cargo xtask flame"),
    step(
        "sql",
        "SQL over traces: the tests of kymo-query; with --all its lints, and beside DuckDB",
        |form| match form {
            Form::Short => sql::test(),
            Form::All => sql::run(),
        },
    )
    .guards(&["kymo-analysis", "kymo-images", "kymo-timeline"], &["sql"])
    .leaves(&["sql", "sql-duckdb"])
    .takes_room(SQL_ROOM)
    .long("cargo xtask sql"),
    step("models", "the ring under a model checker", |form| {
        models::run(if form == Form::All { 1 } else { 0 })
    })
    .guards(&["kymo"], &["xtask/src/models.rs"])
    .leaves(&["loom"])
    .long("cargo xtask models"),
    step(
        "miri",
        "few tests of the ring under Miri",
        |form| match form {
            Form::Short => miri::short(),
            Form::All => miri::long(MIRI_SEEDS),
        },
    )
    .guards(&["kymo"], &["xtask/src/miri.rs"])
    .leaves(&["miri"])
    .long("cargo xtask miri"),
    // Their tests that are not models are in `unit`.
    step(
        "mistakes",
        "a third of the deliberate mistakes: tests notice them",
        |form| {
            let tests_are = match form {
                Form::Short => mistakes::Tests::Passed,
                Form::All => mistakes::Tests::Untried,
            };
            mistakes::run(&[], tests_are)
        },
    )
    .guards(&["kymo", "kymo-mistakes"], &[])
    .leaves(&["mistakes"])
    .long("cargo xtask mistakes"),
    step("cost", "counts the instructions of an event", |_| cost()).needs(&["kernels", "cli"]),
    step("bench", "the short forms of the benchmarks", |_| bench())
        .needs(&["cli"])
        .guards(
            &["kymo-cli", "kymo-hosted"],
            &["benches", "budgets.toml", "xtask/src/bench"],
        )
        .long("cargo xtask bench trace, cargo xtask bench verbs, cargo xtask bench samples"),
    step(
        "compiled-out",
        "tracepoints that are compiled out leave nothing",
        |_| {
            ["hello", "demo"]
                .into_iter()
                .try_for_each(compiled_out::run)
        },
    )
    .guards(
        &["kymo", "kymo-compiled-out"],
        &["kernels/hello", "kernels/demo"],
    )
    .leaves(&["compiled-out"]),
    step(
        "overhead",
        "counts what tracing costs a whole kernel",
        |_| overhead::run(false),
    )
    .needs(&["kernels", "cli"])
    .guards(
        &["kymo", "kymo-overhead", "kymo-cost"],
        &[
            "crates/kymo-cli/src/cost",
            "kernels/hello",
            "kernels/demo",
            "budgets.toml",
        ],
    ),
    step(
        "stress",
        "signals nest writers while readers drain",
        |form| {
            stress::run(if form == Form::All {
                STRESS
            } else {
                10_000_000
            })
        },
    )
    .guards(&["kymo-stress"], &[])
    .long("cargo xtask stress"),
    step(
        "stress-qemu",
        "interrupts and NMIs nest writers under QEMU",
        |form| match form {
            Form::Short => e2e::all()?.run(|file| e2e::STRESS.contains(&file)),
            Form::All => stress::qemu(STRESS_QEMU),
        },
    )
    .needs(&["kernels", "cli"])
    .guards(
        &["kymo"],
        &[
            "kernels/stress",
            "tests/e2e/tests/stress",
            "tests/e2e/tests/sample_stress.rs",
        ],
    )
    .long("cargo xtask stress qemu"),
    step(
        "kill",
        "machines and recorders that are killed",
        |form| match form {
            Form::Short => e2e::all()?.run(|file| file == e2e::KILL),
            Form::All => kill(KILLS),
        },
    )
    .needs(&["kernels", "cli"])
    .guards(
        &["kymo", "kymo-capture"],
        &["kernels/hello", "kernels/demo", "tests/e2e/tests/kill.rs"],
    )
    .long("cargo xtask kill-test"),
    step("e2e", "kernels under QEMU, and what users see", |_| {
        e2e::all()?.run(|file| !e2e::has_a_step(file))
    })
    .needs(&["kernels", "cli"])
    .leaves(&["e2e"]),
    step(
        "babeltrace2",
        "the reader of traces beside babeltrace2",
        |_| babeltrace2(),
    ),
    step("tracers", "traces by other tracers", |_| tracers::run()),
    step(
        "fuzz",
        "each parser of foreign bytes, and damaged memory, for 10 s",
        |form| match form {
            Form::Short => fuzz::ctf(10, false),
            Form::All => fuzz::ctf(FUZZ_SECONDS, true),
        },
    )
    .guards(&["kymo-fuzz", "kymo-fuzz-campaign"], &[])
    .long("cargo xtask fuzz ctf --minutes 30"),
];

/// Megabytes, seeds, events, calls, kills and seconds for each target: what the long forms take
/// by themselves, too, but for the fuzzer, which has 30 minutes for each target before a release.
pub(crate) const BIG_TRACE: u64 = 1100;
pub(crate) const MIRI_SEEDS: u32 = 16;
pub(crate) const STRESS: u64 = 1_000_000_000;
pub(crate) const STRESS_QEMU: u64 = 20_000_000;
pub(crate) const KILLS: u32 = 100;
const FUZZ_SECONDS: u64 = 300;

/// Bytes that cargo writes for the tests of `kymo query`: DataFusion's.
const SQL_ROOM: u64 = 5_000_000_000;

/// Prefix of the name of one file of the end-to-end tests.
const ONE_FILE: &str = "e2e:";

/// The steps for the help, one per line.
pub(crate) fn help() -> String {
    let mut help = "Steps, in their order (* in the short form only if what it depends on has \
                    changed since the commit in .ci/all-passed):\n"
        .to_owned();
    for step in STEPS {
        let mark = if step.is_guard() { '*' } else { ' ' };
        help.push_str(&format!("{mark} {:<12} {}", step.name, step.what));
        if let Some(long) = step.long {
            help.push_str(&format!("; long form: {long}"));
        }
        help.push('\n');
    }
    help.push_str(
        "\nExamples:\n  cargo xtask test unit clippy e2e:demo\n  cargo xtask test --all models",
    );
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

/// Runs the steps with these names, or all. `e2e:FILE` is one file of the end-to-end tests,
/// `e2e:FILE::TEST` one test of it. A step that is named runs whatever has changed.
pub(crate) fn run(form: Form, only: &[String]) -> Result<()> {
    let began_on = unchanged::commit(root());
    let mut steps = Steps::default();
    steps.room = Room::now();
    let mut passed = Vec::new();
    for step in STEPS {
        if !only.is_empty() && !only.iter().any(|name| name == step.name) {
            continue;
        }
        let needs = [step.needs, &["setup"]].concat();
        let is_passed = steps.run(step.name, &needs, || match only.is_empty() {
            true => step.run(form),
            false => (step.run)(form),
        });
        if is_passed && step.is_guard() {
            passed.push(step.name);
        }
        if let (true, Some(room)) = (only.is_empty(), &mut steps.room) {
            room.after(step.leaves);
        }
    }
    for name in only {
        if let Some(file) = name.strip_prefix(ONE_FILE) {
            steps.run(name, &[], || e2e::one(file));
        }
    }
    let finished = steps.finish(match form {
        Form::Short => "short",
        Form::All => "all",
    });
    // One step that fails takes nothing from those that passed.
    if form == Form::All && !passed.is_empty() {
        unchanged::note(&passed, began_on.as_deref())?;
    }
    finished
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

/// In two parts, whose builds have different folders.
fn clippy() -> Result<()> {
    side_by_side(clippy_workspace, clippy_others).map(drop)
}

fn clippy_workspace() -> Result<()> {
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
    run_command(clippy.args(["--", "-Dwarnings"]))
}

/// The models, the benchmarks and the kernels.
fn clippy_others() -> Result<()> {
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
    let suite = host()?;
    // The tests are built: the others compile beside them.
    side_by_side(|| suite.run(&[]), unit_others).map(drop)
}

/// The examples in documentation, and other features and targets than those of the workspace.
fn unit_others() -> Result<()> {
    suite::examples(&WORKSPACE)?;
    // Compiled out: calls do nothing, and fields are checked but not evaluated.
    let off = |arguments: &[&str]| {
        let suite = Suite::build(&[arguments, &["--no-default-features"]].concat())?;
        let alone = suite.alone(|program, test| {
            let package = &program.package;
            format!("cargo test -p {package} --no-default-features {test}")
        });
        alone.run(&[])
    };
    off(&["-p", "kymo", "--test", "compiled_out"])?;
    off(&["-p", "kymo-hosted"])?;
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
    e2e::all()?.show(|file| file == e2e::COST)
}

/// Their long forms print figures, and test nothing more.
fn bench() -> Result<()> {
    trace::measure_all(trace::Form::Short)?;
    samples::measure(samples::Form::Short)?;
    verbs::run(verbs::Form::Short, &verbs::Choice::default())
}

fn babeltrace2() -> Result<()> {
    let packages = ["kymo-ctf", "kymo-cli", "kymo-c"];
    let suite = host()?.only(|program| packages.contains(&&*program.package));
    // Tests that need traces are in `tracers`.
    suite.run(&[
        "--ignored",
        "--skip",
        "values_are_the_same",
        "--skip",
        "lines_of_tracers_are_the_same",
        "--skip",
        "chains_of_perf_are_drawn",
    ])
}

/// The programs of tests that need nothing but the host, with all features: one build for all
/// steps.
pub(crate) fn host() -> Result<Suite> {
    let suite = Suite::build(&WORKSPACE)?;
    // They need more, and have steps of their own.
    let others = ["kymo-linux-guest", "kymo-stress"];
    Ok(suite.only(|program| {
        !others.contains(&&*program.package)
            && (&*program.package, &*program.target) != ("kymo-e2e", "e2e")
    }))
}

/// Runs [`big_trace`]'s checks on two short traces.
fn short_traces() -> Result<()> {
    if !cfg!(target_os = "linux") {
        not_run("the memory that a command takes is measured on Linux only");
        return Ok(());
    }
    let kymo = build("kymo")?;
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

/// Builds the `kymo` command as users have it. Returns its path.
pub(crate) fn cli() -> Result<PathBuf> {
    let mut build = cargo(&["build", "--release", "-p", "kymo-cli"]);
    run_command(build.args(["-p", "kymo-cost"]))?;
    Ok(target().join("release/kymo"))
}

/// Builds QEMU's plugin and puts it beside the `kymo` of the tests. It has a folder of its own:
/// with all features it is for a later QEMU.
pub(crate) fn plugin() -> Result<PathBuf> {
    let folder = target().join("plugin");
    let mut build = cargo(&["build", "--release", "-p", "kymo-cost", "--target-dir"]);
    run_command(build.arg(&folder))?;
    let beside = target().join("debug").join(PLUGIN_FILE);
    // Replaced, not written to: a machine may have it loaded.
    let new = beside.with_extension("new");
    fs::copy(folder.join("release").join(PLUGIN_FILE), &new)
        .and_then(|_| fs::rename(&new, &beside))
        .with_context(|| format!("cannot write {}", beside.display()))?;
    Ok(beside)
}

const PLUGIN_FILE: &str = "libkymo_cost.so";

/// The linker for programs of 32 bits comes with the compiler.
const LINKER_32_BITS: (&str, &str) = ("CARGO_TARGET_I686_UNKNOWN_LINUX_MUSL_LINKER", "rust-lld");

/// Runs the ring's tests as 32-bit programs, on x86-64 Linux.
fn unit_32_bits() -> Result<()> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux"))
        || !setup::add_targets(&[setup::I686])
    {
        not_run(&format!(
            "the ring's tests on a 32-bit machine, for which an x86-64 with Linux and the target \
             {} are needed",
            setup::I686
        ));
        return Ok(());
    }
    let arguments = ["-p", "kymo", "--lib", "--target", setup::I686];
    let suite = Suite::build_with(&arguments, &[LINKER_32_BITS])?;
    let alone = suite.alone(|_, test| {
        let (variable, linker) = LINKER_32_BITS;
        let target = setup::I686;
        format!("{variable}={linker} cargo test -p kymo --lib --target {target} -- --exact {test}")
    });
    alone.run(&[])
}

/// Builds all kernels; see [`kernel::images`].
pub(crate) fn kernels() -> Result<Vec<(&'static str, PathBuf)>> {
    let toolchain = setup::toolchain()?;
    let library = || {
        clib::links()?;
        kernel::images_in_c()
    };
    let kernels = || {
        kernel::guide(toolchain)?;
        kernel::images_in_rust(toolchain)
    };
    // Their builds have different folders.
    let (in_c, in_rust) = side_by_side(library, kernels)?;
    Ok([in_rust, in_c].concat())
}

/// Kills machines and recorders this many times.
pub(crate) fn kill(count: u32) -> Result<()> {
    setup::run()?;
    let e2e = e2e::all()?.env("KYMO_KILLS", count.to_string());
    e2e.show(|file| file == e2e::KILL)
}
