//! The command `perf` of a kernel's shell: `kymo_perf_options`, `kymo_perf_record` and
//! `kymo_perf_gather`, which are [`kymo::perf`] over the functions of this library.

use core::ffi::{CStr, c_char, c_int, c_void};

use kymo::perf::{self, Channels, Failed, Options, Output, Target};
use kymo::platform::Platform;
use kymo::{Diagnostics, Mode, State, flags};

use crate::config::CConfig;
use crate::error::Refusal;
use crate::port::{Port, kymo_port_frequency};
use crate::session::{self, SESSIONS, kymo_channel_name, kymo_read, kymo_start, kymo_stop};

/// `struct kymo_perf`: what the commands ask of the kernel.
#[derive(Debug)]
#[repr(C)]
pub struct Shell {
    context: *mut c_void,
    prepare: Option<extern "C" fn(*mut c_void, *const c_char) -> i32>,
    write: Option<extern "C" fn(*mut c_void, *const c_char, *const c_void, usize) -> i32>,
    sleep: Option<extern "C" fn(*mut c_void, u32)>,
    is_done: Option<extern "C" fn(*mut c_void) -> bool>,
    set_priority: Option<extern "C" fn(*mut c_void, i32, *mut i32) -> i32>,
    buffer: *mut u8,
    buffer_size: usize,
}

/// `struct kymo_perf_options`.
#[derive(Debug)]
#[repr(C)]
pub struct COptions {
    duration_ms: u32,
    interval_ms: u32,
    buffer_size: u32,
    priority: i32,
    has_priority: bool,
    output: *const c_char,
}

/// What the command records.
const TRACE: u32 = Mode::Trace as u32;

/// A negative number, or what is not negative.
fn checked(code: i32) -> Result<u32, i32> {
    u32::try_from(code).map_err(|_| code)
}

/// The session, by the functions that C calls.
struct Session<'a> {
    shell: &'a Shell,
    config: *const CConfig,
}

impl Target for Session<'_> {
    type Error = i32;

    fn start(&mut self) -> Result<Channels, i32> {
        // SAFETY: `kymo_perf_record` demands what `kymo_start` does.
        checked(unsafe { kymo_start(TRACE, self.config) })?;
        self.channels()
    }

    fn channels(&mut self) -> Result<Channels, i32> {
        let is_rolling = session::is_rolling().map_err(Refusal::code)?;
        let flags = if is_rolling { flags::ROLLING } else { 0 };
        let count = SESSIONS.channels().len();
        Ok(Channels { count, flags })
    }

    fn read(&mut self, channel: u32, buffer: &mut [u8]) -> Result<usize, i32> {
        // SAFETY: the buffer is as long as that.
        let read = unsafe { kymo_read(TRACE, channel, buffer.as_mut_ptr().cast(), buffer.len()) };
        checked(read).map(|bytes| bytes as usize)
    }

    fn stop(&mut self) -> Result<(), i32> {
        match SESSIONS.state(Mode::Trace) {
            State::Running => checked(kymo_stop(TRACE)).map(drop),
            _ => Ok(()),
        }
    }

    fn finish(&mut self) -> Result<Diagnostics, i32> {
        SESSIONS
            .finish(TRACE)
            .map_err(|refused| Refusal::from(refused).code())
    }

    fn time(&mut self) -> u64 {
        const MICROSECONDS: u64 = 1_000_000;
        let (ticks, frequency) = (Port::clock(), kymo_port_frequency());
        let div = |number: u64| number.checked_div(frequency).unwrap_or(0);
        let seconds = div(ticks);
        let rest = ticks.wrapping_sub(seconds.wrapping_mul(frequency));
        seconds
            .wrapping_mul(MICROSECONDS)
            .wrapping_add(div(rest.wrapping_mul(MICROSECONDS)))
    }

    fn sleep(&mut self, microseconds: u64) {
        if let Some(sleep) = self.shell.sleep {
            sleep(
                self.shell.context,
                u32::try_from(microseconds).unwrap_or(u32::MAX),
            );
        }
    }

    fn set_priority(&mut self, priority: i32) -> Result<i32, i32> {
        let set = self.shell.set_priority.ok_or(Refusal::Invalid.code())?;
        let mut before = 0;
        checked(set(self.shell.context, priority, &raw mut before))?;
        Ok(before)
    }
}

/// The folder of the kernel's.
struct Folder<'a> {
    shell: &'a Shell,
    output: *const c_char,
}

impl Output for Folder<'_> {
    type Error = i32;

    fn prepare(&mut self) -> Result<(), i32> {
        match self.shell.prepare {
            Some(prepare) => checked(prepare(self.shell.context, self.output)).map(drop),
            None => Ok(()),
        }
    }

    fn open(&mut self, _: Channels) -> Result<(), i32> {
        Ok(())
    }

    fn write(&mut self, channel: u32, bytes: &[u8]) -> Result<(), i32> {
        let mut name = [0_u8; 24];
        // SAFETY: the array is as long as that.
        checked(unsafe { kymo_channel_name(channel, name.as_mut_ptr(), name.len()) })?;
        let write = self.shell.write.ok_or(Refusal::Fault.code())?;
        checked(write(
            self.shell.context,
            name.as_ptr().cast(),
            bytes.as_ptr().cast(),
            bytes.len(),
        ))
        .map(drop)
    }

    fn close(&mut self, _: &Diagnostics) -> Result<(), i32> {
        Ok(())
    }
}

/// 0, or the number of whoever refused.
fn code<T>(done: Result<T, Failed<i32, i32>>) -> i32 {
    match done {
        Ok(_) => 0,
        Err(Failed::Target(_, code) | Failed::Output(code)) => code,
    }
}

/// The kernel's functions and buffer, if they can be used.
///
/// # Safety
/// `shell` is null, or leads to one whose buffer is the caller's.
unsafe fn parts<'a>(shell: *const Shell) -> Result<(&'a Shell, &'a mut [u8]), Refusal> {
    // SAFETY: the caller's promise.
    let shell = unsafe { shell.as_ref() }.ok_or(Refusal::Fault)?;
    if shell.buffer.is_null() || shell.write.is_none() || shell.sleep.is_none() {
        return Err(Refusal::Fault);
    }
    let size = shell.buffer_size.min(isize::MAX as usize);
    // SAFETY: the caller's promise.
    let buffer = unsafe { core::slice::from_raw_parts_mut(shell.buffer, size) };
    Ok((shell, buffer))
}

/// Records, and writes what was recorded.
///
/// # Safety
/// As for `kymo_start` and `parts`; `options` is null, or leads to some.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kymo_perf_record(
    shell: *const Shell,
    config: *const CConfig,
    options: *const COptions,
) -> i32 {
    // SAFETY: the caller's promise.
    let (parts, options) = unsafe { (parts(shell), options.as_ref()) };
    let ((shell, buffer), options) = match (parts, options) {
        (Ok(parts), Some(options)) => (parts, options),
        (Err(refusal), _) => return refusal.code(),
        (_, None) => return Refusal::Fault.code(),
    };
    if (options.duration_ms == 0 && shell.is_done.is_none()) || options.interval_ms == 0 {
        return Refusal::Invalid.code();
    }
    let how = Options {
        duration_ms: Some(options.duration_ms.into()).filter(|duration| *duration > 0),
        interval_ms: options.interval_ms.into(),
        buffer: buffer.len(),
        priority: options.has_priority.then_some(options.priority),
        output: "",
    };
    let mut session = Session { shell, config };
    let mut folder = Folder {
        shell,
        output: options.output,
    };
    let is_done = |_: &mut Session<'_>, _: &mut Folder<'_>| {
        shell.is_done.is_some_and(|is_done| is_done(shell.context))
    };
    code(perf::record(
        &mut session,
        &mut folder,
        buffer,
        &how,
        is_done,
    ))
}

/// Stops the session that there is, and writes what it holds.
///
/// # Safety
/// As for `parts`; `output` is a text with a NUL, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kymo_perf_gather(shell: *const Shell, output: *const c_char) -> i32 {
    // SAFETY: the caller's promise.
    match unsafe { parts(shell) } {
        Ok((shell, buffer)) => {
            let config = core::ptr::null();
            let mut session = Session { shell, config };
            let mut folder = Folder { shell, output };
            code(perf::gather(&mut session, &mut folder, buffer))
        }
        Err(refusal) => refusal.code(),
    }
}

/// Reads options from the words of a command line, from `words[0]` on. Returns how many words are
/// options and their values.
///
/// # Safety
/// There are `count` texts with NULs at `words`, which live as long as the options; `options` is
/// null, or the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kymo_perf_options(
    options: *mut COptions,
    count: c_int,
    words: *const *const c_char,
) -> i32 {
    let count = usize::try_from(count).unwrap_or(0);
    if options.is_null() || (words.is_null() && count > 0) {
        return Refusal::Fault.code();
    }
    let mut taken = 0_i32;
    // The word before, and where the output's folder is named.
    let (mut after_o, mut output) = (false, core::ptr::null());
    let mut each = (0..count).map_while(|index| {
        // SAFETY: the caller's promise.
        let word = unsafe { *words.add(index) };
        if word.is_null() {
            return None;
        }
        taken += 1;
        // SAFETY: as above.
        let text = unsafe { CStr::from_ptr(word) }.to_str().unwrap_or("?");
        if after_o {
            output = word;
        }
        after_o = !after_o && text == "-o";
        Some(text)
    });
    let parsed = Options::parse(&mut each);
    drop(each);
    let Ok((parsed, rest)) = parsed else {
        return Refusal::Invalid.code();
    };
    let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let made = COptions {
        duration_ms: small(parsed.duration_ms.unwrap_or(0)),
        interval_ms: small(parsed.interval_ms),
        buffer_size: small(parsed.buffer as u64),
        priority: parsed.priority.unwrap_or(0),
        has_priority: parsed.priority.is_some(),
        output,
    };
    // SAFETY: the caller's promise.
    unsafe { options.write(made) };
    taken - i32::from(rest.is_some())
}
