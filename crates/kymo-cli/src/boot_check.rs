//! Whether a kernel did what the word `kymo=` of its command line asked for.

use std::path::Path;

use kymo_capture::qemu::Boot;
use kymo_ctf::{Item, Trace};

/// Events that are looked at: a kernel that does not read the word shows it early.
const LOOKED_AT: usize = 100_000;

/// Prints what the kernel evidently did not do; gives whether there was anything. `not_rolling`: it
/// was asked to keep the newest events and says that it does not.
pub fn report(trace: &Path, boot: &Boot, not_rolling: bool) -> bool {
    if not_rolling {
        message!(
            "kymo: the kernel was asked to keep the newest events and keeps the oldest: does it \
             read the word kymo= of its command line?"
        );
    }
    let stray = if boot.events.is_empty() {
        None
    } else {
        stray(trace, boot)
    };
    if let Some(name) = &stray {
        message!(
            "kymo: the kernel was asked for events {} and recorded {name}: does it read the word \
             kymo= of its command line?",
            boot.events.join(",")
        );
    }
    not_rolling || stray.is_some()
}

/// The name of an event that was not asked for. Names and states, which have streams of their own, explain
/// others and are always there, as is what Kymo says of itself.
fn stray(trace: &Path, boot: &Boot) -> Option<String> {
    // A trace that cannot be read is found out by whoever reads it.
    let items = Trace::open(trace).ok()?.events().take(LOOKED_AT);
    let event = |item| {
        if let Ok(Item::Event(event)) = item {
            Some(event)
        } else {
            None
        }
    };
    let is_extra = |event: &kymo_ctf::Event| {
        event.stream().starts_with("names_") || event.name().starts_with("kymo_")
    };
    let is_stray = |event: &kymo_ctf::Event| !is_extra(event) && !boot.records(event.name());
    items
        .filter_map(event)
        .find(is_stray)
        .map(|event| event.name().to_owned())
}
