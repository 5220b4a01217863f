//! Where the words of a record come from.
//!
//! A writer reserves room first and then has the words put there, so that a long record, such as a
//! call chain, passes through no array on the stack of whoever records it.

use core::marker::PhantomData;

use crate::sync::{AtomicU32, Ordering::Relaxed};

/// The words of a record behind its header: a slice, or [`InPlace`].
pub trait Payload: Sized {
    /// How many words there are.
    fn len(&self) -> usize;

    /// Whether there are no words.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The words as a slice, where they are in memory or in registers already.
    fn as_slice(&self) -> Option<&[u32]>;

    /// Writes the words, once.
    ///
    /// # Safety
    /// From `to` on, [`len`](Self::len) words of a ring are reserved for this record.
    unsafe fn write(self, to: *const AtomicU32);
}

impl Payload for &[u32] {
    #[inline(always)]
    fn len(&self) -> usize {
        <[u32]>::len(self)
    }

    #[inline(always)]
    fn as_slice(&self) -> Option<&[u32]> {
        Some(self)
    }

    #[inline(always)]
    unsafe fn write(self, to: *const AtomicU32) {
        for (index, &value) in self.iter().enumerate() {
            // SAFETY: the caller's promise; `index` is below the length.
            unsafe { (*to.add(index)).store(value, Relaxed) }
        }
    }
}

/// More words than any packet holds.
const MOST_WORDS: usize = u16::MAX as usize;

/// A payload of `words` words that `fill` puts where they belong.
///
/// `fill` runs inside the record, with interrupts masked or the code pinned: it records nothing,
/// waits for nothing and does not fault.
#[derive(Debug)]
pub struct InPlace<F> {
    words: usize,
    fill: F,
}

impl<F: FnOnce(&mut PayloadWriter<'_>)> InPlace<F> {
    /// A payload of `words` words. Words that `fill` does not write are zero.
    #[inline(always)]
    pub fn new(words: usize, fill: F) -> Self {
        // No packet holds as many: a record of more is dropped too. Its size in bytes cannot
        // overflow.
        let words = words.min(MOST_WORDS);
        InPlace { words, fill }
    }
}

impl<F: FnOnce(&mut PayloadWriter<'_>)> Payload for InPlace<F> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.words
    }

    #[inline(always)]
    fn as_slice(&self) -> Option<&[u32]> {
        None
    }

    #[inline(always)]
    unsafe fn write(self, to: *const AtomicU32) {
        let mut out = PayloadWriter {
            to,
            left: self.words,
            record: PhantomData,
        };
        (self.fill)(&mut out);
        while out.push(0) {}
    }
}

/// Writes the words of a record straight into the ring.
#[derive(Debug)]
pub struct PayloadWriter<'a> {
    to: *const AtomicU32,
    left: usize,
    record: PhantomData<&'a AtomicU32>,
}

impl PayloadWriter<'_> {
    /// How many more words there is room for.
    #[inline(always)]
    pub fn room(&self) -> usize {
        self.left
    }

    /// Writes the next word; `false` where there is no room for it.
    #[inline(always)]
    pub fn push(&mut self, word: u32) -> bool {
        let Some(left) = self.left.checked_sub(1) else {
            return false;
        };
        // SAFETY: `Payload::write` was promised as many words as `left` began with, and each one
        // that is written moves `to` past it. Relaxed: the record is published by its writer.
        unsafe {
            (*self.to).store(word, Relaxed);
            self.to = self.to.add(1);
        }
        self.left = left;
        true
    }

    /// Writes a 64-bit number, low word first; `false` where there is no room for both words.
    #[inline(always)]
    pub fn push_long(&mut self, value: u64) -> bool {
        self.left >= 2 && self.push(value as u32) && self.push((value >> 32) as u32)
    }
}
