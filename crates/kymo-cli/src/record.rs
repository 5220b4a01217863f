//! `kymo record`.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use kymo::Overflow;
use kymo_capture::qemu::{self, Boot, Launch};
use kymo_capture::record::{self, Ending, Options, Progress, Recorded, Unanswered, Via};

use crate::exit::Code;
use crate::output::create_directory;
use crate::{boot_check, summary};

/// For `--help`.
pub const EXAMPLES: &str = "Examples:
  kymo record my-kernel.elf --out trace
  kymo record my-kernel.elf --out trace --duration 10 --rolling --events 'sched_*,irq_handler_*'
  kymo record my-kernel.elf --out trace --cpus 8 --append \"kymo=discard\" --timeout 60
  kymo record my-kernel.elf --out trace --via both
  kymo record --out trace -- qemu-system-riscv64 -M virt -smp 4 -m 1G -kernel my-kernel.elf -nographic

The standard machine is chosen by the kernel: for RISC-V (64 bits) QEMU's `virt`; for x86-64 `q35`, and the kernel needs a PVH entry note.
With a command of your own, only a memory backend is added to it, and what --via, --rolling and --events ask for. The machine is ended when
kymo ends, however that happens; the trace holds whole packets at every moment.

--rolling, --events and --via are said to the kernel by the word kymo= of its command line, as in kymo=start,rolling,events=irq_*:sched_switch;
a kernel that does not read it does as it likes, and kymo says so.";

/// The way out of the machine.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Way {
    /// Kymo reads the machine's memory; the guest does nothing for it.
    Memory,
    /// A program in the guest reads by system calls and sends over a virtio serial port.
    Syscall,
    /// Each of them, to OUT/memory and OUT/syscall.
    Both,
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

/// The command line.
#[derive(clap::Args)]
pub struct Arguments {
    /// The kernel, an ELF file; or nothing, and a QEMU command after `--`.
    #[arg(required_unless_present = "command", conflicts_with = "command")]
    kernel: Option<PathBuf>,
    /// The new trace directory.
    #[arg(long, short)]
    out: PathBuf,
    /// How the trace leaves the machine.
    #[arg(long, value_enum, default_value = "memory")]
    via: Way,
    /// Ends the recording so many seconds after the kernel has begun it, and the machine with it.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    duration: Option<Duration>,
    /// Asks the kernel to keep the newest events where a ring is full, instead of the oldest.
    #[arg(long)]
    rolling: bool,
    /// Asks the kernel to record these events only: names, separated by commas; a name may end with
    /// `*`.
    #[arg(long, value_name = "NAMES")]
    events: Option<String>,
    /// CPUs of the standard machine.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=512), conflicts_with = "command")]
    cpus: u32,
    /// The kernel's command line on the standard machine.
    #[arg(long, conflicts_with = "command")]
    append: Option<String>,
    /// Counts instructions instead of running freely (`-icount shift=0,sleep=off`, and on x86 a
    /// fixed clock of the day): the same run again gives the same trace.
    #[arg(long, conflicts_with = "command")]
    deterministic: bool,
    /// Ends the machine after so many seconds, whatever it does; the exit code is 1 then.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// How long a guest that sends its trace may take to send the rest, once it was asked to stop.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "10")]
    grace: Duration,
    /// Leaves the machine's memory in the trace directory, as `.ram`, for `kymo recover`.
    #[arg(long)]
    keep_ram: bool,
    /// Your own QEMU command.
    #[arg(last = true, value_name = "QEMU COMMAND")]
    command: Vec<OsString>,
}

/// A time on the command line.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "a number of seconds, such as 30 or 0.5".to_owned())?;
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| "a number of seconds that is not negative".to_owned())
}

/// How another directory is given.
pub const OTHER_OUT: &str = "give another one with --out";

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static BAR: OnceLock<ProgressBar> = OnceLock::new();

/// From now on, interrupts are noted and end nothing by themselves.
pub fn watch_interrupts() -> anyhow::Result<&'static AtomicBool> {
    ctrlc::set_handler(|| INTERRUPTED.store(true, Relaxed))
        .context("cannot watch for interrupts (start kymo from another shell)")?;
    Ok(&INTERRUPTED)
}

/// The machine's console and the progress bar share the terminal: the bar makes way for each line.
fn print(line: &[u8]) {
    let write = || {
        let mut out = std::io::stdout().lock();
        // A reader of the console that went away does not end the recording.
        let _ = out.write_all(line).and_then(|()| out.flush());
    };
    match BAR.get() {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// `kymo record`.
pub fn run(arguments: &Arguments) -> anyhow::Result<Code> {
    let ram = record::ram_file(&arguments.out);
    let via = Via::from(arguments.via);
    let events = arguments
        .events
        .as_deref()
        .map(Boot::names)
        .transpose()
        .map_err(qemu::Error::from)?;
    let boot = Boot {
        rolling: arguments.rolling,
        events: events.unwrap_or_default(),
        send: via != Via::Memory,
    };
    let launch = match &arguments.kernel {
        Some(kernel) => {
            let launch = Launch::kernel_with_boot(
                kernel,
                arguments.cpus,
                arguments.append.as_deref(),
                &boot,
                &ram,
            )?;
            if arguments.deterministic {
                launch.deterministic()
            } else {
                launch
            }
        }
        None => Launch::command(&arguments.command, &ram)?.with_boot(&boot)?,
    };
    if via != Via::Memory {
        launch.check_port()?;
    }
    let made = create_directory(&arguments.out, OTHER_OUT)?;
    let interrupted = watch_interrupts()?;
    let bar = BAR.get_or_init(progress_bar);
    let options = Options {
        launch: &launch,
        out: &arguments.out,
        via,
        duration: arguments.duration,
        timeout: arguments.timeout,
        grace: arguments.grace,
        keep_ram: arguments.keep_ram,
        interrupted,
        console: (!bar.is_hidden()).then_some(print),
    };
    let recorded = record::record(&options, |progress| show(bar, progress));
    bar.finish_and_clear();
    let recorded = recorded.inspect_err(|_| made.undo())?;
    let found = report(&recorded, arguments, via, &boot);
    Ok(match recorded.ending {
        Ending::PoweredOff | Ending::Interrupted | Ending::Duration if !found => Code::Ok,
        _ => Code::Findings,
    })
}

/// Prints what was recorded; gives whether anything is wrong with it.
fn report(recorded: &Recorded, arguments: &Arguments, via: Via, boot: &Boot) -> bool {
    let mut found = false;
    let mut how = format!("the machine {}; ", recorded.ending);
    if let Some(out) = via.memory(&arguments.out) {
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
                         the first only."
                    );
                }
                let not_rolling = boot.rolling && memory.overflow != Overflow::Overwrite;
                found |= boot_check::report(&out, boot, not_rolling);
            }
            None => {
                message!("kymo: {how}there was no trace in its memory.");
                found = true;
            }
        }
    }
    if let (Some(out), Some(received)) = (via.syscall(&arguments.out), &recorded.received) {
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
                let grace = arguments.grace.as_secs_f64();
                message!(
                    "kymo: the guest was asked to stop and did not say within {grace} s that it \
                     had; the trace holds what had arrived."
                );
            }
            Some(Unanswered::Interrupted) => {
                message!(
                    "kymo: the guest was asked to stop and not waited for any longer; the trace \
                     holds what had arrived."
                );
            }
            None if received.closed.is_none() => {
                message!(
                    "kymo: the machine ended before the guest had said that all was sent; the \
                     trace holds what had arrived."
                );
            }
            None => {}
        }
        if received.another_session {
            message!(
                "kymo: the guest opened another session after this one; the trace has the first \
                 only."
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

/// A progress bar, on a terminal only: elsewhere it would fill a log.
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

/// Shows on the bar where a recording stands.
pub fn show(bar: &ProgressBar, progress: Progress) {
    if bar.is_hidden() {
        return;
    }
    let events = progress.events.map(|(events, lost)| match lost {
        0 => format!("{} events", summary::thousands(events)),
        lost => format!(
            "{} events, {} lost",
            summary::thousands(events),
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
