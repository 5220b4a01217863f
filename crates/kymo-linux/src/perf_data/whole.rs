//! The part of a file that has whole records, whose sizes are those that the file has.

use std::io::{self, BufReader, Read, Seek, SeekFrom};

use super::Missing;
use crate::Error;

/// Bytes of the header; of that of `perf record -o -`.
const HEADER: usize = 104;
const PIPE_HEADER: usize = 16;
/// Bytes of a section's place: its offset and its size.
const SECTION: u64 = 16;
/// The least and most bytes of an event's attributes, as any kernel has them.
const ATTRIBUTES: std::ops::RangeInclusive<u64> = 64..=4096;
/// The sizes that the attributes have had, and the last one that the parser knows.
const VERSIONS: [u32; 7] = [64, 72, 80, 96, 104, 112, 120];
const LATEST: u32 = 128;
/// The feature that names the events, by its bit.
const EVENT_DESC: u32 = 12;
/// Features, which have a bit each.
const FEATURES: u32 = 256;
/// Kinds of records: behind the first, more bytes follow; the others tell events and features.
const AUXTRACE: u32 = 71;
const HEADER_ATTR: u32 = 64;
const HEADER_FEATURE: u32 = 80;

/// Places in the header.
mod place {
    pub const SIZE: usize = 8;
    pub const ATTRIBUTES_SIZE: usize = 16;
    pub const ATTRIBUTES: usize = 24;
    pub const DATA: usize = 40;
    pub const EVENT_TYPES: usize = 56;
    pub const FEATURES: usize = 72;
}

/// A file that says nothing about itself that is not so.
pub(super) struct Whole<R> {
    file: BufReader<R>,
    /// What stands in place of the file's first bytes.
    header: Vec<u8>,
    /// Where the reader is.
    at: u64,
    /// Where the file ends for it.
    end: u64,
    /// Whether it is a file of `perf record -o -`.
    pub(super) is_pipe: bool,
    /// What is cut off.
    pub(super) missing: Option<Missing>,
    /// For each event, whether the values that its samples have come with a count of lost ones.
    pub(super) values_have_lost: Vec<bool>,
}

/// The file cannot be read.
pub(super) fn unreadable(source: io::Error) -> Error {
    Error::System {
        what: "read the file",
        source,
    }
}

fn refused(what: &str) -> Error {
    Error::PerfData(what.to_owned())
}

impl<R: Read + Seek> Whole<R> {
    /// Looks through the file.
    pub(super) fn of(mut file: R) -> Result<Whole<R>, Error> {
        let len = file.seek(SeekFrom::End(0)).map_err(unreadable)?;
        file.rewind().map_err(unreadable)?;
        let mut file = BufReader::new(file);
        let mut header = Vec::new();
        let first = file.by_ref().take(HEADER as u64);
        first
            .take(HEADER as u64)
            .read_to_end(&mut header)
            .map_err(unreadable)?;
        let mut whole = Whole {
            file,
            header,
            at: 0,
            end: len,
            is_pipe: false,
            missing: None,
            values_have_lost: Vec::new(),
        };
        let is_big = match whole.header.get(..8) {
            Some(b"PERFILE2") => false,
            Some(b"2ELIFREP") => true,
            _ => return Err(refused("it does not begin as one")),
        };
        let layout = Layout { is_big };
        match layout.long(&whole.header, place::SIZE) {
            Some(size) if size == PIPE_HEADER as u64 => whole.check_pipe(layout)?,
            Some(_) if whole.header.len() == HEADER => whole.check_file(layout)?,
            _ => return Err(refused("its header is cut off")),
        }
        Ok(whole)
    }

    fn check_pipe(&mut self, layout: Layout) -> Result<(), Error> {
        self.is_pipe = true;
        self.header.truncate(PIPE_HEADER);
        let len = self.end;
        self.end = self.last_whole(layout, PIPE_HEADER as u64, len)?;
        self.missing = (self.end < len).then_some(Missing {
            bytes: len - self.end,
            has_no_features: false,
        });
        Ok(())
    }

    fn check_file(&mut self, layout: Layout) -> Result<(), Error> {
        let header = self.header.clone();
        let long = |at: usize| layout.long(&header, at).unwrap_or(0);
        let section = |at: usize| (long(at), long(at + 8));
        let len = self.end;
        let is_inside =
            |(offset, size): (u64, u64)| offset.checked_add(size).is_some_and(|end| end <= len);
        let size = long(place::ATTRIBUTES_SIZE);
        let (attributes, types) = (section(place::ATTRIBUTES), section(place::EVENT_TYPES));
        if !ATTRIBUTES.contains(&size) || !is_inside(attributes) || !is_inside(types) {
            return Err(refused("its list of events is not where it says"));
        }
        self.look_at_events(layout, size, attributes)?;
        if types.1 > 0 {
            self.look_at_events(layout, size + SECTION, types)?;
        }
        let (begin, data) = section(place::DATA);
        // The size is written at the end of the recording.
        let is_cut = data == 0 || !is_inside((begin, data));
        let said = match is_cut {
            true => len,
            false => begin + data,
        };
        let end = self.last_whole(layout, begin.min(len), said)?;
        // They are found by the records' end.
        let has_features = !is_cut && end == said && self.features_are_there(layout, said)?;
        if !has_features {
            self.leave_features_out(layout, size, attributes)?;
        }
        layout.put(&mut self.header, place::DATA + 8, end - begin.min(len));
        self.missing = (is_cut || end < said || !has_features).then_some(Missing {
            bytes: said - end,
            has_no_features: !has_features,
        });
        Ok(())
    }

    /// Without the list of names, the events' numbers are read from where each has its own.
    fn leave_features_out(
        &mut self,
        layout: Layout,
        size: u64,
        (offset, bytes): (u64, u64),
    ) -> Result<(), Error> {
        let Some(size) = size
            .checked_sub(SECTION)
            .filter(|size| ATTRIBUTES.contains(size))
        else {
            return Err(refused("its list of events is cut off"));
        };
        let header = &mut self.header;
        layout.put(header, place::ATTRIBUTES_SIZE, size);
        layout.put(header, place::EVENT_TYPES, offset);
        layout.put(header, place::EVENT_TYPES + 8, bytes);
        header
            .iter_mut()
            .skip(place::FEATURES)
            .for_each(|byte| *byte = 0);
        Ok(())
    }

    /// Whether all features are where the file says, and the names of events are as many as it says.
    fn features_are_there(&mut self, layout: Layout, begin: u64) -> Result<bool, Error> {
        let len = self.end;
        let bits = self
            .header
            .get(place::FEATURES..)
            .unwrap_or_default()
            .to_vec();
        let has = |bit: u32| {
            let word = layout.long(&bits, (bit / 64 * 8) as usize).unwrap_or(0);
            word >> (bit % 64) & 1 == 1
        };
        for (place, bit) in (0..FEATURES).filter(|bit| has(*bit)).enumerate() {
            let Some(section) = self.bytes(begin + SECTION * place as u64, SECTION)? else {
                return Ok(false);
            };
            let long = |at| layout.long(&section, at).unwrap_or(0);
            let (offset, size) = (long(0), long(8));
            if offset.checked_add(size).is_none_or(|end| end > len) {
                return Ok(false);
            }
            if bit == EVENT_DESC {
                let Some(names) = self.bytes(offset, size)? else {
                    return Ok(false);
                };
                if layout.check_names(&names).is_none() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Whether the numbers of the events in a list, each entry of which has so many bytes, are
    /// inside of the file; and how the values are written that their samples have.
    fn look_at_events(
        &mut self,
        layout: Layout,
        entry: u64,
        (offset, size): (u64, u64),
    ) -> Result<(), Error> {
        let len = self.end;
        for at in (0..size / entry).map(|index| offset + index * entry) {
            let event = self.bytes(at, entry)?.unwrap_or_default();
            let place = (entry - SECTION) as usize;
            let long = |at| layout.long(&event, at).unwrap_or(0);
            if long(place)
                .checked_add(long(place + 8))
                .is_none_or(|end| end > len)
            {
                return Err(refused("the numbers of its events are not where it says"));
            }
            // The parser takes others for longer than it reads.
            let own = layout.int(&event, 4).unwrap_or(0);
            if !VERSIONS.contains(&own) && own < LATEST {
                return Err(refused("its events are of no version"));
            }
            self.values_have_lost.push(layout.values_have_lost(&event));
        }
        Ok(())
    }

    /// Looks at a record of `perf record -o -` that says something about the file.
    fn look_at_record(&mut self, layout: Layout, kind: u32, body: &[u8]) -> Result<(), Error> {
        match kind {
            HEADER_ATTR => self.values_have_lost.push(layout.values_have_lost(body)),
            // (The parser looks at the lower half of the number.)
            HEADER_FEATURE if layout.long(body, 0).map(|of| of as u32) == Some(EVENT_DESC) => {
                let names = body.get(8..).unwrap_or_default();
                if layout.check_names(names).is_none() {
                    return Err(refused("its names of events are not as many as it says"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Where the last whole record before `end` ends.
    fn last_whole(&mut self, layout: Layout, begin: u64, end: u64) -> Result<u64, Error> {
        let mut at = begin;
        self.seek_file(at)?;
        loop {
            let mut head = [0; 16];
            let there = end.saturating_sub(at).min(16) as usize;
            let Some(head) = head.get_mut(..there).filter(|head| head.len() >= 8) else {
                return Ok(at);
            };
            if self.file.read_exact(head).is_err() {
                return Ok(at);
            }
            let (kind, size) = (layout.int(head, 0), layout.short(head, 6));
            let more = match kind {
                Some(AUXTRACE) => layout.long(head, 8),
                _ => Some(0),
            };
            let size = size.filter(|size| *size >= 8);
            let next = size
                .zip(more)
                .and_then(|(size, more)| size.checked_add(more));
            let Some(next) = next.filter(|next| *next <= end - at) else {
                return Ok(at);
            };
            if self.is_pipe
                && let Some(kind @ (HEADER_ATTR | HEADER_FEATURE)) = kind
            {
                let body = self.bytes(at + 8, next - 8)?.unwrap_or_default();
                self.look_at_record(layout, kind, &body)?;
                self.seek_file(at + next)?;
            } else {
                let step = next as i64 - there as i64;
                self.file.seek_relative(step).map_err(unreadable)?;
            }
            at += next;
        }
    }

    fn seek_file(&mut self, at: u64) -> Result<(), Error> {
        self.file.seek(SeekFrom::Start(at)).map_err(unreadable)?;
        Ok(())
    }

    /// These bytes of the file, if it has them.
    fn bytes(&mut self, at: u64, size: u64) -> Result<Option<Vec<u8>>, Error> {
        if at.checked_add(size).is_none_or(|end| end > self.end) {
            return Ok(None);
        }
        self.seek_file(at)?;
        let mut bytes = Vec::new();
        let read = self.file.by_ref().take(size).read_to_end(&mut bytes);
        let read = read.map_err(unreadable)?;
        Ok((read as u64 == size).then_some(bytes))
    }
}

impl<R: Read + Seek> Read for Whole<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let header = self.header.get(self.at as usize..).unwrap_or_default();
        let read = if header.is_empty() {
            let rest = self.end.saturating_sub(self.at).min(to.len() as u64) as usize;
            match to.get_mut(..rest) {
                Some(to) => self.file.read(to)?,
                None => 0,
            }
        } else {
            let read = (&mut &*header).read(to)?;
            self.file.seek(SeekFrom::Start(self.at + read as u64))?;
            read
        };
        self.at += read as u64;
        Ok(read)
    }
}

impl<R: Read + Seek> Seek for Whole<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(step) => self.at.checked_add_signed(step),
            SeekFrom::End(step) => self.end.checked_add_signed(step),
        };
        let at = at.ok_or(io::ErrorKind::InvalidInput)?;
        // What is behind the buffer's end may be near.
        let step = i64::try_from(i128::from(at) - i128::from(self.at));
        match step {
            Ok(step) if self.at >= self.header.len() as u64 && at >= self.header.len() as u64 => {
                self.file.seek_relative(step)?;
            }
            _ => _ = self.file.seek(SeekFrom::Start(at))?,
        }
        self.at = at;
        Ok(at)
    }
}

/// How numbers are written.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    pub(super) is_big: bool,
}

impl Layout {
    fn number<const N: usize>(self, bytes: &[u8], at: usize) -> Option<[u8; N]> {
        let mut found: [u8; N] = *bytes.get(at..)?.first_chunk()?;
        if self.is_big {
            found.reverse();
        }
        Some(found)
    }

    fn long(self, bytes: &[u8], at: usize) -> Option<u64> {
        self.number(bytes, at).map(u64::from_le_bytes)
    }

    fn int(self, bytes: &[u8], at: usize) -> Option<u32> {
        self.number(bytes, at).map(u32::from_le_bytes)
    }

    fn short(self, bytes: &[u8], at: usize) -> Option<u64> {
        self.number(bytes, at)
            .map(u16::from_le_bytes)
            .map(u64::from)
    }

    fn put(self, bytes: &mut [u8], at: usize, number: u64) {
        let mut new = number.to_le_bytes();
        if self.is_big {
            new.reverse();
        }
        if let Some(place) = bytes.get_mut(at..at + 8) {
            place.copy_from_slice(&new);
        }
    }

    /// Whether the values in samples of the event with these attributes come with a count of lost
    /// ones, `PERF_FORMAT_LOST`.
    fn values_have_lost(self, attributes: &[u8]) -> bool {
        const READ_FORMAT: usize = 32;
        self.long(attributes, READ_FORMAT)
            .is_some_and(|format| format >> 4 & 1 == 1)
    }

    /// The words of a command line.
    pub(super) fn words(self, list: &[u8]) -> Vec<String> {
        let mut rest = list.get(4..).unwrap_or_default();
        let word = || {
            let len = self.int(rest, 0)? as usize;
            let (word, behind) = rest.get(4..)?.split_at_checked(len)?;
            rest = behind;
            let end = word.iter().position(|byte| *byte == 0);
            let word = word.get(..end.unwrap_or(len))?;
            Some(String::from_utf8_lossy(word).into_owned())
        };
        std::iter::from_fn(word).collect()
    }

    /// `None` if the list of events has not as many as it says.
    fn check_names(self, list: &[u8]) -> Option<()> {
        let (count, size) = (self.int(list, 0)?, self.int(list, 4)? as usize);
        let mut rest = list.get(8..)?;
        for _ in 0..count {
            // The attributes, how many numbers, the name, and the numbers.
            let behind = rest.get(size..)?;
            let numbers = 8 * self.int(behind, 0)? as usize;
            let name = self.int(behind, 4)? as usize;
            rest = behind.get(8..)?.get(name..)?.get(numbers..)?;
        }
        Some(())
    }
}
