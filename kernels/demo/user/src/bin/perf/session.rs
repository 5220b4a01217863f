//! The kernel's session, by system calls.

use core::cell::UnsafeCell;

use demo_user::abi::{Error, READ};
use demo_user::sys;
use kymo::perf::{Channels, Target};
use kymo::{Diagnostics, State};

use crate::options::{Modes, Options};
use crate::{Failed, refused};

/// What is read of a channel at once: too large for the stack.
struct Buffer(UnsafeCell<[u8; READ]>);

// SAFETY: a program is one thread.
unsafe impl Sync for Buffer {}

static BUFFER: Buffer = Buffer(UnsafeCell::new([0; READ]));

/// The buffer. Called once.
pub fn buffer() -> &'static mut [u8] {
    // SAFETY: this is called once.
    unsafe { &mut *BUFFER.0.get() }
}

/// A session, of this program or of another.
pub struct Session<'a> {
    /// How this program starts it.
    options: Option<&'a Options>,
    modes: Modes,
    /// Microseconds that were slept: all that a recording's duration needs.
    slept: u64,
}

impl<'a> Session<'a> {
    pub fn of(options: &'a Options) -> Self {
        Session {
            options: Some(options),
            modes: options.modes,
            slept: 0,
        }
    }

    /// The session that there is.
    pub fn of_others() -> Result<Self, Failed> {
        let modes = match refused("ask", sys::perf_status())?.modes {
            // The kernel says why that cannot be stopped.
            0 => {
                refused("stop", Modes::TRACE.stop())?;
                Modes::TRACE
            }
            modes => Modes(modes),
        };
        Ok(Session {
            options: None,
            modes,
            slept: 0,
        })
    }
}

impl Target for Session<'_> {
    type Error = Error;

    fn start(&mut self) -> Result<Channels, Error> {
        self.options.ok_or(Error::Invalid)?.start()?;
        self.channels()
    }

    fn channels(&mut self) -> Result<Channels, Error> {
        let status = sys::perf_status()?;
        Ok(Channels {
            count: status.channels as u32,
            flags: status.flags as u32,
        })
    }

    fn read(&mut self, channel: u32, buffer: &mut [u8]) -> Result<usize, Error> {
        sys::perf_read(self.modes.reader(), channel, buffer)
    }

    fn stop(&mut self) -> Result<(), Error> {
        let status = sys::perf_status()?;
        match Modes(status.running) {
            Modes(0) if status.state == State::Stopped as u64 => Ok(()),
            Modes(0) => self.modes.stop(),
            running => running.stop(),
        }
    }

    fn finish(&mut self) -> Result<Diagnostics, Error> {
        let totals = self.modes.finish()?;
        Ok(Diagnostics {
            discarded: totals.discarded,
            too_large: totals.too_large,
            overwritten: totals.overwritten,
            clock_back: totals.clock_back,
            abandoned: totals.abandoned,
            // Among those discarded.
            without_ring: 0,
        })
    }

    fn time(&mut self) -> u64 {
        self.slept
    }

    fn sleep(&mut self, microseconds: u64) {
        sys::sleep(microseconds);
        self.slept += microseconds;
    }

    /// The kernel has no call for that.
    fn set_priority(&mut self, _: i32) -> Result<i32, Error> {
        Err(Error::Invalid)
    }
}
