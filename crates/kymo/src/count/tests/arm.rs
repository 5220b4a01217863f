//! The driver for AArch64 on registers that behave as the manual says.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::*;
use crate::count::pmu::Pmu;
use crate::count::pmu::aarch64::{Pmuv3, Register, Registers};
use crate::count::{Cpu, Groups, Refused};

#[derive(Debug)]
struct Processor {
    events: u32,
    common: u64,
    /// The events from 0x4000 on.
    extended: u64,
    control: u64,
    started: u64,
    interrupts: u64,
    overflowed: u64,
    cycles: u64,
    cycles_filter: u64,
    counters: [u64; 31],
    types: [u64; 31],
}

impl Processor {
    fn all(&self) -> u64 {
        ((1 << self.events) - 1) | 1 << 31
    }

    fn happens(&mut self, number: u64, in_kernel: bool, times: u64) {
        let counts = |filter: u64| filter & if in_kernel { 1 << 31 } else { 1 << 30 } == 0;
        if self.control & 1 == 0 {
            return;
        }
        for counter in 0..self.events as usize {
            let selected = self.types[counter] & 0xFFFF == number;
            if selected && self.started & 1 << counter != 0 && counts(self.types[counter]) {
                let sum = self.counters[counter] + times;
                self.overflowed |= (sum >> 32).min(1) << counter;
                self.counters[counter] = sum & 0xFFFF_FFFF;
            }
        }
        if number == 0x11 && self.started & 1 << 31 != 0 && counts(self.cycles_filter) {
            let (sum, overflowed) = self.cycles.overflowing_add(times);
            self.cycles = sum;
            self.overflowed |= u64::from(overflowed) << 31;
        }
    }
}

#[derive(Clone, Debug)]
struct Shared(Rc<RefCell<Processor>>);

impl Registers for Shared {
    fn read(&self, register: Register) -> u64 {
        let it = self.0.borrow();
        match register {
            Register::Control => it.control & 0x7F | u64::from(it.events) << 11,
            Register::Start | Register::Stop => it.started,
            Register::Interrupt | Register::NoInterrupt => it.interrupts,
            Register::Overflowed => it.overflowed,
            Register::Events0 => it.common & 0xFFFF_FFFF | it.extended << 32,
            Register::Events32 => it.common >> 32 | it.extended >> 32 << 32,
            Register::Cycles => it.cycles,
            Register::CyclesFilter => it.cycles_filter,
            Register::Counter(counter) => it.counters[..it.events as usize][counter as usize],
            Register::Type(counter) => it.types[..it.events as usize][counter as usize],
        }
    }

    fn write(&self, register: Register, value: u64) {
        let mut it = self.0.borrow_mut();
        let (all, events) = (it.all(), it.events as usize);
        match register {
            Register::Control => {
                // Resets do not stay.
                it.control = value & !0b110;
                if value & 1 << 1 != 0 {
                    it.counters = [0; 31];
                }
                if value & 1 << 2 != 0 {
                    it.cycles = 0;
                }
            }
            Register::Start => it.started |= value & all,
            Register::Stop => it.started &= !value,
            Register::Interrupt => it.interrupts |= value & all,
            Register::NoInterrupt => it.interrupts &= !value,
            Register::Overflowed => it.overflowed &= !value,
            Register::Events0 | Register::Events32 => panic!("read-only"),
            Register::Cycles => it.cycles = value,
            Register::CyclesFilter => it.cycles_filter = value,
            Register::Counter(counter) => {
                it.counters[..events][counter as usize] = value & 0xFFFF_FFFF;
            }
            Register::Type(counter) => it.types[..events][counter as usize] = value,
        }
    }
}

/// A processor with so many event counters, in the state that firmware may leave.
fn processor(events: u32) -> Shared {
    Shared(Rc::new(RefCell::new(Processor {
        events,
        // Cycles, instructions, L1 data accesses and refills, retired branches and their misses.
        common: 1 << 0x11 | 1 << 0x08 | 1 << 0x04 | 1 << 0x03 | 1 << 0x21 | 1 << 0x22,
        // 0x4004 and 0x4025: one in each half.
        extended: 1 << 0x04 | 1 << 0x25,
        control: 1,
        started: u64::MAX,
        interrupts: u64::MAX,
        overflowed: 1,
        cycles: 77,
        cycles_filter: 1 << 31,
        counters: [9; 31],
        types: [0x08; 31],
    })))
}

type Thread = Groups<4>;

#[test]
fn events_count_where_they_should() {
    let shared = processor(6);
    let mut cpu: Cpu<_> = Cpu::new(Pmuv3::new(shared.clone()));
    assert_eq!(shared.0.borrow().started & shared.0.borrow().all(), 0);
    let mut thread = Thread::NONE;
    let exclude = |kernel, user| Exclude { kernel, user };
    let events = [
        CYCLES,
        INSTRUCTIONS,
        EventSpec {
            exclude: exclude(true, false),
            ..INSTRUCTIONS
        },
        EventSpec {
            exclude: exclude(false, true),
            ..CYCLES
        },
        BRANCHES,
        MISSES,
    ];
    let handle = thread.attach(cpu.pmu(), &group(&events)).unwrap();
    cpu.switch_in(&mut thread, 0);
    let happenings = [
        (CYCLES, 0x11, 9),
        (INSTRUCTIONS, 0x08, 7),
        (BRANCHES, 0x21, 3),
        (MISSES, 0x03, 1),
    ];
    let mut truth: BTreeMap<usize, u64> = BTreeMap::new();
    for turn in 0..60 {
        for (at, (event, number, times)) in happenings.into_iter().enumerate() {
            let in_kernel = (turn + at) % 3 == 0;
            shared.0.borrow_mut().happens(number, in_kernel, times);
            for (place, counted) in events.iter().enumerate() {
                let Exclude { kernel, user } = counted.exclude;
                if counted.kind == event.kind && !(if in_kernel { kernel } else { user }) {
                    *truth.entry(place).or_default() += times;
                }
            }
        }
        if turn % 7 == 0 {
            cpu.switch_out(&mut thread, turn as u64);
            shared.0.borrow_mut().happens(0x11, true, 1_000);
            assert_eq!(shared.0.borrow().started & shared.0.borrow().all(), 0);
            cpu.switch_in(&mut thread, turn as u64);
        }
    }
    let counts = cpu.read(&mut thread, handle, 100).unwrap();
    for (place, member) in counts.members().iter().enumerate() {
        assert_eq!(member.raw, truth[&place], "{}", member.event);
    }
}

/// On the cycle counter and on event counters.
#[test]
fn overflows_are_of_the_period() {
    for (event, number) in [(CYCLES, 0x11), (INSTRUCTIONS, 0x08)] {
        for period in [1_000, u64::from(u32::MAX)] {
            let shared = processor(4);
            let mut cpu: Cpu<_> = Cpu::new(Pmuv3::new(shared.clone()));
            let mut thread = Thread::NONE;
            let sampled = EventSpec { period, ..event };
            let handle = thread.attach(cpu.pmu(), &group(&[sampled])).unwrap();
            cpu.switch_in(&mut thread, 0);
            let (mut overflows, mut happened) = (0, 0);
            for step in 1..500 {
                let times = period / 3 + step;
                shared.0.borrow_mut().happens(number, true, times);
                happened += times;
                cpu.overflow(&mut thread, step, |it| overflows += 1 + it.missed);
                assert_eq!(overflows, happened / period, "{event} {period} {step}");
                assert_eq!(shared.0.borrow().overflowed, 0);
            }
            assert_eq!(cpu.read(&mut thread, handle, 500).unwrap().raw, happened);
        }
    }
}

/// V-14: what is there is found out, not assumed.
#[test]
fn the_processor_says_what_it_has() {
    let pmu = Pmuv3::new(processor(6));
    assert_eq!(pmu.slots(), 7);
    let counters = |event: EventSpec| pmu.counters(event.kind, event.exclude);
    assert_eq!(counters(CYCLES), 1 << 31 | 0b11_1111);
    assert_eq!(counters(INSTRUCTIONS), 0b11_1111);
    assert_eq!(counters(EventSpec::hardware(Hardware::BusCycles)), 0);
    assert_eq!(counters(raw(0x08)), 0b11_1111);
    assert_eq!(counters(raw(0x09)), 0);
    assert_eq!(counters(raw(0xC1)), 0b11_1111);
    assert_eq!(counters(raw(0x1_0000)), 0);
    for (number, is_there) in [
        (0x3FFF, true),
        (0x4003, false),
        (0x4004, true),
        (0x4024, false),
        (0x4025, true),
        (0x403F, false),
        (0x4040, true),
    ] {
        assert_eq!(counters(raw(number)) != 0, is_there, "{number:#x}");
    }
    let mut thread = Thread::NONE;
    let eight: Vec<EventSpec> = (0xC0..0xC8).map(raw).collect();
    let refused = thread.attach(&pmu, &group(&eight)).unwrap_err();
    assert!(matches!(refused, Refused::TooManySlots { slots: 7, .. }));
    // Seven fit only if one of them is cycles.
    let leader = eight[0].kind;
    let seven = thread.attach(&pmu, &group(&eight[..7]));
    assert_eq!(seven, Err(Refused::NeverTogether { leader }));
    let with_cycles = [&eight[..6], &[CYCLES]].concat();
    assert!(thread.attach(&pmu, &group(&with_cycles)).is_ok());
}

/// V-14: caches and address translations, where the processor has their events.
#[test]
fn caches_and_translations_are_counted() {
    let numbers = [
        ("L1-dcache-loads", 0x04),
        ("L1-dcache-load-misses", 0x03),
        ("dTLB-loads", 0x25),
        ("dTLB-load-misses", 0x05),
        ("iTLB-loads", 0x26),
        ("iTLB-load-misses", 0x02),
    ];
    let events = numbers.map(|(name, _)| EventSpec::from_name(name).unwrap());
    let shared = processor(6);
    let mut thread = Thread::NONE;
    let refused = thread.attach(&Pmuv3::new(shared.clone()), &group(&events));
    assert_eq!(refused, Err(Refused::NotSupported(events[2])));
    shared.0.borrow_mut().common |= 1 << 0x25 | 1 << 0x05 | 1 << 0x26 | 1 << 0x02;
    let mut cpu: Cpu<_> = Cpu::new(Pmuv3::new(shared.clone()));
    let handle = thread.attach(cpu.pmu(), &group(&events)).unwrap();
    cpu.switch_in(&mut thread, 0);
    for ((_, number), times) in numbers.into_iter().zip(3..) {
        shared.0.borrow_mut().happens(number, true, times);
    }
    let counts = cpu.read(&mut thread, handle, 100).unwrap();
    assert_eq!(raws(&counts), [3, 4, 5, 6, 7, 8]);
}
