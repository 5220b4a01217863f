//! The limits of formats: the table in docs/src/exporting.md.

use std::fs;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;

use kymo_export::{Format, ProfileFormat, export};
use kymo_profile::{By, FrameId, PeriodUnit, Profile, Sample, Stack, StackId, Unit};
use serde_json::Value;

use crate::decoded::{Packet, Packets};
use crate::profiles::{counts, fields, profile, written};

const FORMATS: [(ProfileFormat, &str); 4] = [
    (ProfileFormat::PerfScript, "txt"),
    (ProfileFormat::Speedscope, "speedscope.json"),
    (ProfileFormat::Pprof, "pb.gz"),
    (ProfileFormat::Firefox, "firefox.json"),
];

/// The profile in each format, pprof's unpacked.
fn all(profile: &Profile, name: &str) -> [Vec<u8>; 4] {
    FORMATS.map(|(format, ending)| {
        let bytes = written(format, profile, &format!("limit-{name}.{ending}"));
        match format {
            ProfileFormat::Pprof => unpacked(&bytes),
            _ => bytes,
        }
    })
}

fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    let mut unpacked = flate2::read::GzDecoder::new(bytes);
    unpacked.read_to_end(&mut message).unwrap();
    message
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

/// Separators, line ends, controls, what XML forbids, quotes, letters beyond ASCII.
const ODD: &str = "a;b\r\n\t\u{1b}[31m\0\u{fffe}\"\\<&> é\u{1f600}";

#[test]
fn names_may_have_any_characters() {
    let mut profile = profile();
    profile.functions[3].name = Arc::from(ODD);
    profile.threads[0].name = Some(Arc::from(ODD));
    let folded = profile.folded(By::Thread);
    assert_eq!(folded.lines().count(), 5, "{folded}");
    assert!(
        folded.contains("a:b::\\t\\u{1b}[31m\\u{0}\u{fffe}\"\\<&> é\u{1f600}"),
        "{folded}"
    );
    let is_control = |letter: char| letter.is_control() && letter != '\n';
    assert!(!folded.contains(is_control), "{folded}");
    let [script, speedscope, pprof, firefox] = all(&profile, "names");
    let script = String::from_utf8(script).unwrap();
    let is_control = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
    assert!(!script.contains(is_control), "{script:?}");
    // Two samples with three frames, and so on: a name has added no line.
    assert_eq!(
        script.lines().count(),
        6 * 2 + 3 + 3 + 1 + 2 + 1,
        "{script}"
    );
    let speedscope = json(&speedscope);
    assert_eq!(speedscope["shared"]["frames"][3]["name"], ODD);
    assert_eq!(speedscope["profiles"][0]["name"], format!("{ODD} (5)"));
    let strings = fields(&pprof).into_iter().filter(|field| field.0 == 6);
    let strings: Vec<Vec<u8>> = strings.map(|field| field.2).collect();
    assert!(strings.contains(&ODD.as_bytes().to_vec()));
    let firefox = json(&firefox);
    let mut threads = firefox["threads"].as_array().unwrap().iter();
    assert!(threads.any(|thread| thread["name"] == format!("{ODD} (5)")));
    assert!(
        firefox
            .to_string()
            .contains(&serde_json::to_string(ODD).unwrap()[1..])
    );
}

#[test]
fn counts_reach_the_greatest_number_of_each_format() {
    let most = u64::MAX;
    let mut profile = profile();
    profile.unit = Unit::Bytes;
    profile.samples.clear();
    profile.rows[0].weight = most;
    // The same stack once more: a sum stays at the greatest.
    profile.rows.push(profile.rows[0]);
    let folded = counts(&profile.folded(By::Nothing));
    assert_eq!(folded.values().max(), Some(&most));
    let [script, speedscope, pprof, _] = all(&profile, "counts");
    let script = String::from_utf8(script).unwrap();
    assert!(script.contains(&format!(" {most} bytes:\n")), "{script}");
    let speedscope = json(&speedscope);
    let first = &speedscope["profiles"][0];
    assert_eq!(first["weights"][0], most);
    assert_eq!(first["endValue"], most);
    let samples = fields(&pprof).into_iter().filter(|field| field.0 == 2);
    let values = samples.map(|sample| {
        let mut fields = fields(&sample.2).into_iter();
        fields.find(|field| field.0 == 2).unwrap().1
    });
    let most_signed = i64::MAX.cast_unsigned();
    assert_eq!(values.max(), Some(most_signed));
    // Periods are numbers of the same type.
    profile.unit = Unit::Samples;
    profile.period_unit = PeriodUnit::Events(Arc::from("cycles"));
    profile.period = Some(most);
    profile.rows[0].ticks = most;
    let pprof = unpacked(&written(
        ProfileFormat::Pprof,
        &profile,
        "limit-period.pb.gz",
    ));
    let mut periods = fields(&pprof).into_iter().filter(|field| field.0 == 12);
    assert_eq!(periods.next().unwrap().1, most_signed);
    let mut samples = fields(&pprof).into_iter().filter(|field| field.0 == 2);
    let values = fields(&samples.next().unwrap().2);
    let values: Vec<u64> = values
        .iter()
        .filter(|field| field.0 == 2)
        .map(|field| field.1)
        .collect();
    assert_eq!(values, [most_signed, most_signed]);
}

#[test]
fn the_script_has_times_to_both_ends_of_its_range() {
    let mut profile = profile();
    let times = [i64::MIN, -1, 0, i64::MAX];
    profile.samples = times.map(|time_ns| Sample { time_ns, row: 1 }).to_vec();
    let [script, ..] = all(&profile, "times");
    let script = String::from_utf8(script).unwrap();
    let heads = script
        .lines()
        .filter_map(|line| line.strip_suffix(": samples:"));
    let shown: Vec<&str> = heads.map(|line| line.rsplit_once(' ').unwrap().1).collect();
    assert_eq!(
        shown,
        [
            "-9223372036.854775808",
            "-0.000000001",
            "0.000000000",
            "9223372036.854775807"
        ]
    );
}

#[test]
fn stacks_may_be_deep_and_names_long() {
    const DEEP: u32 = 100_000;
    let mut profile = profile();
    let long = "n".repeat(1 << 20);
    profile.functions[4].name = Arc::from(&*long);
    profile.stacks = (0..DEEP)
        .map(|depth| Stack {
            parent: depth.checked_sub(1).map(StackId),
            frame: FrameId(if depth == 0 { 4 } else { 3 }),
        })
        .collect();
    profile.rows.truncate(1);
    profile.rows[0].stack = Some(StackId(DEEP - 1));
    profile.samples.truncate(1);
    let folded = profile.folded(By::Nothing);
    assert_eq!(folded.matches("shell::main").count(), DEEP as usize - 1);
    assert!(folded.starts_with(&long));
    let [script, speedscope, pprof, firefox] = all(&profile, "deep");
    assert_eq!(
        script.iter().filter(|byte| **byte == b'\n').count(),
        DEEP as usize + 2
    );
    let speedscope = json(&speedscope);
    let stack = speedscope["profiles"][0]["samples"][0].as_array().unwrap();
    assert_eq!(stack.len(), DEEP as usize);
    let mut samples = fields(&pprof).into_iter().filter(|field| field.0 == 2);
    let locations = fields(&samples.next().unwrap().2);
    let locations = locations.iter().filter(|field| field.0 == 1);
    assert_eq!(locations.count(), DEEP as usize);
    let firefox = json(&firefox);
    let threads = firefox["threads"].as_array().unwrap();
    assert_eq!(threads[0]["stackTable"]["length"], DEEP);
}

/// A trace whose clock counts seconds, with an event at each of these.
fn seconds(name: &str, times: &[u64]) -> (PathBuf, kymo_ctf::Trace) {
    texts(name, times, |_| ODD.replace('\0', ""))
}

/// Such a trace, whose events have these texts.
fn texts(name: &str, times: &[u64], text: impl Fn(u64) -> String) -> (PathBuf, kymo_ctf::Trace) {
    let folder = std::env::temp_dir().join(format!("kymo-limits-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("trace")).unwrap();
    let metadata = "/* CTF 1.8 */
        trace { major = 1; minor = 8; byte_order = le; };
        clock { name = c; freq = 1; };
        stream { event.header := struct { integer { size = 64; align = 8; map = clock.c.value; } t; }; };
        event { name = e; fields := struct { string text; }; };";
    fs::write(folder.join("trace/metadata"), metadata).unwrap();
    let mut stream = Vec::new();
    for time in times {
        stream.extend(time.to_le_bytes());
        stream.extend(text(*time).bytes().chain([0]));
    }
    fs::write(folder.join("trace/stream"), stream).unwrap();
    let trace = kymo_ctf::Trace::open(&folder.join("trace")).unwrap();
    (folder, trace)
}

/// The last second before 2^63 nanoseconds, the first behind it, and those around 2^64.
const AROUND: [u64; 4] = [9_223_372_036, 9_223_372_037, 18_446_744_073, 18_446_744_074];

#[test]
fn csv_leaves_out_times_beyond_its_range() {
    let (folder, trace) = seconds("csv", &AROUND);
    let out = folder.join("tables");
    export(&trace, Format::Csv, &out, |_| ()).unwrap();
    let text = fs::read_to_string(out.join("e.csv")).unwrap();
    let odd = ODD.replace('\0', "").replace('"', "\"\"");
    let rows: Vec<&str> = text.split(&format!("\"{odd}\"\r\n")).collect();
    fs::remove_dir_all(&folder).unwrap();
    let rows: Vec<(&str, &str)> = rows[..4]
        .iter()
        .map(|row| {
            let row = row.rsplit("\r\n").next().unwrap();
            let mut cells = row.split(',');
            (cells.next().unwrap(), cells.next().unwrap())
        })
        .collect();
    assert_eq!(
        rows,
        [
            ("9223372036000000000", "9223372036"),
            ("", "9223372037"),
            ("", "18446744073"),
            ("", "18446744074"),
        ]
    );
}

/// The columns `begin_ns` or such and `text` of all rows of a Parquet file, and how many groups of
/// rows it has.
#[cfg(feature = "parquet")]
fn of_parquet(file: &std::path::Path) -> (Vec<(Option<i64>, String)>, usize) {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::RowAccessor as _;
    let reader = SerializedFileReader::new(fs::File::open(file).unwrap()).unwrap();
    let schema = reader.metadata().file_metadata().schema_descr();
    let mut columns = schema.columns().iter();
    let text = columns.position(|column| column.name() == "text").unwrap();
    let rows = reader.get_row_iter(None).unwrap().map(|row| {
        let row = row.unwrap();
        let time = row.get_long(0).ok();
        (time, row.get_string(text).unwrap().clone())
    });
    (rows.collect(), reader.num_row_groups())
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_leaves_out_times_beyond_its_range() {
    let (folder, trace) = seconds("parquet", &AROUND);
    let out = folder.join("tables");
    export(&trace, Format::Parquet, &out, |_| ()).unwrap();
    let (rows, _) = of_parquet(&out.join("event=e/part-0.parquet"));
    fs::remove_dir_all(&folder).unwrap();
    let times: Vec<_> = rows.iter().map(|(time, _)| *time).collect();
    assert_eq!(times, [Some(9_223_372_036_000_000_000), None, None, None]);
    let odd = ODD.replace('\0', "");
    assert!(rows.iter().all(|(_, text)| *text == odd), "{rows:?}");
}

/// Batches and groups of rows end with so many bytes of text: one of a full number of rows would
/// exceed the offsets of its arrays.
#[cfg(feature = "parquet")]
#[test]
fn parquet_has_long_texts_in_several_groups() {
    const LONG: usize = 1 << 20;
    let text = |time: u64| {
        let mut seed = time.wrapping_add(1);
        let letters = (0..LONG).map(|_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(b'!' + ((seed >> 33) % 90) as u8)
        });
        letters.collect::<String>()
    };
    let times: Vec<u64> = (0..100).collect();
    let (folder, trace) = texts("long", &times, text);
    let out = folder.join("tables");
    export(&trace, Format::Parquet, &out, |_| ()).unwrap();
    let (rows, groups) = of_parquet(&out.join("event=e/part-0.parquet"));
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(rows.len(), times.len());
    for (time, (_, found)) in times.iter().zip(&rows) {
        assert!(*found == text(*time), "{time}");
    }
    assert!((2..10).contains(&groups), "{groups} groups");
}

/// Perfetto's times are unsigned; later ones than the greatest stand at it.
#[test]
fn a_timeline_reaches_the_greatest_time() {
    let (folder, trace) = seconds("perfetto", &AROUND);
    let out = folder.join("out");
    export(&trace, Format::Perfetto, &out, |_| ()).unwrap();
    let packets = Packets::read(&fs::read(&out).unwrap());
    export(&trace, Format::Chrome, &out, |_| ()).unwrap();
    let text_of_chrome = fs::read_to_string(&out).unwrap();
    let chrome = json(text_of_chrome.as_bytes());
    fs::remove_dir_all(&folder).unwrap();
    let events = packets.packets.iter().filter_map(|packet| match packet {
        Packet::Event { at, notes, .. } => Some((*at, notes.as_str())),
        Packet::Track { .. } => None,
    });
    let (times, notes): (Vec<u64>, Vec<&str>) = events.unzip();
    let wanted =
        [9_223_372_036, 9_223_372_037, 18_446_744_073].map(|second| second * 1_000_000_000);
    assert_eq!(times, [&wanted[..], &[u64::MAX]].concat());
    let text = ODD.replace('\0', "");
    let shown = format!("text={text:?}");
    assert!(notes.iter().all(|note| note.contains(&shown)), "{notes:?}");
    // Chrome's are from the trace's beginning on, as viewers would round them.
    let points = chrome["traceEvents"].as_array().unwrap().iter();
    let points: Vec<&Value> = points.filter(|event| event["ph"] == "i").collect();
    for time in ["0", "1000000", "9223372037000000", "9223372038000000"] {
        assert!(
            text_of_chrome.contains(&format!("\"ts\":{time}.000,")),
            "{time}"
        );
    }
    assert_eq!(chrome["otherData"]["begin_ns"], "9223372036000000000");
    assert!(
        points.iter().all(|point| point["args"]["text"] == text),
        "{points:?}"
    );
}
