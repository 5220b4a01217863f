//! The sections of a report, one per subject: their rows, and how they use each change.
//!
//! `kymo report --json` prints these types. Times are in nanoseconds from the clock's origin,
//! durations in nanoseconds. `None` means unknown.

mod clocks;
mod contradictions;
mod counters;
mod cpus;
mod events;
mod faults;
mod groups;
mod interrupts;
mod locks;
mod losses;
mod messages;
mod others;
mod own_counters;
mod run_queues;
mod samples;
mod system_calls;
mod threads;
mod wakes;
mod worst;

use std::sync::Arc;

use kymo::event::Enumeration as _;
use kymo::vocabulary::CpuMode;
use kymo_ctf::{ClockClass, EventRef, Metadata};
use kymo_machine::{Change, Doing, Machine, ThreadId, passed};
use serde::Serialize;

use crate::histogram::Histogram;
use crate::part::Part;

pub use clocks::ClockHealth;
pub use contradictions::{Contradiction, Contradictions};
pub use counters::{CallCounts, Counters, CpuCounts, GroupCounters, InterruptCounts, ThreadCounts};
pub use cpus::CpuUse;
pub use events::EventCount;
pub use faults::{PageFaults, ProcessFaults, ThreadFaults};
pub use interrupts::Interrupt;
pub use locks::{Lock, LongestWait, Waiter};
pub use losses::{Loss, Losses};
pub use messages::Messages;
pub use others::{OtherEvents, ThreadEvents};
pub use own_counters::{OwnBucket, OwnCounter, OwnHistogram};
pub use run_queues::RunQueue;
pub use samples::{Samples, ThreadSamples};
pub use system_calls::SystemCall;
pub use threads::{LockBlock, Thread};
pub use wakes::{WakeLatency, WorstWake};
pub use worst::{CaseKind, WorstCase};

/// The results of an analysis. A table is empty if the trace lacks its events.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The beginning of the trace: texts count points in time from there.
    pub zero_ns: Option<i64>,
    /// The time of the first event.
    pub begin_ns: Option<i64>,
    /// The time of the last event.
    pub end_ns: Option<i64>,
    /// Events in the trace.
    pub events: u64,
    /// Events without a CPU or a time, which are only counted.
    pub events_without_place: u64,
    /// Events and packets that the trace lacks.
    pub losses: Losses,
    /// Damage to streams, a sentence each; at most a hundred.
    pub damage: Vec<String>,
    /// The clocks.
    pub clocks: Vec<ClockHealth>,
    /// CPUs, by number.
    pub cpus: Vec<CpuUse>,
    /// Run queues, by CPU; a shared one last.
    pub run_queues: Vec<RunQueue>,
    /// Threads, most CPU time first.
    pub threads: Vec<Thread>,
    /// States of threads; threads of the same name are one row.
    pub threads_by_name: Vec<Thread>,
    /// System calls, most time first.
    pub system_calls: Vec<SystemCall>,
    /// Interrupt lines, by number.
    pub interrupts: Vec<Interrupt>,
    /// Interrupts; lines of the same name are one row.
    pub interrupts_by_name: Vec<Interrupt>,
    /// Most handlers open at once on one CPU.
    pub interrupt_nesting: usize,
    /// From a wake-up until the thread ran.
    pub wake_latency: Option<WakeLatency>,
    /// Locks, longest wait first.
    pub locks: Vec<Lock>,
    /// Locks; those of the same name are one row.
    pub locks_by_name: Vec<Lock>,
    /// Page faults.
    pub page_faults: Option<PageFaults>,
    /// Messages, by mechanism and path.
    pub messages: Vec<Messages>,
    /// All events by name, the most frequent first.
    pub event_counts: Vec<EventCount>,
    /// Events that no other table uses, by name and process, the most frequent first.
    pub other_events: Vec<OtherEvents>,
    /// Numbers of events by thread, for events that carry their thread.
    pub other_events_by_thread: Vec<ThreadEvents>,
    /// The kernel's own counters and gauges, by number.
    pub own_counters: Vec<OwnCounter>,
    /// Its histograms, by number.
    pub own_histograms: Vec<OwnHistogram>,
    /// Samples of where the CPUs were.
    pub samples: Option<Samples>,
    /// What the processors' counters have counted.
    pub counters: Option<Counters>,
    /// The most unusual moments, by kind: the five longest of each, and the five largest losses.
    pub worst_cases: Vec<WorstCase>,
    /// Events that contradict earlier ones. A correctly instrumented kernel has none.
    pub contradictions: Contradictions,
}

/// A thread's number and, if known, its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ThreadRef {
    /// Its number.
    pub tid: u64,
    /// Its name.
    pub name: Option<String>,
}

/// A distribution. Percentiles are at most 1/64 too large; count, sum and maximum are exact.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Durations {
    /// Number of durations with both ends in the trace.
    pub count: u64,
    /// Sum.
    pub total_ns: u64,
    /// Median.
    pub p50_ns: Option<u64>,
    /// 90th percentile.
    pub p90_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// Maximum.
    pub max_ns: Option<u64>,
    /// All of them.
    #[serde(skip)]
    pub values: Histogram,
}

impl ThreadRef {
    pub(crate) fn of(machine: &Machine, id: ThreadId) -> Option<ThreadRef> {
        let thread = machine.thread(id)?;
        Some(ThreadRef {
            tid: thread.tid,
            name: thread.name.as_deref().map(str::to_owned),
        })
    }
}

impl Durations {
    fn of(histogram: &Histogram) -> Durations {
        Durations {
            count: histogram.count(),
            total_ns: histogram.sum(),
            p50_ns: histogram.percentile(50),
            p90_ns: histogram.percentile(90),
            p99_ns: histogram.percentile(99),
            max_ns: histogram.max(),
            values: histogram.clone(),
        }
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    // Durations beyond 2^53 ns (104 days) lose their last digits, below what is shown.
    if whole == 0 {
        0.0
    } else {
        part as f64 * 100.0 / whole as f64
    }
}

/// The machine at the trace's end, and the trace's extent.
pub(crate) struct End<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) begin: i64,
    pub(crate) end: i64,
    /// Number of events.
    pub(crate) events: u64,
    /// The part of the trace that is reported.
    pub(crate) part: &'a Part,
}

impl End<'_> {
    /// The trace's length in nanoseconds.
    fn span(&self) -> u64 {
        passed(self.begin, self.end)
    }

    /// The time of all CPUs, in nanoseconds.
    fn cpu_time(&self) -> u64 {
        let cpus = self.machine.cpus().iter();
        let cpus = cpus.filter(|cpu| self.part.has_cpu(cpu.number)).count();
        self.span().saturating_mul(cpus as u64)
    }

    /// So many in the trace's time, in a second; `None` if the trace has no length.
    fn per_second(&self, count: u64) -> Option<f64> {
        let seconds = self.span() as f64 / 1e9;
        (seconds > 0.0).then_some(count as f64 / seconds)
    }
}

/// A value for each thread, by [`ThreadId::index`].
#[derive(Debug, Default)]
struct PerThread<T>(Vec<T>, T);

impl<T: Default> PerThread<T> {
    #[inline]
    fn get(&mut self, thread: ThreadId) -> &mut T {
        let place = thread.index();
        if self.0.len() <= place {
            self.0.resize_with(place + 1, T::default);
        }
        match self.0.get_mut(place) {
            Some(value) => value,
            // Unreachable: the table was resized above.
            None => &mut self.1,
        }
    }

    fn at(&self, place: usize) -> Option<&T> {
        self.0.get(place)
    }

    fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }
}

/// The state of all sections.
#[derive(Debug, Default)]
pub(crate) struct Sections {
    losses: losses::LossList,
    clocks: clocks::Clocks,
    cpus: cpus::Cpus,
    run_queues: run_queues::RunQueues,
    threads: threads::Threads,
    system_calls: system_calls::SystemCalls,
    interrupts: interrupts::Interrupts,
    wakes: wakes::Wakes,
    locks: locks::Locks,
    faults: faults::Faults,
    messages: messages::Mail,
    events: events::Events,
    others: others::Others,
    samples: samples::Sampled,
    counters: counters::Counted,
    contradictions: contradictions::Found,
    own_counters: own_counters::OwnCounters,
    longest: worst::Longest,
}

impl Sections {
    /// The empty sections of a report on a trace with this metadata.
    pub(crate) fn of(metadata: &Metadata) -> Sections {
        Sections {
            own_counters: own_counters::OwnCounters::of(metadata),
            others: others::Others::of(metadata),
            ..Sections::default()
        }
    }

    #[inline]
    pub(crate) fn stamp(&mut self, event: &EventRef<'_>, ticks: u64) {
        self.clocks.add(event, ticks);
    }

    #[inline]
    pub(crate) fn event(&mut self, event: &EventRef<'_>) {
        self.events.add(event);
    }

    pub(crate) fn other(&mut self, event: &EventRef<'_>, tid: Option<u64>, pid: Option<u64>) {
        self.others.add(event, tid, pid);
    }

    pub(crate) fn lose(&mut self, loss: &kymo_ctf::Loss, number: u64) {
        self.losses.add(loss, number);
    }

    pub(crate) fn sampled(&mut self, thread: Option<ThreadId>, mode: CpuMode, missed: Option<u64>) {
        self.samples.add(thread, mode, missed);
    }

    /// Counts what ends in the reported part of the trace and began before it, and therefore was not
    /// counted when it began.
    pub(crate) fn began_before(&mut self, change: &Change) {
        match *change {
            Change::IrqExit { line, .. } => self.interrupts.began_before(line),
            Change::CallExit { call, .. } => self.system_calls.enter(call),
            _ => {}
        }
    }

    /// Passes a change to the sections that use it.
    ///
    /// Not inlined: most events make one change, and in a caller's loop the compiler would compute
    /// the addresses of all sections for each event.
    #[inline(never)]
    pub(crate) fn take(&mut self, change: &Change, machine: &Machine) {
        let (now, cpu) = (machine.now(), machine.cpu());
        match *change {
            Change::Doing {
                thread,
                was,
                since,
                until,
                ..
            } => {
                let time = passed(since, until);
                if let Doing::Running(cpu) = was {
                    self.cpus.ran(cpu, thread, time);
                }
                self.threads.did(thread, was, time);
            }
            Change::Switch {
                prev, reason, left, ..
            } => {
                self.cpus.switched(cpu);
                let why = reason.map_or(left.label(), |reason| reason.label());
                self.threads.left(prev, why);
            }
            Change::IrqEnter { line, depth } => self.interrupts.enter(line, depth),
            Change::IrqExit { line, since } => {
                if let Some((since, own)) = since {
                    self.cpus.interrupted(cpu, own);
                    let kind = CaseKind::Interrupt;
                    self.longest.take(kind, since, change, machine);
                }
                self.interrupts.exit(line, since, now, cpu);
            }
            Change::CallEnter { call, .. } => self.system_calls.enter(call),
            Change::CallExit {
                call,
                since,
                failed,
                ..
            } => {
                if let Some(since) = since {
                    let kind = CaseKind::SystemCall;
                    self.longest.take(kind, since, change, machine);
                }
                let lasted = since.map(|since| passed(since, now));
                self.system_calls.exit(call, lasted, failed);
            }
            Change::LockWaited {
                lock,
                since,
                thread,
                prio,
                owner,
                owner_prio,
            } => {
                self.locks.of(lock).waited(locks::Longest {
                    duration: passed(since, now),
                    since,
                    until: now,
                    waiter: thread,
                    waiter_prio: prio,
                    owner,
                    owner_prio,
                });
                let kind = CaseKind::LockWait;
                self.longest.take(kind, since, change, machine);
            }
            Change::LockAcquired {
                lock, contended, ..
            } => self.locks.of(lock).acquired(contended),
            Change::LockFailed { lock, .. } => self.locks.of(lock).failed(),
            Change::LockReleased {
                lock,
                since: Some(since),
                ..
            } => self.locks.of(lock).released(passed(since, now)),
            Change::WakeLatency {
                thread,
                since,
                waker,
            } => {
                let kind = CaseKind::WakeLatency;
                self.longest.take(kind, since, change, machine);
                let latency = passed(since, now);
                self.threads.woke(thread, latency);
                self.wakes.add(wakes::Worst {
                    latency,
                    woken: since,
                    ran: now,
                    thread,
                    waker,
                    cpu: cpu.unwrap_or_default(),
                });
            }
            Change::Fault {
                thread,
                user,
                cause,
            } => self.faults.add(thread, cpu, user, cause),
            Change::Recognised { thread } => self.faults.recognise(thread, cpu),
            Change::Forgot { cpu } => self.faults.forget(cpu),
            Change::Message {
                mechanism,
                sends,
                path,
                len,
            } => self.messages.add(mechanism, sends, path, len),
            Change::Contradiction(rule) => {
                self.losses.count(change);
                self.clocks.contradict(rule, cpu);
                self.contradictions.add(rule, machine);
            }
            Change::SessionEnd { .. } => self.losses.count(change),
            Change::Counted {
                group,
                ran,
                is_whole,
            } => {
                self.counters.add(group, ran, is_whole, machine.counted());
            }
            Change::GroupCounted {
                group,
                enabled,
                running,
            } => {
                let (times, counts) = ((enabled, running), machine.counted());
                self.counters.group(group, cpu, times, counts);
            }
            Change::OwnCounter {
                cpu,
                counter,
                value,
            } => self.own_counters.set(cpu, counter, value, now),
            Change::OwnBucket {
                cpu,
                counter,
                bucket,
                count,
            } => self.own_counters.bucket(cpu, counter, bucket, count),
            Change::RunQueue { cpu, len } => self.run_queues.set(cpu, len, now),
            Change::Lost { .. } => self.run_queues.lose(now),
            Change::Regained {
                loss,
                not_after: Some(time),
            } => self.losses.regain(loss, time),
            _ => {}
        }
    }

    pub(crate) fn finish(self, end: &End<'_>, clock: Option<&Arc<ClockClass>>) -> Report {
        let cpus = self.cpus.finish(end);
        let (threads, threads_by_name) = self.threads.finish(&cpus, end);
        let (interrupts, interrupts_by_name) = self.interrupts.finish(end);
        let (locks, locks_by_name) = self.locks.finish(end);
        let events = (!end.part.is_partial()).then_some(end.events);
        Report {
            threads,
            threads_by_name,
            cpus,
            run_queues: self.run_queues.finish(end.end),
            system_calls: self.system_calls.finish(end),
            interrupt_nesting: self.interrupts.nesting(),
            interrupts,
            interrupts_by_name,
            wake_latency: self.wakes.finish(end),
            locks,
            locks_by_name,
            page_faults: self.faults.finish(end),
            messages: self.messages.finish(),
            event_counts: self.events.finish(end),
            other_events: self.others.finish(end),
            other_events_by_thread: self.others.threads(end),
            own_counters: self.own_counters.counters(),
            own_histograms: self.own_counters.histograms(),
            samples: self.samples.finish(end),
            counters: self.counters.finish(end),
            clocks: self.clocks.finish(clock),
            worst_cases: self.longest.finish(end, &self.losses),
            losses: self.losses.finish(events),
            contradictions: self.contradictions.finish(),
            ..Report::default()
        }
    }

    pub(crate) fn live(&self) -> usize {
        self.losses.live()
            + self.clocks.live()
            + self.cpus.live()
            + self.run_queues.live()
            + self.threads.live()
            + self.system_calls.live()
            + self.interrupts.live()
            + self.wakes.live()
            + self.locks.live()
            + self.faults.live()
            + self.messages.live()
            + self.events.live()
            + self.others.live()
            + self.samples.live()
            + self.counters.live()
            + self.contradictions.live()
            + self.own_counters.live()
            + self.longest.live()
    }
}
