//! An RTT up-buffer in a machine's RAM file.
//!
//! The layout of the block is in [`kymo::transport::rtt`]. Its pointers are addresses of the
//! target. Where its memory begins need not be known: the blocks of Kymo have their names beside
//! them, so a name's address gives that of the file's first byte.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use super::mapping::Mapping;

/// The name of the up-buffer that has frames.
const NAME: &[u8; 5] = b"Kymo\0";
const ID: &[u8; 16] = b"SEGGER RTT\0\0\0\0\0\0";
/// Bytes before the first up-buffer.
const HEAD: usize = 24;
/// More buffers than any block has.
const MANY: u32 = 64;
/// Bytes of a name of Kymo's blocks.
const NAME_LEN: usize = 16;
/// Bytes that are searched at once.
const CHUNK: usize = 1 << 20;
/// Interval between searches.
const LOOK: Duration = Duration::from_millis(100);

/// The up-buffer named `Kymo` of the RTT block in a RAM file, as a line with nonblocking reads.
/// Nothing can be written to it.
#[derive(Debug)]
pub struct RttLine {
    mapping: Mapping,
    file: File,
    base: Option<u64>,
    found: Option<Buffer>,
    searched: Option<Instant>,
}

/// Places in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Buffer {
    /// The block.
    block: usize,
    /// The offsets of the writer and of the reader.
    offsets: usize,
    /// The bytes.
    bytes: usize,
    size: u32,
}

impl RttLine {
    /// The line in the RAM file at `path`, whose first byte has the address `base` on the target.
    /// Without `base`, only the blocks of Kymo are found.
    ///
    /// # Errors
    /// Those of opening and mapping the file; [`ResourceBusy`](io::ErrorKind::ResourceBusy) if
    /// another program has claimed it, and [`PermissionDenied`](io::ErrorKind::PermissionDenied)
    /// if it cannot be written to: who reads an up-buffer has to say how far.
    pub fn open(path: &Path, base: Option<u64>) -> io::Result<RttLine> {
        let file = File::options().read(true).write(true).open(path)?;
        let mapping = Mapping::open(path)?;
        if !mapping.claim() {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        Ok(RttLine {
            mapping,
            file,
            base,
            found: None,
            searched: None,
        })
    }

    /// Whether a block with an up-buffer of this name was found.
    pub fn is_found(&self) -> bool {
        self.found.is_some()
    }

    fn search(&mut self) -> io::Result<Option<Buffer>> {
        let mut chunk = vec![0; CHUNK];
        let mut begin = 0;
        self.file.seek(SeekFrom::Start(0))?;
        loop {
            let mut len = 0;
            // Chunks are full, but for the last one, so that they begin at multiples of 4.
            while let Some(rest) = chunk.get_mut(len..).filter(|rest| !rest.is_empty()) {
                match self.file.read(rest)? {
                    0 => break,
                    read => len += read,
                }
            }
            let words = chunk.get(..len).unwrap_or_default().chunks_exact(4);
            for (index, _) in words.enumerate().filter(|(_, word)| ID.starts_with(word)) {
                let buffer = self.buffer(begin + 4 * index);
                if buffer.is_some() {
                    return Ok(buffer);
                }
            }
            if len < CHUNK {
                return Ok(None);
            }
            begin += CHUNK;
        }
    }

    /// The up-buffer of the block at `block`, if one is there.
    fn buffer(&self, block: usize) -> Option<Buffer> {
        let mut id = [0; ID.len()];
        self.mapping.copy(block, &mut id)?;
        let (up, down) = (
            self.mapping.word(block + 16)?,
            self.mapping.word(block + 20)?,
        );
        if id != *ID || !(1..=MANY).contains(&up) || down > MANY {
            return None;
        }
        // Pointers have 4 bytes or 8.
        [4, 8].into_iter().find_map(|width| {
            let entry = 2 * width + 16;
            let names = block + HEAD + (up + down) as usize * entry;
            (0..up as usize).find_map(|index| {
                let at = block + HEAD + index * entry;
                self.named(block, at, width, names + NAME_LEN * index)
            })
        })
    }

    /// The up-buffer whose description is at `at`, if its name is `Kymo`, which may be at
    /// `beside`.
    fn named(&self, block: usize, at: usize, width: usize, beside: usize) -> Option<Buffer> {
        let pointer = |at: usize| {
            let low = u64::from(self.mapping.word(at)?);
            let high = if width == 8 {
                self.mapping.word(at + 4)?
            } else {
                0
            };
            Some(low | u64::from(high) << 32)
        };
        let (name, bytes) = (pointer(at)?, pointer(at + width)?);
        let base = self.base.or_else(|| name.checked_sub(beside as u64))?;
        let place = |address: u64| usize::try_from(address.checked_sub(base)?).ok();
        let mut text = [0; NAME.len()];
        self.mapping.copy(place(name)?, &mut text)?;
        let size = self.mapping.word(at + 2 * width)?;
        let bytes = place(bytes)?;
        // The last byte is in the file.
        let last = bytes.checked_add(size as usize)?.checked_sub(1)?;
        self.mapping.copy(last, &mut [0])?;
        (text == *NAME && size > 1).then_some(Buffer {
            block,
            offsets: at + 2 * width + 4,
            bytes,
            size,
        })
    }

    /// Copies new bytes; `None` if there are none.
    fn take(&mut self, buffer: Buffer, into: &mut [u8]) -> Option<usize> {
        let mut id = [0; ID.len()];
        self.mapping.copy(buffer.block, &mut id)?;
        if id != *ID {
            // The machine was reset.
            self.found = None;
            return None;
        }
        let write = self.mapping.word(buffer.offsets)?;
        let read = self.mapping.word(buffer.offsets + 4)?;
        if write >= buffer.size || read >= buffer.size {
            return None;
        }
        // Up to the writer, or to the end of the buffer.
        let end = if write >= read { write } else { buffer.size };
        let len = into.len().min((end - read) as usize);
        let into = into.get_mut(..len).filter(|into| !into.is_empty())?;
        self.mapping.copy(buffer.bytes + read as usize, into)?;
        let next = read + len as u32;
        let next = if next == buffer.size { 0 } else { next };
        self.mapping.set_word(buffer.offsets + 4, next);
        Some(len)
    }
}

impl Read for RttLine {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let recently = |searched: Instant| searched.elapsed() < LOOK;
        if self.found.is_none() && !self.searched.is_some_and(recently) {
            self.found = self.search()?;
            self.searched = Some(Instant::now());
        }
        let taken = self.found.and_then(|buffer| self.take(buffer, into));
        taken.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }
}

impl Write for RttLine {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn flush(&mut self) -> io::Result<()> {
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

    fn all(line: &mut RttLine) -> Vec<u8> {
        let (mut found, mut piece) = (Vec::new(), [0; 50]);
        while let Ok(read) = line.read(&mut piece) {
            found.extend(&piece[..read]);
        }
        found
    }

    /// The target's own code writes to the file's memory.
    #[test]
    fn what_a_target_puts_into_its_up_buffer_is_read() {
        // The block lies behind the first chunk that is searched.
        let at = CHUNK + 0x1238;
        let ram = Ram::new("live", &vec![0; 2 * CHUNK]);
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
        line.searched = None;
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
        assert_eq!(line.mapping.word(64 + HEAD + 20 - 4), Some(250));
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
