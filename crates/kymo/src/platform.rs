//! What a kernel must provide: [`Platform`], and what it is put together from.
//!
//! A port names a clock, how space is reserved ([`Masked`] or [`LocalCas`]), how code reaches the
//! control blocks of its CPU ([`ByPointer`], or [`arch`](crate::arch)'s own ways), and how to wait
//! for the writers of other CPUs. Everything else has a default.

use crate::sync::{AtomicU8, AtomicU32, Ordering::Relaxed, Ordering::Release};
use core::mem::offset_of;

use crate::event::Event;
use crate::ring::Reserve;
pub use crate::ring::layout::Control;
use crate::ring::layout::{
    CHANNEL_KINDS, CONTROL_SIZE, ChannelKind, MORE_SWITCHES, SWITCHES, switch,
};
#[cfg(target_pointer_width = "64")]
pub use crate::ring::local_cas::LocalCas;
use crate::ring::long::Native;
pub use crate::ring::masked::{Interrupts, Masked};

/// Which call asks for permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Call {
    /// `start`.
    Start,
    /// `read`: what was recorded goes to the caller, kernel addresses among it.
    Read,
    /// `stop`.
    Stop,
    /// `finish`.
    Finish,
    /// `switch`: what is recorded changes.
    Switch,
    /// `snapshot`: the kernel's state is recorded again.
    Snapshot,
}

/// The one trait of a port: clock, this CPU's control blocks, how space is reserved, and how to
/// wait for writers.
///
/// # Safety
/// - `Local` leads to control blocks that no other CPU writes, in a region that stays mapped.
/// - From the moment a writer fetches them until its record is written, the code neither moves to
///   another CPU nor is switched out: `Masked` sees to it itself, with `LocalCas` `pin` and `unpin`
///   do.
/// - Nothing that cannot be interrupted by the rules of `Reserve` (an NMI with `Masked`) records an
///   event.
pub unsafe trait Platform: 'static {
    /// How space is reserved.
    type Reserve: Reserve;
    /// Where this CPU's control blocks are.
    type Local: Local;

    /// The clock, in ticks. The same on every CPU as far as the hardware can; a step back is
    /// clamped and counted.
    fn clock() -> u64;

    /// The clock as the hot path of `Masked` reads it: [`clock`](Self::clock), or a cheaper reading
    /// that may be later by a whole number of 2^27 ticks when a carry passed by. (32-bit processors
    /// that read the low half first, then the high one: such a reading takes the slow path, which
    /// asks `clock`.)
    #[inline(always)]
    fn quick_clock() -> u64 {
        Self::clock()
    }

    /// Returns when every CPU has left any record that it was writing when this was called, and
    /// sees all that this CPU wrote before: for example after an interrupt was sent to every CPU
    /// and answered. `start` calls it several times, before and after it lays out the control
    /// blocks; `stop` after it turned the switches off. Empty where no other CPU can be at a
    /// tracepoint then.
    fn synchronize();

    /// The switches, where they are one static of the kernel's instead of those in every CPU's
    /// control block. It saves a load where the block is found through a pointer in memory.
    #[inline(always)]
    fn switches() -> Option<&'static Switches> {
        None
    }

    /// Keeps the code on this CPU, and from being switched out, until [`unpin`](Self::unpin);
    /// `LocalCas` calls it around every record. Empty where tracepoints stand in code that is
    /// pinned anyhow. (`Masked` masks interrupts, which does it.)
    #[inline(always)]
    fn pin() {}

    /// Ends what [`pin`](Self::pin) began.
    #[inline(always)]
    fn unpin() {}

    /// Records what there is: a `thread_state` for every thread, a `process_state` for every
    /// process, the names of interrupts and system calls. `start` and `snapshot` call it; `start`
    /// after the switches went on, so that a thread made meanwhile appears once or twice, never not
    /// at all. It walks the kernel's own tables, under the lock that orders creation and end, and
    /// needs no memory. Empty where names are recorded as things are made, and recording starts
    /// before.
    fn dump_state() {}

    /// Whether the one who calls now may. What `read` gives has addresses of the kernel in it, and
    /// what other processes do. The default permits everything: for kernels without users.
    fn permits(call: Call) -> bool {
        let _ = call;
        true
    }

    /// The block to record in, asked when `control` turns out to belong to no session: where blocks
    /// are given out at the first event, every other CPU or thread may share one of zeros, whose
    /// `limit` lets nothing be written. `None`: the event is not recorded.
    fn claim(control: &Control) -> Option<&'static Control> {
        let _ = control;
        None
    }

    /// How deep this context is nested in interrupts: 0 only where the code certainly runs at
    /// thread level. With `LocalCas` in `Overwrite`, the slot of a packet whose writer was killed
    /// is reused from there, and the packet counted as abandoned; elsewhere such a packet stops its
    /// channel, which drops and counts from then on.
    fn nesting() -> u32 {
        1
    }
}

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
    /// Of this and the functions below: `cpu` was got since the code was last free to move, and `W`
    /// is a word of that width.
    unsafe fn load_word<W: ControlWord>(cpu: Self::Cpu) -> usize;
    /// Loads a 32-bit word (relaxed).
    ///
    /// # Safety
    /// As [`load_word`](Self::load_word).
    unsafe fn load<W: ControlWord>(cpu: Self::Cpu) -> u32;
    /// Stores a 32-bit word (relaxed).
    ///
    /// # Safety
    /// As [`load_word`](Self::load_word); and the ring's rules allow the value.
    unsafe fn store<W: ControlWord>(cpu: Self::Cpu, value: u32);
    /// Stores a machine word; all earlier stores are visible before it (release).
    ///
    /// # Safety
    /// As [`store`](Self::store).
    unsafe fn publish_word<W: ControlWord>(cpu: Self::Cpu, value: usize);
    /// The whole block of one channel.
    fn control(cpu: Self::Cpu, kind: ChannelKind) -> &'static Control;
}

/// Switches of all events, by channel: `static SWITCHES: Switches = Switches::new();`
#[derive(Debug)]
pub struct Switches([(ByteSwitches, BitSwitches); CHANNEL_KINDS]);

/// The switches of the compact ids of a channel, and those of all other ids.
pub(crate) type ByteSwitches = [AtomicU8; SWITCHES];
pub(crate) type BitSwitches = [AtomicU8; MORE_SWITCHES];

impl Switches {
    /// All off.
    #[allow(clippy::new_without_default)] // Made for statics.
    pub const fn new() -> Self {
        let off = const {
            (
                [const { AtomicU8::new(0) }; SWITCHES],
                [const { AtomicU8::new(0) }; MORE_SWITCHES],
            )
        };
        Switches([
            off,
            const {
                (
                    [const { AtomicU8::new(0) }; SWITCHES],
                    [const { AtomicU8::new(0) }; MORE_SWITCHES],
                )
            },
        ])
    }

    #[inline(always)]
    pub(crate) fn is_on<E: Event>(&self) -> bool {
        let place = const { switch(E::ID) };
        let (bytes, bits) = &self.0[const { E::CHANNEL as usize }];
        let byte = if place.more {
            &bits[place.byte]
        } else {
            &bytes[place.byte]
        };
        byte.load(Relaxed) & place.mask != 0
    }

    /// The switches of one channel.
    pub(crate) fn of(&self, kind: ChannelKind) -> (&ByteSwitches, &BitSwitches) {
        let (bytes, bits) = &self.0[kind as usize];
        (bytes, bits)
    }
}

/// A word of a control block, as a constant offset from this CPU's first block.
///
/// # Safety
/// `OFFSET` is that of a word of a control block, aligned for it. Only this crate implements it.
pub unsafe trait ControlWord {
    /// The offset in bytes.
    const OFFSET: usize;
    /// Of a switch: the bits of its byte.
    const MASK: u8 = 0xff;
}

macro_rules! control_words {
    ($($(#[$doc:meta])* $name:ident: $field:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name<E>(core::marker::PhantomData<E>);
        // SAFETY: the offset of that field.
        unsafe impl<E: Event> ControlWord for $name<E> {
            const OFFSET: usize = E::CHANNEL as usize * CONTROL_SIZE + offset_of!(Control, $field);
        }
    )*};
}

control_words! {
    /// `cursor` of the event's channel.
    Cursor: cursor;
    /// `limit` of the event's channel.
    Limit: limit;
    /// `epoch` of the event's channel.
    Epoch: epoch;
    /// `mask` of the event's channel.
    Mask: mask;
    /// `base` of the event's channel.
    Base: base;
    /// `events` of the event's channel.
    Events: events;
}

/// The event's switch.
#[derive(Debug)]
pub struct Switch<E>(core::marker::PhantomData<E>);
// SAFETY: the offset of a byte in `on` or `on_more`.
unsafe impl<E: Event> ControlWord for Switch<E> {
    const OFFSET: usize = {
        let first = if switch(E::ID).more {
            offset_of!(Control, on_more)
        } else {
            offset_of!(Control, on)
        };
        E::CHANNEL as usize * CONTROL_SIZE + first + switch(E::ID).byte
    };
    const MASK: u8 = switch(E::ID).mask;
}

/// Gives a pointer to this CPU's first control block, for platforms that keep one in their per-CPU
/// data.
///
/// # Safety
/// As for [`Local`]: the blocks belong to this CPU and stay mapped. Null means that this CPU has
/// none.
pub unsafe trait ControlPointer: 'static {
    /// Whether it is never null: then nothing tests it.
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
        Self::cpu().is_some_and(|cpu| cpu.word::<W, AtomicU8>().load(Relaxed) & W::MASK != 0)
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
}
