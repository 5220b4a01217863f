//! Events that break the rules which every kernel's events keep.

use std::collections::BTreeMap;

use kymo_machine::{CallId, Machine};
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

impl Contradictions {
    #[cold]
    pub(crate) fn add(&mut self, broken: kymo_machine::Contradiction, machine: &Machine) {
        *self.counts.entry(broken.rule()).or_default() += 1;
        if self.first.len() < KEPT {
            self.first.push(Contradiction {
                rule: broken.rule(),
                time_ns: machine.now(),
                cpu: machine.cpu().unwrap_or_default(),
                message: sentence(broken, machine),
            });
        }
    }
}

fn sentence(broken: kymo_machine::Contradiction, machine: &Machine) -> String {
    use kymo_machine::Contradiction::{
        AfterEnd, IrqPair, LockHeld, OneCpu, SwitchChain, SyscallPair,
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
    }
}
