//! `kymo count --kernel`: what a kernel of one's own counts, under QEMU.
//!
//! The kernel records a trace of counts, which is read when the machine has ended and then thrown
//! away.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use kymo::Mode;
use kymo::count::{EventSpec, GroupSpec, Hardware};
use kymo_capture::qemu::{Boot, Launch};
use kymo_capture::record::{self, Ending, Options, Via};
use kymo_ctf::Trace;
use kymo_machine::{Change, Machine};
use kymo_perf::{Error, EventNames, NamedGroup, Total};

use super::Arguments;
use super::output::{Part, Writer};
use super::watch::{Counts, End};
use crate::exit::{BadInput, Code, Usage};
use crate::group_list;
use crate::record::watch_interrupts;

/// How long the guest may take to send the rest of a trace: it sends none.
const GRACE: Duration = Duration::from_secs(10);

/// CPUs of the machine where nobody says.
const CPUS: u32 = 4;

/// A folder that goes with the value.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> anyhow::Result<Scratch> {
        let path = std::env::temp_dir().join(format!("kymo-count-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a group of a CPU's had counted at a time.
#[derive(Clone)]
struct Reading {
    /// Nanoseconds from the clock's origin.
    at: i64,
    time_enabled: u64,
    time_running: u64,
    counts: Vec<u64>,
}

/// Each CPU's readings of a group, in time order.
type Readings = BTreeMap<u64, Vec<Reading>>;

/// Boots the kernel, and prints what all its CPUs have counted together.
pub fn count(arguments: &Arguments, kernel: &Path) -> anyhow::Result<Code> {
    let specs = groups(&arguments.event)?;
    let names = |spec: &GroupSpec| spec.events().iter().map(EventSpec::to_string).collect();
    let boot = Boot {
        modes: vec![Mode::Count],
        counters: specs.iter().map(names).collect(),
        count_ns: arguments.interval.map(|ms| ms.saturating_mul(1_000_000)),
        ..Boot::default()
    };
    let scratch = Scratch::new()?;
    let ram = record::ram_file(&scratch.0);
    let append = arguments.append.as_deref();
    let launch =
        Launch::kernel_with_boot(kernel, arguments.smp.unwrap_or(CPUS), append, &boot, &ram)?;
    let launch = match arguments.deterministic {
        true => launch.deterministic(),
        false => launch,
    };
    let mut out = Writer::create(arguments.output.as_deref(), arguments.json, false)?;
    let options = Options {
        launch: &launch,
        out: &scratch.0,
        via: Via::Memory,
        duration: None,
        timeout: None,
        grace: GRACE,
        keep_ram: false,
        interrupted: watch_interrupts()?,
        console: None,
    };
    let recorded = record::record(&options, |_| {})?;
    let readings = readings(&scratch.0, specs.len())?;
    if readings.iter().all(Readings::is_empty) {
        let what = match recorded.ending {
            Ending::PoweredOff | Ending::Interrupted => {
                "the kernel has counted nothing; does it read the word kymo= of its command line, \
                 and have the mode count?"
                    .to_owned()
            }
            ending => format!("the machine {ending}, and has counted nothing: see its output"),
        };
        return Err(BadInput(what).into());
    }
    let groups: Vec<_> = specs.into_iter().map(NamedGroup::from).collect();
    print(&groups, &readings, arguments.interval, &mut out)?;
    out.finish()?;
    for (group, of_group) in readings.iter().enumerate() {
        let idle = of_group.iter().filter(|(_, readings)| readings.is_empty());
        let idle: Vec<String> = idle.map(|(cpu, _)| cpu.to_string()).collect();
        let which = match readings.len() {
            1 => String::new(),
            _ => format!(" group {group}"),
        };
        if !idle.is_empty() {
            let idle = idle.join(", ");
            message!("kymo: these CPUs could not count{which}: {idle}.");
        }
    }
    Ok(match recorded.ending {
        Ending::PoweredOff | Ending::Interrupted => Code::Ok,
        ending => {
            message!("kymo: the machine {ending}.");
            Code::Findings
        }
    })
}

/// The groups that a kernel counts: those in braces, or all events that are named as one.
fn groups(lists: &[String]) -> anyhow::Result<Vec<GroupSpec>> {
    let list = lists.join(",");
    let list = list.trim();
    if list.is_empty() {
        let default = [Hardware::Cycles, Hardware::Instructions].map(EventSpec::hardware);
        return Ok(vec![GroupSpec::new(&default)?]);
    }
    let named = group_list::split(list).map_err(|what| Error::BadList {
        list: list.to_owned(),
        what,
    })?;
    let mut groups = Vec::new();
    for names in named {
        let mut events = Vec::new();
        for name in names {
            let event = EventSpec::from_name(name);
            events.push(event.ok_or_else(|| refused(name))?);
        }
        groups.push(GroupSpec::new(&events).map_err(Error::from)?);
    }
    if let Some(what) = group_list::too_many(&groups) {
        return Err(Usage(format!("-e: {what}")).into());
    }
    Ok(groups)
}

/// Why a kernel of one's own does not count an event. Tracepoints and PMUs by name are Linux'.
fn refused(name: &str) -> Error {
    match EventNames::default().event(name) {
        Err(error @ Error::UnknownModifier { .. }) => error,
        _ => Error::UnknownEvent {
            name: name.to_owned(),
        },
    }
}

/// The readings of each of so many groups.
fn readings(trace: &Path, groups: usize) -> anyhow::Result<Vec<Readings>> {
    let trace = Trace::open(trace)?;
    let map = trace.map();
    let (mut reader, mut machine) = (map.read(), Machine::new());
    let mut all = vec![Readings::new(); groups];
    while let Some(item) = reader.next() {
        machine.add(&item);
        for change in machine.changes() {
            let Change::GroupCounted {
                group,
                enabled,
                running,
            } = change
            else {
                continue;
            };
            let of_group = all.get_mut(usize::from(*group));
            let (Some(of_group), Some(cpu)) = (of_group, machine.cpu()) else {
                continue;
            };
            let of_cpu = of_group.entry(cpu).or_default();
            let counts = machine.counted().to_vec();
            if !counts.is_empty() {
                of_cpu.push(Reading {
                    at: machine.now(),
                    time_enabled: *enabled,
                    time_running: *running,
                    counts,
                });
            }
        }
    }
    Ok(all)
}

/// What all CPUs had counted at a time.
fn total(spec: &GroupSpec, readings: &Readings, until: i64) -> Total {
    let mut total = Total::default();
    for of_cpu in readings.values() {
        let behind = of_cpu.partition_point(|reading| reading.at <= until);
        let last = of_cpu.get(..behind).and_then(<[Reading]>::last);
        let (enabled, running) = last.map_or((0, 0), |it| (it.time_enabled, it.time_running));
        let counts = (0..spec.events().len()).map(|place| {
            last.and_then(|it| it.counts.get(place).copied())
                .unwrap_or(0)
        });
        let events = spec.events().iter().copied();
        total.add(enabled, running, events.zip(counts));
    }
    total
}

/// Prints the counts of each interval, if asked for, and of all the time.
fn print(
    groups: &[NamedGroup],
    readings: &[Readings],
    interval: Option<u64>,
    out: &mut Writer,
) -> anyhow::Result<()> {
    let times = || {
        let of_cpus = readings.iter().flat_map(BTreeMap::values);
        of_cpus.flatten().map(|reading| reading.at)
    };
    let totals = |until: i64| -> Vec<Total> {
        let groups = groups.iter().zip(readings);
        groups
            .map(|(group, readings)| total(&group.spec, readings, until))
            .collect()
    };
    let (begin, end) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
    let since_begin = |at: i64| Duration::from_nanos(at.abs_diff(begin));
    if let Some(step) = interval.and_then(|ms| i64::try_from(ms.saturating_mul(1_000_000)).ok()) {
        let (mut at, mut before) = (begin, totals(begin));
        while at < end {
            let next = at.saturating_add(step).min(end);
            let now = totals(next);
            let grown = now.iter().zip(&before);
            let counts = Counts {
                groups,
                labels: &[],
                totals: grown.map(|(now, before)| now.since(before)).collect(),
                readings: None,
                elapsed: Duration::from_nanos(next.abs_diff(at)),
                time: since_begin(next),
            };
            out.write(&counts, Part::Interval, &End::Stopped)?;
            (at, before) = (next, now);
        }
    }
    let counts = Counts {
        groups,
        labels: &[],
        totals: totals(end),
        readings: None,
        elapsed: since_begin(end),
        time: since_begin(end),
    };
    out.write(&counts, Part::Total, &End::Stopped)
}
