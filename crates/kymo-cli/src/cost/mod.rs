//! `kymo cost`.

mod c;
mod report;
mod sites;

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use indicatif::ProgressBar;
use kymo_capture::qemu::{self, Launch};
use kymo_capture::record::{self, Ending, Options};
use kymo_ctf::Trace;
use kymo_symbols::CodeMap;

use crate::dump::{Counts, deliver, flush};
use crate::exit::{BadInput, Code, Usage};
use crate::output::create_directory;
use crate::record::{progress_bar, show};
use crate::select::Select;
use sites::{Kind, Site};

/// Examples for `--help`.
pub const EXAMPLES: &str = "Examples:
  kymo cost my-kernel.elf
  kymo cost my-kernel.elf --event SchedSwitch --append \"events=20000\" --json
  kymo cost my-kernel-in-c.elf --event sched_switch --stdin
  kymo cost my-kernel.elf --symbol '*::schedule' --range 0x80201000..0x80201040
  kymo cost -- qemu-system-x86_64 -M q35 -smp 4 -kernel my-kernel.elf -nographic

The figures are exact counts of instructions, loads and stores, not cycles. DWARF says which instructions belong to an inlined event:
build the kernel with at least debug = \"line-tables-only\", and one in C with -g, which do not change the code.

Needs the plugin libkymo_cost.so beside kymo: cargo build --release -p kymo-cost. (For QEMU 9.2 and later, with
--no-default-features --features api-4.)";

/// Command line of `kymo cost`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The kernel, an ELF file; by default that of the command's `-kernel`.
    #[arg(required_unless_present = "command")]
    kernel: Option<PathBuf>,
    /// Count these functions, also where they are inlined; `*` stands for any characters, `?` for
    /// one.
    #[arg(long, value_name = "PATTERN")]
    symbol: Vec<String>,
    /// Count this address range, whose end is exclusive: 0x80201000..0x80201040.
    #[arg(long, value_name = "LO..HI", value_parser = range)]
    range: Vec<Range<u64>>,
    /// Count these events, by type name, or in C by their name in the trace; by default all events,
    /// unless --symbol or --range is given.
    #[arg(long, value_name = "NAME")]
    event: Vec<String>,
    /// Print one JSON object instead of tables.
    #[arg(long)]
    json: bool,
    /// Number of CPUs of the standard machine.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=512), conflicts_with = "command")]
    cpus: u32,
    /// The kernel's command line on the standard machine.
    #[arg(long, conflicts_with = "command")]
    append: Option<String>,
    /// Run the CPUs of the standard machine in parallel, instead of deriving time from instructions
    /// (`-icount shift=0,sleep=off`). The counts are still exact, but runs differ.
    #[arg(long, conflicts_with = "command")]
    parallel: bool,
    /// End the machine after this many seconds, with exit code 1.
    #[arg(long, value_name = "SECONDS", value_parser = crate::record::seconds)]
    timeout: Option<Duration>,
    /// Keep the trace in this new directory.
    #[arg(long, short, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The plugin, by default libkymo_cost.so beside kymo.
    #[arg(long, value_name = "FILE")]
    plugin: Option<PathBuf>,
    /// Pass the standard input to the machine's console, and show no status line.
    #[arg(long)]
    stdin: bool,
    /// Your own QEMU command.
    #[arg(last = true, value_name = "QEMU COMMAND")]
    command: Vec<OsString>,
}

/// Parses a half-open range: two addresses, hexadecimal with `0x` or decimal, without signs or
/// blanks.
fn range(text: &str) -> Result<Range<u64>, String> {
    let address = |text: &str| {
        let (digits, radix) = text
            .strip_prefix("0x")
            .map_or((text, 10), |digits| (digits, 16));
        let all_digits = digits.chars().all(|digit| digit.is_digit(radix));
        all_digits
            .then(|| u64::from_str_radix(digits, radix).ok())
            .flatten()
    };
    let (start, end) = text.split_once("..").ok_or(
        "expected two addresses with two dots between them, such as 0x80201000..0x80201040",
    )?;
    match (address(start), address(end)) {
        (Some(start), Some(end)) if start < end => Ok(start..end),
        (Some(_), Some(_)) => {
            Err("the range is empty; the second address must be greater than the first".to_owned())
        }
        _ => Err("expected 64-bit addresses, such as 0x80201000 or in decimal".to_owned()),
    }
}

/// Temporary directory, removed on drop.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover in the system's temporary directory does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static BAR: OnceLock<ProgressBar> = OnceLock::new();

/// Prints a console line to the standard error, as the figures go to the standard output.
fn print(line: &[u8]) {
    let write = || {
        let mut out = std::io::stderr().lock();
        // The counting goes on if the reader of the console goes away.
        let _ = out.write_all(line);
    };
    match BAR.get() {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Runs `kymo cost`.
pub fn run(arguments: &Arguments) -> anyhow::Result<Code> {
    let kernel = kernel(arguments)?;
    let sites = find(arguments, &kernel)?;
    let plugin = plugin(arguments.plugin.as_deref())?;
    let scratch = Scratch(std::env::temp_dir().join(format!("kymo-cost-{}", std::process::id())));
    fs::create_dir_all(&scratch.0).with_context(|| {
        format!(
            "cannot create the directory {} (choose another directory with TMPDIR)",
            scratch.0.display()
        )
    })?;
    let trace = arguments
        .out
        .clone()
        .unwrap_or_else(|| scratch.0.join("trace"));
    let report = scratch.0.join("report.json");
    let counted = scratch.0.join("sites");
    fs::write(&counted, sites::plugin_arguments(&sites)).with_context(|| {
        format!(
            "cannot write {} (choose another directory with TMPDIR)",
            counted.display()
        )
    })?;
    let launch = launch(
        arguments,
        &kernel,
        [&plugin, &counted, &report],
        &record::ram_file(&trace),
    )?;

    let made = create_directory(&trace, "choose another directory with TMPDIR")?;
    ctrlc::set_handler(|| INTERRUPTED.store(true, Relaxed))
        .context("cannot handle interrupts (start kymo from another shell)")?;
    let bar = BAR.get_or_init(|| match arguments.stdin {
        true => ProgressBar::hidden(),
        false => progress_bar(),
    });
    let options = Options {
        timeout: arguments.timeout,
        console: Some(print),
        ..Options::new(&launch, &trace, &INTERRUPTED)
    };
    let recorded = record::record(&options, |progress| show(bar, progress));
    bar.finish_and_clear();
    let report = fs::read_to_string(&report).unwrap_or_default();
    let (ending, counts) = match recorded {
        Ok(recorded) => (
            recorded.ending,
            Some(Counts::of(&Trace::open(&trace)?, &mut Select::default()).0),
        ),
        Err(error) => {
            made.undo();
            match error {
                // Functions of a kernel without Kymo can be counted, too.
                record::Error::NotStarted { ending, .. } if !report.is_empty() => (ending, None),
                error => return Err(error.into()),
            }
        }
    };
    if report.is_empty() {
        return Err(anyhow!(
            "the machine {ending} and the plugin wrote no report; see QEMU's output"
        ));
    }
    let bytes = counts
        .as_ref()
        .map(|_| report::bytes(&trace))
        .transpose()?
        .unwrap_or_default();
    let report = report::Report::new(
        &sites,
        &report,
        counts.as_ref(),
        &bytes,
        arguments.event.is_empty(),
    )
    .map_err(|error| anyhow!("cannot read the plugin's report: {error}"))?;
    let text = if arguments.json {
        report.to_json(&kernel)
    } else {
        report.to_text()
    };
    let mut out = std::io::stdout().lock();
    if deliver(&mut out, text.as_bytes())? {
        flush(&mut out)?;
    }
    if counts.is_none() {
        message!(
            "kymo: the machine {ending} before its kernel started a trace; there is nothing to \
             compare the counts with."
        );
    }
    let disagreement = report.disagreement();
    for sentence in &disagreement {
        message!("kymo: {sentence}");
    }
    let agrees = disagreement.is_empty();
    if !matches!(ending, Ending::PoweredOff) {
        message!("kymo: the machine {ending}.");
    }
    let ended = matches!(ending, Ending::PoweredOff | Ending::Interrupted);
    Ok(if agrees && ended {
        Code::Ok
    } else {
        Code::Findings
    })
}

/// The kernel's file: as given, or that of the QEMU command.
fn kernel(arguments: &Arguments) -> anyhow::Result<PathBuf> {
    if let Some(kernel) = &arguments.kernel {
        return Ok(kernel.clone());
    }
    let kernel = qemu::kernel_of(&arguments.command)?;
    Ok(kernel.ok_or_else(|| {
        Usage(
            "the command has no option -kernel; name the kernel's ELF file before `--`".to_owned(),
        )
    })?)
}

/// Finds the sites in the kernel that the command line asks for.
fn find(arguments: &Arguments, path: &Path) -> anyhow::Result<Vec<Site>> {
    let bytes = fs::read(path).map_err(|source| qemu::Error::Kernel {
        path: path.to_owned(),
        source,
    })?;
    let code = CodeMap::parse(&bytes).map_err(|error| match error {
        kymo_symbols::Error::NotElf => qemu::Error::NotElf {
            path: path.to_owned(),
        }
        .into(),
        error => anyhow::Error::from(error).context(path.display().to_string()),
    })?;
    let has_dwarf = !code.scopes.is_empty();
    let asks_for_code = !arguments.symbol.is_empty() || !arguments.range.is_empty();
    let all_events = arguments.event.is_empty() && !asks_for_code;
    let mut found = Vec::new();
    if all_events || !arguments.event.is_empty() {
        if !has_dwarf {
            return Err(BadInput(format!(
                "{} has no DWARF to locate events; build it with debug = \"line-tables-only\" in \
                 its profile (in C with -g), or count functions with --symbol",
                path.display()
            ))
            .into());
        }
        let mut events = sites::events(&code);
        let (events_of_c, library) = c::events(&code);
        if !events_of_c.is_empty() && !sites::is_followed(&bytes) {
            return Err(BadInput(format!(
                "{} is for a processor on which events in C cannot be counted: RISC-V, AArch64 and \
                 x86 can; count functions with --symbol",
                path.display()
            ))
            .into());
        }
        events.extend(events_of_c);
        let mut names: Vec<&str> = events.iter().map(|site| sites::short(&site.name)).collect();
        names.sort_unstable();
        names.dedup();
        if events.is_empty() {
            return Err(BadInput(format!(
                "{} records no Kymo event, according to its DWARF; build it with the feature \
                 trace (in C with -g, and without KYMO_OFF), or count functions with --symbol",
                path.display()
            ))
            .into());
        }
        let is_asked =
            |site: &Site, name: &str| site.name == name || sites::short(&site.name) == name;
        if let Some(unknown) = arguments
            .event
            .iter()
            .find(|name| !events.iter().any(|site| is_asked(site, name)))
        {
            let sentence = format!(
                "{} records no event \"{unknown}\"; choose one of {}",
                path.display(),
                names.join(", ")
            );
            return Err(BadInput(sentence).into());
        }
        found.extend(
            events.into_iter().filter(|site| {
                all_events || arguments.event.iter().any(|name| is_asked(site, name))
            }),
        );
        found.sort_by_key(|site| {
            (
                site.trace_name(),
                site.ranges.first().map(|range| range.start),
            )
        });
        found.extend(sites::functions(
            &code,
            "kymo::ring::*slow*",
            Kind::SlowPath,
        ));
        found.extend(library);
    }
    for pattern in &arguments.symbol {
        let functions = sites::functions(&code, pattern, Kind::Function);
        if functions.is_empty() {
            let hint = if has_dwarf {
                ""
            } else {
                " (without DWARF, inlined functions are unknown)"
            };
            return Err(BadInput(format!(
                "no function of {} matches \"{pattern}\"{hint}; try another --symbol, such as \
                 *{pattern}*",
                path.display()
            ))
            .into());
        }
        found.extend(functions);
    }
    if !has_dwarf && !arguments.symbol.is_empty() {
        message!(
            "kymo: {} has no DWARF: places where functions were inlined are not counted.",
            path.display()
        );
    }
    found.extend(arguments.range.iter().map(sites::range));
    Ok(found)
}

/// Path of the plugin: as given, or beside this program.
fn plugin(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    let path = match given {
        Some(path) => path.to_owned(),
        None => std::env::current_exe()
            .context("cannot find this program (give the plugin with --plugin)")?
            .with_file_name("libkymo_cost.so"),
    };
    if path.is_file() {
        return Ok(path);
    }
    Err(anyhow!(
        "found no QEMU plugin at {}; build it with `cargo build --release -p kymo-cost` and name \
         it with --plugin, or put it beside kymo",
        path.display()
    ))
}

fn launch(
    arguments: &Arguments,
    kernel: &Path,
    [plugin, counted, report]: [&PathBuf; 3],
    ram: &Path,
) -> anyhow::Result<Launch> {
    let (Some(plugin), Some(counted), Some(report)) =
        (plugin.to_str(), counted.to_str(), report.to_str())
    else {
        return Err(Usage(
            "the paths of the plugin and of the directory for temporary files must be UTF-8; \
             choose others with --plugin and TMPDIR"
                .to_owned(),
        )
        .into());
    };
    // QEMU reads a doubled comma as a comma in the value.
    let escaped = |path: &str| path.replace(',', ",,");
    let value = format!(
        "{},from={},out={}",
        escaped(plugin),
        escaped(counted),
        escaped(report)
    );
    let launch = if arguments.command.is_empty() {
        let launch = Launch::kernel(kernel, arguments.cpus, arguments.append.as_deref(), ram)?;
        match arguments.parallel {
            true => launch.with(["-accel", "tcg,thread=multi"]),
            false => launch.deterministic(),
        }
    } else {
        Launch::command(&arguments.command, ram)?
    };
    let launch = match arguments.stdin {
        true => launch.taking_input(),
        false => launch,
    };
    Ok(launch.with(["-plugin", value.as_str()]).ending_in_order())
}

#[cfg(test)]
mod tests {
    #[test]
    fn ranges_on_the_command_line() {
        assert_eq!(
            super::range("0x80201000..0x80201040"),
            Ok(0x8020_1000..0x8020_1040)
        );
        assert_eq!(super::range("16..32"), Ok(16..32));
        for text in [
            "",
            "..",
            "16",
            "16..",
            "..16",
            "+16..32",
            "0x10..0x10",
            "0x20..0x10",
            "16..32..48",
            " 16..32",
            "0x..1",
            "1..0x1ffffffffffffffff",
        ] {
            assert!(super::range(text).is_err(), "{text}");
        }
    }
}
