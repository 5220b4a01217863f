//! Several traces in a tree of directories: every way to read them gives the same order and tally.

use std::path::Path;

use crate::writer::{Directory, Order, close, compact, event, open, preamble};
use kymo_ctf::{Item, ItemRef, Tally, Trace};

/// Writes a trace with two streams, whose clock has frequency `freq` and offset `offset`; its ids
/// cover both kinds of plans.
fn write(directory: &Path, order: Order, freq: u64, offset: u64, events: u32) {
    let wide = "uint8_t len; uint8_t bytes[len]; string s;";
    let metadata = preamble(order, freq, 0, offset)
        + &event(1, "fixed", "uint32_t n;")
        + &event(2, "wide", wide);
    std::fs::create_dir_all(directory).unwrap();
    std::fs::write(directory.join("metadata"), metadata).unwrap();
    for cpu in 0..2 {
        let mut stream = Vec::new();
        for seq in 0..3u64 {
            let begin = seq * 1000 + u64::from(cpu);
            let mut packet = open(order, cpu.into(), begin, begin + 999, seq, seq * 2, cpu);
            for n in 0..events {
                let time = begin + u64::from(n) * 7;
                if n % 3 == 0 {
                    compact(&mut packet, 2, time).u8(2).u8(1).u8(2).text("kymo");
                } else {
                    compact(&mut packet, 1, time).u32(n);
                }
            }
            stream.extend(close(packet, 5));
        }
        std::fs::write(directory.join(format!("s{cpu}")), stream).unwrap();
    }
}

fn tree(name: &str) -> Directory {
    let root = Directory::new(name, &[]);
    write(
        &root.path().join("ust/uid/1"),
        Order::Le,
        1_000_000_000,
        0,
        100,
    );
    write(&root.path().join("kernel"), Order::Be, 10_000_000, 3, 50);
    root
}

#[test]
fn all_traces_of_a_tree_are_merged_by_time() {
    let root = tree("tree");
    let trace = Trace::open(root.path()).unwrap();
    assert_eq!(trace.parts().len(), 2);
    let names: Vec<_> = trace.stream_names().collect();
    assert_eq!(
        names,
        ["kernel/s0", "kernel/s1", "ust/uid/1/s0", "ust/uid/1/s1"]
    );
    let owned: Vec<_> = trace
        .events()
        .map(|item| match item.unwrap() {
            Item::Event(event) => (
                event.stream().to_string(),
                event.nanos().unwrap(),
                event.name().to_owned(),
            ),
            Item::Loss(loss) => (
                loss.stream.to_string(),
                loss.begin_nanos.unwrap(),
                format!("{} lost", loss.count),
            ),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(owned.len(), 2 * 3 * 150 + 4 * 2);
    assert!(
        owned.windows(2).all(|pair| pair[0].1 <= pair[1].1),
        "in the order of time, across clocks"
    );
    let map = trace.map();
    let mut reader = map.read();
    let mut borrowed = Vec::new();
    while let Some(item) = reader.next() {
        borrowed.push(match item {
            ItemRef::Event(event) => (
                event.stream().to_string(),
                event.nanos().unwrap(),
                event.name().to_owned(),
            ),
            ItemRef::Loss(loss) => (
                loss.stream.to_string(),
                loss.begin_nanos.unwrap(),
                format!("{} lost", loss.count),
            ),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(owned, borrowed);
}

#[test]
fn the_tally_is_the_same_however_many_threads_make_it() {
    let root = tree("tally");
    let trace = Trace::open(root.path()).unwrap();
    let map = trace.map();
    let one = Tally::of(&map, 1, false);
    assert_eq!(one.problems, []);
    let streams: Vec<_> = one
        .streams
        .iter()
        .map(|stream| (stream.events, stream.lost_events, stream.lost_packets))
        .collect();
    assert_eq!(
        streams,
        [(150, 4, 0), (150, 4, 0), (300, 4, 0), (300, 4, 0)]
    );
    let counts: Vec<_> = one
        .events
        .iter()
        .map(|((name, cpu), count)| (&**name, cpu.unwrap(), *count))
        .collect();
    // Of 50 events 17 are of the first class, of 100 events 34, in each of three packets.
    assert_eq!(
        counts,
        [
            ("fixed", 0, 297),
            ("fixed", 1, 297),
            ("wide", 0, 153),
            ("wide", 1, 153)
        ]
    );
    for jobs in [2, 3, 9] {
        assert_eq!(Tally::of(&map, jobs, false), one);
    }
}

#[test]
fn fields_are_read_on_demand_while_streams_are_merged() {
    let root = tree("demand");
    let trace = Trace::open(root.path()).unwrap();
    let map = trace.map();
    let mut reader = map.read();
    let (mut texts, mut sum) = (0, 0);
    while let Some(item) = reader.next() {
        let ItemRef::Event(event) = item else {
            continue;
        };
        assert_eq!(event.cpu(), event.packet().unwrap().cpu);
        match event.name() {
            "wide" => {
                assert_eq!(event.field("s").unwrap().as_str(), Some("kymo"));
                texts += 1;
            }
            _ => sum += event.field("n").unwrap().as_u64().unwrap(),
        }
        assert!(event.field("none").is_none() && event.context().is_empty());
    }
    let of = |events: u64| (0..events).filter(|n| n % 3 != 0).sum::<u64>() * 6;
    assert_eq!((texts, sum), (306, of(100) + of(50)));
}

#[test]
fn a_tree_without_a_trace_is_none() {
    let root = Directory::new("no-tree", &[("readme", b"")]);
    std::fs::create_dir_all(root.path().join("a/b")).unwrap();
    assert!(matches!(
        Trace::open(root.path()),
        Err(kymo_ctf::Error::Io { .. })
    ));
}
