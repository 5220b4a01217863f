//! A PMU in software, for tests of kernels and of the scheduler of groups.

use super::{MAX_COUNTERS, Pmu};
use crate::count::event::{EventKind, Exclude};

/// A PMU with `SLOTS` counters, of which each can count any event of the hardware. Nothing counts
/// by itself: [`happen`](Model::happen) is called for everything that is to be counted.
#[derive(Clone, Debug)]
pub struct Model<const SLOTS: usize> {
    counters: [Counter; SLOTS],
    width: u32,
    running: u64,
    overflowed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Counter {
    event: Option<(EventKind, Exclude)>,
    value: u64,
}

impl<const SLOTS: usize> Model<SLOTS> {
    /// A PMU whose counters have so many bits, from 1 to 64.
    pub const fn new(width: u32) -> Model<SLOTS> {
        const { assert!(SLOTS <= MAX_COUNTERS, "a PMU has at most 64 counters") };
        Model {
            counters: [Counter {
                event: None,
                value: 0,
            }; SLOTS],
            width,
            running: 0,
            overflowed: 0,
        }
    }

    /// An event happens so many times: in the kernel, or in a program.
    pub fn happen(&mut self, event: EventKind, in_kernel: bool, times: u64) {
        let end = u64::MAX >> (64 - self.width);
        for (number, counter) in self.counters.iter_mut().enumerate() {
            let counts = match counter.event {
                Some((counted, exclude)) => {
                    let excluded = if in_kernel {
                        exclude.kernel
                    } else {
                        exclude.user
                    };
                    counted == event && !excluded && self.running & 1 << number != 0
                }
                None => false,
            };
            if counts {
                let sum = u128::from(counter.value) + u128::from(times);
                if sum > u128::from(end) {
                    self.overflowed |= 1 << number;
                }
                counter.value = sum as u64 & end;
            }
        }
    }

    /// What counts now, by counter.
    pub fn counted(&self) -> impl Iterator<Item = (EventKind, Exclude)> {
        let running = self.running;
        let counters = self.counters.iter().enumerate();
        let is_running = move |number: usize| running & 1 << number != 0;
        counters.filter_map(move |(number, counter)| counter.event.filter(|_| is_running(number)))
    }
}

impl<const SLOTS: usize> Pmu for Model<SLOTS> {
    const SLOTS: usize = SLOTS;

    fn counters(&self, event: EventKind, _: Exclude) -> u64 {
        match (event.slots(), SLOTS) {
            (0, _) | (_, 0) => 0,
            _ => u64::MAX >> (MAX_COUNTERS - SLOTS),
        }
    }

    fn longest_period(&self) -> u64 {
        u64::MAX >> (64 - self.width)
    }

    fn width(&self, _: u32) -> u32 {
        self.width
    }

    fn program(&mut self, counter: u32, event: EventKind, exclude: Exclude, value: u64) -> bool {
        match self.counters.get_mut(counter as usize) {
            Some(place) if self.running & 1 << counter == 0 => {
                *place = Counter {
                    event: Some((event, exclude)),
                    value,
                };
                true
            }
            _ => false,
        }
    }

    fn read(&self, counter: u32) -> u64 {
        let counter = self.counters.get(counter as usize);
        counter.map_or(0, |counter| counter.value)
    }

    fn write(&mut self, counter: u32, value: u64) {
        if let Some(counter) = self.counters.get_mut(counter as usize) {
            counter.value = value;
        }
    }

    fn start(&mut self, counters: u64) {
        self.overflowed &= !counters;
        self.running |= counters;
    }

    fn stop(&mut self, counters: u64) {
        self.running &= !counters;
    }

    fn overflowed(&mut self) -> u64 {
        core::mem::take(&mut self.overflowed)
    }
}
