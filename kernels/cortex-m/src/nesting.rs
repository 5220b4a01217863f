//! Interrupts that write at any instruction of the thread, and of each other.
//!
//! The thread, SysTick and a more urgent interrupt each write numbered records. What is written is
//! in the trace, or counted as lost: the test adds up. SysTick also notes at which instructions of
//! the thread's writer it came: at none where interrupts are masked.

use core::fmt::Write;
use core::ptr::addr_of_mut;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

use kymo::arch::arm::{Primask, exception};
use kymo::platform::{ByPointer, Interrupts, Masked, Platform};
use kymo::transport::{Sender, WhenFull};
use kymo::{Mode, Recorder};

use crate::semihosting::{Console, File};
use crate::{AtRegion, Written};

/// A board whose clock goes on with each reading: SysTick is taken.
struct Board;

static NOW: AtomicU32 = AtomicU32::new(0);

// SAFETY: see `AtRegion`; no fault handler records.
unsafe impl Platform for Board {
    type Reserve = Masked<Primask>;
    type Local = ByPointer<AtRegion>;

    fn clock() -> u64 {
        let saved = Primask::mask();
        let now = Self::quick_clock();
        Primask::restore(saved);
        now
    }
    /// With interrupts masked.
    #[inline(always)]
    fn quick_clock() -> u64 {
        let now = NOW.load(Relaxed) + 1;
        NOW.store(now, Relaxed);
        now.into()
    }
    fn synchronize() {}
    fn nesting() -> u32 {
        exception()
    }
}

type Kymo = kymo::Tracer<Board>;

static RECORDER: Recorder<Board, 1> = Recorder::new(crate::REGION.memory(), &crate::VOCABULARY);

/// Records of the thread.
const RECORDS: u32 = 20_000;
/// The thread reads after so many of its records, but not at the beginning: there the ring fills.
const READ_EVERY: u32 = 40;
const READ_FROM: u32 = 400;
/// Time between two interrupts by SysTick, in its ticks: a quarter of this to one and a quarter.
const LONGEST: u32 = 120;

/// Who has written how many records: the thread, SysTick, the urgent interrupt.
static WRITTEN: [AtomicU32; 3] = [const { AtomicU32::new(0) }; 3];
/// How often SysTick came at each instruction of the thread's writer, by half words.
static PLACES: [AtomicU8; 256] = [const { AtomicU8::new(0) }; 256];

#[inline(always)]
fn write(writer: u32) {
    let count = &WRITTEN[writer as usize];
    // Only this writer counts here.
    let seq = count.load(Relaxed);
    count.store(seq + 1, Relaxed);
    if Kymo::is_on::<Written>() {
        Kymo::record(Written { writer, seq });
    }
}

/// The thread's writer, which is interrupted.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn kymo_thread_writes() {
    write(0);
}

static SEED: AtomicU32 = AtomicU32::new(0);

/// Numbers without a pattern (Knuth's linear congruence).
fn random() -> u32 {
    let next = SEED
        .load(Relaxed)
        .wrapping_mul(1_664_525)
        .wrapping_add(1_013_904_223);
    SEED.store(next, Relaxed);
    next >> 16
}

const SYST_CSR: *mut u32 = 0xe000_e010 as *mut u32;
const SYST_RVR: *mut u32 = 0xe000_e014 as *mut u32;
const SYST_CVR: *mut u32 = 0xe000_e018 as *mut u32;
/// Counts the processor's clock, with interrupts.
const TICKING: u32 = 7;
const NVIC_ISER: *mut u32 = 0xe000_e100 as *mut u32;
const NVIC_ISPR: *mut u32 = 0xe000_e200 as *mut u32;
/// System handlers' priorities: SysTick's is the top byte.
const SHPR3: *mut u32 = 0xe000_ed20 as *mut u32;
const URGENT: u32 = 1 << crate::URGENT_IRQ;

/// SysTick, with the registers that the processor has stored.
pub extern "C" fn on_systick(frame: *const [u32; 8]) {
    // SAFETY: the processor has stored eight registers at the stack pointer.
    let pc = unsafe { (*frame)[6] };
    let place = pc.wrapping_sub(kymo_thread_writes as *const () as u32 & !1) / 2;
    if let Some(times) = PLACES.get(place as usize) {
        times.store(times.load(Relaxed).saturating_add(1), Relaxed);
    }
    let next = LONGEST / 4 + random() % LONGEST;
    // SAFETY: registers of every Cortex-M. The urgent interrupt comes at once, every fourth time.
    unsafe {
        SYST_RVR.write_volatile(next);
        SYST_CVR.write_volatile(0);
        if next.is_multiple_of(4) {
            NVIC_ISPR.write_volatile(URGENT);
        }
    }
    write(1);
}

/// The urgent interrupt.
pub extern "C" fn on_urgent() {
    write(2);
}

/// Writes, and sends the trace into a file. Returns whether all was sent.
pub fn run() -> bool {
    let config = crate::config();
    let Ok(started) = RECORDER.start(Mode::Trace as u32, 0, Some(&config)) else {
        return false;
    };
    let mut sender = Sender::new(File::create(c"kymo.frames"), WhenFull::Drop, 1024);
    let mut sent = sender.open_session(&started).is_ok();
    // SAFETY: only this function uses it.
    let buffer = unsafe { &mut *addr_of_mut!(BUFFER) };
    // SAFETY: registers of every Cortex-M: SysTick may be interrupted by the urgent one.
    unsafe {
        SHPR3.write_volatile(0xc0 << 24);
        NVIC_ISER.write_volatile(URGENT);
        SYST_RVR.write_volatile(LONGEST);
        SYST_CVR.write_volatile(0);
        SYST_CSR.write_volatile(TICKING);
    }
    for turn in 0..RECORDS {
        // So that interrupts come at any instruction of the writer.
        for _ in 0..turn % 37 {
            // SAFETY: does nothing.
            unsafe { core::arch::asm!("nop") };
        }
        kymo_thread_writes();
        if turn > READ_FROM && turn.is_multiple_of(READ_EVERY) {
            sent &= sender.pump(&RECORDER, Mode::Trace, buffer).is_ok();
        }
    }
    // SAFETY: as above.
    unsafe { SYST_CSR.write_volatile(0) };
    sent &= sender
        .finish(&RECORDER, Mode::Trace, buffer, || true)
        .is_ok();
    let mut console = Console;
    for (writer, count) in WRITTEN.iter().enumerate() {
        let _ = writeln!(console, "written {writer} {}", count.load(Relaxed));
    }
    for (place, times) in PLACES.iter().enumerate() {
        if times.load(Relaxed) > 0 {
            let _ = writeln!(console, "place {} {}", 2 * place, times.load(Relaxed));
        }
    }
    sent && sender.sent().dropped_frames == 0
}

/// Not on the stack, which is small.
static mut BUFFER: [u32; 192] = [0; 192];
