//! Items of several streams in time order, as owned values.

use std::collections::VecDeque;
use std::io::Read;

use crate::error::Error;
use crate::stream::Next;
use crate::stream::item::Item;
use crate::stream::reader::{PacketCache, StreamReader};
use crate::stream::source::Reading;
use crate::trace::lanes::Lanes;

/// Iterates over the items of several streams in time order; items of the same time come in the
/// order of the streams.
///
/// Each stream has one packet in memory, so memory use does not depend on the length of the trace.
/// A stream's error takes the place of its next item; the other streams continue.
#[derive(Debug)]
pub struct Merge<R> {
    lanes: Lanes<Reading<R>>,
    /// The packet of each stream's last event.
    packets: Vec<PacketCache>,
    /// Streams that could not be opened.
    failed: VecDeque<Error>,
}

impl<R: Read> Merge<R> {
    /// Merges `streams`, whose order decides between items of the same time. Errors of streams that
    /// could not be opened come first.
    pub fn new(streams: impl IntoIterator<Item = Result<StreamReader<R>, Error>>) -> Self {
        let (mut opened, mut failed) = (Vec::new(), VecDeque::new());
        for stream in streams {
            match stream {
                Ok(reader) => opened.push(reader.into_stream()),
                Err(error) => failed.push_back(error),
            }
        }
        Merge {
            packets: opened.iter().map(|_| PacketCache::default()).collect(),
            lanes: Lanes::new(opened),
            failed,
        }
    }

    /// Beginning of the earliest stream, in nanoseconds from the clock's origin.
    pub fn begin_nanos(&self) -> Option<i128> {
        self.lanes.begin_nanos()
    }
}

impl<R: Read> Iterator for Merge<R> {
    type Item = Result<Item, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.failed.pop_front() {
            return Some(Err(error));
        }
        let (place, lane) = self.lanes.advance()?;
        match lane.next {
            Next::Event => {
                let event = self.packets.get_mut(place)?.event(&lane.stream)?;
                Some(Ok(Item::Event(event)))
            }
            Next::Note => lane.stream.notes.current.take()?.into_item(),
            Next::End => None,
        }
    }
}
