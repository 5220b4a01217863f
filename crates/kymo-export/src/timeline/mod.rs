//! Timelines: tracks with slices, points and counters, for any file format.
//!
//! | events | track | drawn as |
//! | --- | --- | --- |
//! | `sched_switch` | `CPUs` / `CPU n` | a slice by the name of the thread that runs |
//! | interrupts, soft interrupts | `Kernel` / `CPU n interrupts` | a slice by the name of the line; those inside it nest |
//! | `sched_enter`, `sched_exit` | `Kernel` / `CPU n scheduler` | a slice |
//! | switches, wake-ups, suspensions, ends | the thread's `state` | slices: running, runnable, blocked, sleeping, suspended |
//! | system calls | the thread | a slice by the call's name, with arguments and result |
//! | a wait for a lock | the thread's `lock wait` | a slice by the lock's name |
//! | a lock held | the thread's `locks held` | a slice by the lock's name, on as many tracks as locks are held at once |
//! | priorities | the thread's `priority` | a counter |
//! | `span_begin`, `span_end` | the thread's `spans` | a slice |
//! | `counter` | `Counters` / its name | a counter |
//! | `mm_page_alloc`, `mm_page_free` | `Counters` / `frames allocated minus freed` | a counter |
//! | `event_count`, `group_count` | `Counters` / the counted event's name and `, cpuN` | a counter |
//! | losses, damage | `Lost` / the stream | a slice over the time in which it happened |
//! | everything else | the thread's `events`; in an interrupt, or if no thread is known, `Kernel` / `CPU n events` | a point |
//!
//! There are two kinds of flow: from a wake-up to the runnable slice, and from a lock's release to
//! the end of a wait for it.
//!
//! - Slices of one track nest, and each has an end: if the trace has none, it is where the thread
//!   ends, events are lost or the trace ends. An end without a beginning is left out. Every flow
//!   has both ends.
//! - Times are the trace's own. Events of equal time keep their times and their order.
//! - Nothing is guessed across a loss: all slices of its CPU end, and those of every thread that
//!   does not run on another CPU.
//! - Memory grows with threads, CPUs, processes, locks and names, not with events.

mod cpu;
mod lock;
mod mapping;
mod notes;
mod picture;
mod thread;

pub(crate) use mapping::Timeline;

use std::borrow::Cow;
use std::io;

use kymo_profile::Profile;
/// A track's number; consecutive from 1.
pub(crate) type TrackId = u64;

/// The kind of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrackKind {
    /// A group, which only contains other tracks.
    Group,
    /// For slices and points.
    Lane,
    /// A lane that viewers merge with its siblings of the same name.
    OneOfSeveral,
    Process {
        pid: u64,
    },
    Thread {
        pid: u64,
        tid: u64,
    },
    Counter,
}

/// A track, as passed to a [`Canvas`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Track<'a> {
    pub(crate) id: TrackId,
    pub(crate) parent: Option<TrackId>,
    pub(crate) kind: TrackKind,
    pub(crate) name: &'a str,
    /// Its position in its group.
    pub(crate) rank: u64,
}

/// An end of an arrow between slices or points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Flow {
    #[default]
    None,
    Begins(u64),
    Ends(u64),
}

/// The name of a slice, a point or a note.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Name<'a> {
    pub(crate) category: &'static str,
    pub(crate) text: &'a str,
    /// Unique number under which the canvas may cache the name; 0 for none. Only names from the
    /// metadata or this program have one: threads' and locks' may be as many as events.
    pub(crate) number: usize,
}

impl<'a> Name<'a> {
    pub(crate) fn new(category: &'static str, text: &'a str) -> Name<'a> {
        Name {
            category,
            text,
            number: 0,
        }
    }

    const fn known(number: usize, category: &'static str, text: &'a str) -> Name<'a> {
        Name {
            category,
            text,
            number,
        }
    }
}

const SCHEDULER: Name<'_> = Name::known(1, "sched", "scheduler");
const TID: Name<'_> = Name::known(2, "", "tid");
const IRQ: Name<'_> = Name::known(3, "", "irq");
/// First number for names from the metadata.
const FREE: usize = 4;

/// A field's value without structure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Note<'a> {
    Unsigned(u64),
    /// A number that is best shown in hexadecimal.
    Address(u64),
    Signed(i64),
    Float(f64),
    Text(Cow<'a, str>),
}

/// A named value that viewers show with a slice or a point.
#[derive(Debug)]
pub(crate) struct Noted<'a> {
    pub(crate) name: Name<'a>,
    /// Its rank by name among the notes of its label.
    pub(crate) rank: usize,
    pub(crate) note: Note<'a>,
}

impl<'a> Noted<'a> {
    /// The notes of a label that has only this one.
    fn only(name: Name<'a>, note: Note<'a>) -> [Noted<'a>; 1] {
        [Noted {
            name,
            rank: 0,
            note,
        }]
    }
}

/// The name, notes and flow of a slice or a point.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Label<'a> {
    pub(crate) name: Name<'a>,
    pub(crate) notes: &'a [Noted<'a>],
    pub(crate) flow: Flow,
}

/// Something that draws a timeline. Times are in nanoseconds and never decrease, except on tracks
/// of losses.
pub(crate) trait Canvas {
    /// The last time, in nanoseconds, that readers of the format hold exactly. A trace that begins
    /// later is drawn from its beginning on.
    const EXACT: u64 = u64::MAX;
    /// Notes the timeline's origin, if it is not the clock's: nanoseconds from that one.
    fn origin(&mut self, _: i128) {}
    /// Adds a track, or renames the one with its number.
    fn track(&mut self, track: &Track<'_>) -> io::Result<()>;
    fn begin(&mut self, at: u64, track: TrackId, label: &Label<'_>) -> io::Result<()>;
    fn end(&mut self, at: u64, track: TrackId, label: &Label<'_>) -> io::Result<()>;
    fn point(&mut self, at: u64, track: TrackId, label: &Label<'_>) -> io::Result<()>;
    fn counter(&mut self, at: u64, track: TrackId, value: i64) -> io::Result<()>;
    /// Adds samples, behind everything else. `base` is the timeline's origin in nanoseconds from
    /// the clock's.
    fn samples(&mut self, profile: &Profile, base: i128) -> io::Result<()>;
    /// Ends the timeline.
    fn finish(&mut self) -> io::Result<()>;
}
