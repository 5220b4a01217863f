//! The measured kernels: their machines and words, and what they say of their work.

use anyhow::{Context, Result, bail};

use crate::Figure;

/// A kernel on an architecture.
#[derive(Debug)]
pub struct Kernel {
    /// Its folder.
    pub kernel: &'static str,
    pub arch: &'static str,
    /// The machine.
    pub qemu: &'static [&'static str],
    pub harts: u32,
    /// Instructions in a tick of its clock: a nanosecond each.
    instructions_per_tick: u64,
    /// The demo kernel's workload; kernels/hello has one only.
    pub workload: Option<&'static str>,
}

/// What a kernel records while it works.
#[derive(Clone, Copy, Debug)]
pub enum Recording {
    /// Nothing: it never starts.
    Never,
    /// Nothing: it starts and stops before.
    Stopped,
    /// Every event.
    On,
}

const RISCV64: &[&str] = &["qemu-system-riscv64", "-M", "virt", "-nographic"];
const X86_64: &[&str] = &[
    "qemu-system-x86_64",
    "-M",
    "q35",
    "-display",
    "none",
    "-serial",
    "stdio",
    "-device",
    "isa-debug-exit,iobase=0xf4,iosize=4",
    // The firmware reads the clock.
    "-rtc",
    "base=2020-01-01,clock=vm",
];

const AARCH64: &[&str] = &[
    "qemu-system-aarch64",
    "-M",
    "virt,gic-version=3",
    "-cpu",
    "cortex-a72",
    "-nographic",
    "-semihosting-config",
    "enable=on,target=native",
];

/// The demo kernel works on one hart, which is never idle then: its processes exchange messages and
/// bytes by system calls.
const DEMO: Kernel = Kernel {
    kernel: "demo",
    arch: "riscv64",
    qemu: RISCV64,
    harts: 1,
    instructions_per_tick: 100,
    workload: Some(CALLS),
};

const DEMO_X86_64: Kernel = Kernel {
    arch: "x86_64",
    qemu: X86_64,
    instructions_per_tick: 1,
    ..DEMO
};

const DEMO_AARCH64: Kernel = Kernel {
    arch: "aarch64",
    qemu: AARCH64,
    instructions_per_tick: 16,
    ..DEMO
};

/// The demo kernel's work with system calls, and with switches and wake-ups.
const CALLS: &str = "ipc";
const SWITCHES: &str = "turns";

pub const KERNELS: [Kernel; 7] = [
    Kernel {
        kernel: "hello",
        harts: 4,
        workload: None,
        ..DEMO
    },
    DEMO,
    DEMO.with(SWITCHES),
    DEMO_X86_64,
    DEMO_X86_64.with(SWITCHES),
    DEMO_AARCH64,
    DEMO_AARCH64.with(SWITCHES),
];

impl Kernel {
    const fn with(self, workload: &'static str) -> Kernel {
        Kernel {
            workload: Some(workload),
            ..self
        }
    }

    /// Whether the parts of what tracing costs are counted: on RISC-V, which stands for the others.
    pub fn has_parts(&self) -> bool {
        self.workload.is_some() && self.arch == DEMO.arch
    }

    /// Its name on the command line, for all workloads.
    pub fn name(&self) -> String {
        format!("{}:{}", self.kernel, self.arch)
    }

    /// What a table of it is called.
    pub fn title(&self) -> String {
        let of = format!("`kernels/{}` on {}", self.kernel, self.arch);
        match self.workload {
            Some(workload) => format!("{of}, workload `{workload}`"),
            None => of,
        }
    }

    /// The command line for this amount of work.
    pub fn words(&self, units: u32, recording: Recording) -> String {
        let words = match (self.workload, recording) {
            (None, Recording::Never) => "kymo=off".to_owned(),
            (None, Recording::Stopped) => "stopped=yes".to_owned(),
            (None, Recording::On) => "kymo=start".to_owned(),
            (Some(workload), Recording::Never) => format!("kymo=off run={workload}"),
            (Some(workload), Recording::Stopped) => {
                format!("kymo=off run=perf,start run=perf,stop run={workload}")
            }
            (Some(workload), Recording::On) => format!("kymo=start run={workload}"),
        };
        let amount = if self.workload.is_some() {
            "rounds"
        } else {
            "units"
        };
        format!("{amount}={units} packets=16 {words}")
    }

    /// The figure in what the kernel says.
    ///
    /// kernels/hello: `hello: 80000 units of work in 2417000 ticks`, and a line
    /// `hart 0: switch=1 .. marker=2 last=..` a hart. kernels/demo: `demo: ipc took 2417000 ticks`,
    /// and a line `hart 0: 12345 operations` a hart.
    pub fn figure(&self, units: u32, output: &str) -> Result<Figure> {
        let lines = output.lines();
        let ticks = lines
            .clone()
            .find_map(|line| line.trim_end().strip_suffix(" ticks"))
            .context("no line about its work")?;
        let (work, ticks) = ticks.rsplit_once(' ').context("no ticks")?;
        let units = work
            .strip_prefix("hello: ")
            .and_then(|work| work.strip_suffix(" units of work in"))
            .map_or(Ok(units.into()), str::parse)?;
        let counts = lines
            .filter(|line| line.starts_with("hart ") && line.contains(": "))
            .flat_map(|line| line.split([' ', '=']));
        let events: u64 = counts.filter_map(|word| word.parse::<u64>().ok()).sum();
        if events == 0 {
            bail!("no line about its events")
        }
        Ok(Figure {
            units,
            instructions: ticks.parse::<u64>()? * self.instructions_per_tick,
            events,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_the_kernels_say_is_read() {
        let said = "OpenSBI v1.1\nhart count 4\nhello: recording on 2 harts\nhello: 400 units of work in 12000 ticks\n\
            hart 0: switch=10 irq_enter=3 irq_exit=3 thread_name=2 marker=200 last=50,50\n\
            hart 1: switch=11 irq_enter=4 irq_exit=4 thread_name=2 marker=200 last=50,50\n";
        let [hello, _, _, demo, ..] = &KERNELS;
        let figure = Figure {
            units: 400,
            instructions: 1_200_000,
            events: 218 + 221,
        };
        assert_eq!(hello.figure(100, said).unwrap(), figure);
        assert!(hello.figure(100, "hello: recording on 2 harts\n").is_err());
        assert!(
            hello
                .figure(100, "hello: 400 units of work in 12000 ticks\n")
                .is_err()
        );
        let said = "demo: recording on 1 harts, 3 channels\ndemo: ipc took 12000 ticks\nhart 0: 1234 operations\n";
        let figure = Figure {
            units: 100,
            instructions: 12_000,
            events: 1234,
        };
        assert_eq!(demo.figure(100, said).unwrap(), figure);
    }
}
