//! One CPU's tracks.

use std::io;

use kymo_machine::IrqLine;
use serde::{Deserialize, Serialize};

use crate::Note;
use crate::picture::{Group, Picture};
use crate::{Canvas, IRQ, Label, Name, Noted, SCHEDULER, TID, TrackId, TrackKind};

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Cpu {
    number: u64,
    running: Option<TrackId>,
    is_open: bool,
    interrupts: Option<TrackId>,
    /// Number of open handlers.
    handlers: usize,
    scheduler: Option<TrackId>,
    is_scheduling: bool,
    events: Option<TrackId>,
    samples: Option<TrackId>,
}

/// A track, created on first use.
macro_rules! track {
    ($cpu:ident, $picture:ident, $field:ident, $group:ident, $suffix:literal, $place:literal) => {
        match $cpu.$field {
            Some(track) => track,
            None => {
                let name = format!(concat!("CPU {}", $suffix), $cpu.number);
                let rank = $cpu.number.saturating_mul(4).saturating_add($place);
                let track = $picture.in_group(Group::$group, TrackKind::Lane, &name, rank)?;
                $cpu.$field = Some(track);
                track
            }
        }
    };
}

impl Cpu {
    pub(crate) fn new(number: u64) -> Cpu {
        Cpu {
            number,
            ..Cpu::default()
        }
    }

    /// The thread of this number and name begins to run.
    pub(crate) fn run<C: Canvas>(
        &mut self,
        picture: &mut Picture<C>,
        tid: u64,
        name: &str,
    ) -> io::Result<()> {
        self.leave(picture)?;
        let track = track!(self, picture, running, Cpus, "", 0);
        self.is_open = true;
        let tid = Noted::only(TID, Note::Unsigned(tid));
        picture.begin(track, Name::new("sched", name), &tid)
    }

    /// Ends the slice of the running thread.
    pub(crate) fn leave<C: Canvas>(&mut self, picture: &mut Picture<C>) -> io::Result<()> {
        match (std::mem::take(&mut self.is_open), self.running) {
            (true, Some(track)) => picture.end(track),
            _ => Ok(()),
        }
    }

    pub(crate) fn enter_irq<C: Canvas>(
        &mut self,
        picture: &mut Picture<C>,
        line: IrqLine,
        depth: usize,
        name: &str,
    ) -> io::Result<()> {
        let track = self.interrupts(picture)?;
        if depth <= self.handlers {
            // Exits are missing: the machine has forgotten the other handlers.
            self.end_handlers(picture)?;
        }
        self.handlers += 1;
        let line = Noted::only(IRQ, Note::Unsigned(line.number()));
        picture.begin(track, Name::new("irq", name), &line)
    }

    /// Ends the innermost handler.
    pub(crate) fn exit_irq<C: Canvas>(&mut self, picture: &mut Picture<C>) -> io::Result<()> {
        match (self.handlers.checked_sub(1), self.interrupts) {
            (Some(left), Some(track)) => {
                self.handlers = left;
                picture.end(track)
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn end_handlers<C: Canvas>(&mut self, picture: &mut Picture<C>) -> io::Result<()> {
        while self.handlers > 0 {
            self.exit_irq(picture)?;
        }
        Ok(())
    }

    pub(crate) fn schedule<C: Canvas>(
        &mut self,
        picture: &mut Picture<C>,
        begins: bool,
    ) -> io::Result<()> {
        let track = track!(self, picture, scheduler, Kernel, " scheduler", 1);
        if std::mem::replace(&mut self.is_scheduling, begins) {
            picture.end(track)?;
        }
        if begins {
            picture.begin(track, SCHEDULER, &[])
        } else {
            Ok(())
        }
    }

    pub(crate) fn interrupts<C: Canvas>(
        &mut self,
        picture: &mut Picture<C>,
    ) -> io::Result<TrackId> {
        Ok(track!(self, picture, interrupts, Kernel, " interrupts", 0))
    }

    /// The track for points that belong to no thread.
    pub(crate) fn events<C: Canvas>(&mut self, picture: &mut Picture<C>) -> io::Result<TrackId> {
        Ok(track!(self, picture, events, Kernel, " events", 2))
    }

    /// Draws a sample as a point.
    pub(crate) fn sample<C: Canvas>(
        &mut self,
        picture: &mut Picture<C>,
        label: &Label<'_>,
    ) -> io::Result<()> {
        let track = track!(self, picture, samples, Kernel, " samples", 3);
        picture.point(track, label)
    }

    /// Ends all open slices.
    pub(crate) fn close<C: Canvas>(&mut self, picture: &mut Picture<C>) -> io::Result<()> {
        self.end_handlers(picture)?;
        if let (true, Some(track)) = (std::mem::take(&mut self.is_scheduling), self.scheduler) {
            picture.end(track)?;
        }
        self.leave(picture)
    }
}
