//! RISC-V, 64 bits, S-mode: the `time` CSR, `sstatus.SIE`, and control blocks at `tp`.

use crate::sync::{AtomicUsize, Ordering::Release, fence};
use core::arch::asm;

use crate::platform::{ControlWord, Local};
use crate::ring::layout::{ChannelKind, Control};
use crate::ring::masked::Interrupts;

/// The `time` CSR, in ticks of the timebase.
#[inline(always)]
pub fn time() -> u64 {
    let now;
    // SAFETY: reads a counter.
    unsafe { asm!("rdtime {}", out(reg) now, options(nomem, nostack, preserves_flags)) };
    now
}

/// Masks S-mode interrupts in `sstatus`.
#[derive(Debug)]
pub struct Sstatus;

// SAFETY: with SIE clear in S-mode, no S-mode interrupt is taken; the memory clobbers keep the record's stores inside.
unsafe impl Interrupts for Sstatus {
    #[inline(always)]
    fn mask() -> usize {
        let saved;
        // SAFETY: clears SIE and returns what `sstatus` was.
        unsafe { asm!("csrrci {}, sstatus, 2", out(reg) saved, options(nostack)) };
        saved
    }
    #[inline(always)]
    fn restore(saved: usize) {
        // SAFETY: nothing else changes `sstatus` while interrupts are masked.
        unsafe { asm!("csrw sstatus, {}", in(reg) saved, options(nostack)) };
    }
}

/// `tp` holds the address of this hart's first control block. The cheapest form: every access is one instruction.
///
/// The kernel keeps its own per-hart pointer in [`kernel_word`].
#[derive(Debug)]
pub struct AtTp;

// SAFETY: the kernel that chooses `AtTp` has `tp` point to this hart's control blocks whenever an event may be recorded.
unsafe impl Local for AtTp {
    type Cpu = ();

    #[inline(always)]
    fn is_on<W: ControlWord>() -> bool {
        let on: usize;
        // SAFETY: a byte of this hart's block.
        unsafe { asm!("lbu {}, {}(tp)", out(reg) on, const W::OFFSET, options(nostack, readonly, preserves_flags)) };
        on != 0
    }
    #[inline(always)]
    fn cpu() -> Option<()> {
        Some(())
    }
    #[inline(always)]
    unsafe fn load_long<W: ControlWord>((): ()) -> u64 {
        let value;
        // SAFETY: an aligned word of this hart's block.
        unsafe { asm!("ld {}, {}(tp)", out(reg) value, const W::OFFSET, options(nostack, readonly, preserves_flags)) };
        value
    }
    #[inline(always)]
    unsafe fn load<W: ControlWord>((): ()) -> u32 {
        let value;
        // SAFETY: an aligned word of this hart's block.
        unsafe { asm!("lw {}, {}(tp)", out(reg) value, const W::OFFSET, options(nostack, readonly, preserves_flags)) };
        value
    }
    #[inline(always)]
    unsafe fn store<W: ControlWord>((): (), value: u32) {
        // SAFETY: an aligned word of this hart's block, which only this hart writes.
        unsafe { asm!("sw {}, {}(tp)", in(reg) value, const W::OFFSET, options(nostack, preserves_flags)) };
    }
    #[inline(always)]
    unsafe fn publish_long<W: ControlWord>((): (), value: u64) {
        fence(Release);
        // SAFETY: an aligned word of this hart's block, which only this hart writes.
        unsafe { asm!("sd {}, {}(tp)", in(reg) value, const W::OFFSET, options(nostack, preserves_flags)) };
    }
    #[inline(always)]
    fn control((): (), kind: ChannelKind) -> &'static Control {
        let first: *const Control;
        // SAFETY: copies a register.
        unsafe { asm!("mv {}, tp", out(reg) first, options(nomem, nostack, preserves_flags)) };
        // SAFETY: the blocks of one hart stand in a row, one a kind, and stay mapped.
        unsafe { &*first.add(kind as usize) }
    }
}

/// The word of the control block at `tp` that is the kernel's own: its per-hart pointer, since `tp` is taken.
///
/// # Safety
/// `tp` points to a control block.
#[inline(always)]
pub unsafe fn kernel_word() -> &'static AtomicUsize {
    &AtTp::control((), ChannelKind::Events).kernel_word
}
