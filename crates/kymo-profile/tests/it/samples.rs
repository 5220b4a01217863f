//! Profiles of made traces.

use kymo::vocabulary::{
    Address, ChainEnd, CpuMode, EventStack, Pid, ProcessExec, ProcessFork, Sample, SwitchReason,
    ThreadName, ThreadState, Tid,
};
use kymo::{ChannelKind, Sequence, Text};
use kymo_ctf::Trace;
use kymo_made::{Made, US};
use kymo_profile::{
    By, Chains, Collector, LoadedFile, Mode, Only, Options, Period, Profile, Samples, StackNames,
    Totals, Wanted,
};
use kymo_symbols::{CodeMap, Image, Loaded};

/// A sample of thread 5 in the kernel, with two kernel callers and one of the program.
fn sample() -> Sample {
    let callchain = [0x8000_0110, 0x8000_0210, 0x1000, 0x2001].map(Address);
    Sample {
        ip: Address(0x8000_0000),
        tid: Tid(5),
        period: 100_000,
        missed: 0,
        mode: CpuMode::Kernel,
        kernel_callers: 2,
        kernel_end: ChainEnd::Complete,
        user_end: ChainEnd::Complete,
        callchain: Sequence::new(&callchain),
    }
}

/// A sample of thread 5 in its program.
fn user_sample() -> Sample {
    Sample {
        ip: Address(0x1000),
        mode: CpuMode::User,
        kernel_callers: 0,
        kernel_end: ChainEnd::Absent,
        callchain: Sequence::new(&[Address(0x2001)]),
        ..sample()
    }
}

/// A sample of a CPU without work.
fn idle_sample() -> Sample {
    Sample {
        tid: Tid(0),
        mode: CpuMode::Idle,
        user_end: ChainEnd::Absent,
        callchain: Sequence::new(&[Address(0x8000_0910)]),
        kernel_callers: 1,
        ..sample()
    }
}

fn collected(made: &mut Made, options: Options) -> Chains {
    let trace = Trace::open(made.finish()).unwrap();
    let map = trace.map();
    let (mut reader, mut collector) = (map.read(), Collector::new(options));
    while let Some(item) = reader.next() {
        collector.add(&item, true);
    }
    collector.finish()
}

fn profile(made: &mut Made, options: Options) -> Profile {
    collected(made, options).symbolize(|_| [])
}

#[test]
fn samples_become_stacks_and_counts() {
    let mut made = Made::with_samples("samples-stacks");
    let name = Text::from("worker");
    made.event(0, 0, ThreadName { tid: Tid(5), name });
    for round in 0..10 {
        made.event(0, (10 + round) * US, sample());
    }
    made.event(1, 30 * US, user_sample());
    made.event(1, 40 * US, user_sample());
    made.event(1, 50 * US, idle_sample());
    let mut profile = profile(&mut made, Options::default());

    // Return addresses stand for the call before them; the program's first one is exact.
    assert_eq!(
        profile.folded(By::Nothing),
        "0x2000;0x1000 2\n0x2000;0x1000;0x8000020f;0x8000010f;0x80000000 10\n"
    );
    assert_eq!(
        profile.folded(By::Cpu),
        "CPU 0;0x2000;0x1000;0x8000020f;0x8000010f;0x80000000 10\nCPU 1;0x2000;0x1000 2\n"
    );
    let by_thread = profile.folded(By::Thread);
    assert!(
        by_thread
            .lines()
            .all(|line| line.starts_with("worker (5);"))
    );
    assert_eq!(profile.rows.len(), 2);
    assert_eq!(
        (profile.rows[0].ticks, profile.rows[0].mode),
        (1_000_000, Mode::Kernel)
    );
    assert_eq!(profile.weight(), profile.totals.kept);
    let totals = std::mem::take(&mut profile.totals);
    assert_eq!(
        totals,
        Totals {
            kept: 12,
            idle: 1,
            missed: Some(0),
            is_sampled: true,
            events: 14,
            ..Totals::default()
        }
    );
    assert_eq!(profile.span_ns, Some((10_000, 40_000)));
    assert_eq!(profile.period, Some(100_000));
    assert!(profile.samples.is_empty());
}

/// What a kernel in C declares: it has no sequences, so each caller is a field.
mod in_c {
    pub static EVENTS: kymo::Vocabulary = kymo::vocabulary![Sample];
    kymo::event! {
        /// A sample.
        #[id(1000)]
        pub struct Sample {
            /// The interrupted instruction.
            pub ip: u64,
            /// The interrupted thread.
            pub tid: u32,
            /// The caller.
            pub caller_1: u64,
            /// The caller's caller.
            pub caller_2: u64,
        }
    }
}

#[test]
fn callers_can_be_fields() {
    let mut made = Made::of("samples-fields", &in_c::EVENTS);
    let sample = |tid, callers: [u64; 2]| in_c::Sample {
        ip: 0x8000_0000,
        tid,
        caller_1: callers[0],
        caller_2: callers[1],
    };
    made.event(0, US, sample(5, [0x8000_0110, 0x8000_0210]));
    made.event(0, 2 * US, sample(5, [0x8000_0110, 0]));
    // Behind the end there are none, whatever the kernel has put there.
    made.event(0, 3 * US, sample(5, [0, 0x8000_0210]));
    made.event(0, 4 * US, sample(0, [0x8000_0110, 0]));
    let profile = profile(&mut made, Options::default());
    assert_eq!(
        profile.folded(By::Nothing),
        "0x80000000 1\n0x8000010f;0x80000000 1\n0x8000020f;0x8000010f;0x80000000 1\n"
    );
    // All fields are full in one of them: there may have been more callers.
    assert_eq!((profile.totals.idle, profile.totals.cut), (1, 1));
    // It does not count what it misses.
    assert_eq!(
        (profile.totals.missed, profile.totals.is_sampled),
        (None, true)
    );
}

/// As above, of a kernel that says what the CPU was doing.
mod in_c_with_mode {
    pub static EVENTS: kymo::Vocabulary = kymo::vocabulary![Sample];
    kymo::event! {
        /// A sample.
        #[id(1001)]
        pub struct Sample {
            /// The interrupted instruction.
            pub ip: u64,
            /// The interrupted thread.
            pub tid: u32,
            /// What the CPU was doing.
            pub mode: u8,
            /// The caller.
            pub caller_1: u64,
        }
    }
}

#[test]
fn samples_without_sequences_have_a_mode() {
    let mut made = Made::of("samples-fields-mode", &in_c_with_mode::EVENTS);
    for (time, tid, mode) in [(1, 5, 0), (2, 5, 1), (3, 5, 0), (4, 6, 2)] {
        let (ip, caller_1) = (0x8000_0000, 0x8000_0110);
        let sample = in_c_with_mode::Sample {
            ip,
            tid,
            mode,
            caller_1,
        };
        made.event(0, time * US, sample);
    }
    for (only, kept, other_mode) in [(Only::User, 2, 1), (Only::Kernel, 1, 2)] {
        let options = Options {
            only,
            ..Options::default()
        };
        let totals = profile(&mut made, options).totals;
        assert_eq!(
            (totals.kept, totals.other_mode, totals.idle),
            (kept, other_mode, 1)
        );
    }
}

#[test]
fn what_is_not_in_the_rows_is_counted() {
    let mut made = Made::with_samples("samples-left-out");
    made.event(
        0,
        US,
        Sample {
            missed: 3,
            kernel_end: ChainEnd::Cut,
            ..sample()
        },
    );
    made.event(
        0,
        2 * US,
        Sample {
            user_end: ChainEnd::NotRising,
            ..sample()
        },
    );
    made.event(0, 3 * US, user_sample());
    made.event(0, 4 * US, idle_sample());
    made.lose_of(ChannelKind::Samples, 0, 7, 5 * US);
    made.event(0, 6 * US, sample());
    // What is lost of the events is no sample.
    made.switch(
        0,
        7 * US,
        (5, ThreadState::Runnable, SwitchReason::Yielded),
        (6, 0),
    );
    made.lose(0, 1_000, 8 * US);
    made.switch(
        0,
        9 * US,
        (6, ThreadState::Runnable, SwitchReason::Yielded),
        (5, 0),
    );
    let of = |made: &mut Made, only, include_idle| {
        profile(
            made,
            Options {
                only,
                include_idle,
                ..Options::default()
            },
        )
        .totals
    };
    let totals = Totals {
        kept: 4,
        idle: 1,
        missed: Some(3),
        is_sampled: true,
        lost: 7,
        cut: 1,
        untrusted: 1,
        events: 7,
        ..Totals::default()
    };
    assert_eq!(of(&mut made, Only::Both, false), totals);
    assert_eq!(of(&mut made, Only::Both, true).kept, 5);
    let kernel = of(&mut made, Only::Kernel, false);
    assert_eq!(
        (kernel.kept, kernel.other_mode, kernel.untrusted),
        (3, 1, 0)
    );
    let user = of(&mut made, Only::User, false);
    assert_eq!((user.kept, user.other_mode), (1, 3));
}

/// Equal addresses in two programs are places in two images. A forked child shares its parent's
/// image.
#[test]
fn a_programs_addresses_belong_to_what_its_process_executed() {
    let mut made = Made::with_samples("samples-programs");
    let exec = |pid, path: &str| ProcessExec {
        pid: Pid(pid),
        tid: Tid(pid),
        filename: Text::from(path),
    };
    let fork = ProcessFork {
        parent_pid: Pid(5),
        parent_tid: Tid(5),
        child_pid: Pid(6),
        child_tid: Tid(6),
    };
    let of = |tid| Sample {
        tid: Tid(tid),
        ..user_sample()
    };
    made.event(0, US, exec(5, "/bin/sh"));
    made.event(0, 2 * US, fork);
    made.event(0, 3 * US, of(5));
    made.event(0, 4 * US, of(6));
    made.event(0, 5 * US, exec(6, "/bin/cat"));
    made.event(0, 6 * US, of(6));
    let trace = Trace::open(made.finish()).unwrap();
    let map = trace.map();
    let options = Options {
        keep_times: true,
        ..Options::default()
    };
    let (mut reader, mut collector) = (map.read(), Collector::new(options));
    while let Some(item) = reader.next() {
        collector.add(&item, true);
    }
    let mut asked = Vec::new();
    let profile = collector.finish().symbolize(|wanted| {
        asked.push(format!("{wanted:?}"));
        []
    });
    assert_eq!(asked, [r#"Program("/bin/sh")"#, r#"Program("/bin/cat")"#]);
    assert_eq!(
        (
            profile.frames.len(),
            profile.stacks.len(),
            profile.rows.len()
        ),
        (4, 4, 3)
    );
    let times: Vec<(i64, u32)> = profile
        .samples
        .iter()
        .map(|of| (of.time_ns, of.row))
        .collect();
    assert_eq!(times, [(3_000, 0), (4_000, 1), (6_000, 2)]);
    assert_eq!(profile.folded(By::Nothing), "0x2000;0x1000 3\n");
    let _: Wanted<'_> = Wanted::Kernel;
}

#[test]
fn chains_of_events_are_asked_for() {
    let mut made = Made::with_samples("samples-events");
    let chain = EventStack {
        event: 1,
        ip: Address(0x8000_0001),
        tid: Tid(5),
        kernel_callers: 0,
        kernel_end: ChainEnd::Complete,
        user_end: ChainEnd::Complete,
        callchain: Sequence::new(&[Address(0x1000)]),
    };
    made.event(0, US, chain);
    made.event(0, 2 * US, sample());
    let of_events = Options {
        of_events: true,
        ..Options::default()
    };
    assert_eq!(
        profile(&mut made, of_events).folded(By::Nothing),
        "0x1000;0x80000000 1\n"
    );
    assert_eq!(profile(&mut made, Options::default()).totals.kept, 1);
}

/// What `trace!` puts into the function with the tracepoint, by its name.
#[inline(always)]
fn context_of(number: u64) -> u64 {
    std::hint::black_box(number) + 1
}

#[inline(never)]
fn traced(number: u64) -> u64 {
    context_of(std::hint::black_box(number)) * 2
}

/// An event's chain begins with the function that has the tracepoint. A sample at the same place,
/// in the tracepoint's own code, shows that.
#[test]
fn the_tracepoint_is_no_frame_of_its_event() {
    assert_eq!(traced(1), 4);
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let map = CodeMap::parse(&program).unwrap();
    let mut scopes = map.scopes.iter();
    let inlined = scopes.find(|scope| scope.parent.is_some() && scope.leaf == "context_of");
    let place = inlined.unwrap().entry;
    let image = Image::parse(&program).unwrap();
    let mut made = Made::with_samples("samples-tracepoint");
    let stack = EventStack {
        event: 1,
        ip: Address(place + 1),
        tid: Tid(5),
        kernel_callers: 0,
        kernel_end: ChainEnd::Absent,
        user_end: ChainEnd::Complete,
        callchain: Sequence::new(&[]),
    };
    made.event(0, US, stack);
    let sample = Sample {
        ip: Address(place),
        callchain: Sequence::new(&[]),
        ..user_sample()
    };
    made.event(0, 2 * US, sample);
    let find = |_: Wanted<'_>| {
        [LoadedFile {
            loaded: Loaded {
                image: &image,
                bias: 0,
            },
            library: None,
        }]
    };
    for (of_events, stack) in [
        (true, "it::samples::traced 1\n"),
        // DWARF with lines only has no modules.
        (false, "it::samples::traced;context_of 1\n"),
    ] {
        let options = Options {
            of_events,
            ..Options::default()
        };
        let profile = collected(&mut made, options).symbolize(find);
        let folded = profile
            .folded(By::Nothing)
            .replace("samples::context_of", "context_of");
        assert_eq!(folded, stack);
    }
}

/// Single samples are those that are counted, with the same rows.
#[test]
fn single_samples_are_those_of_the_rows() {
    let mut made = Made::with_samples("samples-single");
    for round in 0..50 {
        made.event(round % 2, (10 + u64::from(round)) * US, sample());
        if round % 3 == 0 {
            made.event(2, (10 + u64::from(round)) * US, user_sample());
        }
    }
    made.event(3, 70 * US, idle_sample());
    let options = Options {
        include_idle: true,
        keep_times: true,
        ..Options::default()
    };
    let profile = profile(&mut made, options);
    let trace = Trace::open(made.finish()).unwrap();
    let map = trace.map();
    let (mut reader, mut samples) = (map.read(), Samples::new(options, None));
    let mut single = Vec::new();
    while let Some(item) = reader.next() {
        single.extend(samples.add(&item));
    }
    let found: Vec<_> = single.iter().map(|of| (of.time_ns, of.row)).collect();
    let wanted = profile.samples.iter().map(|of| (of.time_ns, of.row));
    assert_eq!(found, wanted.collect::<Vec<_>>());
    for of in &single {
        let row = profile.rows[of.row as usize];
        assert_eq!((of.cpu, of.mode), (row.cpu.map(u64::from), row.mode));
        assert_eq!(of.period, Some((100_000, Period::Ticks)));
        assert_eq!(of.missed, Some(0));
        let innermost = profile.frames_of(row.stack).next().unwrap();
        assert_eq!(of.address, Some(innermost.address));
    }
    let names = StackNames::of(&profile);
    let mut text = String::from("what was there before");
    let idle = profile.rows[single[single.len() - 1].row as usize];
    let (depth, begin) = names.write(idle.stack, &mut text).unwrap();
    assert_eq!(
        (depth, &*text, &text[begin..]),
        (2, "0x8000090f;0x80000000", "0x80000000")
    );
    assert_eq!(names.write(None, &mut text), None);
}
