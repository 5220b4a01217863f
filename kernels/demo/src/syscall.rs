//! System calls: what programs can ask for.

use kymo::Text;
use kymo::vocabulary::{Counter, Mark, Pid, SpanBegin, SpanEnd, Syscall, SyscallEnter, SyscallExit, SyscallName};

use crate::console::println;
use crate::process::{self, Error, Start};
use crate::sched::SCHEDULER;
use crate::{ipc, thread};

/// By number.
const NAMES: [&str; 18] = [
    "exit",
    "getpid",
    "yield",
    "sleep",
    "write",
    "spawn",
    "exec",
    "kill",
    "wait",
    "map",
    "mark",
    "span_begin",
    "span_end",
    "counter",
    "send",
    "receive",
    "pipe_write",
    "pipe_read",
];

/// Bytes that a call moves at most.
const BUFFER: usize = 128;

/// The priority of processes.
pub const PRIO: i16 = 5;

/// How a call ends.
#[derive(Clone, Copy, Debug)]
pub enum Outcome {
    /// The program goes on with this value; a negative one is an error.
    Value(i64),
    /// Another program begins.
    Start(Start),
}

/// Tells the calls' names.
pub fn tell_names() {
    for (id, name) in (0..).zip(NAMES) {
        record!(SyscallName { id: Syscall(id), name: Text::new(name) });
    }
}

/// Does what the running process asks for, with interrupts masked.
pub fn call(number: usize, arguments: [usize; 3]) -> Outcome {
    let id = Syscall(u32::try_from(number).unwrap_or(u32::MAX));
    record!(SyscallEnter { id, arg0: arguments[0] as u64 });
    let value = match perform(number, arguments) {
        Ok(Outcome::Value(value)) => value,
        Ok(start) => return start,
        Err(error) => -(error as i64),
    };
    // One that was killed meanwhile does not come back.
    process::leave();
    record!(SyscallExit { id, ret: value });
    Outcome::Value(value)
}

fn perform(number: usize, [a, b, c]: [usize; 3]) -> Result<Outcome, Error> {
    let pid = || u32::try_from(a).map(Pid).map_err(|_| Error::NoProcess);
    let id = a as u32;
    let value = match number {
        0 => process::exit(),
        1 => i64::from(SCHEDULER.lock().running().pid.0),
        2 => {
            thread::yield_now();
            0
        }
        3 => {
            thread::sleep(a as u64);
            0
        }
        4 => write(a, b)?,
        5 => i64::from(process::spawn(a, b, PRIO)?.0.0),
        6 => return process::exec(a, b).map(Outcome::Start),
        7 => process::kill(pid()?).map(|()| 0)?,
        8 => process::wait(pid()?).map(|()| 0)?,
        9 => process::map(a)? as i64,
        10 => {
            record!(Mark { id, value: b as u64 });
            0
        }
        11 => {
            record!(SpanBegin { id });
            0
        }
        12 => {
            record!(SpanEnd { id });
            0
        }
        13 => {
            record!(Counter { id, value: b as i64 });
            0
        }
        14 => ipc::send(a, b as u64).map(|()| 0)?,
        15 => ipc::receive(a)? as i64,
        16 => {
            let mut buffer = [0; BUFFER];
            let bytes = buffer.get_mut(..c).ok_or(Error::Invalid)?;
            process::copy_from_user(b, bytes)?;
            ipc::write(a, bytes)? as i64
        }
        17 => {
            let mut buffer = [0; BUFFER];
            let bytes = buffer.get_mut(..c).ok_or(Error::Invalid)?;
            let read = ipc::read(a, bytes)?;
            process::copy_to_user(b, &bytes[..read])?;
            read as i64
        }
        _ => return Err(Error::NoCall),
    };
    Ok(Outcome::Value(value))
}

/// Prints a text of at most [`BUFFER`] bytes. Gives how many were printed.
fn write(address: usize, len: usize) -> Result<i64, Error> {
    let mut buffer = [0; BUFFER];
    let bytes = buffer.get_mut(..len).ok_or(Error::Invalid)?;
    process::copy_from_user(address, bytes)?;
    let text = core::str::from_utf8(bytes).map_err(|_| Error::Invalid)?;
    println!("{}", text.trim_end_matches(['\n', '\0']));
    Ok(len as i64)
}
