//! Traces of random machines, and their indexes.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use kymo::Text;
use kymo::vocabulary::{
    Counter, Irq, IrqEnter, IrqExit, LockAcquired, LockKind, LockReleased, LockWait, Mark, Object,
    SpanBegin, SpanEnd, SwitchReason, Syscall, SyscallEnter, SyscallExit, ThreadName, ThreadState,
    Tid,
};
use kymo_ctf::{Trace, TraceMap};
use kymo_index::{Growing, Index, Key, Options};
use kymo_made::{Made, US};

/// Numbers that seem random (xorshift).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }
}

const CPUS: u64 = 3;

/// This many events on three CPUs; times are whole microseconds, and mostly short apart.
pub fn machine(seed: u64, events: u64) -> Made {
    recorded(seed, events, true, |_| ())
}

/// The trace of [`machine`], without its losses unless `losses` is set. `look` is called with the
/// unfinished trace at every 60th event.
pub fn recorded(seed: u64, events: u64, losses: bool, mut look: impl FnMut(&mut Made)) -> Made {
    let mut random = Random::new(seed);
    let mut made = Made::new("index");
    let mut running = [0_u32; CPUS as usize];
    let mut handlers = [0_u32; CPUS as usize];
    let mut t = 5_000 * US;
    for tid in 1..8 {
        let name = Text::new(if tid < 4 { "worker" } else { "other" });
        made.event(
            0,
            t,
            ThreadName {
                tid: Tid(tid),
                name,
            },
        );
    }
    for number in 0..events {
        if number % 60 == 59 {
            look(&mut made);
        }
        let step = match random.below(50) {
            0 => random.below(3_000),
            _ => 1 + random.below(20),
        };
        t += step * US;
        let cpu = random.below(CPUS) as u32;
        let (place, lock) = (cpu as usize, Object(1 + random.below(3)));
        let (kind, id) = (LockKind::Mutex, Syscall(random.below(4) as u32));
        match random.below(16) {
            0..=4 => {
                // Each CPU has threads of its own.
                let next = (random.below(3) as u32) * CPUS as u32 + cpu + 1;
                let prev = std::mem::replace(&mut running[place], next);
                if prev != next {
                    let how = match random.below(2) {
                        0 => (ThreadState::Blocked, SwitchReason::Waits),
                        _ => (ThreadState::Runnable, SwitchReason::Expired),
                    };
                    made.switch(cpu, t, (prev, how.0, how.1), (next, 3));
                }
            }
            5 => {
                handlers[place] += 1;
                let irq = Irq(handlers[place]);
                made.event(cpu, t, IrqEnter { irq });
            }
            6 if handlers[place] > 0 => {
                let irq = Irq(handlers[place]);
                handlers[place] -= 1;
                made.event(cpu, t, IrqExit { irq });
            }
            7 => made.event(cpu, t, SyscallEnter { id, arg0: 0 }),
            8 => made.event(cpu, t, SyscallExit { id, ret: 0 }),
            9 => {
                let owner_tid = Tid(0);
                let wait = LockWait {
                    lock,
                    owner_tid,
                    kind,
                };
                made.event(cpu, t, wait);
            }
            10 => {
                let contended = true;
                let acquired = LockAcquired {
                    lock,
                    kind,
                    contended,
                };
                made.event(cpu, t, acquired);
            }
            11 => made.event(cpu, t, LockReleased { lock, kind }),
            12 => made.event(cpu, t, SpanBegin { id: 1 }),
            13 => made.event(cpu, t, SpanEnd { id: 1 }),
            14 => {
                let value = random.below(1_000) as i64 - 500;
                made.event(cpu, t, Counter { id: 1, value });
            }
            15 if losses && random.below(20) == 0 => {
                let end = t + random.below(200) * US;
                made.lose(cpu, 3, end);
                t = end;
            }
            _ => made.event(cpu, t, Mark { id: 1, value: 0 }),
        }
    }
    made
}

/// A folder for indexes, which is removed.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Relaxed);
        let own = format!("kymo-index-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(own);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A trace and the index of it in this folder, with so many events in a chunk.
pub fn index(trace: &Path, folder: &Folder, chunk_events: u64) -> (TraceMap, Index) {
    grown(trace, folder, chunk_events, |_| ())
}

/// A trace, and the index of it, which is looked at while it is made.
pub fn grown(
    trace: &Path,
    folder: &Folder,
    chunk_events: u64,
    look: impl FnMut(&mut Growing<'_>),
) -> (TraceMap, Index) {
    let trace = Trace::open(trace).unwrap();
    let map = trace.map();
    let key = Key::of(&trace, &map).unwrap();
    let path = key.path_in(&folder.0);
    let _ = std::fs::remove_file(&path);
    let options = Options { chunk_events };
    let index = Index::open_or_make(&trace, &map, &path, options, look).unwrap();
    (map, index)
}
