//! The text that `perf script` prints.
//!
//! Each sample is `thread pid/tid [cpu] seconds: weight unit:`, then a line for each frame, the
//! innermost first: `address function+offset (image)`. `inferno-collapse-perf` counts the weight of
//! each stack; it replaces blanks in the thread's name, and cuts arguments off C++ functions.

use std::borrow::Cow;
use std::io::{self, Write};

use kymo_profile::{Frame, Profile, Thread, Unit};

use super::entries;

/// Writes the profile.
pub(super) fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let mut frames: Vec<Option<Vec<u8>>> = vec![None; profile.frames.len()];
    let mut text = Vec::new();
    for entry in entries(profile) {
        text.clear();
        let thread = profile.thread(entry.row);
        head(&mut text, thread, entry.row.cpu);
        match (entry.time, &profile.clock) {
            (Some(time), Some(_)) => {
                let (sign, time) = (if time < 0 { "-" } else { "" }, time.unsigned_abs());
                let (seconds, nanos) = (time / 1_000_000_000, time % 1_000_000_000);
                write!(text, "{sign}{seconds}.{nanos:09}: ")?;
            }
            (Some(ticks), None) => write!(text, "{ticks}: ")?,
            (None, _) => text.extend_from_slice(b"0.000000000: "),
        }
        // A single sample has no number: readers take it for one.
        match (profile.unit, entry.weight) {
            (Unit::Samples, 1) => {}
            (_, weight) => write!(text, "{weight} ")?,
        }
        writeln!(text, "{}:", profile.unit.label())?;
        let mut stack = entry.row.stack;
        while let Some(node) = stack.and_then(|stack| profile.stacks.get(stack.index())) {
            let place = node.frame.index();
            if let (Some(line), Some(frame)) = (frames.get_mut(place), profile.frames.get(place)) {
                text.extend_from_slice(line.get_or_insert_with(|| frame_line(profile, frame)));
            }
            stack = node.parent;
        }
        text.push(b'\n');
        out.write_all(&text)?;
    }
    Ok(())
}

/// Thread, process and CPU.
fn head(text: &mut Vec<u8>, thread: Option<&Thread>, cpu: Option<u32>) {
    let name = match thread {
        None => "unknown".to_owned(),
        Some(Thread { cpu: Some(cpu), .. }) => format!("idle/{cpu}"),
        Some(Thread {
            name: Some(name), ..
        }) => name.to_string(),
        Some(Thread { tid, .. }) => format!("thread_{tid}"),
    };
    text.extend_from_slice(comm(&name).as_bytes());
    let tid = thread.map_or(0, |thread| thread.tid);
    let pid = thread.and_then(|thread| thread.pid).unwrap_or(0);
    let _ = write!(text, " {pid}/{tid} ");
    if let Some(cpu) = cpu {
        let _ = write!(text, "[{cpu:03}] ");
    }
}

/// A name without blanks: a word of digits in it would be taken for the thread's number.
fn comm(name: &str) -> String {
    let name = one_line(name).replace(' ', "_");
    match name.is_empty() {
        true => "unnamed".to_owned(),
        false => name,
    }
}

/// The frame's line, with its end.
fn frame_line(profile: &Profile, frame: &Frame) -> Vec<u8> {
    let function = profile.function(frame);
    let image = function
        .and_then(|function| function.image)
        .and_then(|image| profile.images.get(image.index()));
    let begin = function
        .and_then(|function| function.begin)
        .map(|begin| begin.wrapping_add(image.map_or(0, |image| image.bias)));
    // Always with an offset: readers cut the last one off, which may be a part of the name.
    let offset = begin.map_or(0, |begin| frame.address.saturating_sub(begin));
    let image = match image {
        _ if frame.is_inlined => "inlined".to_owned(),
        Some(image) if image.is_kernel => "[kernel]".to_owned(),
        Some(image) => one_line(&image.name).replace(' ', "_"),
        None => "[unknown]".to_owned(),
    };
    // Readers take `->` for the border to an inlined function.
    let name = one_line(profile.name(frame)).replace("->", "\u{2192}");
    let name = match name.trim() {
        "" => "[unknown]",
        name => name,
    };
    let name = not_in_brackets(name);
    format!("\t{:16x} {name}+{offset:#x} ({image})\n", frame.address).into_bytes()
}

/// A function's name that does not begin with `(`: readers take that for a process, and leave the
/// frame out. Behind `::` stays C++'s anonymous namespace; elsewhere readers cut off what is in
/// brackets.
fn not_in_brackets(name: &str) -> Cow<'_, str> {
    match name.strip_prefix('(') {
        None => Cow::Borrowed(name),
        Some(_) if name.starts_with("(anonymous namespace)") => Cow::Owned(format!("::{name}")),
        Some(rest) => Cow::Owned(format!("\u{ff08}{}", rest.replacen(')', "\u{ff09}", 1))),
    }
}

/// The text without control characters: a line's end would begin another frame.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}
