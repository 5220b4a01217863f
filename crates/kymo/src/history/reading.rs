//! The history over memory that can be read, whichever language has declared its events.

use core::fmt::{self, Write};

use super::known::Known;
use super::line;
use super::mark::{Cleared, Mark};
use super::merge::{Found, Key, Merge};
use super::{Counts, who};
use crate::ring::reader::Region;
use crate::ring::source::Source;
use crate::text::{Out, write_number};
use crate::tracer::COMPILED_IN;
use crate::vocabulary::Tid;

/// Some memory, what is known of the events in it, and what was cleared:
/// [`History`](super::History) without a vocabulary of this language. Each call looks through the
/// rings again.
#[derive(Debug)]
pub struct Reading<'a, S, K> {
    /// The memory.
    pub source: &'a S,
    /// Its events.
    pub known: &'a K,
    /// What was cleared.
    pub mark: &'a Mark,
}

/// A record that was there when it was found.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    found: Found,
}

impl Record {
    /// When, in ticks of the session's clock.
    pub fn time(&self) -> u64 {
        self.found.key.time
    }

    /// The CPU that recorded it.
    pub fn cpu(&self) -> u32 {
        self.found.key.cpu
    }

    /// Which event.
    pub fn id(&self) -> u32 {
        self.found.place.id
    }

    /// Bytes of its payload.
    pub fn bytes(&self) -> usize {
        self.found.place.bytes
    }
}

/// How the records of several CPUs are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// All of them in order of time.
    One,
    /// CPU after CPU.
    PerCpu {
        /// The CPU that will write no more, if one is known not to.
        dead: Option<u32>,
    },
}

impl<S: Source, K: Known> Reading<'_, S, K> {
    fn whole<'b>(&'b self, region: &'b Region) -> Merge<'b, S, K> {
        Merge {
            source: self.source,
            region,
            known: self.known,
            cpus: 0..region.header().cpus,
            dead: None,
            cleared: None,
        }
    }

    fn cleared(&self, region: &Region) -> Option<Cleared> {
        self.mark.load(region.header().session_id)
    }

    /// How many events there were since the session began or was cleared: see
    /// [`History::counts`](super::History::counts).
    pub fn counts(&self) -> Counts {
        open(self.source).map_or(Counts::default(), |region| {
            counts(&self.whole(&region), self.cleared(&region))
        })
    }

    /// Hides what was recorded until now from the calls with this mark: see
    /// [`History::clear`](super::History::clear).
    pub fn clear(&self) {
        let Some(region) = open(self.source) else {
            return;
        };
        let merge = self.whole(&region);
        let counts = all(&merge);
        self.mark.store(&Cleared {
            session: region.header().session_id,
            last: merge.before(None).unwrap_or_default(),
            recorded: counts.retained.saturating_add(counts.overwritten),
            discarded: counts.discarded,
        });
    }

    /// Record number `index`, the oldest being 0, with its payload or as much of it as fits: see
    /// [`History::get`](super::History::get).
    pub fn get(&self, index: usize, payload: &mut [u32]) -> Option<Record> {
        let region = open(self.source)?;
        let merge = Merge {
            cleared: self.cleared(&region).map(|cleared| cleared.last),
            ..self.whole(&region)
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
            // A record that was overwritten before it was copied is gone: the next one has its
            // number now.
            if merge.copy(&found, payload).is_some() {
                return Some(Record { found });
            }
        }
    }

    /// The thread that ran when the record was made, where the CPU's switches tell.
    pub fn thread(&self, record: &Record) -> Option<Tid> {
        let region = open(self.source)?;
        who::ran(&self.whole(&region), &record.found)
    }

    /// Writes a record that [`get`](Self::get) gave, with its payload or the beginning of it, as it
    /// stands in a line of [`dump`](Self::dump) behind the time and the CPU.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_record(&self, out: &mut Out<'_>, record: &Record, payload: &[u32]) -> fmt::Result {
        open(self.source).map_or(Ok(()), |region| {
            line::print_event(&self.whole(&region), out, &record.found, payload)
        })
    }

    /// Prints the newest `last_n` records, of all CPUs or of each: see
    /// [`History::dump`](super::History::dump),
    /// [`History::dump_per_cpu`](super::History::dump_per_cpu)
    /// and [`History::dump_on_panic`](super::History::dump_on_panic).
    ///
    /// # Errors
    /// Those of `out`.
    pub fn dump(&self, out: &mut Out<'_>, last_n: usize, rows: Rows) -> fmt::Result {
        let Some(region) = open(self.source) else {
            return out.write_str("kymo: nothing was recorded\n");
        };
        let cleared = self.cleared(&region);
        let dead = match rows {
            Rows::One => None,
            Rows::PerCpu { dead } => dead,
        };
        let merge = Merge {
            dead,
            ..self.whole(&region)
        };
        let counts = counts(&merge, cleared);
        let Counts {
            retained,
            overwritten,
            discarded,
        } = counts;
        out.write_str("kymo: ")?;
        for (number, what) in [
            (retained, " retained, "),
            (overwritten, " overwritten, "),
            (discarded, " discarded\n"),
        ] {
            write_number(out, number)?;
            out.write_str(what)?;
        }
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
}

/// The region, if there is one that this build can have recorded.
pub(super) fn open(source: &impl Source) -> Option<Region> {
    if COMPILED_IN {
        Region::open(source).ok()
    } else {
        None
    }
}

/// All events since the session began.
fn all<S: Source, K: Known>(merge: &Merge<'_, S, K>) -> Counts {
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

fn counts<S: Source, K: Known>(merge: &Merge<'_, S, K>, cleared: Option<Cleared>) -> Counts {
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

/// How often the newest record is looked for.
const LOOKS: usize = 4;

/// Prints the newest records of `merge`, which has as many as `counts` says.
fn print<S: Source, K: Known>(
    merge: &Merge<'_, S, K>,
    out: &mut Out<'_>,
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
        out.write_str("kymo: ")?;
        write_number(out, counts.overwritten)?;
        out.write_str(" overwritten before this\n")?;
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
fn look_back<S: Source, K: Known>(
    merge: &Merge<'_, S, K>,
    newest: Key,
    last_n: u64,
) -> (Option<Key>, u64) {
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
fn missing(out: &mut Out<'_>, records: u64) -> fmt::Result {
    if records == 0 {
        return Ok(());
    }
    out.write_str("kymo: ")?;
    write_number(out, records)?;
    out.write_str(" more were overwritten meanwhile, or cannot be read\n")
}
