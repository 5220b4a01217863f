//! The words of a sample, written straight into the ring.

use crate::ring::payload::Payload;
use crate::sync::{AtomicU32, AtomicUsize, Ordering::Relaxed};

/// Fields of fixed size, the last of which is the length of the sequence behind them, and its
/// elements: 64-bit addresses.
#[derive(Debug)]
pub(super) struct Words<'a, const N: usize> {
    pub(super) fields: [u32; N],
    pub(super) callers: &'a [AtomicUsize],
}

impl<const N: usize> Payload for Words<'_, N> {
    #[inline(always)]
    fn len(&self) -> usize {
        N + 2 * self.callers.len()
    }

    #[inline(always)]
    fn as_slice(&self) -> Option<&[u32]> {
        None
    }

    #[inline(always)]
    unsafe fn write(self, to: *const AtomicU32) {
        for (index, field) in self.fields.into_iter().enumerate() {
            // SAFETY: the caller's promise; `index` is below the length.
            unsafe { (*to.add(index)).store(field, Relaxed) };
        }
        // SAFETY: as above: the callers' words follow.
        let mut to = unsafe { to.add(N) };
        for caller in self.callers {
            let address = caller.load(Relaxed) as u64;
            // SAFETY: as above; two words a caller.
            unsafe {
                (*to).store(address as u32, Relaxed);
                (*to.add(1)).store((address >> 32) as u32, Relaxed);
                to = to.add(2);
            }
        }
    }
}
