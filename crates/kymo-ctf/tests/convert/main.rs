//! Traces written anew: the same events, in a form that every reader takes.
//!
//! What CTF 1.8 does not have is compared as what it becomes there ([`same::lowered`]); nothing else may change.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../conformance/case.rs"]
#[allow(dead_code, reason = "the cases' expectations are for another test")]
mod case;
mod same;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use kymo_ctf::{Converted, Format, Keep, Trace, convert};
use same::read;

/// Where the conformance set is.
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");
const STREAMS: [&str; 3] = ["streams/fields", "streams/records", "streams/ctf-2"];

/// A folder that is taken away at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("kymo-convert-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn write(folder: &Path, metadata: &[u8], streams: &[(String, Vec<u8>)]) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("metadata"), metadata).unwrap();
    for (name, bytes) in streams {
        fs::write(folder.join(name), bytes).unwrap();
    }
}

/// All of it.
fn whole(from: &Path, to: &Path, format: Format) -> Converted {
    fs::create_dir_all(to).unwrap();
    convert(&Trace::open(from).unwrap(), to, format, false, |_| Keep::Take).unwrap_or_else(|error| panic!("{error}"))
}

/// All files of a folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            all.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    all
}

fn bytes(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    files(folder).into_iter().map(|(path, bytes)| (path.strip_prefix(folder).unwrap().to_owned(), bytes)).collect()
}

/// The cases that can be read, each with each of its metadata.
fn cases() -> Vec<(String, Vec<u8>, Vec<(String, Vec<u8>)>)> {
    let mut all = Vec::new();
    for case in case::read(&STREAMS) {
        for title in ["metadata", "metadata 2"] {
            if let Some(metadata) = case.metadata(title).filter(|metadata| kymo_ctf::Metadata::from_bytes(metadata).is_ok()) {
                all.push((format!("{} by {title}", case.name), metadata, case.streams()));
            }
        }
    }
    assert!(all.len() >= 130, "only {} cases", all.len());
    all
}

#[test]
fn every_stream_of_the_conformance_set_stays_what_it_is() {
    let folder = Folder::new("set");
    let mut wrong = Vec::new();
    for (number, (name, metadata, streams)) in cases().into_iter().enumerate() {
        let at = |what: &str| folder.join(&format!("{number}-{what}"));
        write(&at("in"), &metadata, &streams);
        let source = read(&at("in"));
        for (what, format) in [("1.8", Format::Ctf18), ("2", Format::Ctf2)] {
            whole(&at("in"), &at(what), format);
            let expected = if format == Format::Ctf18 { source.lowered() } else { source.clone() };
            if let Some(difference) = expected.differs(&read(&at(what))) {
                wrong.push(format!("{name} to {what}: {difference}"));
            }
            // What was converted is as it should be already.
            let again = at(&format!("{what}-again"));
            whole(&at(what), &again, format);
            if bytes(&at(what)) != bytes(&again) {
                wrong.push(format!("{name} to {what}: converted again, it changes"));
            }
        }
        // Through CTF 2 to CTF 1.8.
        whole(&at("2"), &at("2-1.8"), Format::Ctf18);
        if let Some(difference) = source.lowered().differs(&read(&at("2-1.8"))) {
            wrong.push(format!("{name} to 2 and 1.8: {difference}"));
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}
