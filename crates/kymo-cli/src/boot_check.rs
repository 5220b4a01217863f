//! Checks whether a kernel followed the word `kymo=` of its command line.

use std::path::Path;

use kymo::vocabulary::ALL;
use kymo::{ChannelKind, Mode};
use kymo_capture::qemu::Boot;
use kymo_ctf::{Item, Trace};

/// Number of events to check: a kernel that ignores the word records other events early.
const LOOKED_AT: usize = 100_000;

/// Prints which requests the kernel evidently ignored; returns whether there were any.
/// `not_rolling`: the kernel was asked to keep the newest events and reports that it does not.
pub fn report(trace: &Path, boot: &Boot, not_rolling: bool) -> bool {
    if not_rolling {
        message!(
            "kymo: the kernel keeps the oldest events, although it was asked to keep the newest; \
             does it read the word kymo= of its command line?"
        );
    }
    let stray = if boot.events.is_empty() {
        None
    } else {
        stray(trace, boot)
    };
    if let Some(name) = &stray {
        message!(
            "kymo: the kernel was asked to record {} and recorded {name}; does it read the word \
             kymo= of its command line?",
            boot.events.join(",")
        );
    }
    let asked = match (boot.modes.contains(&Mode::Sample), boot.stacks.is_empty()) {
        (true, _) => Some("samples"),
        (false, false) => Some("the callers of events"),
        (false, true) => None,
    };
    let without_samples = asked.filter(|_| !has_samples(trace));
    if let Some(asked) = without_samples {
        message!(
            "kymo: the kernel was asked for {asked}, and there is no place for them in its trace; \
             does it read the word kymo= of its command line, and take samples?"
        );
    }
    not_rolling || stray.is_some() || without_samples.is_some()
}

/// Whether a trace has streams of samples.
fn has_samples(trace: &Path) -> bool {
    let files = std::fs::read_dir(trace).into_iter().flatten().flatten();
    let prefix = format!("{}_", ChannelKind::Samples.label());
    files
        .map(|file| file.file_name())
        .any(|name| name.to_string_lossy().starts_with(&prefix))
}

/// Whether a mode other than `trace` brings this event with it.
fn comes_with(modes: &[Mode], name: &str) -> bool {
    let mut others = modes.iter().filter(|mode| **mode != Mode::Trace);
    let event = ALL.events().iter().find(|event| event.name == name);
    event.is_some_and(|event| others.any(|mode| mode.records(event)))
}

/// The name of the first event that was not asked for. Kernels always record the names and states
/// in the `names_` streams, which explain other events, and Kymo's own events.
fn stray(trace: &Path, boot: &Boot) -> Option<String> {
    // A trace that cannot be read is reported when it is read.
    let items = Trace::open(trace).ok()?.events().take(LOOKED_AT);
    let event = |item| {
        if let Ok(Item::Event(event)) = item {
            Some(event)
        } else {
            None
        }
    };
    let is_extra = |event: &kymo_ctf::Event| {
        let stream = event.stream();
        ["names_", "samples_"]
            .iter()
            .any(|kind| stream.starts_with(kind))
            || event.name().starts_with("kymo_")
            || comes_with(&boot.modes, event.name())
    };
    let is_stray = |event: &kymo_ctf::Event| !is_extra(event) && !boot.records(event.name());
    items
        .filter_map(event)
        .find(is_stray)
        .map(|event| event.name().to_owned())
}
