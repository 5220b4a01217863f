//! A writer and a reader on two CPUs.

use super::*;
use crate::ring::layout::SLOT_HEADER_WORDS;
use crate::ring::slot::word;
use crate::sync::AtomicU32;

/// Words of packet slots that loom has besides `commit` and `events_before`.
type Witnesses = &'static [usize];

/// Words that both sides use, and the witnesses in every slot.
fn watch(world: &World, witnesses: Witnesses) {
    let control = world.control();
    for word in [&control.cursor, &control.prep, &control.open, &control.discarded, &control.consumed] {
        word.watch();
    }
    let ring = world.base().wrapping_add(control.ring_offset.load(Relaxed) as usize);
    let packets = control.packets.load(Relaxed) as usize;
    for slot in 0..packets {
        let begin = ring.addr() + 256 * slot;
        modelled::blur(begin..begin + 256);
        for &index in [word::COMMIT, word::EVENTS_BEFORE, word::EVENTS_BEFORE + 1].iter().chain(witnesses) {
            // SAFETY: a word of the ring, which is leaked.
            unsafe { (*ring.wrapping_add(256 * slot + 4 * index).cast::<AtomicU32>()).watch() };
        }
    }
}

/// Calls were made `before`, the reader read so many packets, further calls came; then the calls `now`, while another thread reads `reads` times.
#[derive(Clone, Copy)]
struct Race {
    setting: Setting,
    before: &'static [Kind],
    read: usize,
    then: &'static [Kind],
    now: &'static [Kind],
    reads: usize,
    preemptions: usize,
}

impl Race {
    fn run<R: Reserve + 'static>(self, name: &str, witnesses: Witnesses) {
        let world = World::new::<R>(self.setting, self.before);
        let mut begin = world.reading();
        let consumes = self.setting.consumer != Consumer::None;
        for _ in 0..self.read {
            begin.read(&world.live(), View::Live);
        }
        if consumes {
            begin.reader.release(&world.live()).unwrap();
        }
        self.then.iter().for_each(|&kind| call::<R>(kind));
        let world = world.taken_anew();
        explore(&format!("{name} {witnesses:?}"), self.preemptions, move || {
            world.restore();
            watch(&world, witnesses);
            let mut reading = begin.clone();
            let source = world.live();
            let reader = loom::thread::spawn(move || {
                for _ in 0..self.reads {
                    reading.read(&source, View::Live);
                    if consumes {
                        reading.reader.release(&source).unwrap();
                    }
                }
                reading
            });
            self.now.iter().for_each(|&kind| call::<R>(kind));
            let mut reading = reader.join().unwrap();
            reading.settle(&source, View::Live, CALLS.get());
        });
    }
}

/// The header and the payload of a packet's first record, and of the second one behind a `Fill`.
const HEADER: usize = SLOT_HEADER_WORDS;
const PAYLOAD: usize = SLOT_HEADER_WORDS + 1;
const SECOND: usize = SLOT_HEADER_WORDS + 44;

const THREE: &[Kind] = &[F, S, S, F, S, S, F, S, S];
const FOUR: &[Kind] = &[F, S, S, F, S, S, F, S, S, F, S, S];
const QUIET: Race = Race { setting: OVERWRITE, before: &[], read: 0, then: &[], now: &[], reads: 1, preemptions: 2 };

/// The writer takes the slot of the packet that is copied. `LocalCas` does so a packet ahead, when the one before opens.
fn lapped(witnesses: Witnesses) {
    Race { before: THREE, read: 1, then: &[F, S, S], now: &[F], ..QUIET }.run::<LocalCas>("lapped, local cas", witnesses);
    Race { before: FOUR, now: &[F], ..QUIET }.run::<Masked>("lapped, masked", witnesses);
}

#[test]
fn a_packet_that_is_overwritten_while_it_is_copied() {
    lapped(&[PAYLOAD]);
    lapped(&[HEADER]);
}

#[test]
fn a_header_that_is_overwritten_while_it_is_copied() {
    lapped(&[word::NUMBER]);
    lapped(&[word::BEGIN]);
    lapped(&[word::CONTENT]);
}

/// The reader goes to the oldest packet, and that is overwritten too.
fn skipping(witnesses: Witnesses) {
    Race { before: THREE, then: &[F, S, S, F, S, S], now: &[F], ..QUIET }.run::<LocalCas>("skipping, local cas", witnesses);
    Race { before: FOUR, then: &[F, S, S], now: &[F], ..QUIET }.run::<Masked>("skipping, masked", witnesses);
}

#[test]
fn a_reader_that_was_lapped_counts_exactly() {
    skipping(&[]);
    skipping(&[word::NUMBER]);
}

/// Records are added to the packet that is read.
fn growing(witnesses: Witnesses) {
    Race { before: &[F], now: &[S, S], reads: 2, ..QUIET }.run::<LocalCas>("growing, local cas", witnesses);
    Race { before: &[F], now: &[S, S], reads: 2, ..QUIET }.run::<Masked>("growing, masked", witnesses);
}

#[test]
fn a_packet_that_grows_while_it_is_read() {
    growing(&[SECOND]);
    growing(&[SECOND + 1]);
    growing(&[SECOND, SECOND + 2]);
}

/// The packet that is read is closed, the next one opens.
fn switching(witnesses: Witnesses) {
    Race { before: &[F, S], now: &[S, F], reads: 2, ..QUIET }.run::<LocalCas>("switching, local cas", witnesses);
    Race { before: &[F, S], now: &[S, F], reads: 2, ..QUIET }.run::<Masked>("switching, masked", witnesses);
}

#[test]
fn a_packet_that_is_closed_while_it_is_read() {
    switching(&[word::CONTENT]);
    switching(&[word::CLOSE, word::BEGIN]);
    switching(&[word::NUMBER, HEADER]);
    switching(&[word::DISCARDED, PAYLOAD]);
}

/// A full ring, of which the consumer frees a packet while the writer looks for one.
fn consumed(witnesses: Witnesses) {
    let race = Race { setting: DISCARD, before: FOUR, now: &[F, S], ..QUIET };
    race.run::<LocalCas>("consumed, local cas", witnesses);
    race.run::<Masked>("consumed, masked", witnesses);
}

#[test]
fn a_packet_is_freed_while_the_writer_looks_for_room() {
    consumed(&[PAYLOAD]);
    consumed(&[word::NUMBER]);
    consumed(&[word::DISCARDED]);
}
