//! The finished profile.

use std::sync::Arc;

use kymo_ctf::ClockClass;

/// Makes an index type of a table of [`Profile`].
macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The index.
            pub fn index(self) -> usize {
                self.0 as usize
            }

            /// The id of what is added next to a table of this length.
            pub fn next(len: usize) -> $name {
                $name(u32::try_from(len).unwrap_or(u32::MAX))
            }
        }
    };
}

id! {
    /// Index in [`Profile::images`].
    ImageId
}
id! {
    /// Index in [`Profile::functions`].
    FunctionId
}
id! {
    /// Index in [`Profile::frames`].
    FrameId
}
id! {
    /// Index in [`Profile::stacks`].
    StackId
}

/// What a CPU was doing when it was sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// It ran a program.
    User,
    /// It ran the kernel.
    Kernel,
    /// It waited for work in the kernel.
    Idle,
}

/// What a row's weight counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Samples.
    #[default]
    Samples,
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes.
    Bytes,
}

impl Unit {
    /// Its plural: `samples`, `ns`, `bytes`.
    pub fn label(self) -> &'static str {
        match self {
            Unit::Samples => "samples",
            Unit::Nanoseconds => "ns",
            Unit::Bytes => "bytes",
        }
    }
}

/// What the periods of samples count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PeriodUnit {
    /// Ticks of the trace's clock.
    #[default]
    Ticks,
    /// Nanoseconds.
    Nanoseconds,
    /// Occurrences of the event of this name.
    Events(Arc<str>),
}

/// A kernel or program in which addresses lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileImage {
    /// `kernel`, or the path of the program or the library. For a program whose path the trace
    /// lacks, its process.
    pub name: Arc<str>,
    /// Whether it is the kernel.
    pub is_kernel: bool,
    /// The build id of the file that was read for it, in hexadecimal; empty if there is none.
    pub build_id: String,
    /// Whether a file was read for it.
    pub has_file: bool,
    /// Why the file's debug information could not be read to its end.
    pub damage: Option<String>,
    /// How far above its linked addresses it was loaded.
    pub bias: u64,
    /// How many of its addresses got a name.
    pub coverage: Coverage,
}

impl ProfileImage {
    /// Whether both were read from one file, in two processes.
    pub fn is_file_of(&self, other: &ProfileImage) -> bool {
        let file = |of: &ProfileImage| (of.has_file, of.is_kernel);
        file(self) == file(other)
            && self.has_file
            && self.name == other.name
            && self.build_id == other.build_id
    }
}

/// How many of an image's addresses got the name of a function, if a file was read for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Distinct addresses that were looked up.
    pub addresses: u64,
    /// Those without a name.
    pub unnamed: u64,
    /// Those that are outside of the file as it was loaded.
    pub outside: u64,
    /// Whether the file names any function.
    pub has_names: bool,
}

/// A function, or whatever a frame is to be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileFunction {
    /// The readable name; `image+0x1f` or `0x1f` where no name is known.
    pub name: Arc<str>,
    /// The name in the symbol table, if there is one.
    pub linkage_name: Arc<str>,
    /// Where its code is; `None` for a frame that stands for no code, such as a thread.
    pub image: Option<ImageId>,
    /// Its first address as linked, if it is known.
    pub begin: Option<u64>,
}

/// A function at one place of its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The function.
    pub function: FunctionId,
    /// The source file, if it is known.
    pub file: Option<Arc<str>>,
    /// The line in it, from 1.
    pub line: Option<u32>,
    /// The address in the machine's memory: of the instruction that was interrupted, or in the call
    /// that had not returned. 0 for a frame that stands for no code.
    pub address: u64,
    /// Whether the function was inlined into its caller's frame, which has the same address.
    pub is_inlined: bool,
    /// Whether it is kernel code.
    pub is_kernel: bool,
}

/// A call stack: a frame, and the stack of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stack {
    /// The caller's stack, which comes before this one in [`Profile::stacks`]; `None` for the
    /// outermost frame.
    pub parent: Option<StackId>,
    /// The innermost frame.
    pub frame: FrameId,
}

/// A thread with samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// Its number; 0 for a CPU's idle thread, [`NO_NUMBER`](Thread::NO_NUMBER) if it has only a
    /// name.
    pub tid: u64,
    /// Its process.
    pub pid: Option<u64>,
    /// Its name.
    pub name: Option<Arc<str>>,
    /// Its process's name.
    pub process: Option<Arc<str>>,
    /// Its CPU, if it is an idle thread 0.
    pub cpu: Option<u64>,
    /// Whether another tracer recorded it, so that without a process it may still have one: in
    /// Kymo's traces, it is then the kernel's.
    pub is_foreign: bool,
}

impl Thread {
    /// In place of the number of a thread that has none.
    pub const NO_NUMBER: u64 = u64::MAX;

    /// Name and number: `worker (5)`, `thread (5)`, `idle (CPU 1)`.
    pub fn label(&self) -> String {
        match (&self.name, self.cpu) {
            (_, Some(cpu)) => format!("idle (CPU {cpu})"),
            (Some(name), None) if self.tid == Thread::NO_NUMBER => name.to_string(),
            (Some(name), None) => format!("{name} ({})", self.tid),
            (None, None) => format!("thread ({})", self.tid),
        }
    }

    /// The process's name and number: `shell (3)`; `kernel` for a thread without a process, or
    /// `unknown process` if that is not known.
    pub fn process_label(&self) -> String {
        match (&self.process, self.pid) {
            (Some(name), Some(pid)) => format!("{name} ({pid})"),
            (None, Some(pid)) => format!("process ({pid})"),
            (_, None) if self.is_foreign && self.cpu.is_none() => "unknown process".to_owned(),
            (_, None) => "kernel".to_owned(),
        }
    }
}

/// Samples that have everything in common but their time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Index of the thread in [`Profile::threads`]; `None` if the trace does not say.
    pub thread: Option<u32>,
    /// The CPU, if the trace says.
    pub cpu: Option<u32>,
    /// The stack; `None` for a chain without any address.
    pub stack: Option<StackId>,
    /// What the CPU was doing.
    pub mode: Mode,
    /// How many samples, or how much of the profile's [unit](Unit).
    pub weight: u64,
    /// Sum of the samples' periods, in the profile's [unit of them](Profile::period_unit). 0 if the
    /// trace does not say.
    pub ticks: u64,
}

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Nanoseconds from the clock's origin.
    pub time_ns: i64,
    /// Index in [`Profile::rows`].
    pub row: u32,
}

/// What the rows hold, and what they do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Samples in the rows: the sum of their weights, if these count samples.
    pub kept: u64,
    /// Samples that were taken while a CPU was idle, whether or not they were kept.
    pub idle: u64,
    /// Samples of the other mode than the one asked for, which are not kept.
    pub other_mode: u64,
    /// Samples that were due and that the machine could not take, by its own count; `None` if the
    /// trace does not say.
    pub missed: Option<u64>,
    /// Whether there was a sample: chains of events have no due time.
    pub is_sampled: bool,
    /// Samples that were taken and for which the trace had no room.
    pub lost: u64,
    /// Holes in the streams of samples: lost packets and damage. How many samples they had is not
    /// known.
    pub gaps: u64,
    /// Kept samples whose chain was cut at the greatest depth.
    pub cut: u64,
    /// Kept samples whose chain ends at a frame whose caller failed a check, as one may with which a
    /// program begins.
    pub untrusted: u64,
    /// Of waits: the switches, or the events of locks, in which they are found.
    pub sources: u64,
    /// Of waits off CPU: threads that waited all the time, which are not in the rows.
    pub throughout: u64,
    /// Kept samples whose events name no thread.
    pub threadless: u64,
    /// Events of the trace, of all kinds.
    pub events: u64,
}

/// The samples of a trace, symbolized.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// Kernel and programs.
    pub images: Vec<ProfileImage>,
    /// Functions, each once.
    pub functions: Vec<ProfileFunction>,
    /// Functions at addresses, each once.
    pub frames: Vec<Frame>,
    /// Distinct stacks; each comes after that of its caller.
    pub stacks: Vec<Stack>,
    /// Threads, in order of their first sample.
    pub threads: Vec<Thread>,
    /// Counts, in order of first appearance.
    pub rows: Vec<Row>,
    /// Each sample, in time order, if the [times](crate::Options::keep_times) were kept.
    pub samples: Vec<Sample>,
    /// Counts of what is and is not in the rows.
    pub totals: Totals,
    /// What the rows' weights count.
    pub unit: Unit,
    /// The trace's clock.
    pub clock: Option<Arc<ClockClass>>,
    /// Time of the first and the last sample in nanoseconds from the clock's origin.
    pub span_ns: Option<(i64, i64)>,
    /// Distance of two samples of a CPU, as the trace last says it.
    pub period: Option<u64>,
    /// What periods count.
    pub period_unit: PeriodUnit,
}

impl Profile {
    /// Sum of the rows' weights.
    pub fn weight(&self) -> u64 {
        self.rows
            .iter()
            .fold(0, |sum: u64, row| sum.saturating_add(row.weight))
    }

    /// The frames of a stack, the innermost first.
    pub fn frames_of(&self, stack: Option<StackId>) -> impl Iterator<Item = &Frame> {
        let node = |id: StackId| self.stacks.get(id.index());
        let stacks = std::iter::successors(stack.and_then(node), move |stack| node(stack.parent?));
        stacks.filter_map(|stack| self.frames.get(stack.frame.index()))
    }

    /// The function of a frame.
    pub fn function(&self, frame: &Frame) -> Option<&ProfileFunction> {
        self.functions.get(frame.function.index())
    }

    /// Name of a frame's function.
    pub fn name(&self, frame: &Frame) -> &str {
        self.function(frame).map_or("", |function| &function.name)
    }

    /// The thread of a row.
    pub fn thread(&self, row: &Row) -> Option<&Thread> {
        self.threads.get(row.thread? as usize)
    }
}
