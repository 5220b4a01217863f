//! Copies of stacks, on which the callers of samples are found.

use std::fmt;

use kymo::vocabulary::ChainEnd;
use kymo_machine::{CallChain, StackPart};
use kymo_symbols::{Chain, Registers, StackCopy};
use rustc_hash::FxHashMap;

/// Finds the callers of a sample, on a copy of its stack, from the number of its process. `None` if
/// files of that are not at hand.
pub type Unwind<'u> = dyn FnMut(u64, Registers, StackCopy<'_>) -> Option<Chain> + 'u;

/// Most bytes of a copy that are kept: as many as programs copy.
const MOST_BYTES: usize = 1 << 16;
/// Most copies that wait for their samples: one for each thread that a trace was cut off in.
const MOST_PENDING: usize = 1 << 12;

/// The stack of a thread's next sample.
#[derive(Debug, Default)]
struct Pending {
    registers: Registers,
    /// Where the first byte was.
    address: u64,
    bytes: Vec<u8>,
}

/// The stacks of the next samples, by thread.
#[derive(Default)]
pub(crate) struct Stacks<'u> {
    unwind: Option<Box<Unwind<'u>>>,
    pending: FxHashMap<u64, Pending>,
}

impl fmt::Debug for Stacks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Stacks");
        out.field("pending", &self.pending).finish_non_exhaustive()
    }
}

impl<'u> Stacks<'u> {
    pub(crate) fn new(unwind: Option<Box<Unwind<'u>>>) -> Stacks<'u> {
        Stacks {
            unwind,
            pending: FxHashMap::default(),
        }
    }

    /// Whether anybody can find callers.
    pub(crate) fn is_used(&self) -> bool {
        self.unwind.is_some()
    }

    /// Records of samples are missing: of a stack, or the sample that it belongs to.
    pub(crate) fn forget(&mut self) {
        self.pending.clear();
    }

    /// Adds a part. One that does not follow the part before is left out: the copy ends there.
    pub(crate) fn add(&mut self, part: &StackPart, words: &[u64]) {
        if self.pending.len() >= MOST_PENDING {
            self.pending.clear();
        }
        let pending = self.pending.entry(part.tid).or_default();
        // The first part begins with the word that the stack pointer points to.
        if part.sp.wrapping_sub(part.address) < 8 {
            pending.bytes.clear();
            pending.address = part.address;
            pending.registers = Registers {
                ip: 0,
                sp: part.sp,
                fp: part.fp,
                link: part.link,
            };
        }
        if pending.registers.sp != part.sp {
            pending.bytes.clear();
            return;
        }
        let end = pending.address.wrapping_add(pending.bytes.len() as u64);
        if end == part.address && pending.bytes.len() < MOST_BYTES {
            let bytes = words.iter().flat_map(|word| word.to_le_bytes());
            pending.bytes.extend(bytes);
        }
    }

    /// Replaces the callers of a program's sample, if its stack was copied and its process's files
    /// are known. `addresses` begins with where the program was.
    pub(crate) fn find_callers(
        &mut self,
        pid: Option<u64>,
        chain: &mut CallChain,
        addresses: &mut Vec<u64>,
    ) {
        // The next sample has a stack of its own, or none.
        let pending = chain.tid.and_then(|tid| self.pending.remove(&tid));
        let (Some(pending), Some(unwind)) = (pending, &mut self.unwind) else {
            return;
        };
        let &[ip, ..] = addresses.as_slice() else {
            return;
        };
        if pending.bytes.is_empty() || chain.kernel.len > 0 {
            return;
        }
        let stack = StackCopy {
            address: pending.address,
            bytes: &pending.bytes,
        };
        let registers = Registers {
            ip,
            ..pending.registers
        };
        if let Some(found) = pid.and_then(|pid| unwind(pid, registers, stack)) {
            let end = end(found.end);
            // Where the tables do not lead on, frame pointers may: in generated code, or in a
            // library of which there is no file.
            if end == ChainEnd::NotCode && found.callers.len() + 1 < addresses.len() {
                return;
            }
            addresses.truncate(1);
            addresses.extend(&found.callers);
            chain.user.len = addresses.len();
            chain.user.end = end;
        }
    }
}

fn end(end: kymo_symbols::ChainEnd) -> ChainEnd {
    use kymo_symbols::ChainEnd as Found;
    match end {
        Found::Outermost => ChainEnd::Complete,
        Found::Depth | Found::StackCopy => ChainEnd::Cut,
        // No table leads on from there.
        _ => ChainEnd::NotCode,
    }
}
