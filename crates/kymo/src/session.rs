//! Sessions: a region is laid out, recording starts, recording stops.

use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use crate::ctf::tsdl;
use crate::event::Vocabulary;
use crate::platform::Platform;
use crate::ring::layout::{
    CONTROL_OFFSET, CONTROL_SIZE, ChannelKind, Clock, Consumer, Control, Crc32, HEADER_WORDS, Header, MIN_PACKETS, Mode,
    PACKET_SIZES, REGION_ALIGN, ReserveKind, SLOT_HEADER_WORDS, STATE_WORD, State, switch_index,
};
use crate::ring::reader::Region;
use crate::ring::source::Live;
use crate::ring::{Reserve, local_cas, masked};
use crate::tracer::Tracer;

/// Static memory for a region of `SIZE` bytes: `static REGION: RegionMemory<{ 8 << 20 }> = RegionMemory::new();`
///
/// All zero, so it takes no room in the kernel's image.
#[repr(C, align(4096))]
pub struct RegionMemory<const SIZE: usize>(UnsafeCell<[u8; SIZE]>);

// SAFETY: only reached through `Memory`, whose users touch it atomically, or before `start` publishes it.
unsafe impl<const SIZE: usize> Sync for RegionMemory<SIZE> {}

impl<const SIZE: usize> RegionMemory<SIZE> {
    /// Zeros.
    pub const fn new() -> Self {
        RegionMemory(UnsafeCell::new([0; SIZE]))
    }

    /// The memory, as `start` takes it.
    pub fn memory(&'static self) -> Memory {
        // SAFETY: static, aligned, and nobody else has a reference into the cell.
        unsafe { Memory::new(self.0.get().cast(), SIZE) }
    }

    /// The control blocks of one CPU: what its pointer or register must hold. Valid before `start`: all switches are off there.
    pub fn control(&'static self, cpu: u32) -> *const Control {
        self.memory().control(cpu)
    }
}

impl<const SIZE: usize> Default for RegionMemory<SIZE> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const SIZE: usize> fmt::Debug for RegionMemory<SIZE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegionMemory").field("size", &SIZE).finish_non_exhaustive()
    }
}

/// Memory that a region may be laid out in.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    base: *mut u8,
    len: usize,
}

// SAFETY: a pointer to memory that lives for ever; see `new`.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// `len` bytes at `base`.
    ///
    /// # Safety
    /// They stay mapped and writable for ever (a writer that has tested its switch may still come, whenever), belong to Kymo alone,
    /// and are aligned to [`REGION_ALIGN`].
    pub const unsafe fn new(base: *mut u8, len: usize) -> Memory {
        Memory { base, len }
    }

    /// The control blocks of one CPU; null where the memory ends before them.
    pub fn control(&self, cpu: u32) -> *const Control {
        let end = (cpu as usize + 1).saturating_mul(ChannelKind::ALL.len() * CONTROL_SIZE).saturating_add(CONTROL_OFFSET);
        if end > self.len {
            return core::ptr::null();
        }
        self.block(cpu, ChannelKind::Events)
    }

    fn block(&self, cpu: u32, kind: ChannelKind) -> *const Control {
        let index = cpu as usize * ChannelKind::ALL.len() + kind as usize;
        self.base.wrapping_add(CONTROL_OFFSET + index * CONTROL_SIZE).cast_const().cast()
    }

    /// The memory as a reader sees it.
    pub fn live(&self) -> Live {
        // SAFETY: `new` was promised memory that stays; it is written atomically once a session runs.
        unsafe { Live::new(self.base, self.len as u64) }
    }

    fn word(&self, index: usize) -> &AtomicU32 {
        debug_assert!(4 * index < self.len);
        // SAFETY: callers stay inside of the layout, which `plan` has checked against `len`.
        unsafe { &*self.base.cast::<AtomicU32>().add(index) }
    }
}

/// How a session is to be.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// CPUs that record.
    pub cpus: u32,
    /// Bytes of a packet: a power of two, 256 to 131,072.
    pub packet_size: u32,
    /// Packets in the ring of each CPU's events; at least 4, a power of two for `LocalCas`.
    pub packets: u32,
    /// Packets in the ring of each CPU's names; as above.
    pub names_packets: u32,
    /// What a full ring does.
    pub mode: Mode,
    /// Who frees packets in `Discard`.
    pub consumer: Consumer,
    /// The clock.
    pub clock: Clock,
    /// Physical address of the memory: tells a reader of a memory image the region from a copy of it. 0 in a user-space program.
    pub phys: u64,
    /// The kernel's build id, zeros where it has none.
    pub build_id: [u8; 20],
    /// Goes into the trace's UUID: a hash of the command line, or anything else that tells two runs apart.
    pub seed: u64,
    /// Whether this is a user-space program.
    pub hosted: bool,
}

/// Why a session did not start, or did not stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A session runs over this memory.
    Running,
    /// No session runs over this memory.
    NotRunning,
    /// A number in the configuration is out of its range; the name says which.
    Config(&'static str),
    /// The memory is too small: so many bytes are needed.
    Memory(usize),
    /// The clock's frequency is not known.
    Clock,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Running => f.write_str("a session is running already: stop it first"),
            Error::NotRunning => f.write_str("no session is running"),
            Error::Config(what) => write!(f, "{what} is out of its range"),
            Error::Memory(needed) => write!(f, "the region's memory is too small: {needed} bytes are needed"),
            Error::Clock => f.write_str("the clock's frequency is not known yet"),
        }
    }
}

impl core::error::Error for Error {}

/// Where things stand in the region.
struct Plan {
    shapes: usize,
    metadata: usize,
    metadata_len: usize,
    rings: usize,
    total: usize,
}

/// Counts what is written, and keeps nothing.
struct Length(usize);

impl fmt::Write for Length {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

/// Writes text into the region, and a checksum of it.
struct Text<'a> {
    memory: &'a Memory,
    at: usize,
    crc: Crc32,
}

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for &byte in text.as_bytes() {
            if self.at >= self.memory.len {
                return Err(fmt::Error);
            }
            // SAFETY: inside of the memory; nobody reads the metadata before `state` says "running".
            unsafe { self.memory.base.add(self.at).write(byte) };
            self.at += 1;
        }
        self.crc.update(text.as_bytes());
        Ok(())
    }
}

impl Config {
    fn packets_of(&self, kind: ChannelKind) -> u32 {
        match kind {
            ChannelKind::Events => self.packets,
            ChannelKind::Names => self.names_packets,
        }
    }

    fn check(&self, vocabulary: &Vocabulary, reserve: ReserveKind) -> Result<(), Error> {
        if self.clock.frequency_hz == 0 {
            return Err(Error::Clock);
        }
        if !(1..=4096).contains(&self.cpus) {
            return Err(Error::Config("the number of CPUs (1 to 4,096)"));
        }
        if !PACKET_SIZES.contains(&self.packet_size) || !self.packet_size.is_power_of_two() {
            return Err(Error::Config("the packet size (a power of two from 256 to 131,072)"));
        }
        let room = self.packet_size as usize / 4 - SLOT_HEADER_WORDS - 1;
        if vocabulary.max_record_words() + 4 > room {
            return Err(Error::Config("the packet size: the vocabulary's longest record does not fit in"));
        }
        for kind in ChannelKind::ALL {
            let packets = self.packets_of(kind);
            if !(MIN_PACKETS..=1 << 24).contains(&packets) {
                return Err(Error::Config("the number of packets (4 to 16,777,216)"));
            }
            if reserve == ReserveKind::LocalCas && !packets.is_power_of_two() {
                return Err(Error::Config("the number of packets (a power of two on this processor)"));
            }
        }
        Ok(())
    }

    fn plan(&self, memory: &Memory, session: &tsdl::Session, vocabulary: &Vocabulary) -> Result<Plan, Error> {
        let mut length = Length(0);
        // Counting cannot fail.
        let _ = tsdl::write(&mut length, session, vocabulary);
        let shapes = CONTROL_OFFSET + self.cpus as usize * ChannelKind::ALL.len() * CONTROL_SIZE;
        let metadata = shapes + 8 * vocabulary.events().len();
        let packet_size = self.packet_size as usize;
        // Rings are aligned to the packet size as an address, so that a record's slot is found by masking.
        let base = memory.base as usize;
        let rings = (base + metadata + length.0).next_multiple_of(packet_size.max(64)) - base;
        let packets: usize = ChannelKind::ALL.iter().map(|&kind| self.packets_of(kind) as usize).sum();
        let size = packets.checked_mul(packet_size).and_then(|size| size.checked_mul(self.cpus as usize));
        let total = size.and_then(|size| size.checked_add(rings)).ok_or(Error::Config("the size of the rings"))?;
        if total > memory.len {
            return Err(Error::Memory(total));
        }
        Ok(Plan { shapes, metadata, metadata_len: length.0, rings, total })
    }
}

static SESSIONS: AtomicU64 = AtomicU64::new(0);

impl<P: Platform> Tracer<P> {
    /// Lays out the region and begins to record: every event of the vocabulary is switched on.
    ///
    /// The memory of an earlier session is used again; its packet numbers go on, so that nothing old is taken for new.
    ///
    /// # Errors
    /// See [`Error`]; nothing is recorded then.
    pub fn start(memory: Memory, config: &Config, vocabulary: &'static Vocabulary) -> Result<Session<P>, Error> {
        let reserve = <P::Reserve as Reserve>::KIND;
        config.check(vocabulary, reserve)?;
        if memory.len < CONTROL_OFFSET || !(memory.base as usize).is_multiple_of(REGION_ALIGN) {
            return Err(Error::Memory(CONTROL_OFFSET));
        }
        // A good header is a session of this boot, or of the one before a warm reset.
        let earlier = Region::open(&memory.live()).ok();
        if earlier.as_ref().is_some_and(|region| region.header().state == State::Running as u32 && SESSIONS.load(Relaxed) > 0) {
            return Err(Error::Running);
        }
        let session_id = SESSIONS.load(Relaxed).max(earlier.map_or(0, |region| region.header().session_id)) + 1;
        let clock_start = P::clock();
        let uuid = uuid(config, clock_start, session_id);
        let about = tsdl::Session { uuid, clock: config.clock, hosted: config.hosted };
        let plan = config.plan(&memory, &about, vocabulary)?;
        memory.word(STATE_WORD).store(State::Forming as u32, Release);
        SESSIONS.store(session_id, Relaxed);

        for (index, event) in vocabulary.events().iter().enumerate() {
            let shape = event.shape();
            memory.word(plan.shapes / 4 + 2 * index).store(event.id, Relaxed);
            let sizes = u32::from(shape.fixed_bytes) | u32::from(shape.texts) << 16;
            memory.word(plan.shapes / 4 + 2 * index + 1).store(sizes, Relaxed);
        }
        let mut text = Text { memory: &memory, at: plan.metadata, crc: Crc32::new() };
        tsdl::write(&mut text, &about, vocabulary).map_err(|fmt::Error| Error::Memory(plan.total))?;
        let metadata_crc = text.crc.finish();

        let mut ring = plan.rings;
        for cpu in 0..config.cpus {
            for kind in ChannelKind::ALL {
                // SAFETY: `plan` placed this block inside of the memory, which stays mapped.
                let control = unsafe { &*memory.block(cpu, kind) };
                set_up(&memory, control, config, cpu, kind, ring, reserve, clock_start);
                ring += config.packets_of(kind) as usize * config.packet_size as usize;
            }
        }

        let header = Header {
            state: State::Forming as u32,
            total_size: plan.total as u64,
            compat: 0,
            incompat: 0,
            self_phys: config.phys,
            region_va: if reserve == ReserveKind::Masked { memory.base.expose_provenance() as u64 } else { 0 },
            session_id,
            uuid,
            clock: config.clock,
            clock_start,
            reserve: reserve as u32,
            cpus: config.cpus,
            kinds: ChannelKind::ALL.len() as u32,
            control_offset: CONTROL_OFFSET as u64,
            control_size: CONTROL_SIZE as u32,
            slot_header_size: 4 * SLOT_HEADER_WORDS as u32,
            metadata_offset: plan.metadata as u64,
            metadata_len: plan.metadata_len as u32,
            shapes_len: vocabulary.events().len() as u32,
            shapes_offset: plan.shapes as u64,
            build_id: config.build_id,
            metadata_crc,
        };
        let words: [u32; HEADER_WORDS] = header.to_words();
        for (index, word) in words.into_iter().enumerate() {
            memory.word(index).store(word, Relaxed);
        }
        // Partner: the reader's acquire of `state`. Everything above is visible before it.
        memory.word(STATE_WORD).store(State::Running as u32, Release);
        let session = Session { memory, cpus: config.cpus, platform: PhantomData };
        session.switch_all(vocabulary, true);
        Ok(session)
    }
}

/// One channel: constants, counters at zero, the writer at the beginning of its first packet. Its switches are off.
#[allow(clippy::too_many_arguments)] // Called from one place, with the parts of the plan.
fn set_up(
    memory: &Memory,
    control: &Control,
    config: &Config,
    cpu: u32,
    kind: ChannelKind,
    ring: usize,
    reserve: ReserveKind,
    clock_start: u64,
) {
    let packets = config.packets_of(kind);
    let same_ring = control.packet_size.load(Relaxed) == config.packet_size
        && control.packets.load(Relaxed) == packets
        && control.ring_offset.load(Acquire) == ring as u64;
    // `prep` is ahead of every packet that was ever written.
    let first_packet = if same_ring { control.prep.load(Relaxed).saturating_add(1) } else { 0 };
    for switch in &control.on {
        switch.store(0, Relaxed);
    }
    control.packet_size.store(config.packet_size, Relaxed);
    control.packets.store(packets, Relaxed);
    control.mode.store(config.mode as u32, Relaxed);
    control.cpu.store(cpu, Relaxed);
    control.kind.store(kind as u32, Relaxed);
    control.consumer.store(config.consumer as u32, Relaxed);
    control.ring_offset.store(ring as u64, Relaxed);
    control.first_packet.store(first_packet, Relaxed);
    control.consumed.store(first_packet, Relaxed);
    for counter in [&control.retired_events, &control.discarded] {
        counter.store(0, Relaxed);
    }
    for counter in [&control.abandoned, &control.clock_back, &control.too_large] {
        counter.store(0, Relaxed);
    }
    for word in 0..packets as usize * config.packet_size as usize / 4 {
        memory.word(ring / 4 + word).store(0, Relaxed);
    }
    let address = (memory.base.expose_provenance() + ring) as u64;
    match reserve {
        ReserveKind::Masked => {
            control.base.store(address, Relaxed);
            masked::begin(control, address, first_packet, clock_start);
        }
        ReserveKind::LocalCas => local_cas::begin(control, address, first_packet, clock_start),
    }
}

/// A session over one region. Dropping it changes nothing: recording goes on until [`stop`](Session::stop).
#[derive(Debug)]
pub struct Session<P> {
    memory: Memory,
    cpus: u32,
    platform: PhantomData<P>,
}

impl<P: Platform> Session<P> {
    /// The region, for a reader.
    pub fn live(&self) -> Live {
        self.memory.live()
    }

    /// Stops recording. Returns when no writer is inside of a record; the rings keep what they hold.
    ///
    /// # Errors
    /// [`Error::NotRunning`] where it was stopped already.
    pub fn stop(&self) -> Result<(), Error> {
        if self.memory.word(STATE_WORD).load(Acquire) != State::Running as u32 {
            return Err(Error::NotRunning);
        }
        for control in self.controls() {
            for switch in &control.on {
                switch.store(0, Relaxed);
            }
        }
        P::synchronize();
        self.memory.word(STATE_WORD).store(State::Stopped as u32, Release);
        Ok(())
    }

    fn controls(&self) -> impl Iterator<Item = &Control> {
        let memory = &self.memory;
        (0..self.cpus).flat_map(move |cpu| {
            // SAFETY: `start` placed these blocks inside of the memory, which stays mapped.
            ChannelKind::ALL.into_iter().map(move |kind| unsafe { &*memory.block(cpu, kind) })
        })
    }

    fn switch_all(&self, vocabulary: &Vocabulary, on: bool) {
        for control in self.controls() {
            for event in vocabulary.events() {
                if event.channel as u32 == control.kind.load(Relaxed)
                    && let Some(switch) = control.on.get(switch_index(event.id))
                {
                    switch.store(u8::from(on), Relaxed);
                }
            }
        }
    }
}

/// A UUID of version 8 (custom) from what tells sessions apart; the same run gives the same one. FNV-1a, 128 bits.
fn uuid(config: &Config, clock_start: u64, session_id: u64) -> [u8; 16] {
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    let numbers = [clock_start, session_id, config.seed, u64::from(config.cpus), u64::from(config.packet_size)];
    for byte in numbers.into_iter().flat_map(u64::to_le_bytes).chain(config.build_id) {
        hash = (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
    let mut uuid = hash.to_be_bytes();
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}
