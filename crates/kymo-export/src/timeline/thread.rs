//! One thread's tracks.

use std::collections::HashMap;
use std::io;

use kymo_analysis::SyscallKey;

use super::lock::Locks;
use super::picture::{Group, Picture};
use super::{Canvas, Flow, Label, Track, TrackId, TrackKind};
use crate::value::Note;

/// A thread's number, and the CPU for thread 0, of which each has its own.
pub(super) type Key = (u64, Option<u64>);

/// Most things that are open at a time on one thread's tracks: more than any kernel nests.
const MAX_OPEN: usize = 1000;

/// A process: its track, once there is one, and its name.
#[derive(Debug, Default)]
pub(super) struct Process {
    track: Option<TrackId>,
    name: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Processes(HashMap<u64, Process>);

impl Processes {
    pub(super) fn rename<C: Canvas>(
        &mut self,
        picture: &mut Picture<C>,
        pid: u64,
        name: &str,
    ) -> io::Result<()> {
        let process = self.0.entry(pid).or_default();
        if process.name.as_deref() == Some(name) {
            return Ok(());
        }
        process.name = Some(name.to_owned());
        match process.track {
            Some(id) => picture.rename(&Track {
                id,
                parent: None,
                kind: TrackKind::Process { pid },
                name,
                rank: 0,
            }),
            None => Ok(()),
        }
    }

    fn track<C: Canvas>(&mut self, picture: &mut Picture<C>, pid: u64) -> io::Result<TrackId> {
        let process = self.0.entry(pid).or_default();
        if let Some(track) = process.track {
            return Ok(track);
        }
        let name = process
            .name
            .clone()
            .unwrap_or_else(|| format!("process {pid}"));
        let track = picture.track(None, TrackKind::Process { pid }, &name, 0)?;
        process.track = Some(track);
        Ok(track)
    }
}

/// What a thread does, for its track `state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    Running(u64),
    Runnable,
    Blocked,
    Sleeping,
    Suspended,
}

/// The thread's own track, and how it was told.
#[derive(Clone, Copy, Debug)]
struct Home {
    id: TrackId,
    parent: TrackId,
    kind: TrackKind,
}

/// What is open.
#[derive(Debug, Default)]
pub(super) struct Thread {
    pub(super) pid: Option<u64>,
    name: Option<String>,
    home: Option<Home>,
    state: Option<TrackId>,
    pub(super) doing: Option<Doing>,
    call: Option<SyscallKey>,
    waits: Option<TrackId>,
    wait: Option<u64>,
    /// Locks, and which of the tracks each is on.
    held: Vec<(u64, usize)>,
    holds: Vec<TrackId>,
    spans: Option<TrackId>,
    open_spans: Vec<u64>,
    events: Option<TrackId>,
    priority: Option<TrackId>,
    prio: Option<i64>,
    /// It has ended, and runs until the next switch.
    pub(super) has_ended: bool,
}

/// A track beside the thread's own, made when it is needed.
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

/// What a thread's tracks are drawn with.
pub(super) struct Here<'a, C> {
    pub(super) picture: &'a mut Picture<C>,
    pub(super) processes: &'a mut Processes,
    pub(super) locks: &'a mut Locks,
    pub(super) key: Key,
}

impl Thread {
    pub(super) fn label(&self, key: Key) -> String {
        match (&self.name, key) {
            (Some(name), _) => name.clone(),
            (None, (0, Some(cpu))) => format!("idle {cpu}"),
            (None, (tid, _)) => format!("thread {tid}"),
        }
    }

    /// What its track is called. In a process the number is told beside the name.
    fn title(&self, key: Key, kind: TrackKind) -> String {
        let name = self.label(key);
        match (kind, key.0, &self.name) {
            (TrackKind::Lane, tid, Some(_)) if tid != 0 => format!("{name} {tid}"),
            _ => name,
        }
    }

    /// The thread's own track. Its place is decided when it is needed first: in its process, if
    /// that is known by then.
    fn home<C: Canvas>(&mut self, here: &mut Here<'_, C>) -> io::Result<TrackId> {
        if let Some(home) = self.home {
            return Ok(home.id);
        }
        // Process 0 is the kernel, and thread 0 idles: viewers take neither number for one of its
        // own.
        let (parent, kind) = match (self.pid, here.key.0) {
            (Some(pid), tid) if pid != 0 && tid != 0 => (
                here.processes.track(here.picture, pid)?,
                TrackKind::Thread { pid, tid },
            ),
            _ => (here.picture.group(Group::Threads)?, TrackKind::Lane),
        };
        let title = self.title(here.key, kind);
        let id = here.picture.track(Some(parent), kind, &title, here.key.0)?;
        self.home = Some(Home { id, parent, kind });
        Ok(id)
    }

    pub(super) fn rename<C: Canvas>(
        &mut self,
        here: &mut Here<'_, C>,
        name: &str,
    ) -> io::Result<()> {
        if self.name.as_deref() == Some(name) {
            return Ok(());
        }
        self.name = Some(name.to_owned());
        let Some(Home { id, parent, kind }) = self.home else {
            return Ok(());
        };
        let title = self.title(here.key, kind);
        here.picture.rename(&Track {
            id,
            parent: Some(parent),
            kind,
            name: &title,
            rank: here.key.0,
        })
    }

    /// Ends the slice of its state, and begins this one. A flow ends with the beginning.
    pub(super) fn now_does<C: Canvas>(
        &mut self,
        here: &mut Here<'_, C>,
        doing: Option<Doing>,
        flow: Flow,
    ) -> io::Result<()> {
        if let (Some(_), Some(track)) = (self.doing, self.state) {
            here.picture.end(track)?;
        }
        self.doing = doing;
        let Some(doing) = doing else { return Ok(()) };
        let track = track!(self, here, state, Lane, "state", 0);
        let name = match (doing, self.wait) {
            (Doing::Running(cpu), _) => format!("running: CPU {cpu}"),
            (Doing::Blocked, Some(lock)) => format!("blocked: {}", here.locks.name(lock)),
            (Doing::Blocked, None) => "blocked".to_owned(),
            (Doing::Runnable, _) => "runnable".to_owned(),
            (Doing::Sleeping, _) => "sleeping".to_owned(),
            (Doing::Suspended, _) => "suspended".to_owned(),
        };
        here.picture.begin_flow(track, "sched", &name, &[], flow)
    }

    pub(super) fn enter_call<C: Canvas>(
        &mut self,
        here: &mut Here<'_, C>,
        key: SyscallKey,
        name: &str,
        notes: &[(&str, Note<'_>)],
    ) -> io::Result<()> {
        // One that does not return has no exit.
        self.end_call(here, &[])?;
        let track = self.home(here)?;
        self.call = Some(key);
        here.picture.begin(track, "syscall", name, notes)
    }

    /// Ends the call that is open; the notes are its own if it is this one.
    pub(super) fn exit_call<C: Canvas>(
        &mut self,
        here: &mut Here<'_, C>,
        key: &SyscallKey,
        notes: &[(&str, Note<'_>)],
    ) -> io::Result<()> {
        let is_this = self.call.as_ref() == Some(key);
        self.end_call(here, if is_this { notes } else { &[] })
    }

    fn end_call<C: Canvas>(
        &mut self,
        here: &mut Here<'_, C>,
        notes: &[(&str, Note<'_>)],
    ) -> io::Result<()> {
        match (self.call.take(), self.home) {
            (Some(_), Some(home)) => here.picture.end_flow(home.id, notes, Flow::None),
            _ => Ok(()),
        }
    }

    pub(super) fn wait<C: Canvas>(
        &mut self,
        here: &mut Here<'_, C>,
        lock: u64,
        notes: &[(&str, Note<'_>)],
    ) -> io::Result<()> {
        self.end_wait(here)?;
        let track = track!(self, here, waits, Lane, "lock wait", 1);
        self.wait = Some(lock);
        here.locks.wait(lock);
        here.picture
            .begin(track, "lock", &here.locks.name(lock), notes)
    }

    /// Ends the wait for this lock, if there is one.
    pub(super) fn end_wait_for<C: Canvas>(
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

    pub(super) fn hold<C: Canvas>(
        &mut self,
        here: &mut Here<'_, C>,
        lock: u64,
        notes: &[(&str, Note<'_>)],
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
        here.picture
            .begin(track, "lock", &here.locks.name(lock), notes)
    }

    /// Ends the slice of a lock. Where the thread has none of it, a flow begins with a point
    /// instead.
    pub(super) fn release<C: Canvas>(
        &mut self,
        here: &mut Here<'_, C>,
        lock: u64,
        notes: &[(&str, Note<'_>)],
    ) -> io::Result<()> {
        let flow = here.locks.release(lock, || here.picture.new_flow());
        if let Some(at) = self.held.iter().rposition(|(held, _)| *held == lock) {
            let (_, place) = self.held.remove(at);
            if let Some(&track) = self.holds.get(place) {
                return here.picture.end_flow(track, notes, flow);
            }
        }
        let name = format!("releases {}", here.locks.name(lock));
        self.point(
            here,
            &Label {
                category: "lock",
                name: &name,
                notes,
                flow,
            },
        )
    }

    pub(super) fn begin_span<C: Canvas>(
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
        here.picture
            .begin(track, "span", name, &[("id", Note::Unsigned(id))])
    }

    /// Ends the span, and those that were begun inside it and not ended. Does nothing if it is not
    /// open.
    pub(super) fn end_span<C: Canvas>(
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

    pub(super) fn priority<C: Canvas>(
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

    pub(super) fn point<C: Canvas>(
        &mut self,
        here: &mut Here<'_, C>,
        label: &Label<'_>,
    ) -> io::Result<()> {
        let track = track!(self, here, events, Lane, "events", 5);
        here.picture.point(track, label)
    }

    /// Ends everything that is open.
    pub(super) fn close<C: Canvas>(&mut self, here: &mut Here<'_, C>) -> io::Result<()> {
        self.end_spans(here, 0)?;
        for (_, place) in std::mem::take(&mut self.held) {
            if let Some(&track) = self.holds.get(place) {
                here.picture.end(track)?;
            }
        }
        self.end_wait(here)?;
        self.end_call(here, &[])?;
        self.now_does(here, None, Flow::None)
    }
}
