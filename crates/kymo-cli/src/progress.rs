//! How far the reading of a trace is.

use std::collections::HashMap;
use std::io::IsTerminal as _;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};
use kymo_ctf::{ItemRef, Trace};

/// Items between two looks at the progress.
const STRIDE: u64 = 1 << 16;

/// A bar on a terminal; nothing elsewhere.
pub struct Progress {
    bar: ProgressBar,
    items: u64,
    /// Where the reader is in each stream, by its file's name.
    offsets: HashMap<Arc<str>, u64>,
}

impl Progress {
    /// For a pass over this trace.
    pub fn new(trace: &Trace) -> Progress {
        let bytes = trace
            .stream_files()
            .iter()
            .map(|path| path.metadata().map_or(0, |metadata| metadata.len()))
            .sum();
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

    /// This item was read.
    pub fn pass(&mut self, item: &ItemRef<'_>) {
        self.items += 1;
        if let ItemRef::Event(event) = item
            && self.items.is_multiple_of(STRIDE)
            && !self.bar.is_hidden()
        {
            self.offsets
                .insert(Arc::clone(event.stream()), event.packet_offset());
            self.bar.set_position(self.offsets.values().sum());
        }
    }

    /// So many bytes more were read.
    pub fn advance(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    /// The pass is over.
    pub fn done(&self) {
        self.bar.finish_and_clear();
    }
}
