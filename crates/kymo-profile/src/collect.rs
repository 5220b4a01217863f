//! From the items of a trace to distinct chains and their counts.

use std::sync::Arc;

use kymo::ChannelKind;
use kymo::vocabulary::{ChainEnd, CpuMode};
use kymo_ctf::{ClockClass, Consequence, EventRef, ItemRef, LossKind};
use kymo_machine::{CallChain, ChainOf, ChainPart, Machine, ThreadId};
use rustc_hash::FxHashMap;

use crate::chains::{ChainTable, Header};
use crate::profile::{Mode, Row, Sample, Thread, Totals};
use crate::symbolize::Chains;

/// Which part of the machine to profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Only {
    /// Kernel and programs.
    #[default]
    Both,
    /// Samples taken in the kernel, without the program's part of the chain.
    Kernel,
    /// Samples taken in programs.
    User,
}

/// What to collect.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Kernel, programs, or both.
    pub only: Only,
    /// Whether to keep samples of idle CPUs.
    pub include_idle: bool,
    /// Whether to keep the time of each sample.
    pub keep_times: bool,
    /// Whether to take the chains of events (`event_stack`) instead of samples.
    pub of_events: bool,
}

/// A program's address space, as far as symbols are concerned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Space {
    /// That of a program, by its path.
    Program(Arc<str>),
    /// That of a process whose program is not known.
    Process(u64),
    /// That of a thread whose process is not known.
    Thread(u64),
}

/// Rows are found by thread, CPU, and chain with mode.
type RowKey = (u32, u32, u64);

/// No thread, or no CPU.
const NONE: u32 = u32::MAX;

/// Counts the call chains of a trace's items, added in time order.
#[derive(Debug, Default)]
pub struct Collector {
    options: Options,
    machine: Machine,
    chains: ChainTable,
    rows: Vec<Row>,
    row_chains: Vec<u32>,
    row_places: FxHashMap<RowKey, u32>,
    spaces: Vec<Space>,
    space_places: FxHashMap<Space, u32>,
    /// The space of each thread's process, by [`ThreadId::index`].
    thread_spaces: Vec<Option<u32>>,
    threads: Vec<ThreadId>,
    thread_places: FxHashMap<ThreadId, u32>,
    samples: Vec<Sample>,
    totals: Totals,
    span_ns: Option<(i64, i64)>,
    clock: Option<Arc<ClockClass>>,
    period: Option<u64>,
    addresses: Vec<u64>,
}

impl Collector {
    /// Nothing yet.
    pub fn new(options: Options) -> Collector {
        Collector {
            options,
            ..Collector::default()
        }
    }

    /// The machine's state after the last item.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Adds the next item; its samples and losses count only if it is `selected`.
    #[inline]
    pub fn add(&mut self, item: &ItemRef<'_>, selected: bool) {
        self.machine.add(item);
        match item {
            ItemRef::Event(event) => {
                self.totals.events += 1;
                self.event(event, selected);
            }
            ItemRef::Loss(loss) if selected && is_samples(&loss.stream) => match loss.kind {
                LossKind::Events => self.totals.lost += loss.count,
                LossKind::Packets => self.totals.gaps += 1,
            },
            ItemRef::Problem(problem) if selected && is_samples(&problem.stream) => {
                self.totals.gaps += u64::from(problem.consequence != Consequence::Clamped);
            }
            _ => {}
        }
        if !self.machine.changes().is_empty() {
            self.follow();
        }
    }

    /// Notes changes of programs.
    #[inline]
    fn follow(&mut self) {
        use kymo_machine::Change;
        for change in self.machine.changes() {
            if let Change::Exec { .. } | Change::Forked { .. } = change {
                self.thread_spaces.clear();
            }
        }
    }

    #[inline]
    fn event(&mut self, event: &EventRef<'_>, selected: bool) {
        let Some(chain) = self.machine.call_chain(event, &mut self.addresses) else {
            return;
        };
        let (ticks, missed) = match (chain.of, self.options.of_events) {
            (ChainOf::Sample { period, missed }, false) => (period, missed),
            (ChainOf::This, _) | (ChainOf::EventBefore { .. }, true) => (0, 0),
            _ => return,
        };
        if !selected {
            return;
        }
        self.totals.missed += missed;
        self.totals.idle += u64::from(chain.mode == CpuMode::Idle);
        if chain.mode == CpuMode::Idle && !self.options.include_idle {
            return;
        }
        match (self.options.only, chain.mode) {
            (Only::Kernel, CpuMode::User) | (Only::User, CpuMode::Kernel | CpuMode::Idle) => {
                self.totals.other_mode += 1;
            }
            (Only::Kernel, _) => {
                self.addresses.truncate(chain.kernel.len);
                let user = ChainPart::ABSENT;
                self.keep(event, CallChain { user, ..chain }, ticks);
            }
            _ => self.keep(event, chain, ticks),
        }
    }

    #[inline]
    fn keep(&mut self, event: &EventRef<'_>, chain: CallChain, ticks: u64) {
        let cpu = self.machine.cpu();
        let running = || self.machine.running(cpu?);
        let thread = match chain.tid {
            Some(tid) if tid != u64::from(u32::MAX) => Some(self.machine.meet_thread(tid, cpu)),
            _ => running(),
        };
        let totals = &mut self.totals;
        totals.kept += 1;
        totals.cut +=
            u64::from(chain.kernel.end == ChainEnd::Cut || chain.user.end == ChainEnd::Cut);
        totals.untrusted += u64::from(chain.kernel.is_untrusted() || chain.user.is_untrusted());
        totals.threadless += u64::from(thread.is_none());
        let place = thread.map_or(NONE, |thread| self.thread_place(thread));
        let space = match chain.user.len {
            0 => 0,
            _ => self.space(thread),
        };
        let interned = self
            .chains
            .intern(Header::new(&chain, space), &self.addresses);
        let mode = match chain.mode {
            CpuMode::User => Mode::User,
            CpuMode::Kernel => Mode::Kernel,
            CpuMode::Idle => Mode::Idle,
        };
        let cpu = cpu.and_then(|cpu| u32::try_from(cpu).ok());
        let key = (
            place,
            cpu.unwrap_or(NONE),
            u64::from(interned) << 2 | mode as u64,
        );
        let next = self.rows.len() as u32;
        let row = *self.row_places.entry(key).or_insert(next);
        if row == next {
            self.row_chains.push(interned);
            self.rows.push(Row {
                thread: (place != NONE).then_some(place),
                cpu,
                stack: None,
                mode,
                weight: 0,
                ticks: 0,
            });
        }
        if let Some(row) = self.rows.get_mut(row as usize) {
            row.weight += 1;
            row.ticks = row.ticks.saturating_add(ticks);
        }
        self.stamp(event, row, ticks);
    }

    /// Notes the sample's time.
    #[inline]
    fn stamp(&mut self, event: &EventRef<'_>, row: u32, ticks: u64) {
        let now = self.machine.now();
        let (first, _) = *self.span_ns.get_or_insert((now, now));
        self.span_ns = Some((first, now));
        if ticks > 0 {
            self.period = Some(ticks);
        }
        if self.clock.is_none() {
            self.clock = event.clock().cloned();
        }
        if self.options.keep_times {
            self.samples.push(Sample { time_ns: now, row });
        }
    }

    /// Index of the thread in the profile.
    #[inline]
    fn thread_place(&mut self, id: ThreadId) -> u32 {
        let next = self.threads.len() as u32;
        let place = *self.thread_places.entry(id).or_insert(next);
        if place == next {
            self.threads.push(id);
        }
        place
    }

    /// The space of a thread's program.
    #[inline]
    fn space(&mut self, id: Option<ThreadId>) -> u32 {
        let place = id.map_or(usize::MAX, ThreadId::index);
        match self.thread_spaces.get(place) {
            Some(Some(space)) => *space,
            _ => self.find_space(id),
        }
    }

    #[cold]
    fn find_space(&mut self, id: Option<ThreadId>) -> u32 {
        let thread = id.and_then(|id| self.machine.thread(id));
        let pid = thread.and_then(|thread| thread.pid);
        let space = match pid.map(|pid| (pid, self.machine.program(pid))) {
            Some((_, Some(path))) => Space::Program(Arc::clone(path)),
            Some((pid, None)) => Space::Process(pid),
            None => Space::Thread(thread.map_or(u64::MAX, |thread| thread.tid)),
        };
        let next = self.spaces.len() as u32;
        let place = *self.space_places.entry(space.clone()).or_insert(next);
        if place == next {
            self.spaces.push(space);
        }
        // A process may become known later, so only what is final is remembered.
        if let (Some(id), Some(_)) = (id, pid) {
            if self.thread_spaces.len() <= id.index() {
                self.thread_spaces.resize(id.index() + 1, None);
            }
            if let Some(cell) = self.thread_spaces.get_mut(id.index()) {
                *cell = Some(place);
            }
        }
        place
    }

    /// Ends the collection.
    pub fn finish(self) -> Chains {
        let machine = &self.machine;
        let thread = |id: &ThreadId| {
            let thread = machine.thread(*id);
            thread.map_or_else(Thread::default, |thread| Thread {
                tid: thread.tid,
                pid: thread.pid,
                name: thread.name.clone(),
                process: thread.pid.and_then(|pid| machine.process(pid).cloned()),
                cpu: thread.cpu,
            })
        };
        let process_name = |space: &Space| match space {
            Space::Program(path) => Arc::clone(path),
            Space::Process(pid) => match machine.process(*pid) {
                Some(name) => Arc::clone(name),
                None => Arc::from(format!("process {pid}")),
            },
            Space::Thread(u64::MAX) => Arc::from("program"),
            Space::Thread(tid) => Arc::from(format!("program of thread {tid}")),
        };
        Chains {
            threads: self.threads.iter().map(thread).collect(),
            space_names: self.spaces.iter().map(process_name).collect(),
            spaces: self.spaces,
            chains: self.chains,
            rows: self.rows,
            row_chains: self.row_chains,
            samples: self.samples,
            totals: self.totals,
            span_ns: self.span_ns,
            clock: self.clock,
            period: self.period,
        }
    }
}

/// Whether a stream holds samples: one of Kymo's, or of a tracer that has one kind of stream.
fn is_samples(stream: &str) -> bool {
    let is_of = |kind: ChannelKind| {
        let rest = stream.strip_prefix(kind.label());
        rest.is_some_and(|rest| rest.starts_with('_'))
    };
    !is_of(ChannelKind::Events) && !is_of(ChannelKind::Names)
}
