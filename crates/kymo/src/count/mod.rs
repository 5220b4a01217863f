//! Counting: groups of performance-counter events that are read together.
//!
//! A [`GroupSpec`] names up to 16 [events](EventSpec), the first of which is the leader. A group
//! counts as a whole or not at all: where the groups of a CPU need more counters than its PMU has,
//! they take turns, and a [`Snapshot`] says how much of the time each had, and what the counts
//! would be had it run all the time ([`scale`]). The kernel counts software events itself, so they
//! take no slot of the PMU; but in a group they count while the group does.
//!
//! [`Groups`] are those of a CPU or of a thread; [`Cpu`] puts them on the CPU's [PMU](pmu::Pmu) and
//! takes them off. The kernel calls it at four places: the tick, the thread switch, the PMU's
//! interrupt, and where software events happen. In a session of the mode `count`, every CPU counts
//! groups of the session's besides: [`Counting`].
//!
//! ```
//! use kymo::count::pmu::Model;
//! use kymo::count::{Cpu, EventKind, EventSpec, GroupSpec, Groups, Hardware, Software, group};
//!
//! // In a kernel, the driver of its PMU.
//! type MyPmu = Model<4>;
//! const WORK: GroupSpec = group!(
//!     MyPmu,
//!     EventSpec::hardware(Hardware::Cycles),
//!     EventSpec::hardware(Hardware::Instructions),
//!     EventSpec::software(Software::PageFaults),
//! );
//!
//! let mut cpu: Cpu<MyPmu> = Cpu::new(MyPmu::new(48));
//! let mut thread: Groups = Groups::NONE;
//! let work = thread.attach(cpu.pmu(), &WORK)?;
//! cpu.switch_in(&mut thread, 1_000);
//! # cpu.pmu_mut().happen(EventKind::Hardware(Hardware::Instructions), false, 700);
//! cpu.happened(Software::PageFaults, true);
//! cpu.switch_out(&mut thread, 3_000);
//! let counts = thread.read(work)?;
//! assert_eq!(counts.time_running, 2_000);
//! let [_cycles, instructions, faults] = counts.members() else { unreachable!() };
//! assert_eq!((instructions.raw, faults.scaled), (700, Some(1)));
//! # Ok::<(), kymo::count::Refused>(())
//! ```
//!
//! # Invariants
//! - All calls about a CPU come from that CPU with interrupts masked, those about a thread's groups
//!   from the CPU that it runs on, or while it does not run: `&mut` says so where a kernel's
//!   threads and CPUs are Rust's.
//! - An owner's groups change only while they are off the PMU.
//! - `time_running <= time_enabled`, always.
//! - Either all events of a group count or none does.

mod cpu;
mod event;
mod group;
mod groups;
mod matching;
pub mod pmu;
mod scale;
mod session;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use cpu::{Cpu, Overflow};
pub use event::{
    BreakOn, Breakpoint, Cache, CacheAccess, CacheLevel, EventKind, EventSpec, Exclude, Hardware,
    Software,
};
pub use group::{
    FittingGroup, GroupSpec, MAX_EVENTS, MemberCount, Refused, Snapshot, check_leaders, slots,
};
pub use groups::{Groups, Handle, check};
pub use scale::scale;
pub use session::{Counting, MAX_GROUPS, Turn};

#[doc(inline)]
pub use crate::__count_group as group;
