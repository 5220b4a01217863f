//! Framing of events: packet header, packet context and event header, the same for every written
//! trace. They use LTTng's names and order; every field is little-endian and byte-aligned.

use std::sync::Arc;

use super::Format;
use crate::class::attribute::Attributes;
use crate::class::{
    ArrayClass, Base, BlobClass, ByteOrder, FieldClass, IntegerClass, Length, Member, Role, Roles,
    StringLength, StructClass,
};
use crate::metadata::clock::ClockClass;
use crate::stream::packet::MAGIC;

/// The header of every packet of a trace.
#[derive(Debug, Clone, Copy)]
pub(super) struct PacketHeader {
    pub(super) uuid: Option<[u8; 16]>,
    /// Bytes of the stream class id.
    pub(super) class_bytes: u8,
    /// Whether the source distinguishes streams of one class.
    pub(super) instance: bool,
}

/// The packet context, as far as it has roles.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context {
    pub(super) clock: bool,
    /// Bytes of the CPU number, if the source has one.
    pub(super) cpu_bytes: Option<u8>,
}

/// The header of every event.
#[derive(Debug, Clone, Copy)]
pub(super) struct EventHeader {
    pub(super) id_bytes: u8,
    pub(super) clock: bool,
}

/// Values of a packet's header and context.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Values {
    pub(super) class: u64,
    pub(super) instance: u64,
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) bits: u64,
    pub(super) sequence: u64,
    pub(super) discarded: u64,
    pub(super) cpu: u64,
}

/// An unsigned integer of `bytes` bytes.
pub(super) fn unsigned(bytes: u8) -> IntegerClass {
    IntegerClass::new(bytes.saturating_mul(8), 8, false, ByteOrder::Little)
}

/// Appends the low `bytes` bytes of a number.
pub(super) fn put(out: &mut Vec<u8>, value: u64, bytes: u8) {
    out.extend_from_slice(value.to_le_bytes().get(..usize::from(bytes)).unwrap_or(&[]));
}

fn member(name: &str, class: FieldClass) -> Member {
    Member {
        name: Arc::from(name),
        declared_name: Arc::from(name),
        class,
        attributes: Attributes::default(),
    }
}

fn integer(name: &str, bytes: u8, role: Role) -> Member {
    member(
        name,
        FieldClass::Integer(IntegerClass {
            roles: Roles::NONE.with(role),
            ..unsigned(bytes)
        }),
    )
}

fn time(name: &str, role: Role, clock: &ClockClass) -> Member {
    let clock = Some(Arc::from(clock.name.as_str()));
    member(
        name,
        FieldClass::Integer(IntegerClass {
            roles: Roles::NONE.with(role),
            clock,
            ..unsigned(8)
        }),
    )
}

/// The member names of [`Context`].
pub(super) const NAMES: [&str; 7] = [
    "timestamp_begin",
    "timestamp_end",
    "content_size",
    "packet_size",
    "packet_seq_num",
    "events_discarded",
    "cpu_id",
];

impl PacketHeader {
    pub(super) fn class(&self, format: Format) -> StructClass {
        let magic = IntegerClass {
            base: Base::Hexadecimal,
            ..unsigned(4)
        };
        let magic = IntegerClass {
            roles: Roles::NONE.with(Role::PacketMagic),
            ..magic
        };
        let mut members = vec![member("magic", FieldClass::Integer(magic))];
        if self.uuid.is_some() {
            let roles = Roles::NONE.with(Role::MetadataUuid);
            members.push(member(
                "uuid",
                match format {
                    Format::Ctf18 => {
                        let byte = FieldClass::Integer(unsigned(1));
                        FieldClass::Array(ArrayClass {
                            roles,
                            ..ArrayClass::new(byte, Length::Static(16))
                        })
                    }
                    Format::Ctf2 => FieldClass::Blob(BlobClass {
                        length: StringLength::Static(16),
                        media_type: Arc::from("application/octet-stream"),
                        roles,
                        attributes: Attributes::default(),
                    }),
                },
            ));
        }
        members.push(integer("stream_id", self.class_bytes, Role::StreamClassId));
        if self.instance {
            members.push(integer("stream_instance_id", 8, Role::StreamId));
        }
        StructClass::new(members, 8)
    }

    fn put(&self, out: &mut Vec<u8>, values: &Values) {
        put(out, MAGIC, 4);
        out.extend(self.uuid.into_iter().flatten());
        put(out, values.class, self.class_bytes);
        if self.instance {
            put(out, values.instance, 8);
        }
    }
}

impl Context {
    /// The members, mapped to the clock.
    pub(super) fn members(&self, clock: Option<&ClockClass>) -> Vec<Member> {
        let mut members = Vec::new();
        if let Some(clock) = clock {
            members.push(time("timestamp_begin", Role::Timestamp, clock));
            members.push(time("timestamp_end", Role::PacketEndTimestamp, clock));
        }
        members.push(integer("content_size", 8, Role::PacketContentLength));
        members.push(integer("packet_size", 8, Role::PacketTotalLength));
        members.push(integer("packet_seq_num", 8, Role::PacketSequenceNumber));
        members.push(integer("events_discarded", 8, Role::DiscardedEvents));
        members.extend(
            self.cpu_bytes
                .map(|bytes| integer("cpu_id", bytes, Role::CpuId)),
        );
        members
    }

    fn put(&self, out: &mut Vec<u8>, values: &Values) {
        let times = if self.clock {
            &[values.begin, values.end][..]
        } else {
            &[]
        };
        let sizes = [values.bits, values.bits, values.sequence, values.discarded];
        times
            .iter()
            .chain(&sizes)
            .for_each(|value| put(out, *value, 8));
        if let Some(bytes) = self.cpu_bytes {
            put(out, values.cpu, bytes);
        }
    }
}

/// Encodes header and context of a packet, without the source's own context fields.
pub(super) fn head(header: &PacketHeader, context: &Context, values: &Values) -> Vec<u8> {
    let mut out = Vec::new();
    header.put(&mut out, values);
    context.put(&mut out, values);
    out
}

impl EventHeader {
    pub(super) fn class(&self, clock: Option<&ClockClass>) -> StructClass {
        let mut members = vec![integer("id", self.id_bytes, Role::EventClassId)];
        members.extend(clock.map(|clock| time("timestamp", Role::Timestamp, clock)));
        StructClass::new(members, 8)
    }

    pub(super) fn put(&self, out: &mut Vec<u8>, id: u64, time: u64) {
        put(out, id, self.id_bytes);
        if self.clock {
            put(out, time, 8);
        }
    }
}
