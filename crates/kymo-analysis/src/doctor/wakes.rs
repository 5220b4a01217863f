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

/// How the waits of a thread ended.
#[derive(Debug)]
struct Thread {
    /// It ran without a wake-up since the wait began.
    alone: u64,
    woken: u64,
    /// The first end without a wake-up.
    first: Place,
}

impl Thread {
    /// Whether some way in which it is woken is not recorded. Clocks of CPUs that differ may hide
    /// single wake-ups.
    fn lacks_wakeups(&self) -> bool {
        self.alone > 1 && self.alone > self.woken / 8
    }

    /// How often it ran without a wake-up.
    fn told(&self, tid: u64) -> String {
        match self.woken {
            0 => format!("thread {tid} {}", times(self.alone)),
            woken => format!(
                "thread {tid} {} of {}",
                self.alone,
                times(self.alone + woken)
            ),
        }
    }
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
            // Not a thread that was created and is woken for its first time.
            Change::Doing {
                thread,
                was: Doing::Blocked(_) | Doing::Sleeping,
                now: Doing::Runnable,
                ..
            } => (thread, false),
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
        if is_alone && of.alone == 0 {
            of.first = place;
        }
        match is_alone {
            true => of.alone += 1,
            false => of.woken += 1,
        }
    }

    /// Number of wake-ups.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// `recorded` is the number of wake-ups of threads that are not new.
    pub(super) fn finish(&self, recorded: u64, found: &mut Findings) {
        let alone: u64 = self.threads.values().map(|of| of.alone).sum();
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
            .filter(|of| of.lacks_wakeups())
            .map(|of| of.first)
            .min_by_key(|of| of.time)
        {
            let threads = self.threads.iter().filter(|(_, of)| of.lacks_wakeups());
            let threads: Vec<String> = threads.map(|(tid, of)| of.told(*tid)).collect();
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
