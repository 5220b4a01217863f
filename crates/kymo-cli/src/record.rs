//! `kymo record`.

#[cfg(target_os = "linux")]
mod program;

use std::ffi::OsString;
use std::fmt;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use kymo::count::{EventSpec, GroupSpec};
use kymo::vocabulary::{MAX_CALLERS, SamplingDriver};
use kymo::{Mode, Overflow};
use kymo_capture::qemu::{self, Boot, Launch};
use kymo_capture::record::{self, Ending, Options, Progress, Recorded, Unanswered, Via};
use kymo_images::Symbols;

use crate::exit::{Code, Usage};
use crate::live::{Page, Shown};
use crate::next::suggest_report;
use crate::output::create_directory;
use crate::{boot_check, group_list, summary};

/// Examples for `--help`.
pub const EXAMPLES: &str = "Examples:
  kymo record -- ./program arguments      a program as it is, on Linux
  kymo record --hz 4000 --out trace --flame out.svg -- make
  kymo record -p 1234 --duration 10 --out trace
  kymo record my-kernel.elf --out trace
  kymo record my-kernel.elf --out trace --duration 10 --rolling --events 'sched_*,irq_handler_*'
  kymo record my-kernel.elf --out trace --cpus 8 --append \"kymo=discard\" --timeout 60
  kymo record my-kernel.elf --out trace --via both
  kymo record my-kernel.elf --out trace --stdin
  kymo record my-kernel.elf --out samples --mode sample --hz 10000
  kymo record my-kernel.elf --out trace --stacks sched_switch,lock_wait
  kymo record my-kernel.elf --out trace --counters cycles,instructions --counters-on 'sys_*,sched_switch'
  kymo record --out trace -- qemu-system-riscv64 -M virt -smp 4 -m 1G -kernel my-kernel.elf -nographic
  kymo record --out trace --serial /dev/ttyUSB0:921600       what a running kernel sends
  kymo record --out trace --rtt /dev/shm/guest.ram --duration 10
  kymo record --out trace --file sent-by-semihosting.bin

A command whose file name begins with qemu-system- is a machine with a kernel, and every other one is
a program: its threads and children are sampled from its first instruction on, and the kernel on
their behalf where that is permitted. It takes --hz, --duration, --out and --flame.

The kernel selects the standard machine: QEMU's `virt` for RISC-V and AArch64; `q35` for x86-64, where the kernel needs a PVH entry note.
To a command of your own, kymo adds only a memory backend and what --via, --rolling and --events need. The machine ends when kymo ends,
however that happens. The trace always consists of whole packets.

--rolling, --events, --via and the options of samples are passed to the kernel in the word kymo= of
its command line, as in kymo=start,rolling,events=irq_*:sched_switch. If the trace shows that the
kernel ignored them, kymo reports it.";

/// How the trace leaves the machine.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Way {
    /// Kymo reads the machine's memory, without help from the guest.
    Memory,
    /// A program in the guest reads the trace by system calls and sends it over a virtio serial
    /// port.
    Syscall,
    /// Both ways, to OUT/memory and OUT/syscall.
    Both,
}

/// What is recorded.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum RecordMode {
    /// What happened: events.
    Trace,
    /// Where the time goes: the place of each CPU, and how it got there, at intervals.
    Sample,
    /// How much of the hardware is used: what every CPU's counters count.
    Count,
}

/// What makes the samples.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Driver {
    /// Each CPU's own timer; code with interrupts masked is seen where it unmasks them.
    Timer,
    /// A CPU set aside, which interrupts the others by NMI; it sees code with interrupts masked.
    Nmi,
    /// A CPU set aside, which interrupts the others.
    Ipi,
    /// A counter of each CPU's cycles, which interrupts when it overflows; see --count.
    Cycles,
    /// A counter of each CPU's instructions, which interrupts when it overflows; see --count.
    Instructions,
}

impl From<Driver> for SamplingDriver {
    fn from(driver: Driver) -> SamplingDriver {
        match driver {
            Driver::Timer => SamplingDriver::Timer,
            Driver::Nmi => SamplingDriver::Nmi,
            Driver::Ipi => SamplingDriver::Ipi,
            Driver::Cycles => SamplingDriver::Cycles,
            Driver::Instructions => SamplingDriver::Instructions,
        }
    }
}

/// What executes the machine's instructions.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Accelerator {
    /// QEMU translates them.
    Tcg,
    /// The host's processor executes them (Linux).
    Kvm,
}

impl Arguments {
    /// The recording options for the kernel.
    fn boot(&self) -> anyhow::Result<Boot> {
        let names = |list: &Option<String>| {
            let names = list.as_deref().map(Boot::names).transpose();
            names
                .map(Option::unwrap_or_default)
                .map_err(qemu::Error::from)
        };
        let mut modes = self.mode.clone();
        let stacks = names(&self.stacks)?;
        let settings = [
            (self.hz.is_some(), "--hz"),
            (self.period.is_some(), "--period"),
            (self.count.is_some(), "--count"),
            (self.driver.is_some(), "--driver"),
        ];
        if let Some((_, option)) = settings.iter().find(|(is_given, _)| *is_given)
            && !modes.contains(&RecordMode::Sample)
        {
            return Err(Usage(format!("{option} is for samples; add --mode sample")).into());
        }
        let driver = self.driver.map(SamplingDriver::from);
        let counts = driver.is_some_and(|driver| driver.counts().is_some());
        if counts && (self.hz.is_some() || self.period.is_some()) {
            let what = "--driver cycles and instructions take --count, not --hz or --period";
            return Err(Usage(what.to_owned()).into());
        }
        if self.count.is_some() && !counts {
            let what = "--count is for a counter; add --driver cycles or --driver instructions";
            return Err(Usage(what.to_owned()).into());
        }
        if !stacks.is_empty() && modes == [RecordMode::Sample] {
            let what = "--stacks is for events; add --mode trace,sample, or leave --mode out";
            return Err(Usage(what.to_owned()).into());
        }
        if self.depth.is_some() && stacks.is_empty() && !modes.contains(&RecordMode::Sample) {
            let what = "--depth is for callers; add --mode sample or --stacks";
            return Err(Usage(what.to_owned()).into());
        }
        if self.deterministic && self.accel == Accelerator::Kvm {
            let what = "KVM does not count instructions; leave --deterministic or --accel kvm out";
            return Err(Usage(what.to_owned()).into());
        }
        let counters = self.counters.as_deref().map(counted).transpose()?;
        let counters = counters.unwrap_or_default();
        let counters_on = names(&self.counters_on)?;
        let counts = !counters.is_empty() || !counters_on.is_empty();
        if counts && modes.is_empty() {
            modes = vec![RecordMode::Trace];
        }
        if counts && !modes.contains(&RecordMode::Count) {
            modes.push(RecordMode::Count);
        }
        if self.counters_every.is_some() && !modes.contains(&RecordMode::Count) {
            let what = "--counters-every is for counts; add --counters or --mode count";
            return Err(Usage(what.to_owned()).into());
        }
        if !counters_on.is_empty() && !modes.contains(&RecordMode::Trace) {
            let what = "--counters-on is for events; add --mode trace,count, or leave --mode out";
            return Err(Usage(what.to_owned()).into());
        }
        modes.dedup();
        Ok(Boot {
            rolling: self.rolling,
            events: names(&self.events)?,
            send: self.via() != Via::Memory,
            modes: modes.into_iter().map(Mode::from).collect(),
            period_ns: self
                .period
                .map(|us| 1_000 * us)
                .or(self.hz.map(|hz| 1_000_000_000 / hz)),
            depth: self.depth,
            count: self.count,
            driver,
            stacks,
            counters,
            count_ns: self.counters_every.map(|ms| 1_000_000 * ms),
            counters_on,
        })
    }
}

impl Arguments {
    fn via(&self) -> Via {
        self.via.map_or(Via::Memory, Via::from)
    }

    fn grace(&self) -> Duration {
        self.grace.unwrap_or(Duration::from_secs(10))
    }

    /// Whether a program, processes or CPUs of this machine are meant, and no kernel of one's own.
    fn is_of_program(&self) -> bool {
        let name = self
            .command
            .first()
            .and_then(|of| Path::new(of).file_name());
        let is_machine = name.is_some_and(|of| of.to_string_lossy().starts_with("qemu-system-"));
        !self.pid.is_empty() || self.all_cpus || (name.is_some() && !is_machine)
    }

    /// Refuses by name what only kernels can do.
    fn refuse_options_of_kernels(&self) -> Result<(), Usage> {
        let is_of_samples = self.mode.is_empty() || self.mode == [RecordMode::Sample];
        let given = [
            (self.shown.is_given(), "--view"),
            (self.via.is_some(), "--via"),
            (self.rolling, "--rolling"),
            (self.events.is_some(), "--events"),
            (!is_of_samples, "--mode trace and count"),
            (self.period.is_some(), "--period"),
            (self.count.is_some(), "--count"),
            (self.depth.is_some(), "--depth"),
            (self.driver.is_some(), "--driver"),
            (self.stacks.is_some(), "--stacks"),
            (self.counters.is_some(), "--counters"),
            (self.counters_every.is_some(), "--counters-every"),
            (self.counters_on.is_some(), "--counters-on"),
            (self.timeout.is_some(), "--timeout"),
            (self.grace.is_some(), "--grace"),
            (self.stdin, "--stdin"),
            (self.keep_ram, "--keep-ram"),
        ];
        match given.iter().find(|(is_given, _)| *is_given) {
            Some((_, option)) => Err(Usage(format!(
                "{option}: only kernels have that; leave it out (a program takes --hz, --duration, \
                 --out and --flame)"
            ))),
            None => Ok(()),
        }
    }
}

/// The names of events to count by group, each checked.
fn counted(list: &str) -> anyhow::Result<Vec<Vec<String>>> {
    let usage = |what: &dyn fmt::Display| Usage(format!("--counters: {what}"));
    let mut groups = Vec::new();
    for names in group_list::split(list).map_err(|what| usage(&what))? {
        let mut specs = Vec::new();
        for name in names {
            let Some(spec) = EventSpec::from_name(name) else {
                let what = format!("\"{name}\" cannot be counted; kymo count --list has the names");
                return Err(Usage(what).into());
            };
            specs.push(spec);
        }
        groups.push(GroupSpec::new(&specs).map_err(|refused| usage(&refused))?);
    }
    if let Some(what) = group_list::too_many(&groups) {
        return Err(usage(&what).into());
    }
    let names = |group: &GroupSpec| group.events().iter().map(EventSpec::to_string).collect();
    Ok(groups.iter().map(names).collect())
}

impl From<RecordMode> for Mode {
    fn from(mode: RecordMode) -> Mode {
        match mode {
            RecordMode::Trace => Mode::Trace,
            RecordMode::Sample => Mode::Sample,
            RecordMode::Count => Mode::Count,
        }
    }
}

impl From<Way> for Via {
    fn from(way: Way) -> Via {
        match way {
            Way::Memory => Via::Memory,
            Way::Syscall => Via::Syscall,
            Way::Both => Via::Both,
        }
    }
}

/// Command line of `kymo record`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The kernel, an ELF file; omit it to give a QEMU command after `--`.
    #[arg(required_unless_present_any = ["command", "serial", "rtt", "rtt_gdb", "file", "pid",
        "all_cpus"])]
    #[arg(conflicts_with = "command")]
    kernel: Option<PathBuf>,
    /// The new trace directory. Default for programs: trace-PROGRAM, trace-PROGRAM-2 and so on.
    #[arg(long, short)]
    #[arg(required_unless_present_any = ["command", "pid", "all_cpus"])]
    out: Option<PathBuf>,
    /// Sample these running processes, with all their threads, until they end or ^C (Linux).
    #[arg(short, long, value_name = "PID", value_delimiter = ',')]
    #[arg(conflicts_with_all = ["kernel", "command", "all_cpus"])]
    pid: Vec<u32>,
    /// Sample all CPUs, whatever runs there, until the command ends or ^C (Linux).
    #[arg(short, long, conflicts_with = "kernel")]
    all_cpus: bool,
    /// Draw where a program's time went, as a flame graph, to this file.
    #[arg(long, value_name = "SVG", conflicts_with = "kernel")]
    flame: Option<PathBuf>,
    #[command(flatten)]
    line: crate::receive::Lines,
    #[command(flatten)]
    shown: Shown,
    /// How the trace leaves the machine; default: memory.
    #[arg(long, value_enum)]
    via: Option<Way>,
    /// End the recording, and the machine, this many seconds after the kernel started its trace; or
    /// the program, after it was started.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    duration: Option<Duration>,
    /// Ask the kernel to overwrite the oldest events when a ring is full, instead of dropping new
    /// ones.
    #[arg(long)]
    rolling: bool,
    /// Ask the kernel to record only these events: names separated by commas; a name may end with
    /// `*`.
    #[arg(long, value_name = "NAMES")]
    events: Option<String>,
    /// What to record: events, samples of where the CPUs are, counts, or several of them.
    #[arg(long, value_delimiter = ',', value_name = "MODES")]
    mode: Vec<RecordMode>,
    /// Samples a second on each CPU. Default for programs: 997.
    #[arg(long, value_name = "N", conflicts_with = "period")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    hz: Option<u64>,
    /// Microseconds between two samples of a CPU.
    #[arg(long, value_name = "US")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    period: Option<u64>,
    /// Cycles or instructions between two samples of a CPU, with the driver of this name.
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    count: Option<u64>,
    /// Keep at most this many callers of a sample.
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=MAX_CALLERS as i64))]
    depth: Option<u32>,
    /// What makes the samples, where the kernel has it.
    #[arg(long, value_enum)]
    driver: Option<Driver>,
    /// Record who called the tracepoints of these events, too: names separated by commas; a name
    /// may end with `*`.
    #[arg(long, value_name = "NAMES")]
    stacks: Option<String>,
    /// Have every CPU count these events as one group, besides what is recorded otherwise: names
    /// that `kymo count --list` shows, separated by commas. Braces make several groups, up to 4,
    /// which take turns if they do not fit together: '{cycles,instructions},{branches}'. A name
    /// beside braces is a group of its own.
    #[arg(long, value_name = "EVENTS")]
    counters: Option<String>,
    /// Milliseconds until the counts are recorded again.
    #[arg(long, value_name = "MS")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    counters_every: Option<u64>,
    /// Record the counts with these events, too, so that `kymo report` can tell what threads,
    /// system calls and interrupts have used: names separated by commas; a name may end with `*`.
    #[arg(long, value_name = "NAMES")]
    counters_on: Option<String>,
    /// Number of CPUs of the standard machine.
    #[arg(long, default_value_t = 4, conflicts_with_all = ["command", "pid", "all_cpus"])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=512))]
    cpus: u32,
    /// The kernel's command line on the standard machine.
    #[arg(long, conflicts_with_all = ["command", "pid", "all_cpus"])]
    append: Option<String>,
    /// Let the machine's time advance with its instructions (`-icount shift=0,sleep=off`, and a
    /// fixed wall clock on x86), so that every run gives the same trace.
    #[arg(long, conflicts_with_all = ["command", "pid", "all_cpus"])]
    deterministic: bool,
    /// What executes the kernel on the standard machine: QEMU's own translator, or the host's
    /// processor, which must be of the kernel's architecture.
    #[arg(long, value_enum, default_value = "tcg")]
    #[arg(conflicts_with_all = ["command", "pid", "all_cpus"])]
    accel: Accelerator,
    /// End the machine after this many seconds in any case, with exit code 1.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// How long to wait, after asking the guest to stop, for the rest of the trace that it sends;
    /// default: 10.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    grace: Option<Duration>,
    /// Pass the standard input to the machine's console, and show no status line.
    #[arg(long)]
    stdin: bool,
    /// Keep the machine's memory in the trace directory, as `.ram`, for `kymo recover`.
    #[arg(long)]
    keep_ram: bool,
    /// A program with its arguments, or your own QEMU command.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Parses a number of seconds on the command line.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "expected a number of seconds, such as 30 or 0.5".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        "the number of seconds must not be negative, and must be less than 2^64".to_owned()
    })
}

/// Advice for errors about the output directory.
pub const OTHER_OUT: &str = "choose another one with --out";

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static BAR: OnceLock<ProgressBar> = OnceLock::new();

/// Installs a handler that sets the returned flag on an interrupt instead of ending the program.
pub fn watch_interrupts() -> anyhow::Result<&'static AtomicBool> {
    ctrlc::set_handler(|| INTERRUPTED.store(true, Relaxed))
        .context("cannot handle interrupts (start kymo from another shell)")?;
    Ok(&INTERRUPTED)
}

/// Whether the user has interrupted since this was asked, or the interrupt was handled.
pub fn was_interrupted() -> bool {
    INTERRUPTED.swap(false, Relaxed)
}

/// Prints a console line. The progress bar, which shares the terminal, is suspended meanwhile.
fn print(line: &[u8]) {
    let write = || {
        let mut out = std::io::stdout().lock();
        // The recording goes on if the reader of the console goes away.
        let _ = out.write_all(line).and_then(|()| out.flush());
    };
    match BAR.get() {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Runs `kymo record`.
pub fn run(arguments: &Arguments) -> anyhow::Result<Code> {
    if arguments.is_of_program() {
        return run_program(arguments);
    }
    if arguments.flame.is_some() {
        let what = "--flame is for programs; draw a kernel's samples with kymo flame";
        return Err(Usage(what.to_owned()).into());
    }
    let mut page = None;
    let code = record(arguments, &mut page)?;
    page.map(Page::stay).transpose()?;
    Ok(code)
}

/// Records a program as it is.
fn run_program(arguments: &Arguments) -> anyhow::Result<Code> {
    arguments.refuse_options_of_kernels()?;
    let out = match &arguments.out {
        Some(out) => out.clone(),
        None => free_directory(arguments.command.first()),
    };
    #[cfg(target_os = "linux")]
    return program::run(arguments, &out);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = out;
        anyhow::bail!("programs are sampled on Linux only; here, kymo records kernels")
    }
}

/// A directory that does not exist, named after the program.
fn free_directory(program: Option<&OsString>) -> PathBuf {
    let name = program.and_then(|program| Path::new(program).file_name());
    let name = name.map_or("processes".into(), |name| name.to_string_lossy());
    let numbered = |number: u32| PathBuf::from(format!("trace-{name}-{number}"));
    let first = PathBuf::from(format!("trace-{name}"));
    let mut all = std::iter::once(first.clone()).chain((2..).map(numbered));
    all.find(|path| !path.exists()).unwrap_or(first)
}

/// Records, and shows meanwhile on `page` what was recorded, if that is asked for.
fn record(arguments: &Arguments, page: &mut Option<Page>) -> anyhow::Result<Code> {
    // It is noted beside the trace only at the end.
    let symbols = || kernel(arguments).map_or_else(Symbols::default, Symbols::of_kernel);
    let Some(out) = arguments.out.as_deref() else {
        let what = "the trace of a machine needs a place; give a directory with --out";
        return Err(Usage(what.to_owned()).into());
    };
    let sent = crate::receive::run(&arguments.line, out, |options| {
        options.duration = arguments.duration;
        options.timeout = arguments.timeout;
        options.grace = arguments.grace();
        *page = arguments.shown.page(out, symbols())?;
        Ok(())
    })?;
    if let Some(code) = sent {
        return Ok(code);
    }
    let ram = record::ram_file(out);
    let via = arguments.via();
    let boot = arguments.boot()?;
    let launch = match &arguments.kernel {
        Some(kernel) => {
            let launch = Launch::kernel_with_boot(
                kernel,
                arguments.cpus,
                arguments.append.as_deref(),
                &boot,
                &ram,
            )?;
            let launch = match arguments.accel {
                Accelerator::Tcg => launch,
                Accelerator::Kvm => launch.with_kvm()?,
            };
            if arguments.deterministic {
                launch.deterministic()
            } else {
                launch
            }
        }
        None => Launch::command(&arguments.command, &ram)?.with_boot(&boot)?,
    };
    let launch = match arguments.stdin {
        true => launch.taking_input(),
        false => launch,
    };
    if via != Via::Memory {
        launch.check_port()?;
    }
    let made = create_directory(out, OTHER_OUT)?;
    let directories = [via.memory(out), via.syscall(out)];
    if let Some(directory) = directories.into_iter().flatten().next() {
        let shown = arguments.shown.page(&directory, symbols());
        *page = shown.inspect_err(|_| made.undo())?;
    }
    let interrupted = watch_interrupts()?;
    let bar = BAR.get_or_init(|| match arguments.stdin {
        true => ProgressBar::hidden(),
        false => progress_bar(),
    });
    let options = Options {
        launch: &launch,
        out,
        via,
        duration: arguments.duration,
        timeout: arguments.timeout,
        grace: arguments.grace(),
        keep_ram: arguments.keep_ram,
        interrupted,
        console: (!bar.is_hidden()).then_some(print),
    };
    let recorded = record::record(&options, |progress| show(bar, progress));
    bar.finish_and_clear();
    let recorded = recorded.inspect_err(|_| made.undo())?;
    if let Some(kernel) = kernel(arguments) {
        let directories = [via.memory(out), via.syscall(out)];
        let mut directories = directories.into_iter().flatten();
        // What is wrong with the path is wrong for both.
        let noted = directories.try_for_each(|to| kymo_images::note_kernel(&to, kernel));
        if let Err(error) = noted {
            message!("kymo: {error}.");
        }
    }
    let found = report(&recorded, arguments, out, &boot);
    let memory = recorded.memory.as_ref();
    let is_empty = memory.is_some_and(|memory| memory.summary.events() == 0);
    if is_empty && launch.is_own_firmware() {
        message!(
            "kymo: no event came. A kernel that is its own firmware and runs in S-mode must set \
             the bit of `time` in `mcounteren`, or its first event faults."
        );
    }
    let has_trace = recorded.memory.is_some() || recorded.received.is_some();
    let directories = [via.memory(out), via.syscall(out)];
    if let (true, Some(trace)) = (has_trace, directories.into_iter().flatten().next()) {
        suggest_report(&trace);
    }
    Ok(match recorded.ending {
        Ending::PoweredOff | Ending::Interrupted | Ending::Duration if !found => Code::Ok,
        _ => Code::Findings,
    })
}

/// The kernel that was booted, if the command line says which.
fn kernel(arguments: &Arguments) -> Option<&Path> {
    let of_command = || {
        let option = arguments
            .command
            .iter()
            .rposition(|word| word == "-kernel")?;
        arguments.command.get(option + 1).map(Path::new)
    };
    arguments.kernel.as_deref().or_else(of_command)
}

/// Prints what was recorded; returns whether anything is wrong with it.
fn report(recorded: &Recorded, arguments: &Arguments, to: &Path, boot: &Boot) -> bool {
    let via = arguments.via();
    let mut found = false;
    let mut how = format!("the machine {}; ", recorded.ending);
    if let Some(out) = via.memory(to) {
        let how = std::mem::take(&mut how);
        match &recorded.memory {
            Some(memory) => {
                message!(
                    "kymo: {how}{} has {}",
                    out.display(),
                    summary::sentences(&memory.summary)
                );
                if memory.another_session {
                    message!(
                        "kymo: the kernel started another session after this one; the trace has \
                         only the first."
                    );
                }
                let not_rolling = boot.rolling && memory.overflow != Overflow::Overwrite;
                found |= boot_check::report(&out, boot, not_rolling);
            }
            None => {
                message!("kymo: {how}found no trace in its memory.");
                found = true;
            }
        }
    }
    if let (Some(out), Some(received)) = (via.syscall(to), &recorded.received) {
        message!(
            "kymo: {how}{} has {}",
            out.display(),
            summary::received(received)
        );
        for line in summary::faults(received) {
            message!("kymo: {line}");
        }
        match recorded.unanswered {
            Some(Unanswered::InTime) => {
                let grace = arguments.grace().as_secs_f64();
                message!(
                    "kymo: the guest did not confirm within {grace} s that it had stopped; the \
                     trace holds what had arrived."
                );
            }
            Some(Unanswered::Interrupted) => {
                message!(
                    "kymo: interrupted while waiting for the guest to stop; the trace holds what \
                     had arrived."
                );
            }
            None if received.closed.is_none() => {
                message!(
                    "kymo: the machine ended before the guest had sent everything; the trace holds \
                     what had arrived."
                );
            }
            None => {}
        }
        if received.another_session {
            message!(
                "kymo: the guest opened another session after this one; the trace has only the \
                 first."
            );
        }
        found |= !received.is_whole();
        if !received.no_metadata && received.packets > 0 {
            found |= boot_check::report(
                &out,
                boot,
                boot.rolling && received.flags.is_some() && !received.is_rolling(),
            );
        }
    }
    found
}

/// A progress bar; hidden if the standard error is not a terminal, where it would fill a log.
pub fn progress_bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {msg}") {
        bar.set_style(style);
    }
    bar
}

/// Shows the state of a recording on the bar.
pub fn show(bar: &ProgressBar, progress: Progress) {
    if bar.is_hidden() {
        return;
    }
    let events = progress.events.map(|(events, lost)| match lost {
        0 => summary::count(events, "event", "events"),
        lost => format!(
            "{}, {} lost",
            summary::count(events, "event", "events"),
            summary::thousands(lost)
        ),
    });
    let received = progress
        .received
        .filter(|&bytes| bytes > 0)
        .map(|bytes| format!("{} received", summary::size(bytes)));
    let parts: Vec<String> = events.into_iter().chain(received).collect();
    bar.set_message(if parts.is_empty() {
        "waiting for the kernel to start its trace".to_owned()
    } else {
        parts.join("; ")
    });
    bar.tick();
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn groups_to_count_are_checked() {
        assert_eq!(
            counted("cycles, cs").unwrap(),
            [["cycles", "context-switches"]]
        );
        let two = counted("{cycles:u,cs},{cs}").unwrap();
        let two: Vec<_> = two.iter().map(|names| names.join(" ")).collect();
        assert_eq!(two, ["cycles:u context-switches", "context-switches"]);
        for (list, what) in [
            ("{cycles},{cycels}", "\"cycels\" cannot be counted"),
            ("{cycles", "--counters: a brace is not closed"),
            ("{},{cycles}", "--counters: a name is missing"),
            (
                "{cs},{cs},{cs},{cs},{cs}",
                "at most 4 groups, and these are 5",
            ),
            (&["cs"; 17].join(","), "has 17 events"),
        ] {
            let error = counted(list).unwrap_err().to_string();
            assert!(error.contains(what), "{list}: {error}");
        }
    }
}
