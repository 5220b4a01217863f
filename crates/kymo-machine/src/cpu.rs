//! One CPU: what it runs, and the interrupts on top of it.

use serde::{Deserialize, Serialize};

use crate::counts::Seen;
use crate::irq::IrqLine;
use crate::thread::{Context, ThreadId, passed};

/// Deepest nesting of interrupt handlers that is tracked.
const MAX_NESTING: usize = 64;

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Handler {
    line: IrqLine,
    since: i64,
    /// Time of nested handlers, in nanoseconds.
    nested: u64,
}

/// A CPU, as far as the trace shows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cpu {
    /// Its number.
    pub number: u64,
    /// The running thread, if it is known.
    pub current: Option<ThreadId>,
    /// In the trace of a program that recorded itself, the thread whose ring this is: no loss hides
    /// it.
    pub(crate) holder: Option<ThreadId>,
    /// Context of the running thread while its identity is unknown.
    pub(crate) stranger: Context,
    handlers: Vec<Handler>,
    /// Of each group, its counts at the last event that has some.
    pub(crate) counts: Vec<Seen>,
    /// Time of the last event.
    pub(crate) last: i64,
}

impl Cpu {
    pub(crate) fn new(number: u64) -> Cpu {
        Cpu {
            number,
            ..Cpu::default()
        }
    }

    /// Whether an interrupt's handler is open.
    pub fn is_in_interrupt(&self) -> bool {
        !self.handlers.is_empty()
    }

    /// The interrupt whose handler runs.
    pub fn handler(&self) -> Option<IrqLine> {
        self.handlers.last().map(|handler| handler.line)
    }

    /// Begin of the handler that runs, in nanoseconds from the clock's origin.
    pub fn handler_since(&self) -> Option<i64> {
        self.handlers.last().map(|handler| handler.since)
    }

    pub(crate) fn enter(&mut self, line: IrqLine, time: i64) -> usize {
        if self.handlers.len() >= MAX_NESTING {
            // No processor nests that deep: some exits are missing, nobody knows which.
            self.handlers.clear();
        }
        self.handlers.push(Handler {
            line,
            since: time,
            nested: 0,
        });
        self.handlers.len()
    }

    /// The handler's begin and its time without nested handlers, if it is the innermost one.
    pub(crate) fn leave(&mut self, line: IrqLine, time: i64) -> Option<(i64, u64)> {
        let handler = self.handlers.pop()?;
        if handler.line != line {
            self.handlers.clear();
            return None;
        }
        let whole = passed(handler.since, time);
        if let Some(below) = self.handlers.last_mut() {
            below.nested += whole;
        }
        Some((handler.since, whole.saturating_sub(handler.nested)))
    }

    pub(crate) fn open(&self) -> usize {
        self.handlers.len() + self.stranger.pending() + self.counts.len()
    }

    pub(crate) fn forget(&mut self) {
        self.current = self.holder;
        self.handlers.clear();
        self.counts.clear();
        self.stranger.forget();
    }
}
