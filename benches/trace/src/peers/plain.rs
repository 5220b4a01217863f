//! The tracer of a small kernel in its usual form: an array of records for each CPU, an index that
//! grows, one type of record for every event. An interrupt between the load of the index and its
//! increment overwrites the record; nothing is counted.

use std::arch::x86_64::_rdtsc;
use std::cell::Cell;
use std::hint::black_box;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::Relaxed, Ordering::Release};

use super::{Ring, make_ring};
use crate::peer::{Peer, RING_BYTES, THREADS};

#[derive(Clone, Copy)]
#[repr(C)]
struct Event {
    time: u64,
    kind: u8,
    cpu: u8,
    _pad: [u8; 6],
    data: [u64; 2],
}

const EVENTS: usize = RING_BYTES / size_of::<Event>();
const _: () = assert!(size_of::<Event>() == 32);
type Events = Ring<Event, EVENTS>;

thread_local! {
    static MINE: Cell<*mut Events> = const { Cell::new(null_mut()) };
}
static ALL: [AtomicPtr<Events>; THREADS] = [const { AtomicPtr::new(null_mut()) }; THREADS];
/// One switch for all events. `enter` writes both switches, so that the compiler cannot assume
/// their values.
static ON: AtomicBool = AtomicBool::new(false);
static OFF: AtomicBool = AtomicBool::new(true);

#[inline(always)]
fn write(is_on: &AtomicBool, a: u32, b: u32) {
    if !is_on.load(Relaxed) {
        return;
    }
    // SAFETY: `enter` gave this thread a ring, and the index is taken modulo its length.
    unsafe {
        let ring = MINE.get();
        let index = AtomicU64::from_ptr(&raw mut (*ring).next);
        let at = index.load(Relaxed) as usize % EVENTS;
        let event = (&raw mut (*ring).records).cast::<Event>().add(at);
        event.write(Event {
            time: _rdtsc(),
            kind: 2,
            cpu: (*ring).commits as u8,
            _pad: [0; 6],
            data: [a.into(), b.into()],
        });
        index.fetch_add(1, Relaxed);
    }
}

#[inline(never)]
extern "C" fn record(a: u32, b: u32) {
    write(&ON, a, b);
}

#[inline(never)]
extern "C" fn off(a: u32, b: u32) {
    write(&OFF, a, b);
}

/// The peer.
pub fn peer() -> Peer {
    Peer {
        name: "plain ring",
        version: String::new(),
        configuration: "32-byte records, an index by `fetch_add`; the CPU's number is kept beside the ring instead of asked by `cpuid`",
        bytes: size_of::<Event>(),
        record,
        off: Some(off),
        enter: |thread| {
            ON.store(black_box(true), Release);
            OFF.store(black_box(false), Release);
            let ring: *mut Events = make_ring();
            // SAFETY: new, and not shared yet.
            unsafe { (*ring).commits = thread as u64 };
            MINE.set(ring);
            if let Some(slot) = ALL.get(thread) {
                slot.store(ring, Relaxed);
            }
            Ok(())
        },
        read_back: |_, _| {
            // SAFETY: rings are never freed, and no thread records any more.
            let rings = ALL
                .iter()
                .filter_map(|ring| unsafe { ring.load(Relaxed).as_ref() });
            let by_age = |ring: &'static Events| {
                (0..EVENTS).filter_map(move |index| {
                    ring.records.get((ring.next as usize + index) % EVENTS)
                })
            };
            let written = rings.flat_map(by_age).filter(|event| event.kind == 2);
            Ok(written
                .map(|event| [event.data[0] as u32, event.data[1] as u32])
                .collect())
        },
    }
}
