//! Writes a trace event by event, with Kymo's own metadata and packets.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use kymo::ctf::packet::{PacketBuilder, StreamId, Totals};
use kymo::ctf::tsdl;
use kymo::event::Event;
use kymo::ring::reader::Record;
use kymo::vocabulary::ALL;
use kymo::{ChannelKind, Clock};

const UUID: [u8; 16] = [9; 16];
/// Words of a packet, as large as a ring's default.
const PACKET_WORDS: usize = 1 << 10;

/// A file of the trace: the packets of one channel of one CPU.
struct Stream {
    id: StreamId,
    file: BufWriter<File>,
    buffer: Vec<u32>,
    packet: PacketBuilder,
    totals: Totals,
    bytes: u64,
}

impl Stream {
    fn seal(&mut self, end: u64) -> Result<()> {
        let words = self
            .packet
            .seal(&mut self.buffer, &self.id, end, self.totals, false);
        for word in self.buffer.get(..words).unwrap_or_default() {
            self.file.write_all(&word.to_le_bytes())?;
        }
        self.bytes += 4 * words as u64;
        self.totals.sequence += 1;
        self.packet = PacketBuilder::new(end.max(self.packet.last()));
        Ok(())
    }
}

/// A trace under construction. Its clock counts nanoseconds from 0.
pub(super) struct Writer {
    folder: PathBuf,
    streams: BTreeMap<(&'static str, u32), Stream>,
    /// Event counts by name.
    pub(super) counts: BTreeMap<&'static str, u64>,
}

impl Writer {
    /// Starts a trace in this folder, which must be new.
    pub(super) fn new(folder: &Path) -> Result<Writer> {
        std::fs::create_dir_all(folder)?;
        let clock = Clock::at(1_000_000_000);
        let mut metadata = String::new();
        tsdl::write(
            &mut metadata,
            &tsdl::Session {
                uuid: UUID,
                clock,
                hosted: false,
                samples: false,
                counters: kymo::counter::Counters::NONE,
            },
            &ALL,
        )?;
        std::fs::write(folder.join("metadata"), metadata)?;
        Ok(Writer {
            folder: folder.to_owned(),
            streams: BTreeMap::new(),
            counts: BTreeMap::new(),
        })
    }

    /// Bytes written.
    pub(super) fn bytes(&self) -> u64 {
        self.streams.values().map(|stream| stream.bytes).sum()
    }

    /// Writes an event. The events of one CPU must come in time order.
    pub(super) fn event<E: Event>(&mut self, cpu: u32, time: u64, event: E) -> Result<()> {
        *self.counts.entry(E::SCHEMA.name).or_default() += 1;
        let kind = E::CHANNEL;
        if !self.streams.contains_key(&(kind.label(), cpu)) {
            self.open(kind, cpu)?;
        }
        let stream = self
            .streams
            .get_mut(&(kind.label(), cpu))
            .context("it was opened")?;
        let (words, used) = event.encode();
        let payload = words.as_ref().get(..used).unwrap_or_default();
        let bytes = E::SCHEMA
            .shape()
            .payload_bytes(payload)
            .context("an event has a size")?;
        let record = Record {
            time,
            id: E::ID,
            payload,
            padding: u8::try_from(4 * used - bytes)?,
            stepped_back: 0,
        };
        if !stream.packet.push(&mut stream.buffer, &record) {
            stream.seal(time)?;
            if !stream.packet.push(&mut stream.buffer, &record) {
                bail!("{} does not fit into a packet", E::SCHEMA.name);
            }
        }
        Ok(())
    }

    fn open(&mut self, kind: ChannelKind, cpu: u32) -> Result<()> {
        let file = BufWriter::with_capacity(
            1 << 18,
            File::create(self.folder.join(format!("{}_{cpu}", kind.label())))?,
        );
        let id = StreamId {
            uuid: UUID,
            kind,
            cpu,
        };
        let (buffer, packet) = (vec![0; PACKET_WORDS], PacketBuilder::new(0));
        let mut stream = Stream {
            id,
            file,
            buffer,
            packet,
            totals: Totals::default(),
            bytes: 0,
        };
        // An empty packet, relative to which readers count losses.
        stream.seal(0)?;
        self.streams.insert((kind.label(), cpu), stream);
        Ok(())
    }

    /// Ends every stream.
    pub(super) fn finish(&mut self) -> Result<()> {
        for stream in self.streams.values_mut() {
            let last = stream.packet.last();
            stream.seal(last)?;
            stream.file.flush()?;
        }
        Ok(())
    }
}
