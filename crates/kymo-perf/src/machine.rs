//! What this machine has, and what it permits.

use std::fmt;
use std::fs;
use std::io;

use kymo::count::EventSpec;

use crate::error::{self, Error};
use crate::target::Target;

/// Whom the kernel lets count: `/proc/sys/kernel/perf_event_paranoid`.
///
/// From Linux' documentation: up to -1 everybody may count everything; from 0 on only privileged
/// processes may use raw tracepoints; from 1 on only they may count CPUs; from 2 on only they may
/// count what happens in the kernel. Debian and Android add 3: nobody else may count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paranoid(pub Option<i32>);

/// What counting an event takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The greatest value of `perf_event_paranoid` with which every process may.
    pub at_most: i32,
    /// The name of the event without what happens in the kernel, if that needs less.
    pub user_only: bool,
}

impl Needs {
    /// What it takes to count an event for a target.
    pub(crate) fn of(event: &EventSpec, target: Target) -> Needs {
        let at_most = match (target.is_cpu(), event.exclude.kernel) {
            (true, _) => 0,
            (false, false) => 1,
            (false, true) => 2,
        };
        Needs {
            at_most,
            user_only: at_most == 1,
        }
    }
}

impl Paranoid {
    /// The value now; `None` inside where it cannot be read.
    pub fn read() -> Paranoid {
        let text = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
        Paranoid(text.ok().and_then(|text| text.trim().parse().ok()))
    }

    /// The way out for an event with such needs, as the end of a sentence.
    pub fn way_out(self, needs: Needs) -> String {
        let Needs { at_most, user_only } = needs;
        match self.0 {
            Some(value) if value > at_most => {
                let user_only = match user_only && value <= 2 {
                    true => ", count only what happens in programs (:u after the name)",
                    false => "",
                };
                let setting = format!("sysctl kernel.perf_event_paranoid={at_most}");
                format!("; run as root{user_only}, or type `{setting}`")
            }
            _ => "; it is another user's process, or a sandbox forbids perf_event_open(2): run as \
                  root, outside of it"
                .to_owned(),
        }
    }
}

impl fmt::Display for Paranoid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(value) => write!(f, "kernel.perf_event_paranoid is {value}"),
            None => f.write_str("kernel.perf_event_paranoid cannot be read"),
        }
    }
}

/// The CPUs that run.
///
/// # Errors
/// If the kernel's list cannot be read.
pub fn online_cpus() -> Result<Vec<u32>, Error> {
    let what = "read /sys/devices/system/cpu/online";
    let text = fs::read_to_string("/sys/devices/system/cpu/online");
    let text = text.map_err(|source| Error::System { what, source })?;
    cpu_list(text.trim()).ok_or_else(|| Error::System {
        what,
        source: io::ErrorKind::InvalidData.into(),
    })
}

/// The CPUs of a list such as `0,2-3`, in order; `None` if it is none.
pub fn cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        // Linux has at most 8,192 CPUs; the bound keeps a mistyped range short.
        if first > last || last >= 1 << 16 {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// The threads of a process.
///
/// # Errors
/// [`Error::NoSuchTarget`], [`Error::TooManyFiles`].
pub fn threads(pid: u32) -> Result<Vec<u32>, Error> {
    let target = Target::Process(pid);
    let failed = |source| error::listing(target, source);
    let entries = fs::read_dir(format!("/proc/{pid}/task")).map_err(failed)?;
    let mut threads: Vec<u32> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    threads.sort_unstable();
    Ok(threads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read() {
        for (text, cpus) in [
            ("0", Some(vec![0])),
            ("0-3", Some(vec![0, 1, 2, 3])),
            ("3,0-1,1", Some(vec![0, 1, 3])),
            ("", None),
            ("0-", None),
            ("2-1", None),
            ("a", None),
            ("0-4000000000", None),
        ] {
            assert_eq!(cpu_list(text), cpus, "{text}");
        }
    }

    #[test]
    fn the_way_out_is_the_least_that_is_needed() {
        let event = |name| EventSpec::from_name(name).expect("an event");
        let (this, cpu) = (Target::SELF, Target::Cpu(0));
        for (value, event, target, words) in [
            (
                2,
                event("cycles"),
                this,
                "(:u after the name), or type `sysctl kernel.perf_event_paranoid=1`",
            ),
            (
                4,
                event("cycles"),
                this,
                "; run as root, or type `sysctl kernel.perf_event_paranoid=1`",
            ),
            (4, event("cycles:u"), this, "perf_event_paranoid=2`"),
            (2, event("cycles:u"), cpu, "perf_event_paranoid=0`"),
            (1, event("cycles"), this, "another user's process"),
        ] {
            let out = Paranoid(Some(value)).way_out(Needs::of(&event, target));
            assert!(out.contains(words), "{value} {event} {target}: {out}");
        }
    }
}
