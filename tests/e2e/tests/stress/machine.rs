//! A run of `kernels/stress` under QEMU, with the kernel's counts.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use kymo_capture::Summary;
use kymo_capture::qemu::Launch;
use kymo_capture::record::{self, Ending, Options};
use kymo_e2e::interrupted::{Function, functions};
use kymo_e2e::{built, ledger, run, scratch};

use super::{CPUS, DEPTHS};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Machine {
    Riscv64,
    Riscv32,
    X86_64,
}

impl Machine {
    fn kernel(self) -> PathBuf {
        built(match self {
            Machine::Riscv64 => "KYMO_STRESS_RISCV64",
            Machine::Riscv32 => "KYMO_STRESS_RISCV32",
            Machine::X86_64 => "KYMO_STRESS_X86_64",
        })
    }

    pub(crate) fn is_riscv(self) -> bool {
        self != Machine::X86_64
    }

    fn ram_base(self) -> u64 {
        if self.is_riscv() { 0x8000_0000 } else { 0 }
    }

    /// All vCPUs in parallel, optionally with one instruction per block.
    fn accelerator(self, one_instruction_blocks: bool) -> Vec<&'static str> {
        if !one_instruction_blocks {
            return vec!["-accel", "tcg,thread=multi"];
        }
        let program = match self {
            Machine::Riscv64 => "qemu-system-riscv64",
            Machine::Riscv32 => "qemu-system-riscv32",
            Machine::X86_64 => "qemu-system-x86_64",
        };
        let text =
            String::from_utf8(run(Command::new(program).arg("--version"), 0).stdout).unwrap();
        let mut numbers = text
            .split_once("version ")
            .unwrap()
            .1
            .split(|c: char| !c.is_ascii_digit());
        let mut number = || numbers.next().unwrap().parse::<u32>().unwrap();
        if (number(), number()) >= (8, 1) {
            vec!["-accel", "tcg,thread=multi,one-insn-per-tb=on"]
        } else {
            vec!["-accel", "tcg,thread=multi", "-singlestep"]
        }
    }

    fn functions(self, hits: &[u32]) -> Vec<Function> {
        let objdump = if self.is_riscv() {
            "riscv64-unknown-elf-objdump"
        } else {
            "objdump"
        };
        functions(&self.kernel(), objdump, hits)
    }
}

/// The settings and results of a run.
pub(crate) struct Run {
    pub(crate) machine: Machine,
    pub(crate) name: String,
    pub(crate) trace: PathBuf,
    pub(crate) summary: Summary,
    /// Whether QEMU used blocks of one instruction.
    pub(crate) one_instruction_blocks: bool,
    /// The kernel's own counts.
    pub(crate) cpus: Vec<Counts>,
    pub(crate) functions: Vec<Function>,
}

impl Drop for Run {
    /// Keeps the files of a failed run for inspection.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            fs::remove_dir_all(&self.trace).unwrap();
        }
    }
}

pub(crate) struct Counts {
    pub(crate) calls: [u64; DEPTHS],
    pub(crate) interrupts: u64,
    pub(crate) nmis: u64,
    pub(crate) jumps: u64,
}

/// Records the kernel with this command line, live. `blocks`: as QEMU makes them, or of one
/// instruction each.
pub(crate) fn stress(
    machine: Machine,
    name: &str,
    append: &str,
    one_instruction_blocks: bool,
) -> Run {
    static INTERRUPTED: AtomicBool = AtomicBool::new(false);
    let kernel = machine.kernel();
    let trace = scratch(name).join("trace");
    fs::create_dir(&trace).unwrap();
    let ram = record::ram_file(&trace);
    let launch = Launch::kernel(&kernel, CPUS as u32, Some(append), &ram).unwrap();
    let launch = launch.with(machine.accelerator(one_instruction_blocks));
    let timeout = Some(Duration::from_secs(3600));
    let options = Options {
        timeout,
        keep_ram: true,
        console: Some(|_| ()),
        ..Options::new(&launch, &trace, &INTERRUPTED)
    };
    let recorded = record::record(&options, |_| ()).unwrap();
    assert_eq!(recorded.ending, Ending::PoweredOff, "{name}");
    let words = ledger::words(&ram, &kernel, machine.ram_base(), CPUS);
    let counts = |&[a, b, c, d, e, interrupts, nmis, jumps]: &[u64; 8]| Counts {
        calls: [a, b, c, d, e],
        interrupts,
        nmis,
        jumps,
    };
    let hits = ledger::memory(&ram, &kernel, machine.ram_base(), "HITS", 4 << 16);
    let hits: Vec<u32> = hits
        .as_chunks::<4>()
        .0
        .iter()
        .map(|bytes| u32::from_le_bytes(*bytes))
        .collect();
    fs::remove_file(&ram).unwrap();
    Run {
        machine,
        name: name.to_owned(),
        trace,
        summary: recorded.memory.unwrap().summary,
        one_instruction_blocks,
        cpus: words.iter().map(counts).collect(),
        functions: machine.functions(&hits),
    }
}
