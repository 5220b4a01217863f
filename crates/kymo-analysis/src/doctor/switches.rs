//! CPUs without switches, and without an idle thread.

use std::collections::BTreeMap;

use kymo_machine::{Change, Machine, ThreadId};

use super::{Findings, Place, Remedy, Severity, list, many};

/// Fewest switches after which a CPU should have been idle once.
const ENOUGH: u64 = 10;

const SWITCH: Remedy = Remedy {
    text: "Record `sched_switch` just before the stacks change places, list it in the vocabulary, \
           and see that the port gives each CPU its own blocks",
    page: "your-kernel.md#record",
};
const IDLE: Remedy = Remedy {
    text: "Give the idle thread of each CPU the number 0, the name `idle` or the reason `Idle` \
           when it leaves",
    page: "recipes.md#thread-0-is-the-idle-thread",
};

/// What a CPU did.
#[derive(Debug, Default)]
struct Cpu {
    switches: u64,
    interrupts: u64,
    calls: u64,
    first: Option<Place>,
    was_idle: bool,
}

#[derive(Debug, Default)]
pub(super) struct Switches {
    cpus: BTreeMap<u64, Cpu>,
}

impl Switches {
    pub(super) fn take(&mut self, change: &Change, place: Place, machine: &Machine) {
        let Some(number) = place.cpu else { return };
        let count: fn(&mut Cpu) -> &mut u64 = match change {
            Change::Switch { .. } => |cpu| &mut cpu.switches,
            Change::IrqEnter { .. } => |cpu| &mut cpu.interrupts,
            Change::CallEnter { .. } => |cpu| &mut cpu.calls,
            _ => return,
        };
        let cpu = self.cpus.entry(number).or_default();
        *count(cpu) += 1;
        cpu.first.get_or_insert(place);
        if let Change::Switch { prev, next, .. } = *change
            && !cpu.was_idle
        {
            let is_idle = |id: ThreadId| machine.thread(id).is_some_and(|of| of.is_idle());
            cpu.was_idle = is_idle(prev) || is_idle(next);
        }
    }

    /// Whether no CPU switched.
    pub(super) fn is_empty(&self) -> bool {
        self.cpus.values().all(|cpu| cpu.switches == 0)
    }

    pub(super) fn finish(&self, found: &mut Findings) {
        if self.is_empty() {
            let message = "The trace has no sched_switch: which thread runs is not known";
            let message = message.to_owned();
            found.add(Severity::Missing, "switches", message, None, SWITCH);
            return;
        }
        for (number, cpu) in self.cpus.iter().filter(|(_, cpu)| cpu.switches == 0) {
            let message = format!(
                "CPU {number} has {} and {}, but no sched_switch",
                many(cpu.interrupts, "interrupt", "interrupts"),
                many(cpu.calls, "system call", "system calls")
            );
            found.add(Severity::Missing, "switches", message, cpu.first, SWITCH);
        }
        let busy = |cpu: &Cpu| cpu.switches >= ENOUGH && !cpu.was_idle;
        let cpus = self.cpus.iter().filter(|(_, cpu)| busy(cpu));
        let (numbers, firsts): (Vec<String>, Vec<Option<Place>>) = cpus
            .map(|(number, cpu)| (format!("CPU {number}"), cpu.first))
            .unzip();
        if let Some(first) = firsts.first() {
            let message = format!(
                "No idle thread ran on {}: the report counts all time there as busy",
                list(&numbers)
            );
            found.add(Severity::Hint, "idle", message, *first, IDLE);
        }
    }
}
