//! A program that waits until its counters are open.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::thread::JoinHandle;

use crate::error::Error;
use crate::sys;

/// A process that is about to become a program, and waits for [`release`](HeldCommand::release).
///
/// Groups with [`Options::on_exec`](crate::Options::on_exec) that are opened for it meanwhile count
/// the whole program, and nothing before it. Dropped, the process ends.
#[derive(Debug)]
pub struct HeldCommand {
    pid: u32,
    name: String,
    /// `None` once it is released.
    held: Option<Held>,
}

#[derive(Debug)]
struct Held {
    gate: UnixStream,
    starter: JoinHandle<io::Result<Child>>,
}

impl HeldCommand {
    /// Makes the process.
    ///
    /// # Errors
    /// [`Error::Command`] if there can be no new process.
    pub fn new(mut command: Command) -> Result<HeldCommand, Error> {
        let name = command.get_program().to_string_lossy().into_owned();
        let failed = |source| Error::Command {
            command: name.clone(),
            source,
        };
        let (mut gate, child) = UnixStream::pair().map_err(failed)?;
        sys::wait_before_exec(&mut command, &gate, child);
        // `spawn` returns when the process has become the program, or could not.
        let starter = std::thread::spawn(move || command.spawn());
        let mut pid = [0; 4];
        match gate.read_exact(&mut pid) {
            Ok(()) => Ok(HeldCommand {
                pid: u32::from_ne_bytes(pid),
                name,
                held: Some(Held { gate, starter }),
            }),
            Err(error) => Err(failed(match starter.join() {
                Ok(Err(source)) => source,
                _ => error,
            })),
        }
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets it become the program.
    ///
    /// # Errors
    /// [`Error::Command`] if it cannot, as when there is no such program.
    pub fn release(mut self) -> Result<Child, Error> {
        let started = match self.held.take() {
            Some(mut held) => held.gate.write_all(&[0]).and_then(|()| held.end()),
            None => Err(io::ErrorKind::NotFound.into()),
        };
        started.map_err(|source| Error::Command {
            command: self.name.clone(),
            source,
        })
    }
}

impl Held {
    /// Waits until the process has become the program, or has ended.
    fn end(self) -> io::Result<Child> {
        let Held { gate, starter } = self;
        drop(gate);
        let started = starter.join();
        started.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    }
}

impl Drop for HeldCommand {
    /// The process ends before this one might: what it has to say needs a reader.
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            drop(held.end());
        }
    }
}
