//! The part of the QEMU Machine Protocol that is needed to find a machine's memory (QEMU's
//! docs/interop/qmp-spec.txt).

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::locate;

/// Time limit for an answer of QEMU.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time limit for QEMU's end after the guest's.
const FAREWELL: Duration = Duration::from_millis(500);
/// Time limit for a copy of the memory.
const LONG_PATIENCE: Duration = Duration::from_secs(600);

/// Why QEMU could not be asked for the machine's memory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing listens at the socket.
    #[error(
        "cannot connect to {socket}: {source}; it must be the socket of a running QEMU's option \
         -qmp unix:PATH,server=on,wait=off"
    )]
    Connect {
        /// The socket.
        socket: String,
        /// The system's error.
        source: io::Error,
    },
    /// There is no answer, or not one of QEMU's.
    #[error("{socket} does not answer like QEMU's -qmp: {reason}")]
    Silent {
        /// The socket.
        socket: String,
        /// What was received instead.
        reason: String,
    },
    /// QEMU refuses a command.
    #[error("QEMU refuses {command}: {reason}")]
    Refused {
        /// The command.
        command: String,
        /// QEMU's reason.
        reason: String,
    },
    /// The host cannot map the memory.
    #[error(
        "the machine's memory is not a shared file ({what}), so it cannot be read while the \
         machine runs; start QEMU with -M ..,memory-backend=m and -object \
         memory-backend-file,id=m,size=..,mem-path=..,share=on, or use --snapshot to stop it once \
         for a copy"
    )]
    NotShared {
        /// What it is.
        what: String,
    },
    /// The copy that QEMU wrote cannot be read.
    #[error(transparent)]
    Image(#[from] locate::Error),
}

impl Error {
    /// The cause: [`InvalidInput`](io::ErrorKind::InvalidInput) for the request,
    /// [`InvalidData`](io::ErrorKind::InvalidData) for the input, anything else for the system.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Error::NotShared { .. } | Error::Silent { .. } => io::ErrorKind::InvalidData,
            Error::Connect { .. } | Error::Refused { .. } => io::ErrorKind::Other,
            Error::Image(error) => error.kind(),
        }
    }

    /// Advice for the user, as a clause that begins with a verb; `None` if the message includes it.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Error::Silent { .. } => {
                Some("check that it is QEMU's and that no other program is connected to it")
            }
            Error::Refused { .. } => Some(
                "check that QEMU may write to the trace directory, and is at least version 5.0",
            ),
            Error::Image(error) => error.advice(),
            Error::Connect { .. } | Error::NotShared { .. } => None,
        }
    }
}

/// A machine's main memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) file: PathBuf,
    /// Physical address of its first byte, if known.
    pub(crate) base: Option<u64>,
}

/// State of the machine, as reported by its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Runs,
    /// The guest powered itself off, or was reset with `-no-reboot`.
    PoweredOff,
    /// QEMU ended.
    Gone,
}

/// A connection to QEMU's monitor.
#[derive(Debug)]
pub(crate) struct Qmp {
    socket: BufReader<UnixStream>,
    name: String,
    /// An incomplete line.
    line: Vec<u8>,
    /// The last event about the machine's end, and its time.
    fate: Fate,
    ended: Option<Instant>,
}

impl Qmp {
    /// Connects and negotiates the protocol.
    pub(crate) fn connect(path: &Path) -> Result<Qmp, Error> {
        let name = path.display().to_string();
        let connect = |source| Error::Connect {
            socket: name.clone(),
            source,
        };
        let socket = UnixStream::connect(path).map_err(connect)?;
        socket.set_read_timeout(Some(PATIENCE)).map_err(connect)?;
        Qmp::over(socket, name)
    }

    /// Negotiates the protocol over this socket.
    fn over(socket: UnixStream, name: String) -> Result<Qmp, Error> {
        let mut qmp = Qmp {
            socket: BufReader::new(socket),
            name,
            line: Vec::new(),
            fate: Fate::Runs,
            ended: None,
        };
        let greeting = qmp.answer()?;
        if greeting.get("QMP").is_none() {
            return Err(qmp.silent("its greeting is different"));
        }
        qmp.command("qmp_capabilities", Value::Null)?;
        Ok(qmp)
    }

    fn silent(&self, reason: impl std::fmt::Display) -> Error {
        Error::Silent {
            socket: self.name.clone(),
            reason: reason.to_string(),
        }
    }

    /// The next line.
    fn answer(&mut self) -> Result<Value, Error> {
        let read = self
            .socket
            .read_until(b'\n', &mut self.line)
            .map_err(|error| match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    self.silent("no answer; is another program connected to it?")
                }
                _ => self.silent(error),
            })?;
        if read == 0 {
            return Err(self.silent("it was closed"));
        }
        let line = std::mem::take(&mut self.line);
        serde_json::from_slice(&line).map_err(|_| self.silent("it sends something other than JSON"))
    }

    /// Runs a command and waits for its result.
    pub(crate) fn command(&mut self, name: &str, arguments: Value) -> Result<Value, Error> {
        let mut text = if arguments.is_null() {
            json!({"execute": name})
        } else {
            json!({"execute": name, "arguments": arguments})
        }
        .to_string();
        text.push('\n');
        self.socket
            .get_mut()
            .write_all(text.as_bytes())
            .map_err(|error| self.silent(error))?;
        loop {
            let mut answer = self.answer()?;
            if let Some(error) = answer.get("error") {
                let reason = error
                    .get("desc")
                    .and_then(Value::as_str)
                    .unwrap_or("without a reason")
                    .to_owned();
                return Err(Error::Refused {
                    command: name.to_owned(),
                    reason,
                });
            }
            if let Some(result) = answer.get_mut("return") {
                return Ok(result.take());
            }
            self.note(&answer);
        }
    }

    fn get(&mut self, path: &str, property: &str) -> Result<Value, Error> {
        self.command("qom-get", json!({"path": path, "property": property}))
    }

    /// Notes an event.
    fn note(&mut self, event: &Value) {
        if event.get("event").and_then(Value::as_str) == Some("SHUTDOWN") {
            self.ended.get_or_insert_with(Instant::now);
            self.fate = match event.pointer("/data/guest").and_then(Value::as_bool) {
                Some(true) => Fate::PoweredOff,
                _ => Fate::Gone,
            };
        }
    }

    /// The machine's state; does not wait.
    pub(crate) fn fate(&mut self) -> Fate {
        // Other CPUs may run for a while after the event of the guest's end; then QEMU ends, unless
        // its options prevent it.
        let closed = self.listen();
        let over = closed || self.ended.is_some_and(|ended| ended.elapsed() >= FAREWELL);
        match (over, self.fate) {
            (false, _) => Fate::Runs,
            (true, Fate::Runs) => Fate::Gone,
            (true, fate) => fate,
        }
    }

    /// Reads QEMU's messages so far; returns whether it has closed the connection.
    fn listen(&mut self) -> bool {
        if self.socket.get_mut().set_nonblocking(true).is_err() {
            return true;
        }
        let mut bytes = [0; 4096];
        let closed = loop {
            match self.socket.read(&mut bytes) {
                Ok(0) => break true,
                Ok(read) => {
                    for &byte in bytes.get(..read).unwrap_or_default() {
                        if byte != b'\n' {
                            self.line.push(byte);
                            continue;
                        }
                        let line = std::mem::take(&mut self.line);
                        if let Ok(event) = serde_json::from_slice(&line) {
                            self.note(&event);
                        }
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break true,
            }
        };
        // If this fails, the next command fails, too.
        let _ = self.socket.get_mut().set_nonblocking(false);
        closed
    }

    /// The file of the machine's main memory, if the host can map it.
    pub(crate) fn memory(&mut self) -> Result<Memory, Error> {
        let arch = self.command("query-target", Value::Null)?;
        let arch = arch
            .get("arch")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let machine = self.get("/machine", "type")?;
        let machine = machine
            .as_str()
            .unwrap_or_default()
            .trim_end_matches("-machine")
            .to_owned();
        let text = |value: Value| value.as_str().unwrap_or_default().to_owned();
        let backend = text(self.get("/machine", "memory-backend")?);
        if backend.is_empty() {
            return Err(Error::NotShared {
                what: "it has no memory backend".to_owned(),
            });
        }
        let backend = if backend.starts_with('/') {
            backend
        } else {
            format!("/objects/{backend}")
        };
        let kind = text(self.get(&backend, "type")?);
        if kind != "memory-backend-file" {
            return Err(Error::NotShared {
                what: format!("it is a {kind}"),
            });
        }
        if self.get(&backend, "share")? != Value::Bool(true) {
            return Err(Error::NotShared {
                what: "its file has share=off".to_owned(),
            });
        }
        let file = PathBuf::from(text(self.get(&backend, "mem-path")?));
        Ok(Memory {
            file: self.resolve(file),
            base: crate::qemu::ram_base(&arch, Some(&machine)),
        })
    }

    /// Resolves a path that is relative to QEMU's working directory.
    fn resolve(&self, path: PathBuf) -> PathBuf {
        if path.is_absolute() {
            return path;
        }
        match working_directory(self.socket.get_ref()) {
            Some(directory) => directory.join(path),
            None => path,
        }
    }

    /// Lets QEMU write the machine's memory to `file`, as an ELF core. The machine is stopped
    /// meanwhile and resumes by itself.
    pub(crate) fn copy_memory(&mut self, file: &Path) -> Result<(), Error> {
        let path = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let protocol = format!("file:{}", path.display());
        let _ = self.socket.get_mut().set_read_timeout(Some(LONG_PATIENCE));
        self.command(
            "dump-guest-memory",
            json!({"paging": false, "protocol": protocol}),
        )?;
        Ok(())
    }
}

/// Working directory of the process at the other end.
#[cfg(target_os = "linux")]
fn working_directory(socket: &UnixStream) -> Option<PathBuf> {
    let peer = rustix::net::sockopt::socket_peercred(socket).ok()?;
    std::fs::read_link(format!("/proc/{}/cwd", peer.pid.as_raw_nonzero())).ok()
}

#[cfg(not(target_os = "linux"))]
fn working_directory(_socket: &UnixStream) -> Option<PathBuf> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `client` against a server that greets, answers each line with one of `answers`, sends
    /// `last` unasked, and then closes the connection.
    fn talk<R>(answers: &[&str], last: &str, client: impl FnOnce(&mut Qmp) -> R) -> R {
        let (ours, theirs) = UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut lines = BufReader::new(theirs.try_clone().unwrap()).lines();
                let say = |text: &str| {
                    (&theirs)
                        .write_all(format!("{text}\r\n").as_bytes())
                        .unwrap()
                };
                say(r#"{"QMP": {"version": {}, "capabilities": ["oob"]}}"#);
                for answer in [r#"{"return": {}}"#].iter().chain(answers) {
                    lines.next().unwrap().unwrap();
                    say(r#"{"timestamp": {"seconds": 1}, "event": "RESUME"}"#);
                    say(answer);
                }
                // A client that is done may close the connection first.
                let _ = (&theirs).write_all(format!("{last}\r\n").as_bytes());
            });
            client(&mut Qmp::over(ours, "socket".to_owned()).unwrap())
        })
    }

    const RESUME: &str = r#"{"event": "RESUME"}"#;

    #[test]
    fn the_main_memory_is_found() {
        let answers = |backend: &'static str, kind: &'static str, share: &'static str| {
            [
                r#"{"return": {"arch": "riscv64"}}"#,
                r#"{"return": "virt-machine"}"#,
                backend,
                kind,
                share,
                r#"{"return": "/dev/shm/ram"}"#,
            ]
        };
        let (file, on, off) = (
            r#"{"return": "memory-backend-file"}"#,
            r#"{"return": true}"#,
            r#"{"return": false}"#,
        );
        for backend in [r#"{"return": "/objects/m"}"#, r#"{"return": "m"}"#] {
            let memory = talk(&answers(backend, file, on), RESUME, |qmp| {
                qmp.memory().unwrap()
            });
            assert_eq!(
                memory,
                Memory {
                    file: "/dev/shm/ram".into(),
                    base: Some(0x8000_0000)
                }
            );
        }
        let backend = r#"{"return": "/objects/m"}"#;
        let refused =
            |answers: &[&str]| talk(answers, RESUME, |qmp| qmp.memory().unwrap_err().to_string());
        assert!(
            refused(&answers(r#"{"return": ""}"#, file, on)[..3]).contains("no memory backend")
        );
        assert!(
            refused(&answers(backend, r#"{"return": "memory-backend-ram"}"#, on)[..4])
                .contains("a memory-backend-ram")
        );
        assert!(refused(&answers(backend, file, off)[..5]).contains("share=off"));
        let old = r#"{"error": {"class": "GenericError", "desc": "Property not found"}}"#;
        assert!(
            refused(&[
                r#"{"return": {"arch": "arm"}}"#,
                r#"{"return": "virt-machine"}"#,
                old
            ])
            .contains("Property not found")
        );
    }

    #[test]
    fn the_machines_end_is_noticed() {
        let fate = |last: &str| {
            talk(&[], last, |qmp| {
                loop {
                    match qmp.fate() {
                        Fate::Runs => std::thread::yield_now(),
                        fate => break fate,
                    }
                }
            })
        };
        assert_eq!(
            fate(r#"{"event": "SHUTDOWN", "data": {"guest": true, "reason": "guest-shutdown"}}"#),
            Fate::PoweredOff
        );
        assert_eq!(
            fate(r#"{"event": "SHUTDOWN", "data": {"guest": false, "reason": "host-signal"}}"#),
            Fate::Gone
        );
        assert_eq!(fate(RESUME), Fate::Gone);
        // The machine runs until the socket reports otherwise or is closed.
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut qmp = Qmp {
            socket: BufReader::new(ours),
            name: String::new(),
            line: Vec::new(),
            fate: Fate::Runs,
            ended: None,
        };
        (&theirs).write_all(RESUME.as_bytes()).unwrap();
        assert_eq!(qmp.fate(), Fate::Runs);
        drop(theirs);
        assert_eq!(qmp.fate(), Fate::Gone);
    }
}
