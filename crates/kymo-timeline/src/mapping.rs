//! The mapping of the machine's changes to the picture.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use kymo::count::MAX_EVENTS;
use kymo::vocabulary::LockKind;
use kymo_ctf::{Consequence, EventRef, ItemRef, Loss, LossKind, Problem, ValueRef};
use kymo_machine::{CallId, Change, Doing, IrqLine, Machine, Named, Taken, ThreadId, Waker};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::Note;
use crate::cpu::Cpu;
use crate::lock::Locks;
use crate::notes::Notes;
use crate::picture::{Group, Picture};
use crate::thread::{Here, Processes, Thread, label};
use crate::{Canvas, Flow, Label, Name, Noted, TID, TrackId, TrackKind};

/// A group's number, an event's place in it, and the event's name.
type CountedEvent = (u8, usize, Option<Arc<str>>);

/// What is drawn as a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Lost {
    Events,
    Packets,
    Damage,
}

impl Lost {
    fn label(self) -> &'static str {
        match self {
            Lost::Events => "events",
            Lost::Packets => "packets",
            Lost::Damage => "damage",
        }
    }
}

/// Draws a trace, item by item.
///
/// One that was serialized, with its canvas, and restored draws the rest of the trace as the
/// original does: it is a checkpoint. Its form may change with each version of this crate.
#[derive(Debug, Serialize, Deserialize)]
pub struct Timeline<C> {
    machine: Machine,
    picture: Picture<C>,
    #[serde(skip)]
    notes: Notes,
    locks: Locks,
    processes: Processes,
    /// By [`ThreadId::index`].
    threads: Vec<Thread>,
    cpus: BTreeMap<u64, Cpu>,
    counters: FxHashMap<u64, TrackId>,
    /// The frames in use, and their number.
    frames: Option<(TrackId, i64)>,
    /// Tracks of the lengths of run queues, by CPU.
    run_queues: FxHashMap<Option<u64>, TrackId>,
    /// The kernel's own counters, by number and CPU.
    own_counters: FxHashMap<(u64, u64), TrackId>,
    /// What groups of counted events stand at, by event and CPU.
    group_counts: FxHashMap<(CountedEvent, u64), TrackId>,
    /// Tracks for points of streams without a CPU.
    streams: FxHashMap<Arc<str>, TrackId>,
    /// Tracks of losses by stream and kind, with the end of the last loss.
    lost: FxHashMap<(Arc<str>, Lost), (TrackId, u64)>,
    /// The thread that the current event woke, and the flow that ends at its runnable slice.
    woken: Option<(ThreadId, u64)>,
    /// Origin of the timeline, from the clock's origin: the trace's beginning if that is earlier,
    /// or so much later that the format would round times; else 0. `None` until the beginning is
    /// known.
    base: Option<i128>,
}

impl<C: Canvas> Timeline<C> {
    /// A timeline of a trace that begins at `begin`, in nanoseconds from the clock's origin, or
    /// with its first item, if the packets do not say.
    pub fn new(begin: Option<i128>, canvas: C) -> Timeline<C> {
        let mut timeline = Timeline {
            machine: Machine::new(),
            picture: Picture::new(canvas),
            notes: Notes::default(),
            locks: Locks::default(),
            processes: Processes::default(),
            threads: Vec::new(),
            cpus: BTreeMap::new(),
            counters: FxHashMap::default(),
            frames: None,
            run_queues: FxHashMap::default(),
            own_counters: FxHashMap::default(),
            group_counts: FxHashMap::default(),
            streams: FxHashMap::default(),
            lost: FxHashMap::default(),
            woken: None,
            base: None,
        };
        if let Some(begin) = begin {
            timeline.time(begin);
        }
        timeline
    }

    /// The canvas.
    pub fn canvas(&self) -> &C {
        &self.picture.canvas
    }

    /// The canvas.
    pub fn canvas_mut(&mut self) -> &mut C {
        &mut self.picture.canvas
    }

    /// Replaces the canvas by what `change` makes of it. The state of the machine and of the
    /// timeline stays.
    pub fn on<D>(self, change: impl FnOnce(C) -> D) -> Timeline<D> {
        Timeline {
            machine: self.machine,
            picture: self.picture.on(change),
            notes: self.notes,
            locks: self.locks,
            processes: self.processes,
            threads: self.threads,
            cpus: self.cpus,
            counters: self.counters,
            frames: self.frames,
            run_queues: self.run_queues,
            own_counters: self.own_counters,
            group_counts: self.group_counts,
            streams: self.streams,
            lost: self.lost,
            woken: self.woken,
            base: self.base,
        }
    }

    /// Its origin in nanoseconds from the clock's, if it has drawn anything.
    pub fn origin(&self) -> Option<i128> {
        self.base
    }

    /// The model of the machine after the last item.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// A point in time of the timeline, in nanoseconds from its origin, of one in nanoseconds from the
    /// clock's. The first that is asked for may decide the origin.
    pub fn time_of(&mut self, nanos: i128) -> u64 {
        self.time(nanos)
    }

    fn time(&mut self, nanos: i128) -> u64 {
        let canvas = &mut self.picture.canvas;
        let base = *self.base.get_or_insert_with(|| {
            let is_other = nanos < 0 || nanos > i128::from(C::EXACT);
            let base = if is_other { nanos } else { 0 };
            if is_other {
                canvas.origin(base);
            }
            base
        });
        u64::try_from(nanos.saturating_sub(base).max(0)).unwrap_or(u64::MAX)
    }

    /// Draws the trace's next item.
    ///
    /// # Errors
    /// Those of the canvas.
    pub fn add(&mut self, item: &ItemRef<'_>) -> io::Result<()> {
        match item {
            ItemRef::Event(event) => {
                if let Some(nanos) = event.nanos() {
                    self.picture.now = self.time(nanos).max(self.picture.now);
                    let taken = self.machine.add(item);
                    self.event(event, taken)?;
                }
                Ok(())
            }
            ItemRef::Loss(loss) => self.loss(loss, item),
            ItemRef::Problem(problem) if problem.consequence != Consequence::Clamped => {
                self.damage(problem, item)
            }
            _ => Ok(()),
        }
    }

    /// Ends all slices at the time of the last event. Gives the canvas, and the timeline's origin in
    /// nanoseconds from the clock's.
    ///
    /// # Errors
    /// Those of the canvas.
    pub fn finish(mut self) -> io::Result<(C, i128)> {
        for cpu in self.cpus.values_mut() {
            cpu.close(&mut self.picture)?;
        }
        for id in self.in_order() {
            self.with(id, Thread::close)?;
        }
        Ok((self.picture.canvas, self.base.unwrap_or(0)))
    }

    /// All threads, by number.
    fn in_order(&self) -> Vec<ThreadId> {
        let threads = self.machine.threads().iter().zip(self.machine.thread_ids());
        let mut threads: Vec<_> = threads
            .map(|(thread, id)| (thread.tid, thread.cpu, id))
            .collect();
        threads.sort_unstable();
        threads.into_iter().map(|(.., id)| id).collect()
    }

    /// Calls `act` with a thread and the context that its drawing needs.
    fn with<T>(
        &mut self,
        id: ThreadId,
        act: impl FnOnce(&mut Thread, &mut Here<'_, C>) -> io::Result<T>,
    ) -> io::Result<T> {
        let place = id.index();
        if self.threads.len() <= place {
            self.threads.resize_with(place + 1, Thread::default);
        }
        let Some(thread) = self.threads.get_mut(place) else {
            return Err(io::ErrorKind::OutOfMemory.into());
        };
        let mut here = Here {
            picture: &mut self.picture,
            processes: &mut self.processes,
            locks: &mut self.locks,
            machine: &self.machine,
            id,
        };
        act(thread, &mut here)
    }

    /// Calls `act` with a CPU.
    fn on_cpu<T>(
        &mut self,
        number: u64,
        act: impl FnOnce(&mut Cpu, &mut Picture<C>) -> io::Result<T>,
    ) -> io::Result<T> {
        let cpu = self.cpus.entry(number).or_insert_with(|| Cpu::new(number));
        act(cpu, &mut self.picture)
    }

    fn loss(&mut self, loss: &Loss, item: &ItemRef<'_>) -> io::Result<()> {
        let kind = match loss.kind {
            LossKind::Events => Lost::Events,
            LossKind::Packets => Lost::Packets,
        };
        let begin = loss
            .begin_nanos
            .map_or(self.picture.now, |nanos| self.time(nanos));
        self.picture.now = self.picture.now.max(begin);
        let end = loss.end_nanos.map_or(begin, |nanos| self.time(nanos));
        let notes = Noted::only(Name::new("", "lost"), Note::Unsigned(loss.count));
        self.draw_loss(&loss.stream, kind, (begin, end), &notes)?;
        self.lose(item)
    }

    /// Draws an unreadable packet, or the unreadable rest of a stream.
    fn damage(&mut self, problem: &Problem, item: &ItemRef<'_>) -> io::Result<()> {
        let says = kymo_ctf::Error::from(problem.clone()).to_string();
        self.unreadable(&problem.stream, says)?;
        self.lose(item)
    }

    /// Draws damage as a point with the error.
    ///
    /// # Errors
    /// Those of the canvas.
    pub fn unreadable(&mut self, stream: &Arc<str>, says: String) -> io::Result<()> {
        let now = self.picture.now;
        let notes = Noted::only(Name::new("", "error"), Note::Text(says.into()));
        self.draw_loss(stream, Lost::Damage, (now, now), &notes)
    }

    /// Draws a loss. Losses of one stream overlap only by rounding.
    fn draw_loss(
        &mut self,
        stream: &Arc<str>,
        kind: Lost,
        (begin, end): (u64, u64),
        notes: &[Noted<'_>],
    ) -> io::Result<()> {
        let key = (Arc::clone(stream), kind);
        let (track, last) = match self.lost.get(&key) {
            Some(&known) => known,
            None => {
                let rank = self.lost.len() as u64;
                let track = self.picture.in_group(
                    Group::Lost,
                    TrackKind::Lane,
                    &format!("{stream} {}", kind.label()),
                    rank,
                )?;
                (track, 0)
            }
        };
        let begin = begin.max(last);
        let end = end.max(begin);
        self.lost.insert(key, (track, end));
        let name = format!("lost {}", kind.label());
        let label = Label {
            name: Name::new("lost", &name),
            notes,
            flow: Flow::None,
        };
        if begin == end {
            return self.picture.canvas.point(begin, track, &label);
        }
        self.picture.canvas.begin(begin, track, &label)?;
        self.picture.canvas.end(end, track, &Label::default())
    }

    /// Passes a loss to the machine, and ends the slices of the CPUs whose state is unknown then,
    /// and of threads that do not run on another one.
    fn lose(&mut self, item: &ItemRef<'_>) -> io::Result<()> {
        self.machine.add(item);
        let mut changes = self.machine.changes().iter();
        let lost = changes.find_map(|change| match change {
            Change::Lost { cpu, .. } => Some(*cpu),
            _ => None,
        });
        let Some(cpu) = lost else { return Ok(()) };
        for (number, state) in &mut self.cpus {
            if cpu.is_none_or(|cpu| cpu == *number) {
                state.close(&mut self.picture)?;
            }
        }
        for id in self.in_order() {
            let runs = self
                .machine
                .cpus()
                .iter()
                .any(|cpu| cpu.current == Some(id));
            if !runs {
                self.with(id, Thread::close)?;
            }
        }
        Ok(())
    }

    fn event(&mut self, event: &EventRef<'_>, taken: Taken) -> io::Result<()> {
        let cpu = self.machine.cpu();
        let hidden = cpu.is_some_and(|cpu| self.machine.is_hidden(cpu));
        let mut shown = matches!(taken, Taken::Name);
        for place in 0..self.machine.changes().len() {
            let Some(&change) = self.machine.changes().get(place) else {
                break;
            };
            match (change, cpu) {
                (Change::Named(named), _) => self.named(named)?,
                (change, Some(cpu)) if !hidden => {
                    shown |= self.change(change, event, cpu)?;
                }
                _ => {}
            }
        }
        match shown || (taken == Taken::Event && !hidden && self.says_nothing(event)) {
            true => Ok(()),
            false => self.point(event, None, cpu),
        }
    }

    /// Whether the machine understands the event, but it changed nothing.
    fn says_nothing(&self, event: &EventRef<'_>) -> bool {
        self.machine.understands(event) && self.machine.changes().is_empty()
    }

    /// Renames the tracks of a named object.
    fn named(&mut self, named: Named) -> io::Result<()> {
        match named {
            Named::Thread(id) => self.with(id, Thread::rename),
            Named::Process(pid) => match self.machine.process(pid) {
                Some(name) => self.processes.rename(&mut self.picture, pid, name),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Draws a change. True if that also shows the event.
    fn change(&mut self, change: Change, event: &EventRef<'_>, cpu: u64) -> io::Result<bool> {
        match change {
            Change::Doing { thread, now, .. } => self.doing(thread, now)?,
            Change::Interrupted { thread } => self.with(thread, Thread::close)?,
            Change::Replaced { thread } | Change::Ended { thread } => {
                self.with(thread, Thread::close)?;
            }
            Change::Forgot { cpu } => self.on_cpu(cpu, |cpu, picture| cpu.leave(picture))?,
            Change::Wakeup {
                thread,
                waker,
                waited,
            } => self.wakeup(thread, waker, waited, event, cpu)?,
            Change::Priority { thread, prio } => {
                self.with(thread, |thread, here| thread.priority(here, prio))?;
            }
            Change::IrqEnter { line, depth } => {
                let name = irq_name(&self.machine, line);
                let cpu = self.cpus.entry(cpu).or_insert_with(|| Cpu::new(cpu));
                cpu.enter_irq(&mut self.picture, line, depth, &name)?;
            }
            Change::IrqExit { since: Some(_), .. } => {
                self.on_cpu(cpu, |cpu, picture| cpu.exit_irq(picture))?;
            }
            Change::IrqMismatch { .. } => {
                self.on_cpu(cpu, |cpu, picture| cpu.end_handlers(picture))?;
            }
            Change::Scheduler { begins } => {
                self.on_cpu(cpu, |cpu, picture| cpu.schedule(picture, begins))?;
            }
            Change::CallEnter { call, .. } => return self.call(call, None, event, cpu),
            Change::CallExit { call, since, .. } => {
                return self.call(call, Some(since.is_some()), event, cpu);
            }
            Change::LockWait { lock, .. } => {
                return self.noted(event, cpu, None, |thread, here, notes| {
                    thread.wait(here, lock, notes)
                });
            }
            Change::LockWaited { lock, .. } => {
                if let Some(id) = self.thread_of(event, cpu) {
                    self.with(id, |thread, here| thread.end_wait_for(here, lock))?;
                }
            }
            Change::LockAcquired { lock, kind, .. } if kind != Some(LockKind::Semaphore) => {
                return self.noted(event, cpu, None, |thread, here, notes| {
                    thread.hold(here, lock, notes)
                });
            }
            Change::LockReleased { lock, .. } => {
                return self.noted(event, cpu, None, |thread, here, notes| {
                    thread.release(here, lock, notes)
                });
            }
            Change::LockAcquired { .. } | Change::LockFailed { .. } => {
                return Ok(self.thread_of(event, cpu).is_some());
            }
            Change::SpanBegin { id, .. } => {
                let name = self.user_name("span", id).into_owned();
                let Some(thread) = self.thread_of(event, cpu) else {
                    return Ok(false);
                };
                self.with(thread, |thread, here| thread.begin_span(here, id, &name))?;
            }
            Change::SpanEnd { id, .. } => {
                let Some(thread) = self.thread_of(event, cpu) else {
                    return Ok(false);
                };
                self.with(thread, |thread, here| thread.end_span(here, id))?;
            }
            Change::Counter { id, value } => self.counter(id, value)?,
            Change::Mark { id } => {
                let name = self.user_name("mark", id).into_owned();
                self.point(event, Some(&name), Some(cpu))?;
            }
            Change::RunQueue { cpu, len } => self.run_queue(cpu, len)?,
            Change::OwnCounter {
                cpu,
                counter,
                value,
            } => self.own_counter(event, cpu, counter, value)?,
            Change::Counted { group, .. } | Change::GroupCounted { group, .. } => {
                self.group_counts(event, group, cpu)?
            }
            Change::Exec { thread, .. } => self.exec(thread, event, cpu)?,
            Change::Frames { allocated } => {
                self.frames(allocated)?;
                return Ok(false);
            }
            // Drawn as points, like unknown events.
            Change::Fault { .. }
            | Change::Message { .. }
            | Change::Forked { .. }
            | Change::ProcessEnded { .. } => return Ok(false),
            _ => {}
        }
        Ok(true)
    }

    fn doing(&mut self, thread: ThreadId, now: Doing) -> io::Result<()> {
        let flow = match self.woken.take_if(|(woken, _)| *woken == thread) {
            Some((_, flow)) => Flow::Ends(flow),
            None => Flow::None,
        };
        self.with(thread, |thread, here| thread.now_does(here, now, flow))?;
        let Doing::Running(cpu) = now else {
            return Ok(());
        };
        let tid = self.machine.thread(thread).map_or(0, |thread| thread.tid);
        let cpu = self.cpus.entry(cpu).or_insert_with(|| Cpu::new(cpu));
        cpu.run(&mut self.picture, tid, &label(&self.machine, thread))
    }

    /// Draws a point for the wake-up; if the thread waited, with an arrow to its runnable slice.
    fn wakeup(
        &mut self,
        woken: ThreadId,
        waker: Waker,
        waited: bool,
        event: &EventRef<'_>,
        cpu: u64,
    ) -> io::Result<()> {
        let flow = waited.then(|| self.picture.new_flow());
        self.woken = flow.map(|flow| (woken, flow));
        let tid = self.machine.thread(woken).map_or(0, |thread| thread.tid);
        let name = ["wakes ", &label(&self.machine, woken)].concat();
        let from = Label {
            name: Name::new("sched", &name),
            notes: &Noted::only(TID, Note::Unsigned(tid)),
            flow: flow.map_or(Flow::None, Flow::Begins),
        };
        let interrupted = self.is_in_interrupt(cpu);
        let by_thread = !interrupted && matches!(waker, Waker::Thread(_));
        match self.thread_of(event, cpu).filter(|_| by_thread) {
            Some(thread) => self.with(thread, |thread, here| thread.point(here, &from)),
            None => self.cpu_point(cpu, interrupted, &from),
        }
    }

    fn cpu_point(&mut self, cpu: u64, interrupted: bool, label: &Label<'_>) -> io::Result<()> {
        self.on_cpu(cpu, |cpu, picture| {
            let track = match interrupted {
                true => cpu.interrupts(picture)?,
                false => cpu.events(picture)?,
            };
            picture.point(track, label)
        })
    }

    /// Draws the beginning or end of a system call. `ends` is `Some` for an end: whether its
    /// beginning is in the trace.
    fn call(
        &mut self,
        call: CallId,
        ends: Option<bool>,
        event: &EventRef<'_>,
        cpu: u64,
    ) -> io::Result<bool> {
        self.noted(event, cpu, Some("id"), |thread, here, notes| match ends {
            None => thread.enter_call(here, call, notes),
            Some(true) => thread.end_call(here, notes),
            Some(false) => thread.end_call(here, &[]),
        })
    }

    /// Calls `act` with the event's thread and its fields except `without`. False if it has no
    /// known thread.
    fn noted(
        &mut self,
        event: &EventRef<'_>,
        cpu: u64,
        without: Option<&str>,
        act: impl FnOnce(&mut Thread, &mut Here<'_, C>, &[Noted<'_>]) -> io::Result<()>,
    ) -> io::Result<bool> {
        let Some(id) = self.thread_of(event, cpu) else {
            return Ok(false);
        };
        if !C::HAS_NOTES {
            self.with(id, |thread, here| act(thread, here, &[]))?;
            return Ok(true);
        }
        let shown = self.notes.of(event);
        let values = self.notes.read(&shown, event);
        let notes = shown.notes(&values, without);
        self.with(id, |thread, here| act(thread, here, &notes))?;
        self.notes.give_back(values);
        Ok(true)
    }

    fn counter(&mut self, id: u64, value: i64) -> io::Result<()> {
        let track = match self.counters.get(&id) {
            Some(&track) => track,
            None => {
                let name = self.user_name("counter", id).into_owned();
                let kind = TrackKind::Counter;
                let track = self.picture.in_group(Group::Counters, kind, &name, id)?;
                *self.counters.entry(id).or_insert(track)
            }
        };
        self.picture.counter(track, value)
    }

    /// Draws how many frames have been allocated and not freed since the trace began, behind all
    /// other counters. How large a frame is, no trace says.
    fn frames(&mut self, allocated: i64) -> io::Result<()> {
        let (track, before) = match self.frames {
            Some(frames) => frames,
            None => {
                let (kind, name) = (TrackKind::Counter, "frames allocated minus freed");
                let track = self
                    .picture
                    .in_group(Group::Counters, kind, name, u64::MAX)?;
                (track, 0)
            }
        };
        let now = before.saturating_add(allocated);
        self.frames = Some((track, now));
        self.picture.counter(track, now)
    }

    /// Draws a counter of the kernel's own as it stands on one CPU, behind the run queues.
    fn own_counter(
        &mut self,
        event: &EventRef<'_>,
        cpu: u64,
        id: u64,
        value: i64,
    ) -> io::Result<()> {
        let track = match self.own_counters.get(&(id, cpu)) {
            Some(&track) => track,
            None => {
                let label = match event.field("counter") {
                    Some(ValueRef::Enum(counter)) => counter.labels().next().cloned(),
                    _ => None,
                };
                let of = label.map_or_else(|| format!("counter {id}"), |label| label.to_string());
                let rank = (1 << 33) | id.wrapping_shl(16) | cpu & 0xffff;
                let (kind, name) = (TrackKind::Counter, format!("{of}, cpu{cpu}"));
                let track = self.picture.in_group(Group::Counters, kind, &name, rank)?;
                *self.own_counters.entry((id, cpu)).or_insert(track)
            }
        };
        self.picture.counter(track, value)
    }

    /// Draws what a group of counted events stands at on a CPU, behind the kernel's own counters.
    /// Where there are several groups, which may count the same events, names say which.
    fn group_counts(&mut self, event: &EventRef<'_>, group: u8, cpu: u64) -> io::Result<()> {
        let Some(ValueRef::Array(counts)) = event.field("counts") else {
            return Ok(());
        };
        for (place, count) in counts.iter().take(MAX_EVENTS).enumerate() {
            let Some(count) = count.as_u64() else {
                continue;
            };
            let name = self.machine.counters(group).get(place).cloned().flatten();
            let key = ((group, place, name), cpu);
            let track = match self.group_counts.get(&key) {
                Some(&track) => track,
                None => {
                    let of = key.0.2.as_deref();
                    let of = of.map_or_else(|| format!("event {place}"), str::to_owned);
                    let of_group = match self.machine.counter_groups() {
                        0 | 1 if group == 0 => String::new(),
                        _ => format!(", group {group}"),
                    };
                    let place = u64::from(group) << 24 | (place as u64) << 16;
                    let rank = (1 << 34) | place | cpu & 0xffff;
                    let (kind, name) = (TrackKind::Counter, format!("{of}{of_group}, cpu{cpu}"));
                    let track = self.picture.in_group(Group::Counters, kind, &name, rank)?;
                    *self.group_counts.entry(key).or_insert(track)
                }
            };
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.picture.counter(track, count)?;
        }
        Ok(())
    }

    /// Draws the length of a run queue as a counter, after those of programs.
    fn run_queue(&mut self, cpu: Option<u64>, len: u64) -> io::Result<()> {
        let track = match self.run_queues.get(&cpu) {
            Some(&track) => track,
            None => {
                let of = cpu.map_or_else(|| "shared".to_owned(), |cpu| format!("cpu{cpu}"));
                let rank = cpu.map_or(u64::MAX, |cpu| cpu.saturating_add(1 << 32));
                let (kind, name) = (TrackKind::Counter, format!("run queue, {of}"));
                let track = self.picture.in_group(Group::Counters, kind, &name, rank)?;
                *self.run_queues.entry(cpu).or_insert(track)
            }
        };
        let len = i64::try_from(len).unwrap_or(i64::MAX);
        self.picture.counter(track, len)
    }

    fn exec(&mut self, thread: Option<ThreadId>, event: &EventRef<'_>, cpu: u64) -> io::Result<()> {
        let path = event.field("filename");
        let path = path
            .as_ref()
            .and_then(|path| path.as_str())
            .unwrap_or_default();
        let label = Label {
            name: Name::new("sched", "exec"),
            notes: &Noted::only(Name::new("", "filename"), Note::Text(path.into())),
            flow: Flow::None,
        };
        let interrupted = self.is_in_interrupt(cpu);
        let running = self.thread_of(event, cpu).filter(|_| !interrupted);
        match thread.or(running) {
            Some(thread) => self.with(thread, |thread, here| thread.point(here, &label)),
            None => self.cpu_point(cpu, interrupted, &label),
        }
    }

    fn is_in_interrupt(&self, cpu: u64) -> bool {
        let cpu = self.machine.cpu_of(cpu);
        cpu.is_some_and(kymo_machine::Cpu::is_in_interrupt)
    }

    /// The name of a mark, span or counter.
    fn user_name(&self, what: &str, id: u64) -> Cow<'_, str> {
        match self.machine.user(id) {
            Some(name) => Cow::Borrowed(&**name),
            None => Cow::Owned(format!("{what} {id}")),
        }
    }

    /// The thread that runs on the CPU, or the one that the event's context names.
    fn thread_of(&mut self, event: &EventRef<'_>, cpu: u64) -> Option<ThreadId> {
        let running = self.machine.running(cpu);
        running.or_else(|| self.named_thread(event, Some(cpu)))
    }

    fn named_thread(&mut self, event: &EventRef<'_>, cpu: Option<u64>) -> Option<ThreadId> {
        let tid = self.machine.context(event).0?;
        Some(self.machine.meet_thread(tid, cpu))
    }

    /// Draws a point with the event's fields, named after the event unless `name` is given.
    fn point(
        &mut self,
        event: &EventRef<'_>,
        name: Option<&str>,
        cpu: Option<u64>,
    ) -> io::Result<()> {
        let shown = self.notes.of(event);
        let category = match self.machine.is_sample(event) {
            true => "sample",
            false => "event",
        };
        let own = Name {
            category,
            ..shown.name(event)
        };
        let label = Label {
            name: name.map_or(own, |name| Name::new("event", name)),
            ..Label::default()
        };
        if !C::HAS_NOTES {
            return self.draw_point(event, cpu, &label);
        }
        let values = self.notes.read(&shown, event);
        let label = Label {
            notes: &shown.notes(&values, None),
            ..label
        };
        self.draw_point(event, cpu, &label)?;
        self.notes.give_back(values);
        Ok(())
    }

    fn draw_point(
        &mut self,
        event: &EventRef<'_>,
        cpu: Option<u64>,
        label: &Label<'_>,
    ) -> io::Result<()> {
        if let (Some(cpu), true) = (cpu, self.machine.is_sample(event)) {
            return self.on_cpu(cpu, |cpu, picture| cpu.sample(picture, label));
        }
        let interrupted = cpu.is_some_and(|cpu| self.is_in_interrupt(cpu));
        let thread = match cpu {
            _ if interrupted => None,
            Some(cpu) => self.thread_of(event, cpu),
            None => self.named_thread(event, None),
        };
        match (thread, cpu) {
            (Some(id), _) => {
                let pid = self.machine.context(event).1;
                self.with(id, |thread, here| {
                    thread.pid = thread.pid.or(pid);
                    thread.point(here, label)
                })
            }
            (None, Some(cpu)) => self.cpu_point(cpu, interrupted, label),
            (None, None) => {
                let track = match self.streams.get(event.stream()) {
                    Some(&track) => track,
                    None => {
                        let (kind, name) = (TrackKind::Lane, event.stream());
                        let track = self.picture.in_group(Group::Kernel, kind, name, u64::MAX)?;
                        *self.streams.entry(Arc::clone(name)).or_insert(track)
                    }
                };
                self.picture.point(track, label)
            }
        }
    }
}

/// The line's name, or its number.
fn irq_name(machine: &Machine, line: IrqLine) -> Cow<'_, str> {
    match (machine.irq(line), line.is_soft()) {
        (Some(name), false) => Cow::Borrowed(name),
        (Some(name), true) => Cow::Owned(format!("softirq {name}")),
        (None, false) => Cow::Owned(format!("irq {line}")),
        (None, true) => Cow::Owned(format!("softirq {line}")),
    }
}
