//! How a writer reaches the control blocks of the CPU that it runs on.

use core::mem::offset_of;

use super::layout::{CONTROL_SIZE, COUNTERS_OFFSET, Control, MAX_IDS, switch};
use super::long::Native;
use super::{RecordType, without_ring};
use crate::channel::ChannelKind;
use crate::sync::{AtomicU8, AtomicU32, AtomicUsize, Ordering::Relaxed, Ordering::Release};

/// How code reaches the control blocks of the CPU that it runs on.
///
/// # Safety
/// `control` gives blocks of this CPU, in memory that is never unmapped; `load`, `store` and
/// `is_on` act on the same blocks.
pub unsafe trait Local {
    /// A handle to this CPU's blocks, good until the code may be moved.
    type Cpu: Copy;

    /// Whether the switch in this CPU's block is on.
    fn is_on<W: ControlWord>() -> bool;
    /// This CPU; `None` where it has no ring (more CPUs than the session was started for).
    fn cpu() -> Option<Self::Cpu>;
    /// Loads a machine word, on a 32-bit processor the low half (relaxed).
    ///
    /// # Safety
    /// For this function and those below, `cpu` was fetched since the code was last free to move,
    /// and `W` is a word of that width.
    unsafe fn load_word<W: ControlWord>(cpu: Self::Cpu) -> usize;
    /// Loads a 32-bit word (relaxed).
    ///
    /// # Safety
    /// See [`load_word`](Self::load_word).
    unsafe fn load<W: ControlWord>(cpu: Self::Cpu) -> u32;
    /// Stores a 32-bit word (relaxed).
    ///
    /// # Safety
    /// See [`load_word`](Self::load_word); the ring's rules must also allow the value.
    unsafe fn store<W: ControlWord>(cpu: Self::Cpu, value: u32);
    /// Stores a machine word; all earlier stores are visible before it (release).
    ///
    /// # Safety
    /// See [`store`](Self::store).
    unsafe fn publish_word<W: ControlWord>(cpu: Self::Cpu, value: usize);
    /// The whole block of one channel.
    fn control(cpu: Self::Cpu, kind: ChannelKind) -> &'static Control;
    /// The first word of the CPU's counters, [`COUNTERS_OFFSET`] bytes from its first block on, of
    /// which there are as many as the memory was given for.
    fn counters(cpu: Self::Cpu) -> *const AtomicUsize;
}

/// A word of a control block, as a constant offset from this CPU's first block.
///
/// # Safety
/// `OFFSET` is that of a word of a control block, aligned for it. Only this crate implements it.
pub unsafe trait ControlWord {
    /// The offset in bytes.
    const OFFSET: usize;
    /// For a switch, the bits of its byte.
    const MASK: u8 = 0xff;
}

macro_rules! control_words {
    ($($(#[$doc:meta])* $name:ident: $field:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name<R>(core::marker::PhantomData<R>);
        // SAFETY: `OFFSET` is the offset of that field.
        unsafe impl<R: RecordType> ControlWord for $name<R> {
            const OFFSET: usize = R::CHANNEL as usize * CONTROL_SIZE + offset_of!(Control, $field);
        }
    )*};
}

control_words! {
    /// `cursor` of the record's channel.
    Cursor: cursor;
    /// `limit` of the record's channel.
    Limit: limit;
    /// `epoch` of the record's channel.
    Epoch: epoch;
    /// `mask` of the record's channel.
    Mask: mask;
    /// `base` of the record's channel.
    Base: base;
    /// `events` of the record's channel.
    Events: events;
}

/// The id of a declared event. A raw record's is known at run time only, and so is its switch.
const fn declared_id<R: RecordType>() -> u32 {
    assert!(R::ID.is_some(), "a raw record's switch is found by its id");
    match R::ID {
        Some(id) => {
            assert!(id < MAX_IDS, "event ids are below 2048");
            id
        }
        None => 0,
    }
}

/// Where the switch of an event stands: bytes from a CPU's first control block, and the bits of
/// that byte. For code that is not Rust and tests it by itself.
pub const fn switch_place(kind: ChannelKind, id: u32) -> (usize, u8) {
    let place = switch(id);
    let first = if place.more {
        offset_of!(Control, on_more)
    } else {
        offset_of!(Control, on)
    };
    (
        kind as usize * CONTROL_SIZE + first + place.byte,
        place.mask,
    )
}

/// The event's switch.
#[derive(Debug)]
pub struct Switch<R>(core::marker::PhantomData<R>);
// SAFETY: `OFFSET` is the offset of a byte in `on` or `on_more`.
unsafe impl<R: RecordType> ControlWord for Switch<R> {
    const OFFSET: usize = switch_place(R::CHANNEL, declared_id::<R>()).0;
    const MASK: u8 = switch_place(R::CHANNEL, declared_id::<R>()).1;
}

/// Gives a pointer to this CPU's first control block, for platforms that keep one in their per-CPU
/// data.
///
/// # Safety
/// The blocks belong to this CPU and stay mapped, as for [`Local`]. Null means that this CPU has
/// none.
pub unsafe trait ControlPointer: 'static {
    /// Whether the pointer is never null; then nothing tests it.
    const NEVER_NULL: bool = false;

    /// The pointer.
    fn get() -> *const Control;
}

/// [`Local`] through a pointer.
#[derive(Debug)]
pub struct ByPointer<T>(core::marker::PhantomData<T>);

/// A handle of [`ByPointer`].
#[derive(Clone, Copy, Debug)]
pub struct Blocks(core::ptr::NonNull<Control>);

impl Blocks {
    #[inline(always)]
    fn word<W: ControlWord, A>(self) -> &'static A {
        // SAFETY: `ControlPointer` promised mapped blocks, one a kind; OFFSET lies inside of them
        // and is aligned for the word.
        unsafe { &*self.0.as_ptr().byte_add(W::OFFSET).cast::<A>() }
    }
}

// SAFETY: everything acts on the blocks that `ControlPointer` vouches for.
unsafe impl<T: ControlPointer> Local for ByPointer<T> {
    type Cpu = Blocks;

    #[inline(always)]
    fn is_on<W: ControlWord>() -> bool {
        match Self::cpu() {
            Some(cpu) => cpu.word::<W, AtomicU8>().load(Relaxed) & W::MASK != 0,
            None => without_ring::is_on(W::OFFSET, W::MASK),
        }
    }
    #[inline(always)]
    fn cpu() -> Option<Blocks> {
        let pointer = T::get().cast_mut();
        if T::NEVER_NULL {
            // SAFETY: the implementor promised it.
            return Some(Blocks(unsafe {
                core::ptr::NonNull::new_unchecked(pointer)
            }));
        }
        core::ptr::NonNull::new(pointer).map(Blocks)
    }
    #[inline(always)]
    unsafe fn load_word<W: ControlWord>(cpu: Blocks) -> usize {
        cpu.word::<W, Native>().load(Relaxed) as usize
    }
    #[inline(always)]
    unsafe fn load<W: ControlWord>(cpu: Blocks) -> u32 {
        cpu.word::<W, AtomicU32>().load(Relaxed)
    }
    #[inline(always)]
    unsafe fn store<W: ControlWord>(cpu: Blocks, value: u32) {
        cpu.word::<W, AtomicU32>().store(value, Relaxed);
    }
    #[inline(always)]
    unsafe fn publish_word<W: ControlWord>(cpu: Blocks, value: usize) {
        cpu.word::<W, Native>().store(value as _, Release);
    }
    #[inline(always)]
    fn control(cpu: Blocks, kind: ChannelKind) -> &'static Control {
        // SAFETY: as in `word`; the blocks of one CPU stand in a row, one a kind.
        unsafe { &*cpu.0.as_ptr().add(kind as usize) }
    }
    #[inline(always)]
    fn counters(cpu: Blocks) -> *const AtomicUsize {
        let first = cpu.0.as_ptr().cast_const();
        first.wrapping_byte_add(COUNTERS_OFFSET).cast()
    }
}
