//! Counter groups of Linux, over `perf_event_open(2)`.
//!
//! A [`Group`] counts events for one [`Target`]: a thread, a CPU, or a thread on a CPU. Events,
//! groups and snapshots are those of [`kymo::count`](mod@kymo::count), with the same meaning as in
//! a kernel of one's own: the group counts as a whole or not at all, and a
//! [`Snapshot`](kymo::count::Snapshot) says for how much of the time it did. [`Counters`] are groups on many targets, added up.
//!
//! ```no_run
//! use kymo_perf::{EventNames, Group, Options, SlotLimit, Target};
//!
//! let groups = EventNames::default().groups("{page-faults,context-switches}")?;
//! let limit = SlotLimit::of_machine()?;
//! let mut group = Group::open(Target::SELF, &groups[0].spec, Options::default(), limit)?;
//! group.start()?;
//! let memory = vec![1_u8; 1 << 20];
//! for count in group.read_all()?.members() {
//!     println!("{}: {} (scaled: {:?})", count.event, count.raw, count.scaled);
//! }
//! # drop(memory);
//! # Ok::<(), kymo_perf::Error>(())
//! ```
//!
//! [`Sampler`]s take samples instead, which the kernel writes to a buffer together with records of
//! the threads, programs and files that they are from: `kymo-linux` makes a trace of them.
//!
//! # Invariants
//! - Every event is opened disabled and reset, then its eBPF program is attached; a group is
//!   enabled last, as a whole.
//! - A group is read by one system call, whatever its size; a count is found by the kernel's id of
//!   its event.
//! - Adding a member starts the whole group again from zero. Linux resets counts but not times, so
//!   a group remembers the times of its start.
//! - A leader with members is not closed but by [`Group::detach_all`].
//!
//! # The binding
//! The structures and numbers come from the crate `perf-event-open-sys`, which is generated from
//! the kernel's headers and regenerated for its releases, for all processors that run Linux, and
//! has no code but the calls themselves. `perf-event2` and its own binding are of older headers,
//! and read a group into a table of their own counters; here the types are Kymo's. The calls, and
//! all of this crate's unsafe code, are in the module `sys`.

#![cfg(target_os = "linux")]
#![deny(unsafe_code)]
#![deny(missing_docs)]

mod attributes;
mod command;
mod confidence;
mod counters;
mod error;
mod group;
mod limit;
mod machine;
mod names;
mod pmu;
#[cfg(feature = "aya")]
mod program;
mod sampler;
#[allow(unsafe_code)]
mod sys;
mod target;
#[cfg(test)]
mod tests;
mod tracepoints;
mod values;

pub use attributes::{DEFAULT_PERIOD, Options};
pub use command::HeldCommand;
pub use confidence::{MIN_READINGS, Readings};
pub use counters::{Counters, EventTotal, MAX_ATTEMPTS, Total, open_threads};
pub use error::Error;
pub use group::{Group, Handle};
pub use limit::{DEFAULT_SLOTS, LIMIT_VARIABLE, LimitSource, SlotLimit};
pub use machine::{Needs, Paranoid, cpu_list, online_cpus, threads};
pub use names::{EventNames, NamedEvent, NamedGroup, split_groups};
pub use pmu::{PmuEvent, Pmus};
#[cfg(feature = "aya")]
pub use program::ProgramFile;
pub use sampler::{BUFFERS, SampledEvent, Sampler, Sampling};
pub use target::Target;
pub use tracepoints::Tracepoints;
