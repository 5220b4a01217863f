//! The terminal's screen: a window's tables, and the keys that choose among them.

use std::io::{self, Write};
use std::time::Duration;

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::style::{Attribute, Print, SetAttribute};
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode, size,
};
use crossterm::{execute, queue};

use super::Window;
use crate::report::section::Section;
use crate::report::table::Look;
use crate::terminal::Color;

/// Sections that are shown together, and what they are called.
const SCREENS: [(&str, &[Section]); 6] = [
    (
        "threads",
        &[Section::Cpus, Section::Threads, Section::Interrupts],
    ),
    ("calls", &[Section::SystemCalls, Section::WakeLatency]),
    ("locks", &[Section::Locks, Section::RunQueues]),
    ("memory", &[Section::PageFaults, Section::Messages]),
    (
        "counters",
        &[Section::OwnCounters, Section::Counters, Section::Samples],
    ),
    ("events", &[Section::Events]),
];

/// The last line.
const KEYS: &str =
    "q quit  Tab next tables  s/S sort  a all rows  arrows scroll  Space pause  +/- window";

/// Lines of a table beside its rows: its title and heads, and those around them.
const AROUND: usize = 5;
/// Fewest rows of a table.
const LEAST: usize = 3;
/// The longest window that can be chosen.
const LONGEST: Duration = Duration::from_secs(60);

/// The terminal, which is as before once this is dropped.
struct Terminal;

impl Terminal {
    fn new() -> io::Result<Terminal> {
        enable_raw_mode()?;
        // From here on, it is put back.
        let terminal = Terminal;
        execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        Ok(terminal)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // There is nobody left to tell that the terminal has gone.
        let _ = execute!(io::stdout(), Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}

/// What is shown, and how.
pub(super) struct Screen {
    _terminal: Terminal,
    chosen: Choice,
    has_colors: bool,
    top: Option<usize>,
    /// Columns by which the tables that are shown can be ordered.
    heads: Vec<String>,
}

/// What the user has chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    /// The sections of the command line; empty for those of `number`.
    own: Vec<Section>,
    /// Which of [`SCREENS`].
    number: usize,
    sort: Option<String>,
    has_all_rows: bool,
    /// The first line that is shown.
    line: usize,
    is_paused: bool,
    every: Duration,
}

impl Screen {
    pub(super) fn new(chosen: Choice, top: Option<usize>, color: Color) -> io::Result<Screen> {
        let has_colors = color.is_on();
        Ok(Screen {
            _terminal: Terminal::new()?,
            chosen,
            has_colors,
            top,
            heads: Vec::new(),
        })
    }

    /// Whether the window that is shown stays.
    pub(super) fn is_paused(&self) -> bool {
        self.chosen.is_paused
    }

    /// The length of a window.
    pub(super) fn every(&self) -> Duration {
        self.chosen.every
    }

    /// Draws the window and waits for a key, for at most so long. False if the user wants to end.
    pub(super) fn show(&mut self, window: &Window, limit: Duration) -> io::Result<bool> {
        self.draw(window)?;
        let mut limit = limit;
        // What is typed meanwhile is drawn once.
        while event::poll(limit)? {
            limit = Duration::ZERO;
            if let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
                && !self.chosen.take(key, &self.heads)
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn draw(&mut self, window: &Window) -> io::Result<()> {
        let (columns, rows) = size()?;
        let (columns, rows) = (usize::from(columns), usize::from(rows));
        let sections = self.chosen.sections();
        let room = rows.saturating_sub(2) / sections.len().max(1);
        let fits = room.saturating_sub(AROUND).max(LEAST);
        let look = Look {
            width: columns,
            has_colors: self.has_colors,
            top: (!self.chosen.has_all_rows)
                .then(|| self.top.unwrap_or(fits))
                .filter(|top| *top > 0),
            sort: self.chosen.sort.clone(),
            seen: Default::default(),
        };
        let (text, look) = window.tables(sections, look);
        self.heads = look.seen.into_inner().0.into_iter().collect();
        let lines: Vec<&str> = text.lines().collect();
        let body = rows.saturating_sub(2);
        self.chosen.line = self.chosen.line.min(lines.len().saturating_sub(body));
        let mut out = io::stdout().lock();
        queue!(out, MoveTo(0, 0), SetAttribute(Attribute::Bold))?;
        line(&mut out, &cut(&self.chosen.head(&window.head), columns))?;
        queue!(out, SetAttribute(Attribute::Reset))?;
        let shown = lines.iter().skip(self.chosen.line).take(body);
        for text in shown {
            line(&mut out, &cut(text, columns))?;
        }
        queue!(out, Clear(ClearType::FromCursorDown))?;
        let last = u16::try_from(rows.saturating_sub(1)).unwrap_or(u16::MAX);
        queue!(out, MoveTo(0, last), SetAttribute(Attribute::Reverse))?;
        queue!(out, Print(cut(KEYS, columns)))?;
        queue!(out, SetAttribute(Attribute::Reset))?;
        out.flush()
    }
}

/// Prints a line in place of the one that was there. That is cleared first: behind a line as wide as
/// the screen, the cursor is still on its last column.
fn line(out: &mut impl Write, text: &str) -> io::Result<()> {
    queue!(
        out,
        Clear(ClearType::UntilNewLine),
        Print(text),
        Print("\r\n")
    )
}

/// As much of a line as is so wide. Sequences for colours have no width.
fn cut(line: &str, columns: usize) -> String {
    let (mut width, mut is_sequence) = (0, false);
    let fits = |c: &char| {
        let was_sequence = is_sequence;
        is_sequence = *c == '\u{1b}' || was_sequence && !c.is_ascii_alphabetic();
        let has_width = !is_sequence && !was_sequence;
        width += usize::from(has_width);
        !has_width || width <= columns
    };
    line.chars().filter(fits).collect()
}

impl Choice {
    /// What the command line says.
    pub(super) fn new(sections: &[Section], sort: Option<String>, every: Duration) -> Choice {
        Choice {
            own: sections.to_vec(),
            number: 0,
            sort,
            has_all_rows: false,
            line: 0,
            is_paused: false,
            every,
        }
    }

    fn sections(&self) -> &[Section] {
        let screen = || SCREENS.get(self.number).map_or(&[][..], |screen| screen.1);
        match self.own.as_slice() {
            [] => screen(),
            own => own,
        }
    }

    /// The first line: what was chosen, and the window's.
    fn head(&self, window: &str) -> String {
        let screen = SCREENS.get(self.number).filter(|_| self.own.is_empty());
        let name = screen.map_or("chosen", |(name, _)| name);
        let sort = self.sort.as_ref().map(|sort| format!(" by {sort}"));
        let paused = if self.is_paused { ", paused" } else { "" };
        format!("[{name}{}{paused}] {window}", sort.unwrap_or_default())
    }

    /// Does what a key stands for. False if that is to end.
    fn take(&mut self, key: KeyEvent, heads: &[String]) -> bool {
        let screens = SCREENS.len();
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return false;
            }
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Tab | KeyCode::Right => self.go(self.number + 1),
            KeyCode::BackTab | KeyCode::Left => self.go(self.number + screens - 1),
            KeyCode::Char('s') => {
                let place = self.sort.as_ref().and_then(|sort| {
                    let mut places = heads.iter();
                    places.position(|head| head == sort)
                });
                let next = place.map_or(0, |place| place + 1);
                self.sort = heads.get(next).cloned();
            }
            KeyCode::Char('S') => self.sort = None,
            KeyCode::Char('a') => self.has_all_rows = !self.has_all_rows,
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('+') => self.scale(|every| every * 2),
            KeyCode::Char('-') => self.scale(|every| every / 2),
            KeyCode::Down => self.line += 1,
            KeyCode::Up => self.line = self.line.saturating_sub(1),
            KeyCode::PageDown => self.line += 20,
            KeyCode::PageUp => self.line = self.line.saturating_sub(20),
            KeyCode::Home => self.line = 0,
            _ => {}
        }
        true
    }

    /// Shows other tables.
    fn go(&mut self, number: usize) {
        (self.number, self.line, self.sort) = (number % SCREENS.len(), 0, None);
    }

    fn scale(&mut self, by: impl Fn(Duration) -> Duration) {
        self.every = by(self.every).clamp(super::SHORTEST, LONGEST);
    }
}
