//! The conformance set: the specifications, case by case. Its data and their format are in
//! tests/data.
//!
//! A case that this reader does not pass is named in `tests/data/known-gaps.txt`. Such a case must
//! still fail: the list only shrinks.

mod count;
pub(crate) mod show;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use kymo_made::case::{self, Case, read};

const PARSES: [&str; 2] = ["tsdl/parses", "json/parses"];
const FAILS: [&str; 2] = ["tsdl/fails", "json/fails"];

/// The result of a check; the name is that of the case or of a part of it.
struct Verdict<'a> {
    name: String,
    case: &'a Case,
    result: Result<(), String>,
}

/// Panics with a list of the unexpected results.
fn report(verdicts: &[Verdict]) {
    let gaps = known_gaps();
    let mut wrong = Vec::new();
    let (mut passed, mut open) = (0, 0);
    for Verdict { name, case, result } in verdicts {
        match (result, gaps.contains(name)) {
            (Ok(()), false) => passed += 1,
            (Err(_), true) => open += 1,
            (Ok(()), true) => wrong.push(format!("{name}: passes: take it out of known-gaps.txt")),
            (Err(error), false) => {
                wrong.push(format!(
                    "{name} ({}: {}): {error}",
                    case.sections.join(", "),
                    case.why
                ));
            }
        }
    }
    println!(
        "{passed} of {} cases pass, {open} are known not to",
        verdicts.len()
    );
    assert!(
        wrong.is_empty(),
        "{} of {} cases are not as they should be:\n{}",
        wrong.len(),
        verdicts.len(),
        wrong.join("\n")
    );
}

/// Checks every case as a whole.
fn all(cases: &[Case], check: impl Fn(&Case) -> Result<(), String>) {
    let verdicts: Vec<Verdict> = cases
        .iter()
        .map(|case| Verdict {
            name: case.name.clone(),
            case,
            result: check(case),
        })
        .collect();
    report(&verdicts);
}

fn known_gaps() -> BTreeSet<String> {
    let text = std::fs::read_to_string(case::folder().join("known-gaps.txt")).unwrap();
    let names = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim());
    names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn metadata_that_must_be_read() {
    all(&read(&PARSES), |case| {
        match show::parse(case.text().text.as_bytes()) {
            Ok(_) => Ok(()),
            Err(refusal) => Err(format!(
                "is refused at {:?}: {}",
                refusal.position, refusal.message
            )),
        }
    });
}

#[test]
fn metadata_that_must_be_refused() {
    all(&read(&FAILS), |case| {
        let text = case.text();
        let words = case
            .directives
            .get("fails")
            .expect("a case that fails has a word of the reason");
        assert!(!text.marks.is_empty(), "{}: no place is marked", case.name);
        let Err(refusal) = show::parse(text.text.as_bytes()) else {
            return Err("is not refused".to_owned());
        };
        let message = refusal.message.to_lowercase();
        if !words
            .split('/')
            .any(|word| message.contains(&word.to_lowercase()))
        {
            return Err(format!("the message has none of \"{words}\": {message}"));
        }
        match refusal.position {
            Some(position) if text.marks.contains(&position) => Ok(()),
            position => Err(format!(
                "is refused at {position:?}, not at {:?}: {message}",
                text.marks
            )),
        }
    });
}

/// The message of an error is free; its position is a range, from the start of the error to where
/// it was detected.
fn same_line(found: &str, expected: &str) -> bool {
    let Some((packet, range)) = expected
        .strip_prefix("error: ")
        .and_then(|place| place.split_once(", byte "))
    else {
        return found == expected;
    };
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let range = first.parse::<u64>().unwrap()..=last.parse().unwrap();
    let place = found
        .strip_prefix("error: ")
        .and_then(|place| place.strip_prefix(packet)?.strip_prefix(", byte "));
    let offset = place.and_then(|place| place.split(':').next()?.parse().ok());
    offset.is_some_and(|offset| range.contains(&offset))
}

fn expected(case: &Case) -> Vec<&str> {
    case.part("events").unwrap_or_default().lines().collect()
}

fn decodes(case: &Case, title: &str) -> Result<(), String> {
    let metadata = case.metadata(title).expect("a stream has metadata");
    let metadata = show::parse(&metadata)
        .map_err(|refusal| format!("{title}: {:?}: {}", refusal.position, refusal.message))?;
    let found = show::decode(&metadata, &case.streams());
    let borrowed = show::decode_borrowed(&metadata, &case.streams());
    if found != borrowed {
        return Err(format!(
            "the two readers differ:\n  {found:#?}\n  {borrowed:#?}"
        ));
    }
    let events = found
        .iter()
        .filter(|line| !line.starts_with("lost: ") && !line.starts_with("error: "))
        .count() as u64;
    for jobs in 1..=2 {
        let counted = count::count(
            &case.metadata(title).expect("a stream has metadata"),
            &case.streams(),
            jobs,
        );
        if counted != Ok(events) {
            return Err(format!(
                "by {title}: {events} events are read, {counted:?} counted by {jobs} threads"
            ));
        }
    }
    let expected = expected(case);
    let same = |(found, expected): (&String, &&str)| same_line(found, expected);
    if found.len() == expected.len() && found.iter().zip(&expected).all(same) {
        return Ok(());
    }
    let mut text = format!("by {title}:\n");
    for line in expected {
        writeln!(text, "    expected {line}").unwrap();
    }
    for line in found {
        writeln!(text, "    found    {line}").unwrap();
    }
    Err(text)
}

/// The metadata of a stream case: titles, and suffixes for the case's name.
const METADATA: [(&str, &str); 2] = [("metadata", ""), ("metadata 2", "@2")];

/// A case with both metadata is decoded with each, to the same events.
#[test]
fn streams_are_decoded() {
    let cases = case::streams();
    let mut verdicts = Vec::new();
    for case in &cases {
        for (title, suffix) in METADATA {
            if case.metadata(title).is_some() {
                verdicts.push(Verdict {
                    name: format!("{}{suffix}", case.name),
                    case,
                    result: decodes(case, title),
                });
            }
        }
    }
    report(&verdicts);
}

#[test]
fn known_gaps_are_cases() {
    let cases = [&PARSES, &FAILS]
        .into_iter()
        .flat_map(|files| read(files))
        .chain(case::streams())
        .collect::<Vec<_>>();
    let mut names: BTreeSet<String> = cases.iter().map(|case| case.name.clone()).collect();
    names.extend(
        cases
            .iter()
            .filter(|case| case.metadata("metadata 2").is_some())
            .map(|case| format!("{}@2", case.name)),
    );
    let strange: Vec<String> = known_gaps().difference(&names).cloned().collect();
    assert!(
        strange.is_empty(),
        "known-gaps.txt names cases that do not exist: {strange:?}"
    );
}

/// The fuzzer's findings must stay fixed.
#[test]
fn finds_do_not_crash() {
    for entry in std::fs::read_dir(case::folder().join("finds")).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let separator = b"\n--- stream\n";
        let at = bytes
            .windows(separator.len())
            .position(|window| window == separator);
        let (metadata, stream) = at.map_or((&bytes[..], &[][..]), |at| {
            (&bytes[..at], &bytes[at + separator.len()..])
        });
        match show::parse(metadata) {
            Ok(metadata) => {
                let lines = show::decode(&metadata, &[("stream".to_owned(), stream.to_vec())]);
                assert!(
                    !lines.iter().any(|line| line == show::PANICKED),
                    "{}",
                    path.display()
                );
            }
            Err(refusal) => assert_ne!(refusal.message, show::PANICKED, "{}", path.display()),
        }
    }
}

/// The set has the required number of cases.
#[test]
fn the_set_is_large_enough() {
    assert!(read(&PARSES).len() >= 150);
    assert!(read(&FAILS).len() >= 150);
    let streams = case::streams();
    assert!(streams.len() >= 60);
    let twins = streams.iter().filter(|case| {
        case.metadata("metadata").is_some() && case.metadata("metadata 2").is_some()
    });
    assert!(twins.count() >= 15);
}

/// Compares the expectations with another reader, for streams that it can read.
#[test]
#[ignore = "needs babeltrace2: cargo xtask test runs it"]
fn babeltrace2_reads_the_same() {
    let mut wrong = String::new();
    let (mut compared, mut skipped) = (0, 0);
    for case in case::streams() {
        let Some(metadata) = case.metadata("metadata") else {
            continue;
        };
        let mut expected = expected(&case);
        expected.retain(|line| !line.starts_with("lost: "));
        if let Some(reason) = case
            .directives
            .get("babeltrace2")
            .filter(|reason| reason.starts_with("never: "))
        {
            println!("not compared: {}: {reason}", case.name);
            skipped += 1;
            continue;
        }
        let folder = std::env::temp_dir().join(format!(
            "kymo-conformance-{}-{}",
            std::process::id(),
            compared + skipped
        ));
        let found = babeltrace2(&folder, &metadata, &case.streams());
        std::fs::remove_dir_all(&folder).unwrap();
        match (case.directives.get("babeltrace2"), found == expected) {
            (None, true) => compared += 1,
            (Some(reason), false) => {
                println!("not compared: {}: {reason}", case.name);
                skipped += 1;
            }
            (Some(_), true) => {
                writeln!(wrong, "{}: babeltrace2 reads it after all", case.name).unwrap()
            }
            (None, false) => writeln!(
                wrong,
                "{}:\n  expected {expected:#?}\n  found {found:#?}",
                case.name
            )
            .unwrap(),
        }
    }
    println!("{compared} cases compared with babeltrace2, {skipped} not");
    assert!(wrong.is_empty(), "{wrong}");
    assert!(compared >= 30);
}

/// Its lines without zeros before and spaces after, and its failure as one more line.
fn babeltrace2(folder: &PathBuf, metadata: &[u8], streams: &[(String, Vec<u8>)]) -> Vec<String> {
    count::write(folder, metadata, streams);
    let arguments = ["--clock-cycles", "--no-delta", "--color=never"];
    let output = Command::new("babeltrace2")
        .args(arguments)
        .arg(folder)
        .output()
        .expect("babeltrace2 is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines: Vec<String> = text
        .lines()
        .map(
            |line| match line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
                Some((time, rest)) => {
                    let time = time.trim_start_matches('0');
                    format!("[{}]{rest}", if time.is_empty() { "0" } else { time })
                }
                None => line.to_owned(),
            },
        )
        .map(|line| line.trim_end().to_owned())
        .collect();
    if !output.status.success() {
        lines.push(format!(
            "error: {}",
            String::from_utf8_lossy(&output.stderr)
                .lines()
                .next()
                .unwrap_or_default()
        ));
    }
    lines
}
