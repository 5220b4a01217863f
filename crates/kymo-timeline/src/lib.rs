//! Timelines: tracks with slices, points and counters, for any file format and viewer.
//!
//! A [`Timeline`] takes the items of a trace and draws what they mean on a [`Canvas`], such as a file
//! for Perfetto.
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
//! | `event_count`, `group_count` | `Counters` / the counted event's name, its group if there are several, and `, cpuN` | a counter |
//! | losses, damage | `Lost` / the stream | a slice over the time in which it happened |
//! | samples | `Kernel` / `CPU n samples`; without a CPU, as everything else | a point |
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

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod cpu;
mod lock;
mod mapping;
mod notes;
mod picture;
mod thread;

pub use mapping::Timeline;
pub use notes::Fields;
pub use picture::THREADS;

use std::borrow::Cow;
use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};

/// A track's number; consecutive from 1.
pub type TrackId = u64;

/// The kind of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TrackKind {
    /// A group, which only contains other tracks.
    Group,
    /// For slices and points.
    Lane,
    /// A lane that viewers merge with its siblings of the same name.
    OneOfSeveral,
    /// A process, whose threads are inside it.
    Process {
        /// Its number.
        pid: u64,
    },
    /// A thread of a process.
    Thread {
        /// Number of the process.
        pid: u64,
        /// Number of the thread.
        tid: u64,
    },
    /// For values over time.
    Counter,
}

/// A track, as passed to a [`Canvas`].
#[derive(Clone, Copy, Debug)]
pub struct Track<'a> {
    /// Its number.
    pub id: TrackId,
    /// The track that contains it.
    pub parent: Option<TrackId>,
    /// Its kind.
    pub kind: TrackKind,
    /// Its title.
    pub name: &'a str,
    /// Its position in its group.
    pub rank: u64,
}

/// An end of an arrow between slices or points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flow {
    /// No arrow.
    #[default]
    None,
    /// The arrow of this number begins here.
    Begins(u64),
    /// The arrow of this number ends here.
    Ends(u64),
}

/// The name of a slice, a point or a note.
#[derive(Clone, Copy, Debug, Default)]
pub struct Name<'a> {
    /// What kind of thing it names: `sched`, `irq`, `syscall`, `lock`, `span`, `lost`, `sample` or
    /// `event`; empty for notes.
    pub category: &'static str,
    /// The name.
    pub text: &'a str,
    /// Unique number under which the canvas may cache the name; 0 for none. Only names from the
    /// metadata or this program have one: threads' and locks' may be as many as events.
    pub number: usize,
}

impl<'a> Name<'a> {
    /// A name without a number.
    pub fn new(category: &'static str, text: &'a str) -> Name<'a> {
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
pub enum Note<'a> {
    /// A number from 0 on.
    Unsigned(u64),
    /// A number that is best shown in hexadecimal.
    Address(u64),
    /// A number that may be negative.
    Signed(i64),
    /// A floating-point number.
    Float(f64),
    /// A text, or a compound value as JSON.
    Text(Cow<'a, str>),
}

impl fmt::Display for Note<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::Unsigned(value) => value.fmt(f),
            Note::Address(value) => write!(f, "{value:#x}"),
            Note::Signed(value) => value.fmt(f),
            Note::Float(value) => value.fmt(f),
            Note::Text(value) => value.fmt(f),
        }
    }
}

/// A named value that viewers show with a slice or a point.
#[derive(Debug)]
pub struct Noted<'a> {
    /// Its name.
    pub name: Name<'a>,
    /// Its rank by name among the notes of its label.
    pub rank: usize,
    /// The value.
    pub note: Note<'a>,
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
pub struct Label<'a> {
    /// The name.
    pub name: Name<'a>,
    /// The values beside it.
    pub notes: &'a [Noted<'a>],
    /// The arrow that begins or ends there.
    pub flow: Flow,
}

/// Something that draws a timeline. Times are in nanoseconds and never decrease, except on tracks
/// of losses.
pub trait Canvas {
    /// The last time, in nanoseconds, that readers of the format hold exactly. A trace that begins
    /// later is drawn from its beginning on.
    const EXACT: u64 = u64::MAX;
    /// Whether it shows notes. If not, labels have none.
    const HAS_NOTES: bool = true;
    /// Notes the timeline's origin, if it is not the clock's: nanoseconds from that one.
    fn origin(&mut self, _: i128) {}
    /// Adds a track, or renames the one with its number.
    fn track(&mut self, track: &Track<'_>) -> io::Result<()>;
    /// Begins a slice.
    fn begin(&mut self, at: u64, track: TrackId, label: &Label<'_>) -> io::Result<()>;
    /// Ends the innermost open slice of a track.
    fn end(&mut self, at: u64, track: TrackId, label: &Label<'_>) -> io::Result<()>;
    /// Draws a point.
    fn point(&mut self, at: u64, track: TrackId, label: &Label<'_>) -> io::Result<()>;
    /// Draws that a counter has this value from now on.
    fn counter(&mut self, at: u64, track: TrackId, value: i64) -> io::Result<()>;
}
