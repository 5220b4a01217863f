//! PCI devices: finding them, and their configuration (PCI Local Bus specification 3.0, chapter 6).

use super::port::{input32, out32};

const ADDRESS: u16 = 0xCF8;
const DATA: u16 = 0xCFC;
const COMMAND: u8 = 0x04;
const FIRST_BAR: u8 = 0x10;
const CAPABILITIES: u8 = 0x34;

/// A function of a device on bus 0. One hart at a time reads configurations.
#[derive(Clone, Copy, Debug)]
pub struct Function(u32);

impl Function {
    /// All functions on bus 0.
    pub fn all() -> impl Iterator<Item = Function> {
        (0..32 * 8)
            .map(|number| Function(1 << 31 | number << 8))
            .filter(|function| function.vendor() != 0xFFFF)
    }

    pub fn vendor(self) -> u16 {
        self.read(0) as u16
    }

    pub fn device(self) -> u16 {
        (self.read(0) >> 16) as u16
    }

    /// Four bytes of the configuration, at a multiple of 4.
    pub fn read(self, offset: u8) -> u32 {
        // SAFETY: selects a register.
        unsafe { out32(ADDRESS, self.0 | u32::from(offset)) };
        input32(DATA)
    }

    fn write(self, offset: u8, value: u32) {
        // SAFETY: selects a register, and writes one that leads the device to no memory.
        unsafe {
            out32(ADDRESS, self.0 | u32::from(offset));
            out32(DATA, value);
        }
    }

    /// Lets the device answer at its addresses and use memory, but not interrupt.
    pub fn enable(self) {
        const MEMORY: u32 = 1 << 1;
        const MASTER: u32 = 1 << 2;
        const NO_INTERRUPT: u32 = 1 << 10;
        let status = 0xFFFF_0000; // whose bits a 1 clears
        let command = self.read(COMMAND) & !status;
        self.write(COMMAND, command | MEMORY | MASTER | NO_INTERRUPT);
    }

    /// Offsets of its capabilities of this kind.
    pub fn capabilities(self, kind: u8) -> impl Iterator<Item = u8> {
        let next = |at: u8| Some(at & !3).filter(|&at| at != 0);
        let first = next(self.read(CAPABILITIES) as u8);
        // As many as fit, should they form a ring.
        core::iter::successors(first, move |&at| next((self.read(at) >> 8) as u8))
            .take(48)
            .filter(move |&at| self.read(at) as u8 == kind)
    }

    /// The address at which a region of the device's memory begins, as the firmware has chosen it.
    pub fn region(self, number: u8) -> Option<usize> {
        const IS_PORTS: u32 = 1;
        const IS_WIDE: u32 = 2 << 1;
        let at = FIRST_BAR + 4 * number;
        let low = self.read(at);
        let high = if low & IS_WIDE != 0 {
            self.read(at + 4)
        } else {
            0
        };
        let address = (u64::from(high) << 32 | u64::from(low & !15)) as usize;
        (low & IS_PORTS == 0 && address != 0).then_some(address)
    }
}
