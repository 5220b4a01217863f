//! `kymo record` of a kernel that sends its trace itself: over a serial line, in an RTT up-buffer
//! (in a file or behind a debug probe), or into a file.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kymo_capture::receive::{self, Ending, Line, Options};
use kymo_ctf::{Consequence, ItemRef, Trace};

use crate::exit::{Code, Usage};
use crate::next::suggest_report;
use crate::output::create_directory;
use crate::record::{OTHER_OUT, progress_bar, show, watch_interrupts};
use crate::recover::address;
use crate::summary;

/// Bits a second of a serial line whose speed is not given.
const BAUD: u32 = 115_200;
/// Time limit for each answer of a debug probe's server.
const PATIENCE: Duration = Duration::from_secs(5);

/// What makes and configures a machine, which is not kymo's here.
#[rustfmt::skip]
const MACHINE: [&str; 24] = [
    "kernel", "command", "via", "rolling", "events", "mode", "hz", "period", "count", "depth",
    "driver", "stacks", "counters", "counters_every", "counters_on", "cpus", "append",
    "deterministic", "accel", "stdin", "keep_ram", "pid", "all_cpus", "flame",
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
    /// Record what a running kernel puts into its RTT up-buffer named `Kymo`, through a debug
    /// probe: the address of OpenOCD's, J-Link's, probe-rs's or QEMU's server for GDB.
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = others("rtt_gdb"))]
    rtt_gdb: Option<String>,
    /// With --rtt, the address of the file's first byte, for RTT blocks that are not Kymo's own.
    /// With --rtt-gdb, the address of the RTT block; with a length, where to look for it.
    #[arg(long, value_name = "ADDR[:LEN]", value_parser = base)]
    base: Option<Base>,
    /// With --rtt-gdb, look for the RTT block where this ELF file has the symbol `_SEGGER_RTT`,
    /// or else in its writable memory.
    #[arg(id = "elf", long = "kernel", value_name = "ELF", requires = "rtt_gdb")]
    #[arg(conflicts_with = "base")]
    elf: Option<PathBuf>,
    /// With --rtt-gdb, halt the machine this often to read its memory: for servers that cannot
    /// while it runs, such as those of QEMU and probe-rs.
    #[arg(long, value_name = "MS", requires = "rtt_gdb")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=60_000))]
    halt_every: Option<u64>,
    /// Read what a kernel has written into this file, by semihosting for instance.
    #[arg(long, value_name = "FILE", conflicts_with_all = others("file"))]
    file: Option<PathBuf>,
}

/// An address, and the bytes from there on, if given.
#[derive(Clone, Copy, Debug)]
struct Base {
    address: u64,
    len: Option<u64>,
}

/// Parses `ADDR[:LEN]`.
fn base(text: &str) -> Result<Base, String> {
    let Some((first, len)) = text.split_once(':') else {
        let (address, len) = (address(text)?, None);
        return Ok(Base { address, len });
    };
    let wrong = |_| "expected an address and a length, such as 0x20000000:0x8000".to_owned();
    let (address, len) = (address(first).map_err(wrong)?, address(len).map_err(wrong)?);
    // More would take a probe hours.
    if !(4..=1 << 30).contains(&len) || address.checked_add(len).is_none() {
        return Err("the length must be 4 bytes to 1 GiB, within the address space".to_owned());
    }
    let len = Some(len);
    Ok(Base { address, len })
}

/// The options that make no sense with this one.
fn others(line: &str) -> Vec<&'static str> {
    let own: &[&str] = match line {
        "rtt" => &["rtt", "base"],
        "rtt_gdb" => &["rtt_gdb", "base", "elf", "halt_every"],
        _ => &[line],
    };
    let lines = [
        "serial",
        "rtt",
        "rtt_gdb",
        "base",
        "elf",
        "halt_every",
        "file",
    ]
    .into_iter();
    let others = lines.filter(|name| !own.contains(name));
    MACHINE.into_iter().chain(others).collect()
}

impl Lines {
    /// Where the block of the machine behind a probe may be.
    fn ranges(&self) -> anyhow::Result<Vec<Range<u64>>> {
        if let Some(elf) = &self.elf {
            return Ok(receive::rtt_ranges(elf)?);
        }
        let Some(Base { address, len }) = self.base else {
            let what = "--rtt-gdb has to know where to look for the RTT block; give --kernel ELF, \
                        or --base ADDR[:LEN], such as --base 0x20000000:0x8000";
            return Err(Usage(what.to_owned()).into());
        };
        Ok(vec![address..address.saturating_add(len.unwrap_or(4))])
    }

    /// The line, if one is given. `ranges` is for where to look for a block.
    fn line<'a>(&'a self, ranges: &'a mut Vec<Range<u64>>) -> anyhow::Result<Option<Line<'a>>> {
        Ok(if let Some(path) = &self.serial {
            Some(serial(path)?)
        } else if let Some(path) = &self.rtt {
            if self.base.is_some_and(|base| base.len.is_some()) {
                let what = "--base has no length with --rtt; the whole file is looked through";
                return Err(Usage(what.to_owned()).into());
            }
            let base = self.base.map(|base| base.address);
            Some(Line::Rtt { path, base })
        } else if let Some(server) = &self.rtt_gdb {
            *ranges = self.ranges()?;
            Some(Line::RttGdb {
                server,
                ranges,
                halt_every: self.halt_every.map(Duration::from_millis),
                patience: PATIENCE,
            })
        } else if self.base.is_some() && self.file.is_none() {
            let what = "--base needs --rtt or --rtt-gdb".to_owned();
            return Err(Usage(what).into());
        } else {
            self.file.as_deref().map(Line::File)
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

/// Why a trace cannot be read to its end, if so: frames do not tell what a kernel has not declared.
fn damage(out: &Path) -> Option<String> {
    let out_name = out.display();
    let trace = match Trace::open(out) {
        Ok(trace) => trace,
        Err(error) => {
            return Some(format!(
                "the declarations in {out_name} are incomplete: {error}"
            ));
        }
    };
    let map = trace.map();
    if let Some(error) = map.failed().first() {
        return Some(error.to_string());
    }
    let mut reader = map.read();
    while let Some(item) = reader.next() {
        if let ItemRef::Problem(problem) = item
            && problem.consequence != Consequence::Clamped
        {
            return Some(format!("{out_name} cannot be read whole: {problem}"));
        }
    }
    None
}

/// Records over the line; `None` if none is given. `begin` sets the limits, before anything is read.
pub fn run(
    lines: &Lines,
    out: &Path,
    begin: impl FnOnce(&mut Options<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<Option<Code>> {
    let mut ranges = Vec::new();
    let Some(line) = lines.line(&mut ranges)? else {
        return Ok(None);
    };
    let made = create_directory(out, OTHER_OUT)?;
    let mut options = Options {
        line,
        out,
        duration: None,
        timeout: None,
        grace: Duration::ZERO,
        interrupted: watch_interrupts()?,
    };
    begin(&mut options).inspect_err(|_| made.undo())?;
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
    let damage = if received.no_metadata {
        None
    } else {
        damage(out)
    };
    if let Some(damage) = &damage {
        message!("kymo: {damage}.");
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
    if !received.no_metadata {
        suggest_report(out);
    }
    Ok(Some(match ending {
        Ending::TimeLimit | Ending::Failed(_) => Code::Findings,
        _ if received.is_whole() && damage.is_none() => Code::Ok,
        _ => Code::Findings,
    }))
}
