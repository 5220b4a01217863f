//! The files whose code the program runs: its own, and its shared libraries.
//!
//! A trace has addresses of code; to find functions there, its readers must know which file was
//! loaded where. The note [`NOTE`] in the trace directory tells them. Readers of CTF ignore it,
//! because its name begins with a dot.

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::fmt::Write as _;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// The note's name in a trace directory.
const NOTE: &str = ".kymo-images";

/// A file as it was loaded.
pub(crate) struct Image<'a> {
    /// Its path; empty for the program itself.
    path: &'a CStr,
    /// Where its lowest address is.
    base: usize,
    /// From its first code to the end of its last.
    pub(crate) code: Range<usize>,
    build_id: &'a [u8],
}

/// Shows all files that are loaded. `show` must not load or unload one.
pub(crate) fn for_each(mut show: impl FnMut(&Image<'_>)) {
    unsafe extern "C" fn each<F: FnMut(&Image<'_>)>(
        info: *mut libc::dl_phdr_info,
        _: usize,
        show: *mut c_void,
    ) -> c_int {
        // SAFETY: the linker shows a file that stays loaded meanwhile, and passes what was given
        // to it.
        unsafe {
            if let Some(image) = image(&*info) {
                (*show.cast::<F>())(&image);
            }
        }
        0
    }
    fn callback<F: FnMut(&Image<'_>)>(
        _: &F,
    ) -> unsafe extern "C" fn(*mut libc::dl_phdr_info, usize, *mut c_void) -> c_int {
        each::<F>
    }
    let each = callback(&show);
    // SAFETY: `each` takes a pointer to a function of that type.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut show).cast()) };
}

/// Reads a loaded file's headers. `None` for a file without code.
///
/// # Safety
/// The linker has loaded the file, and does not unload it meanwhile.
unsafe fn image(info: &libc::dl_phdr_info) -> Option<Image<'_>> {
    if info.dlpi_phdr.is_null() {
        return None;
    }
    let bias = info.dlpi_addr as usize;
    // SAFETY: as many headers stand there.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let range = |header: &libc::Elf64_Phdr| {
        let start = bias.wrapping_add(header.p_vaddr as usize);
        start..start.wrapping_add(header.p_memsz as usize)
    };
    let loaded = || {
        headers
            .iter()
            .filter(|header| header.p_type == libc::PT_LOAD)
    };
    let code = || {
        loaded()
            .filter(|header| header.p_flags & libc::PF_X != 0)
            .map(range)
    };
    let is_loaded = |note: &Range<usize>| {
        let mut parts = loaded().map(range);
        parts.any(|part| part.start <= note.start && note.end <= part.end)
    };
    let notes = headers
        .iter()
        .filter(|header| header.p_type == libc::PT_NOTE)
        .map(range)
        .filter(is_loaded);
    let build_id = notes.filter_map(|note| {
        // SAFETY: it is in a part that is loaded.
        let bytes: &[u8] = unsafe {
            std::slice::from_raw_parts(std::ptr::with_exposed_provenance(note.start), note.len())
        };
        build_id(bytes)
    });
    Some(Image {
        path: match info.dlpi_name.is_null() {
            true => c"",
            // SAFETY: a string of the linker's.
            false => unsafe { CStr::from_ptr(info.dlpi_name) },
        },
        base: loaded().map(|header| range(header).start).min()?,
        code: code().map(|code| code.start).min()?..code().map(|code| code.end).max()?,
        build_id: build_id.into_iter().next().unwrap_or(&[]),
    })
}

/// The GNU build id among the notes of an ELF file: each is three words (length of the name, length
/// of the contents, type), then both, padded to whole words.
fn build_id(mut notes: &[u8]) -> Option<&[u8]> {
    const BUILD_ID: u32 = 3;
    let padded = |len: u32| (len as usize).next_multiple_of(4);
    loop {
        let (words, rest) = notes.split_first_chunk::<12>()?;
        let [name, len, kind] = [0, 4, 8]
            .map(|at| u32::from_ne_bytes([words[at], words[at + 1], words[at + 2], words[at + 3]]));
        let (of, rest) = rest.split_at_checked(padded(name))?;
        if kind == BUILD_ID && of == b"GNU\0" {
            return rest.get(..len as usize);
        }
        notes = rest.get(padded(len)..)?;
    }
}

/// Notes beside a new trace which files are loaded. Files without a path, such as the code that the
/// system itself maps into the program, are not noted.
///
/// # Errors
/// Those of writing a file.
pub(crate) fn note(directory: &Path) -> std::io::Result<()> {
    let mut images = Vec::new();
    for_each(|image| {
        let path = match image.path.to_bytes() {
            // Noted as the first one also if its file is gone: the others are its libraries.
            b"" => std::env::current_exe()
                .map(|path| path.canonicalize().unwrap_or(path))
                .ok(),
            path => Path::new(OsStr::from_bytes(path)).canonicalize().ok(),
        };
        if let Some(path) = path {
            images.push(entry(&path, image));
        }
    });
    let text = format!("{{\"images\":[{}]}}\n", images.join(","));
    std::fs::write(directory.join(NOTE), text)
}

/// A file's entry in the note, as JSON.
fn entry(path: &Path, image: &Image<'_>) -> String {
    let (path, process) = (quoted(&path.to_string_lossy()), std::process::id());
    let build_id = image.build_id.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    let build_id = match image.build_id {
        [] => "null".to_owned(),
        _ => quoted(&build_id),
    };
    format!(
        "{{\"process\":{process},\"name\":{path},\"file\":{path},\"base\":{},\
         \"build_id\":{build_id}}}",
        image.base
    )
}

/// A text as JSON.
fn quoted(text: &str) -> String {
    let mut json = "\"".to_owned();
    for char in text.chars() {
        match char {
            '"' | '\\' => json.extend(['\\', char]),
            '\0'..=' ' if char != ' ' => _ = write!(json, "\\u{:04x}", char as u32),
            _ => json.push(char),
        }
    }
    json + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_searched_for_the_build_id() {
        let note = |name: &[u8], kind: u32, contents: &[u8]| {
            let mut bytes = Vec::new();
            for word in [name.len() as u32, contents.len() as u32, kind] {
                bytes.extend(word.to_ne_bytes());
            }
            for part in [name, contents] {
                bytes.extend(part);
                bytes.resize(bytes.len().next_multiple_of(4), 0);
            }
            bytes
        };
        let other = note(b"GNU\0", 1, &[1, 2, 3, 4, 5]);
        let id = note(b"GNU\0", 3, &[7, 8, 9]);
        let both = [other.clone(), note(b"stapsdt\0", 3, &[1]), id].concat();
        assert_eq!(build_id(&both), Some(&[7, 8, 9][..]));
        assert_eq!(build_id(&other), None);
        assert_eq!(build_id(&both[..both.len() - 4]), None, "cut off");
        assert_eq!(build_id(&[0xff; 64]), None);
    }

    #[test]
    fn paths_are_json() {
        assert_eq!(
            quoted("a\"b\\c\nd \u{e4}"),
            "\"a\\\"b\\\\c\\u000ad \u{e4}\""
        );
    }
}
