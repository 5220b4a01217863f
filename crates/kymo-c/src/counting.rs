//! The mode `count`: what `KYMO_COUNTING` defines, a [`CCounting`], and the driver of the kernel's
//! PMU, a [`CPmu`].
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

/// The kernel's driver.
#[derive(Clone, Copy, Debug)]
struct Driver(&'static CPmu);

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
struct OfCpu {
    is_ready: AtomicBool,
    /// Whether somebody has the counts: a driver may trap, and its trap's handler tick.
    is_taken: AtomicBool,
    /// How often software events have happened that the counts do not know of yet: of each, in the
    /// kernel and in programs.
    happened: [[AtomicU32; 2]; Software::ALL.len()],
    counts: UnsafeCell<MaybeUninit<Cpu<Driver, MAX_GROUPS>>>,
}

/// A CPU that counts nothing. It is copied: it is larger than a kernel's stack should hold.
static NOTHING: Cpu<Driver, MAX_GROUPS> = Cpu::new(Driver(&NO_PMU));

/// What the kernel counts with, once a session was to be started with it; null before.
static TABLE: AtomicPtr<CCounting> = AtomicPtr::new(core::ptr::null_mut());

/// What the session counts.
static COUNTING: Counting = Counting::new();

// The macro aligns to 16 bytes.
const _: () = assert!(size_of::<OfCpu>() <= CPU_SIZE && align_of::<OfCpu>() <= 16);

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
    pub(crate) set: fn(Option<&str>, &CConfig) -> Result<(), Refusal>,
    pub(crate) counting: &'static Counting,
    /// [`Counting::turn`], where [`set`](Self::set) has found that nothing will be refused. Announces
    /// an end.
    pub(crate) turn: fn(Turn),
    /// Has all CPUs find what is counted, or that nothing is.
    pub(crate) announce: fn(),
}

/// The library's part of every table.
#[unsafe(no_mangle)]
pub static kymo_counting_library: Library = Library {
    events: vocabulary::GROUP_EVENTS,
    prepare: CCounting::prepare,
    set,
    counting: &COUNTING,
    turn: |turn| {
        let _ = COUNTING.turn::<Port>(turn);
        if turn == Turn::Ends {
            announce();
        }
    },
    announce,
};

impl CCounting {
    pub(crate) fn library(&self) -> Option<&'static Library> {
        self.library
    }

    /// Looks whether the table can be used, and makes what is zero at first.
    fn prepare(&'static self) -> Result<(), Refusal> {
        if !self.pmu.is_aligned() {
            return Err(Refusal::Fault);
        }
        // SAFETY: null, or a driver that lives for ever, as C's type checker has seen.
        let pmu = unsafe { self.pmu.as_ref() };
        let has_room = !self.places.is_null() && self.places.cast::<OfCpu>().is_aligned();
        if !pmu.is_some_and(CPmu::is_whole) || !has_room {
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

    /// The place of this CPU; `None` for one that the table has no room for.
    fn place(&self) -> Option<&'static OfCpu> {
        let cpu = port::cpu();
        if cpu >= self.cpus as usize {
            return None;
        }
        let place: *const OfCpu = self.places.wrapping_add(cpu * CPU_SIZE).cast();
        // SAFETY: `prepare` has found that it is aligned. The macro has made it, of zeros, for so
        // many CPUs.
        Some(unsafe { &*place })
    }
}

impl OfCpu {
    /// Calls `work` with what this CPU counts, and tells it what has happened; unless somebody has
    /// it already, whom this call has interrupted.
    ///
    /// # Safety
    /// It is this CPU's, and interrupts are masked.
    unsafe fn with<R>(
        &self,
        table: &CCounting,
        work: impl FnOnce(&mut Cpu<Driver, MAX_GROUPS>) -> R,
    ) -> Option<R> {
        if self.is_taken.load(Relaxed) {
            return None;
        }
        self.is_taken.store(true, Relaxed);
        // What interrupts on this CPU sees that before anything else of what follows.
        compiler_fence(SeqCst);
        let counts: *mut Cpu<Driver, MAX_GROUPS> = self.counts.get().cast();
        if !self.is_ready.load(Relaxed) {
            // SAFETY: there is room. `prepare` has found a driver.
            unsafe {
                counts.copy_from_nonoverlapping(&raw const NOTHING, 1);
                *(*counts).pmu_mut() = Driver(&*table.pmu);
            }
            self.is_ready.store(true, Relaxed);
        }
        // SAFETY: it is there, and nobody else has it.
        let counts = unsafe { &mut *counts };
        for (event, places) in Software::ALL.iter().zip(&self.happened) {
            for (in_kernel, place) in [true, false].into_iter().zip(places) {
                let times = place.load(Relaxed);
                place.store(0, Relaxed);
                counts.happened_often(*event, in_kernel, times.into());
            }
        }
        let result = work(counts);
        compiler_fence(Release);
        self.is_taken.store(false, Relaxed);
        Some(result)
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

/// Sets what is counted: `groups`, or what the configuration says.
fn set(groups: Option<&str>, config: &CConfig) -> Result<(), Refusal> {
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
    groups.clone().try_for_each(|group| check(&group))?;
    let set = SESSIONS.set_counting(Mode::Count as u32, groups, options.count_ns());
    set.map_err(Refusal::from)
}

/// Looks whether this CPU can count a group.
#[inline(never)]
fn check(group: &GroupSpec) -> Result<(), Refused> {
    // No function of the header tells that one was passed.
    let is_tracepoint = |event: &EventSpec| matches!(event.kind, EventKind::Tracepoint(_));
    if group.events().iter().any(is_tracepoint) {
        return Err(Refused::Invalid);
    }
    let saved = PortInterrupts::mask();
    // SAFETY: it is this CPU's, and interrupts are masked.
    let check = |table, place: &OfCpu| unsafe { place.with(table, |cpu| cpu.check(group)) };
    let table = table().ok_or(Refused::NotBuilt);
    let checked = table.and_then(|table| {
        let place = table.place().ok_or(Refused::Invalid)?;
        check(table, place).ok_or(Refused::Busy)
    });
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
    let Some(table) = table() else { return };
    let Some(place) = table.place() else { return };
    // Times that are too large would stay: they never go back.
    let Some(now) = now() else { return };
    let count = |cpu: &mut Cpu<Driver, MAX_GROUPS>| {
        let mut nobody = Groups::<0>::NONE;
        cpu.tick(&mut nobody, now);
        Tracer::<Port>::count(&COUNTING, cpu, &mut nobody, now);
    };
    // SAFETY: it is this CPU's, and interrupts are masked.
    unsafe { place.with(table, count) };
}

/// A software event (of `enum kymo_software`) happened on this CPU, in the kernel or in a program.
/// Interrupts are masked.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_happened(event: u32, in_kernel: bool) {
    let place = table().and_then(CCounting::place);
    let events = place.and_then(|place| place.happened.get(event as usize));
    if let Some(times) = events.and_then(|times| times.get(usize::from(!in_kernel))) {
        times.store(times.load(Relaxed).wrapping_add(1), Relaxed);
    }
}
