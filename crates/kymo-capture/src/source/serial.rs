//! A serial line: a terminal device in raw mode.
//!
//! `rustix`, which the crate uses anyway, sets the mode and any speed that the driver has; a crate
//! for serial ports would bring the enumeration of devices, which nobody needs here.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcsetattr};

/// A serial line with nonblocking reads, whose settings are put back at the end.
#[derive(Debug)]
pub struct SerialLine {
    device: File,
    before: Termios,
}

/// Opens the device at `baud` bits a second.
///
/// # Errors
/// Those of the system; [`InvalidInput`](io::ErrorKind::InvalidInput) if it is no serial device, or
/// does not have this speed.
pub fn open(path: &Path, baud: u32) -> io::Result<SerialLine> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(flags.bits() as i32)
        .open(path)?;
    let wrong = |what: String| io::Error::new(io::ErrorKind::InvalidInput, what);
    if !isatty(&device) {
        return Err(wrong("it is not a serial device".to_owned()));
    }
    let before = tcgetattr(&device)?;
    let mut mode = before.clone();
    // Made first, so that a failure half way is undone, too.
    let line = SerialLine { device, before };
    mode.make_raw();
    mode.set_speed(baud)
        .and_then(|()| tcsetattr(&line.device, OptionalActions::Now, &mode))
        .map_err(|error| wrong(format!("it has no speed of {baud} baud ({error})")))?;
    Ok(line)
}

impl Drop for SerialLine {
    fn drop(&mut self) {
        // Nothing can be done if the device has gone.
        let _ = tcsetattr(&self.device, OptionalActions::Now, &self.before);
    }
}

impl Read for SerialLine {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.device.read(into)
    }
}

impl Write for SerialLine {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.device.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.device.flush()
    }
}
