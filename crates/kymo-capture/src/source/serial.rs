//! A serial line: a terminal device in raw mode.
//!
//! `rustix`, which the crate uses anyway, sets the mode and any speed that the driver has; a crate
//! for serial ports would bring the enumeration of devices, which nobody needs here.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::termios::{OptionalActions, isatty, tcgetattr, tcsetattr};

/// Opens the device at `baud` bits a second, with nonblocking reads.
///
/// # Errors
/// Those of the system; [`InvalidInput`](io::ErrorKind::InvalidInput) if it is no serial device, or
/// does not have this speed.
pub fn open(path: &Path, baud: u32) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let line = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(flags.bits() as i32)
        .open(path)?;
    let wrong = |what: String| io::Error::new(io::ErrorKind::InvalidInput, what);
    if !isatty(&line) {
        return Err(wrong("it is not a serial device".to_owned()));
    }
    let mut mode = tcgetattr(&line)?;
    mode.make_raw();
    mode.set_speed(baud)
        .and_then(|()| tcsetattr(&line, OptionalActions::Now, &mode))
        .map_err(|error| wrong(format!("it has no speed of {baud} baud ({error})")))?;
    Ok(line)
}
