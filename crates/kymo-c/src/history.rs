//! What was recorded, on the machine that recorded it: `kymo_dump` and those beside it, `kymo_get`
//! and `kymo_clear`. They are those of [`kymo::History`], which kernels in Rust have, and print by
//! the same code.

use core::ffi::{c_char, c_void};
use core::fmt;
use core::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
    fence,
};

use kymo::Ground;
use kymo::event::Shape;
use kymo::history::{Known, KnownEvent, KnownField, Mark, Reading, Rows};
use kymo::ring::reader::{Region, Shapes};
use kymo::ring::source::{Live, Source};
use kymo::text::Out;
use kymo::vocabulary::Tid;
use kymo_c_record::port::cpu;

use crate::error::Refusal;
use crate::fields::{FIELDS, RECORD_WORDS};
use crate::own::OwnEvent;
use crate::session::Kernel;
use crate::vocabulary::{CONTEXT_EVENTS, COUNTER_EVENTS, GROUP_EVENTS, VOCABULARY};

/// The kernel's own events of the last session, behind a sequence number that is odd while they are
/// stored: one call at a time begins a session, and a panic may come in between.
#[derive(Debug)]
pub(crate) struct Own {
    sequence: AtomicU32,
    first: AtomicPtr<OwnEvent>,
    count: AtomicUsize,
}

/// See [`Own`].
pub(crate) static OWN: Own = Own {
    sequence: AtomicU32::new(0),
    first: AtomicPtr::new(core::ptr::null_mut()),
    count: AtomicUsize::new(0),
};

impl Own {
    pub(crate) fn store(&self, events: &'static [OwnEvent]) {
        let sequence = self.sequence.load(Relaxed) | 1;
        self.sequence.store(sequence, Relaxed);
        // Partner: the acquire fence in `load`. Whoever sees one of the words sees the odd number.
        fence(Release);
        self.first.store(events.as_ptr().cast_mut(), Relaxed);
        self.count.store(events.len(), Relaxed);
        self.sequence.store(sequence.wrapping_add(1), Release);
    }

    fn load(&self) -> &'static [OwnEvent] {
        let sequence = self.sequence.load(Acquire);
        let (first, count) = (self.first.load(Relaxed), self.count.load(Relaxed));
        fence(Acquire);
        let is_whole = sequence.is_multiple_of(2) && self.sequence.load(Relaxed) == sequence;
        if !is_whole || first.is_null() {
            return &[];
        }
        // SAFETY: `kymo_start` was promised a table of so many events that lives for ever.
        unsafe { core::slice::from_raw_parts(first, count) }
    }
}

/// The vocabulary and the kernel's own events. The sizes of records are those of the region: after
/// a warm reset nobody knows the kernel's own events, and records stand behind theirs.
struct Declared<'a, S> {
    own: &'static [OwnEvent],
    region: Option<Region>,
    source: &'a S,
}

impl<S> Declared<'_, S> {
    fn own(&self, id: u32) -> Option<&'static OwnEvent> {
        self.own.iter().find(|event| event.id == id)
    }
}

impl<S: Source> Shapes for Declared<'_, S> {
    fn shape(&self, id: u32) -> Option<Shape> {
        self.region.as_ref()?.shapes(self.source).shape(id)
    }
}

impl<S: Source> Known for Declared<'_, S> {
    fn event(&self, id: u32) -> Option<KnownEvent> {
        let mut listed = VOCABULARY
            .iter()
            .chain(COUNTER_EVENTS)
            .chain(GROUP_EVENTS)
            .chain(CONTEXT_EVENTS);
        listed.find(|event| u32::from(event.id) == id).map_or_else(
            || self.own(id)?.known(),
            |event| {
                Some(KnownEvent {
                    name: event.name(),
                    channel: event.channel,
                })
            },
        )
    }

    fn field(&self, id: u32, index: usize) -> Option<KnownField> {
        let listed = FIELDS.iter().find(|(other, _)| u32::from(*other) == id);
        listed.map_or_else(
            || self.own(id)?.field(index),
            |(_, fields)| fields.get(index).copied(),
        )
    }
}

/// What was cleared.
static MARK: Mark = Mark::new();

/// Passes what was recorded to `read`.
fn reading<R>(read: impl FnOnce(&Reading<'_, Live, Declared<'_, Live>>) -> R) -> R {
    let source = &Kernel.memory().live();
    let known = &Declared {
        own: OWN.load(),
        region: Region::open(source).ok(),
        source,
    };
    read(&Reading {
        source,
        known,
        mark: &MARK,
    })
}

/// Takes a piece of text, of so many bytes; a negative number ends the call.
type Write = extern "C" fn(*mut c_void, *const c_char, usize) -> i32;

#[inline(never)]
fn dump(write: Option<Write>, context: *mut c_void, last_n: usize, rows: Rows) -> i32 {
    let Some(write) = write else {
        return Refusal::Fault.code();
    };
    let mut answer = 0;
    let mut put = |text: &str| {
        answer = write(context, text.as_ptr().cast(), text.len());
        if answer < 0 { Err(fmt::Error) } else { Ok(()) }
    };
    let mut out = Out::new(&mut put);
    // What ended it is in the answer.
    let _ = reading(|reading| reading.dump(&mut out, last_n, rows));
    answer.min(0)
}

/// Prints the newest records of all CPUs.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_dump(write: Option<Write>, context: *mut c_void, last_n: usize) -> i32 {
    dump(write, context, last_n, Rows::One)
}

/// Prints the newest records of each CPU.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_dump_per_cpu(
    write: Option<Write>,
    context: *mut c_void,
    last_n: usize,
) -> i32 {
    dump(write, context, last_n, Rows::PerCpu { dead: None })
}

/// Prints the newest records of each CPU, of which this one will write no more.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_dump_on_panic(
    write: Option<Write>,
    context: *mut c_void,
    last_n: usize,
) -> i32 {
    let dead = Some(cpu() as u32);
    dump(write, context, last_n, Rows::PerCpu { dead })
}

/// `struct kymo_record`.
#[derive(Debug)]
#[repr(C)]
pub struct CRecord {
    time: u64,
    cpu: u32,
    tid: u32,
    id: u32,
    size: u32,
    name: *const u8,
    name_size: usize,
    words: [u32; RECORD_WORDS],
}

/// Gives record number `index`, and as a text.
///
/// # Safety
/// `record` is null, or leads to one that is the caller's; `text` is null, or leads to `size` bytes
/// that are the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kymo_get(
    index: usize,
    record: *mut CRecord,
    text: *mut u8,
    size: usize,
) -> i32 {
    if record.is_null() || !record.is_aligned() {
        return Refusal::Fault.code();
    }
    let text: &mut [u8] = if text.is_null() {
        &mut []
    } else {
        // SAFETY: the caller's promise.
        unsafe { core::slice::from_raw_parts_mut(text, size.min(isize::MAX as usize)) }
    };
    let mut words = [0; RECORD_WORDS];
    let written = reading(|reading| {
        let found = reading.get(index, &mut words)?;
        let event = reading.known.event(found.id());
        let name = event.map_or("", |event| event.name);
        let given = CRecord {
            time: found.time(),
            cpu: found.cpu(),
            tid: reading.thread(&found).unwrap_or(Tid::UNKNOWN).0,
            id: found.id(),
            size: u32::try_from(found.bytes()).unwrap_or(u32::MAX),
            name: name.as_ptr(),
            name_size: name.len(),
            words,
        };
        // SAFETY: the caller's promise.
        unsafe { record.write(given) };
        if text.is_empty() {
            return Some(0);
        }
        let (mut len, mut free) = (0, text.iter_mut());
        let mut put = |piece: &str| {
            len += piece.len();
            // The last byte is the NUL's.
            for &byte in piece.as_bytes() {
                if free.len() > 1
                    && let Some(to) = free.next()
                {
                    *to = byte;
                }
            }
            Ok(())
        };
        // Nothing ends it.
        let _ = reading.write_record(&mut Out::new(&mut put), &found, &words);
        if let Some(end) = free.next() {
            *end = 0;
        }
        Some(len)
    });
    match written {
        Some(len) => i32::try_from(len).unwrap_or(i32::MAX),
        None => Refusal::Invalid.code(),
    }
}

/// Shows none of what was recorded until now any more.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_clear() {
    reading(|reading| reading.clear());
}
