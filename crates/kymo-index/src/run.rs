//! What stands for the slices and values of a row where there is no room for each.

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

/// Merges what is next to one another, as far as `resolution` nanoseconds reach.
pub(crate) fn reduced<R: Reduce>(all: impl IntoIterator<Item = R>, resolution: u64) -> Vec<R> {
    let mut few: Vec<R> = Vec::new();
    for next in all {
        push(&mut few, next, resolution);
    }
    few
}

/// Adds the next one: to the last one, as far as `resolution` nanoseconds reach.
pub(crate) fn push<R: Reduce>(few: &mut Vec<R>, next: R, resolution: u64) {
    if let Some(last) = few.last_mut()
        && let Some(both) = last.merged(&next, resolution)
    {
        *last = both;
        return;
    }
    few.push(next);
}

/// Adds a part behind what is there.
pub(crate) fn append<R: Reduce>(to: &mut Vec<R>, part: &[R]) {
    let Some((first, rest)) = part.split_first() else {
        return;
    };
    match to.last().and_then(|last| last.joined(first)) {
        Some(whole) => {
            to.pop();
            to.push(whole);
        }
        None => to.push(*first),
    }
    to.extend_from_slice(rest);
}
