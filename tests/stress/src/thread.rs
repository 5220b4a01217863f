//! A recording thread, and its handlers, which record on top of it.

use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::Release, compiler_fence,
};

use kymo::Overflow;
use kymo::ring::reader::{ChannelReader, View};
use kymo::ring::source::Live;

use crate::code::{Place, place};
use crate::event::{Call, DEPTHS};
use crate::reader::{Checks, Fault};
use crate::signal::Timers;
use crate::writer::{NESTING, Writer, record};

/// If the reader makes no progress during this many calls of a thread, the channel is stuck.
const STANDSTILL: u64 = 1 << 24;
/// Most calls while waiting for a signal, which is more than a ring holds.
const MOST_CALLS: u32 = 4000;

/// The state that a thread, its handlers and its reader share. All fields are atomic, as a handler
/// may run between any two instructions.
pub(crate) struct Thread {
    pub(crate) number: u32,
    pub(crate) overflow: Overflow,
    /// Set when enough records were verified, or a fault was found.
    pub(crate) stop: &'static AtomicBool,
    /// The number of its ring, once claimed.
    pub(crate) ring: OnceLock<u32>,
    /// The memory, and a reader at the beginning of the ring, which dumps copy.
    pub(crate) beginning: OnceLock<(Live, ChannelReader)>,
    timers: OnceLock<Timers>,
    /// By depth: calls begun, and calls that returned.
    pub(crate) called: [AtomicU64; DEPTHS],
    returned: [AtomicU64; DEPTHS],
    /// By depth: number of completed handlers.
    handled: [AtomicU32; DEPTHS],
    /// By depth: the state of a random generator.
    random: [AtomicU64; DEPTHS],
    /// Number of writers that are currently interrupted by a signal.
    stopped: AtomicU32,
    /// Numbers of signals by depth and [`Place`].
    pub(crate) places: [[AtomicU64; 3]; DEPTHS],
    /// Numbers of handlers by the number of interrupted writers below them.
    pub(crate) nested: [AtomicU64; DEPTHS],
    pub(crate) dumps: AtomicU64,
    /// Records of this thread that a reader has verified, plus known losses.
    pub(crate) verified: AtomicU64,
    pub(crate) lost: AtomicU64,
    /// The run's first fault, and the number of its thread.
    pub(crate) fault: &'static OnceLock<(u32, Fault)>,
}

impl Thread {
    pub(crate) fn new(
        number: u32,
        overflow: Overflow,
        seed: u64,
        stop: &'static AtomicBool,
        fault: &'static OnceLock<(u32, Fault)>,
    ) -> Thread {
        let counts = || std::array::from_fn(|_| AtomicU64::new(0));
        Thread {
            number,
            overflow,
            stop,
            ring: OnceLock::new(),
            beginning: OnceLock::new(),
            timers: OnceLock::new(),
            called: counts(),
            returned: counts(),
            handled: std::array::from_fn(|_| AtomicU32::new(0)),
            random: std::array::from_fn(|depth| {
                AtomicU64::new(seed + 1000 * u64::from(number) + depth as u64)
            }),
            stopped: AtomicU32::new(0),
            places: std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))),
            nested: counts(),
            dumps: AtomicU64::new(0),
            verified: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            fault,
        }
    }

    /// Calls begun, at all depths.
    pub(crate) fn calls(&self) -> u64 {
        self.called.iter().map(|count| count.load(Relaxed)).sum()
    }

    /// A random number below `below` (SplitMix64). A depth never interrupts itself.
    fn draw(&self, depth: usize, below: u64) -> u64 {
        let state = self.random[depth]
            .load(Relaxed)
            .wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random[depth].store(state, Relaxed);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }

    /// Records until `stop` is set. Calls `entered` after claiming the ring, before the first
    /// record.
    pub(crate) fn work<W: Writer>(&'static self, entered: impl FnOnce()) {
        self.ring.get_or_init(|| W::enter(self.number as usize));
        entered();
        self.timers.get_or_init(|| Timers::new(self));
        let (mut verified, mut calls_then) = (0, 0);
        while !self.stop.load(Relaxed) {
            self.one_burst::<W>(0);
            // A flight recorder's reader should be lapped more often than a discarding ring should
            // be full.
            if self.draw(0, 8)
                >= if self.overflow == Overflow::Overwrite {
                    3
                } else {
                    1
                }
            {
                self.wait_for_reader::<W>();
            }
            let now = self.verified.load(Relaxed);
            if now != verified {
                (verified, calls_then) = (now, self.calls());
            } else if self.calls() - calls_then > STANDSTILL {
                self.fails(Fault::Standstill { verified });
            }
        }
        if let Some(timers) = self.timers.get() {
            timers.end();
        }
    }

    /// Waits until the reader is at most half a ring behind. The wait is limited, so that a stuck
    /// reader is detected.
    fn wait_for_reader<W: Writer>(&self) {
        let behind = || {
            self.calls()
                .saturating_sub(self.verified.load(Relaxed) + self.lost.load(Relaxed))
        };
        for _ in 0..100 {
            if behind() * 20 < W::RING / 2 || self.stop.load(Relaxed) {
                break;
            }
            std::thread::yield_now();
        }
    }

    /// Arms a deeper signal and records until it has been handled, or the limit is reached.
    fn one_burst<W: Writer>(&self, depth: usize) {
        let deeper = if depth + 1 == DEPTHS || self.draw(depth, 8) > 0 {
            depth + 1
        } else {
            depth + 1 + self.draw(depth, (DEPTHS - depth - 1) as u64) as usize
        };
        let Some(timers) = self.timers.get().filter(|_| deeper < DEPTHS) else {
            return (0..self.draw(depth, 60)).for_each(|_| self.call::<W>(depth));
        };
        let handled = self.handled[deeper].load(Relaxed);
        // Long enough to fire after the system call that arms it; the minimum delay of a timer
        // depends on the machine.
        timers.arm(deeper, self.draw(depth, 16_000 << self.draw(depth, 3)));
        for _ in 0..MOST_CALLS {
            self.call::<W>(depth);
            if self.handled[deeper].load(Relaxed) != handled {
                break;
            }
        }
        (0..self.draw(depth, 8)).for_each(|_| self.call::<W>(depth));
    }

    #[inline(always)]
    fn call<W: Writer>(&self, depth: usize) {
        let seq = self.called[depth].load(Relaxed);
        self.called[depth].store(seq + 1, Relaxed);
        // For the handlers of this thread: `called` changes before the record begins and after it
        // ends.
        compiler_fence(Release);
        record::<W>(Call {
            thread: self.number,
            depth: depth as u32,
            seq: seq as u32,
        });
        compiler_fence(Release);
        self.returned[depth].store(seq + 1, Relaxed);
    }

    /// Handles a signal that interrupted this thread at an address.
    pub(crate) fn on_signal<W: Writer>(&self, depth: usize, stopped_at: u64) {
        let before = NESTING.replace(depth as u32);
        let place = place(stopped_at);
        add_one(&self.places[depth][place as usize]);
        let below = self.stopped.load(Relaxed);
        let stopped = below + u32::from(place != Place::Elsewhere);
        self.stopped.store(stopped, Relaxed);
        add_one(&self.nested[stopped as usize]);

        if self.draw(depth, 16) == 0 {
            self.check_dump();
        }
        self.one_burst::<W>(depth);
        if self.draw(depth, 64) == 0 {
            self.check_dump();
        }

        self.stopped.store(below, Relaxed);
        NESTING.set(before);
        self.handled[depth].fetch_add(1, Relaxed);
    }

    /// Checks the dump of this thread's ring, as if the machine died here.
    fn check_dump(&self) {
        let Some((live, beginning)) = self.beginning.get() else {
            return;
        };
        // Higher signals may record meanwhile; the check is valid only if nothing changed.
        let calls = self.calls();
        let returned: u64 = self.returned.iter().map(|count| count.load(Relaxed)).sum();
        let mut checks = Checks::new(self.number);
        let mut reader = beginning.clone();
        let result = checks.drain(&mut reader, live, View::PostMortem, usize::MAX);
        if self.calls() != calls {
            return;
        }
        add_one(&self.dumps);
        let found = checks.read() + reader.losses().events();
        let result = result.and_then(|_| match (returned..=calls).contains(&found) {
            true => Ok(()),
            false => Err(Fault::Dump {
                found: checks.read(),
                losses: reader.losses(),
                returned,
                calls,
            }),
        });
        if let Err(fault) = result {
            self.fails(fault);
        }
    }

    /// Stores the run's first fault, and ends the run.
    pub(crate) fn fails(&self, fault: Fault) {
        let _ = self.fault.set((self.number, fault));
        self.stop.store(true, Relaxed);
    }
}

/// Increments a count that only this thread writes; a handler in between may lose at most one.
fn add_one(count: &AtomicU64) {
    count.fetch_add(1, Relaxed);
}
