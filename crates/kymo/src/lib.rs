//! Performance analysis for any kernel: typed events, samples and counts, per CPU, without locks,
//! in Common Trace Format.
//!
//! A kernel declares its events, implements [`Platform`] and calls [`Tracer::start`]; from then on
//! every [`trace!`] writes a record into the ring of the CPU that it runs on. Anyone who can read
//! the memory can read the rings: the kernel, a host that maps a guest's RAM, a debugger, a dump of
//! a dead machine. What they read is CTF 1.8; nothing has to be converted.
//!
//! # What it costs
//! An event with two 32-bit fields takes 12 bytes and, on RV64, 21 instructions (23 with interrupts
//! masked and restored around it), on RV32 24 (26), on x86-64 25 (interrupts and NMIs may nest;
//! pre-emption off already). An event that is switched off costs a load, a test and a branch;
//! without the feature `trace`, nothing. A sample with its call chain is at most 150 instructions,
//! and 25 more for each caller.
//!
//! # What it never does
//! Allocate, lock, wait, print, call the kernel back (but for its clock), lose an event without
//! counting it, or let a reader stop a writer.
//!
//! # Where things are
//! The root has what kernel code uses daily, [`platform`] what a port implements, [`sample`] what a
//! timer interrupt or NMI calls to record where its CPU was, [`mod@count`] groups of
//! performance counters. [`ring`] can be read alone: a region of memory, its writers and its
//! reader.
//! [`Recorder`] is the door for system calls: a session is a set of modes over one region. The
//! invariants of the ring stand in [`ring`]; those that a kernel must keep, in [`Platform`].
//!
//! [`Platform`]: platform::Platform
//!
//! # Example
//! A kernel on x86-64 that keeps a pointer to its Kymo block in its per-CPU data (`kernels/hello`
//! is a whole one, on RISC-V):
//! ```no_run
//! use kymo::platform::{ByPointer, Control, ControlPointer, LocalCas, Platform};
//! use kymo::vocabulary::{IrqEnter, IrqExit, SchedSwitch, SwitchReason, ThreadState};
//! use kymo::{Clock, Config, RegionMemory, Tid, trace};
//!
//! kymo::event! {
//!     /// A block came back from the disk.
//!     #[id(21)]
//!     pub struct BlockDone { pub sector: u64, pub error: i32 }
//! }
//! static VOCABULARY: kymo::Vocabulary =
//!     kymo::vocabulary![SchedSwitch, IrqEnter, IrqExit, BlockDone];
//! static REGION: RegionMemory<{ 8 << 20 }, 4> = RegionMemory::new();
//! type Kymo = kymo::Tracer<MyKernel>; // `trace!` finds it at the crate's root.
//!
//! struct MyKernel;
//! # fn this_cpu_kymo_block() -> *const Control { REGION.control(0) }
//! # fn interrupt_every_cpu_and_wait() {}
//! # fn clock_ticks() -> u64 { 0 }
//! // SAFETY: each CPU's block is its own, and tracepoints stand only where pre-emption is off.
//! unsafe impl ControlPointer for MyKernel {
//!     fn get() -> *const Control { this_cpu_kymo_block() }
//! }
//! // SAFETY: as above.
//! unsafe impl Platform for MyKernel {
//!     type Reserve = LocalCas;
//!     type Local = ByPointer<MyKernel>;
//!     fn clock() -> u64 { clock_ticks() }
//!     fn synchronize() { interrupt_every_cpu_and_wait() }
//! }
//!
//! fn switch_to(prev: Tid, next: Tid) {
//!     trace!(SchedSwitch {
//!         prev_tid: prev,
//!         next_tid: next,
//!         prev_state: ThreadState::Runnable,
//!         reason: SwitchReason::Expired,
//!         next_prio: 0,
//!     });
//! }
//!
//! fn main() {
//!     let config = Config {
//!         cpus: 4,
//!         clock: Clock::at(1_000_000_000),
//!         phys: 0x10_0000,
//!         ..Config::DEFAULT
//!     };
//!     let session = Kymo::start(REGION.memory(), &config, &VOCABULARY).expect("memory for rings");
//!     switch_to(Tid(1), Tid(2));
//!     session.stop().expect("it runs");
//! }
//! ```
#![cfg_attr(not(test), no_std)]
#![deny(missing_docs)]

#[cfg(not(any(target_pointer_width = "64", target_pointer_width = "32")))]
compile_error!("Kymo runs on 64-bit and on 32-bit processors");
#[cfg(target_endian = "big")]
compile_error!("Kymo runs on little-endian processors so far");

// `thread_cpu` calls the crate by its name, as the integration tests do.
#[cfg(all(test, not(loom)))]
extern crate self as kymo;

pub mod arch;
pub mod boot;
mod channel;
pub mod count;
pub mod counter;
pub mod ctf;
pub mod event;
mod exclusive;
pub mod history;
pub mod perf;
pub mod platform;
mod recorder;
pub mod ring;
pub mod sample;
mod session;
mod sync;
pub mod text;
#[cfg(all(test, not(loom)))]
#[path = "../tests/thread_cpu/mod.rs"]
mod thread_cpu;
mod tracer;
pub mod transport;
pub mod vocabulary;
pub mod wire;

pub use channel::{ChannelId, ChannelKind, ChannelSet};
pub use event::{Sequence, Text, Vocabulary};
pub use history::{Counts, Entry, History};
pub use recorder::{
    Context, Contexts, Diagnostics, Fixed, Ground, Mode, Recorder, Refused, Remains, Sessions,
    Started, State, flags,
};
pub use ring::config::{Config, Error};
pub use ring::layout::{Clock, Consumer, Overflow};
pub use ring::name_epoch::NameEpoch;
pub use ring::region::{Memory, RegionMemory};
pub use session::Session;
pub use tracer::{COMPILED_IN, Tracer};
pub use vocabulary::{Address, Irq, Tid};
