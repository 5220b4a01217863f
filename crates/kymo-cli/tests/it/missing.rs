//! Events that a session counted and its trace lacks: report, check and lint notice them.

use crate::run::printed;
use kymo::vocabulary::{Mark, SessionEnd};
use kymo_made::{Made, US};

/// Exit status and output of a command that reads the trace.
/// 3 events on CPU 0 and 2 on CPU 1, and the end of a session that counted `recorded` events and
/// dropped `discarded`.
fn ended(name: &str, recorded: u64, discarded: u64) -> Made {
    let mut made = Made::new(name);
    for (cpu, time) in [(0, 1), (0, 2), (1, 3), (1, 4), (0, 5)] {
        made.event(cpu, time * US, Mark { id: 1, value: 0 });
    }
    made.event(
        0,
        6 * US,
        SessionEnd {
            recorded,
            reused: 0,
            discarded,
            too_large: 0,
            clock_back: 0,
            abandoned: 0,
            without_ring: 0,
        },
    );
    made
}

#[test]
fn a_complete_trace_has_what_its_session_counted() {
    let mut made = ended("complete", 5, 0);
    let (_, report) = printed(&["report"], made.finish());
    assert!(
        report.starts_with("6 events in 4.000 us, none lost.\n"),
        "{report}"
    );
    for arguments in [&["check", "--no-losses"][..], &["lint"]] {
        assert_eq!(printed(arguments, made.finish()), (Some(0), String::new()));
    }
}

#[test]
fn a_deleted_or_emptied_stream_is_noticed() {
    for delete in [true, false] {
        let mut made = ended(&format!("stream-{delete}"), 5, 0);
        let trace = made.finish();
        let stream = trace.join("events_1");
        match delete {
            true => std::fs::remove_file(stream).unwrap(),
            false => std::fs::write(stream, b"").unwrap(),
        }
        let missing = "2 events are missing that the kernel counted until its session ended; a \
                       stream file may be missing or incomplete";
        let (status, report) = printed(&["report"], trace);
        let first = format!("4 events in 4.000 us; {missing}.\n");
        assert!(status == Some(0) && report.starts_with(&first), "{report}");
        let (status, json) = printed(&["report", "--json"], trace);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((status, &json["losses"]["missing"]), (Some(0), &2.into()));
        assert_eq!(printed(&["check"], trace), (Some(0), String::new()));
        let line = format!("{missing}\n");
        assert_eq!(printed(&["check", "--no-losses"], trace), (Some(1), line));
        let (status, lint) = printed(&["lint"], trace);
        assert!(
            status == Some(1) && lint.ends_with(&format!(": error: {missing}\n")),
            "{lint}"
        );
    }
}

/// Dropped events are reported as lost by the next packet of their stream. Those dropped after the
/// last packet only the session's end tells of.
#[test]
fn drops_that_no_packet_reports_are_missing() {
    let mut made = ended("dropped", 5, 9);
    made.lose(1, 9, 7 * US);
    let (_, report) = printed(&["report"], made.finish());
    assert!(
        report.starts_with("6 events in 4.000 us; 9 more"),
        "{report}"
    );
    assert!(!report.contains("missing"), "{report}");

    let mut made = ended("dropped-last", 5, 1);
    let (_, report) = printed(&["report"], made.finish());
    assert!(report.contains("; 1 event is missing that"), "{report}");
}

/// The counts come from a file, which may say anything.
#[test]
fn a_count_of_any_size_is_compared() {
    let mut made = ended("most", u64::MAX, u64::MAX);
    let (status, report) = printed(&["report"], made.finish());
    let first = "6 events in 4.000 us; 18,446,744,073,709,551,609 events are missing";
    assert!(status == Some(0) && report.starts_with(first), "{report}");
    assert_eq!(printed(&["check", "--no-losses"], made.finish()).0, Some(1));
    assert_eq!(printed(&["lint"], made.finish()).0, Some(1));
}
