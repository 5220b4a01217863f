//! The place up to which the history was cleared: written by whoever clears, read by anyone,
//! without a lock.

use super::merge::Key;
use crate::sync::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, fence};

/// What was there when the history was cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cleared {
    /// The session that it belongs to: in any other one nothing was cleared.
    pub(super) session: u64,
    /// The newest record.
    pub(super) last: Key,
    /// Events recorded until then, overwritten ones too.
    pub(super) recorded: u64,
    /// Events discarded until then.
    pub(super) discarded: u64,
}

const WORDS: usize = 13;

/// The place up to which a history was cleared: a few words behind a sequence number, which is odd
/// while they are written and counts up with each.
#[derive(Debug)]
pub struct Mark {
    sequence: AtomicU32,
    words: [AtomicU32; WORDS],
}

impl Default for Mark {
    fn default() -> Self {
        Mark::new()
    }
}

impl Mark {
    /// Nothing was cleared.
    pub const fn new() -> Self {
        Mark {
            sequence: AtomicU32::new(0),
            words: [const { AtomicU32::new(0) }; WORDS],
        }
    }

    /// Gives the sequence number to loom, and the low words of the time and of what was discarded.
    #[cfg(all(test, loom))]
    pub(super) fn watch(&self) {
        self.sequence.watch();
        self.words[2].watch();
        self.words[8].watch();
    }

    /// Stores `cleared`, unless somebody else is storing one just now.
    pub(super) fn store(&self, cleared: &Cleared) {
        let sequence = self.sequence.load(Relaxed);
        let odd = sequence | 1;
        if sequence == odd
            || self
                .sequence
                .compare_exchange(sequence, odd, Acquire, Relaxed)
                .is_err()
        {
            return;
        }
        // Partner: the acquire fence in `load`. Whoever sees one of these words sees the odd
        // number.
        fence(Release);
        let Key {
            time,
            cpu,
            kind,
            packet,
            word,
        } = cleared.last;
        let longs = [
            cleared.session,
            time,
            packet,
            cleared.recorded,
            cleared.discarded,
        ];
        let longs = longs
            .iter()
            .flat_map(|long| [*long as u32, (*long >> 32) as u32]);
        for (to, from) in self.words.iter().zip(longs.chain([cpu, kind, word])) {
            to.store(from, Relaxed);
        }
        self.sequence.store(odd.wrapping_add(1), Release);
    }

    /// What was stored last, if that was in this session. `None` also while it is written, which a
    /// panic may have cut short.
    pub(super) fn load(&self, session: u64) -> Option<Cleared> {
        let sequence = self.sequence.load(Acquire);
        let words: [u32; WORDS] = core::array::from_fn(|index| {
            self.words.get(index).map_or(0, |word| word.load(Relaxed))
        });
        fence(Acquire);
        if sequence == 0 || !sequence.is_multiple_of(2) || self.sequence.load(Relaxed) != sequence {
            return None;
        }
        let [s0, s1, t0, t1, p0, p1, r0, r1, d0, d1, cpu, kind, word] = words;
        let long = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let last = Key {
            time: long(t0, t1),
            cpu,
            kind,
            packet: long(p0, p1),
            word,
        };
        let cleared = Cleared {
            session: long(s0, s1),
            last,
            recorded: long(r0, r1),
            discarded: long(d0, d1),
        };
        (cleared.session == session).then_some(cleared)
    }
}
