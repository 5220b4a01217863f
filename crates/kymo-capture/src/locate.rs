//! Finds the region in a memory image.
//!
//! A region begins on a page with a magic number and a checksummed header that names its own
//! physical address: if the image's base is known, this address distinguishes it from copies
//! elsewhere in memory (a loader's buffer, an old dump).

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use kymo::ring::layout::{HEADER_WORDS, Header, REGION_ALIGN, Refusal, magic};
use object::endian::LittleEndian;
use object::read::elf::{FileHeader, ProgramHeader};

use crate::source::Mapping;

/// A stretch of physical memory in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// File offset.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// Physical address of its first byte, if known.
    pub phys: Option<u64>,
}

/// A region that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// File offset.
    pub offset: u64,
    /// Bytes from there to the end of the segment.
    pub len: u64,
    /// Its header.
    pub header: Header,
}

/// Why no region was found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// No page begins with the magic number.
    #[error(
        "found no Kymo region in {path}; give the whole memory of a machine whose kernel had \
         started its trace"
    )]
    None {
        /// The file.
        path: String,
    },
    /// The file is no plain copy of memory: its pages are packed.
    #[error("{path} is {format}, whose pages cannot be searched; {advice}")]
    Packed {
        /// The file.
        path: String,
        /// What it is.
        format: &'static str,
        /// How to get a plain copy.
        advice: &'static str,
    },
    /// A region was found, but cannot be read.
    #[error("cannot read the Kymo region in {path} at offset {offset:#x}: {refusal}")]
    Refused {
        /// The file.
        path: String,
        /// Where it begins.
        offset: u64,
        /// Why not.
        refusal: Refusal,
    },
    /// Only copies of a region were found.
    #[error(
        "{path} holds only a copy of a Kymo region, at offset {offset:#x} (its header names the \
         address {phys:#x}); give the memory's base address with --base, or the whole memory"
    )]
    Copy {
        /// The file.
        path: String,
        /// File offset of the copy.
        offset: u64,
        /// The physical address in its header.
        phys: u64,
    },
}

impl Error {
    /// Always [`InvalidData`](io::ErrorKind::InvalidData): every error is in the memory image.
    pub fn kind(&self) -> io::ErrorKind {
        io::ErrorKind::InvalidData
    }

    /// Advice for the user, as a clause that begins with a verb; `None` if the message includes it.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Error::Read { source, .. } => Some(to_read(
                source,
                "give a memory image: a RAM file, a raw dump or an ELF core",
            )),
            Error::Refused { refusal, .. } => match refusal {
                // Their messages include it.
                Refusal::Version(_) | Refusal::Incompatible(_) => None,
                Refusal::Forming => Some("take the memory later, when the kernel runs"),
                _ => Some("take the memory again, all of it, while the machine is stopped"),
            },
            _ => None,
        }
    }

    /// Whether retrying is pointless because the region was made by another version.
    pub fn is_final(&self) -> bool {
        matches!(
            self,
            Error::Refused {
                refusal: Refusal::Version(_) | Refusal::Incompatible(_) | Refusal::ByteOrder,
                ..
            }
        )
    }
}

/// Advice for a file that cannot be read; `otherwise` if the cause is not a missing permission.
pub(crate) fn to_read(source: &io::Error, otherwise: &'static str) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => "get read permission, or use a copy that you can read",
        _ => otherwise,
    }
}

/// Default base addresses: physical memory begins at one of these on common machines.
const USUAL_BASES: [u64; 3] = [0, 0x4000_0000, 0x8000_0000];

/// The memory segments in a file: those of an ELF core (as QEMU's `dump-guest-memory` writes it),
/// else the whole file.
///
/// # Errors
/// [`Error::Read`].
pub fn segments(path: &Path, base: Option<u64>) -> Result<Vec<Segment>, Error> {
    let read = |source| Error::Read {
        path: path.display().to_string(),
        source,
    };
    let file = File::open(path).map_err(read)?;
    let meta = file.metadata().map_err(read)?;
    if meta.is_dir() {
        return Err(read(io::Error::from(io::ErrorKind::IsADirectory)));
    }
    let whole = Segment {
        offset: 0,
        len: meta.len(),
        phys: base,
    };
    Ok(core_segments(&file)
        .filter(|segments| !segments.is_empty())
        .unwrap_or_else(|| vec![whole]))
}

fn core_segments(file: &File) -> Option<Vec<Segment>> {
    type Elf = object::elf::FileHeader64<LittleEndian>;
    let cache = object::read::ReadCache::new(file);
    let elf = Elf::parse(&cache).ok()?;
    let endian = elf.endian().ok()?;
    if elf.e_type(endian) != object::elf::ET_CORE {
        return None;
    }
    let loads = elf
        .program_headers(endian, &cache)
        .ok()?
        .iter()
        .filter(|header| header.p_type(endian) == object::elf::PT_LOAD);
    // A user program's core has no physical addresses.
    let physical = loads.clone().any(|header| header.p_paddr(endian) != 0);
    let segment = |header: &object::elf::ProgramHeader64<LittleEndian>| Segment {
        offset: header.p_offset(endian),
        len: header.p_filesz(endian),
        phys: physical.then(|| header.p_paddr(endian)),
    };
    Some(loads.map(segment).collect())
}

/// Finds the region; of several valid ones, that of the newest session.
///
/// # Errors
/// [`Error`] describes what was found instead.
pub fn region(path: &Path, segments: &[Segment]) -> Result<Found, Error> {
    search(path, segments, None)
}

/// Finds the region in the memory of a machine that runs, which `memory` maps.
///
/// Where a file's room is reserved, what the system has read ahead counts as data: reading such a
/// file would soon read all of a machine's memory, while the kernel records. Looking through a
/// mapping reads nothing ahead. As for QEMU, who has mapped it, too, a file that somebody makes
/// shorter meanwhile ends this program.
///
/// # Errors
/// As [`region`].
pub(crate) fn region_mapped(
    path: &Path,
    segments: &[Segment],
    memory: &Mapping,
) -> Result<Found, Error> {
    search(path, segments, Some(memory))
}

fn search(path: &Path, segments: &[Segment], memory: Option<&Mapping>) -> Result<Found, Error> {
    let read = |source| Error::Read {
        path: path.display().to_string(),
        source,
    };
    let mut file = File::open(path).map_err(read)?;
    let mut best: Option<Found> = None;
    let mut worse: Option<Error> = None;
    for segment in segments {
        for offset in candidates(&mut file, segment, memory).map_err(read)? {
            let name = || path.display().to_string();
            let header = match read_header(&mut file, offset, segment).map_err(read)? {
                Ok(header) => header,
                Err(refusal) => {
                    worse.get_or_insert(Error::Refused {
                        path: name(),
                        offset,
                        refusal,
                    });
                    continue;
                }
            };
            let base = header.self_phys.checked_sub(offset - segment.offset);
            let in_place = header.self_phys == 0
                || match segment.phys {
                    Some(phys) => base == Some(phys),
                    None => base.is_some_and(|base| USUAL_BASES.contains(&base)),
                };
            if !in_place {
                worse = Some(Error::Copy {
                    path: name(),
                    offset,
                    phys: header.self_phys,
                });
                continue;
            }
            if best
                .as_ref()
                .is_none_or(|best| best.header.session_id < header.session_id)
            {
                best = Some(Found {
                    offset,
                    len: segment
                        .offset
                        .saturating_add(segment.len)
                        .saturating_sub(offset),
                    header,
                });
            }
        }
    }
    if let Some(best) = best {
        return Ok(best);
    }
    if let Some(worse) = worse {
        return Err(worse);
    }
    let path = path.display().to_string();
    let mut head = [0; 16];
    file.seek(SeekFrom::Start(0)).map_err(read)?;
    read_up_to(&mut file, &mut head).map_err(read)?;
    let packed = PACKED.iter().find(|(magic, ..)| head.starts_with(magic));
    Err(match packed {
        Some(&(_, format, advice)) => Error::Packed {
            path,
            format,
            advice,
        },
        None => Error::None { path },
    })
}

const WITHOUT_Z: &str = "write an ELF core: in QEMU dump-guest-memory without -z, -l and -s";
const AS_ELF: &str = "write an ELF core: makedumpfile -E -d 0";
const UNPACK: &str = "unpack it first";

/// Formats of memory images that are not plain: the first bytes, the name, and what to do.
const PACKED: [(&[u8], &str, &str); 10] = [
    (b"KDUMP   ", "a compressed kdump", WITHOUT_Z),
    (b"DISKDUMP", "a compressed diskdump", AS_ELF),
    (b"makedumpfile\0", "a flattened kdump", AS_ELF),
    (
        b"QEVM",
        "a saved virtual machine of QEMU",
        "load it, and write an ELF core with dump-guest-memory",
    ),
    (
        b"QFI\xfb",
        "a disk image (qcow2)",
        "give the machine's memory, not its disk",
    ),
    (b"\x1f\x8b", "compressed with gzip", UNPACK),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", UNPACK),
    (b"\xfd7zXZ\0", "compressed with xz", UNPACK),
    (b"\x04\x22\x4d\x18", "compressed with lz4", UNPACK),
    (b"BZh", "compressed with bzip2", UNPACK),
];

/// Offsets of the segment's pages that begin with the magic number; pages are looked at in `memory`
/// if it is given, else read from the file.
fn candidates(
    file: &mut File,
    segment: &Segment,
    memory: Option<&Mapping>,
) -> io::Result<Vec<u64>> {
    const PAGE: u64 = REGION_ALIGN as u64;
    let mut found = Vec::new();
    let end = segment.offset.saturating_add(segment.len);
    let mut at = segment.offset;
    while let Some(data) = next_data(file, at, end)? {
        // Pages of the segment.
        let begin = data.start - (data.start - segment.offset) % PAGE;
        let pages = (data.end - begin).div_ceil(PAGE);
        at = begin.saturating_add(pages.saturating_mul(PAGE));
        match memory {
            Some(memory) => found.extend(begins(memory, begin..at)),
            None => read_begins(file, begin..at.min(end), &mut found)?,
        }
    }
    Ok(found)
}

/// Offsets of the pages in the mapped memory that begin with the magic number.
fn begins(memory: &Mapping, pages: Range<u64>) -> impl Iterator<Item = u64> {
    let magic = magic().to_le_bytes();
    pages.step_by(REGION_ALIGN).filter(move |&page| {
        let mut bytes = [0; 8];
        let at = usize::try_from(page).ok();
        let copied = at.and_then(|at| memory.copy(at, &mut bytes));
        copied.is_some() && bytes == magic
    })
}

/// Adds the offsets of the pages in the file that begin with the magic number.
fn read_begins(file: &mut File, pages: Range<u64>, found: &mut Vec<u64>) -> io::Result<()> {
    const CHUNK: usize = 256 * REGION_ALIGN;
    let magic = magic().to_le_bytes();
    let mut chunk = Vec::new();
    for at in pages.clone().step_by(CHUNK) {
        let want = usize::try_from(pages.end - at).unwrap_or(CHUNK).min(CHUNK);
        chunk.resize(want, 0);
        file.seek(SeekFrom::Start(at))?;
        let got = read_up_to(file, &mut chunk)?;
        for (page, bytes) in chunk.chunks(REGION_ALIGN).enumerate() {
            if bytes.starts_with(&magic) && page * REGION_ALIGN < got {
                found.push(at + (page * REGION_ALIGN) as u64);
            }
        }
        if got < want {
            break;
        }
    }
    Ok(())
}

/// The next bytes at or after `at` that are not in a hole of a sparse file. Reading a guest's
/// untouched memory would be slow and would fill the holes.
fn next_data(file: &File, at: u64, end: u64) -> io::Result<Option<Range<u64>>> {
    if at >= end {
        return Ok(None);
    }
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{SeekFrom, seek};
        match seek(file, SeekFrom::Data(at)) {
            Ok(data) if data >= end => return Ok(None),
            Ok(data) => {
                let hole = seek(file, SeekFrom::Hole(data)).unwrap_or(end);
                // A hole may have come to lie where there was data.
                return Ok(Some(data..hole.clamp(data + 1, end)));
            }
            Err(rustix::io::Errno::NXIO) => return Ok(None),
            Err(_) => {}
        }
    }
    let _ = file;
    Ok(Some(at..end))
}

fn read_up_to(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    if let Some(rest) = buffer.get_mut(done..) {
        rest.fill(0);
    }
    Ok(done)
}

fn read_header(
    file: &mut File,
    offset: u64,
    segment: &Segment,
) -> io::Result<Result<Header, Refusal>> {
    let mut bytes = [0; 4 * HEADER_WORDS];
    file.seek(SeekFrom::Start(offset))?;
    read_up_to(file, &mut bytes)?;
    let mut words = [0; HEADER_WORDS];
    for (word, chunk) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*chunk);
    }
    let header = Header::from_words(&words);
    let room = segment
        .offset
        .saturating_add(segment.len)
        .saturating_sub(offset);
    Ok(header.and_then(|header| {
        if header.total_size <= room {
            Ok(header)
        } else {
            Err(Refusal::Geometry)
        }
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kymo::Clock;
    use std::fs;

    /// Physical address of the images' first byte.
    const BASE: u64 = 0x8000_0000;
    const PAGE: u64 = REGION_ALIGN as u64;
    const PAGES: u64 = 8;

    /// The header of session `session_id`, whose region says that it lies at page `page`.
    fn header(session_id: u64, page: u64) -> Header {
        Header {
            state: 2,
            word_size: 8,
            total_size: PAGE,
            compat: 0,
            incompat: 0,
            self_phys: BASE + page * PAGE,
            region_va: 0,
            session_id,
            uuid: [7; 16],
            clock: Clock::at(1_000_000_000),
            clock_start: 0,
            reserve: 1,
            cpus: 1,
            kinds: 2,
            control_offset: PAGE,
            control_size: 512,
            slot_header_size: 48,
            metadata_offset: PAGE,
            metadata_len: 0,
            shapes_len: 0,
            shapes_offset: PAGE,
            build_id: [0; 20],
            metadata_crc: 0,
        }
    }

    /// Looks for the region in an image with these headers at these pages.
    fn find(name: &str, headers: &[(u64, Header)]) -> Result<Found, Error> {
        let mut image = vec![0; (PAGES * PAGE) as usize];
        for (page, header) in headers {
            let bytes: Vec<u8> = header
                .to_words()
                .into_iter()
                .flat_map(u32::to_le_bytes)
                .collect();
            image[(page * PAGE) as usize..][..bytes.len()].copy_from_slice(&bytes);
        }
        let path = std::env::temp_dir().join(format!("kymo-locate-{}-{name}", std::process::id()));
        fs::write(&path, image).unwrap();
        let found = region(&path, &segments(&path, Some(BASE)).unwrap());
        fs::remove_file(&path).unwrap();
        found
    }

    /// Two memories of a kernel, or one that moved with a new build: both regions are in place.
    #[test]
    fn the_newest_of_several_sessions_is_chosen_wherever_it_lies() {
        for pages in [[1, 3, 6], [3, 6, 1], [6, 1, 3], [1, 6, 3]] {
            let sessions = [4, 9, 5];
            let headers: Vec<_> = pages
                .into_iter()
                .zip(sessions)
                .map(|(page, session)| (page, header(session, page)))
                .collect();
            let found = find("newest", &headers).unwrap();
            assert_eq!(found.header.session_id, 9, "{pages:?}");
            assert_eq!(found.offset, pages[1] * PAGE, "{pages:?}");
            assert_eq!(found.len, (PAGES - pages[1]) * PAGE);
        }
    }

    #[test]
    fn a_copy_of_a_newer_session_is_not_chosen() {
        let headers = [(1, header(4, 1)), (3, header(9, 5))];
        assert_eq!(find("copy", &headers).unwrap().header.session_id, 4);
        let only = [(3, header(9, 5))];
        assert!(matches!(
            find("only-copy", &only),
            Err(Error::Copy { offset, .. }) if offset == 3 * PAGE
        ));
    }

    /// Memory that a guest has not touched is not read: it may be gigabytes, and a kernel records
    /// meanwhile.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_search_leaves_untouched_memory_alone() {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;
        use std::os::unix::fs::FileExt;
        const SIZE: u64 = 64 << 20;
        // A file with holes, and one whose room is reserved, as that of a machine's memory is.
        for reserved in [false, true] {
            let name = format!("kymo-locate-{}-{reserved}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let mut file = File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .open(&path)
                .unwrap();
            file.set_len(SIZE).unwrap();
            if reserved {
                match fallocate(&file, FallocateFlags::empty(), 0, SIZE) {
                    // Then the room of a machine's memory is not reserved either.
                    Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
                    other => other.unwrap(),
                }
            }
            let segment = Segment {
                offset: 0,
                len: SIZE,
                phys: Some(BASE),
            };
            let memory = Mapping::open(&path).unwrap();
            // One search after the other while the kernel boots.
            for _ in 0..8 {
                let found = region_mapped(&path, &[segment], &memory);
                assert!(matches!(found, Err(Error::None { .. })), "{found:?}");
            }
            let words = header(1, 5000).to_words();
            let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
            for page in [2, 5000, 9000] {
                file.write_all_at(&bytes, page * PAGE).unwrap();
            }
            for _ in 0..3 {
                let found = candidates(&mut file, &segment, Some(&memory)).unwrap();
                assert_eq!(found, [2 * PAGE, 5000 * PAGE, 9000 * PAGE]);
            }
            let mut data = 0;
            let mut at = 0;
            while let Some(extent) = next_data(&file, at, SIZE).unwrap() {
                data += extent.end - extent.start;
                at = extent.end;
            }
            // Pages of the file system may be larger.
            assert!(data <= SIZE / 4, "{data} bytes of {SIZE} are in the file");
            let found = region_mapped(&path, &[segment], &memory).unwrap();
            assert_eq!(found.offset, 5000 * PAGE);
            let read = candidates(&mut file, &segment, None).unwrap();
            assert_eq!(read, [2 * PAGE, 5000 * PAGE, 9000 * PAGE]);
            fs::remove_file(&path).unwrap();
        }
    }

    /// What is packed cannot be searched; memory that only begins like it can.
    #[test]
    fn a_packed_image_is_called_what_it_is() {
        let path = std::env::temp_dir().join(format!("kymo-locate-{}-packed", std::process::id()));
        for (magic, format, advice) in PACKED {
            let image = [magic, &[0; 60_000]].concat();
            fs::write(&path, image).unwrap();
            let error = region(&path, &segments(&path, None).unwrap()).unwrap_err();
            let said = error.to_string();
            assert!(said.contains(format) && said.ends_with(advice), "{said}");
        }
        fs::write(&path, b"KDU").unwrap();
        let error = region(&path, &segments(&path, None).unwrap()).unwrap_err();
        assert!(matches!(error, Error::None { .. }));
        fs::remove_file(&path).unwrap();
    }
}
