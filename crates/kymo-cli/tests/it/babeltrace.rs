//! Compares the lines of `kymo dump --format babeltrace` with babeltrace2's.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use kymo_made::case;

/// Time zones, given to both programs.
const ZONES: [&str; 2] = ["UTC", "Asia/Kolkata"];

fn ours(trace: &Path, zone: &str) -> Output {
    let mut kymo = Command::new(env!("CARGO_BIN_EXE_kymo"));
    kymo.args(["dump", "--format", "babeltrace"])
        .arg(trace)
        .env("TZ", zone)
        .output()
        .unwrap()
}

fn theirs(trace: &Path, zone: &str) -> Output {
    let mut babeltrace2 = Command::new("babeltrace2");
    babeltrace2
        .arg("--color=never")
        .arg(trace)
        .env("TZ", zone)
        .output()
        .expect("babeltrace2 is installed")
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, files: &[(String, Vec<u8>)]) -> Folder {
        let path = std::env::temp_dir().join(format!(
            "kymo-babeltrace-{}-{}",
            std::process::id(),
            name.replace('/', "-")
        ));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        for (file, bytes) in files {
            std::fs::write(path.join(file), bytes).unwrap();
        }
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Every stream of the set that both read according to the specification, to the end or to the
/// error at which babeltrace2 stops.
#[test]
#[ignore = "needs babeltrace2: cargo xtask test runs it"]
fn lines_of_the_conformance_set_are_the_same() {
    let (mut compared, mut wrong) = (0, Vec::new());
    let gaps = std::fs::read_to_string(case::folder().join("known-gaps.txt")).unwrap();
    let is_gap = |name: &str| {
        gaps.lines()
            .any(|line| line.split('#').next().unwrap_or_default().trim() == name)
    };
    for case in case::streams()
        .into_iter()
        .filter(|case| !is_gap(&case.name))
    {
        // If babeltrace2 does not read the expected values, there is nothing to compare.
        let Some(metadata) = case
            .metadata("metadata")
            .filter(|_| !case.directives.contains_key("babeltrace2"))
        else {
            continue;
        };
        let mut files = case.streams();
        files.push(("metadata".to_owned(), metadata));
        let folder = Folder::new(&case.name, &files);
        let (ours, theirs) = (ours(&folder.0, "UTC"), theirs(&folder.0, "UTC"));
        let lines = |output: &Output| {
            String::from_utf8_lossy(&output.stdout)
                .lines()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let (mut ours, theirs) = (lines(&ours), (theirs.status.success(), lines(&theirs)));
        let (finished, theirs) = theirs;
        if !finished {
            ours.truncate(theirs.len());
        }
        if ours == theirs {
            compared += 1;
        } else {
            wrong.push(format!(
                "{}:\n  kymo        {ours:#?}\n  babeltrace2 {theirs:#?}",
                case.name
            ));
        }
    }
    println!("{compared} cases have the same lines");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared >= 60, "{compared}");
}

/// Each line as its time with the step from the previous line, and the rest. Kymo orders events of
/// different streams in one nanosecond by the clock's ticks, babeltrace2 by their streams. Here
/// they are ordered by CPU and name, and those of one CPU and name keep their order.
fn by_time(output: &Output) -> Vec<(String, String)> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let time = |line: &(String, String)| line.0.split(' ').next().unwrap_or_default().to_owned();
    let lines = text
        .lines()
        .map(|line| line.split_once(") ").unwrap_or((line, "")));
    let mut lines: Vec<(String, String)> = lines
        .map(|(time, rest)| (time.to_owned(), rest.to_owned()))
        .collect();
    for same in lines.chunk_by_mut(|one, two| time(one) == time(two)) {
        let mut rests: Vec<String> = same.iter().map(|(_, rest)| rest.clone()).collect();
        rests.sort_by_key(|rest| {
            let (name, fields) = rest.split_once(": ").unwrap_or((rest, ""));
            (
                fields.split('}').next().unwrap_or_default().to_owned(),
                name.to_owned(),
            )
        });
        same.iter_mut()
            .zip(rests)
            .for_each(|(line, rest)| line.1 = rest);
    }
    lines
}

/// Traces of other tracers and of Kymo, which `cargo xtask test tracers` records and names.
#[test]
#[ignore = "needs traces: cargo xtask test tracers records them"]
fn lines_of_tracers_are_the_same() {
    let traces = std::env::var_os("KYMO_TRACES").expect("KYMO_TRACES names the traces");
    for trace in std::env::split_paths(&traces) {
        for zone in ZONES {
            let (ours, theirs) = (ours(&trace, zone), theirs(&trace, zone));
            assert!(
                ours.status.success() && theirs.status.success(),
                "{}",
                trace.display()
            );
            assert_eq!(
                ours.stdout.len(),
                theirs.stdout.len(),
                "{}",
                trace.display()
            );
            assert!(
                ours.stdout.len() > 50_000,
                "{}: only {} bytes",
                trace.display(),
                ours.stdout.len()
            );
            let lines = by_time(&ours).into_iter().zip(by_time(&theirs));
            for (number, (ours, theirs)) in lines.enumerate() {
                assert_eq!(ours, theirs, "{}, line {}", trace.display(), number + 1);
            }
        }
        println!("{}: the lines are the same", trace.display());
    }
}
