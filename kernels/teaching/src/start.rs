//! Machine mode: the kernel is its own firmware. Each hart passes through here once.

use core::arch::asm;
use core::cell::UnsafeCell;

use crate::cpu::MAX_CPUS;

/// Bytes of the stack on which a hart starts, and on which its scheduler then runs; a power of two.
pub const STACK_SIZE: usize = 16 * 1024;

/// Ticks of the machine's clock, at 10 MHz, between two timer interrupts of a hart: 10 ms.
const INTERVAL: u64 = 100_000;

const CLINT: usize = 0x200_0000;
const MTIME: *const u64 = (CLINT + 0xbff8) as *const u64;

#[repr(C, align(16))]
struct Stacks(UnsafeCell<[[u8; STACK_SIZE]; MAX_CPUS]>);

// SAFETY: each hart uses only its own stack, and only through `sp`.
unsafe impl Sync for Stacks {}

#[unsafe(no_mangle)]
static BOOT_STACKS: Stacks = Stacks(UnsafeCell::new([[0; STACK_SIZE]; MAX_CPUS]));

/// What `machine_timer` needs of its hart; entry.s knows the layout.
#[repr(C)]
struct TimerArea {
    saved: [u64; 3],
    compare: *mut u64,
    interval: u64,
}

struct TimerAreas(UnsafeCell<[TimerArea; MAX_CPUS]>);

// SAFETY: each hart touches only its own area, here and then in `machine_timer`.
unsafe impl Sync for TimerAreas {}

static TIMER_AREAS: TimerAreas = TimerAreas(UnsafeCell::new(
    [const {
        TimerArea {
            saved: [0; 3],
            compare: core::ptr::null_mut(),
            interval: INTERVAL,
        }
    }; MAX_CPUS],
));

unsafe extern "C" {
    fn machine_timer();
}

/// Prepares supervisor mode and goes there, to `main`, with the hart's id in `tp`.
#[unsafe(no_mangle)]
extern "C" fn machine_start(hart: usize) -> ! {
    start_timer(hart);
    // SAFETY: bit 1 lets supervisor mode read `time`.
    unsafe { asm!("csrs mcounteren, {}", in(reg) 1 << 1) };
    // SAFETY: run once on each hart, in machine mode, with the hart's own stack. The one PMP region
    // opens all memory to supervisor mode; all traps that can be delegated are; `mret` goes to
    // `main`, which does not return.
    unsafe {
        asm!(
            "csrw satp, zero",
            "li t0, -1",
            "srli t0, t0, 10",
            "csrw pmpaddr0, t0",
            "li t0, 0xf",
            "csrw pmpcfg0, t0",
            "li t0, 0xffff",
            "csrw medeleg, t0",
            "csrw mideleg, t0",
            "li t0, 3 << 11",           // mstatus.MPP: the mode that mret goes to,
            "csrc mstatus, t0",
            "li t0, 1 << 11",           // supervisor
            "csrs mstatus, t0",
            "csrw mepc, {main}",
            "mv tp, {hart}",
            "mret",
            main = in(reg) crate::main as *const () as usize,
            hart = in(reg) hart,
            options(noreturn),
        )
    }
}

/// Sets this hart's first timer interrupt.
fn start_timer(hart: usize) {
    let compare = (CLINT + 0x4000 + 8 * hart) as *mut u64;
    // SAFETY: the hart's own area, before its timer interrupt is enabled; the CLINT of QEMU virt
    // has the hart's compare register and the clock at these addresses.
    let area = unsafe {
        let area = TIMER_AREAS.0.get().cast::<TimerArea>().add(hart);
        (*area).compare = compare;
        compare.write_volatile(MTIME.read_volatile() + INTERVAL);
        area
    };
    // SAFETY: `machine_timer` handles the only interrupt enabled here (MTIE).
    unsafe {
        asm!(
            "csrw mscratch, {area}",
            "csrw mtvec, {vector}",
            "csrw mie, {timer}",
            area = in(reg) area,
            vector = in(reg) machine_timer as *const () as usize,
            timer = in(reg) 1 << 7,
        );
    }
}
