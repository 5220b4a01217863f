//! Metadata: the typed and fully resolved model of a trace's metadata text.

pub(crate) mod clock;
pub(crate) mod draft;
pub(crate) mod json;
pub(crate) mod link;
pub(crate) mod packets;
pub(crate) mod roles;
pub(crate) mod tsdl;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::class::attribute::Attributes;
use crate::class::wide_int::WideInt;
use crate::class::{ByteOrder, StructClass};
use crate::error::{Error, MetadataError, Position};
use crate::metadata::clock::ClockClass;

/// The parsed metadata of a trace.
#[derive(Debug, Clone)]
pub struct Metadata {
    pub(crate) trace: TraceClass,
    pub(crate) env: Vec<(String, EnvValue)>,
    pub(crate) clocks: Vec<Arc<ClockClass>>,
    pub(crate) streams: BTreeMap<u64, Arc<StreamClass>>,
    /// Number of slots: one for each field on which others depend.
    pub(crate) slots: u32,
    pub(crate) event_classes: usize,
    pub(crate) warnings: Vec<MetadataError>,
}

impl Metadata {
    /// Reads a metadata text: TSDL (CTF 1.8) or a JSON text sequence (CTF 2). The first line `/*
    /// CTF 1.8 */` is optional, but one that names another version is refused.
    ///
    /// # Errors
    /// [`Error::Metadata`] with line and column, for everything that is invalid or unsupported.
    pub fn parse(text: &str) -> Result<Metadata, Error> {
        // TSDL does not use the separator, so a text that contains one is CTF 2 behind leading
        // garbage.
        if text
            .trim_start_matches('\u{feff}')
            .trim_start()
            .starts_with(['\u{1e}', '{'])
            || text.contains("\u{1e}{")
        {
            return Ok(crate::metadata::json::fragments::read(text)?);
        }
        if let Some(rest) = text.strip_prefix("/* CTF ") {
            let version: String = rest
                .chars()
                .take_while(|c| c.is_ascii_digit() || *c == '.')
                .collect();
            // A comment that merely begins with "CTF" names no version.
            if !version.is_empty() && version != "1.8" && !version.starts_with("1.8.") {
                let message = format!(
                    "the first line names version {version} of CTF; text of this kind is of \
                     version 1.8 only"
                );
                return Err(MetadataError::new(Position { line: 1, column: 8 }, message).into());
            }
        }
        Ok(crate::metadata::tsdl::blocks::read(text)?)
    }

    /// Reads the bytes of a metadata file: text, or text in packets of either byte order.
    ///
    /// # Errors
    /// [`Error::Metadata`] as for [`Metadata::parse`], for bytes that are not UTF-8 text, and for
    /// malformed packets.
    pub fn from_bytes(bytes: &[u8]) -> Result<Metadata, Error> {
        let Some(joined) = packets::join(bytes)? else {
            return Metadata::from_text(bytes);
        };
        let mut metadata = Metadata::from_text(&joined.text)?;
        let has_packets_order = metadata.trace.byte_order == joined.byte_order;
        if metadata.trace.major == 1 && !has_packets_order {
            let message = "the metadata's packets have another byte order than the `trace` block \
                           in them says";
            return Err(MetadataError::new(Position::START, message).into());
        }
        // Tracers without a UUID leave zeros there.
        if metadata.trace.uuid.is_some_and(|uuid| uuid != joined.uuid) && joined.uuid != [0; 16] {
            let message =
                "the UUID of the metadata's packets is not that of the `trace` block in them";
            metadata
                .warnings
                .push(MetadataError::new(Position::START, message));
        }
        Ok(metadata)
    }

    /// The text of a metadata file, to which the lines and columns of errors refer: the content of
    /// its packets, or the whole file.
    ///
    /// # Errors
    /// [`Error::Metadata`] for malformed packets.
    pub fn text(bytes: &[u8]) -> Result<Cow<'_, [u8]>, Error> {
        Ok(packets::join(bytes)?.map_or(Cow::Borrowed(bytes), |joined| Cow::Owned(joined.text)))
    }

    fn from_text(bytes: &[u8]) -> Result<Metadata, Error> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Metadata::parse(text),
            Err(error) => {
                let good = bytes.get(..error.valid_up_to()).unwrap_or(&[]);
                let last_line = good.rsplit(|&byte| byte == b'\n').next().unwrap_or(&[]);
                let lines = good.iter().filter(|&&byte| byte == b'\n').count();
                let columns = String::from_utf8_lossy(last_line).chars().count();
                let position = Position {
                    line: u32::try_from(lines + 1).unwrap_or(u32::MAX),
                    column: u32::try_from(columns + 1).unwrap_or(u32::MAX),
                };
                Err(MetadataError::new(position, "the metadata is not UTF-8 text from here").into())
            }
        }
    }

    /// The trace as a whole.
    pub fn trace(&self) -> &TraceClass {
        &self.trace
    }

    /// The environment, in the order of the text.
    pub fn env(&self) -> &[(String, EnvValue)] {
        &self.env
    }

    /// The clocks, in the order of the text.
    pub fn clocks(&self) -> &[Arc<ClockClass>] {
        &self.clocks
    }

    /// The stream classes, by id.
    pub fn streams(&self) -> impl Iterator<Item = &Arc<StreamClass>> {
        self.streams.values()
    }

    /// Warnings about text that is unusual but valid, in the order in which it was found.
    pub fn warnings(&self) -> &[MetadataError] {
        &self.warnings
    }

    /// Number of event classes in all streams.
    pub fn event_class_count(&self) -> usize {
        self.event_classes
    }

    /// The stream class of this id.
    pub fn stream(&self, id: u64) -> Option<&Arc<StreamClass>> {
        self.streams.get(&id)
    }
}

/// A value of the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvValue {
    /// A quoted string.
    Text(String),
    /// An integer.
    Integer(i128),
    /// An integer that does not fit into an `i128` (CTF 2).
    Wide(WideInt),
}

impl std::fmt::Display for EnvValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            EnvValue::Text(text) => text.fmt(f),
            EnvValue::Integer(number) => number.fmt(f),
            EnvValue::Wide(number) => number.fmt(f),
        }
    }
}

/// The trace as a whole: the `trace` block, or CTF 2's preamble and trace class.
#[derive(Debug, Clone)]
pub struct TraceClass {
    /// Version of the format: 1 or 2.
    pub major: u64,
    /// Version of the format: 8 for CTF 1.8, 0 for CTF 2.
    pub minor: u64,
    /// The UUID of metadata and packets. Packets with another UUID are reported.
    pub uuid: Option<[u8; 16]>,
    /// The byte order of integers that state none (CTF 1.8).
    pub byte_order: ByteOrder,
    /// Name (CTF 2).
    pub name: Option<String>,
    /// Namespace (CTF 2).
    pub namespace: Option<String>,
    /// Unique id (CTF 2).
    pub uid: Option<String>,
    /// Attributes from the metadata.
    pub attributes: Attributes,
    /// The header of every packet.
    pub packet_header: Option<Arc<StructClass>>,
}

/// A `stream` block and its events.
#[derive(Debug, Clone)]
pub struct StreamClass {
    /// Id, as in the packet header's `stream_id`.
    pub id: u64,
    /// Name (CTF 2).
    pub name: Option<String>,
    /// Namespace (CTF 2).
    pub namespace: Option<String>,
    /// Unique id (CTF 2).
    pub uid: Option<String>,
    /// The clock of the stream's times, if any.
    pub clock: Option<Arc<ClockClass>>,
    /// The context of every packet, after the header.
    pub packet_context: Option<Arc<StructClass>>,
    /// The header of every event record.
    pub event_header: Option<Arc<StructClass>>,
    /// The context of every event record, after the header.
    pub event_context: Option<Arc<StructClass>>,
    /// The events, by id.
    pub events: BTreeMap<u64, Arc<EventClass>>,
    /// Attributes from the metadata.
    pub attributes: Attributes,
}

/// An `event` block.
#[derive(Debug, Clone)]
pub struct EventClass {
    /// Id within its stream class.
    pub id: u64,
    /// Name; empty if there is none (CTF 2).
    pub name: Arc<str>,
    /// Namespace (CTF 2).
    pub namespace: Option<String>,
    /// Unique id (CTF 2).
    pub uid: Option<String>,
    /// Id of the stream class.
    pub stream_id: u64,
    /// Severity as in syslog, or finer, if given.
    pub log_level: Option<i64>,
    /// The event's own context, after the stream's event context.
    pub context: Option<Arc<StructClass>>,
    /// The event's own fields.
    pub fields: Option<Arc<StructClass>>,
    /// Attributes from the metadata.
    pub attributes: Attributes,
    /// Its index among all event classes of the trace.
    pub(crate) index: u32,
}

impl EventClass {
    /// Its index among all event classes of the metadata, less than
    /// [`Metadata::event_class_count`].
    pub fn index(&self) -> usize {
        self.index as usize
    }
}
