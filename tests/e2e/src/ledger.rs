//! What the demo kernel itself knows of the events it made (`kernels/hello/src/ledger.rs`), read out of its memory.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use object::{Object, ObjectSymbol};

/// Guest-physical address of the first byte of a RAM file of QEMU's riscv `virt`.
const RAM_BASE: u64 = 0x8000_0000;

/// One hart's calls that have returned.
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
    /// Sequence number of the last marker of each of the hart's two threads, `2 * hart + 1` and `2 * hart + 2`.
    pub last: [u64; 2],
}

impl Hart {
    /// Calls that went to the events channel.
    pub fn events(&self) -> u64 {
        self.switch + self.irq_enter + self.irq_exit + self.marker
    }
}

/// The ledger in the RAM file of the kernel `elf`.
pub fn read(ram: &Path, elf: &Path, harts: usize) -> Vec<Hart> {
    let image = fs::read(elf).unwrap();
    let object = object::File::parse(&*image).unwrap();
    let address = object.symbols().find(|symbol| symbol.name() == Ok("LEDGER")).expect("the kernel has a ledger").address();
    let file = File::open(ram).unwrap();
    let mut magic = [0; 11];
    file.read_exact_at(&mut magic, address - RAM_BASE).unwrap();
    assert_eq!(&magic, b"KYMO-LEDGER", "the ledger is where its symbol says");
    (0..harts as u64)
        .map(|hart| {
            let mut bytes = [0; 64];
            file.read_exact_at(&mut bytes, address - RAM_BASE + 64 * (hart + 1)).unwrap();
            let word = |index: usize| u64::from_le_bytes(bytes[8 * index..8 * index + 8].try_into().unwrap());
            Hart {
                switch: word(0),
                irq_enter: word(1),
                irq_exit: word(2),
                thread_name: word(3),
                marker: word(4),
                last: [word(5), word(6)],
            }
        })
        .collect()
}
