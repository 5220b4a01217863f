//! Counters, gauges and histograms of the kernel's own, as its list of macros declares them: a
//! [`CCounters`], which the configuration leads to.
//!
//! A kernel that declares none is not linked with what they need: the session reaches it by the
//! [`Library`] that the macro puts into the table.

use core::ffi::{CStr, c_char};
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use kymo::counter::{CounterSchema, Kind, MOST_WORDS};
use kymo::ctf::tsdl;
use kymo::text::Out;
use kymo::{Memory, Tracer};
use kymo_c_record::port::{Port, kymo_memory_counters};

use crate::error::Refusal;
use crate::vocabulary::{COUNTER_EVENTS, Event};

/// A declaration: `struct kymo_own_counter`.
#[derive(Debug)]
#[repr(C)]
pub struct CCounter {
    /// The number of its first word.
    word: u32,
    /// Of `enum kymo_counter_kind`.
    kind: u32,
    name: *const c_char,
    unit: *const c_char,
}

/// All of a kernel's: `struct kymo_counters`.
#[derive(Debug)]
#[repr(C)]
pub struct CCounters {
    list: *const CCounter,
    count: u32,
    /// Words that they take on each CPU.
    words: u32,
    /// Null only in a table that no macro has made.
    pub(crate) library: Option<&'static Library>,
}

/// A kernel's counters, and the part of the library that they need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnCounters {
    pub(crate) table: &'static CCounters,
    pub(crate) library: &'static Library,
}

impl CCounters {
    /// With the library's part, which a table of the macro's has.
    pub(crate) fn counting(&'static self) -> Option<OwnCounters> {
        let library = self.library?;
        Some(OwnCounters {
            table: self,
            library,
        })
    }
}

// SAFETY: constants of the kernel's.
unsafe impl Sync for CCounters {}

/// What a session needs of this file.
#[derive(Debug)]
pub struct Library {
    /// The events that have what was counted.
    pub(crate) events: &'static [Event],
    pub(crate) check: fn(&CCounters) -> Result<(), Refusal>,
    /// Writes the declarations into the environment of the metadata.
    pub(crate) write: fn(&CCounters, &mut Out<'_>) -> fmt::Result,
    /// Writes what stands before an event of `events`.
    pub(crate) write_numbers: fn(&CCounters, &Event, &mut Out<'_>) -> fmt::Result,
    /// Records what all CPUs have counted.
    pub(crate) record: fn(&CCounters, &Memory, u32, &dyn Fn(u32) -> bool),
}

/// The library's part of every table.
#[unsafe(no_mangle)]
pub static kymo_counters_library: Library = Library {
    events: COUNTER_EVENTS,
    check: CCounters::check,
    write: CCounters::write,
    write_numbers: CCounters::write_numbers,
    record: CCounters::record,
};

/// The counters of the last session; null for none.
static COUNTERS: AtomicPtr<CCounters> = AtomicPtr::new(core::ptr::null_mut());

/// Notes what `kymo_tick` is to record.
pub(crate) fn store(counters: Option<&'static CCounters>) {
    let counters = counters.map_or(core::ptr::null(), core::ptr::from_ref);
    COUNTERS.store(counters.cast_mut(), Relaxed);
}

/// Records what this CPU has counted, if the configuration's `counters_period` has passed since.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_tick() {
    // SAFETY: null, or a table that lives for ever.
    if let Some(counters) = unsafe { COUNTERS.load(Relaxed).as_ref() } {
        // SAFETY: `check` has found that the memory has their words.
        unsafe { Tracer::<Port>::tick_of(counters.each()) };
    }
}

/// Most bytes of a name or a unit.
const LONGEST: usize = 64;

fn is_plain(text: *const c_char) -> bool {
    if text.is_null() {
        return false;
    }
    // SAFETY: the header's macros give texts that end with a NUL.
    let bytes = unsafe { CStr::from_ptr(text) }.to_bytes();
    let is_in = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    (1..=LONGEST).contains(&bytes.len()) && bytes.iter().all(is_in)
}

/// The text, of which [`CCounters::check`] has found that it is ASCII.
fn text(text: *const c_char) -> &'static str {
    // SAFETY: the header's macros give texts that end with a NUL and live for ever; it is ASCII.
    unsafe { core::str::from_utf8_unchecked(CStr::from_ptr(text).to_bytes()) }
}

impl CCounter {
    fn kind(&self) -> Option<Kind> {
        Kind::ALL.get(self.kind as usize).copied()
    }
}

impl CCounters {
    fn list(&self) -> &'static [CCounter] {
        if self.list.is_null() {
            return &[];
        }
        // SAFETY: the header's macro gives a table of so many that lives for ever.
        unsafe { core::slice::from_raw_parts(self.list, self.count as usize) }
    }

    /// Of each, the number of its first word and what it is.
    fn each(&self) -> impl Iterator<Item = (u32, Kind)> + Clone + use<> {
        let list = self.list().iter();
        list.filter_map(|counter| Some((counter.word, counter.kind()?)))
    }

    fn schemas(&self) -> impl Iterator<Item = CounterSchema> {
        self.list().iter().filter_map(|counter| {
            Some(CounterSchema {
                id: counter.word,
                name: text(counter.name),
                unit: text(counter.unit),
                doc: "",
                kind: counter.kind()?,
            })
        })
    }

    fn check(&self) -> Result<(), Refusal> {
        // The macro numbers the words one behind the other.
        let mut word = 0;
        for (index, counter) in self.list().iter().enumerate() {
            let kind = counter.kind().ok_or(Refusal::Invalid)?;
            if counter.word != word || !is_plain(counter.name) || !is_plain(counter.unit) {
                return Err(Refusal::Declaration);
            }
            let before = self.list().iter().take(index);
            if before
                .into_iter()
                .any(|other| text(other.name) == text(counter.name))
            {
                return Err(Refusal::Exists);
            }
            word += kind.words();
            if word > MOST_WORDS {
                return Err(Refusal::TooBig);
            }
        }
        // Of memory that another list was given to.
        if word != self.words || word > kymo_memory_counters {
            return Err(Refusal::Invalid);
        }
        Ok(())
    }

    fn write(&self, out: &mut Out<'_>) -> fmt::Result {
        self.schemas()
            .try_for_each(|counter| tsdl::write_counter(out, &counter))
    }

    fn write_numbers(&self, event: &Event, out: &mut Out<'_>) -> fmt::Result {
        let kinds = Kind::ALL.into_iter();
        let mut kinds = kinds.filter(|kind| kind.event().id == u32::from(event.id));
        kinds.try_for_each(|kind| tsdl::write_counter_numbers(out, kind, self.schemas()))?;
        out.write_str(event.text)
    }

    fn record(&self, memory: &Memory, cpus: u32, is_on: &dyn Fn(u32) -> bool) {
        Tracer::<Port>::record_all_counters(memory, cpus, self.each(), is_on);
    }
}
