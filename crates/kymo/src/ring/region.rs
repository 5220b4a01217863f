//! Memory, and how a region is laid out in it: header, control blocks, record sizes, metadata,
//! rings.
//!
//! A region is formed under writers that may still come from an earlier session over the memory,
//! and under readers that still look at it. Each step says which of them it is for.

use core::cell::UnsafeCell;
use core::fmt;
use core::ops::Range;

use super::config::{Config, Error};
use super::layout::{
    CONTROL_OFFSET, CONTROL_SIZE, COUNTERS, CPUS_WORD, Control, Crc32, HEADER_WORDS, Header,
    REGION_ALIGN, ReserveKind, SAMPLES, SEQUENCES, SESSION_WORD, SLOT_HEADER_WORDS, STATE_WORD,
    State, WITHOUT_RING, WITHOUT_RING_OFFSET, halves,
};
#[cfg(target_pointer_width = "64")]
use super::local_cas;
use super::source::Live;
use super::{Environment, masked, running, without_ring};
use crate::channel::ChannelKind;
use crate::counter;
use crate::event::Shape;
use crate::sync::{
    AtomicU8, AtomicU32, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
    fence,
};
use crate::tracer::COMPILED_IN;

/// Static memory for a region of `SIZE` bytes and at most `CPUS` CPUs:
/// `static REGION: RegionMemory<{ 8 << 20 }, 4> = RegionMemory::new();`
///
/// All zero, so it takes no room in the kernel's image. Without the feature `trace` it ends behind
/// the control blocks (4.1 KiB, and 2.3 KiB for each CPU), since a kernel may keep its per-CPU
/// pointers there.
///
/// `COUNTERS` is the number of words that each CPU has for the kernel's own
/// [counters](mod@crate::counter): that of [`Counters::words`](crate::counter::Counters::words).
#[repr(C, align(4096))]
pub struct RegionMemory<const SIZE: usize, const CPUS: usize, const COUNTERS: u32 = 0> {
    #[cfg(feature = "trace")]
    bytes: UnsafeCell<[u8; SIZE]>,
    #[cfg(not(feature = "trace"))]
    bytes: UnsafeCell<Blocks<CPUS>>,
}

/// What comes before the control blocks, and room for them.
#[cfg(not(feature = "trace"))]
type Blocks<const CPUS: usize> = (
    [u8; CONTROL_OFFSET],
    [[[u8; CONTROL_SIZE]; ChannelKind::ALL.len()]; CPUS],
);

// SAFETY: only reached through `Memory`, whose users touch it atomically, or before `start`
// publishes it.
unsafe impl<const SIZE: usize, const CPUS: usize, const COUNTERS: u32> Sync
    for RegionMemory<SIZE, CPUS, COUNTERS>
{
}

impl<const SIZE: usize, const CPUS: usize, const COUNTERS: u32> RegionMemory<SIZE, CPUS, COUNTERS> {
    /// Memory that is all zero.
    pub const fn new() -> Self {
        RegionMemory {
            #[cfg(feature = "trace")]
            bytes: UnsafeCell::new([0; SIZE]),
            #[cfg(not(feature = "trace"))]
            bytes: UnsafeCell::new((
                [0; CONTROL_OFFSET],
                [[[0; CONTROL_SIZE]; ChannelKind::ALL.len()]; CPUS],
            )),
        }
    }

    /// The memory, as `start` takes it.
    pub const fn memory(&'static self) -> Memory {
        // SAFETY: static, aligned, and nobody else has a reference into the cell.
        let memory = unsafe {
            Memory::new(
                self.bytes.get().cast(),
                size_of_val(&self.bytes),
                CPUS as u32,
            )
        };
        memory.with_counters(if COMPILED_IN { COUNTERS } else { 0 })
    }

    /// The control blocks of one CPU: what its pointer or register must hold. Valid before `start`,
    /// and for CPUs that a session does not record: all switches are off there. Null for a CPU
    /// beyond `CPUS`, or where the memory ends before it.
    pub fn control(&'static self, cpu: u32) -> *const Control {
        self.memory().control(cpu)
    }
}

impl<const SIZE: usize, const CPUS: usize, const COUNTERS: u32> Default
    for RegionMemory<SIZE, CPUS, COUNTERS>
{
    fn default() -> Self {
        Self::new()
    }
}

impl<const SIZE: usize, const CPUS: usize, const COUNTERS: u32> fmt::Debug
    for RegionMemory<SIZE, CPUS, COUNTERS>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegionMemory")
            .field("size", &SIZE)
            .field("cpus", &CPUS)
            .field("counters", &COUNTERS)
            .finish_non_exhaustive()
    }
}

/// Memory that a region may be laid out in.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    base: *mut u8,
    len: usize,
    cpus: u32,
    /// Words of counters of each CPU.
    counters: u32,
}

// SAFETY: a pointer to memory that lives for ever; see `new`.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// No memory at all.
    pub(crate) const NONE: Memory = Memory {
        base: core::ptr::dangling_mut::<u64>().cast(),
        len: 0,
        cpus: 0,
        counters: 0,
    };

    /// `len` zeroed bytes at `base` (or what an earlier session left there), for at most `cpus`
    /// CPUs. They may hold anything if [`Recorder::reopen`](crate::Recorder::reopen) is called
    /// before the first event.
    ///
    /// # Safety
    /// They stay mapped and writable for ever (a writer that has tested its switch may still come,
    /// whenever), belong to Kymo alone, and are aligned to [`REGION_ALIGN`].
    pub const unsafe fn new(base: *mut u8, len: usize, cpus: u32) -> Memory {
        Memory {
            base,
            len,
            cpus,
            counters: 0,
        }
    }

    /// The memory with room for `words` words of counters behind the control blocks of each CPU:
    /// for the kernel's own [counters](mod@crate::counter), as many as they
    /// [take](crate::counter::Counters::words). A kernel calls it once, where it defines the memory,
    /// because the places of the control blocks depend on it.
    pub const fn with_counters(self, words: u32) -> Memory {
        Memory {
            counters: words,
            ..self
        }
    }

    /// How many CPUs have control blocks.
    pub const fn cpus(&self) -> u32 {
        self.cpus
    }

    /// How many words of counters each CPU has.
    pub const fn counters(&self) -> u32 {
        self.counters
    }

    /// Sets all counters of all CPUs to 0. A kernel whose memory is not cleared at boot calls it
    /// before the first of them counts, and after it has read what an earlier boot has left; it is
    /// no way to begin anew, since what is counted meanwhile may come back.
    pub fn clear_counters(&self) {
        if !COMPILED_IN || self.blocks_end() > self.len {
            return;
        }
        for cpu in 0..self.cpus {
            let first = self.block(cpu, ChannelKind::Events as usize);
            for word in 0..self.counters {
                let word = first.wrapping_byte_add(counter::offset(word));
                // SAFETY: as in `counter`.
                unsafe { &*word.cast::<AtomicUsize>() }.store(0, Relaxed);
            }
        }
    }

    /// One word of a CPU's counters, as it is now.
    pub(crate) fn counter(&self, cpu: u32, word: u32) -> Option<usize> {
        if cpu >= self.cpus || word >= self.counters || self.blocks_end() > self.len {
            return None;
        }
        let first = self.block(cpu, ChannelKind::Events as usize);
        let word = first.wrapping_byte_add(counter::offset(word));
        // SAFETY: inside of the memory, behind the CPU's blocks; only ever touched atomically.
        Some(unsafe { &*word.cast::<AtomicUsize>() }.load(Relaxed))
    }

    /// The control blocks of one CPU; null where there are none for it.
    pub fn control(&self, cpu: u32) -> *const Control {
        if cpu >= self.cpus || self.blocks_end() > self.len {
            return core::ptr::null();
        }
        self.block(cpu, ChannelKind::Events as usize)
    }

    /// Where the control blocks end, of all CPUs that code may ever ask for, recorded or not:
    /// nothing behind is ever taken for a control block.
    fn blocks_end(&self) -> usize {
        (self.cpus as usize)
            .saturating_mul(self.blocks_of_a_cpu() * CONTROL_SIZE)
            .saturating_add(CONTROL_OFFSET)
    }

    /// Blocks of a CPU, with those whose place its counters take.
    fn blocks_of_a_cpu(&self) -> usize {
        let counters = self.counters as usize * size_of::<usize>();
        ChannelKind::ALL.len() + counters.div_ceil(CONTROL_SIZE)
    }

    fn block(&self, cpu: u32, kind: usize) -> *const Control {
        let index = cpu as usize * self.blocks_of_a_cpu() + kind;
        self.base
            .wrapping_add(CONTROL_OFFSET + index * CONTROL_SIZE)
            .cast_const()
            .cast()
    }

    /// The control blocks of these CPUs, which `start` has found to lie inside the memory.
    fn blocks(&self, cpus: Range<u32>) -> ControlBlocks<'_> {
        debug_assert!(cpus.end <= self.cpus);
        let kind = 0;
        ControlBlocks {
            memory: self,
            cpus,
            kind,
        }
    }

    /// The control blocks of all CPUs that code may ever ask for, recorded or not, as `start` has
    /// found them to lie inside the memory.
    pub(crate) fn all_blocks(&self) -> ControlBlocks<'_> {
        self.blocks(0..self.cpus)
    }

    /// The control block of one channel of each of these CPUs.
    pub(crate) fn blocks_of(
        &self,
        kind: ChannelKind,
    ) -> impl Iterator<Item = &'static Control> + use<'_> {
        // SAFETY: as of `ControlBlocks`.
        (0..self.cpus).map(move |cpu| unsafe { &*self.block(cpu, kind as usize) })
    }

    /// Whether every record that was reserved is written, in all rings of `LocalCas`. It asks the
    /// control blocks alone, so that it knows while a session is being laid out too, until its
    /// blocks are set up.
    #[cfg(target_pointer_width = "64")]
    pub fn is_quiet(&self) -> bool {
        self.blocks_end() > self.len || self.all_blocks().all(local_cas::is_quiet)
    }

    /// The memory as a reader sees it.
    #[inline]
    pub fn live(&self) -> Live {
        // SAFETY: `new` was promised memory that stays; it is written atomically once a session
        // runs.
        unsafe { Live::own(self.base, self.len as u64) }
    }

    /// Has CPUs without a ring follow the session over this memory. No event may be on yet.
    pub(crate) fn begin_without_ring(&self) {
        if self.len > 0 {
            without_ring::begin(self.base);
        }
    }

    /// Ends what [`begin_without_ring`](Self::begin_without_ring) began.
    pub(crate) fn end_without_ring(&self) {
        without_ring::end(self.base);
    }

    fn zero(&self, bytes: Range<usize>) {
        for word in bytes.start / 4..bytes.end / 4 {
            self.word(word).store(0, Relaxed);
        }
    }

    fn word(&self, index: usize) -> &AtomicU32 {
        debug_assert!(4 * index < self.len);
        // SAFETY: callers stay inside of the layout, which `plan` has checked against `len`, or of
        // what lies before the end of the control blocks, which they have.
        unsafe { &*self.base.cast::<AtomicU32>().add(index) }
    }
}

/// The control blocks of some CPUs, one after another; see [`Memory::blocks`]. (One function of its
/// own is a third of what the iterators of `core` take on a small machine.)
pub(crate) struct ControlBlocks<'a> {
    memory: &'a Memory,
    cpus: Range<u32>,
    kind: usize,
}

impl Iterator for ControlBlocks<'_> {
    type Item = &'static Control;

    #[inline(never)]
    fn next(&mut self) -> Option<&'static Control> {
        if self.kind == ChannelKind::ALL.len() {
            self.kind = 0;
            self.cpus.next();
        }
        if self.cpus.is_empty() {
            return None;
        }
        let block = self.memory.block(self.cpus.start, self.kind);
        self.kind += 1;
        // SAFETY: inside of the memory, which stays mapped for ever; only ever touched atomically.
        Some(unsafe { &*block })
    }
}

/// What a region holds besides its rings: what a reader needs to understand the records.
pub(crate) trait Contents {
    /// Id and size of every record.
    fn shapes(&self) -> impl Iterator<Item = (u32, Shape)>;

    /// Words of the longest record, header included.
    fn longest_record(&self) -> usize;

    /// Words of counters that each CPU must have.
    fn counter_words(&self) -> u32;

    /// Writes the trace's metadata, whose length is the same for any UUID.
    ///
    /// # Errors
    /// Those of `out`.
    fn write_metadata(&self, uuid: [u8; 16], out: &mut impl fmt::Write) -> fmt::Result;
}

/// Where the parts of the region lie.
struct Plan {
    shapes: usize,
    shapes_len: usize,
    is_wide: bool,
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

impl Plan {
    fn new(memory: &Memory, config: &Config, contents: &impl Contents) -> Result<Plan, Error> {
        let mut length = Length(0);
        // Counting cannot fail. Any other UUID takes as much room.
        let _ = contents.write_metadata([0; 16], &mut length);
        let shapes = memory.blocks_end();
        let (mut shapes_len, mut is_wide) = (0, false);
        for (_, shape) in contents.shapes() {
            shapes_len += 1;
            is_wide |= shape.is_wide();
        }
        let metadata = shapes + 8 * shapes_len;
        let packet_size = config.packet_size as usize;
        // Rings are aligned to the packet size as an address, so that a record's slot is found by
        // masking.
        let base = memory.base as usize;
        // A power of two.
        let align = packet_size.max(64);
        let rings = ((base + metadata + length.0 + align - 1) & !(align - 1)) - base;
        let packets: usize = ChannelKind::ALL
            .iter()
            .map(|&kind| config.packets_of(kind) as usize)
            .sum();
        let size = packets
            .checked_mul(packet_size)
            .and_then(|size| size.checked_mul(config.cpus as usize));
        let total = size
            .and_then(|size| size.checked_add(rings))
            .ok_or(Error::Config("the size of the rings"))?;
        if total > memory.len {
            return Err(Error::Memory(total));
        }
        Ok(Plan {
            shapes,
            shapes_len,
            is_wide,
            metadata,
            metadata_len: length.0,
            rings,
            total,
        })
    }
}

/// A session that the memory has had.
struct Earlier {
    /// Whether it is one of this boot that was not stopped.
    still_runs: bool,
    /// Its number.
    id: u64,
    /// Its CPUs.
    cpus: u32,
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

impl Memory {
    /// Lays out a region and lets writers in; returns the number of the session over it. No event
    /// is on yet.
    ///
    /// The memory of an earlier session is used again; its packet numbers go on, so that nothing
    /// old is taken for new.
    ///
    /// # Errors
    /// See [`Error`]; the memory is unchanged then.
    pub(crate) fn form<N: Environment>(
        &self,
        config: &Config,
        reserve: ReserveKind,
        contents: &impl Contents,
    ) -> Result<u64, Error> {
        config.check(self.cpus, contents.longest_record(), reserve)?;
        if !(self.base as usize).is_multiple_of(REGION_ALIGN) {
            return Err(Error::Alignment);
        }
        let plan = Plan::new(self, config, contents);
        if self.len < self.blocks_end() {
            // The plan says what the whole takes.
            return Err(plan.err().unwrap_or(Error::Memory(self.blocks_end())));
        }
        if self.counters < contents.counter_words() {
            return Err(Error::Config(
                "the number of words that the memory has for counters",
            ));
        }
        let _starting = Starting::claim(self)?;
        let earlier = self.earlier();
        if earlier.as_ref().is_some_and(|earlier| earlier.still_runs) {
            return Err(Error::Running);
        }
        // A header that a warm reset left may say anything.
        let earlier_id = earlier
            .as_ref()
            .map_or(0, |earlier| earlier.id)
            .min(u64::MAX / 2);
        let session_id = (SESSIONS.load(Relaxed) as u64).max(earlier_id) + 1;
        let plan = plan?;
        // From here on an earlier session's readers find that it is over.
        self.word(STATE_WORD).store(State::Forming as u32, Release);
        self.word(SESSION_WORD).store(session_id as u32, Release);
        self.word(SESSION_WORD + 1)
            .store((session_id >> 32) as u32, Release);
        SESSIONS.store(session_id as usize, Relaxed);
        // Partner: the reader's acquire fence between its copy and its look at the session's
        // number.
        fence(Release);
        close_blocks::<N>(self);
        let first_packet = earlier.map_or(0, |earlier| first_packet(self, earlier.cpus));
        // Zeroing takes a while: time begins after it.
        self.zero(plan.rings..plan.total);
        let clock_start = N::clock();
        let uuid = uuid(config, clock_start, session_id);

        for (index, (id, shape)) in contents.shapes().enumerate() {
            let at = plan.shapes / 4 + 2 * index;
            self.word(at).store(id, Relaxed);
            self.word(at + 1).store(shape.to_word(), Relaxed);
        }
        let mut text = Text {
            memory: self,
            at: plan.metadata,
            crc: Crc32::new(),
        };
        contents
            .write_metadata(uuid, &mut text)
            .map_err(|fmt::Error| Error::Memory(plan.total))?;
        let metadata_crc = text.crc.finish();

        let mut ring = plan.rings;
        for cpu in 0..config.cpus {
            for kind in ChannelKind::ALL {
                // SAFETY: `plan` placed this block inside of the memory, which stays mapped.
                let control = unsafe { &*self.block(cpu, kind as usize) };
                set_up(
                    self,
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
        // The other CPUs have no packets, and their events are counted as such.
        for control in self.blocks(config.cpus..self.cpus) {
            turn_off(control);
            control.packets.store(0, Relaxed);
        }
        // A writer that comes from here on sees all of its block, if it sees that it is open.
        N::synchronize();
        for control in self.blocks(0..config.cpus) {
            if control.packets.load(Relaxed) == 0 {
                continue; // A channel that the session does not have stays closed.
            }
            let end = control.cursor.load(Relaxed) - 4 * SLOT_HEADER_WORDS as u64
                + u64::from(config.packet_size);
            control.limit.store(end - 4, Relaxed);
            control.packet_size.store(config.packet_size, Relaxed);
        }

        let header = Header {
            state: State::Forming as u32,
            word_size: size_of::<usize>() as u8,
            total_size: plan.total as u64,
            compat: if config.channels().samples {
                SAMPLES
            } else {
                0
            } | WITHOUT_RING,
            incompat: if plan.is_wide { SEQUENCES } else { 0 }
                | if self.counters > 0 { COUNTERS } else { 0 },
            self_phys: config.phys,
            region_va: if reserve == ReserveKind::Masked {
                self.base.expose_provenance() as u64
            } else {
                0
            },
            session_id,
            uuid,
            clock: config.clock,
            clock_start,
            reserve: reserve as u32,
            cpus: config.cpus,
            kinds: self.blocks_of_a_cpu() as u32,
            control_offset: CONTROL_OFFSET as u64,
            control_size: CONTROL_SIZE as u32,
            slot_header_size: 4 * SLOT_HEADER_WORDS as u32,
            metadata_offset: plan.metadata as u64,
            metadata_len: plan.metadata_len as u32,
            shapes_len: plan.shapes_len as u32,
            shapes_offset: plan.shapes as u64,
            build_id: config.build_id,
            metadata_crc,
        };
        // The magic comes last, so that nobody who looks meanwhile finds half a header.
        let words: [u32; HEADER_WORDS] = header.to_words();
        self.zero(WITHOUT_RING_OFFSET..WITHOUT_RING_OFFSET + size_of::<usize>());
        self.word(0).store(0, Release);
        for (index, word) in words.into_iter().enumerate().rev() {
            self.word(index).store(word, Release);
        }
        // Partner: the reader's acquire of `state`. Everything above is visible before it.
        self.word(STATE_WORD).store(State::Running as u32, Release);
        running::add(self.base as usize);
        // A CPU that sees its switch on must see its block as it is now, and nothing in a
        // tracepoint orders the two.
        N::synchronize();
        Ok(session_id)
    }

    /// Whether session `id` runs over the memory.
    pub(crate) fn runs(&self, id: u64) -> bool {
        let running = self.word(STATE_WORD).load(Acquire) == State::Running as u32;
        let current = u64::from(self.word(SESSION_WORD).load(Relaxed));
        running && current == id & u64::from(u32::MAX)
    }

    /// Ends what an earlier boot has left in the memory: no event is on, and no session runs.
    /// `false`: a session of this boot runs.
    pub(crate) fn take_over(&self) -> bool {
        let Ok(_starting) = Starting::claim(self) else {
            return false;
        };
        if self.blocks_end() > self.len {
            return true;
        }
        let earlier = self.earlier();
        if earlier.as_ref().is_some_and(|earlier| earlier.still_runs) {
            return false;
        }
        self.all_blocks().for_each(turn_off);
        if earlier.is_some() {
            self.close();
        }
        true
    }

    /// What the header says of the session over the memory: one of this boot, or of the one before
    /// a warm reset. The memory has its control blocks, and no other `start` is at work. The sizes
    /// in the header do not matter here, and [`Region`](super::reader::Region) would take 1.5 KiB
    /// of code on a small machine.
    fn earlier(&self) -> Option<Earlier> {
        let words = core::array::from_fn(|index| self.word(index).load(Relaxed));
        // What is read of its blocks is what it left. Partner: the release of `state` in `close`.
        fence(Acquire);
        Header::check(&words).ok()?;
        let is_running = words[STATE_WORD] == State::Running as u32;
        Some(Earlier {
            still_runs: is_running && running::may_run(self.base as usize),
            id: u64::from(words[SESSION_WORD]) | u64::from(words[SESSION_WORD + 1]) << 32,
            cpus: words[CPUS_WORD],
        })
    }

    /// Tells readers that no writer is at work any more.
    pub(crate) fn close(&self) {
        // Partner: the reader's acquire of `state`.
        self.word(STATE_WORD).store(State::Stopped as u32, Release);
        running::remove(self.base as usize);
    }
}

/// Lets no writer into any block, and returns when none is inside. A writer that tested its switch
/// under an earlier session may come at any time; it finds no room, and then no session.
fn close_blocks<N: Environment>(memory: &Memory) {
    for control in memory.all_blocks() {
        control.packet_size.store(0, Relaxed);
    }
    // A writer that is past that test may still raise its limit.
    N::synchronize();
    for control in memory.all_blocks() {
        control.limit.store(0, Relaxed);
    }
    N::synchronize();
}

/// The number of every channel's first packet: above all that an earlier session over this memory
/// has used.
fn first_packet(memory: &Memory, earlier_cpus: u32) -> u64 {
    let mut prep = 0;
    for control in memory.blocks(0..earlier_cpus.min(memory.cpus)) {
        prep = prep.max(control.prep.load(Relaxed));
    }
    // What a damaged block says must not make positions overflow.
    if prep < 1 << 40 { prep + 1 } else { 0 }
}

fn turn_off(control: &Control) {
    for switch in control.on.iter().chain(&control.on_more) {
        switch.store(0, Relaxed);
    }
}

/// Sets up one channel: constants, counters at zero, the writer at the beginning of its first
/// packet. Its switches are off, its ring is zero; it is closed until it has a limit and a packet
/// size.
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
    turn_off(control);
    control.packets.store(packets, Relaxed);
    control.overflow.store(config.overflow as u32, Relaxed);
    control.cpu.store(cpu, Relaxed);
    control.kind.store(kind as u32, Relaxed);
    control.consumer.store(config.consumer as u32, Relaxed);
    control.ring_offset.store(ring as u64, Relaxed);
    control.first_packet.store(first_packet, Relaxed);
    control.consumed.store(first_packet, Relaxed);
    let period = if kind == ChannelKind::Events {
        config.counters_period
    } else {
        0
    };
    control.counters_period.store(period, Relaxed);
    control
        .counters_due
        .store(clock_start.saturating_add(period), Relaxed);
    for counter in [&control.retired_events, &control.discarded] {
        counter.store(0, Relaxed);
    }
    for counter in [&control.abandoned, &control.clock_back, &control.too_large] {
        counter.store(0, Relaxed);
    }
    if packets == 0 {
        return;
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

/// A UUID of version 8 (custom) from what tells sessions apart; the same run gives the same UUID.
/// Each of its four words is a hash of its own of the numbers below and a word of the build id; by
/// 32 bits, because small processors multiply no more.
fn uuid(config: &Config, clock_start: u64, session_id: u64) -> [u8; 16] {
    let (build_id, _) = config.build_id.as_chunks::<4>();
    let numbers = [
        halves(clock_start),
        halves(session_id),
        halves(config.seed),
        [config.cpus, config.packet_size],
        [build_id.last().copied().map_or(0, u32::from_le_bytes), 0],
    ];
    let mut uuid = [0; 16];
    let (places, _) = uuid.as_chunks_mut::<4>();
    for (place, (factor, &build_id)) in places.iter_mut().zip(FACTORS.into_iter().zip(build_id)) {
        let mut hash = factor ^ u32::from_le_bytes(build_id);
        for &word in numbers.as_flattened() {
            hash = (hash ^ word).wrapping_mul(factor);
            hash ^= hash >> 15;
        }
        *place = hash.to_be_bytes();
    }
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

/// What the words of a [`uuid`] are made with: odd numbers near the fractions of the square roots
/// of 2, 3, 5 and 7.
const FACTORS: [u32; 4] = [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f373, 0xa54f_f53b];
