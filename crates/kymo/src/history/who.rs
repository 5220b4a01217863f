//! Which thread ran when a record was made: looked up in the CPU's switches each time.

use core::ops::ControlFlow::{self, Break, Continue};

use super::known::Known;
use super::merge::{Found, Merge};
use crate::event::Event;
use crate::ring::layout::ChannelKind;
use crate::ring::reader::{ChannelReader, Place, View};
use crate::ring::source::Source;
use crate::vocabulary::{SchedSwitch, Tid};

/// The thread that ran on the record's CPU: the target of the last switch before the record, or
/// else whom the first one behind it takes the CPU from. `None` where there is no such switch,
/// where one may have been dropped in between, and for names.
pub(super) fn ran<S: Source, K: Known>(merge: &Merge<'_, S, K>, found: &Found) -> Option<Tid> {
    let switch = merge.known.event(SchedSwitch::ID)?;
    let is_ours = switch.name == SchedSwitch::SCHEMA.name;
    if !is_ours || found.key.kind != ChannelKind::Events as u32 {
        return None;
    }
    let cpu = merge.of(found.key.cpu..found.key.cpu + 1, None);
    let (reader, view) = cpu
        .channels()
        .find(|(reader, _)| reader.kind() == ChannelKind::Events)?;
    let search = Search {
        merge,
        reader: &reader,
        view,
    };
    let (packet, word) = (found.key.packet, found.key.word);
    match search.before(packet, word) {
        Break(thread) => thread,
        Continue(()) => search.behind(packet, word),
    }
}

/// The words of a switch's payload that say who left the CPU and who got it.
const PREV: u64 = 0;
const NEXT: u64 = 1;

struct Search<'a, 'm, S, K> {
    merge: &'a Merge<'m, S, K>,
    reader: &'a ChannelReader,
    view: View,
}

impl<S: Source, K: Known> Search<'_, '_, S, K> {
    /// `Continue` where no switch is before this record, in packets that are there.
    fn before(&self, packet: u64, word: u32) -> ControlFlow<Option<Tid>> {
        let oldest = self
            .reader
            .numbers(self.merge.source)
            .map_or(0, |of| of.start);
        let mut number = packet;
        while number >= oldest {
            let mut last = None;
            let walked = self.walk(number, |place| {
                let is_before = number < packet || place.word < word;
                last = if is_before { Some(place) } else { last };
                !is_before
            });
            if walked.is_none() {
                return Break(None);
            }
            if let Some(place) = last {
                let thread = self.thread(number, &place, NEXT);
                return Break(thread.filter(|_| self.is_complete(number, packet)));
            }
            let Some(earlier) = number.checked_sub(1) else {
                break;
            };
            number = earlier;
        }
        Continue(())
    }

    /// Whom the first switch behind this record, or the record itself, takes the CPU from.
    fn behind(&self, packet: u64, word: u32) -> Option<Tid> {
        let end = self.reader.numbers(self.merge.source).ok()?.end;
        for number in packet..end {
            let mut first = None;
            self.walk(number, |place| {
                let is_behind = number > packet || place.word >= word;
                first = is_behind.then_some(place);
                is_behind
            })?;
            if let Some(place) = first {
                let thread = self.thread(number, &place, PREV);
                return thread.filter(|_| self.is_complete(packet, number));
            }
        }
        None
    }

    /// Passes the packet's switches to `until`, oldest first, until it says so. `None` where the
    /// packet cannot be read now.
    fn walk(&self, number: u64, mut until: impl FnMut(Place) -> bool) -> Option<()> {
        let source = self.merge.source;
        let mut packet = self.reader.packet(source, self.view, number).ok()??;
        while let Some(place) = packet.next_place(source, self.merge.known) {
            if place.id == SchedSwitch::ID && until(place) {
                break;
            }
        }
        self.reader.holds(source, number).ok()?.then_some(())
    }

    fn thread(&self, number: u64, switch: &Place, word: u64) -> Option<Tid> {
        let thread = self.merge.source.load(switch.payload + 4 * word).ok()?;
        let holds = self.reader.holds(self.merge.source, number).ok()?;
        holds.then_some(Tid(thread))
    }

    /// Whether nothing was dropped between the records of two packets. What a full packet's writer
    /// dropped is behind its records.
    fn is_complete(&self, earlier: u64, later: u64) -> bool {
        let dropped = |number: u64| self.reader.dropped_before(self.merge.source, number).ok();
        earlier == later
            || match (dropped(earlier), dropped(later)) {
                // Nothing was ever dropped, as far as the later one knows.
                (_, Some(Some(0))) => true,
                (Some(Some(one)), Some(Some(other))) => one == other,
                _ => false,
            }
    }
}
