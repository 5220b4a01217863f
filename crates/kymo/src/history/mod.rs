//! What was recorded, read on the machine that recorded it: for a serial line, a debugger's shell,
//! a panic handler.
//!
//! Every call reads the rings as they are, while recording goes on, and takes no memory for it,
//! however many CPUs there are: to find the next record it looks through the packets again. That is
//! slow, and a serial line is slower. Nothing here waits for a lock, or panics; other readers are
//! not disturbed.

mod line;
mod mark;
mod merge;
#[cfg(test)]
#[cfg(loom)]
mod models;
mod names;
mod who;

use core::fmt::{self, Write};

use crate::event::{EventSchema, Vocabulary};
use crate::ring::layout::State;
use crate::ring::reader::Region;
use crate::ring::region::Memory;
use crate::ring::source::Source;
use crate::tracer::COMPILED_IN;
use mark::Mark;
use merge::{Key, Merge};

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
        open(&self.memory.live())
            .is_some_and(|region| region.header().state == State::Running as u32)
    }

    /// Prints the newest `last_n` records of all CPUs, oldest first and never more, after a line
    /// with the counts. Records that come in meanwhile are not printed.
    ///
    /// ```text
    /// kymo: 3 retained, 0 overwritten, 0 discarded
    ///     0.0120000 cpu0 [0] sched_switch prev_tid=0 next_tid=5 (worker) prev_state=Runnable reason=Idle next_prio=0
    ///     0.0120110 cpu0 [5 worker] lock_acquired lock=0x80002000 (inode) kind=Mutex contended=0
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
        dump(
            &self.memory.live(),
            self.vocabulary,
            &self.cleared,
            out,
            last_n,
            rows,
        )
    }

    /// How many events there were. Events that are recorded while this counts may be missing from
    /// one number or the other.
    pub fn counts(&self) -> Counts {
        let live = self.memory.live();
        open(&live).map_or(Counts::default(), |region| {
            counts(
                &whole(&live, &region, self.vocabulary),
                self.cleared.load(region.header().session_id),
            )
        })
    }

    /// Record number `index`, where 0 is the oldest one that is there; its payload, or as much of
    /// it as fits, goes to the front of `payload`. `None` behind the newest record that was there
    /// at the call. This looks through the rings as often as `index` says. In a ring that
    /// overwrites, numbers change while events are recorded.
    pub fn get(&self, index: usize, payload: &mut [u32]) -> Option<Entry> {
        get(
            &self.memory.live(),
            self.vocabulary,
            &self.cleared,
            index,
            payload,
        )
    }

    /// From here on, the calls above know nothing of what was recorded until now. The rings, and
    /// all other readers, keep it. What another CPU records in the same tick of the clock may be
    /// taken for earlier. Where two callers clear at once, one of them succeeds.
    pub fn clear(&self) {
        clear(&self.memory.live(), self.vocabulary, &self.cleared);
    }
}

/// The region, if there is one that this build can have recorded.
fn open(source: &impl Source) -> Option<Region> {
    if COMPILED_IN {
        Region::open(source).ok()
    } else {
        None
    }
}

fn whole<'a, S: Source>(
    source: &'a S,
    region: &'a Region,
    vocabulary: &'static Vocabulary,
) -> Merge<'a, S> {
    Merge {
        source,
        region,
        vocabulary,
        cpus: 0..region.header().cpus,
        dead: None,
        cleared: None,
    }
}

/// All events since the session began.
fn all<S: Source>(merge: &Merge<'_, S>) -> Counts {
    let mut counts = Counts::default();
    for (reader, view) in merge.channels() {
        let (retained, overwritten) = reader.events(merge.source, view).unwrap_or_default();
        counts.retained = counts.retained.saturating_add(retained);
        counts.overwritten = counts.overwritten.saturating_add(overwritten);
        counts.discarded = counts
            .discarded
            .saturating_add(reader.discarded(merge.source).unwrap_or(0));
    }
    counts
}

fn counts<S: Source>(merge: &Merge<'_, S>, cleared: Option<mark::Cleared>) -> Counts {
    let all = all(merge);
    let Some(cleared) = cleared else { return all };
    let recorded = all
        .retained
        .saturating_add(all.overwritten)
        .saturating_sub(cleared.recorded);
    let retained = merge.retained(cleared.last).min(recorded);
    Counts {
        retained,
        overwritten: recorded - retained,
        discarded: all.discarded.saturating_sub(cleared.discarded),
    }
}

fn clear<S: Source>(source: &S, vocabulary: &'static Vocabulary, mark: &Mark) {
    let Some(region) = open(source) else {
        return;
    };
    let merge = whole(source, &region, vocabulary);
    let counts = all(&merge);
    mark.store(&mark::Cleared {
        session: region.header().session_id,
        last: merge.before(None).unwrap_or_default(),
        recorded: counts.retained.saturating_add(counts.overwritten),
        discarded: counts.discarded,
    });
}

fn get<S: Source>(
    source: &S,
    vocabulary: &'static Vocabulary,
    mark: &Mark,
    index: usize,
    payload: &mut [u32],
) -> Option<Entry> {
    let region = open(source)?;
    let cleared = mark
        .load(region.header().session_id)
        .map(|cleared| cleared.last);
    let merge = Merge {
        cleared,
        ..whole(source, &region, vocabulary)
    };
    // What comes in meanwhile is left out: a writer may be faster than this.
    let newest = merge.before(None)?;
    let after = |last| merge.after(last).filter(|found| found.key <= newest);
    let mut last = None;
    for _ in 0..index {
        last = Some(after(last)?.key);
    }
    loop {
        let found = after(last)?;
        last = Some(found.key);
        // A record that was overwritten before it was copied is gone: the next one has its number
        // now.
        if merge.copy(&found, payload).is_some() {
            let event = vocabulary.event(found.place.id)?;
            return Some(Entry {
                time: found.key.time,
                cpu: found.key.cpu,
                event,
                bytes: found.place.bytes,
            });
        }
    }
}

/// How the records of several CPUs are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rows {
    /// All of them in order of time.
    One,
    /// CPU after CPU; `dead` will write no more.
    PerCpu { dead: Option<u32> },
}

fn dump<S: Source>(
    source: &S,
    vocabulary: &'static Vocabulary,
    mark: &Mark,
    out: &mut dyn Write,
    last_n: usize,
    rows: Rows,
) -> fmt::Result {
    let Some(region) = open(source) else {
        return out.write_str("kymo: nothing was recorded\n");
    };
    let cleared = mark.load(region.header().session_id);
    let dead = match rows {
        Rows::One => None,
        Rows::PerCpu { dead } => dead,
    };
    let merge = Merge {
        dead,
        ..whole(source, &region, vocabulary)
    };
    let counts = counts(&merge, cleared);
    let Counts {
        retained,
        overwritten,
        discarded,
    } = counts;
    writeln!(
        out,
        "kymo: {retained} retained, {overwritten} overwritten, {discarded} discarded"
    )?;
    let merge = Merge {
        cleared: cleared.map(|cleared| cleared.last),
        ..merge
    };
    if rows == Rows::One {
        return print(&merge, out, last_n, counts);
    }
    for cpu in merge.cpus.clone() {
        let merge = merge.of(cpu..cpu + 1, merge.cleared);
        let counts = match merge.cleared {
            None => all(&merge),
            // What was overwritten is known only for all CPUs together.
            Some(cleared) => Counts {
                retained: merge.retained(cleared),
                ..Counts::default()
            },
        };
        print(&merge, out, last_n, counts)?;
    }
    Ok(())
}

/// How often the newest record is looked for.
const LOOKS: usize = 4;

/// Prints the newest records of `merge`, which has as many as `counts` says.
fn print<S: Source>(
    merge: &Merge<'_, S>,
    out: &mut dyn Write,
    last_n: usize,
    counts: Counts,
) -> fmt::Result {
    if last_n == 0 {
        return Ok(());
    }
    // Where this is held up for so long that a ring goes all the way round, another look finds what
    // is there then.
    let newest = (0..LOOKS).find_map(|_| merge.before(None));
    let Some(newest) = newest else {
        return missing(out, counts.retained.min(last_n as u64));
    };
    let last_n = last_n as u64;
    let (mut last, mut expected) = (None, counts.retained);
    if last_n < counts.retained {
        (last, expected) = look_back(merge, newest, last_n);
    } else if counts.overwritten > 0 {
        writeln!(out, "kymo: {} overwritten before this", counts.overwritten)?;
    }
    let mut printed = 0;
    let mut buffer = [0; line::WORDS];
    // More than are wanted can follow: events recorded since they were counted.
    while printed < last_n
        && let Some(found) = merge.after(last).filter(|found| found.key <= newest)
    {
        last = Some(found.key);
        if let Some(payload) = merge.copy(&found, &mut buffer) {
            line::print(merge, out, &found, payload)?;
            printed += 1;
        }
    }
    missing(out, expected.saturating_sub(printed))
}

/// Where the newest `last_n` records up to `newest` begin: the key before the first of them, and
/// how many there are.
fn look_back<S: Source>(merge: &Merge<'_, S>, newest: Key, last_n: u64) -> (Option<Key>, u64) {
    let (mut first, mut count) = (newest, 1);
    while count < last_n
        && let Some(earlier) = merge.before(Some(first))
    {
        first = earlier;
        count += 1;
    }
    // The key is behind all records that come before the first one.
    let mut last = Some(Key {
        word: first.word.saturating_sub(1),
        ..first
    });
    // A look back passes over a packet that a writer is inside. If that packet can be read by now,
    // more records follow than are wanted, and the oldest of them are left out.
    let next = |last| merge.after(last).filter(|found| found.key <= newest);
    let (mut following, mut end) = (0, last);
    while let Some(found) = next(end) {
        end = Some(found.key);
        following += 1;
    }
    for _ in last_n..following {
        last = next(last).map(|found| found.key).or(last);
    }
    (last, count.max(following.min(last_n)))
}

/// Says how many more records should have been printed.
fn missing(out: &mut dyn Write, records: u64) -> fmt::Result {
    if records == 0 {
        return Ok(());
    }
    writeln!(
        out,
        "kymo: {records} more were overwritten meanwhile, or cannot be read"
    )
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
