//! Threads of one name as one row.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::Durations;
use super::threads::{LockBlock, Thread};
use crate::histogram::Histogram;

/// Threads of one name, and what only their sum tells.
struct Group<'a> {
    sum: Thread,
    wakes: Vec<&'a Histogram>,
    states: BTreeMap<String, u64>,
}

/// Makes one row of the threads of each name; those without a name stay by themselves. Idle threads
/// are not mixed with others. `threads` are with their wake-up latencies.
pub(super) fn fold(threads: &[(Thread, &Histogram)]) -> Vec<Thread> {
    let mut places: FxHashMap<(bool, &str), usize> = FxHashMap::default();
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (thread, wakes) in threads {
        let key = thread.name.as_deref().map(|name| (thread.idle, name));
        let known = key.and_then(|key| places.get(&key).copied());
        match known.and_then(|place| groups.get_mut(place)) {
            Some(group) => group.absorb(thread, wakes),
            None => {
                places.extend(key.map(|key| (key, groups.len())));
                groups.push(Group::of(thread, wakes));
            }
        }
    }
    groups.into_iter().map(Group::finish).collect()
}

impl<'a> Group<'a> {
    fn of(thread: &Thread, wakes: &'a Histogram) -> Group<'a> {
        Group {
            sum: thread.clone(),
            wakes: vec![wakes],
            states: BTreeMap::from([(thread.last_state.clone(), 1)]),
        }
    }

    fn absorb(&mut self, thread: &Thread, wakes: &'a Histogram) {
        let sum = &mut self.sum;
        sum.alike += 1;
        sum.pid = sum.pid.filter(|_| sum.pid == thread.pid);
        sum.cpu = sum.cpu.filter(|_| sum.cpu == thread.cpu);
        sum.priority = sum.priority.filter(|_| sum.priority == thread.priority);
        sum.share_percent += thread.share_percent;
        for (total, more) in [
            (&mut sum.cpu_ns, thread.cpu_ns),
            (&mut sum.runnable_ns, thread.runnable_ns),
            (&mut sum.blocked_ns, thread.blocked_ns),
            (&mut sum.sleeping_ns, thread.sleeping_ns),
            (&mut sum.suspended_ns, thread.suspended_ns),
            (&mut sum.unknown_ns, thread.unknown_ns),
        ] {
            *total = total.saturating_add(more);
        }
        for (why, count) in &thread.switches {
            *sum.switches.entry(why.clone()).or_default() += count;
        }
        sum.blocked_on.extend(thread.blocked_on.iter().cloned());
        *self.states.entry(thread.last_state.clone()).or_default() += 1;
        self.wakes.push(wakes);
    }

    fn finish(self) -> Thread {
        let mut sum = self.sum;
        fold_locks(&mut sum.blocked_on);
        if let [_, _, ..] = &self.wakes[..] {
            let mut wakes = Histogram::default();
            self.wakes.iter().for_each(|more| wakes.merge(more));
            sum.wake_latency = Durations::of(&wakes);
        }
        if self.states.len() > 1 {
            let mut states: Vec<_> = self.states.into_iter().collect();
            states.sort_by_key(|(_, count)| Reverse(*count));
            let states = states
                .iter()
                .map(|(state, count)| format!("{count} {state}"));
            sum.last_state = states.collect::<Vec<_>>().join(", ");
        }
        sum
    }
}

/// Makes one row of the locks of each name.
fn fold_locks(blocked_on: &mut Vec<LockBlock>) {
    let mut folded: Vec<LockBlock> = Vec::new();
    for block in blocked_on.drain(..) {
        let is_same = |row: &LockBlock| match (&row.name, &block.name) {
            (None, None) => row.lock == block.lock,
            (row, name) => row == name,
        };
        let row = folded.iter_mut().find(|row| is_same(row));
        match row {
            Some(row) => row.ns = row.ns.saturating_add(block.ns),
            None => folded.push(block),
        }
    }
    folded.sort_by_key(|block| Reverse(block.ns));
    *blocked_on = folded;
}
