//! Events of a CTF trace as rows of a table.
//!
//! [`columns`] has the columns of a kind of event, and [`Row`] finds its cells in a record and gives
//! them to [`Cells`], in the same order. Exports write them to files, and timelines show them beside
//! an event. [`SPAN_TABLES`] are the tables of what events mean together: slices on CPUs, system
//! calls, waits for locks.
//!
//! - An enumeration is a text: its label, or its number where it has none.
//! - Integers beyond 64 bits are texts too, and compound values are JSON.
//! - A field that only has the length of another one has no cell.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod cells;
mod column;
mod spans;

pub use cells::{Cells, Row, is_length};
pub use column::{Column, ColumnType, columns};
pub use spans::{SPAN_TABLES, SpanTable, thread_cells};
