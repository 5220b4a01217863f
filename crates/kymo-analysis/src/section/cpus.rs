//! The use of each CPU.

use std::collections::BTreeMap;

use kymo_machine::ThreadId;
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::End;

/// Use of one CPU. `busy_ns + idle_ns + unknown_ns` is the trace's length.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CpuUse {
    /// Its number.
    pub cpu: u64,
    /// Time in threads that are not idle.
    pub busy_ns: u64,
    /// Time in the idle thread.
    pub idle_ns: u64,
    /// Time in an unknown thread: before the first switch, and after losses.
    pub unknown_ns: u64,
    /// Time in interrupt handlers; part of the other three.
    pub interrupts_ns: u64,
    /// Number of switches.
    pub switches: u64,
}

#[derive(Debug, Default)]
struct Cpu {
    ran: FxHashMap<ThreadId, u64>,
    switches: u64,
    interrupts: u64,
}

/// Each CPU's figures.
#[derive(Debug, Default)]
pub(crate) struct Cpus(FxHashMap<u64, Cpu>);

impl Cpus {
    /// A thread ran for `time` nanoseconds.
    pub(crate) fn ran(&mut self, cpu: u64, thread: ThreadId, time: u64) {
        let ran = &mut self.0.entry(cpu).or_default().ran;
        *ran.entry(thread).or_default() += time;
    }

    /// The CPU switched threads.
    pub(crate) fn switched(&mut self, cpu: Option<u64>) {
        if let Some(cpu) = cpu {
            self.0.entry(cpu).or_default().switches += 1;
        }
    }

    /// An interrupt's handler took `time` nanoseconds.
    pub(crate) fn interrupted(&mut self, cpu: Option<u64>, time: u64) {
        if let Some(cpu) = cpu {
            self.0.entry(cpu).or_default().interrupts += time;
        }
    }

    pub(crate) fn finish(&self, end: &End<'_>) -> Vec<CpuUse> {
        let numbers = end.machine.cpus().iter().map(|cpu| cpu.number);
        let numbers = numbers.filter(|number| end.part.has_cpu(*number));
        let numbers: BTreeMap<u64, Option<&Cpu>> = numbers
            .map(|number| (number, self.0.get(&number)))
            .collect();
        let cpus = numbers.into_iter().map(|(cpu, state)| {
            let (mut busy_ns, mut idle_ns) = (0, 0);
            for (thread, ns) in state.iter().flat_map(|state| &state.ran) {
                let idle = end.machine.thread(*thread).is_some_and(|of| of.is_idle());
                *if idle { &mut idle_ns } else { &mut busy_ns } += ns;
            }
            CpuUse {
                cpu,
                busy_ns,
                idle_ns,
                unknown_ns: end.span().saturating_sub(busy_ns + idle_ns),
                interrupts_ns: state.map_or(0, |state| state.interrupts),
                switches: state.map_or(0, |state| state.switches),
            }
        });
        cpus.collect()
    }

    pub(crate) fn live(&self) -> usize {
        self.0.values().map(|cpu| 1 + cpu.ran.len()).sum()
    }
}
