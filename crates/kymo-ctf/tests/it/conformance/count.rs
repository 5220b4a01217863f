//! Counting without decoding fields.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use kymo_ctf::{Tally, Trace};

use super::show::guarded;

/// A trace in a directory.
pub(crate) fn write(folder: &Path, metadata: &[u8], streams: &[(String, Vec<u8>)]) {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("metadata"), metadata).unwrap();
    for (name, bytes) in streams {
        std::fs::write(folder.join(name), bytes).unwrap();
    }
}

/// The number of counted events.
pub(crate) fn count(
    metadata: &[u8],
    streams: &[(String, Vec<u8>)],
    jobs: usize,
) -> Result<u64, String> {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("kymo-count-{}-{number}", std::process::id()));
    write(&folder, metadata, streams);
    let tally = guarded(|| {
        Trace::open(&folder).map(|trace| {
            let map = trace.map();
            // Released memory can still be read.
            let tally = Tally::of(&map, jobs, false);
            assert_eq!(Tally::of(&map, jobs, false).events, tally.events);
            tally
        })
    });
    std::fs::remove_dir_all(&folder).unwrap();
    let tally = tally?.map_err(|error| error.to_string())?;
    let by_class: u64 = tally.events.values().sum();
    let by_stream: u64 = tally.streams.iter().map(|stream| stream.events).sum();
    if by_class == by_stream {
        Ok(by_class)
    } else {
        Err(format!("{by_class} by class, {by_stream} by stream"))
    }
}
