//! From records to a trace.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use kymo_ctf::{EventValues, Fields, TraceWriter, Value, WriteError};

use crate::entry::{Entry, Kin, Stamp};
use crate::lane::Lane;
use crate::metadata::{COMM, EXIT, FIRST_SAMPLE, FORK, MAPPING, Origin};

/// So many waiting records end a round, whatever the caller does: they bound the memory.
const MOST_WAITING: usize = 1 << 17;

/// The lowest address of the upper half, where 64-bit Linux has its kernel. Above it, from
/// [`FIRST_MARK`] on, are the marks between the parts of a chain.
const KERNEL: u64 = 1 << 63;
const FIRST_MARK: u64 = 4095_u64.wrapping_neg();

/// What a trace has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Samples.
    pub samples: u64,
    /// The events that have samples, by their places in [`Origin`].
    pub events: BTreeSet<usize>,
    /// Threads with samples.
    pub threads: u64,
    /// Processes with samples.
    pub processes: u64,
    /// Records that the kernel could not write.
    pub lost: u64,
    /// Records that came so late that they got the time of their predecessor.
    pub late: u64,
    /// How often the kernel took no samples for a while, as there were too many.
    pub throttled: u64,
    /// Files that were mapped as code.
    pub files: BTreeSet<String>,
    /// Where the kernel's code begins, if that was told.
    pub kernel_begin: Option<u64>,
    /// Addresses in the kernel.
    pub kernel: BTreeSet<u64>,
}

/// Writes a trace of records.
#[derive(Debug)]
pub struct Writer {
    trace: TraceWriter,
    directory: PathBuf,
    lanes: BTreeMap<u32, Lane>,
    waiting: Vec<(Stamp, Entry)>,
    /// The youngest record of the last round, and of this one.
    horizon: u64,
    youngest: u64,
    /// What living threads are called.
    names: HashMap<i32, String>,
    threads: HashSet<i32>,
    processes: HashSet<i32>,
    summary: Summary,
}

impl Writer {
    /// Creates the trace's directory, or uses an empty one.
    ///
    /// # Errors
    /// If the metadata cannot be written.
    pub fn create(directory: &Path, origin: &Origin) -> Result<Writer, WriteError> {
        Ok(Writer {
            trace: TraceWriter::create(directory, &origin.metadata())?,
            directory: directory.to_owned(),
            lanes: BTreeMap::new(),
            waiting: Vec::new(),
            horizon: 0,
            youngest: 0,
            names: HashMap::new(),
            threads: HashSet::new(),
            processes: HashSet::new(),
            summary: Summary::default(),
        })
    }

    /// Takes a record.
    ///
    /// # Errors
    /// If the trace cannot be written.
    pub fn add(&mut self, stamp: Stamp, entry: Entry) -> Result<(), WriteError> {
        self.youngest = self.youngest.max(stamp.time);
        self.waiting.push((stamp, entry));
        match self.waiting.len() < MOST_WAITING {
            true => Ok(()),
            false => self.end_round(),
        }
    }

    /// Says that every buffer was emptied once since the round before, and writes the records that
    /// nothing can precede any more.
    ///
    /// # Errors
    /// If the trace cannot be written.
    pub fn end_round(&mut self) -> Result<(), WriteError> {
        let horizon = std::mem::replace(&mut self.horizon, self.youngest);
        self.write_until(horizon)
    }

    /// Writes what is left. Gives what the trace has, also if not all could be written.
    ///
    /// # Errors
    /// If the trace cannot be written. What was written before can be read.
    pub fn finish(mut self) -> (Summary, Result<(), WriteError>) {
        let mut written = self.write_until(u64::MAX);
        for lane in std::mem::take(&mut self.lanes).into_values() {
            // Every stream is ended, also if one cannot be written.
            let (samples, finished) = lane.finish();
            self.summary.samples += samples;
            written = written.and(finished);
        }
        self.summary.threads = self.threads.len() as u64;
        self.summary.processes = self.processes.len() as u64;
        (self.summary, written)
    }

    fn write_until(&mut self, horizon: u64) -> Result<(), WriteError> {
        // Stable: records of the same time stay in the order in which they came.
        self.waiting.sort_by_key(|(stamp, _)| stamp.time);
        let end = self
            .waiting
            .partition_point(|(stamp, _)| stamp.time <= horizon);
        let rest = self.waiting.split_off(end);
        for (stamp, entry) in std::mem::replace(&mut self.waiting, rest) {
            self.write(stamp, entry)?;
        }
        Ok(())
    }

    fn lane(&mut self, cpu: u32) -> Result<&mut Lane, WriteError> {
        use std::collections::btree_map::Entry::{Occupied, Vacant};
        Ok(match self.lanes.entry(cpu) {
            Occupied(known) => known.into_mut(),
            Vacant(new) => new.insert(Lane::create(&self.trace, &self.directory, cpu)?),
        })
    }

    fn write(&mut self, stamp: Stamp, entry: Entry) -> Result<(), WriteError> {
        let heir = self.note(&entry);
        let Stamp { time, cpu } = stamp;
        let (id, fields, bytes) = match entry {
            Entry::Throttled => return Ok(()),
            Entry::Lost(events) => return self.lane(cpu)?.lost(time, events),
            entry => event(entry),
        };
        let values = EventValues::from(fields);
        let is_late = self.lane(cpu)?.event(id, time, &values, bytes)?;
        self.summary.late += u64::from(is_late);
        match heir {
            Some(name) => self.write(stamp, name),
            None => Ok(()),
        }
    }

    /// Counts a record. Gives the name of a new thread, which Linux does not tell: it is that of
    /// its creator.
    fn note(&mut self, entry: &Entry) -> Option<Entry> {
        match entry {
            Entry::Sample {
                event,
                pid,
                tid,
                chain,
                ip,
                ..
            } => {
                self.summary.events.insert(*event);
                // An idle CPU has thread 0, which is none.
                if *tid > 0 {
                    self.threads.insert(*tid);
                    self.processes.insert(*pid);
                }
                let code = chain.iter().chain([ip]);
                let kernel = code.filter(|at| (KERNEL..FIRST_MARK).contains(*at));
                self.summary.kernel.extend(kernel);
            }
            Entry::Mapping { path, start, .. } => {
                if path == "[kernel.kallsyms]_text" {
                    self.summary.kernel_begin = Some(*start);
                }
                if path.starts_with('/') && !path.starts_with("//") {
                    self.summary.files.insert(path.clone());
                }
            }
            Entry::Name { tid, name, .. } => _ = self.names.insert(*tid, name.clone()),
            Entry::Fork(Kin { pid, tid, ptid, .. }) => {
                let (pid, tid) = (*pid, *tid);
                let name = self.names.get(ptid).filter(|_| tid != *ptid)?.clone();
                let exec = false;
                return Some(Entry::Name {
                    pid,
                    tid,
                    name,
                    exec,
                });
            }
            Entry::Exit(Kin { tid, .. }) => _ = self.names.remove(tid),
            Entry::Throttled => self.summary.throttled += 1,
            Entry::Lost(events) => {
                self.summary.lost = self.summary.lost.saturating_add(*events);
            }
        }
        None
    }
}

/// The number of an event, its fields, and about how many bytes it takes.
fn event(entry: Entry) -> (u64, Fields, usize) {
    match entry {
        Entry::Sample {
            event,
            pid,
            tid,
            ip,
            period,
            chain,
        } => {
            let bytes = 40 + 8 * chain.len();
            let fields = [
                ("perf_ip", Value::UInt(ip)),
                ("perf_tid", Value::Int(tid.into())),
                ("perf_pid", Value::Int(pid.into())),
                ("perf_period", Value::UInt(period)),
                ("perf_callchain_size", Value::UInt(chain.len() as u64)),
                ("perf_callchain", addresses(chain)),
            ];
            let id = FIRST_SAMPLE + event as u64;
            (id, Fields::from_iter(fields), bytes)
        }
        Entry::Mapping {
            pid,
            tid,
            start,
            path,
        } => {
            let bytes = 30 + path.len();
            let file = [
                ("start", Value::UInt(start)),
                ("filename", Value::Str(path)),
            ];
            (MAPPING, of_thread(pid, tid, file), bytes)
        }
        Entry::Name {
            pid,
            tid,
            name,
            exec,
        } => {
            let bytes = 22 + name.len();
            let name = [
                ("exec", Value::UInt(exec.into())),
                ("comm", Value::Str(name)),
            ];
            (COMM, of_thread(pid, tid, name), bytes)
        }
        Entry::Fork(of) => (FORK, of_kin(of), 28),
        Entry::Exit(of) => (EXIT, of_kin(of), 28),
        // They are no events.
        Entry::Throttled | Entry::Lost(_) => (COMM, Fields::default(), 0),
    }
}

fn number(number: i32) -> Value {
    Value::UInt(number.cast_unsigned().into())
}

fn addresses(addresses: Vec<u64>) -> Value {
    Value::Array(addresses.into_iter().map(Value::UInt).collect())
}

fn of_thread(pid: i32, tid: i32, more: [(&'static str, Value); 2]) -> Fields {
    let thread = [("pid", number(pid)), ("tid", number(tid))];
    Fields::from_iter(thread.into_iter().chain(more))
}

fn of_kin(of: Kin) -> Fields {
    let creator = [("ppid", number(of.ppid)), ("ptid", number(of.ptid))];
    of_thread(of.pid, of.tid, creator)
}
