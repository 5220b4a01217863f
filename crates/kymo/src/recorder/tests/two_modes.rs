//! Two modes of one session: `Sample` records what stands in the channel of samples.

use super::*;
use crate::count::{EventKind, EventSpec, GroupSpec};

crate::event! { #[id(23)] #[channel(Samples)] struct Taken { ip: u64 } }
crate::event! { #[id(24)] #[channel(Names)] struct Called { tid: u32 } }
static VOCABULARY: Vocabulary = crate::vocabulary![Beat, Taken, Called];
type T = Tracer<Test>;

const SAMPLE: u32 = Mode::Sample as u32;
const BOTH: Config = Config {
    samples_packets: 4,
    sampling: Sampling {
        period: 1000,
        ..CONFIG.sampling
    },
    ..CONFIG
};

fn recorder() -> &'static TestRecorder {
    recorder_of(&VOCABULARY)
}

fn recorder_of(vocabulary: &'static Vocabulary) -> &'static TestRecorder {
    let memory = leaked(1 << 20, 2);
    BLOCK.set(memory.control(0));
    Box::leak(Box::new(Recorder::new(memory, vocabulary)))
}

fn states(recorder: &TestRecorder) -> [State; 2] {
    [Mode::Trace, Mode::Sample].map(|mode| recorder.state(mode))
}

/// Which of events, samples and names are on.
fn on() -> [bool; 3] {
    [
        T::is_on::<Beat>(),
        T::is_on::<Taken>(),
        T::is_on::<Called>(),
    ]
}

/// Events in the next packet of a channel, by its length; `None` where there is none.
fn packet(recorder: &TestRecorder, mode: u32, name: &str) -> Option<usize> {
    let channels = recorder.channels();
    let number = channels.iter().position(|id| id.to_string() == name)?;
    let mut buffer = vec![0; recorder.buffer_words(256)];
    let bytes = recorder
        .read(mode, number as u32, Some(&mut buffer))
        .unwrap();
    (bytes > 0).then(|| bytes / 4 - 21)
}

/// A second mode starts, records, stops and finishes while the first goes on; the region goes
/// with the last.
#[test]
fn a_second_mode_comes_and_goes_while_the_first_runs() {
    let recorder = recorder();
    let started = recorder.start(TRACE, 0, Some(&BOTH)).unwrap();
    assert_eq!((started.channels, on()), (7, [true, false, true]));
    let live = recorder.ground.memory().live();
    let session = || Region::open(&live).unwrap().header().session_id;
    let first = session();
    assert_eq!(recorder.read(SAMPLE, 1, Some(&mut [0; 200])), INVALID);
    // The session stays as it is, whatever the second mode asks for.
    let other = Config {
        packets: 32,
        ..BOTH
    };
    let joined = recorder.start(SAMPLE, flags::ROLLING, Some(&other));
    assert_eq!(joined, Ok(started));
    assert_eq!(states(recorder), [State::Running; 2]);
    assert_eq!((on(), session()), ([true; 3], first), "one region");
    T::record(Taken { ip: 1 });
    T::record(Beat { seq: 2 });
    // Each of them reads every channel.
    assert_eq!(packet(recorder, TRACE, "samples_0"), Some(0), "the anchor");
    assert_eq!(packet(recorder, SAMPLE, "samples_0"), Some(3));
    assert_eq!(packet(recorder, SAMPLE, "events_0"), Some(0), "the anchor");
    // The state was recorded at both starts, by two events of two words.
    assert_eq!(packet(recorder, TRACE, "events_0"), Some(6));
    // The first one ends: the second goes on, with the names.
    assert_eq!(recorder.stop(TRACE), Ok(7));
    assert_eq!((on(), session()), ([false, true, true], first));
    assert!(recorder.history().is_enabled());
    assert_eq!(recorder.finish(TRACE), Ok(Diagnostics::default()));
    assert_eq!(states(recorder), [State::Idle, State::Running]);
    assert_eq!(recorder.read(TRACE, 1, Some(&mut [0; 200])), INVALID);
    T::record(Taken { ip: 3 });
    assert_eq!(packet(recorder, SAMPLE, "samples_0"), Some(3));
    // And it may come back.
    assert_eq!(recorder.start(TRACE, 0, Some(&BOTH)), Ok(started));
    assert_eq!((on(), session()), ([true; 3], first));
    // The second one ends: the first goes on.
    assert_eq!(recorder.finish(SAMPLE), Ok(Diagnostics::default()));
    assert_eq!(on(), [true, false, true]);
    assert!(recorder.history().is_enabled());
    // The last one ends, and with it the region.
    assert_eq!(recorder.stop(TRACE), Ok(7));
    assert_eq!(on(), [false; 3]);
    assert!(!recorder.history().is_enabled());
    assert_eq!(packet(recorder, TRACE, "samples_1"), Some(0));
    assert_eq!(recorder.finish(TRACE), Ok(Diagnostics::default()));
    assert_eq!(states(recorder), [State::Idle; 2]);
    assert!(recorder.session.claim().unwrap().get().is_none());
    assert!(recorder.start(SAMPLE, 0, Some(&BOTH)).is_ok(), "a new one");
    assert_eq!(on(), [false, true, true]);
    assert_ne!(session(), first);
    recorder.finish(SAMPLE).unwrap();
}

/// A region that no mode records into any more takes no further one.
#[test]
fn a_closed_region_is_finished_before_another_mode_starts() {
    let recorder = recorder();
    recorder.start(TRACE, 0, Some(&BOTH)).unwrap();
    recorder.start(SAMPLE, 0, Some(&BOTH)).unwrap();
    recorder.stop(SAMPLE).unwrap();
    assert!(recorder.history().is_enabled());
    assert_eq!(recorder.finish(TRACE), Ok(Diagnostics::default()));
    assert!(!recorder.history().is_enabled(), "none runs");
    let refused = recorder.start(TRACE, 0, Some(&BOTH));
    assert_eq!(refused, Err(Refused::InProgress));
    assert_eq!(packet(recorder, SAMPLE, "metadata").map(|_| ()), Some(()));
    recorder.finish(SAMPLE).unwrap();
    assert!(recorder.start(TRACE, 0, Some(&BOTH)).is_ok());
    recorder.finish(TRACE).unwrap();
}

/// While a call of one mode waits for writers, the other mode's calls are refused, and change
/// nothing.
#[test]
fn a_call_of_another_mode_is_at_work() {
    thread_local! { static RECORDER: &'static TestRecorder = recorder(); }
    fn meanwhile() {
        RECORDER.with(|recorder| {
            let busy = Err(Refused::Busy);
            assert_eq!(recorder.start(SAMPLE, 0, Some(&BOTH)), busy);
            assert_eq!(recorder.state(Mode::Sample), State::Idle);
        });
    }
    RECORDER.with(|recorder| {
        MEANWHILE.set(Some(meanwhile));
        recorder.start(TRACE, 0, Some(&BOTH)).unwrap();
        MEANWHILE.set(Some(meanwhile));
        recorder.stop(TRACE).unwrap();
        recorder.finish(TRACE).unwrap();
        assert!(MEANWHILE.take().is_none(), "both of them waited");
    });
}

/// What one call has at work, every other call that needs it is refused, however often it comes.
#[test]
fn what_another_call_has_is_refused_every_time() {
    let recorder = recorder();
    recorder.start(TRACE, 0, Some(&BOTH)).unwrap();
    recorder.start(SAMPLE, 0, Some(&BOTH)).unwrap();
    let group = GroupSpec::new(&[EventSpec::of(EventKind::Raw(1))]).unwrap();
    let mut buffer = vec![0; recorder.buffer_words(256)];
    let mut calls = || {
        [
            recorder.switch(TRACE, "beat", true).err(),
            recorder.stacks(TRACE, "beat", true).err(),
            recorder.set_sampling(SAMPLE, &BOTH.sampling).err(),
            recorder.set_counting(Mode::Count as u32, [group], 1).err(),
            recorder.read(TRACE, 0, Some(&mut buffer)).err(),
            recorder.read(TRACE, 2, Some(&mut buffer)).err(),
        ]
    };
    let invalid = Some(Refused::Invalid); // The vocabulary has no callers.
    assert_eq!(calls(), [None, invalid, None, None, None, None]);
    let stream = recorder.ground.stream(0, ChannelKind::Events).unwrap();
    let at_work = (
        recorder.session.claim().unwrap(),
        recorder.metadata.claim().unwrap(),
        stream.claim().unwrap(),
    );
    for _ in 0..3 {
        assert_eq!(calls(), [Some(Refused::Busy); 6]);
    }
    drop(at_work);
    assert_eq!(calls(), [None, invalid, None, None, None, None]);
    recorder.finish(SAMPLE).unwrap();
    recorder.finish(TRACE).unwrap();
}

/// A session without samples cannot be sampled, nor joined for it.
#[test]
fn samples_need_a_channel() {
    let recorder = recorder();
    let without = Config {
        samples_packets: 0,
        ..BOTH
    };
    let why = "the number of packets of samples (at least 4)";
    let refused = |answer| answer == Err(Refused::Config(Error::Config(why)));
    assert!(refused(recorder.start(SAMPLE, 0, Some(&without))));
    assert_eq!(states(recorder), [State::Idle; 2]);
    assert!(!recorder.history().is_enabled());
    let started = recorder.start(TRACE, 0, Some(&CONFIG)).unwrap();
    assert_eq!(started.channels, 5);
    assert!(refused(recorder.start(SAMPLE, 0, Some(&BOTH))));
    assert_eq!(states(recorder), [State::Running, State::Idle]);
    assert_eq!(on(), [true, false, true], "the first one goes on");
    // What is recorded there all the same is not kept.
    T::record(Taken { ip: 1 });
    let mut text = vec![0; 1000];
    let bytes = recorder.read(TRACE, 0, Some(&mut text)).unwrap();
    let text: Vec<u8> = text.into_iter().flat_map(u32::to_le_bytes).collect();
    let text = String::from_utf8_lossy(&text[..bytes]).into_owned();
    assert!(
        !text.contains("id = 2;") && !text.contains("taken"),
        "{text}"
    );
    recorder.finish(TRACE).unwrap();
}

const INVALID: Result<usize, Refused> = Err(Refused::Invalid);

/// `Platform::sampling` is called when sampling starts, changes and stops. The trace records the
/// settings.
#[test]
fn sampling_starts_changes_and_stops() {
    static VOCABULARY: Vocabulary = crate::vocabulary![Beat, Sampling];
    let recorder = recorder_of(&VOCABULARY);
    let told = || {
        let all: Vec<u64> = SAMPLED.take().iter().map(|all| all.period).collect();
        all
    };
    let of = |period| Sampling {
        period,
        ..BOTH.sampling
    };
    assert_eq!(recorder.set_sampling(SAMPLE, &of(5)), Err(Refused::Invalid));
    let none = Config {
        sampling: of(0),
        ..BOTH
    };
    let why = Err(Refused::Config(Error::Config(
        "the period of the samples (0)",
    )));
    assert_eq!(recorder.start(SAMPLE, 0, Some(&none)), why);
    let too_long = Config {
        sampling: of(LONGEST_PERIOD + 1),
        ..BOTH
    };
    let refused = recorder.start(SAMPLE, 0, Some(&too_long));
    assert!(matches!(refused, Err(Refused::Config(_))), "{refused:?}");
    assert_eq!((states(recorder), told()), ([State::Idle; 2], vec![]));

    recorder.start(SAMPLE, 0, Some(&BOTH)).unwrap();
    assert_eq!(told(), [1000]);
    assert_eq!(
        recorder.set_sampling(SAMPLE, &of(0)).map(|()| 0),
        why.map(|_| 0)
    );
    assert_eq!(recorder.set_sampling(TRACE, &of(5)), Err(Refused::Invalid));
    recorder.set_sampling(SAMPLE, &of(5)).unwrap();
    assert_eq!(told(), [5]);
    recorder.start(TRACE, 0, Some(&BOTH)).unwrap();
    recorder.stop(SAMPLE).unwrap();
    assert_eq!(told(), [0], "they stop while the trace goes on");
    assert_eq!(recorder.finish(SAMPLE), Ok(Diagnostics::default()));
    recorder.start(SAMPLE, 0, Some(&BOTH)).unwrap();
    recorder.finish(SAMPLE).unwrap();
    assert_eq!(told(), [1000, 0]);
    recorder.stop(TRACE).unwrap();
    assert_eq!(told(), [0; 0]);
    let settings = [(); 3].map(|()| packet(recorder, TRACE, "names_0"));
    // The anchor; then three records of two words of header and four of settings, and the end's
    // of two and fourteen.
    assert_eq!(settings, [Some(0), Some(3 * 6), Some(16)]);
    recorder.finish(TRACE).unwrap();
}

/// Samples alone still tell whose they are.
#[test]
fn samples_come_with_the_life_of_threads_and_processes() {
    use crate::vocabulary::{ProcessExec, Sample, SchedSwitch, ThreadCreate};
    static VOCABULARY: Vocabulary =
        crate::vocabulary![Sample, ThreadCreate, ProcessExec, SchedSwitch];
    let recorder = recorder_of(&VOCABULARY);
    let config = Config {
        packet_size: 2048,
        ..BOTH
    };
    let on = || {
        [
            T::is_on::<Sample>(),
            T::is_on::<ThreadCreate>(),
            T::is_on::<ProcessExec>(),
            T::is_on::<SchedSwitch>(),
        ]
    };
    let none = |_: &str| false;
    recorder.start_with(SAMPLE, 0, Some(&config), none).unwrap();
    assert_eq!(on(), [true, true, true, false]);
    recorder.start_with(TRACE, 0, Some(&config), none).unwrap();
    assert_eq!(on(), [true, true, true, false]);
    recorder.finish(TRACE).unwrap();
    assert_eq!(on(), [true, true, true, false]);
    recorder.finish(SAMPLE).unwrap();
    assert_eq!(on(), [false; 4]);
}

/// An event records its callers where that is asked for, and only while it is recorded.
#[test]
fn events_record_their_callers() {
    use crate::vocabulary::EventStack;
    type Kymo = Tracer<Test>;
    static VOCABULARY: Vocabulary = crate::vocabulary![Beat, Called, EventStack];
    let recorder = recorder_of(&VOCABULARY);
    let config = Config {
        packet_size: 2048,
        ..BOTH
    };
    let stacked = || {
        Kymo::context_of::<Beat>();
        STACKED.take()
    };
    assert_eq!(recorder.stacks(TRACE, "beat", true), Err(Refused::Invalid));
    recorder.start(TRACE, 0, Some(&config)).unwrap();
    assert_eq!(stacked(), 0);
    assert_eq!(recorder.stacks(TRACE, "b*", true), Ok(1));
    assert_eq!(stacked(), Beat::ID);
    for name in ["called", "event_stack", "beats"] {
        assert_eq!(recorder.stacks(TRACE, name, true), Err(Refused::Invalid));
    }
    assert_eq!(recorder.stacks(TRACE, "beat", false), Ok(1));
    assert_eq!(stacked(), 0);
    recorder.stacks(TRACE, "beat", true).unwrap();
    recorder.start(SAMPLE, 0, Some(&config)).unwrap();
    recorder.stop(TRACE).unwrap();
    assert_eq!(stacked(), 0, "a second start begins anew");
    recorder.finish(TRACE).unwrap();
    recorder.finish(SAMPLE).unwrap();
    // Without the channel there is no place for them.
    let without = Config {
        samples_packets: 0,
        ..config
    };
    recorder.start(TRACE, 0, Some(&without)).unwrap();
    assert_eq!(recorder.stacks(TRACE, "beat", true), Err(Refused::Invalid));
    recorder.finish(TRACE).unwrap();
}

/// The word of the command line starts all of its modes or none, and nobody else's.
#[test]
fn a_word_starts_its_modes() {
    let recorder = recorder();
    let start = |line| recorder.start_as(&Options::parse(line).unwrap(), 0, &BOTH);
    let started = start("kymo=mode=trace:sample").unwrap();
    assert_eq!((started.channels, on()), (7, [true; 3]));
    assert_eq!(start("kymo=mode=trace:sample"), Err(Refused::InProgress));
    assert_eq!(states(recorder), [State::Running; 2], "they go on");
    recorder.finish(TRACE).unwrap();
    recorder.finish(SAMPLE).unwrap();
    start("kymo=mode=sample,rolling").unwrap();
    assert_eq!(states(recorder), [State::Idle, State::Running]);
    assert_eq!(start("kymo=mode=trace:sample"), Err(Refused::InProgress));
    assert_eq!(states(recorder), [State::Idle, State::Running]);
    recorder.finish(SAMPLE).unwrap();
    assert_eq!(start("kymo=mode=count"), Err(Refused::NotBuilt));
    // This vocabulary has no event for callers.
    assert_eq!(start("kymo=stacks=beat"), Err(Refused::Invalid));
    assert_eq!(states(recorder), [State::Idle; 2]);
}

/// The word's depth is that of events' callers, too. Samples that another call has started keep
/// their own.
#[test]
fn the_callers_of_events_go_as_deep_as_the_word_says() {
    use crate::vocabulary::EventStack;
    static VOCABULARY: Vocabulary = crate::vocabulary![Beat, EventStack];
    let recorder = recorder_of(&VOCABULARY);
    let config = Config {
        packet_size: 2048,
        ..BOTH
    };
    let start = |line| recorder.start_as(&Options::parse(line).unwrap(), 0, &config);
    let told = || {
        let all: Vec<_> = SAMPLED.take();
        let all = all.iter().map(|all| (all.period, all.depth));
        all.collect::<Vec<_>>()
    };
    start("kymo=stacks=beat,depth=4").unwrap();
    assert_eq!(told(), [(0, 4)]);
    recorder.finish(TRACE).unwrap();
    start("kymo=stacks=beat").unwrap();
    assert_eq!(told(), [(0, config.sampling.depth)]);
    recorder.finish(TRACE).unwrap();
    assert_eq!(told(), []);
    start("kymo=mode=trace:sample,stacks=beat,depth=4").unwrap();
    assert_eq!(told(), [(1000, 4)]);
    recorder.finish(TRACE).unwrap();
    start("kymo=stacks=beat,depth=9").unwrap();
    assert_eq!(told(), [], "samples are taken");
    recorder.finish(TRACE).unwrap();
    recorder.finish(SAMPLE).unwrap();
}
