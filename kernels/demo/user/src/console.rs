//! Output to the console, line by line.

use core::fmt::{Arguments, Error, Write};

use crate::sys;

/// Most bytes of a line.
const LINE: usize = 200;

struct Line {
    bytes: [u8; LINE],
    len: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let place = self
            .bytes
            .get_mut(self.len..self.len + text.len())
            .ok_or(Error)?;
        place.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}

/// Prints a line, or as much of it as fits.
pub fn print(text: Arguments<'_>) {
    let mut line = Line {
        bytes: [0; LINE],
        len: 0,
    };
    let _ = line.write_fmt(text);
    // There is nobody to report a failed write to.
    let _ = sys::write(&line.bytes[..line.len]);
}

/// Prints a line.
#[macro_export]
macro_rules! println {
    ($($argument:tt)*) => { $crate::console::print(format_args!($($argument)*)) };
}
