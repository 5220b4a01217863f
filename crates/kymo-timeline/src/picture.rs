//! The state of the drawing: numbers of tracks and flows, and the time.

use std::io;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::{Canvas, Flow, Label, Name, Noted, Track, TrackId, TrackKind};

/// Name of the group of the threads whose process is not known: each is a [`TrackKind::Lane`], with
/// the thread's number as its rank.
pub const THREADS: &str = "Threads";

/// The groups of tracks, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Group {
    Cpus,
    Kernel,
    Threads,
    Counters,
    Lost,
}

impl Group {
    fn name(self) -> &'static str {
        match self {
            Group::Cpus => "CPUs",
            Group::Kernel => "Kernel",
            Group::Threads => THREADS,
            Group::Counters => "Counters",
            Group::Lost => "Lost",
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Picture<C> {
    pub(crate) canvas: C,
    /// The current time in nanoseconds.
    pub(crate) now: u64,
    tracks: u64,
    flows: u64,
    groups: FxHashMap<Group, TrackId>,
}

impl<C> Picture<C> {
    /// Replaces the canvas by what `change` makes of it. Tracks stay.
    pub(crate) fn on<D>(self, change: impl FnOnce(C) -> D) -> Picture<D> {
        Picture {
            canvas: change(self.canvas),
            now: self.now,
            tracks: self.tracks,
            flows: self.flows,
            groups: self.groups,
        }
    }
}

impl<C: Canvas> Picture<C> {
    pub(crate) fn new(canvas: C) -> Picture<C> {
        Picture {
            canvas,
            now: 0,
            tracks: 0,
            flows: 0,
            groups: FxHashMap::default(),
        }
    }

    pub(crate) fn new_flow(&mut self) -> u64 {
        self.flows += 1;
        self.flows
    }

    pub(crate) fn track(
        &mut self,
        parent: Option<TrackId>,
        kind: TrackKind,
        name: &str,
        rank: u64,
    ) -> io::Result<TrackId> {
        self.tracks += 1;
        self.canvas.track(&Track {
            id: self.tracks,
            parent,
            kind,
            name,
            rank,
        })?;
        Ok(self.tracks)
    }

    /// The group's track, created on first use.
    pub(crate) fn group(&mut self, group: Group) -> io::Result<TrackId> {
        if let Some(&track) = self.groups.get(&group) {
            return Ok(track);
        }
        let track = self.track(None, TrackKind::Group, group.name(), group as u64)?;
        self.groups.insert(group, track);
        Ok(track)
    }

    pub(crate) fn in_group(
        &mut self,
        group: Group,
        kind: TrackKind,
        name: &str,
        rank: u64,
    ) -> io::Result<TrackId> {
        let parent = self.group(group)?;
        self.track(Some(parent), kind, name, rank)
    }

    pub(crate) fn rename(&mut self, track: &Track<'_>) -> io::Result<()> {
        self.canvas.track(track)
    }

    pub(crate) fn begin(
        &mut self,
        track: TrackId,
        name: Name<'_>,
        notes: &[Noted<'_>],
    ) -> io::Result<()> {
        self.begin_flow(track, name, notes, Flow::None)
    }

    pub(crate) fn begin_flow(
        &mut self,
        track: TrackId,
        name: Name<'_>,
        notes: &[Noted<'_>],
        flow: Flow,
    ) -> io::Result<()> {
        self.canvas
            .begin(self.now, track, &Label { name, notes, flow })
    }

    pub(crate) fn end(&mut self, track: TrackId) -> io::Result<()> {
        self.end_flow(track, &[], Flow::None)
    }

    pub(crate) fn end_flow(
        &mut self,
        track: TrackId,
        notes: &[Noted<'_>],
        flow: Flow,
    ) -> io::Result<()> {
        self.canvas.end(
            self.now,
            track,
            &Label {
                notes,
                flow,
                ..Label::default()
            },
        )
    }

    pub(crate) fn point(&mut self, track: TrackId, label: &Label<'_>) -> io::Result<()> {
        self.canvas.point(self.now, track, label)
    }

    pub(crate) fn counter(&mut self, track: TrackId, value: i64) -> io::Result<()> {
        self.canvas.counter(self.now, track, value)
    }
}
