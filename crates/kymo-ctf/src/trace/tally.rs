//! Counts the contents of a trace: decodes every header, skips every record, reads no fields.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::stream::item::{LossKind, Problem};
use crate::stream::source::Slice;
use crate::stream::{Next, Note, Stream};
use crate::trace::TraceMap;
use crate::trace::merge::{Merger, RUN, Run, Sources};

/// Counts of one stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamTally {
    /// Name of the stream file.
    pub name: String,
    /// Event records.
    pub events: u64,
    /// Lost event records, as reported in the trace.
    pub lost_events: u64,
    /// Lost packets, as reported in the trace.
    pub lost_packets: u64,
}

/// Counts of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    /// Events by name and CPU; `None` for packets that do not record their CPU.
    pub events: BTreeMap<(Arc<str>, Option<u64>), u64>,
    /// The streams, in order.
    pub streams: Vec<StreamTally>,
    /// Problems, at most [`Tally::MOST_PROBLEMS`] of each stream.
    pub problems: Vec<Problem>,
    /// Number of further problems.
    pub more_problems: u64,
}

impl Tally {
    /// Limit on the problems kept of each stream.
    pub const MOST_PROBLEMS: u64 = 100;

    /// Counts a trace. One job reads the streams merged by time; several jobs distribute the
    /// streams over as many threads.
    pub fn of(trace: &TraceMap, jobs: usize, strict: bool) -> Tally {
        Tally::watched(trace, jobs, strict, &|_| ())
    }

    /// Counts a trace as [`Tally::of`] does; after each packet, `watch` is passed the number of
    /// bytes read.
    pub fn watched(
        trace: &TraceMap,
        jobs: usize,
        strict: bool,
        watch: &(dyn Fn(u64) + Sync),
    ) -> Tally {
        let count = trace.streams().count();
        let jobs = jobs.min(count);
        if jobs <= 1 {
            return Tally::read(trace.unread(), strict, watch);
        }
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            loop {
                let place = next.fetch_add(1, Ordering::Relaxed);
                let stream = trace.unread().nth(place);
                if stream.is_none() {
                    return done;
                }
                done.push((place, Tally::read(stream, strict, watch)));
                trace.read_through(place);
            }
        };
        let mut tallies: Vec<(usize, Tally)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (1..jobs).map(|_| scope.spawn(work)).collect();
            let mut all = work();
            for thread in threads {
                match thread.join() {
                    Ok(done) => all.extend(done),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            all
        });
        tallies.sort_by_key(|(place, _)| *place);
        let mut sum = Tally::default();
        for (_, tally) in tallies {
            sum.add(tally);
        }
        sum
    }

    fn add(&mut self, other: Tally) {
        for (key, count) in other.events {
            *self.events.entry(key).or_default() += count;
        }
        self.streams.extend(other.streams);
        self.problems.extend(other.problems);
        self.more_problems += other.more_problems;
    }

    fn read<'a>(
        streams: impl IntoIterator<Item = Stream<Slice<'a>>>,
        strict: bool,
        watch: &dyn Fn(u64),
    ) -> Tally {
        let streams: Vec<_> = streams.into_iter().collect();
        let clocks = streams
            .first()
            .map(|stream| stream.metadata().clocks.clone())
            .unwrap_or_default();
        let one_clock = clocks.len() == 1
            && streams
                .iter()
                .all(|stream| stream.metadata().clocks == clocks);
        let classes: usize = streams
            .iter()
            .map(|stream| stream.metadata().event_class_count())
            .sum();
        let most_counts = classes.saturating_mul(4) + 1024;
        let mut counting = Counting {
            counters: Vec::new(),
            counts: Vec::new(),
            most_counts,
            tally: Tally::default(),
            one_clock,
            watch,
        };
        for mut stream in streams {
            counting.tally.streams.push(StreamTally {
                name: stream.name.to_string(),
                ..StreamTally::default()
            });
            stream.strict = strict;
            counting.counters.push(Counter {
                stream,
                groups: BTreeMap::new(),
                base: 0,
                packets: 0,
                offset: 0,
                problems: 0,
            });
        }
        match counting.counters.len() {
            1 => counting.count_alone(),
            sources => counting.count_merged(sources),
        }
        counting.flush();
        counting.tally
    }
}

/// State of counting a trace.
struct Counting<'a, 'w> {
    counters: Vec<Counter<'a>>,
    /// Events by stream, CPU and class, at indices kept by the counters.
    counts: Vec<u64>,
    /// When `counts` is larger than this, it is flushed into the tally: a stream may name another
    /// CPU in each packet.
    most_counts: usize,
    tally: Tally,
    one_clock: bool,
    watch: &'w dyn Fn(u64),
}

/// State of counting a stream.
struct Counter<'a> {
    stream: Stream<Slice<'a>>,
    /// Index of the first count of each CPU.
    groups: BTreeMap<Option<u64>, usize>,
    /// Index of the count of the current packet's first class.
    base: usize,
    /// The stream's packet count, and the file offset of the current packet.
    packets: u64,
    offset: u64,
    problems: u64,
}

impl Sources for Counting<'_, '_> {
    #[inline(never)]
    fn refill(&mut self, place: usize, run: &mut Run) {
        let Some(counter) = self.counters.get_mut(place) else {
            return;
        };
        let base = counter.base as u32;
        let mut records = counter.stream.skim(RUN, |place, record, time| {
            run.put(place, time, base + record.event)
        });
        if records == 0 {
            let Some((time, key)) = self.next_slowly(place) else {
                return;
            };
            run.put(0, time, key);
            records = 1;
        }
        run.set_len(records);
        if !self.one_clock
            && let Some(counter) = self.counters.get(place)
        {
            counter.stream.make_comparable(run.times());
        }
    }
}

impl Counting<'_, '_> {
    /// Counts streams merged by time.
    fn count_merged(&mut self, sources: usize) {
        let mut merger = Merger::new(sources);
        while let stretch @ [_, ..] = merger.stretch(self) {
            stretch.iter().for_each(|entry| self.take(entry.tag));
            if self.is_full() {
                merger.drain(|key| self.take(key));
                self.make_room();
            }
        }
    }

    #[inline(always)]
    fn take(&mut self, key: u32) {
        if let Some(count) = self.counts.get_mut(key as usize) {
            *count += 1;
        }
    }

    fn is_full(&self) -> bool {
        self.counts.len() > self.most_counts
    }

    /// Flushes the counts into the tally.
    fn make_room(&mut self) {
        self.flush();
        for place in 0..self.counters.len() {
            self.find_group(place);
        }
    }

    /// Counts a single stream, which needs no read-ahead for a merge.
    fn count_alone(&mut self) {
        loop {
            let Some(counter) = self.counters.first_mut() else {
                return;
            };
            let counts = self.counts.get_mut(counter.base..).unwrap_or_default();
            counter.stream.skim(usize::MAX, |_, record, _| {
                if let Some(count) = counts.get_mut(record.event as usize) {
                    *count += 1;
                }
            });
            if self.is_full() {
                self.make_room();
            }
            let Some((_, key)) = self.next_slowly(0) else {
                return;
            };
            self.take(key);
        }
    }

    /// The time of the next record and the index of its count; `None` at the stream's end. Adds the
    /// notes before it to the tally.
    fn next_slowly(&mut self, place: usize) -> Option<(u64, u32)> {
        loop {
            let counter = self.counters.get_mut(place)?;
            match counter.stream.advance() {
                Next::Event => {
                    if counter.stream.packet.count != counter.packets {
                        self.new_packet(place);
                    }
                    let counter = self.counters.get(place)?;
                    return Some((
                        counter.stream.clock.now,
                        counter.base as u32 + counter.stream.record.event,
                    ));
                }
                Next::Note => self.note(place),
                Next::End => return None,
            }
        }
    }

    fn note(&mut self, place: usize) {
        let (Some(counter), Some(tally)) = (
            self.counters.get_mut(place),
            self.tally.streams.get_mut(place),
        ) else {
            return;
        };
        match counter.stream.notes.current.take() {
            Some(Note::Loss(loss)) => {
                let lost = match loss.kind {
                    LossKind::Events => &mut tally.lost_events,
                    LossKind::Packets => &mut tally.lost_packets,
                };
                *lost = lost.saturating_add(loss.count);
            }
            Some(Note::Problem(problem)) if counter.problems < Tally::MOST_PROBLEMS => {
                counter.problems += 1;
                self.tally.problems.push(problem);
            }
            Some(Note::Problem(_)) => self.tally.more_problems += 1,
            Some(Note::Packet) | None => {}
        }
    }

    fn new_packet(&mut self, place: usize) {
        self.find_group(place);
        let Some(counter) = self.counters.get_mut(place) else {
            return;
        };
        counter.packets = counter.stream.packet.count;
        (self.watch)(counter.stream.packet.offset.saturating_sub(counter.offset));
        counter.offset = counter.stream.packet.offset;
    }

    /// Sets the counts for the events of the current packet.
    fn find_group(&mut self, place: usize) {
        let Some(counter) = self.counters.get_mut(place) else {
            return;
        };
        let cpu = counter
            .stream
            .packet
            .head
            .as_ref()
            .and_then(|head| head.cpu);
        let group = *counter.groups.entry(cpu).or_insert_with(|| {
            let group = self.counts.len();
            self.counts
                .resize(group + counter.stream.metadata().event_class_count(), 0);
            group
        });
        counter.base = group + counter.stream.plan().map_or(0, |plan| plan.first_index);
    }

    /// Adds the counts to the tally.
    fn flush(&mut self) {
        for (counter, tally) in self.counters.iter_mut().zip(&mut self.tally.streams) {
            for (cpu, group) in std::mem::take(&mut counter.groups) {
                let counts = self.counts.get(group..).unwrap_or_default();
                for class in counter
                    .stream
                    .metadata()
                    .streams()
                    .flat_map(|stream| stream.events.values())
                {
                    let count = counts.get(class.index()).copied().unwrap_or(0);
                    if count > 0 {
                        tally.events += count;
                        *self
                            .tally
                            .events
                            .entry((Arc::clone(&class.name), cpu))
                            .or_default() += count;
                    }
                }
            }
        }
        self.counts.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets of two records, each packet of another CPU.
    fn stream(packets: u64, first_cpu: u64) -> Vec<u8> {
        let packet = |number: u64| {
            let time = |step: u64| number * 10 + step * 3 + first_cpu;
            [first_cpu + number, 4 * 64, time(0), time(1)]
                .into_iter()
                .flat_map(u64::to_le_bytes)
        };
        (0..packets).flat_map(packet).collect()
    }

    #[test]
    fn counts_of_many_cpus_are_put_away_and_none_is_lost() {
        let text = "/* CTF 1.8 */
            typealias integer { size = 64; align = 8; } := u64;
            trace { major = 1; minor = 8; byte_order = le; };
            clock { name = c; };
            stream {
                packet.context := struct { u64 cpu_id; u64 packet_size; };
                event.header := struct { integer { size = 64; align = 8; map = clock.c.value; } t; };
            };
            event { name = tick; };";
        let metadata = Arc::new(crate::Metadata::parse(text).unwrap());
        let plans = crate::decode::plan::Plans::of(&metadata);
        let name: Arc<str> = Arc::from("tick");
        for count in 1..4 {
            let bytes: Vec<_> = (0..count).map(|place| stream(5_000, place * 3)).collect();
            let streams = bytes
                .iter()
                .map(|bytes| Stream::new(Arc::clone(&plans), "s", Slice::new(bytes)));
            let tally = Tally::read(streams, true, &|_| ());
            assert!(tally.problems.is_empty(), "{:?}", tally.problems);
            assert!(
                tally.streams.iter().all(|stream| stream.events == 10_000),
                "{:?}",
                tally.streams
            );
            let mut wanted = BTreeMap::new();
            for cpu in (0..count).flat_map(|place| place * 3..place * 3 + 5_000) {
                *wanted.entry((Arc::clone(&name), Some(cpu))).or_insert(0) += 2;
            }
            assert!(tally.events == wanted, "{count} streams");
        }
    }
}
