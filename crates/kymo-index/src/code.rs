//! How a part of the timeline stands in a file and in memory: integers of 7 bits a byte (LEB128),
//! each relative to what is before it. `docs/src/index-format.md` has the layout.

use crate::part::{Content, Part};
use crate::registry::{NameId, RowId};
use crate::run::{Run, Values};

/// Bits of a run's first number, below the place of its name.
const SEVERAL: u64 = 1;
const CUT: u64 = 2;
const FLAGS: u32 = 2;
/// Bits of the number behind it, if the run is cut.
const CUT_BEFORE: u64 = 1;
const CUT_BEHIND: u64 = 2;

/// Names that a row has had. A run says which by one byte, together with its flags.
#[derive(Default)]
struct Names {
    known: [NameId; Names::MOST],
    count: usize,
}

impl Names {
    const MOST: usize = 31;

    /// The place of a name, from 1 on; 0 if it has none.
    fn place(&self, name: NameId) -> u64 {
        let mut known = self.known.iter().take(self.count);
        known
            .position(|known| *known == name)
            .map_or(0, |place| place as u64 + 1)
    }

    /// The name at a place from 1 on.
    fn at(&self, place: u64) -> Option<NameId> {
        let place = usize::try_from(place.checked_sub(1)?).ok()?;
        let known = self.known.get(..self.count)?;
        known.get(place).copied()
    }

    /// Gives a name the next place, as long as there is one.
    fn add(&mut self, name: NameId) {
        if let Some(next) = self.known.get_mut(self.count) {
            *next = name;
            self.count += 1;
        }
    }
}

/// Appends the part's bytes.
pub(crate) fn write(part: &Part, to: &mut Vec<u8>) {
    number(part.begin, to);
    number(part.end.wrapping_sub(part.begin), to);
    number(part.rows.len() as u64, to);
    let (mut before, mut bytes) = (0, Vec::new());
    for (row, content) in &part.rows {
        number(u64::from(row - before), to);
        before = *row;
        let mut now = part.begin;
        bytes.clear();
        match content {
            Content::Runs(runs) => {
                number((runs.len() as u64) << 1, to);
                let mut names = Names::default();
                for run in runs {
                    write_run(run, now, &mut names, &mut bytes);
                    now = run.end;
                }
            }
            Content::Values(values) => {
                number((values.len() as u64) << 1 | 1, to);
                let mut last = 0;
                for value in values {
                    write_values(value, now, last, &mut bytes);
                    (now, last) = (value.end, value.last);
                }
            }
        }
        number(bytes.len() as u64, to);
        to.extend_from_slice(&bytes);
    }
}

/// A row of a part, of which only the place is known.
#[derive(Clone, Copy, Debug)]
struct CodedRow {
    row: RowId,
    /// Number of its entries, and whether they are values.
    count: u64,
    is_values: bool,
    /// Where its bytes are.
    begin: usize,
    end: usize,
}

/// A part as it stands in a file. Its rows are decoded one by one, as they are needed.
#[derive(Debug)]
pub(crate) struct Coded {
    begin: u64,
    end: u64,
    bytes: Vec<u8>,
    rows: Vec<CodedRow>,
}

/// Takes what a row has.
pub(crate) trait Sink {
    fn run(&mut self, run: Run);
    fn values(&mut self, values: Values);
}

impl Coded {
    /// The part in these bytes; `None` if they have none, or more.
    pub(crate) fn new(bytes: Vec<u8>) -> Option<Coded> {
        let mut rest = bytes.as_slice();
        let from = &mut rest;
        let begin = take(from)?;
        let end = begin.wrapping_add(take(from)?);
        let (count, mut row) = (take(from)?, 0_u32);
        let mut rows = Vec::new();
        for place in 0..count {
            let step = u32::try_from(take(from)?).ok()?;
            // They are found by their numbers.
            if place > 0 && step == 0 {
                return None;
            }
            row = row.checked_add(step)?;
            let kind = take(from)?;
            let length = usize::try_from(take(from)?).ok()?;
            let begin = bytes.len() - from.len();
            *from = from.get(length..)?;
            rows.push(CodedRow {
                row,
                count: kind >> 1,
                is_values: kind & 1 != 0,
                begin,
                end: begin + length,
            });
        }
        let is_all = from.is_empty();
        is_all.then_some(Coded {
            begin,
            end,
            bytes,
            rows,
        })
    }

    /// What a part has, in few bytes.
    pub(crate) fn of(part: &Part) -> Option<Coded> {
        let mut bytes = Vec::new();
        write(part, &mut bytes);
        bytes.shrink_to_fit();
        Coded::new(bytes)
    }

    /// Bytes that it takes in memory.
    pub(crate) fn size(&self) -> usize {
        self.bytes.capacity() + self.rows.capacity() * size_of::<CodedRow>()
    }

    /// What is shorter than this, in nanoseconds, may be merged in it, if it is of the pyramid.
    pub(crate) fn resolution(&self) -> u64 {
        crate::part::resolution(self.begin, self.end)
    }

    #[cfg(test)]
    /// The rows that it has, by number.
    pub(crate) fn rows(&self) -> impl Iterator<Item = RowId> {
        self.rows.iter().map(|row| row.row)
    }

    /// Decodes a row, if it has it; `None` if its bytes are no row.
    pub(crate) fn row(&self, row: RowId, to: &mut impl Sink) -> Option<()> {
        let Ok(place) = self.rows.binary_search_by_key(&row, |row| row.row) else {
            return Some(());
        };
        let row = self.rows.get(place)?;
        let mut bytes = self.bytes.get(row.begin..row.end)?;
        let from = &mut bytes;
        let mut now = self.begin;
        if row.is_values {
            let mut last = 0;
            for _ in 0..row.count {
                let values = read_values(now, last, from)?;
                (now, last) = (values.end, values.last);
                to.values(values);
            }
        } else {
            let mut names = Names::default();
            for _ in 0..row.count {
                let run = read_run(now, &mut names, from)?;
                now = run.end;
                to.run(run);
            }
        }
        from.is_empty().then_some(())
    }
}

fn write_run(run: &Run, now: u64, names: &mut Names, to: &mut Vec<u8>) {
    let several = run.count != 1;
    let is_cut = run.is_cut_before || run.is_cut_behind;
    let flag = |is_set: bool, flag: u64| if is_set { flag } else { 0 };
    let place = names.place(run.name);
    number(
        place << FLAGS | flag(several, SEVERAL) | flag(is_cut, CUT),
        to,
    );
    if place == 0 {
        number(run.name.into(), to);
        names.add(run.name);
    }
    if is_cut {
        let before = flag(run.is_cut_before, CUT_BEFORE);
        number(before | flag(run.is_cut_behind, CUT_BEHIND), to);
    }
    let length = run.end.wrapping_sub(run.begin);
    signed(run.begin.wrapping_sub(now) as i64, to);
    number(length, to);
    if several {
        let is_full = run.busy == length;
        number(run.count << 1 | u64::from(is_full), to);
        if !is_full {
            number(run.busy, to);
        }
        number(run.busy.wrapping_sub(run.longest), to);
    }
}

fn read_run(now: u64, names: &mut Names, from: &mut &[u8]) -> Option<Run> {
    let first = take(from)?;
    let name = match first >> FLAGS {
        0 => {
            let name = NameId::try_from(take(from)?).ok()?;
            names.add(name);
            name
        }
        place => names.at(place)?,
    };
    let cut = if first & CUT != 0 { take(from)? } else { 0 };
    let begin = now.wrapping_add(take_signed(from)? as u64);
    let length = take(from)?;
    let mut run = Run {
        is_cut_before: cut & CUT_BEFORE != 0,
        is_cut_behind: cut & CUT_BEHIND != 0,
        ..Run::slice(begin, begin.wrapping_add(length), name)
    };
    if first & SEVERAL != 0 {
        let count = take(from)?;
        run.count = count >> 1;
        run.busy = match count & 1 {
            0 => take(from)?,
            _ => length,
        };
        run.longest = run.busy.wrapping_sub(take(from)?);
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

    impl Sink for Vec<Content> {
        fn run(&mut self, run: Run) {
            match self.last_mut() {
                Some(Content::Runs(runs)) => runs.push(run),
                _ => self.push(Content::Runs(vec![run])),
            }
        }

        fn values(&mut self, one: Values) {
            match self.last_mut() {
                Some(Content::Values(values)) => values.push(one),
                _ => self.push(Content::Values(vec![one])),
            }
        }
    }

    fn read(bytes: &[u8]) -> Option<Part> {
        let coded = Coded::new(bytes.to_vec())?;
        let rows = coded.rows().map(|row| {
            let mut content: Vec<Content> = Vec::new();
            coded.row(row, &mut content)?;
            Some((row, content.pop().unwrap_or(Content::Runs(Vec::new()))))
        });
        Some(Part {
            begin: coded.begin,
            end: coded.end,
            rows: rows.collect::<Option<Vec<_>>>()?,
        })
    }

    #[test]
    fn what_is_written_is_read() {
        let mut bytes = Vec::new();
        write(&part(), &mut bytes);
        assert_eq!(read(&bytes), Some(part()));
        assert!(bytes.len() < 90, "{}", bytes.len());
    }

    /// A row may have more names than one byte has room for, in any order.
    #[test]
    fn a_row_may_have_any_number_of_names() {
        let runs = (0..300_u64).map(|at| Run {
            count: 1 + at % 3,
            ..Run::slice(at, at + 1, (at * 7 % 41) as NameId)
        });
        let rows = vec![(3, Content::Runs(runs.collect()))];
        let (begin, end) = (0, 300);
        let part = Part { begin, end, rows };
        let mut bytes = Vec::new();
        write(&part, &mut bytes);
        assert!(read(&bytes) == Some(part));
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
