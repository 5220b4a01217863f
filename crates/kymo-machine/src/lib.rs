//! What ran, waited, held and got lost: one model of the traced machine.
//!
//! [`Machine`] takes the items of a trace in the order of time and answers for that time: which
//! thread runs on a CPU, what a thread does and since when, who has a lock, which interrupts are
//! open, what things are called, what was lost. Each item gives the [changes](Change) that it made;
//! reports, checks, exports and selections are consumers of these, and none of them decides by
//! itself what an event means.
//!
//! - It understands the events of [`mod@kymo::vocabulary`], and those of other tracers that say the
//!   same (the module `typed` has the table). Others change nothing.
//! - Nothing is made up. At the beginning, and after a loss, it is not known what a CPU runs until
//!   its next switch. During a loss a thread that does not run elsewhere may have run there, so that
//!   its state and what it was in (a system call, a wait, a lock held) are unknown too.
//! - Memory is taken for threads, CPUs, locks and names, not for events.
//! - A clone is the state at a time: whoever keeps some can go on from the one before any time.
//!
//! It does not read files: that is for [`kymo_ctf`].
//!
//! ```no_run
//! use kymo_machine::{Change, Machine};
//!
//! let trace = kymo_ctf::Trace::open("trace".as_ref())?;
//! let map = trace.map();
//! let (mut reader, mut machine, mut switches) = (map.read(), Machine::new(), 0);
//! while let Some(item) = reader.next() {
//!     machine.add(&item);
//!     let is_switch = |change: &&Change| matches!(change, Change::Switch { .. });
//!     switches += machine.changes().iter().filter(is_switch).count();
//! }
//! println!("{switches} switches between {} threads", machine.threads().len());
//! # Ok::<(), kymo_ctf::Error>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod call;
mod change;
mod cpu;
mod gap;
mod irq;
mod lock;
mod machine;
mod sched;
mod thread;
mod typed;

pub use call::{CallId, CallKey};
pub use change::{Change, Contradiction, Named};
pub use cpu::Cpu;
pub use gap::tells_what_happens;
pub use irq::IrqLine;
pub use machine::{Machine, Taken};
pub use thread::{Doing, Thread, ThreadId, Waker, passed};
