//! What a profile under construction knows besides its rows.

use std::sync::Arc;

use kymo_ctf::ClockClass;
use kymo_machine::{AddressSpace, CallChain, Change, Machine, Period, ThreadId};
use rustc_hash::FxHashMap;

use crate::chains::Header;
use crate::profile::{PeriodUnit, Row, Thread, Totals, Unit};
use crate::symbolize::Chains;
use crate::tally::{Key, NONE, Tally};

/// A program's address space, as far as symbols are concerned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Space {
    /// That of a program, by its path.
    Program(Arc<str>),
    /// That of a process whose program is not known, or of which the trace says where its files
    /// are.
    Process(AddressSpace),
    /// That of a thread whose process is not known.
    Thread(u64),
}

/// Threads, address spaces, names and totals of a profile under construction.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    prefixes: Vec<Vec<Arc<str>>>,
    prefix_places: FxHashMap<Vec<Arc<str>>, u32>,
    spaces: Vec<Space>,
    space_places: FxHashMap<Space, u32>,
    /// The space of each thread's process, by [`ThreadId::index`].
    thread_spaces: Vec<Option<u32>>,
    threads: Vec<ThreadId>,
    thread_places: FxHashMap<ThreadId, u32>,
    pub(crate) totals: Totals,
    pub(crate) unit: Unit,
    pub(crate) span_ns: Option<(i64, i64)>,
    pub(crate) clock: Option<Arc<ClockClass>>,
    pub(crate) period: Option<u64>,
    /// What periods count, if there are any.
    pub(crate) period_unit: Option<PeriodUnit>,
    /// Whether periods count different things, so that their sum is nothing.
    pub(crate) mixes_periods: bool,
}

impl Counts {
    /// Notes what the periods of another tracer's samples count.
    #[inline]
    pub(crate) fn counts_in(&mut self, unit: Period, event: &str) {
        let is_known = match (&self.period_unit, unit) {
            (Some(PeriodUnit::Ticks), Period::Ticks)
            | (Some(PeriodUnit::Nanoseconds), Period::Nanoseconds) => true,
            (Some(PeriodUnit::Events(known)), Period::Events) => **known == *event,
            _ => false,
        };
        if !is_known {
            self.mixes_periods |= self.period_unit.is_some();
            self.period_unit = Some(match unit {
                Period::Ticks => PeriodUnit::Ticks,
                Period::Nanoseconds => PeriodUnit::Nanoseconds,
                Period::Events => PeriodUnit::Events(Arc::from(event)),
            });
        }
    }

    /// Notes that processes execute other programs.
    #[inline]
    pub(crate) fn follow(&mut self, changes: &[Change]) {
        for change in changes {
            if let Change::Exec { .. } | Change::Forked { .. } = change {
                self.thread_spaces.clear();
            }
        }
    }

    /// The address spaces of a chain, which is the thread's if that is known.
    #[inline]
    pub(crate) fn header(
        &mut self,
        machine: &Machine,
        thread: Option<ThreadId>,
        chain: &CallChain,
    ) -> Header {
        let space = match chain.user.len {
            0 => 0,
            _ => self.space(machine, thread),
        };
        Header::new(chain, space)
    }

    /// Index of the names that stand before a chain.
    pub(crate) fn prefix(&mut self, names: Vec<Arc<str>>) -> u32 {
        if let Some(place) = self.prefix_places.get(&names) {
            return *place;
        }
        let place = self.prefixes.len() as u32;
        self.prefixes.push(names.clone());
        self.prefix_places.insert(names, place);
        place
    }

    /// Index of the thread in the profile.
    #[inline]
    pub(crate) fn thread(&mut self, id: Option<ThreadId>) -> u32 {
        let Some(id) = id else {
            return NONE;
        };
        let next = self.threads.len() as u32;
        let place = *self.thread_places.entry(id).or_insert(next);
        if place == next {
            self.threads.push(id);
        }
        place
    }

    /// The space of a thread's program.
    #[inline]
    fn space(&mut self, machine: &Machine, id: Option<ThreadId>) -> u32 {
        let place = id.map_or(usize::MAX, ThreadId::index);
        match self.thread_spaces.get(place) {
            Some(Some(space)) => *space,
            _ => self.find_space(machine, id),
        }
    }

    #[cold]
    fn find_space(&mut self, machine: &Machine, id: Option<ThreadId>) -> u32 {
        let thread = id.and_then(|id| machine.thread(id));
        let pid = thread.and_then(|thread| thread.pid);
        let own = pid.map(|pid| (machine.address_space(pid), machine.program(pid)));
        let space = match own {
            // Where its files are is known of the process alone.
            Some((own, _)) if !machine.mappings(own).is_empty() => Space::Process(own),
            Some((_, Some(path))) => Space::Program(Arc::clone(path)),
            Some((own, None)) => Space::Process(own),
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

    pub(crate) fn finish(self, tally: Tally, machine: &Machine) -> Chains {
        let thread = |id: &ThreadId| {
            let thread = machine.thread(*id);
            thread.map_or_else(Thread::default, |thread| Thread {
                tid: thread.tid,
                pid: thread.pid,
                name: thread.name.clone(),
                process: thread.pid.and_then(|pid| machine.process(pid).cloned()),
                cpu: thread.cpu,
                is_foreign: machine.is_foreign(),
            })
        };
        let mixes_periods = self.mixes_periods;
        let row = |(key, (weight, ticks)): (Key, (u64, u64))| {
            let some = |number: u32| (number != NONE).then_some(number);
            let row = Row {
                thread: some(key.thread),
                cpu: some(key.cpu),
                stack: None,
                mode: key.mode,
                weight,
                ticks: if mixes_periods { 0 } else { ticks },
            };
            (key, row)
        };
        let space_name = |space: &Space| match space {
            Space::Program(path) => Arc::clone(path),
            Space::Process(own) => {
                // The process is called after the program that it executed last.
                let is_last = machine.address_space(own.pid) == *own;
                let name = machine.process(own.pid).filter(|_| is_last);
                match (name, machine.mappings(*own).first()) {
                    (Some(name), _) => Arc::clone(name),
                    (None, Some(program)) => Arc::clone(&program.path),
                    (None, None) => Arc::from(format!("process {}", own.pid)),
                }
            }
            Space::Thread(u64::MAX) => Arc::from("program"),
            Space::Thread(tid) => Arc::from(format!("program of thread {tid}")),
        };
        let mappings = self.spaces.iter().filter_map(|space| match space {
            Space::Process(own) => Some((*own, machine.mappings(*own).to_vec())),
            _ => None,
        });
        let rows = tally.rows.into_iter().zip(tally.weights);
        Chains {
            threads: self.threads.iter().map(thread).collect(),
            mappings: mappings.collect(),
            space_names: self.spaces.iter().map(space_name).collect(),
            spaces: self.spaces,
            chains: tally.chains,
            rows: rows.map(row).collect(),
            prefixes: self.prefixes,
            samples: tally.samples,
            totals: self.totals,
            unit: self.unit,
            span_ns: self.span_ns,
            clock: self.clock,
            period: self.period.filter(|_| !mixes_periods),
            period_unit: self.period_unit.unwrap_or_default(),
        }
    }
}
