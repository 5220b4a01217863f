//! `cargo xtask`: the tasks of this repository, for people and CI, including setup.

mod bench;
mod book;
mod cache;
mod clib;
mod compiled_out;
mod conformance;
mod demo;
mod disk;
mod export;
mod failure;
mod flame;
mod fuzz;
mod gate;
mod kernel;
mod linux_guest;
mod miri;
mod mistakes;
mod models;
mod overhead;
mod package;
mod port_kernels;
mod ports;
mod process;
mod python;
mod rules;
mod setup;
mod sql;
mod step;
mod stress;
mod suite;
mod test;
mod tested;
mod tracers;
mod watched;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, CommandFactory, Parser, Subcommand};

use bench::{count, samples, trace, verbs, view};
use test::Form;

const AFTER: &str = "\
demo, test and kill-test set up what they need by themselves.

KYMO_TOOLCHAIN=rustup|debian   build kernels with this tool chain only
                               (default: rustup's, and Debian's where rustup cannot add targets)

Exit codes: 0 done; 1 a check failed; 2 wrong usage; 4 a tool is missing and cannot be installed from here.";

/// The tasks of this repository, for people and CI, including setup
#[derive(Parser)]
#[command(name = "xtask", bin_name = "cargo xtask", after_help = AFTER)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Boot an example kernel, record it, and show what was recorded
    #[command(
        after_help = "Examples:\n  cargo xtask demo\n  cargo xtask demo --arch x86_64\n  \
                            cargo xtask demo --kernel firmware-c\n  \
                            cargo xtask demo --view"
    )]
    Demo {
        /// riscv64 boots kernels/hello, x86_64 and aarch64 kernels/demo, each on 4 cores
        #[arg(long, value_name = "ARCH", default_value = "riscv64")]
        arch: demo::Arch,
        /// Boot this kernel instead
        #[arg(long, value_name = "KERNEL", conflicts_with = "arch")]
        kernel: Option<demo::Kernel>,
        /// At the end, shows the trace in the browser until Ctrl-C
        #[arg(long)]
        view: bool,
    },
    /// Profile an ordinary program, examples/flame.rs, and draw where its time goes
    #[command(after_help = "Example: cargo xtask flame")]
    Flame,
    /// Run the checks and tests that every commit must pass, or only these steps
    #[command(after_help = test::help())]
    Test {
        /// The long form of every step, in hours: what passes is noted in .ci/all-passed, in a
        /// commit
        #[arg(long)]
        all: bool,
        /// Names of steps; e2e:FILE is one file of the end-to-end tests (tests/e2e/tests/FILE.rs),
        /// e2e:FILE::TEST one of its tests
        #[arg(value_name = "STEP", value_parser = test::step_name)]
        steps: Vec<String>,
    },
    /// Run .ci/run on a clean clone of a commit, as CI does, and note that it passed in target/gate
    #[command(after_help = "Example: cargo xtask gate main")]
    Gate {
        /// The commit
        #[arg(value_name = "COMMIT", default_value = "HEAD")]
        commit: String,
    },
    /// Kill QEMU at random moments and recover the trace each time
    #[command(after_help = "Example: cargo xtask kill-test 20\n\n\
                            KYMO_SEED=S repeats a run (each prints its own).")]
    KillTest {
        /// How often
        #[arg(value_name = "N", default_value_t = test::KILLS)]
        count: u32,
    },
    /// Run the models of the ring under loom
    #[command(after_help = "Example: cargo xtask models 2")]
    Models {
        /// Preemptions in addition to those of `cargo xtask test models`
        #[arg(value_name = "N", default_value_t = 1)]
        more: u32,
    },
    /// Run tests of the ring and the encoders under Miri, those with two threads under many seeds
    #[command(after_help = "Example: cargo xtask miri --seeds 100")]
    Miri {
        /// Seeds of the tests with two threads
        #[arg(
            long,
            value_name = "N",
            default_value_t = test::MIRI_SEEDS,
            value_parser = clap::value_parser!(u32).range(1..)
        )]
        seeds: u32,
    },
    /// Make each deliberate mistake of crates/kymo/mistakes in a copy of the ring, and check that
    /// its test fails
    #[command(after_help = "Example: cargo xtask mistakes lap")]
    Mistakes {
        /// Only mistakes whose names contain one of these
        #[arg(value_name = "NAME")]
        names: Vec<String>,
    },
    /// Break what each row of docs/rules.md claims in a copy of the repository, and check that the
    /// row's test fails
    #[command(after_help = "Example: cargo xtask rules P-03 L-05")]
    Rules {
        /// Only these rows, or these entries of tests/rules/broken
        #[arg(value_name = "ID")]
        ids: Vec<String>,
        /// Do not run the tests without a mistake first
        #[arg(long)]
        passed: bool,
    },
    /// Check the links of the book and of other pages, and build the book into target/book
    #[command(after_help = "Example: cargo xtask book")]
    Book,
    /// Measure the cost of tracing for a whole kernel, in instructions per unit of work
    #[command(after_help = "Example: cargo xtask overhead --book")]
    Overhead {
        /// Write the table into the book
        #[arg(long)]
        book: bool,
    },
    /// Let signals nest writers while readers drain
    #[command(
        args_conflicts_with_subcommands = true,
        after_help = "Examples:\n  cargo xtask stress 50000000\n  cargo xtask stress qemu"
    )]
    Stress(Stress),
    /// Check that compiled-out tracepoints leave nothing in a kernel
    #[command(after_help = "Example: cargo xtask compiled-out demo")]
    CompiledOut {
        /// A folder under kernels/
        #[arg(default_value = "hello")]
        kernel: String,
    },
    /// Measure Kymo beside other programs
    #[command(
        subcommand,
        after_help = "Examples:\n  cargo xtask bench trace --short\n  cargo xtask bench verbs --book"
    )]
    Bench(Bench),
    /// Print the sections of both CTF specifications that no case of the conformance set names
    #[command(after_help = "Example: cargo xtask ctf-sections")]
    CtfSections,
    /// Fuzz a parser of foreign bytes
    #[command(subcommand, after_help = "Example: cargo xtask fuzz ctf --minutes 30")]
    Fuzz(Fuzz),
    /// Write a trace with known counts, and check the output and memory use of each verb
    #[command(after_help = "Example: cargo xtask big-trace --mb 200")]
    BigTrace {
        /// Size of the trace in megabytes
        #[arg(
            long = "mb",
            value_name = "N",
            default_value_t = test::BIG_TRACE,
            value_parser = clap::value_parser!(u64).range(1..=100_000)
        )]
        megabytes: u64,
    },
    /// Build the library for kernels in C, libkymo.a, and print its path
    #[command(after_help = "Example: cargo xtask clib riscv32imac-unknown-none-elf --one-cpu")]
    Clib {
        /// A target of rustc
        #[arg(value_name = "TARGET", value_parser = clap::builder::PossibleValuesParser::new(clib::TARGETS))]
        target: String,
        /// For kernels with one CPU: smaller and faster
        #[arg(long)]
        one_cpu: bool,
        /// For 64-bit kernels whose NMIs record
        #[arg(long)]
        nmi: bool,
    },
    /// Lint, build and test kymo-query, whose SQL engine takes minutes to compile
    #[command(after_help = "Example: cargo xtask sql")]
    Sql,
    /// Count the lines that a user of each port under ports/ adds, and compare with the limits
    #[command(after_help = "Example: cargo xtask ports")]
    Ports,
    /// Build a kernel or a program, and print its path: the end-to-end tests call this
    #[command(hide = true, after_help = "Example: cargo xtask image KYMO_HELLO")]
    Image {
        /// The variable of the environment by which the tests find it
        name: String,
    },
    /// Build the kernels, and print their paths
    #[command(after_help = "Example: cargo xtask build-kernels")]
    BuildKernels,
    /// Find the tools, and install missing ones if permitted
    #[command(after_help = "Example: cargo xtask setup")]
    Setup,
}

#[derive(Args)]
struct Stress {
    /// Number of events to verify
    #[arg(default_value_t = test::STRESS)]
    events: u64,
    #[command(subcommand)]
    place: Option<StressPlace>,
}

#[derive(Subcommand)]
enum StressPlace {
    /// Interrupt writers under QEMU, on RISC-V and x86-64
    #[command(after_help = "Example: cargo xtask stress qemu 2000000")]
    Qemu {
        /// Approximate number of calls on each architecture
        #[arg(default_value_t = test::STRESS_QEMU)]
        events: u64,
    },
}

#[derive(Subcommand)]
enum Bench {
    /// Measure the cost of an event in Kymo and in other tracers; writes the table into the book
    #[command(after_help = "Example: cargo xtask bench trace --short")]
    Trace {
        /// Few rounds, for CI: compare instructions and bytes with budgets.toml; do not write the
        /// book
        #[arg(long)]
        short: bool,
    },
    /// Measure how long the reading of a group of counters takes on Linux, beside perf-event2
    #[command(after_help = "Example: cargo xtask bench count")]
    Count,
    /// Measure how fast samples become folded stacks and a flame graph, beside
    /// inferno-collapse-perf
    #[command(after_help = "Example: cargo xtask bench samples")]
    Samples {
        /// Ten million samples instead of one; their text takes 20 GB under the target folder
        #[arg(long, conflicts_with = "short")]
        full: bool,
        /// A few samples, for CI: compare the folded stacks, but no time
        #[arg(long)]
        short: bool,
    },
    /// Measure `kymo query`, beside `kymo dump --count`, `kymo report` and DuckDB, and its workers
    #[command(after_help = "Example: cargo xtask bench sql --events 1000000")]
    Sql {
        /// A small trace: compare no figure with its goal
        #[arg(long)]
        short: bool,
        /// Write a trace of about so many events [default: 10 million]
        #[arg(long)]
        events: Option<u64>,
        /// Measure two workers beside one, and nothing else
        #[arg(long)]
        workers: bool,
    },
    /// Measure how soon `kymo view` shows a trace of 10^8 events, and what its index costs
    #[command(after_help = "Example: cargo xtask bench view --events 7000000")]
    View {
        /// A small trace: compare no figure with its goal
        #[arg(long)]
        short: bool,
        /// Write a trace of about so many events
        #[arg(long)]
        events: Option<u64>,
    },
    /// Measure speed and memory of each verb of `kymo` that reads traces, beside babeltrace2
    #[command(after_help = "Examples:\n  cargo xtask bench verbs --book\n  \
                            cargo xtask bench verbs --only demo --verb 'export --to csv'")]
    Verbs {
        /// Write the tables into the book
        #[arg(long, conflicts_with_all = ["short", "only", "verb", "kymo"])]
        book: bool,
        /// Small traces, for CI: runs everything, but compares no figure with its goal
        #[arg(long)]
        short: bool,
        #[command(flatten)]
        choice: verbs::Choice,
    },
}

#[derive(Subcommand)]
enum Fuzz {
    /// Fuzz the trace reader, `kymo convert` and the readers of a region; print the line coverage
    #[command(after_help = "Example: cargo xtask fuzz ctf --minutes 30")]
    Ctf {
        /// Minutes for each target [default: 20 seconds]
        #[arg(long, value_name = "N")]
        minutes: Option<u64>,
    },
}

fn main() -> ExitCode {
    let Some(command) = Arguments::parse().command else {
        // Ignore a closed standard output.
        let _ = Arguments::command().print_help();
        return ExitCode::SUCCESS;
    };
    match run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(failure::exit_code(&error))
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Demo { arch, kernel, view } => demo::run(arch, kernel, view),
        Command::Flame => flame::run(),
        Command::Test { all, steps } => {
            let form = if all { Form::All } else { Form::Short };
            test::run(form, &steps)
        }
        Command::Gate { commit } => gate::run(&commit),
        Command::KillTest { count } => test::kill(count),
        Command::Models { more } => models::run(more),
        Command::Miri { seeds } => miri::long(seeds),
        Command::Mistakes { names } => mistakes::run(&names, mistakes::Tests::Untried),
        Command::Rules { ids, passed } => rules::break_all(&ids, passed),
        Command::Book => book::run(Form::All),
        Command::Overhead { book } => overhead::run(book),
        Command::Stress(Stress { events, place }) => match place {
            Some(StressPlace::Qemu { events }) => stress::qemu(events),
            None => stress::run(events),
        },
        Command::CompiledOut { kernel } => compiled_out::run(&kernel),
        Command::Bench(Bench::Trace { short }) => trace::measure_all(if short {
            trace::Form::Short
        } else {
            trace::Form::Full
        }),
        Command::Bench(Bench::Count) => count::measure(),
        Command::Bench(Bench::Samples { full, short }) => samples::measure(match (full, short) {
            (true, _) => samples::Form::Full,
            (_, true) => samples::Form::Short,
            _ => samples::Form::Standard,
        }),
        Command::Bench(Bench::Sql {
            short,
            events,
            workers,
        }) => bench::sql::measure(short, events, workers),
        Command::Bench(Bench::View { short, events }) => view::measure(short, events),
        Command::Bench(Bench::Verbs {
            book,
            short,
            choice,
        }) => {
            let form = match (book, short) {
                (true, _) => verbs::Form::Book,
                (_, true) => verbs::Form::Short,
                _ => verbs::Form::Full,
            };
            verbs::run(form, &choice)
        }
        Command::CtfSections => conformance::sections(),
        Command::Fuzz(Fuzz::Ctf { minutes: None }) => fuzz::ctf(20, false),
        Command::Fuzz(Fuzz::Ctf {
            minutes: Some(minutes),
        }) => fuzz::ctf(minutes.saturating_mul(60), true),
        Command::BigTrace { megabytes } => test::big_trace(megabytes),
        Command::Clib {
            target,
            one_cpu,
            nmi,
        } => {
            println!(
                "{}",
                clib::build(&target, clib::Form { one_cpu, nmi })?.display()
            );
            Ok(())
        }
        Command::Sql => sql::run(),
        Command::Ports => ports::run(),
        Command::Image { name } => {
            println!("{}", test::e2e::image(&name)?.display());
            Ok(())
        }
        Command::BuildKernels => {
            for (_, file) in test::kernels()? {
                println!("{}", file.display());
            }
            Ok(())
        }
        Command::Setup => setup::run().map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_described_without_contradictions() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_subcommand_has_an_example() {
        fn visit(command: &clap::Command, path: &str) {
            for inner in command.get_subcommands() {
                let path = format!("{path} {}", inner.get_name());
                let help = inner.get_after_help().map(ToString::to_string);
                assert!(
                    help.is_some_and(|help| help.contains("cargo xtask")),
                    "{path} has no example"
                );
                visit(inner, &path);
            }
        }
        visit(&Arguments::command(), "cargo xtask");
    }
}
