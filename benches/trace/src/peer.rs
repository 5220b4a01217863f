//! The interface of a peer: a function that records an event of two 32-bit fields, and one for a
//! disabled event.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Size of every peer's ring per thread, in bytes: a few times the first-level cache, a fraction of
/// the second.
pub const RING_BYTES: usize = 256 << 10;
/// Number of recording threads, each pinned to a CPU of its own.
pub const THREADS: usize = 2;

/// Records an event.
pub type Record = extern "C" fn(a: u32, b: u32);
/// Reads back the recorded events, those of each thread in order. Takes the number of calls of each
/// thread and a working folder.
pub type ReadBack = fn(calls: &[u64; THREADS], folder: &Path) -> Result<Vec<[u32; 2]>>;

/// A tracer, or a baseline.
pub struct Peer {
    /// Its name in the table.
    pub name: &'static str,
    /// Its version.
    pub version: String,
    /// Its configuration in a few words.
    pub configuration: &'static str,
    /// Bytes of one record in the ring.
    pub bytes: usize,
    /// Records an event.
    pub record: Record,
    /// Meets a disabled event; `None` without a switch.
    pub off: Option<Record>,
    /// Called on each thread, by number, before it records.
    pub enter: fn(thread: usize) -> Result<()>,
    /// Called when all threads have ended.
    pub read_back: ReadBack,
}

/// The [`ReadBack`] of peers that store nothing.
pub fn nothing_to_read(_: &[u64; THREADS], _: &Path) -> Result<Vec<[u32; 2]>> {
    Ok(Vec::new())
}

/// Reads a CTF trace's events with babeltrace2: the two numbers in each line's last braces.
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
    // What Kymo's sessions record themselves is no event of the benchmark.
    text.lines()
        .filter(|line| !line.contains(" kymo_session_end: "))
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
                _ => {
                    bail!("babeltrace2 printed a line that is not an event with two fields: {line}")
                }
            }
        })
        .collect()
}
