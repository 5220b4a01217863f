//! pprof's format: `profile.proto` of <https://github.com/google/pprof>, compressed with gzip.
//!
//! A row is a sample with labels for thread, process and CPU. Inlined functions are lines of the
//! location of their caller.

use std::collections::HashMap;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use kymo_profile::{FrameId, Profile, Row, StackId, Unit};

use super::{counted_event, duration, nanoseconds, weighs_time};
use crate::proto::Message;

/// Field numbers of `message Profile`.
mod field {
    pub(super) const SAMPLE_TYPE: u32 = 1;
    pub(super) const SAMPLE: u32 = 2;
    pub(super) const MAPPING: u32 = 3;
    pub(super) const LOCATION: u32 = 4;
    pub(super) const FUNCTION: u32 = 5;
    pub(super) const STRING_TABLE: u32 = 6;
    pub(super) const TIME_NANOS: u32 = 9;
    pub(super) const DURATION_NANOS: u32 = 10;
    pub(super) const PERIOD_TYPE: u32 = 11;
    pub(super) const PERIOD: u32 = 12;
    pub(super) const COMMENT: u32 = 13;
}

/// Writes the profile.
pub(super) fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let mut gzip = GzEncoder::new(out, Compression::default());
    gzip.write_all(message(profile).bytes())?;
    gzip.finish().map(drop)
}

/// The strings, each once; the first is empty.
#[derive(Default)]
struct Strings {
    numbers: HashMap<String, u64>,
    all: Vec<String>,
}

impl Strings {
    fn number(&mut self, text: &str) -> u64 {
        if self.all.is_empty() {
            self.all.push(String::new());
            self.numbers.insert(String::new(), 0);
        }
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.all.len() as u64;
        self.all.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }
}

/// The message `Profile`, uncompressed.
fn message(profile: &Profile) -> Message {
    let mut message = Message::default();
    let mut strings = Strings::default();
    let weighs_time = weighs_time(profile) && profile.unit == Unit::Samples;
    let (kind, unit) = match profile.unit {
        Unit::Samples => ("samples", "count"),
        Unit::Nanoseconds => ("time", "nanoseconds"),
        Unit::Bytes => ("space", "bytes"),
    };
    value_type(&mut message, &mut strings, field::SAMPLE_TYPE, kind, unit);
    if weighs_time {
        let kind = field::SAMPLE_TYPE;
        value_type(&mut message, &mut strings, kind, "cpu", "nanoseconds");
    }
    let event = counted_event(profile);
    if let Some(event) = event {
        let kind = field::SAMPLE_TYPE;
        value_type(&mut message, &mut strings, kind, event, "count");
    }
    let second = |row: &Row| match event {
        Some(_) => Some(row.ticks),
        None => weighs_time.then(|| nanoseconds(profile, row).unwrap_or(0)),
    };
    let mut locations = Locations::default();
    for row in &profile.rows {
        sample(
            &mut message,
            profile,
            row,
            second(row),
            &mut strings,
            &mut locations,
        );
    }
    mappings(&mut message, profile, &mut strings);
    locations.write(&mut message, profile);
    functions(&mut message, profile, &mut strings);
    if let (Some(clock), Some((first, last))) = (&profile.clock, profile.span_ns) {
        if clock.absolute {
            message.signed(field::TIME_NANOS, first);
        }
        message.signed(field::DURATION_NANOS, last.saturating_sub(first));
    }
    let period = profile.period.and_then(|period| duration(profile, period));
    if let (true, Some(nanos)) = (weighs_time, period) {
        let kind = field::PERIOD_TYPE;
        value_type(&mut message, &mut strings, kind, "cpu", "nanoseconds");
        message.unsigned(field::PERIOD, value(nanos));
    }
    if let (Some(event), Some(period)) = (event, profile.period) {
        let kind = field::PERIOD_TYPE;
        value_type(&mut message, &mut strings, kind, event, "count");
        message.unsigned(field::PERIOD, value(period));
    }
    let comment = format!("kymo {}", env!("CARGO_PKG_VERSION"));
    message.unsigned(field::COMMENT, strings.number(&comment));
    for text in &strings.all {
        message.text(field::STRING_TABLE, text);
    }
    message
}

/// `message ValueType`.
fn value_type(message: &mut Message, strings: &mut Strings, field: u32, kind: &str, unit: &str) {
    let (kind, unit) = (strings.number(kind), strings.number(unit));
    message.message(field, |value| {
        value.unsigned(1, kind);
        value.unsigned(2, unit);
    });
}

/// `message Sample`.
fn sample(
    message: &mut Message,
    profile: &Profile,
    row: &Row,
    second: Option<u64>,
    strings: &mut Strings,
    locations: &mut Locations,
) {
    let stack = locations.of(profile, row.stack);
    let mut labels = Vec::new();
    if let Some(thread) = profile.thread(row) {
        labels.push(("thread", thread.label()));
        labels.push(("process", thread.process_label()));
    }
    // As a text: readers take the number 0 for none.
    labels.extend(row.cpu.map(|cpu| ("cpu", cpu.to_string())));
    let labels: Vec<(u64, u64)> = labels
        .into_iter()
        .map(|(key, text)| (strings.number(key), strings.number(&text)))
        .collect();
    message.message(field::SAMPLE, |sample| {
        for location in stack {
            sample.unsigned(1, location);
        }
        sample.unsigned(2, value(row.weight));
        if let Some(second) = second {
            sample.unsigned(2, value(second));
        }
        for (key, text) in labels {
            sample.message(3, |label| {
                label.unsigned(1, key);
                label.unsigned(2, text);
            });
        }
    });
}

/// A value of a sample, which is an `int64`: greater ones would be read as negative.
fn value(number: u64) -> u64 {
    number.min(i64::MAX.cast_unsigned())
}

/// The locations: a function that was not inlined, with those inlined into it before it.
#[derive(Default)]
struct Locations {
    /// Ids, which begin at 1, by frames.
    ids: HashMap<Vec<FrameId>, u64>,
    all: Vec<Vec<FrameId>>,
}

impl Locations {
    /// The locations of a stack, the innermost first.
    fn of(&mut self, profile: &Profile, mut stack: Option<StackId>) -> Vec<u64> {
        let mut found = Vec::new();
        let mut open = Vec::new();
        while let Some(node) = stack.and_then(|stack| profile.stacks.get(stack.index())) {
            open.push(node.frame);
            let frame = profile.frames.get(node.frame.index());
            if !frame.is_some_and(|frame| frame.is_inlined) {
                found.push(self.id(&mut open));
            }
            stack = node.parent;
        }
        if !open.is_empty() {
            found.push(self.id(&mut open));
        }
        found
    }

    /// The id of a location with these frames, which are taken.
    fn id(&mut self, frames: &mut Vec<FrameId>) -> u64 {
        let frames = std::mem::take(frames);
        let next = self.all.len() as u64 + 1;
        *self.ids.entry(frames).or_insert_with_key(|frames| {
            self.all.push(frames.clone());
            next
        })
    }

    /// `message Location`.
    fn write(&self, message: &mut Message, profile: &Profile) {
        for (frames, id) in self.all.iter().zip(1..) {
            let frame = |id: &FrameId| profile.frames.get(id.index());
            message.message(field::LOCATION, |location| {
                location.unsigned(1, id);
                let last = frames.last().and_then(frame);
                let image = last
                    .and_then(|frame| profile.function(frame))
                    .and_then(|function| function.image);
                if let Some(image) = image {
                    location.unsigned(2, u64::from(image.0) + 1);
                }
                location.unsigned(3, last.map_or(0, |frame| frame.address));
                for frame in frames.iter().filter_map(frame) {
                    location.message(4, |line| {
                        line.unsigned(1, u64::from(frame.function.0) + 1);
                        line.unsigned(2, frame.line.map_or(0, u64::from));
                    });
                }
            });
        }
    }
}

/// `message Mapping`: the images, each with the addresses that were seen in it.
fn mappings(message: &mut Message, profile: &Profile, strings: &mut Strings) {
    let mut ranges: Vec<Option<(u64, u64)>> = vec![None; profile.images.len()];
    for frame in &profile.frames {
        let image = profile.function(frame).and_then(|function| function.image);
        if let Some(range) = image.and_then(|image| ranges.get_mut(image.index())) {
            let (low, high) = range.unwrap_or((frame.address, frame.address));
            *range = Some((low.min(frame.address), high.max(frame.address)));
        }
    }
    for ((image, range), id) in profile.images.iter().zip(ranges).zip(1..) {
        let (name, build_id) = (strings.number(&image.name), strings.number(&image.build_id));
        let (low, high) = range.unwrap_or((0, 0));
        message.message(field::MAPPING, |mapping| {
            mapping.unsigned(1, id);
            mapping.unsigned(2, low);
            mapping.unsigned(3, high.saturating_add(1));
            mapping.unsigned(5, name);
            mapping.unsigned(6, build_id);
            // The functions are in the profile: a viewer need not look for the file.
            mapping.unsigned(7, u64::from(image.has_file));
            mapping.unsigned(8, u64::from(image.has_file));
            mapping.unsigned(9, u64::from(image.has_file));
            mapping.unsigned(10, u64::from(image.has_file));
        });
    }
}

/// `message Function`.
fn functions(message: &mut Message, profile: &Profile, strings: &mut Strings) {
    let mut files = vec![None; profile.functions.len()];
    for frame in &profile.frames {
        if let (Some(cell @ None), Some(file)) =
            (files.get_mut(frame.function.index()), &frame.file)
        {
            *cell = Some(&**file);
        }
    }
    for ((function, file), id) in profile.functions.iter().zip(files).zip(1..) {
        let name = strings.number(&function.name);
        let linkage_name = strings.number(&function.linkage_name);
        let file = strings.number(file.unwrap_or_default());
        message.message(field::FUNCTION, |message| {
            message.unsigned(1, id);
            message.unsigned(2, name);
            message.unsigned(3, linkage_name);
            message.unsigned(4, file);
        });
    }
}
