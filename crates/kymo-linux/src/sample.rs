//! Samples, from the kernel's records. The layout is that of `perf_event_open(2)`.

use std::io;

use byteorder::{BigEndian, ByteOrder, LittleEndian};
use linux_perf_event_reader::{
    Endianness, RawData, RawEventRecord, ReadFormat, RecordParseInfo, SampleFormat,
};

use crate::{Entry, Stamp};

/// What an event's attributes say of its samples, and the samples do not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampled {
    /// The period, where samples do not have it, because it is always the same.
    pub(crate) period: u64,
    /// Whether values come with a count of lost ones.
    pub(crate) values_have_lost: bool,
}

impl Default for Sampled {
    fn default() -> Sampled {
        Sampled {
            period: 1,
            values_have_lost: false,
        }
    }
}

/// Reads a sample up to its call chain. (`linux-perf-event-reader` 0.10 does not skip the values of
/// groups, and multiplies the length of a chain that may be anything.)
pub(crate) fn sample(
    event: usize,
    record: &RawEventRecord<'_>,
    sampled: Sampled,
) -> io::Result<(Stamp, Entry)> {
    match record.parse_info.endian {
        Endianness::LittleEndian => of::<LittleEndian>(event, record, sampled),
        Endianness::BigEndian => of::<BigEndian>(event, record, sampled),
    }
}

fn of<B: ByteOrder>(
    event: usize,
    record: &RawEventRecord<'_>,
    sampled: Sampled,
) -> io::Result<(Stamp, Entry)> {
    let RecordParseInfo {
        sample_format,
        read_format,
        ..
    } = record.parse_info;
    let mut data = record.data;
    let has = |flag| sample_format.contains(flag);
    let word = |flag, data: &mut RawData<'_>| has(flag).then(|| data.read_u64::<B>()).transpose();
    word(SampleFormat::IDENTIFIER, &mut data)?;
    let ip = word(SampleFormat::IP, &mut data)?.unwrap_or(0);
    let (mut pid, mut tid) = (-1, -1);
    if has(SampleFormat::TID) {
        (pid, tid) = (data.read_i32::<B>()?, data.read_i32::<B>()?);
    }
    let time = word(SampleFormat::TIME, &mut data)?.unwrap_or(0);
    for flag in [
        SampleFormat::ADDR,
        SampleFormat::ID,
        SampleFormat::STREAM_ID,
    ] {
        word(flag, &mut data)?;
    }
    let mut cpu = 0;
    if has(SampleFormat::CPU) {
        cpu = data.read_u32::<B>()?;
        data.skip(4)?;
    }
    let period = word(SampleFormat::PERIOD, &mut data)?.unwrap_or(sampled.period);
    if has(SampleFormat::READ) {
        skip_values::<B>(read_format, sampled.values_have_lost, &mut data)?;
    }
    let len = word(SampleFormat::CALLCHAIN, &mut data)?.unwrap_or(0);
    if len > data.len() as u64 / 8 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let chain = (0..len).map(|_| data.read_u64::<B>());
    let chain = chain.collect::<io::Result<_>>()?;
    let entry = Entry::Sample {
        event,
        pid,
        tid,
        ip,
        period,
        chain,
    };
    Ok((Stamp { time, cpu }, entry))
}

/// Skips what the event, or its group, has counted.
fn skip_values<B: ByteOrder>(
    format: ReadFormat,
    has_lost: bool,
    data: &mut RawData<'_>,
) -> io::Result<()> {
    let words = |flags: &[ReadFormat]| {
        let there = flags.iter().filter(|flag| format.contains(**flag));
        there.count() as u64
    };
    let times = words(&[
        ReadFormat::TOTAL_TIME_ENABLED,
        ReadFormat::TOTAL_TIME_RUNNING,
    ]);
    let each = 1 + words(&[ReadFormat::ID]) + u64::from(has_lost);
    let len = match format.contains(ReadFormat::GROUP) {
        true => data.read_u64::<B>()?.checked_mul(each),
        false => Some(each),
    };
    let bytes = len.and_then(|len| len.checked_add(times)?.checked_mul(8));
    let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
    data.skip(bytes.ok_or(io::ErrorKind::UnexpectedEof)?)
}
