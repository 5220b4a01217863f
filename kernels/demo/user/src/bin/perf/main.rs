//! perf: records, and sends the data to the host or shows it.
#![no_std]
#![no_main]

mod options;
mod send;
mod session;

use demo_user::abi::{Error, Kind};
use demo_user::{Words, println, sys};
use kymo::perf::{self, Target};

use options::Options;
use send::Sender;
use session::{Session, buffer};

demo_user::program!(main);

/// The mode.
const TRACE: u32 = kymo::Mode::Trace as u32;
/// Milliseconds from one look at the channels to the next.
pub const INTERVAL_MS: u64 = 2;

/// Exit statuses of the program.
const REFUSED: u8 = 1;
const USAGE: u8 = 2;

const HELP: [&str; 13] = [
    "perf record [OPTION ..] [-- PROGRAM WORD ..]   record while PROGRAM runs, or until the host \
     requests the end, and send",
    "perf record [OPTION ..] workload NAME          record while a kernel workload runs, and send",
    "perf start [OPTION ..]                         start recording",
    "perf stop                                      stop any recording, and send the rest",
    "perf on EVENT ..  |  perf off EVENT ..         switch events during a recording; EVENT may \
     end with *",
    "perf status                                    print the status of the recording",
    "perf dump [N]                                  print the newest N records (default: 20)",
    "perf clear                                     hide the records so far from status and dump",
    "OPTION: --rolling (a full ring loses its oldest packet), --events EVENT:EVENT.., --packets N, \
     --names-packets N, --packet-size N",
    "OPTION: --mode MODES (trace, sample, count, with colons between; without it, trace)",
    "OPTION of samples: --hz N, --period MICROSECONDS or --period-ns N, --depth CALLERS, \
     --driver timer|nmi|ipi|cycles|instructions, --count EVENTS, --samples-packets N",
    "OPTION of counts: --counters NAME+NAME..++NAME.. (groups, with ++ between), --count-ns N, \
     --counters-on EVENT:EVENT.. (events that carry the counts)",
    "exit status: 0 done, 1 refused, 2 wrong usage, or that of the recorded program",
];

/// The reason of a failure.
pub enum Failed {
    Usage,
    /// A call that the kernel refused, and its error.
    Refused(&'static str, Error),
}

impl Failed {
    fn of(failed: perf::Failed<Error, Error>) -> Failed {
        match failed {
            perf::Failed::Target(step, error) => Failed::Refused(step.word(), error),
            perf::Failed::Output(error) => Failed::Refused("send", error),
        }
    }
}

fn main(mut words: Words) -> u8 {
    let done = match words.next() {
        Some("record") => record(words),
        Some("start") => start(words),
        Some("stop") => end(words).and_then(stop),
        Some("on") => switch(words, true),
        Some("off") => switch(words, false),
        Some("status") => end(words).and_then(status),
        Some("dump") => dump(words),
        Some("clear") => end(words).and_then(|()| refused("forget", sys::perf_clear()).map(|_| 0)),
        _ => Err(Failed::Usage),
    };
    done.unwrap_or_else(|failed| match failed {
        Failed::Refused(what, error) => {
            println!("perf: cannot {what}: {}", reason(error));
            REFUSED
        }
        Failed::Usage => {
            HELP.iter().for_each(|line| println!("{line}"));
            USAGE
        }
    })
}

fn reason(error: Error) -> &'static str {
    match error {
        Error::NotPermitted => "this process does not have the right (EPERM)",
        Error::InProgress => "a session is in progress, which perf stop ends (EINPROGRESS)",
        Error::NoDevice => "the machine has no virtio serial port (ENXIO)",
        Error::NotConnected => "nobody listens at the port (ENOTCONN)",
        Error::Busy => "another process uses it (EBUSY)",
        Error::NoMemory => "the memory is too small (ENOMEM)",
        Error::Invalid => "no such event, driver, program or ring, or no session (EINVAL)",
        Error::NotBuilt => "this kernel was built without it (EOPNOTSUPP)",
        _ => "unknown error",
    }
}

/// Adds the name of the refused operation.
pub fn refused<T>(what: &'static str, result: Result<T, Error>) -> Result<T, Failed> {
    result.map_err(|error| Failed::Refused(what, error))
}

/// Checks that there is no further word.
fn end(mut words: Words) -> Result<(), Failed> {
    words.next().map_or(Ok(()), |_| Err(Failed::Usage))
}

fn start(mut words: Words) -> Result<u8, Failed> {
    match Options::of(&mut words)? {
        (options, None) => refused("start", options.start()).map(|()| 0),
        _ => Err(Failed::Usage),
    }
}

/// The subject, during whose run is recorded.
#[derive(Clone, Copy)]
enum Subject {
    /// Everything, without a subject.
    Everything,
    /// A process.
    Program(&'static str),
    /// A kernel thread.
    Workload(&'static str),
}

impl Subject {
    fn of(word: Option<&str>, words: &mut Words) -> Result<Subject, Failed> {
        match word {
            None => Some(Subject::Everything),
            Some("--") => Some(words.rest())
                .filter(|line| !line.is_empty())
                .map(Subject::Program),
            Some("workload") => {
                let name = words.next();
                name.filter(|_| words.next().is_none())
                    .map(Subject::Workload)
            }
            Some(_) => None,
        }
        .ok_or(Failed::Usage)
    }

    fn begin(self) -> Result<Running, Failed> {
        match self {
            Subject::Everything => Ok(Running::Everything),
            Subject::Program(line) => {
                refused("run that program", sys::spawn(line, 0)).map(Running::Process)
            }
            Subject::Workload(name) => {
                refused("run that workload", sys::workload(name)).map(Running::Thread)
            }
        }
    }
}

/// A running subject, with its pid or tid.
#[derive(Clone, Copy)]
enum Running {
    Everything,
    Process(usize),
    Thread(usize),
}

impl Running {
    fn is_alive(self) -> bool {
        match self {
            Running::Everything => true,
            Running::Process(pid) => sys::is_alive(pid, Kind::Process),
            Running::Thread(tid) => sys::is_alive(tid, Kind::Thread),
        }
    }

    /// The status of a process. Other subjects continue.
    fn status(self) -> u8 {
        match self {
            Running::Process(pid) if !self.is_alive() => sys::wait(pid).unwrap_or(REFUSED),
            _ => 0,
        }
    }
}

fn record(mut words: Words) -> Result<u8, Failed> {
    let (options, word) = Options::of(&mut words)?;
    let subject = Subject::of(word, &mut words)?;
    let mut running = None;
    let mut refusal = None;
    let is_done = |_: &mut Session<'_>, sender: &mut Sender| match running {
        Some(Ok(subject)) => !Running::is_alive(subject) || sender.is_to_stop(),
        Some(Err(())) => true,
        None => {
            running = Some(subject.begin().map_err(|failed| refusal = Some(failed)));
            matches!(running, Some(Ok(subject)) if !subject.is_alive())
        }
    };
    let how = perf::Options {
        duration_ms: None,
        interval_ms: INTERVAL_MS,
        ..perf::Options::DEFAULT
    };
    let mut session = Session::of(&options);
    let recorded = perf::record(&mut session, &mut Sender::new(), buffer(), &how, is_done);
    match (refusal, running) {
        (Some(failed), _) => Err(failed),
        (None, Some(Ok(subject))) => recorded.map(|_| subject.status()).map_err(Failed::of),
        (None, _) => recorded.map(|_| 0).map_err(Failed::of),
    }
}

fn stop(_: ()) -> Result<u8, Failed> {
    // A sending process must not find its session stopped.
    if let Err(Error::Busy) = sys::port_write(&[]) {
        return Err(Failed::Refused("send", Error::Busy));
    }
    let mut session = Session::of_others()?;
    match perf::gather(&mut session, &mut Sender::new(), buffer()) {
        Err(perf::Failed::Output(Error::NoDevice)) => {
            refused("stop", session.stop())?;
            refused("finish", session.finish())?;
            println!(
                "perf: stopped. The machine has no port to send through; perf dump shows the \
                 newest records"
            );
            Ok(0)
        }
        gathered => gathered.map(|_| 0).map_err(Failed::of),
    }
}

fn switch(words: Words, on: bool) -> Result<u8, Failed> {
    if words.rest().is_empty() {
        return Err(Failed::Usage);
    }
    for name in words {
        let count = refused("switch", sys::perf_switch(TRACE, name, on))?;
        println!(
            "perf: {name}: {count} events are {}",
            if on { "on" } else { "off" }
        );
    }
    Ok(0)
}

fn status(_: ()) -> Result<u8, Failed> {
    let status = refused("ask", sys::perf_status())?;
    let state = [
        "idle",
        "starting",
        "running",
        "stopping",
        "stopped",
        "finishing",
    ];
    let state = state
        .get(status.state as usize)
        .copied()
        .unwrap_or("in an unknown state");
    let rolling = if status.flags & u64::from(kymo::flags::ROLLING) != 0 {
        ", rolling"
    } else {
        ""
    };
    let samples = if status.flags & u64::from(kymo::flags::SAMPLES) != 0 {
        ", with samples"
    } else {
        ""
    };
    println!(
        "perf: {state}, {} channels{rolling}{samples}",
        status.channels
    );
    println!(
        "perf: {} retained, {} overwritten, {} discarded",
        status.retained, status.overwritten, status.discarded
    );
    Ok(0)
}

fn dump(mut words: Words) -> Result<u8, Failed> {
    let newest = words
        .next()
        .map_or(Ok(20), |word| word.parse().map_err(|_| Failed::Usage))?;
    end(words)?;
    refused("print", sys::perf_dump(newest)).map(|_| 0)
}
