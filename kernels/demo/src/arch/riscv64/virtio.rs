//! The slots of virtio devices, which are memory-mapped.

use super::paging::PAGE;
use super::serial;

pub use crate::arch::virtio_mmio::Registers;

/// The addresses of their registers, with a device or without.
pub fn slots() -> impl Iterator<Item = usize> {
    (1..=8).map(|place| serial::BASE + place * PAGE)
}
