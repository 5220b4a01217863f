//! The sessions: `kymo_start`, `kymo_read`, `kymo_stop`, `kymo_finish`, and what can be asked.
//!
//! They are those of [`Sessions`], which kernels in Rust have too: its table of states holds here.
//! The memory ends with the streams of the session's readers; the region has what is before them.

use core::ffi::c_void;
use core::fmt::{self, Write};
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use kymo::count::{Counting, Turn};
use kymo::ctf::stream::Stream;
use kymo::event::{Event, Vocabulary};
use kymo::platform::{Exclusive, Platform};
use kymo::ring::reader::{ChannelReader, View};
use kymo::ring::source::Outside;
use kymo::text::write_number;
use kymo::vocabulary::Sampling;
use kymo::{
    ChannelId, ChannelKind, Config, Consumer, Contexts, Ground, Memory, Mode, Overflow, Refused,
    Sessions, State,
};

use crate::config::{CConfig, Call, HOST_READS, ROLLING};
use crate::contexts::CONTEXTS;
use crate::counters::{self, OwnCounters};
use crate::counting::{self, CCounting};
use crate::error::Refusal;
use crate::events::Events;
use crate::history::OWN;
use crate::own;
use crate::vocabulary::VOCABULARY;
use kymo_c_record::port::{
    DUMP_STATE, NOTICE, PERMITS, Port, SAMPLER, SAMPLING, SYNCHRONIZE, kymo_memory_counters,
    kymo_memory_cpus, kymo_memory_size, memory,
};
use kymo_c_record::record::kymo_record_name;

/// The streams of a CPU's channels, by kind.
type Streams = [Exclusive<Option<Stream>>; ChannelKind::ALL.len()];

/// The kernel's memory.
#[derive(Debug)]
pub struct Kernel;

/// All sessions.
pub(crate) static SESSIONS: Sessions<Port, Kernel> = Sessions::over(Kernel);
/// Whether the memory has its streams.
static HAS_STREAMS: AtomicBool = AtomicBool::new(false);
/// Bytes of a packet of the session.
static PACKET_SIZE: AtomicU32 = AtomicU32::new(0);
static PREPARING: Exclusive<()> = Exclusive::new(());
/// Words of a buffer of `kymo_read` for a session that was reopened; 0 for others.
static BUFFER_WORDS: AtomicUsize = AtomicUsize::new(0);
/// What the last `kymo_start` needed that was refused for want of memory.
static NEEDED: AtomicUsize = AtomicUsize::new(0);

/// Bytes at the end of the memory that the streams take.
fn streams_size() -> usize {
    (kymo_memory_cpus as usize).saturating_mul(size_of::<Streams>())
}

/// Where the streams begin, from the beginning of the memory: the end of the region. 0 where the
/// memory has no room for them.
fn streams_place() -> usize {
    let at = kymo_memory_size.saturating_sub(streams_size());
    at - at % align_of::<Streams>()
}

/// Puts the streams into the memory, once.
fn prepare() {
    let _claim = PREPARING.wait();
    let has_room = kymo_memory_size >= streams_size();
    if !has_room || HAS_STREAMS.load(Relaxed) {
        return;
    }
    let first: *mut Streams = memory().wrapping_add(streams_place()).cast();
    for cpu in 0..kymo_memory_cpus as usize {
        // SAFETY: they lie behind the region, in memory that has room for them. Nobody has seen
        // any yet.
        unsafe {
            first
                .wrapping_add(cpu)
                .write([const { Exclusive::new(None) }; ChannelKind::ALL.len()]);
        }
    }
    // Partner: the acquire in `stream`.
    HAS_STREAMS.store(true, Release);
}

impl Ground for Kernel {
    type Events = Events;

    fn memory(&self) -> Memory {
        // SAFETY: the kernel's memory, aligned by the macro that defines it; nobody writes there
        // but what has it from here, and the streams are behind it.
        let memory = unsafe { Memory::new(memory(), streams_place(), kymo_memory_cpus) };
        memory.with_counters(kymo_memory_counters)
    }

    fn cpus(&self) -> u32 {
        kymo_memory_cpus
    }

    fn stream(&self, cpu: u32, kind: ChannelKind) -> Option<&Exclusive<Option<Stream>>> {
        // Partner: the release in `prepare`.
        if cpu >= kymo_memory_cpus || !HAS_STREAMS.load(Acquire) {
            return None;
        }
        let first: *const Streams = memory().wrapping_add(streams_place()).cast();
        // SAFETY: `prepare` has put them there, for as many CPUs and for ever.
        unsafe { &*first.wrapping_add(cpu as usize) }.get(kind as usize)
    }

    fn vocabulary(&self) -> Option<&'static Vocabulary> {
        None
    }

    fn contexts(&self) -> Option<&Contexts> {
        Some(&CONTEXTS)
    }

    fn open_contexts(&self, events: &Events, config: &Config) {
        if let Some(library) = events.contexts() {
            (library.open)(config);
        }
    }

    fn end_contexts(&self, mode: Mode, events: &Events, set: &dyn Fn(u32, bool)) {
        if let Some(library) = events.contexts() {
            (library.end)(mode, events, set);
        }
    }

    fn counting(&self) -> Option<&Counting> {
        counting::library().map(|library| library.counting)
    }

    fn turn_counting<P: Platform>(&self, turn: Turn) -> Result<(), Refused> {
        if let Some(library) = counting::library() {
            (library.turn)(turn);
        }
        // Said here, so that kernels that only record are not linked with what undoes a start.
        Ok(())
    }

    fn can_count(&self, events: &Events) -> bool {
        events.groups.is_some()
    }

    const READS_BACK: bool = false;

    fn can_sample(&self, events: &Events) -> bool {
        !events.sampler.is_null()
    }

    /// Records it by the function that records names, which is there anyway.
    fn record_sampling<P: Platform>(&self, sampling: &Sampling) {
        let (words, _) = sampling.encode();
        // SAFETY: these are the words of the event, as its declaration encodes them.
        unsafe { kymo_record_name(Sampling::ID, words.as_ptr(), words.len() as u32) };
    }

    fn opens(&self, events: &Events) {
        let address = |function: Option<Call>| function.map_or(0, |it| it as usize);
        DUMP_STATE.store(address(events.dump_state), Relaxed);
        SYNCHRONIZE.store(address(events.synchronize), Relaxed);
        let sampling = events.sampling.map_or(0, |it| it as usize);
        SAMPLING.store(sampling, Relaxed);
        SAMPLER.store(events.sampler.cast_mut(), Relaxed);
        NOTICE.store(address(events.notice), Relaxed);
        OWN.store(events.own);
        counters::store(events.counters);
        PACKET_SIZE.store(events.packet_size, Relaxed);
        BUFFER_WORDS.store(0, Relaxed);
        prepare();
    }
}

/// What a call gives: a number of channels or bytes, or the error.
pub(crate) fn answer(result: Result<usize, Refusal>) -> i32 {
    match result {
        Ok(number) => i32::try_from(number).unwrap_or(i32::MAX),
        Err(refusal) => refusal.code(),
    }
}

/// Begins to record. Returns the number of channels. C calls it by the name of
/// [`start`](crate::vocabulary::start).
///
/// # Safety
/// `config` is null, or a configuration whose tables live for ever.
pub unsafe extern "C" fn kymo_start(mode: u32, config: *const CConfig) -> i32 {
    // SAFETY: the caller's promise.
    answer(match unsafe { config.as_ref() } {
        // SAFETY: as above.
        Some(config) if config.is_aligned() => unsafe { start(mode, config, None, &|_| true) },
        _ => Err(Refusal::Fault),
    })
}

/// Starts a mode, with its events on of which `is_on` says so. `groups` are those of a command
/// line.
///
/// # Safety
/// See [`kymo_start`].
#[inline(never)]
pub(crate) unsafe fn start(
    mode: u32,
    config: &CConfig,
    groups: Option<&str>,
    is_on: &dyn Fn(&str) -> bool,
) -> Result<usize, Refusal> {
    if mode as usize >= Mode::ALL.len() {
        return Err(Refusal::UnknownMode);
    }
    // SAFETY: the caller's promise.
    let events = unsafe { config.events() }?;
    if config.flags & !(ROLLING | HOST_READS) != 0 || config.driver().is_none() {
        return Err(Refusal::Invalid);
    }
    own::check(events.own)?;
    if let Some(OwnCounters { table, library }) = events.counting() {
        (library.check)(table)?;
    }
    let unknown = |id: &u16| !VOCABULARY.iter().any(|event| event.id == *id);
    if events.only.is_some_and(|only| only.iter().any(unknown)) {
        return Err(Refusal::Invalid);
    }
    if mode == Mode::Sample as u32 && config.sampler.is_null() {
        return Err(Refusal::Invalid);
    }
    if mode == Mode::Count as u32 && events.groups.is_none() {
        return Err(Refusal::Invalid);
    }
    let ring = config.ring();
    if ring.cpus > 1 && config.synchronize.is_none() {
        return Err(Refusal::Synchronize);
    }
    if let Some(table) = events.groups
        && let Some(library) = table.library()
    {
        (library.prepare)(table)?;
        if mode == Mode::Count as u32 {
            (library.set)(table, groups, config)?;
        }
    }
    let ask = |packets| {
        let (ring, flags) = (Config { packets, ..ring }, config.flags & ROLLING);
        let started = SESSIONS.start_held(mode, flags, Some(&ring), events, is_on);
        started.map(|started| started.channels as usize)
    };
    let started = if ring.packets > 0 {
        ask(ring.packets)
    } else {
        start_with_most(&ring, ask)
    };
    if started.is_ok() {
        if mode == Mode::Count as u32
            && let Some(library) = events.groups.and_then(CCounting::library)
        {
            // Here, where little of the stack is in use.
            (library.announce)();
        }
        SESSIONS.has_started(mode);
    }
    if let Err(Refused::Memory(needed)) = started {
        let needed = needed.next_multiple_of(align_of::<Streams>());
        NEEDED.store(needed.saturating_add(streams_size()), Relaxed);
    }
    started.map_err(Refusal::from)
}

/// As many packets as a ring can have, of so many: where records nest, a power of two.
fn whole(packets: u32) -> u32 {
    if cfg!(feature = "nmi") {
        packets.checked_ilog2().map_or(0, |bits| 1 << bits)
    } else {
        packets
    }
}

/// Starts with as many packets as fit. With the fewest, the refusal tells what the rest takes; or
/// they fit, and then as many more do as there is room for.
fn start_with_most(
    ring: &Config,
    ask: impl Fn(u32) -> Result<usize, Refused>,
) -> Result<usize, Refused> {
    let mut packets = kymo::ring::layout::MIN_PACKETS;
    let len = streams_place();
    let a_packet = (ring.packet_size as usize).saturating_mul(ring.cpus as usize);
    // More than can fit: the refusal says how much memory that would take.
    let many = whole((len / a_packet.max(1)) as u32);
    if many > packets {
        match ask(many) {
            Err(Refused::Memory(needed)) => {
                let over = needed.saturating_sub(len).div_ceil(a_packet.max(1)) as u32;
                packets = packets.max(whole(many.saturating_sub(over)));
            }
            other => return other,
        }
    }
    ask(packets)
}

/// The states of all modes: whether one records, and whether there is a session.
pub(crate) fn runs() -> Result<bool, Refusal> {
    let states = Mode::ALL.map(|mode| SESSIONS.state(mode));
    if states.iter().all(|state| *state == State::Idle) {
        return Err(Refusal::Invalid);
    }
    Ok(states.contains(&State::Running))
}

/// The flags of the session, whatever a mode that joined it has asked for.
fn flags() -> Result<u32, Refusal> {
    let flags = |reader: &ChannelReader| match reader.overflow() {
        Overflow::Overwrite => ROLLING,
        Overflow::Discard if reader.is_consumed_by(Consumer::Host) => HOST_READS,
        Overflow::Discard => 0,
    };
    Ok(SESSIONS.with_reader(0, ChannelKind::Events, flags)?)
}

/// Whether a full ring of the session reuses its oldest packet.
pub(crate) fn is_rolling() -> Result<bool, Refusal> {
    Ok(flags()? & ROLLING != 0)
}

/// Whether a mode records now.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_is_recording() -> bool {
    matches!(runs(), Ok(true))
}

/// The flags of the session, or why there are none.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_flags() -> i32 {
    answer(flags().map(|flags| flags as usize))
}

/// Copies what is new in a channel: a packet of its file, or a part of the metadata. Returns its
/// bytes, 0 where there is nothing new.
///
/// # Safety
/// `buffer` is null, or leads to `size` bytes that are the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kymo_read(
    mode: u32,
    channel: u32,
    buffer: *mut c_void,
    size: usize,
) -> i32 {
    let buffer: *mut u32 = buffer.cast();
    if buffer.is_null() || !buffer.is_aligned() {
        return Refusal::Fault.code();
    }
    let words = size.min(isize::MAX as usize) / 4;
    // SAFETY: the caller's promise.
    let buffer = unsafe { core::slice::from_raw_parts_mut(buffer, words) };
    answer(
        SESSIONS
            .read(mode, channel, Some(buffer))
            .map_err(Refusal::from),
    )
}

/// The least size of a buffer of `kymo_read`, in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_buffer_size() -> i32 {
    answer(runs().map(|_| {
        let words = match BUFFER_WORDS.load(Relaxed) {
            0 => SESSIONS.buffer_words(PACKET_SIZE.load(Relaxed)),
            words => words,
        };
        4 * words
    }))
}

/// Writes the name of the file of a channel, with a NUL; returns its length without it.
///
/// # Safety
/// `name` is null, or leads to `size` bytes that are the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kymo_channel_name(channel: u32, name: *mut u8, size: usize) -> i32 {
    if name.is_null() {
        return Refusal::Fault.code();
    }
    // SAFETY: the caller's promise.
    let name = unsafe { core::slice::from_raw_parts_mut(name, size.min(isize::MAX as usize)) };
    answer(match SESSIONS.channels().get(channel) {
        Some(id) => write_name(id, name).ok_or(Refusal::Invalid),
        None => Err(Refusal::Invalid),
    })
}

fn write_name(id: ChannelId, name: &mut [u8]) -> Option<usize> {
    /// Fills a slice.
    struct Name<'a>(core::slice::IterMut<'a, u8>, usize);
    impl fmt::Write for Name<'_> {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            for &byte in text.as_bytes() {
                *self.0.next().ok_or(fmt::Error)? = byte;
                self.1 += 1;
            }
            Ok(())
        }
    }
    let mut out = Name(name.iter_mut(), 0);
    match id {
        ChannelId::Metadata => out.write_str("metadata"),
        ChannelId::Cpu(cpu, kind) => out
            .write_str(kind.label())
            .and_then(|()| out.write_str("_"))
            .and_then(|()| write_number(&mut out, cpu.into())),
    }
    .ok()?;
    let len = out.1;
    out.write_str("\0").ok()?;
    Some(len)
}

/// Ends a mode; what was recorded can still be read. Returns the number of channels.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_stop(mode: u32) -> i32 {
    let stopped = SESSIONS.stop(mode).map_err(Refusal::from);
    answer(stopped.map(|channels| channels as usize))
}

/// `kymo_totals` of the header: what a session has lost.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Totals {
    discarded: u64,
    too_large: u64,
    overwritten: u64,
    clock_back: u64,
    abandoned: u64,
    without_ring: u64,
}

/// Ends a mode, if that was not done, and gives up what was recorded with the last one. Says what
/// was lost.
///
/// # Safety
/// `totals` is null, or leads to some that are the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kymo_finish(mode: u32, totals: *mut Totals) -> i32 {
    if !totals.is_aligned() {
        return Refusal::Fault.code();
    }
    answer(SESSIONS.finish(mode).map_err(Refusal::from).map(|lost| {
        if !totals.is_null() {
            let found = Totals {
                discarded: lost.discarded,
                too_large: lost.too_large,
                overwritten: lost.overwritten,
                clock_back: lost.clock_back,
                abandoned: lost.abandoned,
                without_ring: lost.without_ring,
            };
            // SAFETY: the caller's promise.
            unsafe { totals.write(found) };
        }
        0
    }))
}

/// Takes up what a session has left in the memory, of this boot or of the one before a warm reset.
/// Returns the number of channels; 0 where there is nothing that can be read.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_reopen(mode: u32) -> i32 {
    prepare();
    let found = SESSIONS.reopen(mode).map_err(Refusal::from);
    answer(found.map(|remains| match remains {
        Some(remains) => {
            BUFFER_WORDS.store(remains.buffer_words, Relaxed);
            remains.channels as usize
        }
        None => 0,
    }))
}

/// Has every call ask whether the caller may make it; null: all may.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_set_permits(permits: Option<extern "C" fn(u32) -> bool>) {
    PERMITS.store(permits.map_or(0, |it| it as usize), Relaxed);
}

/// Records the names and states of what exists again, by the configuration's `dump_state`.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_snapshot(mode: u32) -> i32 {
    answer(SESSIONS.snapshot(mode).map(|()| 0).map_err(Refusal::from))
}

/// `kymo_counts` of the header: what became of the session's events.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    retained: u64,
    read: u64,
    overwritten: u64,
    discarded: u64,
}

/// How many of the `reused` events of a channel, whose packets were used again, were read before.
///
/// A ring that discards uses a packet again only after its reader has given it up. Of a flight
/// recorder only `kymo_read` is known: its reader has passed events that it read, and events that
/// were overwritten before.
fn read_before(reader: &ChannelReader, reused: u64) -> u64 {
    if reader.overflow() == Overflow::Discard {
        return reused;
    }
    let losses = reader.losses();
    let passed = reader.emitted().saturating_add(losses.overwritten);
    reused.min(passed).saturating_sub(losses.overwritten)
}

/// Counts the events of the session that are still in the memory, those whose packets were used
/// again, with those apart that had been read, and those that were never recorded.
///
/// # Safety
/// `counts` is null, or leads to one that is the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kymo_counts(counts: *mut Counts) -> i32 {
    if counts.is_null() || !counts.is_aligned() {
        return Refusal::Fault.code();
    }
    let counted = count();
    if let Ok(all) = counted {
        // SAFETY: the caller's promise.
        unsafe { counts.write(all) };
    }
    answer(counted.map(|_| 0))
}

fn count() -> Result<Counts, Refusal> {
    let view = if runs()? {
        View::Live
    } else {
        View::PostMortem
    };
    let mut all = Counts::default();
    let live = Kernel.memory().live();
    for cpu in 0..SESSIONS.channels().cpus {
        let add = |reader: &ChannelReader| -> Result<(), Outside> {
            let (retained, reused) = reader.events(&live, view)?;
            let (read, discarded) = (read_before(reader, reused), reader.discarded(&live)?);
            all.retained = all.retained.saturating_add(retained);
            all.read = all.read.saturating_add(read);
            all.overwritten = all.overwritten.saturating_add(reused - read);
            all.discarded = all.discarded.saturating_add(discarded);
            Ok(())
        };
        let added = SESSIONS.with_reader(cpu, ChannelKind::Events, add)?;
        added.map_err(|_| Refusal::Invalid)?;
    }
    Ok(all)
}

/// Switches an event of a mode on or off.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_switch(mode: u32, id: u32, on: bool) -> i32 {
    let switched = SESSIONS.switch_each(mode, |event| event.id == id, on);
    answer(switched.map(|_| 0).map_err(Refusal::from))
}

/// Bytes of memory that the last `kymo_start` needed which was refused for want of memory.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_memory_needed() -> usize {
    NEEDED.load(Relaxed)
}
