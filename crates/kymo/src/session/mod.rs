//! Sessions: recording over a region starts, what is recorded is switched, recording stops.

use core::fmt;
use core::marker::PhantomData;

use crate::channel::{ChannelKind, ChannelSet};
use crate::counter::Counters;
use crate::ctf::tsdl;
use crate::event::{Declarations, Declared, Event, EventSchema, Shape, Vocabulary};
use crate::platform::Platform;
use crate::ring::config::{Config, Error};
use crate::ring::layout::{Clock, Overflow, switch};
use crate::ring::reader::{Region, View};
use crate::ring::region::{Contents, Memory};
use crate::ring::source::Live;
use crate::ring::switches::{BitSwitches, ByteSwitches};
use crate::ring::{Reserve, name_epoch};
use crate::sync::Ordering::Relaxed;
use crate::tracer::{COMPILED_IN, Tracer};
use crate::vocabulary::{CounterValue, GaugeValue, HistogramValue, SessionEnd};

/// The events with what the kernel's own counters have counted.
const COUNTS: [EventSchema; 3] = [
    CounterValue::SCHEMA,
    GaugeValue::SCHEMA,
    HistogramValue::SCHEMA,
];

/// What a session's region says about its records.
struct Described<'a, D> {
    declarations: &'a D,
    clock: Clock,
    hosted: bool,
    channels: ChannelSet,
    counters: Counters,
    record_words: usize,
}

impl<D: Declarations> Described<'_, D> {
    fn events(&self) -> impl Iterator<Item = Declared> {
        let events = self.declarations.declared();
        events.filter(|event| self.channels.has(event.channel))
    }
}

impl<D: Declarations> Contents for Described<'_, D> {
    fn shapes(&self) -> impl Iterator<Item = (u32, Shape)> {
        self.events().map(|event| (event.id, event.shape))
    }

    fn longest_record(&self) -> usize {
        self.record_words
    }

    fn counter_words(&self) -> u32 {
        self.counters.words()
    }

    fn write_metadata(&self, uuid: [u8; 16], out: &mut impl fmt::Write) -> fmt::Result {
        let session = tsdl::Session {
            uuid,
            clock: self.clock,
            hosted: self.hosted,
            samples: self.channels.samples,
            counters: self.counters,
        };
        self.declarations.write_metadata(&session, out)
    }
}

impl<P: Platform> Tracer<P> {
    /// Lays out the region and begins to record: every event of the vocabulary is switched on.
    ///
    /// Without the feature `trace` this does nothing, and gives a session that holds nothing.
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

    /// [`start`](Self::start) with only those events on that `is_on` asks for, and all names.
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
        if !COMPILED_IN {
            return Ok(Session::of_nothing(config));
        }
        let session = Session::open(memory, config, vocabulary)?;
        for event in vocabulary.events() {
            if event.channel == ChannelKind::Names || is_on(event) {
                session.set(event.channel, event.id, true);
            }
        }
        session.begun();
        Ok(session)
    }
}

/// A session over one region. Dropping it changes nothing: recording goes on until
/// [`stop`](Session::stop).
#[derive(Debug)]
pub struct Session<P> {
    memory: Memory,
    channels: ChannelSet,
    overflow: Overflow,
    record_words: u32,
    id: u64,
    platform: PhantomData<P>,
}

impl<P: Platform> Session<P> {
    /// What `start` gives where tracepoints are compiled out: every call on it does nothing.
    fn of_nothing(config: &Config) -> Session<P> {
        Session {
            memory: Memory::NONE,
            channels: config.channels(),
            overflow: config.overflow,
            record_words: 0,
            id: 0,
            platform: PhantomData,
        }
    }

    /// Lays out the region and lets writers in. No event is on.
    pub(crate) fn open(
        memory: Memory,
        config: &Config,
        declarations: &impl Declarations,
    ) -> Result<Session<P>, Error> {
        let channels = config.channels();
        let mut described = Described {
            declarations,
            clock: config.clock,
            hosted: config.hosted,
            channels,
            counters: P::COUNTERS,
            record_words: 0,
        };
        let words = described.events().map(|event| event.words);
        described.record_words = words.max().unwrap_or(0);
        let id = memory.form::<P>(config, <P::Reserve as Reserve>::KIND, &described)?;
        // This comes before the switches: whoever sees one on finds that its things have no names
        // yet.
        name_epoch::advance();
        memory.begin_without_ring();
        Ok(Session {
            memory,
            channels,
            overflow: config.overflow,
            record_words: described.record_words as u32,
            id,
            platform: PhantomData,
        })
    }

    /// Switches on the events that `is_on` asks for, then has the kernel's state recorded.
    pub(crate) fn begin(&self, events: &impl Declarations, is_on: impl Fn(&Declared) -> bool) {
        for event in events.declared().filter(|event| is_on(event)) {
            self.set(event.channel, event.id, true);
        }
        self.begun();
    }

    /// Has the kernel's state recorded, now that events are on.
    fn begun(&self) {
        P::dump_state();
    }

    /// Switches off the events that `is_off` asks for; returns when no writer is inside one of
    /// them. The kernel's own counters are recorded then, if their events are among these.
    pub(crate) fn end(
        &self,
        events: &impl Declarations,
        is_off: impl Fn(ChannelKind, u32) -> bool,
    ) {
        let ends = |event: &EventSchema| self.is_on(event) && is_off(event.channel, event.id);
        let counts = COUNTS.map(|event| ends(&event).then_some(event.id));
        for event in events.declared() {
            if is_off(event.channel, event.id) {
                self.set(event.channel, event.id, false);
            }
        }
        P::synchronize();
        self.record_counters(events, counts);
    }

    /// Records what the kernel's own counters have counted, with those events that were on.
    fn record_counters(&self, events: &impl Declarations, counts: [Option<u32>; 3]) {
        let is_on = |id| counts.contains(&Some(id));
        events.record_counters::<P>(&self.memory, self.channels.cpus, is_on);
    }

    /// The channels that it records into.
    pub fn channels(&self) -> ChannelSet {
        self.channels
    }

    /// What a full ring does.
    pub fn overflow(&self) -> Overflow {
        self.overflow
    }

    /// Words of its longest record, header included.
    pub(crate) fn record_words(&self) -> u32 {
        self.record_words
    }

    /// The region, for a reader.
    pub fn live(&self) -> Live {
        self.memory.live()
    }

    /// Records the kernel's state again: what [`Platform::dump_state`] recorded at the start may
    /// have been overwritten since. Call it before the [`stop`](Self::stop) of a flight recorder,
    /// or from a panic handler if what `dump_state` does is safe there. It takes no lock of its
    /// own.
    ///
    /// # Errors
    /// [`Error::NotRunning`] after the stop.
    pub fn snapshot(&self) -> Result<(), Error> {
        self.check_running()?;
        if COMPILED_IN {
            P::dump_state();
        }
        Ok(())
    }

    /// Ends a session of which no event is on yet: there is no writer, and nothing to report.
    pub(crate) fn abandon(&self) {
        self.memory.end_without_ring();
        self.memory.close();
    }

    /// Stops recording. Returns when no writer is inside of a record; the rings keep what they
    /// hold. The last record is a `kymo_session_end` with the totals of all channels, on the CPU
    /// that calls, if that event is on.
    ///
    /// # Errors
    /// [`Error::NotRunning`] where it was stopped already, or another session has begun over the
    /// memory.
    pub fn stop(&self) -> Result<(), Error> {
        // No event is needed to know what Rust's counters are.
        const NONE: Vocabulary = Vocabulary::new(&[]);
        self.stop_all(&NONE)
    }

    /// [`stop`](Self::stop) of a session that has `events`.
    pub(crate) fn stop_all(&self, events: &impl Declarations) -> Result<(), Error> {
        self.check_running()?;
        if !COMPILED_IN {
            return Ok(());
        }
        // Ask the session's own switches: the calling CPU may have no ring, and so no switches of
        // its own.
        let reports_end = self.is_on(&SessionEnd::SCHEMA);
        let counts = COUNTS.map(|event| self.is_on(&event).then_some(event.id));
        for channel in ChannelKind::ALL {
            for (bytes, bits) in self.switches(channel) {
                for switch in bytes.iter().chain(bits) {
                    switch.store(0, Relaxed);
                }
            }
        }
        self.memory.end_without_ring();
        P::synchronize();
        self.record_counters(events, counts);
        if reports_end && let Some(end) = self.totals() {
            Tracer::<P>::record(end);
        }
        self.memory.close();
        Ok(())
    }

    /// What all channels hold and have lost, once nobody writes any more.
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
            without_ring: 0,
        };
        for (cpu, kind) in self.channels.streams() {
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
            add(&mut end.without_ring, losses.without_ring);
        }
        Some(end)
    }

    /// Whether it records: from its start to its [`stop`](Self::stop).
    pub fn is_running(&self) -> bool {
        COMPILED_IN && self.memory.runs(self.id)
    }

    fn check_running(&self) -> Result<(), Error> {
        if !COMPILED_IN || self.memory.runs(self.id) {
            Ok(())
        } else {
            Err(Error::NotRunning)
        }
    }

    /// The switches of a channel of every CPU, also of CPUs that the session has no rings for (they
    /// count what they lose), and behind them the kernel's own if it has some.
    fn switches(
        &self,
        channel: ChannelKind,
    ) -> impl Iterator<Item = (&ByteSwitches, &BitSwitches)> {
        let own = P::switches().map(|switches| switches.of(channel));
        let blocks = self.memory.blocks_of(channel);
        blocks
            .map(|control| (&control.on, &control.on_more))
            .chain(own)
    }

    /// Switches an event on or off, on every CPU. Only one call may be at work at a time; it does
    /// not wait for a record that is being written.
    ///
    /// # Errors
    /// [`Error::NotRunning`] after the stop.
    pub fn switch(&self, event: &EventSchema, on: bool) -> Result<(), Error> {
        self.check_running()?;
        self.set(event.channel, event.id, on);
        Ok(())
    }

    /// Whether an event is on, on the first CPU.
    fn is_on(&self, event: &EventSchema) -> bool {
        let place = switch(event.id);
        let first = self.switches(event.channel).next();
        let byte = first.and_then(|(bytes, bits)| {
            if place.more {
                bits.get(place.byte)
            } else {
                bytes.get(place.byte)
            }
        });
        byte.is_some_and(|byte| byte.load(Relaxed) & place.mask != 0)
    }

    /// Switches an event of a session that runs on or off.
    pub(crate) fn set(&self, channel: ChannelKind, id: u32, on: bool) {
        // Nothing can be on where the session has no channel for it.
        let on = on && self.channels.has(channel);
        self.set_switch(channel, id, on);
    }

    /// Has an event record its context, or not any more. This needs no channel of samples.
    pub(crate) fn set_context(&self, event: u32, on: bool) {
        self.set_switch(ChannelKind::Samples, event, on);
    }

    fn set_switch(&self, channel: ChannelKind, id: u32, on: bool) {
        if !COMPILED_IN {
            return;
        }
        let place = switch(id);
        for (bytes, bits) in self.switches(channel) {
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

#[cfg(test)]
#[cfg(loom)]
mod models;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
