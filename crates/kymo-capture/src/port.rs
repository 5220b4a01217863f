//! The host's end of the port over which a guest sends.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use kymo::wire::{self, Kind};

use crate::follow;
use crate::sent::{Sent, SentTrace};

/// Bytes that are taken in one turn, so that memory is read in between.
const TURN: usize = 4 << 20;

/// A port that is listened to.
#[derive(Debug)]
pub(crate) struct Port {
    socket: UnixStream,
    trace: SentTrace,
    buffer: Vec<u8>,
    ended: bool,
}

impl Port {
    /// Listens to `socket`, whose trace goes to `trace`.
    pub(crate) fn new(socket: UnixStream, trace: SentTrace) -> io::Result<Port> {
        socket.set_nonblocking(true)?;
        Ok(Port {
            socket,
            trace,
            buffer: vec![0; 256 << 10],
            ended: false,
        })
    }

    pub(crate) fn trace(&self) -> &SentTrace {
        &self.trace
    }

    /// Takes what has arrived, or a good part of it. Gives the number of bytes.
    pub(crate) fn step(&mut self) -> Result<usize, follow::Error> {
        let mut taken = 0;
        while taken < TURN && !self.ended {
            match self.socket.read(&mut self.buffer) {
                Ok(0) => self.ended = true,
                Ok(read) => {
                    taken += read;
                    let bytes = self.buffer.get(..read).unwrap_or_default();
                    self.trace
                        .take(bytes)
                        .map_err(|source| write(&self.trace, source))?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // QEMU was killed with what we said unread: that was all.
                Err(_) => self.ended = true,
            }
        }
        Ok(taken)
    }

    /// Asks the guest to stop and to send what is left.
    pub(crate) fn ask_to_stop(&mut self) {
        // A machine that has ended meanwhile does not hear it, and is found to have ended.
        let _ = self.socket.write_all(&wire::header(Kind::Stop, 0, 0, b""));
    }

    /// Takes all that was sent before the machine ended, and ends the trace.
    pub(crate) fn finish(mut self) -> Result<Sent, follow::Error> {
        while self.step()? > 0 {}
        let out = self.trace.out().to_owned();
        self.trace.finish().map_err(|source| follow::Error::Write {
            out: out.display().to_string(),
            source,
        })
    }
}

fn write(trace: &SentTrace, source: io::Error) -> follow::Error {
    follow::Error::Write {
        out: trace.out().display().to_string(),
        source,
    }
}
