//! A critical path as text.

use kymo_analysis::{
    Because, CallRef, CriticalPath, LockRef, Note, Segment, SegmentKind, StretchKind, ThreadRef,
    Who,
};

use crate::report::cell::Cell;
use crate::report::layout::wrap;
use crate::report::table::{Column, Look, Table};
use crate::report::{duration, seconds};
use crate::summary::{count, thousands};
use crate::terminal;

/// The path as tables: its segments in time order, at most `top` of them, and both sums.
pub fn of(path: &CriticalPath, zero: i64, top: usize, has_colors: bool) -> String {
    let look = Look {
        width: terminal::width(),
        has_colors,
        top: Some(top).filter(|top| *top > 0),
        sort: None,
        seen: Default::default(),
    };
    let mut text = String::new();
    paragraph(&mut text, &look, &head(path, zero));
    for sentence in remarks(path, zero) {
        paragraph(&mut text, &look, &sentence);
    }
    segments(&mut text, path, zero, &look);
    let share = |ns: u64| Cell::share(ns, path.ns);
    let columns = |what| {
        [
            what,
            Column::number("time"),
            Column::number("share"),
            Column::number("segments"),
        ]
    };
    let rows = path.by_who.iter().map(|of| {
        vec![
            Cell::text(who(&of.who)),
            Cell::duration(of.ns),
            share(of.ns),
            Cell::count(of.segments),
        ]
    });
    let table = Table::new("By who", columns(Column::name("who"))).with(rows);
    text.push_str(&look.print(table));
    let rows = path.by_kind.iter().map(|of| {
        vec![
            Cell::text(of.kind.label()),
            Cell::duration(of.ns),
            share(of.ns),
            Cell::count(of.segments),
        ]
    });
    let table = Table::new("By kind", columns(Column::text("kind"))).with(rows);
    text.push_str(&look.print(table));
    text
}

fn paragraph(text: &mut String, look: &Look, sentence: &str) {
    let mut sentence = sentence.to_owned();
    crate::dump::escape_controls(&mut sentence);
    for line in wrap(&sentence, look.width) {
        text.push_str(&line);
        text.push('\n');
    }
}

/// What the path is of.
fn head(path: &CriticalPath, zero: i64) -> String {
    let what = match path.stretch {
        StretchKind::LockWait => {
            let lock = path.lock.as_ref().map_or_else(String::new, lock);
            format!("waited {} for the lock {lock}", duration(path.ns))
        }
        StretchKind::OffCpu => format!("was off CPU for {}", duration(path.ns)),
        StretchKind::Activation => {
            format!(
                "took {} from its wake-up to its next wait",
                duration(path.ns)
            )
        }
        _ => format!("in a stretch of {}", duration(path.ns)),
    };
    format!(
        "{} {what}, from {} to {}.",
        thread(path.thread.as_ref()),
        seconds(zero, Some(path.begin_ns)),
        seconds(zero, Some(path.end_ns))
    )
}

/// What the reader must know about the path.
fn remarks(path: &CriticalPath, zero: i64) -> Vec<String> {
    let mut remarks = Vec::new();
    if path.is_open {
        remarks.push("This had not ended at the end of the trace.".to_owned());
    }
    if path.losses > 0 {
        remarks.push(format!(
            "Events were lost meanwhile ({}): what a thread did is unknown from there until the \
             trace shows it again.",
            count(path.losses, "loss", "losses")
        ));
    }
    if let Some(from) = path.kept_from_ns {
        remarks.push(format!(
            "So much happened meanwhile that only what follows {} is kept.",
            seconds(zero, Some(from))
        ));
    }
    remarks
}

fn segments(text: &mut String, path: &CriticalPath, zero: i64, look: &Look) {
    let mut longest: Vec<&Segment> = path.segments.iter().collect();
    longest.sort_by_key(|segment| std::cmp::Reverse(segment.ns));
    let hidden = longest.split_off(look.top.unwrap_or(longest.len()).min(longest.len()));
    longest.sort_by_key(|segment| segment.begin_ns);
    let columns = [
        Column::number("from"),
        Column::number("time").joined().worst(),
        Column::number("share").joined(),
        Column::name("who"),
        Column::items("what").joined(),
        Column::number("CPU"),
        Column::name("system call"),
        Column::items("why it counts"),
    ];
    let rows = longest.into_iter().map(|segment| {
        vec![
            Cell::text(seconds(zero, Some(segment.begin_ns))),
            Cell::duration(segment.ns),
            Cell::share(segment.ns, path.ns),
            Cell::text(who(&segment.who)),
            Cell::text(what(segment)),
            Cell::maybe(segment.cpu, |cpu| Cell::ranked(cpu.to_string(), cpu as f64)),
            Cell::maybe(segment.call.as_ref(), |of| Cell::text(call(of))),
            Cell::maybe(segment.because.as_ref(), |of| Cell::text(because(of))),
        ]
    });
    let title = "Critical path, in the order of time";
    text.push_str(&look.print_whole(Table::new(title, columns).keyed_by(2).with(rows)));
    if !hidden.is_empty() {
        let time = hidden.iter().map(|segment| segment.ns).sum();
        let sentence = format!(
            "and {} shorter ones, {} together; --top 0 prints all",
            thousands(hidden.len() as u64),
            duration(time)
        );
        paragraph(text, look, &sentence);
    }
}

fn thread(thread: Option<&ThreadRef>) -> String {
    match thread {
        Some(ThreadRef {
            tid,
            name: Some(name),
        }) => format!("{name} ({tid})"),
        Some(ThreadRef { tid, name: None }) => format!("thread {tid}"),
        None => "-".to_owned(),
    }
}

fn lock(lock: &LockRef) -> String {
    let name = lock.name.clone();
    name.unwrap_or_else(|| format!("{:#x}", lock.lock))
}

fn call(call: &CallRef) -> String {
    let number = || call.id.map(|id| id.to_string());
    call.name.clone().or_else(number).unwrap_or_default()
}

/// Who was responsible.
fn who(who: &Who) -> String {
    match who {
        Who::Thread(of) => thread(Some(of)),
        Who::Interrupt(irq) => {
            let soft = if irq.soft { "soft " } else { "" };
            match &irq.name {
                Some(name) => format!("{soft}interrupt {name} ({})", irq.irq),
                None => format!("{soft}interrupt {}", irq.irq),
            }
        }
        Who::IdleCpu { cpu } => format!("idle CPU {cpu}"),
        _ => "not recorded".to_owned(),
    }
}

/// What it did to the followed thread.
fn what(segment: &Segment) -> String {
    let followed = thread(segment.thread.as_ref());
    match (segment.kind, segment.note) {
        (_, Some(Note::Deadlock)) => {
            format!("has the lock for which {followed} waits, and waits for it: a deadlock")
        }
        (SegmentKind::Running, _) => "runs".to_owned(),
        (SegmentKind::Interrupt, Some(Note::Wakes)) => format!("wakes {followed}"),
        (SegmentKind::Interrupt, _) => format!("interrupts {followed}"),
        (SegmentKind::Runnable, Some(Note::Cpu)) => {
            format!("{followed} is runnable; what its CPU runs is not in the trace")
        }
        (SegmentKind::Runnable, _) => match segment.who {
            Who::IdleCpu { .. } => format!("runs nothing, though {followed} is runnable"),
            _ => format!("runs while {followed} is runnable"),
        },
        (SegmentKind::Unknown, Some(Note::NotKept)) => {
            "too much happened to be kept: before this nothing is known".to_owned()
        }
        (SegmentKind::Unknown, _) => format!("the trace does not say what {followed} does"),
        (kind, note) => {
            let state = match kind {
                SegmentKind::Sleeping => "sleeps",
                SegmentKind::Suspended => "is suspended",
                SegmentKind::Ended => "has ended",
                _ => "is blocked",
            };
            match (note, &segment.who) {
                (None, Who::Interrupt(_)) => format!("{followed} {state} until it happens"),
                (Some(Note::Interrupt), _) => {
                    format!("{followed} {state}; the trace does not say which interrupt woke it")
                }
                (Some(Note::Waker), _) => {
                    format!("{followed} {state}; the trace does not say who woke it")
                }
                (Some(Note::NotWoken), _) => format!("{followed} {state} and is not woken yet"),
                _ => format!("{followed} {state}"),
            }
        }
    }
}

/// Why the path follows the thread.
fn because(because: &Because) -> String {
    match because {
        Because::Wakes { waiter } => format!("wakes {}", thread(waiter.as_ref())),
        Because::Creates { waiter } => format!("creates {}", thread(waiter.as_ref())),
        Because::Holds { waiter, lock: of } => {
            format!("has {}, {} waits", lock(of), thread(waiter.as_ref()))
        }
        _ => String::new(),
    }
}
