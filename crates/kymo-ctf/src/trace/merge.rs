//! Sources merged by time.
//!
//! Which of several processors comes next is as good as random: a branch on it is guessed wrongly
//! half of the time, and a wrong guess costs more than reading a record. So each source is read
//! ahead in a [`Run`], and the order of all records that are known to come next (a stretch) is
//! found at once: runs are merged two by two, from both ends, by arithmetic instead of branches.
//!
//! A stretch ends where the first run ends, for the source of that run may go on with any later
//! time. Sources without a record in the stretch take no part in it, so that one that is nearly
//! silent costs nothing.

use std::hint::select_unpredictable;

/// Records that are read ahead of a source.
pub(crate) const RUN: usize = 64;

/// What was read ahead of one source: times, never decreasing, and a tag for each.
#[derive(Debug)]
pub(crate) struct Run {
    times: [u64; RUN],
    tags: [u32; RUN],
    next: usize,
    end: usize,
    is_over: bool,
}

impl Run {
    const EMPTY: Run = Run {
        times: [0; RUN],
        tags: [0; RUN],
        next: 0,
        end: 0,
        is_over: false,
    };

    /// Puts a record at `place`, which is below [`RUN`].
    #[inline(always)]
    pub(crate) fn put(&mut self, place: usize, time: u64, tag: u32) {
        self.times[place % RUN] = time;
        self.tags[place % RUN] = tag;
    }

    /// Sets how many records were put.
    pub(crate) fn set_len(&mut self, records: usize) {
        self.end = records.min(RUN);
    }

    /// The times that were put.
    pub(crate) fn times(&mut self) -> &mut [u64] {
        self.times.get_mut(..self.end).unwrap_or_default()
    }

    fn is_empty(&self) -> bool {
        self.next == self.end
    }

    fn last(&self) -> Option<u64> {
        let last = self.end.checked_sub(1)?;
        self.times.get(last).copied().filter(|_| !self.is_empty())
    }

    /// The records up to `limit`, or only those before it.
    fn upto(&self, limit: u64, inclusive: bool) -> usize {
        let times = self.times.get(self.next..self.end).unwrap_or_default();
        match times.first() {
            Some(first) if *first <= limit => {
                times.partition_point(|time| *time < limit || inclusive && *time == limit)
            }
            _ => 0,
        }
    }
}

/// What is merged.
pub(crate) trait Sources {
    /// Puts the next records of the source at `place` into `run`, from 0 on: one at least, or none
    /// at the source's end.
    fn refill(&mut self, place: usize, run: &mut Run);
}

/// Merges sources.
#[derive(Debug)]
pub(crate) struct Merger {
    runs: Vec<Run>,
    /// The tags of a stretch in order, and how many of them were given.
    order: Vec<u32>,
    given: usize,
    /// What is half merged.
    parts: Vec<Part>,
    from: Columns,
    into: Columns,
}

/// Some records of a stretch, in order: a range of the columns.
#[derive(Debug, Clone, Copy)]
struct Part {
    begin: usize,
    end: usize,
}

/// Times and tags of a stretch while it is merged.
#[derive(Debug, Default)]
struct Columns {
    times: Vec<u64>,
    tags: Vec<u32>,
}

impl Merger {
    /// For this many sources.
    pub(crate) fn new(sources: usize) -> Merger {
        Merger {
            runs: (0..sources).map(|_| Run::EMPTY).collect(),
            order: Vec::new(),
            given: 0,
            parts: Vec::new(),
            from: Columns::default(),
            into: Columns::default(),
        }
    }

    /// Reads the first records of all sources.
    pub(crate) fn begin(&mut self, sources: &mut impl Sources) {
        self.arrange(sources);
    }

    /// The tag of the record that comes next, of all sources.
    #[inline(always)]
    pub(crate) fn next(&mut self, sources: &mut impl Sources) -> Option<u32> {
        if self.given == self.order.len() {
            self.arrange(sources);
        }
        let tag = *self.order.get(self.given)?;
        self.given += 1;
        Some(tag)
    }

    /// The tags of all records that come next and are read; empty at the end. They count as given.
    pub(crate) fn stretch(&mut self, sources: &mut impl Sources) -> &[u32] {
        if self.given == self.order.len() {
            self.arrange(sources);
        }
        self.given = self.order.len();
        &self.order
    }

    /// Gives the tags that were read and not given, in any order.
    pub(crate) fn drain(&mut self, mut give: impl FnMut(u32)) {
        for run in &mut self.runs {
            let tags = run.tags.get(run.next..run.end).unwrap_or_default();
            tags.iter().for_each(|tag| give(*tag));
            run.next = run.end;
        }
    }

    /// Finds the order of what comes next. All that was arranged before must have been given.
    #[inline(never)]
    fn arrange(&mut self, sources: &mut impl Sources) {
        self.given = 0;
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
        match first {
            Some((limit, place)) => {
                self.collect(limit, place);
                self.merge();
            }
            None => self.order.clear(),
        }
    }

    /// Takes all that comes before what may follow the run at `bound`, whose last time is `limit`.
    /// Of several records of that time those of earlier sources come first.
    fn collect(&mut self, limit: u64, bound: usize) {
        let Columns { times, tags } = &mut self.from;
        times.clear();
        tags.clear();
        self.parts.clear();
        for (place, run) in self.runs.iter_mut().enumerate() {
            let count = run.upto(limit, place <= bound);
            if count == 0 {
                continue;
            }
            let range = run.next..run.next + count;
            let begin = times.len();
            times.extend_from_slice(run.times.get(range.clone()).unwrap_or_default());
            tags.extend_from_slice(run.tags.get(range).unwrap_or_default());
            run.next += count;
            self.parts.push(Part {
                begin,
                end: times.len(),
            });
        }
        let count = times.len();
        if self.into.times.len() < count {
            self.into.times.resize(count, 0);
            self.into.tags.resize(count, 0);
        }
        self.order.resize(count, 0);
    }

    /// Merges neighbours until one part is left: its tags are the order.
    fn merge(&mut self) {
        while self.parts.len() > 2 {
            let mut kept = 0;
            for pair in 0..self.parts.len().div_ceil(2) {
                let Some(first) = self.parts.get(2 * pair).copied() else {
                    break;
                };
                // One without a partner is merged with nothing.
                let second = self.parts.get(2 * pair + 1).copied().unwrap_or(Part {
                    begin: first.end,
                    end: first.end,
                });
                let range = first.begin..second.end;
                let (Some(times), Some(tags)) = (
                    self.into.times.get_mut(range.clone()),
                    self.into.tags.get_mut(range),
                ) else {
                    break;
                };
                two(
                    self.from.part(first),
                    self.from.part(second),
                    Some(times),
                    tags,
                );
                if let Some(part) = self.parts.get_mut(kept) {
                    *part = Part {
                        begin: first.begin,
                        end: second.end,
                    };
                }
                kept += 1;
            }
            self.parts.truncate(kept);
            std::mem::swap(&mut self.from, &mut self.into);
        }
        match self.parts[..] {
            [first, second] => two(
                self.from.part(first),
                self.from.part(second),
                None,
                &mut self.order,
            ),
            _ => {
                self.order.clear();
                self.order.extend_from_slice(&self.from.tags);
            }
        }
    }
}

impl Columns {
    fn part(&self, part: Part) -> (&[u64], &[u32]) {
        let range = part.begin..part.end;
        (
            self.times.get(range.clone()).unwrap_or_default(),
            self.tags.get(range).unwrap_or_default(),
        )
    }
}

/// Merges two parts; of the same time the first part's records come first. Without `times` only the
/// tags are wanted.
///
/// Both ends are worked at in turn, since neither has to wait for the other.
#[inline(always)]
fn two(
    (first, first_tags): (&[u64], &[u32]),
    (second, second_tags): (&[u64], &[u32]),
    mut times: Option<&mut [u64]>,
    tags: &mut [u32],
) {
    let (first_tags, second_tags) = (
        first_tags.get(..first.len()).unwrap_or_default(),
        second_tags.get(..second.len()).unwrap_or_default(),
    );
    let (mut low, mut high) = ((0, 0), (first.len(), second.len()));
    let mut put = |at: usize, time: u64, tag: u32| {
        if let Some(cell) = times.as_mut().and_then(|times| times.get_mut(at)) {
            *cell = time;
        }
        if let Some(cell) = tags.get_mut(at) {
            *cell = tag;
        }
    };
    let read = |one: usize, other: usize| {
        Some((
            (*first.get(one)?, *second.get(other)?),
            (*first_tags.get(one)?, *second_tags.get(other)?),
        ))
    };
    // The lower end.
    macro_rules! step_up {
        () => {
            let Some((time, tag)) = read(low.0, low.1) else {
                break;
            };
            let is_second = time.1 < time.0;
            put(
                low.0 + low.1,
                select_unpredictable(is_second, time.1, time.0),
                select_unpredictable(is_second, tag.1, tag.0),
            );
            low.0 += usize::from(!is_second);
            low.1 += usize::from(is_second);
        };
    }
    while low.0 + 1 < high.0 && low.1 + 1 < high.1 {
        step_up!();
        let Some((time, tag)) = read(high.0 - 1, high.1 - 1) else {
            break;
        };
        let is_second = time.1 >= time.0;
        put(
            high.0 + high.1 - 1,
            select_unpredictable(is_second, time.1, time.0),
            select_unpredictable(is_second, tag.1, tag.0),
        );
        high.0 -= usize::from(!is_second);
        high.1 -= usize::from(is_second);
    }
    while low.0 < high.0 && low.1 < high.1 {
        step_up!();
    }
    let rest = (low.0..high.0)
        .filter_map(|at| Some((*first.get(at)?, *first_tags.get(at)?)))
        .chain((low.1..high.1).filter_map(|at| Some((*second.get(at)?, *second_tags.get(at)?))));
    for (at, (time, tag)) in (low.0 + low.1..).zip(rest) {
        put(at, time, tag);
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

    /// Records of so many sources: times go up by what looks random and are often the same; every
    /// tag is there once.
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
            let given: Vec<_> = std::iter::from_fn(|| merger.next(&mut lists)).collect();
            assert!(given == wanted, "{count} sources");
            let mut lists = Lists { records, reads: 3 };
            let (mut merger, mut given) = (Merger::new(count), Vec::new());
            while let stretch @ [_, ..] = merger.stretch(&mut lists) {
                given.extend_from_slice(stretch);
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
            given.extend_from_slice(stretch);
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
        let given: Vec<_> = std::iter::from_fn(|| merger.next(&mut lists)).collect();
        assert_eq!(given, [1, 2, 3]);
    }
}
