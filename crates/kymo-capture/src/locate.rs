//! Finding the region in a memory image.
//!
//! A region begins on a page with a magic number and a checksummed header that names its own
//! physical address: copies of it elsewhere in memory (a loader's buffer, an old dump that is being
//! looked at) are told apart by it wherever the image's base is known.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use kymo::ring::layout::{HEADER_WORDS, Header, REGION_ALIGN, Refusal, magic};
use object::endian::LittleEndian;
use object::read::elf::{FileHeader, ProgramHeader};

/// A stretch of physical memory in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where it begins in the file.
    pub offset: u64,
    /// How long it is.
    pub len: u64,
    /// Physical address of its first byte, where that is known.
    pub phys: Option<u64>,
}

/// A region that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where it begins in the file.
    pub offset: u64,
    /// Bytes from there to the end of its segment.
    pub len: u64,
    /// Its header.
    pub header: Header,
}

/// Why none was found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// No page begins with the magic number.
    #[error(
        "there is no Kymo region in {path}: give all of the memory of a machine whose kernel had \
         started its trace"
    )]
    None {
        /// The file.
        path: String,
    },
    /// There is one, but it cannot be read.
    #[error("the Kymo region in {path} at offset {offset:#x} cannot be read: {refusal}")]
    Refused {
        /// The file.
        path: String,
        /// Where it begins.
        offset: u64,
        /// Why not.
        refusal: Refusal,
    },
    /// Only copies were found.
    #[error(
        "what {path} holds at offset {offset:#x} is a copy of a Kymo region (it says that it \
         belongs at {phys:#x}): give the memory's base address with --base, or the whole memory"
    )]
    Copy {
        /// The file.
        path: String,
        /// Where the copy begins.
        offset: u64,
        /// Where it says that it belongs.
        phys: u64,
    },
}

impl Error {
    /// Always [`InvalidData`](io::ErrorKind::InvalidData): the memory is to blame.
    pub fn kind(&self) -> io::ErrorKind {
        io::ErrorKind::InvalidData
    }

    /// What can be done about it, as the rest of a sentence that begins with a verb; `None` where
    /// the message says it.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Error::Read { source, .. } => Some(to_read(
                source,
                "give a memory image: a RAM file, a raw dump or an ELF core",
            )),
            Error::Refused { refusal, .. } => match refusal {
                // They say it themselves.
                Refusal::Version(_) | Refusal::Incompatible(_) => None,
                Refusal::Forming => Some("take the memory later, when the kernel runs"),
                _ => Some("take the memory again, all of it, while the machine is stopped"),
            },
            _ => None,
        }
    }

    /// Whether waiting will not help: a region is there, made by another version.
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

/// What can be done about a file that cannot be read; `otherwise` where the right to read it is not
/// what lacks.
pub(crate) fn to_read(source: &io::Error, otherwise: &'static str) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => {
            "get the right to read it, or take a copy that you may read"
        }
        _ => otherwise,
    }
}

/// Physical memory begins at one of these on the machines that we know, if nobody says where.
const USUAL_BASES: [u64; 3] = [0, 0x4000_0000, 0x8000_0000];

/// The stretches of memory in a file: the segments of an ELF core (as QEMU's `dump-guest-memory`
/// writes it), else the whole file.
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

/// Looks for the region. Where several are good, the newest session is taken.
///
/// # Errors
/// Says what was found instead.
pub fn region(path: &Path, segments: &[Segment]) -> Result<Found, Error> {
    let read = |source| Error::Read {
        path: path.display().to_string(),
        source,
    };
    let mut file = File::open(path).map_err(read)?;
    let mut best: Option<Found> = None;
    let mut worse: Option<Error> = None;
    for segment in segments {
        for offset in candidates(&mut file, segment).map_err(read)? {
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
    best.ok_or_else(|| {
        worse.unwrap_or_else(|| Error::None {
            path: path.display().to_string(),
        })
    })
}

/// Pages of the segment that begin with the magic number.
fn candidates(file: &mut File, segment: &Segment) -> io::Result<Vec<u64>> {
    let magic = magic().to_le_bytes();
    let mut found = Vec::new();
    let mut chunk = vec![0; 256 * REGION_ALIGN];
    let end = segment.offset.saturating_add(segment.len);
    let mut at = segment.offset;
    while let Some(data) = next_data(file, at, end)? {
        // Down to a page of the segment.
        at = data - (data - segment.offset) % REGION_ALIGN as u64;
        let want = usize::try_from(end - at)
            .unwrap_or(usize::MAX)
            .min(chunk.len());
        let Some(chunk) = chunk.get_mut(..want) else {
            break;
        };
        file.seek(SeekFrom::Start(at))?;
        let got = read_up_to(file, chunk)?;
        for (page, bytes) in chunk.chunks(REGION_ALIGN).enumerate() {
            if bytes.starts_with(&magic) && page * REGION_ALIGN < got {
                found.push(at + (page * REGION_ALIGN) as u64);
            }
        }
        if got < want {
            break;
        }
        at += want as u64;
    }
    Ok(found)
}

/// The next byte from `at` on that is not in a hole of a sparse file. Reading a guest's untouched
/// memory would be slow, and fill it.
fn next_data(file: &File, at: u64, end: u64) -> io::Result<Option<u64>> {
    if at >= end {
        return Ok(None);
    }
    #[cfg(target_os = "linux")]
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
        Ok(data) => return Ok((data < end).then_some(data)),
        Err(rustix::io::Errno::NXIO) => return Ok(None),
        Err(_) => {}
    }
    let _ = file;
    Ok(Some(at))
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
