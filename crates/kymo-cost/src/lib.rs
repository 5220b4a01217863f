//! A QEMU TCG plugin that counts instructions, loads and stores in address ranges: in total and
//! call by call, on every CPU.
//!
//! ```text
//! qemu-system-riscv64 ... -plugin libkymo_cost.so,start=0x80201000,end=0x80201040
//! qemu-x86_64 -plugin libkymo_cost.so,name=record,start=0x401000,end=0x401040,out=cost.json ./program
//! ```
//!
//! - `arguments`: what to count: *functions*, each one or more half-open ranges with an entry
//!   address.
//! - `decode`: where an instruction can lead, and who says what it loads and stores, by
//!   architecture.
//! - `call`: which call an instruction belongs to, although interrupts and other calls come in
//!   between.
//! - `histogram`: how many calls took how many instructions, exactly.
//! - `cpus`: one block of counters a CPU, for as many CPUs as there are.
//! - `report`: the sum over all CPUs, as text and as JSON.
//! - `qemu`, `plugin`: QEMU's side, declared here (versions 1 and 4 of its plugin API), and what it
//!   calls.
//!
//! What it counts, exactly, on any number of CPUs:
//! 1. Every execution of an instruction in a range. (One that faults and is executed again was
//!    executed twice.)
//! 2. Every load and store that such an instruction makes. An atomic read-modify-write is one of
//!    each.
//! 3. Every call: an execution of the instruction at the entry address.
//!
//! Only callbacks are used: QEMU's inline counters are shared by all CPUs, and lose counts when
//! these run at once. The counts are instructions, not cycles: QEMU has no pipeline and no caches.

// plugin.rs, which uses the rest, is not there.
#![cfg_attr(test, allow(dead_code))]

mod arguments;
mod call;
mod cpus;
mod decode;

mod histogram;
mod report;

// They need QEMU to be linked: a test program has none.
#[cfg(not(test))]
mod plugin;
#[cfg(not(test))]
mod qemu;
