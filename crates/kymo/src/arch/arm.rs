//! Arm's M profile (Cortex-M): interrupts masked in PRIMASK, the cycle counter, and a 64-bit clock
//! from any counter of 32 bits.
//!
//! Registers are those of the Armv7-M Architecture Reference Manual (DDI 0403): PRIMASK and IPSR in
//! B1.4, DEMCR and the DWT unit in C1.6 and C1.8. Armv6-M (DDI 0419) has PRIMASK and IPSR, and no
//! cycle counter.
//!
//! These processors have one CPU for Kymo, so its control block can be at a constant address:
//! [`ByPointer`](crate::platform::ByPointer) with `REGION.control(0)` and `NEVER_NULL`.

use core::arch::asm;

use crate::ring::masked::Interrupts;
use crate::sync::{AtomicU32, Ordering::Relaxed};

/// Masks interrupts in PRIMASK: for privileged code. Faults and the NMI still come, and must not
/// record.
#[derive(Debug)]
pub struct Primask;

// SAFETY: with PRIMASK set, no exception of configurable priority is taken; the memory clobbers keep
// the record's stores inside.
unsafe impl Interrupts for Primask {
    #[inline(always)]
    fn mask() -> usize {
        let saved;
        // SAFETY: reads PRIMASK, then sets it.
        unsafe { asm!("mrs {}, PRIMASK", "cpsid i", out(reg) saved, options(nostack)) };
        saved
    }
    #[inline(always)]
    fn restore(saved: usize) {
        // SAFETY: nothing else changes the register while interrupts are masked.
        unsafe { asm!("msr PRIMASK, {}", in(reg) saved, options(nostack)) };
    }
}

/// Whether interrupts are masked in PRIMASK: for
/// [`WhenFull::Wait`](crate::transport::WhenFull::Wait).
#[inline]
pub fn is_masked() -> bool {
    let primask: u32;
    // SAFETY: reads a register.
    unsafe {
        asm!("mrs {}, PRIMASK", out(reg) primask, options(nomem, nostack, preserves_flags));
    };
    primask & 1 != 0
}

/// The number of the exception that is being handled, from IPSR: 0 in thread mode, 15 for SysTick,
/// 16 and more for the interrupts of the NVIC. As [`Platform::nesting`], it is 0 only in thread
/// mode.
///
/// [`Platform::nesting`]: crate::platform::Platform::nesting
#[inline(always)]
pub fn exception() -> u32 {
    let ipsr: u32;
    // SAFETY: reads a register. `readonly`, so that it is not moved across what writes memory.
    unsafe { asm!("mrs {}, IPSR", out(reg) ipsr, options(readonly, nostack, preserves_flags)) };
    ipsr & 0x1ff
}

/// Debug Exception and Monitor Control Register; bit 24 switches the DWT unit on.
const DEMCR: *mut u32 = 0xe000_edfc as *mut u32;
const TRCENA: u32 = 1 << 24;
/// The DWT unit's control register; bit 0 switches the cycle counter on.
const DWT_CTRL: *mut u32 = 0xe000_1000 as *mut u32;
const CYCCNTENA: u32 = 1;
/// The DWT unit's cycle counter.
const DWT_CYCCNT: *const u32 = 0xe000_1004 as *const u32;

/// Starts the cycle counter; whether it then counts. Where it does not (Armv6-M, QEMU, some chips),
/// use a timer.
///
/// # Safety
/// The code is privileged, and nothing else uses DEMCR or the DWT unit meanwhile. Not to be called
/// on Armv6-M, where the addresses may be those of something else.
pub unsafe fn start_cycles() -> bool {
    // SAFETY: the registers of every Armv7-M and Armv8-M processor, and the caller's promise.
    unsafe {
        DEMCR.write_volatile(DEMCR.read_volatile() | TRCENA);
        DWT_CTRL.write_volatile(DWT_CTRL.read_volatile() | CYCCNTENA);
    }
    let before = cycles();
    // Each read takes at least a cycle, so a counter that counts has moved after a few.
    (0..8).any(|_| cycles() != before)
}

/// The cycle counter, 32 bits; it counts after [`start_cycles`].
#[inline(always)]
pub fn cycles() -> u32 {
    // SAFETY: reading the register has no effect.
    unsafe { DWT_CYCCNT.read_volatile() }
}

/// SysTick's control, reload and current value (DDI 0403, B3.3).
const SYST_CSR: *mut u32 = 0xe000_e010 as *mut u32;
const SYST_RVR: *mut u32 = 0xe000_e014 as *mut u32;
const SYST_CVR: *mut u32 = 0xe000_e018 as *mut u32;
/// On, counts the processor's clock, makes no interrupts.
const SYSTICK_COUNTS: u32 = 5;

/// Starts SysTick as a clock without interrupts, for [`systick`].
///
/// # Safety
/// The code is privileged, and nothing else uses SysTick.
pub unsafe fn start_systick() {
    // SAFETY: the registers of every Cortex-M that has SysTick, and the caller's promise.
    unsafe {
        SYST_RVR.write_volatile(0xff_ffff);
        SYST_CVR.write_volatile(0);
        SYST_CSR.write_volatile(SYSTICK_COUNTS);
    }
}

/// SysTick as a counter for [`Wide`], after [`start_systick`]: its 24 bits upwards, in the upper
/// ones of 32, so that 256 are one cycle of the processor. A clock for chips without a cycle
/// counter; it wraps every 2^24 cycles.
#[inline(always)]
pub fn systick() -> u32 {
    // SAFETY: reading the register has no effect.
    !unsafe { SYST_CVR.read_volatile() } << 8
}

/// A 64-bit clock from a counter of 32 bits that counts upwards and wraps.
///
/// The counter must be read at least once in every 2^32 ticks: an interrupt that records, or the
/// task that sends the trace, does that.
///
/// ```ignore
/// static CLOCK: Wide = Wide::new();
///
/// fn clock() -> u64 { CLOCK.read(cycles) }
/// fn quick_clock() -> u64 { CLOCK.read_masked(cycles) }
/// ```
#[derive(Debug)]
pub struct Wide {
    last: AtomicU32,
    wraps: AtomicU32,
}

impl Wide {
    /// A clock that begins with the counter.
    #[expect(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> Wide {
        Wide {
            last: AtomicU32::new(0),
            wraps: AtomicU32::new(0),
        }
    }

    /// The time, anywhere: for [`Platform::clock`](crate::platform::Platform::clock).
    #[inline]
    pub fn read(&self, counter: impl FnOnce() -> u32) -> u64 {
        let saved = Primask::mask();
        let time = self.read_masked(counter);
        Primask::restore(saved);
        time
    }

    /// The time where interrupts are masked: for
    /// [`Platform::quick_clock`](crate::platform::Platform::quick_clock), which `Masked` calls so.
    #[inline(always)]
    pub fn read_masked(&self, counter: impl FnOnce() -> u32) -> u64 {
        let now = counter();
        let mut wraps = self.wraps.load(Relaxed);
        if now < self.last.load(Relaxed) {
            wraps = wraps.wrapping_add(1);
            self.wraps.store(wraps, Relaxed);
        }
        self.last.store(now, Relaxed);
        u64::from(wraps) << 32 | u64::from(now)
    }
}
