//! Packet headers and contexts.

use std::sync::Arc;

use crate::bits::BitCursor;
use crate::class::StructClass;
use crate::clock::Ticks;
use crate::decode::{Decoder, State, clock_after};
use crate::error::DecodeError;
use crate::metadata::{Metadata, StreamClass};
use crate::value::{Fields, Value};

/// The magic number of CTF packets.
const MAGIC: u64 = 0xc1fc_1fc1;

/// What a packet says about itself.
#[derive(Debug, Clone)]
pub struct Packet {
    /// Name of the stream file.
    pub stream: Arc<str>,
    /// The packet's place in its file, from 0.
    pub number: u64,
    /// Offset of its first byte in the file.
    pub offset: u64,
    /// The class of its stream.
    pub class: Arc<StreamClass>,
    /// The packet header's fields.
    pub header: Fields,
    /// The packet context's fields.
    pub context: Fields,
    /// The clock at its beginning (`timestamp_begin`).
    pub begin: Option<Ticks>,
    /// The clock at its end (`timestamp_end`).
    pub end: Option<Ticks>,
    /// The CPU it is from (`cpu_id`).
    pub cpu: Option<u64>,
    /// Bits of header, context and records; `None` if only the end of the file ends the packet.
    pub content_size: Option<u64>,
    /// Bits of all that and the padding after it; `None` if only the end of the file ends the packet.
    pub packet_size: Option<u64>,
}

impl Packet {
    /// A counter of the packet context, and its width in bits.
    pub(crate) fn counter(&self, name: &str) -> Option<(u64, u8)> {
        context_integer(&self.class, &self.context, name)
    }

    pub(crate) fn nanos(&self, ticks: Ticks) -> Option<i128> {
        let clock = self.class.clock.as_ref()?;
        Some(clock.nanos_from_origin(ticks))
    }
}

fn context_integer(class: &StreamClass, context: &Fields, name: &str) -> Option<(u64, u8)> {
    let integer = class.packet_context.as_ref()?.member(name)?.as_integer()?;
    Some((context.get(name)?.as_u64()?, integer.size))
}

/// Where a packet is.
pub(crate) struct Place<'a> {
    pub(crate) stream: &'a Arc<str>,
    pub(crate) number: u64,
    pub(crate) offset: u64,
}

/// Why a packet's beginning could not be read, and the bit that could not.
#[derive(Debug)]
pub(crate) struct HeaderError {
    pub(crate) reason: DecodeError,
    pub(crate) position: u64,
}

/// Reads header and context at the beginning of `bytes`. Gives the packet and the number of bits they take.
///
/// [`DecodeError::UnexpectedEnd`] and [`DecodeError::LengthTooLarge`] mean that more bytes may help: nothing is known about the
/// packet's length before its context was read.
pub(crate) fn read(bytes: &[u8], metadata: &Metadata, state: &mut State, place: &Place<'_>) -> Result<(Packet, u64), HeaderError> {
    let now = state.clock;
    let mut decoder = Decoder { cursor: BitCursor::new(bytes, 0, u64::MAX), state };
    let read = read_at(&mut decoder, metadata, place, now);
    let position = decoder.cursor.position();
    match read {
        Ok(packet) => Ok((packet, position)),
        Err(reason) => Err(HeaderError { reason, position }),
    }
}

fn read_at(decoder: &mut Decoder<'_, '_>, metadata: &Metadata, place: &Place<'_>, now: u64) -> Result<Packet, DecodeError> {
    let header_class = metadata.trace.packet_header.as_deref();
    let header = fields(decoder, header_class)?;
    if let Some(magic) = header.get("magic").and_then(Value::as_u64)
        && magic != MAGIC
    {
        return Err(DecodeError::BadMagic(magic));
    }
    if let (Some(Value::Array(bytes)), Some(uuid)) = (header.get("uuid"), metadata.trace.uuid)
        && !bytes.iter().map(Value::as_u64).eq(uuid.map(|byte| Some(u64::from(byte))))
    {
        return Err(DecodeError::UuidMismatch);
    }
    let class = match header.get("stream_id").and_then(Value::as_u64) {
        Some(id) => metadata.streams.get(&id).ok_or(DecodeError::UnknownStream(id))?,
        None if metadata.streams.len() == 1 => {
            let only = metadata.streams.values().next();
            only.ok_or(DecodeError::UnknownStream(0))?
        }
        None => metadata.streams.get(&0).ok_or(DecodeError::UnknownStream(0))?,
    };
    let context = fields(decoder, class.packet_context.as_deref())?;
    let integer = |name| context_integer(class, &context, name);

    let (mut begin, mut end) = (None, None);
    if class.clock.is_some() {
        let mut at = now;
        let mut stamp = |name| -> Result<Option<Ticks>, DecodeError> {
            let Some((low, size)) = integer(name) else {
                return Ok(None);
            };
            let from = at;
            at = clock_after(from, low, size).unwrap_or(low);
            if at < from {
                return Err(DecodeError::TimeWentBack { from, to: at });
            }
            Ok(Some(Ticks(at)))
        };
        begin = stamp("timestamp_begin")?;
        end = stamp("timestamp_end")?;
    }
    let header_bits = decoder.cursor.position();
    let packet_size = integer("packet_size").map(|(size, _)| size);
    let content_size = integer("content_size").map(|(size, _)| size).or(packet_size);
    // A packet that only says how much of it is content has no padding, but for the last byte's.
    let packet_size = packet_size.or(content_size.map(|size| size.div_ceil(8).saturating_mul(8)));
    if let (Some(packet_size), Some(content_size)) = (packet_size, content_size) {
        if packet_size < header_bits || !packet_size.is_multiple_of(8) || packet_size == 0 {
            return Err(DecodeError::BadPacketSize { packet_size, header: header_bits });
        }
        if content_size > packet_size || content_size < header_bits {
            return Err(DecodeError::BadContentSize { content_size, packet_size, header: header_bits });
        }
    }
    let cpu = context.get("cpu_id").and_then(Value::as_u64);
    Ok(Packet {
        stream: Arc::clone(place.stream),
        number: place.number,
        offset: place.offset,
        class: Arc::clone(class),
        begin,
        end,
        cpu,
        content_size,
        packet_size,
        header,
        context,
    })
}

fn fields(decoder: &mut Decoder<'_, '_>, class: Option<&StructClass>) -> Result<Fields, DecodeError> {
    class.map_or_else(|| Ok(Fields::default()), |class| decoder.fields(class))
}
