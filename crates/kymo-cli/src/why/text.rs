//! A critical path as text.

use kymo_analysis::{CriticalPath, Segment, StretchKind};

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
            Cell::text(of.who.to_string()),
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
            let lock = path
                .lock
                .as_ref()
                .map_or_else(String::new, ToString::to_string);
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
        path.whose(),
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
            Cell::text(segment.who.to_string()),
            Cell::text(segment.says()),
            Cell::maybe(segment.cpu, |cpu| Cell::ranked(cpu.to_string(), cpu as f64)),
            Cell::maybe(segment.call.as_ref(), |of| Cell::text(of.to_string())),
            Cell::maybe(segment.because.as_ref(), |of| Cell::text(of.to_string())),
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
