//! Writes generated tables into the book.

use std::fs;

use anyhow::{Context, Result};

use crate::process::root;

/// Replaces the text between two marks of a page with the table.
pub(crate) fn write(page: &str, (begin, end): (&str, &str), table: &str) -> Result<()> {
    let path = root().join(page);
    let text = fs::read_to_string(&path).with_context(|| format!("{page} cannot be read"))?;
    let (head, rest) = text
        .split_once(begin)
        .with_context(|| format!("{page} has no line {begin}"))?;
    let (_, tail) = rest
        .split_once(end)
        .with_context(|| format!("{page} has no line {end}"))?;
    let table = table.trim_end();
    fs::write(&path, format!("{head}{begin}\n\n{table}\n\n{end}{tail}"))?;
    eprintln!("The table is in {page}.");
    Ok(())
}
