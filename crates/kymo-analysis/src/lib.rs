//! What a kernel trace means: who ran, who waited, for what and how long.
//!
//! [`Analysis`] takes the items of a trace one after the other, in the order of time, and gives a
//! [`Report`]. It knows the events of [`mod@kymo::vocabulary`] by their names, and of Linux's (as
//! LTTng records them) those that say the same; others are only counted.
//!
//! - Memory does not depend on the length of the trace: there is state for each thread, CPU, lock,
//!   interrupt line and system call, and percentiles come from [`Histogram`]s.
//! - Nothing is made up. At the beginning, and after a loss, it is not known what a CPU runs until
//!   its next switch. During a loss a thread that does not run elsewhere may have run there, so
//!   that its state and what it was in (a system call, a wait, a lock held) are unknown too.
//!   Durations that would reach over such a point are left out and counted as such.
//! - What runs when the trace ends is taken to run until the trace's last event, on a CPU whose
//!   stream is whole.
//!
//! It does not read files and prints nothing: that is for [`kymo_ctf`] and for the command.
//!
//! ```no_run
//! use kymo_analysis::Analysis;
//!
//! let trace = kymo_ctf::Trace::open("trace".as_ref())?;
//! let mut analysis = Analysis::new(trace.metadata());
//! for item in trace.events() {
//!     match item {
//!         Ok(item) => analysis.add(&item),
//!         Err(error) => analysis.damaged(&error),
//!     }
//! }
//! println!("{} threads", analysis.finish().threads.len());
//! # Ok::<(), kymo_ctf::Error>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod analysis;
mod context;
mod contradiction;
mod cpu;
mod expect;
mod finish;
mod gap;
mod histogram;
mod kind;
mod lock;
mod report;
mod span;
mod thread;

pub use analysis::Analysis;
pub use expect::{ExpectError, Expectations, Found, Judge, Verdict};
pub use gap::tells_what_happens;
pub use histogram::Histogram;
pub use kind::{Kind, Kinds, Left, SyscallKey};
pub use report::{
    ClockHealth, Contradiction, Contradictions, CpuUse, Durations, Interrupt, Lock, LockBlock,
    LongestWait, Loss, Losses, Messages, PageFaults, ProcessFaults, Report, SystemCall, Thread,
    ThreadFaults, ThreadRef, Waiter, WakeLatency, WorstWake,
};
pub use span::{Span, SpanKind};
