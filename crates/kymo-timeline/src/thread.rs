//! One thread's tracks.

use std::borrow::Cow;
use std::io;

use kymo_machine::{CallId, CallKey, Doing, Machine, ThreadId};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::Note;
use crate::lock::Locks;
use crate::picture::{Group, Picture};
use crate::{Canvas, Flow, Label, Name, Noted, Track, TrackId, TrackKind};

/// Most open slices on a thread's tracks: more than any kernel nests.
const MAX_OPEN: usize = 1000;

/// The tracks of processes, by number.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Processes(FxHashMap<u64, TrackId>);

impl Processes {
    /// Renames the process's track, if it has one.
    pub(crate) fn rename<C: Canvas>(
        &mut self,
        picture: &mut Picture<C>,
        pid: u64,
        name: &str,
    ) -> io::Result<()> {
        match self.0.get(&pid) {
            Some(&id) => picture.rename(&Track {
                id,
                parent: None,
                kind: TrackKind::Process { pid },
                name,
                rank: 0,
            }),
            None => Ok(()),
        }
    }

    fn track<C: Canvas>(
        &mut self,
        picture: &mut Picture<C>,
        machine: &Machine,
        pid: u64,
    ) -> io::Result<TrackId> {
        if let Some(&track) = self.0.get(&pid) {
            return Ok(track);
        }
        let name = match machine.process(pid) {
            Some(name) => Cow::Borrowed(&**name),
            None => Cow::Owned(format!("process {pid}")),
        };
        let track = picture.track(None, TrackKind::Process { pid }, &name, 0)?;
        self.0.insert(pid, track);
        Ok(track)
    }
}

/// The thread's own track, as passed to the canvas.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Home {
    id: TrackId,
    parent: TrackId,
    kind: TrackKind,
}

/// A thread's tracks and open slices.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Thread {
    /// Its process by an event's context, if nothing else names it.
    pub(crate) pid: Option<u64>,
    home: Option<Home>,
    state: Option<TrackId>,
    /// Whether a slice of its state is open.
    has_state: bool,
    /// Whether a slice of a system call is open.
    in_call: bool,
    waits: Option<TrackId>,
    wait: Option<u64>,
    /// Held locks, each with the index of its track in `holds`.
    held: Vec<(u64, usize)>,
    holds: Vec<TrackId>,
    spans: Option<TrackId>,
    open_spans: Vec<u64>,
    events: Option<TrackId>,
    priority: Option<TrackId>,
    prio: Option<i64>,
}

/// A track beside the thread's own, created on first use.
macro_rules! track {
    ($thread:ident, $here:ident, $field:ident, $kind:ident, $name:literal, $rank:literal) => {
        match $thread.$field {
            Some(track) => track,
            None => {
                let home = $thread.home($here)?;
                let track = $here
                    .picture
                    .track(Some(home), TrackKind::$kind, $name, $rank)?;
                $thread.$field = Some(track);
                track
            }
        }
    };
}

/// The context for drawing a thread.
pub(crate) struct Here<'a, C> {
    pub(crate) picture: &'a mut Picture<C>,
    pub(crate) processes: &'a mut Processes,
    pub(crate) locks: &'a mut Locks,
    pub(crate) machine: &'a Machine,
    pub(crate) id: ThreadId,
}

impl<C> Here<'_, C> {
    fn tid(&self) -> u64 {
        self.machine.thread(self.id).map_or(0, |thread| thread.tid)
    }
}

/// The lock's name, or its number.
fn lock_name(machine: &Machine, lock: u64) -> Cow<'_, str> {
    match machine.lock_called(lock) {
        Some(name) => Cow::Borrowed(&**name),
        None => Cow::Owned(format!("lock {lock:#x}")),
    }
}

/// The system call's name, or its number.
fn call_name(machine: &Machine, call: CallId) -> Cow<'_, str> {
    match machine.call(call) {
        Some((CallKey::Named(name), _)) | Some((_, Some(name))) => Cow::Borrowed(&**name),
        Some((CallKey::Number(number), None)) => Cow::Owned(format!("system call {number}")),
        None => Cow::Borrowed(""),
    }
}

/// The thread's name, or its number.
pub(crate) fn label(machine: &Machine, id: ThreadId) -> Cow<'_, str> {
    let Some(thread) = machine.thread(id) else {
        return Cow::Borrowed("thread");
    };
    match (&thread.name, thread.tid, thread.cpu) {
        (Some(name), ..) => Cow::Borrowed(&**name),
        (None, 0, Some(cpu)) => Cow::Owned(format!("idle {cpu}")),
        (None, tid, _) => Cow::Owned(format!("thread {tid}")),
    }
}

/// The title of its track. Viewers add the number to threads in a process.
fn title(machine: &Machine, id: ThreadId, kind: TrackKind) -> Cow<'_, str> {
    let name = label(machine, id);
    match (kind, machine.thread(id)) {
        (TrackKind::Lane, Some(thread)) if thread.tid != 0 && thread.name.is_some() => {
            Cow::Owned(format!("{name} {}", thread.tid))
        }
        _ => name,
    }
}

impl Thread {
    /// The thread's own track, created on first use: in its process, if that is known by then.
    fn home<C: Canvas>(&mut self, here: &mut Here<'_, C>) -> io::Result<TrackId> {
        if let Some(home) = self.home {
            return Ok(home.id);
        }
        // Viewers give numbers 0 a meaning of their own; here they are the kernel and idle threads.
        let thread = here.machine.thread(here.id);
        let tid = here.tid();
        let (parent, kind) = match thread.and_then(|thread| thread.pid).or(self.pid) {
            Some(pid) if pid != 0 && tid != 0 => (
                here.processes.track(here.picture, here.machine, pid)?,
                TrackKind::Thread { pid, tid },
            ),
            _ => (here.picture.group(Group::Threads)?, TrackKind::Lane),
        };
        let title = title(here.machine, here.id, kind);
        let id = here.picture.track(Some(parent), kind, &title, tid)?;
        self.home = Some(Home { id, parent, kind });
        Ok(id)
    }

    /// Renames its track, if it has one.
    pub(crate) fn rename<C: Canvas>(&mut self, here: &mut Here<'_, C>) -> io::Result<()> {
        let Some(Home { id, parent, kind }) = self.home else {
            return Ok(());
        };
        here.picture.rename(&Track {
            id,
            parent: Some(parent),
            kind,
            name: &title(here.machine, here.id, kind),
            rank: here.tid(),
        })
    }

    /// Ends the slice of its state and begins one of the new state, at which `flow` ends.
    pub(crate) fn now_does<C: Canvas>(
        &mut self,
        here: &mut Here<'_, C>,
        doing: Doing,
        flow: Flow,
    ) -> io::Result<()> {
        if let (true, Some(track)) = (std::mem::take(&mut self.has_state), self.state) {
            here.picture.end(track)?;
        }
        let name = match doing {
            Doing::Unknown | Doing::Ended => return Ok(()),
            Doing::Running(cpu) => Cow::Owned(format!("running: CPU {cpu}")),
            Doing::Blocked(Some(lock)) => {
                Cow::Owned(["blocked: ", &lock_name(here.machine, lock)].concat())
            }
            doing => Cow::Borrowed(doing.label()),
        };
        let track = track!(self, here, state, Lane, "state", 0);
        self.has_state = true;
        let name = Name::new("sched", &name);
        here.picture.begin_flow(track, name, &[], flow)
    }

    pub(crate) fn enter_call<C: Canvas>(
        &mut self,
        here: &mut Here<'_, C>,
        call: CallId,
        notes: &[Noted<'_>],
    ) -> io::Result<()> {
        // A call that does not return has no exit.
        self.end_call(here, &[])?;
        let track = self.home(here)?;
        self.in_call = true;
        let name = call_name(here.machine, call);
        here.picture
            .begin(track, Name::new("syscall", &name), notes)
    }

    /// Ends the open call, if any.
    pub(crate) fn end_call<C: Canvas>(
        &mut self,
        here: &mut Here<'_, C>,
        notes: &[Noted<'_>],
    ) -> io::Result<()> {
        match (std::mem::take(&mut self.in_call), self.home) {
            (true, Some(home)) => here.picture.end_flow(home.id, notes, Flow::None),
            _ => Ok(()),
        }
    }

    pub(crate) fn wait<C: Canvas>(
        &mut self,
        here: &mut Here<'_, C>,
        lock: u64,
        notes: &[Noted<'_>],
    ) -> io::Result<()> {
        self.end_wait(here)?;
        let track = track!(self, here, waits, Lane, "lock wait", 1);
        self.wait = Some(lock);
        here.locks.wait(lock);
        let name = lock_name(here.machine, lock);
        here.picture.begin(track, Name::new("lock", &name), notes)
    }

    /// Ends the wait for this lock, if any.
    pub(crate) fn end_wait_for<C: Canvas>(
        &mut self,
        here: &mut Here<'_, C>,
        lock: u64,
    ) -> io::Result<()> {
        if self.wait == Some(lock) {
            self.end_wait(here)
        } else {
            Ok(())
        }
    }

    fn end_wait<C: Canvas>(&mut self, here: &mut Here<'_, C>) -> io::Result<()> {
        let (Some(lock), Some(track)) = (self.wait.take(), self.waits) else {
            return Ok(());
        };
        let flow = here.locks.stop_waiting(lock);
        here.picture.end_flow(track, &[], flow)
    }

    pub(crate) fn hold<C: Canvas>(
        &mut self,
        here: &mut Here<'_, C>,
        lock: u64,
        notes: &[Noted<'_>],
    ) -> io::Result<()> {
        if self.held.len() >= MAX_OPEN {
            return Ok(());
        }
        let place = (0..)
            .find(|place| self.held.iter().all(|(_, used)| used != place))
            .unwrap_or(0);
        let track = match self.holds.get(place) {
            Some(&track) => track,
            None => {
                let home = self.home(here)?;
                let track =
                    here.picture
                        .track(Some(home), TrackKind::OneOfSeveral, "locks held", 2)?;
                self.holds.push(track);
                track
            }
        };
        self.held.push((lock, place));
        let name = lock_name(here.machine, lock);
        here.picture.begin(track, Name::new("lock", &name), notes)
    }

    /// Ends the slice of a lock; if it has none, draws a point with the flow instead.
    pub(crate) fn release<C: Canvas>(
        &mut self,
        here: &mut Here<'_, C>,
        lock: u64,
        notes: &[Noted<'_>],
    ) -> io::Result<()> {
        let flow = here.locks.release(lock, || here.picture.new_flow());
        if let Some(at) = self.held.iter().rposition(|(held, _)| *held == lock) {
            let (_, place) = self.held.remove(at);
            if let Some(&track) = self.holds.get(place) {
                return here.picture.end_flow(track, notes, flow);
            }
        }
        let name = ["releases ", &lock_name(here.machine, lock)].concat();
        self.point(
            here,
            &Label {
                name: Name::new("lock", &name),
                notes,
                flow,
            },
        )
    }

    pub(crate) fn begin_span<C: Canvas>(
        &mut self,
        here: &mut Here<'_, C>,
        id: u64,
        name: &str,
    ) -> io::Result<()> {
        if self.open_spans.len() >= MAX_OPEN {
            return Ok(());
        }
        let track = track!(self, here, spans, Lane, "spans", 3);
        self.open_spans.push(id);
        let id = Noted::only(Name::new("", "id"), Note::Unsigned(id));
        here.picture.begin(track, Name::new("span", name), &id)
    }

    /// Ends the span and those open inside it, if it is open.
    pub(crate) fn end_span<C: Canvas>(
        &mut self,
        here: &mut Here<'_, C>,
        id: u64,
    ) -> io::Result<()> {
        if let Some(from) = self.open_spans.iter().rposition(|open| *open == id) {
            self.end_spans(here, from)?;
        }
        Ok(())
    }

    fn end_spans<C: Canvas>(&mut self, here: &mut Here<'_, C>, from: usize) -> io::Result<()> {
        let Some(track) = self.spans else {
            return Ok(());
        };
        for _ in self.open_spans.drain(from..) {
            here.picture.end(track)?;
        }
        Ok(())
    }

    pub(crate) fn priority<C: Canvas>(
        &mut self,
        here: &mut Here<'_, C>,
        prio: i64,
    ) -> io::Result<()> {
        if self.prio.replace(prio) == Some(prio) {
            return Ok(());
        }
        let track = track!(self, here, priority, Counter, "priority", 4);
        here.picture.counter(track, prio)
    }

    pub(crate) fn point<C: Canvas>(
        &mut self,
        here: &mut Here<'_, C>,
        label: &Label<'_>,
    ) -> io::Result<()> {
        let track = track!(self, here, events, Lane, "events", 5);
        here.picture.point(track, label)
    }

    /// Ends all open slices.
    pub(crate) fn close<C: Canvas>(&mut self, here: &mut Here<'_, C>) -> io::Result<()> {
        self.end_spans(here, 0)?;
        for (_, place) in std::mem::take(&mut self.held) {
            if let Some(&track) = self.holds.get(place) {
                here.picture.end(track)?;
            }
        }
        self.end_wait(here)?;
        self.end_call(here, &[])?;
        self.now_does(here, Doing::Unknown, Flow::None)
    }
}
