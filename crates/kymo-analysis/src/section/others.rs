//! Events that no other section uses, such as those of programs: how many there are, by process.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use kymo_ctf::{EnvValue, EventRef, Metadata};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::{End, ThreadRef};

/// Events of a name that no other table uses, of one process.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OtherEvents {
    /// Their name.
    pub name: String,
    /// Number of the process that recorded them, if the trace says.
    pub pid: Option<u64>,
    /// Its name.
    pub process: Option<String>,
    /// Number of events.
    pub count: u64,
    /// Events in a second of the trace's time; `None` if it has no length.
    pub per_second: Option<f64>,
}

/// Events that no other table uses, of one thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadEvents {
    /// The thread.
    pub thread: ThreadRef,
    /// Number of its process, if the trace says.
    pub pid: Option<u64>,
    /// Number of events.
    pub count: u64,
    /// Events in a second of the trace's time; `None` if it has no length.
    pub per_second: Option<f64>,
}

/// Most combinations of an event and a process, and most threads, that are kept: a damaged trace
/// must not fill memory.
const MOST: usize = 1 << 16;

/// Numbers of events by class. The address of a name stands for its class: all events of a class
/// share the name.
#[derive(Debug, Default)]
pub(crate) struct Others {
    rows: FxHashMap<(usize, Option<u64>), Row>,
    /// By numbers of thread and process.
    threads: FxHashMap<(u64, Option<u64>), u64>,
    /// The process of which the whole trace is.
    process: Option<(u64, Option<String>)>,
}

#[derive(Debug)]
struct Row {
    name: Arc<str>,
    count: u64,
}

impl Others {
    /// Nothing yet, of a trace with this metadata.
    pub(crate) fn of(metadata: &Metadata) -> Others {
        let value = |wanted: &str| {
            let mut env = metadata.env().iter();
            env.find(|(name, _)| name == wanted).map(|(_, value)| value)
        };
        let pid = match value("vpid") {
            Some(EnvValue::Integer(pid)) => u64::try_from(*pid).ok(),
            _ => None,
        };
        let name = match value("procname") {
            Some(EnvValue::Text(name)) => Some(name.clone()),
            _ => None,
        };
        Others {
            process: pid.map(|pid| (pid, name)),
            ..Others::default()
        }
    }

    /// Counts an event; `tid` and `pid` are those of its context.
    pub(crate) fn add(&mut self, event: &EventRef<'_>, tid: Option<u64>, pid: Option<u64>) {
        let name = &event.class().name;
        let pid = pid.or(self.process.as_ref().map(|(pid, _)| *pid));
        if let Some(tid) = tid {
            let has_room = self.threads.len() < MOST;
            match self.threads.get_mut(&(tid, pid)) {
                Some(count) => *count += 1,
                None if has_room => _ = self.threads.insert((tid, pid), 1),
                None => {}
            }
        }
        let key = (name.as_ptr().addr(), pid);
        let has_room = self.rows.len() < MOST;
        match self.rows.get_mut(&key) {
            Some(row) => row.count += 1,
            None if has_room => {
                let name = Arc::clone(name);
                self.rows.insert(key, Row { name, count: 1 });
            }
            None => {}
        }
    }

    pub(crate) fn finish(&self, end: &End<'_>) -> Vec<OtherEvents> {
        let mut sums: BTreeMap<(&str, Option<u64>), u64> = BTreeMap::new();
        for ((_, pid), row) in &self.rows {
            *sums.entry((&row.name, *pid)).or_default() += row.count;
        }
        let own = |pid: u64| match &self.process {
            Some((of, name)) if *of == pid => name.clone(),
            _ => None,
        };
        let rows = sums.into_iter().map(|((name, pid), count)| OtherEvents {
            name: name.to_owned(),
            pid,
            process: pid.and_then(|pid| {
                let name = end.machine.process(pid).map(|name| name.to_string());
                name.or_else(|| own(pid))
            }),
            count,
            per_second: end.per_second(count),
        });
        let mut rows: Vec<OtherEvents> = rows.collect();
        rows.sort_by_key(|row| Reverse(row.count));
        rows
    }

    /// The counts by thread, the most frequent first.
    pub(crate) fn threads(&self, end: &End<'_>) -> Vec<ThreadEvents> {
        let rows = self.threads.iter().map(|(&(tid, pid), &count)| {
            let known = end.machine.thread_of(tid, None);
            let known = known.and_then(|id| ThreadRef::of(end.machine, id));
            ThreadEvents {
                thread: known.unwrap_or(ThreadRef { tid, name: None }),
                pid,
                count,
                per_second: end.per_second(count),
            }
        });
        let mut rows: Vec<ThreadEvents> = rows.collect();
        rows.sort_by_key(|row| (Reverse(row.count), row.thread.tid, row.pid));
        rows
    }

    pub(crate) fn live(&self) -> usize {
        self.rows.len() + self.threads.len()
    }
}
