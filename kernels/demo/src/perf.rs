//! Recording, as system calls.
//!
//! Bad pointers are found first; all other errors have the order of `kymo::Recorder`. One caller is
//! served at a time, and the others sleep. Interrupts are on meanwhile, because a call may move
//! much data.

use core::cell::UnsafeCell;

use kymo::boot::Options;
use kymo::event::Enumeration;
use kymo::vocabulary::SamplingDriver;
use kymo::{Mode, Refused, State};

use crate::abi::{Diagnostics, Error, READ, Session, Status};
use crate::console::Lines;
use crate::recording::{self, RECORDER};
use crate::semaphore::Semaphore;
use crate::{arch, sampling, space};

/// Most words of a read.
const WORDS: usize = READ / 4;
/// Most bytes of a name of events.
const NAME: usize = 256;
/// Most bytes of a list of events, or of the groups that are counted.
const NAMES: usize = 1024;

/// Buffer for reads: not all bytes that a read touches may reach the program.
struct Buffer(UnsafeCell<[u32; WORDS]>);

// SAFETY: only the holder of the `Turn` uses it.
unsafe impl Sync for Buffer {}

static BUFFER: Buffer = Buffer(UnsafeCell::new([0; WORDS]));
static SERVED: Semaphore = Semaphore::new("perf", 1);

/// The right to be served and to use the buffer.
struct Turn;

impl Turn {
    fn take() -> Turn {
        SERVED.down();
        Turn
    }

    fn buffer(&mut self) -> &mut [u32; WORDS] {
        // SAFETY: there is one `Turn` at a time.
        unsafe { &mut *BUFFER.0.get() }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        SERVED.up();
    }
}

/// Runs `act`, which may take a while, with interrupts on.
fn interruptibly<T>(work: impl FnOnce() -> T) -> T {
    arch::restore(true);
    let done = work();
    arch::mask();
    done
}

/// The error number for a program.
fn error(refused: Refused) -> Error {
    Error::of(refused.errno().into()).unwrap_or(Error::Invalid)
}

/// An argument of 32 bits; a larger one becomes an invalid value.
fn word(argument: usize) -> u32 {
    u32::try_from(argument).unwrap_or(u32::MAX)
}

/// A program's text, if it is valid and not too long.
fn text<const N: usize>(
    address: usize,
    buffer: &mut [u8; N],
    len: usize,
) -> Result<Option<&str>, Error> {
    let Some(bytes) = buffer.get_mut(..len) else {
        return Ok(None);
    };
    space::copy_from_user(address, bytes)?;
    Ok(core::str::from_utf8(bytes).ok())
}

#[inline(never)] // Its frame is large, and would be the trap handler's.
pub fn start(
    mode: usize,
    flags: usize,
    session: usize,
    (names, len): (usize, usize),
) -> Result<i64, Error> {
    space::check(session, size_of::<Session>(), false)?;
    space::check(names, len, false)?;
    let asked = Session::from_words(space::read_words(session)?);
    let mut buffer = [0; NAMES];
    let names = text(names, &mut buffer, len)?;
    let driver = driver(asked.driver, asked.count);
    let given = names.filter(|names| !names.is_empty());
    let counts = mode == Mode::Count as usize;
    let counters = given.filter(|_| counts);
    let options = Options {
        events: given.filter(|_| !counts),
        counters,
        count_ns: Some(asked.period_ns).filter(|&period| counts && period > 0),
        modes: Some(Mode::ALL.map(|of| of as usize == mode)),
        period_ns: Some(asked.period_ns).filter(|&period| period > 0),
        count: Some(asked.count).filter(|&count| count > 0),
        depth: asked.depth.checked_sub(1).map(|depth| word(depth as usize)),
        driver: driver.flatten(),
        ..Options::default()
    };
    let config = options.apply(&recording::config(&recording::settings(), &asked));
    // Unknown names and drivers are refused together with the flags.
    let are_events = names.is_some() && options.stray(&kymo::vocabulary::ALL).is_none();
    let are_counted = options.groups().is_ok();
    let by_counter = driver
        .flatten()
        .is_some_and(|driver| driver.counts().is_some());
    let is_in_its_unit = match by_counter {
        true => asked.period_ns == 0,
        false => asked.count == 0,
    };
    let flags = match are_events && are_counted && driver.is_some() && is_in_its_unit {
        true => word(flags),
        false => u32::MAX,
    };
    let _turn = Turn::take();
    let channels =
        interruptibly(|| recording::start(word(mode), flags, &config, &options)).map_err(error)?;
    Ok(channels.into())
}

/// The driver that a program asks for, which may be none in particular; `None` if this machine does
/// not have it, or no counter for so many events.
fn driver(asked: u64, count: u64) -> Option<Option<SamplingDriver>> {
    let Some(number) = asked.checked_sub(1) else {
        return Some(None);
    };
    let driver = SamplingDriver::from_value(number)?;
    sampling::has(driver, count.max(1)).then_some(Some(driver))
}

pub fn read(mode: usize, channel: usize, address: usize, len: usize) -> Result<i64, Error> {
    space::check(address, len.max(1), true)?;
    let mut turn = Turn::take();
    let words = (len / 4).min(WORDS);
    // First, because data read from a channel cannot be put back.
    space::touch(address, 4 * words)?;
    let buffer = &mut turn.buffer()[..words];
    let len =
        interruptibly(|| RECORDER.read(word(mode), word(channel), Some(buffer))).map_err(error)?;
    // SAFETY: words are bytes, and `len` of them are in the buffer.
    let bytes = unsafe { core::slice::from_raw_parts(buffer.as_ptr().cast(), len) };
    space::copy_to_user(address, bytes)?;
    Ok(len as i64)
}

pub fn stop(mode: usize) -> Result<i64, Error> {
    let _turn = Turn::take();
    let channels = interruptibly(|| recording::stop(word(mode))).map_err(error)?;
    Ok(channels.into())
}

pub fn finish(mode: usize, address: usize) -> Result<i64, Error> {
    space::check(address, size_of::<Diagnostics>(), true)?;
    let _turn = Turn::take();
    let kymo::Diagnostics {
        discarded,
        too_large,
        overwritten,
        clock_back,
        abandoned,
        without_ring: _, // They are among those discarded.
    } = interruptibly(|| RECORDER.finish(word(mode))).map_err(error)?;
    let totals = Diagnostics {
        discarded,
        too_large,
        overwritten,
        clock_back,
        abandoned,
    };
    space::write_words(address, totals.to_words())?;
    Ok(0)
}

pub fn switch(mode: usize, (name, len): (usize, usize), on: bool) -> Result<i64, Error> {
    space::check(name, len.max(1), false)?;
    let mut buffer = [0; NAME];
    // No event is called "".
    let name = text(name, &mut buffer, len)?.unwrap_or("");
    let _turn = Turn::take();
    let switched = match mode == Mode::Count as usize {
        true => RECORDER.counts(word(mode), name, on),
        false => RECORDER.switch(word(mode), name, on),
    };
    switched.map(i64::from).map_err(error)
}

pub fn status(address: usize) -> Result<i64, Error> {
    space::check(address, size_of::<Status>(), true)?;
    permitted()?;
    let _turn = Turn::take();
    let (states, counts) = interruptibly(|| {
        (
            Mode::ALL.map(|mode| RECORDER.state(mode)),
            RECORDER.history().counts(),
        )
    });
    let is_busy = |state: &State| *state != State::Idle;
    let state = states.into_iter().find(is_busy).unwrap_or(State::Idle);
    let modes = |wanted: &dyn Fn(&State) -> bool| {
        let modes = Mode::ALL.into_iter().zip(&states);
        let wanted = modes.filter(|(_, state)| wanted(state));
        wanted.fold(0, |bits, (mode, _)| bits | 1 << mode as u64)
    };
    let is_idle = state == State::Idle;
    let status = Status {
        state: state as u64,
        modes: modes(&is_busy),
        running: modes(&|state| *state == State::Running),
        channels: if is_idle {
            0
        } else {
            RECORDER.channels().len().into()
        },
        flags: if is_idle {
            0
        } else {
            recording::flags().into()
        },
        retained: counts.retained,
        overwritten: counts.overwritten,
        discarded: counts.discarded,
    };
    space::write_words(address, status.to_words())?;
    Ok(0)
}

pub fn dump(newest: usize) -> Result<i64, Error> {
    permitted()?;
    // Writing to the console cannot fail.
    let _ = interruptibly(|| RECORDER.history().dump(&mut Lines::new(), newest));
    Ok(0)
}

pub fn clear() -> Result<i64, Error> {
    permitted()?;
    interruptibly(|| RECORDER.history().clear());
    Ok(0)
}

/// Checks permission for calls that the recorder does not check.
fn permitted() -> Result<(), Error> {
    if recording::is_permitted() {
        Ok(())
    } else {
        Err(Error::NotPermitted)
    }
}
