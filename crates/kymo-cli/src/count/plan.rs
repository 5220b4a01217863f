//! What is counted, and for whom.

use kymo_perf::{
    Error, EventNames, Group, NamedEvent, NamedGroup, Options, SlotLimit, Target, cpu_list,
    online_cpus,
};

use super::Arguments;
use crate::exit::Usage;

/// The groups to count.
pub struct Plan {
    /// The groups.
    pub groups: Vec<NamedGroup>,
    /// What the user should know about the choice.
    pub message: Option<String>,
}

/// The groups on the command line.
pub fn listed_groups(lists: &[String]) -> anyhow::Result<Plan> {
    let names = EventNames::default();
    let mut groups = Vec::new();
    for list in lists {
        groups.extend(names.groups(list)?);
    }
    let message = None;
    Ok(Plan { groups, message })
}

/// Events whose counts say most, in groups that every PMU has counters for.
const DEFAULT: [&[&str]; 3] = [
    &["cycles", "instructions"],
    &["branches", "branch-misses"],
    &["cache-references", "cache-misses"],
];

/// Events that every kernel counts.
const DEFAULT_SOFTWARE: [&str; 4] = [
    "task-clock",
    "context-switches",
    "cpu-migrations",
    "page-faults",
];

/// Those of the usual events that can be counted for the target. Where the kernel's own part may
/// not be counted, only what happens in programs.
pub fn default_groups(target: Target, limit: SlotLimit) -> Result<Plan, Error> {
    let mut software = DEFAULT_SOFTWARE;
    if let (Target::Cpu(_), [clock, ..]) = (target, &mut software) {
        *clock = "cpu-clock";
    }
    let names = EventNames::default();
    let mut modes = "";
    let mut refusal = None;
    for choice in ["", ":u"] {
        match can_count(&names, &format!("page-faults{choice}"), target, limit) {
            Ok(_) => {
                modes = choice;
                refusal = None;
                break;
            }
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    if let Some(error) = refusal {
        return Err(error);
    }
    let mut groups = Vec::new();
    for group in DEFAULT.iter().copied().chain([&software[..]]) {
        let events = group
            .iter()
            // The kernel switches threads: without its part there is nothing to count.
            .filter(|name| modes.is_empty() || !KERNELS_OWN.contains(*name))
            .filter_map(|name| can_count(&names, &format!("{name}{modes}"), target, limit).ok());
        let events: Vec<NamedEvent> = events.collect();
        if !events.is_empty() {
            groups.push(NamedGroup::new(events)?);
        }
    }
    let has_hardware = groups.iter().any(|group| group.spec.slots() > 0);
    let message = match (has_hardware, modes) {
        (false, "") => {
            Some("this machine's PMU is missing or hidden, so only the kernel's events are counted")
        }
        (false, _) => Some(
            "this machine's PMU is missing or hidden, and the kernel's part may not be counted: \
             only its events in programs are",
        ),
        (true, "") => None,
        (true, _) => Some("only what happens in programs may be counted (run as root for all)"),
    };
    let message = message.map(str::to_owned);
    Ok(Plan { groups, message })
}

/// Events that only happen in the kernel.
const KERNELS_OWN: [&str; 2] = ["context-switches", "cpu-migrations"];

/// The event with a name, if it can be counted for the target.
pub fn can_count(
    names: &EventNames,
    name: &str,
    target: Target,
    limit: SlotLimit,
) -> Result<NamedEvent, Error> {
    let event = names.event(name)?;
    let mut group = Group::new(target, Options::default(), limit);
    group.add(event.clone())?;
    Ok(event)
}

/// The CPUs or processes on the command line; none if it is the command that is counted.
pub fn targets(arguments: &Arguments) -> anyhow::Result<Vec<Target>> {
    if let Some(list) = &arguments.cpus {
        let cpus = cpu_list(list)
            .ok_or_else(|| Usage(format!("{list:?} is no list of CPUs; write 0,2-3")))?;
        let online = online_cpus()?;
        if let Some(cpu) = cpus.iter().find(|cpu| !online.contains(cpu)) {
            let running: Vec<String> = online.iter().map(u32::to_string).collect();
            let running = running.join(", ");
            let sentence = format!("CPU {cpu} does not run here; these do: {running}");
            return Err(Usage(sentence).into());
        }
        return Ok(cpus.into_iter().map(Target::Cpu).collect());
    }
    if arguments.all_cpus {
        return Ok(online_cpus()?.into_iter().map(Target::Cpu).collect());
    }
    Ok(arguments.pid.iter().copied().map(Target::Process).collect())
}
