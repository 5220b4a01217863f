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
//! - Nothing here formats by the standard library, allocates or asks for a C library. A panic would
//!   stop the CPU; none is linked into a kernel for RV32. With `kymo_start_as` comes one of Rust's
//!   search in texts, which cannot happen.
//! - Interrupts are masked while a record is written: [`port::Port`] reserves with `Masked`. In a
//!   library for NMIs, which nest, it reserves with `LocalCas`.
//! - What C passes is checked where it is not on a hot path; where it is, the header calls.
// For a kernel, not for a test on this machine. No program is built for x86 without SSE.
#![cfg_attr(
    any(
        target_os = "none",
        all(target_arch = "x86", not(target_feature = "sse"))
    ),
    no_std
)]
#![deny(missing_docs)]

pub use kymo_c_record::{port, record};

pub mod boot;
pub mod config;
pub mod contexts;
pub mod counters;
pub mod counting;
pub mod error;
pub mod events;
pub mod fields;
pub mod history;
pub mod own;
pub mod perf;
#[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
pub mod ready;
pub mod sample;
pub mod session;
pub mod transport;
pub mod vocabulary;

/// Stops the CPU where a debugger finds it: no panic crosses into C.
#[cfg(any(
    target_os = "none",
    all(target_arch = "x86", not(target_feature = "sse"))
))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// The header was made for these places of the control blocks. It is made on a 64-bit machine: a
/// processor with other places needs a header with both.
const _: () = {
    use kymo::ChannelKind::{Events, Names, Samples};
    use kymo::ring::local::switch_place;
    use vocabulary::PLACES;
    assert!(switch_place(Events, 0).0 == PLACES[0]);
    assert!(switch_place(Events, 32).0 == PLACES[1]);
    assert!(switch_place(Names, 32).0 == PLACES[2]);
    assert!(switch_place(Samples, 0).0 == PLACES[3]);
    assert!(switch_place(Samples, 32).0 == PLACES[4]);
};
