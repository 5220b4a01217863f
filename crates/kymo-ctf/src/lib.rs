//! Reads and writes the Common Trace Format.
//!
//! The trace's metadata becomes [field classes](FieldClass), and streams are decoded by these
//! alone: the crate has no built-in knowledge of any event, field or layout. One model serves CTF
//! 1.8 and CTF 2; what a field means to the reader is its [role](Role).
//!
//! There are two ways to read:
//! - **borrowed**: [`Trace::map`] and [`TraceMap::read`] (or [`Reader`] over any bytes) give
//!   [events](EventRef) that borrow the input; a field is decoded when it is accessed. [`Tally`]
//!   counts events and decodes only their headers.
//! - **owned**: [`Trace::events`] gives [`Item`]s; [`StreamReader`] reads one stream from any
//!   source of bytes, one packet at a time.
//!
//! There are two ways to write: [`convert`] rewrites a trace in CTF 1.8 or CTF 2; a [`TraceWriter`]
//! writes a trace from values.
//!
//! Both ways to read have these properties:
//! - Streams are merged by time; items of the same time come in the order of the file names. Every
//!   run gives the same items. Memory use does not depend on the length of the trace.
//! - A [`Loss`] is an item like an event, with the interval in which events or packets were lost.
//! - Everything that can be decoded is delivered, and every error is reported with stream, packet
//!   and byte ([`Problem`]). A time that steps back is clamped to the previous time. A malformed
//!   record costs the rest of its packet, a malformed packet costs the packet; reading resumes at
//!   the next packet. In strict mode each of these ends the stream.
//! - No input makes this crate panic, hang, or allocate out of proportion to the input: lengths are
//!   checked against the remaining bits before anything is allocated, and nesting, field counts and
//!   zero-sized elements are limited.
//! - Integers of CTF 2 may have any size. A value that fits into 64 bits is the same whatever its
//!   field's size; a larger one is an exact [`WideInt`]. Values that the reader itself needs, such
//!   as lengths, ids, sizes and times, must fit into 64 bits; otherwise the record or packet is in
//!   error.
//! - Unsupported metadata is refused with line and column, never misread. Unsupported are CTF 1.8
//!   integers wider than 64 bits, CTF 1.8 floating-point numbers of other than 16, 32, 64 and 128
//!   bits (longer ones of CTF 2 are given as their bits), and all extensions of CTF 2.
//! - Only the times of the packet and the event header set a stream's clock. Other fields that are
//!   mapped to a clock are values, and so are header fields mapped to another clock than that of
//!   the `timestamp`.
//!
//! ```
//! use kymo_ctf::{Item, Metadata, StreamReader, Ticks};
//! use std::sync::Arc;
//!
//! let metadata = Metadata::parse(
//!     "/* CTF 1.8 */
//!     typealias integer { size = 8; } := u8;
//!     trace { major = 1; minor = 8; byte_order = le; };
//!     clock { name = c; freq = 1000; };
//!     stream { event.header := struct { integer { size = 8; map = clock.c.value; } t; }; };
//!     event { name = tick; fields := struct { u8 count; }; };",
//! )?;
//! let stream = [10, 1, 20, 2];
//! let items: Vec<Item> =
//!     StreamReader::new(Arc::new(metadata), "s", &stream[..]).collect::<Result<_, _>>()?;
//! let Item::Event(second) = &items[1] else { unreachable!() };
//! assert_eq!(second.time, Some(Ticks(20)));
//! assert_eq!(second.nanos(), Some(20_000_000));
//! assert_eq!(second.fields.get("count").and_then(|count| count.as_u64()), Some(2));
//! # Ok::<(), kymo_ctf::Error>(())
//! ```

// The only unsafe code is the call that maps files (`map.rs`).
#![deny(unsafe_code)]
#![deny(missing_docs)]

// Test code that the fuzzer includes too names this crate as others do.
#[cfg(test)]
extern crate self as kymo_ctf;

mod class;
mod decode;
mod error;
mod metadata;
mod stream;
mod trace;
mod write;

pub use class::attribute::{AttributeValue, Attributes};
pub use class::wide_int::WideInt;
pub use class::{
    ArrayClass, Base, BitMapClass, BitOrder, BlobClass, ByteOrder, Encoding, EnumClass, FieldClass,
    FieldLocation, FloatClass, IntRange, IntegerClass, Length, Mapping, Member, OptionalClass,
    Origin, Role, Roles, Scope, StringClass, StringLength, StructClass, TextEncoding, VarIntClass,
    VariantClass, WideClass, WideKind,
};
pub use decode::value::{Fields, Value};
pub use decode::value_ref::{
    ArrayRef, BitMapRef, EnumRef, FieldRef, StructRef, ValueRef, VariantRef, WideBitMapRef,
    WideEnumRef,
};
pub use decode::visitor::{Compound, Visitor};
pub use error::{DecodeError, Error, MetadataError, Position};
pub use metadata::clock::{ClockClass, ClockOrigin, Ticks};
pub use metadata::{EnvValue, EventClass, Metadata, StreamClass, TraceClass};
pub use stream::access::FieldAccess;
pub use stream::event_ref::{EventRef, ItemRef};
pub use stream::item::{Consequence, Event, Item, Loss, LossKind, Problem};
pub use stream::packet::Packet;
pub use stream::reader::StreamReader;
pub use trace::events::Merge;
pub use trace::follow::{Follower, Step};
pub use trace::reader::Reader;
pub use trace::tally::{StreamTally, Tally};
pub use trace::{Events, Part, Trace, TraceMap};
pub use write::writer::{EventValues, StreamWriter, TraceWriter};
pub use write::{Converted, Extent, Format, Keep, WriteError, convert, discard};

/// Supported versions of the format, as major and minor number.
pub const VERSIONS: [(u8, u8); 2] = [(1, 8), (2, 0)];
