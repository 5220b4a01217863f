//! `kymo view`: a trace in the browser.

pub mod code;

use std::env;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use anyhow::{Context as _, anyhow};
use kymo_ctf::{Trace, TraceMap};
use kymo_index::{Key, Options};
use kymo_view::{Server, View};

use self::code::CodeFiles;
use crate::exit::{Code, Usage};
use crate::input;
use crate::live::Page;
use crate::select::{Anchors, Moment, begin, moment};
use crate::{output, summary};

/// Examples for `--help`.
pub const EXAMPLES: &str = "Examples:
  kymo view trace
  kymo view trace --at 0.25
  kymo view trace --no-open --port 8000
  kymo view trace --follow
  kymo view trace --kernel kernel.elf --images rootfs   names for its flame graphs
  kymo view trace --html trace.html --from 10ms --to +2ms

The page is served on this machine only, at an address that nobody can guess; whoever knows it can
read the trace. It needs no network. The first time, the trace is read once for an index, and what
has been read can be looked at meanwhile. The index is kept in the cache ($XDG_CACHE_HOME/kymo, or
~/.cache/kymo) and made anew when the trace changes.

--html writes the page and what it shows to one file for others, who need no kymo for it. Beyond
260,000 slices it has short ones as one with their number: choose less time by --from and --to. It
has neither the fields of events nor the arrows nor the reports of other stretches of time.";

/// Command line of `kymo view`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The trace directory.
    trace: PathBuf,
    /// Port of 127.0.0.1; 0 for any that is free.
    #[arg(long, value_name = "N", default_value_t = 0)]
    port: u16,
    /// Open at this time, with a mark: in seconds as printed (0.25) or with a unit ns, us, ms, s or
    /// min (250ms); -10ms is 10 ms before the trace's last event, @5003000000 a time_ns of the JSON
    /// output.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = begin)]
    at: Option<Moment>,
    /// Only print the address, and open no browser.
    #[arg(long)]
    no_open: bool,
    /// The trace is still recorded: show it as it grows, less than a second behind.
    #[arg(long, conflicts_with_all = ["at", "html"])]
    follow: bool,
    /// Write the page to this file instead, - for the standard output.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["port", "at", "no_open", "follow"])]
    html: Option<PathBuf>,
    /// What --html has begins at this time, written as for --at.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = begin)]
    #[arg(requires = "html")]
    from: Option<Moment>,
    /// What --html has ends at this time; +5ms is 5 ms after --from.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = moment)]
    #[arg(requires = "html")]
    to: Option<Moment>,
    /// Folder for the index instead of the cache.
    #[arg(long, value_name = "FOLDER")]
    index: Option<PathBuf>,
    #[command(flatten)]
    symbols: kymo_images::Symbols,
}

/// Serves the page until it is interrupted, or writes it to a file.
pub fn run(arguments: &Arguments) -> anyhow::Result<Code> {
    let out = arguments
        .html
        .as_deref()
        .and_then(|out| output::file(Some(out)));
    if let Some(out) = out {
        output::refuse_inside(out, &arguments.trace)?;
    }
    let folder = match &arguments.index {
        Some(folder) => folder.clone(),
        None => cache()?,
    };
    if arguments.follow {
        return follow(arguments, &folder);
    }
    let trace = input::of_one_clock(&arguments.trace)?;
    let map = trace.map();
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let path = Key::of(&trace, &map)?.path_in(&folder);
    let is_new = !path.exists();
    if arguments.html.is_some() {
        return write(arguments, trace, map, &path, out);
    }
    let at = arguments.at.map(|at| At::of(&map, at));
    let view = arguments.open(trace, map)?;
    let server = Arc::new(Server::new(view, arguments.port)?);
    let address = match at {
        Some(at) => at.address(&server)?,
        None => server.address(),
    };
    println!("{address}");
    std::io::stdout().flush()?;
    if is_new {
        message!("kymo: reading the trace for its index, {}", path.display());
    }
    let serving = {
        let server = Arc::clone(&server);
        thread::spawn(move || server.run())
    };
    if !arguments.no_open && !open(&address) {
        message!("kymo: no browser could be opened; open the address yourself");
    }
    server.view().read(&path, Options::default())?;
    if let Some(sentence) = server.view().damage().first() {
        message!("kymo: {}: {sentence}", arguments.trace.display());
    }
    if server.view().events() == 0 {
        message!("kymo: the trace has no events with a time; there is nothing to see");
    }
    let served = serving.join();
    served.map_err(|_| anyhow!("the server failed"))??;
    Ok(Code::Ok)
}

impl Arguments {
    /// The view of a trace, whose samples have the names of the command line's files.
    fn open(&self, trace: Trace, map: TraceMap) -> anyhow::Result<View> {
        let code = CodeFiles::of(&self.symbols, &self.trace, &trace)?;
        let view = View::new(&title(&self.trace));
        view.open_with(trace, map, Box::new(code));
        Ok(view)
    }
}

/// Shows a trace that another program records, until this one is interrupted.
fn follow(arguments: &Arguments, folder: &Path) -> anyhow::Result<Code> {
    let directory = &arguments.trace;
    check_directory(directory)?;
    arguments.symbols.check_files()?;
    let page = Page::start(directory, folder, arguments.port, arguments.symbols.clone())?;
    println!("{}", page.address());
    std::io::stdout().flush()?;
    page.open(arguments.no_open);
    page.run()?;
    Ok(Code::Ok)
}

/// Fails unless there is such a directory, in which a trace is or will be.
pub fn check_directory(directory: &Path) -> Result<(), kymo_ctf::Error> {
    let read = fs::read_dir(directory).map(drop);
    read.map_err(|source| kymo_ctf::Error::Io {
        path: directory.to_owned(),
        source,
    })
}

/// Writes the page to a file.
fn write(
    arguments: &Arguments,
    trace: Trace,
    map: TraceMap,
    index: &Path,
    out: Option<&Path>,
) -> anyhow::Result<Code> {
    let anchors = Anchors::of(&map, [arguments.from, arguments.to]);
    let from = arguments.from.map(|moment| anchors.nanos(moment, None));
    let to = arguments.to.map(|moment| anchors.nanos(moment, from));
    if let (Some(from), Some(to)) = (from, to)
        && to < from
    {
        return Err(Usage("--to is before --from; change one of them".to_owned()).into());
    }
    let view = arguments.open(trace, map)?;
    view.read(index, Options::default())?;
    let file = view.file(from, to).map_err(|error| match error {
        kymo_view::Error::Nothing if from.is_some() || to.is_some() => {
            Usage("no event is between --from and --to".to_owned()).into()
        }
        error => anyhow!(error),
    })?;
    output::write(out, |out| out.write_all(&file.html))?;
    let events = summary::count(file.events, "event", "events");
    let size = summary::thousands(file.html.len() as u64 / 1024);
    message!("kymo: a page of {events}, {size} KiB");
    if !file.is_exact {
        message!(
            "kymo: these are too many slices to have each by itself; short ones in succession are \
             one with their number. Choose less time by --from and --to"
        );
    }
    match view.damage().first() {
        Some(sentence) => {
            message!("kymo: {}: {sentence}", arguments.trace.display());
            Ok(Code::BadInput)
        }
        None => Ok(Code::Ok),
    }
}

/// Where the page opens.
struct At {
    /// In nanoseconds from the clock's origin.
    nanos: i128,
    /// From the trace's beginning to its last event, in nanoseconds.
    length: i128,
}

impl At {
    fn of(map: &TraceMap, at: Moment) -> At {
        let anchors = Anchors::of(map, [Some(at)]);
        let end = map.end_nanos().unwrap_or(anchors.begin);
        At {
            nanos: anchors.nanos(at, None),
            length: end.saturating_sub(anchors.begin).max(0),
        }
    }

    /// The address that opens there.
    fn address(&self, server: &Server) -> anyhow::Result<String> {
        let address = server.address_at(self.nanos);
        Ok(address.ok_or_else(|| {
            let (seconds, nanos) = (self.length / 1_000_000_000, self.length % 1_000_000_000);
            Usage(format!(
                "--at is outside the trace, whose last event is at {seconds}.{nanos:09}"
            ))
        })?)
    }
}

/// What the page calls the trace: the last part of its path.
pub fn title(trace: &Path) -> String {
    let whole = trace.canonicalize().unwrap_or_else(|_| trace.to_owned());
    let name = whole.file_name().unwrap_or(whole.as_os_str());
    name.to_string_lossy().into_owned()
}

/// The user's folder for what can be made anew.
pub fn cache() -> anyhow::Result<PathBuf> {
    let folder = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let of_user = folder("XDG_CACHE_HOME").map(PathBuf::from);
    let of_home = || Some(PathBuf::from(folder("HOME")?).join(".cache"));
    let found = of_user.or_else(of_home);
    let found = found.ok_or_else(|| {
        Usage("there is no folder for the index; give one by --index FOLDER".to_owned())
    })?;
    Ok(found.join("kymo"))
}

/// Opens the address in the user's browser, if there is one.
pub fn open(address: &str) -> bool {
    let opener = if cfg!(target_os = "macos") {
        "open"
    } else {
        "xdg-open"
    };
    let mut command = Command::new(opener);
    command.arg(address).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().is_ok()
}
