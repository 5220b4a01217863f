//! Locations: references to the field that determines another field's length or choice.

use std::sync::Arc;

use crate::class::wide_int::WideInt;
use crate::error::Position;

/// The least bound that is compared as an `i128`. The two values below it have special meanings in
/// the slots that keep values while a record is read.
pub(crate) const LEAST: i128 = i128::MIN + 2;

/// A part of a packet or of an event record, in reading order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The header of every packet of a trace.
    PacketHeader,
    /// The context of every packet of a stream, after the header.
    PacketContext,
    /// The header of every event record of a stream.
    EventHeader,
    /// The context of every event record of a stream, after the header (CTF 2: common context).
    EventCommonContext,
    /// The context of one event class (CTF 2: specific context).
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

    /// The scope's name as an origin in CTF 2.
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

    /// The scope's name in a path of CTF 1.8.
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
    /// At the structure that contains the dependent field; `None` in the path goes to the enclosing
    /// structure (CTF 2).
    Here,
    /// At the nearest preceding member with the path's first name: in the enclosing structures,
    /// then in the preceding scopes (CTF 1.8).
    Nearest,
}

/// The location of another field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldLocation {
    /// Where the path begins.
    pub origin: Origin,
    /// Declared names of the members on the path; `None` is the enclosing structure.
    pub path: Vec<Option<Arc<str>>>,
    /// Position in the metadata.
    pub position: Position,
    /// Slot of the located integer, once linked.
    pub(crate) slot: u32,
    /// Number of the structure body that contains the path: [`Origin::Nearest`] searches outwards
    /// from there. 0 is none.
    pub(crate) body: u32,
    /// Paths to structures that the path enters and leaves again (CTF 2): these must exist, too.
    pub(crate) visited: Vec<Vec<Option<Arc<str>>>>,
    /// Whether the metadata is JSON (CTF 2), where scopes have other names.
    pub(crate) json: bool,
}

impl FieldLocation {
    /// A location that is not linked yet.
    pub(crate) fn new(origin: Origin, path: Vec<Option<Arc<str>>>, position: Position) -> Self {
        FieldLocation {
            origin,
            path,
            position,
            slot: super::NO_SLOT,
            body: 0,
            visited: Vec::new(),
            json: false,
        }
    }
}

/// Formats the path as messages name it.
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

/// A range of integers, with inclusive bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntRange {
    /// The bounds, clamped to the values that a slot can hold; `low > high` if it can hold none of
    /// the range.
    pub(crate) low: i128,
    pub(crate) high: i128,
    /// The exact bounds, if a slot cannot hold both.
    beyond: Option<Arc<(WideInt, WideInt)>>,
}

impl IntRange {
    /// The range from `low` to `high`, both included.
    pub(crate) fn new(low: i128, high: i128) -> Self {
        if low < LEAST || high < LEAST {
            return IntRange::wide(low.into(), high.into());
        }
        IntRange {
            low,
            high,
            beyond: None,
        }
    }

    /// The range from `low` to `high`, both included.
    pub(crate) fn wide(low: WideInt, high: WideInt) -> Self {
        let in_cell = |bound: &WideInt| bound.to_i128().filter(|bound| *bound >= LEAST);
        let (least, most) = (in_cell(&low), in_cell(&high));
        if let (Some(low), Some(high)) = (least, most) {
            return IntRange {
                low,
                high,
                beyond: None,
            };
        }
        let none = !low.is_negative() && least.is_none() || high.is_negative() && most.is_none();
        let (least, most) = if none {
            (i128::MAX, LEAST)
        } else {
            (least.unwrap_or(LEAST), most.unwrap_or(i128::MAX))
        };
        IntRange {
            low: least,
            high: most,
            beyond: Some(Arc::new((low, high))),
        }
    }

    /// The lower bound.
    pub fn low(&self) -> WideInt {
        self.beyond
            .as_ref()
            .map_or_else(|| self.low.into(), |bounds| bounds.0.clone())
    }

    /// The upper bound.
    pub fn high(&self) -> WideInt {
        self.beyond
            .as_ref()
            .map_or_else(|| self.high.into(), |bounds| bounds.1.clone())
    }

    /// Whether a slot cannot hold one of the bounds.
    pub(crate) fn is_wide(&self) -> bool {
        self.beyond.is_some()
    }

    /// Whether `value`, which a slot holds, is in the range.
    #[inline]
    pub(crate) fn has(&self, value: i128) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Whether `value` is in the range.
    #[inline]
    pub fn holds(&self, value: i128) -> bool {
        if value >= LEAST {
            self.has(value)
        } else {
            self.holds_wide(&value.into())
        }
    }

    /// Whether `value` is in the range.
    pub fn holds_wide(&self, value: &WideInt) -> bool {
        match &self.beyond {
            Some(bounds) => bounds.0 <= *value && *value <= bounds.1,
            None => value.to_i128().is_some_and(|value| self.has(value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_exact_at_and_beyond_what_cells_have() {
        let of = |text: &str| WideInt::from_decimal(text).unwrap();
        let (least, most) = (i128::MIN.to_string(), u128::MAX.to_string());
        let values = [
            "-340282366920938463463374607431768211456",
            &least,
            "-170141183460469231731687303715884105727",
            "-170141183460469231731687303715884105726",
            "-1",
            "0",
            "170141183460469231731687303715884105727",
            "170141183460469231731687303715884105728",
            &most,
        ];
        for low in values {
            for high in values.into_iter().filter(|high| of(low) <= of(high)) {
                let range = IntRange::wide(of(low), of(high));
                assert_eq!((range.low(), range.high()), (of(low), of(high)));
                for value in values.map(of) {
                    let inside = of(low) <= value && value <= of(high);
                    assert_eq!(
                        range.holds_wide(&value),
                        inside,
                        "{value} in {low} to {high}"
                    );
                    if let Some(value) = value.to_i128() {
                        assert_eq!(range.holds(value), inside, "{value} in {low} to {high}");
                        assert!(
                            value < LEAST || range.has(value) == inside,
                            "{value} in {low} to {high}"
                        );
                    }
                }
            }
        }
    }
}
