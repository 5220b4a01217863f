//! What happened as tracks with slices, points and counters on them, whatever draws them.
//!
//! | events | on the track | what |
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
//! | losses, damage | `Lost` / the stream | a slice over the time in which it happened |
//! | everything else | the thread's `events`; of an interrupt, or where no thread is known, `Kernel` / `CPU n events` | a point |
//!
//! Two kinds of flow: from what woke a thread to where it is runnable, and from giving a lock back
//! to the end of the wait for it.
//!
//! - Slices of one track nest, and each has its end: where the trace tells none, because the thread
//!   ends, events are lost or the trace ends, it ends there. An end without a beginning is left
//!   out. Every flow has both ends.
//! - Times are the trace's own. Two events of the same time stay so; they are written in their
//!   order.
//! - Where events were lost nothing is made up: all slices of that CPU end, and of each thread that
//!   does not run on another one.
//! - Memory is taken for threads that live, for CPUs, processes, locks and names, not for events.

mod cpu;
mod lock;
mod mapping;
mod notes;
mod picture;
mod thread;

pub(crate) use mapping::Timeline;

use std::io;

use crate::value::Note;

/// A track; they are numbered one after another, from 1.
pub(crate) type TrackId = u64;

/// What kind of track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrackKind {
    /// It only holds others.
    Group,
    /// For slices and points.
    Lane,
    /// The same, one of those by this name that together are one.
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

/// A track as it is told to what draws it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Track<'a> {
    pub(crate) id: TrackId,
    pub(crate) parent: Option<TrackId>,
    pub(crate) kind: TrackKind,
    pub(crate) name: &'a str,
    /// Its place among those of the same group.
    pub(crate) rank: u64,
}

/// An arrow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Flow {
    #[default]
    None,
    Begins(u64),
    Ends(u64),
}

/// What a slice, a point or a note is called.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Name<'a> {
    pub(crate) category: &'static str,
    pub(crate) text: &'a str,
    /// What draws keeps its form of the name by this number, which no other name has; of 0 it keeps
    /// nothing. Numbers are for names that the trace's metadata or this program has: those of
    /// threads and locks may be as many as there are events.
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
/// The first number that is free for the trace's names.
const FREE: usize = 4;

/// A named value that viewers show with a slice or a point.
#[derive(Debug)]
pub(crate) struct Noted<'a> {
    pub(crate) name: Name<'a>,
    /// Its place among the notes of the same label, by name.
    pub(crate) rank: usize,
    pub(crate) note: Note<'a>,
}

impl<'a> Noted<'a> {
    /// The only note of its label.
    fn only(name: Name<'a>, note: Note<'a>) -> [Noted<'a>; 1] {
        [Noted {
            name,
            rank: 0,
            note,
        }]
    }
}

/// What a slice or a point says.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Label<'a> {
    pub(crate) name: Name<'a>,
    pub(crate) notes: &'a [Noted<'a>],
    pub(crate) flow: Flow,
}

/// What draws. Times are nanoseconds and never step back, but on tracks of losses.
pub(crate) trait Canvas {
    /// There is this track; or it has another name from here on.
    fn track(&mut self, track: &Track<'_>) -> io::Result<()>;
    fn begin(&mut self, at: u64, track: TrackId, label: &Label<'_>) -> io::Result<()>;
    fn end(&mut self, at: u64, track: TrackId, label: &Label<'_>) -> io::Result<()>;
    fn point(&mut self, at: u64, track: TrackId, label: &Label<'_>) -> io::Result<()>;
    fn counter(&mut self, at: u64, track: TrackId, value: i64) -> io::Result<()>;
    /// Nothing more comes.
    fn finish(&mut self) -> io::Result<()>;
}
