//! Samples: where the processors were, at intervals.

use super::{Address, Tid};
use crate::Sequence;
use crate::count::Hardware;

/// Most callers that a sample holds.
pub const MAX_CALLERS: usize = 127;

/// Most words in a part of a stack.
pub const STACK_WORDS: usize = 64;

crate::enumeration! {
    /// What a CPU was doing.
    pub enum CpuMode: u8 {
        /// It ran a program.
        User = 0,
        /// It ran the kernel.
        Kernel = 1,
        /// It waited for work in the kernel's idle loop.
        Idle = 2,
    }
}

crate::enumeration! {
    /// Why a call chain, or its part in the kernel or the program, ends. From
    /// [`Misaligned`](ChainEnd::Misaligned) on, the next step failed a check: the callers up to
    /// there are what was found, and there may be more.
    pub enum ChainEnd: u8 {
        /// There is no such part.
        Absent = 0,
        /// It reached the outermost function, or the border between program and kernel.
        Complete = 1,
        /// The depth is reached, and there may be more callers.
        Cut = 2,
        /// A frame pointer is not aligned.
        Misaligned = 3,
        /// A frame pointer leads off the stack, or to memory that is not mapped.
        Unmapped = 4,
        /// A frame is not above the one before: a loop, or another stack.
        NotRising = 5,
        /// A return address is not one of code.
        NotCode = 6,
    }
}

crate::enumeration! {
    /// What makes the samples.
    pub enum SamplingDriver: u8 {
        /// Each CPU's own timer. Code with interrupts masked is seen where it unmasks them.
        Timer = 0,
        /// A CPU that interrupts the others by NMI. Code with interrupts masked is seen too.
        Nmi = 1,
        /// A CPU that interrupts the others, as far as they let it.
        Ipi = 2,
        /// A timer for each thread that counts its processor time.
        ThreadTime = 3,
        /// A counter of each CPU's cycles, which interrupts when it overflows. Code with interrupts
        /// masked is seen where it unmasks them.
        Cycles = 4,
        /// A counter of each CPU's instructions, which interrupts when it overflows. Code with
        /// interrupts masked is seen where it unmasks them.
        Instructions = 5,
    }
}

impl SamplingDriver {
    /// What the counter counts that makes the samples: a sample's period is a number of these.
    /// `None` for drivers whose samples have a period in ticks of the clock.
    pub const fn counts(self) -> Option<Hardware> {
        match self {
            SamplingDriver::Cycles => Some(Hardware::Cycles),
            SamplingDriver::Instructions => Some(Hardware::Instructions),
            _ => None,
        }
    }
}

crate::event! {
    /// A CPU was interrupted to see where it is.
    ///
    /// The callers are return addresses: each lies behind its call. One of the program's is exact
    /// where the chain enters it from the kernel.
    #[id(160)]
    #[channel(Samples)]
    pub struct Sample {
        /// The instruction that would have been next.
        pub ip: Address,
        /// The thread that ran.
        pub tid: Tid,
        /// Ticks of the clock that the sample stands for, or events of the driver's counter.
        pub period: u64,
        /// Samples that were due since the CPU's last one and could not be taken.
        pub missed: u32,
        /// What the CPU was doing.
        pub mode: CpuMode,
        /// How many of the callers, from the first, are kernel code.
        pub kernel_callers: u8,
        /// Why the kernel's part of the chain ends.
        pub kernel_end: ChainEnd,
        /// Why the program's part of the chain ends.
        pub user_end: ChainEnd,
        /// The functions that called each other, the innermost first, without `ip`.
        pub callchain: Sequence<Address, MAX_CALLERS>,
    }
}

crate::event! {
    /// Where the event before was recorded: the last one of its id, by this thread.
    #[id(161)]
    #[channel(Samples)]
    pub struct EventStack {
        /// The event's id.
        pub event: u32,
        /// The tracepoint: an address of the function that it is in, behind it; 0 where that is
        /// not known.
        pub ip: Address,
        /// The thread.
        pub tid: Tid,
        /// How many of the callers, from the first, are kernel code.
        pub kernel_callers: u8,
        /// Why the kernel's part of the chain ends.
        pub kernel_end: ChainEnd,
        /// Why the program's part of the chain ends.
        pub user_end: ChainEnd,
        /// The functions that called each other, the innermost first, without `ip`.
        pub callchain: Sequence<Address, MAX_CALLERS>,
    }
}

crate::event! {
    /// A part of a thread's stack, copied just before the thread's next sample. For programs
    /// without frame pointers: tools find the callers by the unwind tables of the program's files.
    /// The parts of one stack follow each other, from the stack pointer on.
    #[id(163)]
    #[channel(Samples)]
    pub struct StackCopy {
        /// The thread.
        pub tid: Tid,
        /// Its stack pointer.
        pub sp: Address,
        /// The register that a frame pointer would be in.
        pub fp: Address,
        /// The link register; 0 on machines without one.
        pub link: Address,
        /// Where the first of the words is.
        pub address: Address,
        /// The words, from lower to higher addresses.
        pub words: Sequence<Address, STACK_WORDS>,
    }
}

crate::event! {
    /// How samples are taken from here on.
    #[id(162)]
    #[channel(Names)]
    pub struct Sampling {
        /// Ticks of the clock between two samples of a CPU, on average, or events of the driver's
        /// counter, exactly; 0 where none are taken.
        pub period: u64,
        /// Most callers of a sample.
        pub depth: u32,
        /// What makes the samples.
        pub driver: SamplingDriver,
    }
}

super::subject! {
    Sample,
    EventStack,
    StackCopy,
    Sampling,
}
