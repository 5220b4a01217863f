//! What can go wrong, each with its way out.

use std::io::{self, ErrorKind};
use std::path::PathBuf;

use kymo::count::{Refused, Software};

use crate::machine::{Needs, Paranoid};
use crate::names::NamedEvent;
use crate::target::Target;

/// Why something cannot be counted. A call that failed has changed nothing, unless it says so:
/// a [`Group`](crate::Group) that cannot be started is stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The group breaks a rule of groups.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Neither a process nor a CPU.
    #[error("there is nothing to count: name a process, a CPU, or both")]
    NoTarget,
    /// A number below -1.
    #[error("{number} is no {what}; it is 0 or more, or -1 for any")]
    BadNumber {
        /// Number of what.
        what: &'static str,
        /// The number.
        number: i32,
    },
    /// A text that is no list of events.
    #[error("{list:?} is no list of events: {what}; write {{cycles,instructions}},page-faults")]
    BadList {
        /// The list.
        list: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// No event has this name.
    #[error("no event is called {name:?}")]
    UnknownEvent {
        /// The name.
        name: String,
    },
    /// Behind an event's name stands something else than `:u` or `:k`.
    #[error("{name:?} has the modifier {modifier}{}", no_modifier(*.modifier))]
    UnknownModifier {
        /// The name.
        name: String,
        /// The letter.
        modifier: char,
    },
    /// The kernel describes no PMU of this name.
    #[error("this kernel has no PMU {name:?}; it has {known}")]
    UnknownPmu {
        /// The name.
        name: String,
        /// The names of those that it has.
        known: String,
    },
    /// An event of a PMU that cannot be counted as it is written.
    #[error("{name:?} cannot be counted: {what}")]
    BadPmuEvent {
        /// The event.
        name: String,
        /// What is wrong with it.
        what: String,
    },
    /// An event of what several CPUs share cannot be counted for a thread.
    #[error("{name} counts what several CPUs do, for no thread or command; count CPUs")]
    OnlyForCpus {
        /// The event.
        name: String,
    },
    /// None of the targets is a CPU whose PMU has the event.
    #[error("{name} is counted by other CPUs: {cpus}")]
    OnOtherCpus {
        /// The event.
        name: String,
        /// These CPUs.
        cpus: String,
    },
    /// Linux has no tracepoint of this name.
    #[error("this kernel has no tracepoint {name:?}")]
    UnknownTracepoint {
        /// The name.
        name: String,
    },
    /// The folder that describes tracepoints cannot be read.
    #[error(
        "the tracepoint {name} has a number only in {path}, which cannot be read: {source}; run \
         as root, with tracefs mounted (`mount -t tracefs tracefs /sys/kernel/tracing`)"
    )]
    NoTracefs {
        /// The tracepoint's name.
        name: String,
        /// The file.
        path: PathBuf,
        /// Why it cannot be read.
        source: io::Error,
    },
    /// An event that Linux does not count itself.
    #[error("Linux has no counter of {event}; count the tracepoint {instead}")]
    NotOnLinux {
        /// The event.
        event: Software,
        /// A tracepoint that happens with it.
        instead: &'static str,
    },
    /// This process may not count it.
    #[error("{event} may not be counted for {target}: {paranoid}{}", .paranoid.way_out(*.needs))]
    NotPermitted {
        /// The event.
        event: String,
        /// For whom.
        target: Target,
        /// The system's setting.
        paranoid: Paranoid,
        /// What the event needs.
        needs: Needs,
    },
    /// The machine has no counter of it.
    #[error("{event} cannot be counted: this machine's PMU, or its kernel, lacks the event")]
    NotOnThisMachine {
        /// The event.
        event: String,
    },
    /// The machine has the event, but does not count it so.
    #[error(
        "{event} cannot be counted for {target} in this way: {source}; try it without :u or :k, \
         in a smaller group, or for another target"
    )]
    NotInThisWay {
        /// The event.
        event: String,
        /// For whom.
        target: Target,
        /// What the kernel said.
        source: io::Error,
    },
    /// All counters of this kind are in use.
    #[error("{event} cannot be counted: all counters of its kind are in use")]
    InUse {
        /// The event.
        event: String,
    },
    /// The target is gone.
    #[error("there is no {target}")]
    NoSuchTarget {
        /// The target.
        target: Target,
    },
    /// Too many descriptors.
    #[error(
        "this process may open no more files, and every event needs one for each thread or CPU; \
         raise the limit with `ulimit -n`, or count fewer events"
    )]
    TooManyFiles,
    /// The kernel was built without performance events.
    #[error("this kernel cannot count: it was built without CONFIG_PERF_EVENTS")]
    NoPerfEvents,
    /// An eBPF program that the event does not take.
    #[error(
        "{event} does not take the eBPF program: {source}; a tracepoint takes programs of the \
         type tracepoint, every other event takes the type perf_event"
    )]
    Program {
        /// The event.
        event: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// An object file without the eBPF program, or with one that cannot be loaded.
    #[cfg(feature = "aya")]
    #[error("cannot load the eBPF program {program} of {path}: {reason}")]
    ProgramFile {
        /// The program.
        program: String,
        /// The object file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A setting in the environment that is no number.
    #[error("{name} is {value:?}; it must be a number from 1 to 16")]
    BadSetting {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// A command that cannot be started.
    #[error("cannot start {command}: {source}")]
    Command {
        /// The command.
        command: String,
        /// Why.
        source: io::Error,
    },
    /// More samples than the kernel takes.
    #[error(
        "this kernel takes at most {most} samples a second, and {hz} are asked for; ask for fewer, \
         or raise the limit with `sysctl kernel.perf_event_max_sample_rate={hz}`"
    )]
    TooManySamples {
        /// Samples a second that are asked for.
        hz: u64,
        /// Most that the kernel takes.
        most: u64,
    },
    /// No memory for samples.
    #[error(
        "this process may lock no memory for samples: {source}; raise \
         `sysctl kernel.perf_event_mlock_kb`, or run as root"
    )]
    NoBuffer {
        /// What the kernel said.
        source: io::Error,
    },
    /// A descriptor is not that of an event that can lead a group.
    #[error(
        "{event} leads no group that can be joined: {}",
        match source {
            Some(source) => source.to_string(),
            None => "it has members, or is not read with both times and its id".to_owned(),
        }
    )]
    NoLeader {
        /// What it was said to count.
        event: String,
        /// What the kernel said; none if it gave other values than those of one event.
        source: Option<io::Error>,
    },
    /// The kernel's answer to a read is not that of the group.
    #[error("the kernel's counts of the group led by {leader} are not those of its events")]
    BadRead {
        /// The leader.
        leader: String,
    },
    /// A system call failed that fails on no known machine.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl Error {
    /// `InvalidInput` for what the caller asked wrongly, `Unsupported` for what is missing here.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Refused(_)
            | Error::NoTarget
            | Error::BadNumber { .. }
            | Error::BadList { .. }
            | Error::UnknownEvent { .. }
            | Error::UnknownModifier { .. }
            | Error::BadPmuEvent { .. }
            | Error::OnlyForCpus { .. }
            | Error::OnOtherCpus { .. }
            | Error::NotOnLinux { .. }
            | Error::TooManySamples { .. }
            | Error::BadSetting { .. } => ErrorKind::InvalidInput,
            Error::NotPermitted { .. } => ErrorKind::PermissionDenied,
            Error::NoSuchTarget { .. } => ErrorKind::NotFound,
            Error::NoTracefs { source, .. }
            | Error::Command { source, .. }
            | Error::NoBuffer { source }
            | Error::System { source, .. } => source.kind(),
            _ => ErrorKind::Unsupported,
        }
    }

    /// What to do, where the sentence does not say so.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Error::Refused(Refused::TooManySlots { .. }) => Some(
                "split the group, or set KYMO_PERF_GROUP_MAX_EVENTS if this machine's PMU has more",
            ),
            Error::Refused(Refused::TooManyEvents { .. }) => Some("split the group"),
            Error::UnknownEvent { .. } | Error::UnknownTracepoint { .. } => {
                Some("`kymo count --list` prints the events")
            }
            Error::OnlyForCpus { .. } => Some("add -a for all, or -C for some"),
            Error::UnknownModifier { .. } => {
                Some("give the event alone, or with :u or :k to count one mode")
            }
            _ => None,
        }
    }
}

/// `errno` values that mean something here, with the same numbers on every processor.
mod errno {
    pub const EPERM: i32 = 1;
    pub const ENOENT: i32 = 2;
    pub const ESRCH: i32 = 3;
    pub const EACCES: i32 = 13;
    pub const EBUSY: i32 = 16;
    pub const ENODEV: i32 = 19;
    pub const EINVAL: i32 = 22;
    pub const ENFILE: i32 = 23;
    pub const EMFILE: i32 = 24;
    pub const ENOSPC: i32 = 28;
    pub const ENOSYS: i32 = 38;
    pub const EOPNOTSUPP: i32 = 95;
}

/// What a modifier of `perf` would do, as the end of a sentence that names it.
fn no_modifier(modifier: char) -> String {
    let meaning = match modifier {
        'p' => "precise addresses of samples",
        'P' => "the most precise addresses of samples",
        'h' => "only hypervisors",
        'G' => "only virtual machines",
        'H' => "only the host",
        'I' => "not while idle",
        'S' => "counts in samples",
        'D' => "always on the PMU",
        'W' => "a group that may be taken apart",
        'e' => "alone on the PMU",
        'b' => "counted by eBPF programs",
        'R' => "latency of retirement",
        'X' => "never in another group",
        _ => return ", which is none".to_owned(),
    };
    format!(" ({meaning}), which counting does not have")
}

/// What an error of `perf_event_open(2)` means.
pub(crate) fn opening(event: &NamedEvent, target: Target, source: io::Error) -> Error {
    let needs = Needs::of(&event.event, target);
    let event = event.name.clone();
    match source.raw_os_error() {
        Some(errno::EPERM | errno::EACCES) => Error::NotPermitted {
            event,
            target,
            paranoid: Paranoid::read(),
            needs,
        },
        Some(errno::ENOENT | errno::ENODEV) => Error::NotOnThisMachine { event },
        Some(errno::ESRCH) => Error::NoSuchTarget { target },
        Some(errno::EBUSY | errno::ENOSPC) => Error::InUse { event },
        Some(errno::EMFILE | errno::ENFILE) => Error::TooManyFiles,
        Some(errno::ENOSYS) => Error::NoPerfEvents,
        Some(errno::EINVAL | errno::EOPNOTSUPP) => Error::NotInThisWay {
            event,
            target,
            source,
        },
        _ => Error::System {
            what: "open an event",
            source,
        },
    }
}

/// What an error of listing a process' threads means.
pub(crate) fn listing(target: Target, source: io::Error) -> Error {
    match source.raw_os_error() {
        Some(errno::ENOENT | errno::ESRCH) => Error::NoSuchTarget { target },
        Some(errno::EMFILE | errno::ENFILE) => Error::TooManyFiles,
        _ => Error::System {
            what: "list the threads of a process",
            source,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_process_that_is_not_there_is_gone() {
        for (errno, words) in [
            (errno::ENOENT, "there is no process 7"),
            (errno::ESRCH, "there is no process 7"),
            (errno::EMFILE, "ulimit -n"),
            (errno::EACCES, "cannot list the threads of a process"),
        ] {
            let source = io::Error::from_raw_os_error(errno);
            let sentence = listing(Target::Process(7), source).to_string();
            assert!(sentence.contains(words), "{errno}: {sentence}");
        }
    }

    #[test]
    fn every_refusal_of_the_kernel_has_its_sentence() {
        let event = kymo::count::EventSpec::from_name("cycles").expect("an event");
        for (errno, words) in [
            (errno::EPERM, "perf_event_paranoid"),
            (errno::EACCES, "perf_event_paranoid"),
            (errno::ENOENT, "lacks the event"),
            (errno::ESRCH, "there is no CPU 3"),
            (errno::EBUSY, "in use"),
            (errno::ENOSPC, "in use"),
            (errno::EMFILE, "ulimit -n"),
            (errno::ENOSYS, "CONFIG_PERF_EVENTS"),
            (errno::EINVAL, "in this way"),
            (5, "cannot open an event"),
        ] {
            let source = io::Error::from_raw_os_error(errno);
            let sentence = opening(&event.into(), Target::Cpu(3), source).to_string();
            assert!(sentence.contains(words), "{errno}: {sentence}");
        }
    }
}
