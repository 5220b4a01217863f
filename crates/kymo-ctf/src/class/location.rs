//! Where the field is that another one's length or choice depends on.

use std::sync::Arc;

use crate::error::Position;

/// A part of a packet or of an event record, in the order they are read in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// What every packet of a trace begins with.
    PacketHeader,
    /// What follows the header in every packet of a stream.
    PacketContext,
    /// What every event record of a stream begins with.
    EventHeader,
    /// What follows the header in every event record of a stream (CTF 2: common context).
    EventCommonContext,
    /// What follows for one class of event only (CTF 2: specific context).
    EventContext,
    /// The event's own fields (CTF 2: payload).
    EventFields,
}

impl Scope {
    pub(crate) const ALL: [Scope; 6] = [
        Scope::PacketHeader,
        Scope::PacketContext,
        Scope::EventHeader,
        Scope::EventCommonContext,
        Scope::EventContext,
        Scope::EventFields,
    ];

    /// How CTF 2 names it as an origin.
    pub(crate) fn json(self) -> &'static str {
        match self {
            Scope::PacketHeader => "packet-header",
            Scope::PacketContext => "packet-context",
            Scope::EventHeader => "event-record-header",
            Scope::EventCommonContext => "event-record-common-context",
            Scope::EventContext => "event-record-specific-context",
            Scope::EventFields => "event-record-payload",
        }
    }

    /// How CTF 1.8 names it in a path.
    pub(crate) fn tsdl(self) -> &'static [&'static str] {
        match self {
            Scope::PacketHeader => &["trace", "packet", "header"],
            Scope::PacketContext => &["stream", "packet", "context"],
            Scope::EventHeader => &["stream", "event", "header"],
            Scope::EventCommonContext => &["stream", "event", "context"],
            Scope::EventContext => &["event", "context"],
            Scope::EventFields => &["event", "fields"],
        }
    }
}

/// Where a path begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// At the top of a scope.
    Scope(Scope),
    /// At the structure that the dependent field is a member of; `None` in the path goes to the structure around it (CTF 2).
    Here,
    /// At the nearest member of the first name read before: in the structures around, then in the scopes before (CTF 1.8).
    Nearest,
}

/// The location of another field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldLocation {
    /// Where the path begins.
    pub origin: Origin,
    /// Names of members to go through, as declared; `None` is the structure around.
    pub path: Vec<Option<Arc<str>>>,
    /// Where the metadata says so.
    pub position: Position,
    /// Cell of the located integer, once linked.
    pub(crate) slot: u32,
    /// The body of a structure in which the path was written: [`Origin::Nearest`] looks from there outwards. 0 is none.
    pub(crate) body: u32,
    /// Paths to structures that the text goes into and out of again (CTF 2): they must be there too.
    pub(crate) visited: Vec<Vec<Option<Arc<str>>>>,
    /// Whether the metadata is JSON (CTF 2), where scopes have other names.
    pub(crate) json: bool,
}

impl FieldLocation {
    /// A location, not linked yet.
    pub(crate) fn new(origin: Origin, path: Vec<Option<Arc<str>>>, position: Position) -> Self {
        FieldLocation { origin, path, position, slot: super::NO_SLOT, body: 0, visited: Vec::new(), json: false }
    }
}

/// The path as messages name it.
impl std::fmt::Display for FieldLocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.path.iter().map(|name| name.as_deref().unwrap_or(".."));
        let (scope, between) = match self.origin {
            Origin::Scope(scope) if self.json => (vec![scope.json()], "/"),
            Origin::Scope(scope) => (scope.tsdl().to_vec(), "."),
            Origin::Here | Origin::Nearest => (Vec::new(), if self.json { "/" } else { "." }),
        };
        let words: Vec<&str> = scope.into_iter().chain(path).collect();
        f.write_str(&words.join(between))
    }
}

/// Integers from `low` to `high`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntRange {
    /// The lowest.
    pub low: i128,
    /// The highest.
    pub high: i128,
}

impl IntRange {
    /// Whether `value` is in it.
    #[inline]
    pub fn holds(self, value: i128) -> bool {
        (self.low..=self.high).contains(&value)
    }
}
