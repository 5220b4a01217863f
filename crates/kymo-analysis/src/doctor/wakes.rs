//! Wake-ups that are missing, or of threads that the switches call runnable.

use std::collections::BTreeMap;

use kymo_machine::{Change, Doing, Machine};

use super::{Findings, Place, Remedy, Severity, list, times};

/// Fewest wake-ups from which the states of switches are judged.
const ENOUGH: u64 = 4;

const WAKE: Remedy = Remedy {
    text: "Record `sched_wakeup` wherever a waiting thread becomes ready to run: by another \
           thread, by an interrupt, and when its time has come",
    page: "events.md#sched_wakeup",
};
const STATE: Remedy = Remedy {
    text: "Record as `prev_state` of `sched_switch` the state of the leaving thread from then on, \
           `Blocked` or `Sleeping` where it waits",
    page: "events.md#sched_switch",
};

/// How a thread came to run again after it had waited.
#[derive(Debug)]
struct Thread {
    /// Without a wake-up.
    alone: u64,
    woken: u64,
    first: Place,
}

#[derive(Debug, Default)]
pub(super) struct Wakes {
    threads: BTreeMap<u64, Thread>,
    count: u64,
    /// Those of threads that waited.
    waited: u64,
    first: Option<Place>,
}

impl Wakes {
    pub(super) fn take(&mut self, change: &Change, place: Place, machine: &Machine) {
        let (thread, is_alone) = match *change {
            Change::Doing {
                thread,
                was: Doing::Blocked(_) | Doing::Sleeping,
                now: Doing::Running(_),
                ..
            } => (thread, true),
            Change::WakeLatency { thread, .. } => (thread, false),
            Change::Wakeup { waited, .. } => {
                self.count += 1;
                self.waited += u64::from(waited);
                self.first.get_or_insert(place);
                return;
            }
            _ => return,
        };
        let Some(thread) = machine.thread(thread).filter(|of| !of.is_idle()) else {
            return;
        };
        let of = self.threads.entry(thread.tid).or_insert(Thread {
            alone: 0,
            woken: 0,
            first: place,
        });
        match is_alone {
            true => of.alone += 1,
            false => of.woken += 1,
        }
    }

    /// Number of wake-ups.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// `recorded` is the number of events of wake-ups.
    pub(super) fn finish(&self, recorded: u64, found: &mut Findings) {
        let alone: u64 = self.threads.values().map(|of| of.alone).sum();
        let never = |of: &&Thread| of.woken == 0 && of.alone > 1;
        if recorded == 0 && alone > 0 {
            let threads = self.threads.values().filter(|of| of.alone > 0);
            let first = threads.map(|of| of.first).min_by_key(|of| of.time);
            let message = format!(
                "The trace has no sched_wakeup, but threads that waited ran again {}",
                times(alone)
            );
            found.add(Severity::Missing, "wake-ups", message, first, WAKE);
        } else if let Some(first) = self
            .threads
            .values()
            .filter(never)
            .map(|of| of.first)
            .min_by_key(|of| of.time)
        {
            let threads = self.threads.iter().filter(|(_, of)| never(of));
            let threads: Vec<String> = threads
                .map(|(tid, of)| format!("thread {tid} {}", times(of.alone)))
                .collect();
            let message = format!(
                "No wake-up is recorded of threads that waited and ran again: {}",
                list(&threads)
            );
            found.add(Severity::Missing, "wake-ups", message, Some(first), WAKE);
        }
        if self.count >= ENOUGH && self.waited == 0 {
            let message = format!(
                "All {} wake-ups are of threads that ran or were runnable, by the switches before",
                self.count
            );
            found.add(Severity::Wrong, "wake-state", message, self.first, STATE);
        }
    }
}
