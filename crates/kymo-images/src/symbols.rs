//! Which files the command line gives.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use kymo_symbols::Image;

use crate::Error;
use crate::read::read_given;

/// The options of verbs that need symbols.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Symbols")]
pub struct Symbols {
    /// The kernel as linked, an ELF file; default: the one that was recorded, which kymo record
    /// has noted. ELF@ADDRESS if its lowest address was not loaded where it was linked.
    #[arg(long, value_name = "ELF[@ADDRESS]", value_parser = file)]
    pub(crate) kernel: Option<ElfFile>,
    /// The program of this path in the traced system, an ELF file; without PATH=, every program
    /// for which nothing else is given. May be repeated.
    #[arg(long, value_name = "[PATH=]ELF[@ADDRESS]", value_parser = program)]
    image: Vec<(Option<String>, ElfFile)>,
    /// A directory with the traced system's programs: /bin/sh is DIR/bin/sh or DIR/sh. May be
    /// repeated. Default: the folder KERNEL.programs beside the recorded kernel.
    #[arg(long, value_name = "DIR")]
    pub(crate) images: Vec<PathBuf>,
    /// Which inlined functions to show; default: own.
    #[arg(long, value_enum)]
    pub(crate) inlined: Option<Inlined>,
}

/// Inlined functions that are frames of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Inlined {
    /// The program's own: those of its language's library and of other packages count for the
    /// function that has them inlined.
    Own,
    /// All, as the debug information has them.
    All,
}

/// An ELF file, and where it was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ElfFile {
    pub(crate) path: PathBuf,
    /// Where its lowest address was loaded, if that is not where it was linked.
    pub(crate) base: Option<u64>,
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

impl Symbols {
    /// Symbols from the booted kernel's file, if that is an ELF file, besides the files that a
    /// trace has noted.
    pub fn of_kernel(path: &Path) -> Symbols {
        let bytes = fs::read(path).unwrap_or_default();
        let kernel = Image::parse(&bytes).ok().map(|_| ElfFile {
            path: path.to_owned(),
            base: None,
        });
        Symbols {
            kernel,
            ..Symbols::default()
        }
    }

    /// Refuses paths where nothing is, so that a mistyped one is reported even if the trace has no
    /// sample for which it would be read.
    ///
    /// # Errors
    /// [`Error::Unreadable`].
    pub fn check_files(&self) -> Result<(), Error> {
        let images = self.image.iter().map(|(_, file)| file);
        for file in self.kernel.iter().chain(images) {
            fs::metadata(&file.path).map_err(unreadable(&file.path, "an ELF file"))?;
        }
        for directory in &self.images {
            fs::read_dir(directory).map_err(unreadable(directory, "a directory of programs"))?;
        }
        Ok(())
    }

    /// Refuses what [`check_files`](Self::check_files) does, and files that are no ELF files: for a
    /// command that looks for functions only later, or perhaps never.
    ///
    /// # Errors
    /// [`Error::Unreadable`] and [`Error::Image`].
    pub fn check_images(&self) -> Result<(), Error> {
        self.check_files()?;
        let images = self.image.iter().map(|(_, file)| file);
        for file in self.kernel.iter().chain(images) {
            let bytes = read_given(file)?;
            Image::parse(&bytes).map_err(|source| Error::Image {
                path: file.path.clone(),
                source,
            })?;
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

    /// What the command line gives for one of these names, or for every program.
    pub(crate) fn given(&self, names: &[Option<&str>]) -> Option<&ElfFile> {
        let of = |name: &Option<&str>| {
            let mut images = self.image.iter();
            let found = images.find(|(of, _)| of.as_deref() == *name);
            found.map(|(_, file)| file)
        };
        names.iter().find_map(of)
    }

    /// Paths at which the directories of the command line may have a file of this name.
    pub(crate) fn in_directories(&self, name: &str) -> impl Iterator<Item = PathBuf> {
        let base = name.rsplit('/').next().unwrap_or(name).to_owned();
        let path = name.trim_start_matches('/').to_owned();
        let folders = self.images.iter();
        folders.flat_map(move |folder| [folder.join(&path), folder.join(&base)])
    }
}

/// The error about a path of the command line.
pub(crate) fn unreadable<'p>(
    path: &'p Path,
    instead: &'static str,
) -> impl FnOnce(io::Error) -> Error + use<'p> {
    move |source| Error::Unreadable {
        path: path.to_owned(),
        source,
        instead,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
