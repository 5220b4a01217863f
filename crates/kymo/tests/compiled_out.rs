//! Without the feature `trace`, every call is there and does nothing:
//! `cargo test -p kymo --no-default-features --test compiled_out`.
#![cfg(not(feature = "trace"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod thread_cpu;

use kymo::platform::{ByPointer, Platform};
use kymo::vocabulary::{Mark, ThreadName};
use kymo::{
    Clock, Config, Counts, History, NameEpoch, Recorder, Refused, RegionMemory, Tracer, Vocabulary,
    trace,
};
use thread_cpu::{Block, NoInterrupts, leaked};

static VOCABULARY: Vocabulary = kymo::vocabulary![kymo::vocabulary::ALL;];
static REGION: RegionMemory<{ 8 << 20 }, 4> = RegionMemory::new();
type Kymo = Tracer<Never>;

/// A platform that nobody may ask for anything.
struct Never;
// SAFETY: no function returns.
unsafe impl Platform for Never {
    type Reserve = kymo::platform::Masked<NoInterrupts>;
    type Local = ByPointer<Block>;
    fn clock() -> u64 {
        panic!("the clock is read")
    }
    fn synchronize() {
        panic!("somebody waits")
    }
    fn dump_state() {
        panic!("the state is recorded")
    }
}

fn config() -> Config {
    Config {
        cpus: 4,
        clock: Clock::at(1_000_000_000),
        hosted: true,
        ..Config::DEFAULT
    }
}

#[test]
fn a_region_is_no_more_than_its_control_blocks() {
    assert!(size_of_val(&REGION) <= 5 * 4096);
    let blocks = [0, 1, 2, 3, 4].map(|cpu| REGION.control(cpu));
    assert!(blocks[..4].iter().all(|block| !block.is_null()) && blocks[4].is_null());
    let end = blocks[3] as usize + 3 * size_of::<kymo::platform::Control>();
    assert!(end <= &raw const REGION as usize + size_of_val(&REGION));
}

#[test]
fn a_session_holds_nothing_and_touches_nothing() {
    let memory = leaked(8 << 20, 4);
    for memory in [memory, REGION.memory()] {
        let session = Kymo::start(memory, &config(), &VOCABULARY).unwrap();
        assert!(!Kymo::is_on::<Mark>());
        trace!(Mark { id: 1, value: 2 });
        assert!(!Kymo::record(Mark { id: 1, value: 2 }));
        assert!(!Kymo::record_raw(1, &[1, 2]) && !Kymo::is_on_raw(1));
        Kymo::named(&NameEpoch::new(), || -> ThreadName {
            panic!("a name is asked for")
        });
        session.snapshot().unwrap();
        session.stop().unwrap();
        let history = History::new(memory, &VOCABULARY);
        assert_eq!(history.counts(), Counts::default());
        let mut out = String::new();
        history.dump(&mut out, 9).unwrap();
        assert_eq!(out, "kymo: nothing was recorded\n");
        assert!(matches!(
            kymo::ring::reader::Region::open(&memory.live()),
            Err(_)
        ));
    }
    let recorder: Recorder<Never, 4> = Recorder::new(memory, &VOCABULARY);
    assert_eq!(
        recorder.start(0, 0, Some(&config())).unwrap_err(),
        Refused::NotBuilt
    );
}
