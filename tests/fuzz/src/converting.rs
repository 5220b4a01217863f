//! Converts a trace, and compares the result with the source.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use kymo_ctf::{Extent, Format, Keep, Trace, WriteError};

use crate::same;

/// Converts to both versions of the format: events and counts of losses are kept, and another
/// conversion changes nothing.
pub(crate) fn convert(folder: &Path, metadata: &[u8], stream: &[u8]) {
    let at = |name: &str| folder.join(name);
    let source = at("in");
    fs::create_dir_all(&source).unwrap();
    fs::write(source.join("metadata"), metadata).unwrap();
    fs::write(source.join("s"), stream).unwrap();
    if Trace::open(&source).is_err() {
        return;
    }
    let read = same::read(&source).with_untimed_losses();
    for (name, format) in [("1.8", Format::Ctf18), ("2", Format::Ctf2)] {
        if !whole(&source, &at(name), format) {
            continue;
        }
        let expected = if format == Format::Ctf18 {
            read.lowered()
        } else {
            read.clone()
        };
        if let Some(difference) = expected.differs(&same::read(&at(name))) {
            panic!("to CTF {name}: {difference}");
        }
        assert!(
            whole(&at(name), &at("again"), format),
            "to CTF {name}: what was converted can be converted"
        );
        assert!(
            files(&at(name)) == files(&at("again")),
            "to CTF {name}: converted again, it changes"
        );
    }
}

/// Converts a trace; returns `false` if it is refused because the result would exceed the field
/// limit or needs integers that CTF 1.8 does not have.
fn whole(from: &Path, to: &Path, format: Format) -> bool {
    if to.exists() {
        fs::remove_dir_all(to).unwrap();
    }
    fs::create_dir(to).unwrap();
    match kymo_ctf::convert(
        &Trace::open(from).unwrap(),
        to,
        format,
        Extent::Whole,
        |_| Keep::Take,
    ) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(files(to).len(), 0, "nothing is left of what was refused");
            let no_class = format == Format::Ctf18 && matches!(error, WriteError::Wide { .. });
            let error = error.to_string();
            assert!(no_class || error.contains("are supported"), "{error}");
            false
        }
    }
}

/// All files of a folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = PathBuf::from(path.file_name().unwrap());
        if path.is_dir() {
            all.extend(
                files(&path)
                    .into_iter()
                    .map(|(inner, bytes)| (name.join(inner), bytes)),
            );
        } else {
            all.insert(name, fs::read(&path).unwrap());
        }
    }
    all
}
