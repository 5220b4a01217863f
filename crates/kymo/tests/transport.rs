//! What is sent over a transport is received or counted, and no sender waits longer than it may.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::panic)]

mod thread_cpu;

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering};

use kymo::platform::Masked;
use kymo::transport::rtt::{Rtt, UpMemory};
use kymo::transport::{Dropped, Sender, Sent, Sink, Stopped, WhenFull};
use kymo::vocabulary::Mark;
use kymo::{Clock, Config, Diagnostics, Mode, Recorder, Refused, Tracer};
use thread_cpu::{BLOCK, NoInterrupts, OneThread, leaked};

use kymo::wire::{self, Arrived, HEADER_LEN, Kind, Open};

struct Random(u64);

impl Random {
    /// xorshift64*: Marsaglia 2003, Vigna 2016.
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as usize % limit
    }
}

/// The host's view of a block, by SEGGER's layout: it knows nothing of the target's types.
struct Host(*const u8);

// SAFETY: every access is an atomic one, to memory that the tests keep.
unsafe impl Send for Host {}

impl Host {
    /// The block of an `Rtt`, which must outlive the value.
    fn of<const UP: usize>(block: &Rtt<UP>) -> Host {
        Host(std::ptr::from_ref(block).cast())
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: `at` is inside the block and aligned, which lives as long as the tests use it.
        unsafe { &*self.0.add(at).cast() }
    }

    fn id(&self) -> [u8; 16] {
        std::array::from_fn(|at| {
            // SAFETY: as above.
            unsafe { &*self.0.add(at).cast::<AtomicU8>() }.load(Ordering::Acquire)
        })
    }

    fn up(index: usize) -> usize {
        24 + index * (2 * size_of::<usize>() + 16)
    }

    fn pointer(&self, at: usize) -> *mut u8 {
        // SAFETY: as above.
        unsafe { &*self.0.add(at).cast::<AtomicPtr<u8>>() }.load(Ordering::Relaxed)
    }

    fn name(&self, index: usize) -> String {
        // SAFETY: names end with a zero.
        let name = unsafe { std::ffi::CStr::from_ptr(self.pointer(Self::up(index)).cast()) };
        name.to_str().unwrap().to_owned()
    }

    fn read_offset(&self, index: usize) -> &AtomicU32 {
        self.word(Self::up(index) + 2 * size_of::<usize>() + 8)
    }

    /// Takes at most `most` bytes of an up-buffer.
    fn read(&self, index: usize, most: usize) -> Vec<u8> {
        let at = Self::up(index) + 2 * size_of::<usize>();
        let buffer = self.pointer(Self::up(index) + size_of::<usize>());
        let size = self.word(at).load(Ordering::Relaxed) as usize;
        let write = self.word(at + 4).load(Ordering::Acquire) as usize;
        let mut read = self.word(at + 8).load(Ordering::Relaxed) as usize;
        let mut bytes = Vec::new();
        while read != write && bytes.len() < most {
            // SAFETY: inside the up-buffer.
            bytes.push(unsafe { &*buffer.add(read).cast::<AtomicU8>() }.load(Ordering::Relaxed));
            read = (read + 1) % size;
        }
        self.word(at + 8).store(read as u32, Ordering::Release);
        bytes
    }
}

/// The frames in `line`, whose bytes are all of frames.
fn frames(line: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let (mut rest, mut found) = (line, Vec::new());
    while !rest.is_empty() {
        let Arrived::Frame(frame) = wire::parse(rest) else {
            panic!("{:?}", wire::parse(rest));
        };
        found.push((frame.number, frame.payload.to_vec()));
        rest = &rest[frame.size()..];
    }
    found
}

#[test]
fn a_block_is_as_hosts_expect_it_and_found_only_when_ready() {
    let (first, second) = (UpMemory::<256>::new(), UpMemory::<300>::new());
    let mut block = Rtt::<2>::new();
    let host = Host::of(&block);
    assert_eq!(host.id(), [0; 16]);
    let [mut one, mut other] = block.start([
        ("Terminal", first.bytes()),
        ("a name that is too long", second.bytes()),
    ]);
    assert_eq!(&host.id(), b"SEGGER RTT\0\0\0\0\0\0");
    let counts = [16, 20].map(|at| host.word(at).load(Ordering::Relaxed));
    assert_eq!(counts, [2, 0]);
    assert_eq!(
        (host.name(0).as_str(), host.name(1).as_str()),
        ("Terminal", "a name that is ")
    );
    assert_eq!((one.room(), other.room()), (Some(255), Some(299)));
    assert_eq!((one.offer(b"text"), other.offer(b"frames")), (4, 6));
    assert_eq!(
        (host.read(0, 99), host.read(1, 99)),
        (b"text".to_vec(), b"frames".to_vec())
    );
}

#[test]
fn an_up_buffer_is_a_queue_of_bytes() {
    let mut random = Random(27);
    let memory = UpMemory::<257>::new();
    let mut block = Rtt::<1>::new();
    let host = Host::of(&block);
    let [mut up] = block.start([("Kymo", memory.bytes())]);
    let (mut model, mut next) = (VecDeque::new(), 0u8);
    for _ in 0..100_000 {
        if random.below(2) == 0 {
            let bytes: Vec<u8> = (0..random.below(300))
                .map(|at| next.wrapping_add(at as u8))
                .collect();
            assert_eq!(up.room(), Some(256 - model.len()));
            let taken = up.offer(&bytes);
            assert_eq!(taken, bytes.len().min(256 - model.len()));
            model.extend(&bytes[..taken]);
            next = next.wrapping_add(taken as u8);
        } else {
            let most = random.below(300);
            let expected: Vec<u8> = model.drain(..most.min(model.len())).collect();
            assert_eq!(host.read(0, most), expected);
        }
    }
    // A host that writes nonsense gets nothing, and breaks nothing.
    host.read_offset(0).store(257, Ordering::Relaxed);
    assert_eq!((up.room(), up.offer(b"x")), (Some(0), 0));
}

/// Lets the host come to its end, also where an assertion fails before.
struct Ends<'a>(&'a AtomicU32);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(1, Ordering::Release);
    }
}

#[test]
fn what_is_sent_over_rtt_is_received_or_counted() {
    for when_full in [
        WhenFull::Drop,
        WhenFull::Wait {
            attempts: 50,
            masked: || false,
        },
    ] {
        let memory = UpMemory::<1024>::new();
        let mut block = Rtt::<1>::new();
        let host = Host::of(&block);
        let [up] = block.start([("Kymo", memory.bytes())]);
        let mut sender = Sender::new(up, when_full, 200);
        let done = AtomicU32::new(0);
        const CALLS: u32 = 50_000;
        // Until something is dropped, nobody reads.
        let mut written = 0;
        while sender.sent().dropped_frames == 0 {
            written += 1;
            let _ = sender.data(0, &[1; 100]);
        }
        let (sent, line) = std::thread::scope(|scope| {
            let host = scope.spawn(|| {
                let host = host;
                let (mut random, mut line) = (Random(3), Vec::new());
                loop {
                    let ended = done.load(Ordering::Acquire) == 1;
                    let bytes = host.read(0, random.below(900));
                    if ended && bytes.is_empty() && host.read(0, 0).is_empty() {
                        let rest = host.read(0, usize::MAX);
                        line.extend(rest);
                        return line;
                    }
                    line.extend(bytes);
                    std::thread::yield_now();
                }
            });
            let ends = Ends(&done);
            let mut random = Random(4);
            for call in 0..CALLS {
                let bytes = vec![call as u8; 1 + random.below(600)];
                written += bytes.len().div_ceil(200) as u64;
                let before = sender.sent();
                let result = sender.data(call, &bytes);
                let waits = sender.sent().waits - before.waits;
                let bound = match when_full {
                    WhenFull::Drop => 0,
                    WhenFull::Wait { attempts, .. } => 3 * u64::from(attempts),
                };
                assert!(waits <= bound, "{waits}");
                assert_eq!(
                    result.is_err(),
                    sender.sent().dropped_frames > before.dropped_frames
                );
            }
            drop(ends);
            (sender.sent(), host.join().unwrap())
        });
        // No frame is cut, and the numbers of those that arrive tell how many did not.
        let found = frames(&line);
        assert_eq!(found.len() as u64, sent.frames);
        assert_eq!(line.len() as u64, sent.bytes);
        assert_eq!(written, sent.frames + sent.dropped_frames, "{sent:?}");
        assert!(found.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let total = sent.frames + sent.dropped_frames;
        assert!(u64::from(found.last().unwrap().0) < total);
    }
}

/// A line that takes a few bytes at a time, and has turns at which it takes none.
#[derive(Default)]
struct Slow {
    turns: u32,
    /// It takes bytes at every turn with a number that this divides.
    every: u32,
    line: Vec<u8>,
}

impl Sink for Slow {
    fn offer(&mut self, bytes: &[u8]) -> usize {
        self.turns += 1;
        let taken = match self.every {
            0 => 0,
            every if self.turns.is_multiple_of(every) => bytes.len().min(16),
            _ => 0,
        };
        self.line.extend(&bytes[..taken]);
        taken
    }
}

#[test]
fn waits_are_bounded() {
    let wait = |attempts| WhenFull::Wait {
        attempts,
        masked: || false,
    };
    let payload = [7; 40];
    // Header and payload take 2 and 3 pieces; before each the line refuses three times.
    for (attempts, whole) in [(15, true), (14, false), (0, false)] {
        let mut line = Slow {
            every: 4,
            ..Slow::default()
        };
        let mut sender = Sender::new(&mut line, wait(attempts), 64);
        assert_eq!(sender.data(1, &payload).is_ok(), whole, "{attempts}");
        let sent = sender.sent();
        assert_eq!(sent.waits, u64::from(attempts));
        assert_eq!(
            (sent.frames, sent.dropped_frames),
            (u64::from(whole), u64::from(!whole))
        );
        assert_eq!(
            sent.bytes + sent.dropped_bytes,
            (HEADER_LEN + payload.len()) as u64
        );
        assert_eq!(line.line.len() as u64, sent.bytes);
        assert_eq!(
            line.turns,
            attempts + if whole { 5 } else { 1 + attempts / 3 }
        );
    }
    // A line that nobody reads.
    let mut line = Slow::default();
    let mut sender = Sender::new(&mut line, wait(1000), 64);
    assert_eq!(sender.data(1, &[0; 640]), Err(Dropped));
    let expected = Sent {
        dropped_frames: 10,
        dropped_bytes: 10 * (HEADER_LEN as u64 + 64),
        waits: 1000,
        ..Sent::default()
    };
    assert_eq!((sender.sent(), line.turns), (expected, 1001));
}

thread_local! {
    static MASKED: Cell<bool> = const { Cell::new(true) };
}

#[test]
fn nobody_waits_with_interrupts_masked() {
    let when_full = WhenFull::Wait {
        attempts: 1000,
        masked: || MASKED.get(),
    };
    let mut line = Slow {
        every: 2,
        ..Slow::default()
    };
    let mut sender = Sender::new(&mut line, when_full, 64);
    assert_eq!(sender.data(1, b"masked"), Err(Dropped));
    assert_eq!((sender.sent().waits, sender.sent().dropped_frames), (0, 1));
    MASKED.set(false);
    assert_eq!(sender.data(1, b"not masked"), Ok(()));
    assert!(sender.sent().waits > 0);
    assert_eq!(frames(&line.line), [(1, b"not masked".to_vec())]);

    let memory = UpMemory::<256>::new();
    let mut block = Rtt::<1>::new();
    let [up] = block.start([("Kymo", memory.bytes())]);
    MASKED.set(true);
    let mut sender = Sender::new(up, when_full, 200);
    assert_eq!(
        (sender.data(1, &[0; 200]), sender.data(1, &[0; 200])),
        (Ok(()), Err(Dropped))
    );
    assert_eq!(sender.sent().waits, 0);
}

#[test]
fn a_session_is_what_receivers_expect() {
    let mut line = Slow {
        every: 1,
        ..Slow::default()
    };
    let mut sender = Sender::new(&mut line, WhenFull::Drop, 0);
    let open = Open {
        channels: 3,
        flags: 1,
    };
    let totals = Diagnostics {
        discarded: 9,
        ..Diagnostics::default()
    };
    assert!(sender.has_room(1 << 30));
    assert_eq!(sender.open(open), Ok(()));
    assert_eq!(sender.data(2, &[5; 100]), Ok(()));
    assert_eq!(sender.close(&totals), Ok(()));
    let kinds: Vec<(Kind, u32)> = {
        let (mut rest, mut kinds) = (&line.line[..], Vec::new());
        while let Arrived::Frame(frame) = wire::parse(rest) {
            kinds.push((frame.kind, frame.channel));
            rest = &rest[frame.size()..];
        }
        kinds
    };
    let expected = [
        (Kind::Open, 0),
        (Kind::Data, 2),
        (Kind::Data, 2),
        (Kind::Close, 0),
    ];
    assert_eq!(kinds, expected);
    let payloads = frames(&line.line);
    assert_eq!(Open::from_bytes(&payloads[0].1), Some(open));
    assert_eq!((payloads[1].1.len(), payloads[2].1.len()), (64, 36));
    assert_eq!(wire::diagnostics(&payloads[3].1), Some(totals));

    let memory = UpMemory::<256>::new();
    let mut block = Rtt::<1>::new();
    let [up] = block.start([("Kymo", memory.bytes())]);
    let sender = Sender::new(up, WhenFull::Drop, 100);
    // 255 bytes have room for two headers and 200 bytes, not for three.
    assert_eq!([200, 201].map(|len| sender.has_room(len)), [true, false]);
}

type Board = OneThread<Masked<NoInterrupts>, 1>;
static VOCABULARY: kymo::Vocabulary = kymo::vocabulary![Mark];

/// A recorder whose session has begun, with a buffer for it.
fn recording() -> (Recorder<Board, 1>, kymo::Started, Vec<u32>) {
    let memory = leaked(64 << 10, 1);
    let recorder = Recorder::<Board, 1>::new(memory, &VOCABULARY);
    let config = Config {
        packet_size: 256,
        packets: 64,
        names_packets: 4,
        clock: Clock::at(1_000_000),
        ..Config::DEFAULT
    };
    let started = recorder.start(Mode::Trace as u32, 0, Some(&config));
    BLOCK.set(memory.control(0));
    let buffer = vec![0; recorder.buffer_words(config.packet_size)];
    (recorder, started.unwrap(), buffer)
}

/// No other word of a trace.
const FIRST: u32 = 0xabc0_0000;

fn mark(id: u32) {
    Tracer::<Board>::record(Mark {
        id: FIRST + id,
        value: 7,
    });
}

#[test]
fn a_pump_sends_all_that_there_is_room_for_and_no_more() {
    let (recorder, started, mut buffer) = recording();
    let memory = UpMemory::<1024>::new();
    let mut block = Rtt::<1>::new();
    let host = Host::of(&block);
    let [up] = block.start([("Kymo", memory.bytes())]);
    let mut sender = Sender::new(up, WhenFull::Drop, 512);
    sender.open_session(&started).unwrap();
    (0..500).for_each(mark);
    // A host that takes what was sent, each time that there is nothing left to send, or no room.
    let mut line = Vec::new();
    loop {
        let sent = sender.pump(&recorder, Mode::Trace, &mut buffer).unwrap();
        let read = host.read(0, usize::MAX);
        if sent == 0 && read.is_empty() {
            break;
        }
        line.extend(read);
    }
    (500..510).for_each(mark);
    let ended = sender.finish(&recorder, Mode::Trace, &mut buffer, || {
        line.extend(host.read(0, usize::MAX));
        true
    });
    assert_eq!(ended, Ok(()));
    line.extend(host.read(0, usize::MAX));
    let arrived = frames(&line);
    let sent = sender.sent();
    assert_eq!(
        (arrived.len() as u64, line.len() as u64, sent.dropped_frames),
        (sent.frames, sent.bytes, 0)
    );
    let Arrived::Frame(first) = wire::parse(&line) else {
        panic!("no frame")
    };
    let open = Open::from_bytes(first.payload).unwrap();
    assert_eq!((first.kind, open.channels), (Kind::Open, started.channels));
    let totals = wire::diagnostics(&arrived.last().unwrap().1).unwrap();
    assert_eq!(totals, Diagnostics::default());
    // Every mark has an id of its own, which stands beside its value.
    let events = arrived.iter().flat_map(|(_, payload)| payload.chunks(4));
    let words: Vec<u32> = events
        .filter_map(|bytes| Some(u32::from_le_bytes(bytes.try_into().ok()?)))
        .collect();
    let found = |id: u32| {
        words
            .windows(3)
            .filter(|of| **of == [FIRST + id, 7, 0])
            .count()
    };
    assert!((0..510).all(|id| found(id) == 1));
}

/// The first frame says how the channels are numbered: with samples there are three for a CPU.
#[test]
fn the_first_frame_says_whether_there_are_samples() {
    static WITH_SAMPLES: kymo::Vocabulary = kymo::vocabulary![Mark, kymo::vocabulary::Sample];
    for samples_packets in [0, 4] {
        let recorder = Recorder::<Board, 1>::new(leaked(64 << 10, 1), &WITH_SAMPLES);
        let config = Config {
            packet_size: 2048,
            packets: 4,
            names_packets: 4,
            samples_packets,
            clock: Clock::at(1_000_000),
            ..Config::DEFAULT
        };
        let started = recorder.start(Mode::Trace as u32, 0, Some(&config));
        let line = Slow {
            every: 1,
            ..Slow::default()
        };
        let mut sender = Sender::new(line, WhenFull::Drop, 512);
        sender.open_session(&started.unwrap()).unwrap();
        let sent = frames(&sender.into_sink().line);
        let open = Open::from_bytes(&sent[0].1).unwrap();
        assert_eq!(open.channel_set(), recorder.channels());
        recorder.finish(Mode::Trace as u32).unwrap();
    }
}

#[test]
fn a_pump_for_a_full_sink_gives_up_and_says_so() {
    let (recorder, started, mut buffer) = recording();
    let memory = UpMemory::<1024>::new();
    let mut block = Rtt::<1>::new();
    let [up] = block.start([("Kymo", memory.bytes())]);
    let mut sender = Sender::new(up, WhenFull::Drop, 512);
    sender.open_session(&started).unwrap();
    (0..500).for_each(mark);
    let mut attempts = 3;
    let ended = sender.finish(&recorder, Mode::Trace, &mut buffer, || {
        attempts -= 1;
        attempts > 0
    });
    assert_eq!(ended, Err(Stopped::Dropped(Dropped)));
    // What it read was sent, and the session has been given up.
    assert_eq!((attempts, sender.sent().dropped_frames), (0, 0));
    let again = sender.finish(&recorder, Mode::Trace, &mut buffer, || true);
    assert_eq!(again, Err(Stopped::Refused(Refused::Invalid)));
}

/// A sink that has no room at so many looks, and is then emptied by a host.
struct Emptied<'a> {
    looks_without_room: &'a Cell<u32>,
    line: &'a mut Vec<u8>,
}

impl Sink for Emptied<'_> {
    fn offer(&mut self, bytes: &[u8]) -> usize {
        self.line.extend(bytes);
        bytes.len()
    }
    fn room(&self) -> Option<usize> {
        let looks = self.looks_without_room.get();
        self.looks_without_room.set(looks.saturating_sub(1));
        Some(if looks > 0 { 0 } else { 1 << 20 })
    }
}

/// The host empties the sink right behind the last channel's look at its room: what is in the
/// channels is sent nevertheless.
#[test]
fn a_host_that_empties_the_sink_meanwhile_does_not_end_a_session() {
    let (recorder, started, mut buffer) = recording();
    let (looks_without_room, mut line) = (Cell::new(0), Vec::new());
    let sink = Emptied {
        looks_without_room: &looks_without_room,
        line: &mut line,
    };
    let mut sender = Sender::new(sink, WhenFull::Drop, 512);
    sender.open_session(&started).unwrap();
    (0..50).for_each(mark);
    looks_without_room.set(recorder.channels().len());
    let ended = sender.finish(&recorder, Mode::Trace, &mut buffer, || true);
    assert_eq!(ended, Ok(()));
    let arrived = frames(&line);
    let payloads = arrived.iter().flat_map(|(_, payload)| payload.chunks(4));
    let words: Vec<u32> = payloads
        .filter_map(|bytes| Some(u32::from_le_bytes(bytes.try_into().ok()?)))
        .collect();
    assert!((0..50).all(|id| words.contains(&(FIRST + id))));
}
