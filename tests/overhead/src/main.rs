//! Measures the cost of tracing for whole kernels, in instructions per unit of work.
//!
//! Each kernel does the same work with tracing compiled out; compiled in and never started; started
//! and stopped; everything on. Under `-icount shift=0` the machine's clock advances by a nanosecond
//! per instruction of any hart, so the kernel's own clock counts instructions, including those of
//! interrupts and the firmware. Every run is repeated, and must print exactly the same figures.

mod kernel;
mod parts;

use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use clap::Parser;

use kernel::{KERNELS, Kernel, Recording};
use parts::Parts;

/// The file with the limits.
const BUDGETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../budgets.toml");
/// Time limit of a run, in seconds. A run takes seconds, so this means a hang even on a busy
/// machine.
const SECONDS: &str = "600";
/// Exit code of coreutils' `timeout` after it ended a program.
const TIMED_OUT: i32 = 124;
/// Number of runs of each configuration.
const RUNS: usize = 3;

/// Measures the cost of tracing for whole kernels, in instructions per unit of work; prints a table
/// for each.
#[derive(Parser)]
struct Arguments {
    /// A kernel, as its name and architecture (hello:riscv64), the image with its tracepoints, and
    /// that with its tracepoints compiled out
    #[arg(long = "kernel", num_args = 3, value_names = ["NAME", "IN", "OUT"], required = true)]
    kernels: Vec<OsString>,
    /// The program `kymo`, with QEMU's plugin beside it: it counts where the demo kernel's
    /// instructions go
    #[arg(long)]
    kymo: PathBuf,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let mut exceeded = Vec::new();
    for words in arguments.kernels.chunks(3) {
        let [name, compiled_in, compiled_out] = words else {
            bail!("--kernel takes three words");
        };
        let [compiled_in, compiled_out] = [compiled_in, compiled_out].map(PathBuf::from);
        let mut of_name = KERNELS.iter().filter(|kernel| **name == *kernel.name());
        let first = of_name.next();
        let first = first.with_context(|| format!("there is no kernel {}", name.display()))?;
        for kernel in [first].into_iter().chain(of_name) {
            let budget = Budget::read(kernel)?;
            let measure = |image: &Path, recording| measure(kernel, budget.units, image, recording);
            let figures = Figures {
                compiled_out: measure(&compiled_out, Recording::Never)?,
                off: measure(&compiled_in, Recording::Never)?,
                stopped: measure(&compiled_in, Recording::Stopped)?,
                on: measure(&compiled_in, Recording::On)?,
            };
            println!("{}:\n\n{}", kernel.title(), figures.table());
            if kernel.has_parts() {
                let parts = Parts::count(&arguments.kymo, kernel, budget.units, &compiled_in)?;
                println!("Where they go:\n\n{}", parts.table(&figures));
            }
            let more = budget.exceeded_by(&figures).into_iter();
            exceeded.extend(more.map(|text| format!("{}: {text}", kernel.title())));
        }
    }
    if !exceeded.is_empty() {
        bail!("over the budget of budgets.toml: {}", exceeded.join("; "));
    }
    Ok(())
}

/// The figures of one configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figure {
    units: u64,
    instructions: u64,
    /// Calls of tracepoints, whether they record or not.
    events: u64,
}

impl Figure {
    fn per_unit(self) -> f64 {
        self.instructions as f64 / self.units as f64
    }

    fn percent_over(self, base: Figure) -> f64 {
        (self.per_unit() / base.per_unit() - 1.0) * 100.0
    }
}

/// The figures of all configurations.
#[derive(Clone, Copy)]
struct Figures {
    compiled_out: Figure,
    off: Figure,
    stopped: Figure,
    on: Figure,
}

impl Figures {
    fn table(&self) -> String {
        let mut table =
            "| tracing | instructions a unit of work | more | instructions an event |\n| --- | ---: | ---: | ---: |\n".to_owned();
        let rows = [
            ("compiled out", self.compiled_out),
            ("compiled in, never started", self.off),
            ("started and stopped", self.stopped),
            ("every event recorded", self.on),
        ];
        for (name, figure) in rows {
            let more = figure.instructions as f64 - self.compiled_out.instructions as f64;
            // Writing to a string cannot fail.
            let _ = write!(table, "| {name} | {:.1} |", figure.per_unit());
            let _ = match name {
                "compiled out" => writeln!(table, " | |"),
                _ => writeln!(
                    table,
                    " {:.2} % | {:.1} |",
                    figure.percent_over(self.compiled_out),
                    more / figure.events as f64
                ),
            };
        }
        table
    }
}

/// Runs the kernel several times; all runs must give the same figures.
fn measure(kernel: &Kernel, units: u32, image: &Path, recording: Recording) -> Result<Figure> {
    let words = kernel.words(units, recording);
    let first = output(kernel, image, &words)?;
    for _ in 1..RUNS {
        let again = output(kernel, image, &words)?;
        if again != first {
            bail!("two runs with \"{words}\" are not the same:\n{first}\nand\n{again}");
        }
    }
    kernel
        .figure(units, &first)
        .with_context(|| format!("with \"{words}\" the kernel said:\n{first}"))
}

fn output(kernel: &Kernel, image: &Path, words: &str) -> Result<String> {
    let mut qemu = Command::new("timeout");
    qemu.arg(SECONDS)
        .args(kernel.qemu)
        .args(["-m", "128M", "-smp", &kernel.harts.to_string()])
        .args(["-no-reboot", "-icount", "shift=0,sleep=off"]);
    let output = qemu
        .arg("-kernel")
        .arg(image)
        .args(["-append", words])
        .stdin(Stdio::null())
        .output()
        .context("QEMU cannot be started")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.code() == Some(TIMED_OUT) {
        bail!("the kernel has not come to its end within {SECONDS} s with \"{words}\":\n{text}");
    }
    if !output.status.success() {
        bail!(
            "the kernel failed ({}) with \"{words}\":\n{text}{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(text)
}

/// The entry in `budgets.toml`.
struct Budget {
    /// Units of work per thread.
    units: u32,
    /// Instructions per unit.
    compiled_out: f64,
    /// Largest excess over that, in percent.
    off: f64,
    stopped: f64,
    on: f64,
}

impl Budget {
    fn read(kernel: &Kernel) -> Result<Budget> {
        let text = fs::read_to_string(BUDGETS).context("budgets.toml")?;
        let table: toml::Table = text.parse().context("budgets.toml")?;
        let entries = table
            .get("kernel")
            .and_then(toml::Value::as_array)
            .context("budgets.toml has no [[kernel]]")?;
        let is = |entry: &toml::Value, key, value| {
            entry.get(key).and_then(toml::Value::as_str) == Some(value)
        };
        let entry = entries
            .iter()
            .find(|entry| {
                let workload = entry.get("workload").and_then(toml::Value::as_str);
                is(entry, "kernel", kernel.kernel)
                    && is(entry, "arch", kernel.arch)
                    && workload == kernel.workload
            })
            .with_context(|| format!("budgets.toml has no budget for {}", kernel.title()))?;
        let number = |key: &str| {
            let value = entry.get(key).and_then(|value| {
                value
                    .as_float()
                    .or(value.as_integer().map(|value| value as f64))
            });
            value.with_context(|| {
                let name = kernel.title();
                format!("budgets.toml: the budget for {name} has no number \"{key}\"")
            })
        };
        Ok(Budget {
            units: number("units")? as u32,
            compiled_out: number("compiled_out")?,
            off: number("off")?,
            stopped: number("stopped")?,
            on: number("on")?,
        })
    }

    /// The exceeded limits, one sentence each.
    fn exceeded_by(&self, figures: &Figures) -> Vec<String> {
        let base = figures.compiled_out;
        let mut all = Vec::new();
        if base.per_unit() > self.compiled_out {
            all.push(format!(
                "{:.1} instructions a unit, and {} are allowed",
                base.per_unit(),
                self.compiled_out
            ));
        }
        for (name, figure, allowed) in [
            ("off", figures.off, self.off),
            ("stopped", figures.stopped, self.stopped),
            ("on", figures.on, self.on),
        ] {
            let more = figure.percent_over(base);
            if more > allowed {
                all.push(format!(
                    "{name}: {more:.2} % more, and {allowed} % are allowed"
                ));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_budget_is_exceeded_by_one_instruction_in_a_hundred_units() {
        let figure = |instructions| Figure {
            units: 100,
            instructions,
            events: 130,
        };
        let budget = Budget {
            units: 100,
            compiled_out: 3000.0,
            off: 0.1,
            stopped: 0.1,
            on: 1.0,
        };
        let figures = Figures {
            compiled_out: figure(300_000),
            off: figure(300_300),
            stopped: figure(300_300),
            on: figure(303_000),
        };
        // Rounding may turn an exactly met bound into a missed one, so test slightly below it.
        let below = Budget {
            off: 0.1001,
            stopped: 0.1001,
            on: 1.0001,
            ..budget
        };
        assert_eq!(below.exceeded_by(&figures), Vec::<String>::new());
        let one_more = |figures: Figures| below.exceeded_by(&figures).len();
        assert_eq!(
            one_more(Figures {
                compiled_out: figure(300_001),
                ..figures
            }),
            1
        );
        assert_eq!(
            one_more(Figures {
                off: figure(300_301),
                ..figures
            }),
            1
        );
        assert_eq!(
            one_more(Figures {
                stopped: figure(300_301),
                ..figures
            }),
            1
        );
        assert_eq!(
            one_more(Figures {
                on: figure(303_001),
                ..figures
            }),
            1
        );
    }
}
