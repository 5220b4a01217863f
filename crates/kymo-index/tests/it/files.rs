//! The file of an index: found, made anew, damaged.

use std::fs;
use std::time::{Duration, SystemTime};

use kymo_ctf::Trace;
use kymo_index::{Index, Key, Options};

use crate::made::{Folder, index, machine};

#[test]
fn an_index_is_found_again_and_belongs_to_its_trace() {
    let folder = Folder::new();
    let (mut made, mut other) = (machine(1, 2_000), machine(2, 2_000));
    let (map, first) = index(made.finish(), &folder, 100);
    let trace = Trace::open(made.finish()).unwrap();
    let key = Key::of(&trace, &map).unwrap();
    let path = key.path_in(&folder.0);
    let again = Index::open(&key, &path).unwrap().unwrap();
    assert!(again.registry() == first.registry());
    assert_eq!(
        (again.span(), again.events()),
        (first.span(), first.events())
    );
    let other = Trace::open(other.finish()).unwrap();
    let other = Key::of(&other, &other.map()).unwrap();
    assert_ne!(other, key);
    assert!(Index::open(&other, &path).unwrap().is_none());
    let left = fs::read_dir(&folder.0).unwrap().count();
    assert_eq!(left, 1, "nothing but the index");
}

/// Cut anywhere, or with another byte anywhere, it is made anew or an error, and never a panic.
#[test]
fn a_damaged_file_is_no_index() {
    let folder = Folder::new();
    let mut made = machine(4, 1_500);
    let (map, whole) = index(made.finish(), &folder, 60);
    let trace = Trace::open(made.finish()).unwrap();
    let key = Key::of(&trace, &map).unwrap();
    let path = key.path_in(&folder.0);
    let bytes = fs::read(&path).unwrap();
    for length in (0..bytes.len()).step_by(bytes.len() / 50) {
        fs::write(&path, &bytes[..length]).unwrap();
        assert!(Index::open(&key, &path).unwrap().is_none(), "{length}");
    }
    let rows: Vec<u32> = (0..whole.registry().rows().len() as u32).collect();
    let (mut none, mut failed) = (0, 0);
    for place in (0..bytes.len()).step_by(bytes.len() / 200) {
        let mut other = bytes.clone();
        other[place] ^= 0x55;
        fs::write(&path, &other).unwrap();
        let Some(damaged) = Index::open(&key, &path).unwrap() else {
            none += 1;
            continue;
        };
        let span = damaged.span();
        for columns in [10, 100_000] {
            for time in [span.clone(), span.start..span.start + 1_000_000] {
                failed += u32::from(damaged.window(&map, &rows, time, columns).is_err());
            }
        }
    }
    assert!(none > 0 && failed > 0, "{none} {failed}");
    // It is made anew.
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let options = Options { chunk_events: 60 };
    let anew = Index::open_or_make(&trace, &map, &path, options, |_| ()).unwrap();
    assert!(anew.registry() == whole.registry());
    assert!(
        fs::read(&path).unwrap() == bytes,
        "the same bytes each time"
    );
}

#[test]
fn an_empty_trace_has_an_index() {
    let folder = Folder::new();
    let mut made = machine(1, 0);
    let trace = Trace::open(made.finish()).unwrap();
    let map = trace.map();
    let key = Key::of(&trace, &map).unwrap();
    let path = key.path_in(&folder.0);
    let index = Index::open_or_make(&trace, &map, &path, Options::default(), |_| ()).unwrap();
    let window = index.window(&map, &[0, 1, 7], 0..1_000, 100).unwrap();
    assert_eq!(window.rows.len(), 3);
}

/// What a process that was killed has left is removed when it is old; another process's is not.
#[test]
fn old_unfinished_files_are_removed() {
    let folder = Folder::new();
    let mut made = machine(1, 100);
    let folder_of_trace = made.finish().to_owned();
    let trace = Trace::open(&folder_of_trace).unwrap();
    let path = Key::of(&trace, &trace.map()).unwrap().path_in(&folder.0);
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    let [old, new, other] = [".4000001", ".4000002", ".txt"];
    for end in [old, new, other] {
        fs::write(folder.0.join(format!("{name}{end}")), "unfinished").unwrap();
    }
    let hours = Duration::from_secs(2 * 3_600);
    for end in [old, other] {
        let path = folder.0.join(format!("{name}{end}"));
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - hours).unwrap();
    }
    index(&folder_of_trace, &folder, 10);
    let left = |end: &str| folder.0.join(format!("{name}{end}")).exists();
    assert_eq!([old, new, other, ""].map(left), [false, true, true, true]);
}
