//! Groups on several targets, added up.

use kymo::count::{EventSpec, scale};

use crate::attributes::Options;
use crate::error::Error;
use crate::group::Group;
use crate::limit::SlotLimit;
use crate::machine::threads;
use crate::names::NamedGroup;
use crate::target::Target;

/// Groups that count for several targets, the CPUs of a machine or the threads of a process: each
/// target has a copy of every group.
#[derive(Debug)]
pub struct Counters {
    /// By group, then by target.
    groups: Vec<Vec<Group>>,
    /// Whether threads kept starting while these were opened.
    may_lack_threads: bool,
}

impl Counters {
    /// Opens all groups for all targets. They do not count yet.
    ///
    /// A target that is gone before its first group is open is left out, as threads end at any
    /// time. A group of a PMU that only some CPUs have is open on these.
    ///
    /// # Errors
    /// Those of [`Group::open_named`]; [`Error::NoSuchTarget`] if no target is left;
    /// [`Error::OnlyForCpus`] and [`Error::OnOtherCpus`] for groups of PMUs that do not count for
    /// the targets.
    pub fn open(
        groups: &[NamedGroup],
        targets: &[Target],
        options: Options,
        limit: SlotLimit,
    ) -> Result<Counters, Error> {
        let mut all: Vec<Vec<Group>> = groups.iter().map(|_| Vec::new()).collect();
        let mut gone = Error::NoTarget;
        let mut is_any_left = false;
        for &target in targets {
            let opened: Result<Vec<Vec<Group>>, Error> = groups
                .iter()
                .map(|group| open_copies(group, target, options, limit))
                .collect();
            match opened {
                Ok(opened) => {
                    is_any_left = true;
                    for (groups, copies) in all.iter_mut().zip(opened) {
                        groups.extend(copies);
                    }
                }
                Err(error @ Error::NoSuchTarget { .. }) => gone = error,
                Err(error) => return Err(error),
            }
        }
        if !is_any_left {
            return Err(gone);
        }
        for (group, opened) in groups.iter().zip(&all) {
            if opened.is_empty() {
                return Err(elsewhere(group));
            }
        }
        Ok(Counters {
            groups: all,
            may_lack_threads: false,
        })
    }

    /// The targets of a group, in the order of [`Total::by_target`].
    pub fn targets(&self, group: usize) -> Vec<Target> {
        let groups = self.groups.get(group).into_iter().flatten();
        groups.map(Group::target).collect()
    }

    /// Opens all groups for all threads of these processes, as [`open_threads`] does. They do not
    /// count yet.
    ///
    /// # Errors
    /// Those of [`open`](Counters::open).
    pub fn open_processes(
        groups: &[NamedGroup],
        pids: &[u32],
        options: Options,
        limit: SlotLimit,
    ) -> Result<Counters, Error> {
        let open = |threads: &[u32]| {
            let targets: Vec<Target> = threads.iter().copied().map(Target::Process).collect();
            Counters::open(groups, &targets, options, limit)
        };
        let (counters, is_steady) = open_threads(pids, open)?;
        Ok(Counters {
            may_lack_threads: !is_steady,
            ..counters
        })
    }

    /// Whether threads of the processes kept starting in each attempt to open all of them, so that
    /// some may not be counted.
    pub fn may_lack_threads(&self) -> bool {
        self.may_lack_threads
    }

    /// Starts all groups from zero.
    ///
    /// # Errors
    /// Those of [`Group::start`].
    pub fn start(&mut self) -> Result<(), Error> {
        self.groups.iter_mut().flatten().try_for_each(Group::start)
    }

    /// Stops all groups.
    ///
    /// # Errors
    /// Those of [`Group::stop`].
    pub fn stop(&mut self) -> Result<(), Error> {
        self.groups.iter_mut().flatten().try_for_each(Group::stop)
    }

    /// The totals of each group, by one system call for each group and target.
    ///
    /// # Errors
    /// Those of [`Group::read_all`].
    pub fn read(&self) -> Result<Vec<Total>, Error> {
        let total = |targets: &Vec<Group>| {
            let mut total = Total::default();
            for group in targets {
                let snapshot = group.read_all()?;
                let counts = snapshot.members().iter();
                total.add(
                    snapshot.time_enabled,
                    snapshot.time_running,
                    counts.map(|count| (count.event, count.raw)),
                );
            }
            Ok(total)
        };
        self.groups.iter().map(total).collect()
    }
}

/// The copies of a group for a target; none if its PMUs are of other CPUs.
fn open_copies(
    group: &NamedGroup,
    target: Target,
    options: Options,
    limit: SlotLimit,
) -> Result<Vec<Group>, Error> {
    let mut copies = Vec::new();
    for copy in 0..group.copies() {
        if group.covers(copy, target)? {
            copies.push(Group::open_named(target, group, copy, options, limit)?);
        }
    }
    Ok(copies)
}

/// Why a group is open for no target.
fn elsewhere(group: &NamedGroup) -> Error {
    let events = group.names.iter().enumerate();
    let mut of_pmus = events.filter_map(|(at, name)| Some((name, group.pmu(at, 0)?)));
    let (name, cpus) = match of_pmus.next() {
        Some((name, pmu)) => (name.clone(), pmu.cpus.clone().unwrap_or_default()),
        None => return Error::NoTarget,
    };
    let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
    let cpus = cpus.join(", ");
    Error::OnOtherCpus { name, cpus }
}

/// How often [`open_threads`] opens what is there, for processes whose threads change.
pub const MAX_ATTEMPTS: usize = 16;

/// Opens something for all threads of these processes, which it is given.
///
/// A thread that starts meanwhile is in no list, and its creator may have been open already, whose
/// threads are [opened with it](Options::inherit), or not. So the threads are listed again when all
/// are open, and if one is new, what was opened is closed and opened again, at most
/// [`MAX_ATTEMPTS`] times. Gives what was opened last, and whether it is all.
///
/// # Errors
/// If a process is not there, and those of `open`.
pub fn open_threads<T, E: From<Error>>(
    pids: &[u32],
    open: impl FnMut(&[u32]) -> Result<T, E>,
) -> Result<(T, bool), E> {
    let those_left = |pid| match threads(pid) {
        Err(Error::NoSuchTarget { .. }) => Ok(Vec::new()),
        threads => threads,
    };
    let there = of_all(pids, threads)?;
    steady(there, || Ok(of_all(pids, those_left)?), open)
}

/// The threads of all these processes. A process given twice, or with one of its threads, counts
/// once.
fn of_all(
    pids: &[u32],
    threads: impl Fn(u32) -> Result<Vec<u32>, Error>,
) -> Result<Vec<u32>, Error> {
    let mut all = Vec::new();
    for pid in pids {
        all.extend(threads(*pid)?);
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// Opens what is there, until nothing new has come meanwhile: gives what was opened last, and
/// whether it is all.
fn steady<T, E>(
    mut there: Vec<u32>,
    mut list: impl FnMut() -> Result<Vec<u32>, E>,
    mut open: impl FnMut(&[u32]) -> Result<T, E>,
) -> Result<(T, bool), E> {
    let mut attempts = 1;
    loop {
        let opened = open(&there)?;
        let now = list()?;
        let is_steady = now.iter().all(|it| there.contains(it));
        if is_steady || attempts == MAX_ATTEMPTS {
            return Ok((opened, is_steady));
        }
        // Closed before the next attempt: there is a limit of files.
        drop(opened);
        there = now;
        attempts += 1;
    }
}

/// Counts of a group, added up over its targets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Nanoseconds during which the group was enabled, added up.
    pub time_enabled: u64,
    /// Nanoseconds of these during which it counted.
    pub time_running: u64,
    /// Of [`time_enabled`](Total::time_enabled), those of targets for which it ever counted.
    time_seen: u64,
    /// The events, the leader first.
    pub events: Vec<EventTotal>,
    /// What was added, in its order.
    targets: Vec<TargetCounts>,
}

/// The times and raw counts for one target.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TargetCounts {
    time_enabled: u64,
    time_running: u64,
    raw: Vec<u64>,
}

/// An event's count in a [`Total`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventTotal {
    /// What was counted.
    pub event: EventSpec,
    /// The count.
    pub raw: u64,
    /// The counts of the targets, each scaled by its own times.
    seen: u64,
}

impl Total {
    /// Adds the times and raw counts for a target, the leader's first.
    pub fn add(
        &mut self,
        time_enabled: u64,
        time_running: u64,
        counts: impl Iterator<Item = (EventSpec, u64)>,
    ) {
        self.time_enabled = self.time_enabled.saturating_add(time_enabled);
        self.time_running = self.time_running.saturating_add(time_running);
        if time_running > 0 {
            self.time_seen = self.time_seen.saturating_add(time_enabled);
        }
        let mut target = TargetCounts {
            time_enabled,
            time_running,
            raw: Vec::new(),
        };
        for (place, (event, raw)) in counts.enumerate() {
            target.raw.push(raw);
            let seen = scale(raw, time_enabled, time_running).unwrap_or(0);
            match self.events.get_mut(place) {
                Some(total) => {
                    total.raw = total.raw.saturating_add(raw);
                    total.seen = total.seen.saturating_add(seen);
                }
                None => self.events.push(EventTotal { event, raw, seen }),
            }
        }
        self.targets.push(target);
    }

    /// Of one event and target, for tests.
    #[cfg(test)]
    pub(crate) fn of_page_faults(time_enabled: u64, time_running: u64, raw: u64) -> Total {
        let event = EventSpec::software(kymo::count::Software::PageFaults);
        let mut total = Total::default();
        total.add(time_enabled, time_running, [(event, raw)].into_iter());
        total
    }

    /// What the counts of an event would be had the group counted all the time; `None` if it never
    /// did.
    ///
    /// Each target's count is scaled by its own times. A target for which the group never counted
    /// is taken to be as the others: the sum is scaled by the share of time of those that were
    /// seen.
    pub fn scaled(&self, event: &EventTotal) -> Option<u64> {
        scale(event.seen, self.time_enabled, self.time_seen)
    }

    /// The share of time during which the group counted, from 0 to 1; `None` if it was never
    /// enabled, as when the program never ran.
    pub fn share(&self) -> Option<f64> {
        (self.time_enabled > 0).then(|| self.time_running as f64 / self.time_enabled as f64)
    }

    /// What was counted for each target, in the order of [`Counters::targets`].
    pub fn by_target(&self) -> Vec<Total> {
        let one = |target: &TargetCounts| {
            let mut total = Total::default();
            total.add_target(target, &self.events);
            total
        };
        self.targets.iter().map(one).collect()
    }

    /// Adds what the same group has counted for other targets, or at another time.
    pub fn add_total(&mut self, other: &Total) {
        for target in &other.targets {
            self.add_target(target, &other.events);
        }
    }

    fn add_target(&mut self, target: &TargetCounts, events: &[EventTotal]) {
        let events = events.iter().map(|event| event.event);
        let counts = events.zip(target.raw.iter().copied());
        self.add(target.time_enabled, target.time_running, counts);
    }

    /// What was counted since an earlier reading of the same group for the same targets: each
    /// target's counts are scaled by its times since then.
    pub fn since(&self, earlier: &Total) -> Total {
        let mut between = Total::default();
        for (place, now) in self.targets.iter().enumerate() {
            let before = earlier.targets.get(place);
            let time = |of: fn(&TargetCounts) -> u64| of(now).saturating_sub(before.map_or(0, of));
            let raws = now.raw.iter().enumerate().map(|(at, raw)| {
                let before = before.and_then(|before| before.raw.get(at));
                raw.saturating_sub(before.copied().unwrap_or(0))
            });
            let events = self.events.iter().map(|event| event.event);
            between.add(
                time(|target| target.time_enabled),
                time(|target| target.time_running),
                events.zip(raws),
            );
        }
        between
    }
}

#[cfg(test)]
mod tests {
    use kymo::count::Software;

    use super::*;

    fn total(targets: &[(u64, u64, u64)]) -> Total {
        let mut total = Total::default();
        for &(enabled, running, raw) in targets {
            let event = EventSpec::software(Software::PageFaults);
            total.add(enabled, running, [(event, raw)].into_iter());
        }
        total
    }

    fn scaled(total: &Total) -> Option<u64> {
        total.scaled(&total.events[0])
    }

    /// K-22: what comes while the others are opened is opened with them.
    #[test]
    fn threads_that_start_meanwhile_are_opened_with_all_others() {
        let mut lists = vec![vec![2, 3, 4], vec![1, 2, 3], vec![1, 2]];
        let list = || Ok(lists.pop().expect("a list"));
        let mut opened = Vec::new();
        let last = steady::<_, Error>(vec![1, 2], list, |threads| {
            opened.push(threads.to_vec());
            Ok(opened.len())
        });
        assert_eq!(last.expect("opened"), (1, true));
        let mut lists = vec![vec![2, 3, 4], vec![2, 3, 4], vec![1, 2, 3]];
        let list = || Ok(lists.pop().expect("a list"));
        opened.clear();
        let last = steady::<_, Error>(vec![1, 2], list, |threads| {
            opened.push(threads.to_vec());
            Ok(opened.len())
        });
        assert_eq!(last.expect("opened"), (3, true));
        assert_eq!(opened, [vec![1, 2], vec![1, 2, 3], vec![2, 3, 4]]);
        assert!(lists.is_empty());
    }

    #[test]
    fn what_is_never_steady_is_opened_as_it_is() {
        let (mut threads, mut attempts) = (1, 0);
        let list = || {
            threads += 1;
            Ok((0..threads).collect())
        };
        let opened = steady::<_, Error>(vec![0], list, |_| {
            attempts += 1;
            Ok(())
        });
        let ((), is_steady) = opened.expect("opened");
        assert_eq!((attempts, is_steady), (MAX_ATTEMPTS, false));
        let gone = steady(
            vec![0],
            || Ok(Vec::new()),
            |_| Err::<(), _>(Error::NoTarget),
        );
        gone.expect_err("nothing is there");
        let unlisted = steady(vec![0], || Err(Error::TooManyFiles), |_| Ok(()));
        unlisted.expect_err("nobody knows what is there");
    }

    /// K-11, for several targets.
    #[test]
    fn each_target_is_scaled_by_its_own_times() {
        for (targets, raw, expected, share) in [
            (&[(10, 10, 7)][..], 7, Some(7), 1.0),
            (&[(10, 5, 7)], 7, Some(14), 0.5),
            (&[(10, 5, 7), (10, 10, 3)], 10, Some(17), 0.75),
            // One that never counted is taken to be as the other.
            (&[(10, 5, 7), (10, 0, 0)], 7, Some(28), 0.25),
            // One that was never enabled did nothing.
            (&[(10, 5, 7), (0, 0, 0)], 7, Some(14), 0.5),
            (&[(10, 0, 0)], 0, None, 0.0),
        ] {
            let total = total(targets);
            assert_eq!(total.events[0].raw, raw, "{targets:?}");
            assert_eq!(scaled(&total), expected, "{targets:?}");
            assert_eq!(total.share(), Some(share), "{targets:?}");
        }
        let never = total(&[(0, 0, 0)]);
        assert_eq!((scaled(&never), never.share()), (None, None));
    }

    /// K-14: what only CPU 1 counts is counted neither for CPU 0 nor for a thread.
    #[test]
    fn a_group_that_no_target_counts_is_refused() {
        let event = EventSpec::software(Software::PageFaults);
        let pmu = crate::PmuEvent {
            pmu: "uncore".to_owned(),
            number: 17,
            config: [0; 4],
            cpus: Some(vec![1, 3]),
            is_shared: true,
            scale: 1.0,
            unit: None,
        };
        let event = crate::NamedEvent {
            pmus: vec![pmu],
            ..event.into()
        };
        let groups = [NamedGroup::new(vec![event]).expect("a group")];
        for (target, words) in [
            (Target::Cpu(0), "page-faults is counted by other CPUs: 1, 3"),
            (
                Target::SELF,
                "page-faults counts what several CPUs do, for no",
            ),
        ] {
            let limit = SlotLimit::of_machine().expect("a limit");
            let opened = Counters::open(&groups, &[target], Options::default(), limit);
            let sentence = opened.expect_err("no counters").to_string();
            assert!(sentence.contains(words), "{sentence}");
        }
    }

    /// K-22: each target's own counts, and the sum of totals.
    #[test]
    fn a_total_is_of_its_targets() {
        let sum = total(&[(10, 5, 7), (20, 20, 3), (10, 0, 0)]);
        let parts = sum.by_target();
        let counts: Vec<(u64, Option<u64>)> = parts
            .iter()
            .map(|part| (part.events[0].raw, scaled(part)))
            .collect();
        assert_eq!(counts, [(7, Some(14)), (3, Some(3)), (0, None)]);
        let mut again = Total::default();
        parts.iter().for_each(|part| again.add_total(part));
        assert_eq!(again, sum);
    }

    #[test]
    fn what_was_counted_between_two_readings_is_a_total() {
        let (before, after) = (total(&[(10, 5, 7)]), total(&[(30, 15, 27)]));
        let between = after.since(&before);
        assert_eq!(between.events[0].raw, 20);
        assert_eq!((between.time_enabled, between.time_running), (20, 10));
        assert_eq!(scaled(&between), Some(40));
        // The group ran for another share of the time than before.
        let (before, after) = (total(&[(100, 10, 100)]), total(&[(200, 110, 150)]));
        let between = after.since(&before);
        assert_eq!(scaled(&between), Some(50));
        let (before, after) = (
            total(&[(10, 10, 5), (10, 1, 1)]),
            total(&[(20, 20, 9), (20, 6, 6)]),
        );
        assert_eq!(scaled(&after.since(&before)), Some(4 + 10));
    }
}
