//! The output of `read`, channel by channel, is a trace: Kymo's own CTF reader reads it back.

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::thread_cpu::{BLOCK, Block, CLOCK, NoInterrupts, leaked};
use kymo::platform::{ByPointer, Masked};
use kymo::ring::reader::{Region, View};
use kymo::{Clock, Config, Memory, Recorder, Text, Tracer};
use kymo_capture::TraceWriter;
use kymo_ctf::{Event, Item, LossKind, Trace, Value};

kymo::event! { #[id(21)] pub struct Beat { pub cpu: u32, pub seq: u32 } }
kymo::event! { #[id(40)] pub struct Word { pub cpu: u32, pub seq: u32, pub text: Text<20> } }
kymo::event! { #[id(41)] #[channel(Names)] pub struct Name { pub cpu: u32, pub seq: u32 } }
static VOCABULARY: kymo::Vocabulary = kymo::vocabulary![Beat, Word, Name];

struct Test;
// SAFETY: one thread plays all CPUs of a memory, one after the other.
unsafe impl kymo::platform::Platform for Test {
    type Reserve = Masked<NoInterrupts>;
    type Local = ByPointer<Block>;
    fn clock() -> u64 {
        CLOCK.get()
    }
    fn synchronize() {}
}

const CPUS: usize = 3;
const PACKET: u32 = 256;

fn config(cpus: usize) -> Config {
    Config {
        cpus: cpus as u32,
        packet_size: PACKET,
        packets: 8,
        names_packets: 4,
        overflow: kymo::Overflow::Discard,
        clock: Clock::at(1_000_000_000),
        hosted: true,
        ..Config::DEFAULT
    }
}

struct Machine {
    memory: Memory,
    recorder: &'static Recorder<Test, CPUS>,
    folder: PathBuf,
    sequence: [u32; CPUS],
    names: [u32; CPUS],
}

impl Machine {
    fn start(name: &str, flags: u32) -> Machine {
        let memory = leaked(256 << 10, CPUS as u32);
        let recorder: &Recorder<Test, CPUS> =
            Box::leak(Box::new(Recorder::new(memory, &VOCABULARY)));
        let folder =
            std::env::temp_dir().join(format!("kymo-recorder-{}-{name}", std::process::id()));
        let mut machine = Machine {
            memory,
            recorder,
            folder,
            sequence: [0; CPUS],
            names: [0; CPUS],
        };
        machine.begin(flags);
        machine
    }

    fn begin(&mut self, flags: u32) {
        let started = self.recorder.start(0, flags, Some(&config(CPUS))).unwrap();
        assert_eq!(started.channels as usize, 1 + 2 * CPUS);
        (self.sequence, self.names) = ([0; CPUS], [0; CPUS]);
        let _ = fs::remove_dir_all(&self.folder);
        fs::create_dir_all(&self.folder).unwrap();
    }

    fn record(&mut self, cpu: usize, count: u32) {
        BLOCK.set(self.memory.control(cpu as u32));
        for _ in 0..count {
            CLOCK.set(
                CLOCK.get() + 7 + u64::from(self.sequence[cpu].is_multiple_of(50)) * (1 << 27),
            );
            let seq = self.sequence[cpu];
            self.sequence[cpu] += 1;
            match seq % 3 {
                0 => Tracer::<Test>::record(Word {
                    cpu: cpu as u32,
                    seq,
                    text: Text::new("twelve chars"),
                }),
                _ => Tracer::<Test>::record(Beat {
                    cpu: cpu as u32,
                    seq,
                }),
            };
        }
        Tracer::<Test>::record(Name {
            cpu: cpu as u32,
            seq: self.names[cpu],
        });
        self.names[cpu] += 1;
    }

    /// Appends all new data to the files, like a process, one call at a time. Returns the number of
    /// calls that returned data.
    fn drain(&self, buffer_words: usize) -> usize {
        let mut calls = 0;
        for channel in 0..=2 * CPUS as u32 {
            let name = self.recorder.channels().get(channel).unwrap().to_string();
            let mut file = OpenOptions::new()
                .create(true)
                .append(true)
                .open(self.folder.join(name))
                .unwrap();
            let mut buffer = vec![0xdead_beef; buffer_words];
            loop {
                let len = self.recorder.read(0, channel, Some(&mut buffer)).unwrap();
                if len == 0 {
                    break;
                }
                let bytes: Vec<u8> = buffer
                    .iter()
                    .flat_map(|word: &u32| word.to_le_bytes())
                    .take(len)
                    .collect();
                file.write_all(&bytes).unwrap();
                calls += 1;
            }
        }
        calls
    }
}

/// Whether the library has recorded it of itself.
fn is_own(event: &Event) -> bool {
    event.name().starts_with("kymo_")
}

/// Events by CPU and channel (0: events, 1: names), in order; lost events; lost packets.
/// Overwritten events are reported before their successors; dropped events may be reported with the
/// packet after which they were dropped.
fn read(folder: &Path, overwritten: bool) -> ([[Vec<u64>; 2]; CPUS], u64, u64) {
    let mut seen: [[Vec<u64>; 2]; CPUS] = Default::default();
    let (mut lost, mut packets) = (0, 0);
    // By stream: the expected number of the next event without further losses.
    let mut next: HashMap<String, u64> = HashMap::new();
    for item in Trace::open(folder).unwrap().events() {
        match item.unwrap() {
            Item::Event(event) if is_own(&event) => {}
            Item::Event(event) => {
                let field = |name: &str| event.fields.get(name).and_then(Value::as_u64).unwrap();
                assert_eq!(event.cpu(), Some(field("cpu")));
                let channel = usize::from(event.name() == "name");
                if event.name() == "word" {
                    assert_eq!(
                        event.fields.get("text").and_then(Value::as_str),
                        Some("twelve chars")
                    );
                }
                seen[field("cpu") as usize][channel].push(field("seq"));
                let next = next.entry(event.stream().to_string()).or_default();
                assert!(
                    !overwritten || field("seq") == *next,
                    "{}: a gap that no loss before it explains",
                    event.stream()
                );
                *next += 1;
            }
            Item::Loss(loss) => {
                if loss.kind == LossKind::Packets {
                    packets += loss.count;
                } else {
                    lost += loss.count;
                    *next.entry(loss.stream.to_string()).or_default() += loss.count;
                }
            }
            _ => {}
        }
    }
    (seen, lost, packets)
}

/// A packet begins where the one before has ended or later, and ends with its last event or later.
fn each_packet_has_the_times_of_its_events(folder: &Path) {
    let mut last = HashMap::new();
    for item in Trace::open(folder).unwrap().events() {
        let Item::Event(event) = item.unwrap() else {
            panic!("nothing is lost")
        };
        last.insert(event.stream().to_string(), event.time.unwrap().0);
    }
    assert_eq!(last.len(), 2 * CPUS);
    for (stream, last) in last {
        let bytes = fs::read(folder.join(&stream)).unwrap();
        let long = |word: usize| u64::from_le_bytes(*bytes[4 * word..].first_chunk().unwrap());
        let (mut at, mut end) = (0, 0);
        while 4 * at < bytes.len() {
            assert!(
                end <= long(at + 8) && long(at + 8) <= long(at + 10),
                "{stream}"
            );
            end = long(at + 10);
            at += long(at + 14) as usize / 32;
        }
        assert!(end >= last, "{stream}: {end} {last}");
    }
}

#[test]
fn everything_that_is_read_in_time_is_in_the_trace() {
    let mut machine = Machine::start("in-time", 0);
    let least = machine.recorder.buffer_words(PACKET);
    // Buffers of all sizes; reading during and after the recording.
    for turn in 0..120 {
        for cpu in 0..CPUS {
            machine.record(cpu, [0, 1, 5, 20][(turn + cpu) % 4]);
        }
        machine.drain(least + [0, 1, 7, 100, 3000][turn % 5]);
    }
    machine.record(1, 11);
    assert_eq!(machine.recorder.stop(0), Ok(7));
    BLOCK.set(machine.memory.control(1));
    assert!(!Tracer::<Test>::is_on::<Beat>());
    assert!(machine.drain(least) > 0);
    assert_eq!(machine.drain(least), 0, "read to the end is at the end");
    let diagnostics = machine.recorder.finish(0).unwrap();
    assert_eq!(diagnostics, kymo::Diagnostics::default());
    let (seen, lost, packets) = read(&machine.folder, true);
    assert_eq!((lost, packets), (0, 0));
    let trace = Trace::open(&machine.folder).unwrap();
    let frequencies = trace
        .metadata()
        .clocks()
        .iter()
        .map(|clock| clock.frequency);
    assert_eq!(frequencies.collect::<Vec<_>>(), [1_000_000_000]);
    each_packet_has_the_times_of_its_events(&machine.folder);
    for (cpu, [events, names]) in seen.iter().enumerate() {
        assert!(
            events
                .iter()
                .copied()
                .eq(0..u64::from(machine.sequence[cpu])),
            "cpu {cpu}"
        );
        assert!(
            names.iter().copied().eq(0..u64::from(machine.names[cpu])),
            "names of cpu {cpu}"
        );
    }
    fs::remove_dir_all(&machine.folder).unwrap();
}

/// P-32: a step back inside of a time window, which no writer sees, stands in the trace before the
/// event that shows it; one over a window's beginning as well.
#[test]
fn every_step_back_of_the_clock_is_in_the_trace() {
    let window = 1 << 27;
    let machine = Machine::start("steps", 0);
    let least = machine.recorder.buffer_words(PACKET);
    BLOCK.set(machine.memory.control(0));
    let mut seq = 0;
    let mut at = |time: u64, count: u32| {
        CLOCK.set(time);
        for _ in 0..count {
            Tracer::<Test>::record(Beat { cpu: 0, seq });
            seq += 1;
        }
    };
    // Buffers of one record at least, with steps at any place of a packet.
    let mut expected = Vec::new();
    for round in 1..40 {
        let time = 3 * round * window;
        at(time + 5_000, 1 + round as u32 % 30);
        at(time + 2_000, 2);
        at(time + 4_000, 1);
        at(time + 3_999, 1);
        at(time + 6_000, 1);
        at(time - 1, 1);
        // The last one is written at the beginning of its window.
        expected.extend([3_000, 1, 6_000]);
        machine.drain(least);
    }
    machine.recorder.stop(0).unwrap();
    machine.drain(least);
    let mut steps = Vec::new();
    let (mut next, mut last, mut windows) = (0, None, 0);
    for item in Trace::open(&machine.folder).unwrap().events() {
        let Item::Event(event) = item.unwrap() else {
            panic!("nothing is lost")
        };
        assert!(event.time >= last);
        last = event.time;
        let field = |name: &str| event.fields.get(name).and_then(Value::as_u64).unwrap();
        match event.name() {
            "kymo_clock_step" => steps.push(field("ticks")),
            "beat" => {
                assert_eq!(field("seq"), next);
                next += 1;
            }
            "kymo_clock_back" => windows += 1,
            "kymo_session_end" => {}
            other => panic!("{other}"),
        }
    }
    assert_eq!((steps, next), (expected, u64::from(seq)));
    // The 1st, 2nd, 4th, 8th, 16th and 32nd time.
    assert_eq!(windows, 6);
    machine.recorder.finish(0).unwrap();
    fs::remove_dir_all(&machine.folder).unwrap();
}

/// P-52: consecutive sessions in the same memory; each is a separate trace.
#[test]
fn five_sessions_in_a_row() {
    let mut machine = Machine::start("five", 0);
    let least = machine.recorder.buffer_words(PACKET);
    for round in 0..5 {
        if round > 0 {
            machine.begin(if round % 2 == 0 {
                0
            } else {
                kymo::flags::ROLLING
            });
        }
        machine.record(2, 20);
        if round != 3 {
            machine.recorder.stop(0).unwrap();
        }
        assert!(machine.drain(least) > 0);
        machine.recorder.finish(0).unwrap();
        let (seen, lost, _) = read(&machine.folder, true);
        assert_eq!(
            (seen[2][0].len(), seen[2][1].len(), lost),
            (20, 1, 0),
            "round {round}"
        );
        fs::remove_dir_all(&machine.folder).unwrap();
    }
}

/// Events that were overwritten without a reader are counted.
#[test]
fn finish_counts_what_was_overwritten_without_a_reader() {
    for (read, stop) in [(false, false), (true, true)] {
        let mut machine = Machine::start("unread", kymo::flags::ROLLING);
        let least = machine.recorder.buffer_words(PACKET);
        machine.record(0, 40);
        if read {
            machine.drain(least);
        }
        machine.record(0, 3000);
        if stop {
            machine.recorder.stop(0).unwrap();
        }
        let overwritten = machine.recorder.finish(0).unwrap().overwritten;
        // Eight packets of 256 bytes remain, with at least 8 records each.
        assert!((2800..=3040 - 64).contains(&overwritten), "{overwritten}");
        fs::remove_dir_all(&machine.folder).unwrap();
    }
}

fn lossy(name: &str, flags: u32) {
    let mut machine = Machine::start(name, flags);
    let least = machine.recorder.buffer_words(PACKET);
    machine.record(0, 10);
    machine.drain(least);
    machine.record(0, 3000);
    machine.drain(2 * least);
    machine.record(0, 5);
    machine.record(2, 4000);
    machine.recorder.stop(0).unwrap();
    machine.drain(least);
    let diagnostics = machine.recorder.finish(0).unwrap();
    let (seen, lost, packets) = read(&machine.folder, flags != 0);
    assert_eq!(
        packets > 0,
        flags != 0,
        "packets are lost where they are overwritten"
    );
    let written: u32 = machine.sequence.iter().chain(&machine.names).sum();
    let read: usize = seen.iter().flatten().map(Vec::len).sum();
    assert_eq!(
        read as u64 + lost,
        u64::from(written),
        "written = read + lost"
    );
    assert!(lost > 5000, "{lost}");
    let of_kind = if flags == 0 {
        diagnostics.discarded
    } else {
        diagnostics.overwritten
    };
    assert_eq!(of_kind, lost, "{diagnostics:?}");
    for [events, _] in &seen {
        assert!(events.windows(2).all(|pair| pair[0] < pair[1]));
    }
    let newest_kept = seen[2][0].last() == Some(&3999);
    assert_eq!(
        newest_kept,
        flags != 0,
        "rolling keeps the newest, discarding the oldest"
    );
    fs::remove_dir_all(&machine.folder).unwrap();
}

#[test]
fn losses_are_in_the_trace_when_new_events_are_dropped() {
    lossy("discard", 0);
}

#[test]
fn losses_are_in_the_trace_when_old_events_are_overwritten() {
    lossy("rolling", kymo::flags::ROLLING);
}

/// The content of a directory: the events of each stream, and the events and packets lost before
/// each.
fn told(folder: &Path) -> Vec<String> {
    let mut told: Vec<_> = Trace::open(folder)
        .unwrap()
        .events()
        .filter_map(|item| match item.unwrap() {
            Item::Event(event) => Some(format!(
                "{} {} {:?}",
                event.stream(),
                event.time.map_or(0, |time| time.0),
                event.fields
            )),
            Item::Loss(loss) => Some(format!(
                "{} lost {:?} {}",
                loss.stream, loss.kind, loss.count
            )),
            _ => None,
        })
        .collect();
    // By stream; the sort keeps the order in each.
    told.sort_by(|a, b| a.split(' ').next().cmp(&b.split(' ').next()));
    told
}

/// A host that reads the memory and the kernel's own `read` report the same events and losses at
/// the same places.
#[test]
fn the_kernels_reader_and_the_hosts_tell_the_same() {
    let mut machine = Machine::start("both", kymo::flags::ROLLING);
    let folder = machine.folder.with_extension("host");
    let _ = fs::remove_dir_all(&folder);
    let live = machine.memory.live();
    let mut writer = TraceWriter::create(&folder, &live).unwrap();
    for turn in 0..60 {
        // Some of these lap a reader that reads everything in between.
        machine.record(turn % CPUS, [3, 40, 0, 150, 70][turn % 5]);
        machine.drain(5000);
        while writer.poll(&live, View::Live).unwrap() > 0 {}
        if turn % 4 == 0 {
            writer.flush().unwrap();
        }
    }
    machine.record(1, 500);
    machine.recorder.stop(0).unwrap();
    machine.drain(5000);
    writer.poll(&live, View::PostMortem).unwrap();
    let lost = writer.finish(&live).unwrap().lost();
    assert_eq!(machine.recorder.finish(0).unwrap().overwritten, lost);
    let (kernel, host) = (told(&machine.folder), told(&folder));
    assert!(
        lost > 1000 && kernel.iter().any(|line| line.contains(" lost Events")),
        "{lost}"
    );
    for (kernel, host) in kernel.iter().zip(&host) {
        assert_eq!(kernel, host);
    }
    assert_eq!(kernel.len(), host.len());
    fs::remove_dir_all(&machine.folder).unwrap();
    fs::remove_dir_all(&folder).unwrap();
}

/// Three hundred CPUs in one region, with the kernel's `read` and the host's directory writer.
#[test]
fn three_hundred_cpus() {
    const CPUS: usize = 300;
    let memory = leaked(4 << 20, CPUS as u32);
    let recorder: Box<Recorder<Test, CPUS>> = Box::new(Recorder::new(memory, &VOCABULARY));
    assert_eq!(
        recorder.start(0, 0, Some(&config(CPUS))).unwrap().channels as usize,
        1 + 2 * CPUS
    );
    assert!(memory.control(CPUS as u32).is_null());
    let mut expected = Vec::new();
    for cpu in 0..CPUS as u32 {
        BLOCK.set(memory.control(cpu));
        for seq in 0..1 + cpu % 5 {
            CLOCK.set(CLOCK.get() + 1);
            Tracer::<Test>::record(Beat { cpu, seq });
            expected.push((u64::from(cpu), u64::from(seq)));
        }
        Tracer::<Test>::record(Name { cpu, seq: 99 });
        expected.push((u64::from(cpu), 99));
    }
    let live = memory.live();
    let region = Region::open(&live).unwrap();
    assert_eq!(region.header().cpus as usize, CPUS);
    recorder.stop(0).unwrap();

    let folders = ["kernel", "host"]
        .map(|name| std::env::temp_dir().join(format!("kymo-300-{}-{name}", std::process::id())));
    folders
        .iter()
        .for_each(|folder| drop(fs::remove_dir_all(folder)));
    fs::create_dir_all(&folders[0]).unwrap();
    let mut buffer = vec![0; 1000];
    for channel in 0..=2 * CPUS as u32 {
        let name = recorder.channels().get(channel).unwrap().to_string();
        let mut file = fs::File::create(folders[0].join(name)).unwrap();
        loop {
            let len = recorder.read(0, channel, Some(&mut buffer)).unwrap();
            let bytes: Vec<u8> = buffer
                .iter()
                .flat_map(|word: &u32| word.to_le_bytes())
                .take(len)
                .collect();
            file.write_all(&bytes).unwrap();
            if len == 0 {
                break;
            }
        }
    }
    let mut writer = TraceWriter::create(&folders[1], &live).unwrap();
    writer.poll(&live, View::PostMortem).unwrap();
    assert_eq!(writer.finish(&live).unwrap().lost(), 0);
    expected.sort_unstable();
    for folder in &folders {
        let mut seen = Vec::new();
        for item in Trace::open(folder).unwrap().events() {
            let Item::Event(event) = item.unwrap() else {
                panic!("nothing is lost")
            };
            if is_own(&event) {
                continue;
            }
            let field = |name: &str| event.fields.get(name).and_then(Value::as_u64).unwrap();
            assert_eq!(event.cpu(), Some(field("cpu")));
            seen.push((field("cpu"), field("seq")));
        }
        seen.sort_unstable();
        assert_eq!(seen, expected, "{}", folder.display());
        fs::remove_dir_all(folder).unwrap();
    }
}

/// Reads a whole run with buffers filled with `pattern`; returns the data that `read` reports,
/// without the session's UUID.
fn read_over(pattern: u32) -> Vec<Vec<u8>> {
    CLOCK.set(1000);
    let mut machine = Machine::start(&format!("pattern-{pattern:x}"), kymo::flags::ROLLING);
    let least = machine.recorder.buffer_words(PACKET);
    let uuid = Region::open(&machine.memory.live()).unwrap().header().uuid;
    let text = kymo::ctf::tsdl::Uuid(uuid).to_string();
    let mut parts = Vec::new();
    for turn in 0..30 {
        if turn == 29 {
            machine.recorder.stop(0).unwrap();
        } else {
            machine.record(turn % CPUS, [3, 40, 0, 150][turn % 4]);
        }
        for channel in 0..=2 * CPUS as u32 {
            loop {
                let mut buffer = vec![pattern; least + turn];
                let len = machine
                    .recorder
                    .read(0, channel, Some(&mut buffer))
                    .unwrap();
                if len == 0 {
                    break;
                }
                let mut bytes: Vec<u8> = buffer
                    .iter()
                    .flat_map(|word| word.to_le_bytes())
                    .take(len)
                    .collect();
                if channel > 0 {
                    assert_eq!(bytes[4..20], uuid);
                    bytes[4..20].fill(0);
                }
                parts.push(bytes);
            }
        }
    }
    machine.recorder.finish(0).unwrap();
    fs::remove_dir_all(&machine.folder).unwrap();
    // The metadata was read in the first turn, in parts.
    let parts_of_it = parts
        .iter()
        .position(|part| part.starts_with(&kymo::ctf::packet::MAGIC.to_le_bytes()))
        .unwrap();
    let metadata: Vec<u8> = parts.drain(..parts_of_it).flatten().collect();
    let metadata = String::from_utf8(metadata).unwrap();
    assert!(metadata.contains(&text));
    parts.push(metadata.replace(&text, "").into_bytes());
    parts
}

/// `read` writes every byte that it reports: no earlier content of the caller's buffer or of the
/// kernel's memory leaks.
#[test]
fn what_is_read_was_written() {
    let (ones, others) = (read_over(0xa5a5_a5a5), read_over(0x5a5a_5a5a));
    assert!(ones.len() > 50);
    assert_eq!(ones, others);
}
