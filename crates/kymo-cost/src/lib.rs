//! A QEMU TCG plugin that counts instructions, loads and stores in address ranges: in total and per
//! call, on every CPU.
//!
//! ```text
//! qemu-system-riscv64 ... -plugin libkymo_cost.so,start=0x80201000,end=0x80201040
//! qemu-x86_64 -plugin libkymo_cost.so,name=record,start=0x401000,end=0x401040,out=cost.json ./program
//! ```
//!
//! `from=FILE` stands for the arguments in a file, one a line.
//!
//! - `arguments`: the *functions* to count, each of which is one or more half-open ranges with an
//!   entry address.
//! - `decode`: where an instruction can lead, and the source of its loads and stores, by
//!   architecture.
//! - `call`: the call to which an instruction belongs, despite interrupts and other calls in
//!   between.
//! - `histogram`: exact histograms of the counts per call.
//! - `cpus`: one block of counters per CPU, for any number of CPUs.
//! - `report`: the sum over all CPUs, as text and as JSON.
//! - `qemu`, `plugin`: declarations of QEMU's plugin API (versions 1 and 4), and the callbacks.
//!
//! It counts exactly, on any number of CPUs:
//! 1. Every execution of an instruction in a range. (One that faults and is repeated counts twice.)
//! 2. Every load and store that such an instruction makes. An atomic read-modify-write is one of
//!    each.
//! 3. Every call: an execution of the instruction at the entry address.
//!
//! It uses only callbacks: QEMU's inline counters are shared by all CPUs and lose counts when these
//! run in parallel. The counts are instructions, not cycles: QEMU has no pipeline and no caches.

// Tests are built without plugin.rs, which uses the rest.
#![cfg_attr(test, allow(dead_code))]

mod arguments;
mod call;
mod cpus;
mod decode;

mod histogram;
mod report;

// These need QEMU's symbols, which a test program does not have.
#[cfg(not(test))]
mod plugin;
#[cfg(not(test))]
mod qemu;
