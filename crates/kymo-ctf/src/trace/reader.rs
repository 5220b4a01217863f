//! Reads several streams in memory as one, in time order, without copying.

use std::sync::Arc;

use crate::decode::plan::Plans;
use crate::metadata::Metadata;
use crate::stream::event_ref::{EventRef, ItemRef};
use crate::stream::source::Slice;
use crate::stream::{Next, Note, Stream};
use crate::trace::lanes::{Lane, Lanes};

/// Reads the items of streams in memory in time order; items of the same time come in the order of
/// the streams.
///
/// An item is borrowed until the next one is read. The reader keeps no items, so its memory use
/// does not depend on the length of the trace.
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
    lanes: Lanes<Slice<'t>>,
    interval: Option<Interval>,
}

/// An inclusive interval in nanoseconds from the clock's origin.
#[derive(Debug, Clone, Copy)]
struct Interval {
    from: Option<i128>,
    to: Option<i128>,
}

/// Position of an item relative to an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    Inside,
    Behind,
}

impl Interval {
    fn side(self, item: &ItemRef<'_>) -> Side {
        let (begin, end) = match item {
            ItemRef::Event(event) => (event.nanos(), event.nanos()),
            ItemRef::Loss(loss) => (loss.begin_nanos, loss.end_nanos),
            ItemRef::Problem(_) => (None, None),
        };
        if let (Some(to), Some(begin)) = (self.to, begin)
            && begin > to
        {
            Side::Behind
        } else if let (Some(from), Some(end)) = (self.from, end)
            && end < from
        {
            Side::Before
        } else {
            Side::Inside
        }
    }
}

impl<'t> Reader<'t> {
    /// A reader of streams, each given by its metadata, name and bytes.
    pub fn new<'m>(
        streams: impl IntoIterator<Item = (&'m Arc<Metadata>, &'m str, &'t [u8])>,
    ) -> Self {
        let mut compiled: Vec<Arc<Plans>> = Vec::new();
        let mut plans_of = |metadata: &Arc<Metadata>| {
            let mut known = compiled.iter();
            match known.find(|plans| Arc::ptr_eq(&plans.metadata, metadata)) {
                Some(plans) => Arc::clone(plans),
                None => {
                    let plans = Plans::of(metadata);
                    compiled.push(Arc::clone(&plans));
                    plans
                }
            }
        };
        let streams = streams.into_iter();
        Reader::of(streams.map(|(metadata, name, bytes)| {
            Stream::new(plans_of(metadata), name, Slice::new(bytes))
        }))
    }

    /// A reader of unread streams.
    pub(crate) fn of(streams: impl IntoIterator<Item = Stream<Slice<'t>>>) -> Self {
        Reader {
            lanes: Lanes::new(streams),
            interval: None,
        }
    }

    /// Makes every [problem](crate::Problem) the end of its stream. Restarts the reading.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.lanes.restart(|_, stream| stream.unread(strict));
        self
    }

    /// Restricts reading to an interval: events from `from` to `to`, in nanoseconds from the
    /// clock's origin, both included, and losses whose interval overlaps it. `None` is unbounded.
    /// Restarts the reading.
    ///
    /// Packet times are used as an index: each stream is read from the last packet that begins
    /// before `from`, and losses are the same as in a whole pass. Packets outside the interval are
    /// not read, so their problems are not reported. Streams without a clock, and those whose
    /// packets do not have full 64-bit times, are read from their beginning.
    #[must_use]
    pub fn between(mut self, from: Option<i128>, to: Option<i128>) -> Self {
        self.skip_each(|_| from);
        self.interval = (from.is_some() || to.is_some()).then_some(Interval { from, to });
        self
    }

    /// Reads each stream from the last packet that begins before its time of `from`, and all up to
    /// `to`, in nanoseconds from the clock's origin. Restarts the reading.
    pub(crate) fn resumed(mut self, from: impl Fn(usize) -> Option<i128>, to: i128) -> Self {
        self.skip_each(from);
        let (from, to) = (None, Some(to));
        self.interval = Some(Interval { from, to });
        self
    }

    /// Restarts each stream at the last packet that begins before its time.
    fn skip_each(&mut self, from: impl Fn(usize) -> Option<i128>) {
        self.lanes.restart(|place, stream| {
            let mut stream = stream.unread(stream.strict);
            if let Some(from) = from(place) {
                stream.skip_to(from);
            }
            stream
        });
    }

    /// Beginning of the earliest stream, in nanoseconds from the clock's origin.
    pub fn begin_nanos(&self) -> Option<i128> {
        self.lanes.begin_nanos()
    }

    /// The next item of all streams.
    #[expect(
        clippy::should_implement_trait,
        reason = "an item is borrowed from the reader, which `Iterator` does not allow"
    )]
    // Inlined always: what a call returns through memory is moved in wider pieces than it was
    // written in, for which the processor has to wait.
    #[inline(always)]
    pub fn next(&mut self) -> Option<ItemRef<'_>> {
        if let Some(interval) = self.interval {
            let place = self.advance_in(interval)?;
            return self.item(place);
        }
        let (place, lane) = self.lanes.advance()?;
        lane.item(place)
    }

    /// Advances to the next item, as [`next`](Self::next) does; returns the index of its stream.
    pub(crate) fn next_place(&mut self) -> Option<usize> {
        match self.interval {
            Some(interval) => self.advance_in(interval),
            None => Some(self.lanes.advance()?.0),
        }
    }

    /// Advances to the next item in the interval.
    #[inline(never)]
    fn advance_in(&mut self, interval: Interval) -> Option<usize> {
        loop {
            let (place, lane) = self.lanes.advance()?;
            match interval.side(&lane.item(place)?) {
                Side::Before => {}
                Side::Inside => return Some(place),
                // Later items are behind the interval, too.
                Side::Behind => {
                    self.lanes.end();
                    return None;
                }
            }
        }
    }

    /// Advances to the next item; returns the index of its stream, and its kind.
    pub(crate) fn step(&mut self) -> Option<(usize, Next)> {
        let (place, lane) = self.lanes.advance()?;
        Some((place, lane.next))
    }

    /// The stream at this index.
    pub(crate) fn stream(&self, place: usize) -> Option<&Stream<Slice<'t>>> {
        self.lanes.get(place).map(|lane| &lane.stream)
    }

    /// The current item of the stream at this index; `None` at the beginning of a packet.
    pub(crate) fn item(&self, place: usize) -> Option<ItemRef<'_>> {
        self.lanes.get(place)?.item(place)
    }
}

impl Lane<Slice<'_>> {
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
            Next::Note => match stream.notes.current.as_ref()? {
                Note::Loss(loss) => ItemRef::Loss(loss),
                Note::Problem(problem) => ItemRef::Problem(problem),
                Note::Packet => return None,
            },
            Next::End => return None,
        })
    }
}
