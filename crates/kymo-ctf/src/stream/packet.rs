//! Packet headers and contexts.

use std::sync::Arc;

use crate::class::{ByteOrder, Role, StructClass};
use crate::decode::bits::load;
use crate::decode::check::Walker;
use crate::decode::fixed::FixedFields;
use crate::decode::place::Place;
use crate::decode::plan::{Plans, StreamPlan};
use crate::decode::state::{Seen, Slots};
use crate::decode::value::Fields;
use crate::error::DecodeError;
use crate::metadata::clock::Ticks;
use crate::metadata::{Metadata, StreamClass};

/// The magic number of CTF packets.
pub(crate) const MAGIC: u64 = 0xc1fc_1fc1;

/// Header and context of a packet.
#[derive(Debug, Clone)]
pub struct Packet {
    /// Name of the stream file.
    pub stream: Arc<str>,
    /// Index of the packet in its file, from 0.
    pub number: u64,
    /// File offset of its first byte.
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
    /// The CPU that wrote it (`cpu_id`).
    pub cpu: Option<u64>,
    /// Size of header, context and records in bits; `None` if the packet extends to the end of the
    /// file.
    pub content_size: Option<u64>,
    /// The content size and the padding after it, in bits; `None` if the packet extends to the end
    /// of the file.
    pub packet_size: Option<u64>,
}

impl Packet {
    pub(crate) fn nanos(&self, ticks: Ticks) -> Option<i128> {
        let clock = self.class.clock.as_ref()?;
        Some(clock.nanos_from_origin(ticks))
    }
}

/// The values of a packet that reading it needs.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) plan: Arc<StreamPlan>,
    /// Size in bits of the packet header, and of header and context.
    pub(crate) header_bits: u64,
    pub(crate) bits: u64,
    /// Byte order of the context's last field, in whose last byte the first record may begin.
    pub(crate) order: Option<ByteOrder>,
    pub(crate) content_size: Option<u64>,
    pub(crate) packet_size: Option<u64>,
    /// Its size is 0: the tracer never closed it.
    pub(crate) never_closed: bool,
    /// Position in bits of a UUID that is not the metadata's.
    pub(crate) foreign_uuid: Option<u64>,
    /// Low bits of the clock, and their number.
    pub(crate) begin: Option<(u64, u8)>,
    pub(crate) end: Option<(u64, u8)>,
    pub(crate) cpu: Option<u64>,
    pub(crate) instance: Option<u64>,
    pub(crate) sequence: Option<(u64, u8)>,
    pub(crate) discarded: Option<(u64, u8)>,
}

/// Why a packet's header or context could not be read, and the position of the error in bits.
#[derive(Debug, Clone)]
pub(crate) struct HeaderError {
    pub(crate) reason: DecodeError,
    pub(crate) position: u64,
}

/// Reads header and context at the beginning of `bytes`.
///
/// After [`DecodeError::UnexpectedEnd`] and [`DecodeError::LengthTooLarge`], retry with more bytes:
/// the packet's length is unknown until its context has been read.
pub(crate) fn read(bytes: &[u8], plans: &Plans, slots: &mut Slots) -> Result<Head, HeaderError> {
    let metadata = &plans.metadata;
    let mut reading = Reading {
        bytes,
        slots,
        seen: Seen::default(),
        position: 0,
        order: None,
    };
    reading.fields(
        plans.packet_header.as_ref(),
        metadata.trace.packet_header.as_deref(),
    )?;
    let header_bits = reading.position;
    let seen = &reading.seen;
    let at_header = |reason| HeaderError {
        reason,
        position: 0,
    };
    if let Some(magic) = seen.value(Role::PacketMagic)
        && magic != MAGIC
    {
        return Err(at_header(DecodeError::BadMagic(magic)));
    }
    let foreign_uuid = metadata.trace.uuid.and_then(|uuid| {
        let fixed = plans.packet_header.as_ref().map(|fixed| &fixed.uuids);
        let mut uuids = fixed.into_iter().flatten().chain(&seen.uuids);
        uuids.find(|&&at| !is_uuid(bytes, at, uuid)).copied()
    });
    let plan = plans.stream(seen.value(Role::StreamClassId));
    let plan = Arc::clone(plan.map_err(at_header)?);

    reading.fields(
        plan.packet_context.as_ref(),
        plan.class.packet_context.as_deref(),
    )?;
    let Reading {
        seen,
        position: bits,
        order,
        ..
    } = reading;
    let head = Head {
        header_bits,
        bits,
        order,
        packet_size: seen.value(Role::PacketTotalLength),
        content_size: seen.value(Role::PacketContentLength),
        never_closed: false,
        foreign_uuid,
        begin: seen.time(0),
        end: seen.get(Role::PacketEndTimestamp),
        cpu: seen.value(Role::CpuId),
        instance: seen.value(Role::StreamId),
        sequence: seen.get(Role::PacketSequenceNumber),
        discarded: seen.get(Role::DiscardedEvents),
        plan,
    };
    head.sized(metadata.trace.major)
        .map_err(|reason| HeaderError {
            reason,
            position: bits,
        })
}

/// State of reading a packet's header and context.
struct Reading<'a, 's> {
    bytes: &'a [u8],
    slots: &'s mut Slots,
    seen: Seen,
    position: u64,
    order: Option<ByteOrder>,
}

impl Reading<'_, '_> {
    /// Reads a structure: by loads from fixed offsets if all its fields have them and it is
    /// complete, otherwise field by field, which finds errors.
    fn fields(
        &mut self,
        fixed: Option<&FixedFields>,
        class: Option<&StructClass>,
    ) -> Result<(), HeaderError> {
        if let Some(fixed) = fixed
            && fixed.read(self.bytes, &mut self.seen).is_some()
        {
            // A structure that ends on a byte boundary shares no byte with the next field.
            (self.position, self.order) = (fixed.end, None);
            return Ok(());
        }
        let (from, seen) = (self.position, Some(&mut self.seen));
        let mut walker = Walker::new(self.bytes, from, u64::MAX, self.slots, seen);
        walker = walker.after(self.order);
        let walked = class.map_or(Ok(()), |class| walker.structure(class));
        (self.position, self.order) = (walker.cursor.position(), walker.cursor.order());
        let position = self.position;
        walked.map_err(|reason| HeaderError { reason, position })
    }
}

fn is_uuid(bytes: &[u8], at: u64, uuid: [u8; 16]) -> bool {
    if at.is_multiple_of(8) {
        let bytes = usize::try_from(at / 8).ok().and_then(|at| bytes.get(at..));
        return bytes.is_some_and(|bytes| bytes.starts_with(&uuid));
    }
    (0..)
        .zip(uuid)
        .all(|(index, byte)| load(bytes, at + index * 8, 8, ByteOrder::Little) == Some(byte.into()))
}

impl Head {
    /// Sets both sizes, if they are valid.
    fn sized(mut self, major: u64) -> Result<Head, DecodeError> {
        let header = self.bits;
        if self.packet_size.or(self.content_size) == Some(0)
            && self.content_size.unwrap_or(0) == 0
            && header > 0
        {
            (self.packet_size, self.content_size, self.never_closed) = (None, None, true);
            return Ok(self);
        }
        let content_size = self.content_size.or(self.packet_size);
        // A packet that states only its content size has no padding beyond the last byte in CTF 2.
        // In CTF 1.8 it is the stream's only one (section 5.2), unless another one follows.
        let packet_size = match content_size {
            Some(size) if major >= 2 => self
                .packet_size
                .or(Some(size.div_ceil(8).saturating_mul(8))),
            _ => self.packet_size,
        };
        if let (None, Some(content_size)) = (packet_size, content_size)
            && content_size < header
        {
            return Err(DecodeError::BadContentSize {
                content_size,
                packet_size: content_size,
                header,
            });
        }
        if let (Some(packet_size), Some(content_size)) = (packet_size, content_size) {
            if packet_size < header || !packet_size.is_multiple_of(8) || packet_size == 0 {
                return Err(DecodeError::BadPacketSize {
                    packet_size,
                    header,
                });
            }
            if content_size > packet_size || content_size < header {
                return Err(DecodeError::BadContentSize {
                    content_size,
                    packet_size,
                    header,
                });
            }
        }
        (self.packet_size, self.content_size) = (packet_size, content_size);
        Ok(self)
    }

    /// Header and context as fields, from the packet's `bytes`.
    pub(crate) fn fields(&self, bytes: &[u8], metadata: &Metadata) -> (Fields, Fields) {
        let place = Place {
            bytes,
            position: 0,
            limit: self.header_bits,
            slots: Slots::new(self.plan.slots),
        };
        let header = metadata.trace.packet_header.as_deref();
        let header =
            header.map_or_else(Fields::default, |class| place.structure(class).to_fields());
        let context = self.context(bytes, metadata);
        (
            header,
            context.map_or_else(Fields::default, |(place, class)| {
                place.structure(class).to_fields()
            }),
        )
    }

    /// Position and class of the context.
    pub(crate) fn context<'a>(
        &'a self,
        bytes: &'a [u8],
        metadata: &Metadata,
    ) -> Option<(Place<'a>, &'a StructClass)> {
        let class = self.plan.class.packet_context.as_deref()?;
        let mut place = Place {
            bytes,
            position: 0,
            limit: self.header_bits,
            slots: Slots::new(self.plan.slots),
        };
        if let Some(header) = &metadata.trace.packet_header {
            place.step_over(header);
        }
        (place.position, place.limit) = (self.header_bits, self.bits);
        Some((place, class))
    }
}
