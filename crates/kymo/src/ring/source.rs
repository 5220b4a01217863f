//! Where a reader's bytes come from.

use core::mem::offset_of;

use super::layout::{CONTROL_OFFSET, CONTROL_SIZE, Control};
use super::long::{Long, Native};
use crate::sync::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// A read outside of the memory that was given, or of a word that is not aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outside;

/// Memory that holds a region. Offsets are from the region's first byte.
pub trait Source {
    /// Bytes from the region's first byte to the end of the memory.
    fn len(&self) -> u64;

    /// Whether there is nothing to read.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Loads an aligned 32-bit word; later loads come after it (acquire).
    ///
    /// # Errors
    /// [`Outside`].
    fn load(&self, offset: u64) -> Result<u32, Outside>;

    /// Loads an aligned 64-bit word; later loads come after it (acquire). A 64-bit processor loads
    /// it at once; others are asked for it only where nobody writes.
    ///
    /// # Errors
    /// [`Outside`].
    fn load_long(&self, offset: u64) -> Result<u64, Outside>;

    /// Copies words, in any order.
    ///
    /// # Errors
    /// [`Outside`]; `out` may be partly filled then.
    fn copy(&self, offset: u64, out: &mut [u32]) -> Result<(), Outside> {
        for (index, word) in out.iter_mut().enumerate() {
            *word = self.load(offset.checked_add(4 * index as u64).ok_or(Outside)?)?;
        }
        Ok(())
    }
}

/// A source whose consumer word can be written: the one consumer of a session in `Discard` needs
/// it.
pub trait Consume: Source {
    /// Stores an aligned 32-bit word; all earlier loads come before it (release).
    ///
    /// # Errors
    /// [`Outside`].
    fn store(&self, offset: u64, value: u32) -> Result<(), Outside>;

    /// Stores an aligned 64-bit word, at once; all earlier loads come before it (release). On
    /// 64-bit processors only.
    ///
    /// # Errors
    /// [`Outside`].
    fn store_long(&self, offset: u64, value: u64) -> Result<(), Outside>;
}

/// A dump: bytes that nobody writes any more.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a>(pub &'a [u8]);

impl Bytes<'_> {
    fn array<const N: usize>(&self, offset: u64) -> Result<[u8; N], Outside> {
        let at = usize::try_from(offset).map_err(|_| Outside)?;
        let end = at.checked_add(N).ok_or(Outside)?;
        self.0
            .get(at..end)
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or(Outside)
    }
}

impl Source for Bytes<'_> {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }
    fn load(&self, offset: u64) -> Result<u32, Outside> {
        self.array(offset).map(u32::from_le_bytes)
    }
    fn load_long(&self, offset: u64) -> Result<u64, Outside> {
        self.array(offset).map(u64::from_le_bytes)
    }
}

/// Memory that writers may be writing: this kernel's own region, or a guest's that is mapped here.
/// Every access is atomic.
#[derive(Clone, Copy, Debug)]
pub struct Live {
    base: *const u8,
    len: u64,
    /// Whether it is this program's own region, whose writers rely on what it holds.
    own: bool,
}

// SAFETY: all accesses are atomic; the memory stays mapped (see `new`).
unsafe impl Send for Live {}
// SAFETY: as above.
unsafe impl Sync for Live {}

impl Live {
    /// The memory at `base`, of another machine or program: every word of it can be stored.
    ///
    /// # Safety
    /// `base` is aligned to 8 bytes; `len` bytes from it stay readable (and writable, if
    /// [`Consume`] is used) as long as the value or a copy of it lives, and nobody in this program
    /// touches them but atomically, or relies on what they hold.
    pub const unsafe fn new(base: *const u8, len: u64) -> Live {
        let own = false;
        Live { base, len, own }
    }

    /// The memory at `base`, which is a region of this program's own. Its writers find their way by
    /// the words of the control blocks, so only the consumer's word of a block can be stored, which
    /// may hold anything.
    ///
    /// # Safety
    /// As for [`new`](Self::new); writers of this crate may rely on what the memory holds.
    pub(crate) const unsafe fn own(base: *const u8, len: u64) -> Live {
        let own = true;
        Live { base, len, own }
    }

    /// Whether `size` bytes at `offset` may be stored. Behind the control blocks, words at the same
    /// distances pass too: no writer relies on what is there.
    fn may_store(&self, offset: u64, size: usize) -> Result<(), Outside> {
        let in_block = offset
            .checked_sub(CONTROL_OFFSET as u64)
            .map(|offset| offset % CONTROL_SIZE as u64);
        let consumed = offset_of!(Control, consumed) as u64;
        let consumed = consumed..consumed + size_of::<Long>() as u64;
        let is_consumed = in_block.is_some_and(|offset| consumed.contains(&offset));
        if !self.own || is_consumed && size == size_of::<Native>() {
            Ok(())
        } else {
            Err(Outside)
        }
    }

    fn word<A>(&self, offset: u64) -> Result<&A, Outside> {
        let size = size_of::<A>() as u64;
        let inside = offset.checked_add(size).is_some_and(|end| end <= self.len);
        if !inside || !offset.is_multiple_of(size) {
            return Err(Outside);
        }
        // SAFETY: inside of the memory that `new` was promised, aligned, and only ever accessed
        // atomically.
        Ok(unsafe { &*self.base.add(offset as usize).cast::<A>() })
    }
}

impl Source for Live {
    fn len(&self) -> u64 {
        self.len
    }
    fn load(&self, offset: u64) -> Result<u32, Outside> {
        Ok(self.word::<AtomicU32>(offset)?.load(Acquire))
    }
    #[cfg(target_pointer_width = "64")]
    fn load_long(&self, offset: u64) -> Result<u64, Outside> {
        Ok(self.word::<crate::sync::AtomicU64>(offset)?.load(Acquire))
    }
    #[cfg(target_pointer_width = "32")]
    fn load_long(&self, offset: u64) -> Result<u64, Outside> {
        Ok(u64::from(self.load(offset)?)
            | u64::from(self.load(offset.checked_add(4).ok_or(Outside)?)?) << 32)
    }
    fn copy(&self, offset: u64, out: &mut [u32]) -> Result<(), Outside> {
        for (index, word) in out.iter_mut().enumerate() {
            let at = offset.checked_add(4 * index as u64).ok_or(Outside)?;
            *word = self.word::<AtomicU32>(at)?.load(Relaxed);
        }
        Ok(())
    }
}

impl Consume for Live {
    fn store(&self, offset: u64, value: u32) -> Result<(), Outside> {
        self.may_store(offset, size_of::<u32>())?;
        self.word::<AtomicU32>(offset)?.store(value, Release);
        Ok(())
    }
    #[cfg(target_pointer_width = "64")]
    fn store_long(&self, offset: u64, value: u64) -> Result<(), Outside> {
        self.may_store(offset, size_of::<u64>())?;
        self.word::<crate::sync::AtomicU64>(offset)?
            .store(value, Release);
        Ok(())
    }
    /// This processor has no 64-bit stores.
    #[cfg(target_pointer_width = "32")]
    fn store_long(&self, _: u64, _: u64) -> Result<(), Outside> {
        Err(Outside)
    }
}
