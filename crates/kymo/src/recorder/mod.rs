//! The kernel's one door to its sessions: `start`, `read`, `stop`, `finish` by [`Mode`], with the
//! rules that system calls need.
//!
//! A session is a set of modes over one region, one clock and one set of channels: [`mode`] has the
//! table of states. A call that does not fit the state is refused and changes nothing. `start` and
//! `stop` take a while, in which other CPUs may call: a second `start` is then
//! [`Refused::InProgress`], and `read` works from the end of `start` to the beginning of `finish`.

mod context;
mod diagnostics;
mod ground;
mod mode;
mod reading;
mod refused;
mod word;

pub use context::{Context, Contexts};
pub use diagnostics::Diagnostics;
pub use ground::{Fixed, Ground};
pub use mode::{Mode, State};
pub use refused::Refused;

use core::fmt;

use crate::channel::{ChannelKind, ChannelSet};
use crate::count::{self, Counting, GroupSpec, MAX_GROUPS, Turn};
use crate::ctf::stream::Stream;
use crate::event::{Declarations, Declared, Vocabulary, name_fits};
use crate::exclusive::Exclusive;
use crate::history::History;
use crate::platform::{Call, Platform};
use crate::ring::config::{Config, Error};
use crate::ring::layout::{Consumer, Overflow};
use crate::ring::reader::Region;
use crate::ring::region::Memory;
use crate::sample::LONGEST_PERIOD;
use crate::session::Session;
use crate::sync::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use crate::tracer::Tracer;
use crate::vocabulary::Sampling;
use mode::States;

/// Flags of `start`.
pub mod flags {
    /// A full ring reuses its oldest packet instead of dropping new events.
    pub const ROLLING: u32 = 1;
    /// All flags that `start` takes.
    pub const ALL: u32 = ROLLING;
    /// There are channels of samples. `start` takes this from its configuration, and not as a flag.
    pub const SAMPLES: u32 = 1 << 31;
}

/// What `start` returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    /// Channels to read, including the metadata.
    pub channels: u32,
    /// What a full ring does, whatever was asked for.
    pub overflow: Overflow,
    /// Whether CPUs have a channel of samples, which the numbers of channels depend on.
    pub samples: bool,
}

/// What [`Recorder::reopen`] has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remains {
    /// Channels to read, including the metadata.
    pub channels: u32,
    /// What a full ring did.
    pub overflow: Overflow,
    /// The least number of words that a buffer of `read` must have for this session.
    pub buffer_words: usize,
}

/// The sessions of a kernel in Rust, of at most `CPUS` CPUs:
/// `static RECORDER: Recorder<MyPlatform, 4> = Recorder::new(REGION.memory(), &VOCABULARY);`
pub type Recorder<P, const CPUS: usize> = Sessions<P, Fixed<CPUS>>;

/// A kernel's sessions over one region, one at a time.
///
/// [`channels`](Sessions::channels) numbers the channels. Everything that is read of one of them,
/// in order, is a file of the trace; its [`ChannelId`](crate::ChannelId) prints as the file's name.
pub struct Sessions<P, G: Ground> {
    ground: G,
    /// The modes that this build has.
    built: &'static [Mode],
    /// The [`States`] of all modes.
    states: AtomicU32,
    /// CPUs of the present session, 0 where there is none; the top bits say whether it has samples,
    /// and whether it was reopened.
    channels: AtomicU32,
    /// Words of the session's longest record.
    record_words: AtomicU32,
    session: Exclusive<Option<Open<P, G::Events>>>,
    /// Bytes of the metadata that were read.
    metadata: Exclusive<usize>,
}

/// A session, and the events that it was opened with.
struct Open<P, E> {
    session: Session<P>,
    events: E,
}

// SAFETY: everything in it is atomic, constant, or behind `Exclusive`; `P` is only a name.
unsafe impl<P: Platform, G: Ground<Events: Send> + Sync> Sync for Sessions<P, G> {}

impl<P, G: Ground> fmt::Debug for Sessions<P, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions")
            .field("states", &States::from_word(self.states.load(Relaxed)))
            .finish_non_exhaustive()
    }
}

impl<P: Platform, const CPUS: usize> Recorder<P, CPUS> {
    /// A recorder over `memory`, for at most `CPUS` CPUs.
    pub const fn new(memory: Memory, vocabulary: &'static Vocabulary) -> Self {
        Sessions::over(Fixed::new(memory, vocabulary))
    }

    /// What was recorded, to be read here: `RECORDER.history().dump(&mut serial, 32)`. It asks
    /// nobody for permission: that is up to the caller.
    pub fn history(&self) -> &History {
        &self.ground.history
    }

    /// What the mode `count` counts, for [`Tracer::count`].
    pub fn counting(&self) -> &Counting {
        self.ground.counts()
    }

    /// Begins to record all events of the mode. `config` is `None` where the caller's pointer to it
    /// is bad; its `overflow` and `consumer` follow from `flags`, unless it names the host as the
    /// consumer. A mode that joins one that runs takes the session as it is: its configuration and
    /// flags are those of the first mode, except for how samples are taken.
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

    /// [`start`](Self::start) with only those events on that `is_on` asks for by name, and all
    /// names of things. (Samples have no use for a choice: they are on, and so are the creation and
    /// the end of threads and processes, which tell whose samples they are.)
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
        self.start_over(mode, flags, config, self.ground.declared(), is_on)
    }
}

impl<P: Platform, G: Ground> Sessions<P, G> {
    /// Sessions over that ground.
    pub const fn over(ground: G) -> Self {
        Sessions {
            ground,
            built: Mode::BUILT,
            states: AtomicU32::new(States::IDLE.to_word()),
            channels: AtomicU32::new(0),
            record_words: AtomicU32::new(0),
            session: Exclusive::new(None),
            metadata: Exclusive::new(0),
        }
    }

    /// What the sessions stand on.
    pub fn ground(&self) -> &G {
        &self.ground
    }

    /// The state of a mode.
    pub fn state(&self, mode: Mode) -> State {
        self.states().of(mode)
    }

    fn states(&self) -> States {
        // Partner: the releases that end `start`, `stop` and `finish`.
        States::from_word(self.states.load(Acquire))
    }

    /// The channels of the present session, by number; the metadata alone where there is no
    /// session.
    pub fn channels(&self) -> ChannelSet {
        let word = self.channels.load(Relaxed);
        ChannelSet {
            cpus: word & !(SAMPLES | REOPENED),
            samples: word & SAMPLES != 0,
        }
    }

    /// [`Recorder::start_with`] over these events; a mode that joins another takes those of the
    /// first.
    ///
    /// # Errors
    /// [`Refused`], in that order.
    pub fn start_over(
        &self,
        mode: u32,
        flags: u32,
        config: Option<&Config>,
        events: G::Events,
        is_on: impl Fn(&str) -> bool,
    ) -> Result<Started, Refused> {
        let started = self.start_held(mode, flags, config, events, is_on)?;
        self.has_started(mode);
        Ok(started)
    }

    /// [`start_over`](Self::start_over), whose mode stays [`State::Starting`] where it was not
    /// refused: until [`has_started`](Self::has_started), nobody starts, stops or finishes a mode,
    /// nor calls [`Platform::synchronize`]: that is [`Refused::Busy`].
    ///
    /// # Errors
    /// As there.
    pub fn start_held(
        &self,
        mode: u32,
        flags: u32,
        config: Option<&Config>,
        events: G::Events,
        is_on: impl Fn(&str) -> bool,
    ) -> Result<Started, Refused> {
        let config = config.ok_or(Refused::Fault)?;
        let mode = self.admit(mode, Call::Start)?;
        if mode == Mode::Count && self.ground.counting().is_none() {
            return Err(Refused::NotBuilt);
        }
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
        let opens = self.turn(|states| states.start(mode))? == mode::Region::Open;
        if mode == Mode::Sample
            && let Err(refused) = check_period(&config.sampling)
        {
            self.settle(mode, State::Idle);
            return Err(refused);
        }
        let started = self.begin(mode, &config, opens.then_some(events), is_on);
        if started.is_err() {
            self.settle(mode, State::Idle);
        }
        started
    }

    /// Ends a start that [`start_held`](Self::start_held) has made.
    pub fn has_started(&self, mode: u32) {
        if let Some(mode) = Mode::ALL.get(mode as usize) {
            self.settle(*mode, State::Running);
        }
    }

    /// Lays out the region as `asked`, for the first mode, which has the session's events; then
    /// switches the mode's events on.
    fn begin(
        &self,
        mode: Mode,
        asked: &Config,
        first: Option<G::Events>,
        is_on: impl Fn(&str) -> bool,
    ) -> Result<Started, Refused> {
        let mut claim = self.session.wait();
        let is_first = first.is_some();
        if let Some(events) = first {
            let session = self.open(asked, &events)?;
            self.ground.open_contexts(&events, asked);
            *claim.get() = Some(Open { session, events });
            // Only a beginning can be refused.
            let _ = self.ground.turn_counting::<P>(Turn::Opens);
        }
        let Open { session, events } = claim.get().as_ref().ok_or(Refused::Invalid)?;
        let channels = session.channels();
        let refused = match mode {
            Mode::Sample if !channels.samples => Some(NO_SAMPLES),
            Mode::Sample if !self.ground.can_sample(events) => Some(Refused::Invalid),
            Mode::Count if !self.ground.can_count(events) => Some(Refused::Invalid),
            _ => None,
        };
        if let Some(refused) = refused {
            if is_first {
                session.abandon();
            }
            return Err(refused);
        }
        session.begin(events, |event| {
            let is_asked = mode != Mode::Trace || event.channel != ChannelKind::Events;
            mode.records(event.channel, event.id) && (is_asked || is_on(event.name))
        });
        if G::READS_BACK
            && is_first
            && let Err(refused) = self.open_streams()
        {
            // Recording must not go on where nobody could stop it.
            self.end_part(session, events, mode, true);
            return Err(refused);
        }
        if mode == Mode::Sample {
            self.take_samples(&asked.sampling);
        }
        if mode == Mode::Count
            && let Err(refused) = self.ground.turn_counting::<P>(Turn::Begins)
        {
            self.end_part(session, events, mode, is_first);
            return Err(refused);
        }
        Ok(Started {
            channels: channels.len(),
            overflow: session.overflow(),
            samples: channels.samples,
        })
    }

    fn open(&self, config: &Config, events: &G::Events) -> Result<Session<P>, Refused> {
        if config.cpus > self.ground.cpus() {
            return Err(Refused::Config(Error::Config("the number of CPUs")));
        }
        self.ground.opens(events);
        if G::READS_BACK {
            // A start that failed may have opened some.
            self.close_streams();
        }
        let session =
            Session::open(self.ground.memory(), config, events).map_err(|error| match error {
                Error::Memory(needed) => Refused::Memory(needed),
                Error::Running => Refused::InProgress,
                other => Refused::Config(other),
            })?;
        *self.metadata.wait().get() = 0;
        let channels = session.channels();
        self.record_words.store(session.record_words(), Relaxed);
        let samples = if channels.samples { SAMPLES } else { 0 };
        self.channels.store(channels.cpus | samples, Relaxed);
        Ok(session)
    }

    /// Takes up what a session has left in the memory, of this boot or of the one before a warm
    /// reset: the mode is stopped then, `read` gives the trace, and `finish` gives it up. `None`
    /// where there is nothing that can be read.
    ///
    /// For memory that the kernel does not clear at boot. Call it before the first event: until
    /// then, the events that were on are on, and would be recorded where the last session's are.
    /// In either case all are off afterwards, and the memory is good for `start`.
    ///
    /// # Errors
    /// [`Refused`]; [`Refused::InProgress`] where a session of this boot runs over the memory.
    pub fn reopen(&self, mode: u32) -> Result<Option<Remains>, Refused> {
        let mode = self.admit(mode, Call::Start)?;
        if self.turn(|states| states.start(mode))? != mode::Region::Open {
            self.settle(mode, State::Idle);
            return Err(Refused::InProgress);
        }
        let found = self.take_up();
        let next = match found {
            Ok(Some(_)) => State::Stopped,
            _ => State::Idle,
        };
        self.settle(mode, next);
        found
    }

    fn take_up(&self) -> Result<Option<Remains>, Refused> {
        if !self.ground.memory().take_over() {
            return Err(Refused::InProgress);
        }
        let live = self.ground.memory().live();
        let Ok(region) = Region::open(&live) else {
            return Ok(None);
        };
        let channels = region.channels();
        let Ok(packet_words) = self.open_streams() else {
            self.close_streams();
            return Ok(None);
        };
        *self.metadata.wait().get() = 0;
        let samples = if channels.samples { SAMPLES } else { 0 };
        self.channels
            .store(channels.cpus | samples | REOPENED, Relaxed);
        // Another kernel may have recorded them: a packet holds any of its records.
        self.record_words.store(packet_words as u32, Relaxed);
        let events = region.channel(&live, 0, ChannelKind::Events);
        Ok(Some(Remains {
            channels: channels.len(),
            overflow: events.map_or(Overflow::Discard, |events| events.overflow()),
            buffer_words: Stream::buffer_words(packet_words, packet_words),
        }))
    }

    /// Switches events on or off while they are recorded: all whose name is `name` or, where `name`
    /// ends with `*`, begins with what stands before that. After `start` all are on. Returns how
    /// many events have such a name.
    ///
    /// # Errors
    /// [`Refused`]; [`Refused::Invalid`] also where there is no such event.
    pub fn switch(&self, mode: u32, name: &str, on: bool) -> Result<u32, Refused> {
        self.switch_each(mode, |event| name_fits(name, event.name), on)
    }

    /// [`switch`](Self::switch) for all events that `is_meant` says yes to.
    ///
    /// # Errors
    /// The errors of [`switch`](Self::switch).
    pub fn switch_each(
        &self,
        mode: u32,
        is_meant: impl Fn(&Declared) -> bool,
        on: bool,
    ) -> Result<u32, Refused> {
        let mode = self.admit(mode, Call::Switch)?;
        if self.state(mode) != State::Running {
            return Err(Refused::Invalid);
        }
        let mut claim = self.session.claim().ok_or(Refused::Busy)?;
        let Open { session, events } = claim.get().as_ref().ok_or(Refused::Invalid)?;
        if !session.is_running() {
            return Err(Refused::Invalid);
        }
        let mut count = 0;
        for event in events.declared().filter(|event| is_meant(event)) {
            if mode.records(event.channel, event.id) {
                session.set(event.channel, event.id, on);
                count += 1;
            }
        }
        if count > 0 {
            Ok(count)
        } else {
            Err(Refused::Invalid)
        }
    }

    /// Sets what the mode `count` counts from its next start on, on every CPU, and after how many
    /// nanoseconds the counts are recorded again. Several groups are numbered in their order; those
    /// that do not fit a CPU's PMU together take turns at the kernel's ticks. `start` calls
    /// [`Platform::counting`] once for each group, and a CPU finds all of them at the last call.
    /// The groups pass through about 5 KiB of stack.
    ///
    /// # Errors
    /// [`Refused`]; [`Refused::Invalid`] for another mode, [`Refused::Count`] for more than
    /// [`MAX_GROUPS`](crate::count::MAX_GROUPS) groups, and [`Refused::InProgress`] while the mode
    /// is not idle, or where the session has counted other groups before. No groups are refused by
    /// `start`.
    pub fn set_counting(
        &self,
        mode: u32,
        groups: impl IntoIterator<Item = GroupSpec, IntoIter: Clone>,
        period_ns: u64,
    ) -> Result<(), Refused> {
        let mode = self.admit(mode, Call::Start)?;
        if mode != Mode::Count {
            return Err(Refused::Invalid);
        }
        let groups = groups.into_iter();
        if groups.clone().count() > MAX_GROUPS {
            return Err(Refused::Count(count::Refused::TooManyGroups(MAX_GROUPS)));
        }
        let counting = self.ground.counting().ok_or(Refused::NotBuilt)?;
        // Nobody starts the mode meanwhile.
        let _claim = self.session.claim().ok_or(Refused::Busy)?;
        if self.state(mode) != State::Idle || !counting.set(groups, period_ns) {
            return Err(Refused::InProgress);
        }
        Ok(())
    }

    /// Changes how samples are taken, while they are.
    ///
    /// # Errors
    /// [`Refused`]; a period of 0, or over [`LONGEST_PERIOD`], is refused as by `start`.
    pub fn set_sampling(&self, mode: u32, sampling: &Sampling) -> Result<(), Refused> {
        let mode = self.admit(mode, Call::Switch)?;
        if mode != Mode::Sample || self.state(mode) != State::Running {
            return Err(Refused::Invalid);
        }
        check_period(sampling)?;
        let _claim = self.session.claim().ok_or(Refused::Busy)?;
        self.take_samples(sampling);
        Ok(())
    }

    /// Has samples be taken like this, and records it.
    fn take_samples(&self, sampling: &Sampling) {
        P::sampling(sampling);
        if Tracer::<P>::is_on::<Sampling>() {
            self.ground.record_sampling::<P>(sampling);
        }
    }

    /// Records the kernel's state again, as at the start: for a flight recorder, whose rings may
    /// have overwritten it, before its `stop`; or from a panic handler, if what
    /// [`Platform::dump_state`] does is safe there. It waits for nobody, and takes no lock of its
    /// own.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn snapshot(&self, mode: u32) -> Result<(), Refused> {
        let mode = self.admit(mode, Call::Snapshot)?;
        if self.state(mode) != State::Running {
            return Err(Refused::Invalid);
        }
        P::dump_state();
        Ok(())
    }

    /// Ends the mode, and waits until no writer is inside one of its records; what was recorded can
    /// still be read. Recording ends with the last mode that runs. Returns the number of channels.
    ///
    /// It also spins while another CPU is inside [`switch`](Self::switch), [`stacks`](Self::stacks),
    /// [`counts`](Self::counts) or a setting: do not call it from an interrupt handler that may have
    /// interrupted one of them. So do `start` and `finish`.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn stop(&self, mode: u32) -> Result<u32, Refused> {
        let mode = self.admit(mode, Call::Stop)?;
        let region = self.turn(|states| states.stop(mode))?;
        self.end(mode, region == mode::Region::Close);
        self.settle(mode, State::Stopped);
        Ok(self.channels().len())
    }

    /// Ends the mode, if it has not been ended, and gives it up; the last mode gives up the
    /// channels too. Waits for reads that are at work, and as [`stop`](Self::stop) does. Returns
    /// what was lost so far in all channels.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn finish(&self, mode: u32) -> Result<Diagnostics, Refused> {
        use mode::Region;
        let mode = self.admit(mode, Call::Finish)?;
        let mut ran = false;
        let region = self.turn(|states| {
            ran = states.of(mode) == State::Running;
            states.finish(mode)
        })?;
        if ran {
            self.end(
                mode,
                matches!(region, Region::Close | Region::CloseAndRelease),
            );
        }
        let releases = matches!(region, Region::Release | Region::CloseAndRelease);
        let mut diagnostics = Diagnostics::default();
        let live = self.ground.memory().live();
        for (cpu, kind) in self.channels().streams() {
            let Some(place) = self.ground.stream(cpu, kind) else {
                continue;
            };
            let mut claim = place.wait();
            if let Ok(stream) = self.opened(claim.get(), cpu, kind) {
                let mut reader = stream.reader().clone();
                // The memory is the recorder's own: it is all there.
                let _ = reader.refresh_losses(&live);
                diagnostics.add(&reader.losses());
            }
            if releases {
                *claim.get() = None;
            }
        }
        let mut claim = self.session.wait();
        if releases {
            *claim.get() = None;
            // Only a beginning can be refused.
            let _ = self.ground.turn_counting::<P>(Turn::Closes);
        }
        drop(claim);
        self.settle(mode, State::Idle);
        Ok(diagnostics)
    }

    /// Ends a mode, and the session with the last one.
    fn end(&self, mode: Mode, is_last: bool) {
        let mut claim = self.session.wait();
        let Some(Open { session, events }) = claim.get() else {
            return;
        };
        match mode {
            Mode::Sample => P::sampling(&Config::DEFAULT.sampling),
            Mode::Count => {
                // Only a beginning can be refused.
                let _ = self.ground.turn_counting::<P>(Turn::Ends);
            }
            Mode::Trace => {}
        }
        self.end_part(session, events, mode, is_last);
    }

    /// Switches off a mode's part of the session, or all of it with the last mode.
    fn end_part(&self, session: &Session<P>, events: &G::Events, mode: Mode, is_last: bool) {
        if is_last {
            // It runs: the states say so, and nobody else has it.
            let _ = session.stop_all(events);
            return;
        }
        let states = self.states();
        let others = Mode::ALL.map(|other| other != mode && states.of(other) == State::Running);
        session.end(events, |channel, id| {
            let records = |mode: Mode| mode.records(channel, id);
            let mut others = Mode::ALL.into_iter().zip(others);
            records(mode) && !others.any(|(other, runs)| runs && records(other))
        });
        let set = |event, on| session.set_context(event, on);
        self.ground.end_contexts(mode, events, &set);
    }

    /// The checks that every call begins with.
    fn admit(&self, mode: u32, call: Call) -> Result<Mode, Refused> {
        let mode = *Mode::ALL.get(mode as usize).ok_or(Refused::UnknownMode)?;
        // (The first says it where the code is compiled, and so leaves nothing of the calls.)
        if !crate::COMPILED_IN || !self.built.contains(&mode) {
            return Err(Refused::NotBuilt);
        }
        if P::permits(call) {
            Ok(mode)
        } else {
            Err(Refused::NotPermitted)
        }
    }

    /// Replaces the states by those that `next` makes of them.
    fn turn<T>(
        &self,
        mut next: impl FnMut(States) -> Result<(States, T), Refused>,
    ) -> Result<T, Refused> {
        loop {
            let before = self.states();
            let (after, found) = next(before)?;
            // Partner: the release in `settle`.
            let turned =
                self.states
                    .compare_exchange(before.to_word(), after.to_word(), Acquire, Relaxed);
            if turned.is_ok() {
                return Ok(found);
            }
        }
    }

    /// Ends a call on a mode: everything that it did is visible to whoever sees the new state.
    fn settle(&self, mode: Mode, state: State) {
        loop {
            let before = self.states();
            let after = before.with(mode, state);
            // Partner: the acquires in `states` and `turn`.
            let turned =
                self.states
                    .compare_exchange(before.to_word(), after.to_word(), Release, Relaxed);
            if turned.is_ok() {
                return;
            }
        }
    }
}

/// Refuses periods that a sampler cannot have.
fn check_period(sampling: &Sampling) -> Result<(), Refused> {
    let what = match sampling.period {
        0 => "the period of the samples (0)",
        1..=LONGEST_PERIOD => return Ok(()),
        _ => "the period of the samples (2^63 or more)",
    };
    Err(Refused::Config(Error::Config(what)))
}

/// Samples without channels for them.
const NO_SAMPLES: Refused = Refused::Config(Error::Config(
    "the number of packets of samples (at least 4)",
));

/// The bit in [`Recorder::channels`] that says that there are samples.
const SAMPLES: u32 = 1 << 31;
/// The bit in it that says that the session was not started, but [reopened](Recorder::reopen).
const REOPENED: u32 = 1 << 30;

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
