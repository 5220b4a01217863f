//! x86-64: the time stamp counter, read-modify-write instructions without `lock`, and the hot path
//! of `LocalCas` in one piece.

use core::arch::asm;
use core::mem::offset_of;

use crate::ring::layout::{COMPACT_IDS, Control, MEDIUM, ReserveKind};
use crate::ring::local::{ControlPointer, Local};
use crate::ring::local_cas::{self, pack, slow_short};
use crate::ring::payload::Payload;
use crate::ring::{Environment, RecordType, Reserve, without_ring};

/// The time stamp counter. Not ordered against other instructions; its rate is constant where CPUID
/// says "invariant TSC".
#[inline(always)]
pub fn tsc() -> u64 {
    // SAFETY: RDTSC reads a counter; it is there on every x86-64 processor.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The address of this CPU's first block stands at `gs:[OFFSET]`, from before the CPU's first
/// tracepoint on: `ByPointer<AtGs<8>>`.
#[derive(Debug)]
pub struct AtGs<const OFFSET: usize>;

// SAFETY: the kernel that chooses it keeps the address of a block of this CPU there.
unsafe impl<const OFFSET: usize> ControlPointer for AtGs<OFFSET> {
    const NEVER_NULL: bool = true;

    #[inline(always)]
    fn get() -> *const Control {
        let pointer;
        // SAFETY: reads per-CPU data. It gives the same as long as the code stays on the CPU, so
        // that one reading serves a whole tracepoint.
        unsafe {
            asm!(
                "mov {}, gs:[{}]",
                out(reg) pointer, const OFFSET,
                options(pure, readonly, nostack, preserves_flags),
            )
        };
        pointer
    }
}

/// [`LocalCas`](crate::platform::LocalCas) for platforms whose `clock` is [`tsc`] and nothing else:
/// its steps in their order, in 20 instructions where the compiler makes 35. Records of more than
/// four words of payload take the path of `LocalCas`.
#[derive(Debug)]
pub struct TscCas;

impl Reserve for TscCas {
    const KIND: ReserveKind = ReserveKind::LocalCas;

    #[inline(always)]
    unsafe fn record_masked<N: Environment, R: RecordType>(id: u32, payload: impl Payload) -> bool {
        let Some(cpu) = N::Local::cpu() else {
            return without_ring::count();
        };
        let control = N::Local::control(cpu, R::CHANNEL);
        match payload.as_slice() {
            Some(words) if words.len() <= 4 => match R::ID {
                Some(_) => write_declared::<N, R>(control, cpu, words),
                None => write_raw::<N, R>(control, cpu, id, words),
            },
            _ => local_cas::write::<N, R>(control, cpu, id, payload),
        }
    }
}

/// Position, clock, window, limit, swap; payload, header, commit: see `ring/local_cas.rs` for why
/// in this order.
///
/// `$word` are stored behind the header. The window is compared by its low 32 bits (`epoch` can be
/// taken for another one only after 2^59 ticks without an event, six years at 3 GHz). Stores become
/// visible in program order on x86, so header and commit are releases.
macro_rules! write_words {
    ($block:expr, ($($id:tt)*), $slow:block, [$($word:ident: $at:literal),*], $words:literal) => {{
        // SAFETY: the code is pinned to the CPU that owns the block. What is stored lies between
        // the position that the swap took and `limit`, in the open packet of the block's ring; the
        // slot of a record is found by masking, because rings are aligned to the packet size.
        unsafe {
            asm!(
                "2:",
                "mov r8, [{block} + {cursor}]",
                "rdtsc",
                "shld edx, eax, 5",
                "cmp edx, [{block} + {epoch}]",
                "jne {slow}",
                "shl eax, 5",
                "lea edx, [rax + {id}]",
                "lea r9, [r8 + 4 * {words}]",
                "cmp r9, [{block} + {limit}]",
                "ja {slow}",
                "mov rax, r8",
                "cmpxchg [{block} + {cursor}], r9",
                "jne 2b",
                "and r8, [{block} + {mask}]",
                "add r8, [{block} + {base}]",
                $(concat!("mov dword ptr [r8 + ", $at, "], {", stringify!($word), ":e}"),)*
                "mov dword ptr [r8], edx",
                "and r8, [{block} + {slot_mask}]",
                "add dword ptr [r8], 0x10000 + {words}",
                block = in(reg) $block,
                $($word = in(reg) $word,)*
                cursor = const offset_of!(Control, cursor),
                epoch = const offset_of!(Control, epoch),
                limit = const offset_of!(Control, limit),
                mask = const offset_of!(Control, mask),
                base = const offset_of!(Control, base),
                slot_mask = const offset_of!(Control, slot_mask),
                id = $($id)*,
                words = const $words,
                out("rax") _, out("rdx") _, out("r8") _, out("r9") _,
                slow = label $slow,
                options(nostack),
            )
        }
        true
    }};
}

/// The id of a declared event.
const fn declared_id<R: RecordType>() -> u32 {
    match R::ID {
        Some(id) => id,
        None => 0,
    }
}

/// A record whose id is a constant, of up to four words: most of them.
#[inline(always)]
fn write_declared<N: Environment, R: RecordType>(
    control: &Control,
    cpu: <N::Local as Local>::Cpu,
    words: &[u32],
) -> bool {
    let block = core::ptr::from_ref(control);
    let id = const { declared_id::<R>() };
    if id < COMPACT_IDS {
        match *words {
            [] => write_words!(
                block,
                (const const { declared_id::<R>() }),
                { return slow_short::<N>(0, 0, 0, 0, control, pack(id, 0)) },
                [],
                1
            ),
            [a] => write_words!(
                block,
                (const const { declared_id::<R>() }),
                { return slow_short::<N>(a, 0, 0, 0, control, pack(id, 1)) },
                [a: 4],
                2
            ),
            [a, b] => write_words!(
                block,
                (const const { declared_id::<R>() }),
                { return slow_short::<N>(a, b, 0, 0, control, pack(id, 2)) },
                [a: 4, b: 8],
                3
            ),
            [a, b, c] => write_words!(
                block,
                (const const { declared_id::<R>() }),
                { return slow_short::<N>(a, b, c, 0, control, pack(id, 3)) },
                [a: 4, b: 8, c: 12],
                4
            ),
            [a, b, c, d] => write_words!(
                block,
                (const const { declared_id::<R>() }),
                { return slow_short::<N>(a, b, c, d, control, pack(id, 4)) },
                [a: 4, b: 8, c: 12, d: 16],
                5
            ),
            _ => local_cas::write::<N, R>(control, cpu, id, words),
        }
    } else {
        write_medium::<N, R>(control, cpu, id, words)
    }
}

/// A record whose id comes in a register, of up to four words.
#[inline(always)]
fn write_raw<N: Environment, R: RecordType>(
    control: &Control,
    cpu: <N::Local as Local>::Cpu,
    id: u32,
    words: &[u32],
) -> bool {
    let block = core::ptr::from_ref(control);
    if id < COMPACT_IDS {
        match *words {
            [] => write_words!(
                block,
                (in(reg) u64::from(id)),
                { return slow_short::<N>(0, 0, 0, 0, control, pack(id, 0)) },
                [],
                1
            ),
            [a] => write_words!(
                block,
                (in(reg) u64::from(id)),
                { return slow_short::<N>(a, 0, 0, 0, control, pack(id, 1)) },
                [a: 4],
                2
            ),
            [a, b] => write_words!(
                block,
                (in(reg) u64::from(id)),
                { return slow_short::<N>(a, b, 0, 0, control, pack(id, 2)) },
                [a: 4, b: 8],
                3
            ),
            [a, b, c] => write_words!(
                block,
                (in(reg) u64::from(id)),
                { return slow_short::<N>(a, b, c, 0, control, pack(id, 3)) },
                [a: 4, b: 8, c: 12],
                4
            ),
            [a, b, c, d] => write_words!(
                block,
                (in(reg) u64::from(id)),
                { return slow_short::<N>(a, b, c, d, control, pack(id, 4)) },
                [a: 4, b: 8, c: 12, d: 16],
                5
            ),
            _ => local_cas::write::<N, R>(control, cpu, id, words),
        }
    } else {
        write_medium::<N, R>(control, cpu, id, words)
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
            (const MEDIUM),
            { return slow_short::<N>(a, 0, 0, 0, control, pack(id, 1)) },
            [full_id: 4, a: 8],
            3
        ),
        [a, b] => write_words!(
            block,
            (const MEDIUM),
            { return slow_short::<N>(a, b, 0, 0, control, pack(id, 2)) },
            [full_id: 4, a: 8, b: 12],
            4
        ),
        _ => local_cas::write::<N, R>(control, cpu, id, words),
    }
}

/// Single instructions are atomic against interrupts of this CPU without a `lock` prefix, which
/// costs 8 to 15 ns.
///
/// They are not atomic against other CPUs: invariant 1 of the ring says that no other CPU writes
/// these words. Stores become visible in program order on x86, so each of them is also a release.
#[cfg(not(any(miri, all(test, loom))))]
pub(crate) mod local {
    use crate::sync::{AtomicU32, AtomicU64, AtomicUsize};
    use core::arch::asm;

    #[inline(always)]
    pub(crate) fn compare_and_swap(word: &AtomicU64, old: u64, new: u64) -> bool {
        let found: u64;
        // SAFETY: an aligned word that only this CPU writes.
        unsafe {
            asm!("cmpxchg [{word}], {new}", word = in(reg) word.as_ptr(), new = in(reg) new,
                inlateout("rax") old => found, options(nostack));
        }
        found == old
    }

    #[inline(always)]
    pub(crate) fn add(word: &AtomicU32, value: u32) {
        // SAFETY: an aligned word that only this CPU writes.
        unsafe {
            asm!(
                "add dword ptr [{word}], {value:e}",
                word = in(reg) word.as_ptr(), value = in(reg) value,
                options(nostack),
            )
        }
    }

    /// Zeroes `words` words: two to three times as fast as a loop of stores, and in their order for
    /// whoever interrupts it on this CPU.
    ///
    /// # Safety
    /// They are mapped, aligned to 8 bytes, an even number, only ever used as atomics, and only
    /// this CPU writes them.
    #[inline(always)]
    pub(crate) unsafe fn zero(words: *const AtomicU32, count: usize) {
        // SAFETY: the caller's promise. The direction flag is clear between functions. String
        // stores stay between the stores before and after them.
        unsafe {
            asm!(
                "rep stosq",
                inout("rdi") words => _, inout("rcx") count / 2 => _, in("rax") 0,
                options(nostack, preserves_flags),
            )
        }
    }

    #[inline(always)]
    pub(crate) fn add_long(word: &AtomicU64, value: u64) {
        // SAFETY: an aligned word that only this CPU writes.
        unsafe {
            asm!(
                "add qword ptr [{word}], {value}",
                word = in(reg) word.as_ptr(), value = in(reg) value,
                options(nostack),
            )
        }
    }
    #[inline(always)]
    pub(crate) fn add_word(word: &AtomicUsize, by: usize) {
        // SAFETY: an aligned word that only this CPU writes.
        unsafe {
            asm!(
                "add qword ptr [{word}], {by}",
                word = in(reg) word.as_ptr(), by = in(reg) by,
                options(nostack),
            )
        }
    }
}
