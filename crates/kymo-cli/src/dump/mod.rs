//! `kymo dump`: a trace as text or JSON, and how much of what is in it.

mod babeltrace;
mod count;
mod json;
mod named;
mod owned;
mod plan;
#[cfg(test)]
mod tests;
mod text;
mod time;
mod wall;

use std::io::{self, Write};

use kymo_ctf::{Consequence, ItemRef, LossKind, Trace, TraceMap};

pub use count::{Counts, count, table};
pub use owned::{fields_json, fields_text};
pub use wall::Zone;

use self::named::Naming;
use self::plan::{Form, Lines};
use crate::select::{Select, Verdict};

/// What an event looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// A line with the time since the trace began, the CPU, the stream, the event and its fields.
    Kymo,
    /// The lines of babeltrace2, so that what reads those can read these.
    Babeltrace,
    /// A JSON object a line.
    Json,
}

/// What was printed or counted of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Event records.
    pub events: u64,
    /// Event records that the trace says were lost.
    pub lost_events: u64,
    /// Packets that the trace says were lost.
    pub lost_packets: u64,
}

impl Outcome {
    fn add(&mut self, item: &ItemRef<'_>) {
        match item {
            ItemRef::Event(_) => self.events += 1,
            ItemRef::Loss(loss) => {
                let lost = match loss.kind {
                    LossKind::Events => &mut self.lost_events,
                    LossKind::Packets => &mut self.lost_packets,
                };
                *lost = lost.saturating_add(loss.count);
            }
            _ => {}
        }
    }
}

/// What is to be written.
#[derive(Default)]
struct Page {
    /// To the output.
    lines: Vec<u8>,
    /// To the standard error.
    messages: Vec<u8>,
}

/// A page is written when it has this many bytes.
const FULL: usize = 1 << 16;

/// Prints what is selected of the trace to `out`: one line an event or loss, in the order of time;
/// as JSON, one object a line.
///
/// Times are seconds since the earliest stream began; in JSON, nanoseconds from the clock's origin,
/// and the clock's own ticks; in babeltrace2's form, times of the day in `zone`. That form has
/// losses and damage in `messages`, the others in `out`. With `names`, the other forms add what the
/// fields' numbers are called, and the thread that ran. A reader of `out` that goes away early
/// (`| head`) is not an error.
///
/// # Errors
/// [`kymo_ctf::Error`] (to be found by `downcast_ref`) if a stream is damaged: then everything that
/// can be read was printed, a line in its place says where the stream ends, and the first such
/// error is returned. [`Usage`](crate::exit::Usage) if the trace has nothing of a CPU or thread
/// that was asked for. [`io::Error`] if `out` cannot be written.
pub fn run(
    trace: &Trace,
    format: Format,
    zone: Zone,
    names: bool,
    select: &mut Select,
    out: &mut impl Write,
    messages: &mut impl Write,
) -> anyhow::Result<Outcome> {
    let naming = names.then(|| Naming::new(format));
    match format {
        Format::Kymo => print(trace, text::Text::new, naming, select, out, messages),
        Format::Json => print(trace, |_, _| json::Json, naming, select, out, messages),
        Format::Babeltrace => {
            let form = |map: &TraceMap, _| babeltrace::Babeltrace::new(map, zone);
            print(trace, form, None, select, out, messages)
        }
    }
}

fn print<F: Form>(
    trace: &Trace,
    form: impl FnOnce(&TraceMap, Option<i128>) -> F,
    mut naming: Option<Naming>,
    select: &mut Select,
    out: &mut impl Write,
    messages: &mut impl Write,
) -> anyhow::Result<Outcome> {
    let map = trace.map();
    let mut reader = match naming {
        // The names, and who runs, come from what is before the selection.
        Some(_) => map.read().strict(select.strict),
        None => select.read(&map),
    };
    let mut lines = Lines::new(&map, form(&map, reader.begin_nanos()));
    let (mut page, mut outcome) = (Page::default(), Outcome::default());
    let mut damage = None;
    // Strictly, the first of them is the end.
    let stops = select.strict && !map.failed().is_empty();
    map.failed()
        .iter()
        .take(if stops { 1 } else { usize::MAX })
        .for_each(|error| lines.error(error, &mut page));
    while let Some(item) = reader.next().filter(|_| !stops) {
        if let Some(naming) = &mut naming {
            naming.follow(&item);
        }
        match select.judge(&item) {
            Verdict::Take => outcome.add(&item),
            Verdict::Leave => continue,
            Verdict::End => break,
        }
        match item {
            ItemRef::Event(event) => {
                lines.event(&event, &mut page);
                if let Some(naming) = &naming {
                    naming.complete(&event, &mut page.lines);
                }
            }
            ItemRef::Loss(loss) => lines.loss(loss, &mut page),
            ItemRef::Problem(problem) if problem.consequence == Consequence::Clamped => {
                lines.problem(problem, &mut page)
            }
            ItemRef::Problem(problem) => {
                let error = kymo_ctf::Error::from(problem.clone());
                lines.error(&error, &mut page);
                damage.get_or_insert(error);
                if select.strict {
                    break;
                }
            }
            _ => {}
        }
        if page.lines.len() + page.messages.len() >= FULL && !page.write(out, messages)? {
            return Ok(outcome);
        }
    }
    if page.write(out, messages)? {
        flush(out)?;
    }
    drop(reader);
    select.look_for_missing(&map);
    verdict(map.into_failed().into_iter().next().or(damage), select)?;
    Ok(outcome)
}

impl Page {
    /// Writes what there is; `false` if nobody reads any more.
    fn write(&mut self, out: &mut impl Write, messages: &mut impl Write) -> anyhow::Result<bool> {
        // Nothing can be done about messages that nobody takes.
        let _ = messages.write_all(&self.messages);
        let delivered = deliver(out, &self.lines);
        self.lines.clear();
        self.messages.clear();
        delivered
    }
}

/// Damage first: what is missing may be behind it.
fn verdict(damage: Option<kymo_ctf::Error>, select: &Select) -> anyhow::Result<()> {
    if let Some(damage) = damage {
        return Err(damage.into());
    }
    select
        .missing()
        .map_or(Ok(()), |missing| Err(missing.into()))
}

pub fn not_written(error: io::Error) -> anyhow::Error {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    let advice = match error.kind() {
        StorageFull | QuotaExceeded | FileTooLarge => " (make room where it goes)",
        _ => "",
    };
    anyhow::Error::new(error).context(format!("cannot write the output{advice}"))
}

/// Writes; `false` if nobody reads any more.
pub fn deliver(out: &mut impl Write, bytes: &[u8]) -> anyhow::Result<bool> {
    match out.write_all(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(not_written(error)),
    }
}

/// Writes what is left in the buffer.
pub fn flush(out: &mut impl Write) -> anyhow::Result<()> {
    match out.flush() {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(not_written(error)),
        _ => Ok(()),
    }
}

/// Names come from the trace, and the trace of a broken kernel must not steer the terminal.
pub fn escape_controls(line: &mut String) {
    if line.contains(char::is_control) {
        let escaped = line.chars().map(|c| match c.is_control() {
            true => c.escape_default().to_string(),
            false => c.to_string(),
        });
        *line = escaped.collect();
    }
}

/// Whether a terminal would take anything in it for a command: control characters, also those of
/// two bytes in UTF-8.
fn has_controls(text: &[u8]) -> bool {
    !kymo_text::is_plain(text) && String::from_utf8_lossy(text).contains(char::is_control)
}

fn cpu_name(cpu: Option<u64>) -> String {
    cpu.map_or_else(|| "cpu?".to_owned(), |cpu| format!("cpu{cpu}"))
}
