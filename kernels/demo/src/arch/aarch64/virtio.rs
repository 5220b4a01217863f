//! The slots of virtio devices, which are memory-mapped.

pub use crate::arch::virtio_mmio::Registers;

/// The first slot's registers.
pub const BASE: usize = 0x0A00_0000;

/// The addresses of their registers, with a device or without.
pub fn slots() -> impl Iterator<Item = usize> {
    (0..32).map(|place| BASE + place * 0x200)
}
