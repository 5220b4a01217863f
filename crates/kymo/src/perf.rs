//! The command `perf` of a kernel's own shell, as a library: record for a while, or start now and
//! gather later, into whatever keeps the data.
//!
//! A shell implements [`Target`] over the kernel's calls (or over [`Recorder`](crate::Recorder)
//! where it runs in the kernel), and [`Output`] over its file system or a line to the host. Options
//! are parsed by [`Options::parse`], or by a shell of its own taste.
//!
//! # Invariants
//! - The output is prepared before anything is started or stopped: a folder that cannot be made
//!   changes nothing.
//! - [`record`] leaves no session behind, whatever failed, and puts the priority back.
//! - A rolling session is read after its stop; every other one while it records, too.
//! - Once [`gather`] has stopped a session whose data could not be kept, the session stays stopped:
//!   what was not yet passed to the output can be gathered into it again.
#![deny(missing_docs)]

use crate::{Diagnostics, flags};

/// A session, as the calls of a kernel show it.
pub trait Target {
    /// Why a call was refused.
    type Error;

    /// Starts to record.
    fn start(&mut self) -> Result<Channels, Self::Error>;

    /// The channels of the session that there is, whoever has started it.
    fn channels(&mut self) -> Result<Channels, Self::Error>;

    /// Copies what is new in a channel; returns its bytes, 0 if there is nothing new.
    fn read(&mut self, channel: u32, buffer: &mut [u8]) -> Result<usize, Self::Error>;

    /// Stops recording. Does nothing if that was done.
    fn stop(&mut self) -> Result<(), Self::Error>;

    /// Gives up the session. Returns its totals.
    fn finish(&mut self) -> Result<Diagnostics, Self::Error>;

    /// The time in microseconds, from any origin. It never steps back.
    fn time(&mut self) -> u64;

    /// Lets others run for about this many microseconds.
    fn sleep(&mut self, microseconds: u64);

    /// Sets the priority of the calling thread, in the kernel's own numbers. Returns the one that
    /// it had.
    fn set_priority(&mut self, priority: i32) -> Result<i32, Self::Error>;
}

/// The channels of a session: the metadata, and one or more for each CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channels {
    /// How many there are.
    pub count: u32,
    /// Of the session: see [`flags`].
    pub flags: u32,
}

impl Channels {
    /// Whether the oldest data make room for new ones, so that they are read after the stop.
    pub const fn is_rolling(self) -> bool {
        self.flags & flags::ROLLING != 0
    }
}

/// What keeps the data of a session: a folder with a file for each channel, or a line to the host.
pub trait Output {
    /// Why the data cannot be kept.
    type Error;

    /// Makes sure that there is a place for data: makes the folder, or waits for the host.
    fn prepare(&mut self) -> Result<(), Self::Error>;

    /// Begins a session.
    fn open(&mut self, channels: Channels) -> Result<(), Self::Error>;

    /// Appends bytes to what there is of a channel.
    fn write(&mut self, channel: u32, bytes: &[u8]) -> Result<(), Self::Error>;

    /// Ends the session.
    fn close(&mut self, totals: &Diagnostics) -> Result<(), Self::Error>;
}

/// Why a command failed, and in what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed<T, O> {
    /// The kernel refused to do this.
    Target(Step, T),
    /// The data cannot be kept.
    Output(O),
}

/// A part of a command, for messages: `cannot start: ...`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// To start.
    Start,
    /// To ask for the session's state.
    Ask,
    /// To read a channel.
    Read,
    /// To stop.
    Stop,
    /// To finish.
    Finish,
    /// To set the priority.
    Priority,
}

impl Step {
    /// The word for it: what comes behind "cannot".
    pub const fn word(self) -> &'static str {
        match self {
            Step::Start => "start",
            Step::Ask => "ask",
            Step::Read => "read",
            Step::Stop => "stop",
            Step::Finish => "finish",
            Step::Priority => "set the priority",
        }
    }
}

/// How a recording goes. Sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options<'a> {
    /// Milliseconds to record; `None` until the subject has ended.
    pub duration_ms: Option<u64>,
    /// Milliseconds from one look at the channels to the next.
    pub interval_ms: u64,
    /// Bytes of the buffer into which channels are read; at least the session's packets.
    pub buffer: usize,
    /// The priority of the thread that reads; `None` leaves it.
    pub priority: Option<i32>,
    /// Where the data go; empty for the shell's choice.
    pub output: &'a str,
}

impl Options<'_> {
    /// Three seconds, and ten looks a second.
    pub const DEFAULT: Options<'static> = Options {
        duration_ms: Some(3_000),
        interval_ms: 100,
        buffer: 256 << 10,
        priority: None,
        output: "",
    };
    /// What [`parse`](Self::parse) reads, a line each.
    pub const HELP: &'static str = "\
-t MS      record for this many milliseconds (default: 3000)
-s MS      look at the channels this often (default: 100)
-b BYTES   the size of the buffer (default: 262144)
-p N       the priority of the thread that reads
-o DIR     where the data go
";
}

impl<'a> Options<'a> {
    /// Parses the words of a command line. Returns the options and the first word that is none of
    /// them, which the iterator has passed.
    ///
    /// # Errors
    /// The option that lacks its value, or has one that is not a number in its range.
    pub fn parse(
        words: &mut impl Iterator<Item = &'a str>,
    ) -> Result<(Options<'a>, Option<&'a str>), &'a str> {
        let mut options = Options {
            output: "",
            ..Options::DEFAULT
        };
        loop {
            let Some(word) = words.next() else {
                return Ok((options, None));
            };
            let mut value = || words.next().ok_or(word);
            match word {
                "-t" => options.duration_ms = Some(positive(value()?).ok_or(word)?),
                "-s" => options.interval_ms = positive(value()?).ok_or(word)?,
                "-b" => {
                    let bytes = positive(value()?).ok_or(word)?;
                    options.buffer = usize::try_from(bytes).map_err(|_| word)?;
                }
                "-p" => options.priority = Some(value()?.parse().map_err(|_| word)?),
                "-o" => options.output = Some(value()?).filter(|it| !it.is_empty()).ok_or(word)?,
                other => return Ok((options, Some(other))),
            }
        }
    }
}

fn positive(word: &str) -> Option<u64> {
    word.parse().ok().filter(|number| *number > 0)
}

/// Records until `options.duration_ms` have passed or `is_done` says so, and writes what was
/// recorded.
///
/// # Errors
/// Whoever refused first. No session is left then, and the priority is what it was.
pub fn record<T: Target, O: Output>(
    target: &mut T,
    output: &mut O,
    buffer: &mut [u8],
    options: &Options<'_>,
    mut is_done: impl FnMut(&mut T, &mut O) -> bool,
) -> Result<Diagnostics, Failed<T::Error, O::Error>> {
    output.prepare().map_err(Failed::Output)?;
    let before = options
        .priority
        .map(|priority| {
            let set = target.set_priority(priority);
            set.map_err(|error| Failed::Target(Step::Priority, error))
        })
        .transpose()?;
    let recorded = record_now(target, output, buffer, options, &mut is_done);
    if let Some(before) = before {
        // It was accepted before.
        let _ = target.set_priority(before);
    }
    recorded
}

fn record_now<T: Target, O: Output>(
    target: &mut T,
    output: &mut O,
    buffer: &mut [u8],
    options: &Options<'_>,
    is_done: &mut impl FnMut(&mut T, &mut O) -> bool,
) -> Result<Diagnostics, Failed<T::Error, O::Error>> {
    let channels = target
        .start()
        .map_err(|error| Failed::Target(Step::Start, error))?;
    let followed = follow(target, output, buffer, options, channels, is_done);
    // Refused if somebody else has ended the session.
    let totals = target.finish();
    followed?;
    let totals = totals.map_err(|error| Failed::Target(Step::Finish, error))?;
    output.close(&totals).map_err(Failed::Output)?;
    Ok(totals)
}

fn follow<T: Target, O: Output>(
    target: &mut T,
    output: &mut O,
    buffer: &mut [u8],
    options: &Options<'_>,
    channels: Channels,
    is_done: &mut impl FnMut(&mut T, &mut O) -> bool,
) -> Result<(), Failed<T::Error, O::Error>> {
    output.open(channels).map_err(Failed::Output)?;
    let begin = target.time();
    let duration = options
        .duration_ms
        .map(|duration| duration.saturating_mul(1_000));
    let interval = options.interval_ms.saturating_mul(1_000);
    loop {
        if is_done(target, output) {
            break;
        }
        let passed = target.time().saturating_sub(begin);
        let left = duration.map_or(u64::MAX, |duration| duration.saturating_sub(passed));
        if left == 0 {
            break;
        }
        if !channels.is_rolling() {
            pass(target, output, buffer, channels)?;
        }
        target.sleep(interval.min(left));
    }
    rest(target, output, buffer, channels)
}

/// Stops the session, whoever has started it, and writes what it holds.
///
/// # Errors
/// Whoever refused first. If there is no session, or no place for its data, nothing was changed; if
/// writing failed later, the session is stopped, and what was not yet passed to the output can be
/// gathered into it again.
pub fn gather<T: Target, O: Output>(
    target: &mut T,
    output: &mut O,
    buffer: &mut [u8],
) -> Result<Diagnostics, Failed<T::Error, O::Error>> {
    let channels = target
        .channels()
        .map_err(|error| Failed::Target(Step::Ask, error))?;
    output.prepare().map_err(Failed::Output)?;
    output.open(channels).map_err(Failed::Output)?;
    rest(target, output, buffer, channels)?;
    let totals = target
        .finish()
        .map_err(|error| Failed::Target(Step::Finish, error))?;
    output.close(&totals).map_err(Failed::Output)?;
    Ok(totals)
}

/// Stops, and writes until there is nothing new.
fn rest<T: Target, O: Output>(
    target: &mut T,
    output: &mut O,
    buffer: &mut [u8],
    channels: Channels,
) -> Result<(), Failed<T::Error, O::Error>> {
    target
        .stop()
        .map_err(|error| Failed::Target(Step::Stop, error))?;
    while pass(target, output, buffer, channels)? {}
    Ok(())
}

/// Packets of a channel in a round at most, so that a busy CPU does not keep the others waiting.
const PACKETS: usize = 64;

/// Writes what is new in every channel. Returns whether there was anything.
fn pass<T: Target, O: Output>(
    target: &mut T,
    output: &mut O,
    buffer: &mut [u8],
    channels: Channels,
) -> Result<bool, Failed<T::Error, O::Error>> {
    let mut news = false;
    for channel in 0..channels.count {
        for _ in 0..PACKETS {
            let len = target
                .read(channel, buffer)
                .map_err(|error| Failed::Target(Step::Read, error))?;
            let bytes = buffer.get(..len).unwrap_or_default();
            if bytes.is_empty() {
                break;
            }
            output.write(channel, bytes).map_err(Failed::Output)?;
            news = true;
        }
    }
    Ok(news)
}

#[cfg(all(test, not(loom)))]
mod tests;
