//! Samples in timelines, beside the events that were recorded with them.

use std::path::PathBuf;

use crate::decoded::{self, fields};
use kymo::Sequence;
use kymo::vocabulary::{
    Address, ChainEnd, CpuMode, Sample, SchedSwitch, SwitchReason, ThreadState, Tid,
};
use kymo_export::{Format, Samples, export, export_with_samples};
use kymo_made::{MS, Made, US};
use serde_json::{Value, json};

const KERNEL: u64 = 0xffff_ffff_8000_1000;

fn sample(tid: u32, mode: CpuMode, callers: &[u64]) -> Sample {
    let callers: Vec<Address> = callers.iter().copied().map(Address).collect();
    Sample {
        ip: Address(KERNEL),
        tid: Tid(tid),
        period: 100_000,
        missed: 0,
        mode,
        kernel_callers: callers.len() as u8,
        kernel_end: ChainEnd::Complete,
        user_end: ChainEnd::Absent,
        callchain: Sequence::new(&callers),
    }
}

/// Thread 5 runs from 1 ms on and has two samples; CPU 1 is idle and has one.
fn made(name: &str) -> Made {
    let mut made = Made::with_samples(name);
    let switch = SchedSwitch {
        prev_tid: Tid(0),
        prev_state: ThreadState::Runnable,
        next_tid: Tid(5),
        next_prio: 0,
        reason: SwitchReason::Idle,
    };
    made.event(0, MS, switch);
    for round in 1..3 {
        let at = MS + round * 100 * US;
        made.event(
            0,
            at,
            sample(5, CpuMode::Kernel, &[KERNEL + 0x101, KERNEL + 0x201]),
        );
    }
    made.event(1, 2 * MS, sample(0, CpuMode::Idle, &[]));
    made
}

/// The exported file, with samples or without them.
fn exported(name: &str, format: Format, has_samples: bool) -> Vec<u8> {
    let mut made = made(name);
    let path: PathBuf =
        std::env::temp_dir().join(format!("kymo-samples-{}-{name}", std::process::id()));
    let trace = kymo_ctf::Trace::open(made.finish()).unwrap();
    let symbolize = |chains: kymo_profile::Chains| Some(chains.symbolize(|_| []));
    match has_samples {
        true => {
            let samples = Samples {
                unwind: None,
                symbolize,
            };
            export_with_samples(&trace, format, Some(&path), |_| (), Some(samples))
        }
        false => export(&trace, format, &path, |_| ()),
    }
    .unwrap();
    if format == Format::Perfetto && has_samples {
        decoded::keep(&path, "samples");
    }
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    bytes
}

/// The first field of this number.
fn bytes_of(message: &[u8], number: u64) -> Option<&[u8]> {
    let all = fields(message);
    let found = all.into_iter().find(|(field, ..)| *field == number);
    found.map(|(.., bytes)| bytes)
}

fn number_of(message: &[u8], number: u64) -> Option<u64> {
    let all = fields(message);
    let found = all.into_iter().find(|(field, ..)| *field == number);
    found.map(|(_, value, _)| value)
}

#[test]
fn perfetto_has_a_packet_for_each_sample_at_its_time() {
    let bytes = exported("perfetto", Format::Perfetto, true);
    let packets: Vec<&[u8]> = fields(&bytes)
        .into_iter()
        .map(|(.., packet)| packet)
        .collect();
    let samples: Vec<(&[u8], &[u8])> = packets
        .iter()
        .filter_map(|packet| Some((*packet, bytes_of(packet, 66)?)))
        .collect();
    let of = |place: usize| {
        let (packet, sample) = samples[place];
        let fields = [1, 3, 5, 4].map(|number| number_of(sample, number));
        (number_of(packet, 8), fields)
    };
    let first = of(0);
    assert_eq!(samples.len(), 3);
    assert_eq!(first.0, Some(1_100_000));
    let [cpu, tid, mode, stack] = first.1;
    assert_eq!((cpu, tid, mode), (Some(0), Some(5), Some(1)));
    assert_eq!(of(1), (Some(1_200_000), first.1));
    assert_eq!(of(2).0, Some(2_000_000));
    assert_eq!(of(2).1[0], Some(1));
    // The first sample's packet has the stack, the outermost frame first.
    let interned = bytes_of(samples[0].0, 12).unwrap();
    let names: Vec<(u64, String)> = fields(interned)
        .into_iter()
        .filter(|(field, ..)| *field == 5)
        .map(|(.., name)| {
            let text = String::from_utf8(bytes_of(name, 2).unwrap().to_vec()).unwrap();
            (number_of(name, 1).unwrap(), text)
        })
        .collect();
    let callstack = bytes_of(interned, 7).unwrap();
    assert_eq!(number_of(callstack, 1), stack);
    let frames: Vec<u64> = fields(callstack)
        .into_iter()
        .filter(|(field, ..)| *field == 2)
        .map(|(_, frame, _)| frame)
        .collect();
    let shown: Vec<&str> = frames
        .iter()
        .map(|id| {
            let all = fields(interned);
            let mut frames = all.iter().filter(|(field, ..)| *field == 6);
            let (.., frame) = frames
                .find(|(.., frame)| number_of(frame, 1) == Some(*id))
                .unwrap();
            let function = number_of(frame, 2).unwrap();
            &*names.iter().find(|(id, _)| *id == function).unwrap().1
        })
        .collect();
    assert_eq!(
        shown,
        [
            "0xffffffff80001200",
            "0xffffffff80001100",
            "0xffffffff80001000"
        ]
    );
    // The second sample has nothing new to say.
    assert_eq!(bytes_of(samples[1].0, 12), None);
    // The events are as they are without samples.
    let without = exported("perfetto-without", Format::Perfetto, false);
    assert!(bytes.starts_with(&without));
}

#[test]
fn chrome_has_the_samples_and_the_tree_of_frames() {
    let json: Value = serde_json::from_slice(&exported("chrome", Format::Chrome, true)).unwrap();
    let samples = json["samples"].as_array().unwrap();
    let times: Vec<f64> = samples
        .iter()
        .map(|sample| sample["ts"].as_f64().unwrap())
        .collect();
    assert_eq!(times, [1100.0, 1200.0, 2000.0]);
    assert_eq!(samples[0]["tid"], 5);
    assert_eq!(
        (&samples[0]["cpu"], &samples[2]["cpu"]),
        (&json!(0), &json!(1))
    );
    let mut stack = Vec::new();
    let mut next = &samples[0]["sf"];
    while let Some(number) = next.as_str() {
        let frame = &json["stackFrames"][number];
        stack.push(frame["name"].as_str().unwrap());
        next = &frame["parent"];
    }
    assert_eq!(
        stack,
        [
            "0xffffffff80001000",
            "0xffffffff80001100",
            "0xffffffff80001200"
        ]
    );
    let without: Value =
        serde_json::from_slice(&exported("chrome-without", Format::Chrome, false)).unwrap();
    assert_eq!(json["traceEvents"], without["traceEvents"]);
    assert_eq!(without.get("samples"), None);
}

/// Samples are points of their own track, whoever was running.
#[test]
fn a_cpu_has_a_track_of_its_samples() {
    let json: Value = serde_json::from_slice(&exported("tracks", Format::Chrome, false)).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let called = |name: &str| {
        let mut names = events
            .iter()
            .filter(|event| event["name"] == "thread_name" && event["args"]["name"] == name);
        let track = names.next().unwrap();
        let of_track = events.iter().filter(|event| {
            event["ph"] == "i" && (&event["pid"], &event["tid"]) == (&track["pid"], &track["tid"])
        });
        let points = of_track.map(|point| (point["cat"].clone(), point["ts"].clone()));
        points.collect::<Vec<_>>()
    };
    let sample = |at: f64| (json!("sample"), json!(at));
    assert_eq!(called("CPU 0 samples"), [sample(1100.0), sample(1200.0)]);
    assert_eq!(called("CPU 1 samples"), [sample(2000.0)]);
}
