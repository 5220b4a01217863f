//! A program that samples its own threads.
//!
//! Loops are assembly, so that a test knows their code and how they divide the time. What is
//! compared is processor time. Tests wait for samples, and not for a time: a virtual machine whose
//! processor is taken away gets no ticks.

#![cfg(all(feature = "trace", target_os = "linux", target_arch = "x86_64"))]
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::arch::{asm, naked_asm};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use kymo::ring::reader::{Region, View};
use kymo::ring::source::Live;
use kymo::{Error, Overflow};
use kymo_ctf::{Item, Trace, Value};
use kymo_hosted::{Hosted, HostedSession, Options, Sampling};

type Kymo = kymo::Tracer<Hosted>;
kymo::event! { #[id(21)] pub struct Beat { pub seq: u32 } }
static VOCABULARY: kymo::Vocabulary = kymo::vocabulary![kymo_hosted::SAMPLES; Beat];
static WITHOUT_SAMPLES: kymo::Vocabulary = kymo::vocabulary![Beat];

/// A program has one session at a time.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As many as the tests' threads that end while the next one begins.
const RINGS: u32 = 6;

fn options(hz: u32) -> Options {
    let sampling = Sampling {
        hz,
        packets: 8,
        ..Sampling::default()
    };
    Options {
        max_threads: RINGS,
        packet_size: 2048,
        packets: 8,
        overflow: Overflow::Discard,
        sampling: Some(sampling),
    }
}

fn without_callers(hz: u32) -> Options {
    let sampling = options(hz).sampling.map(|sampling| Sampling {
        depth: 0,
        ..sampling
    });
    Options {
        sampling,
        ..options(hz)
    }
}

fn start(hz: u32) -> HostedSession {
    start_with(&options(hz))
}

/// Waits for at most 30 s. Threads of the test before may still be about to end.
fn wait_until(mut is_so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + 30_000 * MS;
    while !is_so() {
        if Instant::now() > end {
            return false;
        }
        thread::sleep(MS);
    }
    true
}

fn start_with(options: &Options) -> HostedSession {
    let mut started = kymo_hosted::start(options, &VOCABULARY);
    // The rings of threads that are about to end.
    wait_until(|| {
        let is_full = matches!(started, Err(Error::Sampling(_)));
        if is_full {
            started = kymo_hosted::start(options, &VOCABULARY);
        }
        !is_full
    });
    let session = started.unwrap();
    *LIVE.lock().unwrap() = Some(session.live());
    session
}

/// The memory of the last session that was started.
static LIVE: Mutex<Option<Live>> = Mutex::new(None);

/// How many samples the calling thread's ring has taken, and how many it had no room for.
fn taken() -> (u64, u64) {
    let live = LIVE.lock().unwrap();
    let (live, ring) = (live.as_ref().unwrap(), kymo_hosted::ring_number().unwrap());
    let region = Region::open(live).unwrap();
    let mut reader = region
        .channel(live, ring, kymo::ChannelKind::Samples)
        .unwrap();
    reader.refresh_dropped(live).unwrap();
    let (retained, _) = reader.events(live, View::PostMortem).unwrap();
    (retained, reader.losses().dropped)
}

/// Goes on with what `work` does until the calling thread has this many samples more, at most 30 s
/// of processor time.
fn work_until(samples: u64, mut work: impl FnMut()) {
    let end = time() + 30_000 * MS;
    let (goal, mut lost) = (taken().0 + samples, 0);
    while taken().0 < goal && lost == 0 && time() < end {
        (0..20).for_each(|_| work());
        lost = taken().1;
    }
}

#[derive(Clone, Debug, Default)]
struct Sample {
    ip: u64,
    tid: u64,
    missed: u64,
    end: u64,
    callers: Vec<u64>,
    /// The parts of its stack: stack pointer, first address, words.
    stack: Vec<(u64, u64, Vec<u64>)>,
}

#[derive(Debug, Default)]
struct Samples {
    all: Vec<Sample>,
    /// Of samples, by the trace.
    lost: u64,
    beats: Vec<u64>,
    lost_beats: u64,
}

impl Samples {
    fn of(&self, tid: u64) -> impl Iterator<Item = &Sample> {
        self.all.iter().filter(move |sample| sample.tid == tid)
    }
}

/// Ends the session, and reads what it has recorded.
fn samples(session: &HostedSession) -> Samples {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, SeqCst);
    let name = format!("kymo-sampling-{}-{number}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    let summary = session.save(&directory).unwrap();
    let (mut samples, mut stack) = (Samples::default(), Vec::new());
    for channel in &summary.channels {
        match channel.kind {
            kymo::ChannelKind::Samples => samples.lost += channel.losses.events(),
            kymo::ChannelKind::Events => samples.lost_beats += channel.losses.events(),
            kymo::ChannelKind::Names => assert_eq!(channel.losses.events(), 0),
        }
    }
    for item in Trace::open(&directory).unwrap().events() {
        let Item::Event(event) = item.unwrap() else {
            continue;
        };
        let number = |name: &str| event.fields.get(name).and_then(Value::as_u64).unwrap();
        let numbers = |name: &str| {
            let Some(Value::Array(elements)) = event.fields.get(name) else {
                panic!("no {name}: {event:?}");
            };
            let elements = elements.iter();
            elements.map(|element| element.as_u64().unwrap()).collect()
        };
        match event.name() {
            "beat" => samples.beats.push(number("seq")),
            "stack_copy" => stack.push((number("sp"), number("address"), numbers("words"))),
            "sample" => {
                samples.all.push(Sample {
                    ip: number("ip"),
                    tid: number("tid"),
                    missed: number("missed"),
                    end: number("user_end"),
                    callers: numbers("callchain"),
                    stack: std::mem::take(&mut stack),
                });
            }
            _ => {}
        }
    }
    std::fs::remove_dir_all(directory).unwrap();
    samples
}

fn tid() -> u64 {
    // SAFETY: asks for a number.
    unsafe { libc::gettid() as u64 }
}

/// Processor time of the calling thread.
fn time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a local.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Defines a function with a frame that goes round a loop `rounds` times. The loop is aligned, so
/// that all such functions are equally fast.
macro_rules! spin {
    ($name:ident) => {
        #[unsafe(naked)]
        extern "C" fn $name(rounds: u64) {
            naked_asm!(
                "push rbp",
                "mov rbp, rsp",
                ".balign 64",
                "2:",
                "dec rdi",
                "jnz 2b",
                "pop rbp",
                "ret",
            )
        }
    };
}

spin!(spin);
spin!(spin_more);

/// Whether an address is in the loop of one of these functions.
fn is_in(address: u64, function: extern "C" fn(u64)) -> bool {
    let aligned = (function as usize as u64 + 4).next_multiple_of(64);
    address.wrapping_sub(aligned) < 8
}

/// Spins until the calling thread has this many samples more.
fn spin_until(samples: u64) {
    work_until(samples, spin_a_while);
}

fn spin_a_while() {
    spin(50_000);
}

/// Spins for this much processor time.
fn spin_for(duration: Duration) {
    let end = time() + duration;
    while time() < end {
        spin_a_while();
    }
}

const MS: Duration = Duration::from_millis(1);

/// Three quarters of the rounds are in one function, a quarter in the other, and so are the
/// samples.
#[test]
fn shares_are_those_of_the_work() {
    let _turn = turn();
    // So the ring has room for all.
    let without_callers = without_callers(200);
    let (mut less, mut more) = (0, 0);
    for _ in 0..2 {
        let session = start_with(&without_callers);
        work_until(200, || {
            spin(25_000);
            spin_more(75_000);
        });
        let samples = samples(&session);
        assert_eq!(samples.lost, 0);
        let of = |function| {
            let all = samples.all.iter();
            all.filter(move |sample| is_in(sample.ip, function))
        };
        less += of(spin).count();
        more += of(spin_more).count();
    }
    assert!(less + more > 240, "{less} and {more} samples");
    let share = 100 * more / (less + more);
    assert!(
        (65..=85).contains(&share),
        "{share} %, {less} and {more} samples"
    );
}

/// A caller is found by the frame pointer; the loop's frame is one.
#[test]
fn callers_are_followed() {
    let _turn = turn();
    let session = start(200);
    spin_until(40);
    let samples = samples(&session);
    let spins: Vec<_> = samples
        .all
        .iter()
        .filter(|sample| is_in(sample.ip, spin))
        .collect();
    assert!(spins.len() > 10, "{} samples", spins.len());
    let from = spin_a_while as fn() as usize as u64;
    // Its first instruction, and the last two, have another frame, or none.
    let framed = spins.iter().filter(|sample| {
        sample
            .callers
            .first()
            .is_some_and(|caller| caller.wrapping_sub(from) < 512)
    });
    assert!(10 * framed.count() >= 9 * spins.len(), "{spins:?}");
}

/// What was due was taken, or missed, or lost.
#[test]
fn every_sample_that_was_due_is_accounted_for() {
    let _turn = turn();
    let expected = |spent: Duration, hz: u32| spent.as_micros() as u64 * u64::from(hz) / 1_000_000;
    // The ring is too small for these.
    let hz = 200;
    let session = start(hz);
    let before = time();
    while taken().1 < 50 && time() < before + 30_000 * MS {
        spin_for(MS);
    }
    let (expected_of_all, dropped) = (expected(time() - before, hz), taken().1);
    let samples = samples(&session);
    assert!(dropped >= 50 && (dropped..dropped + 5).contains(&samples.lost));
    let missed = samples.all.iter().map(|sample| sample.missed).sum::<u64>();
    // How many were missed before those that are lost, only these knew.
    let known = samples.all.len() as u64 + missed;
    let due = known + samples.lost * known / samples.all.len() as u64;
    assert!(
        due.abs_diff(expected_of_all) < expected_of_all / 2,
        "{due} of {expected_of_all} were due"
    );

    // The system's ticks are too few for these. Without callers the ring has room for all.
    let hz = 2_000;
    let session = start_with(&without_callers(hz));
    let before = time();
    spin_until(60);
    let expected = expected(time() - before, hz);
    let samples = self::samples(&session);
    assert_eq!(samples.lost, 0);
    let due = samples
        .all
        .iter()
        .map(|sample| 1 + sample.missed)
        .sum::<u64>();
    // In the time between the last sample and the look at the clock, 50 ms at most, some more were.
    assert!(
        due <= expected + 20 && due + u64::from(hz) / 20 > expected,
        "{due} of {expected} were due"
    );
    let missed = samples.all.iter().filter(|sample| sample.missed > 0);
    assert!(missed.count() > 0, "2,000 ticks a second?");
}

/// A thread that sleeps spends no processor time; one without a ring has no timer.
#[test]
fn threads_that_sleep_or_have_no_ring_take_no_samples() {
    let _turn = turn();
    let session = start(1_000);
    let asleep = thread::spawn(|| {
        assert!(kymo_hosted::sample_this_thread());
        thread::sleep(100 * MS);
        tid()
    });
    let without = thread::spawn(|| {
        spin_for(50 * MS);
        tid()
    });
    let awake = thread::spawn(|| {
        Kymo::record(Beat { seq: 0 });
        spin_until(3);
        tid()
    });
    let [asleep, without, awake] = [asleep, without, awake].map(|thread| thread.join().unwrap());
    let samples = samples(&session);
    assert!(samples.of(asleep).count() <= 1, "{samples:?}");
    assert_eq!(samples.of(without).count(), 0);
    assert!(samples.of(awake).count() > 2, "{samples:?}");
    assert_eq!(session.threads_without_timer(), 0);
}

/// Timers of the process, as the system lists them.
fn timers() -> usize {
    let list = std::fs::read_to_string("/proc/self/timers").unwrap();
    list.lines().filter(|line| line.starts_with("ID:")).count()
}

#[test]
fn timers_go_with_their_threads_and_with_the_session() {
    let _turn = turn();
    assert!(wait_until(|| timers() == 0));
    let (stop, stopped) = channel::<()>();
    let earlier = start(1_000);
    let (ready, wait) = channel();
    let stays = thread::spawn(move || {
        kymo_hosted::sample_this_thread();
        ready.send(()).unwrap();
        stopped.recv().unwrap();
        spin_until(3);
        tid()
    });
    wait.recv().unwrap();
    assert!(
        wait_until(|| timers() == 2),
        "this thread's and the other's"
    );
    let ends = thread::spawn(|| {
        kymo_hosted::sample_this_thread();
        timers()
    });
    assert_eq!(ends.join().unwrap(), 3);
    assert!(wait_until(|| timers() == 2));
    earlier.stop().unwrap();
    assert_eq!(timers(), 0);
    assert!(!kymo_hosted::sample_this_thread());

    // A thread that has its ring from an earlier session gets a timer at the start.
    let later = start(1_000);
    assert_eq!(timers(), 2);
    assert!(earlier.stop().is_err(), "it is over");
    assert_eq!(timers(), 2, "the later session's");
    stop.send(()).unwrap();
    let tid = stays.join().unwrap();
    assert!(samples(&later).of(tid).count() > 2);
    assert_eq!(timers(), 0);
}

/// Signals that are blocked in a thread, as it inherits that from who created it, are let in.
#[test]
fn a_thread_that_blocks_signals_is_sampled() {
    let _turn = turn();
    let session = start(1_000);
    let thread = thread::spawn(|| {
        // SAFETY: the set is filled in before it is used.
        unsafe {
            let mut all = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, null_mut());
        }
        kymo_hosted::sample_this_thread();
        spin_until(3);
        tid()
    });
    let tid = thread.join().unwrap();
    assert!(samples(&session).of(tid).count() > 2);
}

/// Samples interrupt a thread that does nothing but record, mostly inside of records: each of these
/// is there, or counted.
#[test]
fn samples_interrupt_records() {
    let _turn = turn();
    let session = start(1_000);
    let mut seq = 0;
    work_until(50, || {
        for _ in 0..1_000 {
            Kymo::record(Beat { seq });
            seq += 1;
        }
    });
    let samples = samples(&session);
    assert!(samples.all.len() > 30, "{} samples", samples.all.len());
    let kept: Vec<u64> = (0..samples.beats.len() as u64).collect();
    assert_eq!(samples.beats, kept, "the ring keeps the oldest");
    assert_eq!(kept.len() as u64 + samples.lost_beats, u64::from(seq));
}

static FOREIGN: AtomicU32 = AtomicU32::new(0);

extern "C" fn foreign(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the system passes information; each thread has an `errno`.
    unsafe {
        assert_ne!((*info).si_code, libc::SI_TIMER);
        *libc::__errno_location() = 5;
    }
    FOREIGN.fetch_add(1, SeqCst);
}

/// The program's own handler of SIGPROF gets what others send, and no timer's signal; `errno` stays
/// as it was. Installed before `main`, because Kymo's is installed once.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = install_foreign;

extern "C" fn install_foreign() {
    // SAFETY: numbers and addresses, which may be zero; the handler's signature is that of
    // SA_SIGINFO.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = foreign as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGPROF, &action, null_mut());
    }
}

#[test]
fn other_signals_reach_the_handler_that_was_there_before() {
    let _turn = turn();
    let session = start(1_000);
    let before = FOREIGN.load(SeqCst);
    // SAFETY: each thread has an `errno`; the signal has a handler.
    let errno = unsafe {
        *libc::__errno_location() = 77;
        libc::raise(libc::SIGPROF);
        *libc::__errno_location()
    };
    spin_until(3);
    assert_eq!((errno, FOREIGN.load(SeqCst) - before), (77, 1));
    assert!(samples(&session).of(tid()).count() > 2);
}

/// Frame pointers that lead nowhere, and a stack that the thread does not have: the sample says why
/// its chain ends, and nothing faults.
#[test]
fn a_chain_that_is_broken_ends() {
    const MISALIGNED: u64 = 3;
    const UNMAPPED: u64 = 4;
    const NOT_RISING: u64 = 5;
    const NOT_CODE: u64 = 6;
    let _turn = turn();
    let session = start(1_000);
    /// Spins with this frame pointer; 0 leaves the stack pointer as it is.
    fn spin_with(fp: u64, sp: u64) {
        work_until(20, || {
            // SAFETY: both registers are as before at the end. Meanwhile nothing is called or
            // pushed, and the signal handler finds room below the stack pointer.
            unsafe {
                asm!(
                    "mov {kept}, rsp", "mov {frame}, rbp",
                    "test {sp}, {sp}", "cmovnz rsp, {sp}",
                    "mov rbp, {fp}",
                    "2:", "dec {rounds}", "jnz 2b",
                    "mov rbp, {frame}", "mov rsp, {kept}",
                    kept = out(reg) _, frame = out(reg) _, sp = in(reg) sp, fp = in(reg) fp,
                    rounds = inout(reg) 50_000_u64 => _,
                )
            };
        });
    }
    let tests: [(&str, u64, fn()); 6] = [
        ("misaligned", MISALIGNED, || spin_with(0x1_0001, 0)),
        ("no memory", UNMAPPED, || spin_with(0x1000, 0)),
        ("below the stack pointer", UNMAPPED, || {
            let local = 0_usize;
            spin_with((&raw const local as u64 & !7) - 4096, 0);
        }),
        ("a loop", NOT_RISING, || {
            let mut frame = [0_usize, spin_with as fn(u64, u64) as usize];
            frame[0] = (&raw const frame).addr();
            spin_with(std::hint::black_box(&frame).as_ptr().addr() as u64, 0);
        }),
        ("not code", NOT_CODE, || {
            let frame = [usize::MAX, 0x1234];
            spin_with(std::hint::black_box(&frame).as_ptr().addr() as u64, 0);
        }),
        ("another stack", UNMAPPED, || {
            let stack = vec![0_u64; 1 << 15];
            let top = &raw const stack[1 << 14] as u64 & !15;
            spin_with(top, top);
            drop(std::hint::black_box(stack));
        }),
    ];
    let mut ends = BTreeMap::new();
    for (name, end, test) in tests {
        let thread = thread::spawn(move || {
            kymo_hosted::sample_this_thread();
            test();
            tid()
        });
        ends.insert(thread.join().unwrap(), (name, end));
    }
    let samples = samples(&session);
    for (tid, (name, end)) in ends {
        let all: Vec<_> = samples.of(tid).collect();
        // Some interrupt the calls in between.
        let right = all.iter().filter(|sample| sample.end == end).count();
        assert!(right >= 8 && 2 * right > all.len(), "{name}: {all:?}");
    }
}

/// Threads come and go under samples while sessions do.
#[test]
fn threads_end_while_they_are_sampled() {
    let _turn = turn();
    for _ in 0..5 {
        let session = start(20_000);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(SeqCst) {
                        thread::spawn(|| {
                            kymo_hosted::sample_this_thread();
                            spin_for(5 * MS);
                        })
                        .join()
                        .unwrap();
                    }
                });
            }
            spin_until(3);
            session.stop().unwrap();
            assert_eq!(session.threads_without_timer(), 0);
            done.store(true, SeqCst);
        });
        assert!(!samples(&session).all.is_empty());
    }
    assert_eq!(timers(), 0);
}

#[test]
fn what_cannot_be_sampled_is_refused() {
    let _turn = turn();
    let refused = |options: &Options, vocabulary| {
        kymo_hosted::start(options, vocabulary)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        refused(&options(100), &WITHOUT_SAMPLES),
        "samples cannot be taken: the vocabulary does not have kymo_hosted::SAMPLES"
    );
    assert_eq!(
        refused(&options(0), &VOCABULARY),
        "the rate of samples (1 to 100,000 a second) is out of range"
    );
    let sampling = Some(Sampling {
        packets: 0,
        ..Sampling::default()
    });
    let none = Options {
        sampling,
        ..options(100)
    };
    assert_eq!(
        refused(&none, &VOCABULARY),
        "the number of packets of samples (at least 4) is out of range"
    );
    let sampling = options(100).sampling.map(|sampling| Sampling {
        stack_bytes: 4097,
        ..sampling
    });
    let longer = Options {
        sampling,
        ..options(100)
    };
    assert_eq!(
        refused(&longer, &VOCABULARY),
        "the number of bytes of a stack (at most 65,536, and a quarter of the ring) is out of range"
    );
    // The running session's samples go on.
    let session = start(1_000);
    assert_eq!(
        kymo_hosted::start(&options(100), &VOCABULARY).unwrap_err(),
        Error::Running
    );
    spin_until(3);
    assert!(samples(&session).of(tid()).count() > 2);
}

/// What was asked for of the stack is in parts of up to 64 words, from the stack pointer on.
#[test]
fn stacks_are_copied_in_parts() {
    let _turn = turn();
    for (bytes, lengths) in [(0, &[][..]), (8, &[1]), (1200, &[64, 64, 22])] {
        let sampling = options(200).sampling.map(|sampling| Sampling {
            stack_bytes: bytes,
            ..sampling
        });
        let session = start_with(&Options {
            sampling,
            ..options(200)
        });
        spin_until(8);
        let samples = samples(&session);
        let of_spin: Vec<_> = samples.all.iter().filter(|of| is_in(of.ip, spin)).collect();
        assert!(!of_spin.is_empty(), "{bytes} bytes: {samples:?}");
        for sample in of_spin {
            let found: Vec<_> = sample
                .stack
                .iter()
                .map(|(_, _, words)| words.len())
                .collect();
            assert_eq!(found, lengths, "{bytes} bytes");
            let mut next = sample.stack.first().map_or(0, |(sp, _, _)| *sp);
            for (_, address, words) in &sample.stack {
                assert_eq!(*address, next);
                next += 8 * words.len() as u64;
            }
            // `spin` has pushed the frame pointer below the return address.
            if let Some((_, _, words)) = sample.stack.first().filter(|_| bytes > 8) {
                assert_eq!(words[1], sample.callers[0]);
            }
        }
    }
}

/// However long a sample takes, the program goes on between two of them.
#[test]
fn a_program_goes_on_at_any_rate() {
    let _turn = turn();
    let sampling = options(100_000).sampling.map(|sampling| Sampling {
        stack_bytes: 4096,
        ..sampling
    });
    let session = start_with(&Options {
        sampling,
        ..options(100_000)
    });
    (0..1_000).for_each(|_| spin_a_while());
    assert!(!samples(&session).all.is_empty());
}

/// The thread that starts a session is sampled, so it needs a ring.
#[test]
fn a_thread_without_a_ring_starts_no_samples() {
    let _turn = turn();
    let session = start(100);
    let (has_ring, end) = (Barrier::new(RINGS as usize), Barrier::new(RINGS as usize));
    thread::scope(|scope| {
        for _ in 1..RINGS {
            scope.spawn(|| {
                let is_sampled = wait_until(kymo_hosted::sample_this_thread);
                has_ring.wait();
                end.wait();
                assert!(is_sampled);
            });
        }
        has_ring.wait();
        session.stop().unwrap();
        let late = scope.spawn(|| kymo_hosted::start(&options(100), &VOCABULARY).map(drop));
        let refused = late.join().unwrap();
        end.wait();
        let sentence = "samples cannot be taken: all rings are taken; raise max_threads";
        assert_eq!(refused.unwrap_err().to_string(), sentence);
    });
}

/// The note beside the trace says where the program was loaded: its own functions lie there.
#[test]
fn the_note_says_what_was_loaded_where() {
    let _turn = turn();
    let session = start(100);
    let name = format!("kymo-sampling-note-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    session.save(&directory).unwrap();
    let note = std::fs::read_to_string(directory.join(".kymo-images")).unwrap();
    std::fs::remove_dir_all(directory).unwrap();
    let program: PathBuf = std::env::current_exe().unwrap().canonicalize().unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let own = maps
        .lines()
        .find(|line| line.ends_with(&program.display().to_string()))
        .unwrap();
    let (base, _) = own.split_once('-').unwrap();
    let base = u64::from_str_radix(base, 16).unwrap();
    let entry = format!(
        r#""process":{},"name":"{}","file":"{}","base":{base},"#,
        std::process::id(),
        program.display(),
        program.display()
    );
    assert!(note.contains(&entry), "{note}");
    assert!(note.contains("libc.so"), "{note}");
}
