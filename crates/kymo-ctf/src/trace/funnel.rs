//! Any number of sources merged by time, where nothing is wanted of a record but a number.
//!
//! A tree of merges of two, each with what it read ahead: who comes first is a number that is
//! added, not a branch. Which of several processors comes next is as good as random, and guessing
//! it wrongly would cost more than reading the record.

use std::hint::select_unpredictable;

/// Records that are read ahead of a source.
pub(crate) const RUN: usize = 128;

/// Times and keys in the order of time.
#[derive(Debug)]
pub(crate) struct Run {
    times: [u64; RUN],
    keys: [u32; RUN],
    next: usize,
    end: usize,
    /// Nothing follows.
    over: bool,
}

impl Run {
    const EMPTY: Run = Run {
        times: [0; RUN],
        keys: [0; RUN],
        next: 0,
        end: 0,
        over: false,
    };

    /// Puts a record at `place`, which is below [`RUN`].
    #[inline(always)]
    pub(crate) fn put(&mut self, place: usize, time: u64, key: u32) {
        self.times[place % RUN] = time;
        self.keys[place % RUN] = key;
    }

    /// Says how many records were put there.
    pub(crate) fn holds(&mut self, records: usize) {
        self.end = records.min(RUN);
    }

    fn is_empty(&self) -> bool {
        self.next == self.end
    }

    /// The times, to be changed.
    pub(crate) fn times(&mut self) -> &mut [u64] {
        self.times.get_mut(self.next..self.end).unwrap_or_default()
    }

    /// Gives the keys, and is empty then.
    fn give_all(&mut self, give: impl FnMut(u32)) {
        self.keys
            .get(self.next..self.end)
            .unwrap_or_default()
            .iter()
            .copied()
            .for_each(give);
        self.next = self.end;
    }
}

/// What is merged, and what becomes of it.
pub(crate) trait Ends {
    /// Puts records of the source at `place` into the empty `run`, one at least, in the order of
    /// time; none at the source's end.
    fn refill(&mut self, place: usize, run: &mut Run);

    /// Takes the next record's key.
    fn take(&mut self, key: u32);

    /// Whether the records on the way are wanted at once.
    fn wants_all(&self) -> bool {
        false
    }

    /// They were given.
    fn all_given(&mut self) {}
}

/// The tree: the run of node 1 is merged from those of nodes 2 and 3, and so on; the leaves are the
/// sources.
#[derive(Debug)]
pub(crate) struct Funnel {
    runs: Vec<Run>,
    leaves: usize,
    sources: usize,
}

impl Funnel {
    /// For this many sources.
    pub(crate) fn new(sources: usize) -> Funnel {
        let leaves = sources.next_power_of_two().max(2);
        Funnel {
            runs: (0..2 * leaves).map(|_| Run::EMPTY).collect(),
            leaves,
            sources,
        }
    }

    /// Merges the sources to their ends; records of the same time in the order of the sources.
    pub(crate) fn merge(&mut self, ends: &mut impl Ends) {
        while let Some([_, first, second]) = self.filled(1, ends) {
            merge(first, second, usize::MAX, |_, key| ends.take(key));
            if ends.wants_all() {
                self.runs
                    .iter_mut()
                    .for_each(|run| run.give_all(|key| ends.take(key)));
                ends.all_given();
            }
        }
    }

    /// A node and its children, which have something to give or are over; `None` if both are over.
    fn filled(&mut self, node: usize, ends: &mut impl Ends) -> Option<[&mut Run; 3]> {
        for child in [2 * node, 2 * node + 1] {
            self.fill(child, ends);
        }
        let (above, below) = self.runs.split_at_mut_checked(2 * node)?;
        let [first, second, ..] = below else {
            return None;
        };
        let all_over = first.is_empty() && second.is_empty();
        (!all_over).then_some([above.get_mut(node)?, first, second])
    }

    /// Sees that a node has something to give, or is over.
    fn fill(&mut self, node: usize, ends: &mut impl Ends) {
        let Some(run) = self
            .runs
            .get_mut(node)
            .filter(|run| run.is_empty() && !run.over)
        else {
            return;
        };
        (run.next, run.end) = (0, 0);
        match node.checked_sub(self.leaves) {
            Some(place) if place < self.sources => ends.refill(place, run),
            Some(_) => {}
            None => {
                while self.runs.get(node).is_some_and(|run| run.end < RUN)
                    && let Some([run, first, second]) = self.filled(node, ends)
                {
                    let mut end = run.end;
                    merge(first, second, RUN - end, |time, key| {
                        run.put(end, time, key);
                        end += 1;
                    });
                    run.holds(end);
                }
            }
        }
        if let Some(run) = self.runs.get_mut(node) {
            run.over = run.is_empty();
        }
    }
}

/// Gives up to `most` records of both in the order of time, until one of them has none left that is
/// not over.
///
/// Places are taken modulo the length of a run, which they are below: so the compiler sees it, too.
#[inline(always)]
fn merge(first: &mut Run, second: &mut Run, most: usize, mut give: impl FnMut(u64, u32)) {
    let (mut one, mut other, mut left) = (first.next, second.next, most);
    let (first_end, second_end) = (first.end, second.end);
    while one < first_end && other < second_end && left > 0 {
        let (time, other_time) = (first.times[one % RUN], second.times[other % RUN]);
        let (key, other_key) = (first.keys[one % RUN], second.keys[other % RUN]);
        let is_other = other_time < time;
        give(
            select_unpredictable(is_other, other_time, time),
            select_unpredictable(is_other, other_key, key),
        );
        one += usize::from(!is_other);
        other += usize::from(is_other);
        left -= 1;
    }
    for (run, place, rival) in [
        (&*first, &mut one, second.over),
        (&*second, &mut other, first.over),
    ] {
        while rival && *place < run.end && left > 0 {
            give(run.times[*place % RUN], run.keys[*place % RUN]);
            *place += 1;
            left -= 1;
        }
    }
    (first.next, second.next) = (one, other);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sources whose records are `(time, key)`, read in runs of several lengths.
    struct Sources {
        records: Vec<Vec<(u64, u32)>>,
        given: Vec<u32>,
        reads: usize,
        /// After how many records all on the way are wanted.
        wanted: usize,
        times_all_given: usize,
    }

    impl Sources {
        fn new(records: Vec<Vec<(u64, u32)>>) -> Sources {
            Sources {
                records,
                given: Vec::new(),
                reads: 0,
                wanted: usize::MAX,
                times_all_given: 0,
            }
        }
    }

    impl Ends for Sources {
        fn refill(&mut self, place: usize, run: &mut Run) {
            self.reads += 1;
            let source = &mut self.records[place];
            let records = (1 + self.reads * 7 % RUN).min(source.len());
            for (at, (time, key)) in source.drain(..records).enumerate() {
                run.put(at, time, key);
            }
            run.holds(records);
        }

        fn take(&mut self, key: u32) {
            self.given.push(key);
        }

        fn wants_all(&self) -> bool {
            self.given.len() > self.wanted
        }

        fn all_given(&mut self) {
            self.times_all_given += 1;
            self.wanted += 1000;
        }
    }

    /// Records of so many sources: times go up by what looks random and are often the same; every
    /// key is there once.
    fn sources(count: usize) -> Vec<Vec<(u64, u32)>> {
        let mut key = 0;
        let mut next_key = || {
            key += 1;
            key
        };
        let source = |place: usize| {
            let mut time = place as u64 % 3;
            let records = place * 531 % 1000;
            (0..records)
                .map(|step| {
                    time += (step as u64 * 7919 + place as u64 * 104_729) % 13 / 6;
                    (
                        if step + 1 == records { u64::MAX } else { time },
                        next_key(),
                    )
                })
                .collect()
        };
        (0..count).map(source).collect()
    }

    fn in_order(records: &[Vec<(u64, u32)>]) -> Vec<u32> {
        let mut all: Vec<_> = records.iter().flatten().copied().collect();
        // Keys go up from source to source.
        all.sort();
        all.into_iter().map(|(_, key)| key).collect()
    }

    #[test]
    fn gives_everything_in_order_however_many_there_are() {
        for count in 0..20 {
            let records = sources(count);
            let wanted = in_order(&records);
            let mut ends = Sources::new(records);
            Funnel::new(count).merge(&mut ends);
            assert!(ends.given == wanted, "{count} sources");
        }
    }

    #[test]
    fn what_is_on_the_way_is_given_at_once_if_it_is_wanted() {
        let records = sources(7);
        let mut wanted = in_order(&records);
        let mut ends = Sources {
            wanted: 100,
            ..Sources::new(records)
        };
        Funnel::new(7).merge(&mut ends);
        assert!(ends.times_all_given > 1);
        ends.given.sort_unstable();
        wanted.sort_unstable();
        assert!(ends.given == wanted);
    }
}
