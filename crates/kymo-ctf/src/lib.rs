//! Reads Common Trace Format 1.8 by the metadata that a trace carries.
//!
//! The metadata text (TSDL) is parsed, resolved into [field classes](FieldClass), and streams are decoded by these alone: no event,
//! field or layout is known to this crate beforehand.
//!
//! - [`Trace`] is a directory, [`StreamReader`] one stream from any source of bytes, [`Metadata`] the text.
//! - Streams are merged by time ([`Merge`]); items of the same time come in the order of the files' names. The same trace gives the
//!   same items on every run.
//! - What was lost is an item like any other ([`Loss`]), with the interval in which it was lost.
//! - What can be decoded is delivered; then comes one error with file, packet and byte, and that stream ends.
//! - No input makes this crate panic, hang, or allocate out of proportion to the input: lengths are checked against the bits that
//!   are left before anything is made of them, and nesting and field counts have limits.
//! - What is not supported is refused with line and column, never misread. Not supported: CTF 2 and metadata in packets (both to
//!   come), `callsite`, pointers, C bit-fields, integers wider than 64 bits, floating-point numbers of other than 32 and 64 bits,
//!   arrays of elements that may take no bits, streams with more than one clock.
//! - Only the packet context's `timestamp_begin` and `timestamp_end` and the event header set a stream's clock. Other fields that are
//!   mapped to a clock are values.
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

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod bits;
mod class;
mod clock;
mod decode;
mod error;
mod item;
mod merge;
mod metadata;
mod packet;
mod stream;
mod trace;
mod tsdl;
mod value;

pub use class::{
    ArrayClass, Base, ByteOrder, Encoding, EnumClass, FieldClass, FloatClass, IntegerClass, Mapping, Member, StructClass,
    VariantClass,
};
pub use clock::{ClockClass, Ticks};
pub use error::{DecodeError, Error, MetadataError, Position};
pub use item::{Event, Item, Loss, LossKind};
pub use merge::Merge;
pub use metadata::{EnvValue, EventClass, Metadata, StreamClass, TraceClass};
pub use packet::Packet;
pub use stream::StreamReader;
pub use trace::{Events, Trace};
pub use value::{Fields, Value};
