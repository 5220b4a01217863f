//! System calls. Numbers, arguments and errors are those of abi.rs.

use kymo::count::Software;
use kymo::vocabulary::{
    Counter, Mark, Pid, SpanBegin, SpanEnd, Syscall, SyscallEnter, SyscallExit, SyscallName,
};
use kymo::{NameEpoch, Text, Tid, count};

use crate::abi::{Call, Error, Kind};
use crate::console::println;
use crate::counters::SystemCalls;
use crate::process::{self, LINE, Line, Start};
use crate::sched::SCHEDULER;
use crate::workload::{bench, known};
use crate::{arch, counting, ipc, perf, port, run, space, thread};

/// Most bytes that a call moves, except for the calls `port_` and `perf_`.
const BUFFER: usize = 256;
const _: () = assert!(LINE <= BUFFER);

/// The priority of processes.
pub const PRIO: i16 = 5;

/// The outcome of a call.
#[derive(Clone, Copy, Debug)]
pub enum Outcome {
    /// The program continues with this value; a negative one is an error.
    Value(i64),
    /// Another program starts.
    Start(Start),
}

/// Name epoch in which each call was last named.
static NAMED: [NameEpoch; Call::ALL.len()] = [const { NameEpoch::new() }; Call::ALL.len()];

/// Runs a call of the running process, with interrupts masked.
pub fn call(number: usize, arguments: [usize; 5]) -> Outcome {
    let id = Syscall(u32::try_from(number).unwrap_or(u32::MAX));
    let call = Call::ALL.get(number).ok_or(Error::NoCall);
    name(id, call);
    count!(SystemCalls);
    record!(SyscallEnter {
        id,
        arg0: arguments[0] as u64
    });
    counting::happened(Software::SystemCalls, false);
    let value = match call.and_then(|&call| perform(call, arguments)) {
        Ok(Outcome::Value(value)) => value,
        Ok(start) => return start,
        Err(error) => -(error as i64),
    };
    // A process that was killed meanwhile does not return.
    process::leave();
    // A session may have begun meanwhile.
    name(id, call);
    record!(SyscallExit { id, ret: value });
    Outcome::Value(value)
}

/// Records the name of an existing call, once in each name epoch.
fn name(id: Syscall, call: Result<&Call, Error>) {
    if let (Ok(call), Some(named)) = (call, NAMED.get(id.0 as usize)) {
        name!(
            named,
            SyscallName {
                id,
                name: Text::new(call.name())
            }
        );
    }
}

fn perform(call: Call, [a, b, c, d, e]: [usize; 5]) -> Result<Outcome, Error> {
    let pid = || u32::try_from(a).map(Pid).map_err(|_| Error::NoProcess);
    let id = a as u32;
    let value = match call {
        Call::Exit => process::exit(a as u8),
        Call::Getpid => i64::from(SCHEDULER.lock().running().pid.0),
        Call::Yield => {
            thread::yield_now();
            0
        }
        Call::Sleep => {
            thread::sleep(a as u64);
            0
        }
        Call::Write => write(a, b)?,
        Call::Spawn => i64::from(process::spawn(line(a, b)?, PRIO, c & process::rights())?.0),
        Call::Exec => return process::exec(line(a, b)?).map(Outcome::Start),
        Call::Kill => process::kill(pid()?).map(|()| 0)?,
        Call::Wait => process::wait(pid()?)?.into(),
        Call::Map => space::map(a)? as i64,
        Call::Mark => {
            record!(Mark {
                id,
                value: b as u64
            });
            bench::mark();
            0
        }
        Call::SpanBegin => {
            record!(SpanBegin { id });
            0
        }
        Call::SpanEnd => {
            record!(SpanEnd { id });
            0
        }
        Call::Counter => {
            record!(Counter {
                id,
                value: b as i64
            });
            0
        }
        Call::Send => ipc::send(a, b as u64).map(|()| 0)?,
        Call::Receive => ipc::receive(a)? as i64,
        Call::PipeWrite => {
            let mut buffer = [0; BUFFER];
            let bytes = buffer.get_mut(..c).ok_or(Error::Invalid)?;
            space::copy_from_user(b, bytes)?;
            ipc::write(a, bytes)? as i64
        }
        Call::PipeRead => {
            let mut buffer = [0; BUFFER];
            let bytes = buffer.get_mut(..c).ok_or(Error::Invalid)?;
            // First, because data read from a pipe cannot be put back.
            space::touch(b, c)?;
            let read = ipc::read(a, bytes)?;
            space::copy_to_user(b, &bytes[..read])?;
            read as i64
        }
        Call::Time => arch::timer::time() as i64,
        Call::Poll => i64::from(match Kind::of(b).ok_or(Error::Invalid)? {
            Kind::Process => process::is_alive(pid()?),
            Kind::Thread => thread::is_alive(Tid(id)),
        }),
        Call::Workload => with_text(a, b, run::start_workload)?.0.into(),
        Call::PortWrite => port::write(a, b)?,
        Call::PortRead => port::read(a, b)?,
        Call::PerfStart => perf::start(a, b, c, (d, e))?,
        Call::PerfRead => perf::read(a, b, c, d)?,
        Call::PerfStop => perf::stop(a)?,
        Call::PerfFinish => perf::finish(a, b)?,
        Call::PerfSwitch => perf::switch(a, (b, c), d != 0)?,
        Call::PerfStatus => perf::status(a)?,
        Call::PerfDump => perf::dump(a)?,
        Call::Work => {
            known::work(a != 0);
            0
        }
        Call::PerfClear => perf::clear()?,
    };
    Ok(Outcome::Value(value))
}

/// Calls `use_it` with a program's text of at most [`BUFFER`] bytes.
pub fn with_text<T>(
    address: usize,
    len: usize,
    use_it: impl FnOnce(&str) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut buffer = [0; BUFFER];
    let bytes = buffer.get_mut(..len).ok_or(Error::Invalid)?;
    space::copy_from_user(address, bytes)?;
    use_it(core::str::from_utf8(bytes).map_err(|_| Error::Invalid)?)
}

fn line(address: usize, len: usize) -> Result<Line, Error> {
    with_text(address, len, Line::of)
}

/// Prints a text, and gives the number of printed bytes.
fn write(address: usize, len: usize) -> Result<i64, Error> {
    with_text(address, len, |text| {
        println!("{}", text.trim_end_matches('\n'));
        Ok(len as i64)
    })
}
