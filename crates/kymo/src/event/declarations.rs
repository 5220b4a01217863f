//! What a session must know of its events, in whatever language they were declared.

use core::fmt;

use super::{EventSchema, Shape, Vocabulary};
use crate::channel::ChannelKind;
use crate::ctf::tsdl;

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
}

impl Declarations for Vocabulary {
    fn declared(&self) -> impl Iterator<Item = Declared> {
        self.events().iter().map(|&event| event.into())
    }

    fn write_metadata(&self, session: &tsdl::Session, out: &mut impl fmt::Write) -> fmt::Result {
        tsdl::write(out, session, self)
    }
}
