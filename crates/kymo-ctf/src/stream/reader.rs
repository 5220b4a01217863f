//! One stream from any source of bytes, as values that own what they have.

use std::io::Read;
use std::sync::Arc;

use crate::error::Error;
use crate::metadata::Metadata;
use crate::stream::item::{Consequence, Event, Item};
use crate::stream::packet::Packet;
use crate::stream::source::Reading;
use crate::stream::{Next, Note, Stream};

/// Reads one stream from anything that gives bytes in order: a file, a pipe, a slice.
///
/// One packet is in memory at a time. The iterator gives every record and every loss in order.
/// After an error it goes on with the next packet, if one can be found.
#[derive(Debug)]
pub struct StreamReader<R> {
    stream: Stream<Reading<R>>,
    /// The current packet, and the count it was made at.
    packet: Option<(u64, Arc<Packet>)>,
}

impl<R: Read> StreamReader<R> {
    /// A reader of `source`, called `name` in items and errors.
    pub fn new(metadata: Arc<Metadata>, name: &str, source: R) -> Self {
        StreamReader {
            stream: Stream::new(metadata, name, Reading::new(source)),
            packet: None,
        }
    }

    /// Makes every [problem](crate::Problem) an error that ends the stream.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.stream.strict = strict;
        self
    }

    /// Uses an LTTng index file, if it is right, for a stream of `length` bytes.
    #[must_use]
    pub fn index(mut self, index: &[u8], length: u64) -> Self {
        if let Some(packets) = crate::trace::index::packets(index, length) {
            self.stream.index = packets;
        }
        self
    }

    /// Name of the stream.
    pub fn name(&self) -> &Arc<str> {
        &self.stream.name
    }

    /// Where the first packet begins in time, in nanoseconds from the clock's origin, once it was
    /// read.
    pub fn begin_nanos(&self) -> Option<i128> {
        self.stream.first_begin
    }

    /// Whether all times of the trace are of the same clock.
    pub(crate) fn has_one_clock(&self) -> bool {
        self.stream.metadata.clocks.len() == 1
    }

    fn event(&mut self) -> Option<Event> {
        let stream = &mut self.stream;
        let packet = match &self.packet {
            Some((count, packet)) if *count == stream.packets => Arc::clone(packet),
            _ => {
                let packet = Arc::new(stream.packet()?);
                self.packet = Some((stream.packets, Arc::clone(&packet)));
                packet
            }
        };
        let class = &stream
            .plan()?
            .events
            .get(stream.record.event as usize)?
            .class;
        Some(stream.to_event(packet, class))
    }
}

impl<R: Read> Iterator for StreamReader<R> {
    type Item = Result<Item, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.stream.advance() {
            Next::End => None,
            Next::Event => self.event().map(|event| Ok(Item::Event(event))),
            Next::Note => match self.stream.note.take()? {
                // Nobody asked for packets.
                Note::Packet => None,
                Note::Loss(loss) => Some(Ok(Item::Loss(loss))),
                Note::Problem(problem) if problem.consequence == Consequence::Clamped => {
                    Some(Ok(Item::Problem(problem)))
                }
                Note::Problem(problem) => Some(Err(problem.into())),
            },
        }
    }
}
