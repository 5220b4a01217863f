//! Memory that the boot before a warm reset has left.
#![allow(missing_docs, clippy::unwrap_used)]

mod thread_cpu;

use kymo::platform::Masked;
use kymo::ring::layout::CONTROL_OFFSET;
use kymo::ring::source::{Consume, Live, Source};
use kymo::{
    Clock, Config, Error, Memory, Overflow, Recorder, Refused, Remains, Session, State, Tracer,
    Vocabulary, flags,
};
use thread_cpu::{BLOCK, NoInterrupts, OneThread, leaked};

kymo::event! { #[id(21)] struct Tick { seq: u32 } }
static VOCABULARY: Vocabulary = kymo::vocabulary![Tick];
kymo::event! { #[id(21)] struct Tock { half: u16, other: u64, more: u64 } }
static OTHERS: Vocabulary = kymo::vocabulary![Tock];

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
    let base = copy.control(0).wrapping_byte_sub(CONTROL_OFFSET).cast();
    // SAFETY: the memory of `copy`, over which no session runs.
    let bytes = unsafe { Live::new(base, BYTES as u64) };
    for offset in (0..BYTES as u64).step_by(4) {
        let word = memory.live().load(offset).unwrap();
        bytes.store(offset, word).unwrap();
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

const TRACE: u32 = kymo::Mode::Trace as u32;
type TestRecorder = Recorder<Machine, 2>;

fn recorder(memory: Memory, vocabulary: &'static Vocabulary) -> TestRecorder {
    BLOCK.set(memory.control(0));
    Recorder::new(memory, vocabulary)
}

/// What `read` gives of every channel, by its file's name.
fn read_all(recorder: &TestRecorder, buffer_words: usize) -> Vec<(String, Vec<u32>)> {
    let channels = 0..recorder.channels().len();
    let file = |channel| {
        let (mut buffer, mut all) = (vec![0; buffer_words], Vec::new());
        loop {
            let bytes = recorder.read(TRACE, channel, Some(&mut buffer)).unwrap();
            if bytes == 0 {
                break;
            }
            all.extend_from_slice(&buffer[..bytes.div_ceil(4)]);
        }
        (recorder.channels().get(channel).unwrap().to_string(), all)
    };
    channels.map(file).collect()
}

/// The machine is reset while it records. Another kernel over the same memory takes the trace out,
/// and then begins its own.
#[test]
fn the_last_sessions_trace_is_there_after_a_reset() {
    let memory = leaked(BYTES, 1);
    let before = recorder(memory, &VOCABULARY);
    assert_eq!(before.reopen(TRACE), Ok(None), "nothing was ever there");
    before.start(TRACE, flags::ROLLING, Some(&CONFIG)).unwrap();
    (0..1000).for_each(|seq| _ = Tracer::<Machine>::record(Tick { seq }));
    assert_eq!(before.reopen(TRACE), Err(Refused::InProgress));

    let after = recorder(left_behind(memory), &OTHERS);
    assert!(Tracer::<Machine>::is_on::<Tock>(), "the switch was left on");
    let remains = after.reopen(TRACE).unwrap().unwrap();
    assert!(!Tracer::<Machine>::is_on::<Tock>());
    let Remains {
        channels, overflow, ..
    } = remains;
    assert_eq!((channels, overflow), (3, Overflow::Overwrite));
    assert_eq!(after.state(kymo::Mode::Trace), State::Stopped);
    assert_eq!(after.reopen(TRACE), Err(Refused::InProgress));
    assert_eq!(after.stop(TRACE), Err(Refused::Invalid));
    assert!(!after.history().is_enabled());
    let found = read_all(&after, remains.buffer_words);

    // What the machine would have read itself.
    before.stop(TRACE).unwrap();
    let expected = read_all(&before, remains.buffer_words);
    assert!(found == expected, "{found:?}, not {expected:?}");

    let lost = after.finish(TRACE).unwrap();
    assert_eq!(lost.overwritten, 900);
    let started = after.start(TRACE, 0, Some(&CONFIG)).unwrap();
    assert_eq!(started.channels, 3);
    assert!(Tracer::<Machine>::is_on::<Tock>());
    assert_eq!(after.reopen(TRACE), Err(Refused::InProgress));
}
