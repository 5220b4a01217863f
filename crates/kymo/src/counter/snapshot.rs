//! What was counted, as events of the stream: at the end of a session, and whenever the period of
//! its configuration has passed when the kernel calls [`Tracer::tick`]. Whoever reads the counters
//! from memory makes the same records of them: see [`Stream::append`](crate::ctf::stream::Stream).

use super::{BUCKETS, Kind};
use crate::channel::ChannelKind;
use crate::event::{Event, EventSchema};
use crate::platform::Platform;
use crate::ring::RawEvent;
use crate::ring::local::Local;
use crate::ring::payload::InPlace;
use crate::ring::region::Memory;
use crate::sync::Ordering::Relaxed;
use crate::tracer::{COMPILED_IN, Tracer};
use crate::vocabulary::{BUCKETS_AT_ONCE, CounterValue, Cpu, GaugeValue, HistogramValue};

/// What takes the records of a snapshot: this CPU's ring, or a packet of the trace.
pub(crate) trait Records {
    /// Takes a record of the event with this id, whose payload is `len` words.
    fn record(&mut self, id: u32, len: usize, words: impl Iterator<Item = u32>);
}

impl Kind {
    /// The event that has such a counter's values.
    pub const fn event(self) -> &'static EventSchema {
        match self {
            Kind::Counter => &CounterValue::SCHEMA,
            Kind::Gauge => &GaugeValue::SCHEMA,
            Kind::Histogram => &HistogramValue::SCHEMA,
        }
    }

    /// Makes the records of what a CPU has counted in the counter whose first word has the number
    /// `counter`. `word` gives that word (0) and those behind it, extended to 64 bits: with its
    /// sign if it is a gauge's.
    pub(crate) fn records(
        self,
        cpu: Cpu,
        counter: u32,
        word: impl Fn(u32) -> u64,
        out: &mut impl Records,
    ) {
        match self {
            Kind::Counter => {
                let value = word(0);
                one(
                    CounterValue {
                        cpu,
                        counter,
                        value,
                    },
                    out,
                );
            }
            Kind::Gauge => {
                let value = word(0).cast_signed();
                one(
                    GaugeValue {
                        cpu,
                        counter,
                        value,
                    },
                    out,
                );
            }
            Kind::Histogram => parts(cpu, counter, word, out),
        }
    }
}

fn one<E: Event>(event: E, out: &mut impl Records) {
    let (words, used) = event.encode();
    out.record(E::ID, used, words.as_ref().iter().copied().take(used));
}

/// Makes the records of a histogram, from its first bucket that is not empty on, as many as it
/// takes. Buckets only grow: one that is empty was never recorded.
fn parts(cpu: Cpu, counter: u32, word: impl Fn(u32) -> u64, out: &mut impl Records) {
    let of = |bucket: usize| word(bucket as u32);
    let next = |from: usize| (from..BUCKETS).find(|&bucket| of(bucket) != 0);
    let long = |value: u64| [value as u32, (value >> 32) as u32];
    let mut first = next(0).unwrap_or(BUCKETS);
    loop {
        let end = BUCKETS.min(first + BUCKETS_AT_ONCE);
        let used = (first..end).rfind(|&bucket| of(bucket) != 0);
        let used = used.map_or(0, |last| last + 1 - first);
        // The fields as the declaration encodes them: the last is a number of buckets and the
        // buckets. They pass through no array, since this runs on an interrupt's stack.
        let [low, high] = long(of(BUCKETS));
        let begin = if used == 0 { 0 } else { first as u32 };
        let head = [cpu.0, counter, low, high, begin, used as u32];
        let buckets = (first..first + used).flat_map(|bucket| long(of(bucket)));
        let words = head.into_iter().chain(buckets);
        out.record(HistogramValue::ID, head.len() + 2 * used, words);
        match next(end) {
            Some(bucket) => first = bucket,
            None => return,
        }
    }
}

/// This CPU's ring of events.
struct Ring<P>(core::marker::PhantomData<P>);

impl<P: Platform> Records for Ring<P> {
    fn record(&mut self, id: u32, len: usize, words: impl Iterator<Item = u32>) {
        let fill = InPlace::new(len, |out| {
            for word in words {
                out.push(word);
            }
        });
        Tracer::<P>::write::<RawEvent>(id, fill);
    }
}

impl<P: Platform> Tracer<P> {
    /// Records what this CPU has counted, if the session's period
    /// ([`Config::counters_period`](crate::Config::counters_period)) has passed since it did so
    /// last. The kernel calls it from each CPU's timer interrupt, or from wherever else it comes by
    /// often enough, as it records events. Otherwise it costs two loads, a reading of the clock and
    /// two branches.
    #[inline]
    pub fn tick() {
        if !P::COUNTERS.list().is_empty() {
            // SAFETY: `RegionMemory` and its like have words for all of the platform's counters.
            unsafe { Self::tick_of(P::COUNTERS.each()) };
        }
    }

    /// [`tick`](Self::tick) for a kernel that has declared its counters in another language: each
    /// with the number of its first word and its kind.
    ///
    /// # Safety
    /// The memory has all words of these counters on each of its CPUs.
    #[inline]
    pub unsafe fn tick_of(counters: impl Iterator<Item = (u32, Kind)>) {
        if !COMPILED_IN {
            return;
        }
        let Some(cpu) = P::Local::cpu() else { return };
        let control = P::Local::control(cpu, ChannelKind::Events);
        let period = control.counters_period.load(Relaxed);
        if period == 0 {
            return;
        }
        let now = P::clock();
        if now < control.counters_due.load(Relaxed) {
            return;
        }
        control
            .counters_due
            .store(now.saturating_add(period), Relaxed);
        let words = P::Local::counters(cpu);
        // SAFETY: `word` is one of a counter's, which this CPU has: the caller's promise.
        let word = |word: u32| unsafe { &*words.add(word as usize) }.load(Relaxed);
        Self::record_counters(Cpu(control.cpu()), counters, Self::is_on_raw, word);
    }

    /// Records what all CPUs have counted in these counters, each with the number of its first
    /// word and its kind: the first `cpus`, which have rings, and those among the others that have
    /// counted something.
    pub fn record_all_counters(
        memory: &Memory,
        cpus: u32,
        counters: impl Iterator<Item = (u32, Kind)> + Clone,
        is_on: impl Fn(u32) -> bool,
    ) {
        for cpu in 0..memory.cpus() {
            let word = |word| memory.counter(cpu, word).unwrap_or(0);
            let is_zero =
                |(first, kind): (u32, Kind)| (0..kind.words()).all(|at| word(first + at) == 0);
            if cpu >= cpus && counters.clone().all(is_zero) {
                continue;
            }
            Self::record_counters(Cpu(cpu), counters.clone(), &is_on, word);
        }
    }

    /// Records what a CPU has counted: those that are on, by the id of their event.
    fn record_counters(
        cpu: Cpu,
        counters: impl Iterator<Item = (u32, Kind)>,
        is_on: impl Fn(u32) -> bool,
        word: impl Fn(u32) -> usize,
    ) {
        for (id, kind) in counters.filter(|(_, kind)| is_on(kind.event().id)) {
            let extended = |index| match (kind, word(id + index)) {
                (Kind::Gauge, word) => (word.cast_signed() as i64).cast_unsigned(),
                (_, word) => word as u64,
            };
            kind.records(cpu, id, extended, &mut Ring::<P>(core::marker::PhantomData));
        }
    }
}
