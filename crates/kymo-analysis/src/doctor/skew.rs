//! Clocks of CPUs that differ by more than causality allows.
//!
//! A thread leaves a CPU before it runs on another one, and is woken before it runs. If the trace
//! has the second event before the first, the clocks of the two CPUs differ by at least the time
//! between them.

use kymo_machine::{Change, Contradiction, Doing, Machine, ThreadId, passed};
use rustc_hash::FxHashMap;

use super::{Findings, Place, Remedy, Severity, times};

const CLOCKS: Remedy = Remedy {
    text: "Let the port's clock be one clock for all CPUs, or set the clocks of the CPUs to \
           each other at boot; and record a switch before another CPU can take the thread",
    page: "your-kernel.md#the-platform",
};

/// A thread that began to run on a CPU, of which an earlier event is still to come.
#[derive(Debug)]
struct Early {
    place: Place,
    /// The CPU on which it still runs, where the trace has said nothing of its leaving that.
    from: Option<u64>,
}

#[derive(Debug)]
struct Worst {
    tid: u64,
    behind: Option<u64>,
    ahead: Option<u64>,
    nanos: u64,
    place: Place,
    why: &'static str,
}

#[derive(Debug, Default)]
pub(super) struct Skew {
    early: FxHashMap<u64, Early>,
    moves: u64,
    wakes: u64,
    worst: Option<Worst>,
}

impl Skew {
    pub(super) fn take(&mut self, change: &Change, place: Place, machine: &Machine) {
        let number = |id: ThreadId| machine.thread(id).map(|of| of.tid).filter(|tid| *tid != 0);
        match *change {
            Change::Contradiction(Contradiction::OneCpu { tid, cpu }) if tid != 0 => {
                let from = Some(cpu);
                self.early.insert(tid, Early { place, from });
            }
            Change::Doing {
                thread,
                was: Doing::Blocked(_) | Doing::Sleeping,
                now: Doing::Running(_),
                ..
            } => {
                if let Some(tid) = number(thread) {
                    self.early.insert(tid, Early { place, from: None });
                }
            }
            Change::Switch { prev, .. } => {
                if let Some(tid) = number(prev)
                    && let Some(early) = self.early.remove(&tid)
                    && early.from.is_some()
                    && early.from == place.cpu
                {
                    self.moves += 1;
                    self.found(tid, early.place, place, "leaves");
                }
            }
            Change::Wakeup {
                thread,
                waited: false,
                ..
            } => {
                if let Some(tid) = number(thread)
                    && let Some(early) = self.early.get(&tid)
                    && early.from.is_none()
                    && early.place.cpu != place.cpu
                {
                    let since = early.place;
                    self.early.remove(&tid);
                    self.wakes += 1;
                    self.found(tid, since, place, "is woken on");
                }
            }
            Change::Lost { .. } => self.early.clear(),
            _ => {}
        }
    }

    fn found(&mut self, tid: u64, ran: Place, cause: Place, why: &'static str) {
        let nanos = passed(ran.time, cause.time);
        if self.worst.as_ref().is_none_or(|worst| worst.nanos < nanos) {
            self.worst = Some(Worst {
                tid,
                behind: ran.cpu,
                ahead: cause.cpu,
                nanos,
                place: ran,
                why,
            });
        }
    }

    /// Gives the number of contradictions that are explained.
    pub(super) fn finish(&self, found: &mut Findings) -> u64 {
        if let Some(worst) = &self.worst {
            let cpu = |cpu: Option<u64>| cpu.map_or("?".to_owned(), |cpu| cpu.to_string());
            let (behind, ahead) = (cpu(worst.behind), cpu(worst.ahead));
            let message = format!(
                "The clock of CPU {behind} is at least {} ns behind that of CPU {ahead}: thread {} \
                 runs on CPU {behind} before it {} CPU {ahead}; something runs before its cause {}",
                worst.nanos,
                worst.tid,
                worst.why,
                times(self.moves + self.wakes)
            );
            let place = Some(worst.place);
            found.add(Severity::Wrong, "clock-skew", message, place, CLOCKS);
        }
        self.moves
    }
}
