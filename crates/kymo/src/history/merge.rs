//! The records of all channels as one row in order of time, without memory for any of them: each
//! step looks for the next key again.

use core::cmp::Ordering::{Equal, Greater, Less};
use core::ops::Range;

use super::known::Known;
use crate::ring::layout::{ChannelKind, TIME_BITS};
use crate::ring::reader::{ChannelReader, Packet, Place, Region, View};
use crate::ring::source::{Outside, Source};

/// A record's place in the row. It stays the same as long as the record is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) time: u64,
    pub(super) cpu: u32,
    pub(super) kind: u32,
    pub(super) packet: u64,
    pub(super) word: u32,
}

/// A record that was there when it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) key: Key,
    pub(super) place: Place,
}

/// The records of some CPUs, newer than those that were cleared away.
#[derive(Debug)]
pub(super) struct Merge<'a, S, K> {
    pub(super) source: &'a S,
    pub(super) region: &'a Region,
    pub(super) known: &'a K,
    pub(super) cpus: Range<u32>,
    /// The CPU that will write no more, if one is known not to.
    pub(super) dead: Option<u32>,
    /// Records up to this one are not shown.
    pub(super) cleared: Option<Key>,
}

impl<'a, S: Source, K: Known> Merge<'a, S, K> {
    /// This merge for other CPUs, cleared up to another record.
    pub(super) fn of(&self, cpus: Range<u32>, cleared: Option<Key>) -> Merge<'a, S, K> {
        Merge {
            source: self.source,
            region: self.region,
            known: self.known,
            cpus,
            dead: self.dead,
            cleared,
        }
    }

    /// The channels, each with what is known about its writer. One whose constants make no sense is
    /// left out.
    pub(super) fn channels(&self) -> impl Iterator<Item = (ChannelReader, View)> {
        let channels = self.region.channels();
        let kinds = ChannelKind::ALL
            .into_iter()
            .filter(move |&kind| channels.has(kind));
        self.cpus.clone().flat_map(move |cpu| {
            let view = if self.dead == Some(cpu) {
                View::PostMortem
            } else {
                View::Live
            };
            kinds.clone().filter_map(move |kind| {
                Some((self.region.channel(self.source, cpu, kind).ok()?, view))
            })
        })
    }

    /// A channel's packets, newest first, with their numbers; without those that cannot be read
    /// now.
    pub(super) fn packets(
        &self,
        reader: &ChannelReader,
        view: View,
    ) -> impl Iterator<Item = (u64, Packet)> {
        let numbers = reader.numbers(self.source).unwrap_or(0..0).rev();
        numbers.filter_map(move |number| {
            Some((number, reader.packet(self.source, view, number).ok()??))
        })
    }

    /// A packet's records, oldest first.
    pub(super) fn records(
        &self,
        reader: &ChannelReader,
        number: u64,
        packet: Packet,
    ) -> impl Iterator<Item = Found> {
        let (cpu, kind, mut packet) = (reader.cpu(), reader.kind() as u32, packet);
        core::iter::from_fn(move || {
            let place = packet.next_place(self.source, self.known)?;
            Some(Found {
                key: Key {
                    time: place.time,
                    cpu,
                    kind,
                    packet: number,
                    word: place.word,
                },
                place,
            })
        })
    }

    /// Whether what was loaded of a packet is right.
    fn holds(&self, reader: &ChannelReader, number: u64) -> bool {
        reader.holds(self.source, number).unwrap_or(false)
    }

    /// The oldest record behind `last`, or of all.
    pub(super) fn after(&self, last: Option<Key>) -> Option<Found> {
        let last = last.max(self.cleared);
        let from = last.map_or(0, |last| last.time);
        let mut best: Option<Found> = None;
        for (reader, view) in self.channels() {
            for (number, packet) in self.packets(&reader, view) {
                match side(&packet, from) {
                    Side::AllBefore => break,
                    Side::Before => continue,
                    Side::Reaches => {}
                }
                if best.is_some_and(|best| packet.begin() > best.key.time) {
                    continue;
                }
                let found = self
                    .records(&reader, number, packet)
                    .find(|found| Some(found.key) > last);
                if let Some(found) =
                    found.filter(|found| best.is_none_or(|best| found.key < best.key))
                    && self.holds(&reader, number)
                {
                    best = Some(found);
                }
            }
        }
        best
    }

    /// The newest record before `limit`, or of all.
    pub(super) fn before(&self, limit: Option<Key>) -> Option<Key> {
        let mut best = self.cleared;
        for (reader, view) in self.channels() {
            for (number, packet) in self.packets(&reader, view) {
                if limit.is_some_and(|limit| packet.begin() > limit.time) {
                    continue;
                }
                match side(&packet, best.map_or(0, |best| best.time)) {
                    Side::AllBefore => break,
                    Side::Before => continue,
                    Side::Reaches => {}
                }
                let keys = self.records(&reader, number, packet).map(|found| found.key);
                let last = keys
                    .take_while(|key| limit.is_none_or(|limit| *key < limit))
                    .last();
                if last > best && self.holds(&reader, number) {
                    best = last;
                }
            }
        }
        if best == self.cleared { None } else { best }
    }

    /// Events in the channels' packets that were not cleared away.
    pub(super) fn retained(&self, cleared: Key) -> u64 {
        let mut retained = 0u64;
        for (reader, view) in self.channels() {
            for (number, packet) in self.packets(&reader, view) {
                let newer = match (
                    packet.begin().cmp(&cleared.time),
                    side(&packet, cleared.time),
                ) {
                    (_, Side::AllBefore) => break,
                    (_, Side::Before) => 0,
                    (Greater, _) => u64::from(reader.events_in(self.source, number).unwrap_or(0)),
                    (Less | Equal, _) => self
                        .records(&reader, number, packet)
                        .filter(|found| found.key > cleared)
                        .count() as u64,
                };
                retained += if self.holds(&reader, number) {
                    newer
                } else {
                    0
                };
            }
        }
        retained
    }

    /// Copies a record's payload, as much as `out` holds. `None` where the record is gone.
    pub(super) fn copy<'b>(&self, found: &Found, out: &'b mut [u32]) -> Option<&'b [u32]> {
        let kind = ChannelKind::from_number(found.key.kind)?;
        let reader = self.region.channel(self.source, found.key.cpu, kind).ok()?;
        let out = out.get_mut(..found.place.bytes.div_ceil(4).min(out.len()))?;
        self.source
            .copy(found.place.payload, out)
            .map_err(|Outside| ())
            .ok()?;
        self.holds(&reader, found.key.packet).then_some(&*out)
    }
}

/// Where a packet stands to a point in time.
enum Side {
    /// All of it is earlier, and so are the packets before it.
    AllBefore,
    /// All of it is earlier. Where the clock stepped back, a packet before it may not be, but no
    /// clock steps out of its window.
    Before,
    Reaches,
}

fn side(packet: &Packet, time: u64) -> Side {
    if packet.end() >= time {
        Side::Reaches
    } else if packet.end() >> TIME_BITS < time >> TIME_BITS {
        Side::AllBefore
    } else {
        Side::Before
    }
}
