//! Samples in Chrome's trace event format: `stackFrames`, a tree of functions by number, and
//! `samples`, each with its time, its CPU and the number of its innermost frame.

use kymo_profile::Profile;

use super::Timed;

/// Appends the member `stackFrames`.
pub(crate) fn frames(profile: &Profile, text: &mut Vec<u8>) {
    text.extend_from_slice(b",\"stackFrames\":{");
    for (number, stack) in profile.stacks.iter().enumerate() {
        let frame = profile.frames.get(stack.frame.index());
        let image = frame
            .and_then(|frame| profile.function(frame)?.image)
            .and_then(|image| profile.images.get(image.index()));
        text.extend_from_slice(if number > 0 { b",\n\"" } else { b"\n\"" });
        kymo_text::decimal(text, number as u64);
        text.extend_from_slice(b"\":{\"category\":");
        kymo_text::json_string(text, image.map_or("", |image| &image.name));
        text.extend_from_slice(b",\"name\":");
        kymo_text::json_string(text, frame.map_or("", |frame| profile.name(frame)));
        if let Some(parent) = stack.parent {
            text.extend_from_slice(b",\"parent\":\"");
            kymo_text::decimal(text, u64::from(parent.0));
            text.push(b'"');
        }
        text.push(b'}');
    }
    text.push(b'}');
}

/// Appends an element of the array `samples`, behind its time.
pub(crate) fn sample(profile: &Profile, timed: &Timed<'_>, text: &mut Vec<u8>) {
    let row = timed.row;
    if let Some(cpu) = row.cpu {
        text.extend_from_slice(b",\"cpu\":");
        kymo_text::decimal(text, u64::from(cpu));
    }
    let thread = profile.thread(row);
    text.extend_from_slice(b",\"tid\":");
    kymo_text::decimal(text, thread.map_or(0, |thread| thread.tid));
    text.extend_from_slice(b",\"name\":");
    let name = thread.map_or_else(|| "unknown thread".to_owned(), |thread| thread.label());
    kymo_text::json_string(text, &name);
    if let Some(stack) = row.stack {
        text.extend_from_slice(b",\"sf\":\"");
        kymo_text::decimal(text, u64::from(stack.0));
        text.push(b'"');
    }
    text.extend_from_slice(b",\"weight\":1}");
}
