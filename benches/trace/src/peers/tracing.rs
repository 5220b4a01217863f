//! The `tracing` crate with a minimal subscriber, which writes time, call site and fields into a
//! ring of the thread.

use std::arch::x86_64::_rdtsc;
use std::cell::Cell;
use std::fmt::Debug;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use anyhow::{Context, Result};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber, span};

use super::{Ring, make_ring};
use crate::peer::{Peer, RING_BYTES, THREADS};

/// A record with two fields, which `tracing` passes as 64-bit numbers of any declared type.
#[derive(Clone, Copy)]
#[repr(C)]
struct Entry {
    time: u64,
    site: *const Metadata<'static>,
    fields: [u64; 2],
}

const ENTRIES: usize = RING_BYTES / size_of::<Entry>();
type Entries = Ring<Entry, ENTRIES>;

thread_local! {
    static MINE: Cell<*mut Entries> = const { Cell::new(null_mut()) };
}
static ALL: [AtomicPtr<Entries>; THREADS] = [const { AtomicPtr::new(null_mut()) }; THREADS];

struct IntoRing;

/// Stores one field after the other.
struct Fields(*mut u64);

impl Visit for Fields {
    #[inline]
    fn record_u64(&mut self, _: &Field, value: u64) {
        // SAFETY: the events here have two fields, and `event` gave a pointer to room for two.
        unsafe {
            self.0.write(value);
            self.0 = self.0.add(1);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

impl Subscriber for IntoRing {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if metadata.target() == "on" {
            Interest::always()
        } else {
            Interest::never()
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "on"
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::INFO)
    }

    #[inline]
    fn event(&self, event: &Event<'_>) {
        // SAFETY: `enter` gave this thread a ring, and the index is taken modulo its length.
        unsafe {
            let ring = MINE.get();
            let entry = (&raw mut (*ring).records)
                .cast::<Entry>()
                .add((*ring).next as usize % ENTRIES);
            (*entry).time = _rdtsc();
            (*entry).site = event.metadata();
            event.record(&mut Fields((&raw mut (*entry).fields).cast()));
            (*ring).next += 1;
        }
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[inline(never)]
extern "C" fn record(a: u32, b: u32) {
    tracing::event!(target: "on", Level::INFO, a, b);
}

#[inline(never)]
extern "C" fn off(a: u32, b: u32) {
    tracing::event!(target: "off", Level::INFO, a, b);
}

/// The peer.
pub fn peer() -> Result<Peer> {
    tracing::subscriber::set_global_default(IntoRing)
        .context("tracing has a subscriber already")?;
    Ok(Peer {
        name: "`tracing` crate",
        version: env!("TRACING_VERSION").to_owned(),
        configuration: "one global subscriber that stores time, call site and two fields into a ring of the thread; every call site decided once",
        bytes: size_of::<Entry>(),
        record,
        off: Some(off),
        enter: |thread| {
            let ring: *mut Entries = make_ring();
            MINE.set(ring);
            if let Some(slot) = ALL.get(thread) {
                slot.store(ring, Relaxed);
            }
            Ok(())
        },
        read_back: |_, _| {
            // SAFETY: rings are never freed, and no thread records any more.
            let rings = ALL
                .iter()
                .filter_map(|ring| unsafe { ring.load(Relaxed).as_ref() });
            let by_age = |ring: &'static Entries| {
                (0..ENTRIES).filter_map(move |index| {
                    ring.records.get((ring.next as usize + index) % ENTRIES)
                })
            };
            let written = rings.flat_map(by_age).filter(|entry| !entry.site.is_null());
            Ok(written
                .map(|entry| entry.fields.map(|field| field as u32))
                .collect())
        },
    })
}
