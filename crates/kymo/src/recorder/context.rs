//! What events record besides themselves.

use crate::ring::layout::MAX_IDS;
use crate::sync::{AtomicU32, Ordering::Relaxed};

/// What an event records besides itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// Who called its tracepoint.
    pub stack: bool,
    /// What its CPU has counted.
    pub counts: bool,
}

impl Context {
    /// Nothing.
    pub const NONE: Context = Context {
        stack: false,
        counts: false,
    };
}

/// A set of events, by id. Only one call at a time changes it.
#[derive(Debug)]
pub(super) struct Ids([AtomicU32; MAX_IDS as usize / 32]);

impl Ids {
    /// The empty set.
    pub(super) const fn new() -> Ids {
        Ids([const { AtomicU32::new(0) }; MAX_IDS as usize / 32])
    }

    fn word(&self, id: u32) -> Option<(&AtomicU32, u32)> {
        Some((self.0.get(id as usize / 32)?, 1 << (id % 32)))
    }

    #[inline]
    pub(super) fn has(&self, id: u32) -> bool {
        self.word(id)
            .is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0)
    }

    pub(super) fn set(&self, id: u32, on: bool) {
        if let Some((word, bit)) = self.word(id) {
            let others = word.load(Relaxed) & !bit;
            word.store(if on { others | bit } else { others }, Relaxed);
        }
    }

    pub(super) fn clear(&self) {
        for word in &self.0 {
            word.store(0, Relaxed);
        }
    }
}
