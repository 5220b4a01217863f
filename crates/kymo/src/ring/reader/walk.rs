//! One packet after another where it lies, record by record: for readers that have no room for a
//! copy.
//!
//! The rule is that of [`ChannelReader::read`]: what was loaded is worth something once
//! [`ChannelReader::holds`] has said so *afterwards*.

use core::mem::offset_of;
use core::ops::Range;

use super::batch::extent;
use super::{ChannelReader, Shapes, Standing, View};
use crate::ring::layout::{Control, SLOT_HEADER_WORDS};
use crate::ring::slot::word;
use crate::ring::source::{Outside, Source};
use crate::sync::{Ordering::Acquire, fence};

/// A packet as far as it can be read, and where a walk through it stands.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Offset of its slot.
    slot: u64,
    begin: u64,
    end: Option<u64>,
    /// Words that can be read, header included.
    words: usize,
    /// Words that were walked over.
    done: usize,
    /// Time of the last of them.
    time: u64,
}

/// Where a record stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// When: never earlier than the record before in its packet, nor outside the packet's time.
    pub time: u64,
    /// Which event.
    pub id: u32,
    /// Its first word in the packet.
    pub word: u32,
    /// Offset of its payload.
    pub payload: u64,
    /// Bytes of its payload.
    pub bytes: usize,
}

impl Packet {
    /// When it was opened.
    pub fn begin(&self) -> u64 {
        self.begin
    }

    /// No record in it is later; `u64::MAX` as long as more may come.
    pub fn end(&self) -> u64 {
        self.end.unwrap_or(u64::MAX)
    }

    /// The next record; `None` where nothing more can be made out.
    pub fn next_place(&mut self, source: &impl Source, shapes: &impl Shapes) -> Option<Place> {
        let left = self.words.checked_sub(self.done)?;
        let at = self.slot + 4 * self.done as u64;
        let load = |index: usize| {
            if index < left {
                source.load(at + 4 * index as u64).ok()
            } else {
                None
            }
        };
        let found = extent(left, load, self.time, shapes)?;
        let word = self.done as u32;
        self.time = self.time.max(found.time);
        self.done += found.header + found.bytes.div_ceil(4);
        let time = self.time.min(self.end());
        Some(Place {
            time,
            id: found.id,
            word,
            payload: at + 4 * found.header as u64,
            bytes: found.bytes,
        })
    }
}

impl ChannelReader {
    /// Numbers of the packets that are there now, oldest first. The last of them need not have
    /// begun.
    ///
    /// # Errors
    /// [`Outside`] where the memory has shrunk.
    pub fn numbers(&self, source: &impl Source) -> Result<Range<u64>, Outside> {
        let end = self.prep(source)?.saturating_add(1);
        let oldest = end.saturating_sub(self.packets).max(self.first);
        Ok(oldest..if self.is_ours(source)? { end } else { oldest })
    }

    /// Packet `number`, at its first record. `None` where it is gone, or has not begun, or a writer
    /// is at work in it.
    ///
    /// # Errors
    /// [`Outside`] where the memory has shrunk.
    pub fn packet(
        &self,
        source: &impl Source,
        view: View,
        number: u64,
    ) -> Result<Option<Packet>, Outside> {
        let reader = ChannelReader {
            next: number,
            ..self.clone()
        };
        // `Masked`: the writer opens the packet just now. `LocalCas`: it was interrupted, perhaps
        // for long.
        let mut turns = if self.masked { 8 } else { 1 };
        let (words, closed) = loop {
            match reader.standing(source, view)? {
                Standing::Closed(words) => break (words, true),
                Standing::Open(words) | Standing::Broken(words) => break (words, false),
                Standing::Busy if turns > 1 => turns -= 1,
                Standing::Busy | Standing::Nothing => return Ok(None),
            }
        };
        let slot = self.slot(number);
        let long = |index: usize| -> Result<u64, Outside> {
            let half = |index: usize| source.load(slot + 4 * index as u64).map(u64::from);
            Ok(half(index)? | half(index + 1)? << 32)
        };
        let (found, begin, close) = (long(word::NUMBER)?, long(word::BEGIN)?, long(word::CLOSE)?);
        if found != number || !self.holds(source, number)? {
            return Ok(None);
        }
        let words = words.min(self.scratch_words());
        // (A clock that stepped back can close it before its beginning.)
        let end = closed.then_some(close.max(begin));
        Ok(Some(Packet {
            slot,
            begin,
            end,
            words,
            done: SLOT_HEADER_WORDS,
            time: begin,
        }))
    }

    /// Whether a packet is still there: then everything that was loaded of it before is right.
    ///
    /// # Errors
    /// [`Outside`] where the memory has shrunk.
    pub fn holds(&self, source: &impl Source, number: u64) -> Result<bool, Outside> {
        // What was copied was loaded relaxed. Partners: those of the fence in `read`.
        fence(Acquire);
        Ok(self.is_ours(source)? && self.intact(source, number)?)
    }

    /// Events in the packets that are there, and in those that were overwritten. Both numbers are
    /// of one moment, if the writer leaves time for that.
    ///
    /// # Errors
    /// [`Outside`] where the memory has shrunk.
    pub fn events(&self, source: &impl Source, view: View) -> Result<(u64, u64), Outside> {
        let mut events = (0, 0);
        for _ in 0..8 {
            let numbers = self.numbers(source)?;
            let Some(overwritten) = self.events_before(source, view, numbers.start)? else {
                continue;
            };
            let mut retained = 0;
            for number in numbers.clone() {
                retained += u64::from(self.events_in(source, number)?);
            }
            events = (retained, overwritten);
            // All loads above are acquires: no fence.
            if self.numbers(source)? == numbers {
                break;
            }
        }
        Ok(events)
    }

    /// Events in packet `number`, as its writer counts them.
    ///
    /// # Errors
    /// [`Outside`] where the memory has shrunk.
    pub fn events_in(&self, source: &impl Source, number: u64) -> Result<u32, Outside> {
        if self.masked && number >= self.prep(source)? {
            // The last one: open, or just being opened.
            let is_open = self.load_control(source, offset_of!(Control, open))? == number;
            return if is_open {
                source.load(self.control + offset_of!(Control, events) as u64)
            } else {
                Ok(0)
            };
        }
        Ok(self.slot_word(source, number, word::COMMIT)? >> 16)
    }

    /// Events that were dropped before packet `number` was opened; `None` where the packet before
    /// it, which says so, is gone.
    ///
    /// # Errors
    /// [`Outside`] where the memory has shrunk.
    pub fn dropped_before(
        &self,
        source: &impl Source,
        number: u64,
    ) -> Result<Option<u64>, Outside> {
        if number <= self.first {
            return Ok(Some(0));
        }
        let earlier = number - 1;
        let low = self.slot_word(source, earlier, word::DISCARDED)?;
        let high = self.slot_word(source, earlier, word::DISCARDED + 1)?;
        let dropped = u64::from(low) | u64::from(high) << 32;
        Ok(self.holds(source, earlier)?.then_some(dropped))
    }

    /// Events that the writer dropped.
    ///
    /// # Errors
    /// [`Outside`] where the memory has shrunk.
    pub fn discarded(&self, source: &impl Source) -> Result<u64, Outside> {
        self.load_control(source, offset_of!(Control, discarded))
    }
}
