//! Call chains: where a CPU was when it was sampled, and where an event was recorded.

use kymo::vocabulary::{ChainEnd, CpuMode};
use kymo_ctf::EventRef;

use crate::machine::{Machine, known};
use crate::thread::ThreadId;
use crate::typed::ChainSource;

/// What a call chain belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainOf {
    /// A sample.
    Sample {
        /// How much it stands for. 0 if the trace does not say.
        period: u64,
        /// What the period counts.
        unit: Period,
        /// Samples that were due since the CPU's previous one and could not be taken. `None` if the
        /// tracer does not count them.
        missed: Option<u64>,
    },
    /// The last event with this id that the same thread recorded before.
    EventBefore {
        /// The id in its event class.
        id: u64,
    },
    /// The event that carries the chain.
    This,
}

/// What the period of a sample counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// Ticks of the trace's clock; of Kymo's samples only.
    Ticks,
    /// Nanoseconds, of another tracer's clock.
    Nanoseconds,
    /// Occurrences of the event after which another tracer named the event class.
    Events,
}

/// One part of a call chain: the kernel's, or the program's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainPart {
    /// Number of addresses.
    pub len: usize,
    /// Whether the first address is that of an instruction. All others are return addresses, which
    /// lie behind their call.
    pub first_is_exact: bool,
    /// Why the part ends.
    pub end: ChainEnd,
}

/// A call chain without its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallChain {
    /// What it belongs to.
    pub of: ChainOf,
    /// Number of the thread, if the event names it.
    pub tid: Option<u64>,
    /// What the CPU was doing, as far as the event shows.
    pub mode: CpuMode,
    /// The kernel's part, which comes first.
    pub kernel: ChainPart,
    /// The program's part.
    pub user: ChainPart,
}

/// A part of a thread's stack, without its words, and registers of the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackPart {
    /// Number of the thread.
    pub tid: u64,
    /// Its stack pointer.
    pub sp: u64,
    /// The register that a frame pointer would be in.
    pub fp: u64,
    /// The link register, on machines with one.
    pub link: Option<u64>,
    /// Where the first word is.
    pub address: u64,
}

impl ChainPart {
    /// A part without addresses.
    pub const ABSENT: ChainPart = ChainPart {
        len: 0,
        first_is_exact: false,
        end: ChainEnd::Absent,
    };

    /// Whether the part ends at a frame whose caller failed a check: a program may begin with such
    /// a frame.
    pub fn is_untrusted(&self) -> bool {
        !matches!(
            self.end,
            ChainEnd::Absent | ChainEnd::Complete | ChainEnd::Cut
        )
    }
}

impl Machine {
    /// The call chain that an event carries, with its addresses, the innermost first, in
    /// `addresses`, which is cleared before. Call it after [`add`](Self::add).
    #[inline]
    pub fn call_chain(&self, event: &EventRef<'_>, addresses: &mut Vec<u64>) -> Option<CallChain> {
        addresses.clear();
        self.chain_source(event)?.read(event, addresses)
    }

    /// Whether an event is a sample of where its CPU or thread was.
    #[inline]
    pub fn is_sample(&self, event: &EventRef<'_>) -> bool {
        self.chain_source(event)
            .is_some_and(ChainSource::is_of_samples)
    }

    /// The part of a stack that an event carries, for the next sample of its thread, with its words
    /// in `words`, which is cleared before.
    pub fn stack_part(&self, event: &EventRef<'_>, words: &mut Vec<u64>) -> Option<StackPart> {
        words.clear();
        self.stack_source(event)?.read(event, words)
    }

    /// The thread whose call chain the last event carries.
    #[inline]
    pub fn whose(&mut self, chain: &CallChain) -> Option<ThreadId> {
        let cpu = self.cpu();
        match chain.tid.and_then(known) {
            Some(tid) => Some(self.known(tid, cpu)),
            None => self.running(cpu?),
        }
    }
}
