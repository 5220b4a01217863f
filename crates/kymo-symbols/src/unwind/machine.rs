//! What differs between machines: the registers by their DWARF numbers, and the frame record.

use gimli::{Register, Vendor};
use object::Architecture;

/// Most registers of a machine that unwind tables name, the program counter included.
pub(crate) const REGISTERS: usize = 33;

/// A machine's registers and calling convention.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    /// The stack pointer.
    pub(crate) sp: Register,
    /// The frame pointer.
    pub(crate) fp: Register,
    /// The register in which a call leaves its return address, if it is not on the stack.
    pub(crate) link: Option<Register>,
    /// The program counter, where a table may ask for it.
    pub(crate) ip: Option<Register>,
    pub(crate) record: FrameRecord,
    pub(crate) vendor: Vendor,
    /// Whether the upper bits of a return address may hold a signature.
    pub(crate) signs_addresses: bool,
}

/// What a function with a frame pointer leaves on the stack; offsets are from the frame pointer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FrameRecord {
    pub(crate) fp: i64,
    pub(crate) return_address: i64,
    /// The caller's stack pointer, where the record says it.
    pub(crate) sp: Option<i64>,
}

/// System V ABI, AMD64 supplement, figure 3.36.
static X86_64: Machine = Machine {
    sp: Register(7),
    fp: Register(6),
    link: None,
    ip: Some(Register(16)),
    record: FrameRecord {
        fp: 0,
        return_address: 8,
        sp: Some(16),
    },
    vendor: Vendor::Default,
    signs_addresses: false,
};

/// DWARF for the Arm 64-bit architecture, section 4.1. The frame record is at the low end of the
/// frame, so that it does not say where the frame ends.
static AARCH64: Machine = Machine {
    sp: Register(31),
    fp: Register(29),
    link: Some(Register(30)),
    ip: Some(Register(32)),
    record: FrameRecord {
        fp: 0,
        return_address: 8,
        sp: None,
    },
    vendor: Vendor::AArch64,
    signs_addresses: true,
};

/// RISC-V ABIs specification, "DWARF register numbers" and "frame pointer convention".
static RISCV64: Machine = Machine {
    sp: Register(2),
    fp: Register(8),
    link: Some(Register(1)),
    ip: None,
    record: FrameRecord {
        fp: -16,
        return_address: -8,
        sp: Some(0),
    },
    vendor: Vendor::Default,
    signs_addresses: false,
};

impl Machine {
    /// The machine of a program, if its stacks can be unwound.
    pub(crate) fn of(architecture: Architecture) -> Option<&'static Machine> {
        match architecture {
            Architecture::X86_64 => Some(&X86_64),
            Architecture::Aarch64 => Some(&AARCH64),
            Architecture::Riscv64 => Some(&RISCV64),
            _ => None,
        }
    }

    /// A return address without the signature that pointer authentication puts into its upper bits:
    /// bit 55 says which half of the address space it is in.
    pub(crate) fn without_signature(&self, address: u64) -> u64 {
        const SIGNATURE: u64 = 0xffff << 48;
        match address & 1 << 55 {
            _ if !self.signs_addresses => address,
            0 => address & !SIGNATURE,
            _ => address | SIGNATURE,
        }
    }
}
