//! `start` and `stop` against writers and readers on other CPUs.
//!
//! `synchronize` is what the platform promises and no more: every pinned stretch of the other CPU
//! lies before it or after it. The model has a word that is set from `pin` to `unpin`;
//! `synchronize` waits until it finds the word clear. All are read-modify-write operations, so
//! whatever lies before sees nothing of, and whatever lies after sees all that stands in front of
//! it, as with an interrupt that the other CPU answers between two pinned stretches.
//!
//! There is no `finish` yet.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::Session;
use crate::event::{Event, Vocabulary};
use crate::platform::{ByPointer, Interrupts, LocalCas, Masked, Platform};
use crate::ring::harness::{Block, check_of};
use crate::ring::layout::{
    ChannelKind, Consumer, HEADER_WORDS, SESSION_WORD, STATE_WORD, State, switch,
};
use crate::ring::models::{
    CALLS, CURRENT, Cpu, DISCARD, F, Kind, OVERWRITE, Reading, S, SIZE, Setting, World, call,
    config, explore,
};
use crate::ring::reader::{Losses, Region, View};
use crate::ring::{Environment, Reserve};
use crate::sync::{AtomicU32, Ordering, modelled};
use crate::tracer::Tracer;

// The records of `ring::models`, declared.
crate::event! { #[id(21)] struct Short { seq: u32, check: u32 } }
crate::event! { #[id(40)] struct Medium { seq: u32, check: u32, other: u32 } }
crate::event! { #[id(22)] struct Fill { seq: u32, rest: [u8; 168] } }
/// Without what the library records of itself, which would only make the models larger.
static VOCABULARY: Vocabulary = Vocabulary::new(&[&Short::SCHEMA, &Medium::SCHEMA, &Fill::SCHEMA]);

thread_local! {
    static PINNED: RefCell<Option<Rc<loom::sync::atomic::AtomicU32>>> = const { RefCell::new(None) };
    /// Calls that found their switch on.
    static ON: Cell<u32> = const { Cell::new(0) };
}

fn pinned() -> Option<Rc<loom::sync::atomic::AtomicU32>> {
    PINNED.with_borrow(Clone::clone)
}

fn set_pinned(value: u32) {
    if let Some(word) = pinned() {
        word.swap(value, Ordering::AcqRel);
    }
}

struct Remote<R>(std::marker::PhantomData<R>);
// SAFETY: as `Cpu`; `synchronize` as the module says.
unsafe impl<R: Reserve + 'static> Platform for Remote<R> {
    type Reserve = R;
    type Local = ByPointer<Block>;
    fn clock() -> u64 {
        <Cpu<R> as Environment>::clock()
    }
    fn synchronize() {
        if let Some(word) = pinned() {
            while word.fetch_add(0, Ordering::AcqRel) != 0 {
                loom::thread::yield_now();
            }
        }
    }
    fn pin() {
        set_pinned(1);
    }
    fn unpin() {
        set_pinned(0);
    }
}

struct PinningInterrupts;
// SAFETY: as above.
unsafe impl Interrupts for PinningInterrupts {
    fn mask() -> usize {
        set_pinned(1);
        0
    }
    fn restore(_: usize) {
        set_pinned(0);
    }
}
type RemoteMasked = Masked<PinningInterrupts>;

/// Where a tracepoint stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In code that is pinned, so that its switch is tested there too.
    Pinned,
    /// In code that may be moved or switched out between the test of its switch and the record.
    Anywhere,
}

fn is_on<R: Reserve + 'static>() -> bool {
    let on = Tracer::<Remote<R>>::is_on::<Short>();
    ON.set(ON.get() + u32::from(on));
    on
}

fn short() -> Short {
    let seq = CALLS.replace(CALLS.get() + 1);
    CURRENT.set(seq as usize);
    Short {
        seq,
        check: check_of(seq),
    }
}

/// Two tracepoints: `trace!` of a `Short`.
fn trace<R: Reserve + 'static>(place: Place) {
    match place {
        Place::Pinned => {
            for _ in 0..2 {
                set_pinned(1);
                if is_on::<R>() {
                    // SAFETY: the thread is pinned to its CPU, which is its own.
                    unsafe { Tracer::<Remote<R>>::record_masked(short()) };
                }
                set_pinned(0);
            }
        }
        Place::Anywhere => {
            // Two threads: both were switched out between test and record.
            for on in [is_on::<R>(), is_on::<R>()] {
                if on {
                    Tracer::<Remote<R>>::record(short());
                }
            }
        }
    }
}

/// What `start` and a writer on another CPU both use.
fn watch(world: &World, ring: bool) {
    PINNED.set(Some(Rc::new(loom::sync::atomic::AtomicU32::new(0))));
    ON.set(0);
    let control = world.control();
    for word in [
        &control.cursor,
        &control.prep,
        &control.ready,
        &control.open,
        &control.discarded,
        &control.consumed,
    ] {
        word.watch();
    }
    for word in [&control.epoch, &control.first_packet] {
        word.watch();
    }
    for word in [&control.limit, &control.base, &control.mask] {
        word.watch();
    }
    control.packet_size.watch();
    control.events.watch();
    control.on[switch(Short::ID).byte].watch();
    for index in [SESSION_WORD, STATE_WORD] {
        // SAFETY: a word of the header, which is leaked.
        unsafe { (*world.base().wrapping_add(4 * index).cast::<AtomicU32>()).watch() };
    }
    if ring {
        watch_ring(world);
    }
}

fn watch_ring(world: &World) {
    let ring = world
        .base()
        .wrapping_add(world.control().ring_offset.load(Ordering::Relaxed) as usize);
    let begin = ring.addr();
    modelled::blur(begin..begin + 256 * 4);
    // SAFETY: a word of the ring, which is leaked.
    unsafe { (*ring.cast::<AtomicU32>()).watch() };
}

fn start<R: Reserve + 'static>(world: &World) -> Session<Remote<R>> {
    Tracer::<Remote<R>>::start(world.memory, &config(OVERWRITE), &VOCABULARY)
        .expect("no session runs")
}

fn channel(world: &World) -> Reading {
    let live = world.live();
    Reading::new(
        Region::open(&live)
            .expect("a session was started")
            .channel(&live, 0, ChannelKind::Events)
            .expect("it has a ring"),
    )
}

/// Memory in which a session ran and was stopped, or runs, or none was.
fn world<R: Reserve + 'static>(before: &[Kind]) -> (World, Session<Remote<R>>) {
    PINNED.set(None);
    let world = World::new::<R>(OVERWRITE, before);
    // SAFETY: the world's own session is forgotten: the memory begins as zeros.
    unsafe { std::ptr::write_bytes(world.base(), 0, SIZE) };
    CALLS.set(0);
    let session = start::<R>(&world);
    before.iter().for_each(|&kind| call::<R>(kind));
    let reader = channel(&world).reader;
    (world.read_by(reader).taken_anew(), session)
}

/// A writer comes while a session stops: after `stop` nothing is added, and all of it is whole.
fn stopping<R: Reserve + Send + Sync + 'static>(name: &str) {
    let (world, session) = world::<R>(&[F]);
    explore(name, 2, move || {
        world.restore();
        watch(&world, true);
        let writer = loom::thread::spawn(|| {
            trace::<R>(Place::Pinned);
        });
        session.stop().expect("it runs");
        let mut reading = world.reading();
        reading.read_all(&world.live(), View::Live);
        let at_stop = reading.reader.emitted();
        writer.join().unwrap();
        assert_eq!(
            at_stop,
            u64::from(1 + ON.get()),
            "records when `stop` returned"
        );
        reading.settle(&world.live(), View::Live, 1 + ON.get());
    });
}

#[test]
fn a_session_stops_under_a_writer() {
    stopping::<LocalCas>("stop, local cas");
    stopping::<RemoteMasked>("stop, masked");
}

/// A session begins while a CPU is at its tracepoints, in memory where none was before.
fn starting<R: Reserve + Send + Sync + 'static>(name: &str, place: Place) {
    let (world, _) = world::<R>(&[]);
    // SAFETY: as in `world`.
    unsafe { std::ptr::write_bytes(world.base(), 0, SIZE) };
    let world = world.taken_anew();
    explore(name, 2, move || {
        world.restore();
        watch(&world, false);
        let writer = loom::thread::spawn(move || {
            trace::<R>(place);
        });
        start::<R>(&world);
        writer.join().unwrap();
        channel(&world).settle(&world.live(), View::Live, ON.get());
    });
}

#[test]
fn a_session_starts_under_a_writer() {
    starting::<LocalCas>("start, local cas", Place::Pinned);
    starting::<RemoteMasked>("start, masked", Place::Pinned);
    starting::<LocalCas>("start, local cas, anywhere", Place::Anywhere);
    starting::<RemoteMasked>("start, masked, anywhere", Place::Anywhere);
}

/// One session stops and the next begins over the same memory, under a writer.
fn restarting<R: Reserve + Send + Sync + 'static>(name: &str, place: Place, before: &[Kind]) {
    let (world, session) = world::<R>(before);
    explore(name, 2, move || {
        world.restore();
        watch(&world, true);
        let writer = loom::thread::spawn(move || {
            trace::<R>(place);
        });
        session.stop().expect("it runs");
        let on = ON.get();
        let mut first = world.reading();
        first.read_all(&world.live(), View::Live);
        start::<R>(&world);
        writer.join().unwrap();
        let mut second = channel(&world);
        second.read_all(&world.live(), View::Live);
        second.reader.refresh_dropped(&world.live()).unwrap();
        let losses = second.reader.losses();
        let (read, later) = (second.reader.emitted(), u64::from(ON.get() - on));
        match place {
            Place::Pinned => assert_eq!(read + losses.events(), later, "{losses:?}"),
            // A call that found the switch of the first session on may come as late as it likes. It
            // is recorded in the first, in the second, or not at all.
            Place::Anywhere => assert!(
                read + losses.events() <= later + 2,
                "{read} records, {losses:?}"
            ),
        }
        assert_eq!(
            (
                losses.clamped,
                losses.unreadable,
                losses.abandoned,
                losses.too_large
            ),
            (0, 0, 0, 0)
        );
        // The second session goes on.
        for _ in 0..40 {
            call::<R>(S);
        }
        let calls = u32::try_from(read + losses.events()).unwrap() + 40;
        second.settle(&world.live(), View::Live, calls);
    });
}

#[test]
fn a_session_follows_another_under_a_writer() {
    restarting::<LocalCas>("restart, local cas", Place::Pinned, &[F, S]);
    restarting::<RemoteMasked>("restart, masked", Place::Pinned, &[F, S]);
}

#[test]
fn a_session_follows_another_under_a_writer_that_comes_late() {
    restarting::<LocalCas>("restart, local cas, anywhere", Place::Anywhere, &[F, S]);
    restarting::<LocalCas>(
        "restart, local cas, anywhere, slow",
        Place::Anywhere,
        &[F, S, S],
    );
    restarting::<RemoteMasked>("restart, masked, anywhere", Place::Anywhere, &[F, S]);
    restarting::<RemoteMasked>(
        "restart, masked, anywhere, slow",
        Place::Anywhere,
        &[F, S, S],
    );
}

/// A reader of the first session reads while the second one begins and records.
fn reading_on<R: Reserve + Send + Sync + 'static>(
    name: &str,
    witnesses: &'static [usize],
    now: &'static [Kind],
) {
    let (world, session) = world::<R>(&[F, S, S, F, S]);
    session.stop().expect("it runs");
    let world = world.taken_anew();
    let (calls, begin) = (world.calls, world.reading());
    explore(&format!("{name} {witnesses:?}"), 1, move || {
        world.restore();
        watch(&world, true);
        let ring = world
            .base()
            .wrapping_add(world.control().ring_offset.load(Ordering::Relaxed) as usize);
        for &index in witnesses {
            // SAFETY: a word of the ring, which is leaked.
            unsafe { (*ring.wrapping_add(4 * index).cast::<AtomicU32>()).watch() };
        }
        let (mut reading, source) = (begin.clone(), world.live());
        let reader = loom::thread::spawn(move || {
            reading.read(&source, View::Live);
            reading.read(&source, View::Live);
            reading.reader.refresh_dropped(&source).unwrap();
            reading
        });
        start::<R>(&world);
        now.iter().for_each(|&kind| call::<R>(kind));
        let reading = reader.join().unwrap();
        assert!(
            reading.last.is_none_or(|last| last < calls),
            "a record of the second session"
        );
        assert_eq!(
            reading.reader.losses(),
            Losses::default(),
            "the first session lost nothing"
        );
    });
}

#[test]
fn a_reader_of_one_session_takes_nothing_of_the_next() {
    for witnesses in [&[2, 12][..], &[2, 13], &[1, 2]] {
        reading_on::<LocalCas>("two sessions, local cas", witnesses, &[F, S]);
        reading_on::<RemoteMasked>("two sessions, masked", witnesses, &[F, S]);
    }
    // A lap of the ring.
    reading_on::<LocalCas>("two sessions, local cas", &[], &[F, F, F, F, F]);
    reading_on::<RemoteMasked>("two sessions, masked", &[], &[F, F, F, F, F]);
}

/// The second session drops events; a reader of the first one, which dropped none, asks for the
/// counts.
fn dropping<R: Reserve + Send + Sync + 'static>(name: &str) {
    let (world, session) = world::<R>(&[F, S]);
    session.stop().expect("it runs");
    let world = world.taken_anew();
    let begin = world.reading();
    explore(name, 1, move || {
        world.restore();
        watch(&world, true);
        let (mut reading, source) = (begin.clone(), world.live());
        let memory = world.memory;
        let writer = loom::thread::spawn(move || {
            let setting = Setting {
                consumer: Consumer::None,
                ..DISCARD
            };
            let _second = Tracer::<Remote<R>>::start(memory, &config(setting), &VOCABULARY)
                .expect("no session runs");
            for _ in 0..5 {
                call::<R>(F);
            }
        });
        // In the main thread, which loom lets go first: one pre-emption brings the second session
        // between any two loads.
        reading.read(&source, View::Live);
        reading.reader.refresh_dropped(&source).unwrap();
        writer.join().unwrap();
        assert_eq!(reading.reader.losses(), Losses::default());
    });
}

#[test]
fn a_reader_counts_no_drops_of_the_next_session() {
    dropping::<LocalCas>("drops, local cas");
    dropping::<RemoteMasked>("drops, masked");
}

/// Somebody looks for a session while the second one begins.
fn opening<R: Reserve + Send + Sync + 'static>(name: &str) {
    let (world, session) = world::<R>(&[F, S]);
    session.stop().expect("it runs");
    let world = world.taken_anew();
    explore(name, 2, move || {
        world.restore();
        watch(&world, false);
        modelled::blur(world.base().addr()..world.base().addr() + 4 * HEADER_WORDS);
        let source = world.live();
        let reader = loom::thread::spawn(move || {
            let region = Region::open(&source).ok()?;
            let channel = region.channel(&source, 0, ChannelKind::Events);
            Some((region.header().session_id, region.header().state, channel))
        });
        start::<R>(&world);
        if let Some((id, state, channel)) = reader.join().unwrap() {
            let old = Region::open(&world.live())
                .expect("it runs")
                .header()
                .session_id
                != id;
            assert_eq!(
                state,
                if old {
                    State::Stopped as u32
                } else {
                    State::Running as u32
                }
            );
            assert!(old || channel.is_ok(), "a session that runs has a ring");
        }
    });
}

#[test]
fn a_session_is_found_when_it_is_whole() {
    opening::<LocalCas>("opening, local cas");
    opening::<RemoteMasked>("opening, masked");
}
