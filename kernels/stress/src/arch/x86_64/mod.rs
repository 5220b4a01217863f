//! x86-64, QEMU's `q35`: interrupts and NMIs come inside the writer.
//!
//! There are two tracers: `TscCas`, whose clock is the time stamp counter, and `LocalCas` with a
//! clock of the kernel's own, for jumps.

mod apic;
mod machine;

use core::arch::asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use kymo::arch::x86_64::{AtGs, TscCas, tsc};
use kymo::event::Event;
use kymo::platform::{ByPointer, Control, LocalCas, Platform};

use crate::cpu::Cpu;
use crate::{MAX_CPUS, REGION, VOCABULARY};

pub use apic::{arm, poke, start_others};
pub use machine::{cpus, exit, frequency, put};

/// The block to which `gs` points on each CPU, permanently from before its first tracepoint, for
/// NMIs too.
#[repr(C)]
struct PerCpu {
    kymo: *const Control,
    cpu: *const Cpu,
}

type Block = ByPointer<AtGs<{ offset_of!(PerCpu, kymo) }>>;

/// The platform with the time stamp counter as its clock.
pub struct Tsc;

// SAFETY: `adopt` sets `gs` before anything can trace; each CPU has its own block, and no code
// moves to another CPU.
unsafe impl Platform for Tsc {
    type Reserve = TscCas;
    type Local = Block;

    #[inline(always)]
    fn clock() -> u64 {
        tsc()
    }

    /// Returns at once: the other CPUs enter the kernel after the start, and have stopped recording
    /// before the stop.
    fn synchronize() {}

    fn nesting() -> u32 {
        cpu().depth() as u32
    }
}

/// The platform whose clock can jump.
pub struct Jumping;

// SAFETY: as for `Tsc`.
unsafe impl Platform for Jumping {
    type Reserve = LocalCas;
    type Local = Block;

    #[inline(always)]
    fn clock() -> u64 {
        tsc().wrapping_add(cpu().offset())
    }

    /// Returns at once, like `Tsc`.
    fn synchronize() {}

    fn nesting() -> u32 {
        cpu().depth() as u32
    }
}

/// The session of [`start`].
pub enum Recording {
    Tsc(kymo::Session<Tsc>),
    Jumping(kymo::Session<Jumping>),
}

impl Recording {
    pub fn stop(&self) -> Result<(), kymo::Error> {
        match self {
            Recording::Tsc(session) => session.stop(),
            Recording::Jumping(session) => session.stop(),
        }
    }
}

static JUMPS: AtomicBool = AtomicBool::new(false);

/// Starts to record; `jumps` selects the clock that can jump.
pub fn start(config: &kymo::Config, jumps: bool) -> Result<Recording, kymo::Error> {
    JUMPS.store(jumps, Relaxed);
    if jumps {
        kymo::Tracer::start(REGION.memory(), config, &VOCABULARY).map(Recording::Jumping)
    } else {
        kymo::Tracer::start(REGION.memory(), config, &VOCABULARY).map(Recording::Tsc)
    }
}

/// Records an event.
pub fn record<E: Event>(event: E) {
    if JUMPS.load(Relaxed) {
        writer_local_cas(event)
    } else {
        writer_tsc_cas(event)
    }
}

/// Out of line, so that tests see the interrupted instructions.
#[inline(never)]
fn writer_tsc_cas<E: Event>(event: E) {
    if kymo::Tracer::<Tsc>::is_on::<E>() {
        kymo::Tracer::<Tsc>::record(event);
    }
}

/// Out of line like [`writer_tsc_cas`].
#[inline(never)]
fn writer_local_cas<E: Event>(event: E) {
    if kymo::Tracer::<Jumping>::is_on::<E>() {
        kymo::Tracer::<Jumping>::record(event);
    }
}

/// The hardware's clock.
pub fn time() -> u64 {
    tsc()
}

/// This CPU.
pub fn cpu() -> &'static Cpu {
    let cpu: *const Cpu;
    // SAFETY: reads what `adopt` wrote.
    unsafe {
        asm!("mov {}, gs:[{}]", out(reg) cpu, const offset_of!(PerCpu, cpu), options(pure, readonly, nostack))
    };
    // SAFETY: it never moves, as `adopt` was promised.
    unsafe { &*cpu }
}

/// Sets the state that [`cpu`] gives on this CPU, number `id`, and enables NMIs and interrupts.
///
/// # Safety
/// `cpu` must never move.
pub unsafe fn adopt(id: usize, cpu: &Cpu) {
    static mut PER_CPU: [PerCpu; MAX_CPUS] = [const {
        PerCpu {
            kymo: core::ptr::null(),
            cpu: core::ptr::null(),
        }
    }; MAX_CPUS];
    assert!(id < MAX_CPUS, "CPU {id} is one too many");
    // SAFETY: only this CPU uses this element, and comes here once.
    let mine = unsafe { &raw mut PER_CPU[id] };
    // SAFETY: as above.
    unsafe {
        mine.write(PerCpu {
            kymo: REGION.control(id as u32),
            cpu,
        })
    };
    // SAFETY: MSR 0xC0000101 is the base of `gs`, which nobody else uses.
    unsafe {
        asm!("wrmsr", in("ecx") 0xC000_0101_u32, in("eax") mine as u32, in("edx") (mine as u64 >> 32) as u32)
    };
    apic::enable();
}

pub fn mask() {
    // SAFETY: masking interrupts breaks nothing.
    unsafe { asm!("cli") };
}

pub fn unmask() {
    // SAFETY: interrupts may come anywhere, which is the point of this kernel.
    unsafe { asm!("sti") };
}
