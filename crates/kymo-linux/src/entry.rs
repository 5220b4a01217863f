//! What the kernel's records say.

use std::io;

use linux_perf_event_reader::{Endianness, EventRecord, RawData, RawEventRecord, RecordType};

use crate::Error;
use crate::sample::{Sampled, sample};

/// When and where a record was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The record's clock, in nanoseconds.
    pub time: u64,
    /// The CPU.
    pub cpu: u32,
}

/// What a record says. Processes and threads have the kernel's numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Where a thread was.
    Sample {
        /// Which of the trace's events was sampled: its place in [`Origin`](crate::Origin).
        event: usize,
        /// The process.
        pid: i32,
        /// The thread.
        tid: i32,
        /// The instruction.
        ip: u64,
        /// How much of the event it stands for.
        period: u64,
        /// The callers, the innermost first, with the kernel's marks between its part and the
        /// program's.
        chain: Vec<u64>,
    },
    /// A file, or a part of one, was mapped as code.
    Mapping {
        /// The process.
        pid: i32,
        /// The thread.
        tid: i32,
        /// The address.
        start: u64,
        /// The path.
        path: String,
    },
    /// What a thread is called.
    Name {
        /// The process.
        pid: i32,
        /// The thread.
        tid: i32,
        /// The name.
        name: String,
        /// Whether the process has executed another program, which is called so.
        exec: bool,
    },
    /// A thread was created; in a process of its own, if that is another one than its creator's.
    Fork(Kin),
    /// A thread has ended.
    Exit(Kin),
    /// Samples were not taken for a while, as there were too many.
    Throttled,
    /// So many records could not be written.
    Lost(u64),
}

/// A thread and the one that created it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kin {
    /// The thread's process.
    pub pid: i32,
    /// The process of its creator.
    pub ppid: i32,
    /// The thread.
    pub tid: i32,
    /// Its creator.
    pub ptid: i32,
}

/// The kernel's number of records that count samples lost by the hardware.
const LOST_SAMPLES: RecordType = RecordType(13);

/// Bits of a mapping's kind: it is not of code; it has the file's build id, whose length is here.
const MAPS_DATA: u16 = 1 << 13;
const HAS_BUILD_ID: u16 = 1 << 14;
const BUILD_ID_LEN: usize = 32;

impl Entry {
    /// What a record of the trace's event of this place says; `None` for one that says nothing that
    /// is kept.
    ///
    /// # Errors
    /// [`Error::Record`].
    pub fn of(event: usize, record: &RawEventRecord<'_>) -> Result<Option<(Stamp, Entry)>, Error> {
        Entry::of_event(event, record, Sampled::default())
    }

    /// [`of`](Self::of), where the event's samples may be other than those of
    /// [`Session`](crate::Session).
    pub(crate) fn of_event(
        event: usize,
        record: &RawEventRecord<'_>,
        sampled: Sampled,
    ) -> Result<Option<(Stamp, Entry)>, Error> {
        let failed = |source| Error::Record { source };
        if record.record_type == RecordType::SAMPLE {
            return sample(event, record, sampled).map(Some).map_err(failed);
        }
        check(record).map_err(failed)?;
        let common = record.common_data().map_err(failed)?;
        let mut stamp = Stamp {
            time: common.timestamp.unwrap_or(0),
            cpu: common.cpu.unwrap_or(0),
        };
        let entry = match record.parse().map_err(failed)? {
            EventRecord::Mmap(of) if of.is_executable => {
                Entry::mapping(of.pid, of.tid, of.address, of.path)
            }
            EventRecord::Mmap2(of) if record.misc & MAPS_DATA == 0 => {
                Entry::mapping(of.pid, of.tid, of.address, of.path)
            }
            EventRecord::Comm(of) => Entry::Name {
                pid: of.pid,
                tid: of.tid,
                name: text(of.name),
                exec: of.is_execve,
            },
            EventRecord::Fork(of) | EventRecord::Exit(of) => {
                if common.timestamp.is_none() {
                    stamp.time = of.timestamp;
                }
                let kin = Kin {
                    pid: of.pid,
                    ppid: of.ppid,
                    tid: of.tid,
                    ptid: of.ptid,
                };
                match record.record_type {
                    RecordType::FORK => Entry::Fork(kin),
                    _ => Entry::Exit(kin),
                }
            }
            EventRecord::Throttle(_) => Entry::Throttled,
            EventRecord::Lost(of) => Entry::Lost(of.count),
            EventRecord::Raw(raw) if raw.record_type == LOST_SAMPLES => {
                Entry::Lost(first_word(&raw).map_err(failed)?)
            }
            _ => return Ok(None),
        };
        Ok(Some((stamp, entry)))
    }

    fn mapping(pid: i32, tid: i32, start: u64, path: RawData<'_>) -> Entry {
        Entry::Mapping {
            pid,
            tid,
            start,
            path: text(path),
        }
    }
}

/// Refuses what the parser would stop the program at: a build id of more than 20 bytes.
pub(crate) fn check(record: &RawEventRecord<'_>) -> io::Result<()> {
    let has_build_id = record.record_type == RecordType::MMAP2 && record.misc & HAS_BUILD_ID != 0;
    let len = record.data.get(BUILD_ID_LEN..BUILD_ID_LEN + 1);
    let is_long = len.is_some_and(|len| len.as_slice().iter().any(|len| *len > 20));
    match has_build_id && is_long {
        true => Err(io::ErrorKind::InvalidData.into()),
        false => Ok(()),
    }
}

fn first_word(record: &RawEventRecord<'_>) -> io::Result<u64> {
    let mut bytes = [0; 8];
    let mut data = record.data;
    data.read_exact(&mut bytes)?;
    Ok(match record.parse_info.endian {
        Endianness::LittleEndian => u64::from_le_bytes(bytes),
        Endianness::BigEndian => u64::from_be_bytes(bytes),
    })
}

/// A name or a path may be any bytes.
pub(crate) fn text(bytes: RawData<'_>) -> String {
    String::from_utf8_lossy(&bytes.as_slice()).into_owned()
}
