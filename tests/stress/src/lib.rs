//! Writers that signals nest three deep, on several threads, under readers on other CPUs: real
//! pre-emption at any instruction, with real concurrency.
//!
//! # Method
//! Four threads record into a ring each. A thread arms a timer of its own and records until the
//! timer's signal comes; the handler of SIGUSR1 does the same with SIGUSR2, that of SIGUSR2 with
//! SIGRTMIN, and each handler lets the higher signals in. So almost every signal stops a writer,
//! often one that has itself stopped two others. The delays are random and far shorter than what
//! goes on, and a timer that is late stops some later writer: nothing depends on when it comes. Two
//! reader threads drain meanwhile; a thread usually waits for its reader when half a ring is
//! unread, and sometimes does not.
//!
//! # What is verified
//! - Every record that is read: its sequence number goes up within (thread, depth), its checksum is
//!   right, its time does not step back.
//! - At the end of a run, for each thread: calls = read + overwritten + dropped, and the gaps in
//!   the sequence numbers are those losses, exactly.
//! - In one handler in a few, the memory as a crash would leave it at that instruction: by the
//!   rules of dumps, returned <= found + lost <= called. Nobody writes the thread's ring while its
//!   handler runs.
//! - That it happened: signals inside of the writer's hot path at every depth, in the slow path,
//!   three writers stopped at once, a reader that was lapped, a ring that was full. Where a signal
//!   came is known from the instruction pointer in its context and the symbols of this program.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test.

mod code;
mod event;
mod reader;
mod run;
mod signal;
mod thread;
mod writer;

pub use run::{Report, run};
pub use writer::{AtGs, Portable, Tsc, Writer};
