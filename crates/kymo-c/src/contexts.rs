//! What events record besides themselves: who called them, and what their CPU has counted.
//!
//! A kernel whose sampler `KYMO_SAMPLER_OF_EVENTS` has not made is not linked with what this needs:
//! the session reaches it by the [`Library`] that the macro puts into the sampler.

use core::sync::atomic::Ordering::Relaxed;

use kymo::boot::Options;
use kymo::event::Declared;
use kymo::vocabulary::{Sampling, SamplingDriver};
use kymo::{Config, Contexts, Mode, Refused, Tracer};
use kymo_c_record::port::{CSampler, Port, SAMPLER, cpu, sampler};

use crate::counting::record_counts;
use crate::error::Refusal;
use crate::events::Events;
use crate::sample::CSample;
use crate::session::{SESSIONS, answer};
use crate::vocabulary::{CONTEXT_EVENTS, Event};

/// What the events of the session record besides themselves.
pub(crate) static CONTEXTS: Contexts = Contexts::new();

/// What a session needs of this file.
#[derive(Debug)]
pub struct Library {
    /// The events that have contexts.
    pub(crate) events: &'static [Event],
    /// A session begins.
    pub(crate) open: fn(&Config),
    /// [`Contexts::end`].
    pub(crate) end: fn(Mode, &Events, &dyn Fn(u32, bool)),
    /// Has the events record what the word `kymo=` asks for.
    pub(crate) switch_on: fn(&Options<'_>) -> Result<(), Refused>,
}

/// The library's part of samplers that events have, too.
#[unsafe(no_mangle)]
pub static kymo_contexts_library: Library = Library {
    events: CONTEXT_EVENTS,
    open,
    end: |mode, events, set| CONTEXTS.end(mode, events, set),
    switch_on,
};

/// The library's part of a sampler.
#[inline(always)]
pub(crate) fn of(sampler: *const CSampler) -> Option<&'static Library> {
    // SAFETY: null, or a table of the header's macros, which lives for ever.
    let sampler = unsafe { sampler.as_ref() }?;
    // SAFETY: null, or the library above: the macros put nothing else there.
    unsafe { sampler.contexts.cast::<Library>().as_ref() }
}

fn open(config: &Config) {
    CONTEXTS.open();
    if let Some(sampler) = sampler() {
        // Without samples, nobody else says how deep chains are followed.
        sampler.set(&Sampling {
            period: 0,
            depth: config.sampling.depth,
            driver: SamplingDriver::Timer,
        });
    }
}

fn switch_on(options: &Options<'_>) -> Result<(), Refused> {
    for name in options.stacks() {
        SESSIONS.stacks(Mode::Trace as u32, name, true)?;
    }
    for name in options.counters_on() {
        SESSIONS.counts(Mode::Count as u32, name, true)?;
    }
    Ok(())
}

/// Records who called the tracepoint of an event that was recorded just now, and what this CPU has
/// counted, as the session asks. `fp` is the frame pointer of a function that the tracepoint's has
/// called. Interrupts are masked.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_record_context(event: u32, fp: usize) {
    let context = SESSIONS.context(event);
    if context.stack {
        record_stack(event, fp);
    }
    if context.counts {
        record_counts(event);
    }
}

#[inline(never)]
fn record_stack(event: u32, fp: usize) {
    // SAFETY: null, or a table that lives for ever.
    let table = unsafe { SAMPLER.load(Relaxed).as_ref() };
    let (Some(here), Some(sampler)) = (table.and_then(|table| table.here), sampler()) else {
        return;
    };
    let mut sample = CSample::NONE;
    // It promises that the windows that it gives can be read until the event is recorded.
    here((&raw mut sample).cast());
    // The chain begins with a frame: no function that calls none is in front of it.
    sample.forget_link();
    Tracer::<Port>::event_stack(sampler, cpu(), (event, fp), sample.tid(), &sample);
}

/// Has an event record who called its tracepoint, or not any more.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_switch_stacks(mode: u32, id: u32, on: bool) -> i32 {
    switched(SESSIONS.stacks_each(mode, |event: &Declared| event.id == id, on))
}

/// Has an event record what its CPU has counted, or not any more.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_switch_counts(mode: u32, id: u32, on: bool) -> i32 {
    switched(SESSIONS.counts_each(mode, |event: &Declared| event.id == id, on))
}

fn switched(result: Result<u32, Refused>) -> i32 {
    answer(result.map(|_| 0).map_err(Refusal::from))
}
