//! The terminal at the standard output: how wide it is, and whether it gets colours.

use std::io::IsTerminal as _;

use clap::ValueEnum;

/// Columns of what is no terminal.
const DEFAULT: usize = 100;
/// Fewest columns for which a table is laid out.
const LEAST: usize = 80;

/// Columns for a table: those of `COLUMNS`, else of the terminal, else 100; at least 80.
pub fn width() -> usize {
    let asked = std::env::var("COLUMNS").ok();
    let asked = asked.and_then(|columns| columns.trim().parse().ok());
    let asked = asked.filter(|columns| *columns > 0);
    let columns = asked.or_else(|| {
        let (terminal_size::Width(columns), _) =
            terminal_size::terminal_size_of(std::io::stdout())?;
        Some(usize::from(columns)).filter(|columns| *columns > 0)
    });
    columns.unwrap_or(DEFAULT).max(LEAST)
}

/// When to write colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Color {
    /// Whether the standard output gets colours.
    pub fn is_on(self) -> bool {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        match self {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
                std::io::stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb
            }
        }
    }
}
