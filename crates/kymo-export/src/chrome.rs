//! Chrome's trace event format, as JSON: one event a line.
//!
//! After the published description of the format ("Trace Event Format"): `B` and `E` are slices,
//! `i` points, `C` counters, `s` and `f` the ends of flows, `M` names. Times are microseconds with
//! three decimals: the trace's nanoseconds, exactly. Processes and threads have numbers in this
//! format; here these are numbers of tracks, and what the trace calls them is in their names.

use std::collections::HashMap;
use std::io::{self, Write};

use serde_json::{Map, Value as Json, json};

use crate::timeline::{Canvas, Flow, Label, Track, TrackId, TrackKind};
use crate::value::Note;

#[derive(Debug)]
struct Place {
    /// The track's outermost one.
    pid: u64,
    /// What a counter is called, which is told with each value.
    name: String,
}

/// Writes the file.
#[derive(Debug)]
pub(crate) struct Chrome<W> {
    out: W,
    places: HashMap<TrackId, Place>,
    has_begun: bool,
}

impl<W: Write> Chrome<W> {
    pub(crate) fn new(out: W) -> Chrome<W> {
        Chrome {
            out,
            places: HashMap::new(),
            has_begun: false,
        }
    }

    fn line(&mut self, object: &Json) -> io::Result<()> {
        let before = if std::mem::replace(&mut self.has_begun, true) {
            ",\n"
        } else {
            "{\"traceEvents\":[\n"
        };
        write!(self.out, "{before}{object}")
    }

    fn event(&mut self, phase: &str, at: u64, track: TrackId, more: Json) -> io::Result<()> {
        let pid = self.places.get(&track).map_or(track, |place| place.pid);
        let before = if std::mem::replace(&mut self.has_begun, true) {
            ",\n"
        } else {
            "{\"traceEvents\":[\n"
        };
        // A float would round: the number is written as it is.
        let (micros, nanos) = (at / 1000, at % 1000);
        write!(
            self.out,
            "{before}{{\"ph\":\"{phase}\",\"ts\":{micros}.{nanos:03},\"pid\":{pid},\"tid\":{track}"
        )?;
        if let Json::Object(more) = more {
            for (name, value) in more {
                write!(self.out, ",{}:{value}", Json::from(name))?;
            }
        }
        self.out.write_all(b"}")
    }

    /// The end of an arrow, on the slice that is open.
    fn flow(&mut self, at: u64, track: TrackId, flow: Flow) -> io::Result<()> {
        let named = |id: u64| json!({ "cat": "flow", "name": "flow", "id": id });
        match flow {
            Flow::None => Ok(()),
            Flow::Begins(id) => self.event("s", at, track, named(id)),
            Flow::Ends(id) => {
                let mut more = named(id);
                more["bp"] = "e".into();
                self.event("f", at, track, more)
            }
        }
    }
}

fn named(label: &Label<'_>) -> Json {
    let mut more = Map::new();
    if !label.name.is_empty() {
        more.insert("name".into(), label.name.into());
        more.insert("cat".into(), label.category.into());
    }
    if !label.notes.is_empty() {
        let value = |note: &Note<'_>| match note {
            Note::Unsigned(value) => (*value).into(),
            Note::Address(value) => format!("{value:#x}").into(),
            Note::Signed(value) => (*value).into(),
            Note::Float(value) => (*value).into(),
            Note::Text(text) => Json::from(&**text),
        };
        let args: Map<String, Json> = label
            .notes
            .iter()
            .map(|(name, note)| ((*name).to_owned(), value(note)))
            .collect();
        more.insert("args".into(), args.into());
    }
    Json::Object(more)
}

impl<W: Write> Canvas for Chrome<W> {
    fn track(&mut self, track: &Track<'_>) -> io::Result<()> {
        let parent = track.parent.and_then(|parent| self.places.get(&parent));
        let pid = parent.map_or(track.id, |parent| parent.pid);
        let name = match (track.kind, parent) {
            (TrackKind::Process { pid: number } | TrackKind::Thread { tid: number, .. }, _) => {
                // One that has no name is called by its number.
                let told = track.name.rsplit(' ').next() == Some(number.to_string().as_str());
                if told {
                    track.name.to_owned()
                } else {
                    format!("{} {number}", track.name)
                }
            }
            // Of a thread's tracks: the format has no tracks within others.
            (_, Some(parent)) if track.parent != Some(parent.pid) => {
                format!("{}: {}", parent.name, track.name)
            }
            _ => track.name.to_owned(),
        };
        let (what, tid) = match track.parent {
            None => ("process_name", json!({})),
            Some(_) => ("thread_name", json!({ "tid": track.id })),
        };
        let mut object = json!({ "ph": "M", "pid": pid, "name": what, "args": { "name": name } });
        if let (Json::Object(object), Json::Object(tid)) = (&mut object, tid) {
            object.extend(tid);
        }
        self.places.insert(track.id, Place { pid, name });
        self.line(&object)
    }

    fn begin(&mut self, at: u64, track: TrackId, label: &Label<'_>) -> io::Result<()> {
        self.event("B", at, track, named(label))?;
        self.flow(at, track, label.flow)
    }

    fn end(&mut self, at: u64, track: TrackId, label: &Label<'_>) -> io::Result<()> {
        self.flow(at, track, label.flow)?;
        self.event("E", at, track, named(label))
    }

    fn point(&mut self, at: u64, track: TrackId, label: &Label<'_>) -> io::Result<()> {
        let mut more = named(label);
        if label.flow == Flow::None {
            more["s"] = "t".into();
            return self.event("i", at, track, more);
        }
        // Arrows are between slices.
        more["dur"] = 0.into();
        self.event("X", at, track, more)?;
        self.flow(at, track, label.flow)
    }

    fn counter(&mut self, at: u64, track: TrackId, value: i64) -> io::Result<()> {
        let name = self
            .places
            .get(&track)
            .map_or_else(String::new, |place| place.name.clone());
        self.event(
            "C",
            at,
            track,
            json!({ "name": name, "args": { "value": value } }),
        )
    }

    fn finish(&mut self) -> io::Result<()> {
        let before = if self.has_begun {
            "\n"
        } else {
            "{\"traceEvents\":["
        };
        self.out
            .write_all(format!("{before}],\"displayTimeUnit\":\"ns\"}}\n").as_bytes())?;
        self.out.flush()
    }
}
