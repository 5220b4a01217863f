//! What the kernel and its programs agree on: the numbers of calls and of errors, and what
//! structures look like. Both sides compile this file.
//!
//! A call's number is in the register a7, its arguments in a0 to a4; its result comes in a0. A
//! negative one is an [`Error`]'s number.

macro_rules! calls {
    ($($(#[$doc:meta])* $call:ident $name:literal,)*) => {
        /// What programs can ask for. The numbers are those of the order.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Call { $($(#[$doc])* $call,)* }

        impl Call {
            /// All of them, by number.
            pub const ALL: &[Call] = &[$(Call::$call,)*];

            /// What the trace calls it.
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
    /// yield(): others of the same priority go first.
    Yield "yield",
    /// sleep(ticks of the clock).
    Sleep "sleep",
    /// write(text, len): a line on the console.
    Write "write",
    /// spawn(command line, len, rights) -> pid: another process, with those of the caller's rights.
    Spawn "spawn",
    /// exec(command line, len): the process begins another program.
    Exec "exec",
    /// kill(pid).
    Kill "kill",
    /// wait(pid) -> status: returns when the process has ended.
    Wait "wait",
    /// map(pages) -> address: more heap.
    Map "map",
    /// mark(id, value): into the trace.
    Mark "mark",
    /// span_begin(id): into the trace.
    SpanBegin "span_begin",
    /// span_end(id): into the trace.
    SpanEnd "span_end",
    /// counter(id, value): into the trace.
    Counter "counter",
    /// send(port, value): a message.
    Send "send",
    /// receive(port) -> value.
    Receive "receive",
    /// pipe_write(pipe, bytes, len) -> how many.
    PipeWrite "pipe_write",
    /// pipe_read(pipe, buffer, len) -> how many.
    PipeRead "pipe_read",
    /// time() -> ticks of the clock.
    Time "time",
    /// poll(id, [`Kind`]) -> 1 while it lives, 0 when it has ended.
    Poll "poll",
    /// workload(name, len) -> tid: a thread of the kernel's does this workload.
    Workload "workload",
    /// port_write(bytes, len) -> len: to the host; waits while the host does not take them. The
    /// port is the process's until it ends.
    PortWrite "port_write",
    /// port_read(buffer, len) -> how many came from the host; does not wait. As with port_write.
    PortRead "port_read",
    /// perf_start(mode, flags, [`Rings`], events, len) -> channels. `events` are names, separated
    /// by colons; none for all.
    PerfStart "perf_start",
    /// perf_read(mode, channel, buffer, len) -> bytes of the channel, 0 where there is nothing new.
    PerfRead "perf_read",
    /// perf_stop(mode) -> channels.
    PerfStop "perf_stop",
    /// perf_finish(mode, [`Diagnostics`]).
    PerfFinish "perf_finish",
    /// perf_switch(mode, name, len, on) -> how many events are called so.
    PerfSwitch "perf_switch",
    /// perf_status([`Status`]).
    PerfStatus "perf_status",
    /// perf_dump(n): the newest n records, on the console.
    PerfDump "perf_dump",
    /// perf_clear(): the console's dump and the status forget what was recorded until now.
    PerfClear "perf_clear",
}

macro_rules! errors {
    ($($(#[$doc:meta])* $error:ident = $number:literal,)*) => {
        /// Why a call cannot be done, with the number that it has on Linux.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Error { $($(#[$doc])* $error = $number,)* }

        impl Error {
            /// By its number.
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
    /// EFAULT: a pointer leads nowhere.
    Fault = 14,
    /// EBUSY: somebody else is at it.
    Busy = 16,
    /// EINVAL: an argument is out of its range, or the call out of order.
    Invalid = 22,
    /// ENOSYS: there is no such call, or no such mode.
    NoCall = 38,
    /// EOPNOTSUPP: this kernel was built without it.
    NotBuilt = 95,
    /// ENOTCONN: nobody listens on the other side.
    NotConnected = 107,
    /// EINPROGRESS: finish what was started first.
    InProgress = 115,
}

/// What a process may do besides, as bits: it gets them from who spawns it.
pub mod rights {
    /// Record: every `perf_` call.
    pub const PERF: usize = 1;
}

/// Ends that are no program's own choice.
pub mod status {
    /// Killed by another process.
    pub const KILLED: u8 = 137;
    /// It did what it may not.
    pub const FAULT: u8 = 139;
}

/// Bytes with which the buffer of a `perf_read` is always large enough.
pub const READ: usize = 192 << 10;

/// What `poll` asks after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Kind {
    /// A process, by its pid.
    Process = 0,
    /// A thread of the kernel's, by its tid.
    Thread = 1,
}

impl Kind {
    /// By its number.
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
            /// As it lies in memory.
            #[allow(dead_code, reason = "each side uses what it needs")]
            pub const fn to_words(self) -> [u64; $len] {
                [$(self.$field,)*]
            }

            /// Of what lies in memory.
            #[allow(dead_code, reason = "each side uses what it needs")]
            pub const fn from_words([$($field,)*]: [u64; $len]) -> Self {
                $name { $($field,)* }
            }
        }
    };
}

structure! {
    /// The rings of a session.
    Rings: 3 {
        /// Bytes of a packet.
        packet_size,
        /// Packets of each hart, for events.
        packets,
        /// Packets of each hart, for names.
        names_packets,
    }
}

structure! {
    /// Where recording stands.
    Status: 6 {
        /// As `kymo::State` has it.
        state,
        /// Channels of the session.
        channels,
        /// Flags in effect.
        flags,
        /// Events that can be read.
        retained,
        /// Events that were overwritten.
        overwritten,
        /// Events that were not recorded.
        discarded,
    }
}

structure! {
    /// What `perf_finish` tells: totals of all channels, as `kymo::Diagnostics` has them.
    Diagnostics: 5 {
        /// Events that were not recorded.
        discarded,
        /// Of these, events that no packet could hold.
        too_large,
        /// Events that were overwritten before they were read.
        overwritten,
        /// Steps back of a clock.
        clock_back,
        /// Packets whose writer had died.
        abandoned,
    }
}
