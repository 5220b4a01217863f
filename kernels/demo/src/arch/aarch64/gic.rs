//! The interrupt controller (Arm GIC, version 3: IHI 0069): its distributor, which routes devices'
//! interrupts to harts, each hart's redistributor, and each hart's interface in system registers.
//!
//! The kernel masks interrupts by priority (`icc_pmr_el1`), which leaves the most urgent ones
//! through: they are its pseudo-NMIs. The processor's own mask (`daif`) is set only in the first
//! and last instructions of a trap, and in a pseudo-NMI.

use core::arch::asm;

use super::{hart, timer};

/// The interrupts by other harts: for something to do, and for a sample, which masks do not stop.
pub const SOFTWARE: u32 = 0;
pub const PSEUDO_NMI: u32 = 1;
/// Numbers of interrupts that are none.
const SPECIAL: u32 = 1020;

/// The distributor's registers.
pub const DISTRIBUTOR: usize = 0x0800_0000;
const CONTROL: usize = DISTRIBUTOR;
const ROUTE: usize = DISTRIBUTOR + 0x6000;

/// The redistributors, and the distance between those of two harts. Each has a frame of its own,
/// and then one that is like the distributor, for the interrupts that the hart has for itself.
pub const REDISTRIBUTORS: usize = 0x080A_0000;
pub const REDISTRIBUTOR: usize = 0x2_0000;
const WAKER: usize = 0x14;
const OWN: usize = 0x1_0000;

/// Per interrupt: a bit each, or a byte.
const GROUP: usize = 0x80;
const ENABLE: usize = 0x100;
const PEND: usize = 0x200;
const PRIORITY: usize = 0x400;

/// Lower numbers are more urgent.
const USUAL: u8 = 0xA0;
const URGENT: u8 = 0x20;
/// What `icc_pmr_el1` lets through is more urgent than this.
pub const UNMASKED: u64 = 0xF0;
pub const MASKED: u64 = 0x80;

fn set(register: usize, value: u32) {
    // SAFETY: a register of the controller, which is mapped.
    unsafe { (register as *mut u32).write_volatile(value) };
}

fn get(register: usize) -> u32 {
    // SAFETY: as above.
    unsafe { (register as *const u32).read_volatile() }
}

fn set_priority(frame: usize, irq: u32, priority: u8) {
    // SAFETY: as above; these registers may be accessed by bytes.
    unsafe { ((frame + PRIORITY + irq as usize) as *mut u8).write_volatile(priority) };
}

/// Sets an interrupt's bit in these registers of a frame, in which zeros change nothing.
fn set_bit(frame: usize, registers: usize, irq: u32) {
    set(frame + registers + irq as usize / 32 * 4, 1 << (irq % 32));
}

/// Puts an interrupt into group 1. The others of the register stay in theirs.
fn set_group(frame: usize, irq: u32) {
    let register = frame + GROUP + irq as usize / 32 * 4;
    set(register, get(register) | 1 << (irq % 32));
}

/// Starts the distributor. Called once.
pub fn prepare() {
    /// Interrupts of group 1, and routes by affinity.
    const ENABLED: u32 = 1 << 1 | 1 << 4;
    set(CONTROL, ENABLED);
}

/// Enables the interrupts that this hart has for itself, for when they are unmasked.
pub fn enable() {
    const SLEEPS: u32 = 1 << 1;
    const ASLEEP: u32 = 1 << 2;
    let redistributor = REDISTRIBUTORS + hart() * REDISTRIBUTOR;
    set(redistributor + WAKER, get(redistributor + WAKER) & !SLEEPS);
    while get(redistributor + WAKER) & ASLEEP != 0 {}
    let own = redistributor + OWN;
    set(own + GROUP, u32::MAX);
    for (irq, priority) in [(SOFTWARE, USUAL), (PSEUDO_NMI, URGENT), (timer::IRQ, USUAL)] {
        set_priority(own, irq, priority);
        set_bit(own, ENABLE, irq);
    }
    // SAFETY: masked as before, by priority from now on. The system registers are used, every bit
    // of a priority counts, and group 1 interrupts.
    unsafe {
        asm!("msr icc_sre_el1, {}", "isb", in(reg) 7_u64);
        asm!(
            "msr icc_pmr_el1, {masked}",
            "msr icc_bpr1_el1, xzr",
            "msr icc_igrpen1_el1, {one}",
            "isb",
            "msr daifclr, 2",
            masked = in(reg) MASKED,
            one = in(reg) 1_u64,
        );
    }
}

/// Enables one more of the interrupts that this hart has for itself.
pub fn enable_own(irq: u32) {
    let own = REDISTRIBUTORS + hart() * REDISTRIBUTOR + OWN;
    set_priority(own, irq, USUAL);
    set_bit(own, ENABLE, irq);
}

/// Lets nothing interrupt this hart any more.
pub fn disable() {
    // SAFETY: this only stops interrupts.
    unsafe { asm!("msr icc_igrpen1_el1, xzr", "isb") };
}

/// Enables a device's interrupt (32 to 63).
pub fn enable_device(irq: u32) {
    set_group(DISTRIBUTOR, irq);
    set_priority(DISTRIBUTOR, irq, USUAL);
    set_bit(DISTRIBUTOR, ENABLE, irq);
}

/// Routes a device's interrupt to a hart. One hart at a time does this.
pub fn route(irq: u32, to: usize) {
    // SAFETY: a register of the controller, which is mapped.
    unsafe { ((ROUTE + 8 * irq as usize) as *mut u64).write_volatile(to as u64) };
}

/// Makes a device's interrupt come once.
pub fn pend(irq: u32) {
    set_bit(DISTRIBUTOR, PEND, irq);
}

/// Takes the interrupt that interrupts this hart, unless it was withdrawn.
pub fn claim() -> Option<u32> {
    let irq: u64;
    // SAFETY: takes the interrupt.
    unsafe { asm!("mrs {}, icc_iar1_el1", "dsb sy", out(reg) irq) };
    (irq < SPECIAL.into()).then_some(irq as u32)
}

/// Ends the handling of an interrupt.
pub fn complete(irq: u32) {
    // SAFETY: the interrupt was claimed.
    unsafe { asm!("msr icc_eoir1_el1, {}", "isb", in(reg) u64::from(irq)) };
}

/// Interrupts another hart, with `SOFTWARE` or `PSEUDO_NMI`; it sees everything written before.
pub fn send(irq: u32, to: usize) {
    let target = u64::from(irq) << 24 | 1 << to;
    // SAFETY: this only interrupts.
    unsafe { asm!("dsb ishst", "msr icc_sgi1r_el1, {}", "isb", in(reg) target) };
}
