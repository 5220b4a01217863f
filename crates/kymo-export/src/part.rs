//! Files that get their names when they are complete: an interrupted export leaves no file that
//! looks like a whole one.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::Error;

/// Bytes that are written at once.
const BUFFER: usize = 1 << 18;

/// A file that is written as `NAME.part`.
#[derive(Debug)]
pub(crate) struct PartFile {
    path: PathBuf,
    /// `None` for a device, a pipe or the standard output, which is written in place.
    part: Option<PathBuf>,
}

impl PartFile {
    pub(crate) fn new(path: &Path) -> PartFile {
        // A link is followed, so that it stays one.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let in_place = fs::metadata(&path).is_ok_and(|there| !there.is_file());
        let part = (!in_place).then(|| {
            let mut part = path.clone().into_os_string();
            part.push(".part");
            part.into()
        });
        PartFile { path, part }
    }

    /// What stands for the standard output, in errors too.
    pub(crate) fn standard_output() -> PartFile {
        PartFile {
            path: PathBuf::from("the standard output"),
            part: None,
        }
    }

    /// Where the file goes.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where it is written.
    pub(crate) fn written(&self) -> &Path {
        self.part.as_deref().unwrap_or(&self.path)
    }

    /// Gives the file its name.
    pub(crate) fn complete(&self) -> Result<(), Error> {
        match &self.part {
            Some(part) => fs::rename(part, &self.path).map_err(Error::write(&self.path)),
            None => Ok(()),
        }
    }

    /// Removes what was written.
    pub(crate) fn discard(&self) {
        if let Some(part) = &self.part {
            let _ = fs::remove_file(part);
        }
    }
}

/// Writes a file, which gets its name when it is complete; a device or a pipe is written in place.
///
/// # Errors
/// [`Error::Write`]; what was written is removed then.
pub fn write_file(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Error> {
    let file = PartFile::new(path);
    // What could not be created is not this call's to remove.
    let created = File::create(file.written()).map_err(Error::write(path))?;
    let mut out = BufWriter::with_capacity(BUFFER, created);
    match fill(&mut out).and_then(|()| out.flush()) {
        Ok(()) => file.complete(),
        Err(error) => {
            file.discard();
            Err(Error::write(path)(error))
        }
    }
}
