//! What a row has in a window, put together part by part.

use std::mem;
use std::ops::Range;

use crate::code::Sink;
use crate::part::Content;
use crate::run::{Place, Reduce, Run, Values, push};

/// A row of a window, which takes what parts have of it, in their order.
#[derive(Debug)]
pub(crate) struct Drawn {
    runs: Few<Run>,
    values: Few<Values>,
    has_values: bool,
    time: Range<u64>,
    resolution: u64,
}

impl Drawn {
    /// Merges what is shorter than `resolution` nanoseconds.
    pub(crate) fn new(time: Range<u64>, resolution: u64) -> Drawn {
        Drawn {
            runs: Few::default(),
            values: Few::default(),
            has_values: false,
            time,
            resolution,
        }
    }

    /// The next part begins here.
    pub(crate) fn begin_part(&mut self) {
        (self.runs.is_first, self.values.is_first) = (true, true);
    }

    /// What the row has.
    pub(crate) fn finish(mut self) -> Content {
        self.runs.settle(&self.time, self.resolution);
        self.values.settle(&self.time, self.resolution);
        match self.has_values {
            true => Content::Values(self.values.all),
            false => Content::Runs(self.runs.all),
        }
    }
}

impl Sink for Drawn {
    fn run(&mut self, run: Run) {
        self.runs.add(run, &self.time, self.resolution);
    }

    fn values(&mut self, values: Values) {
        self.has_values = true;
        self.values.add(values, &self.time, self.resolution);
    }
}

/// Runs or values, merged as they come.
#[derive(Debug)]
struct Few<R> {
    all: Vec<R>,
    /// The last one. The first of the next part may be the rest of it.
    last: Option<R>,
    /// Whether the next one is the first of its part.
    is_first: bool,
}

impl<R> Default for Few<R> {
    fn default() -> Few<R> {
        Few {
            all: Vec::new(),
            last: None,
            is_first: true,
        }
    }
}

impl<R: Reduce> Few<R> {
    fn add(&mut self, next: R, time: &Range<u64>, resolution: u64) {
        let is_first = mem::replace(&mut self.is_first, false);
        let joined = self.last.filter(|_| is_first);
        if let Some(whole) = joined.and_then(|last| last.joined(&next)) {
            self.last = Some(whole);
            return;
        }
        self.settle(time, resolution);
        self.last = Some(next);
    }

    /// Takes the last one among the others, as nothing follows that belongs to it.
    fn settle(&mut self, time: &Range<u64>, resolution: u64) {
        let Some(last) = self.last.take() else { return };
        match last.place(time) {
            Place::Outside => {}
            Place::Before => {
                self.all.clear();
                self.all.push(last);
            }
            Place::Inside => push(&mut self.all, last, resolution),
        }
    }
}
