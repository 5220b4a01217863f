//! One CPU: what it runs, and the interrupts on top of it.

use std::collections::BTreeMap;

use crate::context::Context;
use crate::histogram::Histogram;
use crate::thread::passed;

/// Most handlers inside of one another that are followed.
const MAX_NESTING: usize = 64;

#[derive(Debug)]
struct Handler {
    irq: u64,
    since: i64,
    /// Time of the handlers that came inside.
    nested: u64,
}

#[derive(Debug, Default)]
pub(crate) struct CpuState {
    /// A place in the list of threads.
    pub(crate) current: Option<usize>,
    /// What the thread does that runs here, while it is not known which one that is.
    pub(crate) stranger: Context,
    /// By place in the list of threads.
    pub(crate) ran: BTreeMap<usize, u64>,
    pub(crate) switches: u64,
    /// In handlers.
    pub(crate) interrupts: u64,
    handlers: Vec<Handler>,
    /// Time of the last event.
    pub(crate) last: i64,
}

/// One interrupt line.
#[derive(Debug, Default)]
pub(crate) struct IrqState {
    pub(crate) name: Option<String>,
    pub(crate) count: u64,
    /// Without handlers that came inside.
    pub(crate) own: u64,
    /// From entry to exit.
    pub(crate) durations: Histogram,
    /// How many handlers were open at most when this one ran, itself included.
    pub(crate) nesting: usize,
    pub(crate) longest_at: Option<(i64, u64)>,
}

impl CpuState {
    pub(crate) fn enter(&mut self, irq: u64, time: i64) -> usize {
        if self.handlers.len() >= MAX_NESTING {
            // More than any processor nests: exits are missing, and which ones is not known.
            self.handlers.clear();
        }
        self.handlers.push(Handler {
            irq,
            since: time,
            nested: 0,
        });
        self.handlers.len()
    }

    /// The handler's begin and its own time, if it is the one that began last.
    pub(crate) fn leave(&mut self, irq: u64, time: i64) -> Option<(i64, u64)> {
        let handler = self.handlers.pop()?;
        if handler.irq != irq {
            self.handlers.clear();
            return None;
        }
        let whole = passed(handler.since, time);
        if let Some(below) = self.handlers.last_mut() {
            below.nested += whole;
        }
        let own = whole.saturating_sub(handler.nested);
        self.interrupts += own;
        Some((handler.since, own))
    }

    pub(crate) fn is_in_interrupt(&self) -> bool {
        !self.handlers.is_empty()
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
