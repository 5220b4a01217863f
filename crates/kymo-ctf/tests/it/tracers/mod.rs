//! Compares this crate with babeltrace2, event by event, on traces of other tracers and of Kymo.
//!
//! `cargo xtask test tracers` records them and names their folders in `KYMO_TRACES`, separated by
//! `:`.

mod random;
mod twin;

use std::fs;
use std::path::Path;
use std::process::Command;

use kymo_ctf::{Extent, Format, Keep, Trace, convert};

use crate::conformance::show;

/// babeltrace2's output in the form of [`show`]: times without leading zeros, no host, decimal
/// numbers.
fn theirs(trace: &Path) -> Vec<String> {
    let arguments = [
        "--clock-cycles",
        "--no-delta",
        "--color=never",
        "--fields=emf",
    ];
    let output = Command::new("babeltrace2")
        .args(arguments)
        .arg(trace)
        .output()
        .expect("babeltrace2 is installed");
    assert!(
        output.status.success(),
        "{}: {}: {}",
        trace.display(),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    // babeltrace2 reports possible losses before the end of a stream's first packet; this crate
    // reports nothing for them.
    let losses = said
        .lines()
        .map(loss)
        .filter(|loss| !loss.starts_with("lost: ?"));
    text.lines().map(normal).chain(losses).collect()
}

/// babeltrace2's message about a loss, in the form of [`show`]; in these traces a clock tick is a
/// nanosecond.
///
/// - `WARNING: Tracer discarded 5 events between [00:00:00.000000010] and [00:00:00.000000020] in trace ..`
/// - `WARNING: Tracer may have discarded events (unknown time range) in trace ..`
fn loss(line: &str) -> String {
    let loss = || {
        let rest = line
            .strip_prefix("WARNING: Tracer ")?
            .split_once(" in trace ")?
            .0;
        let (what, range) = rest
            .split_once(" (")
            .or_else(|| rest.split_once(" between "))?;
        let count = what
            .strip_prefix("discarded ")
            .map_or("?", |what| what.split(' ').next().unwrap_or_default());
        let kind = if what.contains(" packet") {
            "packets"
        } else {
            "events"
        };
        if range == "unknown time range)" {
            return Some(format!("lost: {count} {kind} [?, ?]"));
        }
        let (begin, end) = range
            .strip_prefix('[')?
            .strip_suffix(']')?
            .split_once("] and [")?;
        Some(format!(
            "lost: {count} {kind} [{}, {}]",
            ticks(begin)?,
            ticks(end)?
        ))
    };
    loss().unwrap_or_else(|| panic!("babeltrace2 says more than losses: {line}"))
}

/// `hh:mm:ss.nnnnnnnnn`
fn ticks(time: &str) -> Option<u64> {
    let (time, nanos) = time.split_once('.')?;
    let seconds = time
        .split(':')
        .try_fold(0, |sum, part| Some(60 * sum + part.parse::<u64>().ok()?))?;
    Some(1_000_000_000 * seconds + nanos.parse::<u64>().ok()?)
}

fn normal(line: &str) -> String {
    let line = match line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((time, rest)) => {
            let time = time.trim_start_matches('0');
            format!("[{}]{rest}", if time.is_empty() { "0" } else { time })
        }
        None => line.to_owned(),
    };
    // Outside quotes, a hexadecimal number is a field of base 16.
    let mut out = String::new();
    for (i, part) in line.trim_end().split('"').enumerate() {
        if i > 0 {
            out.push('"');
        }
        if i % 2 == 1 {
            out.push_str(part);
            continue;
        }
        let mut pieces = part.split("0x");
        out.push_str(pieces.next().unwrap());
        for piece in pieces {
            let end = piece
                .find(|c: char| !c.is_ascii_hexdigit())
                .unwrap_or(piece.len());
            let (digits, rest) = piece.split_at(end);
            out.push_str(&u64::from_str_radix(digits, 16).unwrap().to_string());
            out.push_str(rest);
        }
    }
    out
}

/// A line without `_NAME_length` and `_NAME_tag`, which may have been inserted.
fn without_copies(line: &str) -> String {
    let is_copy = |field: &&str| {
        let name = field
            .trim_start_matches(['{', '[', ' '])
            .split(' ')
            .next()
            .unwrap_or_default();
        name.starts_with('_') && (name.ends_with("_length") || name.ends_with("_tag"))
    };
    // Braces do not matter here; a field after a removed one follows a comma instead of a brace.
    let bare = line.replace("{ ", "").replace(" }", "");
    bare.split(", ")
        .filter(|field| !is_copy(field))
        .collect::<Vec<_>>()
        .join(", ")
}

/// The converted trace: babeltrace2 prints no messages, and the same lines except for the trace's
/// folder.
fn converted(trace: &Path, lines: &[String]) {
    // Two tests may run this in parallel.
    let out = std::env::temp_dir().join(format!(
        "kymo-tracers-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    for (format, again) in [(Format::Ctf18, false), (Format::Ctf2, true)] {
        let _ = fs::remove_dir_all(&out);
        fs::create_dir_all(out.join("one")).unwrap();
        let all = |from: &Path, to: &Path, format| {
            let made = convert(
                &Trace::open(from).unwrap(),
                to,
                format,
                Extent::Whole,
                |_| Keep::Take,
            )
            .unwrap();
            assert!(made.damage.is_none(), "{}: {made:?}", from.display());
        };
        all(trace, &out.join("one"), format);
        let mut read = out.join("one");
        if again {
            // babeltrace2 2.0 does not read CTF 2.
            fs::create_dir_all(out.join("two")).unwrap();
            all(&read, &out.join("two"), Format::Ctf18);
            read = out.join("two");
        }
        let mut theirs = theirs(&read);
        let mut lines = lines.to_vec();
        // The output has times of packets and losses that the source lacks.
        if lines
            .iter()
            .any(|line| line.starts_with("lost: ") && line.contains('?'))
        {
            [&mut lines, &mut theirs]
                .into_iter()
                .flatten()
                .filter(|line| line.starts_with("lost: "))
                .for_each(|line| {
                    line.truncate(line.find('[').unwrap_or(line.len()));
                });
        }
        for lines in [&mut lines, &mut theirs] {
            lines
                .iter_mut()
                .for_each(|line| *line = without_copies(line));
            lines.sort();
        }
        let different = lines
            .iter()
            .zip(&theirs)
            .find(|(lines, theirs)| lines != theirs);
        assert_eq!(different, None, "{}", trace.display());
        assert_eq!(lines.len(), theirs.len(), "{}", trace.display());
    }
    fs::remove_dir_all(&out).unwrap();
}

fn ours(trace: &Path) -> Vec<String> {
    ours_by(trace, &fs::read(trace.join("metadata")).unwrap())
}

fn ours_by(trace: &Path, metadata: &[u8]) -> Vec<String> {
    let metadata = show::parse(metadata);
    let metadata = metadata.unwrap_or_else(|refusal| {
        panic!(
            "{}: {:?}: {}",
            trace.display(),
            refusal.position,
            refusal.message
        )
    });
    let mut streams = Vec::new();
    for entry in fs::read_dir(trace).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_file() && name != "metadata" {
            streams.push((name, fs::read(entry.path()).unwrap()));
        }
    }
    streams.sort();
    let lines = show::decode(&metadata, &streams);
    assert!(
        lines == show::decode_borrowed(&metadata, &streams),
        "{}: the two readers differ",
        trace.display()
    );
    lines
}

fn time(line: &str) -> u64 {
    line.strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
        .map_or(0, |(time, _)| time.parse().unwrap())
}

#[test]
#[ignore = "needs traces: cargo xtask test tracers records them"]
fn values_are_the_same() {
    let traces = std::env::var_os("KYMO_TRACES").expect("KYMO_TRACES names the traces");
    for trace in std::env::split_paths(&traces) {
        let (mut ours, mut theirs) = (ours(&trace), theirs(&trace));
        let events = ours.iter().filter(|line| !line.starts_with("lost: "));
        assert!(
            events.is_sorted_by_key(|line| time(line)),
            "{}: not in the order of time",
            trace.display()
        );
        converted(&trace, &theirs);
        for lines in [&mut ours, &mut theirs] {
            // babeltrace2 reports losses in nanoseconds, which are not the ticks of all these
            // clocks.
            let losses = lines.iter_mut().filter(|line| line.starts_with("lost: "));
            losses.for_each(|line| line.truncate(line.find('[').unwrap_or(line.len())));
            // Readers may order events of two streams at the same time differently.
            lines.sort();
        }
        let different = ours
            .iter()
            .zip(&theirs)
            .find(|(ours, theirs)| ours != theirs);
        assert_eq!(different, None, "{}", trace.display());
        assert_eq!(ours.len(), theirs.len(), "{}", trace.display());
        assert!(
            ours.len() >= 1000,
            "{}: only {} events",
            trace.display(),
            ours.len()
        );
        println!("{}: {} events are the same", trace.display(), ours.len());
    }
}

/// Seeds are numbers: `KYMO_RANDOM=FROM..TO` reads other traces than the first ones.
#[test]
#[ignore = "asks babeltrace2: cargo xtask test tracers runs it"]
fn values_of_random_types_are_the_same() {
    let range = std::env::var("KYMO_RANDOM").unwrap_or("0..150".into());
    let (from, to) = range.split_once("..").expect("FROM..TO");
    let folder = std::env::temp_dir().join(format!("kymo-random-{}", std::process::id()));
    let (mut all, mut twins_read) = (0, 0);
    for seed in from.parse::<u64>().unwrap()..to.parse().unwrap() {
        let _ = fs::remove_dir_all(&folder);
        let (written, twin) = random::write(seed, &folder);
        let (mut ours, mut theirs) = (ours(&folder), theirs(&folder));
        if let Some(twin) = twin {
            let twins = ours_by(&folder, twin.as_bytes());
            assert_eq!(
                ours.len(),
                twins.len(),
                "seed {seed}, as CTF 2: {}\n{twin}",
                folder.display()
            );
            let different = ours.iter().zip(&twins).find(|(one, two)| one != two);
            assert_eq!(
                different,
                None,
                "seed {seed}, as CTF 2: {}\n{twin}",
                folder.display()
            );
            twins_read += 1;
        }
        ours.sort();
        theirs.sort();
        let different = ours
            .iter()
            .zip(&theirs)
            .find(|(ours, theirs)| ours != theirs);
        assert_eq!(different, None, "seed {seed}: {}", folder.display());
        assert_eq!(
            ours.len(),
            theirs.len(),
            "seed {seed}: {}",
            folder.display()
        );
        converted(&folder, &theirs);
        let events = ours
            .iter()
            .filter(|line| !line.starts_with("lost: "))
            .count();
        assert_eq!(events, written, "seed {seed}: {}", folder.display());
        all += written;
    }
    fs::remove_dir_all(&folder).unwrap();
    println!(
        "{all} events of random types are the same; {twins_read} traces were read as CTF 2, too"
    );
}
