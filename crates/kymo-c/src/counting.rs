//! The mode `count`: what `KYMO_COUNTING` defines, a [`CCounting`], and the driver of the kernel's
//! PMU, a [`CPmu`], or that of the processor's architecture, which the module `ready` has.
//!
//! A kernel that does not count is not linked with what this needs: the session reaches it by the
//! [`Library`] that the macro puts into the table.

use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::mem::MaybeUninit;
use core::num::NonZeroU64;
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
    Ordering::SeqCst, compiler_fence,
};

use kymo::boot::Options;
use kymo::count::pmu::{MAX_COUNTERS, Pmu};
use kymo::count::{
    Counting, Cpu, EventKind, EventSpec, Exclude, GroupSpec, Groups, MAX_GROUPS, Software, Turn,
};
use kymo::platform::{Interrupts, Platform};
use kymo::{Mode, Refused, Tracer};
use kymo_c_record::port::{self, Port, PortInterrupts, kymo_memory_cpus, kymo_port_frequency};

use crate::config::CConfig;
use crate::error::Refusal;
use crate::session::SESSIONS;
use crate::vocabulary::{self, CPU_SIZE, Event};

/// `struct kymo_counted`: an event that a counter is to count.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CEvent {
    /// Of `enum kymo_counted_kind`; they and the numbers are those of `perf_event_open(2)`.
    kind: u32,
    /// Modes in which it is not counted: of `KYMO_EXCLUDE_...`.
    exclude: u32,
    number: u64,
}

impl CEvent {
    /// `None` for what no counter of a PMU counts.
    fn new(event: EventKind, exclude: Exclude) -> Option<CEvent> {
        let (kind, number) = match event {
            EventKind::Hardware(event) => (0, event as u64),
            EventKind::Cache(of) => {
                let result = u64::from(of.misses) << 16;
                (3, of.level as u64 | (of.access as u64) << 8 | result)
            }
            EventKind::Raw(number) => (4, number),
            _ => return None,
        };
        let exclude = u32::from(exclude.user) | u32::from(exclude.kernel) << 1;
        Some(CEvent {
            kind,
            exclude,
            number,
        })
    }
}

/// `struct kymo_pmu`: the counters of each CPU, as [`Pmu`] has them. Its functions are called on
/// the CPU whose counters they are, with interrupts masked.
#[derive(Debug)]
#[repr(C)]
pub struct CPmu {
    /// Most events that are counted at the same time.
    slots: u32,
    /// The counters that can count an event, as bits.
    counters: Option<extern "C" fn(*const CEvent) -> u64>,
    width: Option<extern "C" fn(u32) -> u32>,
    program: Option<extern "C" fn(u32, *const CEvent, u64) -> bool>,
    read: Option<extern "C" fn(u32) -> u64>,
    start: Option<extern "C" fn(u64)>,
    stop: Option<extern "C" fn(u64)>,
}

/// No counters.
static NO_PMU: CPmu = CPmu {
    slots: 0,
    counters: None,
    width: None,
    program: None,
    read: None,
    start: None,
    stop: None,
};

impl CPmu {
    fn is_whole(&self) -> bool {
        let CPmu {
            slots: _,
            counters,
            width,
            program,
            read,
            start,
            stop,
        } = self;
        let switches = start.is_some() && stop.is_some();
        let values = program.is_some() && read.is_some() && width.is_some();
        counters.is_some() && values && switches
    }
}

/// A driver for what a table says.
pub(crate) trait Driven: Pmu + Sized + 'static {
    /// A CPU that counts nothing. It is copied: it is larger than a kernel's stack should hold.
    const NOTHING: &'static Cpu<Self, MAX_GROUPS>;

    /// Whether the table has what the driver needs.
    fn is_whole(table: &CCounting) -> bool;

    /// The driver of the CPU that this runs on.
    fn of_this_cpu(table: &CCounting) -> Self;
}

/// The kernel's driver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Driver(&'static CPmu);

impl Driven for Driver {
    const NOTHING: &'static Cpu<Self, MAX_GROUPS> = &Cpu::new(Driver(&NO_PMU));

    fn is_whole(table: &CCounting) -> bool {
        table.pmu.is_aligned() && table.driver().is_some_and(CPmu::is_whole)
    }

    fn of_this_cpu(table: &CCounting) -> Driver {
        Driver(table.driver().unwrap_or(&NO_PMU))
    }
}

impl Pmu for Driver {
    const SLOTS: usize = MAX_COUNTERS;

    fn slots(&self) -> usize {
        (self.0.slots as usize).min(MAX_COUNTERS)
    }

    fn longest_period(&self) -> u64 {
        0
    }

    /// Nobody calls for their interrupts.
    fn interrupting(&self) -> u64 {
        0
    }

    fn counters(&self, event: EventKind, exclude: Exclude) -> u64 {
        let event = CEvent::new(event, exclude);
        match (self.0.counters, event) {
            (Some(counters), Some(event)) => counters(&raw const event),
            _ => 0,
        }
    }

    fn width(&self, counter: u32) -> u32 {
        self.0.width.map_or(64, |width| width(counter)).clamp(1, 64)
    }

    fn program(&mut self, counter: u32, event: EventKind, exclude: Exclude, value: u64) -> bool {
        match (self.0.program, CEvent::new(event, exclude)) {
            (Some(program), Some(event)) => program(counter, &raw const event, value),
            _ => false,
        }
    }

    fn read(&self, counter: u32) -> u64 {
        self.0.read.map_or(0, |read| read(counter))
    }

    /// Only overflows write counters.
    fn write(&mut self, _: u32, _: u64) {}

    fn start(&mut self, counters: u64) {
        if let Some(start) = self.0.start {
            start(counters);
        }
    }

    fn stop(&mut self, counters: u64) {
        if let Some(stop) = self.0.stop {
            stop(counters);
        }
    }

    fn overflowed(&mut self) -> u64 {
        0
    }
}

/// What a CPU counts, in memory that is zero at first.
#[derive(Debug)]
#[repr(C)]
struct OfCpu<P: Driven> {
    head: Head,
    counts: UnsafeCell<MaybeUninit<Cpu<P, MAX_GROUPS>>>,
}

/// What is in front of the counts, the same with every driver.
#[derive(Debug)]
#[repr(C)]
struct Head {
    is_ready: AtomicBool,
    /// Whether somebody has the counts: a driver may trap, and its trap's handler tick.
    is_taken: AtomicBool,
    /// How often software events have happened that the counts do not know of yet: of each, in the
    /// kernel and in programs.
    happened: [[AtomicU32; 2]; Software::ALL.len()],
}

/// What the kernel counts with, once a session was to be started with it; null before.
static TABLE: AtomicPtr<CCounting> = AtomicPtr::new(core::ptr::null_mut());

/// Whether a session has been about to count: before, no tick touches the counters.
static IS_WANTED: AtomicBool = AtomicBool::new(false);

/// What the session counts.
static COUNTING: Counting = Counting::new();

/// `struct kymo_counting`: what `KYMO_COUNTING` defines.
#[derive(Debug)]
#[repr(C)]
pub struct CCounting {
    pmu: *const CPmu,
    places: *mut u8,
    cpus: u32,
    /// Null only in a table that no macro has made.
    library: Option<&'static Library>,
}

// SAFETY: a constant of the kernel's. What it leads to is reached by the functions here, which say
// how.
unsafe impl Sync for CCounting {}

/// What a session needs of this file.
#[derive(Debug)]
pub struct Library {
    /// The events that have what was counted.
    pub(crate) events: &'static [Event],
    /// Makes a table ready to be counted with.
    pub(crate) prepare: fn(&'static CCounting) -> Result<(), Refusal>,
    /// Sets what is counted from the next start on, if this CPU can count it.
    pub(crate) set: fn(&CCounting, Option<&str>, &CConfig) -> Result<(), Refusal>,
    pub(crate) counting: &'static Counting,
    /// [`Counting::turn`], where [`set`](Self::set) has found that nothing will be refused.
    /// Announces an end.
    pub(crate) turn: fn(Turn),
    /// Has all CPUs find what is counted, or that nothing is.
    pub(crate) announce: fn(),
    /// See [`kymo_counting_tick`].
    tick: fn(&CCounting),
    /// Records what this CPU has counted, for an event. Interrupts are masked.
    event_count: fn(&CCounting, u32),
}

impl Library {
    /// What counts with a driver.
    pub(crate) const fn of<P: Driven>() -> Library {
        // The macro aligns to 16 bytes.
        const { assert!(size_of::<OfCpu<P>>() <= CPU_SIZE && align_of::<OfCpu<P>>() <= 16) };
        Library {
            events: vocabulary::GROUP_EVENTS,
            prepare: CCounting::prepare::<P>,
            set: set::<P>,
            counting: &COUNTING,
            turn: |turn| {
                let _ = COUNTING.turn::<Port>(turn);
                if turn == Turn::Ends {
                    announce();
                }
            },
            announce,
            tick: tick::<P>,
            event_count: event_count::<P>,
        }
    }
}

/// The library's part of tables with a driver of the kernel's.
#[unsafe(no_mangle)]
pub static kymo_counting_library: Library = Library::of::<Driver>();

impl CCounting {
    pub(crate) fn library(&self) -> Option<&'static Library> {
        self.library
    }

    /// The kernel's driver, for a pointer that is aligned.
    fn driver(&self) -> Option<&'static CPmu> {
        // SAFETY: null, or a driver that lives for ever, as C's type checker has seen.
        unsafe { self.pmu.as_ref() }
    }

    /// Looks whether the table can be used, and makes it the one that is.
    fn prepare<P: Driven>(&'static self) -> Result<(), Refusal> {
        let has_room = !self.places.is_null() && self.places.cast::<OfCpu<P>>().is_aligned();
        if !P::is_whole(self) || !has_room {
            return Err(Refusal::Fault);
        }
        // CPUs may still count with the first one.
        let is_other = table().is_some_and(|first| !core::ptr::eq(first, self));
        if self.cpus < kymo_memory_cpus || is_other {
            return Err(Refusal::Invalid);
        }
        // Partner: the acquire in `table`.
        TABLE.store(core::ptr::from_ref(self).cast_mut(), Release);
        Ok(())
    }

    /// The place of this CPU; null for one that the table has no room for.
    fn place(&self) -> *const u8 {
        let cpu = port::cpu();
        if cpu >= self.cpus as usize {
            return core::ptr::null();
        }
        self.places.wrapping_add(cpu * CPU_SIZE)
    }

    /// What is in front of this CPU's counts.
    fn head(&self) -> Option<&'static Head> {
        // SAFETY: null, or aligned, as `prepare` has found. The macro has made it, of zeros, for so
        // many CPUs.
        unsafe { self.place().cast::<Head>().as_ref() }
    }

    /// This CPU's counts, with what is in front of them.
    ///
    /// # Safety
    /// The library of this table is that of the driver `P`.
    unsafe fn of_cpu<P: Driven>(&self) -> Option<&'static OfCpu<P>> {
        // SAFETY: as in `head`. Only functions of that library make counts, and they are `P`'s.
        unsafe { self.place().cast::<OfCpu<P>>().as_ref() }
    }
}

impl<P: Driven> OfCpu<P> {
    /// Calls `work` with what this CPU counts, and tells it what has happened; unless somebody has
    /// it already, whom this call has interrupted.
    ///
    /// # Safety
    /// It is this CPU's, of this table, and interrupts are masked.
    unsafe fn with<R>(
        &self,
        table: &CCounting,
        work: impl FnOnce(&mut Cpu<P, MAX_GROUPS>) -> R,
    ) -> Option<R> {
        let head = &self.head;
        if head.is_taken.load(Relaxed) {
            return None;
        }
        head.is_taken.store(true, Relaxed);
        // What interrupts on this CPU sees that before anything else of what follows.
        compiler_fence(SeqCst);
        let counts: *mut Cpu<P, MAX_GROUPS> = self.counts.get().cast();
        if !head.is_ready.load(Relaxed) {
            // SAFETY: nobody else has it. A driver works on its own CPU, with interrupts masked.
            unsafe { self.make(table) };
            head.is_ready.store(true, Relaxed);
        }
        // SAFETY: it is there, and nobody else has it.
        let counts = unsafe { &mut *counts };
        for (event, places) in Software::ALL.iter().zip(&head.happened) {
            for (in_kernel, place) in [true, false].into_iter().zip(places) {
                let times = taken(place);
                counts.happened_often(*event, in_kernel, times.into());
            }
        }
        let result = work(counts);
        compiler_fence(Release);
        head.is_taken.store(false, Relaxed);
        Some(result)
    }

    /// Makes the counts, of zeros before.
    ///
    /// # Safety
    /// Nobody else has them. It is this CPU's, and interrupts are masked.
    // A driver may be large: every tick's stack would have room for one.
    #[cold]
    #[inline(never)]
    unsafe fn make(&self, table: &CCounting) {
        let counts: *mut Cpu<P, MAX_GROUPS> = self.counts.get().cast();
        // SAFETY: there is room, and the copy is the only one that is used.
        unsafe {
            counts.copy_from_nonoverlapping(P::NOTHING, 1);
            *(*counts).pmu_mut() = P::of_this_cpu(table);
        }
    }
}

/// What the session needs of a kernel that counts.
#[inline(always)]
pub(crate) fn library() -> Option<&'static Library> {
    table().and_then(CCounting::library)
}

#[inline(always)]
fn table() -> Option<&'static CCounting> {
    // Partner: the release in `prepare`.
    // SAFETY: null, or a table that lives for ever.
    unsafe { TABLE.load(Acquire).as_ref() }
}

/// The clock in nanoseconds; `None` while its frequency is not known.
fn now() -> Option<u64> {
    const SECOND: u64 = 1_000_000_000;
    let (ticks, frequency) = (Port::clock(), NonZeroU64::new(kymo_port_frequency())?);
    // Without overflow for frequencies below 18 GHz.
    let (seconds, rest) = (ticks / frequency, ticks % frequency);
    let whole = seconds.wrapping_mul(SECOND);
    Some(whole.wrapping_add(rest.wrapping_mul(SECOND) / frequency))
}

/// Sets what is counted: `groups`, or what the configuration says. The table is the one that was
/// made ready, and its library that of the driver `P`.
fn set<P: Driven>(
    table: &CCounting,
    groups: Option<&str>,
    config: &CConfig,
) -> Result<(), Refusal> {
    let named = match config.counting_groups.is_null() {
        true => None,
        // SAFETY: a text that ends with a NUL, as C's type checker has seen.
        false => Some(unsafe { CStr::from_ptr(config.counting_groups) }),
    };
    let named = named.map(CStr::to_str).transpose();
    let options = Options {
        counters: groups.or(named.map_err(|_| Refusal::Invalid)?),
        count_ns: Some(config.counting_ns).filter(|period| *period > 0),
        ..Options::default()
    };
    let groups = options.groups().map_err(|_| Refusal::Invalid)?;
    groups
        .clone()
        .try_for_each(|group| check::<P>(table, &group))?;
    IS_WANTED.store(true, Relaxed);
    let set = SESSIONS.set_counting(Mode::Count as u32, groups, options.count_ns());
    set.map_err(Refusal::from)
}

/// Looks whether this CPU can count a group.
#[inline(never)]
fn check<P: Driven>(table: &CCounting, group: &GroupSpec) -> Result<(), Refused> {
    // No function of the header tells that one was passed.
    let is_tracepoint = |event: &EventSpec| matches!(event.kind, EventKind::Tracepoint(_));
    if group.events().iter().any(is_tracepoint) {
        return Err(Refused::Invalid);
    }
    let saved = PortInterrupts::mask();
    // SAFETY: `set` is called by the table's library.
    let place = unsafe { table.of_cpu::<P>() }.ok_or(Refused::Invalid);
    // SAFETY: it is this CPU's, and interrupts are masked.
    let check = |place: &OfCpu<P>| unsafe { place.with(table, |cpu| cpu.check(group)) };
    let checked = place.and_then(|place| check(place).ok_or(Refused::Busy));
    PortInterrupts::restore(saved);
    checked?.map_err(Refused::Count)
}

/// See [`Library::announce`].
fn announce() {
    if !port::notice() {
        let saved = PortInterrupts::mask();
        kymo_counting_tick();
        PortInterrupts::restore(saved);
    }
}

/// Counts on this CPU what the session counts, and records it when that is due: at every tick of
/// every CPU, with interrupts masked.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_counting_tick() {
    if IS_WANTED.load(Relaxed)
        && let Some(table) = table()
        && let Some(library) = table.library()
    {
        (library.tick)(table);
    }
}

fn tick<P: Driven>(table: &CCounting) {
    // SAFETY: the table's library is that of `P`, which called this.
    let Some(place) = (unsafe { table.of_cpu::<P>() }) else {
        return;
    };
    let count = |cpu: &mut Cpu<P, MAX_GROUPS>| {
        // Asked when the driver is there, which takes long at first. Times that are too large would
        // stay: they never go back.
        let Some(now) = now() else { return };
        let mut nobody = Groups::<0>::NONE;
        cpu.tick(&mut nobody, now);
        Tracer::<Port>::count(&COUNTING, cpu, &mut nobody, now);
    };
    // SAFETY: it is this CPU's, and interrupts are masked.
    unsafe { place.with(table, count) };
}

/// Records what this CPU has counted until now, for an event that was recorded just now, with
/// interrupts masked.
pub(crate) fn record_counts(event: u32) {
    if let Some(table) = table()
        && let Some(library) = table.library()
    {
        (library.event_count)(table, event);
    }
}

fn event_count<P: Driven>(table: &CCounting, event: u32) {
    // SAFETY: the table's library is that of `P`, which called this.
    let Some(place) = (unsafe { table.of_cpu::<P>() }) else {
        return;
    };
    let count = |cpu: &mut Cpu<P, MAX_GROUPS>| {
        // Before a CPU's next tick, it may have the groups of another session.
        if cpu.has_noticed(&COUNTING)
            && let Some(now) = now()
        {
            Tracer::<Port>::event_count(cpu, event, now);
        }
    };
    // SAFETY: it is this CPU's, and interrupts are masked.
    unsafe { place.with(table, count) };
}

/// A software event (of `enum kymo_software`) happened on this CPU, in the kernel or in a program.
/// Interrupts are masked.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_happened(event: u32, in_kernel: bool) {
    let head = table().and_then(CCounting::head);
    let events = head.and_then(|head| head.happened.get(event as usize));
    if let Some(times) = events.and_then(|times| times.get(usize::from(!in_kernel))) {
        add_one(times);
    }
}

/// Takes what has happened.
#[cfg(feature = "nmi")]
fn taken(times: &AtomicU32) -> u32 {
    times.swap(0, Relaxed)
}

/// An NMI whose event has counts may take what has happened meanwhile.
#[cfg(feature = "nmi")]
fn add_one(times: &AtomicU32) {
    times.fetch_add(1, Relaxed);
}

/// Takes what has happened.
#[cfg(not(feature = "nmi"))]
fn taken(times: &AtomicU32) -> u32 {
    let taken = times.load(Relaxed);
    times.store(0, Relaxed);
    taken
}

#[cfg(not(feature = "nmi"))]
fn add_one(times: &AtomicU32) {
    times.store(times.load(Relaxed).wrapping_add(1), Relaxed);
}
