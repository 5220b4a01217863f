//! The session: `kymo_start`, `kymo_read`, `kymo_stop`, `kymo_finish`, and what can be asked.
//!
//! ```text
//! idle --start--> running --stop--> stopped --finish--> idle        running --finish--> idle
//! ```
//! One call is at work at a time: another one is refused, and nobody waits. The memory ends with
//! the streams of the session's readers; the region has what is before them.

use core::ffi::c_void;
use core::fmt;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

use kymo::ctf::stream::Stream;
use kymo::ctf::tsdl;
use kymo::event::{Declarations, Declared, EventSchema, Shape};
use kymo::platform::{Exclusive, Platform};
use kymo::ring::reader::{ChannelReader, Region, Shapes, View};
use kymo::ring::source::Source;
use kymo::{ChannelId, ChannelKind, ChannelSet, Clock, Config, Consumer, Error, Overflow, Session};

use crate::error::Refusal;
use crate::own::{self, OwnEvent};
use crate::vocabulary::{CLOCK_STEPS, VOCABULARY};
use kymo_c_record::port::{
    DUMP_STATE, Port, SYNCHRONIZE, kymo_memory_cpus, kymo_memory_size, kymo_port_frequency, memory,
};

/// `KYMO_ROLLING`: a full ring reuses its oldest packet.
pub const ROLLING: u32 = 1;
/// `KYMO_HOST_READS`: a host reads the memory; `kymo_read` frees no packet.
pub const HOST_READS: u32 = 2;

/// `struct kymo_config`.
#[derive(Debug)]
#[repr(C)]
pub struct CConfig {
    /// Of [`ROLLING`] and [`HOST_READS`].
    pub flags: u32,
    /// CPUs that record; 0: those of the memory.
    pub cpus: u32,
    /// Bytes of a packet; 0: 1,024.
    pub packet_size: u32,
    /// Packets of each CPU's events; 0: as many as fit.
    pub packets: u32,
    /// Packets of each CPU's names; 0: 4.
    pub names_packets: u32,
    /// How many ids `events` has.
    pub events_count: u32,
    /// How many events `own` has.
    pub own_count: u32,
    /// Zero.
    pub reserved: u32,
    /// Seconds from the Unix epoch to tick 0; 0 where that is not known.
    pub epoch_seconds: i64,
    /// A number that tells two runs apart.
    pub seed: u64,
    /// Physical address of the memory; 0 where addresses are physical.
    pub phys: u64,
    /// The image's build id, or null.
    pub build_id: *const [u8; 20],
    /// The ids of the vocabulary's events that are recorded, or null for all.
    pub events: *const u16,
    /// The kernel's own events, or null.
    pub own: *const OwnEvent,
    /// Records the names and states of what exists, or null.
    pub dump_state: Option<extern "C" fn()>,
    /// Returns when every CPU has left the record that it was in; for more than one CPU.
    pub synchronize: Option<extern "C" fn()>,
}

/// What a session records.
struct Events {
    /// Ids of the vocabulary; `None` for all.
    only: Option<&'static [u16]>,
    own: &'static [OwnEvent],
}

// SAFETY: the tables are constants of the kernel's.
unsafe impl Send for Events {}

/// What the library itself records.
const DIAGNOSTICS: [u16; 2] = [144, 145];

impl Events {
    fn has(&self, id: u16) -> bool {
        let asked = self.only.is_none_or(|only| only.contains(&id));
        asked || DIAGNOSTICS.contains(&id)
    }
}

impl Declarations for Events {
    fn declared(&self) -> impl Iterator<Item = Declared> {
        let listed = VOCABULARY.iter().filter(|event| self.has(event.id));
        listed
            .map(|event| event.declared())
            .chain(own::declared(self.own))
    }

    fn write_metadata(&self, session: &tsdl::Session, out: &mut impl fmt::Write) -> fmt::Result {
        self.write(session, &mut |text| out.write_str(text))
    }
}

/// Where texts go. Unlike `fmt::Write`, as an object it asks for no code that formats.
type Put<'a> = &'a mut dyn FnMut(&str) -> fmt::Result;

struct Out<'a>(Put<'a>);

impl fmt::Write for Out<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        (self.0)(text)
    }
}

impl Events {
    /// Writes the metadata; compiled once for all outputs.
    #[inline(never)]
    fn write(&self, session: &tsdl::Session, put: Put<'_>) -> fmt::Result {
        let mut out = Out(put);
        tsdl::write_head(&mut out, session)?;
        for event in VOCABULARY.iter().filter(|event| self.has(event.id)) {
            (out.0)(event.text)?;
        }
        own::write(self.own, &mut out)?;
        (out.0)(CLOCK_STEPS)
    }
}

impl Shapes for Events {
    fn shape(&self, id: u32) -> Option<Shape> {
        let found = self.declared().find(|event| event.id == id);
        found.map(|event| event.shape)
    }
}

/// The streams of a CPU's channels, names first: [`ChannelSet`] has that order.
type Streams = [Option<Stream>; 2];

/// A session, running or stopped.
struct Open {
    session: Session<Port>,
    events: Events,
    packet_size: u32,
    record_words: usize,
    /// Bytes of the metadata that were read.
    metadata: usize,
}

impl Open {
    /// How its rings are to be read now.
    fn view(&self) -> View {
        if self.session.is_running() {
            View::Live
        } else {
            View::PostMortem
        }
    }
}

static OPEN: Exclusive<Option<Open>> = Exclusive::new(None);
/// What the last `kymo_start` needed that was refused for want of memory.
static NEEDED: AtomicUsize = AtomicUsize::new(0);
/// Channels of the session, 0 for none: for those who ask while a call is at work.
static CHANNELS: AtomicU32 = AtomicU32::new(0);

/// What a call gives: a number of channels or bytes, or the error.
fn answer(result: Result<usize, Refusal>) -> i32 {
    match result {
        Ok(number) => i32::try_from(number).unwrap_or(i32::MAX),
        Err(refusal) => refusal.code(),
    }
}

/// Bytes at the end of the memory that the streams of these CPUs take.
fn streams_size(cpus: u32) -> usize {
    (cpus as usize).saturating_mul(size_of::<Streams>())
}

/// Where the streams begin, if the memory has room for them.
fn streams(cpus: u32) -> Option<*mut Streams> {
    let at = kymo_memory_size.checked_sub(streams_size(cpus))?;
    let at = at - at % align_of::<Streams>();
    Some(memory().wrapping_add(at).cast())
}

/// The stream of a channel, opened where it is read for the first time: a kernel that leaves the
/// reading to the host is linked without a reader.
///
/// # Safety
/// `start` has found room for the streams of the session, and wrote them; the caller has claimed
/// the session.
unsafe fn stream(
    session: &Session<Port>,
    cpu: u32,
    kind: ChannelKind,
) -> Option<&'static mut Stream> {
    let index = usize::from(kind == ChannelKind::Events);
    let first = streams(session.channels().cpus)?;
    // SAFETY: the caller's promise: nobody else has a reference.
    let streams = unsafe { &mut *first.wrapping_add(cpu as usize) };
    let stream = streams.get_mut(index)?;
    if stream.is_none() {
        let live = session.live();
        let region = Region::open(&live).ok()?;
        let (reader, header) = (region.channel(&live, cpu, kind).ok()?, region.header());
        *stream = Some(Stream::new(reader, header.uuid, header.clock_start));
    }
    stream.as_mut()
}

/// # Safety
/// `count` elements stand at `first`, for ever, unless it is null.
unsafe fn table<T>(first: *const T, count: u32) -> Option<&'static [T]> {
    if first.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    Some(unsafe { core::slice::from_raw_parts(first, count as usize) })
}

/// Begins to record. Returns the number of channels. C calls it by the name of
/// [`start`](crate::vocabulary::start).
///
/// # Safety
/// `config` is null, or a configuration whose tables live for ever.
pub unsafe extern "C" fn kymo_start(config: *const CConfig) -> i32 {
    // SAFETY: the caller's promise.
    answer(match unsafe { config.as_ref() } {
        // SAFETY: as above.
        Some(config) if config.is_aligned() => unsafe { start(config) },
        _ => Err(Refusal::Fault),
    })
}

impl CConfig {
    fn is_aligned(&self) -> bool {
        core::ptr::from_ref(self).is_aligned()
    }

    /// # Safety
    /// See [`kymo_start`].
    unsafe fn events(&self) -> Result<Events, Refusal> {
        // SAFETY: the caller's promise.
        let (only, own) = unsafe {
            (
                table(self.events, self.events_count),
                table(self.own, self.own_count),
            )
        };
        if (only.is_none() && self.events_count > 0) || (own.is_none() && self.own_count > 0) {
            return Err(Refusal::Fault);
        }
        Ok(Events {
            only,
            own: own.unwrap_or_default(),
        })
    }

    fn cpus(&self) -> u32 {
        if self.cpus == 0 {
            kymo_memory_cpus
        } else {
            self.cpus
        }
    }

    /// The ring's configuration; `packets` may still be 0.
    fn to_ring(&self) -> Config {
        let or = |number: u32, default: u32| if number == 0 { default } else { number };
        let (overflow, consumer) = match (self.flags & ROLLING, self.flags & HOST_READS) {
            (0, 0) => (Overflow::Discard, Consumer::Kernel),
            (0, _) => (Overflow::Discard, Consumer::Host),
            _ => (Overflow::Overwrite, Consumer::None),
        };
        let phys = if self.phys == 0
            && cfg!(any(
                target_os = "none",
                all(target_arch = "x86", not(target_feature = "sse"))
            )) {
            memory() as u64
        } else {
            self.phys
        };
        // SAFETY: null, or 20 bytes, as C's type checker has seen.
        let build_id = unsafe { self.build_id.as_ref() };
        Config {
            cpus: self.cpus(),
            packet_size: or(self.packet_size, 1024),
            packets: self.packets,
            names_packets: or(self.names_packets, 4),
            overflow,
            consumer,
            clock: Clock {
                offset_seconds: self.epoch_seconds,
                absolute: self.epoch_seconds != 0,
                ..Clock::at(kymo_port_frequency())
            },
            phys,
            build_id: build_id.copied().unwrap_or_default(),
            seed: self.seed,
            ..Config::DEFAULT
        }
    }
}

/// # Safety
/// See [`kymo_start`].
unsafe fn start(config: &CConfig) -> Result<usize, Refusal> {
    // SAFETY: the caller's promise.
    let events = unsafe { config.events() }?;
    if config.flags & !(ROLLING | HOST_READS) != 0 || config.reserved != 0 {
        return Err(Refusal::Invalid);
    }
    own::check(events.own)?;
    let unknown = |id: &u16| !VOCABULARY.iter().any(|event| event.id == *id);
    if events.only.is_some_and(|only| only.iter().any(unknown)) {
        return Err(Refusal::Invalid);
    }
    let mut claim = OPEN.claim().ok_or(Refusal::InProgress)?;
    if claim.get().is_some() {
        return Err(Refusal::InProgress);
    }
    let ring = config.to_ring();
    let (cpus, channels) = (ring.cpus, ring.channels());
    if cpus > kymo_memory_cpus || (cpus > 1 && config.synchronize.is_none()) {
        return Err(Refusal::Invalid);
    }
    let first = streams(cpus);
    let address = |function: Option<extern "C" fn()>| function.map_or(0, |it| it as usize);
    DUMP_STATE.store(address(config.dump_state), Relaxed);
    SYNCHRONIZE.store(address(config.synchronize), Relaxed);
    let len = first.map_or(0, |first| first as usize - memory() as usize);
    let session = open(&ring, &events, len)?;
    // Where the streams have no place, the session has had none.
    let first = first.ok_or(Refusal::Memory)?;
    let record_words = events
        .declared()
        .map(|event| event.words)
        .max()
        .unwrap_or(0);
    for cpu in 0..cpus as usize {
        // SAFETY: the streams lie behind the region, and nobody has claimed the session but this
        // call. What an earlier session left needs no drop.
        unsafe { first.wrapping_add(cpu).write([None, None]) };
    }
    *claim.get() = Some(Open {
        session,
        events,
        packet_size: ring.packet_size,
        record_words,
        metadata: 0,
    });
    CHANNELS.store(channels.len(), Relaxed);
    Ok(channels.len() as usize)
}

/// Opens a session over the first `len` bytes of the memory. Without a number of packets it takes
/// as many as fit.
fn open(ring: &Config, events: &Events, len: usize) -> Result<Session<Port>, Refusal> {
    // SAFETY: the kernel's memory, aligned by the macro that defines it, behind which nobody
    // writes.
    let region = unsafe { kymo::Memory::new(memory(), len, kymo_memory_cpus) };
    let try_open = |packets| {
        let ring = Config { packets, ..*ring };
        kymo::Tracer::<Port>::start_declared(region, &ring, events, |_| true)
    };
    let result = if ring.packets > 0 {
        try_open(ring.packets)
    } else {
        // With the fewest packets, the refusal tells what the rest takes; or they fit, and then as
        // many more do as there is room for.
        let mut packets = kymo::ring::layout::MIN_PACKETS;
        let a_packet = (ring.packet_size as usize).saturating_mul(ring.cpus as usize);
        // More than can fit: the refusal says how much memory that would take.
        let many = (len / a_packet.max(1)) as u32;
        if many > packets {
            match try_open(many) {
                Err(Error::Memory(needed)) => {
                    let over = needed.saturating_sub(len).div_ceil(a_packet.max(1)) as u32;
                    packets = packets.max(many.saturating_sub(over));
                }
                other => return other.map_err(Refusal::from),
            }
        }
        try_open(packets)
    };
    result.map_err(|error| {
        if let Error::Memory(needed) = error {
            let streams = streams_size(ring.cpus);
            let needed = needed.next_multiple_of(align_of::<Streams>());
            NEEDED.store(needed.saturating_add(streams), Relaxed);
        }
        error.into()
    })
}

/// Runs a call on the session.
fn with(call: impl FnOnce(&mut Open) -> Result<usize, Refusal>) -> i32 {
    answer(match OPEN.claim() {
        Some(mut claim) => match claim.get() {
            Some(open) => call(open),
            None => Err(Refusal::Invalid),
        },
        None => Err(Refusal::Busy),
    })
}

/// The number of the session's channels, whether it is rolling, and whether it runs.
pub(crate) fn state() -> Result<(u32, bool, bool), Refusal> {
    let mut claim = OPEN.claim().ok_or(Refusal::Busy)?;
    let open = claim.get().as_ref().ok_or(Refusal::Invalid)?;
    let session = &open.session;
    Ok((
        session.channels().len(),
        session.overflow() == Overflow::Overwrite,
        session.is_running(),
    ))
}

/// Copies what is new in a channel: a packet of its file, or a part of the metadata. Returns its
/// bytes, 0 where there is nothing new.
///
/// # Safety
/// `buffer` is null, or leads to `size` bytes that are the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kymo_read(channel: u32, buffer: *mut c_void, size: usize) -> i32 {
    let buffer: *mut u32 = buffer.cast();
    if buffer.is_null() || !buffer.is_aligned() {
        return Refusal::Fault.code();
    }
    let words = size.min(isize::MAX as usize) / 4;
    // SAFETY: the caller's promise.
    let buffer = unsafe { core::slice::from_raw_parts_mut(buffer, words) };
    with(|open| read(open, channel, buffer))
}

fn read(open: &mut Open, channel: u32, buffer: &mut [u32]) -> Result<usize, Refusal> {
    let channels = open.session.channels();
    let (cpu, kind) = match channels.get(channel).ok_or(Refusal::Invalid)? {
        ChannelId::Metadata => return read_metadata(open, buffer),
        ChannelId::Cpu(cpu, kind) => (cpu, kind),
    };
    // SAFETY: a session is open, and claimed.
    let stream = unsafe { stream(&open.session, cpu, kind) }.ok_or(Refusal::Invalid)?;
    let view = open.view();
    let live = open.session.live();
    let consumes = stream.reader().is_consumed_by(Consumer::Kernel);
    let words = stream.read(
        &live,
        &open.events,
        (view, Port::clock()),
        open.record_words,
        buffer,
        |reader| {
            if consumes {
                reader.release(&live)
            } else {
                Ok(())
            }
        },
    );
    words.map(|words| 4 * words).map_err(|_| Refusal::Invalid)
}

fn read_metadata(open: &mut Open, buffer: &mut [u32]) -> Result<usize, Refusal> {
    let live = open.session.live();
    let region = Region::open(&live).map_err(|_| Refusal::Invalid)?;
    let left = (region.header().metadata_len as usize).saturating_sub(open.metadata);
    let words = left.div_ceil(4).min(buffer.len());
    if words == 0 && left > 0 {
        return Err(Refusal::Invalid);
    }
    let part = buffer.get_mut(..words).ok_or(Refusal::Invalid)?;
    let from = region.header().metadata_offset + open.metadata as u64;
    live.copy(from, part).map_err(|_| Refusal::Invalid)?;
    let bytes = (4 * words).min(left);
    open.metadata += bytes;
    Ok(bytes)
}

/// The least size of a buffer of `kymo_read`, in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_buffer_size() -> i32 {
    with(|open| {
        let words = Stream::buffer_words(open.packet_size as usize / 4, open.record_words);
        Ok(4 * words)
    })
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
    let channels = CHANNELS.load(Relaxed).max(1);
    answer(match ChannelSet::of_len(channels, false).get(channel) {
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
    use fmt::Write;
    let mut out = Name(name.iter_mut(), 0);
    match id {
        ChannelId::Metadata => out.write_str("metadata"),
        ChannelId::Cpu(cpu, kind) => out
            .write_str(kind.label())
            .and_then(|()| out.write_str("_"))
            .and_then(|()| tsdl::write_number(&mut out, cpu.into())),
    }
    .ok()?;
    let len = out.1;
    out.write_str("\0").ok()?;
    Some(len)
}

/// Stops recording; what was recorded can still be read. Returns the number of channels.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_stop() -> i32 {
    with(|open| {
        open.session.stop().map_err(|_| Refusal::Invalid)?;
        Ok(open.session.channels().len() as usize)
    })
}

/// Stops recording, if that was not done, and gives up what was recorded.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_finish() -> i32 {
    answer(match OPEN.claim() {
        Some(mut claim) => match claim.get().take() {
            Some(open) => {
                // It may have been stopped.
                let _ = open.session.stop();
                CHANNELS.store(0, Relaxed);
                Ok(0)
            }
            None => Err(Refusal::Invalid),
        },
        None => Err(Refusal::Busy),
    })
}

/// Records the names and states of what exists again, by the configuration's `dump_state`.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_snapshot() -> i32 {
    with(|open| {
        open.session
            .snapshot()
            .map(|()| 0)
            .map_err(|_| Refusal::Invalid)
    })
}

/// `kymo_counts` of the header: what became of the session's events.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
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
    with(|open| {
        let mut all = Counts {
            retained: 0,
            read: 0,
            overwritten: 0,
            discarded: 0,
        };
        let live = open.session.live();
        for cpu in 0..open.session.channels().cpus {
            // SAFETY: a session is open, and claimed.
            let stream = unsafe { stream(&open.session, cpu, ChannelKind::Events) };
            let reader = stream.ok_or(Refusal::Invalid)?.reader();
            let (retained, reused) = reader
                .events(&live, open.view())
                .map_err(|_| Refusal::Invalid)?;
            let read = read_before(reader, reused);
            let discarded = reader.discarded(&live).map_err(|_| Refusal::Invalid)?;
            all.retained = all.retained.saturating_add(retained);
            all.read = all.read.saturating_add(read);
            all.overwritten = all.overwritten.saturating_add(reused - read);
            all.discarded = all.discarded.saturating_add(discarded);
        }
        // SAFETY: the caller's promise.
        unsafe { counts.write(all) };
        Ok(0)
    })
}

/// Switches an event on or off.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_switch(id: u32, on: bool) -> i32 {
    with(|open| {
        let event = open.events.declared().find(|event| event.id == id);
        let event = event.ok_or(Refusal::Invalid)?;
        let event = EventSchema {
            id,
            name: "",
            doc: "",
            channel: event.channel,
            fields: &[],
        };
        let switched = open.session.switch(&event, on);
        switched.map(|()| 0).map_err(|_| Refusal::Invalid)
    })
}

/// Bytes of memory that the last `kymo_start` needed which was refused for want of memory.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_memory_needed() -> usize {
    NEEDED.load(Relaxed)
}
