//! One CPU: what it runs, and the interrupts on top of it.

use crate::irq::IrqLine;
use crate::thread::{Context, ThreadId, passed};

/// Most handlers inside of one another that are followed.
const MAX_NESTING: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Handler {
    line: IrqLine,
    since: i64,
    /// Time of the handlers that came inside.
    nested: u64,
}

/// What is known of a CPU.
#[derive(Clone, Debug, Default)]
pub struct Cpu {
    /// Its number.
    pub number: u64,
    /// The thread that runs, if that is known.
    pub current: Option<ThreadId>,
    /// What the thread that runs is in the middle of, while it is not known which one that is.
    pub(crate) stranger: Context,
    handlers: Vec<Handler>,
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

    pub(crate) fn enter(&mut self, line: IrqLine, time: i64) -> usize {
        if self.handlers.len() >= MAX_NESTING {
            // More than any processor nests: exits are missing, and which ones is not known.
            self.handlers.clear();
        }
        self.handlers.push(Handler {
            line,
            since: time,
            nested: 0,
        });
        self.handlers.len()
    }

    /// The handler's begin and its own time, if it is the one that began last.
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
        self.handlers.len() + self.stranger.pending()
    }

    pub(crate) fn forget(&mut self) {
        self.current = None;
        self.handlers.clear();
        self.stranger.forget();
    }
}
