//! `kymo top`: what threads, CPUs and interrupts of a machine do, window by window.

mod screen;

use std::convert::Infallible;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use kymo_analysis::{Analysis, Report};
use kymo_ctf::{Follower, Metadata};
use kymo_machine::Change;

use self::screen::{Choice, Screen};
use crate::dump::{deliver, flush};
use crate::exit::Code;
use crate::input;
use crate::missed::Sampler;
use crate::record::{seconds, was_interrupted, watch_interrupts};
use crate::report::section::Section;
use crate::report::table::Look;
use crate::report::{self, Style, only_tables};
use crate::summary::count;
use crate::terminal::{self, Color};
use crate::view;

/// Examples for `--help`.
pub const EXAMPLES: &str = "Examples:
  kymo top trace --follow                  while kymo record writes it in another terminal
  kymo top trace --follow --every 0.2 --section threads --sort runnable
  kymo top trace --follow --windows 5 | less
  kymo top trace                           all of a trace that is complete

On a terminal, keys choose what is shown; the last line names them. Elsewhere each window is printed
below the one before, until its tracer ends the recording. The tables are those of kymo report, of
the window alone: shares are of its time, and a wait or call that ends in it counts in full. A
window ends with the newest event of half a second before now; what is written too late for that is
counted.";

/// How often the trace is looked at, and the keyboard.
const LOOKS: Duration = Duration::from_millis(100);
/// The shortest window.
const SHORTEST: Duration = Duration::from_millis(100);

/// Command line of `kymo top`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The trace directory.
    trace: PathBuf,
    /// The trace is still recorded: show each second of it by itself, until Ctrl-C.
    #[arg(long)]
    follow: bool,
    /// With --follow, the length of a window.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "1")]
    #[arg(requires = "follow")]
    every: Duration,
    /// With --follow, end after so many windows, or with the recording.
    #[arg(long, value_name = "N", requires = "follow")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    windows: Option<u64>,
    /// Only these sections.
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',')]
    section: Vec<Section>,
    /// Order the rows of each table that has a column with this heading by it, such as runnable.
    #[arg(long, value_name = "COLUMN")]
    sort: Option<String>,
    /// Most rows of a table; by default what fits the screen, or 10.
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// When to write colours.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    color: Color,
}

/// Shows the windows of a trace until they end, or the user ends it.
pub fn run(arguments: &Arguments) -> anyhow::Result<Code> {
    if !arguments.follow {
        let trace = input::of_one_clock(&arguments.trace)?;
        let analysis = Analysis::new(trace.metadata());
        let (report, damage) = report::pass(&trace, analysis, |_, _| ());
        let window = Window::new(&view::title(&arguments.trace), trace.metadata(), report, 0);
        match arguments.screen()? {
            Some(mut screen) => while !was_interrupted() && screen.show(&window, LOOKS)? {},
            None => drop(arguments.print(&window)?),
        }
        return match damage {
            Some(error) => Err(input::of_trace(&arguments.trace, error)),
            None => Ok(Code::Ok),
        };
    }
    let mut following = Following::new(&arguments.trace)?;
    let mut screen = arguments.screen()?;
    let every = |screen: &Option<Screen>| {
        let chosen = screen.as_ref().map(Screen::every);
        chosen.unwrap_or(arguments.every).max(SHORTEST)
    };
    let mut window = following.waiting();
    let (mut begin, mut windows) = (Instant::now(), 0);
    while arguments.windows.is_none_or(|most| windows < most) {
        following.look()?;
        if begin.elapsed() >= every(&screen) && !screen.as_ref().is_some_and(Screen::is_paused) {
            begin = Instant::now();
            if let Some(next) = following.next() {
                window = next;
                windows += 1;
                if screen.is_none() && !arguments.print(&window)? {
                    break;
                }
            } else if following.has_ended && screen.is_none() {
                message!("kymo: {}", ended(windows, arguments.windows));
                break;
            }
        }
        let Some(screen) = &mut screen else {
            thread::sleep(LOOKS);
            continue;
        };
        if was_interrupted() || !screen.show(&window, LOOKS)? {
            break;
        }
    }
    Ok(Code::Ok)
}

/// Says that no window will follow these.
fn ended(windows: u64, wanted: Option<u64>) -> String {
    let windows = count(windows, "window", "windows");
    match wanted {
        Some(wanted) => format!("the recording has ended after {windows} of {wanted}."),
        None => format!("the recording has ended after {windows}."),
    }
}

impl Arguments {
    /// The terminal's screen, if the output is one.
    fn screen(&self) -> anyhow::Result<Option<Screen>> {
        let is_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
        if is_terminal {
            // Whoever ends the program finds the terminal as it was.
            watch_interrupts()?;
        }
        let chosen = || Choice::new(&self.section, self.sort.clone(), self.every);
        let screen = || Screen::new(chosen(), self.top, self.color);
        is_terminal.then(screen).transpose().map_err(Into::into)
    }

    /// Prints a window below the one before. Whether anybody reads it.
    fn print(&self, window: &Window) -> anyhow::Result<bool> {
        let sections = match self.section.as_slice() {
            [] => &[Section::Cpus, Section::Threads, Section::Interrupts],
            chosen => chosen,
        };
        let look = Look {
            width: terminal::width(),
            has_colors: self.color.is_on(),
            top: Some(self.top.unwrap_or(10)).filter(|top| *top > 0),
            sort: self.sort.clone(),
            seen: Default::default(),
        };
        let (tables, look) = window.tables(sections, look);
        let text = format!("{}\n{tables}\n", window.head);
        // A window may lack the events for a table, and with it the column.
        if !self.follow {
            report::check_sort(look)?;
        }
        let mut out = std::io::stdout().lock();
        let is_read = deliver(&mut out, text.as_bytes())?;
        if is_read {
            flush(&mut out)?;
        }
        Ok(is_read)
    }
}

/// A stretch of time and what was in it.
struct Window {
    head: String,
    /// `None` before there is one.
    report: Option<(Report, Sampler)>,
}

impl Window {
    /// The window that a report is about. `late`: how many events since the window before came too
    /// late for theirs.
    fn new(title: &str, metadata: &Metadata, report: Report, late: u64) -> Window {
        let zero = report.zero_ns.unwrap_or_default();
        let begin = report::seconds(zero, report.begin_ns);
        // No lines about losses follow.
        let sum = report::sum(&report);
        let sum = sum.trim_end_matches(['.', ':']);
        let mut head = format!("{title}, {begin} s: {sum}");
        if late > 0 {
            let late = count(late, "event", "events");
            head += &format!("; {late} too late for a window");
        }
        Window {
            head,
            report: Some((report, Sampler::of(metadata))),
        }
    }

    /// The tables of these sections, and what was seen of them.
    fn tables(&self, sections: &[Section], look: Look) -> (String, Look) {
        let style = Style {
            look,
            each: false,
            sections: sections.to_vec(),
            is_partial: true,
        };
        let tables = match &self.report {
            Some((report, sampler)) => only_tables(report, *sampler, &style),
            None => String::new(),
        };
        (tables, style.look)
    }
}

/// A trace that is recorded, and what has been seen of it.
struct Following {
    title: String,
    follower: Follower,
    /// `None` until the trace has begun.
    analysis: Option<Analysis>,
    /// Events and losses since the last window.
    news: u64,
    /// How many events came too late, up to the last window.
    late: u64,
    /// Whether its last event has come, with which a tracer ends.
    has_ended: bool,
}

impl Following {
    fn new(directory: &Path) -> anyhow::Result<Following> {
        view::check_directory(directory)?;
        Ok(Following {
            title: view::title(directory),
            follower: Follower::new(directory, Follower::LAG),
            analysis: None,
            news: 0,
            late: 0,
            has_ended: false,
        })
    }

    /// Takes what has been recorded since.
    fn look(&mut self) -> anyhow::Result<()> {
        if self.analysis.is_none() {
            let metadata = self.follower.metadata();
            self.analysis = metadata.map(|metadata| Analysis::new(metadata));
        }
        let step = self.follower.look()?;
        if let (Some(analysis), Some(mut step)) = (&mut self.analysis, step) {
            let read = step.read(|item| {
                analysis.add(item);
                let changes = analysis.machine().changes();
                let is_end = |change: &Change| matches!(change, Change::SessionEnd { .. });
                self.has_ended |= changes.iter().any(is_end);
                Ok::<_, Infallible>(())
            });
            self.news += read.unwrap_or(0);
        }
        Ok(())
    }

    /// What there is before the first window.
    fn waiting(&self) -> Window {
        Window {
            head: format!("{}: nothing recorded so far", self.title),
            report: None,
        }
    }

    /// The window since the last one; `None` if nothing has happened.
    fn next(&mut self) -> Option<Window> {
        let late = self.follower.late() - self.late;
        let metadata = self.follower.metadata()?;
        let analysis = self.analysis.as_mut().filter(|_| self.news + late > 0)?;
        (self.news, self.late) = (0, self.late + late);
        let report = analysis.split(metadata);
        Some(Window::new(&self.title, metadata, report, late))
    }
}
