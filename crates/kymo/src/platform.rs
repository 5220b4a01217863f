//! What a kernel must provide: [`Platform`], and the parts that it is put together from.
//!
//! A port names a clock, how space is reserved ([`Masked`], [`LocalCas`] or [`MaskedCas`]), how
//! code reaches the control blocks of its CPU ([`ByPointer`], or [`arch`](crate::arch)'s own ways),
//! and how to wait for the writers of other CPUs. Everything else has a default.

use crate::count::GroupSpec;
use crate::counter::Counters;
pub use crate::exclusive::{Claim, Exclusive};
use crate::recorder::Refused;
pub use crate::ring::Reserve;
pub use crate::ring::layout::Control;
pub use crate::ring::local::{
    Base, Blocks, ByPointer, ControlPointer, ControlWord, Cursor, Epoch, Events, Limit, Local,
    Mask, Switch,
};
#[cfg(target_pointer_width = "64")]
pub use crate::ring::local_cas::{LocalCas, MaskedCas};
pub use crate::ring::masked::{Interrupts, Masked};
pub use crate::ring::switches::Switches;
use crate::ring::without_ring;
use crate::vocabulary::Sampling;

/// Which call asks for permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Call {
    /// `start`.
    Start,
    /// `read`: what was recorded goes to the caller, including kernel addresses.
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
///   Each CPU's blocks are followed by at least as many words as `COUNTERS` takes.
/// - With `COUNTERS`, `pin` and `unpin` keep the code on its CPU whatever `Reserve` is, unless
///   counters stand only where it stays there: x86-64 counts without a lock.
/// - From the moment a writer fetches them until its record is written, the code neither moves to
///   another CPU nor is switched out: `Masked` ensures this itself; with `LocalCas`, `pin` and
///   `unpin` do.
/// - Code that the rules of `Reserve` cannot keep out of a writer (with `Masked`, an NMI) records
///   no event.
/// - What a writer calls inside a record records no event: `clock`, `quick_clock`, `switches`,
///   `pin`, `unpin`, `claim`, `nesting`, the functions of `Local`, and with `Masked` those of its
///   [`Interrupts`]. Nor do they wait for a writer.
pub unsafe trait Platform: 'static {
    /// How space is reserved.
    type Reserve: Reserve;
    /// Where this CPU's control blocks are.
    type Local: Local;

    /// The clock, in ticks: the same on all CPUs, as far as the hardware allows. A step back is
    /// clamped and counted.
    fn clock() -> u64;

    /// The clock as the hot path of `Masked` reads it: [`clock`](Self::clock), or a cheaper reading
    /// that may be too late by a multiple of 2^27 ticks when a carry came in between. (32-bit
    /// processors that read the low half first, then the high one: such a reading takes the slow
    /// path, which asks `clock`.)
    #[inline(always)]
    fn quick_clock() -> u64 {
        Self::clock()
    }

    /// Returns when every CPU has left any record that it was writing when this was called, and
    /// sees all that this CPU wrote before: for example after an interrupt was sent to every CPU
    /// and answered. `start` calls it several times, before and after it lays out the control
    /// blocks; `stop` calls it after it turned the switches off. Leave it empty where no other CPU
    /// can be at a tracepoint then.
    fn synchronize();

    /// The switches, where the kernel keeps them in one static instead of in every CPU's control
    /// block. This saves a load where the block is found through a pointer in memory.
    #[inline(always)]
    fn switches() -> Option<&'static Switches> {
        None
    }

    /// Keeps the code on this CPU, and from being switched out, until [`unpin`](Self::unpin);
    /// `LocalCas` calls it around every record. Leave it empty where tracepoints stand in code that
    /// is pinned anyway. (`Masked` masks interrupts, which pins the code.)
    #[inline(always)]
    fn pin() {}

    /// Ends what [`pin`](Self::pin) began.
    #[inline(always)]
    fn unpin() {}

    /// Records what exists: a `thread_state` for every thread, a `process_state` for every process,
    /// a `lock_state` for every lock that a thread holds, the names of interrupts and system calls.
    /// `start` and `snapshot` call it, `start` after the
    /// switches went on, so that a thread that is created meanwhile appears at least once, perhaps
    /// twice. It walks the kernel's own tables, under the lock that orders creation and end, and
    /// needs no memory. Leave it empty where names are recorded when things are created, and
    /// recording starts before.
    fn dump_state() {}

    /// Samples are to be taken like this from now on; with a period of 0, no more. Called when the
    /// sample mode starts and stops, when its settings change, and, with a period of 0, where a
    /// session without samples is to record the callers of events, to set their depth. The kernel
    /// hands them to its [`Sampler`](crate::sample::Sampler), and starts or stops the interrupts that
    /// take samples.
    fn sampling(sampling: &Sampling) {
        let _ = sampling;
    }

    /// The kernel's own [counters](mod@crate::counter), which its code may count; the memory of its
    /// control blocks must have as many words for them as they take
    /// ([`Counters::words`](crate::counter::Counters::words)).
    const COUNTERS: Counters = Counters::NONE;

    /// Whether events can have a context: who called their tracepoint, and what the CPU has
    /// counted. Costs a load and a branch an event that is on; without it, [`context`] is never
    /// called.
    ///
    /// [`context`]: Self::context
    const CONTEXTS: bool = false;

    /// Records the context of the event with this id, which was recorded just now: what
    /// [`Recorder::context`](crate::Recorder::context) says, with
    /// [`Tracer::event_stack`](crate::Tracer::event_stack), which takes `fp`, a frame pointer, and
    /// [`Tracer::event_count`](crate::Tracer::event_count).
    fn context(event: u32, fp: usize) {
        let _ = (event, fp);
    }

    /// Every CPU is to count this group from now on, or nothing any more. Called for each group of
    /// the session when the count mode starts, and once when it ends or a group was refused; at the
    /// last call for a group, CPUs find all of them. The kernel looks whether its PMU can count the
    /// group ([`count::check`](crate::count::check)), and has every CPU call
    /// [`Tracer::count`](crate::Tracer::count) before this returns and at every tick. They may call
    /// it at the same time; one that is off calls it when it comes back.
    ///
    /// # Errors
    /// [`Refused::Count`] where the group cannot be counted; a kernel without counters leaves this
    /// as it is.
    fn counting(group: Option<&GroupSpec>) -> Result<(), Refused> {
        match group {
            Some(_) => Err(Refused::NotBuilt),
            None => Ok(()),
        }
    }

    /// Whether the caller may make this call. What `read` gives contains kernel addresses, and
    /// shows what other processes do. The default permits everything: for kernels without users.
    fn permits(call: Call) -> bool {
        let _ = call;
        true
    }

    /// The block to record in, asked for when `control` turns out to belong to no session: where
    /// blocks are given out at the first event, every other CPU or thread may share one of zeros,
    /// whose `limit` lets nothing be written. With `None` the event is not recorded, and whoever
    /// overrides this counts it ([`Control::count_discarded`]).
    fn claim(control: &Control) -> Option<&'static Control> {
        without_ring::count_closed(control);
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
