//! What the processors' counters have counted: on each CPU, and by what ran.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use kymo::count::scale;
use kymo_machine::{CallId, IrqLine, Machine, Ran, ThreadId};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::system_calls::identity;
use super::{End, PerThread, ThreadRef};

/// What the groups of a session have counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Counters {
    /// The groups, by number. Those that did not fit the PMU together have taken turns, so counts
    /// of two groups are of different times.
    pub groups: Vec<GroupCounters>,
}

/// What a group of a session's has counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GroupCounters {
    /// Its number.
    pub group: u8,
    /// The counted events, in the order of all counts; `None` for one that the trace does not name.
    pub events: Vec<Option<String>>,
    /// The CPUs, by number.
    pub cpus: Vec<CpuCounts>,
    /// CPUs that could not count the group.
    pub cpus_without: Vec<u64>,
    /// Threads, without interrupts on top of them; most counts of the first event first.
    pub threads: Vec<ThreadCounts>,
    /// System calls, only while their threads ran; most counts of the first event first.
    pub system_calls: Vec<CallCounts>,
    /// Interrupts, without nested ones, by number.
    pub interrupts: Vec<InterruptCounts>,
    /// Intervals between two records of the group's counts at events, on one CPU.
    pub intervals: u64,
    /// Those among them during which the group was not on the PMU all the time: what was counted
    /// in them is in no row.
    pub intervals_not_counted: u64,
}

/// What a CPU has counted, from its first record of counts in the trace to the last one; if it
/// ceased to count in between, without that time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CpuCounts {
    /// Its number.
    pub cpu: u64,
    /// Nanoseconds between the two.
    pub time_enabled_ns: u64,
    /// Nanoseconds of these during which the group was on the PMU.
    pub time_running_ns: u64,
    /// What was counted.
    pub raw: Vec<u64>,
    /// What would have been counted had the group been on the PMU all the time; `None` if it never
    /// was.
    pub scaled: Vec<Option<u64>>,
}

/// What was counted while a thread ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadCounts {
    /// The thread; `None` for times at which it is not known.
    pub thread: Option<ThreadRef>,
    /// What was counted.
    pub counts: Vec<u64>,
}

/// What was counted in a system call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallCounts {
    /// Its number, if the trace has numbers.
    pub id: Option<u64>,
    /// Its name.
    pub name: Option<String>,
    /// Calls that began while it was counted.
    pub calls: u64,
    /// What was counted.
    pub counts: Vec<u64>,
}

/// What was counted in an interrupt's handlers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InterruptCounts {
    /// Its number.
    pub irq: u64,
    /// Whether it is a soft interrupt of Linux; these have a separate numbering.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub soft: bool,
    /// Its name.
    pub name: Option<String>,
    /// Handlers that began while it was counted.
    pub count: u64,
    /// What was counted.
    pub counts: Vec<u64>,
}

/// A sum of counts.
type Sum = Vec<u64>;

fn add(sum: &mut Sum, counts: &[u64]) {
    if sum.len() < counts.len() {
        sum.resize(counts.len(), 0);
    }
    for (sum, count) in sum.iter_mut().zip(counts) {
        *sum = sum.saturating_add(*count);
    }
}

/// A CPU's first and last counts since it began to count, each with its times; and the sums of what
/// it had counted when it ceased to before.
#[derive(Debug)]
struct Span {
    first: (u64, u64, Sum),
    last: (u64, u64, Sum),
    before: (u64, u64, Sum),
}

impl Span {
    fn of(now: (u64, u64, Sum)) -> Span {
        Span {
            first: now.clone(),
            last: now,
            before: (0, 0, Sum::new()),
        }
    }

    /// All that was counted.
    fn sum(&self) -> (u64, u64, Sum) {
        let (enabled, running, mut counts) = self.before.clone();
        let pairs = self.last.2.iter().zip(&self.first.2);
        let grown: Sum = pairs
            .map(|(last, first)| last.saturating_sub(*first))
            .collect();
        add(&mut counts, &grown);
        (
            enabled.saturating_add(self.last.0.saturating_sub(self.first.0)),
            running.saturating_add(self.last.1.saturating_sub(self.first.1)),
            counts,
        )
    }

    fn set(&mut self, now: (u64, u64, Sum)) {
        if now.0 < self.last.0 {
            self.before = self.sum();
            self.first = now.clone();
        }
        self.last = now;
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counted {
    groups: BTreeMap<u8, Group>,
}

impl Counted {
    /// A group's counts on a CPU, with its times.
    pub(crate) fn group(&mut self, group: u8, cpu: Option<u64>, times: (u64, u64), counts: &[u64]) {
        self.groups
            .entry(group)
            .or_default()
            .group(cpu, times, counts);
    }

    /// What a group has counted while this ran.
    pub(crate) fn add(&mut self, group: u8, ran: Ran, is_whole: bool, counts: &[u64]) {
        self.groups
            .entry(group)
            .or_default()
            .add(ran, is_whole, counts);
    }

    pub(crate) fn finish(self, end: &End<'_>) -> Option<Counters> {
        let groups = self.groups.into_iter();
        let groups: Vec<_> = groups
            .filter_map(|(number, group)| group.finish(number, end))
            .collect();
        (!groups.is_empty()).then_some(Counters { groups })
    }

    pub(crate) fn live(&self) -> usize {
        self.groups.values().map(Group::live).sum()
    }
}

#[derive(Debug, Default)]
struct Group {
    cpus: BTreeMap<u64, Option<Span>>,
    threads: PerThread<(Option<ThreadId>, Sum)>,
    unknown: Sum,
    /// How many began, and what was counted.
    calls: FxHashMap<CallId, (u64, Sum)>,
    lines: FxHashMap<IrqLine, (u64, Sum)>,
    intervals: u64,
    not_counted: u64,
}

impl Group {
    fn group(&mut self, cpu: Option<u64>, times: (u64, u64), counts: &[u64]) {
        let Some(cpu) = cpu else { return };
        let of_cpu = self.cpus.entry(cpu).or_default();
        if counts.is_empty() {
            return;
        }
        let now = (times.0, times.1, counts.to_vec());
        match of_cpu {
            Some(span) => span.set(now),
            None => *of_cpu = Some(Span::of(now)),
        }
    }

    fn add(&mut self, ran: Ran, is_whole: bool, counts: &[u64]) {
        self.intervals += 1;
        if !is_whole {
            self.not_counted += 1;
            return;
        }
        if let Some(line) = ran.line {
            let (begun, sum) = self.lines.entry(line).or_default();
            *begun += u64::from(ran.begins);
            return add(sum, counts);
        }
        match ran.thread {
            Some(id) => {
                let (thread, sum) = self.threads.get(id);
                *thread = Some(id);
                add(sum, counts);
            }
            None => add(&mut self.unknown, counts),
        }
        if let Some(call) = ran.call {
            let (begun, sum) = self.calls.entry(call).or_default();
            *begun += u64::from(ran.begins);
            add(sum, counts);
        }
    }

    fn finish(self, number: u8, end: &End<'_>) -> Option<GroupCounters> {
        if self.cpus.is_empty() && self.intervals == 0 {
            return None;
        }
        let (counting, without): (Vec<_>, Vec<_>) =
            self.cpus.into_iter().partition(|(_, span)| span.is_some());
        let cpus = counting.into_iter();
        let cpus = cpus.filter_map(|(cpu, span)| Some(cpu_counts(cpu, &span?)));
        let known = self.threads.iter().filter_map(|(id, sum)| {
            Some(ThreadCounts {
                thread: Some(ThreadRef::of(end.machine, (*id)?)?),
                counts: sum.clone(),
            })
        });
        let unknown = Some(self.unknown).filter(|sum| !sum.is_empty());
        let unknown = unknown.map(|counts| ThreadCounts {
            thread: None,
            counts,
        });
        let mut threads: Vec<_> = known.chain(unknown).collect();
        threads.sort_by_key(|row| {
            let tid = row.thread.as_ref().map(|thread| thread.tid);
            (Reverse(row.counts.first().copied()), tid)
        });
        let calls = self.calls.into_iter();
        let mut system_calls: Vec<_> = calls
            .filter_map(|(call, counts)| call_counts(end.machine, call, counts))
            .collect();
        system_calls.sort_by_key(|row| {
            let leader = Reverse(row.counts.first().copied());
            (leader, row.id, row.name.clone())
        });
        let lines = self.lines.into_iter();
        let mut interrupts: Vec<_> = lines
            .map(|(line, (count, counts))| InterruptCounts {
                count,
                irq: line.number(),
                soft: line.is_soft(),
                name: end.machine.irq(line).map(str::to_owned),
                counts,
            })
            .collect();
        interrupts.sort_by_key(|row| (row.soft, row.irq));
        let names = end.machine.counters(number).iter();
        Some(GroupCounters {
            group: number,
            events: names
                .map(|name| Some(name.as_deref()?.to_owned()))
                .collect(),
            cpus: cpus.collect(),
            cpus_without: without.into_iter().map(|(cpu, _)| cpu).collect(),
            threads,
            system_calls,
            interrupts,
            intervals: self.intervals,
            intervals_not_counted: self.not_counted,
        })
    }

    fn live(&self) -> usize {
        self.cpus.len() + self.threads.iter().count() + self.calls.len() + self.lines.len()
    }
}

fn cpu_counts(cpu: u64, span: &Span) -> CpuCounts {
    let (enabled, running, raw) = span.sum();
    let scaled = raw.iter().map(|raw| scale(*raw, enabled, running));
    CpuCounts {
        cpu,
        time_enabled_ns: enabled,
        time_running_ns: running,
        scaled: scaled.collect(),
        raw,
    }
}

fn call_counts(machine: &Machine, call: CallId, (calls, counts): (u64, Sum)) -> Option<CallCounts> {
    let (key, name) = machine.call(call)?;
    let (id, name) = identity(key, name);
    Some(CallCounts {
        id,
        name,
        calls,
        counts,
    })
}
