//! Merges sources by time.
//!
//! Which of several CPUs comes next is practically random: a branch on it is mispredicted half of
//! the time, which costs more than reading a record. So each source is read ahead in a [`Run`], and
//! the order of all records that are known to come next (a stretch) is computed at once: runs are
//! merged two by two, from both ends, by arithmetic instead of branches.
//!
//! A stretch ends where the first run ends, because the source of that run may continue at any
//! later time. Sources without a record in the stretch take no part in it, so a nearly silent
//! source costs nothing.

use std::hint::select_unpredictable;

/// Most records to read ahead from a source.
pub(crate) const RUN: usize = 256;

/// A record's time, and the source's tag for it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Entry {
    pub(crate) time: u64,
    pub(crate) tag: u32,
}

/// Records read ahead from one source; times never decrease.
#[derive(Debug)]
pub(crate) struct Run {
    entries: Box<[Entry; RUN]>,
    next: usize,
    end: usize,
    is_over: bool,
}

impl Run {
    fn new() -> Run {
        Run {
            entries: Box::new([Entry::default(); RUN]),
            next: 0,
            end: 0,
            is_over: false,
        }
    }

    /// Stores a record at `place`, which is below [`RUN`].
    #[inline(always)]
    pub(crate) fn put(&mut self, place: usize, time: u64, tag: u32) {
        self.entries[place % RUN] = Entry { time, tag };
    }

    /// Sets the number of stored records.
    pub(crate) fn set_len(&mut self, records: usize) {
        self.end = records.min(RUN);
    }

    /// The times of the stored records.
    pub(crate) fn times(&mut self) -> impl DoubleEndedIterator<Item = &mut u64> {
        let put = self.entries.get_mut(..self.end).unwrap_or_default();
        put.iter_mut().map(|entry| &mut entry.time)
    }

    fn is_empty(&self) -> bool {
        self.next == self.end
    }

    fn last(&self) -> Option<u64> {
        let last = self.entries.get(self.end.checked_sub(1)?)?;
        Some(last.time).filter(|_| !self.is_empty())
    }

    /// Number of records up to `limit`, or only before it unless `inclusive`.
    fn count_to(&self, limit: u64, inclusive: bool) -> usize {
        let entries = self.entries.get(self.next..self.end).unwrap_or_default();
        match entries.first() {
            Some(first) if first.time <= limit => entries
                .partition_point(|entry| entry.time < limit || inclusive && entry.time == limit),
            _ => 0,
        }
    }
}

/// The sources to merge.
pub(crate) trait Sources {
    /// Stores the next records of the source at `place` in `run`, from index 0: at least one, or
    /// none at the source's end.
    fn refill(&mut self, place: usize, run: &mut Run);
}

/// Merges sources.
#[derive(Debug)]
pub(crate) struct Merger {
    runs: Vec<Run>,
    /// The records of a stretch in order, their number, and how many of them were given out.
    order: Vec<Entry>,
    ready: usize,
    given: usize,
    /// The runs that take part in a stretch: their indices, and their first record after the
    /// stretch.
    active: Vec<(usize, usize)>,
    /// Ends of the parts merged so far; the last end is the total.
    ends: Vec<usize>,
    spare: Vec<Entry>,
}

impl Merger {
    /// A merger of this many sources.
    pub(crate) fn new(sources: usize) -> Merger {
        Merger {
            runs: (0..sources).map(|_| Run::new()).collect(),
            order: Vec::new(),
            ready: 0,
            given: 0,
            active: Vec::new(),
            ends: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// The tag of the next record of the [arranged](Self::arrange) stretch.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Option<u32> {
        let entry = self.order.get(..self.ready)?.get(self.given)?;
        self.given += 1;
        Some(entry.tag)
    }

    /// All records of the next stretch, which count as given out; empty at the end.
    pub(crate) fn stretch(&mut self, sources: &mut impl Sources) -> &[Entry] {
        if self.given == self.ready {
            self.arrange(sources);
        }
        let first = std::mem::replace(&mut self.given, self.ready);
        self.order.get(first..self.ready).unwrap_or_default()
    }

    /// Passes the tags that were read but not given out to `give`, in any order.
    pub(crate) fn drain(&mut self, mut give: impl FnMut(u32)) {
        for run in &mut self.runs {
            let entries = run.entries.get(run.next..run.end).unwrap_or_default();
            entries.iter().for_each(|entry| give(entry.tag));
            run.next = run.end;
        }
    }

    /// Orders the next stretch. The previous one must have been given out completely.
    #[inline(never)]
    pub(crate) fn arrange(&mut self, sources: &mut impl Sources) {
        (self.given, self.ready) = (0, 0);
        let mut first: Option<(u64, usize)> = None;
        for (place, run) in self.runs.iter_mut().enumerate() {
            if run.is_empty() && !run.is_over {
                (run.next, run.end) = (0, 0);
                sources.refill(place, run);
                run.is_over = run.is_empty();
            }
            if let Some(last) = run.last()
                && first.is_none_or(|(time, _)| last < time)
            {
                first = Some((last, place));
            }
        }
        if let Some((limit, place)) = first {
            self.find_active(limit, place);
            self.merge();
        }
    }

    /// Finds the records that precede anything that may follow the run at `bound`, whose last time
    /// is `limit`. Among records of that time, those of earlier sources come first.
    fn find_active(&mut self, limit: u64, bound: usize) {
        self.active.clear();
        for (place, run) in self.runs.iter().enumerate() {
            let count = run.count_to(limit, place <= bound);
            if count > 0 {
                self.active.push((place, run.next + count));
                self.ready += count;
            }
        }
        for entries in [&mut self.order, &mut self.spare] {
            if entries.len() < self.ready {
                entries.resize(self.ready, Entry::default());
            }
        }
    }

    /// Merges the active runs two by two, then the results, until one is left.
    fn merge(&mut self) {
        self.ends.clear();
        let mut end = 0;
        for pair in self.active.chunks(2) {
            let part = |at: usize| {
                let (place, end) = pair.get(at)?;
                let run = self.runs.get(*place)?;
                run.entries.get(run.next..*end)
            };
            let (first, second) = (part(0).unwrap_or_default(), part(1).unwrap_or_default());
            let begin = end;
            end += first.len() + second.len();
            two(
                first,
                second,
                self.order.get_mut(begin..end).unwrap_or_default(),
            );
            self.ends.push(end);
        }
        for (place, end) in &self.active {
            if let Some(run) = self.runs.get_mut(*place) {
                run.next = *end;
            }
        }
        while self.ends.len() > 1 {
            std::mem::swap(&mut self.order, &mut self.spare);
            let (mut begin, mut kept) = (0, 0);
            for pair in 0..self.ends.len().div_ceil(2) {
                let end_of = |at: usize| self.ends.get(at).copied();
                let Some(middle) = end_of(2 * pair) else {
                    break;
                };
                // A part without a partner is merged with an empty one.
                let end = end_of(2 * pair + 1).unwrap_or(middle);
                two(
                    self.spare.get(begin..middle).unwrap_or_default(),
                    self.spare.get(middle..end).unwrap_or_default(),
                    self.order.get_mut(begin..end).unwrap_or_default(),
                );
                if let Some(cell) = self.ends.get_mut(kept) {
                    *cell = end;
                }
                (begin, kept) = (end, kept + 1);
            }
            self.ends.truncate(kept);
        }
    }
}

/// Merges two parts; among records of the same time, those of the first part come first.
///
/// Works at both ends in turn, since neither has to wait for the other.
#[inline(always)]
fn two(first: &[Entry], second: &[Entry], merged: &mut [Entry]) {
    let (mut one, mut other) = (0, 0);
    let (mut one_end, mut other_end) = (first.len(), second.len());
    while one + 1 < one_end && other + 1 < other_end {
        let (Some(low), Some(other_low)) = (first.get(one), second.get(other)) else {
            return;
        };
        let (Some(high), Some(other_high)) = (first.get(one_end - 1), second.get(other_end - 1))
        else {
            return;
        };
        let is_other = other_low.time < low.time;
        let was_other = other_high.time >= high.time;
        if let Some(cell) = merged.get_mut(one + other) {
            *cell = select_unpredictable(is_other, *other_low, *low);
        }
        if let Some(cell) = merged.get_mut(one_end + other_end - 1) {
            *cell = select_unpredictable(was_other, *other_high, *high);
        }
        one += usize::from(!is_other);
        other += usize::from(is_other);
        one_end -= usize::from(!was_other);
        other_end -= usize::from(was_other);
    }
    while one < one_end && other < other_end {
        let (Some(low), Some(other_low)) = (first.get(one), second.get(other)) else {
            return;
        };
        let is_other = other_low.time < low.time;
        if let Some(cell) = merged.get_mut(one + other) {
            *cell = select_unpredictable(is_other, *other_low, *low);
        }
        one += usize::from(!is_other);
        other += usize::from(is_other);
    }
    let rest = [first.get(one..one_end), second.get(other..other_end)];
    let rest = rest.into_iter().flatten().find(|rest| !rest.is_empty());
    let place = one + other;
    if let Some(rest) = rest
        && let Some(cells) = merged.get_mut(place..place + rest.len())
    {
        cells.copy_from_slice(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sources whose records are `(time, tag)`, read in runs of several lengths.
    struct Lists {
        records: Vec<Vec<(u64, u32)>>,
        reads: usize,
    }

    impl Sources for Lists {
        fn refill(&mut self, place: usize, run: &mut Run) {
            self.reads += 1;
            let source = &mut self.records[place];
            let records = (1 + self.reads * 7 % RUN).min(source.len());
            for (at, (time, tag)) in source.drain(..records).enumerate() {
                run.put(at, time, tag);
            }
            run.set_len(records);
        }
    }

    /// Records of this many sources: times grow pseudo-randomly and are often equal; tags are
    /// unique.
    fn sources(count: usize) -> Vec<Vec<(u64, u32)>> {
        let mut tag = 0;
        let mut next_tag = || {
            tag += 1;
            tag
        };
        let source = |place: usize| {
            let mut time = place as u64 % 3;
            let records = place * 531 % 1000;
            (0..records)
                .map(|step| {
                    time += (step as u64 * 7919 + place as u64 * 104_729) % 13 / 6;
                    (
                        if step + 1 == records { u64::MAX } else { time },
                        next_tag(),
                    )
                })
                .collect()
        };
        (0..count).map(source).collect()
    }

    fn all(merger: &mut Merger, lists: &mut Lists) -> Vec<u32> {
        let next = || {
            merger.next().or_else(|| {
                merger.arrange(lists);
                merger.next()
            })
        };
        std::iter::from_fn(next).collect()
    }

    fn in_order(records: &[Vec<(u64, u32)>]) -> Vec<u32> {
        let mut all: Vec<_> = records.iter().flatten().copied().collect();
        // Tags go up from source to source.
        all.sort();
        all.into_iter().map(|(_, tag)| tag).collect()
    }

    #[test]
    fn gives_everything_in_order_however_many_there_are() {
        for count in 0..20 {
            let records = sources(count);
            let wanted = in_order(&records);
            let mut lists = Lists {
                records: records.clone(),
                reads: 0,
            };
            let mut merger = Merger::new(count);
            let given = all(&mut merger, &mut lists);
            assert!(given == wanted, "{count} sources");
            let mut lists = Lists { records, reads: 3 };
            let (mut merger, mut given) = (Merger::new(count), Vec::new());
            while let stretch @ [_, ..] = merger.stretch(&mut lists) {
                given.extend(stretch.iter().map(|entry| entry.tag));
            }
            assert!(given == wanted, "{count} sources");
        }
    }

    #[test]
    fn what_was_read_and_not_given_can_be_had_at_once() {
        let records = sources(7);
        let mut wanted = in_order(&records);
        let mut lists = Lists { records, reads: 0 };
        let (mut merger, mut given) = (Merger::new(7), Vec::new());
        while let stretch @ [_, ..] = merger.stretch(&mut lists) {
            given.extend(stretch.iter().map(|entry| entry.tag));
            if given.len() % 3 == 0 {
                merger.drain(|tag| given.push(tag));
            }
        }
        given.sort_unstable();
        wanted.sort_unstable();
        assert!(given == wanted);
    }

    #[test]
    fn the_last_time_of_all_is_no_end() {
        let records = vec![
            vec![],
            vec![(u64::MAX, 1), (u64::MAX, 2)],
            vec![(u64::MAX, 3)],
        ];
        let mut lists = Lists { records, reads: 0 };
        let mut merger = Merger::new(3);
        let given = all(&mut merger, &mut lists);
        assert_eq!(given, [1, 2, 3]);
    }
}
