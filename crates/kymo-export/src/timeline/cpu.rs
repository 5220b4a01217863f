//! One CPU's tracks.

use std::io;

use super::picture::{Group, Picture};
use super::thread::Key;
use super::{Canvas, TrackId, TrackKind};
use crate::value::Note;

/// Most handlers inside of one another that are followed.
const MAX_NESTING: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Cpu {
    number: u64,
    /// Who runs, if that is known.
    pub(super) current: Option<Key>,
    running: Option<TrackId>,
    is_open: bool,
    interrupts: Option<TrackId>,
    /// Numbers of the lines whose handlers are open, and whether they are soft ones.
    handlers: Vec<(u64, bool)>,
    scheduler: Option<TrackId>,
    is_scheduling: bool,
    events: Option<TrackId>,
}

/// A track that is made when it is needed.
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
    pub(super) fn new(number: u64) -> Cpu {
        Cpu {
            number,
            ..Cpu::default()
        }
    }

    pub(super) fn is_in_interrupt(&self) -> bool {
        !self.handlers.is_empty()
    }

    /// The thread of this name runs from here on.
    pub(super) fn run<C: Canvas>(
        &mut self,
        picture: &mut Picture<C>,
        key: Key,
        name: &str,
    ) -> io::Result<()> {
        self.leave(picture)?;
        let track = track!(self, picture, running, Cpus, "", 0);
        picture.begin(track, "sched", name, &[("tid", Note::Unsigned(key.0))])?;
        (self.current, self.is_open) = (Some(key), true);
        Ok(())
    }

    /// Nobody that is known runs from here on.
    pub(super) fn leave<C: Canvas>(&mut self, picture: &mut Picture<C>) -> io::Result<Option<Key>> {
        if let (true, Some(track)) = (std::mem::take(&mut self.is_open), self.running) {
            picture.end(track)?;
        }
        Ok(self.current.take())
    }

    pub(super) fn enter_irq<C: Canvas>(
        &mut self,
        picture: &mut Picture<C>,
        irq: (u64, bool),
        name: &str,
    ) -> io::Result<()> {
        let track = self.interrupts(picture)?;
        if self.handlers.len() >= MAX_NESTING {
            // More than any processor nests: exits are missing.
            self.end_handlers(picture)?;
        }
        self.handlers.push(irq);
        picture.begin(track, "irq", name, &[("irq", Note::Unsigned(irq.0))])
    }

    /// Ends the handler that began last; if that is another one, which one is open is not known,
    /// and all end.
    pub(super) fn exit_irq<C: Canvas>(
        &mut self,
        picture: &mut Picture<C>,
        irq: (u64, bool),
    ) -> io::Result<()> {
        if self.handlers.last() != Some(&irq) {
            return self.end_handlers(picture);
        }
        self.handlers.pop();
        let track = self.interrupts(picture)?;
        picture.end(track)
    }

    fn end_handlers<C: Canvas>(&mut self, picture: &mut Picture<C>) -> io::Result<()> {
        while let (Some(_), Some(track)) = (self.handlers.pop(), self.interrupts) {
            picture.end(track)?;
        }
        Ok(())
    }

    pub(super) fn schedule<C: Canvas>(
        &mut self,
        picture: &mut Picture<C>,
        begins: bool,
    ) -> io::Result<()> {
        let track = track!(self, picture, scheduler, Kernel, " scheduler", 1);
        if std::mem::replace(&mut self.is_scheduling, begins) {
            picture.end(track)?;
        }
        if begins {
            picture.begin(track, "sched", "scheduler", &[])
        } else {
            Ok(())
        }
    }

    pub(super) fn interrupts<C: Canvas>(
        &mut self,
        picture: &mut Picture<C>,
    ) -> io::Result<TrackId> {
        Ok(track!(self, picture, interrupts, Kernel, " interrupts", 0))
    }

    /// For points that belong to no thread.
    pub(super) fn events<C: Canvas>(&mut self, picture: &mut Picture<C>) -> io::Result<TrackId> {
        Ok(track!(self, picture, events, Kernel, " events", 2))
    }

    /// Ends everything that is open here. Gives the thread that ran.
    pub(super) fn close<C: Canvas>(&mut self, picture: &mut Picture<C>) -> io::Result<Option<Key>> {
        self.end_handlers(picture)?;
        if let (true, Some(track)) = (std::mem::take(&mut self.is_scheduling), self.scheduler) {
            picture.end(track)?;
        }
        self.leave(picture)
    }
}
