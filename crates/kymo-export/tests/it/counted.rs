//! What a session's group of events has counted is on the timelines.

use kymo::event::Event as _;
use kymo::vocabulary::{CountedEvent, EventCount, FrameAlloc, FrameFree, GroupCount, Mark};
use kymo::{Sequence, Text};
use kymo_export::{Format, export};
use kymo_made::{Made, US};
use serde_json::Value;

use crate::decoded::Packets;

/// Two events that are counted on CPU 1, and again from zero.
fn made(name: &str) -> Made {
    let mut made = Made::new(name);
    for (place, name) in [(0, "cycles"), (1, "instructions")] {
        let name = Text::new(name);
        let counted = CountedEvent {
            group: 0,
            groups: 1,
            place,
            events: 2,
            name,
        };
        made.event(1, 0, counted);
    }
    for (time, counts) in [(1, [10, 5]), (3, [200, 90]), (5, [450, 100])] {
        made.event(1, time * US, Mark { id: 1, value: 0 });
        let count = EventCount {
            event: Mark::ID as u16,
            group: 0,
            turns: 2,
            counts: Sequence::new(&counts),
        };
        made.event(1, time * US, count);
    }
    let group = GroupCount {
        time_enabled: 9,
        time_running: 9,
        group: 0,
        counts: Sequence::new(&[500, u64::MAX]),
    };
    made.event(1, 9 * US, group);
    made
}

/// Names and values of the counters in a file of Chrome's format.
fn counters(path: &std::path::Path) -> Vec<(String, i64)> {
    let all: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let events = all["traceEvents"].as_array().unwrap().iter();
    let counters = events.filter(|event| event["ph"] == "C");
    counters
        .map(|event| {
            let name = event["name"].as_str().unwrap().to_owned();
            (name, event["args"]["value"].as_i64().unwrap())
        })
        .collect()
}

/// V-16: two CPUs allocate and free. An order that no machine has changes nothing.
#[test]
fn the_memory_in_use_is_a_counter_track() {
    let mut made = Made::new("counted-frames");
    made.event(0, US, FrameAlloc { pfn: 8, order: 0 });
    made.event(1, 2 * US, FrameAlloc { pfn: 16, order: 3 });
    made.event(1, 3 * US, FrameAlloc { pfn: 0, order: 64 });
    made.event(0, 4 * US, FrameFree { pfn: 16, order: 3 });
    made.event(0, 5 * US, FrameFree { pfn: 4, order: 2 });
    let trace = kymo_ctf::Trace::open(made.finish()).unwrap();
    let path = std::env::temp_dir().join(format!("kymo-export-frames-{}", std::process::id()));
    export(&trace, Format::Chrome, &path, |_| ()).unwrap();
    let drawn = counters(&path);
    std::fs::remove_file(&path).unwrap();
    let wanted = [1, 9, 1, -3].map(|value| ("frames allocated minus freed".to_owned(), value));
    assert_eq!(drawn, wanted);
}

#[test]
fn counts_of_a_group_are_counter_tracks() {
    let mut made = made("counted-tracks");
    let trace = kymo_ctf::Trace::open(made.finish()).unwrap();
    let path = std::env::temp_dir().join(format!("kymo-export-counted-{}", std::process::id()));
    export(&trace, Format::Chrome, &path, |_| ()).unwrap();
    let drawn = counters(&path);
    let of = |name: &str| -> Vec<i64> {
        let of = drawn.iter().filter(|(of, _)| of == name);
        of.map(|(_, value)| *value).collect()
    };
    assert_eq!(of("cycles, cpu1"), [200, 450, 500]);
    assert_eq!(of("instructions, cpu1"), [90, 100, i64::MAX]);
    export(&trace, Format::Perfetto, &path, |_| ()).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    Packets::read(&bytes);
    for name in ["cycles, cpu1", "instructions, cpu1"] {
        let has = bytes
            .windows(name.len())
            .any(|part| part == name.as_bytes());
        assert!(has, "{name}");
    }
}

/// Two groups of a session's may count the same events.
#[test]
fn counts_of_several_groups_are_tracks_of_their_own() {
    let mut made = Made::new("counted-groups");
    for (group, place, name) in [(0, 0, "cycles"), (1, 0, "cycles"), (1, 1, "branches")] {
        let counted = CountedEvent {
            group,
            groups: 2,
            place,
            events: 1 + group,
            name: Text::new(name),
        };
        made.event(1, 0, counted);
    }
    for (time, group, counts) in [(1, 0, &[10][..]), (2, 1, &[20, 3]), (3, 0, &[15])] {
        let count = GroupCount {
            time_enabled: 10 * time,
            time_running: 5 * time,
            group,
            counts: Sequence::new(counts),
        };
        made.event(1, time * US, count);
    }
    let trace = kymo_ctf::Trace::open(made.finish()).unwrap();
    let path = std::env::temp_dir().join(format!("kymo-export-groups-{}", std::process::id()));
    export(&trace, Format::Chrome, &path, |_| ()).unwrap();
    let drawn = counters(&path);
    std::fs::remove_file(&path).unwrap();
    let expected = [
        ("cycles, group 0, cpu1", 10),
        ("cycles, group 1, cpu1", 20),
        ("branches, group 1, cpu1", 3),
        ("cycles, group 0, cpu1", 15),
    ];
    assert_eq!(
        drawn,
        expected.map(|(name, value)| (name.to_owned(), value))
    );
}
