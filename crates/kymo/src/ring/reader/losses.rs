//! What a channel lost, and how a reader that was lapped finds out how much.

use core::mem::offset_of;

use super::{ChannelReader, View};
use crate::ring::layout::{Control, EVENTS_BEFORE_VALID};
use crate::ring::slot::word;
use crate::ring::source::{Outside, Source};

/// What a channel lost, as totals since the session began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Events in packets that were overwritten before they were read.
    pub overwritten: u64,
    /// Packets that were overwritten before they were read to their end.
    pub packets: u64,
    /// Events that the writer dropped.
    pub dropped: u64,
    /// Events that stand behind a hole in a packet: a writer died there, or the packet is damaged.
    pub unreadable: u64,
    /// How often a record was earlier than the one before it.
    pub steps_back: u64,
    /// Time stamps that were clamped to an earlier record's, because the clock had stepped back.
    pub clamped: u64,
    /// Events, among those dropped, that no packet can hold.
    pub too_large: u64,
    /// How often the writer found its clock behind the window of the record before.
    pub clock_back: u64,
    /// Packets that the writer gave up because a writer had died in them.
    pub abandoned: u64,
    /// Events, among those dropped, of CPUs that have no ring. They stand with the events of CPU 0:
    /// a trace has no other place for them.
    pub without_ring: u64,
}

impl Losses {
    /// Events that were recorded or called for, and are not in the trace.
    pub fn events(&self) -> u64 {
        self.overwritten
            .saturating_add(self.dropped)
            .saturating_add(self.unreadable)
    }
}

impl ChannelReader {
    /// Takes the writer's present counts of dropped events, clock steps and abandoned packets into
    /// [`losses`](Self::losses).
    ///
    /// # Errors
    /// [`Outside`] where the memory has shrunk.
    pub fn refresh_dropped(&mut self, source: &impl Source) -> Result<(), Outside> {
        let without_ring = self.load_without_ring(source)?;
        let dropped = self.load_control(source, offset_of!(Control, discarded))?;
        let dropped = dropped.saturating_add(without_ring);
        let count = |offset: usize| source.load(self.control + offset as u64).map(u64::from);
        let too_large = count(offset_of!(Control, too_large))?;
        let clock_back = count(offset_of!(Control, clock_back))?;
        let abandoned = count(offset_of!(Control, abandoned))?;
        // Another session over the same memory counts anew.
        if self.is_ours(source)? {
            self.losses.dropped = self.losses.dropped.max(dropped);
            (
                self.losses.too_large,
                self.losses.clock_back,
                self.losses.abandoned,
                self.losses.without_ring,
            ) = (too_large, clock_back, abandoned, without_ring);
        }
        Ok(())
    }

    /// Takes the writer's counts, as [`refresh_dropped`](Self::refresh_dropped) does, and what was
    /// overwritten since the last record into [`losses`](Self::losses): for a reader that ends
    /// without reading what is left, once nobody writes any more. In a ring that discards, only
    /// packets that its consumer has read give way: nothing is overwritten.
    ///
    /// # Errors
    /// [`Outside`] where the memory has shrunk.
    pub fn refresh_losses(&mut self, source: &impl Source) -> Result<(), Outside> {
        self.refresh_dropped(source)?;
        if self.discard {
            return Ok(());
        }
        let prep = self.prep(source)?;
        // The newest packet and those that fit beside it; none is before the first.
        let oldest = prep
            .saturating_add(1)
            .max(self.first.saturating_add(self.packets))
            .saturating_sub(self.packets);
        if self.next < oldest && self.is_ours(source)? {
            self.resume(source, View::PostMortem, oldest)?;
        }
        Ok(())
    }

    /// Goes to the oldest packet that will be there for a while, and counts exactly what was lost.
    /// `false`: try again.
    pub(super) fn resume(
        &mut self,
        source: &impl Source,
        view: View,
        oldest: u64,
    ) -> Result<bool, Outside> {
        let ahead = if view == View::Live {
            self.packets / 4
        } else {
            0
        };
        let Some(mut before) = self.events_before(source, view, oldest)? else {
            return Ok(false);
        };
        let mut resume = oldest;
        while resume < oldest.saturating_add(ahead) {
            let commit = self.slot_word(source, resume, word::COMMIT)?;
            if commit & 0xffff != self.packet_size / 4 {
                // Not complete: an interrupted writer is still in it, and its count is not final.
                break;
            }
            before = before.saturating_add(u64::from(commit >> 16));
            resume += 1;
        }
        // All loads above are acquires: no fence.
        if view == View::Live && (!self.intact(source, oldest)? || !self.is_ours(source)?) {
            return Ok(false);
        }
        self.losses.overwritten = self
            .losses
            .overwritten
            .max(before.saturating_sub(self.emitted + self.losses.unreadable));
        self.losses.packets = self.losses.packets.saturating_add(resume - self.next);
        self.go_to(resume);
        Ok(true)
    }

    /// Records in all packets before `oldest`, the oldest there is; `None`: try again. The number
    /// is right if `oldest` is intact afterwards.
    pub(super) fn events_before(
        &self,
        source: &impl Source,
        view: View,
        oldest: u64,
    ) -> Result<Option<u64>, Outside> {
        let mut before = {
            let high = self.slot_word(source, oldest, word::EVENTS_BEFORE + 1)?;
            let low = self.slot_word(source, oldest, word::EVENTS_BEFORE)?;
            u64::from(low) | u64::from(high) << 32
        };
        if before & EVENTS_BEFORE_VALID == 0 {
            if view == View::Live {
                return Ok(None);
            }
            // The writer died between taking the slot and leaving the count: the packet before is
            // still whole.
            let retired = self.load_control(source, offset_of!(Control, retired_events))?;
            let earlier = match oldest.checked_sub(1) {
                Some(earlier) => self.slot_word(source, earlier, word::COMMIT)? >> 16,
                None => 0,
            };
            before = retired.wrapping_add(u64::from(earlier));
        }
        before &= !EVENTS_BEFORE_VALID;
        Ok(Some(before))
    }
}
