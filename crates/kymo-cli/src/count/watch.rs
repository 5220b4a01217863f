//! Waiting for the end, and reading meanwhile.

use std::ffi::OsString;
use std::fs;
use std::io::IsTerminal as _;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use kymo_perf::{Counters, NamedGroup, Readings, Total};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::output::{Part, Writer};
use super::targets::Label;
use crate::exit::Code;

/// How often groups that may take turns are read, to see how steady their counts are.
const READING: Duration = Duration::from_millis(50);

/// What the command waits for.
enum Event {
    /// A signal that asks to end, by its number: `SIGINT` for ^C.
    Signal(i32),
    /// The command has ended.
    Ended(std::io::Result<ExitStatus>),
    /// The processes have ended, or cannot be waited for.
    Gone(std::io::Result<()>),
}

/// How it ended.
pub enum End {
    /// The command ended.
    Command(ExitStatus),
    /// The processes ended, or there was an interrupt where no command is counted.
    Stopped,
    /// An interrupt, while the command runs on.
    Interrupted,
}

impl End {
    /// The command's exit status as a shell sees it; `None` if no command ended.
    pub fn status(&self) -> Option<u8> {
        let End::Command(status) = self else {
            return None;
        };
        let signal = status.signal().map(|signal| 128 + signal);
        let code = status.code().or(signal).unwrap_or(1);
        Some(u8::try_from(code & 0xff).unwrap_or(1))
    }

    /// Says how the command ended, if not well, and gives the exit code.
    pub fn report(&self, command: &[OsString]) -> Code {
        let name = command.first().map(|name| name.to_string_lossy());
        let name = name.as_deref().unwrap_or("the command");
        match (self, self.status()) {
            (End::Command(status), Some(code)) => {
                if let Some(signal) = status.signal() {
                    message!("kymo: {name} was ended by signal {signal}.");
                } else if code != 0 {
                    message!("kymo: {name} ended with exit status {code}.");
                }
                Code::Command(code)
            }
            (End::Interrupted, _) => {
                message!("kymo: interrupted; {name} runs on, and is counted no more.");
                Code::Command(130)
            }
            _ => Code::Ok,
        }
    }
}

/// A channel for what happens.
pub struct Watch {
    sender: Sender<Event>,
    events: Receiver<Event>,
    /// Signals that came.
    signals: u32,
}

impl Watch {
    /// Takes over interrupts: from now on they do not end this program.
    pub fn new() -> anyhow::Result<Watch> {
        let (sender, events) = channel();
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
            .context("cannot handle interrupts (start kymo from another shell)")?;
        let interrupts = sender.clone();
        std::thread::spawn(move || {
            for signal in signals.forever() {
                let _ = interrupts.send(Event::Signal(signal));
            }
        });
        Ok(Watch {
            sender,
            events,
            signals: 0,
        })
    }

    /// Whether a signal has asked to end.
    pub fn was_interrupted(&mut self) -> bool {
        let left = self.events.try_iter();
        let signals = left
            .filter(|event| matches!(event, Event::Signal(_)))
            .count();
        self.signals += u32::try_from(signals).unwrap_or(u32::MAX);
        self.signals > 0
    }

    /// Waits for the end of the command, of the processes, or for an interrupt; reads the counters
    /// meanwhile, and writes those of each interval.
    pub fn wait(
        &mut self,
        session: &mut Session<'_>,
        counters: &Counters,
        child: Option<Child>,
        pids: &[u32],
        out: &mut Writer,
    ) -> anyhow::Result<End> {
        let pid = child.as_ref().map(Child::id);
        match child {
            Some(child) => watch_child(child, self.sender.clone()),
            None if !pids.is_empty() => watch_processes(pids, self.sender.clone())?,
            // Interrupts have a sender of their own.
            None => {}
        }
        loop {
            let event = match session.next_reading() {
                Some(next) => {
                    let wait = next.saturating_duration_since(Instant::now());
                    match self.events.recv_timeout(wait) {
                        Ok(event) => event,
                        Err(RecvTimeoutError::Timeout) => {
                            session.read(counters, out)?;
                            continue;
                        }
                        Err(RecvTimeoutError::Disconnected) => return Ok(End::Stopped),
                    }
                }
                None => match self.events.recv() {
                    Ok(event) => event,
                    Err(_) => return Ok(End::Stopped),
                },
            };
            match (event, pid) {
                (Event::Ended(status), _) => {
                    let status = status.context("cannot wait for the command")?;
                    return Ok(End::Command(status));
                }
                (Event::Gone(result), _) => {
                    result.context("cannot wait for the processes")?;
                    return Ok(End::Stopped);
                }
                (Event::Signal(_), None) => return Ok(End::Stopped),
                (Event::Signal(signal), Some(pid)) => {
                    self.signals += 1;
                    if self.signals > 1 {
                        return Ok(End::Interrupted);
                    }
                    pass_on(signal, pid);
                }
            }
        }
    }
}

/// Passes a signal on to the command. At a terminal, ^C has gone to the command too, which may have
/// its own use for it; elsewhere it ends the command, as `SIGTERM` does.
fn pass_on(signal: i32, pid: u32) {
    let signal = match signal {
        SIGINT if std::io::stdin().is_terminal() => return,
        SIGHUP => Signal::HUP,
        _ => Signal::TERM,
    };
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // It may have ended just now.
        let _ = kill_process(pid, signal);
    }
}

fn watch_child(mut child: Child, sender: Sender<Event>) {
    std::thread::spawn(move || {
        let status = child.wait();
        let _ = sender.send(Event::Ended(status));
    });
}

/// How the end of a process is noticed.
enum Watched {
    /// By its descriptor, which can be read from then on.
    Descriptor(OwnedFd),
    /// By looking, every [`READING`]: this kernel has no descriptors of processes, or the number is
    /// of a thread that does not lead its process.
    Number(u32),
}

impl Watched {
    /// `None` if it is already gone.
    fn new(pid: u32) -> anyhow::Result<Option<Watched>> {
        let Some(raw) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
            return Ok(None);
        };
        match pidfd_open(raw, PidfdFlags::empty()) {
            Ok(descriptor) => Ok(Some(Watched::Descriptor(descriptor))),
            Err(Errno::SRCH) => Ok(None),
            Err(Errno::NOSYS | Errno::INVAL | Errno::NOENT) => Ok(Some(Watched::Number(pid))),
            Err(Errno::MFILE | Errno::NFILE) => Err(kymo_perf::Error::TooManyFiles.into()),
            Err(error) => Err(error).with_context(|| format!("cannot wait for process {pid}")),
        }
    }

    /// Returns when it has ended.
    fn wait(&self) -> rustix::io::Result<()> {
        match self {
            Watched::Descriptor(descriptor) => loop {
                match poll(&mut [PollFd::new(descriptor, PollFlags::IN)], None) {
                    Ok(_) => return Ok(()),
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error),
                }
            },
            Watched::Number(pid) => {
                while lives(*pid) {
                    std::thread::sleep(READING);
                }
                Ok(())
            }
        }
    }
}

/// Whether a process or thread is there, and is no mere entry for its parent (`proc_pid_stat(5)`).
fn lives(pid: u32) -> bool {
    let stat = match fs::read(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat,
        // Any other error tells nothing about the process.
        Err(error) => {
            let is_gone = error.raw_os_error() == Some(Errno::SRCH.raw_os_error());
            return !is_gone && error.kind() != std::io::ErrorKind::NotFound;
        }
    };
    // Its name, in parentheses before the state, may be any bytes.
    let stat = String::from_utf8_lossy(&stat);
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
    state.is_some_and(|state| !state.starts_with(['Z', 'X']))
}

/// Processes that are already gone count as ended.
fn watch_processes(pids: &[u32], sender: Sender<Event>) -> anyhow::Result<()> {
    let mut processes = Vec::new();
    for pid in pids {
        processes.extend(Watched::new(*pid)?);
    }
    std::thread::spawn(move || {
        let ended = processes.iter().try_for_each(Watched::wait);
        let _ = sender.send(Event::Gone(ended.map_err(Into::into)));
    });
    Ok(())
}

/// The counts of a moment, since another.
pub struct Counts<'g> {
    /// The groups' names.
    pub groups: &'g [NamedGroup],
    /// Whose counts each group's are, where they are shown apart; none elsewhere.
    pub labels: &'g [Vec<Label>],
    /// The groups' counts, in the same order.
    pub totals: Vec<Total>,
    /// For the total: how steady the groups' counts were.
    pub readings: Option<Vec<Readings>>,
    /// Time between the two moments.
    pub elapsed: Duration,
    /// Time of the second since counting began.
    pub time: Duration,
}

/// Readings over time.
pub struct Session<'g> {
    groups: &'g [NamedGroup],
    labels: &'g [Vec<Label>],
    interval: Option<Duration>,
    began: Instant,
    next_interval: Option<Instant>,
    next_reading: Option<Instant>,
    /// What the last interval ended with.
    interval_totals: Vec<Total>,
    interval_at: Instant,
    last_totals: Vec<Total>,
    readings: Vec<Readings>,
}

impl<'g> Session<'g> {
    /// A session of these groups, whose targets' counts are shown apart if they have labels.
    pub fn new(
        groups: &'g [NamedGroup],
        labels: &'g [Vec<Label>],
        interval: Option<Duration>,
    ) -> Session<'g> {
        let now = Instant::now();
        let nothing = vec![Total::default(); groups.len()];
        Session {
            groups,
            labels,
            interval,
            began: now,
            next_interval: None,
            next_reading: None,
            interval_totals: nothing.clone(),
            interval_at: now,
            last_totals: nothing,
            readings: vec![Readings::default(); groups.len()],
        }
    }

    /// Counting begins now.
    pub fn begin(&mut self) {
        self.began = Instant::now();
        self.interval_at = self.began;
        self.next_interval = self.interval.map(|interval| self.began + interval);
        // Only groups that need the PMU take turns.
        let may_take_turns = self.groups.iter().any(|group| group.spec.slots() > 0);
        self.next_reading = may_take_turns.then(|| self.began + READING);
    }

    /// When to read next.
    fn next_reading(&self) -> Option<Instant> {
        [self.next_interval, self.next_reading]
            .into_iter()
            .flatten()
            .min()
    }

    /// Reads the counters, and writes the interval that ends, if one does.
    fn read(&mut self, counters: &Counters, out: &mut Writer) -> anyhow::Result<()> {
        let now = Instant::now();
        let totals = counters.read()?;
        self.add(&totals);
        self.next_reading = self.next_reading.map(|_| now + READING);
        let (Some(next), Some(interval)) = (self.next_interval, self.interval) else {
            return Ok(());
        };
        if now < next {
            return Ok(());
        }
        // A machine that could not keep up leaves intervals out, and the next one is longer.
        let mut next = next + interval;
        while next <= now {
            next += interval;
        }
        self.next_interval = Some(next);
        self.write_interval(totals, now, out)
    }

    /// Writes what was counted since the last interval, which ends now.
    fn write_interval(
        &mut self,
        totals: Vec<Total>,
        now: Instant,
        out: &mut Writer,
    ) -> anyhow::Result<()> {
        let since = |(now, before): (&Total, &Total)| now.since(before);
        let counts = Counts {
            groups: self.groups,
            labels: self.labels,
            totals: totals
                .iter()
                .zip(&self.interval_totals)
                .map(since)
                .collect(),
            readings: None,
            elapsed: now - self.interval_at,
            time: now - self.began,
        };
        (self.interval_totals, self.interval_at) = (totals, now);
        out.write(&counts, Part::Interval, &End::Stopped)
    }

    fn add(&mut self, totals: &[Total]) {
        let last = self.readings.iter_mut().zip(totals).zip(&self.last_totals);
        for ((readings, now), before) in last {
            readings.add(&now.since(before));
        }
        self.last_totals = totals.to_vec();
    }

    /// What was counted from the beginning to the end, once counting has stopped. The last interval,
    /// which is shorter than the others, is written.
    pub fn finish(mut self, counters: &Counters, out: &mut Writer) -> anyhow::Result<Counts<'g>> {
        let now = Instant::now();
        let totals = counters.read()?;
        self.add(&totals);
        if self.interval.is_some() {
            self.write_interval(totals.clone(), now, out)?;
        }
        let elapsed = now - self.began;
        Ok(Counts {
            groups: self.groups,
            labels: self.labels,
            totals,
            readings: Some(self.readings),
            elapsed,
            time: elapsed,
        })
    }
}
