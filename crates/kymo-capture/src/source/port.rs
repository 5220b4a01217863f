//! A line over which a guest sends its trace in frames: the host's end of a virtio serial port.

use std::io::{self, Read, Write};
use std::path::Path;

use kymo::ring::reader::View;
use kymo::wire::{self, Kind};

use super::{Error, Progress, Source};
use crate::framed::{FramedTrace, Received};

/// Bytes that are taken in one poll, so that other sources have their turn.
const TURN: usize = 4 << 20;

/// A line whose reads do not wait, and the trace that comes over it.
#[derive(Debug)]
pub struct PortSource<L> {
    line: L,
    trace: FramedTrace,
    buffer: Vec<u8>,
    ended: bool,
}

impl<L: Read + Write> PortSource<L> {
    /// Listens to `line`; its trace goes to the directory `out`.
    pub fn new(line: L, out: &Path) -> PortSource<L> {
        PortSource {
            line,
            trace: FramedTrace::new(out),
            buffer: vec![0; 256 << 10],
            ended: false,
        }
    }
}

impl<L: Read + Write> Source for PortSource<L> {
    type Outcome = Received;

    fn poll(&mut self, _: View) -> Result<bool, Error> {
        let mut taken = 0;
        while taken < TURN && !self.ended {
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
                // QEMU was killed with what we said unread: that was all.
                Err(_) => self.ended = true,
            }
        }
        Ok(taken > 0)
    }

    fn has_begun(&self) -> bool {
        self.trace.is_open()
    }

    fn ask_to_stop(&mut self) -> bool {
        let waits = self.trace.is_open() && !self.trace.is_closed();
        if waits {
            // A machine that has ended meanwhile does not hear it, and is found to have ended.
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

    /// Takes all that was sent before the machine ended, too.
    fn finish(mut self) -> Result<Received, Error> {
        while self.poll(View::PostMortem)? {}
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
