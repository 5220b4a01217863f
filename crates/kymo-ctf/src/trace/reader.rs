//! Several streams in memory as one, in the order of time, without a copy.

use std::sync::Arc;

use crate::decode::plan::Plans;
use crate::metadata::Metadata;
use crate::stream::event_ref::{EventRef, ItemRef};
use crate::stream::source::Slice;
use crate::stream::{Next, Note, Stream};
use crate::trace::lanes::{Lane, Lanes};

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
    lanes: Lanes<Slice<'t>>,
    interval: Option<Interval>,
}

/// The nanoseconds from the clock's origin that are asked for, both ends included.
#[derive(Debug, Clone, Copy)]
struct Interval {
    from: Option<i128>,
    to: Option<i128>,
}

/// Where an item is, seen from an interval.
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
    /// Reads streams: of each its metadata, its name and its bytes.
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

    /// Reads streams of which nothing was read yet.
    pub(crate) fn of(streams: impl IntoIterator<Item = Stream<Slice<'t>>>) -> Self {
        Reader {
            lanes: Lanes::new(streams),
            interval: None,
        }
    }

    /// Makes every [problem](crate::Problem) the end of its stream. Reading begins again.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.lanes.restart(|_, stream| stream.unread(strict));
        self
    }

    /// Reads only what is in an interval: events from `from` to `to`, in nanoseconds from the
    /// clock's origin, both included, and losses whose interval touches it; `None` is without
    /// bound. Reading begins again.
    ///
    /// Packets' times are used as an index: of each stream reading begins with the last packet that
    /// begins before `from`, and losses are those that a whole pass finds. Packets outside of the
    /// interval are not looked at, so that their problems are not found. Streams without a clock,
    /// and those whose packets do not say their times with all bits of the clock, are read from
    /// their beginning.
    #[must_use]
    pub fn between(mut self, from: Option<i128>, to: Option<i128>) -> Self {
        self.lanes.restart(|_, stream| {
            let mut stream = stream.unread(stream.strict);
            if let Some(from) = from {
                stream.skip_to(from);
            }
            stream
        });
        self.interval = (from.is_some() || to.is_some()).then_some(Interval { from, to });
        self
    }

    /// Where the earliest stream begins, in nanoseconds from the clock's origin.
    pub fn begin_nanos(&self) -> Option<i128> {
        self.lanes.begin_nanos()
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

    /// The next item of all streams, and its stream's place among those read.
    #[inline]
    pub fn next_with_place(&mut self) -> Option<(usize, ItemRef<'_>)> {
        let place = match self.interval {
            None => self.lanes.advance()?,
            Some(interval) => self.advance_in(interval)?,
        };
        let item = self.lanes.get(place)?.item(place)?;
        Some((place, item))
    }

    /// Goes on to the next item in the interval.
    #[inline(never)]
    fn advance_in(&mut self, interval: Interval) -> Option<usize> {
        loop {
            let place = self.lanes.advance()?;
            match interval.side(&self.item(place)?) {
                Side::Before => {}
                Side::Inside => return Some(place),
                // Nothing that comes later is earlier.
                Side::Behind => {
                    self.lanes.end();
                    return None;
                }
            }
        }
    }

    /// Goes on to the next item: the place of its stream, and what it is.
    pub(crate) fn step(&mut self) -> Option<(usize, Next)> {
        let place = self.lanes.advance()?;
        Some((place, self.lanes.get(place)?.next))
    }

    /// The stream at this place.
    pub(crate) fn stream(&self, place: usize) -> Option<&Stream<Slice<'t>>> {
        self.lanes.get(place).map(|lane| &lane.stream)
    }

    /// The item that the stream at this place has come to, unless a packet begins there.
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
