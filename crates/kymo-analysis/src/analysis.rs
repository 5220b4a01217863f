//! The pass over the trace.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use kymo::vocabulary::{LockKind, SwitchReason};
use kymo_ctf::{Error, Event, Item, Metadata, Value};

use crate::context::{Context, Faults, Wait};
use crate::contradiction::{AFTER_END, IRQ_PAIR, LOCK_HELD, ONE_CPU, SWITCH_CHAIN, SYSCALL_PAIR};
use crate::cpu::{CpuState, IrqState};
use crate::gap::Gaps;
use crate::histogram::Histogram;
use crate::kind::{Kind, Kinds, Left, SyscallKey};
use crate::lock::{LockState, Longest};
use crate::report::{ClockHealth, Contradictions, Messages, Report, ThreadRef};
use crate::span::{Span, SpanKind};
use crate::thread::{Doing, ThreadState, Wake, Waker, passed};

/// How many of the longest latencies are kept.
const WORST: usize = 5;

/// A system call's figures.
#[derive(Debug, Default)]
pub(crate) struct SyscallState {
    pub(crate) name: Option<String>,
    pub(crate) count: u64,
    pub(crate) errors: u64,
    pub(crate) durations: Histogram,
}

/// One of the longest latencies.
#[derive(Debug)]
pub(crate) struct Worst {
    pub(crate) latency: u64,
    pub(crate) woken: i64,
    pub(crate) ran: i64,
    pub(crate) thread: usize,
    pub(crate) waker: Waker,
    pub(crate) cpu: u64,
}

/// Takes a trace's items in the order of time.
#[derive(Debug)]
pub struct Analysis {
    kinds: Kinds,
    pub(crate) gaps: Gaps,
    pub(crate) span: Option<(i64, i64)>,
    pub(crate) events: u64,
    pub(crate) placeless: u64,
    pub(crate) damage: Vec<String>,
    pub(crate) clock: ClockHealth,
    /// The last stamp and the CPU of each stream.
    streams: HashMap<Arc<str>, (u64, Option<u64>)>,
    pub(crate) cpus: BTreeMap<u64, CpuState>,
    pub(crate) threads: Vec<ThreadState>,
    /// The living thread of each number; number 0 is another thread on each CPU.
    by_tid: HashMap<(u64, Option<u64>), usize>,
    pub(crate) processes: BTreeMap<u64, String>,
    pub(crate) syscalls: BTreeMap<SyscallKey, SyscallState>,
    pub(crate) irqs: BTreeMap<u64, IrqState>,
    pub(crate) nesting: usize,
    pub(crate) wakes: Histogram,
    pub(crate) worst: Vec<Worst>,
    pub(crate) locks: BTreeMap<u64, LockState>,
    pub(crate) messages: BTreeMap<(&'static str, Option<String>), Messages>,
    /// Of threads that nobody named before a loss.
    pub(crate) strangers: Context,
    pub(crate) contradictions: Contradictions,
    /// Whether threads' beginnings are recorded: otherwise a number may be used again in silence.
    creates: bool,
    /// What the last item ended, if anybody wants to know.
    spans: Option<Vec<Span>>,
}

/// A field's value as an unsigned integer.
fn number(event: &Event, name: &str) -> Option<u64> {
    event.fields.get(name)?.as_u64()
}

fn signed(event: &Event, name: &str) -> Option<i64> {
    event.fields.get(name)?.as_i64()
}

fn text(event: &Event, name: &str) -> Option<String> {
    event.fields.get(name)?.as_str().map(str::to_owned)
}

/// The label of an enumeration's value, in lower case.
fn label(event: &Event, name: &str) -> Option<String> {
    match event.fields.get(name)? {
        Value::Enum { labels, value } => Some(
            labels
                .first()
                .map_or_else(|| value.to_string(), |label| label.to_lowercase()),
        ),
        _ => None,
    }
}

fn clamp(nanos: i128) -> i64 {
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

/// What the thread that leaves does from here on.
fn left(event: &Event) -> Doing {
    match Left::of(event) {
        Left::Unknown => Doing::Unknown,
        Left::Runnable => Doing::Runnable,
        Left::Blocked => Doing::Blocked(None),
        Left::Sleeping => Doing::Sleeping,
        Left::Suspended => Doing::Suspended,
        Left::Ended => Doing::Ended,
    }
}

/// How many sentences on what is wrong with a trace are kept.
const MOST_DAMAGE: usize = 100;

impl Analysis {
    /// Of a trace with this metadata.
    pub fn new(metadata: &Metadata) -> Analysis {
        let by_kymo = metadata
            .env()
            .iter()
            .any(|(name, value)| name == "tracer_name" && value.to_string() == "kymo");
        let clock = metadata.clocks().first().map(|clock| ClockHealth {
            name: clock.name.to_string(),
            frequency_hz: clock.frequency,
            absolute: clock.absolute,
            ..ClockHealth::default()
        });
        Analysis {
            kinds: Kinds::new(metadata),
            gaps: Gaps::new(by_kymo),
            span: None,
            events: 0,
            placeless: 0,
            damage: Vec::new(),
            clock: clock.unwrap_or_default(),
            streams: HashMap::new(),
            cpus: BTreeMap::new(),
            threads: Vec::new(),
            by_tid: HashMap::new(),
            processes: BTreeMap::new(),
            syscalls: BTreeMap::new(),
            irqs: BTreeMap::new(),
            nesting: 0,
            wakes: Histogram::default(),
            worst: Vec::new(),
            locks: BTreeMap::new(),
            messages: BTreeMap::new(),
            strangers: Context::default(),
            contradictions: Contradictions::default(),
            creates: false,
            spans: None,
        }
    }

    /// From here on [`spans`](Self::spans) are kept.
    pub fn keep_spans(&mut self) {
        self.spans.get_or_insert_default();
    }

    /// What the last item ended.
    pub fn spans(&self) -> &[Span] {
        self.spans.as_deref().unwrap_or_default()
    }

    /// The thread that runs on a CPU, as far as it is known.
    pub fn running(&self, cpu: u64) -> Option<ThreadRef> {
        let thread = self.threads.get(self.current(cpu)?)?;
        Some(ThreadRef {
            tid: thread.tid,
            name: thread.name.clone(),
        })
    }

    /// Something ends.
    fn lasted(
        &mut self,
        kind: SpanKind,
        (begin_ns, end_ns): (i64, i64),
        cpu: u64,
        thread: Option<usize>,
        object: Option<u64>,
    ) {
        if let Some(spans) = &mut self.spans {
            let tid = thread
                .and_then(|place| self.threads.get(place))
                .map(|thread| thread.tid);
            spans.push(Span {
                kind,
                begin_ns,
                end_ns,
                cpu,
                tid,
                object,
                call: None,
            });
        }
    }

    /// Takes the next item.
    pub fn add(&mut self, item: &Item) {
        if let Some(spans) = &mut self.spans {
            spans.clear();
        }
        match item {
            Item::Event(event) => self.event(event),
            Item::Loss(loss) => {
                let (begin, end) = (loss.begin_nanos.map(clamp), loss.end_nanos.map(clamp));
                let listed = self.gaps.list(loss, begin, end);
                if let Some(begin) = begin {
                    self.gaps.pass(begin, None);
                    self.stretch(begin);
                }
                if Gaps::matters(&loss.stream) {
                    // Without a clock there is no telling when it was over.
                    self.lose(loss.cpu, &loss.stream, end, listed);
                }
            }
            // A broken clock may step back at every event.
            Item::Problem(problem) if self.damage.len() < MOST_DAMAGE => {
                self.damage.push(problem.to_string())
            }
            _ => {}
        }
    }

    /// Takes note of a packet, or the rest of a stream, that cannot be read.
    pub fn damaged(&mut self, error: &Error) {
        if self.damage.len() < MOST_DAMAGE {
            let goes_on = match error {
                Error::Stream {
                    resumes: Some(offset),
                    ..
                } => format!("reading goes on at byte {offset}"),
                _ => "nothing more is read from there".to_owned(),
            };
            self.damage.push(format!("{error}; {goes_on}"));
        }
        if let Error::Stream { file, .. } = error
            && Gaps::matters(file)
        {
            let cpu = self.streams.get(file.as_str()).and_then(|(_, cpu)| *cpu);
            self.lose(cpu, &Arc::from(file.as_str()), None, None);
        }
    }

    /// Everything that was found.
    pub fn finish(self) -> Report {
        crate::finish::report(self)
    }

    /// How many things are remembered: threads, CPUs, locks, buckets, and what is under way. It
    /// does not grow with the length of a trace.
    pub fn live_state(&self) -> usize {
        let histograms = self.syscalls.values().map(|call| call.durations.buckets());
        let histograms = histograms.chain(self.irqs.values().map(|irq| irq.durations.buckets()));
        let locks = self
            .locks
            .values()
            .map(|lock| 1 + lock.waits.buckets() + lock.holds.buckets() + lock.waiters.len());
        let threads = self.threads.iter().map(|thread| {
            1 + thread.context.pending()
                + thread.blocked_on.len()
                + thread.switches.len()
                + thread.wakes.buckets()
        });
        let cpus = self.cpus.values().map(|cpu| 1 + cpu.ran.len() + cpu.open());
        let tables = self.streams.len()
            + self.by_tid.len()
            + self.processes.len()
            + self.syscalls.len()
            + self.irqs.len();
        let rest = self.worst.len()
            + self.messages.len()
            + self.gaps.live()
            + self.wakes.buckets()
            + self.contradictions.first.len();
        histograms
            .chain(locks)
            .chain(threads)
            .chain(cpus)
            .sum::<usize>()
            + tables
            + rest
    }

    fn stretch(&mut self, time: i64) {
        let (begin, end) = self.span.unwrap_or((time, time));
        self.span = Some((begin.min(time), end.max(time)));
    }

    /// From here on it is not known what the CPU (all, where it is not told which) does.
    fn lose(
        &mut self,
        cpu: Option<u64>,
        stream: &Arc<str>,
        end: Option<i64>,
        listed: Option<usize>,
    ) {
        self.gaps.begin(cpu, stream, end, listed);
        let cpus: Vec<u64> = self
            .cpus
            .keys()
            .copied()
            .filter(|&of| cpu.is_none_or(|cpu| cpu == of))
            .collect();
        for cpu in cpus {
            self.forget(cpu);
        }
    }

    fn forget(&mut self, cpu: u64) {
        let Some(state) = self.cpus.get_mut(&cpu) else {
            return;
        };
        let current = state.current;
        let last = state.last;
        state.forget();
        let stranger = std::mem::take(&mut state.stranger);
        self.strangers.count(stranger.faults, stranger.fault_causes);
        if let Some(place) = current {
            // It ran until the CPU's last event at least.
            self.credit(cpu, place, last);
            if let Some(thread) = self.threads.get_mut(place) {
                thread.begin(Doing::Unknown, last, None);
                thread.context.forget();
            }
        }
    }

    /// Adds the time of the thread that runs up to now to the CPU.
    pub(crate) fn credit(&mut self, cpu: u64, place: usize, time: i64) {
        let since = self.threads.get(place).map_or(time, |thread| thread.since);
        if let Some(state) = self.cpus.get_mut(&cpu) {
            *state.ran.entry(place).or_default() += passed(since, time);
        }
    }

    fn event(&mut self, event: &Event) {
        self.events += 1;
        let (Some(ticks), Some(nanos)) = (event.time, event.nanos()) else {
            self.placeless += 1;
            return;
        };
        let time = clamp(nanos);
        if self.span.is_none()
            && let Some(begin) = event.packet.begin
            && let Some(clock) = &event.packet.class.clock
        {
            self.stretch(clamp(clock.nanos_from_origin(begin)));
        }
        self.stretch(time);
        match self.streams.get_mut(event.stream()) {
            Some((last, cpu)) => {
                match ticks
                    .0
                    .checked_sub(*last)
                    .filter(|_| Gaps::matters(event.stream()))
                {
                    Some(0) => self.clock.equal_stamps += 1,
                    Some(step) => {
                        let smallest = self.clock.smallest_step_ticks.unwrap_or(step);
                        self.clock.smallest_step_ticks = Some(smallest.min(step));
                    }
                    None => {}
                }
                (*last, *cpu) = (ticks.0, event.cpu());
            }
            None => {
                self.streams
                    .insert(Arc::clone(event.stream()), (ticks.0, event.cpu()));
            }
        }
        self.gaps.pass(time, Some(event));
        let kind = self.kinds.get(event);
        if self.name(&kind, event) {
            return;
        }
        let Some(cpu) = event.cpu() else {
            self.placeless += 1;
            return;
        };
        self.cpus.entry(cpu).or_default().last = time;
        self.happened(&kind, event, cpu, time);
        if self.gaps.hides(cpu) {
            self.forget(cpu);
        }
    }

    /// Names and state dumps, which are no happenings. Whether it was one.
    fn name(&mut self, kind: &Kind, event: &Event) -> bool {
        match kind {
            Kind::ThreadName | Kind::ThreadState => {
                let Some(tid) = number(event, "tid") else {
                    return true;
                };
                let cpu = number(event, "cpu").or(event.cpu());
                let place = self.known(tid, cpu);
                let Some(thread) = self.threads.get_mut(place) else {
                    return true;
                };
                thread.name = text(event, "name").or(thread.name.take());
                thread.pid = number(event, "pid").or(thread.pid);
                // Later events know better than a dump.
                if thread.prio.is_none() {
                    thread.prio = signed(event, "prio");
                }
                thread.dumped = label(event, "state").or(thread.dumped.take());
            }
            Kind::ProcessName => {
                if let (Some(pid), Some(name)) = (number(event, "pid"), text(event, "name")) {
                    self.processes.insert(pid, name);
                }
            }
            Kind::LockName => {
                if let Some(lock) = number(event, "lock") {
                    let state = self.locks.entry(lock).or_default();
                    state.name = text(event, "name");
                    state.kind = label(event, "kind");
                }
            }
            Kind::IrqName => {
                if let Some(irq) = number(event, "irq") {
                    self.irqs.entry(irq).or_default().name = text(event, "name");
                }
            }
            Kind::SyscallName => {
                if let Some(id) = number(event, "id") {
                    self.syscalls
                        .entry(SyscallKey::Number(id))
                        .or_default()
                        .name = text(event, "name");
                }
            }
            _ => return false,
        }
        true
    }

    fn happened(&mut self, kind: &Kind, event: &Event, cpu: u64, time: i64) {
        match kind {
            Kind::Switch => self.switch(event, cpu, time),
            Kind::Wakeup => self.wakeup(event, cpu, time),
            Kind::Create => {
                let Some(tid) = number(event, "tid") else {
                    return;
                };
                let place = self.fresh(tid, cpu);
                let losses = self.gaps.stamp();
                if let Some(thread) = self.threads.get_mut(place) {
                    thread.pid = number(event, "pid");
                    thread.prio = signed(event, "prio");
                    thread.created = Some(time);
                    self.creates = true;
                    thread.begin(Doing::Unknown, time, losses);
                }
            }
            Kind::Exit => {
                let Some(tid) = number(event, "tid") else {
                    return;
                };
                let place = self.known(tid, Some(cpu));
                let losses = self.gaps.stamp();
                let Some(thread) = self.threads.get_mut(place) else {
                    return;
                };
                thread.pid = number(event, "pid").or(thread.pid);
                thread.refresh(losses);
                if thread.doing.is_running() {
                    // It still runs until the switch.
                    thread.ended.get_or_insert(time);
                } else {
                    thread.begin(Doing::Ended, time, losses);
                    thread.ended.get_or_insert(time);
                    thread.context.forget();
                }
            }
            Kind::Suspend | Kind::Resume => {
                let Some(tid) = number(event, "tid") else {
                    return;
                };
                let place = self.known(tid, Some(cpu));
                let losses = self.gaps.stamp();
                let Some(thread) = self.threads.get_mut(place) else {
                    return;
                };
                thread.refresh(losses);
                match (kind, thread.doing) {
                    // One that runs, here or on another CPU, is suspended at its next switch, which
                    // says so.
                    (_, Doing::Running(_) | Doing::Ended) => {}
                    (Kind::Suspend, _) => thread.begin(Doing::Suspended, time, losses),
                    (_, Doing::Suspended | Doing::Unknown) => {
                        thread.begin(Doing::Runnable, time, losses)
                    }
                    _ => {}
                }
            }
            Kind::Priority => {
                let Some(tid) = number(event, "tid") else {
                    return;
                };
                let place = self.known(tid, Some(cpu));
                if let Some(thread) = self.threads.get_mut(place) {
                    thread.prio = signed(event, "newprio").or(thread.prio);
                }
            }
            Kind::IrqEnter | Kind::IrqExit => {
                self.interrupt(matches!(kind, Kind::IrqEnter), event, cpu, time)
            }
            Kind::SyscallEnter(name) | Kind::SyscallExit(name) => {
                let key = match name {
                    Some(name) => SyscallKey::Named(Arc::clone(name)),
                    None => match number(event, "id") {
                        Some(id) => SyscallKey::Number(id),
                        None => return,
                    },
                };
                match kind {
                    Kind::SyscallEnter(_) => {
                        self.syscalls.entry(key.clone()).or_default().count += 1;
                        self.context(cpu).syscall = Some((key, time));
                    }
                    _ => self.syscall_exit(key, event, cpu, time),
                }
            }
            Kind::LockWait | Kind::LockAcquired | Kind::LockReleased | Kind::LockFailed => {
                self.lock(kind, event, cpu, time)
            }
            Kind::PageFault(user) => {
                let user = user.or(number(event, "user").map(|user| user != 0));
                let cause = label(event, "cause");
                let context = self.context(cpu);
                let mut faults = Faults::default();
                *match user {
                    Some(true) => &mut faults.user,
                    Some(false) => &mut faults.kernel,
                    None => &mut faults.untold,
                } += 1;
                context.count(faults, cause.map(|cause| (cause, 1)).into_iter().collect());
            }
            Kind::Message(mechanism, sends) => {
                let path = label(event, "path");
                let messages = self.messages.entry((*mechanism, path.clone())).or_default();
                (messages.mechanism, messages.path) = (mechanism, path);
                let (count, bytes) = match sends {
                    true => (&mut messages.sent, &mut messages.sent_bytes),
                    false => (&mut messages.received, &mut messages.received_bytes),
                };
                *count += 1;
                *bytes = bytes.saturating_add(number(event, "len").unwrap_or(0));
            }
            _ => {}
        }
    }

    /// A thread that was just made.
    fn fresh(&mut self, tid: u64, cpu: u64) -> usize {
        let key = (tid, (tid == 0).then_some(cpu));
        let place = match self.by_tid.get(&key) {
            // A name or a priority may come before.
            Some(&place) if self.threads.get(place).is_some_and(ThreadState::is_unused) => place,
            _ => self.threads.len(),
        };
        if place == self.threads.len() {
            self.threads.push(ThreadState {
                tid,
                cpu: key.1,
                ..ThreadState::default()
            });
            self.by_tid.insert(key, place);
        }
        place
    }

    /// The last thread of this number, which may have ended.
    fn known(&mut self, tid: u64, cpu: Option<u64>) -> usize {
        let key = (tid, cpu.filter(|_| tid == 0));
        match self.by_tid.get(&key) {
            Some(&place) => place,
            None => {
                self.threads.push(ThreadState {
                    tid,
                    cpu: key.1,
                    ..ThreadState::default()
                });
                self.by_tid.insert(key, self.threads.len() - 1);
                self.threads.len() - 1
            }
        }
    }

    /// The thread of this number that lives: another one than before, if that one has ended.
    fn living(&mut self, tid: u64, cpu: u64) -> usize {
        let place = self.known(tid, Some(cpu));
        match self
            .threads
            .get(place)
            .is_some_and(|thread| thread.doing == Doing::Ended)
        {
            true => self.fresh(tid, cpu),
            false => place,
        }
    }

    /// What the thread that runs on the CPU is in the middle of.
    fn context(&mut self, cpu: u64) -> &mut Context {
        let state = self.cpus.entry(cpu).or_default();
        match state.current.and_then(|place| self.threads.get_mut(place)) {
            Some(thread) => &mut thread.context,
            None => &mut state.stranger,
        }
    }

    fn current(&self, cpu: u64) -> Option<usize> {
        self.cpus.get(&cpu)?.current
    }

    fn switch(&mut self, event: &Event, cpu: u64, time: i64) {
        let (Some(prev), Some(next)) = (number(event, "prev_tid"), number(event, "next_tid"))
        else {
            return;
        };
        let losses = self.gaps.stamp();
        let prev = self.known(prev, Some(cpu));
        let state = self.cpus.entry(cpu).or_default();
        state.switches += 1;
        let current = state.current.take();
        let stranger = std::mem::take(&mut state.stranger);
        match current {
            None => {
                if let Some(thread) = self.threads.get_mut(prev) {
                    thread.context.forget();
                    thread.context.absorb(stranger);
                }
            }
            Some(place) if place == prev => {
                self.credit(cpu, place, time);
                if let Some(thread) = self.threads.get(place).filter(|thread| !thread.is_idle()) {
                    let since = thread.since;
                    self.lasted(SpanKind::OnCpu, (since, time), cpu, Some(place), None);
                }
            }
            Some(place) => {
                let tid = |place: usize| self.threads.get(place).map_or(0, |thread| thread.tid);
                let (was, is) = (tid(place), tid(prev));
                self.contradictions.add(SWITCH_CHAIN, time, cpu, || {
                    format!("a switch from thread {is}, but thread {was} ran here")
                });
                if let Some(thread) = self.threads.get_mut(place) {
                    (thread.doing, thread.since, thread.losses) = (Doing::Unknown, time, None);
                    thread.context.forget();
                }
                if let Some(thread) = self.threads.get_mut(prev) {
                    thread.context.forget();
                }
            }
        }
        if let Some(thread) = self.threads.get_mut(prev) {
            if current != Some(prev) {
                // How long it ran is not known.
                thread.doing = Doing::Unknown;
            }
            thread.name = text(event, "prev_comm").or(thread.name.take());
            let mut doing = left(event);
            if let (Doing::Blocked(None), Some(wait)) = (doing, &thread.context.wait) {
                doing = Doing::Blocked(Some(wait.lock));
            }
            if doing == Doing::Ended {
                thread.ended.get_or_insert(time);
                thread.context.forget();
            }
            let reason = label(event, "reason").unwrap_or_else(|| doing.label().to_owned());
            thread.left_idle |= number(event, "reason") == Some(SwitchReason::Idle as u64);
            *thread.switches.entry(reason).or_default() += 1;
            thread.begin(doing, time, losses);
            thread.left = losses.and(Some(time));
        }
        let last = self.known(next, Some(cpu));
        let ended = self.threads.get(last).is_some_and(|thread| {
            thread.doing == Doing::Ended && thread.losses.is_some() && thread.losses == losses
        });
        if ended && self.creates {
            self.contradictions.add(AFTER_END, time, cpu, || {
                format!("a switch to thread {next}, which has ended")
            });
        }
        let next = self.living(next, cpu);
        let Some(thread) = self.threads.get_mut(next) else {
            return;
        };
        thread.name = text(event, "next_comm").or(thread.name.take());
        thread.prio = signed(event, "next_prio").or(thread.prio);
        thread.refresh(losses);
        if let Doing::Running(other) = thread.doing {
            // On two CPUs at once: one of the two is wrong, and so is what was thought to be known.
            (thread.doing, thread.since) = (Doing::Unknown, time);
            thread.context.forget();
            let tid = thread.tid;
            self.contradictions.add(ONE_CPU, time, cpu, || {
                format!("a switch to thread {tid}, which runs on CPU {other}")
            });
            if let Some(other) = self.cpus.get_mut(&other) {
                other.current = None;
            }
        }
        let off = thread
            .left
            .take()
            .filter(|_| thread.doing != Doing::Unknown && !thread.is_idle());
        let mut woken = None;
        if let (Some(wake), Doing::Runnable) = (thread.wake.take(), thread.doing) {
            let latency = passed(wake.time, time);
            woken = Some(wake.time);
            thread.wakes.add(latency);
            self.wakes.add(latency);
            let at = self.worst.partition_point(|worst| worst.latency >= latency);
            if at < WORST {
                self.worst.insert(
                    at,
                    Worst {
                        latency,
                        woken: wake.time,
                        ran: time,
                        thread: next,
                        waker: wake.waker,
                        cpu,
                    },
                );
                self.worst.truncate(WORST);
            }
        }
        thread.begin(Doing::Running(cpu), time, losses);
        self.cpus.entry(cpu).or_default().current = Some(next);
        for (kind, since) in [(SpanKind::OffCpu, off), (SpanKind::WakeLatency, woken)] {
            if let Some(since) = since {
                self.lasted(kind, (since, time), cpu, Some(next), None);
            }
        }
    }

    fn wakeup(&mut self, event: &Event, cpu: u64, time: i64) {
        let Some(tid) = number(event, "tid") else {
            return;
        };
        let losses = self.gaps.stamp();
        let in_interrupt = self.cpus.get(&cpu).is_some_and(CpuState::is_in_interrupt);
        let waker = match number(event, "waker_tid") {
            Some(0) => Waker::Interrupt,
            Some(waker) => Waker::Thread(self.known(waker, Some(cpu))),
            None if in_interrupt => Waker::Interrupt,
            None => self.current(cpu).map_or(Waker::Unknown, Waker::Thread),
        };
        let place = self.living(tid, cpu);
        let Some(thread) = self.threads.get_mut(place) else {
            return;
        };
        thread.refresh(losses);
        // One that runs has not yet left, and will not; one that could run was woken before; one
        // that is suspended stays so.
        if matches!(
            thread.doing,
            Doing::Unknown | Doing::Blocked(_) | Doing::Sleeping
        ) {
            thread.begin(Doing::Runnable, time, losses);
            thread.wake = Some(Wake { time, waker });
        }
    }

    fn interrupt(&mut self, enters: bool, event: &Event, cpu: u64, time: i64) {
        let Some(irq) = number(event, "irq") else {
            return;
        };
        let state = self.cpus.entry(cpu).or_default();
        let line = self.irqs.entry(irq).or_default();
        if enters {
            let depth = state.enter(irq, time);
            line.count += 1;
            line.nesting = line.nesting.max(depth);
            self.nesting = self.nesting.max(depth);
            return;
        }
        let was_open = state.is_in_interrupt();
        match state.leave(irq, time) {
            Some((since, own)) => {
                let whole = passed(since, time);
                if line.durations.max().is_none_or(|max| whole > max) {
                    line.longest_at = Some((since, cpu));
                }
                line.durations.add(whole);
                line.own = line.own.saturating_add(own);
                self.lasted(SpanKind::Interrupt, (since, time), cpu, None, Some(irq));
            }
            None if was_open => {
                self.contradictions.add(IRQ_PAIR, time, cpu, || {
                    format!("interrupt {irq} ends, and is not the one that began last")
                });
            }
            // It began before the trace, or in a loss.
            None => line.count += 1,
        }
    }

    fn syscall_exit(&mut self, key: SyscallKey, event: &Event, cpu: u64, time: i64) {
        let begun = self.context(cpu).syscall.take();
        let call = self.syscalls.entry(key.clone()).or_default();
        call.errors += u64::from(signed(event, "ret").is_some_and(|ret| ret < 0));
        match begun {
            Some((begun, since)) if begun == key => {
                call.durations.add(passed(since, time));
                let current = self.current(cpu);
                let object = if let SyscallKey::Number(id) = key {
                    Some(id)
                } else {
                    None
                };
                self.lasted(SpanKind::SystemCall, (since, time), cpu, current, object);
                if let (SyscallKey::Named(name), Some(span)) =
                    (key, self.spans.as_mut().and_then(|spans| spans.last_mut()))
                {
                    span.call = Some(name);
                }
            }
            Some((begun, _)) => {
                call.count += 1;
                self.contradictions.add(SYSCALL_PAIR, time, cpu, || {
                    format!("system call {key} ends, and the thread is in {begun}")
                });
            }
            None => call.count += 1,
        }
    }

    fn lock(&mut self, kind: &Kind, event: &Event, cpu: u64, time: i64) {
        let Some(lock) = number(event, "lock") else {
            return;
        };
        let current = self.current(cpu);
        let prio = current
            .and_then(|place| self.threads.get(place))
            .and_then(|thread| thread.prio);
        if let Kind::LockWait = kind {
            let told = number(event, "owner_tid")
                .filter(|&tid| tid != 0)
                .map(|tid| self.known(tid, Some(cpu)));
            let held = self
                .locks
                .get(&lock)
                .and_then(|state| state.holder)
                .filter(|&place| self.holds(place, lock));
            let owner = told.or(held);
            let owner_prio = owner
                .and_then(|place| self.threads.get(place))
                .and_then(|thread| thread.prio);
            self.locks.entry(lock).or_default().kind = label(event, "kind");
            self.context(cpu).wait = Some(Wait {
                lock,
                since: time,
                owner,
                owner_prio,
            });
            return;
        }
        let semaphore = number(event, "kind") == Some(LockKind::Semaphore as u64);
        let wait = match kind {
            Kind::LockReleased => None,
            _ => self.context(cpu).wait.take_if(|wait| wait.lock == lock),
        };
        let released = match kind {
            Kind::LockReleased if !semaphore => self.context(cpu).release(lock),
            Kind::LockAcquired if !semaphore => {
                self.context(cpu).hold(lock, time);
                None
            }
            _ => None,
        };
        let losses = self.gaps.stamp();
        let holder = self.locks.get(&lock).and_then(|state| state.holder);
        let other_has = current.is_some()
            && holder.is_some_and(|place| current != Some(place) && self.holds(place, lock));
        let state = self.locks.entry(lock).or_default();
        state.kind = label(event, "kind").or(state.kind.take());
        let mut waited = None;
        if let Some(wait) = wait {
            let duration = passed(wait.since, time);
            let (waiter, waiter_prio) = (current, prio);
            let Wait {
                since,
                owner,
                owner_prio,
                ..
            } = wait;
            state.waited(Longest {
                duration,
                since,
                until: time,
                waiter,
                waiter_prio,
                owner,
                owner_prio,
            });
            waited = Some(since);
        }
        match kind {
            Kind::LockAcquired => {
                state.acquired += 1;
                state.contended += number(event, "contended").unwrap_or(0).min(1);
                state.holder = current.filter(|_| !semaphore);
                state.free = None;
            }
            Kind::LockFailed => state.failed += 1,
            _ => {
                state.holder = None;
                let was_free = state.free.is_some() && state.free == losses;
                state.free = losses.filter(|_| !semaphore);
                if released.is_none() && (was_free || other_has) {
                    let whose = if was_free { "nobody" } else { "another thread" };
                    self.contradictions.add(LOCK_HELD, time, cpu, || {
                        format!("lock {lock:#x} is released, and {whose} has it")
                    });
                }
                if let Some(since) = released {
                    state.holds.add(passed(since, time));
                }
            }
        }
        for (kind, since) in [(SpanKind::LockWait, waited), (SpanKind::LockHold, released)] {
            if let Some(since) = since {
                self.lasted(kind, (since, time), cpu, current, Some(lock));
            }
        }
    }

    fn holds(&self, place: usize, lock: u64) -> bool {
        let Some(thread) = self.threads.get(place) else {
            return false;
        };
        let known = thread.doing.is_running()
            || (thread.losses.is_some() && thread.losses == self.gaps.stamp());
        known && thread.context.held.iter().any(|(held, _)| *held == lock)
    }
}
