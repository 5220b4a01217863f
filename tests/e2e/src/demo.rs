//! The counts that `kernels/demo` keeps of its operations (its `ledger.rs`), by hart and by event.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use kymo::vocabulary::ALL;
use kymo_ctf::{Event, Item, LossKind, Trace};

use crate::{built, ledger};

/// An architecture that the kernel runs on, and what differs there.
#[derive(Debug)]
pub struct Arch {
    /// Its name.
    pub name: &'static str,
    variable: &'static str,
    variable_without_trace: &'static str,
    /// Guest-physical address of the first byte of RAM.
    ram: u64,
    /// QEMU's program and its options, except for memory and its backend.
    qemu: &'static [&'static str],
    machine: &'static str,
    /// QEMU's options for a port, before the port itself.
    pub serial_bus: &'static [&'static str],
    /// The number of the serial port's interrupt.
    pub uart: u64,
    /// Ticks of the clock in a millisecond, under `-icount shift=0`.
    pub ticks_per_ms: u64,
    /// The addresses of programs' heaps.
    pub heap: Range<u64>,
    /// The driver by which one hart samples the others.
    pub remote_driver: &'static str,
}

/// RISC-V, `virt`.
pub const RISCV64: Arch = Arch {
    name: "riscv64",
    variable: "KYMO_DEMO_RISCV64",
    variable_without_trace: "KYMO_DEMO_WITHOUT_TRACE_RISCV64",
    ram: 0x8000_0000,
    qemu: &["qemu-system-riscv64", "-nographic", "-no-reboot"],
    machine: "virt",
    serial_bus: &[
        "-global",
        "virtio-mmio.force-legacy=false",
        "-device",
        "virtio-serial-device",
    ],
    uart: 26,
    ticks_per_ms: 10_000,
    heap: 0x5000_0000..0x5400_0000,
    remote_driver: "ipi",
};

/// x86-64, `q35`.
pub const X86_64: Arch = Arch {
    name: "x86_64",
    variable: "KYMO_DEMO_X86_64",
    variable_without_trace: "KYMO_DEMO_WITHOUT_TRACE_X86_64",
    ram: 0,
    qemu: &[
        "qemu-system-x86_64",
        "-display",
        "none",
        "-serial",
        "stdio",
        "-no-reboot",
        "-device",
        "isa-debug-exit,iobase=0xf4,iosize=4",
    ],
    machine: "q35",
    serial_bus: &["-device", "virtio-serial-pci"],
    uart: 36,
    ticks_per_ms: 1_000_000,
    heap: 0x5000_0000..0x5400_0000,
    remote_driver: "nmi",
};

/// AArch64, `virt` with GICv3.
pub const AARCH64: Arch = Arch {
    name: "aarch64",
    variable: "KYMO_DEMO_AARCH64",
    variable_without_trace: "KYMO_DEMO_WITHOUT_TRACE_AARCH64",
    ram: 0x4000_0000,
    qemu: &[
        "qemu-system-aarch64",
        "-cpu",
        "cortex-a72",
        "-nographic",
        "-no-reboot",
        "-semihosting-config",
        "enable=on,target=native",
    ],
    machine: "virt,gic-version=3",
    serial_bus: RISCV64.serial_bus,
    uart: 33,
    ticks_per_ms: 62_500,
    heap: 0x9000_0000..0x9400_0000,
    remote_driver: "nmi",
};

/// All of them.
pub const ARCHES: [Arch; 3] = [RISCV64, X86_64, AARCH64];

impl Arch {
    /// The kernel's ELF file.
    pub fn kernel(&self) -> PathBuf {
        built(self.variable)
    }

    /// That of the kernel whose tracepoints are compiled out.
    pub fn kernel_without_trace(&self) -> PathBuf {
        built(self.variable_without_trace)
    }

    /// QEMU, with 128 MiB of memory: in this file, if one is given.
    pub fn qemu(&self, ram: Option<&Path>) -> Vec<String> {
        let backend = if ram.is_some() {
            ",memory-backend=ram"
        } else {
            ""
        };
        let mut words: Vec<String> = self.qemu.iter().map(|&word| word.to_owned()).collect();
        let machine = ["-m", "128M", "-M", &format!("{}{backend}", self.machine)];
        words.extend(machine.map(str::to_owned));
        if let Some(ram) = ram {
            let backend = "memory-backend-file,id=ram,size=128M,share=on";
            words.push("-object".to_owned());
            words.push(format!("{backend},mem-path={}", ram.display()));
        }
        words
    }

    /// QEMU's exit code when the kernel ends with this one. On x86-64, `isa-debug-exit` makes it
    /// odd, except for 0, which is a power-off.
    pub fn exit_code(&self, kernels: i32) -> i32 {
        match (self.name, kernels) {
            ("x86_64", 1..) => 2 * kernels + 1,
            _ => kernels,
        }
    }
}

/// All operations since boot.
pub const LEDGER: &str = "LEDGER";
/// Operations since boot while their events were on.
pub const RECORDED: &str = "RECORDED";

/// Number of counters per hart, indexed by event id.
const IDS: usize = 192;

/// Counts by event name.
pub type Counts = BTreeMap<&'static str, u64>;

/// The event's name in the vocabulary.
pub fn name_of(event: &Event) -> &'static str {
    ALL.events()
        .iter()
        .find(|schema| schema.name == event.name())
        .expect("the kernel has no events of its own")
        .name
}

/// Whether this is an event of the library itself, not of the kernel.
pub fn is_the_librarys(event: &Event) -> bool {
    event.name().starts_with("kymo_")
}

/// The counts of each hart, without events that did not occur.
pub fn ledger(arch: &Arch, ram: &Path, symbol: &str, harts: usize) -> Vec<Counts> {
    let bytes = ledger::memory(ram, &arch.kernel(), arch.ram, symbol, 64 + harts * IDS * 8);
    assert!(
        bytes.starts_with(b"KYMO-LEDGER-2"),
        "the ledger is where its symbol says"
    );
    let words: Vec<u64> = bytes[64..]
        .as_chunks::<8>()
        .0
        .iter()
        .map(|bytes| u64::from_le_bytes(*bytes))
        .collect();
    let hart = |counters: &[u64]| {
        let known = ALL
            .events()
            .iter()
            .map(|schema| (schema.name, counters[schema.id as usize]));
        let known: Counts = known.filter(|(_, count)| *count > 0).collect();
        assert_eq!(
            known.values().sum::<u64>(),
            counters.iter().sum::<u64>(),
            "the ledger counts what is no event"
        );
        known
    };
    words.chunks(IDS).map(hart).collect()
}

/// The counts of each hart in a trace, and the number of lost events.
pub fn counts(trace: &Path, harts: usize) -> (Vec<Counts>, u64) {
    let (mut counts, mut lost) = (vec![Counts::new(); harts], 0);
    for item in Trace::open(trace).unwrap().events() {
        match item.unwrap() {
            Item::Event(event) if is_the_librarys(&event) => {}
            Item::Event(event) => {
                *counts[event.cpu().unwrap() as usize]
                    .entry(name_of(&event))
                    .or_default() += 1
            }
            Item::Loss(loss) if loss.kind == LossKind::Events => lost += loss.count,
            other => panic!("{}: {other:?}", trace.display()),
        }
    }
    (counts, lost)
}

/// All events of all harts.
pub fn sum(counts: &[Counts]) -> u64 {
    counts.iter().flat_map(Counts::values).sum()
}
