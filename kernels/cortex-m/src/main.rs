//! Kymo on Cortex-M, with a compare-and-swap and without one: what an event costs ([`cost`]), and
//! interrupts that write while others write ([`nesting`]). tests/e2e/tests/cortex_m.rs runs it.
#![no_std]
#![no_main]

mod cost;
mod nesting;
mod semihosting;

use core::fmt::Write;

use kymo::platform::{Control, ControlPointer};
use kymo::{Clock, Config, RegionMemory};

kymo::event! {
    /// A record of one of several writers.
    #[id(21)]
    pub struct Written { pub writer: u32, pub seq: u32 }
}

static VOCABULARY: kymo::Vocabulary = kymo::vocabulary![Written];
/// As for a chip with 16 KiB of RAM.
static REGION: RegionMemory<{ 12 << 10 }, 1> = RegionMemory::new();

fn config() -> Config {
    Config {
        packet_size: 256,
        packets: 5,
        names_packets: 4,
        clock: Clock::at(1_000_000),
        phys: &raw const REGION as u64,
        ..Config::DEFAULT
    }
}

/// The one CPU's blocks.
struct AtRegion;

// SAFETY: there is one CPU, and the region is a static.
unsafe impl ControlPointer for AtRegion {
    const NEVER_NULL: bool = true;

    #[inline(always)]
    fn get() -> *const Control {
        REGION.control(0)
    }
}

/// The interrupt that SysTick makes pending.
const URGENT_IRQ: usize = 3;

core::arch::global_asm!(
    ".section .vectors, \"a\"",
    ".word stack_top",
    ".word reset",
    // NMI, faults, and what is not used.
    ".rept 13",
    ".word {unexpected}",
    ".endr",
    ".word systick",
    ".rept {urgent}",
    ".word {unexpected}",
    ".endr",
    ".word {on_urgent}",
    ".section .text.start, \"ax\"",
    ".thumb",
    ".global reset",
    ".type reset, %function",
    "reset:",
    // Data from flash; QEMU's RAM is zero already.
    "ldr r0, 3f",
    "ldr r1, 4f",
    "ldr r2, 5f",
    "b 7f",
    "6:",
    "ldr r3, [r0]",
    "str r3, [r1]",
    "adds r0, #4",
    "adds r1, #4",
    "7:",
    "cmp r1, r2",
    "blo 6b",
    "ldr r0, 1f",
    "bx r0",
    // The registers that the processor has stored are at the stack pointer.
    ".global systick",
    ".type systick, %function",
    "systick:",
    "mov r0, sp",
    "ldr r1, 2f",
    "bx r1",
    ".balign 4",
    "1: .word {main}",
    "2: .word {on_systick}",
    "3: .word data_from",
    "4: .word 0x20000000",
    "5: .word data_end",
    unexpected = sym unexpected,
    main = sym main,
    on_systick = sym nesting::on_systick,
    on_urgent = sym nesting::on_urgent,
    urgent = const URGENT_IRQ,
);

extern "C" fn unexpected() {
    semihosting::exit(3);
}

extern "C" fn main() -> ! {
    if let Err(error) = cost::run() {
        let _ = write!(semihosting::Console, "{error}");
        semihosting::exit(1);
    }
    semihosting::exit(if nesting::run() { 0 } else { 2 });
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    semihosting::exit(4);
}
