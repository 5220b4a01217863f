//! The region as every reader finds it: header, control blocks, record sizes, metadata, packets.
//!
//! All offsets are from the region's first byte, so that it can be read at another address, by
//! another program, on another architecture. Words are naturally aligned. The layout has a version;
//! a reader refuses another one in a sentence.

use super::long::Long;
pub use crate::channel::ChannelKind;
use crate::sync::{AtomicU8, AtomicU32, AtomicUsize, Ordering::Relaxed};
use core::mem::offset_of;

/// First word of the region. Put together at run time by [`magic`], so that no image contains the
/// constant itself.
const MAGIC_HALVES: [u32; 2] = [0x6f6d_796b, 0x2d67_6e69];

/// The region's first eight bytes.
pub fn magic() -> u64 {
    let [low, high] = core::hint::black_box(MAGIC_HALVES);
    u64::from(low) | u64::from(high.rotate_left(8)) << 32
}

/// Version of everything in this file. Version 2 has a control block for samples beside those for
/// events and names; version 1 is read too.
pub const LAYOUT_VERSION: u16 = 2;
/// Bit of [`Header::compat`]: there are rings of samples.
pub const SAMPLES: u32 = 1;
/// Bit of [`Header::compat`]: the region counts records of CPUs without a ring, at
/// [`WITHOUT_RING_OFFSET`].
pub const WITHOUT_RING: u32 = 2;
/// Bit of [`Header::incompat`]: there are records with sequences of elements larger than a byte.
pub const SEQUENCES: u32 = 1;
/// Bit of [`Header::incompat`]: each CPU's control blocks are followed by its counters, which take
/// the place of blocks: [`Header::kinds`] counts them too.
pub const COUNTERS: u32 = 2;
/// The bits of [`Header::incompat`] that this reader knows.
const KNOWN: u32 = SEQUENCES | COUNTERS;
/// Words of the region header.
pub const HEADER_WORDS: usize = 48;
/// Where the region counts the session's records that found no ring: behind the header, in a machine
/// word of the writer's, because any CPU counts there.
pub const WITHOUT_RING_OFFSET: usize = 4 * HEADER_WORDS;
/// Where the control blocks begin, behind the header.
pub const CONTROL_OFFSET: usize = control_offset(size_of::<usize>());
/// Where writers whose machine words have this many bytes put the control blocks.
///
/// With 64 bits the header has a page of its own, and no block begins where a page does, because
/// packets do: x86 takes a load for dependent on an earlier store as long as the low 12 bits of
/// their addresses agree, and then the next event's load of `cursor` waits for the commit of the one
/// before (2 ns). With 32 bits, a page may be a quarter of the memory.
pub const fn control_offset(word_size: usize) -> usize {
    if word_size == 8 { 4096 + 128 } else { 256 }
}
/// The region's alignment, which is also the step at which a reader looks for one in a memory
/// image.
pub const REGION_ALIGN: usize = 4096;
/// Words of a packet slot's header.
pub const SLOT_HEADER_WORDS: usize = 12;
/// Bits of time in a compact record header: a window is `1 << TIME_BITS` ticks.
pub const TIME_BITS: u32 = 27;
/// The bits of time in a compact record header.
pub const TIME_MASK: u64 = (1 << TIME_BITS) - 1;
/// Bits of id in a record header.
pub const ID_BITS: u32 = 5;
/// Ids below this one are compact.
pub const COMPACT_IDS: u32 = 30;
/// Header id that says: the id is in the next word.
pub const MEDIUM: u32 = 30;
/// Header id that says: the id is in the next word, the 64-bit time in the two after it.
pub const EXTENDED: u32 = 31;
/// Words of an extended header.
pub const EXTENDED_WORDS: usize = 4;
/// Smallest and largest packet, in bytes: its words must be counted in 16 bits.
pub const PACKET_SIZES: core::ops::RangeInclusive<u32> = 256..=128 << 10;
/// A ring has at least this many packets.
pub const MIN_PACKETS: u32 = 4;
/// `events_before` holds a number only with this bit set.
pub const EVENTS_BEFORE_VALID: u64 = 1 << 63;

/// What a full ring does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Overflow {
    /// Drops the new event and counts it.
    Discard = 0,
    /// Reuses the oldest packet; its events are counted. A flight recorder.
    Overwrite = 1,
}

/// Who frees packets in `Discard`. One at most, fixed for the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Consumer {
    /// Nobody: a full ring stays full, the oldest events are kept.
    None = 0,
    /// The kernel's own reader.
    Kernel = 1,
    /// A host that maps the memory.
    Host = 2,
}

/// How writers reserve space: decides how a reader tells what is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ReserveKind {
    /// A CPU-local compare-and-swap on the position; writers may nest. On 64-bit processors.
    #[cfg(target_pointer_width = "64")]
    LocalCas = 1,
    /// Interrupts masked; one writer at a time.
    Masked = 2,
}

/// Whether the region may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// `start` is at work.
    Forming = 0,
    /// Recording.
    Running = 1,
    /// Stopped; the rings hold what they held.
    Stopped = 2,
}

/// One channel of one CPU: where its writer stands. Written by that CPU only, but for `consumed`.
///
/// Lines of 128 bytes, so that no two CPUs' words share a line (adjacent-line prefetch counted in):
/// the hot words, those of the slow path that readers look at, the consumer's, the constants, and
/// two with the switches of the less frequent events.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Control {
    /// `Masked`: address of the next record. `LocalCas`: logical offset of the next record, never
    /// reset.
    pub(crate) cursor: Long,
    /// Last value of `cursor` that still lies in the open packet.
    pub(crate) limit: Long,
    /// Time window of the last record: `time >> TIME_BITS`.
    pub(crate) epoch: Long,
    /// Ring size - 1 (constant).
    pub(crate) mask: Long,
    /// Address of the ring (constant).
    pub(crate) base: Long,
    /// `Masked`: records in the open packet.
    pub(crate) events: AtomicU32,
    _pad: u32,
    /// Takes the address of a record to that of its slot: -packet size (constant).
    pub(crate) slot_mask: Long,
    _hot: [u32; 10],
    /// Switches of the events with compact ids, a byte each; an event whose byte is not zero is
    /// recorded.
    pub(crate) on: [AtomicU8; SWITCHES],

    /// Highest packet number whose slot has been taken: packet `k` is intact as long as
    /// `k + packets > prep`.
    pub(crate) prep: Long,
    /// `LocalCas`: highest packet number whose slot is ready to be opened.
    pub(crate) ready: Long,
    /// `Masked`: number of the open packet.
    pub(crate) open: Long,
    /// Records in packets that were destroyed.
    pub(crate) retired_events: Long,
    /// Events dropped, for whatever reason.
    pub(crate) discarded: Long,
    /// Packets given up because a writer died in them.
    pub(crate) abandoned: AtomicU32,
    /// How often the clock stepped back out of its window.
    pub(crate) clock_back: AtomicU32,
    /// Events dropped because no packet can hold them (counted in `discarded` too).
    pub(crate) too_large: AtomicU32,
    _due: u32,
    /// Events channel: when the CPU's counters are to be recorded next.
    pub(crate) counters_due: Long,
    _shared: [u32; 16],

    /// Packets below this one are free to be reused in `Discard`. The only word that a reader
    /// writes.
    pub(crate) consumed: Long,
    _consumer: [u32; 30],

    /// Bytes of a packet slot, a power of two.
    pub(crate) packet_size: AtomicU32,
    /// Slots in the ring.
    pub(crate) packets: AtomicU32,
    /// An [`Overflow`].
    pub(crate) overflow: AtomicU32,
    /// The CPU's number.
    pub(crate) cpu: AtomicU32,
    /// A [`ChannelKind`].
    pub(crate) kind: AtomicU32,
    /// A [`Consumer`].
    pub(crate) consumer: AtomicU32,
    /// Offset of the ring in the region.
    pub(crate) ring_offset: Long,
    /// Number of the session's first packet.
    pub(crate) first_packet: Long,
    /// A word for the kernel's own use, for kernels whose CPU register points to this block.
    pub kernel_word: AtomicUsize,
    #[cfg(target_pointer_width = "32")]
    _kernel_word: u32,
    /// Events channel: ticks from one record of the CPU's counters to the next, 0 for none.
    pub(crate) counters_period: Long,
    _constants: [u32; 18],

    /// Switches of all other events, a bit each.
    pub(crate) on_more: [AtomicU8; MORE_SWITCHES],
}

impl Control {
    /// The CPU's number.
    pub fn cpu(&self) -> u32 {
        self.cpu.load(Relaxed)
    }

    /// Counts an event as dropped in a channel that nobody records into: for a platform some of
    /// whose threads have no ring.
    #[cfg(target_pointer_width = "64")]
    pub fn count_discarded(&self) {
        self.discarded.fetch_add(1, Relaxed);
    }
}

/// Bytes from one control block to the next.
pub const CONTROL_SIZE: usize = size_of::<Control>();
/// Bytes from a CPU's first control block to its counters.
pub const COUNTERS_OFFSET: usize = CHANNEL_KINDS * CONTROL_SIZE;
const _: () = {
    assert!(CONTROL_SIZE == 768);
    assert!(WITHOUT_RING_OFFSET + size_of::<usize>() <= CONTROL_OFFSET);
    assert!(
        CONTROL_OFFSET.is_multiple_of(align_of::<Control>())
            && !CONTROL_OFFSET.is_multiple_of(CONTROL_SIZE)
    );
    assert!(offset_of!(Control, on) == 96);
    assert!(offset_of!(Control, prep) == 128);
    assert!(offset_of!(Control, consumed) == 256);
    assert!(offset_of!(Control, packet_size) == 384);
    assert!(offset_of!(Control, on_more) == 512);
};

/// Bytes with the switches of the compact ids of a channel.
pub const SWITCHES: usize = 32;
/// Bytes with the switches of all other ids of a channel.
pub const MORE_SWITCHES: usize = 256;
/// Declared ids are below this one: each has a switch of its own.
pub const MAX_IDS: u32 = 8 * MORE_SWITCHES as u32;
/// Kinds of channels.
pub const CHANNEL_KINDS: usize = ChannelKind::ALL.len();

/// Where an event's switch stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Switch {
    /// Whether it is among the switches of the other ids, not of the compact ones.
    pub(crate) more: bool,
    /// The byte.
    pub(crate) byte: usize,
    /// The bits of the byte that belong to this event.
    pub(crate) mask: u8,
}

/// The switch of an event. No two ids share one, so that an event which no vocabulary lists is off,
/// whatever others are on. From [`MAX_IDS`] on there are no switches: `byte` lies outside.
pub(crate) const fn switch(id: u32) -> Switch {
    if id < COMPACT_IDS {
        Switch {
            more: false,
            byte: id as usize,
            mask: 0xff,
        }
    } else {
        Switch {
            more: true,
            byte: id as usize / 8,
            mask: 1 << (id % 8),
        }
    }
}

/// A compact record header, or with id [`MEDIUM`] the first word of a medium one.
#[inline(always)]
pub const fn compact_header(time: u64, id: u32) -> u32 {
    ((time << ID_BITS) as u32) | id
}

/// The clock that stamps the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Ticks a second.
    pub frequency_hz: u64,
    /// Seconds from the Unix epoch (or from nowhere in particular) to tick 0.
    pub offset_seconds: i64,
    /// Ticks to add to that.
    pub offset_ticks: u64,
    /// Whether the offsets lead to the Unix epoch.
    pub absolute: bool,
}

impl Clock {
    /// A clock of this many ticks a second, whose tick 0 is at no particular time.
    pub const fn at(frequency_hz: u64) -> Clock {
        Clock {
            frequency_hz,
            offset_seconds: 0,
            offset_ticks: 0,
            absolute: false,
        }
    }
}

/// The region header, as values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// A [`State`], as found.
    pub state: u32,
    /// Bytes of the writer's machine words, 8 or 4: with 4, the 64-bit words of the control blocks
    /// are in halves; see [`join`](super::long::join).
    pub word_size: u8,
    /// Bytes of the region.
    pub total_size: u64,
    /// Extensions that a reader may ignore.
    pub compat: u32,
    /// Extensions that a reader must know.
    pub incompat: u32,
    /// The region's own physical address; 0 where there is none (a user-space program).
    pub self_phys: u64,
    /// The region's address as its writers see it (`Masked` only, else 0).
    pub region_va: u64,
    /// Counts the sessions over this memory.
    pub session_id: u64,
    /// The trace's UUID.
    pub uuid: [u8; 16],
    /// The clock.
    pub clock: Clock,
    /// The clock when the session began.
    pub clock_start: u64,
    /// A [`ReserveKind`].
    pub reserve: u32,
    /// CPUs.
    pub cpus: u32,
    /// Control blocks of each CPU: one for each of the first kinds of [`ChannelKind::ALL`].
    /// [`SAMPLES`] says whether there are samples. With [`COUNTERS`], those behind are no blocks
    /// but words of counters.
    pub kinds: u32,
    /// Offset of the first control block.
    pub control_offset: u64,
    /// Bytes from one control block to the next.
    pub control_size: u32,
    /// Bytes of a slot's header.
    pub slot_header_size: u32,
    /// Offset of the metadata.
    pub metadata_offset: u64,
    /// Bytes of the metadata.
    pub metadata_len: u32,
    /// Entries in the table of record sizes.
    pub shapes_len: u32,
    /// Offset of that table: two words an event, id and
    /// [`Shape::to_word`](crate::event::Shape::to_word).
    pub shapes_offset: u64,
    /// The kernel's build id, zeros where it has none.
    pub build_id: [u8; 20],
    /// CRC-32 of the metadata.
    pub metadata_crc: u32,
}

/// Word index of the state in the header.
pub const STATE_WORD: usize = 5;
/// Word index of the session's number in the header.
pub const SESSION_WORD: usize = 14;
/// Word index of the number of CPUs in the header.
pub(crate) const CPUS_WORD: usize = 30;
const CRC_WORD: usize = 4;
const INCOMPAT_WORD: usize = 9;

/// The low word and the high one.
pub(crate) const fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

impl Header {
    /// The header's words with their checksum.
    pub fn to_words(&self) -> [u32; HEADER_WORDS] {
        let word = |bytes: &[u8], at: usize| {
            let (words, _) = bytes.as_chunks::<4>();
            words.get(at).map_or(0, |&word| u32::from_le_bytes(word))
        };
        let uuid = |at| word(&self.uuid, at);
        let build_id = |at| word(&self.build_id, at);
        // Byte order 1: little.
        let version = u32::from(LAYOUT_VERSION) | 1 << 16 | u32::from(self.word_size) << 24;
        let pairs: [[u32; 2]; HEADER_WORDS / 2] = [
            halves(magic()),
            [version, HEADER_WORDS as u32 * 4],
            [0, self.state],
            halves(self.total_size),
            [self.compat, self.incompat],
            halves(self.self_phys),
            halves(self.region_va),
            halves(self.session_id),
            [uuid(0), uuid(1)],
            [uuid(2), uuid(3)],
            halves(self.clock.frequency_hz),
            halves(self.clock.offset_seconds as u64),
            halves(self.clock.offset_ticks),
            halves(self.clock_start),
            [u32::from(self.clock.absolute), self.reserve],
            [self.cpus, self.kinds],
            halves(self.control_offset),
            [self.control_size, self.slot_header_size],
            halves(self.metadata_offset),
            [self.metadata_len, self.shapes_len],
            halves(self.shapes_offset),
            [build_id(0), build_id(1)],
            [build_id(2), build_id(3)],
            [build_id(4), self.metadata_crc],
        ];
        let mut out = [0; HEADER_WORDS];
        out.copy_from_slice(pairs.as_flattened());
        let crc = checksum(&out);
        if let Some(slot) = out.get_mut(CRC_WORD) {
            *slot = crc;
        }
        out
    }

    /// Whether these are the words of a session's header, whole and of a layout that is understood.
    ///
    /// # Errors
    /// The [`Refusal`] that says why they are not.
    pub(crate) fn check(words: &[u32; HEADER_WORDS]) -> Result<(), Refusal> {
        let &[low, high, version, header_size, crc, state, ..] = words;
        let (word_size, incompat) = ((version >> 24) as u8, words[INCOMPAT_WORD]);
        if [low, high] != halves(magic()) {
            return Err(Refusal::NoMagic);
        }
        if version >> 16 & 0xff != 1 {
            return Err(Refusal::ByteOrder);
        }
        if !(1..=LAYOUT_VERSION).contains(&(version as u16)) {
            return Err(Refusal::Version(version as u16));
        }
        if crc != checksum(words) || header_size != HEADER_WORDS as u32 * 4 {
            return Err(Refusal::Checksum);
        }
        if incompat & !KNOWN != 0 {
            return Err(Refusal::Incompatible(incompat & !KNOWN));
        }
        if state == State::Forming as u32 {
            return Err(Refusal::Forming);
        }
        // (`contains` would link a search for bytes into a kernel: 220 bytes on RV32.)
        if word_size != 4 && word_size != 8 {
            return Err(Refusal::Geometry);
        }
        Ok(())
    }

    /// Reads a header, or says why it cannot be used.
    ///
    /// # Errors
    /// The [`Refusal`] that says why. The sizes in an accepted header are plausible, not yet
    /// checked against the memory.
    pub fn from_words(words: &[u32; HEADER_WORDS]) -> Result<Header, Refusal> {
        Header::check(words)?;
        let mut rest = words.iter().copied();
        let mut word = || rest.next().unwrap_or(0);
        let [_magic, _, version, _size, _crc, state] = core::array::from_fn(|_| word());
        let word_size = (version >> 24) as u8;
        let mut long = || u64::from(word()) | u64::from(word()) << 32;
        let total_size = long();
        let (compat, incompat) = (word(), word());
        let mut long = || u64::from(word()) | u64::from(word()) << 32;
        let (self_phys, region_va, session_id) = (long(), long(), long());
        let mut uuid = [0; 16];
        for chunk in uuid.as_chunks_mut::<4>().0 {
            *chunk = word().to_le_bytes();
        }
        let mut long = || u64::from(word()) | u64::from(word()) << 32;
        let (frequency_hz, offset_seconds, offset_ticks, clock_start) =
            (long(), long() as i64, long(), long());
        let (flags, reserve, cpus, kinds) = (word(), word(), word(), word());
        let mut long = || u64::from(word()) | u64::from(word()) << 32;
        let control_offset = long();
        let (control_size, slot_header_size) = (word(), word());
        let mut long = || u64::from(word()) | u64::from(word()) << 32;
        let metadata_offset = long();
        let (metadata_len, shapes_len) = (word(), word());
        let mut long = || u64::from(word()) | u64::from(word()) << 32;
        let shapes_offset = long();
        let mut build_id = [0; 20];
        for chunk in build_id.as_chunks_mut::<4>().0 {
            *chunk = word().to_le_bytes();
        }
        Ok(Header {
            state,
            word_size,
            total_size,
            compat,
            incompat,
            self_phys,
            region_va,
            session_id,
            uuid,
            clock: Clock {
                frequency_hz,
                offset_seconds,
                offset_ticks,
                absolute: flags & 1 != 0,
            },
            clock_start,
            reserve,
            cpus,
            kinds,
            control_offset,
            control_size,
            slot_header_size,
            metadata_offset,
            metadata_len,
            shapes_len,
            shapes_offset,
            build_id,
            metadata_crc: word(),
        })
    }
}

/// Why a region is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no region here.
    NoMagic,
    /// The region was written by a big-endian machine, which this version does not read.
    ByteOrder,
    /// The region has another version of the layout.
    Version(u16),
    /// The region needs extensions that this version does not know.
    Incompatible(u32),
    /// The checksum does not match: a damaged header, or a stale copy.
    Checksum,
    /// The session had not begun when the memory was taken.
    Forming,
    /// The header's sizes contradict each other or the memory.
    Geometry,
}

impl core::fmt::Display for Refusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Refusal::NoMagic => f.write_str("there is no Kymo region here"),
            Refusal::ByteOrder => f.write_str(
                "the region was written by a big-endian machine, which this version does not read",
            ),
            Refusal::Version(found) => write!(
                f,
                "the region has layout version {found} and this program reads versions 1 \
                 to {LAYOUT_VERSION}: use the kymo that belongs to that kernel"
            ),
            Refusal::Incompatible(bits) => {
                write!(
                    f,
                    "the region uses extensions ({bits:#x}) that this program does not know: use a \
                     newer kymo"
                )
            }
            Refusal::Checksum => {
                f.write_str("the region's header is damaged (its checksum does not match)")
            }
            Refusal::Forming => {
                f.write_str("the memory was taken before the kernel had started its trace")
            }
            Refusal::Geometry => {
                f.write_str("the region's header contradicts itself or lies outside of the memory")
            }
        }
    }
}

impl core::error::Error for Refusal {}

/// CRC-32 of a header's constant part: all but magic, checksum and state.
fn checksum(words: &[u32; HEADER_WORDS]) -> u32 {
    let mut crc = Crc32::new();
    for (index, word) in words.iter().enumerate() {
        if index >= 2 && index != CRC_WORD && index != STATE_WORD {
            crc.update(&word.to_le_bytes());
        }
    }
    crc.finish()
}

/// CRC-32 (ISO-HDLC, polynomial 0xEDB88320 reflected), bit by bit: it runs over a few kilobytes,
/// once a session.
#[derive(Debug)]
pub struct Crc32(u32);

impl Crc32 {
    /// A checksum over nothing yet.
    pub const fn new() -> Self {
        Crc32(u32::MAX)
    }

    /// Adds `bytes` to what the checksum covers.
    pub fn update(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 ^= u32::from(byte);
            for _ in 0..2 {
                self.0 = (self.0 >> 4) ^ Self::BY_NIBBLE[self.0 as usize % 16];
            }
        }
    }

    /// What the four bits that leave the register add to it, by their value.
    const BY_NIBBLE: [u32; 16] = {
        let mut table = [0; 16];
        let mut nibble = 0;
        while nibble < 16 {
            let mut crc = nibble as u32;
            let mut bit = 0;
            while bit < 4 {
                crc = (crc >> 1) ^ (0xedb8_8320 & 0u32.wrapping_sub(crc & 1));
                bit += 1;
            }
            table[nibble] = crc;
            nibble += 1;
        }
        table
    };

    /// The checksum.
    pub const fn finish(self) -> u32 {
        !self.0
    }
}

impl Default for Crc32 {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            state: 1,
            word_size: 4,
            total_size: 1 << 20,
            compat: 4,
            incompat: 0,
            self_phys: 0x8000_1000,
            region_va: 0xffff_ffff_8000_1000,
            session_id: 3,
            uuid: *b"0123456789abcdef",
            clock: Clock {
                frequency_hz: 10_000_000,
                offset_seconds: -5,
                offset_ticks: 17,
                absolute: true,
            },
            clock_start: 99,
            reserve: 2,
            cpus: 4,
            kinds: 2,
            control_offset: 4096,
            control_size: 512,
            slot_header_size: 48,
            metadata_offset: 8192,
            metadata_len: 1000,
            shapes_len: 5,
            shapes_offset: 10_000,
            build_id: *b"abcdefghijklmnopqrst",
            metadata_crc: 0xdead_beef,
        }
    }

    #[test]
    fn crc_check_value() {
        let mut crc = Crc32::new();
        crc.update(b"123456789");
        assert_eq!(crc.finish(), 0xcbf4_3926);
    }

    #[test]
    fn a_header_reads_back_and_every_damage_is_refused() {
        let words = header().to_words();
        assert_eq!(Header::from_words(&words), Ok(header()));
        for index in 0..HEADER_WORDS {
            let mut damaged = words;
            damaged[index] ^= 1 << 7;
            if index != STATE_WORD {
                assert!(
                    Header::from_words(&damaged).is_err(),
                    "damage in word {index} was not seen"
                );
            }
        }
        assert_eq!(u64::from(words[SESSION_WORD]), header().session_id);
        let Header {
            cpus,
            kinds,
            reserve,
            ..
        } = header();
        assert_eq!(words[CPUS_WORD], cpus);
        assert!(cpus != kinds && cpus != reserve);
        // Version 1 is that of kernels which know no samples.
        let mut older = words;
        older[2] -= 1;
        older[CRC_WORD] = checksum(&older);
        assert_eq!(Header::from_words(&older), Ok(header()));
        let mut newer = words;
        newer[2] += 1;
        assert_eq!(
            Header::from_words(&newer),
            Err(Refusal::Version(LAYOUT_VERSION + 1))
        );
        let mut forming = words;
        forming[STATE_WORD] = 0;
        assert_eq!(Header::from_words(&forming), Err(Refusal::Forming));
        let unknown = Header {
            incompat: 8 | SEQUENCES,
            ..header()
        };
        assert_eq!(
            Header::from_words(&unknown.to_words()),
            Err(Refusal::Incompatible(8))
        );
        let known = Header {
            incompat: SEQUENCES,
            ..header()
        };
        assert_eq!(Header::from_words(&known.to_words()), Ok(known));
    }
}
