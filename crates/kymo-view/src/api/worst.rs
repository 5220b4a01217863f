//! The worst cases of a stretch of time: what lasted longest, of each kind.

use kymo_analysis::{Analysis, Report, Span, SpanKind};
use serde::Serialize;

/// Cases of a kind.
const MOST: usize = 5;

/// The kinds, what the page calls them, and the category of their slices in the timeline.
const KINDS: [(SpanKind, &str, &str); 4] = [
    (SpanKind::Interrupt, "interrupt", "irq"),
    (SpanKind::SystemCall, "system call", "syscall"),
    (SpanKind::WakeLatency, "wake-up latency", "sched"),
    (SpanKind::LockWait, "lock wait", "lock"),
];

/// A report and its worst cases.
#[derive(Serialize)]
pub(super) struct Reported {
    #[serde(flatten)]
    report: Report,
    worst: Vec<Case>,
}

/// One case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Case {
    kind: &'static str,
    /// The category of its slice.
    category: &'static str,
    /// The interrupt, system call or lock, or what was lost; empty for a wake-up.
    name: String,
    /// The thread and its number, if it has one that is known.
    thread: Option<String>,
    tid: Option<u64>,
    cpu: Option<u64>,
    /// In nanoseconds since the first event.
    begin_ns: i64,
    end_ns: i64,
}

/// The longest spans so far, of each kind.
#[derive(Debug)]
pub(super) struct Worst {
    /// Of the first event, in nanoseconds from the clock's origin.
    begin: i128,
    /// As [`KINDS`], the longest first.
    longest: [Vec<(u64, Case)>; KINDS.len()],
}

impl Worst {
    pub(super) fn new(begin: i128) -> Worst {
        Worst {
            begin,
            longest: Default::default(),
        }
    }

    /// Takes the spans that the analysis' last item ended.
    pub(super) fn take(&mut self, analysis: &Analysis) {
        for span in analysis.spans() {
            let place = KINDS.iter().position(|(kind, ..)| *kind == span.kind);
            let Some(place) = place else { continue };
            let nanos = span.nanos();
            let longest = self.longest.get(place);
            let is_full = longest.is_some_and(|cases| cases.len() >= MOST);
            let least = longest
                .and_then(|cases| cases.last())
                .map(|(least, _)| *least);
            if is_full && least >= Some(nanos) {
                continue;
            }
            let case = self.case(place, &span, analysis);
            let (Some(case), Some(cases)) = (case, self.longest.get_mut(place)) else {
                continue;
            };
            let at = cases.partition_point(|(other, _)| *other >= nanos);
            cases.insert(at, (nanos, case));
            cases.truncate(MOST);
        }
    }

    fn case(&self, place: usize, span: &Span, analysis: &Analysis) -> Option<Case> {
        let (_, kind, category) = KINDS.get(place)?;
        let machine = analysis.machine();
        let named = span.of.and_then(|of| machine.name(of)).map(str::to_owned);
        let numbered = || span.object.map(|number| number.to_string());
        let thread = span.thread.and_then(|id| machine.thread(id));
        Some(Case {
            kind,
            category,
            name: named.or_else(numbered).unwrap_or_default(),
            thread: thread.map(|thread| match &thread.name {
                Some(name) => format!("{name} {}", thread.tid),
                None => thread.tid.to_string(),
            }),
            tid: span.tid,
            cpu: Some(span.cpu),
            begin_ns: self.since(span.begin_ns),
            end_ns: self.since(span.end_ns),
        })
    }

    /// The report with the cases, and with its largest losses among them.
    pub(super) fn of(self, report: Report) -> Reported {
        let mut losses: Vec<_> = report.losses.intervals.iter().collect();
        losses.sort_by_key(|loss| std::cmp::Reverse(loss.count));
        let losses = losses.into_iter().take(MOST).filter_map(|loss| {
            let begin = loss.begin_ns.or(loss.end_ns)?;
            let what = loss.kind.trim_end_matches('s');
            let many = if loss.count == 1 { "" } else { "s" };
            Some(Case {
                kind: "loss",
                category: "lost",
                name: format!("{} {what}{many}, {}", loss.count, loss.stream),
                thread: None,
                tid: None,
                cpu: loss.cpu,
                begin_ns: self.since(begin),
                end_ns: self.since(loss.end_ns.unwrap_or(begin)),
            })
        });
        let losses: Vec<Case> = losses.collect();
        let longest = self.longest.into_iter().flatten().map(|(_, case)| case);
        Reported {
            worst: longest.chain(losses).collect(),
            report,
        }
    }

    fn since(&self, nanos: i64) -> i64 {
        i64::try_from(i128::from(nanos) - self.begin).unwrap_or(0)
    }
}
