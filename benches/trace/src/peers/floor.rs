//! Lower bounds for any tracer: the call, the clock, the clock and the bytes.

use std::arch::asm;
use std::arch::x86_64::_rdtsc;
use std::cell::Cell;
use std::hint::black_box;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use anyhow::Result;

use super::{Ring, make_ring};
use crate::peer::{Peer, RING_BYTES, THREADS, nothing_to_read};

/// A record of 16 bytes.
#[derive(Clone, Copy)]
#[repr(C)]
struct Pair {
    time: u64,
    a: u32,
    b: u32,
}

const RECORDS: usize = RING_BYTES / size_of::<Pair>();
type Pairs = Ring<Pair, RECORDS>;

thread_local! {
    static STORES: Cell<*mut Pairs> = const { Cell::new(null_mut()) };
    static SWAPS: Cell<*mut Pairs> = const { Cell::new(null_mut()) };
}
static ALL_STORES: [AtomicPtr<Pairs>; THREADS] = [const { AtomicPtr::new(null_mut()) }; THREADS];
static ALL_SWAPS: [AtomicPtr<Pairs>; THREADS] = [const { AtomicPtr::new(null_mut()) }; THREADS];

fn floor(
    name: &'static str,
    configuration: &'static str,
    bytes: usize,
    record: crate::peer::Record,
) -> Peer {
    Peer {
        name,
        version: String::new(),
        configuration,
        bytes,
        record,
        off: None,
        enter: |_| Ok(()),
        read_back: nothing_to_read,
    }
}

#[inline(never)]
extern "C" fn do_nothing(_: u32, _: u32) {}

/// The loop and the call.
pub fn empty() -> Peer {
    floor("call alone", "an empty function", 0, do_nothing)
}

#[inline(never)]
extern "C" fn read_clock(_: u32, _: u32) {
    // SAFETY: RDTSC is there on every x86-64 processor.
    black_box(unsafe { _rdtsc() });
}

/// The loop, the call and the clock.
pub fn clock() -> Peer {
    floor(
        "clock alone",
        "`rdtsc`, as every peer here uses it",
        0,
        read_clock,
    )
}

#[inline(never)]
extern "C" fn store(a: u32, b: u32) {
    // SAFETY: `enter` gave this thread a ring; the position is always below its length.
    unsafe {
        let ring = STORES.get();
        let next = (*ring).next;
        let record = (&raw mut (*ring).records)
            .cast::<Pair>()
            .byte_add(next as usize);
        record.write(Pair {
            time: _rdtsc(),
            a,
            b,
        });
        (*ring).next = (next + size_of::<Pair>() as u64) % RING_BYTES as u64;
    }
}

/// The clock and a store of 16 bytes: the floor to which the peers are compared.
pub fn stores() -> Peer {
    Peer {
        enter: |thread| enter(thread, &STORES, &ALL_STORES),
        read_back: |_, _| {
            Ok(read_back(&ALL_STORES, |ring| {
                ring.next as usize / size_of::<Pair>()
            }))
        },
        ..floor(
            "clock + 16 bytes",
            "time, fields and a position that wraps; nothing else",
            16,
            store,
        )
    }
}

#[inline(never)]
extern "C" fn swap(a: u32, b: u32) {
    let ring = SWAPS.get();
    // SAFETY: `enter` gave this thread a ring; the mask keeps the record inside it.
    unsafe {
        asm!(
            "2:",
            "mov r8, [{ring}]",
            "rdtsc",
            "shl rdx, 32",
            "or rdx, rax",
            "lea r9, [r8 + 16]",
            "mov rax, r8",
            "cmpxchg [{ring}], r9",
            "jne 2b",
            "and r8d, {mask}",
            "mov [{ring} + r8 + 128], rdx",
            "mov dword ptr [{ring} + r8 + 136], {a:e}",
            "mov dword ptr [{ring} + r8 + 140], {b:e}",
            "inc qword ptr [{ring} + 8]",
            ring = in(reg) ring,
            a = in(reg) a,
            b = in(reg) b,
            mask = const RING_BYTES - size_of::<Pair>(),
            out("rax") _, out("rdx") _, out("r8") _, out("r9") _,
            options(nostack),
        );
    }
}

/// The floor with a reservation by compare-and-swap without `lock` and a count of written bytes:
/// the least cost of safety against interrupts.
pub fn compare_and_swap() -> Peer {
    Peer {
        enter: |thread| enter(thread, &SWAPS, &ALL_SWAPS),
        read_back: |calls, _| {
            for (ring, calls) in ALL_SWAPS.iter().zip(calls) {
                // SAFETY: as in `read_back`.
                let commits = unsafe { ring.load(Relaxed).as_ref() }.map_or(0, |ring| ring.commits);
                anyhow::ensure!(commits == *calls, "{commits} commits of {calls} calls");
            }
            Ok(read_back(&ALL_SWAPS, |ring| {
                ring.next as usize / size_of::<Pair>()
            }))
        },
        ..floor(
            "clock + 16 bytes, compare-and-swap",
            "reserved by `cmpxchg`, and a count of what is written",
            16,
            swap,
        )
    }
}

type Rings = [AtomicPtr<Pairs>; THREADS];

fn enter(
    thread: usize,
    mine: &'static std::thread::LocalKey<Cell<*mut Pairs>>,
    all: &Rings,
) -> Result<()> {
    mine.set(make_ring());
    if let Some(slot) = all.get(thread) {
        slot.store(mine.get(), Relaxed);
    }
    Ok(())
}

fn read_back(rings: &Rings, next: fn(&Pairs) -> usize) -> Vec<[u32; 2]> {
    // SAFETY: rings are never freed, and no thread records any more.
    let rings = rings
        .iter()
        .filter_map(|ring| unsafe { ring.load(Relaxed).as_ref() });
    let by_age = |ring: &'static Pairs| {
        (0..RECORDS).filter_map(move |index| ring.records.get((next(ring) + index) % RECORDS))
    };
    rings
        .flat_map(by_age)
        .filter(|record| record.time != 0)
        .map(|record| [record.a, record.b])
        .collect()
}
