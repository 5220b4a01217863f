//! The files of images: where they are looked for, and what is read of them.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kymo_profile::{AddressSpace, Wanted};
use kymo_symbols::{Image, SplitFile};

use crate::note::{Noted, hex};
use crate::symbols::{ElfFile, unreadable};
use crate::{Error, Symbols};

/// An image that was read.
pub(crate) struct Read {
    pub(crate) of: Key,
    pub(crate) path: PathBuf,
    pub(crate) bytes: Arc<Vec<u8>>,
    pub(crate) base: Option<u64>,
    /// Where its code was loaded, if the base is not known.
    pub(crate) code: Option<u64>,
    /// The recorded build id.
    pub(crate) build_id: Option<String>,
    /// Whether it is a library of the program.
    pub(crate) is_library: bool,
}

/// For what an image was read: the program's path or process, with its memory; `None` for the
/// kernel.
pub(crate) type Key = (Option<String>, Option<AddressSpace>);

pub(crate) fn key(wanted: Wanted<'_>) -> Key {
    let space = match wanted {
        Wanted::Process { space, .. } => space,
        _ => None,
    };
    (program_of(wanted).map(str::to_owned), space)
}

/// Files that were read: processes share them.
#[derive(Default)]
pub(crate) struct Files {
    read: HashMap<PathBuf, Option<Arc<Vec<u8>>>>,
}

impl Files {
    /// The bytes of an ELF file; `None` if there is none at this path.
    pub(crate) fn elf(&mut self, path: &Path) -> Option<Arc<Vec<u8>>> {
        let read = || read_elf(path).map(Arc::new);
        let known = self.read.entry(path.to_owned());
        known.or_insert_with(read).clone()
    }
}

impl Symbols {
    /// The file with the symbols of one that was stripped, by its build id or by the link that is
    /// left in it: beside the file, in the directories of the command line, or where Linux has
    /// them.
    pub(crate) fn debug_file(&self, of: &Read) -> Option<Vec<u8>> {
        let image = Image::parse(&of.bytes).ok()?;
        if image.has_debug_info() {
            return None;
        }
        let system = Path::new("/usr/lib/debug");
        let beside = of.path.parent().unwrap_or(Path::new(""));
        let folders = || self.images.iter().map(PathBuf::as_path).chain([system]);
        let mut paths = Vec::new();
        let build_id = image.build_id().map(hex);
        if let Some((first, rest)) = build_id.as_deref().and_then(|id| id.split_at_checked(2)) {
            let path = format!(".build-id/{first}/{rest}.debug");
            let inside = folders().flat_map(|of| [of.join("usr/lib/debug"), of.to_owned()]);
            paths.extend(inside.map(|folder| folder.join(&path)));
        }
        let link = image.debug_link();
        // Only the name: a path could lead anywhere.
        if let Some(name) = link
            .as_ref()
            .and_then(|(name, _)| Path::new(&**name).file_name())
        {
            paths.extend([beside.join(name), beside.join(".debug").join(name)]);
            paths.extend(folders().map(|folder| folder.join(name)));
        }
        paths.into_iter().find_map(|path| {
            let bytes = read_elf(&path)?;
            let found = Image::parse(&bytes).ok()?;
            let same_id = build_id.is_some() && found.build_id().map(hex) == build_id;
            let is_linked = || link.as_ref().is_some_and(|(_, sum)| *sum == crc32(&bytes));
            (found.has_names() && (same_id || is_linked())).then_some(bytes)
        })
    }

    /// A file with a part of an image's debug information: beside the image, in the directories of
    /// the command line, or where the compiler wrote it. The reader compares its number.
    pub(crate) fn split_file(&self, image: &Path, of: &SplitFile) -> Option<Vec<u8>> {
        let beside = image.parent().unwrap_or(Path::new(""));
        let paths = match of {
            SplitFile::Package => {
                let mut path = image.as_os_str().to_owned();
                path.push(".dwp");
                vec![PathBuf::from(path)]
            }
            SplitFile::Unit { directory, path } => {
                let name = Path::new(path).file_name()?;
                let folders = [beside].into_iter();
                let folders = folders.chain(self.images.iter().map(PathBuf::as_path));
                let near = folders.flat_map(|folder| [folder.join(path), folder.join(name)]);
                near.chain([Path::new(directory).join(path)]).collect()
            }
        };
        let mut files = paths.iter();
        files.find_map(|path| {
            let is_file = fs::metadata(path).is_ok_and(|of| of.is_file());
            is_file.then(|| fs::read(path).ok()).flatten()
        })
    }

    /// Reads the files that a process has noted: its program, then its libraries. `name` is the
    /// name of the process, if it has one. A file that cannot be read gives its note.
    pub(crate) fn loaded_by<'n>(
        &self,
        name: Option<&str>,
        space: AddressSpace,
        noted: &'n [Noted],
        known: &mut Files,
    ) -> Result<Vec<Result<Read, &'n Noted>>, Error> {
        let mut files = Vec::new();
        let of_process = noted.iter().filter(|note| note.is_of(space));
        for (place, note) in of_process.enumerate() {
            let names = [Some(&*note.name), name, None];
            let given = match place {
                0 => self.given(&names),
                _ => self.given(&names[..1]),
            };
            let found = match given {
                Some(file) => Some((file.path.clone(), Arc::new(read_given(file)?))),
                None => {
                    let mut paths = self.in_directories(&note.name).chain([note.file.clone()]);
                    paths.find_map(|path| known.elf(&path).map(|bytes| (path, bytes)))
                }
            };
            files.push(found.ok_or(note).map(|(path, bytes)| Read {
                of: (name.map(str::to_owned), Some(space)),
                path,
                bytes,
                base: given.and_then(|file| file.base).or(note.base),
                code: note.code,
                build_id: note.build_id.clone(),
                is_library: place > 0,
            }));
        }
        Ok(files)
    }

    /// Reads the file for an image, if there is one.
    pub(crate) fn read(
        &self,
        wanted: Wanted<'_>,
        noted: &[Noted],
        say: &mut dyn FnMut(String),
    ) -> Result<Option<Read>, Error> {
        let name = program_of(wanted);
        let note = noted
            .iter()
            .find(|note| note.name == name.unwrap_or("kernel"));
        let build_id = note.and_then(|note| note.build_id.clone());
        let given = match name {
            None => self.kernel.as_ref(),
            Some(name) => self.given(&[Some(name), None]),
        };
        let read = |path: &Path, base, bytes| Read {
            of: key(wanted),
            path: path.to_owned(),
            bytes: Arc::new(bytes),
            base,
            code: None,
            build_id: build_id.clone(),
            is_library: false,
        };
        if let Some(file) = given {
            let bytes = read_given(file)?;
            return Ok(Some(read(&file.path, file.base, bytes)));
        }
        let in_directories = self.in_directories(name.unwrap_or("kernel"));
        // A kernel that carries its programs has their files beside it.
        let beside = noted.iter().find(|note| note.name == "kernel").zip(name);
        let beside = beside.map(|(kernel, name)| {
            let mut folder = kernel.file.clone().into_os_string();
            folder.push(".programs");
            PathBuf::from(folder).join(name.rsplit('/').next().unwrap_or(name))
        });
        let there = in_directories.chain(beside).map(|path| (path, None));
        let there = there.chain(note.map(|note| (note.file.clone(), note.base)));
        for (path, base) in there {
            if let Some(bytes) = read_elf(&path) {
                return Ok(Some(read(&path, base, bytes)));
            }
        }
        if let Some(note) = note {
            say(gone(note));
        }
        Ok(None)
    }
}

/// The checksum of a file to which another one links (CRC-32, reflected, as in gzip).
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| (crc >> 1) ^ (0xedb8_8320 & 0_u32.wrapping_sub(crc & 1));
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc))
    })
}

/// Reads a file that the command line names.
pub(crate) fn read_given(file: &ElfFile) -> Result<Vec<u8>, Error> {
    fs::read(&file.path).map_err(unreadable(&file.path, "an ELF file"))
}

/// Says that a file that was noted is not there.
pub(crate) fn gone(note: &Noted) -> String {
    format!(
        "{} was recorded, and cannot be read now.",
        note.file.display()
    )
}

/// Reads an ELF file that may not exist. Only regular files are read: a device might never end.
fn read_elf(path: &Path) -> Option<Vec<u8>> {
    let is_file = fs::metadata(path).is_ok_and(|of| of.is_file());
    let bytes = is_file.then(|| fs::read(path).ok()).flatten()?;
    Image::parse(&bytes).is_ok().then_some(bytes)
}

/// The path or the process of a wanted program; `None` for the kernel.
fn program_of<'a>(wanted: Wanted<'a>) -> Option<&'a str> {
    match wanted {
        Wanted::Kernel => None,
        Wanted::Program(name) | Wanted::Process { name, .. } => Some(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value that descriptions of the checksum give.
    #[test]
    fn the_checksum_is_that_of_gzip() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }
}
