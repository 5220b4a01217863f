//! Events that break the rules which every kernel's events keep.

use std::collections::{BTreeMap, BTreeSet};

use kymo_machine::{CallId, Machine, Named, NotIdle};
use serde::Serialize;

/// Contradictions in the trace. No duration is computed across one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Contradictions {
    /// Their number by rule.
    pub counts: BTreeMap<&'static str, u64>,
    /// The first hundred.
    pub first: Vec<Contradiction>,
}

/// An event that contradicts what was recorded before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Contradiction {
    /// The rule's name: short and stable.
    pub rule: &'static str,
    /// Its time.
    pub time_ns: i64,
    /// Number of its CPU.
    pub cpu: u64,
    /// A sentence without a full stop.
    pub message: String,
}

/// Most contradictions that are listed; the rest are only counted.
const KEPT: usize = 100;

/// Contradictions found so far.
#[derive(Debug, Default)]
pub(crate) struct Found {
    all: Contradictions,
    /// CPUs whose clock was seen to step back.
    stepped: BTreeSet<Option<u64>>,
    /// By CPU, reports of writers whose clock was behind, which count only where no step was seen.
    behind: BTreeMap<Option<u64>, Contradictions>,
}

impl Found {
    #[cold]
    pub(crate) fn add(&mut self, broken: kymo_machine::Contradiction, machine: &Machine) {
        use kymo_machine::Contradiction::{ClockBehind, ClockStep};
        let cpu = machine.cpu();
        let contradiction = Contradiction::of(broken, machine);
        match broken {
            ClockBehind { .. } => self.behind.entry(cpu).or_default().add(contradiction),
            ClockStep { .. } => {
                self.stepped.insert(cpu);
                self.all.add(contradiction);
            }
            _ => self.all.add(contradiction),
        }
    }

    pub(crate) fn finish(mut self) -> Contradictions {
        for (cpu, behind) in self.behind {
            if !self.stepped.contains(&cpu) {
                self.all.merge(behind);
            }
        }
        self.all
    }

    pub(crate) fn live(&self) -> usize {
        let behind = self.behind.values().map(|behind| behind.first.len());
        self.all.first.len() + self.stepped.len() + behind.sum::<usize>()
    }
}

impl Contradiction {
    /// What the last item contradicts.
    pub(crate) fn of(broken: kymo_machine::Contradiction, machine: &Machine) -> Contradiction {
        Contradiction {
            rule: broken.rule(),
            time_ns: machine.now(),
            cpu: machine.cpu().unwrap_or_default(),
            message: sentence(broken, machine),
        }
    }
}

impl Contradictions {
    fn add(&mut self, contradiction: Contradiction) {
        *self.counts.entry(contradiction.rule).or_default() += 1;
        if self.first.len() < KEPT {
            self.first.push(contradiction);
        }
    }

    fn merge(&mut self, other: Contradictions) {
        for (rule, count) in other.counts {
            *self.counts.entry(rule).or_default() += count;
        }
        self.first.extend(other.first);
        self.first.sort_by_key(|found| found.time_ns);
        self.first.truncate(KEPT);
    }
}

fn sentence(broken: kymo_machine::Contradiction, machine: &Machine) -> String {
    use kymo_machine::Contradiction::{
        AfterEnd, ClockBehind, ClockStep, IdleThread, IrqPair, LockHeld, OneCpu, SwitchChain,
        SyscallPair,
    };
    let call = |id: CallId| {
        machine
            .call(id)
            .map_or(String::new(), |(key, _)| key.to_string())
    };
    match broken {
        SwitchChain { prev, ran } => {
            format!("a switch from thread {prev}, but thread {ran} ran here")
        }
        OneCpu { tid, cpu } => format!("a switch to thread {tid}, which runs on CPU {cpu}"),
        AfterEnd { tid } => format!("a switch to thread {tid}, which has ended"),
        IrqPair { line } => {
            format!("interrupt {line} ends, but is not the innermost one")
        }
        SyscallPair { ends, began } => format!(
            "system call {} ends, but the thread is in {}",
            call(ends),
            call(began)
        ),
        LockHeld { lock, free } => {
            let whose = if free { "nobody" } else { "another thread" };
            format!("lock {lock:#x} is released, but {whose} holds it")
        }
        ClockStep { ticks } => format!("the clock stepped back by {}", in_ticks(ticks)),
        ClockBehind {
            channel,
            count,
            ticks,
        } => format!(
            "the writer of {} found its clock {} behind its time window{}",
            channel.map_or("a channel", |channel| channel.label()),
            in_ticks(ticks),
            match count {
                0 | 1 => String::new(),
                count => format!(", {count} times so far"),
            }
        ),
        IdleThread(what) => {
            let what = match what {
                NotIdle::Named => {
                    let idle = machine.thread_of(0, machine.cpu());
                    let name = idle.and_then(|id| machine.name(Named::Thread(id)));
                    format!("named {}", name.unwrap_or_default())
                }
                NotIdle::Created => "created".to_owned(),
                NotIdle::Woken => "woken".to_owned(),
                NotIdle::Blocked => "blocked".to_owned(),
                NotIdle::Ended => "ended".to_owned(),
            };
            format!("thread 0 is {what}; 0 is the idle thread, so number other threads from 1")
        }
    }
}

fn in_ticks(ticks: u64) -> String {
    format!("{ticks} {}", if ticks == 1 { "tick" } else { "ticks" })
}
