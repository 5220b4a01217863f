//! `kymo record`.

use std::ffi::OsString;
use std::fs;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use kymo_capture::qemu::Launch;
use kymo_capture::record::{self, Ending, Options, Progress};

use crate::exit::{Code, Usage};
use crate::summary;

/// For `--help`.
pub const EXAMPLES: &str = "Examples:
  kymo record my-kernel.elf --out trace
  kymo record my-kernel.elf --out trace --cpus 8 --append \"mode=discard\" --timeout 60
  kymo record --out trace -- qemu-system-riscv64 -M virt -smp 4 -m 1G -kernel my-kernel.elf -nographic

The standard machine is chosen by the kernel: for RISC-V (64 bits) QEMU's `virt`; for x86-64 `q35`, and the kernel needs a PVH entry note.
With a command of your own, only a memory backend is added to it. The machine is ended when kymo ends, however that happens; the trace holds
whole packets at every moment.";

/// The command line.
#[derive(clap::Args)]
pub struct Arguments {
    /// The kernel, an ELF file; or nothing, and a QEMU command after `--`.
    #[arg(required_unless_present = "command", conflicts_with = "command")]
    kernel: Option<PathBuf>,
    /// The new trace directory.
    #[arg(long, short)]
    out: PathBuf,
    /// CPUs of the standard machine.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=512), conflicts_with = "command")]
    cpus: u32,
    /// The kernel's command line on the standard machine.
    #[arg(long, conflicts_with = "command")]
    append: Option<String>,
    /// Counts instructions instead of running freely (`-icount shift=0,sleep=off`, and on x86 a fixed clock of the day): the same run again gives the same trace.
    #[arg(long, conflicts_with = "command")]
    deterministic: bool,
    /// Ends the machine after so many seconds; the exit code is 1 then.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Leaves the machine's memory in the trace directory, as `.ram`, for `kymo recover`.
    #[arg(long)]
    keep_ram: bool,
    /// Your own QEMU command.
    #[arg(last = true, value_name = "QEMU COMMAND")]
    command: Vec<OsString>,
}

/// A time on the command line.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number of seconds, such as 30 or 0.5".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|_| "a number of seconds that is not negative".to_owned())
}

/// A directory that was made, or was there and empty.
pub struct Fresh {
    path: PathBuf,
    created: bool,
}

impl Fresh {
    /// Takes it away again if we made it and nothing came of it.
    pub fn undo(&self) {
        if self.created {
            // Fails, rightly, if something is in it.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// Makes the directory for a new trace; refuses one that holds something.
pub fn fresh_directory(path: &Path) -> anyhow::Result<Fresh> {
    match fs::read_dir(path) {
        Ok(mut entries) => {
            if entries.next().is_some() {
                return Err(Usage(format!("{} is not empty: give a new directory for the trace", path.display())).into());
            }
            Ok(Fresh { path: path.to_owned(), created: false })
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            fs::create_dir_all(path).with_context(|| format!("cannot make the directory {}", path.display()))?;
            Ok(Fresh { path: path.to_owned(), created: true })
        }
        Err(_) => Err(Usage(format!("{} is no directory that a trace could be written to", path.display())).into()),
    }
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static BAR: OnceLock<ProgressBar> = OnceLock::new();

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

/// Does it.
pub fn run(arguments: &Arguments) -> anyhow::Result<Code> {
    let ram = record::ram_file(&arguments.out);
    let launch = match &arguments.kernel {
        Some(kernel) => {
            let launch = Launch::kernel(kernel, arguments.cpus, arguments.append.as_deref(), &ram)?;
            if arguments.deterministic { launch.deterministic() } else { launch }
        }
        None => Launch::command(&arguments.command, &ram)?,
    };
    let made = fresh_directory(&arguments.out)?;
    ctrlc::set_handler(|| INTERRUPTED.store(true, Relaxed)).context("cannot watch for interrupts")?;
    let bar = BAR.get_or_init(progress_bar);
    let options = Options {
        launch: &launch,
        out: &arguments.out,
        timeout: arguments.timeout,
        keep_ram: arguments.keep_ram,
        interrupted: &INTERRUPTED,
        console: (!bar.is_hidden()).then_some(print),
    };
    let recorded = record::record(&options, |progress| show(bar, progress));
    bar.finish_and_clear();
    let recorded = recorded.inspect_err(|_| made.undo())?;
    let (ending, out) = (recorded.ending, arguments.out.display());
    eprintln!("kymo: the machine {ending}; {out} has {}", summary::sentences(&recorded.summary));
    if recorded.another_session {
        eprintln!("kymo: the kernel started another session after this one; the trace has the first only.");
    }
    Ok(match recorded.ending {
        Ending::PoweredOff | Ending::Interrupted => Code::Ok,
        Ending::Status(_) | Ending::TimeLimit => Code::Findings,
    })
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

/// Says on the bar where a recording stands.
pub fn show(bar: &ProgressBar, progress: Progress) {
    if bar.is_hidden() {
        return;
    }
    bar.set_message(match progress.events {
        None => "waiting for the kernel to start its trace".to_owned(),
        Some((events, 0)) => format!("{} events", summary::thousands(events)),
        Some((events, lost)) => format!("{} events, {} lost", summary::thousands(events), summary::thousands(lost)),
    });
    bar.tick();
}
