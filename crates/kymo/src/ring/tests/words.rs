//! Every word of a payload arrives, whichever way its record takes through the writer.

use std::sync::atomic::Ordering::Relaxed;

use super::*;
use crate::ring::RecordType;
use crate::ring::harness::control;
use crate::ring::layout::TIME_BITS;
use crate::ring::payload::InPlace;

/// Words of the longest payload: more than any writer takes in registers.
const MOST: usize = 6;
/// The first of the ids with a header of one word, and of those with two. Behind it come those of
/// longer payloads, a word more each.
const COMPACT: u32 = 1;
const MEDIUM: u32 = 40;

const RECORDS: Records = Records {
    shapes: &{
        let mut shapes = [(0, Shape::new(0, &[])); 2 * (MOST + 1)];
        let mut words = 0;
        while words <= MOST {
            let shape = Shape::new(4 * words as u16, &[]);
            shapes[words] = (COMPACT + words as u32, shape);
            shapes[MOST + 1 + words] = (MEDIUM + words as u32, shape);
            words += 1;
        }
        shapes
    },
    longest: 2 + MOST,
};

/// An event whose id is known when the code is compiled.
struct Declared<const ID: u32>;

impl<const ID: u32> RecordType for Declared<ID> {
    const CHANNEL: ChannelKind = ChannelKind::Events;
    const ID: Option<u32> = Some(ID);
}

fn declared<N: Environment, R: Reserve, const ID: u32>(words: &[u32]) -> bool {
    R::record::<N, Declared<ID>>(ID, words)
}

/// Records one event.
type RecordWords = fn(&[u32]) -> bool;

/// Each declared event's id, and the function that records it.
fn all_declared<N: Environment, R: Reserve>() -> [(u32, RecordWords); 2 * (MOST + 1)] {
    macro_rules! events {
        ($($id:expr),*) => { [$(($id, declared::<N, R, { $id }>)),*] };
    }
    events![
        COMPACT,
        COMPACT + 1,
        COMPACT + 2,
        COMPACT + 3,
        COMPACT + 4,
        COMPACT + 5,
        COMPACT + 6,
        MEDIUM,
        MEDIUM + 1,
        MEDIUM + 2,
        MEDIUM + 3,
        MEDIUM + 4,
        MEDIUM + 5,
        MEDIUM + 6
    ]
}

/// The way of a record.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// The hot path.
    Hot,
    /// The slow one, because the limit is stale.
    StaleLimit,
    /// The first record of a time window.
    NewWindow,
    /// The first record of a packet.
    NextPacket,
}

/// Makes `record`, of at most `bytes`, go this way.
fn send<N: Environment, R: Reserve>(memory: &Memory, way: Way, bytes: u64, record: impl Fn()) {
    const PACKET: u64 = 256;
    let control = control(memory);
    match way {
        Way::Hot => record(),
        Way::StaleLimit => {
            let limit = control.limit.load(Relaxed);
            control.limit.store(control.cursor.load(Relaxed), Relaxed);
            record();
            // `Masked` has no stale limits, and leaves it. A record that opened a packet has set
            // it.
            if control.limit.load(Relaxed) < limit {
                control.limit.store(limit, Relaxed);
            }
        }
        Way::NewWindow => {
            let epoch = control.epoch.load(Relaxed);
            control.epoch.store(epoch - 1, Relaxed);
            record();
        }
        Way::NextPacket => {
            while control.cursor.load(Relaxed) % PACKET + bytes <= PACKET - 4 {
                R::record::<N, RawEvent>(COMPACT, &[][..]);
            }
            record();
        }
    }
}

fn every_word<N: Environment, R: Reserve>() {
    CLOCK.set(5 << TIME_BITS);
    let memory = leaked(64 << 10, 1);
    let config = Config {
        cpus: 1,
        ..config(Overflow::Overwrite, Consumer::None, 256, 16)
    };
    memory.form::<N>(&config, R::KIND, &RECORDS).unwrap();
    BLOCK.set(memory.control(0));
    let live = memory.live();
    let mut reader = events(&live);
    let mut scratch = vec![0; reader.scratch_words()];
    let mut next = 0;
    let mut try_way = |way: Way, id: u32, what: &str, record: &dyn Fn(&[u32]) -> bool| {
        let (_, shape) = RECORDS
            .shapes
            .iter()
            .find(|(other, _)| *other == id)
            .unwrap();
        let len = shape.payload_bytes_of(MOST, |_| None).unwrap() / 4;
        let words: [u32; MOST] = core::array::from_fn(|index| check_of(next + index as u32));
        next += MOST as u32;
        let words = &words[..len];
        let bytes = 4 * (2 + len as u64);
        send::<N, R>(&memory, way, bytes, || assert!(record(words)));
        let mut last = None;
        while let Some(mut batch) = reader.read(&live, View::Live, &mut scratch).unwrap() {
            while let Some(record) = batch.next_record(&RECORDS) {
                last = Some((record.id, record.payload.to_vec()));
            }
        }
        let writer = std::any::type_name::<R>();
        let expected = Some((id, words.to_vec()));
        assert_eq!(last, expected, "{writer}, {way:?}, {what} of {len} words");
    };
    for way in [Way::Hot, Way::StaleLimit, Way::NewWindow, Way::NextPacket] {
        for (id, record) in all_declared::<N, R>() {
            try_way(way, id, "declared", &record);
            try_way(way, id, "raw", &|words| R::record::<N, RawEvent>(id, words));
            try_way(way, id, "in place", &|words| {
                let fill = InPlace::new(words.len(), |out| {
                    words.iter().for_each(|&word| _ = out.push(word));
                });
                R::record::<N, RawEvent>(id, fill)
            });
        }
    }
}

#[test]
fn every_word_of_a_payload_arrives_on_every_way() {
    every_word::<Cpu<Masked<NoInterrupts>>, Masked<NoInterrupts>>();
    #[cfg(target_pointer_width = "64")]
    every_word::<Cpu<LocalCas>, LocalCas>();
    #[cfg(target_arch = "x86_64")]
    #[cfg(not(miri))] // Its hot path is assembly.
    every_word::<own_clock::Cpu, crate::arch::x86_64::TscCas>();
    #[cfg(target_arch = "aarch64")]
    #[cfg(not(miri))]
    every_word::<own_clock::Cpu, crate::arch::aarch64::CounterCas>();
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[cfg(not(miri))]
mod own_clock {
    use super::*;

    /// The CPU that the thread is, with the clock of `TscCas` or `CounterCas`.
    pub(super) struct Cpu;
    // SAFETY: see `Block`.
    unsafe impl Environment for Cpu {
        type Local = ByPointer<Block>;
        fn clock() -> u64 {
            #[cfg(target_arch = "x86_64")]
            return crate::arch::x86_64::tsc();
            #[cfg(target_arch = "aarch64")]
            return crate::arch::aarch64::time();
        }
        fn synchronize() {}
    }
}
