//! AArch64: the Performance Monitors Extension, version 3.
//!
//! Source: Arm Architecture Reference Manual for A-profile (DDI 0487), chapter D13 "The Performance
//! Monitors Extension", and the numbers of common events in D13.12.

use super::Pmu;
use crate::count::event::{Cache, CacheAccess, CacheLevel, EventKind, Exclude, Hardware};

/// A register of the extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    /// `PMCR_EL0`.
    Control,
    /// `PMCNTENSET_EL0`: 1 starts a counter.
    Start,
    /// `PMCNTENCLR_EL0`: 1 stops a counter.
    Stop,
    /// `PMINTENSET_EL1`: 1 lets a counter interrupt.
    Interrupt,
    /// `PMINTENCLR_EL1`: 1 keeps a counter from interrupting.
    NoInterrupt,
    /// `PMOVSCLR_EL0`: the counters that have overflowed; 1 clears.
    Overflowed,
    /// `PMCEID0_EL0`: the common events that the processor has, 0 to 31 in the lower half and
    /// 0x4000 to 0x401F in the upper one.
    Events0,
    /// `PMCEID1_EL0`: the common events 32 to 63 and 0x4020 to 0x403F.
    Events32,
    /// `PMCCNTR_EL0`: cycles.
    Cycles,
    /// `PMCCFILTR_EL0`: in which modes cycles count.
    CyclesFilter,
    /// `PMEVCNTRn_EL0`.
    Counter(u32),
    /// `PMEVTYPERn_EL0`: what a counter counts, and in which modes.
    Type(u32),
}

/// The registers of the CPU that this runs on.
pub trait Registers {
    /// Reads a register.
    fn read(&self, register: Register) -> u64;

    /// Writes a register; what follows sees it.
    fn write(&self, register: Register, value: u64);
}

/// Bits of `PMCR_EL0`.
mod control {
    /// Counters may count.
    pub const ENABLE: u64 = 1;
    /// Event counters become zero.
    pub const RESET_EVENTS: u64 = 1 << 1;
    /// The cycle counter becomes zero.
    pub const RESET_CYCLES: u64 = 1 << 2;
    /// The cycle counter overflows at 64 bits.
    pub const LONG_CYCLES: u64 = 1 << 6;
    /// Number of event counters.
    pub const COUNTERS: u32 = 11;
}

/// Bits of `PMEVTYPERn_EL0` and `PMCCFILTR_EL0`.
mod filter {
    /// Not at EL1.
    pub const NOT_KERNEL: u64 = 1 << 31;
    /// Not at EL0.
    pub const NOT_USER: u64 = 1 << 30;
}

/// The cycle counter's number and bit.
const CYCLES: u32 = 31;

/// The first of the common events that came with version 3.1 of the extension. Before it, the
/// halves of registers that list them are zero.
const EXTENDED: u64 = 0x4000;

/// The counters of a CPU, of a kernel at EL1.
///
/// Numbers of counters are their bits in `PMCNTENSET_EL0`, so whole groups start and stop with one
/// write.
#[derive(Debug)]
pub struct Pmuv3<R: Registers> {
    registers: R,
    /// Number of event counters.
    events: u32,
    /// By number, the common events that the processor has.
    common: u64,
    /// By number from [`EXTENDED`] on, those that came with version 3.1 of the extension.
    extended: u64,
}

impl<R: Registers> Pmuv3<R> {
    /// The counters of this CPU, all stopped.
    pub fn new(registers: R) -> Pmuv3<R> {
        let events = registers.read(Register::Control) >> control::COUNTERS & 0x1F;
        let low = registers.read(Register::Events0);
        let high = registers.read(Register::Events32);
        let lower_half = u64::from(u32::MAX);
        let pmu = Pmuv3 {
            registers,
            events: events as u32,
            common: low & lower_half | high << 32,
            extended: low >> 32 | high & !lower_half,
        };
        for register in [Register::Stop, Register::NoInterrupt, Register::Overflowed] {
            pmu.registers.write(register, pmu.all());
        }
        let enabled =
            control::ENABLE | control::RESET_EVENTS | control::RESET_CYCLES | control::LONG_CYCLES;
        pmu.registers.write(Register::Control, enabled);
        pmu
    }

    fn event_counters(&self) -> u64 {
        (1 << self.events) - 1
    }

    fn all(&self) -> u64 {
        self.event_counters() | 1 << CYCLES
    }

    /// Number of an event, if the processor has it.
    fn number(&self, event: EventKind) -> Option<u64> {
        let number = match event {
            EventKind::Hardware(event) => hardware(event)?,
            EventKind::Cache(cache) => self::cache(cache)?,
            EventKind::Raw(number) if number <= 0xFFFF => number,
            _ => return None,
        };
        let is_there = match number {
            0..64 => self.common & 1 << number != 0,
            EXTENDED..0x4040 => self.extended & 1 << (number - EXTENDED) != 0,
            // No register lists the others, of which most are the processor's own.
            _ => true,
        };
        is_there.then_some(number)
    }
}

/// Number of the common event for a hardware event.
fn hardware(event: Hardware) -> Option<u64> {
    Some(match event {
        Hardware::Cycles => 0x11,
        // Cycles follow the frequency.
        Hardware::ReferenceCycles => return None,
        Hardware::Instructions => 0x08,
        Hardware::CacheReferences => 0x04,
        Hardware::CacheMisses => 0x03,
        // Branches that were retired, and those of them that were predicted wrongly.
        Hardware::Branches => 0x21,
        Hardware::BranchMisses => 0x22,
        Hardware::BusCycles => 0x1D,
        Hardware::StalledCyclesFrontend => 0x23,
        Hardware::StalledCyclesBackend => 0x24,
    })
}

/// Number of the common event for accesses to a cache. Most count reads and writes together; these
/// are `load` here, and there is no other.
fn cache(cache: Cache) -> Option<u64> {
    if cache.access != CacheAccess::Load {
        return None;
    }
    Some(match (cache.level, cache.misses) {
        (CacheLevel::L1Data, false) => 0x04,
        (CacheLevel::L1Data, true) => 0x03,
        (CacheLevel::L1Instructions, false) => 0x14,
        (CacheLevel::L1Instructions, true) => 0x01,
        (CacheLevel::LastLevel, false) => 0x36,
        (CacheLevel::LastLevel, true) => 0x37,
        (CacheLevel::DataTlb, false) => 0x25,
        (CacheLevel::DataTlb, true) => 0x05,
        (CacheLevel::InstructionTlb, false) => 0x26,
        (CacheLevel::InstructionTlb, true) => 0x02,
        (CacheLevel::Branch, false) => 0x12,
        (CacheLevel::Branch, true) => 0x10,
        (CacheLevel::Node, _) => return None,
    })
}

fn modes(exclude: Exclude) -> u64 {
    let kernel = if exclude.kernel {
        filter::NOT_KERNEL
    } else {
        0
    };
    let user = if exclude.user { filter::NOT_USER } else { 0 };
    kernel | user
}

impl<R: Registers> Pmu for Pmuv3<R> {
    /// The cycle counter, and at most 31 event counters.
    const SLOTS: usize = 32;
    const FIXED: u64 = 1 << CYCLES;

    fn slots(&self) -> usize {
        self.events as usize + 1
    }

    /// That of the event counters.
    fn longest_period(&self) -> u64 {
        u64::from(u32::MAX)
    }

    fn counters(&self, event: EventKind, _: Exclude) -> u64 {
        let cycles = match event {
            EventKind::Hardware(Hardware::Cycles) => 1 << CYCLES,
            _ => 0,
        };
        match self.number(event) {
            Some(_) => cycles | self.event_counters(),
            None => cycles,
        }
    }

    fn width(&self, counter: u32) -> u32 {
        if counter == CYCLES { 64 } else { 32 }
    }

    fn program(&mut self, counter: u32, event: EventKind, exclude: Exclude, value: u64) -> bool {
        if counter == CYCLES {
            self.registers.write(Register::CyclesFilter, modes(exclude));
        } else {
            let Some(number) = self.number(event) else {
                return false;
            };
            let selected = number | modes(exclude);
            self.registers.write(Register::Type(counter), selected);
        }
        self.write(counter, value);
        true
    }

    fn read(&self, counter: u32) -> u64 {
        match counter {
            CYCLES => self.registers.read(Register::Cycles),
            _ => self.registers.read(Register::Counter(counter)) & u64::from(u32::MAX),
        }
    }

    fn write(&mut self, counter: u32, value: u64) {
        match counter {
            CYCLES => self.registers.write(Register::Cycles, value),
            _ => self.registers.write(Register::Counter(counter), value),
        }
    }

    fn start(&mut self, counters: u64) {
        self.registers.write(Register::Overflowed, counters);
        self.registers.write(Register::Interrupt, counters);
        self.registers.write(Register::Start, counters);
    }

    fn stop(&mut self, counters: u64) {
        self.registers.write(Register::Stop, counters);
        self.registers.write(Register::NoInterrupt, counters);
    }

    fn overflowed(&mut self) -> u64 {
        let overflowed = self.registers.read(Register::Overflowed) & self.all();
        self.registers.write(Register::Overflowed, overflowed);
        overflowed
    }
}

/// The registers of the CPU, for a kernel that runs at EL1.
#[cfg(target_arch = "aarch64")]
#[derive(Clone, Copy, Debug, Default)]
pub struct El1;

#[cfg(target_arch = "aarch64")]
impl Registers for El1 {
    fn read(&self, register: Register) -> u64 {
        macro_rules! read {
            ($name:literal) => {{
                let value;
                // SAFETY: reads a register of the counters, which changes nothing.
                unsafe {
                    core::arch::asm!(
                        concat!("mrs {}, ", $name),
                        out(reg) value,
                        options(nomem, nostack, preserves_flags)
                    )
                };
                value
            }};
        }
        match register {
            Register::Control => read!("pmcr_el0"),
            Register::Start => read!("pmcntenset_el0"),
            Register::Stop => read!("pmcntenclr_el0"),
            Register::Interrupt => read!("pmintenset_el1"),
            Register::NoInterrupt => read!("pmintenclr_el1"),
            Register::Overflowed => read!("pmovsclr_el0"),
            Register::Events0 => read!("pmceid0_el0"),
            Register::Events32 => read!("pmceid1_el0"),
            Register::Cycles => read!("pmccntr_el0"),
            Register::CyclesFilter => read!("pmccfiltr_el0"),
            Register::Counter(counter) => {
                select(counter);
                read!("pmxevcntr_el0")
            }
            Register::Type(counter) => {
                select(counter);
                read!("pmxevtyper_el0")
            }
        }
    }

    fn write(&self, register: Register, value: u64) {
        macro_rules! write {
            ($name:literal) => {
                // SAFETY: the counters are the driver's, and nothing else depends on them.
                unsafe {
                    core::arch::asm!(
                        concat!("msr ", $name, ", {}"),
                        "isb",
                        in(reg) value,
                        options(nostack, preserves_flags)
                    )
                }
            };
        }
        match register {
            Register::Control => write!("pmcr_el0"),
            Register::Start => write!("pmcntenset_el0"),
            Register::Stop => write!("pmcntenclr_el0"),
            Register::Interrupt => write!("pmintenset_el1"),
            Register::NoInterrupt => write!("pmintenclr_el1"),
            Register::Overflowed => write!("pmovsclr_el0"),
            // They are read-only.
            Register::Events0 | Register::Events32 => {}
            Register::Cycles => write!("pmccntr_el0"),
            Register::CyclesFilter => write!("pmccfiltr_el0"),
            Register::Counter(counter) => {
                select(counter);
                write!("pmxevcntr_el0");
            }
            Register::Type(counter) => {
                select(counter);
                write!("pmxevtyper_el0");
            }
        }
    }
}

/// Selects the counter that `PMXEVCNTR_EL0` and `PMXEVTYPER_EL0` stand for.
#[cfg(target_arch = "aarch64")]
fn select(counter: u32) {
    // SAFETY: as above; interrupts are masked, so nobody selects another meanwhile.
    unsafe {
        core::arch::asm!(
            "msr pmselr_el0, {}",
            "isb",
            in(reg) u64::from(counter),
            options(nostack, preserves_flags)
        )
    };
}
