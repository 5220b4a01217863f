//! `kymo top`: what threads, CPUs and interrupts of a machine do, window by window.

mod screen;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use kymo_analysis::{Analysis, Report};
use kymo_ctf::{Follower, Metadata};

use self::screen::{Choice, Screen};
use crate::dump::{deliver, flush};
use crate::exit::Code;
use crate::input;
use crate::missed::Sampler;
use crate::record::{seconds, was_interrupted, watch_interrupts};
use crate::report::section::Section;
use crate::report::table::Look;
use crate::report::{self, Style, duration, only_tables};
use crate::summary::{count, thousands};
use crate::terminal::{self, Color};
use crate::view;

/// Examples for `--help`.
pub const EXAMPLES: &str = "Examples:
  kymo top trace --follow                  while kymo record writes it in another terminal
  kymo top trace --follow --every 0.2 --section threads --sort runnable
  kymo top trace --follow --windows 5 | less
  kymo top trace                           all of a trace that is complete

On a terminal, keys choose what is shown; the last line names them. Elsewhere each window is printed
below the one before. The tables are those of kymo report, of the window alone: shares are of its
time, and a wait or call that ends in it counts in full. A window ends with the newest event of which
nothing older can come, up to half a second before now.";

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
    /// With --follow, end after so many windows.
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
        let window = Window::new(&view::title(&arguments.trace), trace.metadata(), report);
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
        let default = vec![Section::Cpus, Section::Threads, Section::Interrupts];
        let style = Style {
            look: Look {
                width: terminal::width(),
                has_colors: self.color.is_on(),
                top: Some(self.top.unwrap_or(10)).filter(|top| *top > 0),
                sort: self.sort.clone(),
                seen: Default::default(),
            },
            each: false,
            sections: match self.section.is_empty() {
                true => default,
                false => self.section.clone(),
            },
            is_partial: true,
        };
        let text = format!("{}\n{}\n", window.head, window.tables(&style));
        // A window may lack the events for a table, and with it the column.
        if !self.follow {
            report::check_sort(style.look)?;
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
    fn new(title: &str, metadata: &Metadata, report: Report) -> Window {
        let [zero, begin, end] = [report.zero_ns, report.begin_ns, report.end_ns];
        let [zero, begin, end] = [zero, begin, end].map(Option::unwrap_or_default);
        let length = u64::try_from(i128::from(end) - i128::from(begin)).unwrap_or(0);
        let rate = report.events as f64 / (length as f64 / 1e9);
        let rate = match length {
            0 => String::new(),
            _ => format!(", {} a second", thousands(rate as u64)),
        };
        let lost = match report.losses.events {
            0 => "none lost".to_owned(),
            lost => count(lost, "was lost", "were lost"),
        };
        let head = format!(
            "{title}: {} s + {}: {}{rate}; {lost}",
            report::seconds(zero, Some(begin)),
            duration(length),
            count(report.events, "event", "events"),
        );
        Window {
            head,
            report: Some((report, Sampler::of(metadata))),
        }
    }

    /// The tables that are wanted.
    fn tables(&self, style: &Style) -> String {
        match &self.report {
            Some((report, sampler)) => only_tables(report, *sampler, style),
            None => String::new(),
        }
    }
}

/// A trace that is recorded, and what has been seen of it.
struct Following {
    directory: PathBuf,
    title: String,
    trace: Option<(Follower, Arc<Metadata>, Analysis)>,
    /// Whether there was an event since the last window.
    has_news: bool,
}

impl Following {
    fn new(directory: &Path) -> anyhow::Result<Following> {
        view::check_directory(directory)?;
        Ok(Following {
            directory: directory.to_owned(),
            title: view::title(directory),
            trace: None,
            has_news: false,
        })
    }

    /// Takes what has been recorded since.
    fn look(&mut self) -> anyhow::Result<()> {
        if self.trace.is_none() {
            // The metadata may be half written.
            let follower = Follower::open(&self.directory).ok().flatten();
            self.trace = follower.map(|follower| {
                let metadata = Arc::clone(follower.metadata());
                let analysis = Analysis::new(&metadata);
                (follower, metadata, analysis)
            });
        }
        if let Some((follower, _, analysis)) = &mut self.trace
            && let Some(mut step) = follower.look()?
        {
            let read: Result<(), std::convert::Infallible> = step.read(|item| {
                analysis.add(item);
                Ok(())
            });
            self.has_news |= read.is_ok();
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
        let (_, metadata, analysis) = self.trace.as_mut().filter(|_| self.has_news)?;
        self.has_news = false;
        let report = analysis.split(metadata);
        Some(Window::new(&self.title, metadata, report))
    }
}
