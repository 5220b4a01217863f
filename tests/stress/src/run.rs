//! A run: a writer, a mode, and the number of records that readers verify.

use std::fmt;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use kymo::ring::reader::{ChannelReader, Losses, Region, View};
use kymo::ring::source::Live;
use kymo::{ChannelKind, Overflow};

use crate::code::find_writers;
use crate::event::{DEPTHS, THREADS};
use crate::reader::{Checks, Fault, Halting};
use crate::signal::handle_by;
use crate::thread::Thread;
use crate::writer::Writer;

/// Number of reading threads.
const READERS: usize = 2;

/// Totals of a run over all threads.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Writer and overflow policy.
    pub name: String,
    /// Calls of a tracepoint.
    pub calls: u64,
    /// Records read and verified.
    pub read: u64,
    /// Records overwritten before they were read.
    pub overwritten: u64,
    /// Calls for which there was no room.
    pub dropped: u64,
    /// By depth, from 1: signals in the hot path, in the slow path, and elsewhere.
    pub signals: [[u64; 3]; DEPTHS - 1],
    /// Numbers of handlers that began with 0, 1, 2 and 3 stopped writers.
    pub nested: [u64; DEPTHS],
    /// Dumps checked inside handlers.
    pub dumps: u64,
    /// Duration of the run.
    pub seconds: f64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} calls = {} read + {} overwritten + {} dropped; {} dumps; {:.1} s",
            self.name,
            self.calls,
            self.read,
            self.overwritten,
            self.dropped,
            self.dumps,
            self.seconds
        )?;
        for (depth, [hot, slow, elsewhere]) in (1..).zip(self.signals) {
            writeln!(
                f,
                "    signals at depth {depth}: {hot} in the hot path, {slow} in the slow path, \
                 {elsewhere} elsewhere"
            )?;
        }
        let [none, one, two, three] = self.nested;
        write!(
            f,
            "    writers stopped at once: none {none}, one {one}, two {two}, three {three}"
        )
    }
}

/// Records until readers have verified `events` records.
///
/// # Panics
/// On a fault; the message names the fault and its thread.
pub fn run<W: Writer>(overflow: Overflow, events: u64, seed: u64) -> Report {
    find_writers();
    handle_by::<W>();
    let name = format!("{}, {overflow:?}", W::NAME);
    let began = Instant::now();
    let (live, stop_session) = W::start(overflow);
    // Leaked, because handlers use all of it.
    let (stop, fault): (&AtomicBool, &OnceLock<_>) =
        (Box::leak(Box::default()), Box::leak(Box::default()));
    let threads =
        (0..THREADS).map(|number| Thread::new(number as u32, overflow, seed, stop, fault));
    let threads: &'static [Thread] = threads.collect::<Vec<_>>().leak();
    let (verified, written) = (AtomicU64::new(0), AtomicBool::new(false));
    let (entered, open) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));

    let outcomes = std::thread::scope(|scope| {
        let writers: Vec<_> = threads
            .iter()
            .map(|thread| {
                let (entered, open) = (&entered, &open);
                scope.spawn(move || {
                    let _ends_all = EndsAll;
                    thread.work::<W>(|| {
                        entered.wait();
                        open.wait();
                    });
                })
            })
            .collect();
        entered.wait();
        let region = Region::open(&live).expect("a region");
        for thread in threads {
            let ring = *thread.ring.get().expect("a ring");
            let reader = region
                .channel(&live, ring, ChannelKind::Events)
                .expect("a channel");
            let _ = thread.beginning.set((live, reader));
        }
        let readers: Vec<_> = threads
            .chunks(THREADS / READERS)
            .map(|threads| {
                let (live, verified, written) = (&live, &verified, &written);
                scope.spawn(move || read(threads, live, events, verified, written))
            })
            .collect();
        open.wait();
        show_progress(&name, events, &verified, || {
            writers
                .iter()
                .all(std::thread::ScopedJoinHandle::is_finished)
        });
        writers
            .into_iter()
            .for_each(|writer| writer.join().expect("a writer"));
        written.store(true, Relaxed);
        readers
            .into_iter()
            .flat_map(|reader| reader.join().expect("a reader"))
            .collect::<Vec<_>>()
    });
    stop_session();

    let mut report = Report {
        name,
        seconds: began.elapsed().as_secs_f64(),
        ..Report::default()
    };
    if let Some((thread, fault)) = fault.get() {
        panic!(
            "KYMO_SEED={seed}: {}, thread {thread}: {fault:?}",
            report.name
        );
    }
    threads
        .iter()
        .zip(outcomes)
        .for_each(|(thread, outcome)| report.add(thread, &outcome));
    report
}

/// Ends the program if its thread panics: the others would wait for that one forever.
struct EndsAll;

impl Drop for EndsAll {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

/// The result of a thread's ring.
struct Outcome {
    read: u64,
    losses: Losses,
}

impl Report {
    fn add(&mut self, thread: &Thread, outcome: &Outcome) {
        self.calls += thread.calls();
        self.read += outcome.read;
        self.overwritten += outcome.losses.overwritten;
        self.dropped += outcome.losses.dropped;
        self.dumps += thread.dumps.load(Relaxed);
        for (sums, counts) in self.signals.iter_mut().zip(&thread.places[1..]) {
            sums.iter_mut()
                .zip(counts)
                .for_each(|(sum, count)| *sum += count.load(Relaxed));
        }
        self.nested
            .iter_mut()
            .zip(&thread.nested)
            .for_each(|(sum, count)| *sum += count.load(Relaxed));
    }
}

/// Drains the rings of these threads until everything is written and read.
fn read(
    threads: &[Thread],
    live: &Live,
    events: u64,
    verified: &AtomicU64,
    written: &AtomicBool,
) -> Vec<Outcome> {
    let mut channels: Vec<(&Thread, ChannelReader, Checks)> = threads
        .iter()
        .filter_map(|thread| {
            Some((
                thread,
                thread.beginning.get()?.1.clone(),
                Checks::new(thread.number),
            ))
        })
        .collect();
    let mut at_rest = false;
    while !at_rest {
        // Checked first, so that the following read is complete.
        let all_written = written.load(Relaxed);
        let mut batches = 0;
        for (thread, reader, checks) in &mut channels {
            let before = checks.read();
            match drain(thread, reader, checks, live) {
                Ok(count) => batches += count,
                Err(fault) => thread.fails(fault),
            }
            thread.verified.store(checks.read(), Relaxed);
            thread.lost.store(reader.losses().events(), Relaxed);
            if verified.fetch_add(checks.read() - before, Relaxed) >= events {
                thread.stop.store(true, Relaxed);
            }
        }
        at_rest = all_written
            && (batches == 0
                || channels
                    .iter()
                    .any(|(thread, ..)| thread.fault.get().is_some()));
        if batches == 0 {
            std::thread::yield_now();
        }
    }
    let outcome = |(thread, reader, checks): &(&Thread, ChannelReader, Checks)| {
        let (read, losses) = (checks.read(), reader.losses());
        let called = thread.called.each_ref().map(|count| count.load(Relaxed));
        let (calls, gaps, lost) = (
            thread.calls(),
            checks.gaps_until(called),
            losses.overwritten + losses.dropped,
        );
        let in_discard_nothing_is_overwritten =
            thread.overflow == Overflow::Overwrite || losses.overwritten + losses.packets == 0;
        if calls != read + lost || gaps != lost || !in_discard_nothing_is_overwritten {
            thread.fails(Fault::Sum {
                calls,
                read,
                gaps,
                losses,
            });
        }
        Outcome { read, losses }
    };
    channels.iter().map(outcome).collect()
}

fn drain(
    thread: &Thread,
    reader: &mut ChannelReader,
    checks: &mut Checks,
    live: &Live,
) -> Result<usize, Fault> {
    // Sometimes the reader is paused in the middle of a copy.
    let batches = if checks.read().is_multiple_of(16) {
        checks.drain(reader, &Halting(live), View::Live, 8)?
    } else {
        checks.drain(reader, live, View::Live, 8)?
    };
    if thread.overflow == Overflow::Discard {
        reader.release(live).map_err(|_| Fault::Outside)?;
    }
    Ok(batches)
}

/// Shows the progress on a terminal.
fn show_progress(name: &str, events: u64, verified: &AtomicU64, done: impl Fn() -> bool) {
    let mut out = std::io::stderr();
    let shown = out.is_terminal();
    while shown && !done() {
        let _ = write!(
            out,
            "\r{name}: {} %  ",
            verified.load(Relaxed).min(events) * 100 / events.max(1)
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    if shown {
        let _ = write!(out, "\r\x1b[K");
    }
}
