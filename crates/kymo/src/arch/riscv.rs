//! RISC-V, 64 and 32 bits: the `time` CSR, interrupts masked in `sstatus` or `mstatus`, and control
//! blocks at `tp`.

use crate::sync::{AtomicUsize, Ordering::Release, fence};
use core::arch::asm;

use crate::channel::ChannelKind;
use crate::ring::layout::{COUNTERS_OFFSET, Control};
use crate::ring::local::{ControlWord, Local};
use crate::ring::masked::Interrupts;

/// The `time` CSR, in ticks of the timebase.
#[cfg(target_arch = "riscv64")]
#[inline(always)]
pub fn time() -> u64 {
    let now;
    // SAFETY: reads a counter.
    unsafe { asm!("rdtime {}", out(reg) now, options(nomem, nostack, preserves_flags)) };
    now
}

/// The `time` CSR, in ticks of the timebase: high half, low half, high half until it stands still.
#[cfg(target_arch = "riscv32")]
#[inline(always)]
pub fn time() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: reads a counter.
    unsafe {
        asm!("2:", "rdtimeh {high}", "rdtime {low}", "rdtimeh {again}", "bne {high}, {again}, 2b",
            high = out(reg) high, low = out(reg) low, again = out(reg) _,
            options(nomem, nostack, preserves_flags));
    }
    u64::from(low) | u64::from(high) << 32
}

/// The `time` CSR, low half first: 2^32 ticks too late where a carry came between. For
/// [`Platform::quick_clock`](crate::platform::Platform::quick_clock).
#[cfg(target_arch = "riscv32")]
#[inline(always)]
pub fn quick_time() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: reads a counter. In one piece, so that the halves keep their order.
    unsafe {
        asm!(
            "rdtime {low}",
            "rdtimeh {high}",
            low = out(reg) low, high = out(reg) high,
            options(nomem, nostack, preserves_flags),
        )
    };
    u64::from(low) | u64::from(high) << 32
}

macro_rules! status_register {
    ($(#[$doc:meta])* $name:ident: $csr:literal, $bit:literal) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name;

        // SAFETY: with this bit clear, no interrupt of the mode is taken in it; the memory clobbers
        // keep the record's stores inside.
        unsafe impl Interrupts for $name {
            #[inline(always)]
            fn mask() -> usize {
                let saved;
                // SAFETY: clears the bit and returns what the register was.
                unsafe { asm!(concat!("csrrci {}, ", $csr, ", ", $bit), out(reg) saved, options(nostack)) };
                saved
            }
            #[inline(always)]
            fn restore(saved: usize) {
                // SAFETY: nothing else changes the register while interrupts are masked.
                unsafe { asm!(concat!("csrw ", $csr, ", {}"), in(reg) saved, options(nostack)) };
            }
        }
    };
}

status_register! {
    /// Masks interrupts in `sstatus`: kernels in S-mode.
    Sstatus: "sstatus", 2
}
status_register! {
    /// Masks interrupts in `mstatus`: kernels in M-mode.
    Mstatus: "mstatus", 8
}

/// The instruction for a machine word.
#[cfg(target_arch = "riscv64")]
macro_rules! word_sized {
    ($name:ident, $operands:literal) => {
        concat!(stringify!($name), "d ", $operands)
    };
}
#[cfg(target_arch = "riscv32")]
macro_rules! word_sized {
    ($name:ident, $operands:literal) => {
        concat!(stringify!($name), "w ", $operands)
    };
}

/// `tp` holds the address of this hart's first control block. The cheapest form: every access is
/// one instruction.
///
/// The kernel keeps its own per-hart pointer in [`kernel_word`].
#[derive(Debug)]
pub struct AtTp;

// SAFETY: the kernel that chooses `AtTp` has `tp` point to this hart's control blocks whenever an
// event may be recorded.
unsafe impl Local for AtTp {
    type Cpu = ();

    #[inline(always)]
    fn is_on<W: ControlWord>() -> bool {
        // An instruction reaches 2,047 bytes: the last of the three blocks is reached in two.
        const REACH: usize = 2048;
        let on: usize;
        if W::OFFSET < REACH {
            // SAFETY: a byte of this hart's block.
            unsafe {
                asm!(
                    "lbu {}, {}(tp)",
                    out(reg) on, const W::OFFSET % REACH,
                    options(nostack, readonly, preserves_flags),
                )
            };
        } else {
            // SAFETY: as above.
            unsafe {
                asm!(
                    "addi {on}, tp, {reach}",
                    "lbu {on}, {rest}({on})",
                    on = out(reg) on,
                    reach = const REACH - 1, rest = const W::OFFSET % REACH + 1,
                    options(nostack, readonly, preserves_flags),
                )
            };
        }
        if W::MASK == 0xff {
            on != 0
        } else {
            on & usize::from(W::MASK) != 0
        }
    }
    #[inline(always)]
    fn cpu() -> Option<()> {
        Some(())
    }
    #[inline(always)]
    unsafe fn load_word<W: ControlWord>((): ()) -> usize {
        let value;
        // SAFETY: an aligned word of this hart's block.
        unsafe {
            asm!(
                word_sized!(l, "{}, {}(tp)"),
                out(reg) value, const W::OFFSET,
                options(nostack, readonly, preserves_flags),
            )
        };
        value
    }
    #[inline(always)]
    unsafe fn load<W: ControlWord>((): ()) -> u32 {
        let value;
        // SAFETY: an aligned word of this hart's block.
        unsafe {
            asm!(
                "lw {}, {}(tp)",
                out(reg) value, const W::OFFSET,
                options(nostack, readonly, preserves_flags),
            )
        };
        value
    }
    #[inline(always)]
    unsafe fn store<W: ControlWord>((): (), value: u32) {
        // SAFETY: an aligned word of this hart's block, which only this hart writes.
        unsafe {
            asm!("sw {}, {}(tp)", in(reg) value, const W::OFFSET, options(nostack, preserves_flags))
        };
    }
    #[inline(always)]
    unsafe fn publish_word<W: ControlWord>((): (), value: usize) {
        fence(Release);
        // SAFETY: an aligned word of this hart's block, which only this hart writes.
        unsafe {
            asm!(
                word_sized!(s, "{}, {}(tp)"),
                in(reg) value, const W::OFFSET,
                options(nostack, preserves_flags),
            )
        };
    }
    #[inline(always)]
    fn control((): (), kind: ChannelKind) -> &'static Control {
        let first: *const Control;
        // SAFETY: copies a register.
        unsafe { asm!("mv {}, tp", out(reg) first, options(nomem, nostack, preserves_flags)) };
        // SAFETY: the blocks of one hart stand in a row, one a kind, and stay mapped.
        unsafe { &*first.add(kind as usize) }
    }
    #[inline(always)]
    fn counters((): ()) -> *const AtomicUsize {
        // As far as one instruction reaches; the rest of the way goes into that of the access.
        const REACH: usize = 2040;
        let near: *const u8;
        // SAFETY: adds to a register.
        unsafe {
            asm!(
                "addi {}, tp, {}",
                out(reg) near, const REACH,
                options(nomem, nostack, preserves_flags),
            )
        };
        near.wrapping_add(COUNTERS_OFFSET - REACH).cast()
    }
}

/// The word of the control block at `tp` that is the kernel's own: its per-hart pointer, since `tp`
/// is taken.
///
/// # Safety
/// `tp` points to a control block.
#[inline(always)]
pub unsafe fn kernel_word() -> &'static AtomicUsize {
    &AtTp::control((), ChannelKind::Events).kernel_word
}
