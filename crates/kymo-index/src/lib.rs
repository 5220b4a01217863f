//! An index of a CTF trace: its timeline at every zoom level, on disk.
//!
//! A picture of a trace has a few thousand columns, whatever the trace's length. [`Index::window`]
//! gives what its rows have in any stretch of time, with what is shorter than a column merged into
//! [runs](Run) that say how many slices they stand for, how long these last together, and which is
//! the longest.
//!
//! - One pass makes it, from what [`kymo_timeline`] draws: it shows what every other timeline shows.
//! - The trace is divided into chunks of some 65,000 events. The file has a checkpoint at the
//!   beginning of each, from which it is read again where details are asked for; and a pyramid of
//!   parts, each with 64 steps in time: one for each four chunks, one for each eight of these, and
//!   so on.
//! - Memory grows with threads, CPUs and names, not with events.
//! - The file belongs to the trace's content ([`Key`]), and is made anew if that changes, or if it
//!   was not finished.
//! - What has been read can be asked while the rest is ([`Growing`]), or is still recorded
//!   ([`Live`]).
//!
//! ```no_run
//! use kymo_index::{Index, Key, Options};
//!
//! let trace = kymo_ctf::Trace::open("trace".as_ref())?;
//! let map = trace.map();
//! let path = Key::of(&trace, &map)?.path_in("cache".as_ref());
//! let index = Index::open_or_make(&trace, &map, &path, Options::default(), |_| ())?;
//! let window = index.window(&map, &[0, 1], index.span(), 1920)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod arrows;
mod build;
mod code;
mod collector;
mod drawn;
mod error;
mod file;
mod finder;
mod index;
mod kept;
mod key;
mod part;
mod registry;
mod run;

pub use arrows::{Arrow, ArrowEnd, Arrows};
pub use build::{Growing, Live, Options};
pub use error::Error;
pub use index::{Index, Window};
pub use key::Key;
pub use part::Content;
pub use registry::{NameId, NameInfo, Registry, RowId, RowInfo, RowKind, TrackInfo};
pub use run::{Run, Values};
