//! The driver for x86-64 on registers that behave as the manual says. No emulated machine has these
//! counters.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::*;
use crate::count::pmu::Pmu;
use crate::count::pmu::x86_64::{Architectural, Registers};
use crate::count::{Cpu, Groups, Refused};

/// A processor: what `CPUID` says, and its registers.
#[derive(Debug)]
struct Processor {
    version: u32,
    general: u32,
    fixed: u32,
    width: u32,
    /// The bits of the events that it lacks.
    missing: u32,
    writes_whole: bool,
    select: [u64; 8],
    /// General counters, then fixed ones.
    counters: [u64; 8 + 3],
    fixed_control: u64,
    global_control: u64,
    global_status: u64,
}

/// Event number and unit mask of what happens, with the number of its fixed counter.
const HAPPENINGS: [(EventSpec, u64, Option<usize>); 6] = [
    (CYCLES, 0x003C, Some(1)),
    (INSTRUCTIONS, 0x00C0, Some(0)),
    (EventSpec::hardware(Hardware::CacheReferences), 0x4F2E, None),
    (MISSES, 0x412E, None),
    (BRANCHES, 0x00C4, None),
    (EventSpec::hardware(Hardware::BranchMisses), 0x00C5, None),
];

impl Processor {
    fn mask(&self) -> u64 {
        u64::MAX >> (64 - self.width)
    }

    /// The bit of a counter in the global registers.
    fn bit(&self, counter: usize) -> u64 {
        match counter {
            0..8 => 1 << counter,
            _ => 1 << (32 + counter - 8),
        }
    }

    fn happens(&mut self, number: u64, fixed: Option<usize>, in_kernel: bool, times: u64) {
        for counter in 0..8 + 3 {
            let selects = match counter {
                0..8 => {
                    let select = self.select[counter];
                    let mode = if in_kernel { 1 << 17 } else { 1 << 16 };
                    let is_on = select & 1 << 22 != 0 && select & mode != 0;
                    is_on && select & 0xFFFF == number
                }
                _ => {
                    let field = self.fixed_control >> (4 * (counter - 8)) & 0xF;
                    let mode = if in_kernel { 1 } else { 2 };
                    fixed == Some(counter - 8) && field & mode != 0
                }
            };
            if selects && self.global_control & self.bit(counter) != 0 {
                let sum = self.counters[counter] + times;
                if sum > self.mask() {
                    self.global_status |= self.bit(counter);
                }
                self.counters[counter] = sum & self.mask();
            }
        }
    }

    /// The bits that the global registers have.
    fn all(&self) -> u64 {
        let fixed = (1 << self.fixed) - 1;
        ((1 << self.general) - 1) | fixed << 32
    }
}

#[derive(Clone, Debug)]
struct Shared(Rc<RefCell<Processor>>);

impl Registers for Shared {
    fn cpuid(&self) -> [u32; 4] {
        let it = self.0.borrow();
        let eax = it.version | it.general << 8 | it.width << 16 | 7 << 24;
        [eax, it.missing, 0, it.fixed | it.width << 5]
    }

    fn has_capabilities(&self) -> bool {
        self.0.borrow().writes_whole
    }

    fn read(&self, register: u32) -> u64 {
        let it = self.0.borrow();
        assert!(it.version >= 2, "#GP: version {}", it.version);
        let general = it.general;
        match register {
            0xC1..0xC9 if register - 0xC1 < general => it.counters[(register - 0xC1) as usize],
            0x186..0x18E if register - 0x186 < general => it.select[(register - 0x186) as usize],
            0x309..0x30C if register - 0x309 < it.fixed => {
                it.counters[8 + (register - 0x309) as usize]
            }
            0x345 if it.writes_whole => 1 << 13,
            0x38D => it.fixed_control,
            0x38E => it.global_status,
            0x38F => it.global_control,
            _ => panic!("#GP: RDMSR {register:#x}"),
        }
    }

    fn write(&self, register: u32, value: u64) {
        let mut it = self.0.borrow_mut();
        let (mask, all, general) = (it.mask(), it.all(), it.general);
        let may = |bits: u64| assert_eq!(value & !bits, 0, "#GP: WRMSR {register:#x}, {value:#x}");
        match register {
            0xC1..0xC9 if register - 0xC1 < general => {
                // The upper half is ignored, and bit 31 is written into the bits above.
                let extended = i64::from(value as u32 as i32) as u64;
                it.counters[(register - 0xC1) as usize] = extended & mask;
            }
            0x4C1..0x4C9 if it.writes_whole && register - 0x4C1 < general => {
                may(mask);
                it.counters[(register - 0x4C1) as usize] = value;
            }
            0x186..0x18E if register - 0x186 < general => {
                may(0xFFFF_FFFF);
                let counter = (register - 0x186) as usize;
                let is_counting = it.global_control & it.bit(counter) != 0;
                assert!(
                    !is_counting,
                    "the event of a counter changes while it counts"
                );
                it.select[counter] = value;
            }
            0x309..0x30C if register - 0x309 < it.fixed => {
                may(mask);
                it.counters[8 + (register - 0x309) as usize] = value;
            }
            0x38D => {
                may((1 << (4 * it.fixed)) - 1);
                it.fixed_control = value;
            }
            0x38F => {
                may(all);
                it.global_control = value;
            }
            0x390 => {
                may(all);
                it.global_status &= !value;
            }
            _ => panic!("#GP: WRMSR {register:#x}"),
        }
    }
}

/// A processor of this version, with general and fixed counters of these many bits.
fn processor(version: u32, general: u32, fixed: u32, width: u32) -> Shared {
    let processor = Processor {
        version,
        general,
        fixed,
        width,
        missing: 0,
        writes_whole: version >= 3,
        // As firmware may leave them.
        select: [0x43_00C0; 8],
        counters: [5; 11],
        fixed_control: if version >= 2 {
            (1 << (4 * fixed)) - 1
        } else {
            0
        },
        global_control: if version >= 2 { 1 } else { 0 },
        global_status: 0,
    };
    Shared(Rc::new(RefCell::new(processor)))
}

impl Shared {
    fn pmu(&self) -> Architectural<Shared> {
        Architectural::new(self.clone())
    }

    fn happens(&self, event: EventSpec, in_kernel: bool, times: u64) {
        let known = HAPPENINGS.iter().find(|(it, ..)| it.kind == event.kind);
        let (_, number, fixed) = known.unwrap();
        self.0
            .borrow_mut()
            .happens(*number, *fixed, in_kernel, times);
    }
}

type Thread = Groups<4>;

/// V-14: what is there is found out, not assumed.
#[test]
fn the_processor_says_what_it_has() {
    for (version, general, fixed, slots) in [
        (0, 0, 0, 0),
        (1, 4, 0, 0),
        (2, 2, 0, 2),
        (2, 2, 3, 5),
        (4, 8, 3, 11),
        // The registers of the ninth counter and the tenth are elsewhere.
        (4, 10, 3, 11),
    ] {
        let shared = processor(version, general, fixed, 40);
        let pmu = shared.pmu();
        assert_eq!(pmu.slots(), slots, "version {version}");
        assert_eq!(shared.0.borrow().global_control, 0);
        let cycles = pmu.counters(CYCLES.kind, Exclude::NOTHING);
        assert_eq!(
            cycles.count_ones() as usize,
            slots - fixed.saturating_sub(1) as usize
        );
        // A raw event may not say what the driver decides.
        assert_eq!(pmu.counters(EventKind::Raw(1 << 20), Exclude::NOTHING), 0);
    }
    let shared = processor(2, 4, 0, 48);
    shared.0.borrow_mut().missing = 1 << 4;
    let refused = Thread::NONE
        .clone()
        .attach(&shared.pmu(), &group(&[CYCLES, MISSES]));
    assert_eq!(refused, Err(Refused::NotSupported(MISSES)));
}

/// Events count in the modes that are not excluded, on general and fixed counters of any width.
#[test]
fn events_count_where_they_should() {
    for (version, general, fixed, width) in [(2, 6, 0, 40), (2, 4, 3, 48), (4, 8, 3, 48)] {
        let shared = processor(version, general, fixed, width);
        let mut cpu: Cpu<_> = Cpu::new(shared.pmu());
        let mut thread = Thread::NONE;
        let exclude = Exclude {
            kernel: true,
            user: false,
        };
        let of_user = EventSpec {
            exclude,
            ..INSTRUCTIONS
        };
        let events = [CYCLES, INSTRUCTIONS, of_user, MISSES, BRANCHES];
        let handle = thread.attach(cpu.pmu(), &group(&events)).unwrap();
        cpu.switch_in(&mut thread, 0);
        let mut truth: BTreeMap<usize, u64> = BTreeMap::new();
        for turn in 0..50 {
            for (at, (event, times)) in [(CYCLES, 9), (INSTRUCTIONS, 7), (MISSES, 2), (BRANCHES, 3)]
                .into_iter()
                .enumerate()
            {
                let in_kernel = (turn + at) % 3 == 0;
                shared.happens(event, in_kernel, times);
                for (place, counted) in events.iter().enumerate() {
                    if counted.kind == event.kind && !(in_kernel && counted.exclude.kernel) {
                        *truth.entry(place).or_default() += times;
                    }
                }
            }
            if turn % 7 == 0 {
                cpu.switch_out(&mut thread, turn as u64);
                // Nobody counts.
                shared.happens(CYCLES, true, 1_000);
                assert_eq!(shared.0.borrow().global_control, 0);
                cpu.switch_in(&mut thread, turn as u64);
            }
        }
        let counts = cpu.read(&mut thread, handle, 100).unwrap();
        for (place, member) in counts.members().iter().enumerate() {
            assert_eq!(
                member.raw, truth[&place],
                "version {version}: {}",
                member.event
            );
        }
    }
}

/// Every period overflows once, whatever the processor lets be written into its counters.
#[test]
fn overflows_are_of_the_period() {
    for (version, width, period) in [
        (2, 40, 1_000),
        (2, 48, 1 << 31),
        (4, 48, 1_000),
        (4, 48, 1 << 40),
    ] {
        let shared = processor(version, 4, 0, width);
        let mut cpu: Cpu<_> = Cpu::new(shared.pmu());
        let mut thread = Thread::NONE;
        let sampled = EventSpec { period, ..BRANCHES };
        let handle = thread
            .attach(cpu.pmu(), &group(&[CYCLES, sampled]))
            .unwrap();
        cpu.switch_in(&mut thread, 0);
        let (mut overflows, mut happened) = (0, 0);
        for step in 1..500 {
            let times = period / 3 + step;
            shared.happens(BRANCHES, step % 2 == 0, times);
            happened += times;
            cpu.overflow(&mut thread, step, |it| overflows += 1 + it.missed);
            assert_eq!(overflows, happened / period);
            assert_eq!(shared.0.borrow().global_status, 0);
        }
        assert_eq!(
            cpu.read(&mut thread, handle, 500).unwrap().members()[1].raw,
            happened
        );
    }
    let too_long = EventSpec {
        period: (1 << 31) + 1,
        ..BRANCHES
    };
    let refused = Thread::NONE
        .clone()
        .attach(&processor(2, 4, 0, 48).pmu(), &group(&[too_long]));
    assert_eq!(refused, Err(Refused::NotSupported(too_long)));
}

/// What fixed counters count leaves the general ones to other events.
#[test]
fn fixed_counters_leave_the_general_ones_free() {
    let shared = processor(4, 2, 3, 48);
    let mut cpu: Cpu<_> = Cpu::new(shared.pmu());
    let mut thread = Thread::NONE;
    let events = [BRANCHES, MISSES, CYCLES, INSTRUCTIONS];
    thread.attach(cpu.pmu(), &group(&events)).unwrap();
    cpu.switch_in(&mut thread, 0);
    assert_eq!(shared.0.borrow().global_control, 0b11 << 32 | 0b11);
    let one_more = [BRANCHES, MISSES, raw(0x1234)];
    let refused = Thread::NONE.clone().attach(cpu.pmu(), &group(&one_more));
    let leader = BRANCHES.kind;
    assert_eq!(refused, Err(Refused::NeverTogether { leader }));
}
