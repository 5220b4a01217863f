//! A region's channels as a CTF trace directory.
//!
//! Each stream file is a row of pages of 4 KiB, one CTF packet each. A page goes out in one write
//! that lies inside one page of the file, which systems do not tear when the program is killed:
//! only whole packets reach a file. The last page is written again, in place, as it fills.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use kymo::ctf::packet::{HEADER_WORDS, PacketBuilder, StreamId, widened};
use kymo::ctf::stream::Reported;
use kymo::event::Shape;
use kymo::ring::layout::{
    ChannelKind, Consumer, Crc32, Header, Overflow, Refusal, SESSION_WORD, STATE_WORD, State,
};
use kymo::ring::reader::{ChannelReader, Losses, Record, Region, Shapes, View};
use kymo::ring::source::{Consume, Outside, Source};

/// Bytes of a page of a stream file.
pub const PAGE_BYTES: usize = 4096;
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
    /// The region declares an event whose record fits into no page of a stream file.
    #[error("records of event {0} fit into no page of a stream file ({PAGE_BYTES} bytes)")]
    RecordTooLarge(u32),
    /// The file system refuses something.
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

/// One stream file.
#[derive(Debug)]
struct StreamFile {
    file: File,
    stream: StreamId,
    page: Vec<u32>,
    /// Its number in the file, and of the packet in it.
    index: u64,
    packet: PacketBuilder,
    end: u64,
    told: Reported,
    /// What the last page that is full and written told of.
    settled: Reported,
    dirty: bool,
    /// Records longer than a page; their texts are to blame.
    unwritable: u64,
    events: u64,
    bytes: Vec<u8>,
}

impl StreamFile {
    /// Creates the file with its anchor: an empty packet at the session's start, from which readers
    /// count losses.
    fn create(path: &Path, stream: StreamId, clock_start: u64) -> io::Result<StreamFile> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        let mut stream = StreamFile {
            file,
            stream,
            page: vec![0; PAGE_WORDS],
            index: 0,
            packet: PacketBuilder::new(clock_start),
            end: clock_start,
            told: Reported::default(),
            settled: Reported::default(),
            dirty: false,
            unwritable: 0,
            events: 0,
            bytes: Vec::with_capacity(PAGE_BYTES),
        };
        stream.write_page()?;
        stream.next_page(clock_start);
        Ok(stream)
    }

    fn write_page(&mut self) -> io::Result<()> {
        self.packet.seal(
            &mut self.page,
            &self.stream,
            self.end,
            self.told.totals(),
            true,
        );
        self.bytes.clear();
        self.bytes
            .extend(self.page.iter().flat_map(|word| word.to_le_bytes()));
        let start = self.index * PAGE_BYTES as u64;
        self.file.seek(SeekFrom::Start(start))?;
        if let Err(error) = self.file.write_all(&self.bytes) {
            // The disk is full, say: a torn page would make the whole stream unreadable. A page
            // that was there before stays as long as it was.
            let len = self.file.metadata().map_or(start, |meta| meta.len());
            if !len.is_multiple_of(PAGE_BYTES as u64) {
                self.file.set_len(start)?;
            }
            return Err(error);
        }
        self.dirty = false;
        Ok(())
    }

    /// The page is full: the next one begins where it ends.
    fn next_page(&mut self, begin: u64) {
        self.index += 1;
        self.settled = self.told;
        self.told = self.told.next();
        self.packet = PacketBuilder::new(begin.max(self.end));
        self.end = self.packet.last();
    }

    /// What was lost up to the records that come next, which begin at `begin`. Readers put a loss
    /// between the end of the packet before and the end of the packet that tells of it, so it gets
    /// a packet of its own.
    fn note(&mut self, losses: &Losses, begin: u64) -> io::Result<()> {
        let losses = Losses {
            unreadable: losses.unreadable.saturating_add(self.unwritable),
            ..*losses
        };
        if !self.told.lacks(&losses) {
            return Ok(());
        }
        if self.packet.events() > 0 {
            self.write_page()?;
            self.next_page(begin);
        } else {
            self.packet = PacketBuilder::new(begin.max(self.end));
            self.end = self.packet.last();
        }
        self.told.take(&losses);
        self.dirty = true;
        Ok(())
    }

    fn push(&mut self, record: &Record<'_>) -> io::Result<()> {
        if !self.packet.push(&mut self.page, record) {
            self.write_page()?;
            self.next_page(self.packet.last());
            if !self.packet.push(&mut self.page, record) {
                self.unwritable += 1;
                return Ok(());
            }
        }
        self.end = self.end.max(self.packet.last());
        self.events += 1;
        self.dirty = true;
        Ok(())
    }

    /// Writes what is not written: records, or losses that no record followed.
    fn flush(&mut self) -> io::Result<()> {
        let tells = self.told.totals().events_discarded > self.settled.totals().events_discarded;
        if self.dirty && (self.packet.events() > 0 || tells) {
            self.write_page()?;
        }
        Ok(())
    }
}

/// What one channel gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelSummary {
    /// Its kind.
    pub kind: ChannelKind,
    /// Its CPU.
    pub cpu: u32,
    /// Events in the trace.
    pub events: u64,
    /// What is not.
    pub losses: Losses,
}

/// What a session gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// By channel.
    pub channels: Vec<ChannelSummary>,
}

impl Summary {
    /// Events in the trace.
    pub fn events(&self) -> u64 {
        self.channels.iter().map(|channel| channel.events).sum()
    }

    /// Events that are not.
    pub fn lost(&self) -> u64 {
        self.channels.iter().fold(0, |sum, channel| {
            channel.losses.events().saturating_add(sum)
        })
    }
}

/// Sizes of records, from the region's table.
struct ShapeTable(HashMap<u32, Shape>);

impl Shapes for ShapeTable {
    fn shape(&self, id: u32) -> Option<Shape> {
        self.0.get(&id).copied()
    }
}

/// Writes a region's channels to a trace directory, bit by bit or all at once.
pub struct TraceWriter {
    header: Header,
    channels: Vec<(ChannelReader, StreamFile)>,
    shapes: ShapeTable,
    scratch: Vec<u32>,
}

impl std::fmt::Debug for TraceWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraceWriter")
            .field("header", &self.header)
            .finish_non_exhaustive()
    }
}

impl TraceWriter {
    /// Makes the directory with the metadata and every stream's first packet. From here on it is a
    /// trace that any reader opens.
    ///
    /// # Errors
    /// [`TraceError`]; the directory must not hold files of the same names.
    pub fn create(directory: &Path, source: &impl Source) -> Result<TraceWriter, TraceError> {
        let region = Region::open(source)?;
        let header = region.header().clone();
        let metadata = metadata(&header, source)?;
        let mut shapes = HashMap::new();
        for index in 0..header.shapes_len {
            let (id, shape) = region.shape(source, index)?;
            if HEADER_WORDS + widened(shape.fixed_words() + 1) > PAGE_WORDS {
                return Err(TraceError::RecordTooLarge(id));
            }
            shapes.insert(id, shape);
        }
        let mut readers = Vec::new();
        for cpu in 0..header.cpus {
            for kind in ChannelKind::ALL.into_iter().take(header.kinds as usize) {
                readers.push(region.channel(source, cpu, kind)?);
            }
        }
        fs::create_dir_all(directory)?;
        let hidden = directory.join(".metadata");
        fs::write(&hidden, metadata)?;
        fs::rename(hidden, directory.join("metadata"))?;
        let mut channels = Vec::new();
        for reader in readers {
            let stream = StreamId {
                uuid: header.uuid,
                kind: reader.kind(),
                cpu: reader.cpu(),
            };
            let path = directory.join(format!("{}_{}", stream.kind.label(), stream.cpu));
            let file = StreamFile::create(&path, stream, header.clock_start)?;
            channels.push((reader, file));
        }
        let scratch = channels
            .iter()
            .map(|(reader, _)| reader.scratch_words())
            .max()
            .unwrap_or(0);
        Ok(TraceWriter {
            header,
            channels,
            shapes: ShapeTable(shapes),
            scratch: vec![0; scratch],
        })
    }

    /// The region's header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Whether another session has begun over the memory, so that nothing more will come of this
    /// one.
    pub fn is_over(&self, source: &impl Source) -> bool {
        source.load_long(4 * SESSION_WORD as u64) != Ok(self.header.session_id)
    }

    /// Whether the session was stopped, so that nothing more is recorded in it.
    pub fn is_stopped(&self, source: &impl Source) -> bool {
        // Partner: the release of `stop`, when no writer is inside a record.
        source.load(4 * STATE_WORD as u64) == Ok(State::Stopped as u32) && !self.is_over(source)
    }

    /// What a full ring does.
    pub fn overflow(&self) -> Overflow {
        self.channels
            .first()
            .map_or(Overflow::Overwrite, |(reader, _)| reader.overflow())
    }

    /// Whether the session waits for a host to free its packets: then [`consume`](Self::consume) is
    /// the way to read.
    pub fn is_host_consumer(&self) -> bool {
        self.channels
            .iter()
            .any(|(reader, _)| reader.is_consumed_by(Consumer::Host))
    }

    /// Takes what is new in every channel; gives the number of events. Does not yet write the last,
    /// half-filled pages: see [`flush`](Self::flush).
    ///
    /// # Errors
    /// Those of the file system, and where the memory has shrunk.
    pub fn poll(&mut self, source: &impl Source, view: View) -> Result<u64, TraceError> {
        let mut events = 0;
        for (reader, stream) in &mut self.channels {
            events += drain(
                reader,
                stream,
                source,
                view,
                &self.shapes,
                &mut self.scratch,
                |_| Ok(()),
            )?;
        }
        Ok(events)
    }

    /// As [`poll`](Self::poll), and frees each packet for the writer as soon as it was read. For
    /// the session's one consumer.
    ///
    /// # Errors
    /// As [`poll`](Self::poll).
    pub fn consume(&mut self, source: &impl Consume, view: View) -> Result<u64, TraceError> {
        let mut events = 0;
        for (reader, stream) in &mut self.channels {
            // Who begins behind an earlier consumer takes nothing back that is free.
            let release = |reader: &ChannelReader| {
                if reader.is_released(source)? {
                    Ok(())
                } else {
                    reader.release(source)
                }
            };
            let release = |reader: &ChannelReader| release(reader).map_err(TraceError::from);
            events += drain(
                reader,
                stream,
                source,
                view,
                &self.shapes,
                &mut self.scratch,
                release,
            )?;
        }
        Ok(events)
    }

    /// Writes the half-filled pages too. They are written again, in place, when more comes.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn flush(&mut self) -> io::Result<()> {
        self.channels
            .iter_mut()
            .try_for_each(|(_, stream)| stream.flush())
    }

    /// Events in the trace and events lost, as far as is known now.
    pub fn progress(&self) -> (u64, u64) {
        let channel = |(reader, stream): &(ChannelReader, StreamFile)| {
            (stream.events, reader.losses().events())
        };
        self.channels.iter().map(channel).fold((0, 0), |sum, one| {
            (sum.0 + one.0, one.1.saturating_add(sum.1))
        })
    }

    /// Ends the trace: the last losses are told, everything is written. Call [`poll`](Self::poll)
    /// before.
    ///
    /// # Errors
    /// As [`poll`](Self::poll).
    pub fn finish(mut self, source: &impl Source) -> Result<Summary, TraceError> {
        let mut summary = Summary::default();
        // What was lost after a stream's last record was lost until the latest time that any stream
        // knows.
        let latest = self
            .channels
            .iter()
            .map(|(_, stream)| stream.end)
            .max()
            .unwrap_or(0);
        for (reader, stream) in &mut self.channels {
            reader.refresh_dropped(source)?;
            stream.note(&reader.losses(), stream.end)?;
            if stream.packet.events() == 0 {
                stream.end = stream.end.max(latest);
            }
            stream.flush()?;
            summary.channels.push(ChannelSummary {
                kind: reader.kind(),
                cpu: reader.cpu(),
                events: stream.events,
                losses: Losses {
                    unreadable: reader.losses().unreadable.saturating_add(stream.unwritable),
                    ..reader.losses()
                },
            });
        }
        Ok(summary)
    }
}

fn drain(
    reader: &mut ChannelReader,
    stream: &mut StreamFile,
    source: &impl Source,
    view: View,
    shapes: &ShapeTable,
    scratch: &mut [u32],
    mut after: impl FnMut(&ChannelReader) -> Result<(), TraceError>,
) -> Result<u64, TraceError> {
    let before = stream.events;
    let mut batches = 0;
    while let Some(mut batch) = reader.read(source, view, scratch)? {
        stream.note(&batch.losses(), batch.begin())?;
        let end = batch.end();
        while let Some(record) = batch.next_record(shapes) {
            stream.push(&record)?;
        }
        if let Some(end) = end {
            stream.end = stream.end.max(end);
        }
        after(reader)?;
        batches += 1;
        // A writer as fast as this reader must not keep it from the other channels: at the open
        // packet, and after a ring's length, it is the others' turn.
        if view == View::Live && (end.is_none() || batches >= reader.packets()) {
            break;
        }
    }
    Ok(stream.events - before)
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
