//! The kernel's command line: QEMU's `-append`.

use kymo::boot::Options;

use crate::program::Program;
use crate::workload::Workload;

/// The settings of a run.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The command line.
    pub line: &'static str,
    /// The workload, unless there are words `run=`.
    pub workload: &'static str,
    /// Amount of each workload.
    pub rounds: u32,
    pub packets: u32,
    pub packet_size: u32,
    pub tick_us: u64,
    /// Microseconds from one record of the counters to the next; 0 for one at the end alone.
    pub counters_us: u64,
    /// The options of the recording.
    pub kymo: Options<'static>,
}

impl Settings {
    /// The defaults.
    pub const DEFAULT: Settings = Settings {
        line: "",
        workload: "all",
        rounds: 200,
        packets: 1024,
        packet_size: 4096,
        tick_us: 1000,
        counters_us: 0,
        kymo: Options::NONE,
    };

    /// Whether to record from boot on. Default: yes, unless a program sends the trace.
    pub fn records_from_boot(&self) -> bool {
        self.kymo.start.unwrap_or(!self.kymo.send)
    }

    /// Workloads and programs to run, in order; programs have their arguments behind commas.
    pub fn runs(&self) -> impl Iterator<Item = &'static str> {
        self.line
            .split_ascii_whitespace()
            .filter_map(|word| word.strip_prefix("run="))
    }
}

pub const KEYS: &str = "workload=NAME, run=WORKLOAD|PROGRAM,WORD,.., rounds=N, packets=N, \
    packet_size=N, tick_us=N (100 to 1000000), counters_us=N, target=OPERATION.UNIT.STATISTIC:N, \
    kymo=start|off|send,rolling|discard,reader=none|kernel|host,events=NAME:NAME, \
    mode=trace:sample:count,period_ns=N,depth=N,driver=timer|nmi|ipi|cycles|instructions,\
    count=N,stacks=NAME:NAME,counters=NAME+NAME++NAME+NAME,count_ns=N,counters_on=NAME:NAME";

/// Parses `key=value` words, separated by blanks. The last word of a key wins, except for `run`.
/// The error is the invalid word.
pub fn parse(line: &'static str) -> Result<Settings, &'static str> {
    let mut settings = Settings {
        line,
        ..Settings::DEFAULT
    };
    settings.kymo = Options::parse(line)?;
    if let Some(name) = settings.kymo.stray(&kymo::vocabulary::ALL) {
        return Err(name);
    }
    for word in line.split_ascii_whitespace() {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        match (key, value, value.parse::<u64>()) {
            ("kymo", ..) => {}
            // Read by the workload `bench`.
            ("target", ..) => {}
            ("workload", ..) if Workload::named(value).is_some() => settings.workload = value,
            ("run", ..) if is_there(value) => {}
            ("rounds", ..) => settings.rounds = value.parse().map_err(|_| word)?,
            ("packets", ..) => settings.packets = value.parse().map_err(|_| word)?,
            ("packet_size", ..) => settings.packet_size = value.parse().map_err(|_| word)?,
            ("tick_us", _, Ok(n @ 100..=1_000_000)) => settings.tick_us = n,
            ("counters_us", _, Ok(n @ 0..=1_000_000_000)) => settings.counters_us = n,
            _ => return Err(word),
        }
    }
    // The program `perf` does not ask for callers of events.
    if settings.kymo.send
        && !settings.records_from_boot()
        && let Some(names) = settings.kymo.stacks
    {
        return Err(names);
    }
    // `perf record` takes one subject.
    if settings.kymo.send
        && !settings.records_from_boot()
        && let Some(second) = settings.runs().nth(1)
    {
        return Err(second);
    }
    Ok(settings)
}

/// Whether this names a workload, or a program before the first comma.
fn is_there(run: &str) -> bool {
    let program = run.split(',').next().unwrap_or("");
    Workload::named(run).is_some() || Program::named(program).is_some()
}
