//! The errors of the C functions: one table, about in the order in which they are checked.

use kymo::{Error, Refused};

/// Declares the table.
macro_rules! errors {
    ($($(#[doc = $doc:literal])+ $name:ident = $number:literal, $c:literal;)*) => {
        /// Why a call was refused. A refused call has changed nothing.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(i32)]
        pub enum Refusal { $($(#[doc = $doc])+ $name = $number,)* }

        /// The table: number (positive), name in C, and meaning.
        pub const TABLE: &[(i32, &str, &str)] = &[$(($number, $c, concat!($($doc),+)),)*];
    };
}

errors! {
    /// A pointer is null or not aligned.
    Fault = 14, "KYMO_EFAULT";
    /// There is no such mode.
    UnknownMode = 38, "KYMO_ENOSYS";
    /// The library was left out (`KYMO_OFF`), or the word `kymo=` asks for what it does not have.
    Off = 95, "KYMO_EOPNOTSUPP";
    /// The kernel does not permit the call: see `kymo_set_permits`.
    NotPermitted = 1, "KYMO_EPERM";
    /// An unknown flag, channel or event, a number out of range, a buffer that is too small,
    /// counters that the memory has no words for (`KYMO_MEMORY_COUNTING`), groups that cannot be
    /// counted, or a call that does not fit the state.
    Invalid = 22, "KYMO_EINVAL";
    /// An event of the kernel's own has an id that is not the kernel's: 21 to 29, or 1000 to 2047.
    Range = 34, "KYMO_ERANGE";
    /// Two events of the kernel's own have the same id, an event or a counter has the name of
    /// another one, or an event has a name of the library's: `counted_event`, `group_count`,
    /// `event_count`, `event_stack`, or one that begins with `kymo_`.
    Exists = 17, "KYMO_EEXIST";
    /// An event of the kernel's own has too many fields, or too long ones, or its counters take
    /// more than 4096 words.
    TooBig = 7, "KYMO_E2BIG";
    /// The declaration of an event of the kernel's own is not well-formed: a name that is no
    /// identifier, an unknown type, or a field behind a text. Or that of a counter is not: its
    /// name, its unit, or its word, which follows those of the one before.
    Declaration = 71, "KYMO_EPROTO";
    /// More than one CPU, and no `synchronize` in the configuration.
    Synchronize = 35, "KYMO_EDEADLK";
    /// A session is starting, runs, or is stopped and not finished; or it has counted other groups.
    InProgress = 115, "KYMO_EINPROGRESS";
    /// The frequency of the clock is not known yet: it is 0.
    Again = 11, "KYMO_EAGAIN";
    /// The memory is too small: `kymo_memory_needed` tells how much is needed.
    Memory = 12, "KYMO_ENOMEM";
    /// Another call is at work: try again.
    Busy = 16, "KYMO_EBUSY";
    /// What the frames go to was full, and a frame was dropped.
    Dropped = 105, "KYMO_ENOBUFS";
}

impl Refusal {
    /// What the C function returns.
    pub const fn code(self) -> i32 {
        -(self as i32)
    }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Refusal {
        match refused {
            Refused::Fault | Refused::Config(Error::Alignment) => Refusal::Fault,
            Refused::UnknownMode => Refusal::UnknownMode,
            Refused::NotBuilt => Refusal::Off,
            Refused::NotPermitted => Refusal::NotPermitted,
            Refused::InProgress => Refusal::InProgress,
            Refused::Config(Error::Clock) => Refusal::Again,
            Refused::Memory(_) => Refusal::Memory,
            Refused::Busy => Refusal::Busy,
            _ => Refusal::Invalid,
        }
    }
}
