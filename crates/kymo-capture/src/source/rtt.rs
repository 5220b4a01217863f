//! An RTT up-buffer in a target's memory, which is a file or behind a debug probe.
//!
//! The layout of the block is in [`kymo::transport::rtt`]. Its pointers are addresses of the
//! target. Where a file begins in its memory need not be known: the blocks of Kymo have their names
//! beside them, so a name's address gives that of the file's first byte.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use super::Probe;
use super::mapping::Mapping;

/// The name of the up-buffer that has frames.
const NAME: &[u8; 5] = b"Kymo\0";
const ID: &[u8; 16] = b"SEGGER RTT\0\0\0\0\0\0";
/// Bytes before the first up-buffer.
const HEAD: u64 = 24;
/// More buffers than any block has.
const MANY: u32 = 64;
/// Bytes of a name of Kymo's blocks.
const NAME_LEN: u64 = 16;
/// Interval between searches.
const LOOK: Duration = Duration::from_millis(100);
/// Longest part of a search without a break.
const TURN: Duration = Duration::from_millis(100);

/// Why a place of a memory was not read or written.
#[derive(Debug)]
pub enum Missing {
    /// It cannot be reached now, or there is none.
    Now,
    /// The memory cannot be reached any more.
    Failed(io::Error),
}

/// A target's memory by place: an offset in a file, or an address.
pub trait Memory {
    /// Bytes that are searched at once: a multiple of 4.
    const PIECE: usize;

    /// Copies bytes for the search from `at` on; returns how many there are.
    ///
    /// # Errors
    /// See [`Missing`]; so for the others.
    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<usize, Missing>;

    /// Copies the bytes from `at` on.
    fn copy(&mut self, at: u64, into: &mut [u8]) -> Result<(), Missing>;

    /// The word at `at`, a multiple of 4. Partner: the target's store after it has written what
    /// the word tells of.
    fn word(&mut self, at: u64) -> Result<u32, Missing>;

    /// Writes the word at `at`. Partner: the target's load before it reuses what was read before.
    fn set_word(&mut self, at: u64, value: u32) -> Result<(), Missing>;

    /// Prepares for a look at the memory; `false` if it is too early for the next one.
    fn hold(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    /// Ends a look at the memory.
    fn release(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The up-buffer named `Kymo` of the RTT block in a memory, as a line with nonblocking reads.
/// Nothing can be written to it.
#[derive(Debug)]
pub struct RttLine<M> {
    memory: M,
    /// The address of the first place, if known.
    base: Option<u64>,
    /// Where a block may be.
    ranges: Vec<Range<u64>>,
    /// The range and the place where the search goes on.
    next: (usize, u64),
    found: Option<Buffer>,
    searched: Option<Instant>,
    /// What happened after bytes were taken.
    failure: Option<io::Error>,
}

/// Places in the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Buffer {
    /// The block.
    block: u64,
    /// The offsets of the writer and of the reader.
    offsets: u64,
    /// The bytes.
    bytes: u64,
    size: u32,
}

/// A RAM file.
#[derive(Debug)]
pub struct RamFile {
    mapping: Mapping,
    file: File,
}

impl RttLine<RamFile> {
    /// The line in the RAM file at `path`, whose first byte has the address `base` on the target.
    /// Without `base`, only the blocks of Kymo are found.
    ///
    /// # Errors
    /// Those of opening and mapping the file; [`ResourceBusy`](io::ErrorKind::ResourceBusy) if
    /// another program has claimed it, and [`PermissionDenied`](io::ErrorKind::PermissionDenied)
    /// if it cannot be written to: who reads an up-buffer has to say how far.
    pub fn open(path: &Path, base: Option<u64>) -> io::Result<RttLine<RamFile>> {
        let file = File::options().read(true).write(true).open(path)?;
        let mapping = Mapping::open(path)?;
        if !mapping.claim() {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        let len = file.metadata()?.len();
        Ok(RttLine::new(RamFile { mapping, file }, base, vec![0..len]))
    }
}

impl RttLine<Probe> {
    /// The line behind a debug probe. Blocks are looked for at all multiples of 4 in these ranges
    /// of addresses.
    pub fn behind(probe: Probe, ranges: Vec<Range<u64>>) -> RttLine<Probe> {
        RttLine::new(probe, Some(0), ranges)
    }
}

impl<M: Memory> RttLine<M> {
    fn new(memory: M, base: Option<u64>, ranges: Vec<Range<u64>>) -> RttLine<M> {
        RttLine {
            memory,
            base,
            ranges,
            next: (0, 0),
            found: None,
            searched: None,
            failure: None,
        }
    }

    /// Whether a block with an up-buffer of this name was found.
    pub fn is_found(&self) -> bool {
        self.found.is_some()
    }

    /// Searches for a while; the next call goes on where this one ends.
    fn search(&mut self) -> Result<Option<Buffer>, Missing> {
        let began = Instant::now();
        let mut piece = vec![0; M::PIECE];
        while let Some(range) = self.ranges.get(self.next.0) {
            let at = self.next.1.max(range.start).next_multiple_of(4);
            let left = usize::try_from(range.end.saturating_sub(at)).unwrap_or(usize::MAX);
            let piece = piece.get_mut(..left.min(M::PIECE)).unwrap_or_default();
            let len = self.memory.read(at, piece)?;
            self.next = match len {
                len if len < M::PIECE => (self.next.0 + 1, 0),
                len => (self.next.0, at.saturating_add(len as u64)),
            };
            let words = piece.get(..len).unwrap_or_default().chunks_exact(4);
            for (index, _) in words.enumerate().filter(|(_, word)| ID.starts_with(word)) {
                match self.buffer(at + 4 * index as u64) {
                    Err(Missing::Now) => {}
                    Ok(None) => {}
                    found => {
                        self.next = (0, 0);
                        return found;
                    }
                }
            }
            if began.elapsed() >= TURN {
                return Ok(None);
            }
        }
        self.next = (0, 0);
        self.searched = Some(Instant::now());
        Ok(None)
    }

    /// The up-buffer of the block at `block`, if one is there.
    fn buffer(&mut self, block: u64) -> Result<Option<Buffer>, Missing> {
        let mut id = [0; ID.len()];
        self.memory.copy(block, &mut id)?;
        let (up, down) = (self.memory.word(block + 16)?, self.memory.word(block + 20)?);
        if id != *ID || !(1..=MANY).contains(&up) || down > MANY {
            return Ok(None);
        }
        // Pointers have 4 bytes or 8.
        for width in [4, 8] {
            let entry = 2 * width + 16;
            let names = block + HEAD + u64::from(up + down) * entry;
            for index in 0..u64::from(up) {
                let at = block + HEAD + index * entry;
                match self.named(block, at, width, names + NAME_LEN * index) {
                    Err(Missing::Now) | Ok(None) => {}
                    found => return found,
                }
            }
        }
        Ok(None)
    }

    /// The up-buffer whose description is at `at`, if its name is `Kymo`, which may be at
    /// `beside`.
    fn named(
        &mut self,
        block: u64,
        at: u64,
        width: u64,
        beside: u64,
    ) -> Result<Option<Buffer>, Missing> {
        let (name, bytes) = (self.pointer(at, width)?, self.pointer(at + width, width)?);
        let size = self.memory.word(at + 2 * width)?;
        let Some(base) = self.base.or_else(|| name.checked_sub(beside)) else {
            return Ok(None);
        };
        let (Some(name), Some(bytes)) = (name.checked_sub(base), bytes.checked_sub(base)) else {
            return Ok(None);
        };
        let Some(last) = bytes.checked_add(u64::from(size).saturating_sub(1)) else {
            return Ok(None);
        };
        let mut text = [0; NAME.len()];
        self.memory.copy(name, &mut text)?;
        if text != *NAME || size < 2 {
            return Ok(None);
        }
        // The last byte is there.
        self.memory.copy(last, &mut [0])?;
        Ok(Some(Buffer {
            block,
            offsets: at + 2 * width + 4,
            bytes,
            size,
        }))
    }

    /// A pointer of 4 or 8 bytes.
    fn pointer(&mut self, at: u64, width: u64) -> Result<u64, Missing> {
        let low = u64::from(self.memory.word(at)?);
        Ok(match width {
            8 => low | u64::from(self.memory.word(at + 4)?) << 32,
            _ => low,
        })
    }

    /// Copies new bytes, up to the end of the buffer; returns how many.
    fn take(&mut self, buffer: Buffer, into: &mut [u8]) -> Result<usize, Missing> {
        let mut id = [0; ID.len()];
        self.memory.copy(buffer.block, &mut id)?;
        if id != *ID {
            // The machine was reset.
            self.found = None;
            return Ok(0);
        }
        let write = self.memory.word(buffer.offsets)?;
        let read = self.memory.word(buffer.offsets + 4)?;
        if write >= buffer.size || read >= buffer.size {
            return Ok(0);
        }
        // Up to the writer, or to the end of the buffer.
        let end = if write >= read { write } else { buffer.size };
        let len = into.len().min((end - read) as usize);
        let into = into.get_mut(..len).unwrap_or_default();
        if into.is_empty() {
            return Ok(0);
        }
        self.memory.copy(buffer.bytes + u64::from(read), into)?;
        let next = read + len as u32;
        let next = if next == buffer.size { 0 } else { next };
        self.memory.set_word(buffer.offsets + 4, next)?;
        Ok(len)
    }

    /// Copies what there is, both parts of a buffer that has wrapped.
    fn look(&mut self, into: &mut [u8]) -> Result<usize, Missing> {
        let recently = |searched: Instant| searched.elapsed() < LOOK;
        if self.found.is_none() && !self.searched.is_some_and(recently) {
            let found = self.search();
            if found.is_err() {
                self.searched = Some(Instant::now());
            }
            self.found = found?;
        }
        let Some(buffer) = self.found else {
            return Ok(0);
        };
        let first = self.take(buffer, into)?;
        let rest = into.get_mut(first..).filter(|_| first > 0);
        match rest.map(|rest| self.take(buffer, rest)) {
            Some(Ok(second)) => Ok(first + second),
            // What was taken is not given up; the next look has the error.
            Some(Err(Missing::Failed(error))) => {
                self.failure = Some(error);
                Ok(first)
            }
            None | Some(Err(Missing::Now)) => Ok(first),
        }
    }
}

impl<M: Memory> Read for RttLine<M> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        if !self.memory.hold()? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = self.look(into);
        let released = self.memory.release();
        match taken {
            Err(Missing::Failed(error)) => Err(error),
            Ok(taken) if taken > 0 => {
                self.failure = self.failure.take().or(released.err());
                Ok(taken)
            }
            Ok(_) | Err(Missing::Now) => released.and(Err(io::ErrorKind::WouldBlock.into())),
        }
    }
}

impl<M> Write for RttLine<M> {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Places are offsets in the file; none is missing for a while only, as the file stays as it is.
impl Memory for RamFile {
    const PIECE: usize = 1 << 20;

    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<usize, Missing> {
        let mut read = || {
            self.file.seek(SeekFrom::Start(at))?;
            let mut len = 0;
            while let Some(rest) = into.get_mut(len..).filter(|rest| !rest.is_empty()) {
                match self.file.read(rest) {
                    Ok(0) => break,
                    Ok(read) => len += read,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(len)
        };
        read().map_err(Missing::Failed)
    }

    fn copy(&mut self, at: u64, into: &mut [u8]) -> Result<(), Missing> {
        let at = usize::try_from(at).ok();
        at.and_then(|at| self.mapping.copy(at, into))
            .ok_or(Missing::Now)
    }

    fn word(&mut self, at: u64) -> Result<u32, Missing> {
        let at = usize::try_from(at).ok();
        at.and_then(|at| self.mapping.word(at)).ok_or(Missing::Now)
    }

    fn set_word(&mut self, at: u64, value: u32) -> Result<(), Missing> {
        if let Ok(at) = usize::try_from(at) {
            self.mapping.set_word(at, value);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kymo::transport::Sink;
    use kymo::transport::rtt::{Rtt, UpMemory};

    struct Ram(std::path::PathBuf);

    impl Ram {
        fn new(name: &str, bytes: &[u8]) -> Ram {
            let file = format!("kymo-rtt-{}-{name}", std::process::id());
            let path = std::env::temp_dir().join(file);
            std::fs::write(&path, bytes).unwrap();
            Ram(path)
        }
    }

    impl Drop for Ram {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn all(line: &mut RttLine<RamFile>) -> Vec<u8> {
        let (mut found, mut piece) = (Vec::new(), [0; 50]);
        // A search may take more than one turn.
        line.searched = None;
        while line.found.is_none() && line.searched.is_none() {
            match line.read(&mut piece) {
                Ok(read) => found.extend(&piece[..read]),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        while let Ok(read) = line.read(&mut piece) {
            found.extend(&piece[..read]);
            assert!(found.len() < 1 << 16, "no end of what was sent");
        }
        found
    }

    /// The target's own code writes to the file's memory.
    #[test]
    fn what_a_target_puts_into_its_up_buffer_is_read() {
        // The block lies behind the first chunk that is searched.
        let at = RamFile::PIECE + 0x1238;
        let ram = Ram::new("live", &vec![0; 2 * RamFile::PIECE]);
        let file = File::options().read(true).write(true).open(&ram.0).unwrap();
        let map = memmap2::MmapOptions::new().map_raw(&file).unwrap();
        // SAFETY: zeros are a block and a buffer that were not started; both lie in the mapping,
        // aligned, and nothing else of this test refers to them.
        let (block, memory) = unsafe {
            let memory = &*map.as_ptr().add(0x800).cast::<UpMemory<300>>();
            (&mut *map.as_mut_ptr().add(at).cast::<Rtt<2>>(), memory)
        };
        let mut line = RttLine::open(&ram.0, None).unwrap();
        assert!(all(&mut line).is_empty() && !line.is_found());
        let text = UpMemory::<256>::new();
        let [mut other, mut up] = block.start([("Text", text.bytes()), ("Kymo", memory.bytes())]);
        other.offer(b"not this");
        for round in 0..20u8 {
            let sent: Vec<u8> = (0..199).map(|at| at ^ round).collect();
            assert_eq!((up.offer(&sent), up.room()), (199, Some(100)));
            assert_eq!(all(&mut line), sent, "{round}");
            assert_eq!(up.room(), Some(299));
        }
        // A second reader would take the bytes from the first.
        let busy = RttLine::open(&ram.0, None).unwrap_err();
        assert_eq!(busy.kind(), io::ErrorKind::ResourceBusy);
        // After a reset the block may be elsewhere.
        // SAFETY: as above; the block is not used any more.
        unsafe { map.as_mut_ptr().add(at).write_bytes(0, 16) };
        assert!(all(&mut line).is_empty() && !line.is_found());
    }

    /// A block of a 32-bit target whose name is in flash, as another library would make it: the
    /// name is seen only where the file has it.
    fn narrow(base: u32) -> Vec<u8> {
        let mut ram = vec![0; 4096];
        let mut put = |at: usize, bytes: &[u8]| ram[at..at + bytes.len()].copy_from_slice(bytes);
        put(64, ID);
        let words = [1, 0, base + 0x300, base + 0x400, 256, 250, 100, 0];
        for (index, word) in words.into_iter().enumerate() {
            put(80 + 4 * index, &u32::to_le_bytes(word));
        }
        put(0x300, NAME);
        put(0x400, &std::array::from_fn::<u8, 256, _>(|at| at as u8));
        ram
    }

    #[test]
    fn blocks_of_32_bit_targets_are_read() {
        let ram = Ram::new("narrow", &narrow(0x2000_0000));
        let mut line = RttLine::open(&ram.0, Some(0x2000_0000)).unwrap();
        assert_eq!(all(&mut line), (100..250).collect::<Vec<u8>>());
        assert_eq!(
            line.memory.mapping.word(64 + HEAD as usize + 20 - 4),
            Some(250)
        );
        drop(line);
        for base in [None, Some(0), Some(0x2000_1000)] {
            let mut line = RttLine::open(&ram.0, base).unwrap();
            assert!(all(&mut line).is_empty() && !line.is_found(), "{base:?}");
        }
    }

    #[test]
    fn damaged_blocks_are_passed_over() {
        let good = narrow(0x2000_0000);
        for (at, value) in [
            (80, 0),
            (80, 65),
            (84, 65),
            (92, 0),
            (92, u32::MAX),
            (96, 1 << 20),
        ] {
            let mut bad = good.clone();
            bad[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
            let ram = Ram::new("damaged", &bad);
            let mut line = RttLine::open(&ram.0, Some(0x2000_0000)).unwrap();
            assert!(
                all(&mut line).is_empty() && !line.is_found(),
                "{at}: {value}"
            );
        }
        // Offsets outside the buffer: it may be about to be reset.
        for at in [100, 104] {
            let mut bad = good.clone();
            bad[at..at + 4].copy_from_slice(&u32::to_le_bytes(256));
            let ram = Ram::new("offsets", &bad);
            let mut line = RttLine::open(&ram.0, Some(0x2000_0000)).unwrap();
            assert!(all(&mut line).is_empty() && line.is_found(), "{at}");
        }
    }
}
