//! The ABI between the kernel and its programs: numbers of calls and errors, and layouts of
//! structures. Both sides compile this file.
//!
//! A call has five arguments; a negative result is an [`Error`]'s number. The registers are the
//! architecture's (`user/src/arch`).

macro_rules! calls {
    ($($(#[$doc:meta])* $call:ident $name:literal,)*) => {
        /// The system calls, numbered in order.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Call { $($(#[$doc])* $call,)* }

        impl Call {
            /// All variants, by number.
            pub const ALL: &[Call] = &[$(Call::$call,)*];

            /// Its name in the trace.
            pub const fn name(self) -> &'static str {
                match self { $(Call::$call => $name,)* }
            }
        }
    };
}

calls! {
    /// exit(status): ends the process.
    Exit "exit",
    /// getpid() -> pid.
    Getpid "getpid",
    /// yield(): lets others of the same priority run first.
    Yield "yield",
    /// sleep(microseconds).
    Sleep "sleep",
    /// write(text, len): a line on the console.
    Write "write",
    /// spawn(command line, len, rights) -> pid: a new process, with these of the caller's rights.
    Spawn "spawn",
    /// exec(command line, len): starts another program in the process.
    Exec "exec",
    /// kill(pid).
    Kill "kill",
    /// wait(pid) -> status: returns when the process has ended.
    Wait "wait",
    /// map(pages) -> address: more heap.
    Map "map",
    /// mark(id, value): recorded in the trace.
    Mark "mark",
    /// span_begin(id): recorded in the trace.
    SpanBegin "span_begin",
    /// span_end(id): recorded in the trace.
    SpanEnd "span_end",
    /// counter(id, value): recorded in the trace.
    Counter "counter",
    /// send(port, value): a message.
    Send "send",
    /// receive(port) -> value.
    Receive "receive",
    /// pipe_write(pipe, bytes, len) -> number of bytes written.
    PipeWrite "pipe_write",
    /// pipe_read(pipe, buffer, len) -> number of bytes read.
    PipeRead "pipe_read",
    /// time() -> ticks of the clock.
    Time "time",
    /// poll(id, [`Kind`]) -> 1 while it lives, 0 when it has ended.
    Poll "poll",
    /// workload(name, len) -> tid: a kernel thread runs this workload.
    Workload "workload",
    /// port_write(bytes, len) -> len: sends to the host, and waits until it takes the bytes. The
    /// port belongs to the process until that ends.
    PortWrite "port_write",
    /// port_read(buffer, len) -> number of bytes from the host; does not wait. Takes the port as
    /// port_write does.
    PortRead "port_read",
    /// perf_start(mode, flags, [`Session`], events, len) -> channels. `events` are names, separated
    /// by colons; empty for all. For the mode `count` they are what is counted, separated by plus
    /// signs; empty for the kernel's choice.
    PerfStart "perf_start",
    /// perf_read(mode, channel, buffer, len) -> number of bytes read from the channel; 0 if there
    /// is nothing new.
    PerfRead "perf_read",
    /// perf_stop(mode) -> channels.
    PerfStop "perf_stop",
    /// perf_finish(mode, [`Diagnostics`]).
    PerfFinish "perf_finish",
    /// perf_switch(mode, name, len, on) -> number of events with this name. For the mode `count`
    /// they record the counts, or not any more.
    PerfSwitch "perf_switch",
    /// perf_status([`Status`]).
    PerfStatus "perf_status",
    /// perf_dump(n): prints the newest n records on the console.
    PerfDump "perf_dump",
    /// perf_clear(): hides the records so far from the dump and the status.
    PerfClear "perf_clear",
    /// work(masked): a known amount of work in the kernel, with interrupts on or masked.
    Work "work",
}

/// One of 100 parts of the known work that `work` and the program `known` do, in rounds of
/// `arch::spin`.
pub const PART: usize = 1_000;

macro_rules! errors {
    ($($(#[$doc:meta])* $error:ident = $number:literal,)*) => {
        /// Errors of calls, with Linux's numbers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Error { $($(#[$doc])* $error = $number,)* }

        impl Error {
            /// Finds it by number.
            pub const fn of(number: i64) -> Option<Error> {
                match number { $($number => Some(Error::$error),)* _ => None }
            }
        }
    };
}

errors! {
    /// EPERM: the process does not have the right.
    NotPermitted = 1,
    /// ESRCH: there is no such process.
    NoProcess = 3,
    /// EINTR: the process was killed meanwhile.
    Interrupted = 4,
    /// ENXIO: there is no such device.
    NoDevice = 6,
    /// EAGAIN: a table is full.
    Full = 11,
    /// ENOMEM.
    NoMemory = 12,
    /// EFAULT: a pointer is invalid.
    Fault = 14,
    /// EBUSY: another caller uses it.
    Busy = 16,
    /// EINVAL: an argument is out of range, or the call out of order.
    Invalid = 22,
    /// ENOSYS: there is no such call, or no such mode.
    NoCall = 38,
    /// EOPNOTSUPP: this kernel was built without it.
    NotBuilt = 95,
    /// ENOTCONN: the host does not listen.
    NotConnected = 107,
    /// EINPROGRESS: the session must be finished first.
    InProgress = 115,
}

/// Rights of a process, as bits. It gets them from its parent.
pub mod rights {
    /// The right to record: every `perf_` call.
    pub const PERF: usize = 1;
}

/// Exit statuses that the kernel sets.
pub mod status {
    /// Killed by another process.
    pub const KILLED: u8 = 137;
    /// Ended by a fault.
    pub const FAULT: u8 = 139;
}

/// Size in bytes that always suffices for the buffer of a `perf_read`.
pub const READ: usize = 192 << 10;

/// Kinds of objects for `poll`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Kind {
    /// A process, by its pid.
    Process = 0,
    /// A kernel thread, by its tid.
    Thread = 1,
}

impl Kind {
    /// Finds it by number.
    pub fn of(number: usize) -> Option<Kind> {
        [Kind::Process, Kind::Thread]
            .into_iter()
            .find(|kind| *kind as usize == number)
    }
}

macro_rules! structure {
    ($(#[$doc:meta])* $name:ident: $len:literal { $($(#[$field_doc:meta])* $field:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(C)]
        pub struct $name { $($(#[$field_doc])* pub $field: u64,)* }

        impl $name {
            /// Its words in memory.
            #[allow(dead_code, reason = "each side uses what it needs")]
            pub const fn to_words(self) -> [u64; $len] {
                [$(self.$field,)*]
            }

            /// Builds it from its words in memory.
            #[allow(dead_code, reason = "each side uses what it needs")]
            pub const fn from_words([$($field,)*]: [u64; $len]) -> Self {
                $name { $($field,)* }
            }
        }
    };
}

structure! {
    /// How a session is to be recorded; 0 leaves a choice to the kernel.
    Session: 8 {
        /// Size of a packet in bytes.
        packet_size,
        /// Packets per hart for events.
        packets,
        /// Packets per hart for names.
        names_packets,
        /// Packets per hart for samples. The kernel's choice: those of events in the mode `sample`,
        /// else none.
        samples_packets,
        /// Nanoseconds between two samples.
        period_ns,
        /// Most callers of a sample, plus 1.
        depth,
        /// What makes the samples: the number of a `SamplingDriver`, plus 1.
        driver,
        /// Events of the driver's counter between two samples.
        count,
    }
}

structure! {
    /// The status of a recording.
    Status: 8 {
        /// The number of the `kymo::State` of the first mode that is not idle.
        state,
        /// The modes that are not idle, each a bit.
        modes,
        /// Those among them that run.
        running,
        /// Number of channels.
        channels,
        /// Flags in effect.
        flags,
        /// Number of retained events.
        retained,
        /// Number of overwritten events.
        overwritten,
        /// Number of discarded events.
        discarded,
    }
}

structure! {
    /// The result of `perf_finish`: totals of all channels, as in `kymo::Diagnostics`.
    Diagnostics: 5 {
        /// Number of discarded events.
        discarded,
        /// Those discarded because they were larger than a packet.
        too_large,
        /// Number of events overwritten before they were read.
        overwritten,
        /// Number of steps back of a clock.
        clock_back,
        /// Number of packets whose writer had died.
        abandoned,
    }
}
