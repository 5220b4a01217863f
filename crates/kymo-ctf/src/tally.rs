//! How much of what is in a trace, and no more than that: every header decoded, every record stepped over, no field read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::clock::Ticks;
use crate::item::{LossKind, Problem};
use crate::source::Slice;
use crate::stream::{Next, Note, Stream};
use crate::tournament::Tournament;
use crate::trace::TraceMap;

/// What one stream has and lost.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamTally {
    /// Name of the stream file.
    pub name: String,
    /// Event records.
    pub events: u64,
    /// Event records that the trace says were lost.
    pub lost_events: u64,
    /// Packets that the trace says were lost.
    pub lost_packets: u64,
}

/// What a trace has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    /// Events by name and CPU; `None` is a stream that says no CPU.
    pub events: BTreeMap<(Arc<str>, Option<u64>), u64>,
    /// The streams, in order.
    pub streams: Vec<StreamTally>,
    /// What was wrong; at most this many of each stream are kept: [`Tally::MOST_PROBLEMS`].
    pub problems: Vec<Problem>,
    /// How many more problems there were.
    pub more_problems: u64,
}

impl Tally {
    /// Problems that are kept of each stream.
    pub const MOST_PROBLEMS: u64 = 100;

    /// Counts a trace: with one job its streams merged in the order of time, with more the streams shared out to as many threads.
    pub fn of(trace: &TraceMap, jobs: usize, strict: bool) -> Tally {
        Tally::watched(trace, jobs, strict, &|_| ())
    }

    /// The same; `watch` is told how many bytes more were read, packet by packet.
    pub fn watched(trace: &TraceMap, jobs: usize, strict: bool, watch: &(dyn Fn(u64) + Sync)) -> Tally {
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

    fn read<'a>(streams: impl IntoIterator<Item = Stream<Slice<'a>>>, strict: bool, watch: &dyn Fn(u64)) -> Tally {
        let mut tally = Tally::default();
        let streams: Vec<_> = streams.into_iter().collect();
        let clocks = streams.first().map(|stream| stream.metadata.clocks.clone()).unwrap_or_default();
        let one_clock = clocks.len() == 1 && streams.iter().all(|stream| stream.metadata.clocks == clocks);
        let mut counters = Vec::new();
        for (place, mut stream) in streams.into_iter().enumerate() {
            tally.streams.push(StreamTally { name: stream.name.to_string(), ..StreamTally::default() });
            stream.strict = strict;
            counters.push(Counter::new(stream, place, one_clock));
        }
        if let [counter] = &mut counters[..] {
            counter.count_alone(&mut tally, watch);
            return tally;
        }
        let times: Vec<_> = counters.iter_mut().map(|counter| counter.refill(&mut tally, watch)).collect();
        let mut tournament = Tournament::new(&times);
        let mut winner = tournament.winner();
        while let Some(counter) = winner.and_then(|place| counters.get_mut(place)) {
            let time = counter.count_before(tournament.rival()).or_else(|| counter.refill(&mut tally, watch));
            winner = tournament.replace_winner(time);
        }
        tally
    }
}

/// Records that are read of a stream before another one is looked at.
const RUN: usize = 64;

/// A stream being counted.
struct Counter<'a> {
    stream: Stream<Slice<'a>>,
    place: usize,
    one_clock: bool,
    /// Times and classes of the records read ahead.
    run: [(u64, u32); RUN],
    next: usize,
    end: usize,
    /// Events by class, of one CPU.
    counts: Vec<u64>,
    cpu: Option<u64>,
    /// The stream's count of packets, the first of its plan's places in `counts`, and where the packet begins in the file.
    packets: u64,
    first_index: usize,
    offset: u64,
    problems: u64,
}

impl<'a> Counter<'a> {
    fn new(stream: Stream<Slice<'a>>, place: usize, one_clock: bool) -> Self {
        let counts = vec![0; stream.metadata.event_class_count()];
        Counter {
            stream,
            place,
            one_clock,
            run: [(0, 0); RUN],
            next: 0,
            end: 0,
            counts,
            cpu: None,
            packets: 0,
            first_index: 0,
            offset: 0,
            problems: 0,
        }
    }

    /// Counts the next record, and those behind it that come before `rival`; gives the time of the next one, if that was read ahead.
    #[inline(always)]
    fn count_before(&mut self, rival: u64) -> Option<u64> {
        let ahead = self.run.get(self.next..self.end)?;
        for (index, (time, event)) in ahead.iter().enumerate() {
            if index > 0 && *time >= rival {
                self.next += index;
                return Some(*time);
            }
            if let Some(count) = self.counts.get_mut(self.first_index + *event as usize) {
                *count += 1;
            }
        }
        self.next = self.end;
        None
    }

    /// Counts all of a stream that there is nothing to merge with: its records need not be read ahead.
    fn count_alone(&mut self, tally: &mut Tally, watch: &dyn Fn(u64)) {
        loop {
            let (counts, first_index) = (&mut self.counts, self.first_index);
            self.stream.run_quickly(usize::MAX, |record, _| {
                if let Some(count) = counts.get_mut(first_index + record.event as usize) {
                    *count += 1;
                }
            });
            if self.refill(tally, watch).is_none() {
                return;
            }
            self.count_before(u64::MAX);
        }
    }

    /// Reads ahead; gives the time of the next record, `None` at the end of the stream.
    #[inline(never)]
    fn refill(&mut self, tally: &mut Tally, watch: &dyn Fn(u64)) -> Option<u64> {
        (self.next, self.end) = (0, 0);
        let mut end = 0;
        self.stream.run_quickly(RUN, |record, time| {
            if let Some(cell) = self.run.get_mut(end) {
                *cell = (time, record.event);
                end += 1;
            }
        });
        self.end = end;
        while self.end == 0 {
            match self.stream.advance() {
                Next::Event => {
                    if self.stream.packets != self.packets {
                        self.new_packet(tally, watch);
                    }
                    self.run = [(self.stream.clock, self.stream.record.event); RUN];
                    self.end = 1;
                }
                Next::Note => self.note(tally),
                Next::End => {
                    self.flush(tally);
                    return None;
                }
            }
        }
        if !self.one_clock {
            self.compare_by_nanos();
        }
        self.run.first().map(|(time, _)| *time)
    }

    /// Makes times of several clocks comparable: nanoseconds within 292 years of the origin, in the order of unsigned numbers.
    fn compare_by_nanos(&mut self) {
        let clock = self.stream.plan().and_then(|plan| plan.class.clock.clone());
        for (time, _) in self.run.iter_mut().take(self.end) {
            let nanos = clock.as_ref().map_or(i128::from(i64::MIN), |clock| clock.nanos_from_origin(Ticks(*time)));
            *time = (nanos.clamp(i64::MIN.into(), i64::MAX.into()) - i128::from(i64::MIN)) as u64;
        }
    }

    fn note(&mut self, tally: &mut Tally) {
        match self.stream.note.take() {
            Some(Note::Loss(loss)) => {
                let Some(stream) = tally.streams.get_mut(self.place) else { return };
                let lost = match loss.kind {
                    LossKind::Events => &mut stream.lost_events,
                    LossKind::Packets => &mut stream.lost_packets,
                };
                *lost = lost.saturating_add(loss.count);
            }
            Some(Note::Problem(problem)) if self.problems < Tally::MOST_PROBLEMS => {
                self.problems += 1;
                tally.problems.push(problem);
            }
            Some(Note::Problem(_)) => tally.more_problems += 1,
            Some(Note::Packet) | None => {}
        }
    }

    fn new_packet(&mut self, tally: &mut Tally, watch: &dyn Fn(u64)) {
        let cpu = self.stream.head.as_ref().and_then(|head| head.cpu);
        if cpu != self.cpu {
            self.flush(tally);
            self.cpu = cpu;
        }
        self.packets = self.stream.packets;
        self.first_index = self.stream.plan().map_or(0, |plan| plan.first_index);
        watch(self.stream.offset.saturating_sub(self.offset));
        self.offset = self.stream.offset;
    }

    /// What was counted, to the tally.
    fn flush(&mut self, tally: &mut Tally) {
        let Some(stream) = tally.streams.get_mut(self.place) else { return };
        for class in self.stream.metadata.streams().flat_map(|stream| stream.events.values()) {
            let Some(count) = self.counts.get_mut(class.index()) else { continue };
            if *count > 0 {
                stream.events += *count;
                *tally.events.entry((Arc::clone(&class.name), self.cpu)).or_default() += *count;
                *count = 0;
            }
        }
    }
}
