//! A counter is counted after every instruction of code that counts it, as an interrupt may: the
//! trap flag of x86 raises SIGTRAP between any two instructions of an increment, and the handler
//! counts too. Nothing may be lost.
#![cfg(all(target_arch = "x86_64", target_os = "linux", feature = "trace"))]
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod thread_cpu;

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use kymo::counter::Counters;
use kymo::platform::{ByPointer, LocalCas, Platform};
use kymo::{Memory, Tracer};
use thread_cpu::{BLOCK, Block, leaked};

kymo::counter! { #[id(0)] #[unit(times)] struct Nested; }
kymo::gauge! { #[id(1)] #[unit(times)] struct Down; }
kymo::histogram! { #[id(2)] #[unit(times)] struct Sizes; }

struct Machine;
// SAFETY: see `Block`; the memory has the counters' words.
unsafe impl Platform for Machine {
    type Reserve = LocalCas;
    type Local = ByPointer<Block>;
    const COUNTERS: Counters = kymo::counters![Nested, Down, Sizes];
    fn clock() -> u64 {
        0
    }
    fn synchronize() {}
}
type Kymo = Tracer<Machine>;

/// How often the handler has counted.
static TRAPS: AtomicU64 = AtomicU64::new(0);
/// What is counted by a load and a store, between which a trap comes.
static CARELESS: AtomicU64 = AtomicU64::new(0);

/// What the code does that is interrupted, and what the handler does.
fn count() {
    Kymo::add::<Nested>(1);
    Kymo::add::<Down>(-1);
    Kymo::observe::<Sizes>(5);
    let before = black_box(CARELESS.load(Relaxed));
    CARELESS.store(before + 1, Relaxed);
}

extern "C" fn on_trap(_: libc::c_int) {
    TRAPS.fetch_add(1, Relaxed);
    count();
}

#[test]
fn nothing_is_lost_between_any_two_instructions() {
    let memory: Memory = leaked(64 << 10, 1).with_counters(Machine::COUNTERS.words());
    BLOCK.set(memory.control(0));
    // SAFETY: all zero is a valid `sigaction`: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_trap as extern "C" fn(libc::c_int) as usize;
    // SAFETY: `on_trap` touches atomics and a constant thread-local only.
    let status = unsafe { libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut()) };
    assert_eq!(status, 0, "SIGTRAP cannot be handled");
    const CALLS: u64 = 100;
    for _ in 0..CALLS {
        // SAFETY: sets the trap flag, nothing else; not `nostack`, so the stack is there to push
        // on.
        unsafe { std::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
        count();
        // SAFETY: clears it again.
        unsafe { std::arch::asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq") };
    }
    let (traps, careless) = (TRAPS.load(Relaxed), CARELESS.load(Relaxed));
    let calls = CALLS + traps;
    assert!(traps > 10 * CALLS, "{traps}");
    assert_eq!(memory.total::<Nested>() as u64, calls);
    assert_eq!(memory.total::<Down>() as i64, -(calls as i64));
    let sizes = memory.observed::<Sizes>(0).unwrap();
    assert_eq!((sizes.buckets[3], sizes.sum), (calls, 5 * calls));
    // The traps come where counts can be lost.
    assert!(careless < calls, "{careless} of {calls}");
}
