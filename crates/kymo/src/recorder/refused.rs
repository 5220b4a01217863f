//! Why a call is refused: every reason, with its number and its sentence.

use core::fmt;

use crate::count;
use crate::ring::config::Error;

/// Why a call was refused. The reasons are checked in this order; a refused call has changed
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// The caller passed a bad pointer (EFAULT).
    Fault,
    /// There is no such mode (ENOSYS).
    UnknownMode,
    /// This kernel was built without the mode (EOPNOTSUPP).
    NotBuilt,
    /// The platform does not permit it (EPERM).
    NotPermitted,
    /// A flag or channel that does not exist, a buffer too small, or a call that does not fit the
    /// state (EINVAL).
    Invalid,
    /// `start` while a session is starting, runs, or is stopped and not finished (EINPROGRESS).
    InProgress,
    /// The memory is too small: this many bytes are needed (ENOMEM).
    Memory(usize),
    /// Another number in the configuration cannot be used (EINVAL).
    Config(Error),
    /// The group cannot be counted (EINVAL).
    Count(count::Refused),
    /// Another `read` of the same channel is at work, or a `start`, `stop` or `finish` of another
    /// mode (EBUSY).
    Busy,
}

impl Refused {
    /// The error's number, as POSIX systems that follow Linux have it.
    pub const fn errno(self) -> i32 {
        match self {
            Refused::NotPermitted => 1,
            Refused::Memory(_) => 12,
            Refused::Fault => 14,
            Refused::Busy => 16,
            Refused::Invalid | Refused::Config(_) | Refused::Count(_) => 22,
            Refused::UnknownMode => 38,
            Refused::NotBuilt => 95,
            Refused::InProgress => 115,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Fault => f.write_str("a pointer does not lead to memory that can be used"),
            Refused::UnknownMode => f.write_str("there is no such mode"),
            Refused::NotBuilt => f.write_str("this kernel was built without the mode"),
            Refused::NotPermitted => f.write_str("not permitted"),
            Refused::Invalid => {
                f.write_str("no such flag or channel, too small a buffer, or a call out of order")
            }
            Refused::InProgress => f.write_str("a session is in progress: finish it first"),
            Refused::Memory(needed) => Error::Memory(*needed).fmt(f),
            Refused::Config(error) => error.fmt(f),
            Refused::Count(refused) => refused.fmt(f),
            Refused::Busy => {
                f.write_str("another call is at work on this channel or session: try again")
            }
        }
    }
}

impl core::error::Error for Refused {}
