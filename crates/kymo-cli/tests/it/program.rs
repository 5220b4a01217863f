//! The trace of a program that records itself: its threads have their numbers and names.

use std::path::PathBuf;
use std::process::Command;

use kymo_hosted::{Hosted, Options, THREADS};

use crate::run::{kymo, printed};

kymo::event! { #[id(21)] pub struct Beat { pub seq: u32 } }
static VOCABULARY: kymo::Vocabulary = kymo::vocabulary![THREADS; Beat];

/// A trace with two beats of a baker and one of a smith.
fn recorded() -> PathBuf {
    let of = format!("kymo-cli-program-{}", std::process::id());
    let directory = std::env::temp_dir().join(of);
    let session = kymo_hosted::start(&Options::default(), &VOCABULARY).unwrap();
    for (name, beats) in [("baker", 2), ("smith", 1)] {
        let thread = std::thread::Builder::new().name(name.to_owned());
        let work = move || {
            (0..beats).for_each(|seq| _ = kymo::Tracer::<Hosted>::record(Beat { seq }));
        };
        thread.spawn(work).unwrap().join().unwrap();
    }
    session.save(&directory).unwrap();
    directory
}

#[test]
fn threads_of_a_program_have_their_names() {
    let trace = recorded();
    let (code, dumped) = printed(&["dump", "--names", "--event", "beat"], &trace);
    assert_eq!(code, Some(0));
    let lines: Vec<&str> = dumped.lines().collect();
    assert_eq!(lines.len(), 3, "{dumped}");
    for (line, name) in lines.iter().zip(["baker", "baker", "smith"]) {
        assert!(line.contains(&format!("# in {name} (")), "{line}");
    }
    let (code, chosen) = printed(&["dump", "--thread", "smith", "--event", "beat"], &trace);
    assert_eq!((code, chosen.lines().count()), (Some(0), 1), "{chosen}");
    let (code, report) = printed(&["report"], &trace);
    assert_eq!(code, Some(0));
    for (name, beats) in [("baker", "2"), ("smith", "1")] {
        let row = report.lines().find(|line| line.starts_with(name));
        let row = row.unwrap_or_else(|| panic!("no row of {name}:\n{report}"));
        // Name, number, process, events, events a second.
        assert_eq!(row.split_whitespace().nth(3), Some(beats), "{report}");
    }
    let export = Command::new(env!("CARGO_BIN_EXE_kymo"))
        .args(["export", "--to", "chrome"])
        .args([&*trace, "-".as_ref()])
        .output()
        .unwrap();
    let timeline = String::from_utf8(export.stdout).unwrap();
    for name in ["baker", "smith"] {
        assert!(timeline.contains(name), "{timeline}");
    }
    assert!(kymo(&["check"], &trace).status.success());
    std::fs::remove_dir_all(trace).unwrap();
}
