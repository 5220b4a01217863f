//! What a recording notes beside a trace, in a file that readers of CTF ignore because its name
//! begins with a dot: which kernel was booted, and which files a program that samples itself has
//! loaded.

use std::fs;
use std::path::{Path, PathBuf};

use kymo_ctf::Trace;
use kymo_profile::AddressSpace;
use kymo_symbols::Image;
use serde_json::{Value, json};

use crate::Error;

/// The note's name in a trace directory.
const NOTE: &str = ".kymo-images";

/// What the recording noted about an image.
#[derive(Clone, Debug)]
pub(crate) struct Noted {
    /// `kernel`, or a program's path in the traced system.
    pub(crate) name: String,
    /// The process that has loaded the file, its program or a library.
    pub(crate) process: Option<u64>,
    /// Which memory of the process; `None` if it had one only.
    pub(crate) space: Option<AddressSpace>,
    pub(crate) file: PathBuf,
    pub(crate) base: Option<u64>,
    /// Where its code was loaded, if the base is not known.
    pub(crate) code: Option<u64>,
    pub(crate) build_id: Option<String>,
}

impl Noted {
    /// Whether the file was loaded there.
    pub(crate) fn is_of(&self, space: AddressSpace) -> bool {
        self.process == Some(space.pid) && self.space.is_none_or(|of| of == space)
    }
}

/// Which build id a file had when it was loaded.
#[derive(Clone, Copy, Debug)]
pub enum HadBuildId<'a> {
    /// That of the file as it is: it was loaded just now.
    Same,
    /// This one, if it is known.
    Was(Option<&'a [u8]>),
}

/// Notes beside a new trace which files were loaded, with their build ids: each by its path in the
/// traced system, which is this one, and the build id that it had if that is known. Those that are
/// no ELF files are left out. `kernel` is a file in the trace's directory.
///
/// # Errors
/// If the note cannot be written. The trace is complete without it.
pub fn note_files<'p>(
    trace: &Path,
    kernel: Option<&str>,
    files: impl IntoIterator<Item = (&'p str, HadBuildId<'p>)>,
) -> std::io::Result<()> {
    let image = |(path, had): (&str, HadBuildId<'_>)| {
        let is_file = fs::metadata(path).is_ok_and(|of| of.is_file());
        let bytes = is_file.then(|| fs::read(path).ok()).flatten()?;
        let image = Image::parse(&bytes).ok()?;
        let build_id = match had {
            HadBuildId::Same => image.build_id(),
            HadBuildId::Was(known) => known,
        };
        let build_id = build_id.map(hex);
        Some(json!({ "name": path, "file": path, "build_id": build_id }))
    };
    let kernel = kernel.map(|file| json!({ "name": "kernel", "file": file, "build_id": null }));
    let files = files.into_iter().filter_map(image);
    let images: Vec<Value> = kernel.into_iter().chain(files).collect();
    let note = json!({ "images": images });
    let path = trace.join(NOTE);
    fs::write(&path, format!("{note}\n")).inspect_err(|_| drop(fs::remove_file(&path)))
}

/// Notes beside a new trace which kernel was recorded. A kernel that cannot be read is not noted.
///
/// # Errors
/// [`Error::NotText`]: the note is JSON, which has no other paths. The trace is complete without
/// it.
pub fn note_kernel(trace: &Path, kernel: &Path) -> Result<(), Error> {
    let Ok(path) = kernel.canonicalize() else {
        return Ok(());
    };
    let Some(file) = path.to_str() else {
        return Err(Error::NotText { path });
    };
    let bytes = fs::read(&path).unwrap_or_default();
    let image = Image::parse(&bytes).ok();
    let build_id = image.and_then(|image| image.build_id().map(hex));
    let note = json!({ "images": [{ "name": "kernel", "file": file, "build_id": build_id }] });
    // The trace is complete without the note.
    let _ = fs::write(trace.join(NOTE), format!("{note}\n"));
    Ok(())
}

/// The notes beside the trace and its parts, each once: a trace that is no tree is its own part. A
/// note that cannot be read is ignored.
pub(crate) fn noted(directory: &Path, trace: &Trace) -> Vec<Noted> {
    let parts = trace.parts().iter().map(|part| part.directory.as_path());
    let below = parts.filter(|part| *part != directory);
    let directories = [directory].into_iter().chain(below);
    let notes = directories.filter_map(|directory| {
        let text = fs::read_to_string(directory.join(NOTE)).ok()?;
        let note: Value = serde_json::from_str(&text).ok()?;
        let images = note.get("images")?.as_array()?.clone();
        Some(images.into_iter().filter_map(move |image| {
            let text = |key: &str| Some(image.get(key)?.as_str()?.to_owned());
            Some(Noted {
                name: text("name")?,
                process: image.get("process").and_then(Value::as_u64),
                space: None,
                // One that is in the trace's directory moves with it.
                file: directory.join(text("file")?),
                base: image.get("base").and_then(Value::as_u64),
                code: None,
                build_id: text("build_id"),
            })
        }))
    });
    notes.flatten().collect()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    /// A path may be any bytes.
    #[test]
    fn a_kernel_whose_path_is_not_text_is_not_noted() {
        let folder = std::env::temp_dir().join(format!("kymo-note-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let kernel = folder.join(OsStr::from_bytes(b"kernel-\xff"));
        fs::write(&kernel, "").unwrap();
        let refused = note_kernel(&folder, &kernel).unwrap_err().to_string();
        assert!(refused.contains("is not valid text"), "{refused}");
        assert!(!folder.join(NOTE).exists());
        fs::write(folder.join("kernel"), "").unwrap();
        note_kernel(&folder, &folder.join("kernel")).unwrap();
        assert!(folder.join(NOTE).exists());
        fs::remove_dir_all(folder).unwrap();
    }
}
