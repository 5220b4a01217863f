//! Runs every probe `ON` times during a session and `OFF` times after it, for QEMU's plugin to
//! count (tests/e2e/tests/cost.rs). On RISC-V and AArch64 this is a kernel of one CPU, on x86-64 a
//! Linux program.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod counters;
mod own_counters;
mod probes;

use kymo::vocabulary::{IrqEnter, Sample};
use kymo::{Clock, Config, RegionMemory};
use probes::Kymo;
use probes::{Stack, TwoFields};

/// Recording calls of each probe.
const ON: u32 = 2000;
/// Calls of each probe that record nothing.
const OFF: u32 = 500;

static VOCABULARY: kymo::Vocabulary = kymo::vocabulary![TwoFields, IrqEnter, Sample];
static REGION: RegionMemory<{ 1 << 20 }, 1, { own_counters::COUNTERS.words() }> =
    RegionMemory::new();

/// Calls the probes; false if the session did not start or stop.
fn measure() -> bool {
    let config = Config {
        cpus: 1,
        packets: 128,
        names_packets: 4,
        samples_packets: 64,
        clock: Clock::at(1_000_000_000),
        // A kernel without paging; unknown for a program.
        phys: if cfg!(target_os = "none") {
            &raw const REGION as u64
        } else {
            0
        },
        ..Config::DEFAULT
    };
    let Ok(session) = Kymo::start(REGION.memory(), &config, &VOCABULARY) else {
        return false;
    };
    Stack::prepare();
    #[cfg(target_os = "none")]
    if !counters::prepare() {
        return false;
    }
    call(ON);
    let stopped = session.stop().is_ok();
    call(OFF);
    stopped
}

/// Through opaque pointers, so that the compiler inlines none.
fn call(times: u32) {
    let all: [extern "C" fn(u32, u32); 11] = [
        probes::kymo_probe_two_fields,
        probes::kymo_probe_two_fields_masked,
        probes::kymo_probe_irq_enter_masked,
        probes::kymo_probe_raw,
        probes::kymo_probe_one_more,
        probes::kymo_probe_sample_1,
        probes::kymo_probe_sample_8,
        probes::kymo_probe_sample_32,
        own_counters::kymo_probe_count,
        own_counters::kymo_probe_count_unnested,
        own_counters::kymo_probe_observe,
    ];
    for probe in all {
        let probe = core::hint::black_box(probe);
        (0..times).for_each(|turn| probe(turn, turn + 1));
    }
    #[cfg(target_os = "none")]
    for probe in [
        counters::kymo_probe_read_bare,
        counters::kymo_probe_read_registers,
        counters::kymo_probe_read_group,
    ] {
        let probe: extern "C" fn(u32, u32) = core::hint::black_box(probe);
        (0..times).for_each(|turn| probe(turn, turn + 1));
    }
}

#[cfg(any(target_arch = "riscv64", target_arch = "riscv32"))]
mod start {
    core::arch::global_asm!(
        ".section .text.entry, \"ax\"",
        ".globl _start",
        "_start:",
        ".option push",
        ".option norelax",
        "la gp, __global_pointer$",
        ".option pop",
        "la sp, stack_top",
        "call {main}",
        main = sym main,
    );

    extern "C" fn main() -> ! {
        // SAFETY: there is one hart, and `tp` is its block from here on.
        unsafe {
            core::arch::asm!("mv tp, {}", in(reg) super::REGION.control(0), options(nostack))
        };
        // QEMU's `sifive_test` device exits with 0 or 1.
        let word: u32 = if super::measure() {
            0x5555
        } else {
            1 << 16 | 0x3333
        };
        // SAFETY: the device's only register is at this address on `virt`, and there is no paging.
        unsafe { (0x10_0000 as *mut u32).write_volatile(word) };
        loop {
            core::hint::spin_loop();
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod start {
    use core::arch::asm;

    core::arch::global_asm!(
        ".section .text.entry, \"ax\"",
        ".globl _start",
        "_start:",
        "adrp x1, stack_top",
        "add x1, x1, :lo12:stack_top",
        "mov sp, x1",
        "bl {main}",
        main = sym main,
    );

    extern "C" fn main() -> ! {
        const EXIT_EXTENDED: u32 = 0x20;
        const APPLICATION_EXIT: usize = 0x2_0026;
        // SAFETY: there is one CPU, and `tpidr_el1` is its block from here on.
        unsafe { asm!("msr tpidr_el1, {}", in(reg) super::REGION.control(0)) };
        let reason = [APPLICATION_EXIT, usize::from(!super::measure())];
        // SAFETY: QEMU's semihosting reads the two words, and exits with the second.
        unsafe { asm!("hlt 0xf000", inlateout("w0") EXIT_EXTENDED => _, in("x1") reason.as_ptr()) };
        loop {
            core::hint::spin_loop();
        }
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn main() -> std::process::ExitCode {
    use core::arch::asm;
    const ARCH_PRCTL: usize = 158;
    const ARCH_SET_GS: usize = 0x1001;
    // The pointer at gs:0.
    let block = REGION.control(0);
    let failed: usize;
    // SAFETY: nothing else uses `gs` in a Linux program, and `block` outlives all calls.
    unsafe {
        asm!("syscall", inlateout("rax") ARCH_PRCTL => failed, in("rdi") ARCH_SET_GS, in("rsi") &raw const block,
            out("rcx") _, out("r11") _, options(nostack));
    }
    if failed == 0 && measure() {
        std::process::ExitCode::SUCCESS
    } else {
        std::process::ExitCode::FAILURE
    }
}

#[cfg(target_os = "none")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
