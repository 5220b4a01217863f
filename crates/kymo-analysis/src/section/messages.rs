//! Messages between threads and processes.

use std::collections::BTreeMap;

use kymo::event::Enumeration as _;
use kymo::vocabulary::IpcPath;
use serde::Serialize;

/// Messages of one mechanism on one path.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Messages {
    /// `ipc`, `pipe` or `queue`.
    pub mechanism: &'static str,
    /// The path through the kernel, if it has several.
    pub path: Option<String>,
    /// Number sent or written.
    pub sent: u64,
    /// Number received or read.
    pub received: u64,
    /// Bytes sent, as far as events have lengths.
    pub sent_bytes: u64,
    /// Bytes received, as far as events have lengths.
    pub received_bytes: u64,
}

/// Messages by mechanism and path.
#[derive(Debug, Default)]
pub(crate) struct Mail(BTreeMap<(&'static str, Option<&'static str>), Messages>);

impl Mail {
    pub(crate) fn add(
        &mut self,
        mechanism: &'static str,
        sends: bool,
        path: Option<IpcPath>,
        len: u64,
    ) {
        let path = path.map(|path| path.label());
        let messages = self.0.entry((mechanism, path)).or_default();
        let (count, bytes) = match sends {
            true => (&mut messages.sent, &mut messages.sent_bytes),
            false => (&mut messages.received, &mut messages.received_bytes),
        };
        *count += 1;
        *bytes = bytes.saturating_add(len);
    }

    pub(crate) fn finish(&self) -> Vec<Messages> {
        let rows = self.0.iter().map(|((mechanism, path), messages)| Messages {
            mechanism,
            path: path.map(str::to_lowercase),
            ..messages.clone()
        });
        rows.collect()
    }

    pub(crate) fn live(&self) -> usize {
        self.0.len()
    }
}
