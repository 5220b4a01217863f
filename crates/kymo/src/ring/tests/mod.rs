//! Writers and readers against each other, with a clock of the test's own.
//!
//! - [`accounting`]: every record that comes out is the one that went in, and what does not come
//!   out is counted, whenever the reader comes.
//! - [`clock`]: times, windows, and clocks that step back.
//! - [`damage`]: dumps of writers that died, records that nobody declared, damaged memory.
//! - [`losses`]: in which packet losses are reported, and where among its records.
//! - [`region`]: memory and configurations that are refused.
//! - [`words`]: every word of a payload arrives.

mod accounting;
mod clock;
mod damage;
mod losses;
mod region;
mod words;

use std::cell::Cell;

use super::config::Config;
use super::harness::{BLOCK, Block, NoInterrupts, Records, check_of, leaked};
use super::layout::{ChannelKind, Clock, Consumer, Overflow};
use super::local::ByPointer;
#[cfg(target_pointer_width = "64")]
use super::local_cas::LocalCas;
use super::masked::Masked;
use super::reader::{ChannelReader, Region, View};
use super::region::Memory;
use super::source::Source;
use super::{Environment, RawEvent, Reserve};
use crate::event::Shape;

/// A number, and its check.
const SHORT: u32 = 21;
/// A number.
const TINY: u32 = 22;
/// A number, 37 bytes, and a text. Its header has two words.
const LONG: u32 = 40;
const RECORDS: Records = Records {
    shapes: &[
        (SHORT, Shape::new(8, &[])),
        (TINY, Shape::new(4, &[])),
        (LONG, Shape::new(44, &[0])),
    ],
    longest: 2 + LONG_WORDS,
};
const LONG_WORDS: usize = 17;

/// The payload of a [`LONG`].
fn long(seq: u32) -> [u32; LONG_WORDS] {
    let mut words = [u32::from(seq as u8) * 0x0101_0101; LONG_WORDS];
    words[0] = seq;
    // One of the 37 bytes is left for this word; the rest of it is padding.
    words[10] = u32::from(seq as u8);
    // A text of 20 bytes that was cut.
    words[11] = 0x8000_0014;
    words
}

/// There is no such writer on 32-bit processors.
#[cfg(target_pointer_width = "32")]
type LocalCas = Masked<NoInterrupts>;

thread_local! {
    /// The clock, in ticks.
    static CLOCK: Cell<u64> = const { Cell::new(0) };
}

/// The CPU that the thread is, which records with `R`.
struct Cpu<R>(std::marker::PhantomData<R>);
// SAFETY: see `Block`.
unsafe impl<R: Reserve + 'static> Environment for Cpu<R> {
    type Local = ByPointer<Block>;
    fn clock() -> u64 {
        CLOCK.get()
    }
    fn synchronize() {}
    fn nesting() -> u32 {
        0
    }
}

fn config(overflow: Overflow, consumer: Consumer, packet_size: u32, packets: u32) -> Config {
    Config {
        cpus: 2,
        packet_size,
        packets,
        names_packets: 4,
        overflow,
        consumer,
        clock: Clock::at(1_000_000_000),
        seed: 1,
        hosted: true,
        ..Config::DEFAULT
    }
}

fn memory() -> Memory {
    leaked(if cfg!(miri) { 256 << 10 } else { 2 << 20 }, 2)
}
/// Forms a region, whose first CPU the thread is from now on.
fn form<R: Reserve + 'static>(memory: Memory, config: &Config) -> Memory {
    memory.form::<Cpu<R>>(config, R::KIND, &RECORDS).unwrap();
    BLOCK.set(memory.control(0));
    memory
}

/// A reader of the first CPU's events.
fn events(source: &impl Source) -> ChannelReader {
    Region::open(source)
        .unwrap()
        .channel(source, 0, ChannelKind::Events)
        .unwrap()
}

fn dump(source: &impl Source) -> Vec<u8> {
    (0..source.len() / 4)
        .flat_map(|word| source.load(4 * word).unwrap().to_le_bytes())
        .collect()
}

/// A small generator of numbers (SplitMix64), the same on every run.
struct Random(u64);
impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }
}

fn emit<R: Reserve + 'static>(which: u64, seq: u32) {
    match which {
        0 => R::record::<Cpu<R>, RawEvent>(TINY, &[seq][..]),
        // SAFETY: a test thread has no interrupts.
        1 => unsafe { R::record_masked::<Cpu<R>, RawEvent>(LONG, &long(seq)[..]) },
        _ => R::record::<Cpu<R>, RawEvent>(SHORT, &[seq, check_of(seq)][..]),
    };
}

/// Reads what there is; checks each record against its own sequence number.
fn read_all(
    reader: &mut ChannelReader,
    source: &impl Source,
    view: View,
    mut each: impl FnMut(u32, u64),
) {
    let mut scratch = vec![0; reader.scratch_words()];
    while let Some(mut batch) = reader.read(source, view, &mut scratch).unwrap() {
        while let Some(record) = batch.next_record(&RECORDS) {
            let seq = record.payload[0];
            match record.id {
                TINY => assert_eq!(record.payload.len(), 1),
                SHORT => assert_eq!(record.payload, [seq, check_of(seq)]),
                LONG => assert_eq!(record.payload, long(seq)),
                other => panic!("event {other} was never written"),
            }
            each(seq, record.time);
        }
    }
}
