//! Call chains by frame pointers, every step checked.

use core::ops::Range;

use crate::sync::{AtomicUsize, Ordering::Relaxed};
use crate::vocabulary::ChainEnd;

/// Bytes of a word.
const WORD: usize = size_of::<usize>();
/// From a frame's two words (the caller's frame pointer, then the return address) to where the
/// frame pointer points. RISC-V: the calling convention's frame pointer is the stack pointer on
/// entry, and the words stand below it. Elsewhere it points to the words.
pub(super) const RECORD_TO_POINTER: usize =
    if cfg!(any(target_arch = "riscv64", target_arch = "riscv32")) {
        2 * WORD
    } else {
        0
    };

/// Addresses that may be read: a stack, or a page of one.
///
/// ```
/// # let stack = [0usize; 64];
/// // A kernel's stack is read where it is.
/// let addresses = stack.as_ptr_range();
/// let range = addresses.start as usize..addresses.end as usize;
/// // SAFETY: the stack stays where it is while the sample is taken.
/// let window = unsafe { kymo::sample::Window::new(range, addresses.start.cast()) };
/// # let _ = window;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// First address, for the interrupted code.
    start: usize,
    /// Offset of the last place for a frame's two words.
    last: usize,
    /// Added to an address, this gives where the kernel reads it.
    shift: usize,
}

impl Window {
    /// A window that holds nothing.
    pub const NONE: Window = Window {
        start: usize::MAX,
        last: 0,
        shift: 0,
    };

    /// The addresses `range`, whose bytes are read from `at` on: `range.start` itself, or where the
    /// kernel has mapped a program's page for itself.
    ///
    /// # Safety
    /// Until the sample is taken, these bytes can be read without a fault. `at` is as aligned as
    /// `range.start`. What they hold does not matter, nor does it matter who writes to them.
    pub unsafe fn new(range: Range<usize>, at: *const u8) -> Window {
        match range.end.checked_sub(range.start) {
            Some(len) if len >= 2 * WORD => Window {
                start: range.start,
                last: len - 2 * WORD,
                shift: at.expose_provenance().wrapping_sub(range.start),
            },
            _ => Window::NONE,
        }
    }

    /// Whether a frame's two words at `address`, which is aligned, lie inside.
    #[inline(always)]
    fn holds(&self, address: usize) -> bool {
        address.wrapping_sub(self.start) <= self.last
    }

    /// The two words at `address`.
    ///
    /// # Safety
    /// The window holds them, and `address` is aligned.
    #[inline(always)]
    unsafe fn read(&self, address: usize) -> [usize; 2] {
        let at = address.wrapping_add(self.shift);
        let words: *const AtomicUsize = core::ptr::with_exposed_provenance(at);
        // SAFETY: both words lie inside, and `new` was promised that they can be read. They are
        // atomic, since a program's other threads may write to them.
        unsafe { [(*words).load(Relaxed), (*words.add(1)).load(Relaxed)] }
    }
}

/// A kernel's knowledge of the memory through which a call chain leads. The unwinder reads only
/// what a [`Window`] vouches for.
///
/// All of it is asked in the interrupt or NMI that takes the sample, so nothing here may take a
/// lock, fault, or wait.
pub trait Memory {
    /// Where the kernel's code is. A return address outside of it ends the chain.
    fn kernel_text(&self) -> Range<usize>;

    /// The kernel stack with this address, if it is one that the interrupted code may be on: of the
    /// thread that runs here, or of this CPU's interrupts. No other thread's: those change
    /// meanwhile.
    fn kernel_stack(&self, address: usize) -> Option<Window>;

    /// The link register of the interrupted code, on RISC-V; `None` elsewhere. Only there is
    /// the return address of a function that calls none, where the compiler stores none (gcc before
    /// 14, and later ones without `-mno-omit-leaf-frame-pointer`).
    #[inline(always)]
    fn link(&self) -> Option<usize> {
        None
    }

    /// The registers with which the running thread's program entered the kernel; `None` for a
    /// thread without a program. Only a sample in the kernel asks for them.
    fn user_registers(&self) -> Option<Registers> {
        None
    }

    /// Where a program's code can be.
    fn user_text(&self) -> Range<usize> {
        0..0
    }

    /// The piece of the running program's memory with this address that is mapped and readable:
    /// the page, or as much around it as is known. Found by looking into the page table, not by
    /// trying.
    fn user_stack(&self, address: usize) -> Option<Window> {
        let _ = address;
        None
    }
}

/// The registers that a call chain begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// The instruction pointer.
    pub ip: usize,
    /// The frame pointer: `rbp`, `s0`, `x29`.
    pub fp: usize,
}

/// Callers, the innermost first, as far as there is place for them.
#[derive(Debug)]
pub(super) struct Callers<'a> {
    places: &'a [AtomicUsize],
    len: usize,
}

impl<'a> Callers<'a> {
    pub(super) fn new(places: &'a [AtomicUsize]) -> Callers<'a> {
        Callers { places, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Those that were found.
    pub(super) fn found(&self) -> &'a [AtomicUsize] {
        // SAFETY: `push` counts a place that there is, and nothing else changes `len`.
        unsafe { self.places.get_unchecked(..self.len) }
    }

    /// Adds one; `false` where there is no place left.
    #[inline(always)]
    pub(super) fn push(&mut self, address: usize) -> bool {
        let Some(place) = self.places.get(self.len) else {
            return false;
        };
        place.store(address, Relaxed);
        self.len += 1;
        true
    }

    /// Follows the frames from `fp` on. `window_at` gives the readable memory around an address;
    /// `stacks` says whether the chain may go on at any address there (an interrupt's stack, then a
    /// thread's), or only upwards. `link` is [`Memory::link`].
    ///
    /// Each round either adds a caller or ends, so this takes as many as there is place for.
    #[inline(always)]
    pub(super) fn follow(
        &mut self,
        mut fp: usize,
        mut link: Option<usize>,
        text: Range<usize>,
        stacks: bool,
        window_at: impl Fn(usize) -> Option<Window>,
    ) -> ChainEnd {
        let text_len = text.end.wrapping_sub(text.start);
        let mut window = Window::NONE;
        if fp == 0 {
            return ChainEnd::Complete;
        }
        loop {
            let frame = fp.wrapping_sub(RECORD_TO_POINTER);
            if !frame.is_multiple_of(WORD) {
                return ChainEnd::Misaligned;
            }
            if !window.holds(frame) {
                window = window_at(frame).unwrap_or(Window::NONE);
                if !window.holds(frame) {
                    return ChainEnd::Unmapped;
                }
            }
            // SAFETY: it does, and `frame` is aligned.
            let [caller, address] = unsafe { window.read(frame) };
            if address.wrapping_sub(text.start) >= text_len {
                // A frame without a return address has the caller's frame pointer in its place.
                if let Some(link) = link.take()
                    && link.wrapping_sub(text.start) < text_len
                    && address > fp
                    && window.holds(address.wrapping_sub(RECORD_TO_POINTER))
                {
                    if !self.push(link) {
                        return ChainEnd::Cut;
                    }
                    fp = address;
                    continue;
                }
                return match address {
                    0 => ChainEnd::Complete,
                    _ => ChainEnd::NotCode,
                };
            }
            if !self.push(address) {
                return ChainEnd::Cut;
            }
            if caller <= fp {
                if caller == 0 {
                    return ChainEnd::Complete;
                }
                if !stacks || window.holds(caller.wrapping_sub(RECORD_TO_POINTER)) {
                    return ChainEnd::NotRising;
                }
            }
            (fp, link) = (caller, None);
        }
    }
}
