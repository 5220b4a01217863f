//! Reading a region: copy, then check that the copied packet is still the same one.
//!
//! One reader serves the kernel's own `read`, a host that maps the guest's memory, a debugger, and
//! a crash dump; they differ in the [`Source`] and in the [`View`]. It never asks the writer for
//! anything, never stops it, and writes nothing but `consumed`.
//!
//! - `region`: the header, and the readers of a region's channels.
//! - here: [`ChannelReader`], which finds the next packet and copies it.
//! - `batch`: the records of a copy.
//! - `losses`: what a reader that was lapped missed.
//! - `walk`: packets where they lie, without a copy.

mod batch;
mod losses;
mod region;
mod walk;

pub use batch::{Batch, Record};
pub use losses::Losses;
pub use region::Region;
pub use walk::{Packet, Place};

use core::mem::offset_of;

use super::layout::{
    Consumer, Control, Overflow, PACKET_SIZES, SESSION_WORD, SLOT_HEADER_WORDS, WITHOUT_RING_OFFSET,
};
use super::long::{checked_div, checked_rem, join, split};
use super::slot::word;
use super::source::{Consume, Outside, Source};
use crate::channel::ChannelKind;
use crate::event::Shape;
use crate::sync::{Ordering::Acquire, fence};

/// No packet has a higher number: positions have 64 bits, and packets 256 bytes at least.
const LAST_NUMBER: u64 = u64::MAX / *PACKET_SIZES.start() as u64;

/// What is known about the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Writers may be at work: every copy is checked.
    Live,
    /// Nobody writes any more: a dump, or a machine that was stopped or killed. What is there is
    /// all there will be.
    PostMortem,
}

/// Sizes of records, by id.
pub trait Shapes {
    /// The shape of the event with this id; `None` where there is no such event.
    fn shape(&self, id: u32) -> Option<Shape>;
}

/// Reads one channel, packet after packet. Plain values: it may be kept, copied, and used on
/// another thread.
#[derive(Clone, Debug)]
pub struct ChannelReader {
    kind: ChannelKind,
    cpu: u32,
    control: u64,
    ring: u64,
    ring_address: u64,
    packet_size: u32,
    packets: u64,
    first: u64,
    session_id: u64,
    /// The writer is a 32-bit one: 64-bit control words are in halves.
    halves: bool,
    masked: bool,
    /// Whether this channel's losses include the region's count of records without a ring.
    tells_without_ring: bool,
    discard: bool,
    consumer: u32,
    /// The packet to read next.
    next: u64,
    /// Words of it that were read, header included.
    done: usize,
    /// Time of the last record read; never decreases.
    time: u64,
    /// That time as its writer stored it: less than `time` where the clock has stepped back.
    stored_time: u64,
    /// Records read of packet `next`.
    walked: u64,
    /// Words of the open packet at which no record could be made out; 0 usually. Nothing more comes
    /// before it is closed.
    stuck_at: usize,
    /// Records read.
    emitted: u64,
    losses: Losses,
    /// The part of `losses` that was dropped before the packet `next` was opened. What a packet
    /// reports was dropped when it was full: behind its records.
    dropped_before: u64,
}

/// Where the packet `next` stands.
enum Standing {
    /// Complete, with this many words; `close` is final.
    Closed(usize),
    /// Being written; this many words are whole.
    Open(usize),
    /// A writer died in it: read as far as it goes.
    Broken(usize),
    /// Cannot be known now.
    Busy,
    /// Not yet begun.
    Nothing,
}

impl ChannelReader {
    /// The channel's kind.
    pub fn kind(&self) -> ChannelKind {
        self.kind
    }

    /// The channel's CPU.
    pub fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Words of scratch memory that [`read`](Self::read) needs: one packet.
    pub fn scratch_words(&self) -> usize {
        self.packet_size as usize / 4
    }

    /// Whether packets of this channel are freed by `who`.
    pub fn is_consumed_by(&self, who: Consumer) -> bool {
        self.discard && self.consumer == who as u32
    }

    /// What the ring does when it is full.
    pub fn overflow(&self) -> Overflow {
        if self.discard {
            Overflow::Discard
        } else {
            Overflow::Overwrite
        }
    }

    /// Whether every record that was reserved in the open packet is committed (`LocalCas`; with
    /// `Masked` a record has no such state).
    ///
    /// # Errors
    /// [`Outside`] where the memory has shrunk.
    pub fn is_quiet(&self, source: &impl Source) -> Result<bool, Outside> {
        if self.masked {
            return Ok(true);
        }
        let pos = self.load_control(source, offset_of!(Control, cursor))?;
        let open = checked_div(pos, self.packet_size.into());
        let committed = self.slot_word(source, open, word::COMMIT)? & 0xffff;
        let before = if open > self.first {
            self.slot_word(source, open - 1, word::COMMIT)? & 0xffff
        } else {
            self.packet_size / 4
        };
        Ok(
            u64::from(committed) == pos % u64::from(self.packet_size) / 4
                && before == self.packet_size / 4,
        )
    }

    /// Packets that the ring holds.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Records read so far.
    pub fn emitted(&self) -> u64 {
        self.emitted
    }

    /// Losses as far as they are known from what was read.
    pub fn losses(&self) -> Losses {
        self.losses
    }

    fn load_control(&self, source: &impl Source, offset: usize) -> Result<u64, Outside> {
        load_long(source, self.control + offset as u64, self.halves)
    }

    /// Records without a ring, if this channel tells them.
    fn load_without_ring(&self, source: &impl Source) -> Result<u64, Outside> {
        let at = WITHOUT_RING_OFFSET as u64;
        match (self.tells_without_ring, self.halves) {
            (false, _) => Ok(0),
            (true, true) => source.load(at).map(u64::from),
            (true, false) => source.load_long(at),
        }
    }

    /// The newest packet whose slot is taken, as the control block says. Where that is damaged, it
    /// is still a number with numbers behind it: a walk up to it ends.
    fn prep(&self, source: &impl Source) -> Result<u64, Outside> {
        let prep = self.load_control(source, offset_of!(Control, prep))?;
        Ok(prep.min(LAST_NUMBER))
    }

    /// A control word that is an address of the writer's: a machine word of its own.
    fn load_address(&self, source: &impl Source, offset: usize) -> Result<u64, Outside> {
        let offset = self.control + offset as u64;
        if self.halves {
            source.load(offset).map(u64::from)
        } else {
            source.load_long(offset)
        }
    }

    fn slot(&self, number: u64) -> u64 {
        self.ring + checked_rem(number, self.packets) * u64::from(self.packet_size)
    }

    fn slot_word(&self, source: &impl Source, number: u64, index: usize) -> Result<u32, Outside> {
        source.load(self.slot(number) + 4 * index as u64)
    }

    /// Whether the memory still holds this reader's session, and not another one.
    fn is_ours(&self, source: &impl Source) -> Result<bool, Outside> {
        // The low half, which `start` stores as a word: two sessions over one memory differ in it.
        Ok(source.load(4 * SESSION_WORD as u64)? == self.session_id as u32)
    }

    fn intact(&self, source: &impl Source, number: u64) -> Result<bool, Outside> {
        Ok(number.saturating_add(self.packets) > self.prep(source)?)
    }

    /// The next records that are whole: the rest of a packet, as much as was written so far.
    /// `None`: nothing new now.
    ///
    /// # Errors
    /// [`Outside`] where the memory has shrunk.
    pub fn read<'a>(
        &'a mut self,
        source: &impl Source,
        view: View,
        scratch: &'a mut [u32],
    ) -> Result<Option<Batch<'a>>, Outside> {
        // A writer may lap the reader in every turn; what cannot be had in a few is left for the
        // next call.
        let mut turns = 0;
        while turns < 8 {
            turns += u32::from(view == View::Live);
            let prep = self.prep(source)?;
            if !self.is_ours(source)? {
                return Ok(None);
            }
            let oldest = prep
                .saturating_add(1)
                .saturating_sub(self.packets)
                .max(self.first);
            if self.next > prep {
                return Ok(None);
            }
            if self.next < oldest && !self.resume(source, view, oldest)? {
                continue;
            }
            let (words, closed, broken) = match self.standing(source, view)? {
                Standing::Nothing | Standing::Busy => return Ok(None),
                Standing::Closed(words) => (words, true, false),
                Standing::Open(words) => (words, false, false),
                Standing::Broken(words) => (words, true, true),
            };
            let whole = words.min(self.scratch_words());
            source.copy(
                self.slot(self.next),
                scratch.get_mut(..whole).ok_or(Outside)?,
            )?;
            let without_ring = self.load_without_ring(source)?;
            let dropped_now = self.load_control(source, offset_of!(Control, discarded))?;
            // Partners: the writer's release fence between `prep` and the first byte that it
            // destroys; that of `start` behind the session's number.
            fence(Acquire);
            if !self.is_ours(source)? {
                return Ok(None);
            }
            if view == View::Live && !self.intact(source, self.next)? {
                continue;
            }
            let long = |index: usize| {
                let half = |index: usize| u64::from(scratch.get(index).copied().unwrap_or(0));
                half(index) | half(index + 1) << 32
            };
            if long(word::NUMBER) != self.next {
                if view == View::Live {
                    return Ok(None);
                }
                // The writer died before it gave the packet its number. What nested writers
                // committed in it stands behind a hole.
                let committed = (long(word::COMMIT) >> 16) & 0xffff;
                self.losses.unreadable = self
                    .losses
                    .unreadable
                    .saturating_add(committed.saturating_sub(self.walked));
                self.losses.packets = self.losses.packets.saturating_add(1);
                self.go_to(self.next.saturating_add(1));
                continue;
            }
            let begin = long(word::BEGIN);
            // How many there must be, where that is final: nobody writes the packet any more.
            let committed = match (closed, view) {
                (false, View::Live) => None,
                (false, View::PostMortem) if self.masked => Some(u64::from(
                    source.load(self.control + offset_of!(Control, events) as u64)?,
                )),
                _ => Some((long(word::COMMIT) >> 16) & 0xffff),
            };
            let dropped = if closed && !broken {
                long(word::DISCARDED)
            } else {
                dropped_now
            };
            if self.done == SLOT_HEADER_WORDS {
                // Not begun: nothing was read of it.
                self.time = self.time.max(begin);
                self.stored_time = self.stored_time.max(begin);
            }
            let dropped = dropped.saturating_add(without_ring);
            self.losses.dropped = self.losses.dropped.max(dropped);
            self.losses.without_ring = without_ring;
            let end = (closed && !broken).then(|| long(word::CLOSE));
            // What cannot be made out is counted once it is known to be final.
            let counted = committed.is_none_or(|committed| committed <= self.walked);
            if !closed && (self.done >= whole || (self.stuck_at == whole && counted)) {
                return Ok(None);
            }
            let words = scratch.get(..whole).unwrap_or(&[]);
            return Ok(Some(Batch {
                begin: self.time,
                end,
                closed,
                committed,
                reader_is_here: true,
                words,
                reader: self,
            }));
        }
        Ok(None)
    }

    /// Leaves the present packet. What is known by now to be dropped was dropped before `number`.
    fn go_to(&mut self, number: u64) {
        self.next = number;
        self.done = SLOT_HEADER_WORDS;
        self.walked = 0;
        self.stuck_at = 0;
        self.dropped_before = self.losses.dropped;
    }

    fn standing(&self, source: &impl Source, view: View) -> Result<Standing, Outside> {
        let full = self.packet_size as usize / 4;
        let dead = view == View::PostMortem;
        if self.masked {
            // `cursor` moves after `open`: it is read first, so that an `open` of `next` and a
            // cursor in its slot belong together.
            let cursor = self.load_address(source, offset_of!(Control, cursor))?;
            let open = self.load_control(source, offset_of!(Control, open))?;
            return Ok(match self.next.cmp(&open) {
                core::cmp::Ordering::Greater => Standing::Nothing,
                core::cmp::Ordering::Less => {
                    let content = self.slot_word(source, self.next, word::CONTENT)? as usize / 4;
                    // Not `clamp`, which can panic.
                    Standing::Closed(content.max(SLOT_HEADER_WORDS).min(full))
                }
                core::cmp::Ordering::Equal => {
                    let offset = cursor.wrapping_sub(self.ring_address);
                    let (slot, used) = (
                        checked_div(offset, self.packet_size.into()),
                        checked_rem(offset, self.packet_size.into()),
                    );
                    let own = checked_rem(self.next, self.packets);
                    if slot == own && used as usize >= 4 * SLOT_HEADER_WORDS {
                        Standing::Open(used as usize / 4)
                    } else if dead {
                        Standing::Nothing // It died while it opened the packet: no call had returned in it.
                    } else {
                        Standing::Busy
                    }
                }
            });
        }
        let commit = self.slot_word(source, self.next, word::COMMIT)?;
        let committed = (commit & 0xffff) as usize;
        let pos = self.load_control(source, offset_of!(Control, cursor))?;
        let open = checked_div(pos, self.packet_size.into());
        let used = checked_rem(pos, self.packet_size.into()) as usize / 4;
        Ok(match self.next.cmp(&open) {
            core::cmp::Ordering::Greater => Standing::Nothing,
            core::cmp::Ordering::Less if committed == full => {
                let content = self.slot_word(source, self.next, word::CONTENT)? as usize / 4;
                Standing::Closed(content.max(SLOT_HEADER_WORDS).min(full))
            }
            core::cmp::Ordering::Equal if committed == used => Standing::Open(used),
            _ if !dead => Standing::Busy,
            core::cmp::Ordering::Less => Standing::Broken(full),
            core::cmp::Ordering::Equal => Standing::Broken(used),
        })
    }

    /// Whether the packets before the present one were freed already, by a consumer that left off
    /// ahead of here.
    ///
    /// # Errors
    /// [`Outside`] where the memory has shrunk.
    pub fn is_released(&self, source: &impl Source) -> Result<bool, Outside> {
        Ok(self.load_control(source, offset_of!(Control, consumed))? >= self.next)
    }

    /// Tells the writer that the packets before the present one may be reused. Only the session's
    /// one consumer calls it.
    ///
    /// # Errors
    /// [`Outside`] where the memory has shrunk.
    pub fn release(&self, source: &impl Consume) -> Result<(), Outside> {
        let consumed = self.control + offset_of!(Control, consumed) as u64;
        match (self.discard, self.halves) {
            (false, _) => Ok(()),
            (true, false) => source.store_long(consumed, self.next),
            (true, true) => {
                let [low, high] = split(self.next);
                source.store(consumed, low)?;
                source.store(consumed + 4, high)
            }
        }
    }
}

/// A 64-bit word of a control block; `halves` where its writer stores 32 bits at a time.
fn load_long(source: &impl Source, offset: u64, halves: bool) -> Result<u64, Outside> {
    if !halves {
        return source.load_long(offset);
    }
    // In this order: see `join`.
    let high = source.load(offset + 4)?;
    Ok(join(high, source.load(offset)?))
}
