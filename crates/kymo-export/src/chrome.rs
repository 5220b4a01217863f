//! Chrome's trace event format, as JSON: one event a line.
//!
//! After the published description of the format ("Trace Event Format"): `B` and `E` are slices,
//! `i` points, `C` counters, `s` and `f` the ends of flows, `M` names. Times are microseconds with
//! three decimals: the trace's nanoseconds, exactly. Readers hold them in floats of 64 bits, which
//! round those of clocks that count from 1970: such a trace is drawn from its beginning on, which is
//! `begin_ns` in `otherData`. Processes and threads have numbers in this format; here these are
//! numbers of tracks, and what the trace calls them is in their names.

use std::io::{self, Write};

use serde_json::{Value as Json, json};

use kymo_profile::Profile;
use kymo_text::{decimal, json_string, signed};

use crate::canvas::FileCanvas;
use crate::profile::{chrome, timed};
use kymo_text::display;
use kymo_timeline::{Canvas, Flow, Label, Name, Note, Noted, Track, TrackId, TrackKind};

#[derive(Debug)]
struct Place {
    /// The track's outermost one.
    pid: u64,
    /// What a counter is called, which goes with each value.
    name: String,
    /// What every event on the track has: `,"pid":1,"tid":2`.
    ids: Box<[u8]>,
}

/// Bytes that are written at once.
const BLOCK: usize = 1 << 16;

/// Writes the file.
#[derive(Debug)]
pub(crate) struct Chrome<W> {
    out: W,
    /// What is not written yet.
    text: Vec<u8>,
    /// By number of the track.
    places: Vec<Option<Place>>,
    /// Names as they are written, by number.
    names: Vec<Box<[u8]>>,
    has_begun: bool,
    /// The timeline's origin in nanoseconds from the clock's, if that is another one.
    origin: Option<i128>,
    /// Whether the array of events is closed.
    has_ended: bool,
}

/// What is behind the times and numbers of an event, besides its label.
enum Extra {
    None,
    /// A point concerns its thread.
    Scope,
    /// A slice with both its ends.
    Duration,
}

impl<W: Write> Chrome<W> {
    pub(crate) fn new(out: W) -> Chrome<W> {
        Chrome {
            out,
            text: Vec::new(),
            places: Vec::new(),
            names: Vec::new(),
            has_begun: false,
            origin: None,
            has_ended: false,
        }
    }

    fn place(&self, track: TrackId) -> Option<&Place> {
        self.places.get(usize::try_from(track).ok()?)?.as_ref()
    }

    #[inline]
    fn separate(&mut self) {
        let before: &[u8] = if std::mem::replace(&mut self.has_begun, true) {
            b",\n"
        } else {
            b"{\"traceEvents\":[\n"
        };
        self.text.extend_from_slice(before);
    }

    /// Begins an event's object.
    #[inline]
    fn open(&mut self, phase: u8, at: u64, track: TrackId) {
        self.separate();
        let mut head = *b"{\"ph\":\"?\",\"ts\":";
        let [_, _, _, _, _, _, _, place, ..] = &mut head;
        *place = phase;
        self.text.extend_from_slice(&head);
        self.micros(at);
        let place = usize::try_from(track).ok();
        match place.and_then(|place| self.places.get(place)?.as_ref()) {
            Some(place) => self.text.extend_from_slice(&place.ids),
            None => display(
                &mut self.text,
                format_args!(",\"pid\":{track},\"tid\":{track}"),
            ),
        }
    }

    /// A time. A float would round: the number is written as it is.
    #[inline]
    fn micros(&mut self, at: u64) {
        let (micros, nanos) = (at / 1000, (at % 1000) as u16);
        decimal(&mut self.text, micros);
        let digit = |number: u16| b'0' + (number % 10) as u8;
        let thousandths = [b'.', digit(nanos / 100), digit(nanos / 10), digit(nanos)];
        self.text.extend_from_slice(&thousandths);
    }

    /// Closes the array of events.
    fn end_events(&mut self) {
        if !std::mem::replace(&mut self.has_ended, true) {
            let before: &[u8] = match self.has_begun {
                true => b"\n]",
                false => b"{\"traceEvents\":[]",
            };
            self.text.extend_from_slice(before);
        }
    }

    /// Ends an event.
    #[inline]
    fn close(&mut self) -> io::Result<()> {
        self.text.push(b'}');
        match self.text.len() {
            BLOCK.. => self.write(),
            _ => Ok(()),
        }
    }

    fn write(&mut self) -> io::Result<()> {
        self.out.write_all(&self.text)?;
        self.text.clear();
        Ok(())
    }

    fn event(
        &mut self,
        phase: u8,
        at: u64,
        track: TrackId,
        label: &Label<'_>,
        extra: &Extra,
    ) -> io::Result<()> {
        self.open(phase, at, track);
        let text = &mut self.text;
        if !label.notes.is_empty() {
            text.extend_from_slice(b",\"args\":{");
            arguments(text, &mut self.names, label.notes);
            text.push(b'}');
        }
        if !label.name.text.is_empty() {
            text.extend_from_slice(b",\"cat\":\"");
            text.extend_from_slice(label.name.category.as_bytes());
            text.push(b'"');
        }
        if let Extra::Duration = extra {
            text.extend_from_slice(b",\"dur\":0");
        }
        if !label.name.text.is_empty() {
            text.extend_from_slice(b",\"name\":");
            write_name(text, &mut self.names, &label.name);
        }
        if let Extra::Scope = extra {
            text.extend_from_slice(b",\"s\":\"t\"");
        }
        self.close()
    }

    /// The end of an arrow, on the slice that is open.
    fn flow(&mut self, at: u64, track: TrackId, flow: Flow) -> io::Result<()> {
        let (phase, binding, id): (u8, &[u8], u64) = match flow {
            Flow::None => return Ok(()),
            Flow::Begins(id) => (b's', b"", id),
            Flow::Ends(id) => (b'f', b",\"bp\":\"e\"", id),
        };
        self.open(phase, at, track);
        self.text.extend_from_slice(binding);
        self.text.extend_from_slice(b",\"cat\":\"flow\",\"id\":");
        decimal(&mut self.text, id);
        self.text.extend_from_slice(b",\"name\":\"flow\"");
        self.close()
    }
}

/// Notes as members of an object, by their names; of several by one name the last.
fn arguments(text: &mut Vec<u8>, names: &mut Vec<Box<[u8]>>, notes: &[Noted<'_>]) {
    let mut first = 0;
    // The next by name. Notes are few.
    while let Some(next) = notes
        .iter()
        .rev()
        .filter(|noted| noted.rank >= first)
        .min_by_key(|noted| noted.rank)
    {
        if first > 0 {
            text.push(b',');
        }
        first = next.rank + 1;
        write_name(text, names, &next.name);
        text.push(b':');
        match &next.note {
            Note::Unsigned(value) => decimal(text, *value),
            Note::Address(value) => address(text, *value),
            Note::Signed(value) => signed(text, *value),
            Note::Float(value) => display(text, Json::from(*value)),
            Note::Text(value) => json_string(text, value),
        }
    }
}

/// A hexadecimal number, in quotes: JSON has none.
fn address(text: &mut Vec<u8>, value: u64) {
    text.extend_from_slice(b"\"0x");
    let digits = 16 - (value | 1).leading_zeros() / 4;
    text.extend(
        (0..digits)
            .rev()
            .map(|place| match (value >> (4 * place)) as u8 & 0xf {
                digit @ 0..10 => b'0' + digit,
                digit => b'a' + digit - 10,
            }),
    );
    text.push(b'"');
}

/// Writes a name in quotes, and keeps that if the name has a number.
#[inline]
fn write_name(text: &mut Vec<u8>, names: &mut Vec<Box<[u8]>>, name: &Name<'_>) {
    match names.get(name.number) {
        Some(known) if !known.is_empty() => text.extend_from_slice(known),
        _ => {
            let begin = text.len();
            json_string(text, name.text);
            if name.number > 0 {
                names.resize(names.len().max(name.number + 1), Box::default());
                if let (Some(known), Some(written)) =
                    (names.get_mut(name.number), text.get(begin..))
                {
                    *known = written.into();
                }
            }
        }
    }
}

impl<W: Write> Canvas for Chrome<W> {
    /// A float tells nanoseconds apart up to 2^53 of them. The trace gets half of that, 52 days.
    const EXACT: u64 = 1 << 52;

    fn origin(&mut self, nanos: i128) {
        self.origin = Some(nanos);
    }

    fn track(&mut self, track: &Track<'_>) -> io::Result<()> {
        let parent = track.parent.and_then(|parent| self.place(parent));
        let pid = parent.map_or(track.id, |parent| parent.pid);
        let name = match (track.kind, parent) {
            (TrackKind::Process { pid: number } | TrackKind::Thread { tid: number, .. }, _) => {
                // One that has no name is called by its number.
                let has_number = track.name.rsplit(' ').next() == Some(number.to_string().as_str());
                if has_number {
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
        self.separate();
        display(&mut self.text, object);
        let ids = format!(",\"pid\":{pid},\"tid\":{}", track.id);
        let place = usize::try_from(track.id).unwrap_or(usize::MAX);
        // Tracks are numbered one after another.
        if self.places.len() <= place {
            self.places.resize_with(place + 1, || None);
        }
        if let Some(cell) = self.places.get_mut(place) {
            *cell = Some(Place {
                pid,
                name,
                ids: ids.into_bytes().into(),
            });
        }
        Ok(())
    }

    fn begin(&mut self, at: u64, track: TrackId, label: &Label<'_>) -> io::Result<()> {
        self.event(b'B', at, track, label, &Extra::None)?;
        self.flow(at, track, label.flow)
    }

    fn end(&mut self, at: u64, track: TrackId, label: &Label<'_>) -> io::Result<()> {
        self.flow(at, track, label.flow)?;
        self.event(b'E', at, track, label, &Extra::None)
    }

    fn point(&mut self, at: u64, track: TrackId, label: &Label<'_>) -> io::Result<()> {
        if label.flow == Flow::None {
            return self.event(b'i', at, track, label, &Extra::Scope);
        }
        // Arrows are between slices.
        self.event(b'X', at, track, label, &Extra::Duration)?;
        self.flow(at, track, label.flow)
    }

    fn counter(&mut self, at: u64, track: TrackId, value: i64) -> io::Result<()> {
        self.open(b'C', at, track);
        self.text.extend_from_slice(b",\"args\":{\"value\":");
        signed(&mut self.text, value);
        self.text.extend_from_slice(b"},\"name\":");
        let place = usize::try_from(track).ok();
        let place = place.and_then(|place| self.places.get(place)?.as_ref());
        json_string(&mut self.text, place.map_or("", |place| &place.name));
        self.close()
    }
}

impl<W: Write> FileCanvas for Chrome<W> {
    fn samples(&mut self, profile: &Profile, base: i128) -> io::Result<()> {
        self.end_events();
        chrome::frames(profile, &mut self.text);
        self.text.extend_from_slice(b",\"samples\":[");
        let mut before: &[u8] = b"\n{\"ts\":";
        for timed in timed(profile, base) {
            self.text.extend_from_slice(before);
            before = b",\n{\"ts\":";
            self.micros(timed.at);
            chrome::sample(profile, &timed, &mut self.text);
            if self.text.len() >= BLOCK {
                self.write()?;
            }
        }
        self.text.push(b']');
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.end_events();
        if let Some(nanos) = self.origin {
            // As a text: it is too long for a float.
            display(
                &mut self.text,
                format_args!(",\"otherData\":{{\"begin_ns\":\"{nanos}\"}}"),
            );
        }
        self.text
            .extend_from_slice(b",\"displayTimeUnit\":\"ns\"}\n");
        self.write()?;
        self.out.flush()
    }
}
