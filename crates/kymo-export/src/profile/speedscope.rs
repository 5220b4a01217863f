//! Speedscope's file format: <https://www.speedscope.app/file-format-schema.json>.
//!
//! Each thread is a "sampled" profile. Functions are frames; places within them are not told apart,
//! as Speedscope would show each as a function of its own.

use std::io::{self, Write};

use kymo_profile::{FunctionId, Profile, StackId, Unit};

use super::{Entry, by_thread, counted_event, nanoseconds, share, thread_label, weighs_time};

/// Size of the buffer before it is written, in bytes.
const BLOCK: usize = 1 << 16;

/// Writes the profile.
pub(super) fn write(profile: &Profile, name: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut text =
        br#"{"$schema":"https://www.speedscope.app/file-format-schema.json","exporter":"kymo "#
            .to_vec();
    text.extend_from_slice(env!("CARGO_PKG_VERSION").as_bytes());
    text.extend_from_slice(br#"","name":"#);
    match counted_event(profile) {
        // The format has no unit for them.
        Some(event) => {
            kymo_text::json_string(&mut text, &format!("{name} (weights are {event})"));
        }
        None => kymo_text::json_string(&mut text, name),
    }
    text.extend_from_slice(br#","activeProfileIndex":0,"shared":{"frames":["#);
    let files = files(profile);
    for (place, function) in profile.functions.iter().enumerate() {
        separate(&mut text, place);
        text.extend_from_slice(br#"{"name":"#);
        kymo_text::json_string(&mut text, &function.name);
        if let Some(file) = files.get(place).copied().flatten() {
            text.extend_from_slice(br#","file":"#);
            kymo_text::json_string(&mut text, file);
        }
        text.push(b'}');
    }
    text.extend_from_slice(br#"]},"profiles":["#);
    let unit = Weights::of(profile);
    for (place, (thread, entries)) in by_thread(profile).into_iter().enumerate() {
        separate(&mut text, place);
        text.extend_from_slice(br#"{"type":"sampled","name":"#);
        kymo_text::json_string(&mut text, &thread_label(profile, thread));
        let weights: Vec<u64> = entries
            .iter()
            .map(|entry| unit.weight(profile, entry))
            .collect();
        let total = weights
            .iter()
            .fold(0_u64, |sum, weight| sum.saturating_add(*weight));
        write!(
            text,
            r#","unit":"{}","startValue":0,"endValue":{total},"samples":["#,
            unit.name()
        )?;
        for (place, entry) in entries.iter().enumerate() {
            separate(&mut text, place);
            samples(&mut text, profile, entry.row.stack);
            flush(&mut text, out)?;
        }
        text.extend_from_slice(br#"],"weights":["#);
        for (place, weight) in weights.iter().enumerate() {
            separate(&mut text, place);
            kymo_text::decimal(&mut text, *weight);
            flush(&mut text, out)?;
        }
        text.extend_from_slice(b"]}");
    }
    text.extend_from_slice(b"]}\n");
    out.write_all(&text)
}

/// What the weights of samples are.
#[derive(Clone, Copy, Debug)]
enum Weights {
    /// The nanoseconds that a sample stands for.
    Nanoseconds,
    Bytes,
    Samples,
    /// The occurrences of an event that a sample stands for.
    Events,
}

impl Weights {
    fn of(profile: &Profile) -> Weights {
        match profile.unit {
            Unit::Bytes => Weights::Bytes,
            _ if weighs_time(profile) => Weights::Nanoseconds,
            _ if counted_event(profile).is_some() => Weights::Events,
            _ => Weights::Samples,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Weights::Nanoseconds => "nanoseconds",
            Weights::Bytes => "bytes",
            Weights::Samples | Weights::Events => "none",
        }
    }

    fn weight(self, profile: &Profile, entry: &Entry<'_>) -> u64 {
        match self {
            Weights::Bytes | Weights::Samples => entry.weight,
            Weights::Nanoseconds => share(nanoseconds(profile, entry.row).unwrap_or(0), entry),
            Weights::Events => share(entry.row.ticks, entry),
        }
    }
}

/// The source file of each function, if it is known: that of its first frame.
fn files(profile: &Profile) -> Vec<Option<&str>> {
    let mut files = vec![None; profile.functions.len()];
    for frame in &profile.frames {
        if let (Some(cell @ None), Some(file)) =
            (files.get_mut(frame.function.index()), &frame.file)
        {
            *cell = Some(&**file);
        }
    }
    files
}

/// The frames of a stack, the outermost first.
fn samples(text: &mut Vec<u8>, profile: &Profile, stack: Option<StackId>) {
    let functions = profile.frames_of(stack).map(|frame| frame.function);
    let mut functions: Vec<FunctionId> = functions.collect();
    functions.reverse();
    text.push(b'[');
    for (place, function) in functions.iter().enumerate() {
        separate(text, place);
        kymo_text::decimal(text, u64::from(function.0));
    }
    text.push(b']');
}

/// A comma before each element but the first.
fn separate(text: &mut Vec<u8>, place: usize) {
    if place > 0 {
        text.push(b',');
    }
}

/// Writes the text if it is long.
fn flush(text: &mut Vec<u8>, out: &mut dyn Write) -> io::Result<()> {
    if text.len() >= BLOCK {
        out.write_all(text)?;
        text.clear();
    }
    Ok(())
}
