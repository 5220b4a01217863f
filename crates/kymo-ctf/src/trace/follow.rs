//! A trace that is still recorded.

use std::collections::VecDeque;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::metadata::Metadata;
use crate::stream::Stream;
use crate::stream::event_ref::ItemRef;
use crate::stream::item::{Loss, LossKind};
use crate::stream::packets::grown;
use crate::trace::{Trace, TraceMap};

/// How many looks in succession may fail to read the metadata, which may be half written.
const TRIES: u32 = 20;

/// Reads a trace that is still recorded, in steps.
///
/// A step has the events up to the newest one of a look that is some time ago: the follower's lag. A
/// recorder that reads all CPUs in turn, and writes what it has read, in a shorter time has written
/// everything up to there. An event that it writes later still is in no step, but
/// [counted](Follower::late). What is damaged is not reported: for numbers that count, read the
/// trace once it is complete. Streams without a clock are in no step.
#[derive(Debug)]
pub struct Follower {
    directory: PathBuf,
    /// `None` until there is metadata.
    trace: Option<Trace>,
    /// How many looks in succession have failed to read the metadata.
    failures: u32,
    lag: Duration,
    /// When the trace was looked at within the lag, and once before that, and the time of the newest
    /// event then, in nanoseconds from the clock's origin.
    looks: VecDeque<(Instant, i128)>,
    /// Up to when there were steps, likewise.
    read: Option<i128>,
    progress: Progress,
}

/// What steps had so far.
#[derive(Debug, Default)]
struct Progress {
    /// By the stream's index.
    streams: Vec<Given>,
    late: u64,
}

/// What steps had of a stream. Its last packet may still be written, and report more.
#[derive(Clone, Copy, Debug, Default)]
struct Given {
    /// Time of the last event, in nanoseconds from the clock's origin, and the number of events of
    /// that time.
    last: Option<i128>,
    at_last: u64,
    /// The counter of lost events of the last packet whose losses steps told.
    lost: Option<u64>,
    /// Where the last gap between packets ends of which steps told.
    gap: Option<i128>,
}

/// What has been recorded of a trace since the step before.
#[derive(Debug)]
pub struct Step<'f> {
    map: TraceMap,
    progress: &'f mut Progress,
    /// Later than this.
    after: Option<i128>,
    to: i128,
}

impl Follower {
    /// A lag for Kymo's recorder, which writes what it has read at least every 250 ms.
    pub const LAG: Duration = Duration::from_millis(400);

    /// Follows the trace in this directory from its beginning on. There need not be one yet.
    pub fn new(directory: &Path, lag: Duration) -> Follower {
        Follower {
            directory: directory.to_owned(),
            trace: None,
            failures: 0,
            lag,
            looks: VecDeque::new(),
            read: None,
            progress: Progress::default(),
        }
    }

    /// The trace's metadata, as it was when the trace was found. `None` before that.
    pub fn metadata(&self) -> Option<&Arc<Metadata>> {
        self.trace.as_ref().map(Trace::metadata)
    }

    /// Number of events that were written too late for the step of their time.
    pub fn late(&self) -> u64 {
        self.progress.late
    }

    /// Looks for more. `None` if there is nothing of which it is known that it is complete.
    ///
    /// # Errors
    /// [`Error::Io`] if the directory cannot be read; those of [`Trace::open`] if the metadata could
    /// not be read at twenty looks in succession.
    pub fn look(&mut self) -> Result<Option<Step<'_>>, Error> {
        self.find()?;
        let Some(trace) = &mut self.trace else {
            return Ok(None);
        };
        trace.refresh()?;
        let map = trace.map();
        let now = Instant::now();
        let is_old = |look: &(Instant, i128)| now.duration_since(look.0) >= self.lag;
        let old = self.looks.iter().take_while(|look| is_old(look)).count();
        self.looks.drain(..old.saturating_sub(1));
        let to = self.looks.front().copied().filter(is_old);
        if let Some(newest) = map.end_nanos() {
            let before = self.looks.back().map_or(newest, |look| look.1);
            self.looks.push_back((now, newest.max(before)));
        }
        let Some((_, to)) = to else {
            return Ok(None);
        };
        Ok(Some(Step {
            map,
            progress: &mut self.progress,
            after: self.read.replace(to),
            to,
        }))
    }

    /// Finds the trace, if it has begun.
    fn find(&mut self) -> Result<(), Error> {
        let metadata = self.directory.join("metadata");
        let is_empty = fs::metadata(metadata).is_ok_and(|file| file.len() == 0);
        if self.trace.is_some() || is_empty {
            return Ok(());
        }
        match Trace::open(&self.directory) {
            Ok(trace) => self.trace = Some(trace),
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                self.failures += 1;
                if self.failures >= TRIES {
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

impl Step<'_> {
    /// Passes the step's events and losses on, in time order; returns their number. A loss belongs
    /// to the step in which its interval ends, and what a packet reports later still, to the next
    /// one; losses whose interval has no end are in no step. A step is read once.
    ///
    /// # Errors
    /// The first of `each`.
    pub fn read<E>(
        &mut self,
        mut each: impl FnMut(&ItemRef<'_>) -> Result<(), E>,
    ) -> Result<u64, E> {
        let progress = &mut *self.progress;
        progress
            .streams
            .resize(self.map.streams().count(), Given::default());
        let before = progress.streams.clone();
        let from = |place: usize| before.get(place).and_then(|given| given.last);
        let mut reader = self.map.read().resumed(from, self.to);
        // Of each stream, how many events of its last time have been met again.
        let mut again = vec![0; before.len()];
        let mut passed = 0;
        while let Some(place) = reader.next_place() {
            let stream = progress.streams.get_mut(place);
            let (Some(given), Some(before)) = (stream, before.get(place)) else {
                continue;
            };
            let Some(item) = reader.item(place) else {
                continue;
            };
            match &item {
                ItemRef::Event(event) => {
                    let again = again.get_mut(place);
                    let (Some(at), Some(again)) = (event.nanos(), again) else {
                        continue;
                    };
                    if !given.takes(at, before, again) {
                        continue;
                    }
                    if Some(at) <= self.after {
                        progress.late += 1;
                        continue;
                    }
                    each(&item)?;
                }
                ItemRef::Loss(loss) => {
                    let reported = reader.stream(place).and_then(Stream::discarded);
                    let Some(loss) = given.more(loss, reported, self.to) else {
                        continue;
                    };
                    each(&ItemRef::Loss(&loss))?;
                }
                ItemRef::Problem(_) => continue,
            }
            passed += 1;
        }
        Ok(passed)
    }

    /// Beginning of the earliest stream, in nanoseconds from the clock's origin.
    pub fn begin_nanos(&self) -> Option<i128> {
        self.map.read().begin_nanos()
    }

    /// Time of the step's end, in nanoseconds from the clock's origin: an event of this time is in
    /// the step.
    pub fn end_nanos(&self) -> i128 {
        self.to
    }

    /// The trace's bytes, which have this step and those before it, and perhaps more.
    pub fn into_map(self) -> TraceMap {
        self.map
    }
}

impl Given {
    /// Whether an event of this time is the stream's next one, rather than one of those that steps
    /// had; it counts as had then. `again`: how many events of the last time before this step have
    /// been met in it.
    fn takes(&mut self, at: i128, before: &Given, again: &mut u64) -> bool {
        if Some(at) < before.last {
            return false;
        }
        if Some(at) == before.last {
            *again += 1;
            if *again <= before.at_last {
                return false;
            }
        }
        self.at_last = match self.last == Some(at) {
            true => self.at_last + 1,
            false => 1,
        };
        self.last = Some(at);
        true
    }

    /// What of a loss steps have not told yet; `None` if there is nothing, or it has not ended by
    /// `to`. `reported`: the counter of lost events of the loss's packet, and its size in bits.
    fn more(&mut self, loss: &Loss, reported: Option<(u64, u8)>, to: i128) -> Option<Loss> {
        let end = loss.end_nanos.filter(|end| *end <= to)?;
        let mut loss = loss.clone();
        match (loss.kind, reported) {
            (LossKind::Events, Some((reported, size))) => {
                if let Some(told) = self.lost {
                    // A packet that is read again may be one before the last.
                    loss.count = grown(told, reported, size)?;
                }
                self.lost = Some(reported);
            }
            _ => {
                loss.count = if Some(end) > self.gap { loss.count } else { 0 };
                self.gap = self.gap.max(Some(end));
            }
        }
        (loss.count > 0).then_some(loss)
    }
}
