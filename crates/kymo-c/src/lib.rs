//! Kymo for kernels in C: the library `libkymo.a` behind the header `include/kymo.h`.
//!
//! The header tests whether an event is on and puts its words together; a function here writes the
//! record. The kernel defines five functions ([`port`]) and the memory, and declares its own events
//! by a list of macros, which arrives here as a table ([`own`]).
//!
//! `tests/header.rs` makes the header and [`vocabulary`] from the declarations of the crate `kymo`:
//! `KYMO_BLESS=1 cargo test -p kymo-c --test header`.
//!
//! # Invariants
//! - Nothing here formats, allocates or asks for a C library. A panic stops the CPU; none is known.
//! - Interrupts are masked while a record is written: [`port::Port`] reserves with `Masked` on
//!   every processor.
//! - What C passes is checked where it is not on a hot path; where it is, the header calls.
#![cfg_attr(target_os = "none", no_std)]
#![deny(missing_docs)]

pub mod error;
pub mod own;
pub mod port;
pub mod record;
pub mod session;
pub mod vocabulary;

/// Stops the CPU where a debugger finds it: no panic crosses into C.
#[cfg(target_os = "none")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
