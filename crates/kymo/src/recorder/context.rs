//! What events record besides themselves.

use super::{Mode, Recorder, Refused, State};
use crate::channel::ChannelKind;
use crate::event::{Event, EventSchema, name_fits};
use crate::platform::{Call, Platform};
use crate::ring::layout::MAX_IDS;
use crate::session::Session;
use crate::sync::{AtomicU32, Ordering::Relaxed};
use crate::vocabulary::EventStack;

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

impl<P: Platform, const CPUS: usize> Recorder<P, CPUS> {
    /// What an event records besides itself, for [`Platform::context`].
    #[inline]
    pub fn context(&self, event: u32) -> Context {
        Context {
            stack: self.stacks.has(event),
            counts: self.counts.has(event),
        }
    }

    /// Has the events whose name is `name` (as for [`switch`](Self::switch)) record who called
    /// their tracepoints, or not any more; where they are on, and the kernel provides for it
    /// ([`Platform::CONTEXTS`]). Returns how many events have such a name.
    ///
    /// # Errors
    /// [`Refused`]; [`Refused::Invalid`] also where there is no such event, or the session has no
    /// channels of samples.
    pub fn stacks(&self, mode: u32, name: &str, on: bool) -> Result<u32, Refused> {
        let mode = self.admit(mode, Call::Switch)?;
        if self.state(mode) != State::Running {
            return Err(Refused::Invalid);
        }
        let mut claim = self.session.claim().ok_or(Refused::Busy)?;
        let session = claim.get().as_ref().ok_or(Refused::Invalid)?;
        if !session.channels().samples || self.vocabulary.event(EventStack::ID).is_none() {
            return Err(Refused::Invalid);
        }
        self.set_contexts(session, &self.stacks, name, on)
    }

    /// Has the events whose name is `name` (as for [`switch`](Self::switch)) record what their CPU
    /// has counted, or not any more; where they are on, and the kernel provides for it
    /// ([`Platform::CONTEXTS`]). Returns how many events have such a name.
    ///
    /// # Errors
    /// [`Refused`]; [`Refused::Invalid`] also where there is no such event, or the mode is not
    /// `count`.
    pub fn counts(&self, mode: u32, name: &str, on: bool) -> Result<u32, Refused> {
        let mode = self.admit(mode, Call::Switch)?;
        if mode != Mode::Count || self.state(mode) != State::Running {
            return Err(Refused::Invalid);
        }
        let mut claim = self.session.claim().ok_or(Refused::Busy)?;
        let session = claim.get().as_ref().ok_or(Refused::Invalid)?;
        self.set_contexts(session, &self.counts, name, on)
    }

    /// Sets a part of the context of the events with such a name, and gives how many these are.
    fn set_contexts(
        &self,
        session: &Session<P>,
        part: &Ids,
        name: &str,
        on: bool,
    ) -> Result<u32, Refused> {
        let mut count = 0;
        for event in self.traced().filter(|event| name_fits(name, event.name)) {
            part.set(event.id, on);
            session.set_context(event, self.context(event.id) != Context::NONE);
            count += 1;
        }
        if count > 0 {
            Ok(count)
        } else {
            Err(Refused::Invalid)
        }
    }

    /// Ends the recording of a part of the contexts.
    pub(super) fn clear_contexts(&self, session: &Session<P>, part: &Ids) {
        part.clear();
        for event in self.traced() {
            session.set_context(event, self.context(event.id) != Context::NONE);
        }
    }

    /// The events that can have a context.
    pub(super) fn traced(&self) -> impl Iterator<Item = &'static EventSchema> {
        let events = self.vocabulary.events().iter().copied();
        events.filter(|event| Mode::Trace.records(event) && event.channel == ChannelKind::Events)
    }
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
