//! The history of sessions over memory of the test's own.
//!
//! - [`row`]: which records are shown, in which order, against the reader of whole packets.
//! - [`lines`]: what one record looks like.
//! - [`race`]: writers at work while the history is read.
//! - [`damage`]: a panic inside of a record, and damaged memory.

mod damage;
mod lines;
mod race;
mod row;

use std::fmt::Write;

use super::mark::Mark;
use super::*;
use crate::event::{Event, Sequence, Text};
use crate::ring::Reserve;
use crate::ring::config::Config;
use crate::ring::layout::{Clock, Overflow, TIME_BITS};
#[cfg(target_pointer_width = "64")]
use crate::ring::local_cas::LocalCas;
use crate::ring::masked::Masked;
use crate::ring::reader::{Region, View};
use crate::ring::source::Source;
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

fn dump(
    source: &impl Source,
    known: &Vocabulary,
    mark: &Mark,
    out: &mut String,
    last_n: usize,
    rows: Rows,
) -> fmt::Result {
    let reading = Reading {
        source,
        known,
        mark,
    };
    let mut put = |text: &str| out.write_str(text);
    reading.dump(&mut Out::new(&mut put), last_n, rows)
}

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

    /// The lines of a dump, without the line with the counts.
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
    // The sort is stable: records of one channel keep their order.
    records.sort_by_key(|record| (record.0, record.1, record.2));
    counts.retained = records.len() as u64;
    (records, counts)
}
