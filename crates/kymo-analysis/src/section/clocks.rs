//! Clocks, and the quality of their time stamps.

use std::collections::BTreeMap;
use std::sync::Arc;

use kymo::ChannelKind;
use kymo_ctf::{ClockClass, EventRef};
use kymo_machine::{Contradiction, channel_of};
use serde::Serialize;

/// A clock, and the quality of its time stamps.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ClockHealth {
    /// Its name.
    pub name: String,
    /// Ticks per second.
    pub frequency_hz: u64,
    /// Whether its origin is the Unix epoch.
    pub absolute: bool,
    /// Events with the same time as the event before them in their stream: the clock is coarse, or
    /// it stepped back and was held. Names and state dumps do not count.
    pub equal_stamps: u64,
    /// Smallest nonzero difference between successive stamps of a stream, in ticks.
    pub smallest_step_ticks: Option<u64>,
    /// How often a CPU's clock stepped back from one record of a stream to the next
    /// (`kymo_clock_step`).
    pub steps_back: u64,
    /// The longest of these steps, in ticks.
    pub longest_step_back_ticks: Option<u64>,
    /// How often writers found their clock behind the time window of their previous record
    /// (`kymo_clock_back`).
    pub times_behind: u64,
}

/// The state of a stream.
#[derive(Debug, Clone, Copy)]
struct Stream {
    last: u64,
    /// False for streams of names and state dumps.
    counts: bool,
}

/// The stamps of all streams.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    /// By [`EventRef::stream_index`].
    streams: Vec<Option<Stream>>,
    equal: u64,
    smallest: Option<u64>,
    steps_back: u64,
    longest_step_back: Option<u64>,
    /// The writers' latest counts, by CPU and channel.
    behind: BTreeMap<(Option<u64>, Option<u32>), u64>,
}

impl Clocks {
    /// Adds an event's time, in ticks.
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
                counts: channel_of(event.stream()) != Some(ChannelKind::Names),
            });
        }
    }

    /// Takes a contradiction, if it is a clock's.
    #[cold]
    pub(crate) fn contradict(&mut self, rule: Contradiction, cpu: Option<u64>) {
        match rule {
            Contradiction::ClockStep { ticks } => {
                self.steps_back += 1;
                self.longest_step_back = self.longest_step_back.max(Some(ticks));
            }
            Contradiction::ClockBehind { channel, count, .. } => {
                let channel = channel.map(|channel| channel as u32);
                let latest = self.behind.entry((cpu, channel)).or_default();
                *latest = count.max(*latest);
            }
            _ => {}
        }
    }

    /// The row of the trace's first clock, if it has a name.
    pub(crate) fn finish(&self, clock: Option<&Arc<ClockClass>>) -> Vec<ClockHealth> {
        let named = clock.filter(|clock| !clock.name.is_empty());
        let row = named.map(|clock| ClockHealth {
            name: clock.name.to_string(),
            frequency_hz: clock.frequency,
            absolute: clock.absolute,
            equal_stamps: self.equal,
            smallest_step_ticks: self.smallest,
            steps_back: self.steps_back,
            longest_step_back_ticks: self.longest_step_back,
            times_behind: self.behind.values().sum(),
        });
        row.into_iter().collect()
    }

    pub(crate) fn live(&self) -> usize {
        self.streams.len() + self.behind.len()
    }
}
