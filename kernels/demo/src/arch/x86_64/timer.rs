//! Time: the time stamp counter, and each hart's timer interrupt, by its local APIC.

use core::arch::x86_64::__cpuid;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::apic;

/// Ticks of the time stamp counter per second, and of the local APICs' timers.
static FREQUENCY: AtomicU64 = AtomicU64::new(0);
static APIC_FREQUENCY: AtomicU64 = AtomicU64::new(0);

/// Ticks of the clock per second.
pub fn frequency() -> u64 {
    FREQUENCY.load(Relaxed)
}

/// The clock of all harts.
pub fn time() -> u64 {
    kymo::arch::x86_64::tsc()
}

/// Requests this hart's next timer interrupt at this time, and cancels a pending one.
pub fn arm(at: u64) {
    // Not before that time, or it would be requested once more.
    let ticks = u128::from(at.saturating_sub(time())) * u128::from(APIC_FREQUENCY.load(Relaxed));
    apic::arm(u32::try_from(ticks / u128::from(frequency()) + 1).unwrap_or(u32::MAX));
}

/// Stops this hart's timer interrupts.
pub fn disarm() {
    apic::arm(0);
}

/// The machine's timer HPET (IA-PC HPET specification 1.0a), whose frequency it tells.
mod hpet {
    const BASE: usize = 0xFED0_0000;
    const CAPABILITIES: usize = 0;
    const CONFIGURATION: usize = 0x10;
    const COUNTER: usize = 0xF0;

    fn register(offset: usize) -> *mut u64 {
        (BASE + offset) as *mut u64
    }

    pub fn count() -> u64 {
        // SAFETY: a register of the device, which is mapped.
        unsafe { register(COUNTER).read_volatile() }
    }

    /// Starts it, and gives the femtoseconds of a tick.
    pub fn start() -> u64 {
        // SAFETY: as above.
        let period = unsafe {
            register(CONFIGURATION).write_volatile(1);
            register(CAPABILITIES).read_volatile() >> 32
        };
        assert!(
            (1..=100_000_000).contains(&period),
            "the machine has no HPET: it is QEMU's q35, with hpet=on"
        );
        period
    }
}

/// Readings of the three clocks at one time: the time stamp counter, the local APIC's timer, which
/// counts down, and the HPET.
fn readings() -> [u64; 3] {
    // Of several, those that nothing has come between.
    let once = || {
        let before = time();
        let (apic, hpet) = (apic::count(), hpet::count());
        let after = time();
        (after - before, [before + (after - before) / 2, apic, hpet])
    };
    let best = (0..8).map(|_| once()).min_by_key(|(width, _)| *width);
    best.map_or([0; 3], |(_, readings)| readings)
}

/// Measures the frequencies, which takes 5 ms; that of the time stamp counter is asked of the
/// processor first.
pub fn measure() {
    const MEASURED: u64 = 5_000_000_000_000; // femtoseconds
    let period = hpet::start();
    apic::arm(u32::MAX);
    let begin = readings();
    while (hpet::count() - begin[2]) * period < MEASURED {
        (0..5_000).for_each(|step| _ = core::hint::black_box(step));
    }
    let end = readings();
    apic::arm(0);
    let elapsed = u128::from((end[2] - begin[2]) * period);
    // To 0.1 MHz: no better known after this time, and exact if all clocks come from one.
    let frequency = |ticks: u64| {
        const UNIT: u128 = 100_000;
        let hertz = u128::from(ticks) * 1_000_000_000_000_000 / elapsed;
        ((hertz + UNIT / 2) / UNIT * UNIT).max(UNIT) as u64
    };
    let tsc = told().unwrap_or_else(|| frequency(end[0] - begin[0]));
    FREQUENCY.store(tsc, Relaxed);
    APIC_FREQUENCY.store(frequency(begin[1] - end[1]), Relaxed);
}

/// The frequency of the time stamp counter as a hypervisor (leaf 0x40000010, in kHz) or the
/// processor (leaf 0x15, as a ratio to its crystal) tells it.
fn told() -> Option<u64> {
    const HYPERVISOR: u32 = 0x4000_0000;
    let has_hypervisor = __cpuid(1).ecx & 1 << 31 != 0;
    if has_hypervisor && __cpuid(HYPERVISOR).eax >= HYPERVISOR + 0x10 {
        let khz = u64::from(__cpuid(HYPERVISOR + 0x10).eax);
        return (khz > 0).then_some(khz * 1_000);
    }
    if __cpuid(0).eax < 0x15 {
        return None;
    }
    let ratio = __cpuid(0x15);
    let (divisor, factor, crystal) = (ratio.eax.into(), ratio.ebx.into(), u64::from(ratio.ecx));
    let hertz = crystal.checked_mul(factor)?.checked_div(divisor)?;
    (hertz > 0).then_some(hertz)
}
