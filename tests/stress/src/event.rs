//! The recorded events: thread and depth, number, and a checksum, in records of several sizes and
//! headers.

use kymo::Vocabulary;
use kymo::event::Event;

/// Number of recording threads.
pub(crate) const THREADS: usize = 4;
/// Number of depths: the thread itself, and three signals.
pub(crate) const DEPTHS: usize = 4;

kymo::event! { #[id(21)] pub(crate) struct Short { pub(crate) seq: u32, pub(crate) tag: u32 } }
kymo::event! { #[id(22)] pub(crate) struct Long { pub(crate) seq: u32, pub(crate) tag: u32, pub(crate) more: [u32; 2] } }
kymo::event! { #[id(23)] pub(crate) struct Wide { pub(crate) seq: u32, pub(crate) tag: u32, pub(crate) more: [u32; 7] } }
kymo::event! { #[id(40)] pub(crate) struct Medium { pub(crate) seq: u32, pub(crate) tag: u32 } }

/// Everything.
pub(crate) static VOCABULARY: Vocabulary = kymo::vocabulary![Short, Long, Wide, Medium];

/// A call of a tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// The thread's number.
    pub(crate) thread: u32,
    /// Its nesting depth in signals.
    pub(crate) depth: u32,
    /// Counts the calls of this thread at this depth, modulo 2^32.
    pub(crate) seq: u32,
}

impl Call {
    fn who(self) -> u32 {
        self.thread * DEPTHS as u32 + self.depth
    }

    /// Thread and depth in the low four bits; above them the checksum of these and the number.
    pub(crate) fn tag(self) -> u32 {
        mix(self.seq, self.who()) & !0xf | self.who()
    }

    /// The words after the tag.
    pub(crate) fn more<const N: usize>(self) -> [u32; N] {
        std::array::from_fn(|index| mix(self.seq, self.who() + 16 * (index as u32 + 1)))
    }

    /// The event that this call records.
    pub(crate) fn id(self) -> u32 {
        match mix(self.seq, 77) % 8 {
            0..5 => Short::ID,
            5 => Long::ID,
            6 => Wide::ID,
            _ => Medium::ID,
        }
    }

    /// The call that made a record; `None` if no call makes such a record.
    pub(crate) fn of(id: u32, payload: &[u32]) -> Option<Call> {
        let &[seq, tag, ref more @ ..] = payload else {
            return None;
        };
        let call = Call {
            thread: tag % 16 / DEPTHS as u32,
            depth: tag % DEPTHS as u32,
            seq,
        };
        let good = tag == call.tag()
            && id == call.id()
            && match id {
                Long::ID => *more == call.more::<2>(),
                Wide::ID => *more == call.more::<7>(),
                _ => more.is_empty(),
            };
        good.then_some(call)
    }
}

const _: () = assert!(THREADS * DEPTHS == 16, "who fits into four bits");

/// A number in which every bit depends on every bit of `a` and `b` (the last steps of MurmurHash3).
fn mix(a: u32, b: u32) -> u32 {
    let mut x = a.wrapping_mul(0x9e37_79b9) ^ b.wrapping_mul(0x85eb_ca6b).rotate_left(16);
    x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
    x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
    x ^ (x >> 16)
}
