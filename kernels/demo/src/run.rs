//! The work of the first thread: it runs workloads and programs one after another.

use core::fmt::Write;

use kymo::Mode;
use kymo::boot::Options;
use kymo::vocabulary::SamplingDriver;

use crate::abi::{Error, rights};
use crate::arch::timer::time;
use crate::cmdline::Settings;
use crate::console::println;
use crate::lock::Spin;
use crate::process::{self, Line};
use crate::recording::settings;
use crate::workload::Workload;
use crate::{arch, thread};

/// Priority of programs on the command line: readers of a trace precede its producers.
const PRIO: i16 = 9;
/// Priority of threads that run a workload.
pub const WORKLOAD_PRIO: i16 = 10;

/// Runs all of the command line. True if every program ended with 0.
pub fn all(settings: &Settings) -> bool {
    let send = settings.kymo.send;
    if send && !settings.records_from_boot() {
        return record_and_send(settings);
    }
    let done = what_is_said(settings);
    // A recording from boot on is sent at the end.
    (!send || send_the_rest()) && done
}

/// Runs the program that ends a session, if it has not ended, and sends what is in the rings.
pub fn send_the_rest() -> bool {
    program(Line::of("perf stop").expect("a short line"))
}

fn what_is_said(settings: &Settings) -> bool {
    if settings.runs().next().is_none() {
        return run_word(settings.workload, settings.rounds);
    }
    // All of them, even if one fails.
    settings
        .runs()
        .filter(|run| !run_word(run, settings.rounds))
        .count()
        == 0
}

/// Runs a workload, or a program with its arguments behind commas.
fn run_word(run: &str, rounds: u32) -> bool {
    if let Some(workload) = Workload::named(run) {
        let begin = time();
        let done = workload.run(rounds);
        println!("demo: {run} took {} ticks", time() - begin);
        return done;
    }
    let mut line = Line::new();
    if run
        .split(',')
        .try_for_each(|word| write!(line, "{word} "))
        .is_err()
    {
        println!("demo: \"{run}\" cannot be run: it is too long");
        return false;
    }
    program(line)
}

fn program(line: Line) -> bool {
    let text = line.text().trim_end();
    let interrupts = arch::mask();
    let ended = process::spawn(line, PRIO, rights::PERF).and_then(process::wait);
    arch::restore(interrupts);
    match ended {
        Ok(0) => {}
        Ok(status) => println!("demo: \"{text}\" has ended with {status}"),
        Err(error) => println!("demo: \"{text}\" cannot be run: {error:?}"),
    }
    ended == Ok(0)
}

/// `kymo=send`: the program `perf` runs the rest as its subject, and sends the recording.
fn record_and_send(settings: &Settings) -> bool {
    let mut line = Line::new();
    let mut words = || {
        line.write_str("perf record")?;
        if settings.kymo.flags(0) & kymo::flags::ROLLING != 0 {
            line.write_str(" --rolling")?;
        }
        if let Some(events) = settings.kymo.events {
            write!(line, " --events {events}")?;
        }
        sampling_words(&settings.kymo, &mut line)?;
        match settings.runs().next() {
            Some(run) if Workload::named(run).is_none() => {
                line.write_str(" --")?;
                run.split(',').try_for_each(|word| write!(line, " {word}"))
            }
            run => write!(line, " workload {}", run.unwrap_or(settings.workload)),
        }
    };
    if words().is_err() {
        println!("demo: the command line is too long for the program perf");
        return false;
    }
    program(line)
}

/// The options of the program `perf` for what `kymo=` says of modes, samples and counts.
fn sampling_words(asked: &Options<'_>, line: &mut Line) -> core::fmt::Result {
    if asked.starts(Mode::Sample) || asked.starts(Mode::Count) {
        line.write_str(" --mode ")?;
        let modes = Mode::ALL.into_iter().filter(|mode| asked.starts(*mode));
        for (place, mode) in modes.enumerate() {
            let separator = if place > 0 { ":" } else { "" };
            write!(line, "{separator}{}", mode.name())?;
        }
    }
    if let Some(counters) = asked.counters {
        write!(line, " --counters {counters}")?;
    }
    if let Some(events) = asked.counters_on {
        write!(line, " --counters-on {events}")?;
    }
    if let Some(period) = asked.count_ns {
        write!(line, " --count-ns {period}")?;
    }
    if let Some(period) = asked.period_ns {
        write!(line, " --period-ns {period}")?;
    }
    if let Some(count) = asked.count {
        write!(line, " --count {count}")?;
    }
    if let Some(depth) = asked.depth {
        write!(line, " --depth {depth}")?;
    }
    match asked.driver {
        Some(SamplingDriver::Timer) => line.write_str(" --driver timer"),
        Some(SamplingDriver::Nmi) => line.write_str(" --driver nmi"),
        Some(SamplingDriver::Ipi) => line.write_str(" --driver ipi"),
        Some(SamplingDriver::Cycles) => line.write_str(" --driver cycles"),
        Some(SamplingDriver::Instructions) => line.write_str(" --driver instructions"),
        _ => Ok(()),
    }
}

/// The workload of the next new thread.
static NEXT: Spin<Option<Workload>> = Spin::new(None);

/// Creates a thread for a workload, and gives its tid.
pub fn start_workload(name: &str) -> Result<kymo::Tid, Error> {
    let workload = Workload::named(name).ok_or(Error::Invalid)?;
    {
        let mut next = NEXT.lock();
        if next.is_some() {
            return Err(Error::Busy);
        }
        *next = Some(workload);
    }
    let begin = |_| {
        if let Some(workload) = NEXT.lock().take() {
            // Nobody waits for what it says but who reads the console.
            let _ = workload.run(settings().rounds);
        }
    };
    thread::try_spawn("workload", WORKLOAD_PRIO, begin, 0).ok_or_else(|| {
        NEXT.lock().take();
        Error::Full
    })
}
