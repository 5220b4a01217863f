//! Segments, as far as 64-bit mode still has them; each hart's task state segment, with its stacks;
//! and the table of vectors.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::mem::{offset_of, size_of};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{PerHart, trap};
use crate::MAX_HARTS;

/// Selectors. The kernel's are also those of boot.s.
pub const KERNEL_CODE: usize = 8;
pub const USER_DATA: usize = 24 | 3;
pub const USER_CODE: usize = 32 | 3;
const TASK: usize = 40;

/// A task state segment (Intel SDM volume 3, 8.7).
#[repr(C, packed(4))]
pub struct Task {
    reserved: u32,
    /// Stacks for traps into the privilege levels 0 to 2.
    stacks: [u64; 3],
    reserved_too: u64,
    /// Stacks that a vector can choose, the first of which is number 1.
    chosen: [u64; 7],
    reserved_last: [u16; 5],
    /// Where the permissions for ports begin: behind the end.
    ports: u16,
}

impl Task {
    pub const EMPTY: Task = Task {
        reserved: 0,
        stacks: [0; 3],
        reserved_too: 0,
        chosen: [0; 7],
        reserved_last: [0; 5],
        ports: size_of::<Task>() as u16,
    };
    /// Offset of the stack for traps from user mode.
    pub const KERNEL_STACK: usize = offset_of!(Task, stacks);
}

/// Stacks with a number.
const NMI_STACK: usize = 1;
const DOUBLE_FAULT_STACK: usize = 2;

/// A stack for one vector of one hart. An NMI finds the hart's `PerHart` behind it (trap.s).
#[repr(C, align(16))]
struct Stack(UnsafeCell<StackContent>);

#[repr(C, align(16))]
struct StackContent {
    stack: [u8; 16 << 10],
    per_hart: usize,
}

// SAFETY: only its hart uses it.
unsafe impl Sync for Stack {}

static STACKS: [[Stack; 2]; MAX_HARTS] = [const {
    [const {
        Stack(UnsafeCell::new(StackContent {
            stack: [0; 16 << 10],
            per_hart: 0,
        }))
    }; 2]
}; MAX_HARTS];

/// A hart's descriptors: none, the kernel's code and data, data and code of programs, and the task
/// state segment, which takes two.
pub type Descriptors = [u64; 7];

const DESCRIPTORS: Descriptors = [
    0,
    0x00af_9a00_0000_ffff,
    0x00cf_9200_0000_ffff,
    0x00cf_f200_0000_ffff,
    0x00af_fa00_0000_ffff,
    0,
    0,
];

/// The operand of `lgdt` and `lidt`.
#[repr(C, packed(2))]
struct Pointer {
    limit: u16,
    base: u64,
}

/// Gives a hart its segments and its vectors.
///
/// # Safety
/// Called once on each hart, with its own `PerHart`, to which `gs` points, after [`fill_vectors`].
pub unsafe fn load(id: usize, mine: *mut PerHart) {
    let base = mine as usize;
    // SAFETY: only this hart uses these.
    unsafe {
        let task = &raw mut (*mine).task;
        for (number, stack) in [NMI_STACK, DOUBLE_FAULT_STACK].into_iter().zip(&STACKS[id]) {
            let stack = stack.0.get();
            (*stack).per_hart = base;
            let top = &raw const (*stack).per_hart as u64;
            (&raw mut (*task).chosen[number - 1]).write_unaligned(top);
        }
        let (address, limit) = (task as u64, size_of::<Task>() as u64 - 1);
        let descriptors = &raw mut (*mine).descriptors;
        *descriptors = DESCRIPTORS;
        // An available task state segment of 64 bits.
        (*descriptors)[TASK / 8] =
            limit | (address & 0xFF_FFFF) << 16 | 0x89 << 40 | (address >> 24 & 0xFF) << 56;
        (*descriptors)[TASK / 8 + 1] = address >> 32;
        let descriptors = Pointer {
            limit: size_of::<Descriptors>() as u16 - 1,
            base: descriptors as u64,
        };
        asm!("lgdt [{}]", in(reg) &raw const descriptors, options(readonly, nostack));
        asm!("ltr {:x}", in(reg) TASK, options(nostack));
        let vectors = Pointer {
            limit: size_of::<Vectors>() as u16 - 1,
            base: &raw const VECTORS as u64,
        };
        asm!("lidt [{}]", in(reg) &raw const vectors, options(readonly, nostack));
    }
}

type Vectors = [[AtomicU64; 2]; 256];

static VECTORS: Vectors = [const { [const { AtomicU64::new(0) }; 2] }; 256];

/// Fills in the table of vectors, before any hart loads it.
pub fn fill_vectors() {
    const DOUBLE_FAULT: usize = 8;
    const STUBS: usize = trap::SERIAL + 1;
    unsafe extern "C" {
        /// In trap.s.
        safe static trap_stubs: [u64; STUBS];
        safe static call_stub: u64;
        fn nmi_stub();
    }
    let set = |vector: usize, entry: u64, stack: usize, privilege: u64| {
        // A gate that masks interrupts.
        let kind = 0x8E | privilege << 5;
        let low = entry & 0xFFFF
            | (KERNEL_CODE as u64) << 16
            | (stack as u64) << 32
            | kind << 40
            | (entry >> 16 & 0xFFFF) << 48;
        VECTORS[vector][1].store(entry >> 32, Relaxed);
        VECTORS[vector][0].store(low, Relaxed);
    };
    for (vector, &stub) in trap_stubs.iter().enumerate() {
        set(vector, stub, 0, 0);
    }
    set(trap::NMI, nmi_stub as *const () as u64, NMI_STACK, 0);
    set(
        DOUBLE_FAULT,
        trap_stubs[DOUBLE_FAULT],
        DOUBLE_FAULT_STACK,
        0,
    );
    // Programs may use this one.
    set(trap::CALL, call_stub, 0, 3);
}
