//! The events that a request is about: a stretch of time, and a condition as of `--where`.

use std::collections::HashMap;
use std::ops::Range;

use kymo_analysis::{Conditions, Part, Place};
use kymo_ctf::{ItemRef, TraceMap};

use super::{Refused, Seen};

/// Chooses items of the trace, for one pass over it.
pub(super) struct Chosen {
    /// Begin and end in nanoseconds from the clock's origin, both included.
    from: i128,
    to: i128,
    conditions: Option<Conditions>,
}

impl Seen {
    /// A stretch of time, in nanoseconds of the timeline.
    pub(super) fn all_of(&self, time: &Range<u64>) -> Chosen {
        let nanos = |at: u64| self.index.origin() + i128::from(at);
        Chosen {
            from: nanos(time.start),
            to: nanos(time.end),
            conditions: None,
        }
    }

    /// A stretch of time, and of its events those that fit the request's condition, if it has one.
    pub(super) fn chosen(
        &self,
        time: &Range<u64>,
        query: &HashMap<&str, &str>,
    ) -> Result<Chosen, Refused> {
        let texts = query.get("where").map(|text| text.trim());
        let texts = texts.filter(|text| !text.is_empty());
        let texts: Vec<String> = texts.into_iter().map(str::to_owned).collect();
        if !texts.is_empty() && !self.source.is_one() {
            return Err((400, Conditions::OF_SEVERAL.to_owned()));
        }
        let conditions = Conditions::of(&texts, &self.source.metadata, self.map(), |_| ());
        Ok(Chosen {
            conditions: conditions.map_err(|sentence| (400, sentence))?,
            ..self.all_of(time)
        })
    }
}

impl Chosen {
    /// The part of the trace that a report of it is about.
    pub(super) fn part(&self) -> Part {
        Part {
            from_ns: i64::try_from(self.from).ok(),
            to_ns: i64::try_from(self.to).ok(),
            only_some_events: self.conditions.is_some(),
            ..Part::default()
        }
    }

    /// Reads the trace up to the end of the stretch. `take` gets each item, and whether it is
    /// chosen: what comes before tells the machine's state.
    pub(super) fn read(&mut self, map: &TraceMap, mut take: impl FnMut(&ItemRef<'_>, bool)) {
        let mut reader = map.read();
        while let Some(item) = reader.next() {
            let fits = match &mut self.conditions {
                Some(conditions) => conditions.take(&item),
                None => true,
            };
            let place = Place::of(&item, Some(self.from), Some(self.to));
            take(&item, fits && place == Place::Inside);
            if place == Place::Behind {
                break;
            }
        }
    }
}
