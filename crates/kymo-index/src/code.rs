//! How a part of the timeline stands in a file: integers of 7 bits a byte (LEB128), each relative to
//! what is before it. `docs/src/index-format.md` has the layout.

use crate::part::{Content, Part};
use crate::registry::NameId;
use crate::run::{Run, Values};

/// Bits of a run's first number, below the number of its name.
const CUT_BEFORE: u64 = 1;
const CUT_BEHIND: u64 = 2;
const SEVERAL: u64 = 4;
const FLAGS: u32 = 3;

/// Appends the part's bytes.
pub(crate) fn write(part: &Part, to: &mut Vec<u8>) {
    number(part.begin, to);
    number(part.end.wrapping_sub(part.begin), to);
    number(part.rows.len() as u64, to);
    let mut before = 0;
    for (row, content) in &part.rows {
        number(u64::from(row - before), to);
        before = *row;
        let mut now = part.begin;
        match content {
            Content::Runs(runs) => {
                number((runs.len() as u64) << 1, to);
                for run in runs {
                    write_run(run, now, to);
                    now = run.end;
                }
            }
            Content::Values(values) => {
                number((values.len() as u64) << 1 | 1, to);
                let mut last = 0;
                for value in values {
                    write_values(value, now, last, to);
                    (now, last) = (value.end, value.last);
                }
            }
        }
    }
}

/// The part in these bytes; `None` if they have none, or more.
pub(crate) fn read(mut bytes: &[u8]) -> Option<Part> {
    let from = &mut bytes;
    let begin = take(from)?;
    let end = begin.wrapping_add(take(from)?);
    let (count, mut row) = (take(from)?, 0_u32);
    let mut rows = Vec::new();
    for _ in 0..count {
        row = row.checked_add(u32::try_from(take(from)?).ok()?)?;
        let kind = take(from)?;
        let mut now = begin;
        let content = match kind & 1 {
            0 => {
                let mut runs = Vec::new();
                for _ in 0..kind >> 1 {
                    let run = read_run(now, from)?;
                    now = run.end;
                    runs.push(run);
                }
                Content::Runs(runs)
            }
            _ => {
                let (mut values, mut last) = (Vec::new(), 0);
                for _ in 0..kind >> 1 {
                    let value = read_values(now, last, from)?;
                    (now, last) = (value.end, value.last);
                    values.push(value);
                }
                Content::Values(values)
            }
        };
        rows.push((row, content));
    }
    from.is_empty().then_some(Part { begin, end, rows })
}

fn write_run(run: &Run, now: u64, to: &mut Vec<u8>) {
    let several = run.count != 1;
    let flags = [
        (run.is_cut_before, CUT_BEFORE),
        (run.is_cut_behind, CUT_BEHIND),
        (several, SEVERAL),
    ];
    let flags = flags.iter().filter(|(is_set, _)| *is_set);
    let flags: u64 = flags.map(|(_, flag)| flag).sum();
    number(u64::from(run.name) << FLAGS | flags, to);
    signed(run.begin.wrapping_sub(now) as i64, to);
    number(run.end.wrapping_sub(run.begin), to);
    if several {
        number(run.count, to);
        number(run.busy, to);
        number(run.longest, to);
    }
}

fn read_run(now: u64, from: &mut &[u8]) -> Option<Run> {
    let first = take(from)?;
    let name = NameId::try_from(first >> FLAGS).ok()?;
    let begin = now.wrapping_add(take_signed(from)? as u64);
    let end = begin.wrapping_add(take(from)?);
    let mut run = Run {
        is_cut_before: first & CUT_BEFORE != 0,
        is_cut_behind: first & CUT_BEHIND != 0,
        ..Run::slice(begin, end, name)
    };
    if first & SEVERAL != 0 {
        (run.count, run.busy, run.longest) = (take(from)?, take(from)?, take(from)?);
    }
    Some(run)
}

fn write_values(values: &Values, now: u64, last: i64, to: &mut Vec<u8>) {
    signed(values.begin.wrapping_sub(now) as i64, to);
    number(values.end.wrapping_sub(values.begin), to);
    number(values.count, to);
    signed(values.last.wrapping_sub(last), to);
    if values.count > 1 {
        signed(values.min.wrapping_sub(values.last), to);
        signed(values.max.wrapping_sub(values.last), to);
    }
}

fn read_values(now: u64, last: i64, from: &mut &[u8]) -> Option<Values> {
    let begin = now.wrapping_add(take_signed(from)? as u64);
    let end = begin.wrapping_add(take(from)?);
    let count = take(from)?;
    let last = last.wrapping_add(take_signed(from)?);
    let (mut min, mut max) = (last, last);
    if count > 1 {
        min = last.wrapping_add(take_signed(from)?);
        max = last.wrapping_add(take_signed(from)?);
    }
    Some(Values {
        begin,
        end,
        count,
        min,
        max,
        last,
    })
}

fn number(mut value: u64, to: &mut Vec<u8>) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

fn take(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Small numbers of both signs are small.
fn signed(value: i64, to: &mut Vec<u8>) {
    number((value << 1 ^ value >> 63) as u64, to);
}

fn take_signed(from: &mut &[u8]) -> Option<i64> {
    let value = take(from)?;
    Some((value >> 1) as i64 ^ -((value & 1) as i64))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn part() -> Part {
        let cut = Run {
            is_cut_before: true,
            is_cut_behind: true,
            ..Run::slice(1_000, 5_000, 7)
        };
        let several = Run {
            count: 70_000,
            busy: 900,
            longest: 300,
            ..Run::slice(5_000, 6_200, NameId::MAX)
        };
        let values = Values {
            begin: 2_000,
            end: u64::MAX,
            count: 3,
            min: i64::MIN,
            max: i64::MAX,
            last: -4,
        };
        Part {
            begin: 1_000,
            end: 9_000,
            rows: vec![
                (
                    0,
                    Content::Runs(vec![cut, several, Run::slice(6_200, 6_200, 0)]),
                ),
                (1, Content::Runs(Vec::new())),
                (
                    900,
                    Content::Values(vec![Values::one(1_000, 12, 0), values]),
                ),
            ],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut bytes = Vec::new();
        write(&part(), &mut bytes);
        assert_eq!(read(&bytes), Some(part()));
        assert!(bytes.len() < 90, "{}", bytes.len());
    }

    #[test]
    fn other_bytes_are_refused_and_never_panic() {
        let mut bytes = Vec::new();
        write(&part(), &mut bytes);
        for length in 0..bytes.len() {
            assert_eq!(read(&bytes[..length]), None, "{length}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert_eq!(read(&longer), None);
        for place in 0..bytes.len() {
            for value in [0, 0x7f, 0x80, 0xff] {
                let mut other = bytes.clone();
                other[place] = value;
                let _ = read(&other);
            }
        }
    }
}
