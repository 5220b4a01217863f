//! The host's end of a machine's virtio serial port, over which `kernels/demo` sends a trace.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use kymo::Diagnostics;
use kymo::wire::{self, Arrived, Kind, Open};

use crate::demo::Arch;
use crate::{limited, scratch};

/// The data received over a machine's port.
pub struct Received {
    /// The machine's.
    pub arch: &'static Arch,
    /// Its exit code.
    pub code: i32,
    /// What it printed.
    pub console: String,
    /// The first frame.
    pub open: Option<Open>,
    /// The last frame.
    pub close: Option<Diagnostics>,
    /// Bytes by channel.
    pub channels: BTreeMap<u32, Vec<u8>>,
    /// The test's files.
    pub folder: PathBuf,
}

/// A machine's memory is 128 MB, of which a test that passes has no need any more.
impl Drop for Received {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = fs::remove_file(self.ram());
        }
    }
}

impl Received {
    /// The machine's memory.
    pub fn ram(&self) -> PathBuf {
        self.folder.join("ram")
    }

    /// Writes the channels as a trace.
    pub fn trace(&self) -> PathBuf {
        let folder = self.folder.join("trace");
        fs::create_dir(&folder).unwrap();
        let open = self
            .open
            .as_ref()
            .unwrap_or_else(|| panic!("nothing was sent:\n{}", self.console));
        for (&channel, bytes) in &self.channels {
            assert!(channel < open.channels);
            let name = open.channel_set().get(channel).unwrap().to_string();
            File::create(folder.join(name))
                .unwrap()
                .write_all(bytes)
                .unwrap();
        }
        folder
    }

    /// Checks the kernel's exit code.
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, self.arch.exit_code(code), "{}", self.console);
        self
    }

    /// Whether it printed this line.
    pub fn printed(&self, line: &str) -> bool {
        self.console
            .lines()
            .any(|printed| printed.trim_end() == line)
    }
}

/// The host's behaviour other than receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// Receives all.
    Takes,
    /// Asks the guest to stop after this many bytes.
    Stops(usize),
    /// Receives nothing until the buffers are full.
    IsSlow,
    /// Receives a second trace after the first.
    TakesTwo,
}

/// Runs the machine to its end.
pub fn boot(arch: &'static Arch, name: &str, harts: usize, append: &str, host: Host) -> Received {
    let folder = scratch(&format!("{name}-{}", arch.name));
    // A socket's path must be short.
    let socket = std::env::temp_dir().join(format!("kymo-{}-{name}", std::process::id()));
    let listener = UnixListener::bind(&socket).unwrap();
    let mut command = machine(arch, &folder, harts, append);
    command.args(arch.serial_bus);
    command.args([
        "-device",
        "virtserialport,chardev=trace,nr=1,name=trace",
        "-chardev",
    ]);
    command.arg(format!("socket,id=trace,path={}", socket.display()));
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    // QEMU connects before it boots.
    let (line, _) = listener.accept().unwrap();
    fs::remove_file(socket).unwrap();
    let mut received = Received {
        arch,
        code: 0,
        console: String::new(),
        open: None,
        close: None,
        channels: BTreeMap::new(),
        folder,
    };
    receive(line, &mut received, host);
    let output = child.wait_with_output().unwrap();
    received.code = output.status.code().unwrap();
    received.console = String::from_utf8(output.stdout).unwrap();
    received
}

/// The command for the machine, without a port.
pub fn machine(arch: &Arch, folder: &Path, harts: usize, append: &str) -> Command {
    let mut words = arch.qemu(Some(&folder.join("ram"))).into_iter();
    // A machine that does not end fails the test.
    let mut command = limited(words.next().unwrap_or_default());
    command.args(words);
    command.args(["-smp", &harts.to_string()]);
    command
        .arg("-kernel")
        .arg(arch.kernel())
        .args(["-append", append])
        .stdin(Stdio::null());
    command
}

/// Receives frames until the other side closes the line.
fn receive(mut line: UnixStream, received: &mut Received, mut host: Host) {
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    let (mut number, mut total) = (0, 0);
    loop {
        let waiting = || rustix::io::ioctl_fionread(&line).unwrap();
        let mut before = None;
        while host == Host::IsSlow && before.replace(waiting()) != Some(waiting()) {
            std::thread::sleep(Duration::from_millis(50));
        }
        let len = match line.read(&mut buffer) {
            Ok(len) => len,
            // QEMU ended without reading what was sent to it.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => 0,
            Err(error) => panic!("{error}"),
        };
        if len == 0 {
            break;
        }
        bytes.extend_from_slice(&buffer[..len]);
        total += len;
        while let Arrived::Frame(frame) = wire::parse(&bytes) {
            if host == Host::TakesTwo && frame.kind == Kind::Open && received.open.take().is_some()
            {
                (host, number) = (Host::Takes, 0);
            }
            assert_eq!(frame.number, number, "a frame is missing");
            number += 1;
            assert!(received.close.is_none(), "a frame behind the last one");
            match frame.kind {
                Kind::Open => assert!(
                    received
                        .open
                        .replace(Open::from_bytes(frame.payload).unwrap())
                        .is_none()
                ),
                Kind::Data => received
                    .channels
                    .entry(frame.channel)
                    .or_default()
                    .extend_from_slice(frame.payload),
                Kind::Close => received.close = Some(wire::diagnostics(frame.payload).unwrap()),
                Kind::Stop => panic!("the guest asks the host to stop"),
            }
            assert!(received.open.is_some(), "the first frame opens");
            let size = frame.size();
            bytes.drain(..size);
        }
        if matches!(host, Host::Stops(after) if total >= after) {
            host = Host::Takes;
            // The guest ignores other data on the line.
            line.write_all(b"KYM").unwrap();
            line.write_all(&wire::header(Kind::Stop, 0, 0, &[]))
                .unwrap();
        }
    }
    assert!(bytes.is_empty(), "{} bytes that are no frame", bytes.len());
}
