//! `kymo_start_as`: starts what the word `kymo=` of a command line asks for, as
//! [`Recorder::start_as`](kymo::Recorder::start_as) does; the word is [`Options`].
//!
//! The word changes the configuration, and the modes are started as `kymo_start` starts them.

use core::ffi::{CStr, c_char};
use core::ptr;

use kymo::boot::Options;
use kymo::event::name_fits;
use kymo::vocabulary::SamplingDriver;
use kymo::{ChannelKind, Consumer, Mode};

use crate::config::{CConfig, HOST_READS, NO_CALLERS};
use crate::error::Refusal;
use crate::own;
use crate::session::{SESSIONS, answer, start};

/// Packets of each CPU's samples where the word asks for samples, and the kernel has not said how
/// many packets it wants of anything.
const SAMPLES_PACKETS: u32 = 8;

/// Starts what the word `kymo=` of `line` asks for. Returns the number of channels; 0 where the
/// word says `off`. `wrong`, unless it is null, is set to the part of the line that cannot be used,
/// or to null.
///
/// # Safety
/// `line` is null, or a text that ends with a NUL. `config` is as for `kymo_start`. `wrong` is
/// null, or leads to a pointer that is the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kymo_start_as(
    line: *const c_char,
    config: *const CConfig,
    wrong: *mut *const c_char,
) -> i32 {
    if line.is_null() || config.is_null() || !config.is_aligned() || !wrong.is_aligned() {
        return Refusal::Fault.code();
    }
    let mut part = ptr::null();
    // SAFETY: the caller's promise.
    let started = unsafe { start_as(line, config, &mut part) };
    if !wrong.is_null() {
        // SAFETY: the caller's promise.
        unsafe { wrong.write(part) };
    }
    answer(started)
}

/// # Safety
/// As for [`kymo_start_as`]; no pointer is null.
unsafe fn start_as(
    line: *const c_char,
    config: *const CConfig,
    wrong: &mut *const c_char,
) -> Result<usize, Refusal> {
    // SAFETY: the caller's promise.
    let line = unsafe { CStr::from_ptr(line) };
    let line = line.to_str().map_err(|_| Refusal::Invalid)?;
    let mut named = |part: &str| {
        *wrong = part.as_ptr().cast();
        Refusal::Invalid
    };
    let options = Options::parse(line).map_err(&mut named)?;
    if options.start == Some(false) {
        return Ok(0);
    }
    // SAFETY: the caller's promise.
    let mut config = unsafe { config.read() };
    // SAFETY: as above.
    let events = unsafe { config.events() }?;
    own::check(events.own)?;
    let has = |pattern: &str, kinds: &[ChannelKind]| {
        let mut named = events.names();
        named.any(|(name, channel)| kinds.contains(&channel) && name_fits(pattern, name))
    };
    if let Some(name) = options.stray_among(has) {
        return Err(named(name));
    }
    let driver = options.driver.unwrap_or(SamplingDriver::Timer);
    let counts = options.starts(Mode::Count);
    let has_contexts = options.stacks.is_some() || options.counters_on.is_some();
    let contexts = events.contexts();
    let cannot_do = counts && events.groups.is_none() || has_contexts && contexts.is_none();
    if driver != SamplingDriver::Timer || cannot_do || options.send {
        return Err(Refusal::Off);
    }
    apply(&options, &mut config);
    let mut channels = 0;
    for mode in Mode::ALL.into_iter().filter(|mode| options.starts(*mode)) {
        // SAFETY: the caller's promise.
        let started = unsafe {
            start(mode as u32, &config, options.counters, &|name| {
                options.records(name)
            })
        };
        channels = started.inspect_err(|_| give_up(&options, mode as usize))?;
    }
    if has_contexts && let Some(library) = contexts {
        (library.switch_on)(&options).map_err(|refused| {
            give_up(&options, Mode::ALL.len());
            Refusal::from(refused)
        })?;
    }
    Ok(channels)
}

/// Finishes the first modes, of those that the word has started.
fn give_up(options: &Options<'_>, first: usize) {
    let begun = Mode::ALL.into_iter().take(first);
    for mode in begun.filter(|mode| options.starts(*mode)) {
        // It runs.
        let _ = SESSIONS.finish(mode as u32);
    }
}

/// Changes the configuration as the word says.
fn apply(options: &Options<'_>, config: &mut CConfig) {
    let ring = options.apply(&config.ring());
    config.flags = options.flags(config.flags);
    match options.consumer {
        Some(Consumer::Host) => config.flags |= HOST_READS,
        // Nobody need call `kymo_read`.
        Some(Consumer::Kernel | Consumer::None) => config.flags &= !HOST_READS,
        None => {}
    }
    let samples = options.starts(Mode::Sample) || options.stacks.is_some();
    if samples && ring.samples_packets == 0 {
        config.samples_packets = SAMPLES_PACKETS;
    } else {
        config.samples_packets = ring.samples_packets;
    }
    config.counting_ns = options.count_ns.unwrap_or(config.counting_ns);
    config.sample_period = ring.sampling.period;
    config.sample_depth = match ring.sampling.depth {
        0 => NO_CALLERS,
        depth => depth,
    };
}
