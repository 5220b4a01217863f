//! The samples of a stretch: as a tree of functions, and in the timeline.

use std::fmt::Write as _;

use kymo::Sequence;
use kymo::vocabulary::{Address, ChainEnd, CpuMode, Sample, Tid};
use kymo_index::Options;
use kymo_made::{Made, US};
use serde_json::{Value, json};

use crate::{Site, status};

const CODE: u64 = 0x8000_0000;
const SAMPLES: u64 = 5_000;

pub fn sample(tid: u32, addresses: &[u64]) -> Sample {
    let callers: Vec<Address> = addresses[1..].iter().copied().map(Address).collect();
    Sample {
        ip: Address(addresses[0]),
        tid: Tid(tid),
        period: 100,
        missed: 0,
        mode: CpuMode::Kernel,
        kernel_callers: callers.len() as u8,
        kernel_end: ChainEnd::Complete,
        user_end: ChainEnd::Absent,
        callchain: Sequence::new(&callers),
    }
}

/// Each sample has two addresses: of the first half, the inner one is another each time.
fn site() -> Site {
    let mut made = Made::with_samples("view-samples");
    for number in 0..SAMPLES {
        let inner = if number < SAMPLES / 2 { number } else { 7 };
        let cpu = u32::from(number % 5 == 0);
        let chain = [CODE + 0x1_0000 + inner, CODE + 1];
        made.event(cpu, 1_000 * US + number * US, sample(5 + cpu, &chain));
    }
    Site::of_made(made, |view, path| {
        view.read(path, Options::default()).unwrap()
    })
}

fn get(site: &Site, query: &str) -> Value {
    let (head, body) = site.get(&format!("api/{query}"));
    assert_eq!(status(&head), 200, "{query}: {head}");
    serde_json::from_slice(&body).unwrap()
}

/// What is too much for a page is folded, counted, and is no sample less.
#[test]
fn a_tree_is_bounded_and_says_what_it_lacks() {
    let site = site();
    let whole = get(&site, &format!("flame?from=0&to={}", SAMPLES * US));
    assert_eq!(
        (&whole["total"], &whole["unit"]),
        (&json!(SAMPLES), &json!("samples"))
    );
    let tree = whole["tree"].as_array().unwrap();
    assert!(tree.len() <= 2_000, "{}", tree.len());
    // All, the caller of all, and the one that has more than a few samples.
    let shown: Vec<_> = tree
        .iter()
        .map(|node| (&node[0], &node[3], &node[4]))
        .collect();
    let half = SAMPLES / 2;
    assert_eq!(
        shown,
        [
            (&json!(0), &json!(0), &json!(SAMPLES)),
            (&json!(1), &json!(0), &json!(SAMPLES)),
            (&json!(2), &json!(half + 1), &json!(half + 1)),
        ]
    );
    assert_eq!(whole["left_out"], json!([half - 1, half - 1]));
    assert_eq!(
        whole["cpus"],
        json!([[0, SAMPLES / 5 * 4], [1, SAMPLES / 5]])
    );
    assert_eq!(whole["threads"][1], json!(["6", "thread (6)", SAMPLES / 5]));
    for of in ["cpu=1", "thread=6"] {
        let part = get(&site, &format!("flame?from=0&to={}&{of}", SAMPLES * US));
        assert_eq!(part["total"], json!(SAMPLES / 5), "{of}");
        // What can be chosen stays.
        assert_eq!(part["cpus"], whole["cpus"], "{of}");
    }
    // Little of it is whole.
    let little = get(&site, &format!("flame?from=0&to={}", 99 * US));
    assert_eq!(
        (&little["total"], &little["left_out"]),
        (&json!(100), &json!([0, 0]))
    );
    assert_eq!(little["tree"].as_array().unwrap().len(), 102);
}

/// The strip of samples: however narrow it is, a pixel says how many it has.
#[test]
fn the_timeline_has_each_sample_of_a_cpu() {
    let site = site();
    let trace = get(&site, "trace");
    let mut tracks = trace["tracks"].as_array().unwrap().iter();
    let track = tracks
        .find(|track| track["name"] == "CPU 0 samples")
        .unwrap();
    let mut rows = trace["rows"].as_array().unwrap().iter();
    let row = rows.position(|row| row["track"] == track["id"]).unwrap();
    let span = trace["span_ns"].as_u64().unwrap();
    for columns in [1, 7, 5_000] {
        let mut query = String::from("api/window?");
        write!(query, "from=0&to={}&columns={columns}&rows={row}", span + 1).unwrap();
        let (_, body) = site.get(&query);
        let words = body
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes(word.try_into().unwrap()));
        let words: Vec<u32> = words.collect();
        let entries = words[2..].chunks_exact(5);
        let names = trace["names"].as_array().unwrap();
        let counts = entries.map(|entry| {
            assert_eq!(names[entry[2] as usize][0], "sample");
            u64::from(entry[3])
        });
        let counts: Vec<u64> = counts.collect();
        assert_eq!(counts.iter().sum::<u64>(), SAMPLES / 5 * 4, "{columns}");
        assert!(
            counts.len() as u64 <= 2 * columns,
            "{columns}: {}",
            counts.len()
        );
    }
}

/// A trace without samples says how to get some, and a trace that is recorded when they come.
#[test]
fn what_has_no_samples_says_so() {
    let site = Site::new();
    let none = get(&site, "flame?from=0&to=9000000");
    assert_eq!(none["total"], 0);
    let said = none["account"][0].as_str().unwrap();
    assert!(said.starts_with("The trace has no samples"), "{said}");
    for wrong in [
        "flame",
        "flame?from=0&to=1&cpu=x",
        "flame?from=0&to=1&thread=-1",
        "flame?from=0&to=1&tid=5",
    ] {
        let (head, body) = site.get(&format!("api/{wrong}"));
        assert_eq!(status(&head), 400, "{wrong}: {head}");
        assert_eq!(
            String::from_utf8(body).unwrap().lines().count(),
            1,
            "{wrong}"
        );
    }
}
