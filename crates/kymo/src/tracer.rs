//! The entry point of every tracepoint.

use core::marker::PhantomData;

use crate::channel::ChannelKind;
use crate::event::Event;
use crate::platform::Platform;
use crate::ring::layout::Control;
use crate::ring::local::{Local, Switch};
use crate::ring::name_epoch::NameEpoch;
use crate::ring::payload::{InPlace, PayloadWriter};
use crate::ring::{
    Environment, RawEvent, RawName, RecordType, Report, Reserve, StepBack, switches,
};
use crate::vocabulary::ClockBack;

/// What the ring asks for, from what a port provides.
// SAFETY: `Platform` promises the same, word by word.
unsafe impl<P: Platform> Environment for P {
    type Local = P::Local;

    #[inline(always)]
    fn clock() -> u64 {
        P::clock()
    }

    #[inline(always)]
    fn quick_clock() -> u64 {
        P::quick_clock()
    }

    #[inline(always)]
    fn pin() {
        P::pin();
    }

    #[inline(always)]
    fn unpin() {
        P::unpin();
    }

    fn synchronize() {
        P::synchronize();
    }

    fn claim(control: &Control) -> Option<&'static Control> {
        P::claim(control)
    }

    fn nesting() -> u32 {
        P::nesting()
    }

    fn report_step_back(step: StepBack) -> Option<Report> {
        if !Tracer::<P>::is_on::<ClockBack>() {
            return None;
        }
        let report = ClockBack {
            channel: step.channel,
            count: step.count,
            ticks: step.ticks,
        };
        Some(Report {
            id: <ClockBack as Event>::ID,
            words: report.encode().0,
        })
    }
}

impl<E: Event> RecordType for E {
    const CHANNEL: ChannelKind = E::CHANNEL;
    const ID: Option<u32> = Some(E::ID);
}

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
                Some(switches) => switches.is_on(E::CHANNEL, E::ID),
                None => P::Local::is_on::<Switch<E>>(),
            }
    }

    /// Records an event, whatever its switch says.
    #[inline(always)]
    pub fn record<E: Event>(event: E) {
        let (words, used) = event.encode();
        let words = words.as_ref();
        P::Reserve::record::<P, E>(E::ID, words.get(..used).unwrap_or(words));
    }

    /// Records an event where the caller has interrupts masked already; two instructions less on
    /// RISC-V.
    ///
    /// Where they are not masked, an interrupt that records an event spoils the trace.
    #[inline(always)]
    pub fn record_masked<E: Event>(event: E) {
        let (words, used) = event.encode();
        let words = words.as_ref();
        P::Reserve::record_masked::<P, E>(E::ID, words.get(..used).unwrap_or(words));
    }

    /// Records an event of `words` words of payload, which `fill` writes straight into the ring: for
    /// one that is too large for the stack of an interrupt, a call chain say. Whatever its switch
    /// says; one record, as with [`record`](Self::record).
    ///
    /// The words are those that the event's declaration encodes to; what `fill` leaves is zero.
    /// `fill` runs inside the record: it records nothing, waits for nothing and does not fault.
    ///
    /// ```
    /// use kymo::{Address, Sequence};
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
    /// kymo::event! {
    ///     /// The functions that called each other, the innermost first.
    ///     #[id(40)]
    ///     pub struct CallChain { pub tid: u32, pub chain: Sequence<Address, 64> }
    /// }
    /// fn sample(tid: u32, frames: usize, chain: impl Iterator<Item = u64>) {
    ///     Kymo::record_in_place::<CallChain>(2 + 2 * frames, |out| {
    ///         out.push(tid);
    ///         out.push(frames as u32);
    ///         chain.take(frames).for_each(|address| { out.push_long(address); });
    ///     });
    /// }
    /// # sample(1, 2, [0x8000_0000, 0x8000_1000].into_iter());
    /// ```
    #[inline(always)]
    pub fn record_in_place<E: Event>(words: usize, fill: impl FnOnce(&mut PayloadWriter<'_>)) {
        P::Reserve::record::<P, E>(E::ID, InPlace::new(words, fill));
    }

    /// [`record_in_place`](Self::record_in_place) where the caller has interrupts masked already.
    #[inline(always)]
    pub fn record_in_place_masked<E: Event>(
        words: usize,
        fill: impl FnOnce(&mut PayloadWriter<'_>),
    ) {
        P::Reserve::record_masked::<P, E>(E::ID, InPlace::new(words, fill));
    }

    /// Whether the event of the events channel with this id is recorded now: for callers that are
    /// not Rust, and know the id at run time only.
    #[inline(always)]
    pub fn is_on_raw(id: u32) -> bool {
        Self::is_on_by_id(ChannelKind::Events, id)
    }

    /// [`is_on_raw`](Self::is_on_raw) of the names channel.
    #[inline(always)]
    pub fn is_on_raw_name(id: u32) -> bool {
        Self::is_on_by_id(ChannelKind::Names, id)
    }

    #[inline(always)]
    fn is_on_by_id(kind: ChannelKind, id: u32) -> bool {
        if !COMPILED_IN {
            return false;
        }
        if let Some(switches) = P::switches() {
            return switches.is_on(kind, id);
        }
        P::Local::cpu().is_some_and(|cpu| {
            let control = P::Local::control(cpu, kind);
            switches::is_on(&control.on, &control.on_more, id)
        })
    }

    /// Records the event of the events channel with this id, whatever its switch says; `words` is
    /// its payload, as its declaration encodes it: for callers that are not Rust.
    ///
    /// Where the words are not what the declaration says, readers take this record for another and
    /// cannot read the rest of its packet.
    #[inline(always)]
    pub fn record_raw(id: u32, words: &[u32]) {
        P::Reserve::record::<P, RawEvent>(id, words);
    }

    /// [`record_raw`](Self::record_raw) where the caller has interrupts masked already.
    #[inline(always)]
    pub fn record_raw_masked(id: u32, words: &[u32]) {
        P::Reserve::record_masked::<P, RawEvent>(id, words);
    }

    /// [`record_raw`](Self::record_raw) into the names channel.
    #[inline(always)]
    pub fn record_raw_name(id: u32, words: &[u32]) {
        P::Reserve::record::<P, RawName>(id, words);
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
