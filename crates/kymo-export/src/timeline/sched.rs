//! Switches, wake-ups, and the lives of threads.

use std::io;

use kymo_analysis::{Kind, Left};
use kymo_ctf::Event;

use super::mapping::{Timeline, key, left};
use super::thread::{Doing, Key, Thread};
use super::{Canvas, Flow, Label};
use crate::value::{Note, context, number, signed, text};

impl<C: Canvas> Timeline<C> {
    pub(super) fn switch(&mut self, event: &Event, cpu: u64) -> io::Result<()> {
        let (Some(prev), Some(next)) = (number(event, "prev_tid"), number(event, "next_tid"))
        else {
            return Ok(());
        };
        let (prev, next) = (key(prev, Some(cpu)), key(next, Some(cpu)));
        let current = self.cpu(cpu).current;
        if let Some(other) = current.filter(|current| *current != prev) {
            // The events contradict each other: nothing is known of that one any more.
            self.with(other, Thread::close)?;
        }
        let ended = self.with(prev, |thread, here| {
            if let Some(name) = text(event, "prev_comm") {
                thread.rename(here, name)?;
            }
            // It has left, and what it was in the middle of goes on.
            thread.now_does(here, left(event), Flow::None)?;
            io::Result::Ok(thread.has_ended || Left::of(event) == Left::Ended)
        })?;
        if ended {
            self.end(prev)?;
        }
        // One that runs elsewhere too is on one of the two by mistake: on that one it is over.
        for state in self.cpus.values_mut() {
            if state.current == Some(next) {
                state.leave(&mut self.picture)?;
            }
        }
        let name = self.with(next, |thread, here| {
            if let Some(name) = text(event, "next_comm") {
                thread.rename(here, name)?;
            }
            if let Some(prio) = signed(event, "next_prio") {
                thread.priority(here, prio)?;
            }
            thread.now_does(here, Some(Doing::Running(cpu)), Flow::None)?;
            io::Result::Ok(thread.label(here.key))
        })?;
        let Timeline { cpus, picture, .. } = self;
        cpus.get_mut(&cpu)
            .map_or(Ok(()), |state| state.run(picture, next, &name))
    }

    /// A point where it was woken, with an arrow to where it can run: unless it could already, or
    /// is taken out.
    pub(super) fn wakeup(&mut self, event: &Event, cpu: u64) -> io::Result<()> {
        let Some(tid) = number(event, "tid") else {
            return Ok(());
        };
        let woken = key(tid, Some(cpu));
        let (doing, label) = self.with(woken, |thread, here| {
            if let Some(name) = text(event, "comm") {
                thread.rename(here, name)?;
            }
            io::Result::Ok((thread.doing, thread.label(here.key)))
        })?;
        let can = matches!(doing, None | Some(Doing::Blocked | Doing::Sleeping));
        let flow = can.then(|| self.picture.new_flow());
        let name = format!("wakes {label}");
        let notes = [("tid", Note::Unsigned(tid))];
        let from = Label {
            category: "sched",
            name: &name,
            notes: &notes,
            flow: flow.map_or(Flow::None, Flow::Begins),
        };
        self.waker(event, cpu, &from)?;
        match flow {
            Some(flow) => self.with(woken, |thread, here| {
                thread.now_does(here, Some(Doing::Runnable), Flow::Ends(flow))
            }),
            None => Ok(()),
        }
    }

    /// The point is the interrupt's, if one did it, or the running thread's.
    fn waker(&mut self, event: &Event, cpu: u64, label: &Label<'_>) -> io::Result<()> {
        let interrupted = self.cpu(cpu).is_in_interrupt();
        let by_nobody = number(event, "waker_tid") == Some(0);
        match self
            .thread_of(event, cpu)
            .filter(|_| !interrupted && !by_nobody)
        {
            Some(thread) => self.with(thread, |thread, here| thread.point(here, label)),
            None => {
                let Timeline { cpus, picture, .. } = self;
                let Some(state) = cpus.get_mut(&cpu) else {
                    return Ok(());
                };
                let track = if interrupted {
                    state.interrupts(picture)?
                } else {
                    state.events(picture)?
                };
                picture.point(track, label)
            }
        }
    }

    pub(super) fn create(&mut self, kind: &Kind, event: &Event, cpu: u64) -> io::Result<()> {
        let (tid, pid, name) = match kind {
            Kind::Fork => ("child_tid", "child_pid", "child_comm"),
            _ => ("tid", "pid", "name"),
        };
        let Some(tid) = number(event, tid) else {
            return Ok(());
        };
        let created = key(tid, Some(cpu));
        let is_new = self
            .threads
            .get(&created)
            .is_none_or(|thread| thread.doing.is_none());
        if !is_new {
            // The number is used again, and nobody told the end of the thread before.
            self.end(created)?;
        }
        self.with(created, |thread, here| {
            thread.pid = number(event, pid).or(thread.pid);
            if let Some(name) = text(event, name) {
                thread.rename(here, name)?;
            }
            signed(event, "prio").map_or(Ok(()), |prio| thread.priority(here, prio))
        })
    }

    pub(super) fn exit(&mut self, event: &Event, cpu: u64) -> io::Result<()> {
        let Some(tid) = number(event, "tid") else {
            return Ok(());
        };
        let ended = key(tid, Some(cpu));
        let runs = self.cpus.values().any(|state| state.current == Some(ended));
        if runs {
            // It still runs until the switch.
            self.with(ended, |thread, _| thread.has_ended = true);
            return Ok(());
        }
        self.end(ended)
    }

    /// Its slices end, and the number may be used again.
    fn end(&mut self, key: Key) -> io::Result<()> {
        self.with(key, Thread::close)?;
        self.threads.remove(&key);
        Ok(())
    }

    pub(super) fn suspend(&mut self, suspends: bool, event: &Event, cpu: u64) -> io::Result<()> {
        let Some(tid) = number(event, "tid") else {
            return Ok(());
        };
        self.with(key(tid, Some(cpu)), |thread, here| {
            match (suspends, thread.doing) {
                // One that runs is suspended at its next switch, which says so.
                (_, Some(Doing::Running(_))) => Ok(()),
                (true, _) => thread.now_does(here, Some(Doing::Suspended), Flow::None),
                (false, None | Some(Doing::Suspended)) => {
                    thread.now_does(here, Some(Doing::Runnable), Flow::None)
                }
                _ => Ok(()),
            }
        })
    }

    /// The process, and the thread that is left of it, have the program's name from here on.
    pub(super) fn exec(&mut self, event: &Event, cpu: u64) -> io::Result<()> {
        let tid = number(event, "tid");
        let thread = tid.map(|tid| key(tid, Some(cpu)));
        let of_thread = thread
            .and_then(|key| self.threads.get(&key))
            .and_then(|thread| thread.pid);
        // Linux: the thread that is left has the process's number.
        let linux = tid.filter(|_| event.fields.get("old_tid").is_some());
        let pid = number(event, "pid")
            .or(linux)
            .or(of_thread)
            .or_else(|| context(event, ["pid", "vpid"]));
        let path = text(event, "filename").unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default();
        if let Some(pid) = pid.filter(|_| !name.is_empty()) {
            self.processes.rename(&mut self.picture, pid, name)?;
        }
        let notes = [("filename", Note::Text(path.into()))];
        let label = Label {
            category: "sched",
            name: "exec",
            notes: &notes,
            flow: Flow::None,
        };
        match thread {
            Some(thread) => self.with(thread, |thread, here| thread.point(here, &label)),
            None => self.waker(event, cpu, &label),
        }
    }
}
