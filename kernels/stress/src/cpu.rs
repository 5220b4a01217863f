//! The work of every CPU: its thread records, is interrupted meanwhile, and the interrupts record
//! too.

use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed, Ordering::Release,
};

use kymo::ring::long::Long;

use crate::cmdline::Settings;
use crate::ledger::{self, LEDGER};
use crate::{Beat, MAX_DEPTH, Timed, TimedMedium, arch};

/// Interrupts unmask others below this depth. An NMI comes at any depth, so it may be one deeper.
const NESTING: usize = MAX_DEPTH - 1;
/// Number of events of the thread between jumps of the clock.
const JUMP_EVERY: u64 = 200;
/// This jump leads back by three times as much, so that three more jumps make up for it.
const JUMP_BACK: u64 = 8;
/// Least number of jumps. On a slow host interrupts record most of a CPU's events, and the thread
/// few.
const JUMPS: u64 = JUMP_BACK + 5;

/// The state of a CPU, private to it. Interrupts of the thread restore it, except for the ledger's
/// counts of their own depth, and for `random`, where it does not matter.
pub struct Cpu {
    id: usize,
    settings: &'static Settings,
    /// Current depth of interrupts.
    depth: AtomicUsize,
    /// Whether it has stopped recording.
    quiet: AtomicBool,
    /// Offset of the clock from the hardware's. Only the thread changes it, between two events.
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

    /// The thread: records until this CPU has done its share and its clock has jumped often enough,
    /// and returns with interrupts masked and ineffective for good.
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
                // 32-bit processors need two stores, between which no interrupt may come.
                arch::mask();
                self.offset.store(offset, Relaxed);
                arch::unmask();
                counts.jumps.store(jumps, Relaxed);
            }
        }
        arch::mask();
        self.quiet.store(true, Relaxed);
    }

    /// Handles an interrupt or an NMI before the instruction at `pc`. Interrupts are masked.
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
            // In any case, the thread is interrupted again.
            if depth == 1 {
                self.arm();
            }
        }
        self.depth.store(depth - 1, Relaxed);
    }

    /// Requests a timer interrupt at a random time, and cancels a pending one.
    fn arm(&self) {
        // Xorshift (Marsaglia).
        let mut random = self.random.load(Relaxed);
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        self.random.store(random, Relaxed);
        arch::arm(random % self.settings.tick_us + 1);
    }

    /// Records an event and gives its number. Contexts of one depth run one after another and count
    /// on.
    fn record(&self, depth: usize) -> u64 {
        let calls = &LEDGER.cpus[self.id].calls[depth];
        let next = calls.load(Relaxed) + 1;
        let (cpu, level, seq) = (self.id as u16, depth as u16, next as u32);
        // The number selects one of the three. With jumps, each event has the time.
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

/// The checksum of an intact record.
fn check(cpu: u16, depth: u16, seq: u32, time: u64) -> u32 {
    let context = u32::from(cpu) << 16 | u32::from(depth);
    (seq ^ context ^ time as u32 ^ (time >> 32) as u32)
        .wrapping_mul(0x9e37_79b1)
        .rotate_left(15)
}
