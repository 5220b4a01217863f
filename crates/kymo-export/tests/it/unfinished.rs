//! An export that is interrupted leaves nothing that looks like a whole one.

use std::fs;
use std::path::{Path, PathBuf};

use kymo::vocabulary::{Counter, Mark};
use kymo_export::{Format, export};
use kymo_made::{Made, US};

fn marks(name: &str) -> Made {
    let mut made = Made::new(name);
    for time in 1..4 {
        made.event(0, time * US, Mark { id: 1, value: 0 });
    }
    made
}

/// A path below a new temporary directory.
fn place(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("kymo-export-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).unwrap();
    folder.join("out")
}

/// All files below a directory, by their paths in it.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        match path.is_dir() {
            true => found.extend(files(&path).iter().map(|file| format!("{name}/{file}"))),
            false => found.push(name),
        }
    }
    found.sort();
    found
}

#[test]
fn files_get_their_names_when_they_are_complete() {
    let mut made = marks("names");
    let trace = kymo_ctf::Trace::open(made.finish()).unwrap();
    for (format, name, whole) in [
        (Format::Perfetto, "perfetto", &["out"][..]),
        (Format::Chrome, "chrome", &["out"]),
        (Format::Csv, "csv", &["out/_losses.csv", "out/mark.csv"]),
        #[cfg(feature = "parquet")]
        (
            Format::Parquet,
            "parquet",
            &["out/_losses.csv", "out/event=mark/part-0.parquet"],
        ),
    ] {
        let out = place(name);
        let folder = out.parent().unwrap();
        let unfinished: Vec<String> = whole.iter().map(|file| format!("{file}.part")).collect();
        let mut events = 0;
        export(&trace, format, &out, |_| {
            events += 1;
            assert_eq!(files(folder), unfinished);
        })
        .unwrap();
        assert_eq!(events, 3);
        assert_eq!(files(folder), whole);
        fs::remove_dir_all(folder).unwrap();
    }
}

/// The file of an earlier export stays until the new one is complete, and a link to it stays a
/// link. A device is written in place.
#[test]
#[cfg(unix)]
fn what_was_there_is_replaced_at_the_end() {
    let mut made = marks("replaced");
    let trace = kymo_ctf::Trace::open(made.finish()).unwrap();
    let out = place("replaced");
    fs::write(&out, "earlier").unwrap();
    let link = out.with_file_name("link");
    std::os::unix::fs::symlink(&out, &link).unwrap();
    export(&trace, Format::Chrome, &link, |_| {
        assert_eq!(fs::read_to_string(&out).unwrap(), "earlier");
    })
    .unwrap();
    assert!(fs::read_to_string(&out).unwrap().starts_with('{'));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    export(&trace, Format::Chrome, Path::new("/dev/null"), |_| ()).unwrap();
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
    fs::remove_dir_all(out.parent().unwrap()).unwrap();
}

#[test]
fn a_failed_export_removes_what_it_wrote() {
    let mut made = marks("failed");
    made.event(0, 5 * US, Counter { id: 1, value: 2 });
    let trace = kymo_ctf::Trace::open(made.finish()).unwrap();
    let out = place("failed");
    let error = export(&trace, Format::Csv, &out, |_| {
        // So that the table of counters cannot be created.
        let _ = fs::create_dir(out.join("counter.csv.part"));
    })
    .unwrap_err();
    assert!(error.to_string().ends_with("counter.csv"), "{error}");
    assert!(files(&out).is_empty(), "{:?}", files(&out));
    fs::remove_dir_all(out.parent().unwrap()).unwrap();
}

/// A link that leads nowhere cannot be created as a file, but it could be removed.
#[cfg(unix)]
#[test]
fn a_file_that_cannot_be_created_is_left_as_it_is() {
    let out = place("uncreated");
    let part = out.with_file_name("out.part");
    std::os::unix::fs::symlink("/there/is/no/such/folder", &part).unwrap();
    kymo_export::write_file(&out, |_| Ok(())).unwrap_err();
    fs::remove_file(&part).expect("the link is still there");
}
