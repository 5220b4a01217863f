//! Memory that the boot before a warm reset has left.
#![allow(missing_docs, clippy::unwrap_used)]

mod thread_cpu;

use kymo::platform::Masked;
use kymo::ring::source::{Consume, Source};
use kymo::{Clock, Config, Error, Memory, Session, Tracer, Vocabulary};
use thread_cpu::{BLOCK, NoInterrupts, OneThread, leaked};

kymo::event! { #[id(21)] struct Tick { seq: u32 } }
static VOCABULARY: Vocabulary = kymo::vocabulary![Tick];

type Machine = OneThread<Masked<NoInterrupts>>;

const BYTES: usize = 64 << 10;
const CONFIG: Config = Config {
    cpus: 1,
    packet_size: 256,
    packets: 4,
    names_packets: 4,
    clock: Clock::at(1_000_000),
    hosted: true,
    ..Config::DEFAULT
};

fn start(memory: Memory) -> Result<Session<Machine>, Error> {
    BLOCK.set(memory.control(0));
    Tracer::<Machine>::start(memory, &CONFIG, &VOCABULARY)
}

/// Memory with what `memory` holds: to this boot, something that another one has left there.
fn left_behind(memory: Memory) -> Memory {
    let copy = leaked(BYTES, 1);
    for offset in (0..BYTES as u64).step_by(4) {
        let word = memory.live().load(offset).unwrap();
        copy.live().store(offset, word).unwrap();
    }
    copy
}

/// Sessions were running over two regions when the machine was reset: each of them starts again,
/// and only once.
#[test]
fn every_region_starts_again_after_a_reset() {
    let before = [leaked(BYTES, 1), leaked(BYTES, 1)];
    let _running = before.map(|memory| start(memory).unwrap());
    for memory in before.map(left_behind) {
        let session = start(memory).expect("its session ended with the reset");
        assert_eq!(start(memory).map(drop), Err(Error::Running));
        session.stop().unwrap();
        start(memory).unwrap();
        assert_eq!(start(memory).map(drop), Err(Error::Running));
    }
    for memory in before {
        assert_eq!(start(memory).map(drop), Err(Error::Running));
    }
}
