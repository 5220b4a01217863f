//! `cargo xtask`: what a person or a CI machine does with this repository, set-up included.

mod bench;
mod bench_ctf;
mod big_trace;
mod book;
mod compiled_out;
mod conformance;
mod demo;
mod export;
mod fuzz;
mod kernel;
mod lttng;
mod memory;
mod mistakes;
mod overhead;
mod package;
mod process;
mod python;
mod rules;
mod setup;
mod step;
mod stress;
mod stress_qemu;
mod test;
mod tracers;

use std::process::ExitCode;

use anyhow::{Result, bail};

const HELP: &str = "\
cargo xtask COMMAND

  demo                 boot the example kernel on 4 cores, record it, show what was recorded
  test [STEP ..]       all checks and tests, or only these steps: setup fmt rules clippy unit conformance doc kernels cli package
                       big-trace export models mistakes cost bench compiled-out overhead stress e2e babeltrace2 tracers
                       fuzz;
                       e2e:FILE is one file of the end-to-end tests (tests/e2e/tests/FILE.rs)
  kill-test [N]        kill QEMU at N random moments (100 unless told) and recover the trace each time;
                       KYMO_SEED=S repeats a run (each prints its own)
  models [N]           run the models of the ring under loom, with N more pre-emptions than in xtask test (1 unless told)
  mistakes [NAME ..]   make each deliberate mistake of crates/kymo/mistakes (or those with NAME in their name) in a copy of the ring,
                       and see that the test that is there for it fails
  overhead [--book]    count what tracing costs a whole kernel, in instructions a unit of work; --book writes the table into the book
  stress [EVENTS]      let signals nest writers while readers drain, until EVENTS (a thousand million unless told) were verified
  stress qemu [EVENTS] interrupts inside of writers under QEMU, RISC-V and x86-64, about EVENTS calls each (20000000 unless told)
  compiled-out [KERNEL]
                       show that tracepoints which are compiled out leave nothing in the kernel (hello unless told)
  bench trace          what an event costs in Kymo and in other tracers, side by side; writes the table into the book
  bench trace --short  the same with few rounds, for CI: holds instructions and bytes against budgets.toml
  bench ctf            how fast LTTng traces are read, beside babeltrace2; --book writes the table into the book, --short takes small traces
  ctf-sections         print the sections of both CTF specifications that no case of the conformance set names
  fuzz ctf [--minutes N]
                       fuzz the reader of traces and kymo convert, each parser for N minutes (20 s unless told), and print the lines reached
  big-trace [--mb N]   write a trace of N megabytes (1100 unless told) whose counts are known; report, check and count it, and hold the
                       answers and the most memory that each took against what they must be
  build-kernels        build what is under kernels/ and print where it is
  setup                see that all tools are there; install what is missing, where this process may

The first three set up what they need by themselves.

  KYMO_TOOLCHAIN=rustup|debian   build kernels with this tool chain only (unset: rustup's, and Debian's if that cannot)

Exit codes: 0 done; 1 a check failed; 2 wrong usage; 4 a tool is missing and cannot be installed from here.";

/// The machine lacks something, and the message says what to type.
#[derive(Debug)]
struct Environment(String);

impl std::fmt::Display for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Environment {}

/// The command line is wrong, and the message says how.
#[derive(Debug)]
struct Usage(String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\n\n{HELP}", self.0)
    }
}

impl std::error::Error for Usage {}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let Err(error) = run(&arguments) else {
        return ExitCode::SUCCESS;
    };
    eprintln!("xtask: {error:#}");
    ExitCode::from(match () {
        () if error.is::<Usage>() => 2,
        () if error.is::<Environment>() => 4,
        () => 1,
    })
}

fn run(arguments: &[&str]) -> Result<()> {
    match arguments {
        [] | ["help" | "-h" | "--help"] | [_, "-h" | "--help"] => println!("{HELP}"),
        ["setup"] => {
            setup::run()?;
        }
        ["build-kernels"] => test::kernels()?
            .iter()
            .for_each(|(_, file)| println!("{}", file.display())),
        ["bench", "trace"] => bench::trace(bench::Form::Full)?,
        ["bench", "ctf"] => bench_ctf::run(bench_ctf::Form::Full)?,
        ["bench", "ctf", "--book"] => bench_ctf::run(bench_ctf::Form::Book)?,
        ["bench", "ctf", "--short"] => bench_ctf::run(bench_ctf::Form::Short)?,
        ["bench", "trace", "--short"] => bench::trace(bench::Form::Short)?,
        ["ctf-sections"] => conformance::sections()?,
        ["fuzz", "ctf"] => fuzz::ctf(20, false)?,
        ["fuzz", "ctf", "--minutes", minutes] => match minutes.parse::<u64>() {
            Ok(minutes) => fuzz::ctf(minutes.saturating_mul(60), true)?,
            Err(_) => bail!(Usage(format!(
                "--minutes takes a number, and \"{minutes}\" is none."
            ))),
        },
        ["big-trace"] => big_trace::long(1100)?,
        ["big-trace", "--mb", megabytes] => match megabytes.parse() {
            Ok(megabytes @ 1..=100_000) => big_trace::long(megabytes)?,
            _ => bail!(Usage(format!(
                "--mb takes a number of megabytes, and \"{megabytes}\" is none."
            ))),
        },
        [memory::MEASURED, figure, program, arguments @ ..] => {
            memory::measured(figure, program, arguments)?
        }
        ["demo"] => demo::run()?,
        ["test", steps @ ..] => test::run(steps)?,
        ["kill-test"] => test::kill(100)?,
        ["kill-test", count] => match count.parse() {
            Ok(count) => test::kill(count)?,
            Err(_) => bail!(Usage(format!(
                "kill-test takes a number, and \"{count}\" is none."
            ))),
        },
        ["models"] => mistakes::models(1)?,
        ["models", more] => match more.parse() {
            Ok(more) => mistakes::models(more)?,
            Err(_) => bail!(Usage(format!(
                "models takes a number of pre-emptions, and \"{more}\" is none."
            ))),
        },
        ["mistakes", names @ ..] => mistakes::run(names, mistakes::Tests::Untried)?,
        ["stress", "qemu"] => stress_qemu::run(None)?,
        ["stress", "qemu", events] => stress_qemu::run(Some(events))?,
        ["compiled-out"] => compiled_out::run("hello")?,
        ["compiled-out", kernel] => compiled_out::run(kernel)?,
        ["overhead"] => overhead::run(false)?,
        ["overhead", "--book"] => overhead::run(true)?,
        ["stress"] => stress::run(1_000_000_000)?,
        ["stress", events] => match events.parse() {
            Ok(events) => stress::run(events)?,
            Err(_) => bail!(Usage(format!(
                "stress takes a number of events, and \"{events}\" is none."
            ))),
        },
        [other, ..] => bail!(Usage(format!(
            "There is no command \"{other}\" with these arguments."
        ))),
    }
    Ok(())
}
