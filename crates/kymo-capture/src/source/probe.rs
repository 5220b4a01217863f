//! A target's memory behind a debug probe, whose server speaks GDB's remote serial protocol.

use std::io;
use std::time::{Duration, Instant};

use super::rtt::{Memory, Missing};
use crate::gdb::{Error, Gdb};

/// A target's memory, by address.
#[derive(Debug)]
pub struct Probe {
    gdb: Gdb,
    /// How often to halt the machine, if its memory is not read while it runs.
    halt_every: Option<Duration>,
    halted: Option<Instant>,
    patience: Duration,
    /// Since when the server has refused every request.
    refused: Option<Instant>,
}

impl Probe {
    /// Connects to the server `HOST:PORT`, which has to answer within `patience`. If it does not
    /// read memory while the machine runs, `halt_every` is the time between two halts.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) for the name; else a sentence about what the
    /// server does, or the system's error.
    pub fn connect(
        server: &str,
        patience: Duration,
        halt_every: Option<Duration>,
    ) -> io::Result<Probe> {
        let gdb = Gdb::connect(server, patience).map_err(failed)?;
        Ok(Probe {
            gdb,
            halt_every,
            halted: None,
            patience,
            refused: None,
        })
    }

    /// A target that is being reset may refuse requests for a while.
    fn said<T>(&mut self, answer: Result<T, Error>) -> Result<T, Missing> {
        let error = match answer {
            Ok(answer) => {
                self.refused = None;
                return Ok(answer);
            }
            Err(error) => error,
        };
        if matches!(error, Error::Refused { .. }) {
            let since = *self.refused.get_or_insert_with(Instant::now);
            if since.elapsed() < self.patience {
                return Err(Missing::Now);
            }
        }
        Err(Missing::Failed(failed(error)))
    }
}

fn failed(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        Error::Name => io::Error::new(io::ErrorKind::InvalidInput, error),
        error => io::Error::other(error),
    }
}

impl Memory for Probe {
    const PIECE: usize = 4096;

    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<usize, Missing> {
        self.copy(at, into).map(|()| into.len())
    }

    fn copy(&mut self, at: u64, into: &mut [u8]) -> Result<(), Missing> {
        let answer = self.gdb.read(at, into);
        self.said(answer)
    }

    fn word(&mut self, at: u64) -> Result<u32, Missing> {
        let mut bytes = [0; 4];
        self.copy(at, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn set_word(&mut self, at: u64, value: u32) -> Result<(), Missing> {
        let answer = self.gdb.write(at, value);
        self.said(answer)
    }

    fn hold(&mut self) -> io::Result<bool> {
        let Some(every) = self.halt_every else {
            return Ok(true);
        };
        if self.halted.is_some_and(|halted| halted.elapsed() < every) {
            return Ok(false);
        }
        self.gdb.halt().map_err(failed)?;
        Ok(true)
    }

    fn release(&mut self) -> io::Result<()> {
        if self.halt_every.is_some() {
            self.gdb.run().map_err(failed)?;
            self.halted = Some(Instant::now());
        }
        Ok(())
    }
}
