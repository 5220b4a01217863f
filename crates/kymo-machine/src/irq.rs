//! Interrupt lines.

use serde::{Deserialize, Serialize};

/// An interrupt's line or vector, in the kernel's numbering. Linux's soft interrupts have a
/// separate numbering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct IrqLine(pub(crate) u64);

const SOFT: u64 = 1 << 63;

impl IrqLine {
    /// The line or vector with the kernel's number.
    pub fn hard(number: u64) -> IrqLine {
        IrqLine(number)
    }

    /// Linux's soft interrupt of this vector.
    pub fn soft(vector: u64) -> IrqLine {
        IrqLine(vector | SOFT)
    }

    /// The kernel's number.
    pub fn number(self) -> u64 {
        self.0 & !SOFT
    }

    /// Whether it is a soft interrupt.
    pub fn is_soft(self) -> bool {
        self.0 & SOFT != 0
    }
}

impl std::fmt::Display for IrqLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.number().fmt(f)
    }
}
