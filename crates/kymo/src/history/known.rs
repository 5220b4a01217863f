//! What a reader must know of the events to show their records.

use crate::channel::ChannelKind;
use crate::event::{FieldType, Vocabulary};
use crate::ring::reader::Shapes;

/// The events of a session, by their ids: a [`Vocabulary`], or what a kernel in another language
/// has declared.
pub trait Known: Shapes {
    /// The event with this id; `None` where nothing is known of it.
    fn event(&self, id: u32) -> Option<KnownEvent>;

    /// Name and format of a field of the event with this id, counted from 0 in the order in which
    /// they are written; `None` behind the last.
    fn field(&self, id: u32, index: usize) -> Option<KnownField>;
}

/// What an event is called, and the channel that it is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownEvent {
    /// The name.
    pub name: &'static str,
    /// The channel.
    pub channel: ChannelKind,
}

/// A field: its name, and its format.
pub type KnownField = (&'static str, FieldType);

impl Known for Vocabulary {
    fn event(&self, id: u32) -> Option<KnownEvent> {
        let event = Vocabulary::event(self, id)?;
        let (name, channel) = (event.name, event.channel);
        Some(KnownEvent { name, channel })
    }

    fn field(&self, id: u32, index: usize) -> Option<KnownField> {
        let field = Vocabulary::event(self, id)?.fields.get(index)?;
        Some((field.name, field.ty))
    }
}
