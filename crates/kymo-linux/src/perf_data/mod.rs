//! Files of `perf record`.

#[cfg(test)]
mod tests;
mod whole;

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};

use linux_perf_data::linux_perf_event_reader::{
    EventRecord, HardwareEventId, Mmap2FileId, PerfEventAttr, PerfEventType, RawEventRecord,
    RecordType, SamplingPolicy, SoftwareCounterType,
};
use linux_perf_data::{
    AttributeDescription, Endianness, Feature, PerfFile, PerfFileReader, PerfFileRecord,
    PerfRecordIter, UserRecordType,
};

use crate::sample::Sampled;
use crate::{Entry, Error, Origin, Stamp, Writer, entry};
use whole::Whole;

/// So many records are a round of the writer's: they come in order.
const ROUND: u64 = 1 << 12;

/// A file of `perf record`, also one of `perf record -o -`, and one whose recording was cut off.
///
/// The parser is the crate `linux-perf-data`, which `samply` reads such files with: it knows all
/// versions, both byte orders, compressed records and those of `perf record -o -`. It takes every
/// size and count that a file tells for true, so that these are compared with the file before.
#[derive(Debug)]
pub struct PerfData {
    file: Parsed,
    missing: Option<Missing>,
    /// What the events' attributes say of their samples.
    sampled: Vec<Sampled>,
}

/// The end of a file that is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// So many bytes at the end are no whole record.
    pub bytes: u64,
    /// Whether what `perf` writes behind all records is missing, such as the names of events.
    pub has_no_features: bool,
}

/// What is not in the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Records of kinds that are not kept, and how many of each.
    pub unknown: BTreeMap<String, u64>,
    /// Records whose contents are not those of their kind.
    pub malformed: u64,
    /// Why the rest of the file was not read.
    pub stopped: Option<String>,
    /// The end that is cut off.
    pub missing: Option<Missing>,
    /// The build ids that files had, by their paths.
    pub build_ids: BTreeMap<String, Vec<u8>>,
}

struct Parsed {
    about: PerfFile,
    records: PerfRecordIter<Box<dyn ReadSeek>>,
}

impl std::fmt::Debug for Parsed {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Parsed").finish_non_exhaustive()
    }
}

trait ReadSeek: Read + Seek {}
impl<R: Read + Seek> ReadSeek for R {}

impl PerfData {
    /// Reads what the file says about itself.
    ///
    /// # Errors
    /// [`Error::PerfData`] if it is no such file; [`Error::System`] if it cannot be read.
    pub fn open(file: impl Read + Seek + 'static) -> Result<PerfData, Error> {
        let failed = |source: linux_perf_data::Error| Error::PerfData(source.to_string());
        let whole = Whole::of(file)?;
        let (missing, is_pipe) = (whole.missing, whole.is_pipe);
        let mut have_lost = whole.values_have_lost.clone().into_iter();
        let mut reader: Box<dyn ReadSeek> = Box::new(whole);
        reader.seek(SeekFrom::Start(0)).map_err(whole::unreadable)?;
        let parsed = match is_pipe {
            true => PerfFileReader::parse_pipe(reader),
            false => PerfFileReader::parse_file(reader),
        };
        let PerfFileReader {
            perf_file: about,
            record_iter: records,
        } = parsed.map_err(failed)?;
        let sampled = about.event_attributes().iter();
        let sampled = sampled.map(|event| Sampled {
            period: match event.attributes().sampling_policy {
                SamplingPolicy::Period(period) => period.get(),
                _ => 1,
            },
            values_have_lost: have_lost.next().unwrap_or(false),
        });
        Ok(PerfData {
            sampled: sampled.collect(),
            file: Parsed { about, records },
            missing,
        })
    }

    /// Where the trace comes from.
    pub fn origin(&self) -> Origin {
        let about = &self.file.about;
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        let clock = about.clock_data().ok().flatten();
        let is_big = about.endian() == Endianness::BigEndian;
        let command = about.feature_section_data(Feature::CMDLINE);
        let command = command.map(|words| whole::Layout { is_big }.words(words));
        let said = [
            ("host", text(about.hostname().ok().flatten())),
            ("sysname", "Linux".to_owned()),
            ("release", text(about.os_release().ok().flatten())),
            ("machine", text(about.arch().ok().flatten())),
            ("command", command.unwrap_or_default().join(" ")),
        ];
        Origin {
            events: about.event_attributes().iter().map(name).collect(),
            unix_offset_ns: clock.map_or(0, |clock| {
                clock.wall_clock_ns.saturating_sub(clock.clockid_time_ns)
            }),
            environment: said.into_iter().filter(|(_, of)| !of.is_empty()).collect(),
        }
    }

    /// Writes all that can be read. Gives what is not in the trace.
    ///
    /// # Errors
    /// If the trace cannot be written.
    pub fn write(mut self, writer: &mut Writer) -> Result<Left, Error> {
        let known = self.file.about.build_ids().unwrap_or_default();
        let known = known.into_values().filter(|file| !file.build_id.is_empty());
        let text = |path: Vec<u8>| String::from_utf8_lossy(&path).into_owned();
        let mut left = Left {
            missing: self.missing,
            build_ids: known.map(|file| (text(file.path), file.build_id)).collect(),
            ..Left::default()
        };
        // What ran before the recording is described without a time.
        let mut before = Vec::new();
        let mut count = 0_u64;
        loop {
            let next = self.file.records.next_record(&mut self.file.about);
            let (event, record) = match next {
                Ok(Some(PerfFileRecord::EventRecord { attr_index, record })) => {
                    (attr_index, record)
                }
                Ok(Some(PerfFileRecord::UserRecord(record))) => {
                    left.note(record.record_type);
                    continue;
                }
                Ok(None) => break,
                Err(error) => {
                    left.stopped = Some(error.to_string());
                    break;
                }
            };
            if tells_of_parent(&record) {
                continue;
            }
            if let Some((path, build_id)) = build_id(&record) {
                left.build_ids.insert(path, build_id);
            }
            let sampled = self.sampled.get(event).copied().unwrap_or_default();
            match Entry::of_event(event, &record, sampled) {
                Ok(Some((stamp, entry))) if stamp.time == 0 => before.push((stamp, entry)),
                Ok(Some((stamp, entry))) => {
                    add_all(&mut before, stamp.time, writer)?;
                    writer.add(stamp, entry)?;
                }
                Ok(None) => *left.unknown.entry(kind(&record.record_type)).or_default() += 1,
                Err(_) => left.malformed += 1,
            }
            count += 1;
            if count.is_multiple_of(ROUND) {
                writer.end_round()?;
            }
        }
        add_all(&mut before, 0, writer)?;
        Ok(left)
    }
}

/// Whether the record says who the parent of a process is that ran before the recording: its
/// mappings are not the parent's. `perf` says so by this bit.
fn tells_of_parent(record: &RawEventRecord<'_>) -> bool {
    const RAN_BEFORE: u16 = 1 << 13;
    if record.record_type != RecordType::FORK || record.misc & RAN_BEFORE == 0 {
        return false;
    }
    matches!(record.parse(), Ok(EventRecord::Fork(of)) if of.pid != of.ppid)
}

/// The path and the build id of a file that was mapped, if the record has it.
fn build_id(record: &RawEventRecord<'_>) -> Option<(String, Vec<u8>)> {
    if record.record_type != RecordType::MMAP2 || entry::check(record).is_err() {
        return None;
    }
    match record.parse().ok()? {
        EventRecord::Mmap2(of) => match of.file_id {
            Mmap2FileId::BuildId(id) => Some((entry::text(of.path), id)),
            Mmap2FileId::InodeAndVersion(_) => None,
        },
        _ => None,
    }
}

fn add_all(entries: &mut Vec<(Stamp, Entry)>, time: u64, writer: &mut Writer) -> Result<(), Error> {
    for (Stamp { cpu, .. }, entry) in entries.drain(..) {
        writer.add(Stamp { time, cpu }, entry)?;
    }
    Ok(())
}

impl Left {
    /// Counts a record of `perf`'s own, if it says something about the program.
    fn note(&mut self, of: UserRecordType) {
        if matches!(
            of,
            UserRecordType::PERF_AUXTRACE | UserRecordType::PERF_AUXTRACE_ERROR
        ) {
            *self.unknown.entry(kind(&of)).or_default() += 1;
        }
    }
}

fn kind(of: &impl std::fmt::Debug) -> String {
    format!("{of:?}")
}

/// The event's name, as `perf` writes it.
fn name(event: &AttributeDescription) -> String {
    let named = event.name().filter(|name| !name.is_empty());
    named.map_or_else(|| usual_name(event.attributes()), str::to_owned)
}

/// The usual name of an event whose name is not in the file.
fn usual_name(event: &PerfEventAttr) -> String {
    use HardwareEventId as Hardware;
    use SoftwareCounterType as Software;
    let name = match event.type_ {
        PerfEventType::Hardware(Hardware::CpuCycles, _) => "cycles",
        PerfEventType::Hardware(Hardware::Instructions, _) => "instructions",
        PerfEventType::Software(Software::CpuClock) => "cpu-clock",
        PerfEventType::Software(Software::TaskClock) => "task-clock",
        PerfEventType::Software(Software::PageFaults) => "page-faults",
        PerfEventType::Software(Software::ContextSwitches) => "context-switches",
        other => return format!("{other:?}"),
    };
    name.to_owned()
}
