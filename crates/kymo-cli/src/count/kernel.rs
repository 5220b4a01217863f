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

/// What a CPU had counted at a time.
struct Reading {
    /// Nanoseconds from the clock's origin.
    at: i64,
    time_enabled: u64,
    time_running: u64,
    counts: Vec<u64>,
}

/// Each CPU's readings, in time order.
type Readings = BTreeMap<u64, Vec<Reading>>;

/// Boots the kernel, and prints what all its CPUs have counted together.
pub fn count(arguments: &Arguments, kernel: &Path) -> anyhow::Result<Code> {
    let spec = group(&arguments.event)?;
    let names: Vec<String> = spec.events().iter().map(EventSpec::to_string).collect();
    let boot = Boot {
        modes: vec![Mode::Count],
        counters: names.clone(),
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
    let readings = readings(&scratch.0)?;
    if readings.is_empty() {
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
    let groups = [NamedGroup::from(spec)];
    print(&groups, &readings, arguments.interval, &mut out)?;
    out.finish()?;
    let idle: Vec<String> = readings
        .iter()
        .filter(|(_, readings)| readings.is_empty())
        .map(|(cpu, _)| cpu.to_string())
        .collect();
    if !idle.is_empty() {
        message!("kymo: these CPUs could not count: {}.", idle.join(", "));
    }
    Ok(match recorded.ending {
        Ending::PoweredOff | Ending::Interrupted => Code::Ok,
        ending => {
            message!("kymo: the machine {ending}.");
            Code::Findings
        }
    })
}

/// The one group that a kernel counts: all events that are named, with braces around them or
/// without.
fn group(lists: &[String]) -> anyhow::Result<GroupSpec> {
    let list = lists.join(",");
    let list = list.trim();
    if list.is_empty() {
        let default = [Hardware::Cycles, Hardware::Instructions].map(EventSpec::hardware);
        return Ok(GroupSpec::new(&default)?);
    }
    let inner = list
        .strip_prefix('{')
        .and_then(|list| list.strip_suffix('}'));
    let inner = inner.unwrap_or(list);
    if inner.contains(['{', '}']) {
        let what = "a kernel counts one group on each CPU; name one, such as -e \
                    '{cycles,instructions}'";
        return Err(Usage(what.to_owned()).into());
    }
    let mut events = Vec::new();
    for name in inner.split(',').map(str::trim) {
        let event = EventSpec::from_name(name);
        events.push(event.ok_or_else(|| refused(name))?);
    }
    Ok(GroupSpec::new(&events).map_err(Error::from)?)
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

fn readings(trace: &Path) -> anyhow::Result<Readings> {
    let trace = Trace::open(trace)?;
    let map = trace.map();
    let (mut reader, mut machine, mut all) = (map.read(), Machine::new(), Readings::new());
    while let Some(item) = reader.next() {
        machine.add(&item);
        for change in machine.changes() {
            let (Change::GroupCounted { enabled, running }, Some(cpu)) = (change, machine.cpu())
            else {
                continue;
            };
            let of_cpu = all.entry(cpu).or_default();
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
    groups: &[NamedGroup; 1],
    readings: &Readings,
    interval: Option<u64>,
    out: &mut Writer,
) -> anyhow::Result<()> {
    let [group] = groups;
    let times = || readings.values().flatten().map(|reading| reading.at);
    let (begin, end) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
    let since_begin = |at: i64| Duration::from_nanos(at.abs_diff(begin));
    if let Some(step) = interval.and_then(|ms| i64::try_from(ms.saturating_mul(1_000_000)).ok()) {
        let (mut at, mut before) = (begin, total(&group.spec, readings, begin));
        while at < end {
            let next = at.saturating_add(step).min(end);
            let now = total(&group.spec, readings, next);
            let counts = Counts {
                groups,
                labels: &[],
                totals: vec![now.since(&before)],
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
        totals: vec![total(&group.spec, readings, end)],
        readings: None,
        elapsed: since_begin(end),
        time: since_begin(end),
    };
    out.write(&counts, Part::Total, &End::Stopped)
}
