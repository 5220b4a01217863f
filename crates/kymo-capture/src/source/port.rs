//! A line over which a machine sends its trace in frames: a virtio serial port, a serial line, an
//! RTT up-buffer, a file.

use std::io::{self, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use kymo::ring::reader::View;
use kymo::wire::{self, Kind};

use super::{Error, Progress, Source};
use crate::framed::{FramedTrace, Received};

/// Most bytes to read in one poll, so that other sources have their turn.
const TURN: usize = 4 << 20;
/// Most time for one poll, for the same reason, and for what a sender that goes on still sends
/// after the recording.
const MOMENT: Duration = Duration::from_millis(200);

/// A line with nonblocking reads, and the trace that arrives over it.
#[derive(Debug)]
pub struct PortSource<L> {
    line: L,
    trace: FramedTrace,
    buffer: Vec<u8>,
    ended: bool,
    failure: Option<io::Error>,
    /// Whether the sender may outlive the recording, so that its line need not end.
    running: bool,
    /// Whether nothing can be sent to the machine.
    one_way: bool,
}

impl<L: Read + Write> PortSource<L> {
    /// Reads `line` and writes its trace to the directory `out`.
    pub fn new(line: L, out: &Path) -> PortSource<L> {
        PortSource {
            line,
            trace: FramedTrace::new(out),
            buffer: vec![0; 256 << 10],
            ended: false,
            failure: None,
            running: false,
            one_way: false,
        }
    }

    /// Reads a line over which nothing can be sent to the machine: it is never asked to stop.
    pub fn one_way(line: L, out: &Path) -> PortSource<L> {
        PortSource {
            one_way: true,
            ..PortSource::new(line, out)
        }
    }

    /// Reads a line whose sender may go on after the recording. What arrives then is read for a
    /// moment only.
    pub fn of_running(self) -> PortSource<L> {
        PortSource {
            running: true,
            ..self
        }
    }

    /// Whether the line has ended.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// The error with which the line has ended, if it was one.
    pub fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }
}

impl<L: Read + Write> Source for PortSource<L> {
    type Outcome = Received;

    fn poll(&mut self, _: View) -> Result<bool, Error> {
        let (mut taken, began) = (0, Instant::now());
        while taken < TURN && !self.ended && began.elapsed() < MOMENT {
            match self.line.read(&mut self.buffer) {
                Ok(0) => self.ended = true,
                Ok(read) => {
                    taken += read;
                    let bytes = self.buffer.get(..read).unwrap_or_default();
                    let written = self.trace.take(bytes);
                    written.map_err(|source| write_failed(self.trace.out(), source))?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // QEMU was killed before it read our message, or a device was unplugged.
                Err(error) => (self.ended, self.failure) = (true, Some(error)),
            }
        }
        Ok(taken > 0)
    }

    fn has_begun(&self) -> bool {
        self.trace.is_open()
    }

    fn ask_to_stop(&mut self) -> bool {
        let waits = !self.one_way && self.trace.is_open() && !self.trace.is_closed();
        if waits {
            // This fails if the machine has ended, which is detected elsewhere.
            let _ = self.line.write_all(&wire::header(Kind::Stop, 0, 0, b""));
        }
        waits
    }

    fn is_complete(&self) -> bool {
        self.trace.is_closed()
    }

    fn report(&self, progress: &mut Progress) {
        progress.received = Some(self.trace.bytes());
    }

    /// Also reads everything that was sent before the machine ended.
    fn finish(mut self) -> Result<Received, Error> {
        let began = Instant::now();
        while self.poll(View::PostMortem)? && !(self.running && began.elapsed() >= MOMENT) {}
        let out = self.trace.out().to_owned();
        self.trace
            .finish()
            .map_err(|source| write_failed(&out, source))
    }
}

fn write_failed(out: &Path, source: io::Error) -> Error {
    Error::Write {
        out: out.display().to_string(),
        source,
    }
}
