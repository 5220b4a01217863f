//! What events record besides themselves.

use super::{Ground, Mode, Open, Refused, Sessions, State};
use crate::channel::ChannelKind;
use crate::event::{Declarations, Declared, Event, name_fits};
use crate::platform::{Call, Platform};
use crate::ring::layout::MAX_IDS;
use crate::sync::{AtomicU32, Ordering::Relaxed};
use crate::vocabulary::{EventCount, EventStack};

/// What an event records besides itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// Who called its tracepoint.
    pub stack: bool,
    /// What its CPU has counted.
    pub counts: bool,
}

impl Context {
    /// Nothing.
    pub const NONE: Context = Context {
        stack: false,
        counts: false,
    };
}

/// What events record besides themselves.
#[derive(Debug)]
pub struct Contexts {
    /// Events that record who called their tracepoints.
    stacks: Ids,
    /// Events that record what their CPU has counted.
    counts: Ids,
}

impl Contexts {
    /// Nothing.
    #[allow(clippy::new_without_default)] // It is for statics.
    pub const fn new() -> Contexts {
        Contexts {
            stacks: Ids::new(),
            counts: Ids::new(),
        }
    }

    /// A session begins.
    pub fn open(&self) {
        self.stacks.clear();
        self.counts.clear();
    }

    #[inline]
    fn of(&self, event: u32) -> Context {
        Context {
            stack: self.stacks.has(event),
            counts: self.counts.has(event),
        }
    }

    /// A mode ends, and others go on: so does what ends with it. `set` gets each of these events
    /// that may have a context, and whether it still has one.
    pub fn end(&self, mode: Mode, events: &impl Declarations, set: &dyn Fn(u32, bool)) {
        if mode == Mode::Sample {
            return;
        }
        if mode == Mode::Trace {
            self.stacks.clear();
        }
        self.counts.clear();
        for event in traced(events) {
            set(event.id, self.of(event.id) != Context::NONE);
        }
    }
}

impl<P: Platform, G: Ground> Sessions<P, G> {
    /// What an event records besides itself, for [`Platform::context`].
    #[inline]
    pub fn context(&self, event: u32) -> Context {
        let contexts = self.ground.contexts();
        contexts.map_or(Context::NONE, |contexts| contexts.of(event))
    }

    /// Has the events whose name is `name` (as for [`switch`](Self::switch)) record who called
    /// their tracepoints, or not any more; where they are on, and the kernel provides for it
    /// ([`Platform::CONTEXTS`]). Returns how many events have such a name.
    ///
    /// # Errors
    /// [`Refused`]; [`Refused::Invalid`] also where there is no such event, or the session has no
    /// channels of samples.
    pub fn stacks(&self, mode: u32, name: &str, on: bool) -> Result<u32, Refused> {
        self.stacks_each(mode, |event| name_fits(name, event.name), on)
    }

    /// [`stacks`](Self::stacks) for all events that `is_meant` says yes to.
    ///
    /// # Errors
    /// The errors of [`stacks`](Self::stacks).
    pub fn stacks_each(
        &self,
        mode: u32,
        is_meant: impl Fn(&Declared) -> bool,
        on: bool,
    ) -> Result<u32, Refused> {
        let mode = self.admit(mode, Call::Switch)?;
        if self.state(mode) != State::Running {
            return Err(Refused::Invalid);
        }
        let contexts = self.ground.contexts().ok_or(Refused::NotBuilt)?;
        let mut claim = self.session.claim().ok_or(Refused::Busy)?;
        let open = claim.get().as_ref().ok_or(Refused::Invalid)?;
        if !open.session.channels().samples || !has(&open.events, EventStack::ID) {
            return Err(Refused::Invalid);
        }
        set_contexts(open, contexts, &contexts.stacks, is_meant, on)
    }

    /// Has the events whose name is `name` (as for [`switch`](Self::switch)) record what their CPU
    /// has counted, or not any more; where they are on, and the kernel provides for it
    /// ([`Platform::CONTEXTS`]). Returns how many events have such a name.
    ///
    /// # Errors
    /// [`Refused`]; [`Refused::Invalid`] also where there is no such event, or the mode is not
    /// `count`.
    pub fn counts(&self, mode: u32, name: &str, on: bool) -> Result<u32, Refused> {
        self.counts_each(mode, |event| name_fits(name, event.name), on)
    }

    /// [`counts`](Self::counts) for all events that `is_meant` says yes to.
    ///
    /// # Errors
    /// The errors of [`counts`](Self::counts).
    pub fn counts_each(
        &self,
        mode: u32,
        is_meant: impl Fn(&Declared) -> bool,
        on: bool,
    ) -> Result<u32, Refused> {
        let mode = self.admit(mode, Call::Switch)?;
        if mode != Mode::Count || self.state(mode) != State::Running {
            return Err(Refused::Invalid);
        }
        let contexts = self.ground.contexts().ok_or(Refused::NotBuilt)?;
        let mut claim = self.session.claim().ok_or(Refused::Busy)?;
        let open = claim.get().as_ref().ok_or(Refused::Invalid)?;
        if !has(&open.events, EventCount::ID) {
            return Err(Refused::Invalid);
        }
        set_contexts(open, contexts, &contexts.counts, is_meant, on)
    }
}

/// Whether an event is declared.
fn has(events: &impl Declarations, id: u32) -> bool {
    events.declared().any(|event| event.id == id)
}

/// Sets a part of the context of the events that are meant, and gives how many these are.
fn set_contexts<P: Platform>(
    open: &Open<P, impl Declarations>,
    contexts: &Contexts,
    part: &Ids,
    is_meant: impl Fn(&Declared) -> bool,
    on: bool,
) -> Result<u32, Refused> {
    let mut count = 0;
    for event in traced(&open.events).filter(is_meant) {
        part.set(event.id, on);
        let is_any = contexts.of(event.id) != Context::NONE;
        open.session.set_context(event.id, is_any);
        count += 1;
    }
    if count > 0 {
        Ok(count)
    } else {
        Err(Refused::Invalid)
    }
}

/// The events that can have a context.
fn traced(events: &impl Declarations) -> impl Iterator<Item = Declared> {
    let is_traced = |event: &Declared| Mode::Trace.records(event.channel, event.id);
    let is_event = |event: &Declared| event.channel == ChannelKind::Events;
    let events = events.declared();
    events.filter(move |event| is_event(event) && is_traced(event))
}

/// A set of events, by id. Only one call at a time changes it.
#[derive(Debug)]
pub(super) struct Ids([AtomicU32; MAX_IDS as usize / 32]);

impl Ids {
    /// The empty set.
    pub(super) const fn new() -> Ids {
        Ids([const { AtomicU32::new(0) }; MAX_IDS as usize / 32])
    }

    fn word(&self, id: u32) -> Option<(&AtomicU32, u32)> {
        Some((self.0.get(id as usize / 32)?, 1 << (id % 32)))
    }

    #[inline]
    pub(super) fn has(&self, id: u32) -> bool {
        self.word(id)
            .is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0)
    }

    pub(super) fn set(&self, id: u32, on: bool) {
        if let Some((word, bit)) = self.word(id) {
            let others = word.load(Relaxed) & !bit;
            word.store(if on { others | bit } else { others }, Relaxed);
        }
    }

    pub(super) fn clear(&self) {
        for word in &self.0 {
            word.store(0, Relaxed);
        }
    }
}
