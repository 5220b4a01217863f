//! The rules of the calls: every state against every call, and every refusal in its order.

mod counting;
mod two_modes;

use std::cell::{Cell, RefCell};

use super::*;
use crate::boot::Options;
use crate::event::Event;
use crate::platform::ByPointer;
use crate::ring::layout::Clock;
use crate::ring::masked::Masked;
use crate::ring::reader::View;
use crate::thread_cpu::{BLOCK, Block, NoInterrupts, leaked};
use crate::tracer::Tracer;

crate::event! { #[id(21)] struct Beat { seq: u32 } }
static VOCABULARY: Vocabulary = crate::vocabulary![Beat];

thread_local! {
    /// Whether events were on when the state was asked for.
    static DUMPED: Cell<bool> = const { Cell::new(false) };
    /// Whether something spoils the region at the end of `start`.
    static SPOILED: Cell<bool> = const { Cell::new(false) };
    static PERMITTED: Cell<bool> = const { Cell::new(true) };
    /// What to do while a call waits for writers; gives up its turn first.
    static MEANWHILE: Cell<Option<fn()>> = const { Cell::new(None) };
    /// What the platform was told about samples.
    static SAMPLED: RefCell<Vec<Sampling>> = const { RefCell::new(Vec::new()) };
    /// The event whose callers were asked for last.
    static STACKED: Cell<u32> = const { Cell::new(0) };
}

struct Test;
// SAFETY: see `Block`.
unsafe impl Platform for Test {
    type Reserve = Masked<NoInterrupts>;
    type Local = ByPointer<Block>;
    fn clock() -> u64 {
        7
    }
    fn synchronize() {
        if let Some(meanwhile) = MEANWHILE.take() {
            meanwhile();
        }
    }
    fn dump_state() {
        DUMPED.set(Tracer::<Test>::is_on::<Beat>());
        Tracer::<Test>::record(Beat { seq: 1 });
        if SPOILED.get() {
            // SAFETY: the block of a leaked region.
            unsafe { (*BLOCK.get()).kind.store(9, Relaxed) };
        }
    }
    fn sampling(sampling: &Sampling) {
        SAMPLED.with_borrow_mut(|all| all.push(*sampling));
    }
    const CONTEXTS: bool = true;
    fn context(event: u32, _: usize) {
        STACKED.set(event);
        counting::context(event);
    }
    fn counting(group: Option<&GroupSpec>) -> Result<(), Refused> {
        counting::counting(group)
    }
    fn permits(_: Call) -> bool {
        PERMITTED.get()
    }
}

type TestRecorder = Recorder<Test, 2>;

thread_local! {
    static RECORDER: &'static TestRecorder = recorder();
}

fn recorder() -> &'static TestRecorder {
    let memory = leaked(256 << 10, 2);
    BLOCK.set(memory.control(0));
    Box::leak(Box::new(Recorder::new(memory, &VOCABULARY)))
}

/// A recorder without the other modes.
fn traces_only(memory: Memory) -> &'static TestRecorder {
    Box::leak(Box::new(Recorder {
        built: &[Mode::Trace],
        ..Recorder::new(memory, &VOCABULARY)
    }))
}

const CONFIG: Config = Config {
    cpus: 2,
    packet_size: 256,
    packets: 8,
    names_packets: 4,
    overflow: Overflow::Discard,
    clock: Clock::at(1_000_000),
    hosted: true,
    ..Config::DEFAULT
};
const TRACE: u32 = Mode::Trace as u32;

fn start(recorder: &TestRecorder) -> Result<Started, Refused> {
    recorder.start(TRACE, 0, Some(&CONFIG))
}

/// The five calls: start, read, snapshot, stop, finish; their errors, if any.
fn try_all(recorder: &TestRecorder) -> [Option<Refused>; 5] {
    let mut buffer = vec![0; recorder.buffer_words(256)];
    // Calls that a state refuses come before those that change it.
    let read = recorder.read(TRACE, 2, Some(&mut buffer)).err();
    let snapshot = recorder.snapshot(TRACE).err();
    [
        start(recorder).err(),
        read,
        snapshot,
        recorder.stop(TRACE).err(),
        recorder.finish(TRACE).err(),
    ]
}

const PROGRESS: Option<Refused> = Some(Refused::InProgress);
const INVALID: Option<Refused> = Some(Refused::Invalid);

/// P-03 to P-06, P-52: each cell of state x call.
#[test]
fn each_call_in_each_state() {
    let new = || -> &'static TestRecorder { recorder() };
    let running = || {
        let recorder = new();
        assert_eq!(
            start(recorder),
            Ok(Started {
                channels: 5,
                overflow: Overflow::Discard,
                samples: false,
            })
        );
        recorder
    };
    let stopped = || {
        let recorder = running();
        assert_eq!(recorder.stop(TRACE), Ok(5));
        recorder
    };
    let finish = |recorder: &TestRecorder| recorder.finish(TRACE).map(drop);
    let read = |recorder: &TestRecorder| {
        recorder.read(TRACE, 2, Some(&mut vec![0; recorder.buffer_words(256)]))
    };

    // Idle.
    assert_eq!(new().state(Mode::Trace), State::Idle);
    assert!(start(new()).is_ok());
    assert_eq!(read(new()), Err(Refused::Invalid));
    assert_eq!(new().snapshot(TRACE), Err(Refused::Invalid));
    assert_eq!(new().stop(TRACE), Err(Refused::Invalid));
    assert_eq!(finish(new()), Err(Refused::Invalid));
    // Running.
    assert_eq!(start(running()), Err(Refused::InProgress));
    assert!(read(running()).is_ok());
    assert_eq!(running().snapshot(TRACE), Ok(()));
    assert_eq!(running().stop(TRACE), Ok(5));
    assert_eq!(finish(running()), Ok(()));
    // Stopped.
    assert_eq!(start(stopped()), Err(Refused::InProgress));
    assert!(read(stopped()).is_ok());
    assert_eq!(stopped().snapshot(TRACE), Err(Refused::Invalid));
    assert_eq!(stopped().stop(TRACE), Err(Refused::Invalid));
    assert_eq!(finish(stopped()), Ok(()));
    // And round again.
    let again = stopped();
    assert_eq!(finish(again), Ok(()));
    assert_eq!(again.state(Mode::Trace), State::Idle);
    assert!(start(again).is_ok());
    assert_eq!(finish(again), Ok(()));
}

/// Calls that come while another CPU's `start`, `stop` or `finish` waits for writers.
#[test]
fn each_call_while_another_is_at_work() {
    fn meanwhile(state: State, expected: [Option<Refused>; 5]) {
        RECORDER.with(|recorder| {
            assert_eq!(recorder.state(Mode::Trace), state);
            assert_eq!(try_all(recorder), expected, "{state:?}");
        });
    }
    RECORDER.with(|recorder| {
        MEANWHILE.set(Some(|| {
            meanwhile(
                State::Starting,
                [PROGRESS, INVALID, INVALID, INVALID, INVALID],
            )
        }));
        assert!(start(recorder).is_ok());
        MEANWHILE.set(Some(|| {
            meanwhile(State::Stopping, [PROGRESS, None, INVALID, INVALID, INVALID])
        }));
        assert!(recorder.stop(TRACE).is_ok());
        assert!(recorder.finish(TRACE).is_ok());
        assert!(start(recorder).is_ok());
        MEANWHILE.set(Some(|| {
            meanwhile(
                State::Finishing,
                [PROGRESS, INVALID, INVALID, INVALID, INVALID],
            )
        }));
        assert!(recorder.finish(TRACE).is_ok());
        assert_eq!(recorder.state(Mode::Trace), State::Idle);
        assert!(MEANWHILE.take().is_none(), "every one of them waited");
    });
}

/// N-26: the kernel's state is recorded after the switches went on, in each session anew.
#[test]
fn the_state_is_told_at_the_start() {
    let recorder = recorder();
    for _ in 0..2 {
        DUMPED.set(false);
        start(recorder).unwrap();
        assert!(DUMPED.get(), "events are on");
        let mut buffer = vec![0; recorder.buffer_words(256)];
        // The anchor, then the packet with the one event: header, and its two words.
        let lengths = [(); 3].map(|()| recorder.read(TRACE, 2, Some(&mut buffer)).unwrap());
        assert_eq!(lengths, [4 * 21, 4 * 23, 0]);
        recorder.finish(TRACE).unwrap();
    }
}

/// A region that cannot be read is not recorded into: nobody could stop that.
#[test]
fn a_start_that_fails_late_leaves_nothing_running() {
    let recorder = recorder();
    SPOILED.set(true);
    assert_eq!(start(recorder), Err(Refused::Invalid));
    SPOILED.set(false);
    assert_eq!(recorder.state(Mode::Trace), State::Idle);
    assert!(!Tracer::<Test>::is_on::<Beat>());
    assert!(!recorder.history().is_enabled());
    assert_eq!(
        recorder.read(TRACE, 0, Some(&mut vec![0; 1000])),
        Err(Refused::Invalid)
    );
    assert!(start(recorder).is_ok(), "the next one begins anew");
    recorder.finish(TRACE).unwrap();
}

/// N-26: the kernel's state is recorded again whenever that is asked for.
#[test]
fn the_state_is_told_at_a_snapshot() {
    let recorder = recorder();
    start(recorder).unwrap();
    for _ in 0..3 {
        DUMPED.set(false);
        recorder.snapshot(TRACE).unwrap();
        assert!(DUMPED.get());
    }
    let mut buffer = vec![0; recorder.buffer_words(256) + 100];
    // The anchor, then the packet with the four events: header, and two words each.
    let lengths = [(); 3].map(|()| recorder.read(TRACE, 2, Some(&mut buffer)).unwrap());
    assert_eq!(lengths, [4 * 21, 4 * 29, 0]);
    recorder.finish(TRACE).unwrap();
    // Without a recorder.
    let config = Config {
        consumer: Consumer::Kernel,
        ..CONFIG
    };
    let session = Tracer::<Test>::start(recorder.ground.memory(), &config, &VOCABULARY).unwrap();
    DUMPED.set(false);
    assert_eq!(session.snapshot(), Ok(()));
    assert!(DUMPED.get());
    session.stop().unwrap();
    DUMPED.set(false);
    assert_eq!(session.snapshot(), Err(Error::NotRunning));
    assert!(!DUMPED.get());
}

/// N-08: events by name, and those of a subject; what is off is neither recorded nor counted.
#[test]
fn events_are_switched_by_name() {
    crate::event! { #[id(22)] struct BeatMore { seq: u32 } }
    crate::event! { #[id(64)] struct ThreadLike { seq: u32 } }
    crate::event! { #[id(65)] struct ThreadOther { seq: u32 } }
    crate::event! { #[id(66)] #[channel(Names)] struct ThreadNames { seq: u32 } }
    static VOCABULARY: Vocabulary =
        crate::vocabulary![Beat, BeatMore, ThreadLike, ThreadOther, ThreadNames];
    let memory = recorder().ground.memory();
    let recorder: &TestRecorder = Box::leak(Box::new(Recorder::new(memory, &VOCABULARY)));
    assert_eq!(
        recorder.switch(TRACE, "beat", false),
        Err(Refused::Invalid),
        "nothing runs"
    );
    assert!(start(recorder).is_ok());
    type T = Tracer<Test>;
    let on = || {
        [
            T::is_on::<Beat>(),
            T::is_on::<BeatMore>(),
            T::is_on::<ThreadLike>(),
            T::is_on::<ThreadOther>(),
            T::is_on::<ThreadNames>(),
        ]
    };
    assert_eq!(on(), [true; 5]);
    assert_eq!(recorder.switch(TRACE, "thread_like", false), Ok(1));
    assert_eq!(on(), [true, true, false, true, true]);
    assert_eq!(recorder.switch(TRACE, "beat", false), Ok(1));
    assert_eq!(on(), [false, true, false, true, true]);
    assert_eq!(recorder.switch(TRACE, "beat", true), Ok(1));
    assert_eq!(recorder.switch(TRACE, "thread*", false), Ok(3));
    assert_eq!(on(), [true, true, false, false, false]);
    // Events of the other CPU too.
    BLOCK.set(memory.control(1));
    assert_eq!(on(), [true, true, false, false, false]);
    // The library's own two are among them.
    assert_eq!(recorder.switch(TRACE, "*", true), Ok(7));
    assert_eq!(on(), [true; 5]);
    assert_eq!(
        recorder.switch(TRACE, "nothing", true),
        Err(Refused::Invalid)
    );
    assert_eq!(
        traces_only(memory).switch(Mode::Count as u32, "beat", true),
        Err(Refused::NotBuilt)
    );
    PERMITTED.set(false);
    assert_eq!(
        recorder.switch(TRACE, "beat", true),
        Err(Refused::NotPermitted)
    );
    PERMITTED.set(true);
    recorder.stop(TRACE).unwrap();
    assert_eq!(on(), [false; 5]);
    assert_eq!(
        recorder.switch(TRACE, "beat", true),
        Err(Refused::Invalid),
        "it does not run any more"
    );
    assert_eq!(on(), [false; 5]);
    recorder.finish(TRACE).unwrap();
    // From the start on; names are recorded whatever was asked for.
    assert!(
        recorder
            .start_with(TRACE, 0, Some(&CONFIG), |name| name == "beat_more")
            .is_ok()
    );
    assert_eq!(on(), [false, true, false, false, true]);
    recorder.finish(TRACE).unwrap();
}

/// P-06: a ring that discards overwrites nothing: what gave way there, its host had read.
#[test]
fn what_a_host_has_read_is_not_told_as_overwritten() {
    let recorder = recorder();
    let config = Config {
        consumer: Consumer::Host,
        ..CONFIG
    };
    recorder.start(TRACE, 0, Some(&config)).unwrap();
    let live = recorder.ground.memory().live();
    let region = Region::open(&live).unwrap();
    let mut reader = region.channel(&live, 0, ChannelKind::Events).unwrap();
    let mut scratch = vec![0; reader.scratch_words()];
    let mut read = || {
        let mut read = 0;
        while let Some(mut batch) = reader.read(&live, View::Live, &mut scratch).unwrap() {
            while batch.next_record(&region.shapes(&live)).is_some() {
                read += 1;
            }
            reader.release(&live).unwrap();
        }
        read
    };
    let (mut called, mut received) = (0, 0);
    while called < 2000 {
        // Fewer than the ring holds.
        for seq in called..called + 50 {
            Tracer::<Test>::record(Beat { seq });
        }
        called += 50;
        received += read();
    }
    // And more than it holds.
    for seq in called..called + 500 {
        Tracer::<Test>::record(Beat { seq });
    }
    let told = recorder.finish(TRACE).unwrap();
    assert!(received >= 2000, "{received}");
    assert_eq!(told.overwritten, 0, "the host has read {received}");
    assert!((1..500).contains(&told.discarded), "{}", told.discarded);
}

/// P-03, P-04: a bad pointer before an unknown mode before one that is not built before permission
/// before flags and order before progress before memory.
#[test]
fn refusals_come_in_their_order() {
    let recorder = recorder();
    let traces_only = traces_only(recorder.ground.memory());
    let buffer = &mut vec![0; recorder.buffer_words(256)][..];
    let small = Config {
        packets: 1 << 20,
        ..CONFIG
    };
    let wrong = Config {
        packet_size: 300,
        ..CONFIG
    };
    let count = Mode::Count as u32;
    let run = |permitted: bool| {
        PERMITTED.set(permitted);
        let refused = |mode, flags, config| recorder.start(mode, flags, config).unwrap_err();
        (
            refused(3, 2, None),
            refused(3, 2, Some(&small)),
            traces_only.start(count, 2, Some(&small)).unwrap_err(),
            refused(TRACE, 2, Some(&small)),
        )
    };
    assert_eq!(
        run(false),
        (
            Refused::Fault,
            Refused::UnknownMode,
            Refused::NotBuilt,
            Refused::NotPermitted
        )
    );
    assert_eq!(
        run(true),
        (
            Refused::Fault,
            Refused::UnknownMode,
            Refused::NotBuilt,
            Refused::Invalid
        )
    );
    assert!(
        matches!(recorder.start(TRACE, 0, Some(&small)), Err(Refused::Memory(needed)) if needed > 256 << 10)
    );
    assert!(matches!(
        recorder.start(TRACE, 0, Some(&wrong)),
        Err(Refused::Config(_))
    ));
    assert!(matches!(
        recorder.start(TRACE, 0, Some(&Config { cpus: 3, ..CONFIG })),
        Err(Refused::Config(_))
    ));
    assert_eq!(
        recorder.state(Mode::Trace),
        State::Idle,
        "what was refused changed nothing"
    );
    // The effective mode is reported (P-07).
    let started = recorder
        .start(TRACE, flags::ROLLING, Some(&CONFIG))
        .unwrap();
    assert_eq!(
        started,
        Started {
            channels: 5,
            overflow: Overflow::Overwrite,
            samples: false,
        }
    );
    assert_eq!(
        recorder.start(TRACE, 2, Some(&small)),
        Err(Refused::Invalid),
        "an unknown flag before progress"
    );
    assert_eq!(
        recorder.start(TRACE, 0, Some(&small)),
        Err(Refused::InProgress),
        "progress before memory"
    );
    // The other calls (P-52: invalid modes, invalid calls).
    for mode in [3, u32::MAX] {
        assert_eq!(recorder.read(mode, 0, None), Err(Refused::Fault));
        assert_eq!(
            recorder.read(mode, 0, Some(buffer)),
            Err(Refused::UnknownMode)
        );
        assert_eq!(recorder.snapshot(mode), Err(Refused::UnknownMode));
        assert_eq!(recorder.stop(mode), Err(Refused::UnknownMode));
        assert_eq!(recorder.finish(mode), Err(Refused::UnknownMode));
    }
    assert_eq!(
        traces_only.read(count, 99, Some(buffer)),
        Err(Refused::NotBuilt)
    );
    assert_eq!(traces_only.snapshot(count), Err(Refused::NotBuilt));
    assert_eq!(traces_only.stop(count), Err(Refused::NotBuilt));
    assert_eq!(traces_only.finish(count), Err(Refused::NotBuilt));
    PERMITTED.set(false);
    assert_eq!(
        recorder.read(TRACE, 99, Some(buffer)),
        Err(Refused::NotPermitted)
    );
    assert_eq!(recorder.snapshot(TRACE), Err(Refused::NotPermitted));
    assert_eq!(recorder.stop(TRACE), Err(Refused::NotPermitted));
    assert_eq!(recorder.finish(TRACE), Err(Refused::NotPermitted));
    PERMITTED.set(true);
    for channel in [5, 6, u32::MAX] {
        assert_eq!(
            recorder.read(TRACE, channel, Some(buffer)),
            Err(Refused::Invalid)
        );
    }
    let len = buffer.len() - 1;
    assert_eq!(
        recorder.read(TRACE, 1, Some(&mut buffer[..len])),
        Err(Refused::Invalid),
        "too small a buffer"
    );
    assert!(recorder.read(TRACE, 1, Some(buffer)).is_ok());
    // A length of 0 would say that all of the metadata was read.
    assert_eq!(
        recorder.read(TRACE, 0, Some(&mut [])),
        Err(Refused::Invalid)
    );
    assert_eq!(recorder.read(TRACE, 0, Some(&mut buffer[..1])), Ok(4));
    let errors = [
        (Refused::NotPermitted, 1),
        (Refused::Memory(0), 12),
        (Refused::Fault, 14),
        (Refused::Busy, 16),
        (Refused::Invalid, 22),
        (Refused::UnknownMode, 38),
        (Refused::NotBuilt, 95),
        (Refused::InProgress, 115),
    ];
    assert!(
        errors
            .iter()
            .all(|(error, number)| error.errno() == *number && !error.to_string().is_empty())
    );
}
