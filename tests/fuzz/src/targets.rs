//! The fuzzing targets and their initial inputs.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use kymo_ctf::{Item, Metadata, Trace};
use kymo_linux::{PerfData, Writer};
use kymo_made::case;
use kymo_made::perf_data::{self, LAYOUTS};

use crate::{converting, decoding, redox, region};

/// Separates metadata and stream in an input of [`Target::Stream`] or [`Target::Convert`], and the
/// two texts of [`Target::Redox`].
const SEPARATOR: &[u8] = b"\n--- stream\n";

/// A parser of foreign bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// Metadata of CTF 1.8.
    Tsdl,
    /// Metadata of CTF 2.
    Json,
    /// Metadata of either, and a stream.
    Stream,
    /// Metadata and streams, as a trace that is converted.
    Convert,
    /// Memory with a region.
    Region,
    /// What `nm` prints, and a profile of the Redox kernel.
    Redox,
    /// A file of `perf record`.
    PerfData,
}

impl Target {
    pub(crate) fn of(name: &str) -> Option<Target> {
        let all = [
            Target::Tsdl,
            Target::Json,
            Target::Stream,
            Target::Convert,
            Target::Region,
            Target::Redox,
            Target::PerfData,
        ];
        all.into_iter().find(|target| target.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Target::Tsdl => "tsdl",
            Target::Json => "json",
            Target::Stream => "stream",
            Target::Convert => "convert",
            Target::Region => "region",
            Target::Redox => "redox",
            Target::PerfData => "perf_data",
        }
    }

    /// The conformance set or regions, and earlier finds.
    pub(crate) fn seeds(self) -> Vec<Vec<u8>> {
        let texts = |files: &[&str]| {
            case::read(files)
                .iter()
                .map(|case| case.text().text.into_bytes())
                .collect::<Vec<_>>()
        };
        let mut seeds = match self {
            Target::Tsdl => texts(&["tsdl/parses", "tsdl/fails"]),
            Target::Json => texts(&["json/parses", "json/fails"]),
            Target::Stream | Target::Convert => {
                let mut seeds = Vec::new();
                for case in case::read(&[
                    "streams/fields",
                    "streams/records",
                    "streams/ctf-2",
                    "streams/random",
                ]) {
                    for metadata in ["metadata", "metadata 2"]
                        .into_iter()
                        .filter_map(|title| case.metadata(title))
                    {
                        for (_, stream) in case.streams() {
                            seeds.push([&metadata[..], SEPARATOR, &stream].concat());
                        }
                    }
                }
                seeds
            }
            Target::Region => region::seeds(),
            Target::Redox => redox::seeds(SEPARATOR),
            Target::PerfData => LAYOUTS.map(perf_data::file).to_vec(),
        };
        for entry in fs::read_dir(case::folder().join("finds")).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name().to_string_lossy().starts_with(self.name()) {
                seeds.push(fs::read(entry.path()).unwrap());
            }
        }
        crate::distinct(seeds)
    }

    /// Splits an input into the part to keep and the part to mutate: for stream targets only the
    /// stream, unless `all`.
    pub(crate) fn split(self, input: &[u8], all: bool) -> (Vec<u8>, Vec<u8>) {
        match (self, separator(input)) {
            (Target::Stream | Target::Convert, Some(at)) if !all => {
                let (metadata, stream) = input.split_at(at + SEPARATOR.len());
                (metadata.to_vec(), stream.to_vec())
            }
            _ => (Vec::new(), input.to_vec()),
        }
    }

    pub(crate) fn words(self) -> &'static [&'static str] {
        match self {
            Target::Tsdl => &TSDL,
            Target::Json => &JSON,
            Target::Redox => &redox::WORDS,
            Target::Stream | Target::Convert | Target::Region | Target::PerfData => &[],
        }
    }

    /// Whether the bytes of an input stay where they are, because they say where others lie.
    pub(crate) fn is_memory(self) -> bool {
        self == Target::Region
    }

    /// Reads `input`; every result except a panic is valid. Output is written to `folder`.
    pub(crate) fn execute(self, input: &[u8], folder: &Path) {
        match self {
            Target::Tsdl | Target::Json => drop(Metadata::from_bytes(input)),
            Target::Region => region::execute(input, folder),
            Target::PerfData => import_perf_data(input, &folder.join("imported")),
            Target::Redox => {
                let Some(at) = separator(input) else { return };
                redox::execute(&input[..at], &input[at + SEPARATOR.len()..]);
            }
            Target::Stream => {
                let Some(at) = separator(input) else { return };
                if let Some(metadata) = parsed(&input[..at]) {
                    decoding::decode(&metadata, &input[at + SEPARATOR.len()..]);
                }
            }
            Target::Convert => {
                let Some(at) = separator(input) else { return };
                if parsed(&input[..at]).is_some() {
                    converting::convert(
                        &folder.join("converted"),
                        &input[..at],
                        &input[at + SEPARATOR.len()..],
                    );
                }
            }
        }
    }
}

/// Imports the file. What is written can be read, and has all samples.
fn import_perf_data(input: &[u8], out: &Path) {
    let _ = fs::remove_dir_all(out);
    let Ok(data) = PerfData::open(Cursor::new(input.to_vec())) else {
        return;
    };
    let mut writer = Writer::create(out, &data.origin()).unwrap();
    data.write(&mut writer).unwrap();
    let (summary, written) = writer.finish();
    written.unwrap();
    let trace = Trace::open(out).unwrap();
    let items = trace.events().map(Result::unwrap);
    let events = items.filter(|item| matches!(item, Item::Event(_)));
    assert!(events.count() as u64 >= summary.samples);
}

fn separator(input: &[u8]) -> Option<usize> {
    input
        .windows(SEPARATOR.len())
        .position(|window| window == SEPARATOR)
}

/// Parses metadata with a cache, as most inputs share theirs and parsing would dominate.
fn parsed(text: &[u8]) -> Option<Arc<Metadata>> {
    thread_local! {
        static KNOWN: RefCell<HashMap<Vec<u8>, Option<Arc<Metadata>>>> = RefCell::default();
    }
    KNOWN.with_borrow_mut(|known| {
        if let Some(metadata) = known.get(text) {
            return metadata.clone();
        }
        if known.len() > 1000 {
            known.clear();
        }
        let metadata = Metadata::from_bytes(text).ok().map(Arc::new);
        known.insert(text.to_vec(), metadata.clone());
        metadata
    })
}

const TSDL: [&str; 52] = [
    "trace",
    "{",
    "}",
    ";",
    " = ",
    " := ",
    "major",
    "minor",
    "byte_order",
    "le",
    "be",
    "native",
    "stream",
    "event",
    "clock",
    "env",
    "callsite",
    "packet.header",
    "packet.context",
    "event.header",
    "event.context",
    "fields",
    "context",
    "struct ",
    "variant ",
    "enum ",
    "integer ",
    "floating_point ",
    "string ",
    "typealias ",
    "typedef ",
    "size",
    "align(8)",
    "signed",
    "encoding = UTF8;",
    "map = clock.c.value;",
    "exp_dig = 8;",
    "mant_dig = 24;",
    "<t>",
    "[n]",
    "[2]",
    "...",
    ": u8",
    "timestamp",
    "id",
    "stream_id",
    "name",
    "0x10",
    "-1",
    "\"a\"",
    "/*",
    "*/",
];

const JSON: [&str; 44] = [
    "\u{1e}",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"type\"",
    "\"preamble\"",
    "\"version\"",
    "2",
    "\"trace-class\"",
    "\"clock-class\"",
    "\"data-stream-class\"",
    "\"event-record-class\"",
    "\"field-class-alias\"",
    "\"structure\"",
    "\"member-classes\"",
    "\"name\"",
    "\"field-class\"",
    "\"length\"",
    "\"byte-order\"",
    "\"little-endian\"",
    "\"big-endian\"",
    "\"bit-order\"",
    "\"alignment\"",
    "\"roles\"",
    "\"variant\"",
    "\"optional\"",
    "\"options\"",
    "\"selector-field-ranges\"",
    "\"selector-field-location\"",
    "\"length-field-location\"",
    "\"path\"",
    "\"origin\"",
    "null",
    "true",
    "-1",
    "1e9",
    "\"attributes\"",
    "\"extensions\"",
    "\\u0000",
    "[[0,1]]",
    "\"uuid\"",
];
