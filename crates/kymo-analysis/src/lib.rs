//! What a kernel trace means: who ran, who waited, for what and how long.
//!
//! [`Analysis`] takes the items of a trace one after the other, in the order of time, and gives a
//! [`Report`]. What an event means, [`kymo_machine`] knows; here its changes become figures, one
//! section a subject.
//!
//! - Memory does not depend on the length of the trace: there is state for each thread, CPU, lock,
//!   interrupt line and system call, and percentiles come from [`Histogram`]s.
//! - Durations that would reach over a loss are left out.
//! - What runs when the trace ends is taken to run until the trace's last event, on a CPU whose
//!   stream is whole.
//!
//! It does not read files and prints nothing: that is for [`kymo_ctf`] and for the command.
//!
//! ```no_run
//! use kymo_analysis::Analysis;
//!
//! let trace = kymo_ctf::Trace::open("trace".as_ref())?;
//! let (map, mut analysis) = (trace.map(), Analysis::new(trace.metadata()));
//! let mut reader = map.read();
//! while let Some(item) = reader.next() {
//!     analysis.add(&item);
//! }
//! println!("{} threads", analysis.finish().threads.len());
//! # Ok::<(), kymo_ctf::Error>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod analysis;
mod expect;
mod histogram;
mod section;
mod span;

pub use analysis::Analysis;
pub use expect::{ExpectError, Expectations, Found, Judge, Verdict};
pub use histogram::Histogram;
pub use section::{
    ClockHealth, Contradiction, Contradictions, CpuUse, Durations, Interrupt, Lock, LockBlock,
    LongestWait, Loss, Losses, Messages, PageFaults, ProcessFaults, Report, SystemCall, Thread,
    ThreadFaults, ThreadRef, Waiter, WakeLatency, WorstWake,
};
pub use span::{Span, SpanKind};
