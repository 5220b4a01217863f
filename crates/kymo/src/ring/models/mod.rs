//! The ring's own code under a model checker: `cargo xtask models`.
//!
//! - [`nested`]: one CPU. At every atomic step of a writer come nested writers, three deep, a
//!   crash, or a live reader; nothing is drawn by lot.
//! - [`reading`]: a writer and a reader on two CPUs, by loom: orders of threads up to a number of
//!   pre-emptions, and every value that a load may return.
//! - [`halves`]: the 64-bit words of 32-bit processors.
//! - [`names`]: names recorded on one CPU and relied on by another.
//!
//! `session::models` has `start` and `stop` against writers and readers on other CPUs, on the same
//! machine.
//!
//! The book's chapter on the proof says what is covered, with which bounds, and what is not.

mod halves;
mod names;
mod nested;
mod reading;

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::config::Config;
use super::harness::{self, BLOCK, Block, NoInterrupts, Records, check_of};
use super::layout::{ChannelKind, Clock, Consumer, Control, Overflow};
use super::local::ByPointer;
use super::local_cas::LocalCas;
use super::payload::{InPlace, Payload};
use super::reader::{ChannelReader, Losses, Region, View};
use super::region::Memory;
use super::source::{Live, Source};
use super::{Environment, RawEvent, Reserve};
use crate::event::Shape;
use crate::sync::modelled::{self, Step};

// --- What is recorded.

/// A number, and its check.
pub(crate) const SHORT: u32 = 21;
/// A number, its check, and the check's complement. Its header has two words.
pub(crate) const MEDIUM: u32 = 40;
/// A number, and a byte of it again and again: fills a packet but for two `SHORT`.
pub(crate) const FILL: u32 = 22;
const FILL_WORDS: usize = 43;

const RECORDS: Records = Records {
    shapes: &[
        (SHORT, Shape::new(8, &[])),
        (MEDIUM, Shape::new(12, &[])),
        (FILL, Shape::new(4 * FILL_WORDS as u16, &[])),
    ],
    longest: 1 + FILL_WORDS,
};

fn fill_of(seq: u32) -> u32 {
    u32::from(seq as u8) * 0x0101_0101
}

/// Which record a call makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Short,
    Medium,
    Fill,
    /// A `Fill` whose words are put straight into the ring.
    InPlace,
}
pub(crate) use Kind::{Fill as F, InPlace as P, Medium as M, Short as S};

/// The number that the record of a call carries, if the record is whole.
fn sequence(id: u32, payload: &[u32]) -> Option<u32> {
    let &seq = payload.first()?;
    let good = match id {
        SHORT => *payload == [seq, check_of(seq)],
        MEDIUM => *payload == [seq, check_of(seq), !check_of(seq)],
        FILL => {
            payload.len() == FILL_WORDS && payload[1..].iter().all(|&word| word == fill_of(seq))
        }
        _ => false,
    };
    good.then_some(seq)
}

// --- The machine.

const MOST_CALLS: usize = 512;

thread_local! {
    static CLOCK: Cell<u64> = const { Cell::new(0) };
    static RATE: Cell<u64> = const { Cell::new(1) };
    /// Depth of the innermost call, and its number.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    pub(crate) static CURRENT: Cell<usize> = const { Cell::new(0) };
    pub(crate) static CALLS: Cell<u32> = const { Cell::new(0) };
    /// The clock as each call read it last.
    static TIMES: RefCell<[u64; MOST_CALLS]> = const { RefCell::new([0; MOST_CALLS]) };
}

/// Models of this strategy do not nest.
type Masked = super::masked::Masked<NoInterrupts>;

pub(crate) struct Cpu<R>(PhantomData<R>);
// SAFETY: see `Block`. Nested writers run to their end inside of the outer one, as interrupts do.
unsafe impl<R: Reserve + 'static> Environment for Cpu<R> {
    type Local = ByPointer<Block>;
    fn clock() -> u64 {
        modelled::step(Step::Private);
        let now = CLOCK.get() + RATE.get();
        CLOCK.set(now);
        TIMES.with_borrow_mut(|times| times[CURRENT.get()] = now);
        now
    }
    fn synchronize() {}
    fn nesting() -> u32 {
        DEPTH.get()
    }
}

/// One call of `record`; its number is its sequence.
pub(crate) fn call<R: Reserve + 'static>(kind: Kind) {
    let seq = CALLS.replace(CALLS.get() + 1);
    let outer = CURRENT.replace(seq as usize);
    match kind {
        S => record::<R>(SHORT, &[seq, check_of(seq)][..]),
        M => record::<R>(MEDIUM, &[seq, check_of(seq), !check_of(seq)][..]),
        F => {
            let mut words = [fill_of(seq); FILL_WORDS];
            words[0] = seq;
            record::<R>(FILL, &words[..]);
        }
        P => {
            let fill = InPlace::new(FILL_WORDS, |out| {
                out.push(seq);
                while out.push(fill_of(seq)) {}
            });
            record::<R>(FILL, fill);
        }
    }
    CURRENT.set(outer);
}

fn record<R: Reserve + 'static>(id: u32, payload: impl Payload) {
    R::record::<Cpu<R>, RawEvent>(id, payload);
}

/// A region in which some calls were made: where models begin.
pub(crate) struct World {
    pub(crate) memory: Memory,
    image: Vec<u32>,
    pub(crate) calls: u32,
    clock: u64,
    rate: u64,
    times: [u64; MOST_CALLS],
    reader: ChannelReader,
    discard: bool,
}

/// A ring of four packets of 256 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) overflow: Overflow,
    pub(crate) consumer: Consumer,
    pub(crate) packets: u32,
    /// Ticks from one reading of the clock to the next.
    pub(crate) rate: u64,
}

pub(crate) const OVERWRITE: Setting = Setting {
    overflow: Overflow::Overwrite,
    consumer: Consumer::None,
    packets: 4,
    rate: 1,
};
pub(crate) const DISCARD: Setting = Setting {
    overflow: Overflow::Discard,
    consumer: Consumer::Host,
    packets: 4,
    rate: 1,
};

pub(crate) const SIZE: usize = 16 << 10;

pub(crate) fn config(setting: Setting) -> Config {
    Config {
        cpus: 1,
        packet_size: 256,
        packets: setting.packets,
        names_packets: 4,
        overflow: setting.overflow,
        consumer: setting.consumer,
        clock: Clock::at(1_000_000_000),
        seed: 1,
        hosted: true,
        ..Config::DEFAULT
    }
}

impl World {
    pub(crate) fn new<R: Reserve + 'static>(setting: Setting, before: &[Kind]) -> World {
        let memory = harness::leaked(SIZE, 1);
        CALLS.set(0);
        DEPTH.set(0);
        CLOCK.set(1000);
        RATE.set(setting.rate);
        memory
            .form::<Cpu<R>>(&config(setting), R::KIND, &RECORDS)
            .unwrap();
        BLOCK.set(memory.control(0));
        before.iter().for_each(|&kind| call::<R>(kind));
        let live = memory.live();
        let reader = Region::open(&live)
            .unwrap()
            .channel(&live, 0, ChannelKind::Events)
            .unwrap();
        let (image, times) = (Vec::new(), [0; MOST_CALLS]);
        World {
            memory,
            image,
            calls: 0,
            clock: 0,
            rate: setting.rate,
            times,
            reader,
            discard: setting.overflow == Overflow::Discard,
        }
        .taken_anew()
    }

    /// The world, with another reader.
    pub(crate) fn read_by(self, reader: ChannelReader) -> World {
        World { reader, ..self }
    }

    /// The world as it is now.
    pub(crate) fn taken_anew(self) -> World {
        let live = self.live();
        let image = (0..SIZE as u64 / 4)
            .map(|word| live.load(4 * word).unwrap())
            .collect();
        let times = TIMES.with_borrow(|times| *times);
        World {
            image,
            calls: CALLS.get(),
            clock: CLOCK.get(),
            times,
            ..self
        }
    }

    /// Puts everything back to where the model begins.
    pub(crate) fn restore(&self) {
        // SAFETY: the image was taken from all of this memory, which only this thread uses now.
        unsafe {
            std::ptr::copy_nonoverlapping(self.image.as_ptr().cast::<u8>(), self.base(), SIZE)
        };
        BLOCK.set(self.memory.control(0));
        CALLS.set(self.calls);
        CLOCK.set(self.clock);
        RATE.set(self.rate);
        DEPTH.set(0);
        // This is no call: what forming a region reads is nobody's time.
        CURRENT.set(MOST_CALLS - 1);
        TIMES.with_borrow_mut(|times| *times = self.times);
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.memory
            .control(0)
            .cast_mut()
            .cast::<u8>()
            .wrapping_sub(super::layout::CONTROL_OFFSET)
    }

    pub(crate) fn live(&self) -> Live {
        self.memory.live()
    }

    pub(crate) fn control(&self) -> &'static Control {
        harness::control(&self.memory)
    }

    pub(crate) fn reading(&self) -> Reading {
        let mut reading = Reading::new(self.reader.clone());
        reading.discard = self.discard;
        reading
    }
}

// --- What must come out.

/// A reader, and what it has read so far.
#[derive(Clone)]
pub(crate) struct Reading {
    pub(crate) reader: ChannelReader,
    seen: [bool; MOST_CALLS],
    time: u64,
    pub(crate) last: Option<u32>,
    /// Whether records must come in the order of their calls: nobody nests.
    in_order: bool,
    /// Whether nothing may be overwritten.
    discard: bool,
    /// Packets read to their end, and losses when the last of them was.
    closed: u32,
    losses: Losses,
}

impl Reading {
    pub(crate) fn new(reader: ChannelReader) -> Reading {
        let losses = Losses::default();
        Reading {
            reader,
            seen: [false; MOST_CALLS],
            time: 0,
            last: None,
            in_order: true,
            discard: false,
            closed: 0,
            losses,
        }
    }

    /// Reads once: part of a packet. `false`: there was nothing.
    pub(crate) fn read(&mut self, source: &impl Source, view: View) -> bool {
        let mut scratch = [0; 64];
        let Some(mut batch) = self
            .reader
            .read(source, view, &mut scratch)
            .expect("inside of the memory")
        else {
            return false;
        };
        let closed = batch.end().is_some();
        while let Some(record) = batch.next_record(&RECORDS) {
            let seq = sequence(record.id, record.payload);
            let seq = seq.unwrap_or_else(|| {
                panic!(
                    "no call has recorded event {} with {:x?}",
                    record.id, record.payload
                )
            });
            assert!((seq as usize) < MOST_CALLS, "no call has recorded {seq}");
            assert!(
                !std::mem::replace(&mut self.seen[seq as usize], true),
                "record {seq} came twice"
            );
            if self.in_order {
                assert!(
                    self.last.is_none_or(|last| last < seq),
                    "record {seq} came after {:?}",
                    self.last
                );
            }
            self.last = Some(seq);
            assert!(
                record.time >= self.time,
                "time stepped back before record {seq}"
            );
            self.time = record.time;
            let read = TIMES.with_borrow(|times| times[seq as usize]);
            assert_eq!(record.time, read, "time of record {seq}");
        }
        if closed {
            // The losses that the packet reported, including what was dropped when it was full.
            self.closed += 1;
            self.losses = self.reader.losses();
        }
        true
    }

    pub(crate) fn read_all(&mut self, source: &impl Source, view: View) {
        for _ in 0..MOST_CALLS {
            if !self.read(source, view) {
                return;
            }
        }
        panic!("the reader comes to no end");
    }

    /// At rest, everything is read or counted; nothing is counted that has no reason.
    pub(crate) fn settle(&mut self, source: &impl Source, view: View, calls: u32) {
        self.read_all(source, view);
        self.reader
            .refresh_dropped(source)
            .expect("inside of the memory");
        let losses = self.reader.losses();
        assert!(
            !self.discard || losses.overwritten == 0,
            "in Discard nothing is overwritten: {losses:?}"
        );
        assert_eq!(
            self.reader.emitted() + losses.events(),
            u64::from(calls),
            "{losses:?}"
        );
        assert_eq!(
            (
                losses.clamped,
                losses.clock_back,
                losses.abandoned,
                losses.unreadable,
                losses.too_large
            ),
            (0, 0, 0, 0, 0)
        );
    }
}

// --- Loom.

/// Explores `run` with this many pre-emptions; `KYMO_MODEL_PREEMPTIONS` adds to them.
pub(crate) fn explore(name: &str, preemptions: usize, run: impl Fn() + Send + Sync + 'static) {
    let more: usize =
        std::env::var("KYMO_MODEL_PREEMPTIONS").map_or(0, |more| more.parse().expect("a number"));
    let executions = Arc::new(AtomicU64::new(0));
    let count = executions.clone();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions + more);
    builder.max_branches = 10_000;
    let begin = std::time::Instant::now();
    builder.check(move || {
        count.fetch_add(1, Relaxed);
        modelled::begin_execution();
        run();
    });
    modelled::end_model();
    println!(
        "{name}: {} executions, {:.1} s",
        executions.load(Relaxed),
        begin.elapsed().as_secs_f64()
    );
}
