//! x86-64: architectural performance monitoring.
//!
//! Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 3B, chapter 20
//! "Performance Monitoring", sections 20.2 (architectural monitoring, versions 1 to 5) and 20.2.8
//! (full-width writes); `CPUID` leaf 0AH in volume 2A.

use super::Pmu;
use crate::count::event::{Cache, CacheAccess, CacheLevel, EventKind, Exclude, Hardware};

/// What the driver needs of the processor. A kernel's implementation has an instruction for each.
pub trait Registers {
    /// `CPUID` leaf 0AH: `eax`, `ebx`, `ecx` and `edx`.
    fn cpuid(&self) -> [u32; 4];

    /// Whether there is `IA32_PERF_CAPABILITIES`: `CPUID` leaf 01H, `ecx` bit 15 (PDCM).
    fn has_capabilities(&self) -> bool;

    /// `RDMSR`.
    fn read(&self, register: u32) -> u64;

    /// `WRMSR`.
    fn write(&self, register: u32, value: u64);
}

/// `IA32_PMC0`; the others follow.
const COUNTER: u32 = 0xC1;
/// `IA32_A_PMC0`: the same counters, written with all their bits.
const FULL_COUNTER: u32 = 0x4C1;
/// `IA32_PERFEVTSEL0`; the others follow.
const SELECT: u32 = 0x186;
/// `IA32_FIXED_CTR0`; the others follow.
const FIXED_COUNTER: u32 = 0x309;
const PERF_CAPABILITIES: u32 = 0x345;
const FIXED_CONTROL: u32 = 0x38D;
const GLOBAL_STATUS: u32 = 0x38E;
const GLOBAL_CONTROL: u32 = 0x38F;
const GLOBAL_OVERFLOW_CONTROL: u32 = 0x390;

/// In `IA32_PERF_CAPABILITIES`: full-width writes.
const FULL_WIDTH_WRITES: u64 = 1 << 13;

/// Bits of `IA32_PERFEVTSELx`.
mod select {
    pub const USER: u64 = 1 << 16;
    pub const KERNEL: u64 = 1 << 17;
    pub const INTERRUPT: u64 = 1 << 20;
    pub const ENABLE: u64 = 1 << 22;
    /// Event, unit mask, edge, inversion and threshold: what a raw event may say.
    pub const EVENT: u64 = 0xFF84_FFFF;
}

/// Bits of a fixed counter's field in `IA32_FIXED_CTR_CTRL`.
mod fixed {
    pub const KERNEL: u64 = 1;
    pub const USER: u64 = 2;
    pub const INTERRUPT: u64 = 8;
    pub const FIELD: u64 = 0xF;
}

/// Most general counters that the driver uses: the registers of more are elsewhere.
const GENERAL_COUNTERS: u32 = 8;
/// The bit of the first fixed counter in the global registers, and its number here.
const FIRST_FIXED: u32 = 32;
/// Most fixed counters that the driver uses: instructions, cycles, reference cycles.
const FIXED_COUNTERS: u32 = 3;

/// The counters of a processor.
///
/// Numbers of counters are their bits in `IA32_PERF_GLOBAL_CTRL`, so whole groups start and stop
/// with one write.
#[derive(Debug)]
pub struct Architectural<R: Registers> {
    registers: R,
    general: u32,
    general_width: u32,
    fixed: u32,
    fixed_width: u32,
    /// By bit, the architectural events that the processor does not have.
    missing: u32,
    writes_whole: bool,
}

impl<R: Registers> Architectural<R> {
    /// The counters of this processor, all stopped. None where the manual's version is below 2, for
    /// then nothing starts counters together.
    pub fn new(registers: R) -> Architectural<R> {
        let [eax, ebx, _, edx] = registers.cpuid();
        let version = eax & 0xFF;
        let is_known = version >= 2;
        let events = eax >> 24;
        let (general, fixed) = (eax >> 8 & 0xFF, edx & 0x1F);
        let pmu = Architectural {
            general: if is_known {
                general.min(GENERAL_COUNTERS)
            } else {
                0
            },
            general_width: eax >> 16 & 0xFF,
            fixed: if is_known {
                fixed.min(FIXED_COUNTERS)
            } else {
                0
            },
            fixed_width: edx >> 5 & 0xFF,
            // An event behind the end of the list is missing too.
            missing: ebx | u32::MAX.checked_shl(events).unwrap_or(0),
            writes_whole: is_known
                && registers.has_capabilities()
                && registers.read(PERF_CAPABILITIES) & FULL_WIDTH_WRITES != 0,
            registers,
        };
        if is_known {
            pmu.registers.write(GLOBAL_CONTROL, 0);
            pmu.registers.write(FIXED_CONTROL, 0);
            pmu.registers.write(GLOBAL_OVERFLOW_CONTROL, pmu.all());
        }
        pmu
    }

    fn all(&self) -> u64 {
        ones(self.general) | ones(self.fixed) << FIRST_FIXED
    }

    /// Event number and unit mask of an architectural event, and its bit in `missing`.
    fn architectural(event: EventKind) -> Option<(u64, u32)> {
        let llc = |misses| Cache {
            level: CacheLevel::LastLevel,
            access: CacheAccess::Load,
            misses,
        };
        Some(match event {
            EventKind::Hardware(Hardware::Cycles) => (0x003C, 0),
            EventKind::Hardware(Hardware::Instructions) => (0x00C0, 1),
            EventKind::Hardware(Hardware::CacheReferences) => (0x4F2E, 3),
            EventKind::Hardware(Hardware::CacheMisses) => (0x412E, 4),
            EventKind::Cache(cache) if cache == llc(false) => (0x4F2E, 3),
            EventKind::Cache(cache) if cache == llc(true) => (0x412E, 4),
            EventKind::Hardware(Hardware::Branches) => (0x00C4, 5),
            EventKind::Hardware(Hardware::BranchMisses) => (0x00C5, 6),
            _ => return None,
        })
    }

    /// The fixed counter that counts an event. Only that one counts reference cycles at the rate of
    /// the time stamp counter.
    fn fixed_counter(event: EventKind) -> Option<u32> {
        match event {
            EventKind::Hardware(Hardware::Instructions) => Some(0),
            EventKind::Hardware(Hardware::Cycles) => Some(1),
            EventKind::Hardware(Hardware::ReferenceCycles) => Some(2),
            _ => None,
        }
    }

    /// What `IA32_PERFEVTSELx` selects an event by.
    fn selection(&self, event: EventKind) -> Option<u64> {
        if let EventKind::Raw(number) = event {
            return (number & !select::EVENT == 0).then_some(number);
        }
        let (number, bit) = Self::architectural(event)?;
        (self.missing & 1 << bit == 0).then_some(number)
    }

    fn set_fixed(&self, counter: u32, field: u64) {
        let shift = 4 * counter;
        let others = self.registers.read(FIXED_CONTROL) & !(fixed::FIELD << shift);
        self.registers.write(FIXED_CONTROL, others | field << shift);
    }
}

/// So many bits.
fn ones(bits: u32) -> u64 {
    match bits {
        64.. => u64::MAX,
        bits => (1 << bits) - 1,
    }
}

impl<R: Registers> Pmu for Architectural<R> {
    const SLOTS: usize = (GENERAL_COUNTERS + FIXED_COUNTERS) as usize;
    const FIXED: u64 = 0b111 << FIRST_FIXED;

    fn slots(&self) -> usize {
        (self.general + self.fixed) as usize
    }

    /// Without full-width writes a counter takes 32 bits, of which the highest is its sign.
    fn longest_period(&self) -> u64 {
        match self.writes_whole {
            true => ones(self.general_width),
            false => 1 << 31,
        }
    }

    fn counters(&self, event: EventKind, _: Exclude) -> u64 {
        let fixed = Self::fixed_counter(event).filter(|counter| *counter < self.fixed);
        let fixed = fixed.map_or(0, |counter| 1 << (FIRST_FIXED + counter));
        let general = match self.selection(event) {
            Some(_) => ones(self.general),
            None => 0,
        };
        general | fixed
    }

    fn width(&self, counter: u32) -> u32 {
        let width = match counter {
            FIRST_FIXED.. => self.fixed_width,
            _ => self.general_width,
        };
        width.clamp(1, 64)
    }

    fn program(&mut self, counter: u32, event: EventKind, exclude: Exclude, value: u64) -> bool {
        if counter >= FIRST_FIXED {
            let (kernel, user) = (!exclude.kernel, !exclude.user);
            let field = fixed::INTERRUPT
                | if kernel { fixed::KERNEL } else { 0 }
                | if user { fixed::USER } else { 0 };
            self.set_fixed(counter - FIRST_FIXED, field);
            self.write(counter, value);
            return true;
        }
        let Some(selection) = self.selection(event) else {
            return false;
        };
        let modes = if exclude.kernel { 0 } else { select::KERNEL }
            | if exclude.user { 0 } else { select::USER };
        self.registers.write(
            SELECT + counter,
            selection | modes | select::INTERRUPT | select::ENABLE,
        );
        self.write(counter, value);
        true
    }

    fn read(&self, counter: u32) -> u64 {
        let value = match counter {
            FIRST_FIXED.. => self.registers.read(FIXED_COUNTER + counter - FIRST_FIXED),
            _ => self.registers.read(COUNTER + counter),
        };
        value & ones(self.width(counter))
    }

    fn write(&mut self, counter: u32, value: u64) {
        match counter {
            FIRST_FIXED.. => self
                .registers
                .write(FIXED_COUNTER + counter - FIRST_FIXED, value),
            _ if self.writes_whole => self.registers.write(FULL_COUNTER + counter, value),
            // Bit 31 is written into all bits above it.
            _ => self.registers.write(COUNTER + counter, value & ones(32)),
        }
    }

    fn start(&mut self, counters: u64) {
        self.registers.write(GLOBAL_OVERFLOW_CONTROL, counters);
        let running = self.registers.read(GLOBAL_CONTROL);
        self.registers.write(GLOBAL_CONTROL, running | counters);
    }

    fn stop(&mut self, counters: u64) {
        let running = self.registers.read(GLOBAL_CONTROL);
        self.registers.write(GLOBAL_CONTROL, running & !counters);
    }

    fn overflowed(&mut self) -> u64 {
        let overflowed = self.registers.read(GLOBAL_STATUS) & self.all();
        // Only what was seen is cleared: the rest interrupts once more.
        self.registers.write(GLOBAL_OVERFLOW_CONTROL, overflowed);
        overflowed
    }
}
