//! Sessions: a region is laid out, recording starts, recording stops.

use crate::sync::{
    AtomicU8, AtomicU32, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
    fence,
};
use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;

use crate::ctf::tsdl;
use crate::event::{Event, EventSchema, Vocabulary};
use crate::platform::{BitSwitches, ByteSwitches, Platform};
use crate::ring::layout::{
    CONTROL_OFFSET, CONTROL_SIZE, ChannelKind, Clock, Consumer, Control, Crc32, HEADER_WORDS,
    Header, MIN_PACKETS, Overflow, PACKET_SIZES, REGION_ALIGN, ReserveKind, SEQUENCES,
    SESSION_WORD, SLOT_HEADER_WORDS, STATE_WORD, State, switch,
};
#[cfg(target_pointer_width = "64")]
use crate::ring::local_cas;
use crate::ring::name_epoch;
use crate::ring::reader::{Region, View};
use crate::ring::source::Live;
use crate::ring::{Reserve, masked};
use crate::tracer::Tracer;
use crate::vocabulary::SessionEnd;

/// Static memory for a region of `SIZE` bytes and at most `CPUS` CPUs:
/// `static REGION: RegionMemory<{ 8 << 20 }, 4> = RegionMemory::new();`
///
/// All zero, so it takes no room in the kernel's image.
#[repr(C, align(4096))]
pub struct RegionMemory<const SIZE: usize, const CPUS: u32>(UnsafeCell<[u8; SIZE]>);

// SAFETY: only reached through `Memory`, whose users touch it atomically, or before `start`
// publishes it.
unsafe impl<const SIZE: usize, const CPUS: u32> Sync for RegionMemory<SIZE, CPUS> {}

impl<const SIZE: usize, const CPUS: u32> RegionMemory<SIZE, CPUS> {
    /// Zeros.
    pub const fn new() -> Self {
        RegionMemory(UnsafeCell::new([0; SIZE]))
    }

    /// The memory, as `start` takes it.
    pub const fn memory(&'static self) -> Memory {
        // SAFETY: static, aligned, and nobody else has a reference into the cell.
        unsafe { Memory::new(self.0.get().cast(), SIZE, CPUS) }
    }

    /// The control blocks of one CPU: what its pointer or register must hold. Valid before `start`,
    /// and for CPUs that a session does not record: all switches are off there. Null for a CPU
    /// beyond `CPUS`, or where the memory ends before it.
    pub fn control(&'static self, cpu: u32) -> *const Control {
        self.memory().control(cpu)
    }
}

impl<const SIZE: usize, const CPUS: u32> Default for RegionMemory<SIZE, CPUS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const SIZE: usize, const CPUS: u32> fmt::Debug for RegionMemory<SIZE, CPUS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegionMemory")
            .field("size", &SIZE)
            .field("cpus", &CPUS)
            .finish_non_exhaustive()
    }
}

/// Memory that a region may be laid out in.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    base: *mut u8,
    len: usize,
    cpus: u32,
}

// SAFETY: a pointer to memory that lives for ever; see `new`.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// `len` zeroed bytes at `base` (or what an earlier session left there), for at most `cpus`
    /// CPUs.
    ///
    /// # Safety
    /// They stay mapped and writable for ever (a writer that has tested its switch may still come,
    /// whenever), belong to Kymo alone, and are aligned to [`REGION_ALIGN`].
    pub const unsafe fn new(base: *mut u8, len: usize, cpus: u32) -> Memory {
        Memory { base, len, cpus }
    }

    /// The control blocks of one CPU; null where there are none for it.
    pub fn control(&self, cpu: u32) -> *const Control {
        if cpu >= self.cpus || self.blocks_end() > self.len {
            return core::ptr::null();
        }
        self.block(cpu, ChannelKind::Events)
    }

    /// Where the control blocks of all CPUs end that code may ever ask for, recorded or not: what
    /// comes behind is never taken for one.
    fn blocks_end(&self) -> usize {
        (self.cpus as usize)
            .saturating_mul(ChannelKind::ALL.len() * CONTROL_SIZE)
            .saturating_add(CONTROL_OFFSET)
    }

    fn block(&self, cpu: u32, kind: ChannelKind) -> *const Control {
        let index = cpu as usize * ChannelKind::ALL.len() + kind as usize;
        self.base
            .wrapping_add(CONTROL_OFFSET + index * CONTROL_SIZE)
            .cast_const()
            .cast()
    }

    /// The control blocks of so many CPUs, which `start` has seen to lie inside of the memory.
    fn blocks(&self, cpus: u32) -> impl Iterator<Item = &Control> {
        debug_assert!(cpus <= self.cpus);
        (0..cpus).flat_map(move |cpu| {
            // SAFETY: inside of the memory, which stays mapped; only ever touched atomically.
            ChannelKind::ALL
                .into_iter()
                .map(move |kind| unsafe { &*self.block(cpu, kind) })
        })
    }

    /// The memory as a reader sees it.
    pub fn live(&self) -> Live {
        // SAFETY: `new` was promised memory that stays; it is written atomically once a session
        // runs.
        unsafe { Live::new(self.base, self.len as u64) }
    }

    fn zero(&self, bytes: core::ops::Range<usize>) {
        for word in bytes.start / 4..bytes.end / 4 {
            self.word(word).store(0, Relaxed);
        }
    }

    fn word(&self, index: usize) -> &AtomicU32 {
        debug_assert!(4 * index < self.len);
        // SAFETY: callers stay inside of the layout, which `plan` has checked against `len`.
        unsafe { &*self.base.cast::<AtomicU32>().add(index) }
    }
}

/// How a session is to be. A port sets the number of CPUs, the clock and the memory's physical
/// address, and takes [`DEFAULT`](Config::DEFAULT) for the rest:
/// ```
/// use kymo::{Clock, Config};
/// let config = Config { cpus: 4, clock: Clock::at(10_000_000), phys: 0x8020_0000, ..Config::DEFAULT };
/// # assert_eq!(config.clock.frequency_hz, 10_000_000);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// CPUs that record. Default: 1.
    pub cpus: u32,
    /// Bytes of a packet: a power of two, 256 to 131,072. Default: 4,096.
    pub packet_size: u32,
    /// Packets in the ring of each CPU's events; at least 4, a power of two for `LocalCas`.
    /// Default: 64.
    pub packets: u32,
    /// Packets in the ring of each CPU's names; the rules are those of `packets`. Default: 8.
    pub names_packets: u32,
    /// What a full ring does. Default: the oldest packet is reused.
    pub overflow: Overflow,
    /// Who frees packets in `Discard`. Default: nobody.
    pub consumer: Consumer,
    /// The clock. Has no default: a session does not start with a frequency of 0.
    pub clock: Clock,
    /// Physical address of the memory: tells a reader of a memory image the region from a copy of
    /// it. Default: 0, for a user-space program.
    pub phys: u64,
    /// The kernel's build id. Default: zeros, for a kernel that has none.
    pub build_id: [u8; 20],
    /// Goes into the trace's UUID: a hash of the command line, or anything else that tells two runs
    /// apart. Default: 0.
    pub seed: u64,
    /// Whether this is a user-space program. Default: no.
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
    /// The memory does not begin on a multiple of [`REGION_ALIGN`].
    Alignment,
    /// The clock's frequency is not known.
    Clock,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Running => f.write_str("a session is running already: stop it first"),
            Error::NotRunning => f.write_str("no session is running"),
            Error::Config(what) => write!(f, "{what} is out of its range"),
            Error::Memory(needed) => write!(
                f,
                "the region's memory is too small: {needed} bytes are needed"
            ),
            Error::Alignment => write!(
                f,
                "the region's memory does not begin on a multiple of {REGION_ALIGN} bytes"
            ),
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
            // SAFETY: inside of the memory. Atomic, because a reader of an earlier session may
            // still look.
            unsafe { (*self.memory.base.add(self.at).cast::<AtomicU8>()).store(byte, Relaxed) };
            self.at += 1;
        }
        self.crc.update(text.as_bytes());
        Ok(())
    }
}

impl Config {
    /// One CPU with 256 KiB of events and 32 KiB of names, of which the newest are kept, and no
    /// clock.
    pub const DEFAULT: Config = Config {
        cpus: 1,
        packet_size: 4096,
        packets: 64,
        names_packets: 8,
        overflow: Overflow::Overwrite,
        consumer: Consumer::None,
        clock: Clock::at(0),
        phys: 0,
        build_id: [0; 20],
        seed: 0,
        hosted: false,
    };

    fn packets_of(&self, kind: ChannelKind) -> u32 {
        match kind {
            ChannelKind::Events => self.packets,
            ChannelKind::Names => self.names_packets,
        }
    }

    /// Whether a session of `vocabulary` can be started over memory for `cpus` CPUs: what
    /// [`Tracer::start`](crate::Tracer::start) checks first.
    ///
    /// # Errors
    /// [`Error::Config`] or [`Error::Clock`].
    pub fn check(
        &self,
        cpus: u32,
        vocabulary: &Vocabulary,
        reserve: ReserveKind,
    ) -> Result<(), Error> {
        if self.clock.frequency_hz == 0 {
            return Err(Error::Clock);
        }
        if !(1..=cpus.min(4096)).contains(&self.cpus) {
            return Err(Error::Config(
                "the number of CPUs (1 to that of the region's memory, at most 4,096)",
            ));
        }
        if !PACKET_SIZES.contains(&self.packet_size) || !self.packet_size.is_power_of_two() {
            return Err(Error::Config(
                "the packet size (a power of two from 256 to 131,072)",
            ));
        }
        let room = self.packet_size as usize / 4 - SLOT_HEADER_WORDS - 1;
        if vocabulary.max_record_words() + 4 > room {
            return Err(Error::Config(
                "the packet size: the vocabulary's longest record does not fit in",
            ));
        }
        for kind in ChannelKind::ALL {
            let packets = self.packets_of(kind);
            if !(MIN_PACKETS..=1 << 24).contains(&packets) {
                return Err(Error::Config("the number of packets (4 to 16,777,216)"));
            }
            if reserve != ReserveKind::Masked && !packets.is_power_of_two() {
                return Err(Error::Config(
                    "the number of packets (a power of two on this processor)",
                ));
            }
        }
        Ok(())
    }

    fn plan(
        &self,
        memory: &Memory,
        session: &tsdl::Session,
        vocabulary: &Vocabulary,
    ) -> Result<Plan, Error> {
        let mut length = Length(0);
        // Counting cannot fail.
        let _ = tsdl::write(&mut length, session, vocabulary);
        let shapes = memory.blocks_end();
        let metadata = shapes + 8 * vocabulary.events().len();
        let packet_size = self.packet_size as usize;
        // Rings are aligned to the packet size as an address, so that a record's slot is found by
        // masking.
        let base = memory.base as usize;
        let rings = (base + metadata + length.0).next_multiple_of(packet_size.max(64)) - base;
        let packets: usize = ChannelKind::ALL
            .iter()
            .map(|&kind| self.packets_of(kind) as usize)
            .sum();
        let size = packets
            .checked_mul(packet_size)
            .and_then(|size| size.checked_mul(self.cpus as usize));
        let total = size
            .and_then(|size| size.checked_add(rings))
            .ok_or(Error::Config("the size of the rings"))?;
        if total > memory.len {
            return Err(Error::Memory(total));
        }
        Ok(Plan {
            shapes,
            metadata,
            metadata_len: length.0,
            rings,
            total,
        })
    }
}

/// Sessions of this boot.
static SESSIONS: AtomicUsize = AtomicUsize::new(0);
/// Address of the memory that a `start` is at work on, 0 for none.
static STARTING: AtomicUsize = AtomicUsize::new(0);

struct Starting;

impl Starting {
    /// One `start` at a time: a second one over the same memory is refused, one over another memory
    /// waits.
    fn claim(memory: &Memory) -> Result<Starting, Error> {
        let mine = memory.base as usize;
        loop {
            match STARTING.compare_exchange_weak(0, mine, Acquire, Relaxed) {
                Ok(_) => return Ok(Starting),
                Err(other) if other == mine => return Err(Error::Running),
                Err(_) => core::hint::spin_loop(),
            }
        }
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        STARTING.store(0, Release);
    }
}

impl<P: Platform> Tracer<P> {
    /// Lays out the region and begins to record: every event of the vocabulary is switched on.
    ///
    /// # Errors
    /// Those of [`start_with`](Self::start_with).
    pub fn start(
        memory: Memory,
        config: &Config,
        vocabulary: &'static Vocabulary,
    ) -> Result<Session<P>, Error> {
        Self::start_with(memory, config, vocabulary, |_| true)
    }

    /// The same with only those events on that `is_on` asks for, and all names.
    ///
    /// The memory of an earlier session is used again; its packet numbers go on, so that nothing
    /// old is taken for new.
    ///
    /// # Errors
    /// See [`Error`]; nothing is recorded then.
    pub fn start_with(
        memory: Memory,
        config: &Config,
        vocabulary: &'static Vocabulary,
        is_on: impl Fn(&EventSchema) -> bool,
    ) -> Result<Session<P>, Error> {
        let reserve = <P::Reserve as Reserve>::KIND;
        config.check(memory.cpus, vocabulary, reserve)?;
        if !(memory.base as usize).is_multiple_of(REGION_ALIGN) {
            return Err(Error::Alignment);
        }
        if memory.len < memory.blocks_end() {
            return Err(Error::Memory(memory.blocks_end()));
        }
        let _starting = Starting::claim(&memory)?;
        // A good header is a session of this boot, or of the one before a warm reset.
        let earlier = Region::open(&memory.live()).ok();
        if earlier.as_ref().is_some_and(|region| {
            region.header().state == State::Running as u32 && SESSIONS.load(Relaxed) > 0
        }) {
            return Err(Error::Running);
        }
        // A header that a warm reset left may say anything.
        let earlier_id = earlier
            .as_ref()
            .map_or(0, |region| region.header().session_id)
            .min(u64::MAX / 2);
        let session_id = (SESSIONS.load(Relaxed) as u64).max(earlier_id) + 1;
        let mut about = tsdl::Session {
            uuid: [0; 16],
            clock: config.clock,
            hosted: config.hosted,
        };
        // Takes as much room with any other UUID.
        let plan = config.plan(&memory, &about, vocabulary)?;
        // From here on an earlier session's readers find that it is over.
        memory
            .word(STATE_WORD)
            .store(State::Forming as u32, Release);
        memory.word(SESSION_WORD).store(session_id as u32, Release);
        memory
            .word(SESSION_WORD + 1)
            .store((session_id >> 32) as u32, Release);
        SESSIONS.store(session_id as usize, Relaxed);
        // Partner: the reader's acquire fence between its copy and its look at the session's
        // number.
        fence(Release);
        close_blocks::<P>(&memory);
        let first_packet = earlier.map_or(0, |region| first_packet(&memory, region.header()));
        // Zeroing takes a while: time begins after it.
        memory.zero(plan.rings..plan.total);
        let clock_start = P::clock();
        about.uuid = uuid(config, clock_start, session_id);

        for (index, event) in vocabulary.events().iter().enumerate() {
            let shape = event.shape();
            memory
                .word(plan.shapes / 4 + 2 * index)
                .store(event.id, Relaxed);
            memory
                .word(plan.shapes / 4 + 2 * index + 1)
                .store(shape.to_word(), Relaxed);
        }
        let mut text = Text {
            memory: &memory,
            at: plan.metadata,
            crc: Crc32::new(),
        };
        tsdl::write(&mut text, &about, vocabulary)
            .map_err(|fmt::Error| Error::Memory(plan.total))?;
        let metadata_crc = text.crc.finish();

        let mut ring = plan.rings;
        for cpu in 0..config.cpus {
            for kind in ChannelKind::ALL {
                // SAFETY: `plan` placed this block inside of the memory, which stays mapped.
                let control = unsafe { &*memory.block(cpu, kind) };
                set_up(
                    &memory,
                    control,
                    config,
                    cpu,
                    kind,
                    ring,
                    reserve,
                    first_packet,
                    clock_start,
                );
                ring += config.packets_of(kind) as usize * config.packet_size as usize;
            }
        }
        // A writer that comes from here on sees all of its block, if it sees that it is open.
        P::synchronize();
        for control in memory.blocks(config.cpus) {
            let end = control.cursor.load(Relaxed) - 4 * SLOT_HEADER_WORDS as u64
                + u64::from(config.packet_size);
            control.limit.store(end - 4, Relaxed);
            control.packet_size.store(config.packet_size, Relaxed);
        }

        let header = Header {
            state: State::Forming as u32,
            word_size: size_of::<usize>() as u8,
            total_size: plan.total as u64,
            compat: 0,
            incompat: if vocabulary
                .events()
                .iter()
                .any(|event| event.shape().is_wide())
            {
                SEQUENCES
            } else {
                0
            },
            self_phys: config.phys,
            region_va: if reserve == ReserveKind::Masked {
                memory.base.expose_provenance() as u64
            } else {
                0
            },
            session_id,
            uuid: about.uuid,
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
        // The magic comes last, so that nobody who looks meanwhile finds half a header.
        let words: [u32; HEADER_WORDS] = header.to_words();
        memory.word(0).store(0, Release);
        for (index, word) in words.into_iter().enumerate().rev() {
            memory.word(index).store(word, Release);
        }
        // Partner: the reader's acquire of `state`. Everything above is visible before it.
        memory
            .word(STATE_WORD)
            .store(State::Running as u32, Release);
        // A CPU that sees its switch on must see its block as it is now, and nothing in a
        // tracepoint orders the two.
        P::synchronize();
        let session = Session {
            memory,
            cpus: config.cpus,
            id: session_id,
            platform: PhantomData,
        };
        // Before the switches: whoever sees one on finds that its things have no names yet.
        name_epoch::advance();
        let on = vocabulary
            .events()
            .iter()
            .filter(|event| event.channel == ChannelKind::Names || is_on(event));
        on.for_each(|event| session.set(event, true));
        P::dump_state();
        Ok(session)
    }
}

/// Lets no writer into any block, and returns when none is inside. One that tested its switch under
/// an earlier session may come at any time; it finds no room, and then no session.
fn close_blocks<P: Platform>(memory: &Memory) {
    for control in memory.blocks(memory.cpus) {
        control.packet_size.store(0, Relaxed);
    }
    // One that is past that test may yet raise its limit.
    P::synchronize();
    for control in memory.blocks(memory.cpus) {
        control.limit.store(0, Relaxed);
    }
    P::synchronize();
}

/// The number of every channel's first packet: above all that an earlier session over this memory
/// has used.
fn first_packet(memory: &Memory, earlier: &Header) -> u64 {
    let prep = memory
        .blocks(earlier.cpus.min(memory.cpus))
        .map(|control| control.prep.load(Relaxed))
        .max()
        .unwrap_or(0);
    // What a damaged block says must not make positions overflow.
    if prep < 1 << 40 { prep + 1 } else { 0 }
}

/// One channel: constants, counters at zero, the writer at the beginning of its first packet. Its
/// switches are off, its ring is zero; it is closed until it has a limit and a packet size.
#[allow(clippy::too_many_arguments)] // Called from one place, with the parts of the plan.
fn set_up(
    memory: &Memory,
    control: &Control,
    config: &Config,
    cpu: u32,
    kind: ChannelKind,
    ring: usize,
    reserve: ReserveKind,
    first_packet: u64,
    clock_start: u64,
) {
    let packets = config.packets_of(kind);
    for switch in control.on.iter().chain(&control.on_more) {
        switch.store(0, Relaxed);
    }
    control.packets.store(packets, Relaxed);
    control.overflow.store(config.overflow as u32, Relaxed);
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
    let address = (memory.base.expose_provenance() + ring) as u64;
    let packet_size = u64::from(config.packet_size);
    match reserve {
        ReserveKind::Masked => {
            control.base.store(address, Relaxed);
            masked::begin(control, address, packet_size, first_packet, clock_start);
        }
        #[cfg(target_pointer_width = "64")]
        ReserveKind::LocalCas => {
            local_cas::begin(control, address, packet_size, first_packet, clock_start)
        }
    }
}

/// A session over one region. Dropping it changes nothing: recording goes on until
/// [`stop`](Session::stop).
#[derive(Debug)]
pub struct Session<P> {
    memory: Memory,
    cpus: u32,
    id: u64,
    platform: PhantomData<P>,
}

impl<P: Platform> Session<P> {
    /// The region, for a reader.
    pub fn live(&self) -> Live {
        self.memory.live()
    }

    /// Tells the state again: what [`Platform::dump_state`] recorded at the start may have been
    /// overwritten since. Before the [`stop`](Self::stop) of a flight recorder, or from a panic
    /// handler if what `dump_state` does is safe there. Takes no lock of its own.
    ///
    /// # Errors
    /// [`Error::NotRunning`] after the stop.
    pub fn snapshot(&self) -> Result<(), Error> {
        self.check_running()?;
        P::dump_state();
        Ok(())
    }

    /// Stops recording. Returns when no writer is inside of a record; the rings keep what they
    /// hold. The last record is a `kymo_session_end` with the totals of all channels, on the CPU
    /// that calls, if the vocabulary has that event and it is on.
    ///
    /// # Errors
    /// [`Error::NotRunning`] where it was stopped already, or another session has begun over the
    /// memory.
    pub fn stop(&self) -> Result<(), Error> {
        self.check_running()?;
        // By the session's own switches: whoever calls may have no ring, and must then not be asked
        // for it.
        let told = self.is_on(&SessionEnd::SCHEMA);
        for (_, (bytes, bits)) in self.switches() {
            for switch in bytes.iter().chain(bits) {
                switch.store(0, Relaxed);
            }
        }
        P::synchronize();
        if told && let Some(end) = self.totals() {
            Tracer::<P>::record(end);
        }
        self.memory
            .word(STATE_WORD)
            .store(State::Stopped as u32, Release);
        Ok(())
    }

    /// What all channels hold and have lost. Nobody writes any more.
    fn totals(&self) -> Option<SessionEnd> {
        let live = self.live();
        let region = Region::open(&live).ok()?;
        let mut end = SessionEnd {
            recorded: 0,
            reused: 0,
            discarded: 0,
            too_large: 0,
            clock_back: 0,
            abandoned: 0,
        };
        for (cpu, kind) in (0..self.cpus).flat_map(|cpu| ChannelKind::ALL.map(|kind| (cpu, kind))) {
            let mut reader = region.channel(&live, cpu, kind).ok()?;
            let (retained, reused) = reader.events(&live, View::PostMortem).ok()?;
            reader.refresh_dropped(&live).ok()?;
            let losses = reader.losses();
            let add = |sum: &mut u64, count: u64| *sum = sum.saturating_add(count);
            add(&mut end.recorded, retained.saturating_add(reused));
            add(&mut end.reused, reused);
            add(&mut end.discarded, losses.dropped);
            add(&mut end.too_large, losses.too_large);
            add(&mut end.clock_back, losses.clock_back);
            add(&mut end.abandoned, losses.abandoned);
        }
        Some(end)
    }

    /// Whether it is this session that runs over the memory.
    fn check_running(&self) -> Result<(), Error> {
        let running = self.memory.word(STATE_WORD).load(Acquire) == State::Running as u32;
        let current = u64::from(self.memory.word(SESSION_WORD).load(Relaxed));
        if running && current == self.id & u64::from(u32::MAX) {
            Ok(())
        } else {
            Err(Error::NotRunning)
        }
    }

    fn controls(&self) -> impl Iterator<Item = &Control> {
        self.memory.blocks(self.cpus)
    }

    /// The switches of every CPU's channels, and the kernel's own if it has some.
    fn switches(&self) -> impl Iterator<Item = (ChannelKind, (&ByteSwitches, &BitSwitches))> {
        let own = P::switches()
            .into_iter()
            .flat_map(|switches| ChannelKind::ALL.map(|kind| (kind, switches.of(kind))));
        let blocks = self
            .controls()
            .map(|control| (&control.on, &control.on_more));
        ChannelKind::ALL.into_iter().cycle().zip(blocks).chain(own)
    }

    /// Switches an event on or off, on every CPU. One call at a time; a record that is being
    /// written is not waited for.
    ///
    /// # Errors
    /// [`Error::NotRunning`] after the stop.
    pub fn switch(&self, event: &EventSchema, on: bool) -> Result<(), Error> {
        self.check_running()?;
        self.set(event, on);
        Ok(())
    }

    /// Whether an event is on, on the first CPU.
    fn is_on(&self, event: &EventSchema) -> bool {
        let place = switch(event.id);
        let first = self.switches().find(|(kind, _)| *kind == event.channel);
        let byte = first.and_then(|(_, (bytes, bits))| {
            if place.more {
                bits.get(place.byte)
            } else {
                bytes.get(place.byte)
            }
        });
        byte.is_some_and(|byte| byte.load(Relaxed) & place.mask != 0)
    }

    fn set(&self, event: &EventSchema, on: bool) {
        let place = switch(event.id);
        for (_, (bytes, bits)) in self.switches().filter(|(kind, _)| *kind == event.channel) {
            let byte = if place.more {
                bits.get(place.byte)
            } else {
                bytes.get(place.byte)
            };
            if let Some(byte) = byte {
                let others = byte.load(Relaxed) & !place.mask;
                byte.store(if on { others | place.mask } else { others }, Relaxed);
            }
        }
    }
}

/// A UUID of version 8 (custom) from what tells sessions apart; the same run gives the same one.
/// FNV-1a, 128 bits.
fn uuid(config: &Config, clock_start: u64, session_id: u64) -> [u8; 16] {
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    let numbers = [
        clock_start,
        session_id,
        config.seed,
        u64::from(config.cpus),
        u64::from(config.packet_size),
    ];
    for byte in numbers
        .into_iter()
        .flat_map(u64::to_le_bytes)
        .chain(config.build_id)
    {
        hash = (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
    let mut uuid = hash.to_be_bytes();
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}
