//! What was recorded, read on the machine that recorded it: for a serial line, a debugger's shell,
//! a panic handler.
//!
//! Every call reads the rings as they are, while recording goes on, and takes no memory for it,
//! however many CPUs there are: to find the next record it looks through the packets again. That is
//! slow, and a serial line is slower. Nothing here waits for a lock, or panics; other readers are
//! not disturbed.
//!
//! A kernel in Rust asks its [`History`]. [`Reading`] is what stands behind it, for events that
//! were declared in another language: the library for kernels in C has the same lines from it.

mod known;
mod line;
mod mark;
mod merge;
#[cfg(test)]
#[cfg(loom)]
mod models;
mod names;
mod reading;
mod who;

use core::fmt;

use crate::event::{EventSchema, Vocabulary};
use crate::ring::layout::State;
use crate::ring::region::Memory;
use crate::ring::source::Live;
use crate::text::Out;
pub use known::{Known, KnownEvent, KnownField};
pub use mark::Mark;
pub use reading::{Reading, Record, Rows};

/// The records of the present session over some memory, or of the last one:
/// `static HISTORY: kymo::History = kymo::History::new(REGION.memory(), &VOCABULARY);`
#[derive(Debug)]
pub struct History {
    memory: Memory,
    vocabulary: &'static Vocabulary,
    cleared: Mark,
}

/// How many events there were, since the session began or [`History::clear`] was called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events that are still in the rings.
    pub retained: u64,
    /// Events that were recorded, and overwritten since, whether somebody had read them or not.
    pub overwritten: u64,
    /// Events that were not recorded, because the ring was full or no packet could hold them.
    pub discarded: u64,
}

impl Counts {
    /// All events together.
    pub fn total(&self) -> u64 {
        self.retained
            .saturating_add(self.overwritten)
            .saturating_add(self.discarded)
    }
}

/// One record.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// When, in ticks of the session's clock.
    pub time: u64,
    /// The CPU that recorded it.
    pub cpu: u32,
    /// Its declaration.
    pub event: &'static EventSchema,
    /// Bytes of its payload, of which the caller got as much as its buffer holds.
    pub bytes: usize,
}

impl History {
    /// The history of the memory that sessions with this vocabulary record into.
    pub const fn new(memory: Memory, vocabulary: &'static Vocabulary) -> Self {
        History {
            memory,
            vocabulary,
            cleared: Mark::new(),
        }
    }

    /// Whether events are recorded now.
    pub fn is_enabled(&self) -> bool {
        reading::open(&self.memory.live())
            .is_some_and(|region| region.header().state == State::Running as u32)
    }

    /// Prints the newest `last_n` records of all CPUs, oldest first and never more, after a line
    /// with the counts. Records that come in meanwhile are not printed.
    ///
    /// ```text
    /// kymo: 3 retained, 0 overwritten, 0 discarded
    ///     0.0120000 cpu0 [0] sched_switch prev_tid=0 next_tid=5 (worker) prev_state=Runnable reason=Idle next_prio=0
    ///     0.0120110 cpu0 [5 worker] lock_acquired lock=0x80002000 (inode) kind=Mutex contended=false
    /// ```
    /// Times are those of the clock's ticks, in seconds. In brackets is the thread that ran, by the
    /// CPU's [`SchedSwitch`](crate::vocabulary::SchedSwitch) records; it is left out where they do
    /// not tell. Names are the newest that were recorded. Further lines say where records are
    /// missing.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn dump(&self, out: &mut impl fmt::Write, last_n: usize) -> fmt::Result {
        self.lines(out, last_n, Rows::One)
    }

    /// [`dump`](Self::dump) of each CPU's newest `last_n` records, CPU after CPU: a busy one does
    /// not hide the others.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn dump_per_cpu(&self, out: &mut impl fmt::Write, last_n: usize) -> fmt::Result {
        self.lines(out, last_n, Rows::PerCpu { dead: None })
    }

    /// [`dump_per_cpu`](Self::dump_per_cpu) for a panic handler. `this_cpu`, with interrupts
    /// masked, is the one that panics: a record that it was writing is left out, and does not hide
    /// those before it.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn dump_on_panic(
        &self,
        out: &mut impl fmt::Write,
        this_cpu: u32,
        last_n: usize,
    ) -> fmt::Result {
        let dead = Some(this_cpu);
        self.lines(out, last_n, Rows::PerCpu { dead })
    }

    fn lines(&self, out: &mut impl fmt::Write, last_n: usize, rows: Rows) -> fmt::Result {
        let mut put = |text: &str| out.write_str(text);
        let live = self.memory.live();
        self.reading(&live)
            .dump(&mut Out::new(&mut put), last_n, rows)
    }

    fn reading<'a>(&'a self, source: &'a Live) -> Reading<'a, Live, Vocabulary> {
        Reading {
            source,
            known: self.vocabulary,
            mark: &self.cleared,
        }
    }

    /// How many events there were. Events that are recorded while this counts may be missing from
    /// one number or the other.
    pub fn counts(&self) -> Counts {
        self.reading(&self.memory.live()).counts()
    }

    /// Record number `index`, where 0 is the oldest one that is there; its payload, or as much of
    /// it as fits, goes to the front of `payload`. `None` behind the newest record that was there
    /// at the call. This looks through the rings as often as `index` says. In a ring that
    /// overwrites, numbers change while events are recorded.
    pub fn get(&self, index: usize, payload: &mut [u32]) -> Option<Entry> {
        let record = self.reading(&self.memory.live()).get(index, payload)?;
        Some(Entry {
            time: record.time(),
            cpu: record.cpu(),
            event: self.vocabulary.event(record.id())?,
            bytes: record.bytes(),
        })
    }

    /// From here on, the calls above know nothing of what was recorded until now. The rings, and
    /// all other readers, keep it. What another CPU records in the same tick of the clock may be
    /// taken for earlier. Where two callers clear at once, one of them succeeds.
    pub fn clear(&self) {
        self.reading(&self.memory.live()).clear();
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
