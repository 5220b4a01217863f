//! Analysis of kernel traces: who ran, who waited, for what and how long.
//!
//! [`Analysis`] takes the items of a trace in time order and yields a [`Report`]. [`kymo_machine`]
//! interprets the events; this crate turns its changes into figures, one section per subject.
//!
//! - Memory does not grow with the length of the trace: state is per thread, CPU, lock, interrupt
//!   line and system call, and percentiles come from [`Histogram`]s.
//! - Durations that would span a loss are left out.
//! - A thread that runs at the end of the trace counts as running until the last event, unless its
//!   CPU's stream is damaged.
//!
//! Reading files is the job of [`kymo_ctf`], and printing that of the `kymo` command.
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
mod conditions;
mod diff;
mod doctor;
mod expect;
mod histogram;
mod part;
mod path;
mod section;

pub use analysis::Analysis;
pub use conditions::Conditions;
pub use diff::{Compared, Diff, Difference, Pair, Tested};
pub use doctor::{Diagnosis, Doctor, Finding, Looked, Severity};
pub use expect::{Condition, ExpectError, Expectations, Found, Judge, Verdict, named_fields};
pub use histogram::Histogram;
pub use kymo_machine::{Span, SpanKind};
pub use part::{Part, Place};
pub use path::{
    Because, CallRef, CriticalPath, History, InterruptRef, LockRef, Note, OfKind, Responsible,
    Segment, SegmentKind, Stretch, StretchKind, Stretches, Who,
};
pub use section::{
    CallCounts, CaseKind, ClockHealth, Contradiction, Contradictions, Counters, CpuCounts, CpuUse,
    Durations, EventCount, GroupCounters, Interrupt, InterruptCounts, Lock, LockBlock, LongestWait,
    Loss, Losses, Messages, OtherEvents, OwnBucket, OwnCounter, OwnHistogram, PageFaults,
    ProcessFaults, Report, RunQueue, Samples, SystemCall, Thread, ThreadCounts, ThreadEvents,
    ThreadFaults, ThreadRef, ThreadSamples, Waiter, WakeLatency, WorstCase, WorstWake,
};
