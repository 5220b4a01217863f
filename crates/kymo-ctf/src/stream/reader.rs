//! Reads one stream from any source of bytes, as owned values.

use std::io::Read;
use std::sync::Arc;

use crate::decode::plan::Plans;
use crate::error::Error;
use crate::metadata::Metadata;
use crate::stream::item::{Consequence, Event, Item};
use crate::stream::packet::Packet;
use crate::stream::source::{Reading, Source};
use crate::stream::{Next, Note, Stream};

/// Reads one stream from any sequential source of bytes: a file, a pipe, a slice.
///
/// Only one packet is in memory at a time. The iterator yields every record and loss in order.
/// After an error it continues with the next packet, if it finds one.
#[derive(Debug)]
pub struct StreamReader<R> {
    stream: Stream<Reading<R>>,
    packet: PacketCache,
}

/// The packet of a stream's last event, and the stream's packet count at that event.
#[derive(Debug, Default)]
pub(crate) struct PacketCache(Option<(u64, Arc<Packet>)>);

impl PacketCache {
    /// The current record of `stream`.
    pub(crate) fn event<S: Source>(&mut self, stream: &Stream<S>) -> Option<Event> {
        let packet = match &self.0 {
            Some((count, packet)) if *count == stream.packet.count => Arc::clone(packet),
            _ => {
                let packet = Arc::new(stream.packet()?);
                self.0 = Some((stream.packet.count, Arc::clone(&packet)));
                packet
            }
        };
        let plan = stream.plan()?.events.get(stream.record.event as usize)?;
        Some(stream.to_event(packet, &plan.class))
    }
}

impl Note {
    /// The item for this note; `None` for the beginning of a packet.
    pub(crate) fn into_item(self) -> Option<Result<Item, Error>> {
        Some(match self {
            Note::Packet => return None,
            Note::Loss(loss) => Ok(Item::Loss(loss)),
            Note::Problem(problem) if problem.consequence == Consequence::Clamped => {
                Ok(Item::Problem(problem))
            }
            Note::Problem(problem) => Err(problem.into()),
        })
    }
}

impl<R: Read> StreamReader<R> {
    /// A reader of `source`, called `name` in items and errors.
    pub fn new(metadata: Arc<Metadata>, name: &str, source: R) -> Self {
        StreamReader::planned(Plans::of(&metadata), name, source)
    }

    /// A reader of `source` that shares the plans of its trace.
    pub(crate) fn planned(plans: Arc<Plans>, name: &str, source: R) -> Self {
        StreamReader {
            stream: Stream::new(plans, name, Reading::new(source)),
            packet: PacketCache::default(),
        }
    }

    /// Makes every [problem](crate::Problem) an error that ends the stream.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.stream.strict = strict;
        self
    }

    /// Uses an LTTng index file, if it is valid for a stream of `length` bytes.
    #[must_use]
    pub fn index(mut self, index: &[u8], length: u64) -> Self {
        if let Some(packets) = crate::stream::index::packets(index, length) {
            self.stream.index = packets;
        }
        self
    }

    /// Name of the stream.
    pub fn name(&self) -> &Arc<str> {
        &self.stream.name
    }

    /// Beginning of the first packet with records, or, before that has been read, of the last
    /// packet, in nanoseconds from the clock's origin; `None` before the first has been read.
    pub fn begin_nanos(&self) -> Option<i128> {
        self.stream.first_begin
    }

    pub(crate) fn into_stream(self) -> Stream<Reading<R>> {
        self.stream
    }
}

impl<R: Read> Iterator for StreamReader<R> {
    type Item = Result<Item, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.stream.advance() {
            Next::End => None,
            Next::Event => self
                .packet
                .event(&self.stream)
                .map(|event| Ok(Item::Event(event))),
            Next::Note => self.stream.notes.current.take()?.into_item(),
        }
    }
}
