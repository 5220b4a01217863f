//! `kymo record` of programs as they are, on Linux.

use std::ffi::OsString;
use std::fs;
use std::io::IsTerminal as _;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use kymo_linux::{KernelSymbols, Session, Setup, Summary, Whom, Writer};
use kymo_perf::{HeldCommand, Paranoid};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use super::{Arguments, OTHER_OUT, was_interrupted, watch_interrupts};
use crate::exit::{BadInput, Code, Usage};
use crate::output::{OutputDirectory, create_directory};
use crate::sampled;
use crate::summary::thousands;

/// Samples a second, if the command line does not say: a prime number, so that they do not keep
/// step with what programs do at intervals.
const HZ: u64 = 997;
/// How often buffers are emptied at least.
const ROUND: Duration = Duration::from_millis(50);
/// How long a program may take to end after an interrupt.
const PATIENCE: Duration = Duration::from_secs(3);

/// How a recording ended.
enum Ended {
    /// The program ended by itself.
    Program(ExitStatus),
    /// The processes ended, the time was over, or there was an interrupt.
    Asked,
    /// Like `Asked`, but the program has not ended.
    RunsOn,
}

/// Records a program, processes or all CPUs to the directory `out`.
pub fn run(arguments: &Arguments, out: &Path) -> anyhow::Result<Code> {
    let made = create_directory(out, OTHER_OUT)?;
    let begun = Recording::begin(arguments, out, &made);
    let mut recording = begun.inspect_err(|_| made.undo())?;
    let ended = recording.follow();
    let event = recording.session.event();
    let may_lack_threads = recording.session.may_lack_threads();
    let (summary, child, written) = recording.finish();
    let kernel = (!summary.kernel.is_empty()).then(KernelSymbols::read);
    sampled::note(out, &summary, None, kernel.flatten());
    if let (Err(_), Some(mut child)) = (&ended, child) {
        // Nothing more can be recorded; what the program has to say goes to the same terminal.
        let _ = child.wait();
    }
    sampled::say(out, &summary, &event);
    if may_lack_threads {
        message!(
            "kymo: threads kept starting while the events were opened; some may not be sampled."
        );
    }
    if event.ends_with(":u") {
        message!(
            "kymo: only programs were sampled, not what the kernel did for them: {}; run as root, \
             or type `sysctl kernel.perf_event_paranoid=1`, to have both.",
            Paranoid::read()
        );
    }
    let (ended, ()) = (ended?, written?);
    sampled::show(out, &summary, arguments.flame.as_deref())?;
    Ok(code(&arguments.command, &ended))
}

/// A recording that goes on.
struct Recording {
    session: Session,
    writer: Writer,
    child: Option<Child>,
    /// The processes that live.
    processes: Vec<Process>,
    until: Option<Instant>,
    /// Whether the recording is of running processes, and ends with them.
    ends_with_processes: bool,
}

impl Recording {
    fn begin(
        arguments: &Arguments,
        out: &Path,
        made: &OutputDirectory,
    ) -> anyhow::Result<Recording> {
        watch_interrupts()?;
        check_processes(&arguments.pid)?;
        let command = held(&arguments.command)?;
        let whom = match &command {
            _ if arguments.all_cpus => Whom::AllCpus,
            Some(command) => Whom::Program(command.pid()),
            None => Whom::Processes(arguments.pid.clone()),
        };
        let pids = match (&whom, &command) {
            (Whom::Processes(pids), _) => pids.clone(),
            (_, command) => command.iter().map(HeldCommand::pid).collect(),
        };
        let ends_with_processes = matches!(whom, Whom::Processes(_));
        let hz = arguments.hz.unwrap_or(HZ);
        let mut session = Session::open(&Setup { whom, hz }).map_err(explain)?;
        let mut origin = session.origin();
        if let Some(name) = arguments.command.first() {
            let name = name.to_string_lossy().into_owned();
            origin.environment.push(("command", name));
        }
        let mut writer = Writer::create(out, &origin)?;
        let processes = pids.into_iter().filter_map(Process::of).collect();
        session.begin(&mut writer).map_err(explain)?;
        let child = command.map(HeldCommand::release).transpose();
        let child = child.map_err(|error| {
            // A trace without a program would be taken for a program that did nothing.
            let _ = fs::remove_file(out.join("metadata"));
            made.undo();
            not_started(&error)
        })?;
        Ok(Recording {
            session,
            writer,
            child,
            processes,
            until: arguments.duration.map(|duration| Instant::now() + duration),
            ends_with_processes,
        })
    }

    /// Records until the end.
    fn follow(&mut self) -> anyhow::Result<Ended> {
        // When patience ends with a program that was asked to end.
        let mut patience: Option<Instant> = None;
        loop {
            let processes = self.processes.iter().filter_map(Process::descriptor);
            let processes: Vec<BorrowedFd<'_>> = processes.collect();
            self.session.wait(&processes, ROUND).map_err(explain)?;
            self.session.round(&mut self.writer).map_err(explain)?;
            let status = self.child.as_mut().map(Child::try_wait).transpose();
            if let Some(status) = status.context("cannot wait for the program")?.flatten() {
                // ^C at a terminal goes to the program, too, and may come there first.
                let is_interrupt = status.signal() == Some(Signal::INT.as_raw());
                let was_ended = is_interrupt || patience.is_some() && status.signal().is_some();
                return Ok(if was_ended {
                    Ended::Asked
                } else {
                    Ended::Program(status)
                });
            }
            self.processes.retain(|process| !process.has_ended());
            if self.ends_with_processes && self.processes.is_empty() {
                return Ok(Ended::Asked);
            }
            let now = Instant::now();
            let is_over = self.until.is_some_and(|until| now >= until);
            let interrupted = was_interrupted();
            match (&self.child, patience) {
                (None, _) if interrupted || is_over => return Ok(Ended::Asked),
                (Some(_), Some(end)) if interrupted || now >= end => return Ok(Ended::RunsOn),
                (Some(child), None) if interrupted || is_over => {
                    ask_to_end(child, interrupted);
                    patience = Some(now + PATIENCE);
                }
                _ => {}
            }
        }
    }

    /// Writes the rest.
    fn finish(mut self) -> (Summary, Option<Child>, anyhow::Result<()>) {
        let ended = self.session.end(&mut self.writer).map_err(explain);
        let (summary, written) = self.writer.finish();
        (summary, self.child, ended.and(written.map_err(Into::into)))
    }
}

/// The program's process, which waits.
fn held(command: &[OsString]) -> anyhow::Result<Option<HeldCommand>> {
    let Some((program, arguments)) = command.split_first() else {
        return Ok(None);
    };
    let mut command = Command::new(program);
    command.args(arguments);
    let held = HeldCommand::new(command);
    Ok(Some(held.map_err(|error| not_started(&error))?))
}

fn not_started(error: &kymo_perf::Error) -> BadInput {
    BadInput(format!("{error}; give the path of a program"))
}

/// A process that is waited for.
enum Process {
    /// What can be read when it has ended.
    Descriptor(OwnedFd),
    /// Its number, where the system gives no descriptor: before Linux 5.3, and in some containers.
    Number(u32),
}

impl Process {
    /// `None` if it has ended.
    fn of(number: u32) -> Option<Process> {
        let pid = i32::try_from(number).ok().and_then(Pid::from_raw)?;
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(descriptor) => Some(Process::Descriptor(descriptor)),
            Err(Errno::SRCH) => None,
            Err(_) => Some(Process::Number(number)),
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Process::Descriptor(descriptor) => Some(descriptor.as_fd()),
            Process::Number(_) => None,
        }
    }

    fn has_ended(&self) -> bool {
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        match self {
            Process::Descriptor(descriptor) => {
                let mut ready = [PollFd::new(descriptor, PollFlags::IN)];
                poll(&mut ready, Some(&at_once)).is_ok_and(|ready| ready > 0)
            }
            Process::Number(number) => !Path::new(&format!("/proc/{number}")).exists(),
        }
    }
}

/// Refuses the number of a thread that is not its process' first.
fn check_processes(pids: &[u32]) -> anyhow::Result<()> {
    for pid in pids {
        // One that is not there is refused when it is opened.
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let process = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
        if let Some(process) = process.map(str::trim)
            && process != pid.to_string()
        {
            let sentence = format!("{pid} is a thread of process {process}: give -p {process}");
            return Err(Usage(sentence).into());
        }
    }
    Ok(())
}

/// At a terminal, ^C has gone to the program too, which may have its own use for it.
fn ask_to_end(child: &Child, interrupted: bool) {
    if interrupted && std::io::stdin().is_terminal() {
        return;
    }
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // It may have ended just now.
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// The error as a verb's: a command line that cannot be, or something that is missing here.
fn explain(error: kymo_linux::Error) -> anyhow::Error {
    use kymo_linux::Error;
    match error {
        Error::Write(error) => error.into(),
        Error::Perf(cause) if cause.kind() == std::io::ErrorKind::InvalidInput => {
            Usage(cause.to_string()).into()
        }
        error => error.into(),
    }
}

/// Says how the program ended, if not well.
fn code(command: &[OsString], ended: &Ended) -> Code {
    let name = command.first().map(|name| name.to_string_lossy());
    let name = name.as_deref().unwrap_or("the program");
    match ended {
        Ended::Program(status) if !status.success() => {
            match (status.signal(), status.code()) {
                (Some(signal), _) => message!("kymo: {name} was ended by signal {signal}."),
                (None, code) => message!(
                    "kymo: {name} ended with exit status {}.",
                    thousands(code.unwrap_or(1).unsigned_abs().into())
                ),
            }
            Code::Findings
        }
        Ended::RunsOn => {
            message!("kymo: {name} runs on, and is sampled no more.");
            Code::Ok
        }
        _ => Code::Ok,
    }
}
