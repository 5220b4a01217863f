//! What stands for the slices and values of a row where there is no room for each.

use std::mem;
use std::ops::Range;

use crate::registry::NameId;

/// A slice, or several in succession.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where the first begins, in nanoseconds of the timeline.
    pub begin: u64,
    /// Where the last ends.
    pub end: u64,
    /// How many there are.
    pub count: u64,
    /// How long they last together, in nanoseconds. The rest, up to `end`, is between them.
    pub busy: u64,
    /// How long the longest lasts, in nanoseconds.
    pub longest: u64,
    /// What the longest is called; the first of several that are as long.
    pub name: NameId,
    /// The slice began before `begin`, where this is cut off.
    pub is_cut_before: bool,
    /// The slice goes on behind `end`, where this is cut off.
    pub is_cut_behind: bool,
}

impl Run {
    /// One whole slice.
    pub fn slice(begin: u64, end: u64, name: NameId) -> Run {
        let length = end.saturating_sub(begin);
        Run {
            begin,
            end,
            count: 1,
            busy: length,
            longest: length,
            name,
            is_cut_before: false,
            is_cut_behind: false,
        }
    }

    fn is_cut(&self) -> bool {
        self.is_cut_before || self.is_cut_behind
    }
}

/// A value that a counter gets, or several in succession.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Values {
    /// When the counter gets the first, in nanoseconds of the timeline.
    pub begin: u64,
    /// When it gets the last.
    pub end: u64,
    /// How many there are; 0 for the value that it had before.
    pub count: u64,
    /// The least of them.
    pub min: i64,
    /// The greatest of them.
    pub max: i64,
    /// The last of them, which holds until the next one.
    pub last: i64,
}

/// Where something is, compared with a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It has nothing to say there.
    Outside,
    /// It ends before; the last one of these says what is there.
    Before,
    /// It reaches into it.
    Inside,
}

/// The rows' parts that can be reduced.
pub(crate) trait Reduce: Copy {
    /// Where it is, compared with a stretch of time.
    fn place(&self, time: &Range<u64>) -> Place;

    /// This one and the next one as one, if that is not longer than `resolution`.
    fn merged(&self, next: &Self, resolution: u64) -> Option<Self>;

    /// This one, the last of a part, and `next`, the first of the following one, as one, if they are
    /// the same slice.
    fn joined(&self, next: &Self) -> Option<Self>;
}

impl Reduce for Run {
    fn place(&self, time: &Range<u64>) -> Place {
        match self.begin < time.end && self.end >= time.start {
            true => Place::Inside,
            false => Place::Outside,
        }
    }

    fn merged(&self, next: &Run, resolution: u64) -> Option<Run> {
        // A cut slice stands alone: what follows on the other side of the cut belongs to it.
        let is_short = next.end.saturating_sub(self.begin) <= resolution;
        if !is_short || self.is_cut() || next.is_cut() {
            return None;
        }
        let is_longer = next.longest > self.longest;
        Some(Run {
            begin: self.begin,
            end: self.end.max(next.end),
            count: self.count + next.count,
            busy: self.busy + next.busy,
            longest: self.longest.max(next.longest),
            name: if is_longer { next.name } else { self.name },
            is_cut_before: false,
            is_cut_behind: false,
        })
    }

    fn joined(&self, next: &Run) -> Option<Run> {
        (self.is_cut_behind && next.is_cut_before).then(|| Run {
            is_cut_before: self.is_cut_before,
            is_cut_behind: next.is_cut_behind,
            ..Run::slice(self.begin, next.end, self.name)
        })
    }
}

impl Reduce for Values {
    fn place(&self, time: &Range<u64>) -> Place {
        match (self.begin < time.end, self.end < time.start) {
            (false, _) => Place::Outside,
            (true, true) => Place::Before,
            (true, false) => Place::Inside,
        }
    }

    fn merged(&self, next: &Values, resolution: u64) -> Option<Values> {
        (next.end.saturating_sub(self.begin) <= resolution).then(|| self.with(next))
    }

    /// The value that a counter had before says nothing new.
    fn joined(&self, next: &Values) -> Option<Values> {
        (next.count == 0 && next.last == self.last).then_some(*self)
    }
}

impl Values {
    /// One value.
    pub fn one(at: u64, value: i64, count: u64) -> Values {
        Values {
            begin: at,
            end: at,
            count,
            min: value,
            max: value,
            last: value,
        }
    }

    fn with(&self, next: &Values) -> Values {
        Values {
            begin: self.begin,
            end: next.end,
            count: self.count + next.count,
            min: self.min.min(next.min),
            max: self.max.max(next.max),
            last: next.last,
        }
    }
}

/// Adds the next one: to the last one, as far as `resolution` nanoseconds reach.
fn push<R: Reduce>(few: &mut Vec<R>, next: R, resolution: u64) {
    if let Some(last) = few.last_mut()
        && let Some(both) = last.merged(&next, resolution)
    {
        *last = both;
        return;
    }
    few.push(next);
}

/// Runs or values of several parts, which are merged as they come.
#[derive(Debug)]
pub(crate) struct Few<R> {
    all: Vec<R>,
    /// The last one. The first of the next part may be the rest of it.
    last: Option<R>,
    /// Whether the next one is the first of its part.
    is_first: bool,
    /// Of all others, nothing is kept.
    time: Range<u64>,
    resolution: u64,
}

impl<R: Reduce> Few<R> {
    /// Merges what is shorter than `resolution` nanoseconds.
    pub(crate) fn new(time: Range<u64>, resolution: u64) -> Few<R> {
        Few {
            all: Vec::new(),
            last: None,
            is_first: true,
            time,
            resolution,
        }
    }

    /// The next part begins here.
    pub(crate) fn begin_part(&mut self) {
        self.is_first = true;
    }

    /// Adds the next one.
    pub(crate) fn add(&mut self, next: R) {
        let is_first = mem::replace(&mut self.is_first, false);
        let joined = self.last.filter(|_| is_first);
        if let Some(whole) = joined.and_then(|last| last.joined(&next)) {
            self.last = Some(whole);
            return;
        }
        self.settle();
        self.last = Some(next);
    }

    /// Puts the last one among the others: nothing follows that belongs to it.
    fn settle(&mut self) {
        let Some(last) = self.last.take() else { return };
        match last.place(&self.time) {
            Place::Outside => {}
            Place::Before => {
                self.all.clear();
                self.all.push(last);
            }
            Place::Inside => push(&mut self.all, last, self.resolution),
        }
    }

    /// All of them.
    pub(crate) fn finish(mut self) -> Vec<R> {
        self.settle();
        self.all
    }
}
