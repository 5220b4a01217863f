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
    for word in [
        &control.cursor,
        &control.prep,
        &control.open,
        &control.discarded,
        &control.consumed,
    ] {
        word.watch();
    }
    let ring = world
        .base()
        .wrapping_add(control.ring_offset.load(Relaxed) as usize);
    let packets = control.packets.load(Relaxed) as usize;
    for slot in 0..packets {
        let begin = ring.addr() + 256 * slot;
        modelled::blur(begin..begin + 256);
        for &index in [word::COMMIT, word::EVENTS_BEFORE, word::EVENTS_BEFORE + 1]
            .iter()
            .chain(witnesses)
        {
            // SAFETY: a word of the ring, which is leaked.
            unsafe {
                (*ring
                    .wrapping_add(256 * slot + 4 * index)
                    .cast::<AtomicU32>())
                .watch()
            };
        }
    }
}

/// Calls were made `before`, the reader read `read` packets, `then` further calls came; now the
/// calls `now` are made while another thread reads `reads` times.
#[derive(Clone, Copy)]
struct Race {
    setting: Setting,
    before: &'static [Kind],
    read: usize,
    then: &'static [Kind],
    now: &'static [Kind],
    /// What interrupts the writer, at each step that others may see; nothing if empty.
    nested: &'static [Kind],
    reads: usize,
    preemptions: usize,
    /// A further check of what the other thread read.
    then_check: fn(&Reading),
}

thread_local! {
    static WRITER: Cell<Option<loom::thread::ThreadId>> = const { Cell::new(None) };
    /// Steps of the writer that others may see.
    static STEPS: Cell<u32> = const { Cell::new(0) };
    /// Whether the writer came to that step.
    static REACHED: Cell<bool> = const { Cell::new(false) };
    /// At which of them the writer is interrupted, and by what.
    static NEST: Cell<(u32, &'static [Kind])> = const { Cell::new((0, &[])) };
}

fn interrupt<R: Reserve + 'static>(step: Step) {
    if step == Step::Private
        || DEPTH.get() > 0
        || WRITER.get() != Some(loom::thread::current().id())
    {
        return;
    }
    let (at, calls) = NEST.get();
    if STEPS.replace(STEPS.get() + 1) == at {
        REACHED.set(true);
        DEPTH.set(1);
        calls.iter().for_each(|&kind| call::<R>(kind));
        DEPTH.set(0);
    }
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
        let world = Arc::new(world.taken_anew());
        begin.in_order = self.nested.is_empty();
        for at in 0.. {
            REACHED.set(false);
            self.explore::<R>(
                &format!("{name} {witnesses:?} {at}"),
                witnesses,
                world.clone(),
                begin.clone(),
                at,
            );
            if !REACHED.get() {
                break;
            }
        }
    }

    fn explore<R: Reserve + 'static>(
        self,
        name: &str,
        witnesses: Witnesses,
        world: Arc<World>,
        begin: Reading,
        at: u32,
    ) {
        let consumes = self.setting.consumer != Consumer::None;
        explore(name, self.preemptions, move || {
            world.restore();
            watch(&world, witnesses);
            NEST.set((at, self.nested));
            WRITER.set(Some(loom::thread::current().id()));
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
            STEPS.set(0);
            modelled::on_step(if self.nested.is_empty() {
                None
            } else {
                Some(interrupt::<R>)
            });
            self.now.iter().for_each(|&kind| call::<R>(kind));
            modelled::on_step(None);
            let mut reading = reader.join().unwrap();
            (self.then_check)(&reading);
            reading.settle(&source, View::Live, CALLS.get());
        });
    }
}

/// The header and the payload of a packet's first record, and of the second one behind a `Fill`.
const HEADER: usize = SLOT_HEADER_WORDS;
const PAYLOAD: usize = SLOT_HEADER_WORDS + 1;
const SECOND: usize = SLOT_HEADER_WORDS + 44;
/// The third record, where each has an extended header.
const SLOW_SECOND: usize = SLOT_HEADER_WORDS + 12;

const THREE: &[Kind] = &[F, S, S, F, S, S, F, S, S];
const FOUR: &[Kind] = &[F, S, S, F, S, S, F, S, S, F, S, S];
const QUIET: Race = Race {
    setting: OVERWRITE,
    before: &[],
    read: 0,
    then: &[],
    now: &[],
    nested: &[],
    reads: 1,
    preemptions: 2,
    then_check: |_| {},
};

/// The writer takes the slot of the packet that is copied. `LocalCas` does so a packet ahead, when
/// the one before opens.
fn lapped(witnesses: Witnesses) {
    let preemptions = 1;
    Race {
        preemptions,
        before: THREE,
        read: 1,
        then: &[F, S, S],
        now: &[F],
        ..QUIET
    }
    .run::<LocalCas>("lapped, local cas", witnesses);
    Race {
        preemptions,
        before: FOUR,
        now: &[F],
        ..QUIET
    }
    .run::<Masked>("lapped, masked", witnesses);
}

/// The number is a witness too: where it is seen to have gone, nothing else is looked at.
#[test]
fn a_packet_that_is_overwritten_while_it_is_copied() {
    lapped(&[word::NUMBER, HEADER]);
    lapped(&[word::NUMBER, PAYLOAD]);
}

#[test]
fn a_header_that_is_overwritten_while_it_is_copied() {
    lapped(&[word::NUMBER, word::BEGIN]);
    lapped(&[word::NUMBER, word::CONTENT]);
}

/// The writer takes the slot of the oldest packet, whose records are looked at where they lie, and
/// copied one by one.
fn walked<R: Reserve + 'static>(name: &str, before: &[Kind], witnesses: Witnesses) {
    let world = Arc::new(World::new::<R>(OVERWRITE, before));
    explore(&format!("{name} {witnesses:?}"), 2, move || {
        world.restore();
        watch(&world, witnesses);
        let (source, reader) = (world.live(), world.reader.clone());
        let reading = loom::thread::spawn(move || {
            let number = reader.numbers(&source).unwrap().start;
            let packet = reader.packet(&source, View::Live, number).unwrap();
            let mut records = 0;
            let Some(mut packet) = packet else {
                return records;
            };
            while let Some(place) = packet.next_place(&source, &RECORDS) {
                let mut out = [0; 64];
                let words = &mut out[..place.bytes.div_ceil(4)];
                source.copy(place.payload, words).unwrap();
                if !reader.holds(&source, number).unwrap() {
                    break;
                }
                let seq = sequence(place.id, words);
                assert!(seq.is_some(), "event {} with {words:x?}", place.id);
                records += 1;
            }
            records
        });
        call::<R>(F);
        assert!(reading.join().unwrap() <= 3);
    });
}

#[test]
fn a_packet_that_is_overwritten_while_it_is_walked() {
    // Packet 1 is the oldest: `LocalCas` takes the slot of packet 0 when packet 3 opens.
    const FIVE: &[Kind] = &[F, S, S, F, S, S, F, S, S, F, S, S, F, S, S];
    for witnesses in [&[PAYLOAD][..], &[PAYLOAD + 1], &[SECOND, SECOND + 1]] {
        walked::<LocalCas>("walked, local cas", FOUR, witnesses);
        walked::<Masked>("walked, masked", FIVE, witnesses);
    }
}

/// The reader goes to the oldest packet, and that is overwritten too.
fn skipping(witnesses: Witnesses) {
    Race {
        before: THREE,
        then: &[F, S, S, F, S, S],
        now: &[F],
        ..QUIET
    }
    .run::<LocalCas>("skipping, local cas", witnesses);
    Race {
        before: FOUR,
        then: &[F, S, S],
        now: &[F],
        ..QUIET
    }
    .run::<Masked>("skipping, masked", witnesses);
}

#[test]
fn a_reader_that_was_lapped_counts_exactly() {
    skipping(&[]);
    skipping(&[word::NUMBER]);
}

/// Records are added to the packet that is read.
fn growing(witnesses: Witnesses) {
    Race {
        before: &[F],
        now: &[S, S],
        reads: 2,
        ..QUIET
    }
    .run::<LocalCas>("growing, local cas", witnesses);
    Race {
        before: &[F],
        now: &[S, S],
        reads: 2,
        ..QUIET
    }
    .run::<Masked>("growing, masked", witnesses);
}

#[test]
fn a_packet_that_grows_while_it_is_read() {
    growing(&[SECOND]);
    growing(&[SECOND + 1]);
    growing(&[SECOND, SECOND + 2]);
}

/// A packet grows through the slow path while it is read.
#[test]
fn a_packet_that_grows_by_a_record_in_another_window() {
    let race = Race {
        setting: Setting {
            rate: 1 << 27,
            ..OVERWRITE
        },
        before: &[S, S],
        now: &[S, S],
        reads: 2,
        ..QUIET
    };
    race.run::<LocalCas>("growing, local cas", &[SLOW_SECOND + 3, SLOW_SECOND + 4]);
    race.run::<Masked>("growing, masked", &[SLOW_SECOND + 3, SLOW_SECOND + 4]);
}

/// A writer is interrupted, and the packet read meanwhile.
#[test]
fn a_nested_writer_while_the_packet_is_read() {
    let race = Race {
        before: &[S],
        now: &[S],
        nested: &[S],
        reads: 2,
        ..QUIET
    };
    race.run::<LocalCas>("nested, local cas", &[HEADER + 3, PAYLOAD + 3]);
}

/// A writer is interrupted by another that closes the packet.
#[test]
fn a_nested_writer_while_the_packet_is_closed() {
    let race = Race {
        before: &[F],
        now: &[S],
        nested: &[F],
        reads: 2,
        ..QUIET
    };
    race.run::<LocalCas>("nested, local cas", &[SECOND, SECOND + 1]);
}

/// The packet that is read is closed, the next one opens.
fn switching(witnesses: Witnesses) {
    Race {
        before: &[F, S],
        now: &[S, F],
        reads: 2,
        ..QUIET
    }
    .run::<LocalCas>("switching, local cas", witnesses);
    Race {
        before: &[F, S],
        now: &[S, F],
        reads: 2,
        ..QUIET
    }
    .run::<Masked>("switching, masked", witnesses);
}

/// The packet that opens takes a slot that holds records of a lap ago.
#[test]
fn a_packet_opens_over_an_old_one_while_it_is_read() {
    let race = Race {
        before: FOUR,
        read: 4,
        now: &[F],
        reads: 2,
        ..QUIET
    };
    race.run::<LocalCas>("switching, local cas", &[word::NUMBER, HEADER]);
    race.run::<Masked>("switching, masked", &[word::NUMBER, HEADER]);
}

/// The packet that opens begins a window.
#[test]
fn a_packet_opens_in_another_window_while_it_is_read() {
    let race = Race {
        setting: Setting {
            rate: 1 << 27,
            ..OVERWRITE
        },
        before: &[F],
        now: &[F],
        reads: 2,
        ..QUIET
    };
    race.run::<LocalCas>("switching, local cas", &[word::NUMBER, word::BEGIN]);
    race.run::<Masked>("switching, masked", &[word::NUMBER, word::BEGIN]);
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
    let race = Race {
        setting: DISCARD,
        before: FOUR,
        now: &[F, S],
        ..QUIET
    };
    race.run::<LocalCas>("consumed, local cas", witnesses);
    race.run::<Masked>("consumed, masked", witnesses);
}

/// The writer dropped an event, and closes the packet afterwards.
#[test]
fn a_closed_packet_says_what_was_dropped_before_it() {
    let then_check: fn(&Reading) = |reading| {
        assert!(
            reading.closed < 4 || reading.losses.dropped == 1,
            "{:?}",
            reading.losses
        )
    };
    let race = Race {
        setting: DISCARD,
        before: &[F, S, S, F, S, S, F, S, S, F, S, S, S],
        read: 3,
        now: &[F],
        reads: 2,
        then_check,
        ..QUIET
    };
    race.run::<LocalCas>("dropped, local cas", &[word::DISCARDED]);
    race.run::<Masked>("dropped, masked", &[word::DISCARDED]);
}

#[test]
fn a_packet_is_freed_while_the_writer_looks_for_room() {
    consumed(&[PAYLOAD]);
    consumed(&[word::NUMBER]);
    consumed(&[word::DISCARDED]);
}
