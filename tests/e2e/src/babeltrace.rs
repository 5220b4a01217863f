//! babeltrace2, the reference reader.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use kymo::ChannelKind;
use kymo::event::EventSchema;
use kymo::vocabulary;
use kymo_ctf::{Fields, Item, LossKind, Ticks, Trace, Value};

/// Losses by stream file: (events, packets).
pub type Losses = BTreeMap<String, (u64, u64)>;

/// Opens the trace with babeltrace2 and compares all of it with what `kymo dump` reads: every
/// event's name, CPU, fields and time stamp, the order within each stream always and across streams
/// wherever times differ, and every loss. babeltrace2 must end with 0 and say nothing on its
/// standard error but what it says of losses. Returns the number of events and the losses.
pub fn compare(trace: &Path) -> (u64, Losses) {
    let mut child = Command::new("babeltrace2")
        .args(["--clock-cycles", "--no-delta", "--color=never"])
        .arg(trace)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("babeltrace2 is installed: `cargo xtask setup` does it");
    let mut stderr = child.stderr.take().unwrap();
    let errors = thread::spawn(move || {
        let mut text = String::new();
        stderr.read_to_string(&mut text).unwrap();
        text
    });
    let ours = Trace::open(trace).unwrap();
    let clock = Arc::clone(&ours.metadata().clocks()[0]);
    let mut ours = Ours {
        items: ours.events(),
        waiting: BTreeMap::new(),
        losses: Losses::new(),
        latest: 0,
    };
    let mut events = 0u64;
    let mut latest = i128::MIN;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = decimal(&line.unwrap());
        let expected = ours.next_of(&stream_of(&line));
        assert_eq!(expected.as_deref(), Some(&*line), "{}", trace.display());
        // babeltrace2 merges by rounded nanoseconds, Kymo by the clock's ticks.
        let nanos = clock.nanos_from_origin(Ticks(time_of(&line)));
        assert!(nanos + 1 >= latest, "babeltrace2 has another order: {line}");
        latest = latest.max(nanos);
        events += 1;
    }
    assert_eq!(
        ours.rest(),
        None,
        "babeltrace2 does not read this event of {}",
        trace.display()
    );
    let errors = errors.join().unwrap();
    assert!(
        child.wait().unwrap().success(),
        "babeltrace2 refuses {}:\n{errors}",
        trace.display()
    );
    assert_eq!(losses(&errors), ours.losses, "{}", trace.display());
    (events, ours.losses)
}

/// A stream as a line identifies it: the CPU, and whether it is the names channel, which its events
/// show.
type Stream = (String, bool);

/// The events that Kymo reads, as lines, by stream.
struct Ours {
    items: kymo_ctf::Events,
    waiting: BTreeMap<Stream, VecDeque<String>>,
    losses: Losses,
    latest: u64,
}

impl Ours {
    /// The next event of this stream.
    fn next_of(&mut self, stream: &Stream) -> Option<String> {
        loop {
            if let Some(line) = self.waiting.get_mut(stream).and_then(VecDeque::pop_front) {
                return Some(line);
            }
            let line = self.read()?;
            self.waiting
                .entry(stream_of(&line))
                .or_default()
                .push_back(line);
        }
    }

    /// An event that was not consumed.
    fn rest(&mut self) -> Option<String> {
        self.waiting
            .values_mut()
            .find_map(VecDeque::pop_front)
            .or_else(|| self.read())
    }

    fn read(&mut self) -> Option<String> {
        loop {
            match self.items.next()?.unwrap_or_else(|error| panic!("{error}")) {
                Item::Event(event) => {
                    let time = event.time.unwrap().0;
                    assert!(time >= self.latest, "time steps back");
                    self.latest = time;
                    let cpu = event.cpu().unwrap();
                    return Some(format!(
                        "[{time:020}] {}: {{ cpu_id = {cpu} }}, {}",
                        event.name(),
                        fields(&event.fields)
                    ));
                }
                Item::Loss(loss) => {
                    let lost = self.losses.entry(loss.stream.to_string()).or_default();
                    match loss.kind {
                        LossKind::Events => lost.0 += loss.count,
                        LossKind::Packets => lost.1 += loss.count,
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Parses babeltrace2's messages about losses; any other message is a failure.
fn losses(errors: &str) -> Losses {
    let mut losses = Losses::new();
    for line in errors.lines() {
        let parts = || {
            let rest = line.strip_prefix("WARNING: Tracer discarded ")?;
            let (count, rest) = rest.split_once(' ')?;
            let file = rest.split_once("within stream \"")?.1.split_once('"')?.0;
            Some((
                count.parse::<u64>().ok()?,
                rest.starts_with("packet"),
                file.rsplit('/').next()?.to_owned(),
            ))
        };
        let (count, packets, stream) =
            parts().unwrap_or_else(|| panic!("babeltrace2 says more than losses: {line}"));
        let lost = losses.entry(stream).or_default();
        if packets {
            lost.1 += count;
        } else {
            lost.0 += count;
        }
    }
    losses
}

fn time_of(line: &str) -> u64 {
    line.strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
        .and_then(|(digits, _)| digits.parse().ok())
        .unwrap_or_else(|| panic!("no time in {line}"))
}

/// The line with its hexadecimal numbers (addresses) as decimal ones.
fn decimal(line: &str) -> String {
    let mut parts = line.split("= 0x");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part
            .find(|c: char| !c.is_ascii_hexdigit())
            .unwrap_or(part.len());
        write!(
            out,
            "= {}{}",
            u64::from_str_radix(&part[..digits], 16).unwrap(),
            &part[digits..]
        )
        .unwrap();
    }
    out
}

fn stream_of(line: &str) -> Stream {
    let cpu = line
        .split("cpu_id = ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next())
        .unwrap_or_default();
    let event = line
        .split_once("] ")
        .and_then(|(_, rest)| rest.split(':').next());
    let is_name =
        |schema: &&EventSchema| schema.channel == ChannelKind::Names && Some(schema.name) == event;
    (cpu.to_owned(), vocabulary::ALL.events().iter().any(is_name))
}

/// Fields as in babeltrace2's text.
fn fields(fields: &Fields) -> String {
    if fields.is_empty() {
        return String::from("{ }");
    }
    let mut out = String::from("{ ");
    for (index, (name, value)) in fields.iter().enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        write!(out, "{comma}{name} = {}", show(value)).unwrap();
    }
    out.push_str(" }");
    out
}

fn show(value: &Value) -> String {
    match value {
        Value::UInt(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Str(text) => format!("\"{text}\""),
        Value::Enum { value, labels } => {
            let label = labels
                .first()
                .map_or_else(|| "<unknown>".to_owned(), |label| format!("\"{label}\""));
            format!("( {label} : container = {value} )")
        }
        Value::Array(values) if values.is_empty() => "[ ]".to_owned(),
        Value::Array(values) => {
            let values: Vec<String> = values
                .iter()
                .enumerate()
                .map(|(index, value)| format!("[{index}] = {}", show(value)))
                .collect();
            format!("[ {} ]", values.join(", "))
        }
        other => panic!("Kymo writes no {other:?}"),
    }
}
