//! A report's worst cases, as the page goes to them.

use kymo_analysis::{CaseKind, Report, WorstCase};
use serde::Serialize;

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
    /// The category of its slice in the timeline.
    category: &'static str,
    name: String,
    /// The thread and its number, if it has one that is known.
    thread: Option<String>,
    tid: Option<u64>,
    cpu: Option<u64>,
    /// In nanoseconds since the first event.
    begin_ns: i64,
    end_ns: i64,
}

impl Reported {
    /// The report of a trace or file whose first event is at `begin`, in nanoseconds from the
    /// clock's origin.
    pub(super) fn of(report: Report, begin: i128) -> Reported {
        let cases = report.worst_cases.iter();
        Reported {
            worst: cases.map(|case| Case::of(case, begin)).collect(),
            report,
        }
    }
}

impl Case {
    fn of(case: &WorstCase, begin: i128) -> Case {
        let since = |nanos: i64| i64::try_from(i128::from(nanos) - begin).unwrap_or(0);
        let thread = case.thread.as_ref();
        Case {
            kind: case.kind.label(),
            category: match case.kind {
                CaseKind::Interrupt => "irq",
                CaseKind::SystemCall => "syscall",
                CaseKind::WakeLatency => "sched",
                CaseKind::LockWait => "lock",
                CaseKind::Loss => "lost",
            },
            name: case.name.clone(),
            thread: thread.map(|thread| match &thread.name {
                Some(name) => format!("{name} {}", thread.tid),
                None => thread.tid.to_string(),
            }),
            tid: thread.map(|thread| thread.tid),
            cpu: case.cpu,
            begin_ns: since(case.begin_ns),
            end_ns: since(case.end_ns),
        }
    }
}
