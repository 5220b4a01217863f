//! One out-of-line function per tracepoint, for disassembly and counting: arguments are in
//! registers at its first instruction, and its last is `ret`.
//!
//! Tests read this archive's machine code; measure.rs runs the same functions.
#![no_std]

mod own_counters;
mod probes;

use probes::Kymo;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
