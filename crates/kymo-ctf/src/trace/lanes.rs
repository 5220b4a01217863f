//! Merges streams by time, reading each a few records ahead.

use crate::metadata::clock::Ticks;
use crate::stream::source::Source;
use crate::stream::{Next, Note, Record, Stream};
use crate::trace::merge::{Merger, Run, Sources};

/// Records to read ahead in a stream: fewer than a run can hold, so that those of several streams
/// fit into the L1 cache.
const AHEAD: usize = 64;

/// Streams merged by time.
#[derive(Debug)]
pub(crate) struct Lanes<S> {
    lanes: Vec<Lane<S>>,
    merger: Merger,
    /// Whether all streams have the same clock, so that times compare directly.
    one_clock: bool,
    /// Beginning of the earliest stream, in nanoseconds from the clock's origin.
    begin: Option<i128>,
}

/// A stream and the records read ahead, all of which are in its current packet.
#[derive(Debug)]
pub(crate) struct Lane<S> {
    pub(crate) stream: Stream<S>,
    /// The stream's next record or note.
    pub(crate) next: Next,
    records: Box<[(Record, u64)]>,
    given: usize,
    /// Merge key of the last item read ahead.
    time: u64,
}

impl<S: Source> Lanes<S> {
    /// Lanes over unread streams.
    pub(crate) fn new(streams: impl IntoIterator<Item = Stream<S>>) -> Self {
        let lanes = streams.into_iter().map(|stream| Lane {
            stream,
            next: Next::End,
            records: vec![Default::default(); AHEAD].into(),
            given: 0,
            time: 0,
        });
        let lanes: Vec<_> = lanes.collect();
        let clocks = |lane: &Lane<S>| lane.stream.metadata().clocks.clone();
        let first = lanes.first().map(clocks).unwrap_or_default();
        let one_clock = first.len() == 1 && lanes.iter().all(|lane| clocks(lane) == first);
        let mut lanes = Lanes {
            merger: Merger::new(lanes.len()),
            lanes,
            one_clock,
            begin: None,
        };
        lanes.arrange();
        lanes.begin = lanes.begin();
        lanes
    }

    /// Beginning of the earliest stream; streams without records count only if there are no others.
    fn begin(&self) -> Option<i128> {
        let streams = || self.lanes.iter().map(|lane| &lane.stream);
        let begun = streams().filter(|stream| stream.has_begun);
        let begins = begun.filter_map(|stream| stream.first_begin);
        begins
            .min()
            .or_else(|| streams().filter_map(|stream| stream.first_begin).min())
    }

    /// Orders the next records of all streams.
    #[inline(never)]
    fn arrange(&mut self) {
        self.merger.arrange(&mut Reading {
            lanes: &mut self.lanes,
            one_clock: self.one_clock,
        });
    }

    /// Restarts with other streams in place of the current ones.
    pub(crate) fn restart(&mut self, mut stream: impl FnMut(usize, &Stream<S>) -> Stream<S>) {
        for (place, lane) in self.lanes.iter_mut().enumerate() {
            lane.stream = stream(place, &lane.stream);
            (lane.time, lane.given) = (0, 0);
        }
        self.merger = Merger::new(self.lanes.len());
        self.arrange();
    }

    /// Beginning of the earliest stream, in nanoseconds from the clock's origin.
    pub(crate) fn begin_nanos(&self) -> Option<i128> {
        self.begin
    }

    /// Advances to the next item; returns the index of its stream, and the stream.
    #[inline(always)]
    pub(crate) fn advance(&mut self) -> Option<(usize, &mut Lane<S>)> {
        let place = match self.merger.next() {
            Some(place) => place,
            None => {
                self.arrange();
                self.merger.next()?
            }
        } as usize;
        let lane = self.lanes.get_mut(place)?;
        if lane.next == Next::Event
            && let Some((record, time)) = lane.records.get(lane.given)
        {
            (lane.stream.record, lane.stream.clock.now) = (*record, *time);
            lane.given += 1;
        }
        Some((place, lane))
    }

    /// Ends the reading.
    pub(crate) fn end(&mut self) {
        self.merger = Merger::new(0);
    }

    #[inline(always)]
    pub(crate) fn get(&self, place: usize) -> Option<&Lane<S>> {
        self.lanes.get(place)
    }
}

/// The streams as sources of the merge; a record's tag is the index of its stream.
struct Reading<'l, S> {
    lanes: &'l mut [Lane<S>],
    one_clock: bool,
}

impl<S: Source> Sources for Reading<'_, S> {
    fn refill(&mut self, place: usize, run: &mut Run) {
        if let Some(lane) = self.lanes.get_mut(place) {
            lane.refill(place as u32, self.one_clock, run);
        }
    }
}

impl<S: Source> Lane<S> {
    /// Reads ahead. Once all records read ahead have been given out, the stream's own state is that
    /// of the last one.
    #[inline(never)]
    fn refill(&mut self, place: u32, one_clock: bool, run: &mut Run) {
        self.given = 0;
        let cells = &mut self.records;
        let mut count = self.stream.skim(AHEAD, |at, record, time| {
            if let Some(cell) = cells.get_mut(at) {
                *cell = (record, time);
            }
            run.put(at, time, place);
        });
        self.next = Next::Event;
        if count == 0 {
            self.next = self.stream.advance();
            count = match self.next {
                Next::End => return,
                Next::Event => {
                    if let Some(cell) = self.records.first_mut() {
                        *cell = (self.stream.record, self.stream.clock.now);
                    }
                    run.put(0, self.stream.clock.now, place);
                    1
                }
                Next::Note => {
                    run.put(0, self.note_time(one_clock).unwrap_or(0), place);
                    1
                }
            };
        }
        run.set_len(count);
        if !one_clock && self.next == Next::Event {
            self.stream.make_comparable(run.times());
        }
        // Keep times monotonic: problems have no time, and a loss begins before it is reported.
        for time in run.times().take_while(|time| **time < self.time) {
            *time = self.time;
        }
        self.time = run.times().next_back().copied().unwrap_or(self.time);
    }

    /// The time of a note.
    fn note_time(&self, one_clock: bool) -> Option<u64> {
        let ticks = match self.stream.notes.current.as_ref()? {
            Note::Loss(loss) => loss.begin?,
            Note::Problem(_) => return None,
            Note::Packet => Ticks(self.stream.packet.begin?),
        };
        let mut time = ticks.0;
        if !one_clock {
            self.stream.make_comparable([&mut time]);
        }
        Some(time)
    }
}
