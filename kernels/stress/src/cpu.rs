//! What every CPU does: record, be interrupted while it does, record there too.

use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed, Ordering::Release,
};

use kymo::ring::long::Long;

use crate::cmdline::Settings;
use crate::ledger::{self, LEDGER};
use crate::{Beat, MAX_DEPTH, Timed, TimedMedium, arch};

/// Interrupts let others in below this depth. An NMI comes at any depth, so it may be one deeper.
const NESTING: usize = MAX_DEPTH - 1;
/// The clock jumps when the thread has recorded so many more events.
const JUMP_EVERY: u64 = 200;
/// This jump leads back, and three times as far: it takes the clock three more jumps to be where it
/// was.
const JUMP_BACK: u64 = 8;
/// So often it jumps at least, however many of a CPU's events interrupts record: a slow host lets
/// the thread record few.
const JUMPS: u64 = JUMP_BACK + 5;

/// What a CPU knows of itself; no other CPU uses it. Interrupts change it under the thread's hands,
/// and leave it as they found it but for the ledger's counts of their own depth and `random`, of
/// which it does not matter.
pub struct Cpu {
    id: usize,
    settings: &'static Settings,
    /// How many interrupts deep the code is.
    depth: AtomicUsize,
    /// It records no more.
    quiet: AtomicBool,
    /// What the clock is ahead of the hardware's. Only the thread changes it, between two events.
    offset: Long,
    random: AtomicU32,
}

impl Cpu {
    pub fn new(id: usize, settings: &'static Settings) -> Cpu {
        let (depth, quiet, offset) = (AtomicUsize::new(0), AtomicBool::new(false), Long::new(0));
        Cpu {
            id,
            settings,
            depth,
            quiet,
            offset,
            random: AtomicU32::new(0x9e37_79b9 ^ id as u32),
        }
    }

    pub fn depth(&self) -> usize {
        self.depth.load(Relaxed)
    }

    pub fn offset(&self) -> u64 {
        self.offset.load(Relaxed)
    }

    /// The thread: it records until this CPU has done its share and its clock has jumped as often
    /// as it must, and comes back with interrupts masked and for good without effect.
    pub fn run(&self) {
        let share = self.settings.events / arch::cpus() as u64;
        let jumps = if self.settings.jump > 0 { JUMPS } else { 0 };
        let counts = &LEDGER.cpus[self.id];
        let calls = || {
            counts
                .calls
                .iter()
                .map(|calls| calls.load(Relaxed))
                .sum::<u64>()
        };
        self.arm();
        arch::unmask();
        while calls() < share || counts.jumps.load(Relaxed) < jumps {
            let seq = self.record(0);
            if self.settings.poke > 0 && seq.is_multiple_of(self.settings.poke.into()) {
                arch::poke(
                    (self.id + 1) % arch::cpus(),
                    seq / u64::from(self.settings.poke),
                );
            }
            if self.settings.jump > 0 && seq.is_multiple_of(JUMP_EVERY) {
                let jumps = counts.jumps.load(Relaxed) + 1;
                let (jump, offset) = (self.settings.jump, self.offset());
                let offset = if jumps == JUMP_BACK {
                    offset - 3 * jump
                } else {
                    offset + jump
                };
                // On 32-bit processors it takes two stores, and an interrupt must not come between.
                arch::mask();
                self.offset.store(offset, Relaxed);
                arch::unmask();
                counts.jumps.store(jumps, Relaxed);
            }
        }
        arch::mask();
        self.quiet.store(true, Relaxed);
    }

    /// An interrupt, or an NMI, came before the instruction at `pc`. Interrupts are masked.
    pub fn interrupted(&self, pc: usize, nmi: bool) {
        if self.quiet.load(Relaxed) {
            return;
        }
        ledger::hit(pc);
        let depth = self.depth() + 1;
        self.depth.store(depth, Relaxed);
        let counts = &LEDGER.cpus[self.id];
        if nmi {
            ledger::count(&counts.nmis);
            self.record(depth);
            self.record(depth);
        } else {
            ledger::count(&counts.interrupts);
            if depth < NESTING {
                self.arm();
                arch::unmask();
            }
            (0..3).for_each(|_| _ = self.record(depth));
            arch::mask();
            // Whatever came meanwhile: the thread is interrupted again.
            if depth == 1 {
                self.arm();
            }
        }
        self.depth.store(depth - 1, Relaxed);
    }

    /// Asks for a timer interrupt in a while, instead of one that was asked for before.
    fn arm(&self) {
        // Xorshift (Marsaglia).
        let mut random = self.random.load(Relaxed);
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        self.random.store(random, Relaxed);
        arch::arm(random % self.settings.tick_us + 1);
    }

    /// Records one event. Gives its number: contexts of one depth follow each other, so each has
    /// the next.
    fn record(&self, depth: usize) -> u64 {
        let calls = &LEDGER.cpus[self.id].calls[depth];
        let next = calls.load(Relaxed) + 1;
        let (cpu, level, seq) = (self.id as u16, depth as u16, next as u32);
        // Which of the three, the number says. With jumps, each has the time.
        if self.settings.jump == 0 && !next.is_multiple_of(16) {
            let check = check(cpu, level, seq, 0);
            arch::record(Beat {
                cpu,
                depth: level,
                seq,
                check,
            });
        } else {
            let (offset, raw) = (self.offset(), arch::time());
            let check = check(cpu, level, seq, raw ^ offset);
            if next.is_multiple_of(32) {
                arch::record(TimedMedium {
                    cpu,
                    depth: level,
                    seq,
                    check,
                    raw,
                    offset,
                });
            } else {
                arch::record(Timed {
                    cpu,
                    depth: level,
                    seq,
                    check,
                    raw,
                    offset,
                });
            }
        }
        calls.store(next, Release);
        next
    }
}

/// What tells a record that is whole.
fn check(cpu: u16, depth: u16, seq: u32, time: u64) -> u32 {
    let context = u32::from(cpu) << 16 | u32::from(depth);
    (seq ^ context ^ time as u32 ^ (time >> 32) as u32)
        .wrapping_mul(0x9e37_79b1)
        .rotate_left(15)
}
