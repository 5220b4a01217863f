//! Reservation with interrupts masked: RISC-V, Cortex-M, and wherever that is cheaper than a
//! compare-and-swap.
//!
//! One writer at a time on a CPU, so the fast path is loads, stores and one release of `cursor`. It
//! never returns from the slow path: that is a tail call which restores the interrupt state itself.

use crate::sync::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, fence};
use core::marker::PhantomData;

use super::layout::{
    COMPACT_IDS, Control, EXTENDED_WORDS, MEDIUM, Overflow, ReserveKind, SLOT_HEADER_WORDS,
    TIME_BITS, compact_header,
};
use super::local::{Cursor, Epoch, Events, Limit, Local};
use super::long::remainder;
use super::payload::Payload;
use super::slot::{Slot, word};
use super::{Environment, Lost, RecordType, Reserve, name_epoch, step_back, without_ring};
use crate::channel::ChannelKind;

/// Masks this CPU's interrupts.
///
/// # Safety
/// Between `mask` and `restore` nothing else on this CPU may record an event; with
/// [`MaskedCas`](super::local_cas::MaskedCas), nothing but NMIs.
pub unsafe trait Interrupts: 'static {
    /// Masks the interrupts; returns what `restore` needs.
    fn mask() -> usize;
    /// Puts back what `mask` found.
    fn restore(saved: usize);
}

/// Reservation with interrupts masked; see the module.
#[derive(Debug)]
pub struct Masked<I>(PhantomData<I>);

impl<I: Interrupts> Reserve for Masked<I> {
    const KIND: ReserveKind = ReserveKind::Masked;

    #[inline(always)]
    fn record<N: Environment, R: RecordType>(id: u32, payload: impl Payload) -> bool {
        let saved = I::mask();
        write::<N, R, I, true>(id, payload, saved, N::quick_clock)
    }

    #[inline(always)]
    unsafe fn record_masked<N: Environment, R: RecordType>(id: u32, payload: impl Payload) -> bool {
        write::<N, R, I, false>(id, payload, 0, N::quick_clock)
    }
}

impl<I: Interrupts> Masked<I> {
    /// [`record_masked`](Reserve::record_masked) with the time that the caller has read from the
    /// environment's clock: for callers that are not Rust, whose clock is a function of theirs.
    ///
    /// # Safety
    /// See there; interrupts have been masked since before the clock was read.
    #[inline(always)]
    pub(crate) unsafe fn record_at<N: Environment, R: RecordType>(
        time: u64,
        id: u32,
        payload: impl Payload,
    ) -> bool {
        write::<N, R, I, false>(id, payload, 0, || time)
    }
}

/// The hot path. This CPU's block is fetched after masking: before, the code could still be moved.
#[inline(always)]
fn write<N: Environment, R: RecordType, I: Interrupts, const RESTORE: bool>(
    id: u32,
    payload: impl Payload,
    saved: usize,
    clock: impl FnOnce() -> u64,
) -> bool {
    let header_words = if id < COMPACT_IDS { 1 } else { 2 };
    let Some(cpu) = N::Local::cpu() else {
        if RESTORE {
            I::restore(saved);
        }
        return without_ring::count();
    };
    // SAFETY: here and below, interrupts are masked, so the code stays on this CPU, and alone
    // there, until it is done.
    let at = unsafe { N::Local::load_word::<Cursor<R>>(cpu) };
    let time = clock();
    // Both directions at once: a clock that stepped back and a window that ended take the slow
    // path. SAFETY: as above.
    if (time >> TIME_BITS) as usize != unsafe { N::Local::load_word::<Epoch<R>>(cpu) } {
        return slow_call::<N, R, I, RESTORE>(id, payload, saved);
    }
    let next = at.wrapping_add(4 * (header_words + payload.len()));
    // SAFETY: as above.
    if next > unsafe { N::Local::load_word::<Limit<R>>(cpu) } {
        return slow_call::<N, R, I, RESTORE>(id, payload, saved);
    }
    // SAFETY: `next <= limit` puts the record into the open packet of this CPU's ring, which stays
    // mapped.
    let record: *const AtomicU32 = core::ptr::with_exposed_provenance(at);
    let put = |index: usize, value: u32| {
        // SAFETY: as above; `index` is below the record's length.
        unsafe { (*record.add(index)).store(value, Relaxed) }
    };
    if id < COMPACT_IDS {
        put(0, compact_header(time, id));
    } else {
        put(0, compact_header(time, MEDIUM));
        put(1, id);
    }
    // SAFETY: as above: the header's words and the payload's end at `next`.
    unsafe { payload.write(record.add(header_words)) }
    // SAFETY: as above; one record more, and the next one behind it. Partner of the last store: the
    // reader's acquire of `cursor`.
    unsafe {
        N::Local::store::<Events<R>>(cpu, N::Local::load::<Events<R>>(cpu).wrapping_add(1));
        N::Local::publish_word::<Cursor<R>>(cpu, next);
    }
    if RESTORE {
        I::restore(saved);
    }
    true
}

/// Hands the record over in registers where the payload is short, so that the hot path needs no
/// stack frame.
#[inline(always)]
fn slow_call<N: Environment, R: RecordType, I: Interrupts, const RESTORE: bool>(
    id: u32,
    payload: impl Payload,
    saved: usize,
) -> bool {
    let what = What {
        id,
        kind: R::CHANNEL,
        len: payload.len() as u16,
    };
    match payload.as_slice() {
        Some(&[]) => slow_short::<N, I, RESTORE>(0, 0, what.pack(), saved),
        Some(&[a]) => slow_short::<N, I, RESTORE>(a, 0, what.pack(), saved),
        Some(&[a, b]) => slow_short::<N, I, RESTORE>(a, b, what.pack(), saved),
        Some(&[a, b, c]) => slow_medium::<N, I, RESTORE>(a, b, c, 0, what.pack(), saved),
        Some(&[a, b, c, d]) => slow_medium::<N, I, RESTORE>(a, b, c, d, what.pack(), saved),
        _ => slow_long::<N, I, RESTORE>(payload, what.pack(), saved),
    }
}

/// What the slow path must know besides the payload, in one register.
#[derive(Clone, Copy)]
struct What {
    id: u32,
    kind: ChannelKind,
    len: u16,
}

impl What {
    #[inline(always)]
    const fn pack(self) -> u64 {
        self.id as u64 | (self.kind as u64) << 32 | (self.len as u64) << 48
    }
}

#[cold]
#[inline(never)]
fn slow_short<N: Environment, I: Interrupts, const RESTORE: bool>(
    a: u32,
    b: u32,
    what: u64,
    saved: usize,
) -> bool {
    let words = [a, b];
    let len = (what >> 48) as usize;
    let recorded = slow::<N>(words.get(..len).unwrap_or(&words), what);
    if RESTORE {
        I::restore(saved);
    }
    recorded
}

/// [`slow_short`] for up to four words, for which processors with eight registers for arguments
/// have enough.
#[cold]
#[inline(never)]
fn slow_medium<N: Environment, I: Interrupts, const RESTORE: bool>(
    a: u32,
    b: u32,
    c: u32,
    d: u32,
    what: u64,
    saved: usize,
) -> bool {
    let words = [a, b, c, d];
    let len = (what >> 48) as usize;
    let recorded = slow::<N>(words.get(..len).unwrap_or(&words), what);
    if RESTORE {
        I::restore(saved);
    }
    recorded
}

#[cold]
#[inline(never)]
fn slow_long<N: Environment, I: Interrupts, const RESTORE: bool>(
    payload: impl Payload,
    what: u64,
    saved: usize,
) -> bool {
    let recorded = slow::<N>(payload, what);
    if RESTORE {
        I::restore(saved);
    }
    recorded
}

fn slow<N: Environment>(payload: impl Payload, what: u64) -> bool {
    let kind = ChannelKind::from_number((what >> 32) as u32 & 0xffff);
    let (Some(kind), Some(cpu)) = (kind, N::Local::cpu()) else {
        return without_ring::count();
    };
    let control = N::Local::control(cpu, kind);
    let Ok(stepped_back) = record_slow(control, N::clock(), what as u32, payload) else {
        return false;
    };
    if let Some((names, report)) = stepped_back.and_then(|ticks| step_back::<N>(control, ticks)) {
        // A report that is lost is counted, as any record.
        let _ = record_slow(names, N::clock(), report.id, &report.words[..]);
    }
    true
}

/// Everything that is rare: a new time window, a full packet, a clock that stepped back, a record
/// that fits nowhere.
///
/// Runs with interrupts masked. Returns by how many ticks the clock was behind the window of the
/// record before, if it was.
fn record_slow(
    control: &Control,
    mut time: u64,
    id: u32,
    payload: impl Payload,
) -> Result<Option<u64>, Lost> {
    let packet_size = u64::from(control.packet_size.load(Relaxed));
    let epoch = control.epoch.load(Relaxed);
    let at = control.cursor.load(Relaxed);
    if packet_size == 0 {
        without_ring::count_closed(control);
        return Err(Lost);
    }
    let behind = (time >> TIME_BITS < epoch).then(|| (epoch << TIME_BITS).wrapping_sub(time));
    if time >> TIME_BITS < epoch {
        time = epoch << TIME_BITS;
        control
            .clock_back
            .store(control.clock_back.load(Relaxed).wrapping_add(1), Relaxed);
    }
    let usual = 4 * (if id < COMPACT_IDS { 1 } else { 2 } + payload.len()) as u64;
    if 4 * SLOT_HEADER_WORDS as u64 + usual > packet_size - 4 {
        control
            .too_large
            .store(control.too_large.load(Relaxed).wrapping_add(1), Relaxed);
        drop_event(control);
        return Err(Lost);
    }
    let extended = time >> TIME_BITS != epoch;
    let size = if extended {
        4 * (EXTENDED_WORDS + payload.len()) as u64
    } else {
        usual
    };
    let slot_address = at & !(packet_size - 1);
    // SAFETY: `cursor` lies in the open packet, rings are aligned to the packet size, and the
    // region stays mapped.
    let slot = unsafe { Slot::at(slot_address) };
    let used = at - slot_address;
    if used + size <= packet_size - 4 {
        let word_at = (used / 4) as usize;
        if extended {
            slot.write_extended(word_at, id, time, payload);
            control.epoch.store(time >> TIME_BITS, Relaxed);
        } else {
            slot.write_usual(word_at, id, time, payload);
        }
        control
            .events
            .store(control.events.load(Relaxed).wrapping_add(1), Relaxed);
        control.cursor.store(at + size, Release);
        return Ok(behind);
    }

    let open = control.open.load(Relaxed);
    let packets = u64::from(control.packets.load(Relaxed));
    let first = control.first_packet.load(Relaxed);
    // The packet that lives in the slot to be opened, if any of this session does.
    let oldest = (open + 1)
        .checked_sub(packets)
        .filter(|&oldest| oldest >= first);
    if let Some(oldest) = oldest
        && control.overflow.load(Relaxed) == Overflow::Discard as u32
        // Partner: the consumer's release of `consumed`. Whatever it says, `oldest` is not the open
        // packet: a ring has four at least.
        && control.consumed.load(Acquire) <= oldest
    {
        drop_event(control);
        return Err(Lost);
    }
    let base = control.base.load(Relaxed);
    let ring_end = base + packets * packet_size;
    let after = |address: u64| {
        if address + packet_size == ring_end {
            base
        } else {
            address + packet_size
        }
    };
    let next_address = after(slot_address);
    // SAFETY: `next_address` and the one after it are slots of the same ring.
    let (next, next_but_one) = unsafe { (Slot::at(next_address), Slot::at(after(next_address))) };

    slot.set(word::CONTENT, used as u32);
    slot.set_long(word::CLOSE, time);
    slot.set_long(word::DISCARDED, control.discarded.load(Relaxed));
    slot.set(
        word::COMMIT,
        control.events.load(Relaxed) << 16 | (packet_size / 4) as u32,
    );
    control.prep.store(open + 1, Relaxed);
    // Partner: the reader's acquire fence between its copy and its second look at `prep`.
    fence(Release);
    if oldest.is_some() {
        let retired = control.retired_events.load(Relaxed) + next.committed_events();
        next_but_one.set_events_before(retired);
        control.retired_events.store(retired, Relaxed);
    }
    next.set(word::COMMIT, 0);
    next.open(open + 1, time);
    next.write_usual(SLOT_HEADER_WORDS, id, time, payload);
    control.events.store(1, Relaxed);
    control.epoch.store(time >> TIME_BITS, Relaxed);
    control.limit.store(next_address + packet_size - 4, Relaxed);
    // Partner: the reader's acquire of `open`, which it loads behind `cursor`: packet closed,
    // packet open, and its first record.
    control.open.store(open + 1, Release);
    control
        .cursor
        .store(next_address + 4 * SLOT_HEADER_WORDS as u64 + usual, Relaxed);
    name_epoch::opened(control, open + 1);
    Ok(behind)
}

fn drop_event(control: &Control) {
    control
        .discarded
        .store(control.discarded.load(Relaxed) + 1, Relaxed);
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
    let slot = remainder(first_packet, control.packets.load(Relaxed));
    let slot_address = ring_address + u64::from(slot) * packet_size;
    // SAFETY: the caller (`start`) placed the ring at `ring_address` in the region.
    let slot = unsafe { Slot::at(slot_address) };
    slot.open(first_packet, time);
    slot.set_events_before(0);
    control.prep.store(first_packet, Relaxed);
    control.open.store(first_packet, Relaxed);
    control.events.store(0, Relaxed);
    control.epoch.store(time >> TIME_BITS, Relaxed);
    control
        .cursor
        .store(slot_address + 4 * SLOT_HEADER_WORDS as u64, Relaxed);
}
