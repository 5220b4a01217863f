//! Reads the Common Trace Format by the metadata that a trace carries, and writes it.
//!
//! The metadata text (TSDL) becomes [field classes](FieldClass), and streams are decoded by these
//! alone: no event, field or layout is known to this crate beforehand. One model serves CTF 1.8 and
//! CTF 2; what a field means to the reader is its [role](Role).
//!
//! Two ways to read:
//! - **borrowed**: [`Trace::map`] and [`TraceMap::read`] (or [`Reader`] over any bytes) give
//!   [events](EventRef) where they are; a field is read when it is asked for. [`Tally`] counts,
//!   with every header decoded and nothing else.
//! - **owned**: [`Trace::events`] gives [`Item`]s; [`StreamReader`] reads one stream from any
//!   source of bytes, one packet at a time.
//!
//! Two ways to write: [`convert`] writes a trace anew, in CTF 1.8 or CTF 2; a [`TraceWriter`] writes
//! one from values.
//!
//! What holds for both ways to read:
//! - Streams are merged by time; items of the same time come in the order of the files' names. The
//!   same trace gives the same items on every run. Memory does not depend on how long a trace is.
//! - What was lost is an item like any other ([`Loss`]), with the interval in which it was lost.
//! - What can be decoded is delivered, and what cannot be right is reported with stream, packet
//!   and byte ([`Problem`]). A time that steps back is given as the time before it. A record that makes
//!   no sense costs the rest of its packet, a packet that makes no sense itself; reading goes on at
//!   the next packet. In strict mode each of these ends the stream.
//! - No input makes this crate panic, hang, or allocate out of proportion to the input: lengths are
//!   checked against the bits that are left before anything is made of them, and nesting, field
//!   counts and elements without bits have limits.
//! - Integers of CTF 2 may be of any size. One that fits into 64 bits is the same value whatever
//!   its field's size; a larger one is a [`WideInt`], exactly. What the reader itself needs, such
//!   as lengths, ids, sizes and times, must have 64 bits at most, or it is an error of that record
//!   or packet.
//! - What is not supported is refused with line and column, never misread. Not supported: integers
//!   of CTF 1.8 wider than 64 bits, floating-point numbers of CTF 1.8 of other than 16, 32, 64 and
//!   128 bits (longer ones of CTF 2 are given as their bits), any extension of CTF 2.
//! - Only the packet's beginning and end and the event header set a stream's clock. Other fields
//!   that are mapped to a clock are values, and so is what the header has of another clock than its
//!   `timestamp` is of.
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

// One call maps files (`map.rs`); there is no other unsafe code.
#![deny(unsafe_code)]
#![deny(missing_docs)]

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
pub use trace::reader::Reader;
pub use trace::tally::{StreamTally, Tally};
pub use trace::{Events, Part, Trace, TraceMap};
pub use write::writer::{EventValues, StreamWriter, TraceWriter};
pub use write::{Converted, Extent, Format, Keep, WriteError, convert, discard};

/// The versions of the format that are read: major and minor number.
pub const VERSIONS: [(u8, u8); 2] = [(1, 8), (2, 0)];
