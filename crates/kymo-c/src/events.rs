//! The events of a session: those of the vocabulary, the kernel's own, and those of what counts.

use core::fmt::{self, Write};

use kymo::ctf::tsdl;
use kymo::event::{Declarations, Declared, Event};
use kymo::platform::Platform;
use kymo::text::Out;
use kymo::vocabulary::{ClockBack, Sample, Sampling, SessionEnd};
use kymo::{ChannelKind, Memory};

use crate::config::Call;
use crate::contexts::{self, Library as Contexts};
use crate::counters::{CCounters, Library, OwnCounters};
use crate::counting::CCounting;
use crate::own::{self, OwnEvent};
use crate::vocabulary::{CLOCK_STEPS, VOCABULARY};
use kymo_c_record::port::CSampler;

/// What a session records, and what the kernel does for it.
#[derive(Clone, Copy, Debug)]
pub struct Events {
    /// Ids of the vocabulary; `None` for all.
    pub(crate) only: Option<&'static [u16]>,
    pub(crate) own: &'static [OwnEvent],
    pub(crate) counters: Option<&'static CCounters>,
    pub(crate) packet_size: u32,
    pub(crate) dump_state: Option<Call>,
    pub(crate) synchronize: Option<Call>,
    pub(crate) sampler: *const CSampler,
    pub(crate) sampling: Option<extern "C" fn(u64)>,
    pub(crate) groups: Option<&'static CCounting>,
    pub(crate) notice: Option<Call>,
}

// SAFETY: the tables are constants of the kernel's.
unsafe impl Send for Events {}

/// What the library itself records.
const LIBRARYS: [u32; 4] = [ClockBack::ID, SessionEnd::ID, Sample::ID, Sampling::ID];

impl Events {
    fn has(&self, id: u16) -> bool {
        let asked = self.only.is_none_or(|only| only.contains(&id));
        asked || LIBRARYS.contains(&id.into())
    }

    pub(crate) fn counting(&self) -> Option<OwnCounters> {
        self.counters.and_then(CCounters::counting)
    }

    /// What records the contexts of events, if the kernel has that.
    pub(crate) fn contexts(&self) -> Option<&'static Contexts> {
        contexts::of(self.sampler)
    }

    /// The names of the events, which [`own::check`] has found well-formed, each with its channel.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&str, ChannelKind)> {
        self.declared().map(|event| (event.name, event.channel))
    }
}

impl Declarations for Events {
    fn declared(&self) -> impl Iterator<Item = Declared> {
        (0..).map_while(|index| self.at(index)).flatten()
    }

    fn write_metadata(&self, session: &tsdl::Session, out: &mut impl fmt::Write) -> fmt::Result {
        self.write(session, &mut Out::new(&mut |text| out.write_str(text)))
    }

    fn record_counters<P: Platform>(
        &self,
        memory: &Memory,
        cpus: u32,
        is_on: impl Fn(u32) -> bool,
    ) {
        if let Some(OwnCounters { table, library }) = self.counting() {
            (library.record)(table, memory, cpus, &is_on);
        }
    }
}

impl Events {
    /// Event number `index`, `Some(None)` if it is not recorded; `None` behind the last. Compiled
    /// once for all who go through the events.
    #[inline(never)]
    fn at(&self, index: usize) -> Option<Option<Declared>> {
        if let Some(event) = VOCABULARY.get(index) {
            return Some(self.has(event.id).then(|| event.declared()));
        }
        let index = index - VOCABULARY.len();
        let groups = self.groups.and_then(CCounting::library);
        let groups = groups.map_or(&[] as &[_], |library| library.events);
        if let Some(event) = groups.get(index) {
            return Some(Some(event.declared()));
        }
        let index = index - groups.len();
        let contexts = self
            .contexts()
            .map_or(&[] as &[_], |library| library.events);
        if let Some(event) = contexts.get(index) {
            return Some(Some(event.declared()));
        }
        let index = index - contexts.len();
        let counting = self
            .counting()
            .map_or(&[] as &[_], |counters| counters.library.events);
        match counting.get(index) {
            Some(event) => Some(Some(event.declared())),
            None => Some(self.own.get(index - counting.len())?.declared().ok()),
        }
    }

    /// Writes the metadata; compiled once for all outputs.
    #[inline(never)]
    fn write(&self, session: &tsdl::Session, out: &mut Out<'_>) -> fmt::Result {
        tsdl::write_head(out, session, |out| match self.counting() {
            Some(OwnCounters { table, library }) => (library.write)(table, out),
            None => Ok(()),
        })?;
        let has = |channel| session.samples || channel != ChannelKind::Samples;
        for event in VOCABULARY.iter().filter(|event| self.has(event.id)) {
            if has(event.channel) {
                out.write_str(event.text)?;
            }
        }
        if let Some(library) = self.groups.and_then(CCounting::library) {
            for event in library.events {
                out.write_str(event.text)?;
            }
        }
        if let Some(library) = self.contexts() {
            for event in library.events.iter().filter(|event| has(event.channel)) {
                out.write_str(event.text)?;
            }
        }
        if let Some(OwnCounters { table, library }) = self.counting() {
            let Library {
                events,
                write_numbers,
                ..
            } = library;
            let mut events = events.iter();
            events.try_for_each(|event| write_numbers(table, event, out))?;
        }
        own::write(self.own, out)?;
        let mut steps = CLOCK_STEPS.iter().filter(|(channel, _)| has(*channel));
        steps.try_for_each(|(_, text)| out.write_str(text))
    }
}
