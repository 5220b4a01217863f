//! The entry point of every tracepoint.

use core::marker::PhantomData;

use crate::arch;
use crate::channel::ChannelKind;
use crate::event::Event;
use crate::platform::Platform;
use crate::ring::layout::{Control, MAX_IDS};
use crate::ring::local::{Local, Switch};
use crate::ring::masked::{Interrupts, Masked};
use crate::ring::name_epoch::NameEpoch;
use crate::ring::payload::{InPlace, Payload, PayloadWriter};
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

/// Whether an event has a context is a switch too: that of its own id in the channel of samples,
/// where no event but the samples' own is declared.
struct ContextOf<E>(PhantomData<E>);

impl<E: Event> RecordType for ContextOf<E> {
    const CHANNEL: ChannelKind = ChannelKind::Samples;
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
    /// Whether the event is recorded now. Costs one load (two where the block is behind a pointer
    /// in memory) and one test.
    #[inline(always)]
    pub fn is_on<E: Event>() -> bool {
        const { assert!(E::ID < MAX_IDS, "event ids are below 2048") };
        COMPILED_IN
            && match P::switches() {
                Some(switches) => switches.is_on(E::CHANNEL, E::ID),
                None => P::Local::is_on::<Switch<E>>(),
            }
    }

    /// Records the context of an event that was recorded just now, if that is asked for: `trace!`
    /// calls it.
    #[inline(always)]
    pub fn context_of<E: Event>() {
        if COMPILED_IN && P::CONTEXTS {
            let is_on = match P::switches() {
                Some(switches) => switches.is_on(ChannelKind::Samples, E::ID),
                None => P::Local::is_on::<Switch<ContextOf<E>>>(),
            };
            if is_on {
                Self::context(E::ID);
            }
        }
    }

    /// Has a frame of its own, so that the tracepoint is the first caller.
    #[cold]
    #[inline(never)]
    fn context(event: u32) {
        P::context(event, arch::frame_pointer());
    }

    #[inline(always)]
    pub(crate) fn write<R: RecordType>(id: u32, payload: impl Payload) -> bool {
        COMPILED_IN && P::Reserve::record::<P, R>(id, payload)
    }

    /// # Safety
    /// See [`record_masked`](Self::record_masked).
    #[inline(always)]
    unsafe fn write_masked<R: RecordType>(id: u32, payload: impl Payload) -> bool {
        // SAFETY: the caller's promise.
        COMPILED_IN && unsafe { P::Reserve::record_masked::<P, R>(id, payload) }
    }

    /// Records an event, whatever its switch says. Returns whether there was room for it; an event
    /// that was dropped is counted. Whoever does not ask pays nothing for the answer.
    #[inline(always)]
    pub fn record<E: Event>(event: E) -> bool {
        let (words, used) = event.encode();
        let words = words.as_ref();
        Self::write::<E>(E::ID, words.get(..used).unwrap_or(words))
    }

    /// [`record`](Self::record) where the caller has interrupts masked already; two instructions
    /// less on RISC-V.
    ///
    /// # Safety
    /// Until this returns, the code stays on its CPU. With [`Masked`](crate::platform::Masked),
    /// nothing else on this CPU records an event meanwhile: interrupts are masked.
    #[inline(always)]
    pub unsafe fn record_masked<E: Event>(event: E) -> bool {
        let (words, used) = event.encode();
        let words = words.as_ref();
        // SAFETY: the caller's promise.
        unsafe { Self::write_masked::<E>(E::ID, words.get(..used).unwrap_or(words)) }
    }

    /// Records an event of `words` words of payload, which `fill` writes straight into the ring.
    /// Use it for an event that is too large for an interrupt's stack, such as a call chain. Like
    /// [`record`](Self::record), it makes one record, whatever the event's switch says.
    ///
    /// The words must be those that the event's declaration encodes to; words that `fill` does not
    /// write are zero. `fill` runs inside the record: it records nothing, waits for nothing and
    /// does not fault.
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
    pub fn record_in_place<E: Event>(
        words: usize,
        fill: impl FnOnce(&mut PayloadWriter<'_>),
    ) -> bool {
        Self::write::<E>(E::ID, InPlace::new(words, fill))
    }

    /// [`record_in_place`](Self::record_in_place) where the caller has interrupts masked already.
    ///
    /// # Safety
    /// See [`record_masked`](Self::record_masked).
    #[inline(always)]
    pub unsafe fn record_in_place_masked<E: Event>(
        words: usize,
        fill: impl FnOnce(&mut PayloadWriter<'_>),
    ) -> bool {
        // SAFETY: the caller's promise.
        unsafe { Self::write_masked::<E>(E::ID, InPlace::new(words, fill)) }
    }

    /// Whether the event with this id on the events channel is recorded now: for callers that are
    /// not Rust, and know the id only at run time.
    #[inline(always)]
    pub fn is_on_raw(id: u32) -> bool {
        Self::is_on_by_id(ChannelKind::Events, id)
    }

    /// [`is_on_raw`](Self::is_on_raw) for the names channel.
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

    /// Records the event with this id on the events channel, whatever its switch says; `words` is
    /// its payload, as its declaration encodes it. For callers that are not Rust.
    ///
    /// If the words are not what the declaration says, readers misread this record and cannot read
    /// the rest of its packet.
    #[inline(always)]
    pub fn record_raw(id: u32, words: &[u32]) -> bool {
        Self::write::<RawEvent>(id, words)
    }

    /// [`record_raw`](Self::record_raw) where the caller has interrupts masked already.
    ///
    /// # Safety
    /// See [`record_masked`](Self::record_masked).
    #[inline(always)]
    pub unsafe fn record_raw_masked(id: u32, words: &[u32]) -> bool {
        // SAFETY: the caller's promise.
        unsafe { Self::write_masked::<RawEvent>(id, words) }
    }

    /// [`record_raw`](Self::record_raw) into the names channel.
    #[inline(always)]
    pub fn record_raw_name(id: u32, words: &[u32]) -> bool {
        Self::write::<RawName>(id, words)
    }

    /// Records the name of a thing that is about to be used, unless it was recorded in this name
    /// epoch: before the event that carries the thing's id. This way a flight recorder has the
    /// names of all that it shows, however long it runs; see the book's chapter on your kernel.
    ///
    /// Costs a load and a branch where the name's event is off, and two loads and a comparison more
    /// where the thing was named in this epoch already; `name` is called in neither case.
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
        // The constant first: without tracing, not even the text of a name is compiled in.
        if COMPILED_IN
            && Self::is_on::<E>()
            && let Some(epoch) = named.due()
        {
            Self::name(named, epoch, name);
        }
    }

    #[cold]
    #[inline(never)]
    fn name<E: Event>(named: &NameEpoch, epoch: u32, name: impl FnOnce() -> E) {
        // A name that was dropped is still to be told.
        if Self::record(name()) {
            named.named_in(epoch);
        }
    }
}

impl<P: Platform<Reserve = Masked<I>>, I: Interrupts> Tracer<P> {
    /// [`record_raw_masked`](Self::record_raw_masked) at `time`, which the caller has read from the
    /// platform's clock.
    ///
    /// # Safety
    /// See [`record_masked`](Self::record_masked); interrupts have been masked since before the
    /// clock was read.
    #[inline(always)]
    pub unsafe fn record_raw_at(time: u64, id: u32, words: &[u32]) -> bool {
        // SAFETY: the caller's promise.
        COMPILED_IN && unsafe { Masked::<I>::record_at::<P, RawEvent>(time, id, words) }
    }

    /// [`record_raw_at`](Self::record_raw_at) into the names channel.
    ///
    /// # Safety
    /// See there.
    #[inline(always)]
    pub unsafe fn record_raw_name_at(time: u64, id: u32, words: &[u32]) -> bool {
        // SAFETY: the caller's promise.
        COMPILED_IN && unsafe { Masked::<I>::record_at::<P, RawName>(time, id, words) }
    }
}

/// Records an event: `trace!(SchedSwitch { prev_tid, next_tid })`.
///
/// An event that is off costs one load and one branch, and its fields are not evaluated. Without
/// the feature `trace` it costs nothing, but the fields are still checked. The tracer is the
/// calling crate's own `crate::Kymo`.
#[macro_export]
#[allow(clippy::crate_in_macro_def)] // The caller's crate is meant: it names the platform.
macro_rules! trace {
    ($($event:ident)::+ { $($fields:tt)* }) => {
        if crate::Kymo::is_on::<$($event)::+>() {
            crate::Kymo::record($($event)::+ { $($fields)* });
            crate::Kymo::context_of::<$($event)::+>();
        }
    };
}

/// [`trace!`] for places where interrupts are masked already: interrupt handlers, schedulers.
///
/// It stands in an `unsafe` block, because it relies on that: see [`Tracer::record_masked`].
/// ```ignore
/// // SAFETY: interrupts are masked here.
/// unsafe { trace_masked!(IrqEnter { irq }) };
/// ```
#[macro_export]
#[allow(clippy::crate_in_macro_def)] // As above.
macro_rules! trace_masked {
    ($($event:ident)::+ { $($fields:tt)* }) => {
        if crate::Kymo::is_on::<$($event)::+>() {
            crate::Kymo::record_masked($($event)::+ { $($fields)* });
            crate::Kymo::context_of::<$($event)::+>();
        }
    };
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::Tracer;
    use crate::channel::ChannelKind;
    use crate::event::{Event, Vocabulary};
    use crate::ring::Reserve;
    use crate::ring::config::Config;
    use crate::ring::layout::{Clock, Overflow};
    #[cfg(target_pointer_width = "64")]
    use crate::ring::local_cas::LocalCas;
    use crate::ring::masked::Masked;
    use crate::ring::reader::{ChannelReader, Region, View};
    use crate::ring::source::Live;
    use crate::session::Session;
    use crate::thread_cpu::{BLOCK, CLOCK, NoInterrupts, OneThread, leaked};

    crate::event! { #[id(21)] struct Short { seq: u32, check: u32 } }
    crate::event! { #[id(22)] struct Tiny { seq: u32 } }
    crate::event! { #[id(63)] struct Chain { seq: u32, ips: [u64; 20] } }
    static VOCABULARY: Vocabulary = crate::vocabulary![Tiny, Chain];

    /// There is no such writer on 32-bit processors.
    #[cfg(target_pointer_width = "32")]
    type LocalCas = Masked<NoInterrupts>;

    /// A session whose ring holds all that is recorded, on the CPU that the thread is.
    fn start<R: Reserve + 'static>(
        packet_size: u32,
        packets: u32,
        vocabulary: &'static Vocabulary,
    ) -> Session<OneThread<R>> {
        let config = Config {
            cpus: 2,
            packet_size,
            packets,
            names_packets: 4,
            overflow: Overflow::Discard,
            clock: Clock::at(1_000_000_000),
            seed: 1,
            hosted: true,
            ..Config::DEFAULT
        };
        let memory = leaked(2 << 20, 2);
        BLOCK.set(memory.control(0));
        Tracer::<OneThread<R>>::start(memory, &config, vocabulary).unwrap()
    }

    fn events(live: &Live) -> ChannelReader {
        let region = Region::open(live).unwrap();
        region.channel(live, 0, ChannelKind::Events).unwrap()
    }

    /// An event is one record of the same words, whichever way it is recorded: by its declaration,
    /// by number, or in place; in the hot path and in the slow path, with one-word and two-word
    /// headers.
    fn record_in_every_way<R: Reserve + 'static>() {
        type T<R> = Tracer<OneThread<R>>;
        let session = start::<R>(1024, 256, &VOCABULARY);
        assert!(T::<R>::is_on_raw(Tiny::ID) && T::<R>::is_on_raw(Chain::ID));
        assert!(!T::<R>::is_on_raw(Short::ID) && !T::<R>::is_on_raw_name(Tiny::ID));
        let address = |seq: u32, step: u64| u64::from(seq) << 32 | step;
        for seq in 0..600 {
            CLOCK.set(CLOCK.get() + (1 << 20));
            let chain: [u64; 20] = core::array::from_fn(|step| address(seq, step as u64));
            let recorded = match seq % 6 {
                0 => T::<R>::record(Chain { seq, ips: chain }),
                1 => T::<R>::record_raw(Tiny::ID, &[seq]),
                2 => T::<R>::record_in_place::<Chain>(41, |out| {
                    assert_eq!(out.room(), 41);
                    assert!(out.push(seq));
                    assert!(chain.into_iter().all(|ip| out.push_long(ip)));
                    assert!(
                        !out.push(7) && !out.push_long(7),
                        "there is no room for more"
                    );
                }),
                // SAFETY: a test thread has no interrupts.
                3 => unsafe { T::<R>::record_raw_masked(Tiny::ID, &[seq]) },
                // SAFETY: as above.
                4 => unsafe {
                    T::<R>::record_in_place_masked::<Chain>(41, |out| {
                        // Words that are not written are zero, whatever the ring held.
                        out.push(seq);
                    })
                },
                _ => {
                    let mut words = [0; 41];
                    words[0] = seq;
                    for (pair, ip) in words[1..].chunks_mut(2).zip(chain) {
                        pair.copy_from_slice(&[ip as u32, (ip >> 32) as u32]);
                    }
                    T::<R>::record_raw(Chain::ID, &words)
                }
            };
            assert!(recorded, "{seq}");
        }
        // These are longer than a packet, one of them than all memory.
        let all = usize::MAX / 4;
        assert!(!T::<R>::record_in_place::<Chain>(all, |_| panic!(
            "there is no room to write to"
        )));
        assert!(!T::<R>::record_in_place::<Chain>(1000, |_| panic!(
            "there is no room to write to"
        )));
        assert!(!T::<R>::record_raw(Chain::ID, &[0; 1000]));
        session.stop().unwrap();
        let live = session.live();
        let mut reader = events(&live);
        let mut scratch = vec![0; reader.scratch_words()];
        let mut next = 0;
        while let Some(mut batch) = reader.read(&live, View::Live, &mut scratch).unwrap() {
            while let Some(record) = batch.next_record(&VOCABULARY) {
                let seq = record.payload[0];
                assert_eq!(seq, next, "each of them once, and in order");
                next += 1;
                if seq % 2 == 1 && seq % 6 != 5 {
                    assert_eq!((record.id, record.payload), (Tiny::ID, &[seq][..]));
                    continue;
                }
                assert_eq!((record.id, record.payload.len()), (Chain::ID, 41));
                for (step, pair) in record.payload[1..].chunks(2).enumerate() {
                    let expected = if seq % 6 == 4 {
                        0
                    } else {
                        address(seq, step as u64)
                    };
                    let found = u64::from(pair[0]) | u64::from(pair[1]) << 32;
                    assert_eq!(found, expected, "{seq}, {step}");
                }
            }
        }
        assert_eq!(next, 600);
        reader.refresh_losses(&live).unwrap();
        assert_eq!(
            (reader.losses().too_large, reader.losses().events()),
            (3, 3)
        );
    }

    #[test]
    fn records_made_in_place_and_by_number_are_those_of_the_declaration() {
        record_in_every_way::<LocalCas>();
        record_in_every_way::<Masked<NoInterrupts>>();
        #[cfg(target_arch = "x86_64")]
        record_in_every_way::<crate::arch::x86_64::TscCas>();
        #[cfg(target_arch = "aarch64")]
        record_in_every_way::<crate::arch::aarch64::CounterCas>();
    }

    /// A record made in place that another one interrupts: both are whole.
    #[cfg(target_pointer_width = "64")]
    #[test]
    fn a_record_made_in_place_is_interrupted() {
        type T = Tracer<OneThread<LocalCas>>;
        static VOCABULARY: Vocabulary = crate::vocabulary![Short, Tiny];
        let session = start::<LocalCas>(256, 64, &VOCABULARY);
        for seq in (0..200).step_by(2) {
            T::record_in_place::<Short>(2, |out| {
                out.push(seq);
                T::record(Tiny { seq: seq + 1 });
                out.push(!seq);
            });
        }
        session.stop().unwrap();
        let live = session.live();
        let mut reader = events(&live);
        let (mut seen, mut scratch) = (Vec::new(), vec![0; reader.scratch_words()]);
        while let Some(mut batch) = reader.read(&live, View::Live, &mut scratch).unwrap() {
            while let Some(record) = batch.next_record(&VOCABULARY) {
                let seq = record.payload[0];
                match record.id {
                    Tiny::ID => assert_eq!(record.payload.len(), 1),
                    Short::ID => assert_eq!(record.payload, [seq, !seq]),
                    other => panic!("event {other} was never written"),
                }
                seen.push(seq);
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..200).collect::<Vec<_>>());
    }
}
