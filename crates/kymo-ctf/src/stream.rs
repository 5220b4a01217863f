//! One stream: packet after packet, record after record.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::Arc;

use crate::bits::{BitCursor, low_mask};
use crate::class::StructClass;
use crate::clock::Ticks;
use crate::decode::{Decoder, State};
use crate::error::{DecodeError, Error};
use crate::item::{Event, Item, Loss, LossKind};
use crate::metadata::Metadata;
use crate::packet::{self, HeaderError, Packet};
use crate::value::{Fields, Value};

/// How much of a packet is read before its size is known, in bytes. More is read when its context is longer.
const FIRST_READ: u64 = 4096;

/// Reads one stream from anything that gives bytes in order: a file, a pipe, a slice.
///
/// One packet is in memory at a time. The iterator gives every record and every loss in order; after the first error it ends.
#[derive(Debug)]
pub struct StreamReader<R> {
    metadata: Arc<Metadata>,
    name: Arc<str>,
    source: R,
    /// Bytes read and not yet done with; the current packet begins at `start`.
    buffer: Vec<u8>,
    start: usize,
    /// Offset in the file of the current packet, or of the next.
    offset: u64,
    number: u64,
    open: Option<OpenPacket>,
    previous: Option<Arc<Packet>>,
    pending: VecDeque<Item>,
    state: State,
    done: bool,
    begin: Option<i128>,
}

#[derive(Debug, Clone)]
struct OpenPacket {
    packet: Arc<Packet>,
    /// Bits from the packet's first to the next record.
    position: u64,
    /// Bits to the end of the content, or of what is there of it.
    limit: u64,
    /// Bytes that are there of the packet.
    available: u64,
    truncated: bool,
}

impl<R: Read> StreamReader<R> {
    /// A reader of `source`, called `name` in items and errors.
    pub fn new(metadata: Arc<Metadata>, name: &str, source: R) -> Self {
        let state = State::new(metadata.slots);
        StreamReader {
            metadata,
            name: Arc::from(name),
            source,
            buffer: Vec::new(),
            start: 0,
            offset: 0,
            number: 0,
            open: None,
            previous: None,
            pending: VecDeque::new(),
            state,
            done: false,
            begin: None,
        }
    }

    /// Name of the stream.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Where the first packet begins in time, in nanoseconds from the clock's origin, once it was read.
    pub fn begin_nanos(&self) -> Option<i128> {
        self.begin
    }

    /// Whether all times of the trace are of the same clock.
    pub(crate) fn has_one_clock(&self) -> bool {
        self.metadata.clocks.len() == 1
    }

    fn bytes(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or(&[])
    }

    /// Reads until `wanted` bytes of the packet are there, or the file ends; gives how many are.
    fn fill(&mut self, wanted: u64) -> Result<u64, DecodeError> {
        let have = self.bytes().len() as u64;
        if have < wanted {
            self.buffer.drain(..self.start.min(self.buffer.len()));
            self.start = 0;
            // `read_to_end` grows the buffer as bytes come: a packet that claims to be huge costs nothing.
            let mut rest = self.source.by_ref().take(wanted - have);
            let read = rest.read_to_end(&mut self.buffer);
            read.map_err(|error| DecodeError::Io(error.to_string()))?;
        }
        Ok((self.bytes().len() as u64).min(wanted))
    }

    /// Goes to the next packet; `false` at the end of the file.
    fn open_packet(&mut self) -> Result<bool, HeaderError> {
        let at_start = |reason| HeaderError { reason, position: 0 };
        let mut wanted = FIRST_READ;
        let (packet, position) = loop {
            let available = self.fill(wanted).map_err(at_start)?;
            if available == 0 {
                return Ok(false);
            }
            let place = packet::Place { stream: &self.name, number: self.number, offset: self.offset };
            let bytes = self.buffer.get(self.start..).unwrap_or(&[]);
            match packet::read(bytes, &self.metadata, &mut self.state, &place) {
                Ok(read) => break read,
                Err(error) if !wants_more(&error.reason) => return Err(error),
                Err(error) if available < wanted => {
                    return Err(HeaderError { reason: DecodeError::Truncated { available }, position: error.position });
                }
                Err(_) => wanted = wanted.saturating_mul(2),
            }
        };
        if let Some(previous) = &self.previous {
            let instance = |packet: &Packet| packet.header.get("stream_instance_id").and_then(Value::as_u64);
            if previous.class.id != packet.class.id || instance(previous) != instance(&packet) {
                return Err(at_start(DecodeError::StreamChanged));
            }
            let losses = losses(previous, &packet).map_err(|reason| HeaderError { reason, position })?;
            self.pending.extend(losses);
        } else {
            self.begin = packet.begin.and_then(|begin| packet.nanos(begin));
        }
        if let Some(Ticks(begin)) = packet.begin {
            self.state.clock = begin;
        }
        let size = packet.packet_size.map_or(u64::MAX, |bits| bits / 8);
        let available = self.fill(size).map_err(at_start)?;
        let content = packet.content_size.unwrap_or(u64::MAX);
        self.open = Some(OpenPacket {
            position,
            limit: content.min(available.saturating_mul(8)),
            available,
            truncated: packet.packet_size.is_some() && available < size,
            packet: Arc::new(packet),
        });
        Ok(true)
    }

    fn close_packet(&mut self, open: OpenPacket) -> Result<(), DecodeError> {
        if open.truncated {
            let available = open.available;
            return Err(DecodeError::Truncated { available });
        }
        if let Some(Ticks(end)) = open.packet.end {
            let from = self.state.clock;
            if end < from {
                return Err(DecodeError::TimeWentBack { from, to: end });
            }
            self.state.clock = end;
        }
        self.start = self.start.saturating_add(usize::try_from(open.available).unwrap_or(usize::MAX));
        self.offset = self.offset.saturating_add(open.available);
        self.number += 1;
        self.previous = Some(open.packet);
        Ok(())
    }

    /// Decodes the record at `open.position` and moves it past the record.
    fn record(&mut self, open: &mut OpenPacket) -> Result<Event, HeaderError> {
        let bytes = self.buffer.get(self.start..).unwrap_or(&[]);
        let mut decoder = Decoder { cursor: BitCursor::new(bytes, open.position, open.limit), state: &mut self.state };
        let decoded = record(&mut decoder, &open.packet);
        let position = decoder.cursor.position();
        match decoded {
            Ok(_) if position == open.position => Err(HeaderError { reason: DecodeError::EmptyRecord, position }),
            Ok(event) => {
                open.position = position;
                Ok(event)
            }
            Err(reason) if open.truncated && wants_more(&reason) => {
                let available = open.available;
                let reason = DecodeError::Truncated { available };
                Err(HeaderError { reason, position })
            }
            Err(reason) => Err(HeaderError { reason, position }),
        }
    }

    fn step(&mut self) -> Result<Option<Item>, HeaderError> {
        loop {
            if let Some(item) = self.pending.pop_front() {
                return Ok(Some(item));
            }
            match self.open.take() {
                None => {
                    if !self.open_packet()? {
                        return Ok(None);
                    }
                }
                Some(open) if open.position >= open.limit => {
                    let position = open.position;
                    self.close_packet(open).map_err(|reason| HeaderError { reason, position })?;
                }
                Some(mut open) => {
                    let event = self.record(&mut open)?;
                    self.open = Some(open);
                    return Ok(Some(Item::Event(event)));
                }
            }
        }
    }
}

impl<R: Read> Iterator for StreamReader<R> {
    type Item = Result<Item, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        match self.step() {
            Ok(Some(item)) => Some(Ok(item)),
            Ok(None) => {
                self.done = true;
                None
            }
            Err(HeaderError { reason, position }) => {
                self.done = true;
                Some(Err(Error::Stream {
                    file: self.name.to_string(),
                    packet: self.number,
                    offset: self.offset.saturating_add(position / 8),
                    reason,
                }))
            }
        }
    }
}

fn wants_more(reason: &DecodeError) -> bool {
    matches!(reason, DecodeError::UnexpectedEnd { .. } | DecodeError::LengthTooLarge { .. })
}

fn record(decoder: &mut Decoder<'_, '_>, packet: &Arc<Packet>) -> Result<Event, DecodeError> {
    let stream = &packet.class;
    decoder.state.event_id = None;
    if let Some(header) = &stream.event_header {
        decoder.skip_fields(header)?;
    }
    let class = match decoder.state.event_id {
        // A stream with one kind of event need not say which.
        None if stream.events.len() == 1 => stream.events.values().next(),
        id => stream.events.get(&id.unwrap_or(0)),
    };
    let class = class.ok_or(DecodeError::UnknownEvent { id: decoder.state.event_id.unwrap_or(0), stream: stream.id })?;
    let time = stream.clock.is_some().then_some(Ticks(decoder.state.clock));
    let mut part = |class: &Option<Arc<StructClass>>| match class {
        Some(class) => decoder.fields(class),
        None => Ok(Fields::default()),
    };
    Ok(Event {
        time,
        stream_context: part(&stream.event_context)?,
        context: part(&class.context)?,
        fields: part(&class.fields)?,
        packet: Arc::clone(packet),
        class: Arc::clone(class),
    })
}

/// What is missing between two packets that follow each other in a file. The intervals are babeltrace2's.
fn losses(previous: &Packet, packet: &Packet) -> Result<Vec<Item>, DecodeError> {
    let mut losses = Vec::new();
    let mut push = |kind, count, end: Option<Ticks>| {
        if count > 0 {
            let nanos = |time: Option<Ticks>| time.and_then(|time| packet.nanos(time));
            losses.push(Item::Loss(Loss {
                stream: Arc::clone(&packet.stream),
                cpu: packet.cpu,
                kind,
                count,
                begin: previous.end,
                end,
                begin_nanos: nanos(previous.end),
                end_nanos: nanos(end),
            }));
        }
    };
    let discarded = growth(previous, packet, "events_discarded")?;
    push(LossKind::Events, discarded, packet.end);
    // Tracers that do not count their packets may leave the number as it is: no step is no loss.
    let steps = growth(previous, packet, "packet_seq_num")?;
    push(LossKind::Packets, steps.saturating_sub(1), packet.begin);
    Ok(losses)
}

/// By how much a counter grew from one packet to the next. Counters narrower than 64 bits may wrap.
fn growth(previous: &Packet, packet: &Packet, counter: &'static str) -> Result<u64, DecodeError> {
    let (Some((from, _)), Some((to, size))) = (previous.counter(counter), packet.counter(counter)) else {
        return Ok(0);
    };
    let mask = low_mask(size);
    let grown = to.wrapping_sub(from) & mask;
    let back = if size < 64 { grown > mask / 2 } else { to < from };
    if back {
        return Err(DecodeError::CounterWentBack { counter, from, to });
    }
    Ok(grown)
}
