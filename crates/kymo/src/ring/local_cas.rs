//! Reservation by a CPU-local compare-and-swap: x86-64, where `cmpxchg` without `lock` costs about
//! a nanosecond.
//!
//! Interrupts, NMIs and signals may nest inside of a writer at every instruction. The rules that
//! make it right:
//! - The order is position, clock, window, limit, compare-and-swap: a nested writer in between
//!   moves the position, and the swap fails.
//! - `pos` alone is the truth. `limit` and `epoch` are written only after a successful swap and may
//!   be stale only downwards: a stale one leads to the slow path, never to a wrong record.
//! - The header word is stored last, `commit` grows after it: a packet is complete when its
//!   committed words add up.
//! - A slot is prepared (zeroed) one packet ahead, by whoever wins `prep`; a nested writer that
//!   finds it half prepared drops its event and counts it.

use crate::sync::{
    AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, compiler_fence, fence,
};

use super::layout::{
    COMPACT_IDS, Control, EXTENDED_WORDS, MEDIUM, Overflow, ReserveKind, SLOT_HEADER_WORDS,
    TIME_BITS, compact_header,
};
use super::local::{Base, Cursor, Epoch, Limit, Local, Mask};
use super::masked::Interrupts;
use super::payload::Payload;
use super::slot::{Slot, word};
use super::{Environment, Lost, RecordType, Reserve, name_epoch, step_back, without_ring};
use crate::arch::local;
use core::marker::PhantomData;

/// Reservation by a CPU-local compare-and-swap; see the module.
#[derive(Debug)]
pub struct LocalCas;

const SLOT_HEADER: u64 = 4 * SLOT_HEADER_WORDS as u64;

impl Reserve for LocalCas {
    const KIND: ReserveKind = ReserveKind::LocalCas;

    #[inline(always)]
    unsafe fn record_masked<N: Environment, R: RecordType>(id: u32, payload: impl Payload) -> bool {
        let Some(cpu) = N::Local::cpu() else {
            return without_ring::count();
        };
        write::<N, R>(N::Local::control(cpu, R::CHANNEL), cpu, id, payload)
    }
}

/// [`LocalCas`] with this CPU's interrupts masked around every record, which pins the code: for
/// kernels whose code may be moved to another CPU, and whose NMIs record.
#[derive(Debug)]
pub struct MaskedCas<I>(PhantomData<I>);

impl<I: Interrupts> Reserve for MaskedCas<I> {
    const KIND: ReserveKind = LocalCas::KIND;

    #[inline(always)]
    fn record<N: Environment, R: RecordType>(id: u32, payload: impl Payload) -> bool {
        let saved = I::mask();
        // SAFETY: interrupts are masked, and what nests all the same, `LocalCas` allows.
        let recorded = unsafe { LocalCas::record_masked::<N, R>(id, payload) };
        I::restore(saved);
        recorded
    }

    #[inline(always)]
    unsafe fn record_masked<N: Environment, R: RecordType>(id: u32, payload: impl Payload) -> bool {
        // SAFETY: the caller's promise.
        unsafe { LocalCas::record_masked::<N, R>(id, payload) }
    }
}

/// The hot path. The caller is pinned to `cpu`, which owns `control`.
#[inline(always)]
pub(crate) fn write<N: Environment, R: RecordType>(
    control: &Control,
    cpu: <N::Local as Local>::Cpu,
    id: u32,
    payload: impl Payload,
) -> bool {
    let header_words = if id < COMPACT_IDS { 1 } else { 2 };
    let size = 4 * (header_words + payload.len()) as u64;
    let (pos, time) = loop {
        // SAFETY: here and below, the code is pinned to this CPU until the record is written.
        let pos = unsafe { N::Local::load_word::<Cursor<R>>(cpu) as u64 };
        let time = N::clock();
        // SAFETY: as above.
        let (epoch, limit) = unsafe {
            (
                N::Local::load_word::<Epoch<R>>(cpu) as u64,
                N::Local::load_word::<Limit<R>>(cpu) as u64,
            )
        };
        if time >> TIME_BITS != epoch || pos + size > limit {
            return slow::<N>(control, id, payload);
        }
        if local::compare_and_swap(&control.cursor, pos, pos + size) {
            break (pos, time);
        }
    };
    // SAFETY: as above.
    let address = unsafe {
        N::Local::load_word::<Base<R>>(cpu) as u64
            + (pos & N::Local::load_word::<Mask<R>>(cpu) as u64)
    };
    // SAFETY: the swap reserved `pos .. pos + size` below `limit`: it lies in the open packet of
    // this CPU's ring.
    let record: *const AtomicU32 = core::ptr::with_exposed_provenance(address as usize);
    let put = |index: usize, value: u32| {
        // SAFETY: as above; `index` is below the record's length.
        unsafe { (*record.add(index)).store(value, Relaxed) }
    };
    if header_words == 2 {
        put(1, id);
    }
    // SAFETY: as above: the payload ends where the reserved bytes do.
    unsafe { payload.write(record.add(header_words)) }
    let header_id = if header_words == 1 { id } else { MEDIUM };
    // SAFETY: as above. Stored last, so that a crash leaves a zero header where a record is not
    // whole. Partner: `commit`.
    unsafe { (*record).store(compact_header(time, header_id), Release) };
    // SAFETY: rings are aligned to the packet size: this is the slot of the record.
    let slot = unsafe { Slot::at(address & control.slot_mask.load(Relaxed)) };
    commit(slot, 1, (size / 4) as u32);
    true
}

/// Adds to the commit word after everything before it is visible.
#[inline(always)]
fn commit(slot: Slot, events: u32, words: u32) {
    // Partner: the reader's acquire of `commit`.
    compiler_fence(Release);
    local::add(slot.word(word::COMMIT), events << 16 | words);
}

/// Everything that is rare: a new time window, a full packet, a stale hint, a clock that stepped
/// back.
#[cold]
#[inline(never)]
pub(crate) fn slow<N: Environment>(control: &Control, id: u32, payload: impl Payload) -> bool {
    let packet_size = u64::from(control.packet_size.load(Relaxed));
    if packet_size == 0 {
        // No session is over this block, or one is being laid out.
        return match N::claim(control) {
            Some(claimed) => slow::<N>(claimed, id, payload),
            None => false,
        };
    }
    let Ok(stepped_back) = record_slow::<N>(control, packet_size, id, payload) else {
        return false;
    };
    if let Some((names, report)) = stepped_back.and_then(|ticks| step_back::<N>(control, ticks)) {
        let packet_size = u64::from(names.packet_size.load(Relaxed));
        if packet_size > 0 {
            // A report that is lost is counted, as any record.
            let _ = record_slow::<N>(names, packet_size, report.id, &report.words[..]);
        }
    }
    true
}

/// The id of a record, and the words of its payload, in one register.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(always)]
pub(crate) const fn pack(id: u32, len: u64) -> u64 {
    id as u64 | len << 32
}

/// [`slow`] for at most four words. Takes everything in registers, the payload in those in which a
/// function has its arguments: the hot path needs no stack frame and moves nothing.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[cold]
#[inline(never)]
pub(crate) fn slow_short<N: Environment>(
    a: u32,
    b: u32,
    c: u32,
    d: u32,
    control: &Control,
    id_and_len: u64,
) -> bool {
    let words = [a, b, c, d];
    let len = (id_and_len >> 32) as usize;
    slow::<N>(
        control,
        id_and_len as u32,
        words.get(..len).unwrap_or(&words),
    )
}

/// Makes the record, if there is a way to. Returns by how many ticks the clock was behind the
/// window of the record before, if it was.
fn record_slow<N: Environment>(
    control: &Control,
    packet_size: u64,
    id: u32,
    payload: impl Payload,
) -> Result<Option<u64>, Lost> {
    let usual = 4 * (if id < COMPACT_IDS { 1 } else { 2 } + payload.len()) as u64;
    if SLOT_HEADER + usual > packet_size - 4 {
        local::add(&control.too_large, 1);
        local::add_long(&control.discarded, 1);
        return Err(Lost);
    }
    loop {
        let pos = control.cursor.load(Relaxed);
        let mut time = N::clock();
        let epoch = control.epoch.load(Relaxed);
        let open = pos / packet_size;
        let stepped_back = time >> TIME_BITS < epoch;
        let behind = stepped_back.then(|| (epoch << TIME_BITS).wrapping_sub(time));
        if stepped_back {
            time = epoch << TIME_BITS;
        }
        let extended = time >> TIME_BITS != epoch;
        let size = if extended {
            4 * (EXTENDED_WORDS + payload.len()) as u64
        } else {
            usual
        };
        let used = pos % packet_size;
        if used + size <= packet_size - 4 {
            if !local::compare_and_swap(&control.cursor, pos, pos + size) {
                continue;
            }
            control.limit.store((open + 1) * packet_size - 4, Relaxed);
            let slot = slot(control, open);
            let at = (used / 4) as usize;
            if extended {
                control.epoch.store(time >> TIME_BITS, Relaxed);
                slot.write_extended(at, id, time, payload);
            } else {
                slot.write_usual(at, id, time, payload);
            }
            count_step_back(control, stepped_back);
            commit(slot, 1, (size / 4) as u32);
            return Ok(behind);
        }
        if control.ready.load(Relaxed) < open + 1 {
            prepare::<N>(control, open + 1);
            if control.ready.load(Relaxed) < open + 1 {
                local::add_long(&control.discarded, 1);
                return Err(Lost);
            }
        }
        // One swap closes the packet, opens the next and reserves the record in it.
        let start = (open + 1) * packet_size + SLOT_HEADER;
        if !local::compare_and_swap(&control.cursor, pos, start + usual) {
            continue;
        }
        control.epoch.store(time >> TIME_BITS, Relaxed);
        control.limit.store((open + 2) * packet_size - 4, Relaxed);
        name_epoch::opened(control, open + 1);
        let (closing, opening) = (slot(control, open), slot(control, open + 1));
        closing.set(word::CONTENT, used as u32);
        closing.set_long(word::CLOSE, time);
        closing.set_long(word::DISCARDED, control.discarded.load(Relaxed));
        commit(closing, 0, ((packet_size - used) / 4) as u32);
        opening.set_long(word::BEGIN, time);
        opening.set_long(word::NUMBER, open + 1);
        commit(opening, 0, SLOT_HEADER_WORDS as u32);
        opening.write_usual(SLOT_HEADER_WORDS, id, time, payload);
        count_step_back(control, stepped_back);
        commit(opening, 1, (usual / 4) as u32);
        prepare::<N>(control, open + 2);
        return Ok(behind);
    }
}

/// Counts a step back of the clock. Call it only after a successful swap: a failed one is a nested
/// writer, not the clock.
fn count_step_back(control: &Control, stepped_back: bool) {
    if stepped_back {
        local::add(&control.clock_back, 1);
    }
}

fn slot(control: &Control, number: u64) -> Slot {
    let offset =
        (number * u64::from(control.packet_size.load(Relaxed))) & control.mask.load(Relaxed);
    // SAFETY: `base` and `mask` describe this CPU's ring, which stays mapped; packet sizes divide
    // the ring.
    unsafe { Slot::at(control.base.load(Relaxed) + offset) }
}

/// Makes the slot of packet `number` ready to be opened, if its present packet may go.
fn prepare<N: Environment>(control: &Control, number: u64) {
    let packets = u64::from(control.packets.load(Relaxed));
    let first = control.first_packet.load(Relaxed);
    let packet_size = control.packet_size.load(Relaxed);
    let oldest = number
        .checked_sub(packets)
        .filter(|&oldest| oldest >= first);
    let present = slot(control, number);
    let mut abandoned = false;
    if let Some(oldest) = oldest {
        if control.overflow.load(Relaxed) == Overflow::Discard as u32 {
            // Partner: the consumer's release of `consumed`. Whatever it says, `oldest` is not the
            // open packet: a ring has four at least.
            if control.consumed.load(Acquire) <= oldest {
                return;
            }
        } else if present.committed_words() != packet_size / 4 {
            if N::nesting() != 0 {
                return; // A writer that we interrupted is still in it.
            }
            abandoned = true;
        }
    }
    // (Where `prep` is `number - 1`, so is `ready`: this is called for the packet after the one
    // that is open, or is ready to be opened.)
    if !local::compare_and_swap(&control.prep, number - 1, number) {
        return; // A nested writer prepares it, or did.
    }
    if abandoned {
        // Only now: an incomplete packet and a failed swap are a nested writer at work in the slot,
        // not a dead one.
        local::add(&control.abandoned, 1);
    }
    // `prep` is visible before any byte of the old packet changes, and so before any of the new
    // one: writers find room in it only once it is `ready`. Partner: the reader's fence after its
    // copy.
    fence(Release);
    if oldest.is_some() {
        let retired = control.retired_events.load(Relaxed) + present.committed_events();
        slot(control, number + 1).set_events_before(retired);
        control.retired_events.store(retired, Relaxed);
    }
    present.zero(packet_size as usize / 4);
    compiler_fence(Release);
    control.ready.store(number, Release);
}

/// Whether every record that was reserved in the block's ring is written. The ring's place and size
/// in the block stay as they are when it is closed.
pub(crate) fn is_quiet(control: &Control) -> bool {
    let packet_size = control.slot_mask.load(Relaxed).wrapping_neg();
    let base = control.base.load(Relaxed);
    if packet_size == 0 || base == 0 {
        return true; // There never was a ring.
    }
    let (pos, mask) = (control.cursor.load(Relaxed), control.mask.load(Relaxed));
    let open = pos / packet_size;
    let packets = (mask + 1) / packet_size;
    let first = control.first_packet.load(Relaxed);
    let oldest = (open + 1).saturating_sub(packets).max(first);
    // One taken to be opened next is no packet of the ring's any more.
    let taken = (control.prep.load(Relaxed) + 1).saturating_sub(packets);
    (oldest.max(taken)..=open).all(|number| {
        // SAFETY: `base` and `mask` describe this block's ring, which stays mapped.
        let slot = unsafe { Slot::at(base + ((number * packet_size) & mask)) };
        let words = if number == open {
            pos % packet_size / 4
        } else {
            packet_size / 4
        };
        // Partner: the release in `commit`, for whoever lays out the memory anew.
        u64::from(slot.committed_words()) == words && {
            fence(Acquire);
            true
        }
    })
}

/// Puts the channel's writer at the beginning of its first packet. The packets are zero; nobody
/// writes before `start` has stored limit and packet size.
pub(crate) fn begin(
    control: &Control,
    ring_address: u64,
    packet_size: u64,
    first_packet: u64,
    time: u64,
) {
    let packets = u64::from(control.packets.load(Relaxed));
    let mask = packets * packet_size - 1;
    control.base.store(ring_address, Relaxed);
    control.mask.store(mask, Relaxed);
    control.slot_mask.store(packet_size.wrapping_neg(), Relaxed);
    // SAFETY: the caller (`start`) placed the ring at `ring_address` in the region.
    let opening = unsafe { Slot::at(ring_address + ((first_packet * packet_size) & mask)) };
    opening.open(first_packet, time);
    opening.set_events_before(0);
    opening.set(word::COMMIT, SLOT_HEADER_WORDS as u32);
    control.prep.store(first_packet + 1, Relaxed);
    control.ready.store(first_packet + 1, Relaxed);
    control.epoch.store(time >> TIME_BITS, Relaxed);
    control
        .cursor
        .store(first_packet * packet_size + SLOT_HEADER, Relaxed);
}
