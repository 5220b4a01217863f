//! The kernels' own counts of their events (`ledger.rs` of `kernels/hello` and `kernels/stress`),
//! read from their memory.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use object::{Object, ObjectSymbol};

/// Guest-physical address of the first byte of a RAM file of QEMU's riscv `virt`.
const RAM_BASE: u64 = 0x8000_0000;

/// A hart's calls that have returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hart {
    /// `SchedSwitch`.
    pub switch: u64,
    /// `IrqEnter`.
    pub irq_enter: u64,
    /// `IrqExit`.
    pub irq_exit: u64,
    /// `ThreadName`, on the names channel.
    pub thread_name: u64,
    /// `Marker`.
    pub marker: u64,
    /// Sequence number of the last marker of each of the hart's two threads, `2 * hart + 1` and
    /// `2 * hart + 2`.
    pub last: [u64; 2],
}

impl Hart {
    /// Calls that went to the events channel.
    pub fn events(&self) -> u64 {
        self.switch + self.irq_enter + self.irq_exit + self.marker
    }
}

/// The bytes at a symbol of the kernel `elf` in the RAM file; `base` is the address of the file's
/// first byte.
pub fn memory(ram: &Path, elf: &Path, base: u64, symbol: &str, len: usize) -> Vec<u8> {
    let image = fs::read(elf).unwrap();
    let object = object::File::parse(&*image).unwrap();
    let found = object
        .symbols()
        .find(|candidate| candidate.name() == Ok(symbol));
    let address = found
        .unwrap_or_else(|| panic!("the kernel has a {symbol}"))
        .address();
    let mut bytes = vec![0; len];
    File::open(ram)
        .unwrap()
        .read_exact_at(&mut bytes, address - base)
        .unwrap();
    bytes
}

/// The 64 bytes of each CPU in the ledger of the kernel `elf`, as words.
pub fn words(ram: &Path, elf: &Path, base: u64, cpus: usize) -> Vec<[u64; 8]> {
    let bytes = memory(ram, elf, base, "LEDGER", 64 * (cpus + 1));
    let mut lines = bytes.as_chunks::<64>().0.iter();
    assert!(
        lines.next().unwrap().starts_with(b"KYMO-LEDGER"),
        "the ledger is where its symbol says"
    );
    let words = |line: &[u8; 64]| {
        std::array::from_fn(|index| u64::from_le_bytes(line.as_chunks::<8>().0[index]))
    };
    lines.map(words).collect()
}

/// The ledger in the RAM file of the kernel `elf`, `kernels/hello`.
pub fn read(ram: &Path, elf: &Path, harts: usize) -> Vec<Hart> {
    let hart = |[switch, irq_enter, irq_exit, thread_name, marker, a, b, _]: [u64; 8]| Hart {
        switch,
        irq_enter,
        irq_exit,
        thread_name,
        marker,
        last: [a, b],
    };
    words(ram, elf, RAM_BASE, harts)
        .into_iter()
        .map(hart)
        .collect()
}
