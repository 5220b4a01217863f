//! Stands in for QEMU with a guest that sends its trace: a `kymo::Recorder` in the RAM file, whose
//! channels are read by its calls and go out over the port. Takes the command line that
//! `kymo record` makes, and does what the words of `KYMO_SENDER` say:
//!
//! | word | what it does |
//! | --- | --- |
//! | `events=N` | so many marks; default: 2,000 |
//! | `burst=N` | so many between two rounds of reading; default: 50 |
//! | `until_stop` | goes on until it is asked to stop |
//! | `stay` | does not end after it has closed |
//! | `mute` | does not heed that it is asked to stop |
//! | `noclose` | ends without closing |
//! | `deaf` | does not heed `rolling` and `events=` of the kernel's command line |
//! | `again` | records and sends a second session |
//! | `flip=N`, `drop=N` | damages frame N, leaves it out |
//! | `status=N` | ends with this status |
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::cell::Cell;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use kymo::boot;
use kymo::platform::{Control, LocalCas};
use kymo::vocabulary::{self, Mark, ThreadName};
use kymo::wire::{self, Kind, Open};
use kymo::{Clock, Config, Consumer, Memory, Overflow, Recorder, Text, Tid, flags, trace};

const CPUS: usize = 2;
/// Where the region lies in the RAM file, and where that begins.
const OFFSET: usize = 2 << 20;
const BASE: u64 = 0x8000_0000;
const REGION: usize = 16 << 20;
const TRACE: u32 = 0;

thread_local! {
    static BLOCK: Cell<*const Control> = const { Cell::new(std::ptr::null()) };
    static BEGAN: Instant = Instant::now();
}

struct Sender;
type Kymo = kymo::Tracer<Sender>;

// SAFETY: one thread records, on one CPU after the other.
unsafe impl kymo::platform::ControlPointer for Sender {
    fn get() -> *const Control {
        BLOCK.get()
    }
}

// SAFETY: as above.
unsafe impl kymo::platform::Platform for Sender {
    type Reserve = LocalCas;
    type Local = kymo::platform::ByPointer<Sender>;
    fn clock() -> u64 {
        BEGAN.with(|began| began.elapsed().as_nanos() as u64)
    }
    fn synchronize() {}
}

/// The controlling words.
struct Words(String);

impl Words {
    fn has(&self, word: &str) -> bool {
        self.0.split(' ').any(|found| found == word)
    }
    fn number(&self, key: &str) -> Option<u32> {
        self.0
            .split(' ')
            .find_map(|word| word.strip_prefix(key)?.strip_prefix('=')?.parse().ok())
    }
}

/// The port.
struct Line {
    socket: UnixStream,
    number: u32,
    flip: Option<u32>,
    drop: Option<u32>,
}

impl Line {
    fn send(&mut self, kind: Kind, channel: u32, payload: &[u8]) {
        let mut frame = [
            &wire::header(kind, channel, self.number, payload)[..],
            payload,
        ]
        .concat();
        if self.flip == Some(self.number) {
            let middle = frame.len() / 2;
            frame[middle] ^= 0x10;
        }
        if self.drop != Some(self.number) {
            // Nothing listens anymore: the machine is about to be ended.
            if self.socket.write_all(&frame).is_err() {
                std::process::exit(0);
            }
        }
        self.number = self.number.wrapping_add(1);
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let words = Words(std::env::var("KYMO_SENDER").unwrap_or_default());
    let value = |key: &str| {
        arguments
            .iter()
            .find_map(|word| Some(word.split_once(key)?.1.to_owned()))
    };
    let append = arguments
        .iter()
        .position(|word| word == "-append")
        .map_or("", |at| arguments[at + 1].as_str());
    let boot = boot::Options::parse(append).unwrap();
    let ram = OpenOptions::new()
        .read(true)
        .write(true)
        .open(value("mem-path=").unwrap())
        .unwrap();
    let map = memmap2::MmapOptions::new().map_raw(&ram).unwrap();
    // SAFETY: inside of the mapping, which is never taken away; nobody else here touches it.
    let memory = unsafe { Memory::new(map.as_mut_ptr().add(OFFSET), REGION, CPUS as u32) };
    std::mem::forget(map);
    let recorder: &Recorder<Sender, CPUS> =
        Box::leak(Box::new(Recorder::new(memory, &vocabulary::ALL)));

    let asked = Arc::new(AtomicBool::new(false));
    let mut line = value("socket,id=kymo-port,fd=").map(|fd| {
        // SAFETY: this program got it for itself.
        let socket = unsafe { UnixStream::from_raw_fd(fd.parse().unwrap()) };
        let (mut listening, heard) = (socket.try_clone().unwrap(), Arc::clone(&asked));
        std::thread::spawn(move || {
            let mut bytes = [0; wire::HEADER_LEN];
            if listening.read_exact(&mut bytes).is_ok() {
                assert!(
                    matches!(wire::parse(&bytes), wire::Arrived::Frame(frame) if frame.kind == Kind::Stop && frame.number == 0)
                );
                heard.store(true, SeqCst);
            }
        });
        assert!(boot.send, "the kernel is told to send");
        Line { socket, number: 0, flip: words.number("flip"), drop: words.number("drop") }
    });
    for _ in 0..1 + u32::from(words.has("again")) {
        session(recorder, memory, &boot, &words, &asked, line.as_mut());
    }
    if words.has("stay") {
        // The process that started this one ends it.
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    }
    std::process::exit(words.number("status").unwrap_or(0) as i32);
}

fn session(
    recorder: &Recorder<Sender, CPUS>,
    memory: Memory,
    boot: &boot::Options<'_>,
    words: &Words,
    asked: &AtomicBool,
    mut line: Option<&mut Line>,
) {
    let deaf = words.has("deaf");
    let flags = if deaf { 0 } else { boot.flags(0) };
    let config = Config {
        cpus: CPUS as u32,
        packets: 1024,
        names_packets: 16,
        overflow: Overflow::Discard,
        consumer: Consumer::Kernel,
        clock: Clock::at(1_000_000_000),
        phys: BASE + OFFSET as u64,
        seed: u64::from(std::process::id()),
        ..Config::DEFAULT
    };
    BLOCK.set(memory.control(0));
    let started = recorder
        .start_with(TRACE, flags, Some(&config), |name| {
            deaf || boot.records(name)
        })
        .unwrap();
    // Large enough for packets of several pages.
    let mut buffer = vec![0u32; recorder.buffer_words(4096) + 8192];
    if let Some(line) = &mut line {
        let flags = if started.overflow == Overflow::Overwrite {
            flags::ROLLING
        } else {
            0
        };
        line.send(
            Kind::Open,
            0,
            &Open {
                channels: started.channels,
                flags,
            }
            .to_bytes(),
        );
    }
    let mut pump = |line: &mut Option<&mut Line>, all: bool| {
        let Some(line) = line else { return };
        for channel in 0..started.channels {
            loop {
                let len = recorder.read(TRACE, channel, Some(&mut buffer)).unwrap();
                if len == 0 {
                    break;
                }
                let bytes: Vec<u8> = buffer
                    .iter()
                    .flat_map(|word| word.to_le_bytes())
                    .take(len)
                    .collect();
                line.send(Kind::Data, channel, &bytes);
                if !all && channel > 0 {
                    break;
                }
            }
        }
    };
    let (events, burst) = (
        words.number("events").unwrap_or(2000),
        words.number("burst").unwrap_or(50),
    );
    let until_stop = words.has("until_stop");
    for seq in 0.. {
        let stop = asked.load(SeqCst) && !words.has("mute");
        if if until_stop { stop } else { seq == events } {
            break;
        }
        BLOCK.set(memory.control(seq / burst % 2));
        if seq % 100 == 0 {
            trace!(ThreadName {
                tid: Tid(seq),
                name: Text::new("worker")
            });
        }
        trace!(Mark {
            id: seq,
            value: u64::from(seq) << 20
        });
        if seq % burst == burst - 1 {
            pump(&mut line, false);
            if until_stop {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    recorder.stop(TRACE).unwrap();
    pump(&mut line, true);
    let totals = recorder.finish(TRACE).unwrap();
    if let Some(line) = line.filter(|_| !words.has("noclose")) {
        line.send(Kind::Close, 0, &wire::close(&totals));
    }
}
