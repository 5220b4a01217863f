//! A region whose header is good, and the readers of its channels.

use core::mem::offset_of;

use super::{ChannelReader, Losses, Shapes, load_long};
use crate::channel::{ChannelKind, ChannelSet};
use crate::counter::MOST_WORDS;
use crate::event::Shape;
use crate::ring::layout::{
    CONTROL_SIZE, COUNTERS, Control, HEADER_WORDS, Header, MIN_PACKETS, Overflow, PACKET_SIZES,
    Refusal, ReserveKind, SAMPLES, SESSION_WORD, SLOT_HEADER_WORDS, STATE_WORD, State,
    WITHOUT_RING,
};
use crate::ring::source::{Outside, Source};
use crate::sync::{Ordering::Acquire, fence};

/// Limits beyond which a reader takes what it finds for damage.
const MAX_CPUS: u32 = 4096;
const MAX_PACKETS: u32 = 1 << 24;

/// A region whose header was read once and found good.
#[derive(Clone, Debug)]
pub struct Region {
    header: Header,
}

/// The table of record sizes.
struct Table<'a, S> {
    region: &'a Region,
    source: &'a S,
}

impl<S: Source> Shapes for Table<'_, S> {
    fn shape(&self, id: u32) -> Option<Shape> {
        (0..self.region.header.shapes_len)
            .map_while(|index| self.region.shape(self.source, index).ok())
            .find_map(|(found, shape)| (found == id).then_some(shape))
    }
}

/// Most control blocks of a CPU, with those whose place counters take.
fn most_blocks(header: &Header) -> u32 {
    let counters = if header.incompat & COUNTERS != 0 {
        MOST_WORDS * 8
    } else {
        0
    };
    ChannelKind::ALL.len() as u32 + counters.div_ceil(CONTROL_SIZE as u32)
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
        // Load the state and the session's number again: a reader that has copied a word of a
        // session that is just beginning finds out, and a session that runs is complete. Partners:
        // the releases of `start`.
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
            && (1..=most_blocks(&header)).contains(&header.kinds)
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

    /// The sizes of the records in this region, whatever kernel has written them. Each is looked
    /// for in the region's table.
    pub fn shapes<'a, S: Source>(&'a self, source: &'a S) -> impl Shapes {
        Table {
            region: self,
            source,
        }
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
            tells_without_ring: self.header.compat & WITHOUT_RING != 0
                && (cpu, kind) == (0, ChannelKind::Events),
            consumer: constant(offset_of!(Control, consumer))?,
            discard: constant(offset_of!(Control, overflow))? == Overflow::Discard as u32,
            next: first,
            done: SLOT_HEADER_WORDS,
            time: self.header.clock_start,
            stored_time: self.header.clock_start,
            walked: 0,
            stuck_at: 0,
            losses: Losses::default(),
            dropped_before: 0,
            emitted: 0,
        })
    }
}
