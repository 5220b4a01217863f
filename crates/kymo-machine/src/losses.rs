//! What losses and damage do to the machine.

use std::sync::Arc;

use kymo_ctf::{Consequence, Loss, Problem};

use crate::change::Change;
use crate::gap::{self, End};
use crate::machine::{Machine, Taken, clamp};
use crate::thread::Doing;

impl Machine {
    /// Adds a loss.
    pub(crate) fn loss(&mut self, loss: &Loss) -> Taken {
        let (begin, end) = (loss.begin_nanos.map(clamp), loss.end_nanos.map(clamp));
        self.cpu = loss.cpu;
        if let Some(begin) = begin {
            self.gaps.pass(begin, None, false, &mut self.changes);
            self.now = self.now.max(begin);
        }
        let number = self.losses;
        self.losses += 1;
        if gap::records_activity(&loss.stream) {
            let end = end.map_or(End::Never, End::After);
            self.lose(number, loss.cpu, &loss.stream, end);
        }
        Taken::Loss(number)
    }

    /// Treats an unreadable packet, or the unreadable rest of a stream, as lost.
    pub(crate) fn problem(&mut self, problem: &Problem) -> Taken {
        let end = match problem.consequence {
            Consequence::PacketLost { .. } => End::NextEvent,
            Consequence::StreamEnds => End::Never,
            Consequence::Clamped => return Taken::Other,
        };
        if !gap::records_activity(&problem.stream) {
            return Taken::Other;
        }
        let last = self.streams.last_of(&problem.stream);
        let cpu = last.and_then(|last| last.cpu).map(|(cpu, _)| cpu);
        let number = self.losses;
        self.losses += 1;
        self.lose(number, cpu, &problem.stream, end);
        Taken::Loss(number)
    }

    /// From here on the state of the CPU, or of all if `cpu` is `None`, is unknown.
    fn lose(&mut self, loss: u64, cpu: Option<u64>, stream: &Arc<str>, end: End) {
        self.gaps.begin(loss, cpu, stream, end);
        self.change(Change::Lost { loss, cpu });
        // By number, so that the changes' order does not depend on the table's.
        let mut places: Vec<(u64, usize)> = self.cpu_places.iter().map(|(n, p)| (*n, *p)).collect();
        places.sort_unstable();
        for (number, place) in places {
            if cpu.is_none_or(|cpu| cpu == number) {
                self.forget(place);
            }
        }
    }

    pub(crate) fn forget(&mut self, cpu: usize) {
        let Some(state) = self.cpus.get_mut(cpu) else {
            return;
        };
        let (number, current, last) = (state.number, state.current, state.last);
        state.forget();
        self.change(Change::Forgot { cpu: number });
        if let Some(thread) = current {
            // It ran at least until the CPU's last event.
            self.begin(thread, Doing::Unknown, last, None);
            self.interrupt(thread);
        }
    }
}
