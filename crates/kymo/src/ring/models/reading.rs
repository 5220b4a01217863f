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

/// The header and the payload of a packet's first record.
const HEADER: usize = SLOT_HEADER_WORDS;
const PAYLOAD: usize = SLOT_HEADER_WORDS + 1;

/// `LocalCas` prepares a packet ahead: the packet that the reader copies goes when the one after the next opens.
const LAPPED_CAS: Race = Race {
    setting: OVERWRITE,
    before: &[F, S, S, F, S, S, F, S, S],
    read: 1,
    then: &[F, S, S],
    now: &[F],
    reads: 1,
    preemptions: 2,
};
const LAPPED_MASKED: Race = Race { before: &[F, S, S, F, S, S, F, S, S, F, S, S], read: 0, then: &[], ..LAPPED_CAS };

#[test]
fn a_packet_that_is_overwritten_while_it_is_copied_local_cas() {
    for witnesses in [&[PAYLOAD][..], &[HEADER], &[word::NUMBER], &[word::BEGIN], &[word::CONTENT], &[word::CLOSE]] {
        LAPPED_CAS.run::<LocalCas>("lapped, local cas", witnesses);
    }
}

#[test]
fn a_packet_that_is_overwritten_while_it_is_copied_masked() {
    for witnesses in [&[PAYLOAD][..], &[HEADER], &[word::NUMBER], &[word::BEGIN], &[word::CONTENT], &[word::CLOSE]] {
        LAPPED_MASKED.run::<Masked>("lapped, masked", witnesses);
    }
}
