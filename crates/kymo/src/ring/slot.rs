//! One packet slot in this address space.

use crate::sync::{AtomicU32, Ordering::Relaxed, Ordering::Release};

use super::layout::{EVENTS_BEFORE_VALID, SLOT_HEADER_WORDS};
use super::payload::Payload;

/// Word indices in a slot's header.
pub(crate) mod word {
    /// Events << 16 | words committed.
    pub(crate) const COMMIT: usize = 0;
    /// Bytes with records, header included; 0 while the packet is open.
    pub(crate) const CONTENT: usize = 1;
    /// Number of the packet (64 bits).
    pub(crate) const NUMBER: usize = 2;
    /// Time at which it was opened (64 bits).
    pub(crate) const BEGIN: usize = 4;
    /// Time of the record that closed it (64 bits).
    pub(crate) const CLOSE: usize = 6;
    /// Events dropped when it was closed (64 bits).
    pub(crate) const DISCARDED: usize = 8;
    /// Records in all packets before it, with a "valid" bit (64 bits).
    pub(crate) const EVENTS_BEFORE: usize = 10;
}

/// A slot of a ring that lives as long as the session's memory, which is for ever.
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    words: *const AtomicU32,
}

impl Slot {
    /// # Safety
    /// `address` is the exposed address of a packet slot in a region that stays mapped; the slot
    /// has at least as many words as any index given to the other functions.
    #[inline(always)]
    pub(crate) unsafe fn at(address: u64) -> Slot {
        Slot {
            words: core::ptr::with_exposed_provenance(address as usize),
        }
    }

    #[inline(always)]
    pub(crate) fn word(&self, index: usize) -> &'static AtomicU32 {
        // SAFETY: `at` promised a mapped slot that holds `index`; its words are only ever used as
        // atomics (invariant 4).
        unsafe { &*self.words.add(index) }
    }

    #[inline(always)]
    pub(crate) fn set(&self, index: usize, value: u32) {
        self.word(index).store(value, Relaxed);
    }

    pub(crate) fn set_long(&self, index: usize, value: u64) {
        self.set(index, value as u32);
        self.set(index + 1, (value >> 32) as u32);
    }

    /// Zeroes its first `words` words, an even number.
    #[cfg(target_pointer_width = "64")]
    pub(crate) fn zero(&self, words: usize) {
        // SAFETY: `at` promised so many mapped words, aligned to the packet size, only ever used as
        // atomics; only the CPU that owns the ring prepares slots.
        unsafe { crate::arch::local::zero(self.words, words) };
    }

    /// Events in the packet, as committed.
    pub(crate) fn committed_events(&self) -> u64 {
        u64::from(self.word(word::COMMIT).load(Relaxed) >> 16)
    }

    /// Words in the packet, as committed.
    #[cfg(target_pointer_width = "64")]
    pub(crate) fn committed_words(&self) -> u32 {
        self.word(word::COMMIT).load(Relaxed) & 0xffff
    }

    /// Tells a reader that begins at this packet how many records came before it.
    pub(crate) fn set_events_before(&self, events: u64) {
        self.set(word::EVENTS_BEFORE, events as u32);
        // The valid bit is in the high half: it is stored last, and a reader loads it first.
        self.word(word::EVENTS_BEFORE + 1)
            .store(((events | EVENTS_BEFORE_VALID) >> 32) as u32, Release);
    }

    /// The header of a packet that opens now, but for `commit`.
    pub(crate) fn open(&self, number: u64, begin: u64) {
        self.set(word::CONTENT, 0);
        self.set_long(word::BEGIN, begin);
        self.set_long(word::CLOSE, 0);
        self.set_long(word::DISCARDED, 0);
        self.set_long(word::EVENTS_BEFORE, 0);
        self.set_long(word::NUMBER, number);
    }

    /// Writes one record with an extended header at word `at`.
    pub(crate) fn write_extended(&self, at: usize, id: u32, time: u64, payload: impl Payload) {
        self.set(at + 1, id);
        self.set_long(at + 2, time);
        self.write_payload(at + super::layout::EXTENDED_WORDS, payload);
        self.word(at).store(super::layout::EXTENDED, Release);
    }

    /// Writes one record with the usual header (one word, or two for the ids that need it) at word
    /// `at`.
    pub(crate) fn write_usual(&self, at: usize, id: u32, time: u64, payload: impl Payload) {
        if id < super::layout::COMPACT_IDS {
            self.write_payload(at + 1, payload);
            self.word(at)
                .store(super::layout::compact_header(time, id), Release);
        } else {
            self.set(at + 1, id);
            self.write_payload(at + 2, payload);
            self.word(at).store(
                super::layout::compact_header(time, super::layout::MEDIUM),
                Release,
            );
        }
    }

    fn write_payload(&self, at: usize, payload: impl Payload) {
        // SAFETY: `at` promised a mapped slot that holds every word of the record, which its
        // writer has reserved.
        unsafe { payload.write(self.words.add(at)) }
    }
}

const _: () = assert!(word::EVENTS_BEFORE + 2 == SLOT_HEADER_WORDS);
