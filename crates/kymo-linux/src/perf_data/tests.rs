#![allow(clippy::unwrap_used)]

use std::io::Cursor;
use std::path::{Path, PathBuf};

use kymo_ctf::{Item, Trace};
use kymo_made::perf_data::{CODE, FIRST, LAYOUTS, LOST, PERIOD, PID, SAMPLES, STEP, file};

use crate::{Error, Left, PerfData, Summary, Writer};

/// What was written, and what is left; the trace is at `folder`.
fn read(folder: &Path, bytes: Vec<u8>) -> Result<(Summary, Left), Error> {
    let _ = std::fs::remove_dir_all(folder);
    let data = PerfData::open(Cursor::new(bytes))?;
    let mut writer = Writer::create(folder, &data.origin())?;
    let left = data.write(&mut writer)?;
    let (summary, written) = writer.finish();
    written?;
    Ok((summary, left))
}

fn folder(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("kymo-perf-data-{}-{name}", std::process::id()))
}

/// The names and times of a trace's events, and how many events are lost.
fn events(folder: &Path) -> (Vec<(String, i128)>, u64) {
    let (mut events, mut lost) = (Vec::new(), 0);
    for item in Trace::open(folder).unwrap().events() {
        match item.unwrap() {
            Item::Event(event) => events.push((event.name().to_owned(), event.nanos().unwrap())),
            Item::Loss(loss) => lost += loss.count,
            other => panic!("{other:?}"),
        }
    }
    (events, lost)
}

/// Files of both byte orders, and those of `perf record -o -`.
#[test]
fn all_of_a_file_is_in_the_trace() {
    let folder = folder("all");
    for layout in LAYOUTS {
        let (summary, left) = read(&folder, file(layout)).unwrap();
        assert_eq!(left, Left::default(), "{layout:?}");
        assert_eq!((summary.samples, summary.lost), (SAMPLES + 1, LOST));
        assert_eq!(
            (summary.threads, summary.processes, summary.late),
            (2, 1, 0)
        );
        let at = |number: u64| i128::from(FIRST + number * STEP);
        let event = |name: &str, number| (name.to_owned(), at(number));
        // What was before has the time of the first record that has one.
        let mut expected = vec![
            event("perf_comm", 0),
            event("perf_mmap2", 0),
            event("perf_fork", 0),
            event("perf_comm", 0),
        ];
        expected.extend((0..SAMPLES).map(|number| event("cpu-clock", number)));
        expected.push(event("page-faults", SAMPLES + 1));
        let (mut found, lost) = events(&folder);
        found.sort_by_key(|(_, time)| *time);
        assert_eq!((found, lost), (expected, LOST), "{layout:?}");
        let trace = Trace::open(&folder).unwrap();
        let text = format!("{:?}", trace.metadata().env());
        assert!(
            text.contains("perf record ./program") && text.contains("machine"),
            "{text}"
        );
        let items = trace.events().filter_map(Result::ok);
        let samples = items.filter_map(|item| match item {
            Item::Event(event) if event.name() == "cpu-clock" => Some((1_000, event.fields)),
            Item::Event(event) if event.name() == "page-faults" => Some((PERIOD, event.fields)),
            _ => None,
        });
        for (period, fields) in samples {
            let field = |name: &str| fields.iter().find(|(of, _)| *of == name).unwrap().1;
            let text = |name: &str| format!("{:?}", field(name));
            assert_eq!(text("perf_pid"), format!("Int({PID})"));
            assert_eq!(text("perf_period"), format!("UInt({period})"));
            let caller = format!("UInt({})]", CODE + 0x100);
            assert!(text("perf_callchain").contains(&caller), "{fields:?}");
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
}

/// A file that is cut off anywhere gives the records before, and says what is missing.
#[test]
fn a_file_that_is_cut_off_gives_what_it_holds() {
    let folder = folder("cut");
    for layout in LAYOUTS {
        let whole = file(layout);
        let mut most = 0;
        for len in 0..whole.len() {
            let Ok((summary, left)) = read(&folder, whole[..len].to_vec()) else {
                assert!(most == 0, "{layout:?}: {len}");
                continue;
            };
            assert!(left.stopped.is_none() && left.malformed == 0, "{left:?}");
            assert!(summary.samples >= most && summary.samples <= SAMPLES + 1);
            most = summary.samples;
            match left.missing {
                Some(missing) => {
                    assert!(missing.bytes < 512, "{len}: {missing:?}");
                    assert_eq!(missing.has_no_features, !layout.is_pipe);
                }
                // Behind a whole record, nothing tells that more was to come.
                None => assert!(layout.is_pipe, "{len}"),
            }
        }
        // The last record is a sample, and behind it are the features.
        assert_eq!(most, SAMPLES + u64::from(!layout.is_pipe), "{layout:?}");
    }
    let _ = std::fs::remove_dir_all(&folder);
}

/// Bytes that are anything end in a trace or a sentence.
#[test]
fn damaged_files_are_read_or_refused() {
    let folder = folder("damaged");
    let mut state = 7_u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % below
    };
    let (mut refused, mut read_all) = (0, 0);
    for round in 0..1_000 {
        let mut bytes = file(LAYOUTS[round % LAYOUTS.len()]);
        for _ in 0..=random(4) {
            let at = match random(2) {
                0 => random(400),
                _ => random(bytes.len()),
            };
            let end = bytes.len().min(at + [1, 1, 4, 8][random(4)]);
            let byte = [0, 0xff, 0x7f, random(256) as u8][random(4)];
            bytes[at..end].fill(byte);
        }
        match read(&folder, bytes) {
            Ok(_) => read_all += 1,
            Err(Error::PerfData(why)) => {
                assert!(!why.contains('\n'), "{why}");
                refused += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refused > 100 && read_all > 100, "{refused} {read_all}");
    let _ = std::fs::remove_dir_all(&folder);
}
