//! What is measured: one function that records an event of two 32-bit fields, and one for an event
//! that is switched off.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Bytes of every peer's ring, for each thread: a few times the first-level cache, a fraction of
/// the second.
pub const RING_BYTES: usize = 256 << 10;
/// Threads that record, each pinned to a CPU of its own.
pub const THREADS: usize = 2;

/// Records an event.
pub type Record = extern "C" fn(a: u32, b: u32);
/// Reads back what was recorded: the events of one thread in their order. Gets the numbers of the
/// calls of each thread, and a folder to work in.
pub type ReadBack = fn(calls: &[u64; THREADS], folder: &Path) -> Result<Vec<[u32; 2]>>;

/// A tracer, or what tracers are compared with.
pub struct Peer {
    /// What the table calls it.
    pub name: &'static str,
    /// Its version.
    pub version: String,
    /// How it is set up, in a few words.
    pub configuration: &'static str,
    /// Bytes of one record in the ring.
    pub bytes: usize,
    /// Records an event.
    pub record: Record,
    /// The same for an event that is switched off; `None` where there is no switch.
    pub off: Option<Record>,
    /// Called on each thread, by number, before it records.
    pub enter: fn(thread: usize) -> Result<()>,
    /// Called when all threads have ended.
    pub read_back: ReadBack,
}

/// For peers that store nothing.
pub fn nothing_to_read(_: &[u64; THREADS], _: &Path) -> Result<Vec<[u32; 2]>> {
    Ok(Vec::new())
}

/// The events of a CTF trace, as babeltrace2 reads them: the two numbers that stand in each line's
/// last braces.
pub fn babeltrace(trace: &Path) -> Result<Vec<[u32; 2]>> {
    let output = Command::new("babeltrace2")
        .arg(trace)
        .output()
        .context("babeltrace2 cannot be started")?;
    if !output.status.success() {
        bail!(
            "babeltrace2 does not read {}: {}",
            trace.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines()
        .map(|line| {
            let fields = line.rsplit('{').next().unwrap_or("");
            let mut numbers = fields.split('=').skip(1).map(|field| {
                field
                    .trim()
                    .split([',', ' ', '}'])
                    .next()
                    .unwrap_or("")
                    .parse()
            });
            match (numbers.next(), numbers.next()) {
                (Some(Ok(a)), Some(Ok(b))) => Ok([a, b]),
                _ => bail!("this line of babeltrace2 is no event with two fields: {line}"),
            }
        })
        .collect()
}
