//! Which event does what to the picture.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;

use kymo::vocabulary::LockKind;
use kymo_analysis::{Kind, Kinds, Left, SyscallKey};
use kymo_ctf::{Event, Item, Loss, LossKind, Metadata};

use super::cpu::Cpu;
use super::lock::Locks;
use super::names::Names;
use super::picture::{Group, Picture};
use super::thread::{Doing, Here, Key, Processes, Thread};
use super::{Canvas, Flow, Label, TrackId, TrackKind};
use crate::value::{Note, context, notes, number, signed, text};

/// A loss that may still go on.
#[derive(Debug)]
struct Gap {
    cpu: Option<u64>,
    stream: Arc<str>,
    /// `None`: the stream is damaged, and ends here.
    end: Option<u64>,
}

/// Draws a trace, item by item.
#[derive(Debug)]
pub(crate) struct Timeline<C> {
    pub(super) picture: Picture<C>,
    kinds: Kinds,
    names: Names,
    pub(super) locks: Locks,
    pub(super) processes: Processes,
    pub(super) threads: HashMap<Key, Thread>,
    pub(super) cpus: BTreeMap<u64, Cpu>,
    counters: HashMap<u64, TrackId>,
    /// Tracks of points of streams without a CPU; of losses, by what was lost, with the end of the
    /// last one.
    streams: HashMap<Arc<str>, TrackId>,
    lost: HashMap<(Arc<str>, &'static str), (TrackId, u64)>,
    gaps: Vec<Gap>,
    /// Kymo's losses lie before the packet that tells of them; of other tracers' it is known only
    /// that they lie before its end.
    before_packet: bool,
    /// What is taken from the clock's times: 0, unless they begin before its origin.
    base: i128,
}

impl<C: Canvas> Timeline<C> {
    /// Of a trace with this metadata that begins at `begin`, in nanoseconds from the clock's
    /// origin.
    pub(crate) fn new(metadata: &Metadata, begin: i128, canvas: C) -> Timeline<C> {
        Timeline {
            picture: Picture::new(canvas),
            kinds: Kinds::new(metadata),
            names: Names::default(),
            locks: Locks::default(),
            processes: Processes::default(),
            threads: HashMap::new(),
            cpus: BTreeMap::new(),
            counters: HashMap::new(),
            streams: HashMap::new(),
            lost: HashMap::new(),
            gaps: Vec::new(),
            before_packet: metadata
                .env()
                .iter()
                .any(|(name, value)| name == "tracer_name" && value.to_string() == "kymo"),
            base: begin.min(0),
        }
    }

    fn time(&self, nanos: i128) -> u64 {
        u64::try_from(nanos.saturating_sub(self.base).max(0)).unwrap_or(u64::MAX)
    }

    pub(crate) fn add(&mut self, item: &Item) -> io::Result<()> {
        match item {
            Item::Event(event) => self.event(event),
            Item::Loss(loss) => self.loss(loss),
            _ => Ok(()),
        }
    }

    /// A stream ends before its time.
    pub(crate) fn damaged(&mut self, stream: &str, says: &str) -> io::Result<()> {
        let stream: Arc<str> = stream.into();
        let now = self.picture.now;
        self.draw_loss(
            &stream,
            "damage",
            (now, now),
            &[("error", Note::Text(says.into()))],
        )?;
        if kymo_analysis::tells_what_happens(&stream) {
            self.lose(None)?;
        }
        Ok(())
    }

    /// Ends everything, at the time of the last event. Gives the canvas.
    pub(crate) fn finish(mut self) -> io::Result<C> {
        for cpu in self.cpus.values_mut() {
            cpu.close(&mut self.picture)?;
        }
        let mut keys: Vec<Key> = self.threads.keys().copied().collect();
        keys.sort_unstable();
        for key in keys {
            self.with(key, Thread::close)?;
        }
        self.picture.canvas.finish()?;
        Ok(self.picture.canvas)
    }

    /// Does something to a thread, which is made if it is not known yet.
    pub(super) fn with<T>(
        &mut self,
        key: Key,
        act: impl FnOnce(&mut Thread, &mut Here<'_, C>) -> T,
    ) -> T {
        let Timeline {
            picture,
            processes,
            locks,
            ..
        } = self;
        act(
            self.threads.entry(key).or_default(),
            &mut Here {
                picture,
                processes,
                locks,
                key,
            },
        )
    }

    pub(super) fn cpu(&mut self, number: u64) -> &mut Cpu {
        self.cpus.entry(number).or_insert_with(|| Cpu::new(number))
    }

    fn loss(&mut self, loss: &Loss) -> io::Result<()> {
        let kind = match loss.kind {
            LossKind::Events => "events",
            LossKind::Packets => "packets",
        };
        let begin = loss
            .begin_nanos
            .map_or(self.picture.now, |nanos| self.time(nanos));
        self.picture.now = self.picture.now.max(begin);
        let end = loss.end_nanos.map(|nanos| self.time(nanos));
        self.draw_loss(
            &loss.stream,
            kind,
            (begin, end.unwrap_or(begin)),
            &[("lost", Note::Unsigned(loss.count))],
        )?;
        if kymo_analysis::tells_what_happens(&loss.stream) {
            self.gaps.push(Gap {
                cpu: loss.cpu,
                stream: Arc::clone(&loss.stream),
                end,
            });
            self.lose(loss.cpu)?;
        }
        Ok(())
    }

    /// Losses of one stream do not overlap, but by rounding.
    fn draw_loss(
        &mut self,
        stream: &Arc<str>,
        kind: &'static str,
        (begin, end): (u64, u64),
        notes: &[(&str, Note<'_>)],
    ) -> io::Result<()> {
        let key = (Arc::clone(stream), kind);
        let (track, last) = match self.lost.get(&key) {
            Some(&known) => known,
            None => {
                let rank = self.lost.len() as u64;
                let track = self.picture.in_group(
                    Group::Lost,
                    TrackKind::Lane,
                    &format!("{stream} {kind}"),
                    rank,
                )?;
                (track, 0)
            }
        };
        let begin = begin.max(last);
        let end = end.max(begin);
        self.lost.insert(key, (track, end));
        let name = format!("lost {kind}");
        let label = Label {
            category: "lost",
            name: &name,
            notes,
            flow: Flow::None,
        };
        if begin == end {
            return self.picture.canvas.point(begin, track, &label);
        }
        self.picture.canvas.begin(begin, track, &label)?;
        self.picture.canvas.end(end, track, &Label::default())
    }

    /// What the CPU (all, where it is not told which) does is not known from here on, nor what
    /// threads do that run on no other.
    fn lose(&mut self, cpu: Option<u64>) -> io::Result<()> {
        for (number, state) in &mut self.cpus {
            if cpu.is_none_or(|cpu| cpu == *number) {
                state.close(&mut self.picture)?;
            }
        }
        let mut keys: Vec<Key> = self.threads.keys().copied().collect();
        keys.sort_unstable();
        for key in keys {
            let elsewhere = self.cpus.values().any(|state| state.current == Some(key));
            if !elsewhere {
                self.with(key, Thread::close)?;
            }
        }
        Ok(())
    }

    /// Whether it is unknown at the moment what the CPU does. Ends the losses that are over.
    fn is_hidden(&mut self, event: &Event, cpu: u64) -> bool {
        let (now, before_packet) = (self.picture.now, self.before_packet);
        self.gaps.retain(|gap| {
            let told = before_packet && gap.end.is_some() && *event.stream() == gap.stream;
            !told && gap.end.is_none_or(|end| now <= end)
        });
        self.gaps
            .iter()
            .any(|gap| gap.cpu.is_none_or(|of| of == cpu))
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        let Some(nanos) = event.nanos() else {
            return Ok(());
        };
        self.picture.now = self.time(nanos).max(self.picture.now);
        let kind = self.kinds.get(event);
        if self.name(&kind, event)? {
            return Ok(());
        }
        let Some(cpu) = event.cpu() else {
            return self.other(event, event.name(), None);
        };
        if self.is_hidden(event, cpu) {
            return self.other(event, event.name(), Some(cpu));
        }
        self.happened(&kind, event, cpu)
    }

    /// Names and states, which are no happenings. Whether it was one.
    fn name(&mut self, kind: &Kind, event: &Event) -> io::Result<bool> {
        let id = |name: &str| number(event, name);
        match kind {
            Kind::ThreadName | Kind::ThreadState | Kind::LinuxState => {
                let Some(tid) = id("tid") else {
                    return Ok(true);
                };
                let cpu = id("cpu").or(event.cpu());
                self.with(key(tid, cpu), |thread, here| {
                    thread.pid = thread.pid.or(id("pid"));
                    text(event, "name").map_or(Ok(()), |name| thread.rename(here, name))
                })?;
                if let (Kind::LinuxState, Some(name)) =
                    (kind, text(event, "name").filter(|_| id("pid") == Some(tid)))
                {
                    self.processes.rename(&mut self.picture, tid, name)?;
                }
            }
            Kind::ProcessName => {
                if let (Some(pid), Some(name)) = (id("pid"), text(event, "name")) {
                    self.processes.rename(&mut self.picture, pid, name)?;
                }
            }
            Kind::LockName => {
                if let (Some(lock), Some(name)) = (id("lock"), text(event, "name")) {
                    self.locks.rename(lock, name);
                }
            }
            Kind::IrqName | Kind::SyscallName | Kind::UserName => {
                let (table, number) = match kind {
                    Kind::IrqName => (&mut self.names.irqs, id("irq")),
                    Kind::SyscallName => (&mut self.names.calls, id("id")),
                    _ => (&mut self.names.user, id("id")),
                };
                if let (Some(number), Some(name)) = (number, text(event, "name")) {
                    table.insert(number, name.to_owned());
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn happened(&mut self, kind: &Kind, event: &Event, cpu: u64) -> io::Result<()> {
        let all = || notes(event).collect::<Vec<_>>();
        match kind {
            Kind::Switch => self.switch(event, cpu),
            Kind::Wakeup | Kind::Waking => self.wakeup(event, cpu),
            Kind::Create | Kind::Fork => self.create(kind, event, cpu),
            Kind::Exit => self.exit(event, cpu),
            Kind::Suspend | Kind::Resume => self.suspend(matches!(kind, Kind::Suspend), event, cpu),
            Kind::Priority => {
                let (Some(tid), Some(prio)) = (number(event, "tid"), signed(event, "newprio"))
                else {
                    return Ok(());
                };
                self.with(key(tid, Some(cpu)), |thread, here| {
                    thread.priority(here, prio)
                })
            }
            Kind::Exec => self.exec(event, cpu),
            Kind::SchedEnter | Kind::SchedExit => {
                let begins = matches!(kind, Kind::SchedEnter);
                self.cpu(cpu);
                let Timeline { cpus, picture, .. } = self;
                cpus.get_mut(&cpu)
                    .map_or(Ok(()), |cpu| cpu.schedule(picture, begins))
            }
            Kind::IrqEnter | Kind::SoftIrqEnter | Kind::IrqExit | Kind::SoftIrqExit => {
                let soft = matches!(kind, Kind::SoftIrqEnter | Kind::SoftIrqExit);
                let Some(irq) = number(event, if soft { "vec" } else { "irq" }) else {
                    return Ok(());
                };
                let name =
                    text(event, "name").map_or_else(|| self.names.irq(irq, soft), str::to_owned);
                self.cpu(cpu);
                let Timeline { cpus, picture, .. } = self;
                let Some(state) = cpus.get_mut(&cpu) else {
                    return Ok(());
                };
                match kind {
                    Kind::IrqEnter | Kind::SoftIrqEnter => {
                        state.enter_irq(picture, (irq, soft), &name)
                    }
                    _ => state.exit_irq(picture, (irq, soft)),
                }
            }
            Kind::SyscallEnter(name) | Kind::SyscallExit(name) => {
                let number = number(event, "id").map(SyscallKey::Number);
                let Some(call) = name.clone().map(SyscallKey::Named).or(number) else {
                    return Ok(());
                };
                let Some(thread) = self.thread_of(event, cpu) else {
                    return self.other(event, event.name(), Some(cpu));
                };
                let mut notes = all();
                notes.retain(|(name, _)| *name != "id");
                match kind {
                    Kind::SyscallEnter(_) => {
                        let name = self.names.call(&call);
                        self.with(thread, |thread, here| {
                            thread.enter_call(here, call, &name, &notes)
                        })
                    }
                    _ => self.with(thread, |thread, here| thread.exit_call(here, &call, &notes)),
                }
            }
            Kind::LockWait | Kind::LockAcquired | Kind::LockReleased | Kind::LockFailed => {
                let Some(lock) = number(event, "lock") else {
                    return Ok(());
                };
                let Some(thread) = self.thread_of(event, cpu) else {
                    return self.other(event, event.name(), Some(cpu));
                };
                let semaphore = number(event, "kind") == Some(LockKind::Semaphore as u64);
                let notes = all();
                self.with(thread, |thread, here| match kind {
                    Kind::LockWait => thread.wait(here, lock, &notes),
                    Kind::LockReleased => thread.release(here, lock, &notes),
                    Kind::LockAcquired if !semaphore => {
                        thread.end_wait_for(here, lock)?;
                        thread.hold(here, lock, &notes)
                    }
                    _ => thread.end_wait_for(here, lock),
                })
            }
            Kind::SpanBegin | Kind::SpanEnd => {
                let (Some(id), Some(thread)) = (number(event, "id"), self.thread_of(event, cpu))
                else {
                    return self.other(event, event.name(), Some(cpu));
                };
                let name = self.names.user("span", id);
                self.with(thread, |thread, here| match kind {
                    Kind::SpanBegin => thread.begin_span(here, id, &name),
                    _ => thread.end_span(here, id),
                })
            }
            Kind::Counter => {
                let (Some(id), Some(value)) = (number(event, "id"), signed(event, "value")) else {
                    return Ok(());
                };
                let track = match self.counters.get(&id) {
                    Some(&track) => track,
                    None => {
                        let name = self.names.user("counter", id);
                        let track = self.picture.in_group(
                            Group::Counters,
                            TrackKind::Counter,
                            &name,
                            id,
                        )?;
                        *self.counters.entry(id).or_insert(track)
                    }
                };
                self.picture.counter(track, value)
            }
            Kind::Mark => {
                let name = self.names.user("mark", number(event, "id").unwrap_or(0));
                self.other(event, &name, Some(cpu))
            }
            _ => self.other(event, event.name(), Some(cpu)),
        }
    }

    /// The thread that runs on the CPU, or the one that the event's context names.
    pub(super) fn thread_of(&self, event: &Event, cpu: u64) -> Option<Key> {
        let runs = self.cpus.get(&cpu).and_then(|cpu| cpu.current);
        runs.or_else(|| context(event, ["tid", "vtid"]).map(|tid| key(tid, Some(cpu))))
    }

    /// A point.
    fn other(&mut self, event: &Event, name: &str, cpu: Option<u64>) -> io::Result<()> {
        let notes: Vec<_> = notes(event).collect();
        let label = Label {
            category: "event",
            name,
            notes: &notes,
            flow: Flow::None,
        };
        let interrupted = cpu
            .and_then(|cpu| self.cpus.get(&cpu))
            .is_some_and(Cpu::is_in_interrupt);
        let named = context(event, ["tid", "vtid"]).map(|tid| key(tid, cpu));
        let thread = cpu
            .and_then(|cpu| self.thread_of(event, cpu))
            .or(named)
            .filter(|_| !interrupted);
        match (thread, cpu) {
            (Some(thread), _) => self.with(thread, |thread, here| {
                thread.pid = thread.pid.or_else(|| context(event, ["pid", "vpid"]));
                thread.point(here, &label)
            }),
            (None, Some(cpu)) => {
                self.cpu(cpu);
                let Timeline { cpus, picture, .. } = self;
                let Some(state) = cpus.get_mut(&cpu) else {
                    return Ok(());
                };
                let track = if interrupted {
                    state.interrupts(picture)?
                } else {
                    state.events(picture)?
                };
                picture.point(track, &label)
            }
            (None, None) => {
                let track = match self.streams.get(event.stream()) {
                    Some(&track) => track,
                    None => {
                        let track = self.picture.in_group(
                            Group::Kernel,
                            TrackKind::Lane,
                            event.stream(),
                            u64::MAX,
                        )?;
                        *self
                            .streams
                            .entry(Arc::clone(event.stream()))
                            .or_insert(track)
                    }
                };
                self.picture.point(track, &label)
            }
        }
    }
}

/// Thread 0 of several CPUs is several threads.
pub(super) fn key(tid: u64, cpu: Option<u64>) -> Key {
    (tid, cpu.filter(|_| tid == 0))
}

/// What a switch says of the thread that leaves.
pub(super) fn left(event: &Event) -> Option<Doing> {
    match Left::of(event) {
        Left::Runnable => Some(Doing::Runnable),
        Left::Blocked => Some(Doing::Blocked),
        Left::Sleeping => Some(Doing::Sleeping),
        Left::Suspended => Some(Doing::Suspended),
        _ => None,
    }
}
