//! A host empties the rings, and another one continues where it stopped.

#![cfg(target_pointer_width = "64")]
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../kymo/tests/thread_cpu/mod.rs"]
mod thread_cpu;

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;

use kymo::platform::{ByPointer, LocalCas};
use kymo::ring::reader::View;
use kymo::ring::source::{Consume, Live, Outside, Source};
use kymo::{Clock, Config, Consumer, Overflow, Tracer};
use kymo_capture::TraceWriter;
use thread_cpu::{BLOCK, Block, CLOCK, leaked};

kymo::event! { #[id(21)] pub struct Beat { pub seq: u32 } }
static VOCABULARY: kymo::Vocabulary = kymo::vocabulary![Beat];

struct Test;
// SAFETY: one thread is the CPU.
unsafe impl kymo::platform::Platform for Test {
    type Reserve = LocalCas;
    type Local = ByPointer<Block>;
    fn clock() -> u64 {
        CLOCK.set(CLOCK.get() + 3);
        CLOCK.get()
    }
    fn synchronize() {}
}

/// Memory that checks every store: a consumer's stores must only free more packets. Counts the
/// stores that do.
struct Watched {
    live: Live,
    freed: Cell<u32>,
}

impl Source for Watched {
    fn len(&self) -> u64 {
        self.live.len()
    }
    fn load(&self, offset: u64) -> Result<u32, Outside> {
        self.live.load(offset)
    }
    fn load_long(&self, offset: u64) -> Result<u64, Outside> {
        self.live.load_long(offset)
    }
}

impl Consume for Watched {
    fn store(&self, offset: u64, value: u32) -> Result<(), Outside> {
        panic!("{value} at {offset}: this processor stores 64 bits at once")
    }
    fn store_long(&self, offset: u64, value: u64) -> Result<(), Outside> {
        let before = self.load_long(offset)?;
        assert!(
            value >= before,
            "packets up to {before} were free, and a writer is told {value}"
        );
        self.freed.set(self.freed.get() + 1);
        self.live.store_long(offset, value)
    }
}

#[test]
fn who_takes_over_takes_nothing_back_that_is_free() {
    let memory = leaked(64 << 10, 1);
    let config = Config {
        cpus: 1,
        packet_size: 512,
        packets: 8,
        names_packets: 4,
        overflow: Overflow::Discard,
        consumer: Consumer::Host,
        clock: Clock::at(1_000_000),
        hosted: true,
        ..Config::DEFAULT
    };
    let _session = Tracer::<Test>::start(memory, &config, &VOCABULARY).unwrap();
    BLOCK.set(memory.control(0));
    let watched = Watched {
        live: memory.live(),
        freed: Cell::new(0),
    };
    let folder = |name: &str| -> PathBuf {
        std::env::temp_dir().join(format!("kymo-takeover-{}-{name}", std::process::id()))
    };
    let mut next = 0;
    let mut record = |count| {
        for seq in next..next + count {
            Tracer::<Test>::record(Beat { seq });
        }
        next += count;
    };
    // Slightly more than five packets of 59 records each, which remain for the second host to read.
    record(300);
    let mut told = Vec::new();
    for host in ["first", "second", "third"] {
        let _ = fs::remove_dir_all(folder(host));
        let mut writer = TraceWriter::create(&folder(host), &watched).unwrap();
        assert!(writer.is_host_consumer());
        let before = watched.freed.get();
        let mut events = writer.consume(&watched, View::Live).unwrap();
        record(200);
        events += writer.consume(&watched, View::Live).unwrap();
        assert!(watched.freed.get() > before, "{host}: it frees what is new");
        assert_eq!(
            writer.finish(&watched).unwrap().channels[1].losses.dropped,
            0,
            "{host}: there was room"
        );
        told.push(events);
        fs::remove_dir_all(folder(host)).unwrap();
    }
    assert!(
        told[0] == 500 && told[1] > 200 && told[2] > 200,
        "{told:?}: each one sees what is retained"
    );
}
