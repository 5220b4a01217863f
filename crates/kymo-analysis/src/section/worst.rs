//! The most unusual moments: what lasted longest, of each kind, and the largest losses.

use kymo_machine::{Change, Machine, Span, SpanKind, passed};
use serde::Serialize;

use super::losses::{Loss, LossList};
use super::{End, ThreadRef};

/// Most cases of a kind.
pub(super) const MOST: usize = 5;

/// One of the longest of its kind, or one of the largest losses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorstCase {
    /// What it is.
    pub kind: CaseKind,
    /// The interrupt, system call or lock, or what was lost; empty for a wake-up.
    pub name: String,
    /// The thread, if it has one that is known.
    pub thread: Option<ThreadRef>,
    /// The CPU on which it ended.
    pub cpu: Option<u64>,
    /// Its begin, in nanoseconds from the clock's origin.
    pub begin_ns: i64,
    /// Its end, likewise.
    pub end_ns: i64,
}

/// The kinds of unusual moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseKind {
    /// A handler ran.
    Interrupt,
    /// A system call lasted.
    SystemCall,
    /// A thread that was woken did not run yet.
    WakeLatency,
    /// A thread waited for a lock.
    LockWait,
    /// Events or packets were lost.
    Loss,
}

impl CaseKind {
    /// What it is called: `interrupt`, `system call`, `wake-up latency`, `lock wait`, `loss`.
    pub fn label(self) -> &'static str {
        match self {
            CaseKind::Interrupt => "interrupt",
            CaseKind::SystemCall => "system call",
            CaseKind::WakeLatency => "wake-up latency",
            CaseKind::LockWait => "lock wait",
            CaseKind::Loss => "loss",
        }
    }

    /// `None` if it is no span.
    fn of(span: SpanKind) -> Option<CaseKind> {
        Some(match span {
            SpanKind::Interrupt => CaseKind::Interrupt,
            SpanKind::SystemCall => CaseKind::SystemCall,
            SpanKind::WakeLatency => CaseKind::WakeLatency,
            SpanKind::LockWait => CaseKind::LockWait,
            _ => return None,
        })
    }
}

impl WorstCase {
    /// How long it lasted, in nanoseconds.
    pub fn nanos(&self) -> u64 {
        passed(self.begin_ns, self.end_ns)
    }
}

/// The longest spans so far.
#[derive(Debug, Default)]
pub(crate) struct Longest {
    interrupts: Vec<Span>,
    calls: Vec<Span>,
    latencies: Vec<Span>,
    waits: Vec<Span>,
}

impl Longest {
    /// Takes the span that a change ends, which began at `since`.
    #[inline]
    pub(crate) fn take(&mut self, kind: CaseKind, since: i64, change: &Change, machine: &Machine) {
        let longest = match kind {
            CaseKind::Interrupt => &mut self.interrupts,
            CaseKind::SystemCall => &mut self.calls,
            CaseKind::WakeLatency => &mut self.latencies,
            CaseKind::LockWait => &mut self.waits,
            CaseKind::Loss => return,
        };
        let nanos = passed(since, machine.now());
        let is_short = |last: &Span| longest.len() >= MOST && last.nanos() >= nanos;
        if !longest.last().is_some_and(is_short) {
            insert(longest, change, machine);
        }
    }

    /// The cases of each kind, the longest first, and the largest losses.
    pub(crate) fn finish(self, end: &End<'_>, losses: &LossList) -> Vec<WorstCase> {
        let spans = [self.interrupts, self.calls, self.latencies, self.waits];
        let spans = spans.into_iter().flatten();
        let spans = spans.filter_map(|span| case(&span, end.machine));
        spans.chain(losses.largest().filter_map(lost)).collect()
    }

    pub(crate) fn live(&self) -> usize {
        self.interrupts.len() + self.calls.len() + self.latencies.len() + self.waits.len()
    }
}

#[cold]
fn insert(longest: &mut Vec<Span>, change: &Change, machine: &Machine) {
    let Some(span) = Span::of(change, machine) else {
        return;
    };
    let nanos = span.nanos();
    let at = longest.partition_point(|other| other.nanos() >= nanos);
    longest.insert(at, span);
    longest.truncate(MOST);
}

fn case(span: &Span, machine: &Machine) -> Option<WorstCase> {
    let named = span.of.and_then(|of| machine.name(of)).map(str::to_owned);
    let numbered = || span.object.map(|number| number.to_string());
    let called = || span.call.as_deref().map(str::to_owned);
    Some(WorstCase {
        kind: CaseKind::of(span.kind)?,
        name: named.or_else(called).or_else(numbered).unwrap_or_default(),
        thread: span.thread.and_then(|id| ThreadRef::of(machine, id)),
        cpu: Some(span.cpu),
        begin_ns: span.begin_ns,
        end_ns: span.end_ns,
    })
}

/// The case of a loss; `None` if it has no time.
fn lost(loss: &Loss) -> Option<WorstCase> {
    let begin = loss.begin_ns.or(loss.end_ns)?;
    let what = loss.kind.trim_end_matches('s');
    let many = if loss.count == 1 { "" } else { "s" };
    Some(WorstCase {
        kind: CaseKind::Loss,
        name: format!("{} {what}{many}, {}", loss.count, loss.stream),
        thread: None,
        cpu: loss.cpu,
        begin_ns: begin,
        end_ns: loss.end_ns.unwrap_or(begin),
    })
}
