//! The kernel's one door to its sessions: `start`, `read`, `stop`, `finish`, with the rules that
//! system calls need.
//!
//! ```text
//! idle --start--> running --stop--> stopped --finish--> idle        running --finish--> idle
//! ```
//! A call that does not fit the state is refused and changes nothing. `start` and `stop` take a
//! while, in which other CPUs may call: a second `start` is then [`Refused::InProgress`], and
//! `read` works from the end of `start` to the beginning of `finish`.

use core::cell::UnsafeCell;
use core::fmt;

use crate::ctf::stream::Stream;
use crate::event::{Vocabulary, name_fits};
use crate::history::History;
use crate::platform::{Call, Platform};
use crate::ring::config::{Config, Error};
use crate::ring::layout::{ChannelKind, Consumer, Overflow};
use crate::ring::reader::{Losses, Region, View};
use crate::ring::region::Memory;
use crate::ring::source::Source;
use crate::session::Session;
use crate::sync::{AtomicU8, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use crate::tracer::Tracer;

/// What is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Mode {
    /// What happened: events.
    Trace = 0,
    /// Where the time goes: instruction pointers at intervals.
    Sample = 1,
    /// How much of the hardware was used: counters.
    Count = 2,
}

impl Mode {
    /// Every mode, by number.
    pub const ALL: [Mode; 3] = [Mode::Trace, Mode::Sample, Mode::Count];

    /// Whether this build has it.
    pub const fn is_built(self) -> bool {
        matches!(self, Mode::Trace) && crate::COMPILED_IN
    }
}

/// Flags of `start`.
pub mod flags {
    /// A full ring reuses its oldest packet instead of dropping new events.
    pub const ROLLING: u32 = 1;
    /// All flags there are.
    pub const ALL: u32 = ROLLING;
}

/// What `start` gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    /// Channels to read, the metadata's included.
    pub channels: u32,
    /// What a full ring does, whatever was asked for.
    pub overflow: Overflow,
}

/// Why a call was refused. Checked in this order; nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// A pointer that the caller passed leads nowhere (EFAULT).
    Fault,
    /// There is no such mode (ENOSYS).
    UnknownMode,
    /// This kernel was built without the mode (EOPNOTSUPP).
    NotBuilt,
    /// The platform does not permit it (EPERM).
    NotPermitted,
    /// A flag or channel that does not exist, a buffer too small, or a call that does not fit the
    /// state (EINVAL).
    Invalid,
    /// `start` while a session is starting, runs, or is stopped and not finished (EINPROGRESS).
    InProgress,
    /// The memory is too small: so many bytes are needed (ENOMEM).
    Memory(usize),
    /// Another number in the configuration cannot be used (EINVAL).
    Config(Error),
    /// Another `read` of the same channel is at work (EBUSY).
    Busy,
}

impl Refused {
    /// The error's number, as POSIX systems that follow Linux have it.
    pub const fn errno(self) -> i32 {
        match self {
            Refused::NotPermitted => 1,
            Refused::Memory(_) => 12,
            Refused::Fault => 14,
            Refused::Busy => 16,
            Refused::Invalid | Refused::Config(_) => 22,
            Refused::UnknownMode => 38,
            Refused::NotBuilt => 95,
            Refused::InProgress => 115,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Fault => f.write_str("a pointer leads nowhere"),
            Refused::UnknownMode => f.write_str("there is no such mode"),
            Refused::NotBuilt => f.write_str("this kernel was built without the mode"),
            Refused::NotPermitted => f.write_str("not permitted"),
            Refused::Invalid => {
                f.write_str("no such flag or channel, too small a buffer, or a call out of order")
            }
            Refused::InProgress => f.write_str("a session is in progress: finish it first"),
            Refused::Memory(needed) => Error::Memory(*needed).fmt(f),
            Refused::Config(error) => error.fmt(f),
            Refused::Busy => f.write_str("another read of this channel is at work"),
        }
    }
}

impl core::error::Error for Refused {}

/// What `finish` says about the session: totals of all channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    /// Events that writers dropped because the ring was full, or no packet could hold them.
    pub discarded: u64,
    /// Of these, events that no packet could hold.
    pub too_large: u64,
    /// Events that were overwritten before they were read: the receiver was too slow, or there was
    /// none.
    pub overwritten: u64,
    /// How often a clock stepped back out of its window.
    pub clock_back: u64,
    /// Packets given up because a writer had died in them.
    pub abandoned: u64,
}

impl Diagnostics {
    fn add(&mut self, losses: &Losses) {
        self.discarded = self.discarded.saturating_add(losses.dropped);
        self.too_large = self.too_large.saturating_add(losses.too_large);
        self.overwritten = self.overwritten.saturating_add(losses.overwritten);
        self.clock_back = self.clock_back.saturating_add(losses.clock_back);
        self.abandoned = self.abandoned.saturating_add(losses.abandoned);
    }
}

/// Where a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// There is none.
    Idle = 0,
    /// `start` is at work.
    Starting = 1,
    /// Events are recorded.
    Running = 2,
    /// `stop` is at work.
    Stopping = 3,
    /// No more events are recorded; the rings hold what they held.
    Stopped = 4,
    /// `finish` is at work.
    Finishing = 5,
}

impl State {
    const ALL: [State; 6] = [
        State::Idle,
        State::Starting,
        State::Running,
        State::Stopping,
        State::Stopped,
        State::Finishing,
    ];

    /// Whether there is something to read.
    const fn is_readable(self) -> bool {
        matches!(self, State::Running | State::Stopping | State::Stopped)
    }
}

/// A value that one caller at a time may use.
struct Exclusive<T> {
    taken: AtomicU8,
    value: UnsafeCell<T>,
}

// SAFETY: the value is only reached through `claim`, which gives it to one caller at a time.
unsafe impl<T: Send> Sync for Exclusive<T> {}

impl<T> Exclusive<T> {
    const fn new(value: T) -> Self {
        Exclusive {
            taken: AtomicU8::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// The value, if nobody has it.
    fn claim(&self) -> Option<Claim<'_, T>> {
        // Partner: the release in `drop`.
        let free = self.taken.compare_exchange(0, 1, Acquire, Relaxed).is_ok();
        free.then_some(Claim(self))
    }

    /// The value, when those who have it are done.
    fn wait(&self) -> Claim<'_, T> {
        loop {
            if let Some(claim) = self.claim() {
                return claim;
            }
            core::hint::spin_loop();
        }
    }
}

struct Claim<'a, T>(&'a Exclusive<T>);

impl<T> Claim<'_, T> {
    fn get(&mut self) -> &mut T {
        // SAFETY: `claim` gave it to this caller alone, until it is dropped.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Claim<'_, T> {
    fn drop(&mut self) {
        self.0.taken.store(0, Release);
    }
}

/// A kernel's sessions over one region, one at a time:
/// `static RECORDER: kymo::Recorder<MyPlatform, 4> = kymo::Recorder::new(REGION.memory(), &VOCABULARY);`
///
/// Channels are numbered: 0 is the metadata, `1 + 2 * cpu` a CPU's names, `2 + 2 * cpu` its events.
/// Everything that is read of one of them, in order, is a file of the trace: [`write_file_name`]
/// has its name.
pub struct Recorder<P, const CPUS: usize> {
    memory: Memory,
    vocabulary: &'static Vocabulary,
    history: History,
    state: AtomicU32,
    /// Channels of the present session.
    channels: AtomicU32,
    session: Exclusive<Option<Session<P>>>,
    /// Bytes of the metadata that were read.
    metadata: Exclusive<usize>,
    /// By CPU, then by kind.
    streams: [[Exclusive<Option<Stream>>; ChannelKind::ALL.len()]; CPUS],
}

// SAFETY: everything in it is atomic, constant, or behind `Exclusive`; `P` is only a name.
unsafe impl<P: Platform, const CPUS: usize> Sync for Recorder<P, CPUS> {}

impl<P, const CPUS: usize> fmt::Debug for Recorder<P, CPUS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("state", &self.state.load(Relaxed))
            .finish_non_exhaustive()
    }
}

/// Writes the name of a channel's file: `metadata`, `names_0`, `events_0`, `names_1` ...
///
/// # Errors
/// Those of `out`.
pub fn write_file_name(channel: u32, out: &mut impl fmt::Write) -> fmt::Result {
    match place(channel) {
        None => out.write_str("metadata"),
        Some((cpu, kind)) => write!(out, "{}_{cpu}", kind.label()),
    }
}

/// CPU and kind of a channel; `None` for the metadata.
fn place(channel: u32) -> Option<(u32, ChannelKind)> {
    let index = channel.checked_sub(1)?;
    Some((
        index / 2,
        if index.is_multiple_of(2) {
            ChannelKind::Names
        } else {
            ChannelKind::Events
        },
    ))
}

impl<P: Platform, const CPUS: usize> Recorder<P, CPUS> {
    /// Over `memory`, for at most `CPUS` CPUs.
    pub const fn new(memory: Memory, vocabulary: &'static Vocabulary) -> Self {
        Recorder {
            memory,
            vocabulary,
            history: History::new(memory, vocabulary),
            state: AtomicU32::new(State::Idle as u32),
            channels: AtomicU32::new(0),
            session: Exclusive::new(None),
            metadata: Exclusive::new(0),
            streams: [const { [const { Exclusive::new(None) }; ChannelKind::ALL.len()] }; CPUS],
        }
    }

    /// Where the session stands.
    pub fn state(&self) -> State {
        // Partner: the releases that end `start`, `stop` and `finish`.
        State::ALL
            .get(self.state.load(Acquire) as usize)
            .copied()
            .unwrap_or(State::Idle)
    }

    /// What was recorded, to be read here: `RECORDER.history().dump(&mut serial, 32)`. Asks nobody
    /// for permission: that is the caller's affair.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Begins to record all events. `config` is `None` where the caller's pointer to it is bad; its
    /// `overflow` and `consumer` follow from `flags`, unless it names the host as the consumer.
    ///
    /// # Errors
    /// [`Refused`], in that order.
    pub fn start(
        &self,
        mode: u32,
        flags: u32,
        config: Option<&Config>,
    ) -> Result<Started, Refused> {
        self.start_with(mode, flags, config, |_| true)
    }

    /// The same with only those events on that `is_on` asks for by name, and all names of things.
    ///
    /// # Errors
    /// [`Refused`], in that order.
    pub fn start_with(
        &self,
        mode: u32,
        flags: u32,
        config: Option<&Config>,
        is_on: impl Fn(&str) -> bool,
    ) -> Result<Started, Refused> {
        let config = config.ok_or(Refused::Fault)?;
        self.admit(mode, Call::Start)?;
        if flags & !flags::ALL != 0 {
            return Err(Refused::Invalid);
        }
        let overflow = if flags & flags::ROLLING != 0 {
            Overflow::Overwrite
        } else {
            Overflow::Discard
        };
        let consumer = if config.consumer == Consumer::Host {
            Consumer::Host
        } else {
            Consumer::Kernel
        };
        let config = Config {
            overflow,
            consumer,
            ..*config
        };
        if !self.turn(State::Idle, State::Starting) {
            return Err(Refused::InProgress);
        }
        let started = self.begin(&config, is_on);
        let next = if started.is_ok() {
            State::Running
        } else {
            State::Idle
        };
        self.state.store(next as u32, Release);
        started
    }

    fn begin(&self, config: &Config, is_on: impl Fn(&str) -> bool) -> Result<Started, Refused> {
        if config.cpus as usize > CPUS {
            return Err(Refused::Config(Error::Config("the number of CPUs")));
        }
        let session = Tracer::<P>::start_with(self.memory, config, self.vocabulary, |event| {
            is_on(event.name)
        })
        .map_err(|error| match error {
            Error::Memory(needed) => Refused::Memory(needed),
            Error::Running => Refused::InProgress,
            other => Refused::Config(other),
        })?;
        let live = session.live();
        let opened = Region::open(&live).and_then(|region| {
            for (cpu, streams) in self.streams.iter().enumerate().take(config.cpus as usize) {
                for (kind, stream) in ChannelKind::ALL.into_iter().zip(streams) {
                    let reader = region.channel(&live, cpu as u32, kind)?;
                    let header = region.header();
                    *stream.wait().get() =
                        Some(Stream::new(reader, header.uuid, header.clock_start));
                }
            }
            Ok(())
        });
        if opened.is_err() {
            // The region was laid out just now, so it can be read; if not, nothing goes on
            // recording that nobody could stop.
            let _ = session.stop();
            return Err(Refused::Invalid);
        }
        *self.metadata.wait().get() = 0;
        *self.session.wait().get() = Some(session);
        let channels = 1 + 2 * config.cpus;
        self.channels.store(channels, Relaxed);
        Ok(Started {
            channels,
            overflow: config.overflow,
        })
    }

    /// Takes what is new in a channel: its next CTF packet, or the next part of the metadata, to
    /// the front of `buffer`. Gives its length in bytes, a multiple of 4 but for the end of the
    /// metadata; 0 where there is nothing new. `buffer` is `None` where the caller's pointer is
    /// bad; what is behind the length is undefined and must not leave the kernel.
    ///
    /// # Errors
    /// [`Refused`]; with [`Refused::Invalid`] also a buffer of less than
    /// [`buffer_words`](Self::buffer_words); the metadata takes one of a word.
    pub fn read(
        &self,
        mode: u32,
        channel: u32,
        buffer: Option<&mut [u32]>,
    ) -> Result<usize, Refused> {
        let buffer = buffer.ok_or(Refused::Fault)?;
        self.admit(mode, Call::Read)?;
        if !self.state().is_readable() || channel >= self.channels.load(Relaxed) {
            return Err(Refused::Invalid);
        }
        let Some((cpu, kind)) = place(channel) else {
            return self.read_metadata(buffer);
        };
        let stream = self
            .streams
            .get(cpu as usize)
            .and_then(|streams| streams.get(kind as usize))
            .ok_or(Refused::Invalid)?;
        let mut claim = stream.claim().ok_or(Refused::Busy)?;
        let view = if self.state() == State::Stopped {
            View::PostMortem
        } else {
            View::Live
        };
        // A `finish` that came in between has taken it.
        let stream = claim.get().as_mut().ok_or(Refused::Invalid)?;
        let live = self.memory.live();
        let consumes = stream.reader().is_consumed_by(Consumer::Kernel);
        let words = stream.read(
            &live,
            self.vocabulary,
            (view, P::clock()),
            self.vocabulary.max_record_words(),
            buffer,
            |reader| {
                if consumes {
                    reader.release(&live)
                } else {
                    Ok(())
                }
            },
        );
        words.map(|words| 4 * words).map_err(|_| Refused::Invalid)
    }

    /// Words that a buffer of `read` has at least.
    pub fn buffer_words(&self, packet_size: u32) -> usize {
        Stream::buffer_words(packet_size as usize / 4, self.vocabulary.max_record_words())
    }

    fn read_metadata(&self, buffer: &mut [u32]) -> Result<usize, Refused> {
        let mut claim = self.metadata.claim().ok_or(Refused::Busy)?;
        let live = self.memory.live();
        let region = Region::open(&live).map_err(|_| Refused::Invalid)?;
        if buffer.is_empty() {
            // Nothing would be read for ever, and that means that there is nothing.
            return Err(Refused::Invalid);
        }
        let (at, len) = (claim.get(), region.header().metadata_len as usize);
        let words = (len.saturating_sub(*at)).div_ceil(4).min(buffer.len());
        let part = buffer.get_mut(..words).ok_or(Refused::Invalid)?;
        live.copy(region.header().metadata_offset + *at as u64, part)
            .map_err(|_| Refused::Invalid)?;
        let bytes = (4 * words).min(len.saturating_sub(*at));
        *at += bytes;
        Ok(bytes)
    }

    /// Switches events on or off while they are recorded: all whose name is `name`, or begins with
    /// what stands before a `*` at its end. After `start` all are on. Gives how many there are of
    /// that name.
    ///
    /// # Errors
    /// [`Refused`]; with [`Refused::Invalid`] also where there is no such event.
    pub fn switch(&self, mode: u32, name: &str, on: bool) -> Result<u32, Refused> {
        self.admit(mode, Call::Switch)?;
        if self.state() != State::Running {
            return Err(Refused::Invalid);
        }
        let mut claim = self.session.claim().ok_or(Refused::Busy)?;
        let session = claim.get().as_ref().ok_or(Refused::Invalid)?;
        let mut count = 0;
        for event in self.vocabulary.events() {
            if name_fits(name, event.name) {
                session.switch(event, on).map_err(|_| Refused::Invalid)?;
                count += 1;
            }
        }
        if count > 0 {
            Ok(count)
        } else {
            Err(Refused::Invalid)
        }
    }

    /// Tells the state again, as at the start: for a flight recorder, whose rings may have
    /// overwritten it, before its `stop`; or from a panic handler, if what [`Platform::dump_state`]
    /// does is safe there. Waits for nobody, and takes no lock of its own.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn snapshot(&self, mode: u32) -> Result<(), Refused> {
        self.admit(mode, Call::Snapshot)?;
        if self.state() != State::Running {
            return Err(Refused::Invalid);
        }
        P::dump_state();
        Ok(())
    }

    /// Ends recording. Returns when no writer is inside of a record; what was recorded can still be
    /// read. Gives the number of channels.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn stop(&self, mode: u32) -> Result<u32, Refused> {
        self.admit(mode, Call::Stop)?;
        if !self.turn(State::Running, State::Stopping) {
            return Err(Refused::Invalid);
        }
        self.end();
        self.state.store(State::Stopped as u32, Release);
        Ok(self.channels.load(Relaxed))
    }

    /// Ends recording, if that was not done, and gives the channels up. Waits for reads that are at
    /// work.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn finish(&self, mode: u32) -> Result<Diagnostics, Refused> {
        self.admit(mode, Call::Finish)?;
        if self.turn(State::Running, State::Finishing) {
            self.end();
        } else if !self.turn(State::Stopped, State::Finishing) {
            return Err(Refused::Invalid);
        }
        let mut diagnostics = Diagnostics::default();
        let live = self.memory.live();
        for stream in self.streams.iter().flatten() {
            if let Some(stream) = stream.wait().get().take() {
                let mut reader = stream.reader().clone();
                // The memory is the recorder's own: it is all there.
                let _ = reader.refresh_losses(&live);
                diagnostics.add(&reader.losses());
            }
        }
        *self.session.wait().get() = None;
        self.state.store(State::Idle as u32, Release);
        Ok(diagnostics)
    }

    fn end(&self) {
        if let Some(session) = self.session.wait().get() {
            // It runs: the state says so, and nobody else has it.
            let _ = session.stop();
        }
    }

    /// The checks that every call begins with.
    fn admit(&self, mode: u32, call: Call) -> Result<(), Refused> {
        let mode = Mode::ALL.get(mode as usize).ok_or(Refused::UnknownMode)?;
        if !mode.is_built() {
            return Err(Refused::NotBuilt);
        }
        if P::permits(call) {
            Ok(())
        } else {
            Err(Refused::NotPermitted)
        }
    }

    fn turn(&self, from: State, to: State) -> bool {
        self.state
            .compare_exchange(from as u32, to as u32, Acquire, Relaxed)
            .is_ok()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
