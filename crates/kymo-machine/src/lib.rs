//! A model of the traced machine: what ran, waited, was held and got lost.
//!
//! [`Machine`] takes the items of a trace in time order and holds the state after the last one:
//! which thread runs on each CPU, what each thread does and since when, who holds a lock, which
//! interrupts are open, names, losses. Each item yields the [changes](Change) that it made.
//! Reports, checks, exports and selections consume these changes; none of them interprets events
//! itself.
//!
//! - It understands the events of [`mod@kymo::vocabulary`] and their equivalents in other tracers
//!   (the table is in the module `typed`). Other events change nothing.
//! - It never guesses. At the start and after a loss, the thread on a CPU is unknown until the
//!   CPU's next switch. A thread that was off CPU during a loss may have run meanwhile, so its
//!   state and context (system call, wait, held locks) become unknown too.
//! - Memory grows with the number of threads, CPUs, locks and names, not of events.
//! - A clone is a checkpoint: keep several to resume from the last one before any time. It can be
//!   serialized.
//!
//! Reading files is the job of [`kymo_ctf`].
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
mod checkpoint;
mod counts;
mod cpu;
mod gap;
mod irq;
mod lock;
mod losses;
mod machine;
mod process;
mod sample;
mod sched;
mod span;
mod streams;
mod thread;
mod totals;
mod typed;
mod understood;

pub use call::{CallId, CallKey};
pub use change::{Change, Contradiction, Named, NotIdle};
pub use counts::Ran;
pub use cpu::Cpu;
pub use gap::{channel_of, records_activity};
pub use irq::IrqLine;
pub use machine::{Machine, Taken};
pub use process::{AddressSpace, Mapping};
pub use sample::{CallChain, ChainOf, ChainPart, Period, StackPart};
pub use span::{Span, SpanKind};
pub use thread::{Doing, Thread, ThreadId, Waker, passed};
pub use totals::Totals;
pub use typed::{is_kymos, is_program};
