//! RISC-V: counters that the firmware hands out and the supervisor reads.
//!
//! Source: RISC-V Supervisor Binary Interface 2.0, chapter 11 (extension PMU), and the extension
//! Sscofpmf for overflow interrupts.

use super::{MAX_COUNTERS, Pmu};
use crate::count::event::{CacheAccess, CacheLevel, EventKind, Exclude, Hardware};

/// Number of the SBI extension.
pub const EXTENSION: usize = 0x50_4D55;

/// Functions of the extension.
mod function {
    pub const NUM_COUNTERS: usize = 0;
    pub const COUNTER_GET_INFO: usize = 1;
    pub const COUNTER_CONFIG_MATCHING: usize = 2;
    pub const COUNTER_START: usize = 3;
    pub const COUNTER_STOP: usize = 4;
}

/// Flags of `counter_config_matching`.
mod config {
    pub const CLEAR_VALUE: usize = 1 << 1;
    pub const INHIBIT_USER: usize = 1 << 5;
    pub const INHIBIT_SUPERVISOR: usize = 1 << 6;
    pub const INHIBIT_MACHINE: usize = 1 << 7;
}

/// Flag of `counter_start`: the counter begins with the value that is passed.
const INITIAL_VALUE: usize = 1;
/// Flag of `counter_stop`: the counter's event is forgotten.
const RESET: usize = 1;

/// A kind of counter, in the information that the firmware gives.
const IS_FIRMWARE: usize = 1 << (usize::BITS - 1);
/// First number of the counters' registers.
const FIRST_REGISTER: u32 = 0xC00;
/// Counters that the architecture gives one event each: cycles, and instructions.
const FIXED: u64 = 0b101;

/// What the driver needs of the processor and its firmware.
pub trait Firmware {
    /// Calls a function of the extension [PMU](EXTENSION), and gives its value or its error code.
    ///
    /// # Errors
    /// The SBI's error code.
    fn call(&self, function: usize, arguments: [usize; 5]) -> Result<usize, isize>;

    /// Reads the register `hpmcounterN`, for 0 `cycle` and for 2 `instret`.
    fn read(&self, counter: u32) -> u64;

    /// The register `scountovf`: the counters that have overflowed. 0 without Sscofpmf.
    fn overflowed(&self) -> u64;

    /// Whether counters interrupt when they overflow (extension Sscofpmf) and the kernel's trap
    /// handler calls [`Cpu::overflow`](crate::count::Cpu::overflow).
    fn interrupts(&self) -> bool;

    /// Ends the pending interrupt of counters that have overflowed.
    fn end_interrupt(&self);
}

/// The counters of a hart, through its firmware.
///
/// Which counter can count an event, the firmware is asked when the driver starts; of raw events
/// only once they are to be counted.
#[derive(Debug)]
pub struct Sbi<F: Firmware> {
    firmware: F,
    /// The counters that the supervisor can read.
    counters: u64,
    widths: [u8; MAX_COUNTERS],
    hardware: [u64; Hardware::ALL.len()],
    caches: [u64; CacheLevel::ALL.len() * CacheAccess::ALL.len() * 2],
    /// Whether the harts can leave out what happens in one mode.
    can_exclude: bool,
    /// From what value each counter was to begin last.
    values: [u64; MAX_COUNTERS],
    started: u64,
}

impl<F: Firmware> Sbi<F> {
    /// The counters of the hart that this runs on. Stops those that run.
    pub fn new(firmware: F) -> Sbi<F> {
        let count = firmware.call(function::NUM_COUNTERS, [0; 5]).unwrap_or(0);
        let mut sbi = Sbi {
            firmware,
            counters: 0,
            widths: [0; MAX_COUNTERS],
            hardware: [0; Hardware::ALL.len()],
            caches: [0; CacheLevel::ALL.len() * CacheAccess::ALL.len() * 2],
            can_exclude: false,
            values: [0; MAX_COUNTERS],
            started: 0,
        };
        for (counter, width) in sbi.widths.iter_mut().enumerate().take(count) {
            let info = sbi
                .firmware
                .call(function::COUNTER_GET_INFO, [counter, 0, 0, 0, 0]);
            // Those of the firmware are read by a call, and those behind another register not here.
            if let Ok(info) = info
                && info & IS_FIRMWARE == 0
                && info as u32 & 0xFFF == FIRST_REGISTER + counter as u32
                && counter < 32
            {
                *width = (info >> 12 & 0x3F) as u8 + 1;
                sbi.counters |= 1 << counter;
            }
        }
        sbi.call_for(function::COUNTER_STOP, sbi.counters, RESET);
        sbi.find_events();
        sbi.can_exclude = sbi.leaves_out_the_supervisor();
        sbi
    }

    /// Calls a function for a set of counters.
    fn call_for(&self, function: usize, counters: u64, flags: usize) {
        // The mask is as wide as a register, so on 32-bit harts the set goes in two.
        let bits = usize::BITS as usize;
        for base in (0..MAX_COUNTERS).step_by(bits) {
            let mask = (counters >> base) as usize;
            if mask != 0 {
                // Counters that are in the state already are no error here.
                let _ = self.firmware.call(function, [base, mask, flags, 0, 0]);
            }
        }
    }

    /// Asks which counters can count each event.
    fn find_events(&mut self) {
        for (place, event) in Hardware::ALL.iter().enumerate() {
            let counters = self.that_can(EventKind::Hardware(*event));
            if let Some(known) = self.hardware.get_mut(place) {
                *known = counters;
            }
        }
        for place in 0..self.caches.len() {
            // The number of a cache's event, of type 1.
            let (level, access, misses) = (place / 6, place / 2 % 3, place % 2);
            let counters = self.that_match(1 << 16 | level << 3 | access << 1 | misses);
            if let Some(known) = self.caches.get_mut(place) {
                *known = counters;
            }
        }
    }

    fn that_can(&self, event: EventKind) -> u64 {
        match number(event) {
            Some((number, _)) => self.that_match(number),
            None => 0,
        }
    }

    /// The counters that the firmware gives for an event by its number.
    fn that_match(&self, number: usize) -> u64 {
        let mut can = 0;
        let mut left = self.counters;
        while left != 0 {
            let counter = left.trailing_zeros() as usize;
            left &= left - 1;
            if self.configure(counter, (number, 0), 0) {
                can |= 1 << counter;
                self.call_for(function::COUNTER_STOP, 1 << counter, RESET);
            }
        }
        can
    }

    /// Gives an event to a counter, from zero.
    fn configure(&self, counter: usize, (number, data): (usize, u64), flags: usize) -> bool {
        let flags = flags | config::CLEAR_VALUE;
        let arguments = [counter, 1, flags, number, data as usize];
        let configured = self
            .firmware
            .call(function::COUNTER_CONFIG_MATCHING, arguments);
        configured == Ok(counter)
    }

    /// Whether a counter that is to leave out the supervisor shows nothing of what it does. Some
    /// machines take the flag and ignore it.
    fn leaves_out_the_supervisor(&self) -> bool {
        let instructions = self.counters(
            EventKind::Hardware(Hardware::Instructions),
            Exclude::NOTHING,
        );
        // The first counters count in all modes, whatever they are asked.
        let instructions = instructions & !FIXED;
        if instructions == 0 {
            return false;
        }
        let counter = instructions.trailing_zeros();
        let flags = config::INHIBIT_SUPERVISOR | config::INHIBIT_MACHINE;
        let event = number(EventKind::Hardware(Hardware::Instructions)).unwrap_or_default();
        if !self.configure(counter as usize, event, flags) {
            return false;
        }
        self.begin(counter, 0);
        let before = self.firmware.read(counter);
        for turn in 0..100 {
            core::hint::black_box(turn);
        }
        let counted = self.firmware.read(counter).wrapping_sub(before);
        self.call_for(function::COUNTER_STOP, 1 << counter, RESET);
        // The end of the call that starts it may count.
        counted < 50
    }

    /// Starts a counter from a value.
    fn begin(&self, counter: u32, value: u64) {
        let (low, high) = (value as usize, (value >> 32) as usize);
        let high = if usize::BITS == 32 { high } else { 0 };
        let arguments = [counter as usize, 1, INITIAL_VALUE, low, high];
        // Nothing to do about a counter that runs already: `new` has stopped them all.
        let _ = self.firmware.call(function::COUNTER_START, arguments);
    }

    /// Starts a counter, which may be counting, from a value.
    fn restart(&self, counter: u32, value: u64) {
        self.call_for(function::COUNTER_STOP, 1 << counter, 0);
        self.begin(counter, value);
    }

    /// Whether counters can leave out what happens in one mode.
    pub fn can_exclude(&self) -> bool {
        self.can_exclude
    }

    /// The counters that this hart can read.
    pub fn found(&self) -> u64 {
        self.counters
    }
}

/// Number and data of an event in the SBI.
fn number(event: EventKind) -> Option<(usize, u64)> {
    match event {
        // The order is that of `perf_event_open(2)`, from 1.
        EventKind::Hardware(event) => Some((event as usize + 1, 0)),
        EventKind::Cache(cache) => {
            let code = (cache.level as usize) << 3 | (cache.access as usize) << 1;
            Some((1 << 16 | code | usize::from(cache.misses), 0))
        }
        EventKind::Raw(number) => Some((2 << 16, number)),
        EventKind::Software(_) | EventKind::Tracepoint(_) | EventKind::Breakpoint(_) => None,
    }
}

impl<F: Firmware> Pmu for Sbi<F> {
    /// Cycles, instructions, and `hpmcounter3` to `hpmcounter31`.
    const SLOTS: usize = 31;
    const FIXED: u64 = FIXED;

    fn slots(&self) -> usize {
        self.counters.count_ones() as usize
    }

    fn longest_period(&self) -> u64 {
        let counters = self.widths.iter().filter(|width| **width > 0);
        match counters.min() {
            Some(width) if self.firmware.interrupts() => u64::MAX >> (64 - width.min(&64)),
            _ => 0,
        }
    }

    /// Cycles and instructions have counters of their own without the bits of `mhpmeventN`, by
    /// which others interrupt.
    fn interrupting(&self) -> u64 {
        match self.firmware.interrupts() {
            true => self.counters & !FIXED,
            false => 0,
        }
    }

    fn counters(&self, event: EventKind, exclude: Exclude) -> u64 {
        let known = match event {
            EventKind::Hardware(event) => self.hardware.get(event as usize).copied(),
            EventKind::Cache(cache) => {
                let place = cache.level as usize * 6 + cache.access as usize * 2;
                self.caches.get(place + usize::from(cache.misses)).copied()
            }
            EventKind::Raw(_) => Some(self.counters & !FIXED),
            _ => None,
        };
        match exclude.is_something() {
            true if !self.can_exclude => 0,
            // The first counters count in all modes.
            true => known.unwrap_or(0) & !FIXED,
            false => known.unwrap_or(0),
        }
    }

    fn width(&self, counter: u32) -> u32 {
        let width = self.widths.get(counter as usize);
        width.map_or(64, |width| u32::from(*width).clamp(1, 64))
    }

    fn program(&mut self, counter: u32, event: EventKind, exclude: Exclude, value: u64) -> bool {
        let Some(event) = number(event) else {
            return false;
        };
        if let Some(place) = self.values.get_mut(counter as usize) {
            *place = value;
        }
        let mut flags = 0;
        if exclude.kernel {
            flags |= config::INHIBIT_SUPERVISOR | config::INHIBIT_MACHINE;
        }
        if exclude.user {
            flags |= config::INHIBIT_USER;
        }
        self.configure(counter as usize, event, flags)
    }

    fn read(&self, counter: u32) -> u64 {
        self.firmware.read(counter)
    }

    /// The firmware writes the counter, which stands still from early in the call that stops it to
    /// late in the one that starts it.
    fn write(&mut self, counter: u32, value: u64) {
        if let Some(place) = self.values.get_mut(counter as usize) {
            *place = value;
        }
        self.restart(counter, value);
    }

    /// Counters from zero start in one call, those with another value one by one before.
    fn start(&mut self, counters: u64) {
        self.started |= counters;
        let mut from_zero = counters;
        for (counter, value) in self.values.iter().enumerate() {
            if counters & 1 << counter != 0 && *value != 0 {
                from_zero &= !(1 << counter);
                self.begin(counter as u32, *value);
            }
        }
        self.call_for(function::COUNTER_START, from_zero, 0);
    }

    fn stop(&mut self, counters: u64) {
        self.started &= !counters;
        self.call_for(function::COUNTER_STOP, counters, RESET);
    }

    /// The firmware lets a counter interrupt again when it starts the counter, except while an
    /// overflow waits for its interrupt. So a counter may be marked as overflowed that is not past
    /// its end, and is started once more; one that is has a period, and is written for the next.
    fn overflowed(&mut self) -> u64 {
        // A counter that overflows from here on interrupts once more.
        self.firmware.end_interrupt();
        let mut overflowed = 0;
        let mut left = self.firmware.overflowed() & self.started;
        while left != 0 {
            let counter = left.trailing_zeros();
            left &= left - 1;
            let (value, from) = (self.read(counter), self.values.get(counter as usize));
            match from {
                Some(from) if value < *from => overflowed |= 1 << counter,
                // 64 bits that began at zero have not gone round.
                Some(0) if self.width(counter) == 64 => {}
                _ => self.restart(counter, value),
            }
        }
        overflowed
    }
}

/// The firmware and the registers of the hart, for a kernel in S-mode.
///
/// Counters interrupt if the hart has Sscofpmf and the kernel has set the interrupt's bit in `sie`
/// ([`OVERFLOW_INTERRUPT`]) before it makes the driver.
#[cfg(target_arch = "riscv64")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Supervisor;

/// Number of the interrupt of overflowed counters: its bit in `sie` and `sip`, and its cause.
pub const OVERFLOW_INTERRUPT: u32 = 13;

#[cfg(target_arch = "riscv64")]
impl Firmware for Supervisor {
    fn call(&self, function: usize, arguments: [usize; 5]) -> Result<usize, isize> {
        let (error, value): (isize, usize);
        let [first, second, third, fourth, fifth] = arguments;
        // SAFETY: an SBI call changes only a0 and a1, and none of the extension's functions that
        // the driver calls is passed memory.
        unsafe {
            core::arch::asm!(
                "ecall",
                inlateout("a0") first => error,
                inlateout("a1") second => value,
                in("a2") third,
                in("a3") fourth,
                in("a4") fifth,
                in("a6") function,
                in("a7") EXTENSION,
                options(nostack),
            );
        }
        match error {
            0 => Ok(value),
            error => Err(error),
        }
    }

    #[inline]
    fn read(&self, counter: u32) -> u64 {
        macro_rules! read {
            ($($number:literal)*) => {
                match counter {
                    $($number => {
                        let value;
                        // SAFETY: reads a counter, which the firmware has handed out.
                        unsafe {
                            core::arch::asm!(
                                "csrr {}, {}",
                                out(reg) value,
                                const FIRST_REGISTER + $number,
                                options(nomem, nostack),
                            )
                        };
                        value
                    })*
                    _ => 0,
                }
            };
        }
        read!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31)
    }

    fn overflowed(&self) -> u64 {
        // The register is there only with Sscofpmf.
        if !self.interrupts() {
            return 0;
        }
        let overflowed;
        // SAFETY: reads `scountovf`, which changes nothing.
        unsafe {
            core::arch::asm!("csrr {}, 0xDA0", out(reg) overflowed, options(nomem, nostack));
        }
        overflowed
    }

    fn interrupts(&self) -> bool {
        let enabled: u64;
        // SAFETY: reads `sie`, whose bit stays 0 without Sscofpmf.
        unsafe { core::arch::asm!("csrr {}, sie", out(reg) enabled, options(nomem, nostack)) };
        enabled & 1 << OVERFLOW_INTERRUPT != 0
    }

    fn end_interrupt(&self) {
        // SAFETY: clears the interrupt's bit, which is the driver's.
        unsafe {
            core::arch::asm!("csrc sip, {}", in(reg) 1_u64 << OVERFLOW_INTERRUPT, options(nostack));
        }
    }
}
