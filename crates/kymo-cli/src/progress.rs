//! Progress of a pass over a trace or a file.

use std::collections::HashMap;
use std::io::{IsTerminal as _, Read};
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};
use kymo_ctf::{ItemRef, Trace};

/// Items between two updates of the bar.
const STRIDE: u64 = 1 << 16;

/// A progress bar if the standard error is a terminal; otherwise nothing.
pub struct Progress {
    bar: ProgressBar,
    items: u64,
    /// Offset of the current packet in each stream, by stream name.
    offsets: HashMap<Arc<str>, u64>,
}

impl Progress {
    /// Starts the bar for a pass over this trace.
    pub fn new(trace: &Trace) -> Progress {
        let bytes = trace
            .stream_files()
            .iter()
            .map(|path| path.metadata().map_or(0, |metadata| metadata.len()))
            .sum();
        Progress::of_bytes(bytes)
    }

    /// Starts the bar for a pass over this many bytes.
    pub fn of_bytes(bytes: u64) -> Progress {
        let bar = match std::io::stderr().is_terminal() {
            true => ProgressBar::new(bytes),
            false => ProgressBar::hidden(),
        };
        if let Ok(style) =
            ProgressStyle::with_template("{bar:40} {percent}% of {total_bytes}, {eta} left")
        {
            bar.set_style(style);
        }
        Progress {
            bar,
            items: 0,
            offsets: HashMap::new(),
        }
    }

    /// Counts an item that was read.
    #[inline]
    pub fn pass(&mut self, item: &ItemRef<'_>) {
        self.items += 1;
        if self.items.is_multiple_of(STRIDE) {
            self.look(item);
        }
    }

    #[cold]
    fn look(&mut self, item: &ItemRef<'_>) {
        if let ItemRef::Event(event) = item
            && !self.bar.is_hidden()
        {
            self.offsets
                .insert(Arc::clone(event.stream()), event.packet_offset());
            self.bar.set_position(self.offsets.values().sum());
        }
    }

    /// Advances the bar by this many bytes.
    pub fn advance(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    /// Advances the bar by what is read.
    pub fn reading<R: Read>(&self, reader: R) -> impl Read + use<R> {
        self.bar.wrap_read(reader)
    }

    /// Clears the bar at the end of the pass.
    pub fn done(&self) {
        self.bar.finish_and_clear();
    }
}
