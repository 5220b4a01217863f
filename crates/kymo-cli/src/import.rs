//! `kymo import`: samples of other profilers.

mod perf;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use clap::{Subcommand, ValueEnum};
use kymo_export::FlameGraph;
use kymo_profile::By;
use kymo_profile::redox::{
    Builder, Frames, Frequency, Function, Functions, Importer, Malformed, Options, Outcome,
    PerfScript, Problems,
};

use crate::exit::{BadInput, Code};
use crate::output;
use crate::profile_file::Format;
use crate::progress::Progress;
use crate::summary::count;

/// For `--help`.
const REDOX_EXAMPLES: &str = "Examples:
  kymo import redox profiling.txt --symbols kernel.elf -o kernel.svg
  kymo import redox profiling.txt --symbols kernel.txt --format perf-script --ghz 2.4 |
    inferno-collapse-perf
  kymo import redox profiling.txt --symbols kernel.elf --user file:/bin/dd=dd.elf -o dd.svg

In place of redox-kprofiling PROFILE SYMBOLS OPTIONS GHZ USERS:
  i   --inside-only        o   --frames offset        x   --frames both
  U   --user-part          u   --unknown-threads
  USERS, a file with lines of THREAD=FILE: --user THREAD=FILE for each line

Symbols are an ELF file, or the text that nm -CS prints. Malformed lines are skipped and reported with their numbers.

Exit codes: 0 success; 1 some lines were malformed; 3 there is no sample, or a file cannot be read.";

/// How many threads a message names.
const NAMED_THREADS: usize = 5;

/// Command line of `kymo import`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    from: From,
}

#[derive(Subcommand)]
enum From {
    /// Converts a file of `perf record` to a trace.
    #[command(after_help = perf::EXAMPLES)]
    Perf(perf::Arguments),
    /// Reads a profile of the Redox kernel, as its daemon `profiled` writes it.
    #[command(after_help = REDOX_EXAMPLES)]
    Redox(Redox),
}

/// Command line of `kymo import redox`.
#[derive(clap::Args)]
struct Redox {
    /// The profile: lines of `THREAD CPU TIME ADDRESS..`.
    profile: PathBuf,
    /// The kernel's symbols: its ELF file, or what nm -CS prints.
    #[arg(long, value_name = "FILE")]
    symbols: PathBuf,
    /// Symbols of the program that a thread runs; implies --user-part.
    #[arg(long, value_name = "THREAD=FILE", value_parser = user)]
    user: Vec<(String, PathBuf)>,
    /// Frequency of the time stamp counter; without it, times are ticks.
    #[arg(long, value_name = "GHZ")]
    ghz: Option<Frequency>,
    /// What to write.
    #[arg(long, value_enum, default_value_t = Format::Svg)]
    format: Format,
    /// The file to write, or - for the standard output; default: the standard output, but a file in
    /// the working directory, such as flame.svg, for what a terminal cannot show.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Keep the user part of stacks and samples taken in user mode, and name the threads.
    #[arg(long)]
    user_part: bool,
    /// Keep samples taken in user mode by threads without --user; implies --user-part.
    #[arg(long)]
    unknown_threads: bool,
    /// End a stack at the first address outside of a function.
    #[arg(long)]
    inside_only: bool,
    /// What frames are.
    #[arg(long, value_enum, default_value_t = FramesOption::Function)]
    frames: FramesOption,
}

#[derive(Clone, Copy, ValueEnum)]
enum FramesOption {
    /// Functions.
    Function,
    /// Places in functions: `function+0x1f`.
    Offset,
    /// Functions, and the places in them.
    Both,
}

/// Parses `THREAD=FILE`.
fn user(argument: &str) -> Result<(String, PathBuf), String> {
    match argument.split_once('=') {
        Some((thread, file)) if !thread.is_empty() && !file.is_empty() => {
            Ok((thread.to_owned(), PathBuf::from(file)))
        }
        _ => Err("expected THREAD=FILE, such as file:/bin/dd=dd.elf".to_owned()),
    }
}

/// Runs `kymo import`.
///
/// # Errors
/// If the profile or the symbols cannot be read, or the output cannot be written.
pub fn run(arguments: &Arguments) -> anyhow::Result<Code> {
    match &arguments.from {
        From::Perf(arguments) => perf::run(arguments),
        From::Redox(arguments) => redox(arguments),
    }
}

fn redox(arguments: &Redox) -> anyhow::Result<Code> {
    let kernel = symbols(&arguments.symbols)?;
    let users = arguments
        .user
        .iter()
        .map(|(thread, file)| Ok((thread.clone(), symbols(file)?)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let options = Options {
        user: arguments.user_part || arguments.unknown_threads || !users.is_empty(),
        unknown_threads: arguments.unknown_threads,
        inside_only: arguments.inside_only,
        frames: match arguments.frames {
            FramesOption::Function => Frames::Function,
            FramesOption::Offset => Frames::Offset,
            FramesOption::Both => Frames::Both,
        },
    };
    let mut importer = Importer::new(kernel, users, options);
    let given = arguments.output.as_deref();
    let path = arguments.format.path(given);
    let out = path.as_deref();
    let cpus = match arguments.format {
        Format::PerfScript => perf_script(arguments, &mut importer, out)?,
        _ => profile(arguments, &mut importer, out)?,
    };
    arguments.format.print_path(given, out);
    let outcome = importer.outcome;
    report(&arguments.profile, &outcome, cpus);
    let has_times = arguments.format.has_samples();
    if arguments.ghz.is_none() && has_times {
        message!("kymo: The times are ticks; --ghz GHZ makes them seconds.");
    }
    Ok(match outcome.problems.count {
        0 => Code::Ok,
        _ => Code::Findings,
    })
}

/// Writes the original tool's text while it reads, so that memory does not grow. Returns the number
/// of CPUs.
fn perf_script(
    arguments: &Redox,
    importer: &mut Importer,
    out: Option<&Path>,
) -> anyhow::Result<usize> {
    let (profile, path) = (open(&arguments.profile)?, &arguments.profile);
    let progress = Progress::of_bytes(profile.metadata().map_or(0, |metadata| metadata.len()));
    let mut cpus = BTreeSet::new();
    let mut refused = None;
    let written = output::write(out, |out| {
        let mut script = PerfScript::new(out, arguments.ghz);
        let mut written = Ok(());
        let text = BufReader::new(progress.reading(profile));
        let read = importer.run(text, |sample| {
            cpus.insert(sample.cpu);
            written = script.add(sample);
            // A write error ends the reading as well; `written` has it, and is returned below.
            written
                .as_ref()
                .copied()
                .map_err(|_| io::ErrorKind::Other.into())
        });
        written?;
        let read = read.map_err(|error| unreadable(path, &error));
        if let Err(error) = read.and_then(|()| is_some(path, &importer.outcome)) {
            refused = Some(error);
            return Err(io::ErrorKind::InvalidData.into());
        }
        script.finish()
    });
    progress.done();
    match refused {
        Some(refused) => Err(refused.into()),
        None => written.map(|()| cpus.len()),
    }
}

/// Collects the samples, and writes them as a profile. Returns the number of CPUs.
fn profile(
    arguments: &Redox,
    importer: &mut Importer,
    out: Option<&Path>,
) -> anyhow::Result<usize> {
    let (profile, path) = (open(&arguments.profile)?, &arguments.profile);
    let progress = Progress::of_bytes(profile.metadata().map_or(0, |metadata| metadata.len()));
    let mut cpus = BTreeSet::new();
    let mut builder = Builder::new(arguments.ghz);
    let text = BufReader::new(progress.reading(profile));
    importer
        .run(text, |sample| {
            cpus.insert(sample.cpu);
            builder.add(sample);
            Ok(())
        })
        .map_err(|error| unreadable(path, &error))?;
    progress.done();
    is_some(path, &importer.outcome)?;
    let profile = builder.finish();
    let name = path.display().to_string();
    let graph = FlameGraph {
        title: match (arguments.ghz, arguments.format.has_samples()) {
            (None, true) => format!("{name} (times are ticks)"),
            _ => name,
        },
        subtitle: count(profile.weight(), "sample", "samples"),
        unit: "samples".to_owned(),
        frame: "Function:".to_owned(),
        widest_first: false,
    };
    output::write(out, |out| {
        arguments.format.write(&profile, &graph, By::Thread, out)
    })?;
    Ok(cpus.len())
}

fn open(path: &Path) -> Result<File, BadInput> {
    let file = File::open(path).and_then(|file| match file.metadata()?.is_dir() {
        true => Err(io::ErrorKind::IsADirectory.into()),
        false => Ok(file),
    });
    file.map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &io::Error) -> BadInput {
    let path = path.display();
    BadInput(format!(
        "cannot read {path}: {error}; give another file, or get read permission"
    ))
}

/// The functions in an ELF file, or in what nm printed.
fn symbols(path: &Path) -> anyhow::Result<Functions> {
    let _ = open(path)?;
    let bytes = std::fs::read(path).map_err(|error| unreadable(path, &error))?;
    let mut problems = Problems::default();
    let functions = match bytes.starts_with(b"\x7fELF") {
        true => {
            let symbols = kymo_symbols::functions(&bytes)
                .map_err(|error| anyhow::Error::from(error).context(path.display().to_string()))?;
            Functions::new(symbols.into_iter().map(function).collect())
        }
        false => Functions::from_nm(&*bytes, &mut problems)?,
    };
    if functions.is_empty() {
        let sentence = format!(
            "{} has no functions; give an ELF file with symbols, or what nm -CS prints of it",
            path.display()
        );
        return Err(BadInput(sentence).into());
    }
    skipped(path, &problems);
    if functions.without_size > 0 {
        message!(
            "kymo: {}: {} left out.",
            path.display(),
            count(
                functions.without_size,
                "function has no size, and no symbol behind it, and is",
                "functions have no size, and no symbol behind them, and are"
            )
        );
    }
    Ok(functions)
}

fn function(symbol: kymo_symbols::Symbol) -> Function {
    Function {
        address: symbol.range.start,
        size: symbol.range.end - symbol.range.start,
        name: symbol.name,
    }
}

/// Refuses a profile without samples that are to be shown.
fn is_some(path: &Path, outcome: &Outcome) -> Result<(), BadInput> {
    if outcome.samples > 0 {
        return Ok(());
    }
    skipped(path, &outcome.problems);
    let path = path.display();
    let unknown: u64 = outcome.of_unknown_threads.values().sum();
    Err(BadInput(match (outcome.in_user_mode, unknown) {
        (0, 0) => format!(
            "{path} has no samples; give the text that Redox's profiled writes: THREAD CPU TIME \
             ADDRESS.."
        ),
        (0, _) => format!(
            "{path} has only samples of user mode without symbols; give --user THREAD=FILE, or add \
             --unknown-threads"
        ),
        (_, _) => format!("{path} has only samples of user mode; add --user-part"),
    }))
}

/// Says what was read, and what was left out.
fn report(path: &Path, outcome: &Outcome, cpus: usize) {
    skipped(path, &outcome.problems);
    let samples = count(outcome.samples, "sample", "samples");
    message!("kymo: {samples} of {}.", count(cpus as u64, "CPU", "CPUs"));
    if outcome.in_user_mode > 0 {
        message!(
            "kymo: {} left out; --user-part keeps them.",
            count(
                outcome.in_user_mode,
                "sample in user mode is",
                "samples in user mode are"
            )
        );
    }
    if outcome.without_frames > 0 {
        message!(
            "kymo: {} inside of a function.",
            count(outcome.without_frames, "sample is not", "samples are not")
        );
    }
    let threads = &outcome.of_unknown_threads;
    if !threads.is_empty() {
        let mut named: Vec<String> = threads
            .iter()
            .take(NAMED_THREADS)
            .map(|(thread, samples)| format!("{} ({samples})", thread.escape_debug()))
            .collect();
        if threads.len() > NAMED_THREADS {
            named.push("...".to_owned());
        }
        message!(
            "kymo: {} left out: {}; give --user THREAD=FILE, or --unknown-threads.",
            count(
                threads.values().sum(),
                "sample in user mode of a thread without symbols is",
                "samples in user mode of threads without symbols are"
            ),
            named.join(", ")
        );
    }
}

/// Reports the lines that were skipped: the first ones with their numbers.
fn skipped(path: &Path, problems: &Problems) {
    for (line, error) in &problems.first {
        let error: &Malformed = error;
        message!("kymo: {}, line {line} is skipped: {error}.", path.display());
    }
    let more = problems.count - problems.first.len() as u64;
    if more > 0 {
        message!(
            "kymo: {}: {} skipped.",
            path.display(),
            count(more, "more malformed line is", "more malformed lines are")
        );
    }
}
