//! Groups on several targets, added up.

use kymo::count::{EventSpec, GroupSpec, scale};

use crate::attributes::Options;
use crate::error::Error;
use crate::group::Group;
use crate::limit::SlotLimit;
use crate::target::Target;

/// Groups that count for several targets, the CPUs of a machine or the threads of a process: each
/// target has a copy of every group.
#[derive(Debug)]
pub struct Counters {
    /// By group, then by target.
    groups: Vec<Vec<Group>>,
}

impl Counters {
    /// Opens all groups for all targets. They do not count yet.
    ///
    /// A target that is gone before its first group is open is left out, as threads end at any
    /// time.
    ///
    /// # Errors
    /// Those of [`Group::open`]; [`Error::NoSuchTarget`] if no target is left.
    pub fn open(
        groups: &[GroupSpec],
        targets: &[Target],
        options: Options,
        limit: SlotLimit,
    ) -> Result<Counters, Error> {
        let mut all: Vec<Vec<Group>> = groups.iter().map(|_| Vec::new()).collect();
        let mut gone = Error::NoTarget;
        let mut is_any_left = false;
        for &target in targets {
            let opened: Result<Vec<Group>, Error> = groups
                .iter()
                .map(|group| Group::open(target, group, options, limit))
                .collect();
            match opened {
                Ok(opened) => {
                    is_any_left = true;
                    for (groups, group) in all.iter_mut().zip(opened) {
                        groups.push(group);
                    }
                }
                Err(error @ Error::NoSuchTarget { .. }) => gone = error,
                Err(error) => return Err(error),
            }
        }
        match is_any_left {
            true => Ok(Counters { groups: all }),
            false => Err(gone),
        }
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
