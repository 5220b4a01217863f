//! What begins and never ends, or ends and never began.

use std::collections::BTreeMap;

use kymo::event::Event as _;
use kymo::vocabulary::{
    FrameAlloc, FrameFree, IpcReceive, IpcSend, IrqEnter, IrqExit, LockAcquired, LockReleased,
    PipeRead, PipeWrite, QueueReceive, QueueSend, SchedEnter, SchedExit, SpanBegin, SpanEnd,
    SyscallEnter, SyscallExit, ThreadResume, ThreadSuspend,
};
use kymo_machine::{CallId, CallKey, Change, IrqLine, Machine, ThreadId};
use rustc_hash::FxHashMap;

use super::{Counts, Findings, Place, Remedy, Severity, times};
use crate::section::Report;

const IRQ: Remedy = Remedy {
    text: "Record `irq_handler_entry` first in every handler, and `irq_handler_exit` last on every \
           way out, before a switch that the interrupt causes",
    page: "your-kernel.md#record",
};
const CALL: Remedy = Remedy {
    text: "Record `sys_enter` and `sys_exit` in the one place through which all calls go, also for \
           calls that fail; a call that `exec` replaces needs a `sched_process_exec`",
    page: "events.md#sys_enter",
};
const OTHER: Remedy = Remedy {
    text: "Record both at the operations that they name, and list both in the vocabulary",
    page: "your-kernel.md#the-events",
};

/// Events that come in pairs, and how much it matters if one of them never comes.
const PAIRS: &[(&str, &str, Severity)] = &[
    (IrqEnter::SCHEMA.name, IrqExit::SCHEMA.name, Severity::Wrong),
    (
        SyscallEnter::SCHEMA.name,
        SyscallExit::SCHEMA.name,
        Severity::Wrong,
    ),
    (
        LockAcquired::SCHEMA.name,
        LockReleased::SCHEMA.name,
        Severity::Wrong,
    ),
    (
        SchedEnter::SCHEMA.name,
        SchedExit::SCHEMA.name,
        Severity::Wrong,
    ),
    (
        SpanBegin::SCHEMA.name,
        SpanEnd::SCHEMA.name,
        Severity::Wrong,
    ),
    (
        ThreadSuspend::SCHEMA.name,
        ThreadResume::SCHEMA.name,
        Severity::Hint,
    ),
    (
        FrameAlloc::SCHEMA.name,
        FrameFree::SCHEMA.name,
        Severity::Hint,
    ),
    (
        IpcSend::SCHEMA.name,
        IpcReceive::SCHEMA.name,
        Severity::Hint,
    ),
    (
        PipeWrite::SCHEMA.name,
        PipeRead::SCHEMA.name,
        Severity::Hint,
    ),
    (
        QueueSend::SCHEMA.name,
        QueueReceive::SCHEMA.name,
        Severity::Hint,
    ),
];

/// Whether an event is one of a pair, and then whether each CPU has its own, and not each thread.
pub(super) fn of(name: &str) -> Option<bool> {
    let mut pairs = PAIRS.iter();
    let (begin, ..) = pairs.find(|(begin, end, _)| [*begin, *end].contains(&name))?;
    Some([IrqEnter::SCHEMA.name, SchedEnter::SCHEMA.name].contains(begin))
}

/// Linux's calls that end in the call that a signal has interrupted.
const RETURNS: [&str; 2] = ["rt_sigreturn", "sigreturn"];

#[derive(Debug, Default)]
struct Line {
    enters: u64,
    exits: u64,
    first: Option<Place>,
}

#[derive(Debug)]
struct Call {
    key: CallKey,
    /// Number of begins after which the thread began another call, without an end in between, and
    /// the first place where that is seen.
    never_left: (u64, Option<Place>),
    /// Number of ends without a begin, and the first.
    never_entered: (u64, Option<Place>),
}

#[derive(Debug, Default)]
pub(super) struct Pairs {
    lines: BTreeMap<IrqLine, Line>,
    calls: BTreeMap<CallId, Call>,
    /// Ends without a begin, by thread. Each thread may be in a call when the trace begins.
    strays: FxHashMap<ThreadId, u64>,
    any_calls: bool,
    /// Number of losses and contradictions, at which threads' calls are forgotten.
    breaks: u64,
}

impl Pairs {
    pub(super) fn take(&mut self, change: &Change, place: Place, machine: &Machine) {
        match *change {
            Change::IrqEnter { line, .. } => {
                let of = self.lines.entry(line).or_default();
                of.enters += 1;
                of.first.get_or_insert(place);
            }
            Change::IrqExit { line, .. } | Change::IrqMismatch { line } => {
                let of = self.lines.entry(line).or_default();
                of.exits += 1;
                of.first.get_or_insert(place);
            }
            Change::CallEnter { unfinished, .. } => {
                self.any_calls = true;
                if let Some(call) = unfinished {
                    self.call(call, place, machine, |of| &mut of.never_left);
                }
            }
            Change::CallExit {
                call,
                since: None,
                thread: Some(thread),
                ..
            } => {
                let strays = self.strays.entry(thread).or_default();
                *strays += 1;
                if *strays > 1 + self.breaks {
                    self.call(call, place, machine, |of| &mut of.never_entered);
                }
            }
            Change::Lost { .. } | Change::Contradiction(_) => self.breaks += 1,
            _ => {}
        }
    }

    fn call(
        &mut self,
        id: CallId,
        first: Place,
        machine: &Machine,
        count: fn(&mut Call) -> &mut (u64, Option<Place>),
    ) {
        let Some((key, _)) = machine.call(id) else {
            return;
        };
        let of = self.calls.entry(id).or_insert_with(|| Call {
            key: key.clone(),
            never_left: (0, None),
            never_entered: (0, None),
        });
        let (number, at) = count(of);
        *number += 1;
        at.get_or_insert(first);
    }

    /// Whether there was neither an interrupt nor a system call.
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty() && !self.any_calls
    }

    pub(super) fn finish(&self, counts: &Counts, report: &Report, found: &mut Findings) {
        let cpus = report.cpus.len() as u64;
        let mut alone: Vec<&str> = Vec::new();
        for &(begin, end, severity) in PAIRS {
            let (came, never) = match (counts.of(begin), counts.of(end)) {
                (1.., 0) => (begin, end),
                (0, 1..) => (end, begin),
                _ => continue,
            };
            // One of each thread may be open when the trace begins or ends, and one inside of it.
            if counts.beyond_firsts(came) < 2 {
                continue;
            }
            alone.push(begin);
            let message = format!(
                "{came} came {}, but {never} never did",
                times(counts.of(came))
            );
            let remedy = match begin {
                _ if begin == IrqEnter::SCHEMA.name => IRQ,
                _ if begin == SyscallEnter::SCHEMA.name => CALL,
                _ => OTHER,
            };
            let first = counts.first(came);
            found.add(severity, "counterpart", message, first, remedy);
        }
        if !alone.contains(&IrqEnter::SCHEMA.name) {
            self.lines(report, cpus, found);
        }
        if !alone.contains(&SyscallEnter::SCHEMA.name) {
            self.calls(report, found);
        }
    }

    fn lines(&self, report: &Report, cpus: u64, found: &mut Findings) {
        let is_complete = !report.losses.any() && report.damage.is_empty();
        for (line, of) in &self.lines {
            // Each CPU may be in the handler when the trace begins or ends.
            let open = cpus.max(1);
            let is_certain = is_complete || of.exits == 0 || of.enters == 0;
            if of.enters.abs_diff(of.exits) <= open || !is_certain {
                continue;
            }
            let what = if line.is_soft() {
                "Soft interrupt"
            } else {
                "Interrupt"
            };
            let mut rows = report.interrupts.iter();
            let row = rows.find(|row| (row.irq, row.soft) == (line.number(), line.is_soft()));
            let name = row.and_then(|row| row.name.as_ref());
            let name = name.map_or_else(String::new, |name| format!(" ({name})"));
            let message = format!(
                "{what} {line}{name} begins {} and ends {}",
                times(of.enters),
                times(of.exits)
            );
            found.add(Severity::Wrong, "interrupt-pairs", message, of.first, IRQ);
        }
    }

    fn calls(&self, report: &Report, found: &mut Findings) {
        for of in self.calls.values() {
            let name = match &of.key {
                CallKey::Named(name) => name.to_string(),
                CallKey::Number(number) => {
                    let mut rows = report.system_calls.iter();
                    let row = rows.find(|row| row.id == Some(*number));
                    let name = row.and_then(|row| row.name.as_ref());
                    name.map_or_else(|| number.to_string(), |name| format!("{number} ({name})"))
                }
            };
            if !found.is_kymos && RETURNS.contains(&name.as_str()) {
                continue;
            }
            for ((count, first), how) in [
                (of.never_left, "was entered and never left"),
                (of.never_entered, "was left without having been entered"),
            ] {
                if count > 0 {
                    let message = format!("System call {name} {how} {}", times(count));
                    found.add(Severity::Wrong, "system-call-pairs", message, first, CALL);
                }
            }
        }
    }
}
