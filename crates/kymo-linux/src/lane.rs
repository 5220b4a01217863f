//! The stream of one CPU.

use std::fs::File;
use std::io::{self, Seek as _, Write};
use std::path::PathBuf;

use kymo_ctf::{EventValues, Fields, StreamWriter, Ticks, TraceWriter, Value, WriteError};

use crate::metadata::FIRST_SAMPLE;

/// A packet ends when it has about so many bytes.
const PACKET: usize = 64 << 10;
/// A packet ends when it covers so many nanoseconds, so that a reader is never far behind.
const PACKET_NS: u64 = 1_000_000_000;

/// A file to which whole packets are appended, or nothing.
#[derive(Debug)]
struct PacketFile {
    file: File,
}

impl Write for PacketFile {
    /// Writes all bytes, which are one packet, or leaves the file as it was.
    fn write(&mut self, packet: &[u8]) -> io::Result<usize> {
        let before = self.file.stream_position()?;
        let written = self.file.write_all(packet);
        if let Err(error) = written {
            // What is left of the packet would be damage. If it stays, readers say so.
            let _ = self.file.set_len(before);
            let _ = self.file.seek(io::SeekFrom::Start(before));
            return Err(error);
        }
        Ok(packet.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The stream of one CPU, in packets.
#[derive(Debug)]
pub(crate) struct Lane {
    stream: StreamWriter<PacketFile>,
    cpu: u32,
    open: Option<Open>,
    /// Whether a packet was ended.
    has_packet: bool,
    /// Time of the last event.
    last: u64,
    /// Samples in packets that were written.
    samples: u64,
}

#[derive(Debug)]
struct Open {
    begin: u64,
    bytes: usize,
    samples: u64,
}

impl Lane {
    /// Creates the CPU's stream file.
    pub(crate) fn create(
        trace: &TraceWriter,
        directory: &std::path::Path,
        cpu: u32,
    ) -> Result<Lane, WriteError> {
        let name = format!("perf_stream_{cpu}");
        let path = directory.join(&name);
        let failed = |path: PathBuf| |source| WriteError::Io { path, source };
        let file = File::create(&path).map_err(failed(path.clone()))?;
        let path = path.display().to_string();
        let out = PacketFile { file };
        Ok(Lane {
            stream: StreamWriter::new(trace.metadata(), 0, &path, out)?,
            cpu,
            open: None,
            has_packet: false,
            last: 0,
            samples: 0,
        })
    }

    /// Begins a packet for an event of this time, unless the one before takes it.
    fn packet(&mut self, time: u64) -> Result<(), WriteError> {
        let is_old =
            |open: &Open| open.bytes >= PACKET || time.saturating_sub(open.begin) >= PACKET_NS;
        if self.open.as_ref().is_some_and(is_old) {
            self.end_packet()?;
        }
        if self.open.is_none() {
            let cpu = Fields::from_iter([("cpu_id", Value::UInt(self.cpu.into()))]);
            self.stream.begin_packet(Ticks(time), cpu)?;
        }
        self.open.get_or_insert(Open {
            begin: time,
            bytes: 0,
            samples: 0,
        });
        Ok(())
    }

    /// Writes an event of about so many bytes. Returns whether its time had to be changed, as it
    /// was before that of the last one.
    pub(crate) fn event(
        &mut self,
        id: u64,
        time: u64,
        values: &EventValues,
        bytes: usize,
    ) -> Result<bool, WriteError> {
        let is_late = time < self.last;
        let time = time.max(self.last);
        self.packet(time)?;
        self.stream.event(id, Ticks(time), values)?;
        if let Some(open) = &mut self.open {
            open.bytes += bytes;
            open.samples += u64::from(id >= FIRST_SAMPLE);
        }
        self.last = time;
        Ok(is_late)
    }

    /// Counts lost events, with a packet that ends here. What the first packet of a stream counts,
    /// readers take for what was lost before the trace, so that packet never counts any.
    pub(crate) fn lost(&mut self, time: u64, events: u64) -> Result<(), WriteError> {
        let time = time.max(self.last);
        if !self.has_packet {
            self.packet(time)?;
            self.end_packet()?;
        }
        self.packet(time)?;
        self.stream.discard(events);
        self.last = time;
        self.end_packet()
    }

    fn end_packet(&mut self) -> Result<(), WriteError> {
        match self.open.take() {
            Some(open) => {
                self.has_packet = true;
                let end = self.last.max(open.begin);
                self.stream.end_packet(Ticks(end))?;
                self.samples += open.samples;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Ends the stream. Gives the number of samples in it.
    pub(crate) fn finish(mut self) -> (u64, Result<(), WriteError>) {
        let ended = self.end_packet();
        let finished = self.stream.finish().map(drop);
        (self.samples, ended.and(finished))
    }
}
