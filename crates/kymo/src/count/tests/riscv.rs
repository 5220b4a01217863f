//! The driver for RISC-V on a firmware that behaves as OpenSBI on QEMU 7.2 does.

use std::cell::RefCell;
use std::rc::Rc;

use super::*;
use crate::count::pmu::Pmu;
use crate::count::pmu::riscv::{Firmware, Sbi};
use crate::count::{Cpu, Groups, Refused};

const NOT_SUPPORTED: isize = -2;
const INVALID: isize = -3;
const ALREADY_STARTED: isize = -7;
const ALREADY_STOPPED: isize = -8;

/// Numbers of events.
const CYCLES_NUMBER: usize = 1;
const INSTRUCTIONS_NUMBER: usize = 2;
const MISSES_NUMBER: usize = 4;
/// Reads that the first level of cache, or the address translation of data or of instructions, did
/// not have.
const CACHES: [(&str, usize); 3] = [
    ("L1-dcache-load-misses", 0x1_0001),
    ("dTLB-load-misses", 0x1_0019),
    ("iTLB-load-misses", 0x1_0021),
];

#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    event: usize,
    value: u64,
    runs: bool,
    /// The bit OF of its `mhpmeventN`: it has overflowed, and does not interrupt.
    overflowed: bool,
}

/// A hart with counters 0, 2, and 3 to 6, and no counter 1.
#[derive(Debug, Default)]
struct Hart {
    counters: [Counter; 7],
    /// An overflow waits for its interrupt.
    pending: bool,
}

impl Hart {
    fn happens(&mut self, number: usize, times: u64) {
        // Each programmable event is counted on the first counter that has it.
        let mut is_counted = false;
        for (place, counter) in self.counters.iter_mut().enumerate() {
            let is_fixed = place < 3;
            if counter.event != number || !counter.runs || (!is_fixed && is_counted) {
                continue;
            }
            is_counted |= !is_fixed;
            let (sum, goes_round) = counter.value.overflowing_add(times);
            counter.value = sum;
            if goes_round && !is_fixed && !counter.overflowed {
                counter.overflowed = true;
                self.pending = true;
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Shared(Rc<RefCell<Hart>>);

/// A hart whose counters 0 and 2 run from boot on.
fn hart() -> Shared {
    let mut hart = Hart::default();
    for (counter, event) in [(0, CYCLES_NUMBER), (2, INSTRUCTIONS_NUMBER)] {
        hart.counters[counter] = Counter {
            event,
            value: 99,
            runs: true,
            overflowed: false,
        };
    }
    Shared(Rc::new(RefCell::new(hart)))
}

impl Firmware for Shared {
    fn call(&self, function: usize, arguments: [usize; 5]) -> Result<usize, isize> {
        let mut hart = self.0.borrow_mut();
        let hart = &mut *hart;
        let [base, mask, flags, event, high] = arguments;
        let of_mask = (0..usize::BITS as usize).filter(|bit| mask & 1 << bit != 0);
        let counters: Vec<usize> = of_mask.map(|bit| base + bit).collect();
        match function {
            0 => Ok(hart.counters.len()),
            1 if base == 1 => Err(INVALID),
            1 => Ok(63 << 12 | (0xC00 + base)),
            2 => {
                let [counter] = counters[..] else {
                    panic!("the driver asks for one counter at a time");
                };
                let can = match counter {
                    0 => event == CYCLES_NUMBER,
                    2 => event == INSTRUCTIONS_NUMBER,
                    3.. => {
                        [CYCLES_NUMBER, INSTRUCTIONS_NUMBER, MISSES_NUMBER].contains(&event)
                            || CACHES.iter().any(|(_, number)| *number == event)
                    }
                    _ => false,
                };
                let place = &mut hart.counters[counter];
                if !can || place.runs {
                    return Err(NOT_SUPPORTED);
                }
                // It does not interrupt before it is started.
                (place.event, place.overflowed) = (event, counter > 2);
                if flags & 1 << 1 != 0 {
                    place.value = 0;
                }
                Ok(counter)
            }
            3 => {
                let mut result = Ok(0);
                for counter in counters {
                    let place = &mut hart.counters[counter];
                    if place.runs {
                        result = Err(ALREADY_STARTED);
                        continue;
                    }
                    place.runs = true;
                    if flags & 1 != 0 {
                        place.value = event as u64 | (high as u64) << 32;
                    }
                    // An overflow that waits keeps its bit, whose ever it is.
                    place.overflowed &= hart.pending;
                }
                result
            }
            4 => {
                let mut result = Ok(0);
                for counter in counters {
                    let place = &mut hart.counters[counter];
                    if !place.runs {
                        result = Err(ALREADY_STOPPED);
                    }
                    place.runs = false;
                    if flags & 1 != 0 {
                        place.event = 0;
                    }
                }
                result
            }
            other => panic!("function {other}"),
        }
    }

    /// A counter that stands still shows 0.
    fn read(&self, counter: u32) -> u64 {
        let counter = self.0.borrow().counters[counter as usize];
        if counter.runs { counter.value } else { 0 }
    }

    fn overflowed(&self) -> u64 {
        let counters = self.0.borrow().counters;
        let counters = counters.iter().enumerate();
        counters.fold(0, |set, (place, counter)| {
            set | u64::from(counter.overflowed) << place
        })
    }

    fn interrupts(&self) -> bool {
        true
    }

    fn end_interrupt(&self) {
        self.0.borrow_mut().pending = false;
    }
}

type Thread = Groups<4>;

fn happens(shared: &Shared, number: usize, times: u64) {
    shared.0.borrow_mut().happens(number, times);
}

/// Takes the interrupt, if one waits, and gives how many periods have ended.
fn interrupt(shared: &Shared, cpu: &mut Cpu<Sbi<Shared>>, thread: &mut Thread, now: u64) -> u64 {
    let mut periods = 0;
    if shared.0.borrow().pending {
        cpu.overflow(thread, now, |it| periods += 1 + it.missed);
    }
    assert!(!shared.0.borrow().pending, "it would interrupt for ever");
    periods
}

#[test]
fn events_count_where_they_should() {
    let shared = hart();
    let mut cpu: Cpu<_> = Cpu::new(Sbi::new(shared.clone()));
    assert!(shared.0.borrow().counters.iter().all(|it| !it.runs));
    assert_eq!(cpu.pmu().slots(), 6);
    let mut thread = Thread::NONE;
    // Two that are equal share a counter: a second one would show nothing.
    let events = [CYCLES, INSTRUCTIONS, MISSES, MISSES];
    let handle = thread.attach(cpu.pmu(), &group(&events)).unwrap();
    for turn in 1..50 {
        cpu.switch_in(&mut thread, turn);
        happens(&shared, CYCLES_NUMBER, 9);
        happens(&shared, INSTRUCTIONS_NUMBER, 7);
        happens(&shared, MISSES_NUMBER, 1);
        cpu.switch_out(&mut thread, turn);
        happens(&shared, CYCLES_NUMBER, 1_000);
    }
    let counts = cpu.read(&mut thread, handle, 100).unwrap();
    let raw: Vec<u64> = counts.members().iter().map(|member| member.raw).collect();
    assert_eq!(raw, [9 * 49, 7 * 49, 49, 49]);
}

/// Also beside equal events without one, which are on the counters that do not interrupt.
#[test]
fn a_period_is_on_a_counter_that_interrupts() {
    for (event, number) in [
        (CYCLES, CYCLES_NUMBER),
        (INSTRUCTIONS, INSTRUCTIONS_NUMBER),
        (MISSES, MISSES_NUMBER),
    ] {
        for first in [&[event][..], &[]] {
            let shared = hart();
            let mut cpu: Cpu<_> = Cpu::new(Sbi::new(shared.clone()));
            let mut thread = Thread::NONE;
            let plain = first.first().map(|event| group(&[*event]));
            let plain = plain.map(|group| thread.attach(cpu.pmu(), &group).unwrap());
            let period = 1_000;
            let sampled = EventSpec { period, ..event };
            let sampled = thread.attach(cpu.pmu(), &group(&[sampled])).unwrap();
            cpu.switch_in(&mut thread, 0);
            let (mut periods, mut happened) = (0, 0);
            for step in 1..500 {
                let times = period / 3 + 7 * step;
                happens(&shared, number, times);
                happened += times;
                periods += interrupt(&shared, &mut cpu, &mut thread, step);
                assert_eq!(periods, happened / period, "{event} {step}");
            }
            for counted in plain.into_iter().chain([sampled]) {
                let counts = cpu.read(&mut thread, counted, 500).unwrap();
                assert_eq!(counts.members()[0].raw, happened, "{event}");
            }
        }
    }
}

/// While an overflow waits for its interrupt, the firmware starts all counters as if they had
/// overflowed too.
#[test]
fn a_counter_started_while_an_overflow_waits_has_not_overflowed() {
    let shared = hart();
    let mut cpu: Cpu<_> = Cpu::new(Sbi::new(shared.clone()));
    let mut thread = Thread::NONE;
    let period = 1_000;
    let [first, second] =
        [INSTRUCTIONS, MISSES].map(|event| group(&[EventSpec { period, ..event }]));
    thread.attach(cpu.pmu(), &first).unwrap();
    cpu.switch_in(&mut thread, 0);
    happens(&shared, INSTRUCTIONS_NUMBER, period + 10);
    assert!(shared.0.borrow().pending);
    cpu.change(&mut thread, 1, |pmu, _, thread| thread.attach(pmu, &second))
        .unwrap();
    interrupt(&shared, &mut cpu, &mut thread, 2);
    // Each interrupts again after what is left of its period.
    let mut of_misses = 0;
    for step in 3..103 {
        happens(&shared, MISSES_NUMBER, 100);
        of_misses += interrupt(&shared, &mut cpu, &mut thread, step);
        assert_eq!(of_misses, (step - 2) / 10);
    }
    happens(&shared, INSTRUCTIONS_NUMBER, period - 11);
    assert_eq!(interrupt(&shared, &mut cpu, &mut thread, 200), 0);
    happens(&shared, INSTRUCTIONS_NUMBER, 1);
    assert!(interrupt(&shared, &mut cpu, &mut thread, 201) > 0);
}

/// Without Sscofpmf there are no periods.
#[test]
fn a_hart_whose_counters_do_not_interrupt_has_no_periods() {
    struct Quiet(Shared);
    impl Firmware for Quiet {
        fn call(&self, function: usize, arguments: [usize; 5]) -> Result<usize, isize> {
            self.0.call(function, arguments)
        }
        fn read(&self, counter: u32) -> u64 {
            self.0.read(counter)
        }
        fn overflowed(&self) -> u64 {
            panic!("there is no such register")
        }
        fn interrupts(&self) -> bool {
            false
        }
        fn end_interrupt(&self) {}
    }
    let pmu = Sbi::new(Quiet(hart()));
    let sampled = EventSpec {
        period: 1_000,
        ..CYCLES
    };
    let refused = Thread::NONE.clone().attach(&pmu, &group(&[sampled]));
    assert_eq!(refused, Err(Refused::NotSupported(sampled)));
    assert!(Thread::NONE.clone().attach(&pmu, &group(&[CYCLES])).is_ok());
}

/// V-14: caches and address translations have the numbers that the SBI gives them.
#[test]
fn caches_and_translations_are_counted() {
    let shared = hart();
    let mut cpu: Cpu<_> = Cpu::new(Sbi::new(shared.clone()));
    let mut thread = Thread::NONE;
    let events = CACHES.map(|(name, _)| EventSpec::from_name(name).unwrap());
    let handle = thread.attach(cpu.pmu(), &group(&events)).unwrap();
    for turn in 1..=20 {
        cpu.switch_in(&mut thread, turn);
        for ((_, number), times) in CACHES.into_iter().zip(3..) {
            happens(&shared, number, times);
        }
        cpu.switch_out(&mut thread, turn);
    }
    let counts = cpu.read(&mut thread, handle, 100).unwrap();
    assert_eq!(raws(&counts), [60, 80, 100]);
    let other = EventSpec::from_name("dTLB-store-misses").unwrap();
    let mut another = Thread::NONE;
    let refused = another.attach(cpu.pmu(), &group(&[other]));
    assert_eq!(refused, Err(Refused::NotSupported(other)));
}
