//! What is counted: a process, a CPU, or a process on a CPU.

use std::fmt;

use crate::error::Error;

/// Whose events a group counts.
///
/// The pairs of numbers are those of `perf_event_open(2)`, of which -1 stands for any:
///
/// | pid | cpu | |
/// |---|---|---|
/// | >= 0 | -1 | [`Process`](Target::Process): a thread, on any CPU |
/// | >= 0 | >= 0 | [`ProcessOnCpu`](Target::ProcessOnCpu): a thread, while it runs on this CPU |
/// | -1 | >= 0 | [`Cpu`](Target::Cpu): all that runs on this CPU |
/// | -1 | -1 | refused |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// A thread, by its id, on any CPU; 0 is the calling thread. A process' id is that of its
    /// first thread.
    Process(u32),
    /// A thread while it runs on one CPU.
    ProcessOnCpu(u32, u32),
    /// All that runs on one CPU.
    Cpu(u32),
}

impl Target {
    /// The calling thread.
    pub const SELF: Target = Target::Process(0);

    /// The target of a pair of numbers.
    ///
    /// # Errors
    /// [`Error::NoTarget`] for two times -1, [`Error::BadNumber`] for numbers below -1.
    pub fn from_numbers(pid: i32, cpu: i32) -> Result<Target, Error> {
        for (what, number) in [("process id", pid), ("CPU number", cpu)] {
            if number < -1 {
                return Err(Error::BadNumber { what, number });
            }
        }
        match (u32::try_from(pid), u32::try_from(cpu)) {
            (Ok(pid), Ok(cpu)) => Ok(Target::ProcessOnCpu(pid, cpu)),
            (Ok(pid), Err(_)) => Ok(Target::Process(pid)),
            (Err(_), Ok(cpu)) => Ok(Target::Cpu(cpu)),
            (Err(_), Err(_)) => Err(Error::NoTarget),
        }
    }

    /// The pair of numbers.
    pub fn numbers(self) -> (i32, i32) {
        let number = |number| i32::try_from(number).unwrap_or(i32::MAX);
        match self {
            Target::Process(pid) => (number(pid), -1),
            Target::ProcessOnCpu(pid, cpu) => (number(pid), number(cpu)),
            Target::Cpu(cpu) => (-1, number(cpu)),
        }
    }

    /// Whether it counts what other processes do.
    pub(crate) fn is_cpu(self) -> bool {
        matches!(self, Target::Cpu(_))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Process(0) => f.write_str("this thread"),
            Target::Process(pid) => write!(f, "process {pid}"),
            Target::ProcessOnCpu(0, cpu) => write!(f, "this thread on CPU {cpu}"),
            Target::ProcessOnCpu(pid, cpu) => write!(f, "process {pid} on CPU {cpu}"),
            Target::Cpu(cpu) => write!(f, "CPU {cpu}"),
        }
    }
}
