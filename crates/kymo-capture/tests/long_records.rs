//! Records that are longer than a page of a stream file.
#![cfg(target_pointer_width = "64")]
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../kymo/tests/thread_cpu/mod.rs"]
mod thread_cpu;

use kymo::platform::{ByPointer, LocalCas, Platform};
use kymo::ring::reader::View;
use kymo::{Clock, Config, Overflow, Sequence, Tracer};
use kymo_capture::TraceWriter;
use kymo_ctf::{Item, Trace, Value};
use thread_cpu::{BLOCK, Block, CLOCK, leaked};

kymo::event! { #[id(21)] pub struct Beat { pub seq: u32 } }
kymo::event! { #[id(22)] pub struct Long { pub seq: u32, pub values: Sequence<u64, 1500> } }
static VOCABULARY: kymo::Vocabulary = kymo::vocabulary![Beat, Long];

struct Test;
// SAFETY: one thread is the CPU.
unsafe impl Platform for Test {
    type Reserve = LocalCas;
    type Local = ByPointer<Block>;
    fn clock() -> u64 {
        CLOCK.set(CLOCK.get() + 3);
        CLOCK.get()
    }
    fn synchronize() {}
}

#[test]
fn a_record_longer_than_a_page_gets_a_packet_of_several() {
    let memory = leaked(1 << 20, 1);
    let config = Config {
        packet_size: 32 << 10,
        packets: 16,
        overflow: Overflow::Overwrite,
        clock: Clock::at(1_000_000),
        ..Config::DEFAULT
    };
    let _session = Tracer::<Test>::start(memory, &config, &VOCABULARY).unwrap();
    BLOCK.set(memory.control(0));
    let live = memory.live();
    let folder = std::env::temp_dir().join(format!("kymo-long-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let mut writer = TraceWriter::create(&folder, &live).unwrap();
    let mut lens = Vec::new();
    for seq in 0..40 {
        let len = [0, 3, 600, 1500][seq as usize % 4];
        let values: Vec<u64> = (0..len).collect();
        lens.push(values.len());
        Tracer::<Test>::record(Beat { seq });
        Tracer::<Test>::record(Long {
            seq,
            values: Sequence::new(&values),
        });
        if seq % 3 == 0 {
            writer.poll(&live, View::Live).unwrap();
        }
        if seq % 5 == 0 {
            writer.flush().unwrap();
            // The files hold whole packets at any time.
            let events = Trace::open(&folder).unwrap().events();
            assert!(events.into_iter().all(|item| item.is_ok()));
        }
    }
    writer.poll(&live, View::PostMortem).unwrap();
    let summary = writer.finish(&live).unwrap();
    assert_eq!((summary.events(), summary.lost()), (80, 0));
    let mut found = Vec::new();
    for item in Trace::open(&folder).unwrap().events() {
        let Item::Event(event) = item.unwrap() else {
            panic!("nothing is lost")
        };
        if let Some(Value::Array(values)) = event.fields.get("values") {
            found.push(values.len());
        }
    }
    assert_eq!(found, lens);
    std::fs::remove_dir_all(folder).unwrap();
}
