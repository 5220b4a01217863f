//! `kymo attach`.

use std::path::PathBuf;
use std::time::Duration;

use kymo_capture::attach::{self, Machine, Options};
use kymo_images::Symbols;

use crate::exit::{Code, Usage};
use crate::live::{Page, Shown};
use crate::next::suggest_report;
use crate::output::create_directory;
use crate::record::{OTHER_OUT, progress_bar, seconds, show, watch_interrupts};
use crate::recover::address;
use crate::summary;

/// Examples for `--help`.
pub const EXAMPLES: &str = "Examples:
  kymo attach /dev/shm/guest.ram --out trace             until Ctrl-C, or until it ends
  kymo attach /dev/shm/guest.ram --out trace --duration 5
  kymo attach --qmp qmp.sock --out trace
  kymo attach --qmp qmp.sock --snapshot --out trace      stops the machine while copying

The machine's memory must be a shared file:
  -M ..,memory-backend=m -object memory-backend-file,id=m,size=..,mem-path=..,share=on

The machine is neither asked for anything nor stopped (except by --snapshot). The trace begins with
what the rings still hold. If the session waits for a host to empty its rings, kymo does so, unless
another kymo already does.";

/// Command line of `kymo attach`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The file that holds the machine's memory.
    #[arg(
        value_name = "RAMFILE",
        required_unless_present = "qmp",
        conflicts_with = "qmp"
    )]
    ram: Option<PathBuf>,
    /// The socket of QEMU's option -qmp; kymo asks it for the memory file and for the machine's
    /// end.
    #[arg(long, value_name = "SOCKET")]
    qmp: Option<PathBuf>,
    /// The new trace directory.
    #[arg(long, short)]
    out: PathBuf,
    /// Detach this many seconds after the recording began.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, conflicts_with = "snapshot")]
    duration: Option<Duration>,
    /// Physical address of the file's first byte, if not 0, 0x40000000 or 0x80000000.
    #[arg(long, value_parser = address, conflicts_with = "qmp")]
    base: Option<u64>,
    /// Let QEMU stop the machine, copy its memory and resume it, and read the trace from the copy.
    /// Works with any memory.
    #[arg(long, requires = "qmp", conflicts_with = "ram")]
    snapshot: bool,
    #[command(flatten)]
    shown: Shown,
}

/// The machine that the command line names.
fn machine(arguments: &Arguments) -> anyhow::Result<Machine<'_>> {
    match (&arguments.ram, &arguments.qmp) {
        (Some(file), _) => Ok(Machine::Ram {
            file,
            base: arguments.base,
        }),
        #[cfg(unix)]
        (None, Some(socket)) => Ok(Machine::Qmp {
            socket,
            snapshot: arguments.snapshot,
        }),
        _ => Err(Usage("give the file with the machine's memory".to_owned()).into()),
    }
}

/// Runs `kymo attach`.
pub fn run(arguments: &Arguments) -> anyhow::Result<Code> {
    let mut page = None;
    let code = attach(arguments, &mut page)?;
    page.map(Page::stay).transpose()?;
    Ok(code)
}

/// Attaches, and shows meanwhile on `page` what was recorded, if that is asked for.
fn attach(arguments: &Arguments, page: &mut Option<Page>) -> anyhow::Result<Code> {
    let machine = machine(arguments)?;
    let made = create_directory(&arguments.out, OTHER_OUT)?;
    let shown = arguments.shown.page(&arguments.out, Symbols::default());
    *page = shown.inspect_err(|_| made.undo())?;
    let interrupted = watch_interrupts()?;
    let bar = progress_bar();
    let options = Options {
        machine,
        out: &arguments.out,
        duration: arguments.duration,
        interrupted,
    };
    let attached = attach::attach(&options, |progress| show(&bar, progress));
    bar.finish_and_clear();
    let attached = attached.inspect_err(|_| made.undo())?;
    message!(
        "kymo: {}; {} has {}",
        attached.ending,
        arguments.out.display(),
        summary::sentences(&attached.summary)
    );
    if let Some(sentence) = summary::lost_before(&attached.summary) {
        message!("kymo: {sentence}");
    }
    if attached.only_looked {
        message!(
            "kymo: the rings were read without emptying them: another program empties them, or the \
             memory is read-only."
        );
    }
    suggest_report(&arguments.out);
    Ok(Code::Ok)
}
