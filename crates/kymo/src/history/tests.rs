//! The history against the reader of whole packets, while writers run, with names, and where things
//! are broken.

use std::cell::Cell;
#[cfg(target_pointer_width = "64")]
use std::sync::atomic::Ordering::Relaxed;

use super::mark::Mark;
use super::*;
use crate::event::{Event, Sequence, Text};
use crate::ring::Reserve;
use crate::ring::config::Config;
use crate::ring::layout::{Clock, Overflow, TIME_BITS};
#[cfg(target_pointer_width = "64")]
use crate::ring::local_cas::LocalCas;
use crate::ring::masked::Masked;
use crate::ring::reader::View;
use crate::ring::source::{Bytes, Live, Outside};
use crate::session::Session;
use crate::thread_cpu::{BLOCK, CLOCK, NoInterrupts, OneThread, leaked};
use crate::tracer::Tracer;
use crate::vocabulary::*;

crate::event! { #[id(21)] struct Short { seq: u32, check: u32 } }
crate::event! { #[id(22)] struct Note { seq: u16, small: i8, sure: bool, text: Text<24> } }
crate::event! { #[id(200)] struct Big { seq: u32, data: [u16; 200] } }
crate::event! { #[id(201)] #[channel(Names)] struct Told { seq: u32 } }

static VOCABULARY: Vocabulary = crate::vocabulary![ALL; Short, Note, Told];
static WITH_BIG: Vocabulary = crate::vocabulary![ALL; Short, Note, Big, Told, Many];
crate::event! { #[id(24)] struct Many { seq: u32, small: Sequence<u8, 5>, name: Text<8>, ids: Sequence<i64, 2>, states: Sequence<bool, 100> } }

type OneAtATime = Masked<NoInterrupts>;
/// There is no such writer on 32-bit processors.
#[cfg(target_pointer_width = "32")]
type LocalCas = OneAtATime;

/// A session over memory of its own, and its history.
struct Setting<R> {
    memory: Memory,
    history: History,
    session: Session<OneThread<R>>,
}

impl<R: Reserve + 'static> Setting<R> {
    fn new(cpus: u32, overflow: Overflow, packet_size: u32, packets: u32) -> Self {
        Self::with(cpus, overflow, packet_size, packets, &VOCABULARY)
    }

    fn with(
        cpus: u32,
        overflow: Overflow,
        packet_size: u32,
        packets: u32,
        vocabulary: &'static Vocabulary,
    ) -> Self {
        let memory = leaked(4 << 20, cpus);
        Setting {
            memory,
            history: History::new(memory, vocabulary),
            session: Self::start(memory, overflow, packet_size, packets, vocabulary),
        }
    }

    fn start(
        memory: Memory,
        overflow: Overflow,
        packet_size: u32,
        packets: u32,
        vocabulary: &'static Vocabulary,
    ) -> Session<OneThread<R>> {
        let cpus = (0..)
            .take_while(|&cpu| !memory.control(cpu).is_null())
            .count() as u32;
        let clock = Clock::at(10_000_000);
        let config = Config {
            cpus,
            packet_size,
            packets,
            names_packets: 4,
            overflow,
            clock,
            seed: 1,
            hosted: true,
            ..Config::DEFAULT
        };
        Tracer::<OneThread<R>>::start(memory, &config, vocabulary).unwrap()
    }

    fn record<E: Event>(&self, cpu: u32, event: E) {
        BLOCK.set(self.memory.control(cpu));
        Tracer::<OneThread<R>>::record(event);
    }

    fn short(&self, cpu: u32, seq: u32) {
        self.record(
            cpu,
            Short {
                seq,
                check: check_of(seq),
            },
        );
    }

    /// Events of several kinds and sizes, on all CPUs, by a clock that now and then leaves its
    /// window.
    fn mixed(&self, cpus: u32, seqs: std::ops::Range<u32>) {
        for seq in seqs {
            let hash = check_of(seq) >> 3;
            let step = if hash.is_multiple_of(61) {
                1 << TIME_BITS
            } else {
                u64::from(hash % 3)
            };
            CLOCK.set(CLOCK.get() + step);
            let cpu = hash / 64 % cpus;
            match hash / 1024 % 8 {
                0 => self.record(
                    cpu,
                    Note {
                        seq: seq as u16,
                        small: -3,
                        sure: true,
                        text: Text::new("abcdefghijklmnopqrstuvwxyz"),
                    },
                ),
                1 => self.record(cpu, Told { seq }),
                _ => self.short(cpu, seq),
            }
        }
    }

    fn dump(&self, last_n: usize) -> String {
        let mut out = String::new();
        self.history.dump(&mut out, last_n).unwrap();
        out
    }

    /// The lines of a dump without the header.
    fn lines(&self, last_n: usize) -> Vec<String> {
        self.dump(last_n)
            .lines()
            .skip(1)
            .map(str::to_owned)
            .collect()
    }

    fn records(&self) -> Vec<Whole> {
        let mut payload = [0; 64];
        let get = |index| {
            self.history.get(index, &mut payload).map(|entry| {
                let words = payload[..entry.bytes.div_ceil(4)].to_vec();
                (
                    entry.time,
                    entry.cpu,
                    entry.event.channel as u32,
                    entry.event.id,
                    words,
                )
            })
        };
        (0..).map_while(get).collect()
    }
}

/// Time, CPU, kind, id, payload.
type Whole = (u64, u32, u32, u32, Vec<u32>);

fn check_of(seq: u32) -> u32 {
    let mixed = seq.wrapping_mul(0x9e37_79b9) ^ 0x5bd1_e995;
    mixed ^ mixed >> 15
}

/// What the reader of whole packets finds, in order of time; and what it counts as lost.
fn by_channel_readers(source: &impl Source, vocabulary: &Vocabulary) -> (Vec<Whole>, Counts) {
    let region = Region::open(source).unwrap();
    let (mut records, mut counts) = (Vec::new(), Counts::default());
    for (cpu, kind) in region.channels().streams() {
        let mut reader = region.channel(source, cpu, kind).unwrap();
        let mut scratch = vec![0; reader.scratch_words()];
        while let Some(mut batch) = reader.read(source, View::PostMortem, &mut scratch).unwrap() {
            while let Some(record) = batch.next_record(vocabulary) {
                records.push((
                    record.time,
                    cpu,
                    kind as u32,
                    record.id,
                    record.payload.to_vec(),
                ));
            }
        }
        reader.refresh_dropped(source).unwrap();
        counts.overwritten += reader.losses().overwritten;
        counts.discarded += reader.losses().dropped;
    }
    // Stable: records of one channel keep their order.
    records.sort_by_key(|record| (record.0, record.1, record.2));
    counts.retained = records.len() as u64;
    (records, counts)
}

fn agrees<R: Reserve + 'static>(overflow: Overflow, events: u32) -> Counts {
    CLOCK.set(1000);
    let setting = Setting::<R>::new(3, overflow, 256, 8);
    setting.mixed(3, 0..events);
    let (records, counts) = by_channel_readers(&setting.session.live(), &VOCABULARY);
    assert_eq!(setting.records(), records);
    assert_eq!(setting.history.counts(), counts);
    assert_eq!(counts.total(), u64::from(events));
    let all = setting.lines(usize::MAX);
    let note = usize::from(counts.overwritten > 0);
    assert_eq!(all.len(), records.len() + note);
    for (line, (time, cpu, .., id, payload)) in all[note..].iter().zip(&records) {
        let name = VOCABULARY.event(*id).unwrap().name;
        let value = if *id == Note::ID {
            payload[0] & 0xffff
        } else {
            payload[0]
        };
        let begin = format!(
            "{:>5}.{:07} cpu{cpu} {name} seq={value}",
            time / 10_000_000,
            time % 10_000_000
        );
        assert!(line.starts_with(&begin), "{line} is not {begin}");
        assert!(
            *id != Short::ID || line.ends_with(&format!(" check={}", payload[1])),
            "{line}"
        );
    }
    for last_n in [1, 2, 7, records.len() - 1] {
        assert_eq!(
            setting.lines(last_n),
            all[all.len() - last_n..],
            "the last {last_n}"
        );
    }
    counts
}

/// L-03, L-05 to L-07, V-07, V-09.
#[test]
fn the_history_is_what_the_reader_of_packets_finds() {
    for overflow in [Overflow::Discard, Overflow::Overwrite] {
        for events in [20, 1500] {
            for counts in [
                agrees::<LocalCas>(overflow, events),
                agrees::<OneAtATime>(overflow, events),
            ] {
                assert_eq!(
                    counts.discarded > 0,
                    overflow == Overflow::Discard && events == 1500
                );
                assert_eq!(
                    counts.overwritten > 0,
                    overflow == Overflow::Overwrite && events == 1500
                );
            }
        }
    }
}

fn names<R: Reserve + 'static>() {
    CLOCK.set(123_456_789);
    let setting = Setting::<R>::new(2, Overflow::Overwrite, 1024, 4);
    assert!(setting.history.is_enabled());
    setting.record(
        1,
        ThreadName {
            tid: Tid(5),
            name: Text::new("old"),
        },
    );
    setting.record(
        0,
        ThreadName {
            tid: Tid(6),
            name: Text::new("other"),
        },
    );
    setting.record(
        0,
        ProcessName {
            pid: Pid(5),
            name: Text::new("shell"),
        },
    );
    setting.record(
        0,
        LockName {
            lock: Object(1 << 40 | 5),
            kind: LockKind::Mutex,
            name: Text::new("wrong"),
        },
    );
    setting.record(
        0,
        LockName {
            lock: Object(1 << 32 | 5),
            kind: LockKind::Mutex,
            name: Text::new("inode"),
        },
    );
    setting.record(
        0,
        IrqName {
            irq: Irq(300),
            name: Text::new("disk\x1b[2J"),
        },
    );
    setting.record(
        1,
        SyscallName {
            id: Syscall(5),
            name: Text::new("read"),
        },
    );
    setting.record(
        1,
        UserName {
            id: 5,
            name: Text::new("frame"),
        },
    );
    CLOCK.set(123_456_790);
    let state = ThreadState::Runnable;
    let name = Text::new("a thread with a name too long");
    setting.record(
        0,
        ThreadStateDump {
            tid: Tid(5),
            pid: Pid(5),
            prio: 3,
            state,
            cpu: 0,
            name,
        },
    );
    setting.history.clear();
    CLOCK.set(123_456_799);
    let (prev_state, reason) = (ThreadState::Blocked, SwitchReason::Waits);
    setting.record(
        0,
        SchedSwitch {
            prev_tid: Tid(5),
            next_tid: Tid(7),
            prev_state,
            reason,
            next_prio: -2,
        },
    );
    setting.record(
        0,
        LockWait {
            lock: Object(1 << 32 | 5),
            owner_tid: Tid(6),
            kind: LockKind::Mutex,
        },
    );
    setting.record(0, IrqEnter { irq: Irq(300) });
    setting.record(
        1,
        SyscallEnter {
            id: Syscall(5),
            arg0: 5,
        },
    );
    setting.record(1, SpanBegin { id: 5 });
    setting.record(
        1,
        ThreadExit {
            tid: Tid(6),
            pid: Pid(5),
            prev_state,
        },
    );
    setting.record(
        1,
        Note {
            seq: 65535,
            small: -128,
            sure: false,
            text: Text::new("\"q\" \\ \n\u{7f}\u{85}\u{e9}"),
        },
    );
    setting.record(
        1,
        ThreadName {
            tid: Tid(6),
            name: Text::new("newer"),
        },
    );
    let expected = "\
kymo: 8 retained, 0 overwritten, 0 discarded
   12.3456799 cpu0 sched_switch prev_tid=5 (a thread with a ...) next_tid=7 prev_state=Blocked reason=Waits next_prio=-2
   12.3456799 cpu0 lock_wait lock=0x100000005 (inode) owner_tid=6 (newer) kind=Mutex
   12.3456799 cpu0 irq_handler_entry irq=300 (disk\\u{1b}[2J)
   12.3456799 cpu1 sys_enter id=5 (read) arg0=5
   12.3456799 cpu1 span_begin id=5 (frame)
   12.3456799 cpu1 thread_exit tid=6 (newer) pid=5 (shell) prev_state=Blocked
   12.3456799 cpu1 note seq=65535 small=-128 sure=false text=\"\\\"q\\\" \\\\ \\n\\u{7f}\\u{85}\u{e9}\"
   12.3456799 cpu1 thread_name tid=6 name=\"newer\"
";
    assert_eq!(setting.dump(100), expected);
    setting.session.stop().unwrap();
    assert!(!setting.history.is_enabled());
    let end = "   12.3456799 cpu1 kymo_session_end recorded=17 reused=0 discarded=0 too_large=0 clock_back=0 abandoned=0\n";
    let expected = expected.replacen('8', "9", 1) + end;
    assert_eq!(setting.dump(100), expected, "the rings keep what they hold");
}

#[test]
fn names_are_looked_up_and_texts_are_escaped() {
    names::<LocalCas>();
    names::<OneAtATime>();
}

#[test]
fn a_record_longer_than_the_buffer_is_shown_cut() {
    let setting = Setting::<OneAtATime>::with(1, Overflow::Overwrite, 4096, 4, &WITH_BIG);
    setting.record(
        0,
        Big {
            seq: 1,
            data: [7; 200],
        },
    );
    setting.short(0, 2);
    let lines = setting.lines(9);
    assert!(
        lines[0].contains(" big seq=1 data=[7, 7, 7") && lines[0].ends_with(", ... (404 bytes)"),
        "{}",
        lines[0]
    );
    assert_eq!(lines[0].matches("7, ").count(), 4 * (line::WORDS - 1) / 2);
    assert!(lines[1].contains("short seq=2"));
    // A caller with a small buffer gets the beginning.
    let mut two = [0; 2];
    let entry = setting.history.get(0, &mut two).unwrap();
    assert_eq!((entry.bytes, two), (404, [1, 7 | 7 << 16]));
}

#[test]
fn sequences_are_shown() {
    let setting = Setting::<OneAtATime>::with(1, Overflow::Overwrite, 4096, 4, &WITH_BIG);
    let many = |small: &[u8], ids: &[i64], states: &[bool]| Many {
        seq: 1,
        small: Sequence::new(small),
        name: Text::new("n"),
        ids: Sequence::new(ids),
        states: Sequence::new(states),
    };
    setting.record(0, many(&[1, 2, 3, 4, 5], &[-1, i64::MAX, 3], &[true]));
    setting.record(0, many(&[], &[], &[]));
    setting.record(0, many(&[1], &[-5], &[false; 100]));
    let lines = setting.lines(9);
    let ends = [
        " many seq=1 small=[1, 2, 3, 4, 5] name=\"n\" ids=[-1, 9223372036854775807]... \
         states=[true]",
        " many seq=1 small=[] name=\"n\" ids=[] states=[]",
    ];
    assert!(
        lines
            .iter()
            .zip(ends)
            .all(|(line, end)| line.ends_with(end)),
        "{lines:?}"
    );
    assert!(
        lines[2].contains(" small=[1] name=\"n\" ids=[-5] states=[false, false")
            && lines[2].ends_with("false]"),
        "{}",
        lines[2]
    );
}

#[test]
fn three_hundred_cpus_are_merged_in_constant_memory() {
    CLOCK.set(5);
    let setting = Setting::<OneAtATime>::new(300, Overflow::Overwrite, 256, 4);
    // Each CPU has two events; times run against the CPUs' numbers.
    for seq in 0..600 {
        CLOCK.set(CLOCK.get() + 1);
        setting.short(299 - seq % 300, seq);
    }
    let all = setting.lines(5);
    let seqs: Vec<_> = all
        .iter()
        .map(|line| {
            line.split_whitespace()
                .skip(1)
                .take(3)
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect();
    assert_eq!(
        seqs,
        [4, 3, 2, 1, 0].map(|cpu| format!("cpu{cpu} short seq={}", 599 - cpu))
    );
    assert_eq!(
        setting.history.counts(),
        Counts {
            retained: 600,
            overwritten: 0,
            discarded: 0
        }
    );
    let entry = setting.history.get(0, &mut [0; 2]).unwrap();
    assert_eq!((entry.time, entry.cpu), (6, 299));
}

#[test]
fn as_many_as_are_wanted_and_as_there_are() {
    let setting = Setting::<LocalCas>::new(2, Overflow::Overwrite, 256, 4);
    assert_eq!(
        setting.dump(10),
        "kymo: 0 retained, 0 overwritten, 0 discarded\n"
    );
    assert!(setting.history.get(0, &mut []).is_none());
    for seq in 0..3 {
        setting.short(seq % 2, seq);
    }
    assert_eq!(
        setting.dump(0),
        "kymo: 3 retained, 0 overwritten, 0 discarded\n"
    );
    let all = setting.lines(usize::MAX);
    assert_eq!(all.len(), 3);
    for last_n in [1, 2, 3, 4] {
        assert_eq!(setting.lines(last_n), all[3usize.saturating_sub(last_n)..]);
    }
    // Memory in which nothing was ever recorded.
    let history = History::new(leaked(8192, 1), &VOCABULARY);
    let mut out = String::new();
    history.dump_on_panic(&mut out, 0, 32).unwrap();
    assert_eq!(out, "kymo: nothing was recorded\n");
    history.clear();
    assert!(
        !history.is_enabled()
            && history.counts() == Counts::default()
            && history.get(0, &mut []).is_none()
    );
}

fn cleared<R: Reserve + 'static>() {
    CLOCK.set(1);
    let setting = Setting::<R>::new(3, Overflow::Overwrite, 256, 8);
    setting.mixed(3, 0..700);
    setting.history.clear();
    assert_eq!(setting.history.counts(), Counts::default());
    assert_eq!(setting.records(), []);
    assert_eq!(setting.lines(10), [""; 0]);
    let (before, overwritten) = (
        by_channel_readers(&setting.session.live(), &VOCABULARY)
            .0
            .len(),
        700,
    );
    assert!(
        before < overwritten,
        "{before}: others still see them all, as far as they are there"
    );
    // A few that fit, and many that do not. A later tick: see `clear`.
    let then = CLOCK.get();
    CLOCK.set(CLOCK.get() + 1);
    setting.mixed(3, 700..720);
    assert_eq!(
        setting.history.counts(),
        Counts {
            retained: 20,
            overwritten: 0,
            discarded: 0
        }
    );
    assert_eq!(setting.records().len(), 20);
    assert_eq!(setting.lines(100).len(), 20);
    assert_eq!(setting.lines(20), setting.lines(21));
    setting.mixed(3, 720..2000);
    let mut records = by_channel_readers(&setting.session.live(), &VOCABULARY).0;
    records.retain(|record| record.0 > then);
    assert_eq!(setting.records(), records);
    let retained = records.len() as u64;
    assert_eq!(
        setting.history.counts(),
        Counts {
            retained,
            overwritten: 1300 - retained,
            discarded: 0
        }
    );
    // CPU by CPU, as in a panic.
    setting.history.clear();
    CLOCK.set(CLOCK.get() + 1);
    (0..3).for_each(|seq| setting.short(1, seq));
    for last_n in [1, 2, 3, 4] {
        let mut out = String::new();
        setting.history.dump_on_panic(&mut out, 0, last_n).unwrap();
        assert_eq!(out.lines().count(), 1 + last_n.min(3), "{out}");
    }
    // Another session over the same memory: nothing of it was cleared.
    setting.session.stop().unwrap();
    CLOCK.set(0);
    let _again = Setting::<R>::start(setting.memory, Overflow::Overwrite, 256, 8, &VOCABULARY);
    setting.short(0, 7);
    assert_eq!(setting.records().len(), 1);
}

/// L-04.
#[test]
fn what_was_cleared_is_not_shown_and_stays_in_the_rings() {
    cleared::<LocalCas>();
    cleared::<OneAtATime>();
}

/// Memory in which the writer goes on while it is read: after every so many words that the reader
/// loads.
struct Interleaved<'a> {
    live: Live,
    left: Cell<u64>,
    every: u64,
    write: &'a dyn Fn(),
}

impl Interleaved<'_> {
    fn step(&self) {
        self.left.set(self.left.get() - 1);
        if self.left.get() == 0 {
            self.left.set(self.every);
            (self.write)();
        }
    }
}

impl Source for Interleaved<'_> {
    fn len(&self) -> u64 {
        self.live.len()
    }
    fn load(&self, offset: u64) -> Result<u32, Outside> {
        self.step();
        self.live.load(offset)
    }
    fn load_long(&self, offset: u64) -> Result<u64, Outside> {
        self.step();
        self.live.load_long(offset)
    }
}

/// Lines that were printed, and whether some could not be.
fn interleaved<R: Reserve + 'static>(every: u64, burst: u32) -> (usize, bool) {
    CLOCK.set(10);
    let setting = Setting::<R>::new(2, Overflow::Overwrite, 256, 4);
    let seq = Cell::new(0u32);
    let write = || {
        for _ in 0..burst {
            CLOCK.set(CLOCK.get() + 5);
            let seq = seq.replace(seq.get() + 1);
            if seq.is_multiple_of(7) {
                setting.record(
                    seq / 7 % 2,
                    Note {
                        seq: seq as u16,
                        small: 1,
                        sure: true,
                        text: Text::new("twenty bytes of text"),
                    },
                );
            } else {
                setting.short(seq % 2, seq);
            }
        }
    };
    (0..50).for_each(|_| write());
    let source = Interleaved {
        live: setting.session.live(),
        left: Cell::new(every),
        every,
        write: &write,
    };
    let (mut lines, mut lost) = (0, false);
    for last_n in [1, 5, 40, usize::MAX] {
        let (began, mut out) = (seq.get(), String::new());
        dump(&source, &VOCABULARY, &Mark::new(), &mut out, last_n, None).unwrap();
        let (mut last, mut shown, mut printed) = (None, 0, Vec::new());
        for line in out.lines() {
            if line.starts_with("kymo: ") {
                lost |= line.contains("meanwhile");
                continue;
            }
            let (time, fields) = line.split_once(" cpu").unwrap();
            let value = |name: &str| -> u32 {
                fields
                    .split_once(name)
                    .unwrap()
                    .1
                    .split(' ')
                    .next()
                    .unwrap()
                    .parse()
                    .unwrap()
            };
            let seq = value("seq=");
            if fields.contains(" note ") {
                assert!(
                    fields.ends_with("small=1 sure=true text=\"twenty bytes of text\""),
                    "{line}"
                );
            } else {
                assert!(
                    fields.contains(" short ") && value("check=") == check_of(seq),
                    "{line}"
                );
                assert_eq!(
                    time.trim(),
                    format!("0.{:07}", 10 + 5 * (u64::from(seq) + 1)),
                    "{line}"
                );
                assert!(last.is_none_or(|last| last < seq), "{last:?} before {line}");
                last = Some(seq);
                printed.push(seq);
            }
            lines += 1;
            shown += 1;
        }
        assert!(shown <= last_n, "{shown} of {last_n}");
        assert!(
            shown > 0 || out.contains("meanwhile") || out.contains(" 0 retained"),
            "nothing of {last_n}, and not a word: {out}"
        );
        // What is still there was there all along.
        let (still, _) = by_channel_readers(&setting.session.live(), &VOCABULARY);
        let still = still
            .iter()
            .filter(|record| record.3 == Short::ID)
            .map(|record| record.4[0]);
        if let [first, .., newest] = printed[..] {
            for seq in still.filter(|seq| (first..=newest).contains(seq)) {
                assert!(printed.contains(&seq), "{seq} was not printed: {printed:?}");
            }
        }
        assert!(every > 100 || seq.get() > began, "the writer was at work");
        let (mut all, mut payload) = (out.lines().count(), [0; 2]);
        all += usize::from(get(&source, &VOCABULARY, &Mark::new(), 3, &mut payload).is_some());
        assert!(all < 200);
        counts(
            &whole(
                &source,
                &Region::open(&setting.session.live()).unwrap(),
                &VOCABULARY,
            ),
            None,
        );
    }
    (lines, lost)
}

#[test]
fn a_writer_between_any_two_loads_tears_nothing() {
    let mut sum = (0, false);
    // From a ring that is overwritten within a few loads to one that lasts longer than a dump.
    for every in [
        1, 2, 3, 7, 50, 64, 65, 301, 500, 601, 777, 1000, 1501, 4001, 30_011,
    ] {
        for burst in [1, 3, 17, 150] {
            for (lines, lost) in [
                interleaved::<LocalCas>(every, burst),
                interleaved::<OneAtATime>(every, burst),
            ] {
                sum = (sum.0 + lines, sum.1 | lost);
            }
        }
    }
    assert!(
        sum.0 > 500 && sum.1,
        "records were printed, and others lost: {sum:?}"
    );
}

struct Full(usize);
impl Write for Full {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = self.0.checked_sub(text.len()).ok_or(fmt::Error)?;
        Ok(())
    }
}

#[test]
fn a_sink_that_fails_ends_the_dump() {
    CLOCK.set(0);
    let setting = Setting::<OneAtATime>::new(2, Overflow::Overwrite, 256, 4);
    setting.record(
        0,
        ThreadName {
            tid: Tid(5),
            name: Text::new("worker"),
        },
    );
    setting.mixed(2, 0..300);
    setting.record(0, ThreadSuspend { tid: Tid(5) });
    let len = setting.dump(usize::MAX).len();
    for room in 0..len {
        assert_eq!(
            setting.history.dump(&mut Full(room), usize::MAX),
            Err(fmt::Error),
            "{room} of {len}"
        );
    }
    assert_eq!(setting.history.dump(&mut Full(len), usize::MAX), Ok(()));
    assert_eq!(
        setting.history.dump_on_panic(&mut Full(70), 0, 9),
        Err(fmt::Error)
    );
}

fn bytes_of(source: &impl Source) -> Vec<u8> {
    let used = Region::open(source).unwrap().header().total_size;
    (0..used / 4)
        .flat_map(|word| source.load(4 * word).unwrap().to_le_bytes())
        .collect()
}

/// A panic inside of a record: what the CPU had recorded before it is there, and each CPU has its
/// own last records.
#[test]
#[cfg(target_pointer_width = "64")]
fn a_record_that_is_half_written_in_a_panic_does_not_hide_those_before_it() {
    CLOCK.set(0);
    let setting = Setting::<LocalCas>::new(3, Overflow::Overwrite, 1024, 4);
    for seq in 0..30 {
        CLOCK.set(CLOCK.get() + 1);
        setting.short(seq % 2, seq);
    }
    let mut bytes = bytes_of(&setting.session.live());
    // SAFETY: the block of a leaked region.
    let ring = unsafe { (*setting.memory.control(1)).ring_offset.load(Relaxed) } as usize;
    // The last record of CPU 1: reserved, not written, not committed.
    let record = ring + 4 * (12 + 3 * 14);
    bytes[record..record + 12].fill(0);
    let commit = u32::from_le_bytes(bytes[ring..ring + 4].try_into().unwrap()) - (1 << 16) - 3;
    bytes[ring..ring + 4].copy_from_slice(&commit.to_le_bytes());
    let print = |dead| {
        let mut out = String::new();
        dump(&Bytes(&bytes), &VOCABULARY, &Mark::new(), &mut out, 4, dead).unwrap();
        let (records, said): (Vec<_>, Vec<_>) = out.lines().partition(|line| line.contains("seq="));
        let seqs = records.iter().map(|line| {
            line.split("seq=")
                .nth(1)
                .unwrap()
                .split(' ')
                .next()
                .unwrap()
                .parse::<u32>()
                .unwrap()
        });
        (said.join("; "), seqs.collect::<Vec<_>>())
    };
    let (header, seqs) = print(Some(1));
    assert_eq!(header, "kymo: 29 retained, 0 overwritten, 0 discarded");
    assert_eq!(seqs, [22, 24, 26, 28, 21, 23, 25, 27]);
    // To anyone else its writer may still be at work.
    assert_eq!(print(None).1, [22, 24, 26, 28]);
    let (said, seqs) = print(Some(0));
    assert_eq!(seqs, [22, 24, 26, 28]);
    assert!(
        said.ends_with("; kymo: 4 more were overwritten meanwhile, or cannot be read"),
        "{said}"
    );
}

/// Whatever stands in the memory, every call ends.
#[test]
fn damaged_memory_neither_panics_nor_hangs() {
    CLOCK.set(77);
    let setting = Setting::<LocalCas>::new(2, Overflow::Overwrite, 256, 8);
    setting.record(
        0,
        ThreadName {
            tid: Tid(5),
            name: Text::new("worker"),
        },
    );
    setting.mixed(2, 0..500);
    let bytes = bytes_of(&setting.session.live());
    let mut random = 9u32;
    let mut next = |below: usize| {
        random = check_of(random.wrapping_add(1));
        random as usize % below
    };
    let mut opened = 0;
    for turn in 0..300 {
        let mut damaged = bytes.clone();
        for _ in 0..=next(40) {
            // Control blocks and rings more often than the header, which has a checksum.
            let at = if next(3) == 0 {
                4224 + next(2048)
            } else {
                4096 + next(bytes.len() - 4096)
            };
            damaged[at] ^= 1 << next(8);
        }
        let source = Bytes(&damaged);
        opened += usize::from(Region::open(&source).is_ok());
        for dead in [None, Some(turn % 2)] {
            dump(
                &source,
                &VOCABULARY,
                &Mark::new(),
                &mut String::new(),
                [20, usize::MAX][turn as usize / 2 % 2],
                dead,
            )
            .unwrap();
        }
        let mark = Mark::new();
        clear(&source, &VOCABULARY, &mark);
        get(&source, &VOCABULARY, &mark, 2, &mut [0; 3]);
    }
    assert!(opened > 200, "{opened}");
}

/// Two packets' times overlap; every record is shown once, and the row ends.
fn steps_back<R: Reserve + 'static>() {
    let setting = {
        CLOCK.set(0);
        Setting::<R>::new(1, Overflow::Overwrite, 256, 16)
    };
    for seq in 0..240 {
        CLOCK.set(1000 + u64::from(seq) - if seq % 100 > 40 { 500 } else { 0 });
        setting.short(0, seq);
    }
    let mut seqs: Vec<_> = setting.records().iter().map(|record| record.4[0]).collect();
    assert!(setting.records().is_sorted_by_key(|record| record.0));
    seqs.sort_unstable();
    assert_eq!(seqs, (0..240).collect::<Vec<_>>());
    assert_eq!(setting.lines(239).len(), 239);
}

#[test]
fn a_clock_that_steps_back_hides_no_record() {
    steps_back::<LocalCas>();
    steps_back::<OneAtATime>();
}

/// Records one more event when the line with the counts has been written.
struct Recording<'a> {
    text: String,
    record: &'a dyn Fn(),
}

impl Write for Recording<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.text.push_str(text);
        if text.ends_with("discarded\n") {
            (self.record)();
        }
        Ok(())
    }
}

#[test]
fn what_comes_in_behind_the_counts_is_not_printed() {
    CLOCK.set(0);
    let setting = Setting::<OneAtATime>::new(1, Overflow::Overwrite, 256, 8);
    let record = |seq: u32| {
        CLOCK.set(CLOCK.get() + 1);
        setting.short(0, seq);
    };
    for seq in 0..7 {
        record(seq);
    }
    let mut out = Recording {
        text: String::new(),
        record: &|| record(7),
    };
    setting.history.dump(&mut out, 7).unwrap();
    let lines: Vec<_> = out.text.lines().skip(1).collect();
    assert_eq!(lines.len(), 7, "{lines:#?}");
    for (seq, line) in lines.iter().enumerate() {
        assert!(line.contains(&format!(" seq={seq} ")), "{line}");
    }
}

/// Memory in which a writer is inside a packet at one load of the word that says so.
#[cfg(target_pointer_width = "64")]
struct Busy {
    live: Live,
    commit: u64,
    at: Cell<i32>,
}

#[cfg(target_pointer_width = "64")]
impl Source for Busy {
    fn len(&self) -> u64 {
        self.live.len()
    }
    fn load(&self, offset: u64) -> Result<u32, Outside> {
        let loaded = self.live.load(offset)?;
        if offset != self.commit {
            return Ok(loaded);
        }
        self.at.set(self.at.get() - 1);
        // The words of a record are reserved, and not committed yet.
        Ok(if self.at.get() == -1 {
            loaded - 3
        } else {
            loaded
        })
    }
    fn load_long(&self, offset: u64) -> Result<u64, Outside> {
        self.live.load_long(offset)
    }
}

/// While the newest records are looked for, backwards, a writer is inside the packet that holds some
/// of them: older ones of another CPU do not take their place.
#[test]
#[cfg(target_pointer_width = "64")]
fn a_packet_that_cannot_be_read_for_a_moment_neither_adds_lines_nor_hides_the_newest() {
    const LAST_N: usize = 5;
    CLOCK.set(0);
    let setting = Setting::<LocalCas>::new(2, Overflow::Overwrite, 1024, 4);
    // First the one CPU, then the other.
    for seq in 0..20 {
        CLOCK.set(CLOCK.get() + 1);
        setting.short(seq / 10, seq);
    }
    let newest = setting.lines(LAST_N);
    // SAFETY: the block of a leaked region.
    let commit = unsafe { (*setting.memory.control(1)).ring_offset.load(Relaxed) };
    for at in 0.. {
        let source = Busy {
            live: setting.session.live(),
            commit,
            at: Cell::new(at),
        };
        let mut out = String::new();
        dump(&source, &VOCABULARY, &Mark::new(), &mut out, LAST_N, None).unwrap();
        if source.at.get() >= 0 {
            assert!(at > 3 * LAST_N as i32, "{at} loads: each look loads it");
            break;
        }
        let (said, lines): (Vec<_>, Vec<_>) = out
            .lines()
            .skip(1)
            .partition(|line| line.starts_with("kymo: "));
        assert!(lines.len() <= LAST_N, "{at}: {out}");
        // After the counts, one look finds the newest record. What is not seen then has come in
        // meanwhile.
        if at == 1 {
            assert!(lines[LAST_N - 1].contains(" seq=9 "), "{out}");
        } else {
            // The looks back, then those that print.
            let missing = at > LAST_N as i32 && !said.is_empty();
            assert!(lines == newest || missing, "{at}: {out}");
        }
    }
}
