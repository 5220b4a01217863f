//! Several streams as one, in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Read;

use crate::error::Error;
use crate::stream::item::Item;
use crate::stream::reader::StreamReader;

/// All items of several streams, earliest first; items of the same time in the order of the
/// streams.
///
/// Every stream has one item waiting, so memory does not depend on how long the trace is. A
/// stream's error comes where its next item would have come, and the other streams go on.
#[derive(Debug)]
pub struct Merge<R> {
    streams: Vec<Source<R>>,
    /// The waiting item's key and its stream's place.
    heap: BinaryHeap<Reverse<(Key, usize)>>,
}

#[derive(Debug)]
struct Source<R> {
    /// `None` if the stream could not even be opened.
    reader: Option<StreamReader<R>>,
    waiting: Option<Result<Item, Error>>,
    /// Key of the last item, which errors and items without a time keep.
    key: Key,
}

/// Nanoseconds; then ticks, which tell apart what happened in one nanosecond of one clock.
type Key = (i128, u64);

const FIRST: Key = (i128::MIN, 0);

impl<R: Read> Merge<R> {
    /// Merges `streams`, whose order decides between items of the same time. A stream that could
    /// not be opened is given as its error.
    pub fn new(streams: impl IntoIterator<Item = Result<StreamReader<R>, Error>>) -> Self {
        let sources = streams.into_iter().map(|stream| match stream {
            Ok(reader) => Source {
                reader: Some(reader),
                waiting: None,
                key: FIRST,
            },
            Err(error) => Source {
                reader: None,
                waiting: Some(Err(error)),
                key: FIRST,
            },
        });
        let mut merge = Merge {
            streams: sources.collect(),
            heap: BinaryHeap::new(),
        };
        for place in 0..merge.streams.len() {
            merge.fetch(place);
        }
        merge
    }

    /// Where the earliest stream begins, in nanoseconds from the clock's origin.
    pub fn begin_nanos(&self) -> Option<i128> {
        let readers = self
            .streams
            .iter()
            .filter_map(|source| source.reader.as_ref());
        readers.filter_map(StreamReader::begin_nanos).min()
    }

    fn fetch(&mut self, place: usize) {
        let Some(source) = self.streams.get_mut(place) else {
            return;
        };
        if source.waiting.is_none() {
            source.waiting = source.reader.as_mut().and_then(Iterator::next);
        }
        match &source.waiting {
            None => return,
            Some(Ok(item)) => {
                let one_clock = source
                    .reader
                    .as_ref()
                    .is_some_and(StreamReader::has_one_clock);
                source.key = key(item, one_clock).unwrap_or(source.key);
            }
            Some(Err(_)) => {}
        }
        self.heap.push(Reverse((source.key, place)));
    }
}

fn key(item: &Item, one_clock: bool) -> Option<Key> {
    let nanos = match item {
        Item::Event(event) => event.nanos(),
        Item::Loss(loss) => loss.begin_nanos,
        Item::Problem(_) => None,
    };
    // Ticks of different clocks cannot be compared.
    let ticks = item.time().filter(|_| one_clock);
    Some((nanos?, ticks.map_or(0, |ticks| ticks.0)))
}

impl<R: Read> Iterator for Merge<R> {
    type Item = Result<Item, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let Reverse((_, place)) = self.heap.pop()?;
        let item = self.streams.get_mut(place)?.waiting.take();
        self.fetch(place);
        item
    }
}
