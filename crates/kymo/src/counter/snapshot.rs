//! What was counted, as events of the stream: at the end of a session, and whenever the period of
//! its configuration has passed when the kernel calls [`Tracer::tick`].

use super::{BUCKETS, CounterSchema, Kind};
use crate::channel::ChannelKind;
use crate::event::Event;
use crate::platform::Platform;
use crate::ring::local::Local;
use crate::ring::region::Memory;
use crate::sync::Ordering::Relaxed;
use crate::tracer::{COMPILED_IN, Tracer};
use crate::vocabulary::{BUCKETS_AT_ONCE, CounterValue, Cpu, GaugeValue, HistogramValue};

impl<P: Platform> Tracer<P> {
    /// Records what this CPU has counted, if the session's period
    /// ([`Config::counters_period`](crate::Config::counters_period)) has passed since it did so
    /// last. The kernel calls it from each CPU's timer interrupt, or from wherever else it comes by
    /// often enough, as it records events. Otherwise it costs two loads, a reading of the clock and
    /// two branches.
    #[inline]
    pub fn tick() {
        if !COMPILED_IN || P::COUNTERS.list().is_empty() {
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
        // SAFETY: `word` is below `COUNTERS.words()`, and so many words stand there.
        let word = |word: u32| unsafe { &*words.add(word as usize) }.load(Relaxed);
        Self::record_counters(Cpu(control.cpu()), Self::is_on_raw, word);
    }

    /// Records what all CPUs have counted: the first `cpus`, which have rings, and those among the
    /// others that have counted something.
    pub(crate) fn record_all_counters(memory: &Memory, cpus: u32, is_on: impl Fn(u32) -> bool) {
        for cpu in 0..memory.cpus() {
            let word = |word| memory.counter(cpu, word).unwrap_or(0);
            if cpu >= cpus && (0..P::COUNTERS.words()).all(|place| word(place) == 0) {
                continue;
            }
            Self::record_counters(Cpu(cpu), &is_on, word);
        }
    }

    /// Records what a CPU has counted: those that are on, by the id of their event.
    fn record_counters(cpu: Cpu, is_on: impl Fn(u32) -> bool, word: impl Fn(u32) -> usize) {
        for schema in P::COUNTERS.list() {
            let counter = schema.id;
            match schema.kind {
                Kind::Counter if is_on(CounterValue::ID) => {
                    let value = word(counter) as u64;
                    Self::record(CounterValue {
                        cpu,
                        counter,
                        value,
                    });
                }
                Kind::Gauge if is_on(GaugeValue::ID) => {
                    let value = word(counter).cast_signed() as i64;
                    Self::record(GaugeValue {
                        cpu,
                        counter,
                        value,
                    });
                }
                Kind::Histogram if is_on(HistogramValue::ID) => {
                    Self::record_histogram(cpu, schema, &word);
                }
                _ => {}
            }
        }
    }

    /// Records a histogram from its first bucket that is not empty on, in as many records as it
    /// takes. Buckets only grow: one that is empty was never recorded.
    fn record_histogram(cpu: Cpu, schema: &CounterSchema, word: &impl Fn(u32) -> usize) {
        let of = |bucket: usize| word(schema.id + bucket as u32) as u64;
        let next = |from: usize| (from..BUCKETS).find(|&bucket| of(bucket) != 0);
        let mut first = next(0).unwrap_or(BUCKETS);
        loop {
            let end = BUCKETS.min(first + BUCKETS_AT_ONCE);
            let used = (first..end).rfind(|&bucket| of(bucket) != 0);
            let used = used.map_or(0, |last| last + 1 - first);
            // The fields as the declaration encodes them: the last is a number of buckets and the
            // buckets.
            Self::record_in_place::<HistogramValue>(6 + 2 * used, |out| {
                out.push(cpu.0);
                out.push(schema.id);
                out.push_long(of(BUCKETS));
                out.push(if used == 0 { 0 } else { first as u32 });
                out.push(used as u32);
                for bucket in first..first + used {
                    out.push_long(of(bucket));
                }
            });
            match next(end) {
                Some(bucket) => first = bucket,
                None => return,
            }
        }
    }
}
