//! `kymo record` of a kernel that sends its trace itself: over a serial line, in an RTT up-buffer,
//! or into a file.

use std::path::{Path, PathBuf};

use kymo_capture::receive::{self, Ending, Line, Options};

use crate::exit::{Code, Usage};
use crate::output::create_directory;
use crate::record::{OTHER_OUT, progress_bar, show, watch_interrupts};
use crate::recover::address;
use crate::summary;

/// Bits a second of a serial line whose speed is not given.
const BAUD: u32 = 115_200;

/// What makes and configures a machine, which is not kymo's here.
#[rustfmt::skip]
const MACHINE: [&str; 21] = [
    "kernel", "command", "via", "rolling", "events", "mode", "hz", "period", "count", "depth",
    "driver", "stacks", "counters", "counters_every", "counters_on", "cpus", "append",
    "deterministic", "accel", "stdin", "keep_ram",
];

/// The line of a running kernel.
#[derive(clap::Args)]
pub struct Lines {
    /// Record what a running kernel sends over this serial line, at 115200 baud or another speed.
    #[arg(long, value_name = "DEV[:BAUD]", conflicts_with_all = others("serial"))]
    serial: Option<PathBuf>,
    /// Record what a running kernel puts into its RTT up-buffer named `Kymo`: the file holds the
    /// machine's memory.
    #[arg(long, value_name = "RAMFILE", conflicts_with_all = others("rtt"))]
    rtt: Option<PathBuf>,
    /// Address of the RAM file's first byte, for RTT blocks that are not Kymo's own.
    #[arg(long, requires = "rtt", value_parser = address)]
    base: Option<u64>,
    /// Read what a kernel has written into this file, by semihosting for instance.
    #[arg(long, value_name = "FILE", conflicts_with_all = others("file"))]
    file: Option<PathBuf>,
}

/// The options that make no sense with this one.
fn others(line: &str) -> Vec<&'static str> {
    let own: &[&str] = match line {
        "rtt" => &["rtt", "base"],
        _ => &[line],
    };
    let lines = ["serial", "rtt", "base", "file"].into_iter();
    let others = lines.filter(|name| !own.contains(name));
    MACHINE.into_iter().chain(others).collect()
}

impl Lines {
    /// The line, if one is given.
    fn line(&self) -> Result<Option<Line<'_>>, Usage> {
        Ok(match self {
            Lines {
                serial: Some(path), ..
            } => Some(serial(path)?),
            Lines {
                rtt: Some(path), ..
            } => Some(Line::Rtt {
                path,
                base: self.base,
            }),
            Lines { file, .. } => file.as_deref().map(Line::File),
        })
    }
}

/// Splits the speed off, which follows the last colon. Names of devices may have colons, too.
fn serial(argument: &Path) -> Result<Line<'_>, Usage> {
    let text = argument.to_str().filter(|_| !argument.exists());
    let Some((device, speed)) = text.and_then(|text| text.rsplit_once(':')) else {
        let (path, baud) = (argument, BAUD);
        return Ok(Line::Serial { path, baud });
    };
    match speed.parse() {
        Ok(baud) if baud > 0 => Ok(Line::Serial {
            path: Path::new(device),
            baud,
        }),
        _ => Err(Usage(format!(
            "\"{speed}\" is no speed of a serial line; give a number of bits a second, as in \
             --serial /dev/ttyUSB0:921600"
        ))),
    }
}

/// Records over the line; `None` if none is given.
pub fn run(
    lines: &Lines,
    out: &Path,
    limits: impl FnOnce(&mut Options<'_>),
) -> anyhow::Result<Option<Code>> {
    let Some(line) = lines.line()? else {
        return Ok(None);
    };
    let made = create_directory(out, OTHER_OUT)?;
    let mut options = Options {
        line,
        out,
        duration: None,
        timeout: None,
        grace: std::time::Duration::ZERO,
        interrupted: watch_interrupts()?,
    };
    limits(&mut options);
    let bar = progress_bar();
    let received = receive::receive(&options, |progress| show(&bar, progress));
    bar.finish_and_clear();
    let (received, ending) = received.inspect_err(|_| made.undo())?;
    message!(
        "kymo: {ending}; {} has {}",
        out.display(),
        summary::received(&received)
    );
    for sentence in summary::faults(&received) {
        message!("kymo: {sentence}");
    }
    if received.closed.is_none() {
        message!(
            "kymo: the kernel did not send the end of its trace; the trace holds what had arrived."
        );
    }
    if received.another_session {
        message!(
            "kymo: the kernel opened another session after this one; the trace has only the first."
        );
    }
    Ok(Some(match ending {
        Ending::TimeLimit => Code::Findings,
        _ if received.is_whole() => Code::Ok,
        _ => Code::Findings,
    }))
}
