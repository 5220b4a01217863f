//! Stores: the same answers as from the traces themselves, whatever happens to a writer or a file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kymo_made::Made;
use kymo_sql::{Added, Error, Labels, Limits, Session, Store, Traces, Which, questions};
use serde_json::Value;

use crate::made::{Random, Three, asked, busy, rows, session};

/// A folder of a test's own.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let name = format!("kymo-sql-store-{name}-{}", std::process::id());
        let folder = Folder(std::env::temp_dir().join(name));
        let _ = fs::remove_dir_all(&folder.0);
        folder
    }

    pub fn session(&self) -> Session {
        Session::of_store(&Store::open(&self.0).unwrap(), Limits::default()).unwrap()
    }

    /// The files below it with this name, in order.
    pub fn files(&self, name: &str) -> Vec<PathBuf> {
        fn look(folder: &Path, name: &str, found: &mut Vec<PathBuf>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => look(&path, name, found),
                    false if path.ends_with(name) => found.push(path),
                    false => {}
                }
            }
        }
        let mut found = Vec::new();
        look(&self.0, name, &mut found);
        found.sort();
        found
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn labels(host: &str, build: &str) -> Labels {
    Labels {
        host: Some(host.to_owned()),
        build: Some(build.to_owned()),
        // Made traces share a UUID.
        boot: Some(format!("{host}-{build}")),
        date: None,
    }
}

fn add_which(
    store: &Folder,
    trace: &Path,
    labels: &Labels,
    tables: &[&str],
    replace: bool,
) -> Result<Added, Error> {
    let traces = Traces::open([trace]).unwrap();
    let tables = tables.iter().map(|name| (*name).to_owned()).collect();
    let which = Which { tables, replace };
    Store::add(&store.0, &traces, labels, &which, Limits::default())
}

pub fn add(store: &Folder, trace: &Path, labels: &Labels) -> Result<Added, Error> {
    add_which(store, trace, labels, &[], false)
}

/// Rows without the labels of stores, and with the traces numbered by `number`, in an order of
/// their own.
fn comparable(rows: Vec<Value>, number: impl Fn(&str) -> usize) -> Vec<String> {
    let rows = rows.into_iter().map(|mut row| {
        let cells = row.as_object_mut().unwrap();
        for label in ["date", "host", "boot", "build"] {
            cells.remove(label);
        }
        if let Some(trace) = cells.get_mut("trace") {
            *trace = number(trace.as_str().unwrap()).into();
        }
        row.to_string()
    });
    let mut rows: Vec<String> = rows.collect();
    rows.sort();
    rows
}

/// Three traces, one of them LTTng's, and a store with them on the hosts 0, 1 and 2.
pub fn three(name: &str) -> (Folder, Three, [PathBuf; 3]) {
    let (store, mut three) = (Folder::new(name), Three::new(name, 41, 300));
    three.lose();
    let paths = three.paths();
    for (host, path) in paths.iter().enumerate() {
        let added = add(&store, path, &labels(&host.to_string(), "a")).unwrap();
        assert!(matches!(added, Added::New { rows: 100.., .. }), "{added:?}");
    }
    (store, three, paths)
}

fn place(paths: &[PathBuf], trace: &str) -> usize {
    let mut paths = paths.iter();
    paths.position(|path| path.as_os_str() == trace).unwrap()
}

fn host(trace: &str) -> usize {
    trace.split_once('/').unwrap().0.parse().unwrap()
}

#[test]
fn every_table_of_a_store_has_the_rows_of_the_traces() {
    let (store, _three, paths) = three("tables");
    let traces = session(&paths.each_ref().map(PathBuf::as_path));
    let place = |trace: &str| place(&paths, trace);
    let stored = store.session();
    let tables = rows(
        &traces,
        "select table_schema as schema, table_name as name from information_schema.tables \
         where table_schema in ('trace', 'event')",
    );
    let (mut compared, mut with_rows) = (0, 0);
    for table in tables.unwrap() {
        let sql = format!(
            "select * from {}.\"{}\"",
            table["schema"].as_str().unwrap(),
            table["name"].as_str().unwrap()
        );
        let wanted = comparable(rows(&traces, &sql).unwrap(), place);
        let found = comparable(rows(&stored, &sql).unwrap(), host);
        assert!(
            found == wanted,
            "{sql}: {} rows, not {}",
            found.len(),
            wanted.len()
        );
        compared += 1;
        with_rows += usize::from(!wanted.is_empty());
    }
    assert!(compared > 40 && with_rows > 25, "{with_rows} of {compared}");
}

#[test]
fn every_ready_question_has_the_answer_of_the_traces() {
    let (store, _three, paths) = three("questions");
    let traces = session(&paths.each_ref().map(PathBuf::as_path));
    let place = |trace: &str| place(&paths, trace);
    let stored = store.session();
    let mut with_rows = 0;
    for question in questions().into_iter().filter(|of| !of.asks_store) {
        let values = question.parameters.iter();
        let values = values.map(|of| (of.name.to_owned(), of.default.to_owned()));
        let values: Vec<_> = values.collect();
        let wanted = comparable(asked(&traces, question.sql, &values).unwrap(), place);
        let found = comparable(asked(&stored, question.sql, &values).unwrap(), host);
        assert_eq!(found, wanted, "@{}", question.name);
        with_rows += usize::from(!wanted.is_empty());
    }
    assert!(with_rows > 20, "{with_rows}");
}

#[test]
fn labels_are_columns_and_choose_the_files_that_are_read() {
    let (store, _three, _) = three("labels");
    let all =
        "select trace, host, boot, build, count(*) as n from syscalls group by all order by 1";
    let found = rows(&store.session(), all).unwrap();
    assert_eq!(found.len(), 3);
    assert_eq!(found[1]["trace"], "1/1-a");
    assert_eq!(found[1]["host"], "1");
    assert_eq!(found[1]["boot"], "1-a");
    assert_eq!(found[1]["build"], "a");
    let days = rows(&store.session(), "select distinct date from events").unwrap();
    assert!(
        days.iter()
            .all(|row| row["date"].as_str().unwrap().len() == 10),
        "{days:?}"
    );

    // The files of the others are not looked at: they need not even be there.
    let wanted = rows(
        &store.session(),
        "select * from syscalls where host = '1' and cpu = 1",
    );
    for file in store.files("syscalls.parquet") {
        if !file.to_str().unwrap().contains("host=1") {
            fs::remove_file(file).unwrap();
        }
    }
    let left = rows(
        &store.session(),
        "select * from syscalls where host = '1' and cpu = 1",
    );
    assert_eq!(left.unwrap(), wanted.unwrap());
    let none = rows(&store.session(), "select * from syscalls where build = 'b'").unwrap();
    assert!(none.is_empty());
    let all = rows(&store.session(), "select * from syscalls").unwrap_err();
    assert!(matches!(all, Error::Store(_)), "{all:?}");
}

#[test]
fn a_trace_is_added_once_and_replaced_when_asked() {
    let store = Folder::new("again");
    let mut made = [busy("again-1", 3, 50), busy("again-2", 4, 60)];
    let [one, other] = made.each_mut().map(|made| made.finish().to_owned());
    let count = |host: &str| {
        let sql = format!("select count(*) as n from events where host = '{host}'");
        rows(&store.session(), &sql).unwrap()[0]["n"]
            .as_u64()
            .unwrap()
    };
    let is_new = |added: Result<Added, Error>| matches!(added.unwrap(), Added::New { .. });
    assert!(is_new(add(&store, &one, &labels("x", "a"))));
    let first = count("x");
    let manifests = store.files("manifest.json");
    let written = fs::read(&manifests[0]).unwrap();
    // Also without the labels: they stay.
    for again in [labels("x", "a"), Labels::default()] {
        assert_eq!(add(&store, &one, &again).unwrap(), Added::Present);
    }
    let some = add_which(&store, &one, &Labels::default(), &["syscalls"], false);
    assert_eq!(some.unwrap(), Added::Present);
    assert_eq!(fs::read(&manifests[0]).unwrap(), written);
    assert!(is_new(add_which(
        &store,
        &one,
        &Labels::default(),
        &[],
        true
    )));
    assert_ne!(fs::read(&manifests[0]).unwrap(), written);
    assert_eq!(count("x"), first);

    // Another host, day or boot is given for the same trace: its folder moves.
    let moved = |host: &str, boot: &str| Labels {
        host: Some(host.to_owned()),
        boot: Some(boot.to_owned()),
        date: Some("2026-01-02".to_owned()),
        build: None,
    };
    for (host, boot) in [("y", "x-a"), ("y", "b")] {
        assert!(is_new(add(&store, &one, &moved(host, boot))));
        assert_eq!((count("x"), count("y")), (0, first));
        assert_eq!(store.files("manifest.json").len(), 1);
    }
    let kept = "select count(*) as n from events where date = '2026-01-02' and build = 'a'";
    assert_eq!(rows(&store.session(), kept).unwrap()[0]["n"], first);

    // Another trace of the same boot is not taken for it; of another host it is another boot.
    let refused = add(&store, &other, &moved("y", "b")).unwrap_err();
    assert!(refused.to_string().contains("--replace"), "{refused}");
    assert!(is_new(add(&store, &other, &moved("z", "b"))));
    assert_eq!(count("y"), first);
    let second = count("z");
    assert!(is_new(add_which(
        &store,
        &other,
        &moved("y", "b"),
        &[],
        true
    )));
    assert_eq!((count("y"), count("z")), (second, 0));
    let left: Vec<_> = fs::read_dir(&store.0).unwrap().collect();
    assert_eq!(left.len(), 3, "the mark, the lock and a day: {left:?}");
}

/// What was not added is not taken for what did not happen.
#[test]
fn tables_that_were_not_added_are_told() {
    let store = Folder::new("some");
    let mut made = [busy("some-1", 3, 50), busy("some-2", 4, 60)];
    let [one, other] = made.each_mut().map(|made| made.finish().to_owned());
    add(&store, &one, &labels("x", "a")).unwrap();
    add_which(&store, &other, &labels("y", "a"), &["syscalls"], false).unwrap();
    let notes = |sql: &str| {
        let opened = Store::open(&store.0).unwrap();
        let session = Session::of_store(&opened, Limits::default()).unwrap();
        rows(&session, sql).unwrap();
        opened.notes()
    };
    assert!(notes("select count(*) from syscalls").is_empty());
    assert!(notes("select count(*) from lock_waits where host = 'x'").is_empty());
    let said = notes("select count(*) from lock_waits");
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].starts_with("1 of 2 traces were added without"),
        "{said:?}"
    );
    // Further tables come to those that are there.
    add_which(&store, &other, &Labels::default(), &["lock_waits"], false).unwrap();
    assert!(notes("select count(*) from lock_waits").is_empty());
    assert_eq!(store.files("syscalls.parquet").len(), 2);
    assert_eq!(store.files("events.parquet").len(), 1);
    let unknown = add_which(&store, &other, &Labels::default(), &["nothing"], false);
    assert!(matches!(unknown.unwrap_err(), Error::Query(_)));
}

kymo::event! { #[id(900)] #[name("odd")] struct Odd { host: u32, host_2: u32, len: u32 } }
static ODD: kymo::Vocabulary = kymo::vocabulary![Odd];
kymo::event! { #[id(900)] #[name("odd")] struct Wide { host: u32, len: u64 } }
static WIDE: kymo::Vocabulary = kymo::vocabulary![Wide];

/// Integers of two widths stay numbers, and a field that is called as a label is none.
#[test]
fn builds_may_have_other_fields_for_an_event() {
    let store = Folder::new("fields");
    let (mut kymo, linux) = (busy("fields", 7, 200), crate::made::linux("fields", 8, 900));
    add(&store, kymo.finish(), &labels("k", "a")).unwrap();
    add(&store, linux.finish(), &labels("l", "b")).unwrap();
    // Kymo has no `prev_comm`, and LTTng's `next_tid` has another type.
    let sql = "select host, count(*) as n, count(prev_comm) as named, count(next_tid) as next \
               from sched_switch group by host order by host";
    let found = rows(&store.session(), sql).unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(found[0]["named"], 0, "{found:?}");
    assert_eq!(found[1]["named"], found[1]["n"], "{found:?}");
    assert!(found.iter().all(|row| row["next"] == row["n"]), "{found:?}");

    let store = Folder::new("widths");
    let (mut odd, mut wide) = (Made::of("widths-1", &ODD), Made::of("widths-2", &WIDE));
    for len in [9, 10] {
        odd.event(
            0,
            len,
            Odd {
                host: 7,
                host_2: 1,
                len: len as u32,
            },
        );
    }
    wide.event(
        0,
        5,
        Wide {
            host: 8,
            len: u64::MAX,
        },
    );
    add(&store, odd.finish(), &labels("a", "1")).unwrap();
    add(&store, wide.finish(), &labels("b", "2")).unwrap();
    let sql =
        "select host, host_3, cast(len as text) as length from odd where len > 9 order by len";
    let found = rows(&store.session(), sql).unwrap();
    let cells = |row: &Value| {
        let field = row["host_3"].as_u64().unwrap();
        (
            row["host"].as_str().unwrap().to_owned(),
            field,
            row["length"].as_str().unwrap().to_owned(),
        )
    };
    let found: Vec<_> = found.iter().map(cells).collect();
    let wanted = [
        ("a".to_owned(), 7, "10".to_owned()),
        ("b".to_owned(), 8, u64::MAX.to_string()),
    ];
    assert_eq!(found, wanted);
}

/// As paths and as values.
#[test]
fn labels_may_be_any_text() {
    let store = Folder::new("text");
    let mut made = busy("text", 3, 30);
    let odd = "a b/../%2f=\u{fc}'\"\\*";
    let labels = Labels {
        host: Some(odd.to_owned()),
        build: None,
        boot: Some("..".to_owned()),
        date: Some("2026-02-03".to_owned()),
    };
    add(&store, made.finish(), &labels).unwrap();
    let sql = "select host, boot, trace from syscalls \
               where build is null and (host like 'a b%' or boot = 'no') limit 1";
    let found = rows(&store.session(), sql).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["host"], odd);
    assert_eq!(found[0]["trace"], format!("{odd}/.."));
    let day = fs::read_dir(store.0.join("date=2026-02-03")).unwrap();
    assert_eq!(day.count(), 1);
}

#[test]
fn an_empty_store_has_tables_without_rows() {
    let store = Folder::new("empty");
    let mut made = busy("empty", 3, 10);
    let kept = made.finish().to_owned();
    add(&store, &kept, &labels("h", "a")).unwrap();
    for manifest in store.files("manifest.json") {
        fs::remove_dir_all(manifest.parent().unwrap()).unwrap();
    }
    for table in ["events", "syscalls", "traces"] {
        let sql = format!("select * from {table} where host = 'h' and build is null");
        assert!(rows(&store.session(), &sql).unwrap().is_empty());
    }
}

/// What was copied into a store twice, or what a writer that was ended has not removed.
#[test]
fn a_trace_in_two_folders_counts_once() {
    let store = Folder::new("twice");
    let mut made = busy("twice", 3, 50);
    let trace = made.finish().to_owned();
    add(&store, &trace, &labels("h", "a")).unwrap();
    let folder = store.files("manifest.json")[0].parent().unwrap().to_owned();
    let copy = store.0.join("date=2020-01-01/host=h/boot=other");
    fs::create_dir_all(&copy).unwrap();
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, copy.join(path.file_name().unwrap())).unwrap();
    }
    let opened = Store::open(&store.0).unwrap();
    assert_eq!(opened.traces(), 1);
    assert!(
        opened.notes()[0].starts_with("1 of 2 folders"),
        "{:?}",
        opened.notes()
    );
    add_which(&store, &trace, &labels("h", "a"), &[], true).unwrap();
    assert_eq!(store.files("manifest.json").len(), 1);
}

fn query(arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kymo-query"));
    let output = command.args(arguments).output().unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

/// A wrong number is worse than none.
#[test]
fn what_is_missing_or_damaged_is_one_sentence() {
    let store = Folder::new("damage");
    let mut made = busy("damage", 5, 100);
    let trace = made.finish().to_owned();
    add(&store, &trace, &labels("h", "a")).unwrap();
    let path = store.0.to_str().unwrap();
    let calls = store.files("syscalls.parquet").remove(0);
    let manifest = store.files("manifest.json").remove(0);
    let whole = fs::read(&calls).unwrap();
    let said = fs::read_to_string(&manifest).unwrap();
    let refused = |what: &str| {
        let (status, sentence) = query(&[path, "select max(duration_ns) from syscalls"]);
        assert_eq!(status, Some(3), "{sentence}");
        assert!(
            sentence.contains(what) && sentence.lines().count() == 1,
            "{sentence}"
        );
    };
    fs::write(&calls, &whole[..whole.len() / 2]).unwrap();
    refused("its manifest says");
    let added = add(&store, &trace, &labels("h", "a")).unwrap();
    assert!(matches!(added, Added::New { .. }));
    assert_eq!(fs::read(&calls).unwrap(), whole);
    fs::remove_file(&calls).unwrap();
    refused("cannot be read");
    // The footer, which says where everything lies.
    let mut wrong = whole.clone();
    let end = wrong.len() - 60;
    wrong[end..end + 40].fill(0x5a);
    fs::write(&calls, &wrong).unwrap();
    refused("syscalls.parquet is damaged");
    // And the rows.
    let mut wrong = whole.clone();
    wrong[4..whole.len() / 3].fill(0x5a);
    fs::write(&calls, &wrong).unwrap();
    refused("is damaged");
    fs::write(&calls, &whole).unwrap();

    fs::write(&manifest, said.replace("\"version\": 2", "\"version\": 7")).unwrap();
    refused("version 7");
    fs::write(&manifest, &said[..said.len() / 2]).unwrap();
    refused("is damaged");
    // Adding it again mends all of this.
    add(&store, &trace, &labels("h", "a")).unwrap();
    assert_eq!(
        query(&[path, "select max(duration_ns) from syscalls"]).0,
        Some(0)
    );

    let wrong: [(&[&str], &str); 5] = [
        (&["--date", "yesterday"], "--date yesterday"),
        (&["--host", ""], "--host takes"),
        (&["--tables", "nothing"], "no table nothing"),
        (&["--boot", "b", path], "one trace"),
        (&["--out", "file"], "cannot be used"),
    ];
    let name = trace.to_str().unwrap();
    for (words, says) in wrong {
        let words = [&["--into", path, name], words].concat();
        let (status, sentence) = query(&words);
        assert_eq!(status, Some(2), "{words:?}: {sentence}");
        assert!(sentence.contains(says), "{words:?}: {sentence}");
    }
    let ask = |words: &[&str]| query(&[&[path], words].concat());
    let (status, sentence) = ask(&["@regressions", "--before", "a", "--after", "z"]);
    assert_eq!(status, Some(2), "{sentence}");
    assert!(
        sentence.contains("after must be a build of the store, which has a"),
        "{sentence}"
    );
    let (status, sentence) = ask(&[name, "select 1"]);
    assert_eq!(status, Some(2), "{sentence}");
    assert!(sentence.contains("is a store"), "{sentence}");

    fs::write(store.0.join("kymo-store"), "3\n").unwrap();
    refused("version");
    let empty = Folder::new("damage-empty");
    fs::create_dir_all(&empty.0).unwrap();
    fs::write(empty.0.join("file"), "").unwrap();
    let (status, sentence) = query(&["--into", empty.0.to_str().unwrap(), name]);
    assert_eq!(status, Some(3), "{sentence}");
    assert!(sentence.contains("other files"), "{sentence}");
}

/// Twenty bytes that are damaged anywhere are refused by name, or lie where a query reads nothing.
#[test]
fn damage_inside_a_file_changes_no_answer() {
    const PLACES: usize = 40;
    let store = Folder::new("damage-inside");
    let mut made = busy("damage-inside", 5, 3_000);
    let trace = made.finish().to_owned();
    add(&store, &trace, &labels("h", "a")).unwrap();
    let sql = "select count(*) as n, sum(duration_ns) as ns, max(begin_ns) as last, \
               min(thread) as first from syscalls where host = 'h'";
    let ask = || {
        let store = Store::open(&store.0)?;
        rows(&Session::of_store(&store, Limits::default())?, sql)
    };
    let wanted = ask().unwrap();
    for (name, of) in [
        ("syscalls.parquet", "syscalls.parquet"),
        (".syscalls.parquet.crc", "syscalls.parquet"),
        ("manifest.json", "manifest.json"),
    ] {
        let file = store.files(name).remove(0);
        let whole = fs::read(&file).unwrap();
        let mut refused = 0;
        for place in (0..PLACES).map(|place| place * whole.len() / PLACES) {
            let mut wrong = whole.clone();
            wrong[place..]
                .iter_mut()
                .take(20)
                .for_each(|byte| *byte ^= 0x11);
            fs::write(&file, &wrong).unwrap();
            match ask() {
                Ok(answer) => assert_eq!(answer, wanted, "{name} at {place}"),
                Err(Error::Store(sentence)) => {
                    refused += 1;
                    assert!(sentence.contains(of), "{sentence}");
                    assert!(sentence.contains("add its trace again with "), "{sentence}");
                }
                Err(error) => unreachable!("{error:?}"),
            }
        }
        assert!(refused >= PLACES / 4, "{name}: {refused}");
        fs::write(&file, &whole).unwrap();
    }
    // What is said helps.
    let calls = store.files("syscalls.parquet").remove(0);
    let mut wrong = fs::read(&calls).unwrap();
    wrong[100] ^= 1;
    fs::write(&calls, wrong).unwrap();
    ask().unwrap_err();
    add_which(&store, &trace, &labels("h", "a"), &[], true).unwrap();
    assert_eq!(ask().unwrap(), wanted);
    fs::remove_file(store.files(".syscalls.parquet.crc").remove(0)).unwrap();
    let sentence = ask().unwrap_err().to_string();
    assert!(
        sentence.contains("syscalls.parquet has no checksums"),
        "{sentence}"
    );
    let added = add(&store, &trace, &labels("h", "a")).unwrap();
    assert!(matches!(added, Added::New { .. }), "{added:?}");
    assert_eq!(ask().unwrap(), wanted);
}

/// Writers that are ended at any moment leave a store that can be asked and added to.
#[test]
fn writers_that_are_ended_leave_no_half_of_a_trace() {
    const ENDED: usize = 16;
    let store = Folder::new("ended");
    let mut made: [Made; 3] = [5, 6, 7].map(|seed| busy(&format!("ended-{seed}"), seed, 2_000));
    let [one, other, longer] = made.each_mut().map(|made| made.finish().to_owned());
    add(&store, &one, &labels("one", "a")).unwrap();
    let path = store.0.to_str().unwrap().to_owned();
    let start = |trace: &Path, words: &[&str]| -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kymo-query"));
        command
            .args(["--into", &path, "--host", "other"])
            .args(words);
        command
            .arg(trace)
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let events = |path: &Path| {
        let count = rows(&session(&[path]), "select count(*) as n from events").unwrap();
        count[0]["n"].as_u64().unwrap()
    };
    let wanted = [&one, &other, &longer].map(|path| events(path));
    let counted = || -> BTreeMap<String, u64> {
        let sql = "select trace, count(*) as n from events group by trace";
        let found = rows(&store.session(), sql).unwrap().into_iter();
        found
            .map(|row| {
                (
                    row["trace"].as_str().unwrap().to_owned(),
                    row["n"].as_u64().unwrap(),
                )
            })
            .collect()
    };
    let is_staged = || {
        let entries = fs::read_dir(&store.0).unwrap();
        entries.flatten().any(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            name.starts_with(".new-") && !name.ends_with("lock")
        })
    };
    let wait = |child: &mut Child| {
        while !is_staged() && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        Instant::now()
    };
    // How long one takes, from its folder on.
    let mut first = start(&other, &["--boot", "b"]);
    let began = wait(&mut first);
    assert!(first.wait().unwrap().success());
    let whole = u64::try_from(began.elapsed().as_millis()).unwrap();

    let (mut random, mut cut, mut is_longer) = (Random(9), 0, false);
    for round in 0..ENDED {
        // A new boot, or another trace in place of one.
        let boot = format!("b{round}");
        let mut child = match round % 2 {
            0 => start(&other, &["--boot", &boot, "--date", "2026-03-04"]),
            _ if is_longer => start(&other, &["--boot", "b", "--replace"]),
            _ => start(&longer, &["--boot", "b", "--replace"]),
        };
        wait(&mut child);
        std::thread::sleep(Duration::from_millis(random.below(whole + whole / 4)));
        let _ = child.kill();
        cut += usize::from(!child.wait().unwrap().success());
        let found = counted();
        assert_eq!(found["one/one-a"], wanted[0]);
        // Either of the two or both, each once and whole. (The same trace as another boot moves.)
        let others: Vec<u64> = found
            .values()
            .copied()
            .filter(|n| *n != wanted[0])
            .collect();
        assert_eq!(
            others.iter().collect::<BTreeSet<_>>().len(),
            others.len(),
            "{found:?}"
        );
        assert!(!others.is_empty(), "{found:?}");
        assert!(
            others.iter().all(|n| wanted[1..].contains(n)),
            "{found:?} {wanted:?}"
        );
        is_longer = found.get("other/b") == Some(&wanted[2]);
    }
    assert!(
        cut >= ENDED / 4,
        "{cut} of {ENDED} were ended before they had finished"
    );
    let last = start(&longer, &["--boot", "b", "--replace"])
        .wait_with_output()
        .unwrap();
    assert!(
        last.status.success(),
        "{}",
        String::from_utf8_lossy(&last.stderr)
    );
    assert_eq!(counted()["other/b"], wanted[2]);
    assert!(!is_staged());
}

#[test]
fn two_writers_of_a_trace_do_not_mix() {
    let store = Folder::new("two");
    let mut made = busy("two", 5, 500);
    let trace = made.finish().to_str().unwrap().to_owned();
    let path = store.0.to_str().unwrap().to_owned();
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kymo-query"));
        command
            .args(["--into", &path, &trace])
            .stdout(Stdio::null());
        command.stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<Child> = (0..3).map(|_| start()).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.success() || said.contains("another program"),
            "{said}"
        );
    }
    assert_eq!(store.files("manifest.json").len(), 1);
    let count = "select count(*) as n from syscalls";
    let wanted = rows(&session(&[Path::new(&trace)]), count).unwrap();
    assert_eq!(rows(&store.session(), count).unwrap(), wanted);
}
