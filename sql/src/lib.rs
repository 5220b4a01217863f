//! SQL over CTF traces as they lie on disk, by Apache DataFusion.
//!
//! [`Traces`] opens traces, a [`Session`] has their tables, and [`Session::ask`] answers a query:
//! - `events` has every event, and each kind of event has a table with its fields as columns;
//! - `slices`, `off_cpu`, `wakeups`, `syscalls`, `interrupts`, `lock_waits` and `lock_holds` have
//!   what events mean together, with the rows of [`kymo_rows::SPAN_TABLES`], as exports have them;
//! - `thread_states`, `counters`, `samples` with their stacks, and `losses`;
//! - `threads`, `processes`, `cpus` and `traces`.
//!
//! Nothing is converted: rows are made while the trace is read, of the columns that a query needs,
//! one thread for each stream. Conditions on names, traces, streams and CPUs are checked before a
//! row is made, and a range of times reads only its packets. Memory does not grow with the trace:
//! what a query collects is limited, and spills to disk.
//!
//! A [`Store`] has the tables of many traces as Parquet files, and is asked in the same way. With
//! the feature `cluster`, a `Cluster` of `Worker`s on several machines answers.
//!
//! Times are nanoseconds from the clock's origin, `ns` as integers and `time` as timestamps. What
//! the trace does not have is null.
//!
//! The crate is a workspace of its own, so that nobody compiles the engine, which is some 200
//! crates and needs a later compiler, without asking for it.
//!
//! ```no_run
//! use kymo_sql::{Limits, Output, Format, Session, Traces};
//!
//! let traces = Traces::open(["trace"])?;
//! let session = Session::new(&traces, Limits::default())?;
//! let mut output = Output::new(Format::Csv, None)?;
//! session.ask("select name, count(*) from events group by name", &[], &mut |answer| {
//!     output.take(answer)
//! })?;
//! output.finish()?;
//! # Ok::<(), kymo_sql::Error>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

#[cfg(feature = "cluster")]
mod cluster;
mod column;
mod counters;
mod depth;
mod error;
mod events;
mod filter;
mod function;
mod model;
mod output;
mod question;
mod samples;
mod scan;
mod session;
mod store;
mod table;
mod traces;

#[cfg(feature = "cluster")]
pub use cluster::{Cluster, Worker};
pub use error::Error;
pub use kymo_images::Symbols;
pub use output::{Format, Output};
pub use question::{Parameter, Question, questions};
pub use session::{Answer, Limits, Session};
pub use store::{Added, Labels, Store, Which};
pub use traces::Traces;
