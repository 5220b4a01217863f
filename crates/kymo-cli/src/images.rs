//! The ELF files of the kernel and the programs of a trace.
//!
//! `kymo record` notes beside the trace which kernel it booted, in a file that readers of CTF
//! ignore because its name begins with a dot. A program that samples itself notes which files it
//! has loaded, and where. What the command line gives comes first.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::ValueEnum;
use kymo::event::Event;
use kymo::vocabulary::{MAX_CALLERS, StackCopy};
use kymo_ctf::Trace;
use kymo_profile::{Chains, Coverage, Loaded, LoadedFile, Profile, Unwind, Wanted};
use kymo_symbols::{Image, SplitFile, Unwinder};
use serde_json::{Value, json};

use crate::exit::BadInput;
use crate::summary::{count, thousands};

/// The note's name in a trace directory.
const NOTE: &str = ".kymo-images";
/// Most programs that a message names.
const MOST_NAMES: usize = 3;

/// The options of verbs that need symbols.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Symbols")]
pub struct Symbols {
    /// The kernel as linked, an ELF file; default: the one that was recorded, which kymo record
    /// has noted. ELF@ADDRESS if its lowest address was not loaded where it was linked.
    #[arg(long, value_name = "ELF[@ADDRESS]", value_parser = file)]
    kernel: Option<ElfFile>,
    /// The program of this path in the traced system, an ELF file; without PATH=, every program
    /// for which nothing else is given. May be repeated.
    #[arg(long, value_name = "[PATH=]ELF[@ADDRESS]", value_parser = program)]
    image: Vec<(Option<String>, ElfFile)>,
    /// A directory with the traced system's programs: /bin/sh is DIR/bin/sh or DIR/sh. May be
    /// repeated. Default: the folder KERNEL.programs beside the recorded kernel.
    #[arg(long, value_name = "DIR")]
    images: Vec<PathBuf>,
    /// Which inlined functions to show; default: own.
    #[arg(long, value_enum)]
    inlined: Option<Inlined>,
}

/// Inlined functions that are frames of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Inlined {
    /// The program's own: those of its language's library and of other packages count for the
    /// function that has them inlined.
    Own,
    /// All, as the debug information has them.
    All,
}

/// An ELF file, and where it was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ElfFile {
    path: PathBuf,
    /// Where its lowest address was loaded, if that is not where it was linked.
    base: Option<u64>,
}

fn file(text: &str) -> Result<ElfFile, String> {
    let (path, base) = match text.rsplit_once('@') {
        Some((path, address)) if address.starts_with("0x") => {
            let digits = address.strip_prefix("0x").unwrap_or_default();
            let base = u64::from_str_radix(&digits.replace('_', ""), 16);
            let base = base.map_err(|_| "expected an address such as @0xffffffff80000000")?;
            (path, Some(base))
        }
        _ => (text, None),
    };
    Ok(ElfFile {
        path: PathBuf::from(path),
        base,
    })
}

fn program(text: &str) -> Result<(Option<String>, ElfFile), String> {
    match text.split_once('=') {
        Some((path, elf)) => Ok((Some(path.to_owned()), file(elf)?)),
        None => Ok((None, file(text)?)),
    }
}

/// What the recording noted about an image.
#[derive(Clone, Debug)]
struct Noted {
    /// `kernel`, or a program's path in the traced system.
    name: String,
    /// The process that has loaded the file, its program or a library.
    process: Option<u64>,
    file: PathBuf,
    base: Option<u64>,
    /// Where its code was loaded, if the base is not known.
    code: Option<u64>,
    build_id: Option<String>,
}

/// Notes beside a new trace which kernel was recorded. A kernel that cannot be read is not noted.
pub fn note_kernel(trace: &Path, kernel: &Path) {
    let Ok(path) = kernel.canonicalize() else {
        return;
    };
    let bytes = fs::read(&path).unwrap_or_default();
    let image = Image::parse(&bytes).ok();
    let build_id = image.and_then(|image| image.build_id().map(hex));
    let note = json!({ "images": [{ "name": "kernel", "file": path, "build_id": build_id }] });
    // The trace is complete without the note.
    let _ = fs::write(trace.join(NOTE), format!("{note}\n"));
}

/// The notes beside the trace and its parts. A note that cannot be read is ignored.
fn noted(directory: &Path, trace: &Trace) -> Vec<Noted> {
    let parts = trace.parts().iter().map(|part| part.directory.as_path());
    let directories = [directory].into_iter().chain(parts);
    let notes = directories.filter_map(|directory| {
        let text = fs::read_to_string(directory.join(NOTE)).ok()?;
        let note: Value = serde_json::from_str(&text).ok()?;
        let images = note.get("images")?.as_array()?.clone();
        Some(images.into_iter().filter_map(|image| {
            let text = |key: &str| Some(image.get(key)?.as_str()?.to_owned());
            Some(Noted {
                name: text("name")?,
                process: image.get("process").and_then(Value::as_u64),
                file: PathBuf::from(text("file")?),
                base: image.get("base").and_then(Value::as_u64),
                code: None,
                build_id: text("build_id"),
            })
        }))
    });
    notes.flatten().collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An image that was read.
struct Read {
    of: Key,
    path: PathBuf,
    bytes: Vec<u8>,
    base: Option<u64>,
    /// Where its code was loaded, if the base is not known.
    code: Option<u64>,
    /// The recorded build id.
    build_id: Option<String>,
    /// Whether it is a library of the program.
    is_library: bool,
}

/// For what an image was read: the program's path or process, with its number; `None` for the
/// kernel.
type Key = (Option<String>, Option<u64>);

fn key(wanted: Wanted<'_>) -> Key {
    let pid = match wanted {
        Wanted::Process { pid, .. } => pid,
        _ => None,
    };
    (program_of(wanted).map(str::to_owned), pid)
}

/// The files of programs that have sampled themselves, for the callers of samples whose stacks were
/// copied.
#[derive(Default)]
pub struct StackFiles {
    /// The process, and the file's bytes and lowest address.
    files: Vec<(u64, Vec<u8>, Option<u64>)>,
}

impl StackFiles {
    /// The files that are noted beside the trace, if their build ids are those of the note.
    ///
    /// # Errors
    /// [`BadInput`] if a file that the command line names cannot be used.
    pub fn of(symbols: &Symbols, directory: &Path, trace: &Trace) -> anyhow::Result<StackFiles> {
        let has_stacks = trace.parts().iter().any(|part| {
            let mut classes = part
                .metadata
                .streams()
                .flat_map(|stream| stream.events.values());
            classes.any(|class| &*class.name == StackCopy::SCHEMA.name)
        });
        let noted = match has_stacks {
            true => noted(directory, trace),
            false => Vec::new(),
        };
        let pids: BTreeSet<u64> = noted.iter().filter_map(|note| note.process).collect();
        let mut files = Vec::new();
        for pid in pids {
            for read in symbols.loaded_by(None, pid, &noted)?.into_iter().flatten() {
                let found = Image::parse(&read.bytes)
                    .ok()
                    .map(|image| image.build_id().map(hex));
                if found == Some(read.build_id) {
                    files.push((pid, read.bytes, read.base));
                }
            }
        }
        Ok(StackFiles { files })
    }

    /// Finds callers; `None` if there are no files.
    pub fn unwind(&self) -> Option<Box<Unwind<'_>>> {
        let mut unwinders: BTreeMap<u64, Unwinder<'_>> = BTreeMap::new();
        let pids: BTreeSet<u64> = self.files.iter().map(|(pid, _, _)| *pid).collect();
        for pid in pids {
            let own = self.files.iter().filter(|(of, _, _)| *of == pid);
            let images: Vec<_> = own
                .filter_map(|(_, bytes, base)| Some((Image::parse(bytes).ok()?, *base)))
                .collect();
            let loaded = images.iter().map(|(image, base)| Loaded {
                image,
                bias: base.unwrap_or(image.base()).wrapping_sub(image.base()),
            });
            unwinders.insert(pid, Unwinder::new(loaded));
        }
        if unwinders.is_empty() {
            return None;
        }
        Some(Box::new(move |pid, registers, stack| {
            let unwinder = unwinders.get_mut(&pid)?;
            Some(unwinder.callers(registers, stack, MAX_CALLERS))
        }))
    }
}

impl Symbols {
    /// Refuses paths where nothing is, so that a mistyped one is reported even if the trace has no
    /// sample for which it would be read.
    ///
    /// # Errors
    /// [`BadInput`].
    pub fn check_files(&self) -> Result<(), BadInput> {
        let images = self.image.iter().map(|(_, file)| file);
        for file in self.kernel.iter().chain(images) {
            fs::metadata(&file.path)
                .map_err(|error| unreadable(&file.path, &error, "an ELF file"))?;
        }
        for directory in &self.images {
            fs::read_dir(directory)
                .map_err(|error| unreadable(directory, &error, "a directory of programs"))?;
        }
        Ok(())
    }

    /// Whether the command line has any of the options.
    pub fn is_given(&self) -> bool {
        self.inlined.is_some()
            || self.kernel.is_some()
            || !self.image.is_empty()
            || !self.images.is_empty()
    }

    /// Looks up the functions of all chains, and says which images are missing or wrong.
    ///
    /// # Errors
    /// [`BadInput`] if a file that the command line names cannot be used.
    pub fn symbolize(
        &self,
        chains: Chains,
        directory: &Path,
        trace: &Trace,
    ) -> anyhow::Result<Profile> {
        let (profile, sentences) = self.look_up(chains, directory, trace)?;
        for sentence in sentences {
            message!("kymo: {sentence}");
        }
        Ok(profile)
    }

    /// Looks up the functions of all chains. The sentences say which images are missing or wrong.
    ///
    /// # Errors
    /// [`BadInput`] if a file that the command line names cannot be used.
    pub fn look_up(
        &self,
        chains: Chains,
        directory: &Path,
        trace: &Trace,
    ) -> anyhow::Result<(Profile, Vec<String>)> {
        let mut said = Vec::new();
        let mut noted = noted(directory, trace);
        for (pid, mappings) in chains.mappings() {
            noted.extend(mappings.iter().map(|mapping| Noted {
                name: mapping.path.to_string(),
                process: Some(*pid),
                // Whether this machine's file is the traced one's is not known.
                file: PathBuf::new(),
                base: mapping.is_base.then_some(mapping.begin),
                code: (!mapping.is_base).then_some(mapping.begin),
                build_id: None,
            }));
        }
        let mut read = Vec::new();
        for wanted in chains.wanted() {
            match wanted {
                Wanted::Process {
                    name,
                    pid: Some(pid),
                } if noted.iter().any(|note| note.process == Some(pid)) => {
                    let files = self.loaded_by(Some(name), pid, &noted)?;
                    read.extend(files.into_iter().filter_map(|file| {
                        let is_recorded = |note: &Noted| !note.file.as_os_str().is_empty();
                        file.inspect_err(|note| {
                            if is_recorded(note) {
                                said.push(unreadable_now(note));
                            }
                        })
                        .ok()
                    }));
                }
                _ => read.extend(self.read(wanted, &noted, &mut said)?),
            }
        }
        for file in &mut read {
            if let Some(bytes) = self.debug_file(file) {
                file.bytes = bytes;
            }
        }
        let split_files: Vec<_> = read
            .iter()
            .map(|file| |of: &SplitFile| self.split_file(&file.path, of))
            .collect();
        let mut images = Vec::new();
        for (file, split_files) in read.iter().zip(&split_files) {
            let image = Image::parse(&file.bytes)
                .with_context(|| format!("cannot read {}", file.path.display()))?
                .with_split_files(split_files);
            let found = image.build_id().map(hex);
            if let (Some(recorded), Some(found)) = (&file.build_id, &found)
                && recorded != found
            {
                said.push(format!(
                    "{} is not what was recorded: its build id is {found}, and that of the trace \
                     {recorded}; names may be wrong. Give the right file with --kernel or --image.",
                    file.path.display()
                ));
            }
            images.push((image, file.path.display().to_string()));
        }
        let profile = chains.symbolize(|wanted| {
            let wanted = key(wanted);
            let files = read.iter().zip(&images);
            let meant = files.filter(|(file, _)| file.of == wanted);
            let loaded = meant.map(|(file, (image, path))| {
                let of_code = file.code.map(|code| code.wrapping_sub(image.code_offset()));
                let base = file.base.or(of_code).unwrap_or(image.base());
                let bias = base.wrapping_sub(image.base());
                LoadedFile {
                    loaded: Loaded { image, bias },
                    library: file.is_library.then_some(&**path),
                }
            });
            loaded.collect::<Vec<_>>()
        });
        said.extend(missing(&profile));
        let profile = match self.inlined {
            Some(Inlined::All) => profile,
            Some(Inlined::Own) | None => profile.without_inlined_libraries(),
        };
        Ok((profile, said))
    }

    /// The file with the symbols of one that was stripped, by its build id or by the link that is
    /// left in it: beside the file, in the directories of the command line, or where Linux has
    /// them.
    fn debug_file(&self, of: &Read) -> Option<Vec<u8>> {
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
    fn split_file(&self, image: &Path, of: &SplitFile) -> Option<Vec<u8>> {
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

    /// What the command line gives for one of these names, or for every program.
    fn given(&self, names: &[Option<&str>]) -> Option<&ElfFile> {
        let of = |name: &Option<&str>| {
            let mut images = self.image.iter();
            let found = images.find(|(of, _)| of.as_deref() == *name);
            found.map(|(_, file)| file)
        };
        names.iter().find_map(of)
    }

    /// Paths at which the directories of the command line may have a file of this name.
    fn in_directories(&self, name: &str) -> impl Iterator<Item = PathBuf> {
        let base = name.rsplit('/').next().unwrap_or(name).to_owned();
        let path = name.trim_start_matches('/').to_owned();
        let folders = self.images.iter();
        folders.flat_map(move |folder| [folder.join(&path), folder.join(&base)])
    }

    /// Reads the files that a process has noted: its program, then its libraries. `name` is the
    /// name of the process, if it has one. A file that cannot be read gives its note.
    fn loaded_by<'n>(
        &self,
        name: Option<&str>,
        pid: u64,
        noted: &'n [Noted],
    ) -> anyhow::Result<Vec<Result<Read, &'n Noted>>> {
        let mut files = Vec::new();
        let of_process = noted.iter().filter(|note| note.process == Some(pid));
        for (place, note) in of_process.enumerate() {
            let names = [Some(&*note.name), name, None];
            let given = match place {
                0 => self.given(&names),
                _ => self.given(&names[..1]),
            };
            let found = match given {
                Some(file) => Some((file.path.clone(), read_given(file)?)),
                None => {
                    let mut paths = self.in_directories(&note.name).chain([note.file.clone()]);
                    paths.find_map(|path| read_elf(&path).map(|bytes| (path, bytes)))
                }
            };
            files.push(found.ok_or(note).map(|(path, bytes)| Read {
                of: (name.map(str::to_owned), Some(pid)),
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

    /// Reads the file for an image, if there is one. `said` gets a sentence about one that is gone.
    fn read(
        &self,
        wanted: Wanted<'_>,
        noted: &[Noted],
        said: &mut Vec<String>,
    ) -> anyhow::Result<Option<Read>> {
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
            bytes,
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
            said.push(unreadable_now(note));
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

fn unreadable_now(note: &Noted) -> String {
    let file = note.file.display();
    format!("{file} was recorded, and cannot be read now.")
}

/// Reads a file that the command line names.
fn read_given(file: &ElfFile) -> Result<Vec<u8>, BadInput> {
    fs::read(&file.path).map_err(|error| unreadable(&file.path, &error, "an ELF file"))
}

fn unreadable(path: &Path, error: &std::io::Error, instead: &str) -> BadInput {
    BadInput(format!(
        "cannot read {}: {error}; give {instead}",
        path.display()
    ))
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

/// Whose functions are shown as addresses, and which debug information is damaged: sentences.
fn missing(profile: &Profile) -> Vec<String> {
    let mut all = Vec::new();
    let missing = || profile.images.iter().filter(|image| !image.has_file);
    if missing().any(|image| image.is_kernel) {
        all.push(
            "functions of the kernel are shown as addresses; give the kernel with --kernel ELF."
                .to_owned(),
        );
    }
    let programs: Vec<&str> = missing()
        .filter(|image| !image.is_kernel)
        .map(|image| &*image.name)
        .collect();
    if !programs.is_empty() {
        let shown = programs.iter().take(MOST_NAMES).copied();
        let more = match programs.len() > MOST_NAMES {
            true => ", ...",
            false => "",
        };
        all.push(format!(
            "functions of {} ({}{more}) are shown as addresses; give their directory with \
             --images DIR.",
            count(programs.len() as u64, "program", "programs"),
            shown.collect::<Vec<_>>().join(", ")
        ));
    }
    for image in &profile.images {
        if let Some(why) = few_names(&image.coverage) {
            let Coverage {
                addresses, unnamed, ..
            } = image.coverage;
            all.push(format!(
                "{} of {} in {} {} no name: {why}.",
                thousands(unnamed),
                count(addresses, "address", "addresses"),
                image.name,
                if unnamed == 1 { "has" } else { "have" }
            ));
        }
        if let Some(damage) = &image.damage {
            all.push(format!(
                "the debug information of {} cannot be read to its end: {damage}; some lines and \
                 inlined functions are missing.",
                image.name
            ));
        }
    }
    all
}

/// Why more than half of the addresses of an image got no name, though its file is there.
fn few_names(coverage: &Coverage) -> Option<&'static str> {
    let is_most = |part: u64| part > coverage.addresses / 2;
    if !is_most(coverage.unnamed) {
        None
    } else if !coverage.has_names {
        Some("its file has no symbols; give the one that was not stripped")
    } else if is_most(coverage.outside) {
        Some(
            "they are outside of its file; if that was not loaded where it was linked, give \
             ELF@ADDRESS, and for libraries --images DIR",
        )
    } else {
        Some("its file has symbols for other code only")
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

    #[test]
    fn files_have_paths_and_addresses() {
        let elf = |path: &str, base| ElfFile {
            path: path.into(),
            base,
        };
        assert_eq!(file("a/kernel"), Ok(elf("a/kernel", None)));
        assert_eq!(file("k@0x8000_0000"), Ok(elf("k", Some(0x8000_0000))));
        assert_eq!(file("a@b"), Ok(elf("a@b", None)));
        assert!(file("k@0xg").is_err());
        assert_eq!(
            program("/bin/sh=sh.elf@0x10"),
            Ok((Some("/bin/sh".to_owned()), elf("sh.elf", Some(0x10))))
        );
        assert_eq!(program("sh.elf"), Ok((None, elf("sh.elf", None))));
    }
}
