//! The model's state, and how items change it.

use std::borrow::Cow;
use std::sync::Arc;

use kymo::counter::BUCKETS;
use kymo::vocabulary::{Cpu as CpuNumber, IpcPath, LockKind, Tid};
use kymo_ctf::{EventRef, ItemRef, ValueRef};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::call::{CallId, CallKey, Calls};
use crate::change::{Change, Contradiction, Named, NotIdle};
use crate::counts::Counts;
use crate::cpu::Cpu;
use crate::gap::Gaps;
use crate::irq::IrqLine;
use crate::lock::Lock;
use crate::process::Spaces;
use crate::streams::{Stream, Streams};
use crate::thread::{Context, Doing, Thread, ThreadId, may_mean_idle};
use crate::typed::{self, ChainSource, Class, Meaning, StackSource};
use crate::understood::Dumped;

/// The current event.
#[derive(Clone, Copy)]
pub(crate) struct At<'r, 'e> {
    pub(crate) event: &'r EventRef<'e>,
    pub(crate) meaning: &'r Meaning,
    pub(crate) time: i64,
    /// Index of its CPU in [`Machine::cpus`].
    pub(crate) cpu: usize,
    /// Number of its CPU; `None` for names, which need none.
    pub(crate) number: Option<u64>,
    /// Whether Kymo recorded it.
    pub(crate) is_kymo: bool,
    /// Whether Kymo recorded it in a program that switches no threads of its own, so that its
    /// "CPUs" are the rings of its threads.
    pub(crate) is_program: bool,
}

impl<'e> At<'_, 'e> {
    pub(crate) fn comm(&self, place: usize) -> Option<Cow<'e, str>> {
        self.meaning.comm(self.event, place)
    }
}

/// A table by a number of the trace.
pub(crate) type Table<T> = FxHashMap<u64, T>;

/// The state of the traced machine after the items added so far.
///
/// A clone is a checkpoint: given the items that follow, it goes on as the original does. So does
/// one that was serialized and restored, if it gets items of the same trace; its form may change
/// with each version of this crate.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    pub(crate) streams: Streams,
    pub(crate) gaps: Gaps,
    pub(crate) losses: u64,
    pub(crate) now: i64,
    pub(crate) cpu: Option<u64>,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) cpu_places: Table<usize>,
    pub(crate) threads: Vec<Thread>,
    /// The last thread of each number, except the threads 0 of CPUs.
    by_tid: Table<ThreadId>,
    idle: Table<ThreadId>,
    pub(crate) processes: Table<Arc<str>>,
    /// Paths of the programs that processes execute.
    pub(crate) programs: Table<Arc<str>>,
    /// Where processes have loaded files.
    pub(crate) mappings: Spaces,
    pub(crate) locks: Table<Lock>,
    pub(crate) irqs: Table<Arc<str>>,
    pub(crate) users: Table<Arc<str>>,
    pub(crate) calls: Calls,
    pub(crate) counts: Counts,
    /// Whether the trace records thread creations. If not, a number may be reused without notice.
    pub(crate) has_creations: bool,
    /// By [`NotIdle`]: whether it was found of thread 0.
    not_idle: [bool; 5],
    #[serde(skip)]
    pub(crate) changes: Vec<Change>,
}

/// The kind of an added item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// An event with a time and a CPU.
    Event,
    /// An event that reports a name or a state, and no action.
    Name,
    /// An event without a time or a CPU, which changes nothing.
    Placeless,
    /// A loss, with its number.
    Loss(u64),
    /// An item that the machine ignores.
    Other,
}

impl Machine {
    /// A machine about which nothing is known.
    pub fn new() -> Machine {
        Machine::default()
    }

    /// Adds the next item. Its changes are in [`changes`](Self::changes) until the next call.
    #[inline]
    pub fn add(&mut self, item: &ItemRef<'_>) -> Taken {
        self.changes.clear();
        match item {
            ItemRef::Event(event) => self.event(event),
            ItemRef::Loss(loss) => self.loss(loss),
            ItemRef::Problem(problem) => self.problem(problem),
            _ => Taken::Other,
        }
    }

    /// The changes that the last item made, in order.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Time of the last item that has one, in nanoseconds from the clock's origin.
    pub fn now(&self) -> i64 {
        self.now
    }

    /// Number of the CPU of the last event, if it has one.
    pub fn cpu(&self) -> Option<u64> {
        self.cpu
    }

    /// The thread of this id.
    pub fn thread(&self, id: ThreadId) -> Option<&Thread> {
        self.threads.get(id.index())
    }

    /// All threads, in order of first appearance.
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// Ids of all [`threads`](Self::threads), in the same order.
    pub fn thread_ids(&self) -> impl Iterator<Item = ThreadId> + use<> {
        (0..self.threads.len()).map(|place| ThreadId(place as u32))
    }

    /// The last thread of this number, which may have ended. For thread 0 the CPU tells which.
    pub fn thread_of(&self, tid: u64, cpu: Option<u64>) -> Option<ThreadId> {
        match (tid, cpu) {
            (0, Some(cpu)) => self.idle.get(&cpu).copied(),
            _ => self.by_tid.get(&tid).copied(),
        }
    }

    /// Whether another tracer than Kymo recorded any of the trace, so that a thread without a process
    /// may still have one.
    pub fn is_foreign(&self) -> bool {
        self.streams.is_foreign()
    }

    /// The CPUs, in order of first appearance.
    pub fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    /// The CPU of this number.
    pub fn cpu_of(&self, number: u64) -> Option<&Cpu> {
        self.cpus.get(*self.cpu_places.get(&number)?)
    }

    /// The thread that runs on the CPU of this number, if it is known.
    pub fn running(&self, cpu: u64) -> Option<ThreadId> {
        self.cpu_of(cpu)?.current
    }

    /// Whether an open loss hides what the CPU of this number does.
    pub fn is_hidden(&self, cpu: u64) -> bool {
        self.gaps.hides(cpu)
    }

    /// The name of a process.
    pub fn process(&self, pid: u64) -> Option<&Arc<str>> {
        self.processes.get(&pid)
    }

    /// The processes that have names, in no order, with these.
    pub fn processes(&self) -> impl Iterator<Item = (u64, &Arc<str>)> {
        self.processes.iter().map(|(pid, name)| (*pid, name))
    }

    /// The name of a lock.
    pub fn lock_called(&self, lock: u64) -> Option<&Arc<str>> {
        self.locks.get(&lock)?.name.as_ref()
    }

    /// The name of an interrupt line.
    pub fn irq(&self, line: IrqLine) -> Option<&str> {
        match line.is_soft() {
            true => typed::softirq_name(line.number()),
            false => self.irqs.get(&line.0).map(|name| &**name),
        }
    }

    /// The name of a mark, span or counter.
    pub fn user(&self, id: u64) -> Option<&Arc<str>> {
        self.users.get(&id)
    }

    /// The name of something. For a system call that the trace identifies by name, that name.
    pub fn name(&self, of: Named) -> Option<&str> {
        match of {
            Named::Thread(id) => self.thread(id)?.name.as_deref(),
            Named::Process(pid) => self.process(pid).map(|name| &**name),
            Named::Lock(lock) => self.lock_called(lock).map(|name| &**name),
            Named::Irq(line) => self.irq(line),
            Named::Call(id) => match self.call(id)? {
                (CallKey::Named(name), _) => Some(name),
                (CallKey::Number(_), name) => name.map(|name| &**name),
            },
            Named::User(id) => self.user(id).map(|name| &**name),
        }
    }

    /// The system call of this number.
    pub fn call_of(&self, number: u64) -> Option<CallId> {
        self.calls.find(number)
    }

    /// A system call's key, and its name if the key is a number.
    pub fn call(&self, id: CallId) -> Option<(&CallKey, Option<&Arc<str>>)> {
        self.calls.get(id).map(|(key, name)| (key, name.as_ref()))
    }

    /// The system call that a thread is in, if it is known.
    pub fn call_in(&self, id: ThreadId) -> Option<CallId> {
        self.thread(id)?.context.call.map(|(call, _)| call)
    }

    /// Numbers of the thread and the process in the event's context, or else, in the trace of a
    /// program that recorded itself, of the thread whose ring has the event.
    pub fn context(&self, event: &EventRef<'_>) -> (Option<u64>, Option<u64>) {
        let class = self.class(event);
        let (tid, pid) = class.map_or((None, None), |class| (class.tid(event), class.pid(event)));
        let holder = event.cpu().and_then(|cpu| self.cpu_of(cpu)?.holder);
        match holder.and_then(|holder| self.thread(holder)) {
            Some(thread) if tid.is_none() => (Some(thread.tid), pid.or(thread.pid)),
            _ => (tid, pid),
        }
    }

    /// Whether events of this class can change the model.
    pub fn understands(&self, event: &EventRef<'_>) -> bool {
        self.class(event)
            .is_some_and(|class| !class.meanings.is_empty())
    }

    #[inline]
    pub(crate) fn chain_source(&self, event: &EventRef<'_>) -> Option<&ChainSource> {
        self.class(event)?.chain.as_ref()
    }

    pub(crate) fn stack_source(&self, event: &EventRef<'_>) -> Option<&StackSource> {
        self.class(event)?.stack.as_deref()
    }

    /// The path of the program that a process executes, if the trace has it.
    pub fn program(&self, pid: u64) -> Option<&Arc<str>> {
        self.programs.get(&pid)
    }

    pub(crate) fn class(&self, event: &EventRef<'_>) -> Option<&Class> {
        let stream = self.streams.get(event.stream_index())?;
        stream.known.classes.get(event.class().index())
    }

    /// The last thread of this number, added if it is new.
    pub fn meet_thread(&mut self, tid: u64, cpu: Option<u64>) -> ThreadId {
        self.known(tid, cpu)
    }

    /// Number of objects in memory: threads, CPUs, locks, names and open operations. It does not
    /// grow with the length of a trace.
    pub fn live_state(&self) -> usize {
        let threads = self.threads.iter().map(|of| 1 + of.context.pending());
        let cpus = self.cpus.iter().map(|cpu| 1 + cpu.open());
        threads.chain(cpus).sum::<usize>()
            + self.streams.len()
            + self.by_tid.len()
            + self.idle.len()
            + self.processes.len()
            + self.programs.len()
            + self.mappings.live()
            + self.calls.len()
            + self.counts.live()
            + self.irqs.len()
            + self.locks.len()
            + self.users.len()
            + self.gaps.live()
    }

    #[inline]
    pub(crate) fn change(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// Notes what happens to thread 0; other threads may do as they like.
    pub(crate) fn expect_idle(&mut self, tid: u64, what: NotIdle) {
        let found = self.not_idle.get_mut(what as usize);
        if tid == 0 && found.is_some_and(|found| !std::mem::replace(found, true)) {
            self.contradict(Contradiction::IdleThread(what));
        }
    }

    pub(crate) fn contradict(&mut self, rule: Contradiction) {
        self.change(Change::Contradiction(rule));
    }

    #[inline]
    fn event(&mut self, event: &EventRef<'_>) -> Taken {
        let Some(nanos) = event.nanos() else {
            return Taken::Placeless;
        };
        self.now = clamp(nanos);
        let place = event.stream_index();
        // Taken out to borrow it beside the machine: no event changes the meaning of events.
        let mut stream = self.streams.take(event);
        let taken = self.take(&mut stream, event);
        self.streams.put_back(place, stream);
        taken
    }

    #[inline]
    fn take(&mut self, stream: &mut Stream, event: &EventRef<'_>) -> Taken {
        let known = &stream.known;
        let Some(class) = known.classes.get(event.class().index()) else {
            return Taken::Placeless;
        };
        let is_lossy = !self.gaps.is_empty();
        if is_lossy {
            let is_kymo = known.is_kymo;
            self.gaps
                .pass(self.now, Some(event), is_kymo, &mut self.changes);
        }
        let number = class.cpu(event);
        self.cpu = number;
        if let (Some(pid), Some(tid)) = (class.pid(event), class.tid(event))
            && stream.last.process != Some((pid, tid))
        {
            stream.last.process = Some((pid, tid));
            self.belongs(tid, pid, class.process_name(event));
        }
        if class.has_mapping()
            && let Some((pid, mapping)) = class.mapping(event)
        {
            self.mapped(pid, mapping);
        }
        let mut cpu = usize::MAX;
        if !class.is_name {
            let Some(number) = number else {
                return Taken::Placeless;
            };
            // In most streams all events are of one CPU.
            cpu = match stream.last.cpu {
                Some((of, place)) if of == number => place,
                _ => {
                    let place = self.cpu_place(number);
                    stream.last.cpu = Some((number, place));
                    place
                }
            };
            if let Some(state) = self.cpus.get_mut(cpu) {
                state.last = self.now;
            }
        }
        for meaning in &class.meanings {
            if meaning.holds(event) {
                let at = At {
                    event,
                    meaning,
                    time: self.now,
                    cpu,
                    number,
                    is_kymo: known.is_kymo,
                    is_program: known.is_program,
                };
                self.apply(meaning.event, &at);
            }
        }
        if class.is_name {
            return Taken::Name;
        }
        if is_lossy && number.is_some_and(|number| self.gaps.hides(number)) {
            self.forget(cpu);
        }
        Taken::Event
    }

    /// Notes to which process the thread in an event's context belongs, and what Linux calls it.
    /// Idle threads belong to none.
    #[cold]
    fn belongs(&mut self, tid: u64, pid: u64, name: Option<Cow<'_, str>>) {
        let (Some(tid), Some(pid)) = (known(tid), known(pid)) else {
            return;
        };
        if tid == 0 {
            return;
        }
        let id = self.known(tid, None);
        let Some(thread) = self.threads.get_mut(id.index()) else {
            return;
        };
        thread.pid = Some(pid);
        if thread.name.is_none() {
            self.call_thread(id, name.clone());
        }
        if tid == pid && !self.processes.contains_key(&pid) {
            self.process_name(Some(pid), name);
        }
    }

    /// Index of the CPU of this number, added if it is new.
    #[cold]
    pub(crate) fn cpu_place(&mut self, number: u64) -> usize {
        let next = self.cpus.len();
        let place = *self.cpu_places.entry(number).or_insert(next);
        if place == next {
            self.cpus.push(Cpu::new(number));
        }
        place
    }

    /// Ends the states of all threads at `end`, in nanoseconds from the clock's origin: each lasts
    /// until then, except after a loss.
    pub fn finish(&mut self, end: i64) {
        self.changes.clear();
        self.gaps.pass(end, None, false, &mut self.changes);
        let losses = self.gaps.stamp();
        for place in 0..self.threads.len() {
            let id = ThreadId(place as u32);
            self.refresh(id, losses);
            if let Some(thread) = self.threads.get(place) {
                self.begin(id, thread.doing, end, losses);
            }
        }
    }

    /// Puts the thread into the state `next`, and reports the state that ends at `time`.
    pub(crate) fn begin(&mut self, id: ThreadId, next: Doing, time: i64, losses: Option<u64>) {
        let Some(thread) = self.threads.get_mut(id.index()) else {
            return;
        };
        let (was, since) = (thread.doing, thread.since);
        thread.has_lived |= since < time && !matches!(was, Doing::Unknown | Doing::Ended);
        (thread.doing, thread.since, thread.losses) = (next, time, losses);
        self.changes.push(Change::Doing {
            thread: id,
            was,
            since,
            until: time,
            now: next,
        });
    }

    /// Forgets a thread's context.
    pub(crate) fn interrupt(&mut self, id: ThreadId) {
        if let Some(thread) = self.threads.get_mut(id.index()) {
            thread.context.forget();
            self.change(Change::Interrupted { thread: id });
        }
    }

    /// Forgets a thread's state and context if a loss has made them unknown.
    pub(crate) fn refresh(&mut self, id: ThreadId, losses: Option<u64>) {
        let Some(thread) = self.threads.get_mut(id.index()) else {
            return;
        };
        if thread.is_stale(losses) {
            let since = thread.since;
            (thread.wake, thread.left) = (None, None);
            if thread.context.pending() > 0 {
                thread.context.forget();
                self.changes.push(Change::Interrupted { thread: id });
            }
            if thread.doing != Doing::Unknown {
                let was = std::mem::take(&mut thread.doing);
                self.changes.push(Change::Doing {
                    thread: id,
                    was,
                    since,
                    until: since,
                    now: Doing::Unknown,
                });
            }
        }
    }

    fn new_thread(&mut self, tid: u64, cpu: Option<u64>) -> ThreadId {
        let id = ThreadId(u32::try_from(self.threads.len()).unwrap_or(u32::MAX));
        let cpu = cpu.filter(|_| tid == 0);
        self.threads.push(Thread {
            tid,
            cpu,
            ..Thread::default()
        });
        match cpu {
            Some(cpu) => self.idle.insert(cpu, id),
            None => self.by_tid.insert(tid, id),
        };
        id
    }

    /// The thread that is created under this number.
    pub(crate) fn created(&mut self, tid: u64, cpu: Option<u64>) -> ThreadId {
        let known = self.thread_of(tid, cpu);
        // Its name or priority may precede its creation.
        let unused = known.filter(|id| self.thread(*id).is_some_and(Thread::is_unused));
        if let (None, Some(thread)) = (unused, known) {
            self.change(Change::Replaced { thread });
        }
        unused.unwrap_or_else(|| self.new_thread(tid, cpu))
    }

    /// The last thread of this number, which may have ended; added if it is new.
    #[inline]
    pub(crate) fn known(&mut self, tid: u64, cpu: Option<u64>) -> ThreadId {
        match self.thread_of(tid, cpu) {
            Some(id) => id,
            None => self.new_thread(tid, cpu),
        }
    }

    /// The living thread of this number: a new one if the last has ended.
    #[inline]
    pub(crate) fn living(&mut self, tid: u64, cpu: Option<u64>) -> ThreadId {
        let id = self.known(tid, cpu);
        match self.thread(id).is_some_and(|of| of.doing == Doing::Ended) {
            true => self.created(tid, cpu),
            false => id,
        }
    }

    #[inline]
    pub(crate) fn current(&self, cpu: usize) -> Option<ThreadId> {
        self.cpus.get(cpu)?.current
    }

    /// Context of the thread that runs on the CPU.
    pub(crate) fn running_context(&mut self, cpu: usize) -> Option<&mut Context> {
        let state = self.cpus.get_mut(cpu)?;
        match state.current {
            Some(id) => self.threads.get_mut(id.index()).map(|of| &mut of.context),
            None => Some(&mut state.stranger),
        }
    }

    pub(crate) fn call_thread(&mut self, id: ThreadId, name: Option<Cow<'_, str>>) {
        if let (Some(name), Some(thread)) = (name, self.threads.get_mut(id.index()))
            && thread.name.as_deref() != Some(&*name)
        {
            thread.name = Some(Arc::from(&*name));
            self.change(Change::Named(Named::Thread(id)));
        }
    }

    pub(crate) fn thread_name(
        &mut self,
        tid: Option<u64>,
        name: Option<Cow<'_, str>>,
        dumped: Dumped,
        at: &At<'_, '_>,
    ) {
        let Some(tid) = tid else { return };
        let id = self.known(tid, dumped.cpu.or(at.number));
        let is_idle = name.as_deref().is_none_or(may_mean_idle);
        self.call_thread(id, name);
        if !is_idle {
            self.expect_idle(tid, NotIdle::Named);
        }
        if let Some(thread) = self.threads.get_mut(id.index()) {
            thread.pid = dumped.pid.or(thread.pid);
            // An event is more accurate than a dump.
            thread.prio = thread.prio.or(dumped.prio);
            thread.dumped = dumped.state.or(thread.dumped);
        }
        if let (true, Some(ring)) = (at.is_program, dumped.cpu) {
            self.hold(id, ring);
        }
    }

    pub(crate) fn lock_name(
        &mut self,
        lock: Option<u64>,
        name: Option<Cow<'_, str>>,
        kind: Option<LockKind>,
    ) {
        let Some(lock) = lock else { return };
        let state = self.locks.entry(lock).or_default();
        state.kind = kind;
        state.name = name.map(|name| Arc::from(&*name));
        self.change(Change::Named(Named::Lock(lock)));
    }

    pub(crate) fn rename(
        &mut self,
        table: impl FnOnce(&mut Machine) -> &mut Table<Arc<str>>,
        number: u64,
        name: &str,
        what: Named,
    ) {
        let table = table(self);
        if table.get(&number).is_none_or(|old| **old != *name) {
            table.insert(number, Arc::from(name));
            self.change(Change::Named(what));
        }
    }

    pub(crate) fn irq_enter(&mut self, irq: Option<u64>, at: &At<'_, '_>) {
        if let (Some(line), Some(state)) = (irq.map(IrqLine), self.cpus.get_mut(at.cpu)) {
            let depth = state.enter(line, at.time);
            self.change(Change::IrqEnter { line, depth });
        }
    }

    pub(crate) fn irq_exit(&mut self, irq: Option<u64>, at: &At<'_, '_>) {
        let (Some(line), Some(state)) = (irq.map(IrqLine), self.cpus.get_mut(at.cpu)) else {
            return;
        };
        let was_open = state.is_in_interrupt();
        match state.leave(line, at.time) {
            None if was_open => {
                self.change(Change::IrqMismatch { line });
                self.contradict(Contradiction::IrqPair { line });
            }
            since => self.change(Change::IrqExit { line, since }),
        }
    }

    fn met_call(&mut self, id: Option<u64>, at: &At<'_, '_>) -> Option<CallId> {
        match &at.meaning.call {
            Some(name) => Some(self.calls.named(name)),
            None => id.map(|id| self.calls.number(id)),
        }
    }

    pub(crate) fn call_enter(&mut self, id: Option<u64>, at: &At<'_, '_>) {
        let Some(call) = self.met_call(id, at) else {
            return;
        };
        let thread = self.current(at.cpu);
        let mut unfinished = None;
        if let Some(context) = self.running_context(at.cpu) {
            unfinished = context.call.replace((call, at.time)).map(|(call, _)| call);
            context.executed = None;
        }
        self.change(Change::CallEnter {
            call,
            thread,
            unfinished,
        });
    }

    pub(crate) fn call_exit(&mut self, id: Option<u64>, result: Option<i64>, at: &At<'_, '_>) {
        let Some(call) = self.met_call(id, at) else {
            return;
        };
        let context = self.running_context(at.cpu);
        let (began, executed) = context.map_or((None, None), |context| {
            (context.call.take(), context.executed.take())
        });
        if began.is_none() && executed == Some(call) {
            return;
        }
        if let Some((began, _)) = began.filter(|(began, _)| *began != call) {
            self.contradict(Contradiction::SyscallPair { ends: call, began });
        }
        let since = began.filter(|(began, _)| *began == call);
        self.change(Change::CallExit {
            call,
            since: since.map(|(_, since)| since),
            thread: self.current(at.cpu),
            failed: result.is_some_and(|result| result < 0),
        });
    }

    /// The buckets of a histogram, from `first` on, and the sum of its values.
    pub(crate) fn histogram(
        &mut self,
        of: (Option<u64>, Option<u64>),
        sum: Option<u64>,
        first: Option<u64>,
        buckets: Option<ValueRef<'_>>,
    ) {
        let ((Some(cpu), Some(counter)), Some(first)) = (of, first) else {
            return;
        };
        let mut counts = Vec::new();
        if let Some(ValueRef::Array(buckets)) = buckets {
            buckets.append_unsigned(&mut counts);
        }
        let buckets = (first..BUCKETS as u64).zip(counts);
        let sum = sum.map(|sum| (BUCKETS as u64, sum));
        for (bucket, count) in buckets.chain(sum) {
            self.change(Change::OwnBucket {
                cpu,
                counter,
                bucket,
                count,
            });
        }
    }

    pub(crate) fn message(
        &mut self,
        mechanism: &'static str,
        sends: bool,
        path: Option<IpcPath>,
        len: Option<u64>,
    ) {
        self.change(Change::Message {
            mechanism,
            sends,
            path,
            len: len.unwrap_or(0),
        });
    }

    pub(crate) fn span(&mut self, id: Option<u64>, begins: bool, at: &At<'_, '_>) {
        let (Some(id), thread) = (id, self.current(at.cpu)) else {
            return;
        };
        let Some(context) = self.running_context(at.cpu) else {
            return;
        };
        if !begins {
            let ends = context.end_span(id);
            self.change(Change::SpanEnd { id, thread, ends });
        } else if context.begin_span(id) {
            self.change(Change::SpanBegin { id, thread });
        }
    }
}

/// The number of a thread or a CPU, unless the kernel did not know it.
pub(crate) fn known(number: u64) -> Option<u64> {
    const _: () = assert!(Tid::UNKNOWN.0 == u32::MAX && CpuNumber::UNKNOWN.0 == u32::MAX);
    (number != u64::from(u32::MAX)).then_some(number)
}

pub(crate) fn clamp(nanos: i128) -> i64 {
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}
