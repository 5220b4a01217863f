//! A trace that is still recorded.

use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use crate::error::Error;
use crate::metadata::Metadata;
use crate::stream::Stream;
use crate::stream::event_ref::ItemRef;
use crate::stream::item::LossKind;
use crate::trace::{Trace, TraceMap};

/// Reads a trace that is still recorded, in steps.
///
/// A step has what is older than the newest event of the look before, and newer than the steps so
/// far. A recorder that reads all CPUs in turn has written everything of that time if a round of it
/// fits between two looks (a round of Kymo's takes milliseconds). An event that it writes later
/// still is in no step, and what is damaged is not reported: for numbers that count, read the trace
/// once it is complete.
#[derive(Debug)]
pub struct Follower {
    trace: Trace,
    /// Up to when there were steps, in nanoseconds from the clock's origin.
    read: Option<i128>,
    /// Time of the newest event when the trace was last looked at.
    newest: Option<i128>,
    told: Told,
}

/// By the stream's index: the number of lost events that its packets report, of which steps told.
/// The last packet may still be written, and report more.
type Told = HashMap<usize, u64>;

/// What has been recorded of a trace since the step before.
#[derive(Debug)]
pub struct Step<'f> {
    map: TraceMap,
    told: &'f mut Told,
    /// Later than this.
    after: Option<i128>,
    to: i128,
}

impl Follower {
    /// Follows the trace in this directory from its beginning on. `None` if it has no metadata yet.
    ///
    /// # Errors
    /// Those of [`Trace::open`].
    pub fn open(directory: &Path) -> Result<Option<Follower>, Error> {
        let metadata = fs::metadata(directory.join("metadata"));
        if metadata.is_ok_and(|file| file.len() == 0) {
            return Ok(None);
        }
        let trace = match Trace::open(directory) {
            Ok(trace) => trace,
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        Ok(Some(Follower {
            trace,
            read: None,
            newest: None,
            told: Told::new(),
        }))
    }

    /// The trace's metadata, as it was when the trace was opened.
    pub fn metadata(&self) -> &Arc<Metadata> {
        self.trace.metadata()
    }

    /// Looks for more. `None` if there is nothing of which it is known that it is complete.
    ///
    /// # Errors
    /// [`Error::Io`] if the directory cannot be read.
    pub fn look(&mut self) -> Result<Option<Step<'_>>, Error> {
        self.trace.refresh()?;
        let map = self.trace.map();
        let before = self.newest;
        self.newest = map.end_nanos().max(before);
        let Some(to) = before.filter(|before| Some(*before) > self.read) else {
            return Ok(None);
        };
        let after = self.read.replace(to);
        let told = &mut self.told;
        Ok(Some(Step {
            map,
            told,
            after,
            to,
        }))
    }
}

impl Step<'_> {
    /// Passes the step's events and losses on, in time order. A loss belongs to the step in which
    /// its interval ends. What a packet reports later still comes with its stream's next loss;
    /// losses whose interval has no end are in no step.
    ///
    /// # Errors
    /// The first of `each`.
    pub fn read<E>(
        &mut self,
        mut each: impl FnMut(&ItemRef<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let from = self.after.map(|after| after.saturating_add(1));
        let mut reader = self.map.read().between(from, Some(self.to));
        while let Some(place) = reader.next_place() {
            match reader.item(place) {
                Some(item @ ItemRef::Event(_)) => each(&item)?,
                Some(ItemRef::Loss(loss)) => {
                    let ends = loss.end_nanos.filter(|end| Some(*end) > self.after);
                    if ends.is_none_or(|end| end > self.to) {
                        continue;
                    }
                    let mut loss = loss.clone();
                    let reported = reader.stream(place).and_then(Stream::discarded);
                    if let (LossKind::Events, Some(reported)) = (loss.kind, reported) {
                        let told = self.told.insert(place, reported);
                        let more = told.and_then(|told| reported.checked_sub(told));
                        loss.count = more.unwrap_or(loss.count);
                    }
                    if loss.count > 0 {
                        each(&ItemRef::Loss(&loss))?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
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
