//! Reads rings and checks every record.

use kymo::ring::reader::{ChannelReader, Losses, View};
use kymo::ring::source::{Live, Outside, Source};

use crate::event::{Call, DEPTHS, VOCABULARY};

/// Words of the largest packet of a run.
const SCRATCH: usize = 256;

/// A fault that a reader found. It has only plain values, because handlers report faults, too.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "read by Debug")]
pub(crate) enum Fault {
    /// The reader left the memory.
    Outside,
    /// A record that no call of this thread wrote.
    Record { id: u32, words: [u32; 2] },
    /// A number that does not follow that of the previous record at the same depth.
    Order { call: Call, expected: u32 },
    /// Time stepped back.
    Time { call: Call, time: u64, before: u64 },
    /// A dump has too few records, or too many.
    Dump {
        found: u64,
        losses: Losses,
        returned: u64,
        calls: u64,
    },
    /// Losses of an impossible kind.
    Losses(Losses),
    /// At the end, calls differ from read + lost.
    Sum {
        calls: u64,
        read: u64,
        gaps: u64,
        losses: Losses,
    },
    /// The reader makes no progress.
    Standstill { verified: u64 },
}

/// Memory whose reader is paused in the middle of a copy, as the system may do at any time, so that
/// the copied packet is often overwritten meanwhile.
pub(crate) struct Halting<'a>(pub(crate) &'a Live);

impl Source for Halting<'_> {
    fn len(&self) -> u64 {
        self.0.len()
    }
    fn load(&self, offset: u64) -> Result<u32, Outside> {
        self.0.load(offset)
    }
    fn load_long(&self, offset: u64) -> Result<u64, Outside> {
        self.0.load_long(offset)
    }
    fn copy(&self, offset: u64, out: &mut [u32]) -> Result<(), Outside> {
        let (first, second) = out.split_at_mut(out.len() / 2);
        self.0.copy(offset, first)?;
        std::thread::yield_now();
        self.0.copy(offset + 4 * first.len() as u64, second)
    }
}

/// The state of checking one thread's ring.
pub(crate) struct Checks {
    thread: u32,
    /// By depth: the next number without losses, modulo 2^32.
    next: [u32; DEPTHS],
    /// By depth: records read.
    read: [u64; DEPTHS],
    /// Numbers left out.
    pub(crate) gaps: u64,
    time: u64,
}

impl Checks {
    pub(crate) fn new(thread: u32) -> Checks {
        Checks {
            thread,
            next: [0; DEPTHS],
            read: [0; DEPTHS],
            gaps: 0,
            time: 0,
        }
    }

    pub(crate) fn read(&self) -> u64 {
        self.read.iter().sum()
    }

    /// Missing numbers, up to the last of this many calls.
    pub(crate) fn gaps_until(&self, called: [u64; DEPTHS]) -> u64 {
        let behind = self
            .next
            .iter()
            .zip(called)
            .map(|(&next, called)| u64::from((called as u32).wrapping_sub(next)));
        self.gaps + behind.sum::<u64>()
    }

    /// Reads and checks at most this many batches; returns their number.
    pub(crate) fn drain(
        &mut self,
        reader: &mut ChannelReader,
        source: &impl Source,
        view: View,
        most: usize,
    ) -> Result<usize, Fault> {
        let mut scratch = [0; SCRATCH];
        let mut batches = 0;
        while batches < most {
            let Some(mut batch) = reader
                .read(source, view, &mut scratch)
                .map_err(|_| Fault::Outside)?
            else {
                break;
            };
            while let Some(record) = batch.next_record(&VOCABULARY) {
                self.check(record.id, record.time, record.payload)?;
            }
            batches += 1;
        }
        reader.refresh_dropped(source).map_err(|_| Fault::Outside)?;
        let losses = reader.losses();
        // In a dump, records after the hole of a stopped writer are lost. No other loss is
        // possible.
        let holes = if view == View::PostMortem {
            losses.unreadable
        } else {
            0
        };
        let spoilt = losses.unreadable - holes
            + losses.clamped
            + losses.too_large
            + losses.clock_back
            + losses.abandoned;
        if spoilt > 0 {
            Err(Fault::Losses(losses))
        } else {
            Ok(batches)
        }
    }

    fn check(&mut self, id: u32, time: u64, payload: &[u32]) -> Result<(), Fault> {
        let call = Call::of(id, payload).filter(|call| call.thread == self.thread);
        let word = |index: usize| payload.get(index).copied().unwrap_or(0);
        let call = call.ok_or(Fault::Record {
            id,
            words: [word(0), word(1)],
        })?;
        let next = &mut self.next[call.depth as usize];
        let gap = call.seq.wrapping_sub(*next);
        // Modulo 2^32, more than half ahead means behind.
        if gap >= 1 << 31 {
            return Err(Fault::Order {
                call,
                expected: *next,
            });
        }
        if time < self.time {
            return Err(Fault::Time {
                call,
                time,
                before: self.time,
            });
        }
        *next = call.seq.wrapping_add(1);
        self.gaps += u64::from(gap);
        self.read[call.depth as usize] += 1;
        self.time = time;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The payload of a record with two words, by thread 2.
    fn record(depth: u32, seq: u32) -> Option<(u32, [u32; 2])> {
        let call = Call {
            thread: 2,
            depth,
            seq,
        };
        [21, 40]
            .contains(&call.id())
            .then(|| (call.id(), [seq, call.tag()]))
    }

    #[test]
    fn gaps_are_counted_and_what_no_call_made_is_refused() {
        let mut checks = Checks::new(2);
        let good: Vec<u32> = (0..100).filter(|&seq| record(1, seq).is_some()).collect();
        for (time, &seq) in (10..).zip(&good) {
            let (id, words) = record(1, seq).unwrap();
            checks.check(id, time, &words).unwrap();
            assert!(
                matches!(checks.check(id, time, &words), Err(Fault::Order { .. })),
                "the same again"
            );
            for bit in 0..64 {
                let mut damaged = words;
                damaged[bit / 32] ^= 1 << (bit % 32);
                assert!(
                    matches!(checks.check(id, time, &damaged), Err(Fault::Record { .. })),
                    "bit {bit} was not missed"
                );
            }
            assert!(
                matches!(
                    checks.check(id ^ 61, time, &words),
                    Err(Fault::Record { .. })
                ),
                "another event"
            );
            assert!(checks.check(id, time, &words[..1]).is_err());
        }
        assert_eq!(checks.read(), good.len() as u64);
        assert_eq!(
            checks.gaps_until([3, 100, 0, 0]),
            3 + 100 - good.len() as u64
        );
        let seq = (100..).find(|&seq| record(1, seq).is_some()).unwrap();
        let (id, words) = record(1, seq).unwrap();
        assert!(matches!(
            checks.check(id, 9, &words),
            Err(Fault::Time { .. })
        ));
        let mut other = Checks::new(1);
        assert!(
            matches!(other.check(id, 99, &words), Err(Fault::Record { .. })),
            "another thread's"
        );
    }
}
