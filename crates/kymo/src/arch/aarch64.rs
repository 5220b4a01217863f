//! AArch64: the virtual counter, the block's address in `tpidr_el1`, pairs of exclusive
//! instructions on this CPU's words, and the hot path of `LocalCas` in one piece.
//!
//! The second instruction of such a pair fails where an interrupt or pseudo-NMI has come between:
//! its return clears the CPU's exclusive monitor (Arm Architecture Reference Manual, DDI 0487,
//! B2.9 "Synchronization and semaphores").

use core::arch::asm;
use core::mem::offset_of;

use crate::ring::layout::{COMPACT_IDS, Control, MEDIUM, ReserveKind, TIME_BITS};
use crate::ring::local::{ControlPointer, Local};
use crate::ring::local_cas::{self, pack, slow_short};
use crate::ring::payload::Payload;
use crate::ring::{Environment, RecordType, Reserve, without_ring};
use crate::sync::AtomicUsize;

/// The virtual counter, `cntvct_el0`, in ticks of [`frequency`]. Not ordered against other
/// instructions: there is no `isb` before it.
#[inline(always)]
pub fn time() -> u64 {
    let now;
    // SAFETY: reads a counter.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) now, options(nomem, nostack, preserves_flags)) };
    now
}

/// Ticks of the counter per second, as the firmware has left them in `cntfrq_el0`.
#[inline(always)]
pub fn frequency() -> u64 {
    let frequency;
    // SAFETY: reads a register.
    unsafe {
        asm!(
            "mrs {}, cntfrq_el0",
            out(reg) frequency,
            options(pure, nomem, nostack, preserves_flags),
        )
    };
    frequency
}

/// `tpidr_el1` holds the address of this CPU's first control block, from before the CPU's first
/// tracepoint on: `ByPointer<AtTpidr>`. For kernels at EL1.
///
/// The kernel keeps its own per-CPU pointer in [`kernel_word`].
#[derive(Debug)]
pub struct AtTpidr;

// SAFETY: the kernel that chooses it keeps the address of a block of this CPU there.
unsafe impl ControlPointer for AtTpidr {
    const NEVER_NULL: bool = true;

    #[inline(always)]
    fn get() -> *const Control {
        let pointer;
        // SAFETY: reads a register. It gives the same as long as the code stays on the CPU, so that
        // one reading serves a whole tracepoint; `readonly`, so that none is moved across what
        // writes memory.
        unsafe {
            asm!(
                "mrs {}, tpidr_el1",
                out(reg) pointer,
                options(pure, readonly, nostack, preserves_flags),
            )
        };
        pointer
    }
}

/// The word of the control block at `tpidr_el1` that is the kernel's own: its per-CPU pointer,
/// since the register is taken.
///
/// # Safety
/// `tpidr_el1` holds the address of a control block.
#[inline(always)]
pub unsafe fn kernel_word() -> &'static AtomicUsize {
    // SAFETY: the caller's promise; blocks stay mapped.
    unsafe { &(*AtTpidr::get()).kernel_word }
}

/// [`LocalCas`](crate::platform::LocalCas) for platforms whose `clock` is [`time`] and nothing else:
/// its steps in their order, in 29 instructions where the compiler makes 42. Records of more than
/// four words of payload take the path of `LocalCas`.
#[derive(Debug)]
pub struct CounterCas;

impl Reserve for CounterCas {
    const KIND: ReserveKind = ReserveKind::LocalCas;

    #[inline(always)]
    unsafe fn record_masked<N: Environment, R: RecordType>(id: u32, payload: impl Payload) -> bool {
        let Some(cpu) = N::Local::cpu() else {
            return without_ring::count();
        };
        let control = N::Local::control(cpu, R::CHANNEL);
        match payload.as_slice() {
            Some(words) if words.len() <= 4 => write::<N, R>(control, cpu, id, words),
            _ => local_cas::write::<N, R>(control, cpu, id, payload),
        }
    }
}

/// Position, clock, window, limit, swap; payload, header, commit: see `ring/local_cas.rs` for why
/// in this order.
///
/// `$store` puts the words behind the header. Between the two exclusive instructions of the swap
/// and of the commit nothing accesses memory, so that they succeed at last on any processor. The
/// last store to `commit` is a release, which is what a reader on another CPU waits for; the
/// header's keeps a crash dump from showing a record that is not whole.
macro_rules! write_words {
    ($block:expr, $id:expr, $slow:block, [$($store:literal),*], [$($word:ident),*], $words:literal) => {{
        // SAFETY: the code is pinned to the CPU that owns the block. What is stored lies between
        // the position that the swap took and `limit`, in the open packet of the block's ring; the
        // slot of a record is found by masking, because rings are aligned to the packet size.
        unsafe {
            asm!(
                "2:",
                "ldr {pos}, [{block}]",
                "mrs {time}, cntvct_el0",
                "ldp {one}, {two}, [{block}, {limit_and_epoch}]",
                "cmp {two}, {time}, lsr {time_bits}",
                "b.ne {slow}",
                "add {two}, {pos}, 4 * {words}",
                "cmp {two}, {one}",
                "b.hi {slow}",
                "ldxr {one}, [{block}]",
                "cmp {one}, {pos}",
                "b.ne 2b",
                "stxr {one:w}, {two}, [{block}]",
                "cbnz {one:w}, 2b",
                "ldp {one}, {two}, [{block}, {mask_and_base}]",
                "and {pos}, {pos}, {one}",
                "add {pos}, {pos}, {two}",
                $($store,)*
                "orr {time:w}, {id:w}, {time:w}, lsl 5",
                "stlr {time:w}, [{pos}]",
                "ldr {one}, [{block}, {slot_mask}]",
                "and {pos}, {pos}, {one}",
                "3:",
                "ldxr {one:w}, [{pos}]",
                "add {one:w}, {one:w}, 0x10, lsl 12",
                "add {one:w}, {one:w}, {words}",
                "stlxr {two:w}, {one:w}, [{pos}]",
                "cbnz {two:w}, 3b",
                block = in(reg) $block,
                id = in(reg) $id,
                $($word = in(reg) $word,)*
                limit_and_epoch = const offset_of!(Control, limit),
                mask_and_base = const offset_of!(Control, mask),
                slot_mask = const offset_of!(Control, slot_mask),
                time_bits = const TIME_BITS,
                words = const $words,
                pos = out(reg) _, time = out(reg) _, one = out(reg) _, two = out(reg) _,
                slow = label $slow,
                options(nostack),
            )
        }
        true
    }};
}

// The exclusive instructions take no offset, and pairs are loaded at once.
const _: () = {
    assert!(offset_of!(Control, cursor) == 0);
    assert!(offset_of!(Control, epoch) == offset_of!(Control, limit) + 8);
    assert!(offset_of!(Control, base) == offset_of!(Control, mask) + 8);
};

/// A record of up to four words.
#[inline(always)]
fn write<N: Environment, R: RecordType>(
    control: &Control,
    cpu: <N::Local as Local>::Cpu,
    id: u32,
    words: &[u32],
) -> bool {
    let block = core::ptr::from_ref(control);
    if id >= COMPACT_IDS {
        return write_medium::<N, R>(control, cpu, id, words);
    }
    match *words {
        [] => write_words!(
            block,
            id,
            { return slow_short::<N>(0, 0, 0, 0, control, pack(id, 0)) },
            [],
            [],
            1
        ),
        [a] => write_words!(
            block,
            id,
            { return slow_short::<N>(a, 0, 0, 0, control, pack(id, 1)) },
            ["str {a:w}, [{pos}, 4]"],
            [a],
            2
        ),
        [a, b] => write_words!(
            block,
            id,
            { return slow_short::<N>(a, b, 0, 0, control, pack(id, 2)) },
            ["stp {a:w}, {b:w}, [{pos}, 4]"],
            [a, b],
            3
        ),
        [a, b, c] => write_words!(
            block,
            id,
            { return slow_short::<N>(a, b, c, 0, control, pack(id, 3)) },
            ["stp {a:w}, {b:w}, [{pos}, 4]", "str {c:w}, [{pos}, 12]"],
            [a, b, c],
            4
        ),
        [a, b, c, d] => write_words!(
            block,
            id,
            { return slow_short::<N>(a, b, c, d, control, pack(id, 4)) },
            [
                "stp {a:w}, {b:w}, [{pos}, 4]",
                "stp {c:w}, {d:w}, [{pos}, 12]"
            ],
            [a, b, c, d],
            5
        ),
        _ => local_cas::write::<N, R>(control, cpu, id, words),
    }
}

/// A record with a two-word header.
#[inline(always)]
fn write_medium<N: Environment, R: RecordType>(
    control: &Control,
    cpu: <N::Local as Local>::Cpu,
    id: u32,
    words: &[u32],
) -> bool {
    let block = core::ptr::from_ref(control);
    let full_id = id;
    match *words {
        [a] => write_words!(
            block,
            MEDIUM,
            { return slow_short::<N>(a, 0, 0, 0, control, pack(id, 1)) },
            ["stp {full_id:w}, {a:w}, [{pos}, 4]"],
            [full_id, a],
            3
        ),
        [a, b] => write_words!(
            block,
            MEDIUM,
            { return slow_short::<N>(a, b, 0, 0, control, pack(id, 2)) },
            [
                "stp {full_id:w}, {a:w}, [{pos}, 4]",
                "str {b:w}, [{pos}, 12]"
            ],
            [full_id, a, b],
            4
        ),
        _ => local_cas::write::<N, R>(control, cpu, id, words),
    }
}

/// Operations that are atomic against interrupts of this CPU: those of the compiler, which are
/// pairs of exclusive instructions where the target has no single ones for them.
#[cfg(not(any(miri, all(test, loom))))]
pub(crate) mod local {
    use crate::sync::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::Release};
    use core::arch::asm;

    #[inline(always)]
    pub(crate) fn compare_and_swap(word: &AtomicU64, old: u64, new: u64) -> bool {
        word.compare_exchange(old, new, Relaxed, Relaxed).is_ok()
    }

    #[inline(always)]
    pub(crate) fn add(word: &AtomicU32, value: u32) {
        word.fetch_add(value, Release);
    }

    #[inline(always)]
    pub(crate) fn add_long(word: &AtomicU64, value: u64) {
        word.fetch_add(value, Release);
    }

    /// Zeroes `count` words, 64 bytes at a time, in their order for whoever interrupts it on this
    /// CPU.
    ///
    /// # Safety
    /// The words are mapped, aligned to 8 bytes, an even number, only ever used as atomics, and
    /// only this CPU writes them.
    #[inline(always)]
    pub(crate) unsafe fn zero(words: *const AtomicU32, count: usize) {
        // SAFETY: the caller's promise: `count` words, in pieces of 16 and then of 2.
        unsafe {
            asm!(
                "cbz {lines}, 3f",
                "2:",
                "stp xzr, xzr, [{at}]",
                "stp xzr, xzr, [{at}, 16]",
                "stp xzr, xzr, [{at}, 32]",
                "stp xzr, xzr, [{at}, 48]",
                "add {at}, {at}, 64",
                "sub {lines}, {lines}, 1",
                "cbnz {lines}, 2b",
                "3:",
                "cbz {pairs}, 5f",
                "4:",
                "str xzr, [{at}], 8",
                "sub {pairs}, {pairs}, 1",
                "cbnz {pairs}, 4b",
                "5:",
                at = inout(reg) words => _,
                lines = inout(reg) count / 16 => _,
                pairs = inout(reg) count % 16 / 2 => _,
                options(nostack, preserves_flags),
            )
        }
    }
}
