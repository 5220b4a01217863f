//! Clocks, and what their stamps look like.

use std::sync::Arc;

use kymo_ctf::{ClockClass, EventRef};
use kymo_machine::tells_what_happens;
use serde::Serialize;

/// A clock, and what its stamps look like.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ClockHealth {
    /// Its name.
    pub name: String,
    /// Ticks a second.
    pub frequency_hz: u64,
    /// Whether its origin is known outside of the trace (the Unix epoch).
    pub absolute: bool,
    /// Events with the very time of the event before them in their stream: the clock is coarse, or
    /// stepped back and was held. Names and state dumps are not looked at.
    pub equal_stamps: u64,
    /// The smallest difference of two stamps of one stream that is not 0, in ticks.
    pub smallest_step_ticks: Option<u64>,
}

/// What is known of a stream's stamps.
#[derive(Debug, Clone, Copy)]
struct Stream {
    last: u64,
    /// Names and state dumps are not looked at.
    counts: bool,
}

/// The stamps of all streams.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    /// By place among the streams that are read.
    streams: Vec<Option<Stream>>,
    equal: u64,
    smallest: Option<u64>,
}

impl Clocks {
    /// Takes note of an event's time, in ticks.
    #[inline]
    pub(crate) fn add(&mut self, event: &EventRef<'_>, ticks: u64) {
        let place = event.stream_index();
        let Some(Some(stream)) = self.streams.get_mut(place) else {
            return self.meet(event, ticks);
        };
        if stream.counts {
            match ticks.checked_sub(stream.last) {
                Some(0) => self.equal += 1,
                Some(step) if self.smallest.is_none_or(|smallest| step < smallest) => {
                    self.smallest = Some(step);
                }
                _ => {}
            }
        }
        stream.last = ticks;
    }

    #[cold]
    fn meet(&mut self, event: &EventRef<'_>, ticks: u64) {
        let place = event.stream_index();
        if self.streams.len() <= place {
            self.streams.resize(place + 1, None);
        }
        if let Some(stream) = self.streams.get_mut(place) {
            *stream = Some(Stream {
                last: ticks,
                counts: tells_what_happens(event.stream()),
            });
        }
    }

    /// The row of the trace's first clock; none if it has no name.
    pub(crate) fn finish(&self, clock: Option<&Arc<ClockClass>>) -> Vec<ClockHealth> {
        let named = clock.filter(|clock| !clock.name.is_empty());
        let row = named.map(|clock| ClockHealth {
            name: clock.name.to_string(),
            frequency_hz: clock.frequency,
            absolute: clock.absolute,
            equal_stamps: self.equal,
            smallest_step_ticks: self.smallest,
        });
        row.into_iter().collect()
    }

    pub(crate) fn live(&self) -> usize {
        self.streams.len()
    }
}
