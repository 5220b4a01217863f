//! What a session must know of its events, in whatever language they were declared.

use core::fmt;

use super::{EventSchema, Shape, Vocabulary};
use crate::channel::ChannelKind;
use crate::ctf::tsdl;
use crate::platform::Platform;
use crate::ring::region::Memory;
use crate::tracer::Tracer;

/// What the ring must know of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The id.
    pub id: u32,
    /// The name.
    pub name: &'static str,
    /// The channel it is written to.
    pub channel: ChannelKind,
    /// The size of its payload.
    pub shape: Shape,
    /// Words of its longest record, header included.
    pub words: usize,
}

/// The events of a session: a [`Vocabulary`], or those that a kernel in another language has
/// declared. Ids are given once, and are below 2048.
pub trait Declarations {
    /// Every event.
    fn declared(&self) -> impl Iterator<Item = Declared>;

    /// Writes the metadata. Its length is the same for any UUID.
    ///
    /// # Errors
    /// Those of `out`, when it is full.
    fn write_metadata(&self, session: &tsdl::Session, out: &mut impl fmt::Write) -> fmt::Result;

    /// Records what all CPUs have counted in the kernel's own counters, with those events of which
    /// `is_on` says by their id that they are on. The first `cpus` CPUs of the memory have rings.
    fn record_counters<P: Platform>(
        &self,
        memory: &Memory,
        cpus: u32,
        is_on: impl Fn(u32) -> bool,
    ) {
        Tracer::<P>::record_all_counters(memory, cpus, P::COUNTERS.each(), is_on);
    }
}

impl From<&EventSchema> for Declared {
    fn from(event: &EventSchema) -> Declared {
        Declared {
            id: event.id,
            name: event.name,
            channel: event.channel,
            shape: event.shape(),
            words: event.header_words() + event.max_payload_words(),
        }
    }
}

impl<D: Declarations> Declarations for &D {
    fn declared(&self) -> impl Iterator<Item = Declared> {
        D::declared(self)
    }

    fn write_metadata(&self, session: &tsdl::Session, out: &mut impl fmt::Write) -> fmt::Result {
        D::write_metadata(self, session, out)
    }

    fn record_counters<P: Platform>(
        &self,
        memory: &Memory,
        cpus: u32,
        is_on: impl Fn(u32) -> bool,
    ) {
        D::record_counters::<P>(self, memory, cpus, is_on);
    }
}

impl Declarations for Vocabulary {
    fn declared(&self) -> impl Iterator<Item = Declared> {
        self.events().iter().map(|&event| event.into())
    }

    fn write_metadata(&self, session: &tsdl::Session, out: &mut impl fmt::Write) -> fmt::Result {
        tsdl::write(out, session, self)
    }
}
