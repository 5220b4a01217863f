//! Several streams in memory as one, in the order of time, without a copy.

use std::sync::Arc;

use crate::metadata::Metadata;
use crate::metadata::clock::Ticks;
use crate::stream::event_ref::{EventRef, ItemRef};
use crate::stream::source::Slice;
use crate::stream::{Next, Note, Record, Stream};
use crate::trace::tournament::Tournament;

/// Reads streams in memory: all items, earliest first; items of the same time in the order of the
/// streams.
///
/// Items are borrowed until the next one is asked for. Nothing of a trace is kept, so that memory
/// does not depend on how long it is.
///
/// ```
/// use kymo_ctf::{ItemRef, Metadata, Reader};
/// use std::sync::Arc;
///
/// let metadata = Arc::new(Metadata::parse(
///     "/* CTF 1.8 */
///     typealias integer { size = 8; } := u8;
///     trace { major = 1; minor = 8; byte_order = le; };
///     clock { name = c; freq = 1000; };
///     stream { event.header := struct { integer { size = 8; map = clock.c.value; } t; }; };
///     event { name = tick; fields := struct { u8 count; }; };",
/// )?);
/// let mut reader = Reader::new([(&metadata, "a", &[10, 1, 30, 3][..]), (&metadata, "b", &[20, 2])]);
/// let mut counts = Vec::new();
/// while let Some(item) = reader.next() {
///     if let ItemRef::Event(event) = item {
///         counts.push(event.field("count").and_then(|count| count.as_u64()));
///     }
/// }
/// assert_eq!(counts, [Some(1), Some(2), Some(3)]);
/// # Ok::<(), kymo_ctf::Error>(())
/// ```
#[derive(Debug)]
pub struct Reader<'t> {
    streams: Vec<Source<'t>>,
    tournament: Tournament,
    /// Whether times are compared as they are: all of one clock.
    one_clock: bool,
    /// The stream whose item was given last, which goes on next.
    given: Option<usize>,
}

#[derive(Debug)]
struct Source<'t> {
    stream: Stream<Slice<'t>>,
    next: Next,
    /// The time of the item before, by which streams are merged.
    time: u64,
    /// Records read ahead, and their times; the next of them, and how many there are.
    run: [(Record, u64); RUN],
    at: usize,
    end: usize,
}

/// Records that are read ahead of a stream. All of them are in the packet that is there.
const RUN: usize = 32;

impl<'t> Reader<'t> {
    /// Reads streams: of each its metadata, its name and its bytes.
    pub fn new<'m>(
        streams: impl IntoIterator<Item = (&'m Arc<Metadata>, &'m str, &'t [u8])>,
    ) -> Self {
        let streams = streams.into_iter();
        Reader::of(streams.map(|(metadata, name, bytes)| {
            Stream::new(Arc::clone(metadata), name, Slice::new(bytes))
        }))
    }

    /// Reads streams that nothing was read of yet.
    pub(crate) fn of(streams: impl IntoIterator<Item = Stream<Slice<'t>>>) -> Self {
        let streams = streams.into_iter().map(|stream| Source {
            stream,
            next: Next::End,
            time: 0,
            run: [Default::default(); RUN],
            at: 0,
            end: 0,
        });
        let streams: Vec<_> = streams.collect();
        let clocks = |source: &Source<'_>| source.stream.metadata.clocks.clone();
        let first = streams.first().map(clocks).unwrap_or_default();
        let one_clock = first.len() == 1 && streams.iter().all(|source| clocks(source) == first);
        let mut reader = Reader {
            streams,
            tournament: Tournament::new(&[]),
            one_clock,
            given: None,
        };
        reader.start();
        reader
    }

    /// Makes every [problem](crate::Problem) the end of its stream.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        for source in &mut self.streams {
            // From the beginning, for what was read ahead.
            let (bytes, index) = (
                source.stream.source.clone(),
                Arc::clone(&source.stream.index),
            );
            source.stream = Stream::new(
                Arc::clone(&source.stream.metadata),
                &source.stream.name,
                bytes,
            );
            (source.stream.strict, source.stream.index) = (strict, index);
            (source.time, source.at, source.end) = (0, 0, 0);
        }
        self.start();
        self
    }

    /// Where the earliest stream begins, in nanoseconds from the clock's origin.
    pub fn begin_nanos(&self) -> Option<i128> {
        self.streams
            .iter()
            .filter_map(|source| source.stream.first_begin)
            .min()
    }

    fn start(&mut self) {
        let one_clock = self.one_clock;
        let times: Vec<_> = self
            .streams
            .iter_mut()
            .map(|source| source.fetch(one_clock))
            .collect();
        self.tournament = Tournament::new(&times);
        self.given = None;
    }

    /// The next item of all streams.
    #[expect(
        clippy::should_implement_trait,
        reason = "an item is borrowed from the reader, which no `Iterator` can do"
    )]
    #[inline]
    pub fn next(&mut self) -> Option<ItemRef<'_>> {
        self.next_with_place().map(|(_, item)| item)
    }

    /// The same, and the stream's place among those read.
    #[inline]
    pub fn next_with_place(&mut self) -> Option<(usize, ItemRef<'_>)> {
        let index = self.advance()?;
        let item = self.streams.get(index)?.item(index)?;
        Some((index, item))
    }

    /// Goes on to the next item: the place of its stream, and what it is.
    pub(crate) fn step(&mut self) -> Option<(usize, Next)> {
        let place = self.advance()?;
        Some((place, self.streams.get(place)?.next))
    }

    /// The stream at this place.
    pub(crate) fn stream(&self, place: usize) -> Option<&Stream<Slice<'t>>> {
        self.streams.get(place).map(|source| &source.stream)
    }

    /// The item that the stream at this place has come to, unless a packet begins there.
    pub(crate) fn item(&self, place: usize) -> Option<ItemRef<'_>> {
        self.streams.get(place)?.item(place)
    }

    /// Goes on to the next item; gives the place of its stream.
    #[inline]
    fn advance(&mut self) -> Option<usize> {
        self.given = match self.given {
            None => self.tournament.winner(),
            Some(place) => {
                let time = self.streams.get_mut(place)?.fetch(self.one_clock);
                self.tournament.replace_winner(time)
            }
        };
        self.given
    }
}

impl Source<'_> {
    #[inline]
    fn item(&self, index: usize) -> Option<ItemRef<'_>> {
        let stream = &self.stream;
        Some(match self.next {
            Next::Event => {
                let plan = stream.plan()?;
                let event = plan.events.get(stream.record.event as usize)?;
                ItemRef::Event(EventRef {
                    stream,
                    index,
                    plan: event,
                    class_of_stream: &plan.class,
                })
            }
            Next::Note => match stream.note.as_ref()? {
                Note::Loss(loss) => ItemRef::Loss(loss),
                Note::Problem(problem) => ItemRef::Problem(problem),
                Note::Packet => return None,
            },
            Next::End => return None,
        })
    }

    /// Goes to the stream's next item; gives its time.
    #[inline(always)]
    fn fetch(&mut self, one_clock: bool) -> Option<u64> {
        self.next = match self.run.get(self.at) {
            Some((record, time)) if self.at < self.end => {
                (self.stream.record, self.stream.clock) = (*record, *time);
                self.at += 1;
                Next::Event
            }
            _ => self.refill(),
        };
        let time = match self.next {
            Next::Event if one_clock => self.stream.clock,
            Next::End => return None,
            _ => self.note_time(one_clock).unwrap_or(0),
        };
        // Never before the item before: problems have no time, and a loss begins before it is told.
        self.time = self.time.max(time);
        Some(self.time)
    }

    /// Reads ahead, and goes to the first of it. When all of it was given, the stream is as reading
    /// left it.
    #[inline(never)]
    fn refill(&mut self) -> Next {
        self.at = 0;
        let run = &mut self.run;
        self.end = self.stream.run_quickly(RUN, |place, record, time| {
            if let Some(cell) = run.get_mut(place) {
                *cell = (record, time);
            }
        });
        let Some((record, time)) = self.run.first().filter(|_| self.end > 0) else {
            return self.stream.advance();
        };
        (self.stream.record, self.stream.clock) = (*record, *time);
        self.at = 1;
        Next::Event
    }

    /// The time of what is not an event of the only clock, so that times of several clocks compare.
    #[inline(never)]
    fn note_time(&self, one_clock: bool) -> Option<u64> {
        let ticks = match self.next {
            Next::Event => Ticks(self.stream.clock),
            _ => match self.stream.note.as_ref()? {
                Note::Loss(loss) => loss.begin?,
                Note::Problem(_) => return None,
                Note::Packet => Ticks(self.stream.begin?),
            },
        };
        if one_clock {
            return Some(ticks.0);
        }
        let clock = self.stream.plan()?.class.clock.as_ref()?;
        // Nanoseconds within 292 years of the origin, in the order of unsigned numbers.
        let nanos = clock
            .nanos_from_origin(ticks)
            .clamp(i64::MIN.into(), i64::MAX.into());
        Some((nanos - i128::from(i64::MIN)) as u64)
    }
}
