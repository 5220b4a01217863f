//! Reading a region: copy, then check that the copied packet is still the same one.
//!
//! One reader serves the kernel's own `read`, a host that maps the guest's memory, a debugger, and
//! a crash dump; they differ in the [`Source`] and in the [`View`]. It never asks the writer for
//! anything, never stops it, and writes nothing but `consumed`.

use crate::sync::{Ordering::Acquire, fence};
use core::mem::offset_of;

use super::layout::{
    COMPACT_IDS, CONTROL_SIZE, Consumer, Control, EVENTS_BEFORE_VALID, EXTENDED, EXTENDED_WORDS,
    HEADER_WORDS, Header, ID_BITS, MIN_PACKETS, Overflow, PACKET_SIZES, Refusal, ReserveKind,
    SAMPLES, SESSION_WORD, SLOT_HEADER_WORDS, STATE_WORD, State, TIME_BITS, TIME_MASK,
};
use super::long::{join, split};
use super::slot::word;
use super::source::{Consume, Outside, Source};
use crate::channel::{ChannelKind, ChannelSet};
use crate::event::Shape;

mod walk;
pub use walk::{Packet, Place};

/// Most CPUs, channels and packets that a reader believes in.
const MAX_CPUS: u32 = 4096;
const MAX_PACKETS: u32 = 1 << 24;

/// What is known about the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Writers may be at work: every copy is checked.
    Live,
    /// Nobody writes any more: a dump, or a machine that was stopped or killed. What is there is
    /// all there will be.
    PostMortem,
}

/// A region whose header was read once and found good.
#[derive(Clone, Debug)]
pub struct Region {
    header: Header,
}

impl From<Outside> for Refusal {
    fn from(_: Outside) -> Self {
        Refusal::Geometry
    }
}

impl Region {
    /// Reads and checks the header.
    ///
    /// # Errors
    /// Says why there is nothing to read here.
    pub fn open(source: &impl Source) -> Result<Region, Refusal> {
        let mut words = [0; HEADER_WORDS];
        source
            .copy(0, &mut words)
            .map_err(|Outside| Refusal::NoMagic)?;
        // The state anew, and the session's number: whoever has a word of a session that begins
        // finds that it begins, and one that runs is all there. Partners: the releases of `start`.
        fence(Acquire);
        let again = |index: usize| {
            source
                .load(4 * index as u64)
                .map_err(|Outside| Refusal::NoMagic)
        };
        words[STATE_WORD] = again(STATE_WORD)?;
        if again(SESSION_WORD)? != words[SESSION_WORD] {
            words[STATE_WORD] = State::Forming as u32;
        }
        let header = Header::from_words(&words)?;
        // Saturated, it lies outside of any memory.
        let controls = (u64::from(header.cpus) * u64::from(header.kinds))
            .saturating_mul(u64::from(header.control_size));
        let inside = |offset: u64, len: u64| {
            offset
                .checked_add(len)
                .is_some_and(|end| end <= header.total_size)
        };
        let good = header.total_size <= source.len()
            && (1..=MAX_CPUS).contains(&header.cpus)
            && (1..=ChannelKind::ALL.len() as u32).contains(&header.kinds)
            && header.control_size as usize >= CONTROL_SIZE
            && header.control_size.is_multiple_of(8)
            && header.slot_header_size as usize == 4 * SLOT_HEADER_WORDS
            && header.control_offset.is_multiple_of(8)
            && header.shapes_offset.is_multiple_of(4)
            && header.metadata_offset.is_multiple_of(4)
            && inside(header.control_offset, controls)
            && inside(header.metadata_offset, u64::from(header.metadata_len))
            && inside(header.shapes_offset, 8 * u64::from(header.shapes_len))
            && (1..=ReserveKind::Masked as u32).contains(&header.reserve)
            && (header.word_size == 4 || cfg!(target_pointer_width = "64"))
            && header.clock.frequency_hz > 0;
        if good {
            Ok(Region { header })
        } else {
            Err(Refusal::Geometry)
        }
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The channels of the session.
    pub fn channels(&self) -> ChannelSet {
        ChannelSet {
            cpus: self.header.cpus,
            samples: self.header.compat & SAMPLES != 0
                && self.header.kinds > ChannelKind::Samples as u32,
        }
    }

    fn long(&self, source: &impl Source, offset: u64) -> Result<u64, Outside> {
        load_long(source, offset, self.header.word_size == 4)
    }

    /// Entry `index` of the table of record sizes.
    ///
    /// # Errors
    /// [`Outside`] past the table's end.
    pub fn shape(&self, source: &impl Source, index: u32) -> Result<(u32, Shape), Outside> {
        if index >= self.header.shapes_len {
            return Err(Outside);
        }
        let at = self.header.shapes_offset + 8 * u64::from(index);
        let (id, sizes) = (source.load(at)?, source.load(at + 4)?);
        Ok((id, Shape::from_word(sizes)))
    }

    /// A reader of one channel, at its oldest packet.
    ///
    /// # Errors
    /// [`Refusal::Geometry`] where the channel's constants make no sense.
    pub fn channel(
        &self,
        source: &impl Source,
        cpu: u32,
        kind: ChannelKind,
    ) -> Result<ChannelReader, Refusal> {
        if cpu >= self.header.cpus || kind as u32 >= self.header.kinds {
            return Err(Refusal::Geometry);
        }
        let index = u64::from(cpu) * u64::from(self.header.kinds) + u64::from(kind as u32);
        let control = self.header.control_offset + index * u64::from(self.header.control_size);
        let constant = |offset: usize| source.load(control + offset as u64);
        let packet_size = constant(offset_of!(Control, packet_size))?;
        let packets = constant(offset_of!(Control, packets))?;
        let long = |offset: usize| self.long(source, control + offset as u64);
        let ring = long(offset_of!(Control, ring_offset))?;
        let size = u64::from(packet_size) * u64::from(packets);
        let good = packet_size.is_power_of_two()
            && PACKET_SIZES.contains(&packet_size)
            && (MIN_PACKETS..=MAX_PACKETS).contains(&packets)
            && ring.is_multiple_of(8)
            && ring
                .checked_add(size)
                .is_some_and(|end| end <= self.header.total_size)
            && constant(offset_of!(Control, kind))? == kind as u32
            && constant(offset_of!(Control, cpu))? == cpu;
        if !good {
            return Err(Refusal::Geometry);
        }
        let first = long(offset_of!(Control, first_packet))?;
        Ok(ChannelReader {
            kind,
            cpu,
            control,
            ring,
            ring_address: self.header.region_va.wrapping_add(ring),
            packet_size,
            packets: u64::from(packets),
            first,
            session_id: self.header.session_id,
            halves: self.header.word_size == 4,
            masked: self.header.reserve == ReserveKind::Masked as u32,
            consumer: constant(offset_of!(Control, consumer))?,
            discard: constant(offset_of!(Control, overflow))? == Overflow::Discard as u32,
            next: first,
            done: SLOT_HEADER_WORDS,
            time: self.header.clock_start,
            walked: 0,
            stuck_at: 0,
            losses: Losses::default(),
            dropped_before: 0,
            emitted: 0,
        })
    }
}

/// Sizes of records, by id.
pub trait Shapes {
    /// The shape of the event with this id; `None` where there is no such event.
    fn shape(&self, id: u32) -> Option<Shape>;
}

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
    /// Time stamps that stepped back and were clamped to the one before.
    pub clamped: u64,
    /// Of `dropped`: events that no packet can hold.
    pub too_large: u64,
    /// How often the writer found its clock behind the window of the record before.
    pub clock_back: u64,
    /// Packets that the writer gave up because a writer had died in them.
    pub abandoned: u64,
}

impl Losses {
    /// Events that were recorded or called for, and are not in the trace.
    pub fn events(&self) -> u64 {
        self.overwritten
            .saturating_add(self.dropped)
            .saturating_add(self.unreadable)
    }
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// When, in ticks of the region's clock; never less than the record before.
    pub time: u64,
    /// Which event.
    pub id: u32,
    /// Its fields.
    pub payload: &'a [u32],
    /// Bytes of the payload's last word that are padding: 0 to 3.
    pub padding: u8,
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
    discard: bool,
    consumer: u32,
    /// The packet to read next.
    next: u64,
    /// Words of it that were read, header included.
    done: usize,
    /// Time of the last record read.
    time: u64,
    /// Records read of packet `next`.
    walked: u64,
    /// Words of the open packet at which no record could be made out; 0 usually. Nothing more comes
    /// before it is closed.
    stuck_at: usize,
    /// Records read.
    emitted: u64,
    losses: Losses,
    /// Of `losses`: what was dropped before the packet `next` was opened. What a packet tells of
    /// was dropped when it was full: behind its records.
    dropped_before: u64,
}

/// Where the packet `next` stands.
enum Standing {
    /// Complete, with so many words; `close` is final.
    Closed(usize),
    /// Being written; so many words are whole.
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
        let open = pos / u64::from(self.packet_size);
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

    /// Takes the writer's present counts of dropped events and of oddities into
    /// [`losses`](Self::losses).
    ///
    /// # Errors
    /// [`Outside`] where the memory has shrunk.
    pub fn refresh_dropped(&mut self, source: &impl Source) -> Result<(), Outside> {
        let dropped = self.load_control(source, offset_of!(Control, discarded))?;
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
            ) = (too_large, clock_back, abandoned);
        }
        Ok(())
    }

    /// As [`refresh_dropped`](Self::refresh_dropped), and takes what was overwritten since the last
    /// record into [`losses`](Self::losses): for whoever ends without reading what is left. Nobody
    /// writes any more.
    ///
    /// # Errors
    /// [`Outside`] where the memory has shrunk.
    pub fn refresh_losses(&mut self, source: &impl Source) -> Result<(), Outside> {
        self.refresh_dropped(source)?;
        let prep = self.load_control(source, offset_of!(Control, prep))?;
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

    fn load_control(&self, source: &impl Source, offset: usize) -> Result<u64, Outside> {
        load_long(source, self.control + offset as u64, self.halves)
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
        self.ring + number % self.packets * u64::from(self.packet_size)
    }

    fn slot_word(&self, source: &impl Source, number: u64, index: usize) -> Result<u32, Outside> {
        source.load(self.slot(number) + 4 * index as u64)
    }

    /// Whether what is there is still of this reader's session, and not of another one over the
    /// same memory.
    fn is_ours(&self, source: &impl Source) -> Result<bool, Outside> {
        // The low half, which `start` stores as a word: two sessions over one memory differ in it.
        Ok(source.load(4 * SESSION_WORD as u64)? == self.session_id as u32)
    }

    fn intact(&self, source: &impl Source, number: u64) -> Result<bool, Outside> {
        Ok(number.saturating_add(self.packets)
            > self.load_control(source, offset_of!(Control, prep))?)
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
            let prep = self.load_control(source, offset_of!(Control, prep))?;
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
                self.next += 1;
                self.done = SLOT_HEADER_WORDS;
                self.walked = 0;
                self.stuck_at = 0;
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
                self.dropped_before = self.losses.dropped;
            }
            self.losses.dropped = self.losses.dropped.max(dropped);
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

    /// Goes to the oldest packet that will be there for a while, and counts exactly what was lost.
    /// `false`: try again.
    fn resume(&mut self, source: &impl Source, view: View, oldest: u64) -> Result<bool, Outside> {
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
                break; // Not complete: a writer that was interrupted is still in it, and its count is not final.
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
        self.next = resume;
        self.done = SLOT_HEADER_WORDS;
        self.walked = 0;
        Ok(true)
    }

    /// Records in all packets before `oldest`, the oldest there is; `None`: try again. Right if
    /// `oldest` is intact afterwards.
    fn events_before(
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
                    Standing::Closed(content.clamp(SLOT_HEADER_WORDS, full))
                }
                core::cmp::Ordering::Equal => {
                    let offset = cursor.wrapping_sub(self.ring_address);
                    let (slot, used) = (
                        offset / u64::from(self.packet_size),
                        offset % u64::from(self.packet_size),
                    );
                    if slot == self.next % self.packets && used as usize >= 4 * SLOT_HEADER_WORDS {
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
        let open = pos / u64::from(self.packet_size);
        let used = (pos % u64::from(self.packet_size)) as usize / 4;
        Ok(match self.next.cmp(&open) {
            core::cmp::Ordering::Greater => Standing::Nothing,
            core::cmp::Ordering::Less if committed == full => {
                let content = self.slot_word(source, self.next, word::CONTENT)? as usize / 4;
                Standing::Closed(content.clamp(SLOT_HEADER_WORDS, full))
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

    /// Tells the writer that the packets before the present one may be reused. For the session's
    /// one consumer.
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

/// Records that were copied and are known to be whole. Those not taken with
/// [`next_record`](Batch::next_record) come again.
#[derive(Debug)]
pub struct Batch<'a> {
    reader: &'a mut ChannelReader,
    words: &'a [u32],
    begin: u64,
    end: Option<u64>,
    closed: bool,
    /// Events that the writer says are in the packet, where that is final.
    committed: Option<u64>,
    /// Whether the reader still stands in this packet.
    reader_is_here: bool,
}

impl<'a> Batch<'a> {
    /// No record of the batch is earlier. Usually this is when the packet was opened, or the time of
    /// the record before; where the writer's clock has stepped back, the latest time that the reader
    /// has seen, also in a packet that was overwritten before its records were taken.
    pub fn begin(&self) -> u64 {
        self.begin
    }

    /// When the packet was closed, if it is.
    pub fn end(&self) -> Option<u64> {
        self.end
    }

    /// Losses up to this batch. What was dropped after its records is among those of the next one,
    /// and of the [reader](ChannelReader::losses).
    pub fn losses(&self) -> Losses {
        Losses {
            dropped: self.reader.dropped_before,
            ..self.reader.losses
        }
    }

    /// The next record; `None` at the batch's end.
    pub fn next_record(&mut self, shapes: &impl Shapes) -> Option<Record<'a>> {
        let mut next = None;
        self.offer_record(shapes, |record| {
            next = Some(*record);
            true
        });
        next
    }

    /// Offers the next record to `take`, which says whether it takes it: a record that it refuses
    /// comes again. Gives its answer; `None` at the batch's end.
    #[inline]
    pub fn offer_record(
        &mut self,
        shapes: &impl Shapes,
        take: impl FnOnce(&Record<'a>) -> bool,
    ) -> Option<bool> {
        if !self.reader_is_here {
            return None;
        }
        let reader = &mut *self.reader;
        let rest = self.words.get(reader.done..).unwrap_or(&[]);
        let Some((mut record, header)) = split_record(rest, reader.time, shapes) else {
            self.finish_packet();
            return None;
        };
        let clamped = record.time < reader.time;
        record.time = record.time.max(reader.time);
        if !take(&record) {
            return Some(false);
        }
        reader.losses.clamped += u64::from(clamped);
        reader.time = record.time;
        reader.done += header + record.payload.len();
        reader.walked += 1;
        reader.emitted += 1;
        Some(true)
    }

    /// At the end of what can be read: a closed packet is behind us, and what it held beyond is
    /// counted.
    fn finish_packet(&mut self) {
        let reader = &mut *self.reader;
        if !self.reader_is_here {
            return;
        }
        // In an open packet the last record may be counted and not yet published; it is missing
        // only if the walk ended before.
        let ended_early = self.closed || reader.done < self.words.len();
        if let (Some(committed), true) = (self.committed, ended_early) {
            reader.losses.unreadable = reader
                .losses
                .unreadable
                .saturating_add(committed.saturating_sub(reader.walked));
            reader.walked = reader.walked.max(committed);
        }
        if !self.closed {
            reader.stuck_at = if reader.done < self.words.len() {
                self.words.len()
            } else {
                0
            };
        } else {
            self.reader_is_here = false;
            // The record that closed it may be overwritten before it is read; the packet's end is
            // counted all the same.
            reader.time = reader.time.max(self.end.unwrap_or(0));
            reader.next += 1;
            reader.done = SLOT_HEADER_WORDS;
            reader.walked = 0;
            reader.stuck_at = 0;
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

/// The record at the front of `words`, and the words of its header; `None` where there is none, or
/// no whole one.
fn split_record<'a>(
    words: &'a [u32],
    now: u64,
    shapes: &impl Shapes,
) -> Option<(Record<'a>, usize)> {
    let Extent {
        time,
        id,
        header,
        bytes,
    } = extent(words.len(), |index| words.get(index).copied(), now, shapes)?;
    let len = bytes.div_ceil(4);
    let payload = words.get(header..header + len)?;
    Some((
        Record {
            time,
            id,
            payload,
            padding: (4 * len - bytes) as u8,
        },
        header,
    ))
}

/// What a record's header and the lengths in it say.
struct Extent {
    time: u64,
    id: u32,
    /// Words of its header.
    header: usize,
    /// Bytes of its payload.
    bytes: usize,
}

/// The record at the front of `len` words, of which `word` gives those that are asked for; `None`
/// where there is none, or no whole one.
fn extent(
    len: usize,
    word: impl Fn(usize) -> Option<u32>,
    now: u64,
    shapes: &impl Shapes,
) -> Option<Extent> {
    let first = word(0)?;
    let short = first & ((1 << ID_BITS) - 1);
    // Inside a run of compact records the low bits never decrease but for a step back: their window
    // is that of the record before.
    let compact_time = (now >> TIME_BITS << TIME_BITS) | (u64::from(first >> ID_BITS) & TIME_MASK);
    let (time, id, header) = match short {
        0 => return None,
        EXTENDED => {
            let time = u64::from(word(2)?) | u64::from(word(3)?) << 32;
            (time, word(1)?, EXTENDED_WORDS)
        }
        COMPACT_IDS => (compact_time, word(1)?, 2),
        id => (compact_time, id, 1),
    };
    let bytes = shapes
        .shape(id)?
        .payload_bytes_of(len.checked_sub(header)?, |index| word(header + index))?;
    Some(Extent {
        time,
        id,
        header,
        bytes,
    })
}
