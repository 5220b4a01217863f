//! What a recording notes beside a trace, in a file that readers of CTF ignore because its name
//! begins with a dot: which kernel was booted, and which files a program that samples itself has
//! loaded.

use std::fs;
use std::path::{Path, PathBuf};

use kymo_ctf::Trace;
use kymo_symbols::Image;
use serde_json::{Value, json};

/// The note's name in a trace directory.
const NOTE: &str = ".kymo-images";

/// What the recording noted about an image.
#[derive(Clone, Debug)]
pub(crate) struct Noted {
    /// `kernel`, or a program's path in the traced system.
    pub(crate) name: String,
    /// The process that has loaded the file, its program or a library.
    pub(crate) process: Option<u64>,
    pub(crate) file: PathBuf,
    pub(crate) base: Option<u64>,
    /// Where its code was loaded, if the base is not known.
    pub(crate) code: Option<u64>,
    pub(crate) build_id: Option<String>,
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
pub(crate) fn noted(directory: &Path, trace: &Trace) -> Vec<Noted> {
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

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
