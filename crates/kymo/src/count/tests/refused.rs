//! Groups of which a counter refuses an event.

use super::*;
use crate::count::pmu::{Model, Pmu};
use crate::count::{Cpu, Groups};

type Thread = Groups<4>;

/// A PMU whose counters refuse an event although they could count it, as firmware may.
struct Refusing {
    model: Model<4>,
    event: Option<EventKind>,
    /// The counters that were ever started, and those that were stopped.
    started: u64,
    stopped: u64,
}

impl Pmu for Refusing {
    const SLOTS: usize = 4;

    fn counters(&self, event: EventKind, exclude: Exclude) -> u64 {
        self.model.counters(event, exclude)
    }

    fn width(&self, counter: u32) -> u32 {
        self.model.width(counter)
    }

    fn program(&mut self, counter: u32, event: EventKind, exclude: Exclude, value: u64) -> bool {
        self.event != Some(event) && self.model.program(counter, event, exclude, value)
    }

    fn read(&self, counter: u32) -> u64 {
        self.model.read(counter)
    }

    fn write(&mut self, counter: u32, value: u64) {
        self.model.write(counter, value);
    }

    fn start(&mut self, counters: u64) {
        self.started |= counters;
        self.model.start(counters);
    }

    fn stop(&mut self, counters: u64) {
        self.stopped |= counters;
        self.model.stop(counters);
    }

    fn overflowed(&mut self) -> u64 {
        self.model.overflowed()
    }
}

/// A group of which a counter refuses its event does not count in part, and holds no counter.
#[test]
fn a_group_with_a_refused_event_leaves_its_counters_to_others() {
    let mut cpu = Cpu::<Refusing>::new(Refusing {
        model: Model::new(48),
        event: Some(INSTRUCTIONS.kind),
        started: 0,
        stopped: 0,
    });
    let mut thread = Thread::NONE;
    let first = thread.attach(cpu.pmu(), &group(&[CYCLES, INSTRUCTIONS]));
    let second = thread.attach(cpu.pmu(), &group(&[BRANCHES, MISSES]));
    let (first, second) = (first.unwrap(), second.unwrap());
    cpu.switch_in(&mut thread, 0);
    let Refusing {
        started, stopped, ..
    } = cpu.pmu();
    assert_eq!(stopped.count_ones(), 1, "that of the cycles");
    assert_eq!((started.count_ones(), started & stopped), (2, 0));
    let happen = |cpu: &mut Cpu<Refusing>| {
        for event in [CYCLES, INSTRUCTIONS, BRANCHES] {
            cpu.pmu_mut().model.happen(event.kind, true, 7);
        }
    };
    happen(&mut cpu);
    let counts = cpu.read(&mut thread, first, 10).unwrap();
    assert_eq!((raws(&counts), counts.time_running), (vec![0, 0], 0));
    assert_eq!(raws(&cpu.read(&mut thread, second, 10).unwrap()), [7, 0]);

    cpu.switch_out(&mut thread, 10);
    cpu.pmu_mut().event = None;
    cpu.switch_in(&mut thread, 10);
    happen(&mut cpu);
    let counts = cpu.read(&mut thread, first, 30).unwrap();
    assert_eq!((raws(&counts), counts.time_running), (vec![7, 7], 20));
    assert_eq!(raws(&cpu.read(&mut thread, second, 30).unwrap()), [14, 0]);
}
