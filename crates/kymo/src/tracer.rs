//! The entry point of every tracepoint.

use core::marker::PhantomData;

use crate::event::Event;
use crate::platform::{Local, Platform, Switch};
use crate::ring::Reserve;
use crate::ring::layout::ChannelKind;
use crate::ring::name_epoch::NameEpoch;

/// Tracing over one platform. A kernel names it once, at its crate's root, as `Kymo`;
/// [`trace!`](crate::trace) finds it there.
///
/// ```ignore
/// type Kymo = kymo::Tracer<MyPlatform>;
/// ```
#[derive(Debug)]
pub struct Tracer<P>(PhantomData<P>);

/// Whether tracepoints are compiled in (feature `trace`).
pub const COMPILED_IN: bool = cfg!(feature = "trace");

impl<P: Platform> Tracer<P> {
    /// Whether the event is recorded now: one load (two where the block is behind a pointer in
    /// memory), one test.
    #[inline(always)]
    pub fn is_on<E: Event>() -> bool {
        COMPILED_IN
            && match P::switches() {
                Some(switches) => switches.is_on::<E>(),
                None => P::Local::is_on::<Switch<E>>(),
            }
    }

    /// Records an event, whatever its switch says.
    #[inline(always)]
    pub fn record<E: Event>(event: E) {
        P::Reserve::record::<P, E>(event);
    }

    /// Records an event where the caller has interrupts masked already; two instructions less on
    /// RISC-V.
    ///
    /// Where they are not masked, an interrupt that records an event spoils the trace.
    #[inline(always)]
    pub fn record_masked<E: Event>(event: E) {
        P::Reserve::record_masked::<P, E>(event);
    }

    /// Records the name of a thing that is about to be used, unless it was recorded in this name
    /// epoch: before the event that carries the thing's id. So a flight recorder has the names of
    /// all that it shows, however long it runs; see the chapter on your kernel.
    ///
    /// Two loads and a comparison where there is nothing to tell; `name` is not called then.
    ///
    /// ```
    /// use kymo::{NameEpoch, Text, Tid, vocabulary::ThreadName};
    /// # struct MyKernel;
    /// # unsafe impl kymo::platform::ControlPointer for MyKernel {
    /// #     fn get() -> *const kymo::platform::Control { core::ptr::null() }
    /// # }
    /// # unsafe impl kymo::platform::Platform for MyKernel {
    /// #     type Reserve = kymo::platform::LocalCas;
    /// #     type Local = kymo::platform::ByPointer<MyKernel>;
    /// #     fn clock() -> u64 { 0 }
    /// #     fn synchronize() {}
    /// # }
    /// type Kymo = kymo::Tracer<MyKernel>;
    /// struct Thread { tid: Tid, name: &'static str, named: NameEpoch }
    ///
    /// fn switch_to(next: &Thread) {
    ///     Kymo::named(&next.named, || ThreadName { tid: next.tid, name: Text::new(next.name) });
    ///     // Then `trace!(SchedSwitch { .. })`.
    /// }
    /// # switch_to(&Thread { tid: Tid(1), name: "idle", named: NameEpoch::new() });
    /// ```
    #[inline(always)]
    pub fn named<E: Event>(named: &NameEpoch, name: impl FnOnce() -> E) {
        const {
            assert!(
                matches!(E::CHANNEL, ChannelKind::Names),
                "names go to the names channel"
            )
        };
        if COMPILED_IN && let Some(epoch) = named.due() {
            Self::name(named, epoch, name);
        }
    }

    #[cold]
    #[inline(never)]
    fn name<E: Event>(named: &NameEpoch, epoch: u32, name: impl FnOnce() -> E) {
        if Self::is_on::<E>() {
            Self::record(name());
            named.named_in(epoch);
        }
    }
}

/// Records an event: `trace!(SchedSwitch { prev_tid, next_tid })`.
///
/// Off: one load and one branch; the fields are not evaluated. Without the feature `trace`:
/// nothing, but the fields are still checked. The tracer is the calling crate's own `crate::Kymo`.
#[macro_export]
#[allow(clippy::crate_in_macro_def)] // The caller's crate is meant: it names the platform.
macro_rules! trace {
    ($($event:ident)::+ { $($fields:tt)* }) => {
        if crate::Kymo::is_on::<$($event)::+>() {
            crate::Kymo::record($($event)::+ { $($fields)* });
        }
    };
}

/// [`trace!`] for places where interrupts are masked already: interrupt handlers, schedulers. See
/// [`Tracer::record_masked`].
#[macro_export]
#[allow(clippy::crate_in_macro_def)] // As above.
macro_rules! trace_masked {
    ($($event:ident)::+ { $($fields:tt)* }) => {
        if crate::Kymo::is_on::<$($event)::+>() {
            crate::Kymo::record_masked($($event)::+ { $($fields)* });
        }
    };
}
