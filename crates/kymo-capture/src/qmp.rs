//! As much of the QEMU Machine Protocol as finding a machine's memory takes (QEMU's
//! docs/interop/qmp-spec.txt).

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::locate;

/// How long QEMU may take for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long it may take from the guest's end to its own.
const FAREWELL: Duration = Duration::from_millis(500);
/// And for a copy of the memory.
const LONG_PATIENCE: Duration = Duration::from_secs(600);

/// Why a machine could not be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nobody listens.
    #[error(
        "cannot connect to {socket}: {source}; it must be the socket of a running QEMU's option \
         -qmp unix:PATH,server=on,wait=off"
    )]
    Connect {
        /// The socket.
        socket: String,
        /// What the system says.
        source: io::Error,
    },
    /// It says nothing, or nothing that QEMU would say.
    #[error("{socket} does not answer as QEMU's -qmp does: {reason}")]
    Silent {
        /// The socket.
        socket: String,
        /// What there is instead.
        reason: String,
    },
    /// QEMU refuses something.
    #[error("QEMU refuses {command}: {reason}")]
    Refused {
        /// The command.
        command: String,
        /// What QEMU says.
        reason: String,
    },
    /// The host cannot see into the memory.
    #[error(
        "the machine's memory is not a shared file ({what}), so that it cannot be read while it runs: start QEMU with -M ..,memory-backend=m and \
         -object memory-backend-file,id=m,size=..,mem-path=..,share=on, or have it stopped once for a copy by --snapshot"
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
    /// What is to blame: [`InvalidInput`](io::ErrorKind::InvalidInput), what was asked for;
    /// [`InvalidData`](io::ErrorKind::InvalidData), what was read; anything else, the system.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Error::NotShared { .. } | Error::Silent { .. } => io::ErrorKind::InvalidData,
            Error::Connect { .. } | Error::Refused { .. } => io::ErrorKind::Other,
            Error::Image(error) => error.kind(),
        }
    }

    /// What can be done about it, as the rest of a sentence that begins with a verb; `None` where
    /// the message says it.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Error::Silent { .. } => {
                Some("see that nobody else is connected to it, and that it is QEMU's")
            }
            Error::Refused { .. } => {
                Some("see that QEMU may write to the trace directory, and is no older than 5.0")
            }
            Error::Image(error) => error.advice(),
            Error::Connect { .. } | Error::NotShared { .. } => None,
        }
    }
}

/// A machine's main memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) file: PathBuf,
    /// Physical address of its first byte, where that is known.
    pub(crate) base: Option<u64>,
}

/// What became of a machine, as far as its socket tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Runs,
    /// The guest powered itself off, or was reset with `-no-reboot`.
    PoweredOff,
    /// QEMU has gone.
    Gone,
}

/// A connection to QEMU's monitor.
#[derive(Debug)]
pub(crate) struct Qmp {
    socket: BufReader<UnixStream>,
    name: String,
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
    /// What the last event about the machine's end said, and when it came.
    fate: Fate,
    ended: Option<Instant>,
}

impl Qmp {
    /// Connects and agrees on the protocol.
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

    /// Agrees on the protocol with whoever is at the other end.
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
            return Err(qmp.silent("its greeting is another"));
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
                    self.silent("nothing comes; is another program connected to it?")
                }
                _ => self.silent(error),
            })?;
        if read == 0 {
            return Err(self.silent("it was closed"));
        }
        let line = std::mem::take(&mut self.line);
        serde_json::from_slice(&line).map_err(|_| self.silent("it sends something else than JSON"))
    }

    /// Has QEMU do something, and waits until it is done.
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

    /// Takes note of an event.
    fn note(&mut self, event: &Value) {
        if event.get("event").and_then(Value::as_str) == Some("SHUTDOWN") {
            self.ended.get_or_insert_with(Instant::now);
            self.fate = match event.pointer("/data/guest").and_then(Value::as_bool) {
                Some(true) => Fate::PoweredOff,
                _ => Fate::Gone,
            };
        }
    }

    /// What has become of the machine; does not wait.
    pub(crate) fn fate(&mut self) -> Fate {
        // Other CPUs may run for a little while after the event of the guest's end; then QEMU ends,
        // unless its options keep it.
        let closed = self.listen();
        let over = closed || self.ended.is_some_and(|ended| ended.elapsed() >= FAREWELL);
        match (over, self.fate) {
            (false, _) => Fate::Runs,
            (true, Fate::Runs) => Fate::Gone,
            (true, fate) => fate,
        }
    }

    /// Takes what QEMU has said meanwhile; whether it has gone.
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
        // If that fails, so does the next command.
        let _ = self.socket.get_mut().set_nonblocking(false);
        closed
    }

    /// Where the machine's main memory is, if the host can see into it.
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

    /// A path of QEMU's, from here.
    fn resolve(&self, path: PathBuf) -> PathBuf {
        if path.is_absolute() {
            return path;
        }
        match working_directory(self.socket.get_ref()) {
            Some(directory) => directory.join(path),
            None => path,
        }
    }

    /// Has QEMU write the machine's memory to `file`, as an ELF core. The machine stands still for
    /// as long as that takes, and goes on by itself.
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

/// The working directory of the process at the other end.
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

    /// Talks to somebody who greets, answers each line with one of these, says the last by itself,
    /// and then hangs up.
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
                // Who has asked all that it wants hangs up first.
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
        // It runs until it has said otherwise, or hung up.
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
