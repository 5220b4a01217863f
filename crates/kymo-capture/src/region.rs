//! Writes a region's channels as a CTF trace directory.
//!
//! Each stream file is a sequence of pages with one CTF packet each, and stays valid if this
//! program is killed: see [`packet_file`](crate::packet_file). The last page is rewritten in place
//! as it fills. A record longer than a page gets a packet of several pages.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;

use kymo::counter::Value;
use kymo::ctf::packet::HEADER_WORDS;
use kymo::ctf::stream::{Filled, Stream};
use kymo::event::Shape;
use kymo::ring::layout::{
    ChannelKind, Consumer, Crc32, Header, Overflow, Refusal, SESSION_WORD, STATE_WORD, State,
};
use kymo::ring::reader::{ChannelReader, Losses, Region, Shapes, View};
use kymo::ring::source::{Consume, Outside, Source};

use crate::own_counters::OwnCounters;
use crate::packet_file::{PAGE_BYTES, PacketFile};

const PAGE_WORDS: usize = PAGE_BYTES / 4;

/// Why a region could not be written as a trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The region cannot be read.
    #[error("{0}")]
    Region(Refusal),
    /// The metadata in the region is damaged.
    #[error("the metadata in the region is damaged (its checksum does not match)")]
    Metadata,
    /// A file system operation failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<Refusal> for TraceError {
    fn from(refusal: Refusal) -> Self {
        TraceError::Region(refusal)
    }
}

impl From<Outside> for TraceError {
    fn from(_: Outside) -> Self {
        TraceError::Region(Refusal::Geometry)
    }
}

impl From<TraceError> for io::Error {
    fn from(error: TraceError) -> Self {
        match error {
            TraceError::Io(error) => error,
            other => io::Error::new(io::ErrorKind::InvalidData, other),
        }
    }
}

/// A channel and its file.
struct Channel {
    stream: Stream,
    file: PacketFile,
    /// The packet under construction: one page, unless a record needs more.
    packet: Vec<u32>,
    /// Whether the file holds the packet as of the last flush.
    is_in_file: bool,
    /// Whether the packet has changed since the last flush.
    is_changed: bool,
    bytes: Vec<u8>,
    /// Events that were lost before the first look at the ring; `None` before that.
    lost_before: Option<u64>,
    /// Events that this program has added: what the CPU's counters have in memory.
    appended: u64,
}

impl Channel {
    /// Creates the file with an empty packet at the session's start, relative to which readers
    /// count losses.
    fn create(directory: &Path, stream: Stream) -> io::Result<Channel> {
        let id = stream.id();
        let file = PacketFile::create(&directory.join(format!("{}_{}", id.kind.label(), id.cpu)))?;
        let mut channel = Channel {
            stream,
            file,
            packet: vec![0; PAGE_WORDS],
            is_in_file: false,
            is_changed: true,
            bytes: Vec::with_capacity(PAGE_BYTES),
            lost_before: None,
            appended: 0,
        };
        channel.finish_packet()?;
        Ok(channel)
    }

    fn write(&mut self) -> io::Result<()> {
        self.stream.seal(&mut self.packet, true);
        self.bytes.clear();
        self.bytes
            .extend(self.packet.iter().flat_map(|word| word.to_le_bytes()));
        if self.is_in_file {
            self.file.replace_last(&self.bytes)?;
        } else {
            self.file.append(&self.bytes)?;
        }
        (self.is_in_file, self.is_changed) = (true, false);
        Ok(())
    }

    /// Writes the packet and begins an empty one on the next page.
    fn finish_packet(&mut self) -> io::Result<()> {
        if self.is_changed || !self.is_in_file {
            self.write()?;
        }
        self.is_in_file = false;
        self.packet.truncate(PAGE_WORDS);
        self.stream.next_packet();
        Ok(())
    }

    /// Reads new records; returns the number of events. With [`View::Live`] it stops after one
    /// ring's length, so that a fast writer cannot keep it from the other channels.
    fn drain(
        &mut self,
        source: &impl Source,
        shapes: &ShapeTable,
        view: View,
        scratch: &mut [u32],
        mut after: impl FnMut(&ChannelReader) -> Result<(), TraceError>,
    ) -> Result<u64, TraceError> {
        if self.lost_before.is_none() {
            let mut first = self.stream.reader().clone();
            first.read(source, view, scratch)?;
            self.lost_before = Some(first.losses().events());
        }
        let before = self.events();
        let ring = self.stream.reader().packets() * self.stream.reader().scratch_words() as u64;
        let mut words = 0;
        while view != View::Live || words < ring {
            let packet = &mut self.packet;
            let filled = self
                .stream
                .fill(source, shapes, view, packet, scratch, &mut after)?;
            let said = self.events() > before || self.stream.is_empty();
            self.is_changed |= said && self.stream.has_news();
            if filled == Filled::Drained {
                break;
            }
            if self.stream.is_empty() && self.is_in_file {
                // The packet reports losses, so it is needed. The record is too long for its page.
                self.finish_packet()?;
            } else if self.stream.is_empty() {
                // The record is longer than a page; the longest one fills a packet of the ring.
                let longest =
                    HEADER_WORDS + Stream::entry_words(self.stream.reader().scratch_words());
                if self.packet.len() >= longest {
                    return Err(Outside.into());
                }
                self.packet.resize(longest.next_multiple_of(PAGE_WORDS), 0);
            } else {
                words += self.packet.len() as u64;
                self.finish_packet()?;
            }
        }
        if self.packet.len() > PAGE_WORDS && !self.stream.is_empty() {
            // Only a packet of one page can be rewritten.
            self.finish_packet()?;
        }
        Ok(self.events() - before)
    }

    /// Writes what is not in the file yet: records, or losses that no record followed.
    fn flush(&mut self) -> io::Result<()> {
        if self.is_changed && self.stream.has_news() {
            self.write()?;
        }
        Ok(())
    }

    /// Appends what the CPU's counters have in memory, at the time `latest` or at the stream's end
    /// if that is later, in packets of their own.
    fn append(
        &mut self,
        latest: u64,
        counted: impl Iterator<Item = (u32, Value)>,
    ) -> io::Result<()> {
        for (counter, value) in counted {
            let Channel { stream, packet, .. } = self;
            let mut appended = stream.append(packet, latest, counter, &value);
            if appended.is_none() && !stream.is_empty() {
                self.finish_packet()?;
                let Channel { stream, packet, .. } = self;
                appended = stream.append(packet, latest, counter, &value);
            }
            self.is_changed = true;
            self.appended += appended.unwrap_or(0);
        }
        if !self.stream.is_empty() {
            self.finish_packet()?;
        }
        Ok(())
    }

    /// Ends the file: a packet reports the losses behind the last record, and extends to `latest`;
    /// then come the CPU's counters, `counted`.
    fn finish(
        &mut self,
        source: &impl Source,
        latest: u64,
        counted: impl Iterator<Item = (u32, Value)>,
    ) -> Result<ChannelSummary, TraceError> {
        if !self.stream.is_empty() {
            self.finish_packet()?;
        }
        self.stream
            .report_losses(source, View::PostMortem, latest)?;
        if self.stream.has_news() {
            self.finish_packet()?;
        }
        self.append(latest, counted)?;
        let reader = self.stream.reader();
        Ok(ChannelSummary {
            kind: reader.kind(),
            cpu: reader.cpu(),
            events: reader.emitted().saturating_add(self.appended),
            losses: reader.losses(),
            drops_unasked: reader.overflow() == Overflow::Discard
                && !reader.is_consumed_by(Consumer::Host),
            lost_before: self.lost_before.unwrap_or(0),
        })
    }

    fn events(&self) -> u64 {
        self.stream.reader().emitted()
    }
}

/// Totals of one channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelSummary {
    /// Its kind.
    pub kind: ChannelKind,
    /// Its CPU.
    pub cpu: u32,
    /// Events in the trace.
    pub events: u64,
    /// Losses by cause.
    pub losses: Losses,
    /// Whether a full ring drops new events though a host could free its packets.
    pub drops_unasked: bool,
    /// Events among the lost ones that were gone at the first look at the ring.
    pub lost_before: u64,
}

/// Totals of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Totals of each channel.
    pub channels: Vec<ChannelSummary>,
}

impl Summary {
    /// Events in the trace.
    pub fn events(&self) -> u64 {
        self.channels.iter().map(|channel| channel.events).sum()
    }

    /// Events among the lost ones that were gone before the recording came.
    pub fn lost_before(&self) -> u64 {
        let channels = self.channels.iter();
        channels.map(|channel| channel.lost_before).sum()
    }

    /// Events lost.
    pub fn lost(&self) -> u64 {
        self.channels.iter().fold(0, |sum, channel| {
            channel.losses.events().saturating_add(sum)
        })
    }
}

/// Record sizes from the region's table.
struct ShapeTable(HashMap<u32, Shape>);

impl Shapes for ShapeTable {
    fn shape(&self, id: u32) -> Option<Shape> {
        self.0.get(&id).copied()
    }
}

/// Writes a region's channels to a trace directory, incrementally or all at once.
pub struct TraceWriter {
    header: Header,
    channels: Vec<Channel>,
    shapes: ShapeTable,
    scratch: Vec<u32>,
    counters: OwnCounters,
    /// Whether the session was stopped when records were last looked for, so that all that it has
    /// recorded is in the trace.
    is_complete: bool,
}

impl std::fmt::Debug for TraceWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraceWriter")
            .field("header", &self.header)
            .finish_non_exhaustive()
    }
}

impl TraceWriter {
    /// Creates the directory with the metadata and every stream's first packet. From then on it is
    /// a valid trace.
    ///
    /// # Errors
    /// [`TraceError`]; the directory must not hold files of the same names.
    pub fn create(directory: &Path, source: &impl Source) -> Result<TraceWriter, TraceError> {
        let region = Region::open(source)?;
        let header = region.header().clone();
        let metadata = metadata(&header, source)?;
        let shapes = (0..header.shapes_len)
            .map(|index| region.shape(source, index))
            .collect::<Result<_, _>>()
            .map(ShapeTable)?;
        let mut streams = Vec::new();
        for (cpu, kind) in region.channels().streams() {
            let reader = region.channel(source, cpu, kind)?;
            streams.push(Stream::new(reader, header.uuid, header.clock_start));
        }
        fs::create_dir_all(directory)?;
        publish_metadata(directory, &metadata)?;
        let scratch = streams
            .iter()
            .map(|stream| stream.reader().scratch_words())
            .max()
            .unwrap_or(0);
        let channels = streams
            .into_iter()
            .map(|stream| Channel::create(directory, stream))
            .collect::<io::Result<_>>()?;
        Ok(TraceWriter {
            header,
            channels,
            counters: OwnCounters::of(region, &metadata, &shapes),
            shapes,
            scratch: vec![0; scratch],
            is_complete: false,
        })
    }

    /// The region's header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Whether another session has reused the memory, so that this one has ended.
    pub fn is_over(&self, source: &impl Source) -> bool {
        source.load_long(4 * SESSION_WORD as u64) != Ok(self.header.session_id)
    }

    /// Whether the session was stopped, so that no more events are recorded in it.
    pub fn is_stopped(&self, source: &impl Source) -> bool {
        // Partner: the release of `stop`, when no writer is inside a record.
        source.load(4 * STATE_WORD as u64) == Ok(State::Stopped as u32) && !self.is_over(source)
    }

    /// What a full ring does.
    pub fn overflow(&self) -> Overflow {
        self.readers()
            .next()
            .map_or(Overflow::Overwrite, ChannelReader::overflow)
    }

    /// Whether the session waits for a host to free its packets, and must be read with
    /// [`consume`](Self::consume).
    pub fn is_host_consumer(&self) -> bool {
        self.readers()
            .any(|reader| reader.is_consumed_by(Consumer::Host))
    }

    fn readers(&self) -> impl Iterator<Item = &ChannelReader> {
        self.channels.iter().map(|channel| channel.stream.reader())
    }

    /// Reads new records of every channel; returns the number of events. Does not write the last,
    /// partly filled pages: see [`flush`](Self::flush).
    ///
    /// # Errors
    /// [`TraceError::Io`], and [`TraceError::Region`] if the memory has shrunk.
    pub fn poll(&mut self, source: &impl Source, view: View) -> Result<u64, TraceError> {
        self.drain(source, view, |_| Ok(()))
    }

    /// Like [`poll`](Self::poll), and frees each packet for the writer as soon as it has been read.
    /// Only for the session's single consumer.
    ///
    /// # Errors
    /// Those of [`poll`](Self::poll).
    pub fn consume(&mut self, source: &impl Consume, view: View) -> Result<u64, TraceError> {
        self.drain(source, view, |reader| {
            // A consumer that starts behind an earlier one must not take back freed packets.
            if !reader.is_released(source)? {
                reader.release(source)?;
            }
            Ok(())
        })
    }

    fn drain(
        &mut self,
        source: &impl Source,
        view: View,
        mut after: impl FnMut(&ChannelReader) -> Result<(), TraceError>,
    ) -> Result<u64, TraceError> {
        self.is_complete = self.is_stopped(source);
        let mut events = 0;
        for channel in &mut self.channels {
            let scratch = &mut self.scratch;
            events += channel.drain(source, &self.shapes, view, scratch, &mut after)?;
        }
        Ok(events)
    }

    /// Writes the partly filled pages. They are rewritten in place when more records arrive.
    ///
    /// # Errors
    /// [`TraceError::Io`].
    pub fn flush(&mut self) -> Result<(), TraceError> {
        self.channels.iter_mut().try_for_each(Channel::flush)?;
        Ok(())
    }

    /// Events in the trace and events lost so far.
    pub fn progress(&self) -> (u64, u64) {
        self.readers().fold((0, 0), |(events, lost), reader| {
            let more = reader.losses().events();
            (events + reader.emitted(), more.saturating_add(lost))
        })
    }

    /// Ends the trace: reports the last losses and writes everything. Call [`poll`](Self::poll)
    /// before.
    ///
    /// If the session was not stopped, what the kernel's own counters have in memory follows the
    /// last record of each CPU, as if the kernel had recorded it at the latest time of any stream:
    /// see [`kymo::counter`](mod@kymo::counter). That of another session over the memory does not.
    ///
    /// # Errors
    /// Those of [`poll`](Self::poll).
    pub fn finish(mut self, source: &impl Source) -> Result<Summary, TraceError> {
        // Losses after a stream's last record extend to the latest time of any stream.
        let ends = self.channels.iter().map(|channel| channel.stream.end());
        let latest = ends.max().unwrap_or(0);
        let mut channels = std::mem::take(&mut self.channels);
        let finish = |channel: &mut Channel| {
            let id = channel.stream.id();
            let counts = id.kind == ChannelKind::Events && !self.is_complete;
            let counted = counts.then(|| self.counters.values(source, id.cpu));
            // A session that has begun since then may have laid out the memory in another way.
            let counted = counted.into_iter().flatten();
            let counted = counted.take_while(|_| !self.is_over(source));
            channel.finish(source, latest, counted)
        };
        let channels = channels.iter_mut().map(finish).collect::<Result<_, _>>()?;
        Ok(Summary { channels })
    }
}

/// Writes the metadata of the trace in `directory` atomically: readers see the old or the new text.
pub(crate) fn publish_metadata(directory: &Path, text: &[u8]) -> io::Result<()> {
    let hidden = directory.join(".metadata");
    fs::write(&hidden, text)?;
    fs::rename(hidden, directory.join("metadata"))
}

/// The metadata text.
fn metadata(header: &Header, source: &impl Source) -> Result<Vec<u8>, TraceError> {
    let len = header.metadata_len as usize;
    let mut words = vec![0; len.div_ceil(4)];
    source.copy(header.metadata_offset, &mut words)?;
    let text: Vec<u8> = words
        .into_iter()
        .flat_map(u32::to_le_bytes)
        .take(len)
        .collect();
    let mut crc = Crc32::new();
    crc.update(&text);
    if crc.finish() == header.metadata_crc {
        Ok(text)
    } else {
        Err(TraceError::Metadata)
    }
}
