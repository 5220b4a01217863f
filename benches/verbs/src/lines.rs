//! Comparison of two readers' lines of one trace.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use anyhow::{Context, Result, bail};

use crate::call::Call;

/// Compares both outputs line by line, and gives the number of lines.
///
/// # Errors
/// Gives the first pair of lines that differ.
pub(crate) fn equal(ours: &Call, theirs: &Call) -> Result<u64> {
    let ((mut child, mut ours), (mut their_child, mut theirs)) = (start(ours)?, start(theirs)?);
    let (mut our_line, mut their_line) = (Vec::new(), Vec::new());
    let mut number = 0;
    let differ = loop {
        our_line.clear();
        their_line.clear();
        let lengths = (
            ours.read_until(b'\n', &mut our_line)?,
            theirs.read_until(b'\n', &mut their_line)?,
        );
        if our_line != their_line {
            break true;
        }
        if lengths == (0, 0) {
            break false;
        }
        number += 1;
    };
    drop((ours, theirs));
    child.wait()?;
    their_child.wait()?;
    if differ {
        let text = |line: &[u8]| String::from_utf8_lossy(line).trim_end().to_owned();
        bail!(
            "line {} differs:\n  kymo        {}\n  babeltrace2 {}",
            number + 1,
            text(&our_line),
            text(&their_line)
        );
    }
    Ok(number)
}

fn start(call: &Call) -> Result<(Child, BufReader<ChildStdout>)> {
    let mut child = call
        .command()?
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let output = child.stdout.take().context("a command has no output")?;
    Ok((child, BufReader::with_capacity(1 << 20, output)))
}
