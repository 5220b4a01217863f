//! A group of four counters, read with its library and by hand.

use core::cell::UnsafeCell;

use kymo::count::pmu::Pmu;
use kymo::count::{Cpu, EventKind, EventSpec, Exclude, GroupSpec, Groups, Handle};

/// Cycles, instructions, and two more.
struct Registers;

impl Registers {
    const NUMBERS: [u32; 4] = [0, 2, 3, 4];
}

/// Reads a counter's register.
#[cfg(target_arch = "riscv64")]
macro_rules! register {
    ($low:literal, $high:literal, $arm:literal) => {{
        let value: u64;
        // SAFETY: reads a counter.
        unsafe { core::arch::asm!(concat!("csrr {}, ", $low), out(reg) value) };
        value
    }};
}
#[cfg(target_arch = "riscv32")]
macro_rules! register {
    ($low:literal, $high:literal, $arm:literal) => {{
        let (low, high): (u32, u32);
        // SAFETY: reads a counter: its high half, its low half, until no carry came between.
        unsafe {
            core::arch::asm!(
                concat!("2: csrr {high}, ", $high),
                concat!("csrr {low}, ", $low),
                concat!("csrr {again}, ", $high),
                "bne {high}, {again}, 2b",
                high = out(reg) high,
                low = out(reg) low,
                again = out(reg) _,
            )
        };
        u64::from(low) | u64::from(high) << 32
    }};
}
#[cfg(target_arch = "aarch64")]
macro_rules! register {
    ($low:literal, $high:literal, $arm:literal) => {{
        let value: u64;
        // SAFETY: reads a counter.
        unsafe { core::arch::asm!(concat!("mrs {}, ", $arm), out(reg) value) };
        value
    }};
}

impl Pmu for Registers {
    const SLOTS: usize = 4;

    fn counters(&self, event: EventKind, _: Exclude) -> u64 {
        match event {
            EventKind::Raw(counter) if counter < 5 => 1 << counter,
            _ => 0,
        }
    }

    fn width(&self, _: u32) -> u32 {
        64
    }

    fn program(&mut self, _: u32, _: EventKind, _: Exclude, _: u64) -> bool {
        true
    }

    #[inline(always)]
    fn read(&self, counter: u32) -> u64 {
        match counter {
            0 => register!("0xC00", "0xC80", "pmccntr_el0"),
            2 => register!("0xC02", "0xC82", "pmevcntr0_el0"),
            3 => register!("0xC03", "0xC83", "pmevcntr1_el0"),
            4 => register!("0xC04", "0xC84", "pmevcntr2_el0"),
            _ => 0,
        }
    }

    fn write(&mut self, _: u32, _: u64) {}

    fn start(&mut self, _: u64) {}

    fn stop(&mut self, _: u64) {}

    fn overflowed(&mut self) -> u64 {
        0
    }
}

// In this order every address is within reach of one instruction: instructions are counted here.
#[repr(C)]
struct Counting {
    group: Option<Handle>,
    numbers: [u32; 4],
    counts: [u64; 4],
    thread: Groups<1>,
    cpu: Cpu<Registers, 1>,
}

struct Shared(UnsafeCell<Counting>);

// SAFETY: there is one hart, and nothing interrupts.
unsafe impl Sync for Shared {}

static COUNTING: Shared = Shared(UnsafeCell::new(Counting {
    group: None,
    numbers: Registers::NUMBERS,
    counts: [0; 4],
    thread: Groups::NONE,
    cpu: Cpu::new(Registers),
}));

/// Puts the group on the counters; false if it does not fit.
pub fn prepare() -> bool {
    // SAFETY: see `Sync`.
    let counting = unsafe { &mut *COUNTING.0.get() };
    let events = Registers::NUMBERS.map(|it| EventSpec::of(EventKind::Raw(it.into())));
    let group = GroupSpec::new(&events);
    let group = group.and_then(|group| counting.thread.attach(counting.cpu.pmu(), &group));
    counting.group = group.ok();
    counting.cpu.switch_in(&mut counting.thread, 0);
    counting.group.is_some()
}

/// Four registers, whose numbers are constants.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_probe_read_bare(_: u32, _: u32) {
    // SAFETY: see `Sync`.
    let counting = unsafe { &mut *COUNTING.0.get() };
    counting.counts = Registers::NUMBERS.map(|number| Registers.read(number));
}

/// Four counters, each found by its number as the driver does it.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_probe_read_registers(_: u32, _: u32) {
    // SAFETY: see `Sync`.
    let counting = unsafe { &mut *COUNTING.0.get() };
    for (count, number) in counting.counts.iter_mut().zip(counting.numbers) {
        *count = Registers.read(number);
    }
}

/// A group of these four counters, read with `Cpu::raw`.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_probe_read_group(_: u32, _: u32) {
    // SAFETY: see `Sync`.
    let counting = unsafe { &mut *COUNTING.0.get() };
    if let Some(group) = counting.group
        && let Some(counts) = counting.cpu.raw(&counting.thread, group)
    {
        counting.counts = counts;
    }
}
