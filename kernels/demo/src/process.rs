//! Processes: a space of their own, one thread each.

use kymo::vocabulary::{Address, Exception, Pid, ProcessExec, ProcessKill, ProcessStateDump};
use kymo::{NameEpoch, Text, Tid};

use crate::abi::{Error, status};
use crate::arch;
use crate::arch::context::enter_user;
use crate::arch::paging;
use crate::console::println;
use crate::lock::Spin;
use crate::program::Program;
use crate::sched::{SCHEDULER, settle};
use crate::space::{self, HEAP};
use crate::thread::{self, New, State};

/// Processes that there can be at once.
const PROCESSES: usize = 32;
/// Bytes of a command line at most.
pub const LINE: usize = 256;

/// A program's name and arguments.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    bytes: [u8; LINE],
    len: usize,
}

impl Line {
    /// No words.
    pub const fn new() -> Line {
        Line {
            bytes: [0; LINE],
            len: 0,
        }
    }

    /// With this text. An error where it is too long.
    pub fn of(text: &str) -> Result<Line, Error> {
        let mut line = Line::new();
        core::fmt::Write::write_str(&mut line, text).map_err(|_| Error::Invalid)?;
        Ok(line)
    }

    pub fn text(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.len]).expect("text was put in")
    }

    fn program(&self) -> Result<&'static Program, Error> {
        let name = self.text().split_ascii_whitespace().next().unwrap_or("");
        Program::named(name).ok_or(Error::Invalid)
    }
}

impl core::fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let place = self
            .bytes
            .get_mut(self.len..self.len + text.len())
            .ok_or(core::fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}

/// What is known of a process, besides its thread.
#[derive(Clone, Copy)]
pub struct Process {
    /// 0 where there has been none.
    pid: Pid,
    parent: Pid,
    /// How it has ended: known until the place is used again.
    status: Option<u8>,
    /// What it may do: bits of `abi::rights`.
    rights: usize,
    line: Line,
    pub program: &'static Program,
    /// The root of its space.
    pub root: usize,
    /// Where its heap ends.
    pub heap_end: usize,
}

struct Table {
    processes: [Option<Process>; PROCESSES],
    last_pid: u32,
}

/// Taken before the scheduler's lock, where both are.
static TABLE: Spin<Table> = Spin::new(Table {
    processes: [const { None }; PROCESSES],
    last_pid: 0,
});

impl Table {
    /// That process, if it lives.
    fn find(&mut self, pid: Pid) -> Option<&mut Process> {
        self.processes
            .iter_mut()
            .flatten()
            .find(|process| process.pid == pid && process.status.is_none())
    }

    /// A place for a new process: one that was never used, or that of who has ended first.
    fn free(&mut self) -> Option<&mut Option<Process>> {
        let is_free =
            |place: &&mut Option<Process>| place.is_none_or(|process| process.status.is_some());
        self.processes
            .iter_mut()
            .filter(is_free)
            .min_by_key(|place| place.map_or(0, |process| process.pid.0))
    }
}

/// Where a process begins a program: with which stack, and what for arguments.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    pub entry: usize,
    pub stack: usize,
    pub arguments: [usize; 2],
}

/// Makes a process that runs the program that the line begins with. Gives its id.
pub fn spawn(line: Line, prio: i16, rights: usize) -> Result<Pid, Error> {
    let program = line.program()?;
    let root = space::new(program)?;
    let made = make(line, program, root, prio, rights);
    if made.is_err() {
        space::free(root);
    }
    settle(SCHEDULER.lock());
    made
}

fn make(
    line: Line,
    program: &'static Program,
    root: usize,
    prio: i16,
    rights: usize,
) -> Result<Pid, Error> {
    let mut table = TABLE.lock();
    let pid = Pid(table.last_pid + 1);
    let place = table.free().ok_or(Error::Full)?;
    let mut scheduler = SCHEDULER.lock();
    let parent = scheduler.running().pid;
    let new = New {
        name: program.name,
        pid,
        prio,
        space: root,
        entry: begin,
        argument: 0,
    };
    scheduler.create(new).ok_or(Error::Full)?;
    *place = Some(Process {
        pid,
        parent,
        status: None,
        rights,
        line,
        program,
        root,
        heap_end: HEAP,
    });
    table.last_pid = pid.0;
    Ok(pid)
}

/// The running process and its thread's tid.
fn running() -> (Pid, Tid) {
    let scheduler = SCHEDULER.lock();
    (scheduler.running().pid, scheduler.running().tid)
}

/// What is known of the running process.
pub fn with_running<T>(look: impl FnOnce(&mut Process) -> T) -> Result<T, Error> {
    let (pid, _) = running();
    TABLE.lock().find(pid).map(look).ok_or(Error::NoProcess)
}

/// What the running process may do; the kernel itself may do everything.
pub fn rights() -> usize {
    with_running(|process| process.rights).unwrap_or(usize::MAX)
}

/// What the thread of a new process does first.
fn begin(_: usize) {
    arch::mask();
    let start =
        load().unwrap_or_else(|error| give_up(format_args!("its stack cannot be had, {error:?}")));
    let top = thread::stack_top(SCHEDULER.lock().running_slot());
    // SAFETY: interrupts are masked, and it is this thread's stack.
    unsafe { enter_user(top, start) };
}

/// Puts the command line where the running process's program finds it: at the end of its stack.
fn load() -> Result<Start, Error> {
    let (pid, tid) = running();
    let (program, line) = with_running(|process| (process.program, process.line))?;
    record!(ProcessExec {
        pid,
        tid,
        filename: Text::new(program.name)
    });
    let text = line.text().as_bytes();
    let stack = (space::STACK_TOP - text.len()) & !15;
    space::copy_to_user(stack, text)?;
    Ok(Start {
        entry: program.entry(),
        stack,
        arguments: [stack, text.len()],
    })
}

/// The running process begins another program, in a new space.
pub fn exec(line: Line) -> Result<Start, Error> {
    let program = line.program()?;
    let root = space::new(program)?;
    let old = with_running(|process| {
        (process.line, process.program, process.heap_end) = (line, program, HEAP);
        core::mem::replace(&mut process.root, root)
    })?;
    move_to(root);
    space::free(old);
    {
        let mut scheduler = SCHEDULER.lock();
        let thread = scheduler.running_mut();
        (thread.name, thread.named, thread.process_named) =
            (program.name, NameEpoch::new(), NameEpoch::new());
        scheduler.tell_names(scheduler.running_slot());
    }
    load()
}

/// The running thread is in this space from here on.
fn move_to(root: usize) {
    let mut scheduler = SCHEDULER.lock();
    scheduler.running_mut().space = root;
    // SAFETY: the kernel's space, or one that was made for this process just now.
    unsafe { paging::activate(root) };
}

/// Ends the running process.
pub fn exit(status: u8) -> ! {
    move_to(paging::kernel_space());
    let root = with_running(|process| {
        process.status = Some(status);
        process.root
    });
    space::free(root.expect("a process runs"));
    thread::exit()
}

/// Has a process end as soon as it would go back to its program.
pub fn kill(pid: Pid) -> Result<(), Error> {
    let mut scheduler = SCHEDULER.lock();
    let is_its = |thread: &thread::Thread| {
        thread.state != State::Free && thread.pid == pid && !thread.killed
    };
    let slot = scheduler
        .threads
        .iter()
        .position(is_its)
        .filter(|_| pid != Pid(0))
        .ok_or(Error::NoProcess)?;
    let killer_tid = scheduler.running().tid;
    [slot, scheduler.running_slot()]
        .into_iter()
        .for_each(|slot| scheduler.tell_names(slot));
    record!(ProcessKill { pid, killer_tid });
    scheduler.kill(slot);
    settle(scheduler);
    Ok(())
}

/// The running process cannot go on.
pub fn give_up(why: core::fmt::Arguments<'_>) -> ! {
    let (pid, _) = running();
    println!("demo: process {} is ended: {why}", pid.0);
    record!(ProcessKill {
        pid,
        killer_tid: Tid(0)
    });
    exit(status::FAULT)
}

/// The running process goes back to its program from here: unless it was killed.
pub fn leave() {
    if is_killed() {
        exit(status::KILLED);
    }
}

/// Whether the running process is to end.
pub fn is_killed() -> bool {
    SCHEDULER.lock().running().killed
}

/// Whether a process lives.
pub fn is_alive(pid: Pid) -> bool {
    TABLE.lock().find(pid).is_some()
}

/// Waits until a process has ended. Gives its status, which is known until there are many newer
/// processes.
pub fn wait(pid: Pid) -> Result<u8, Error> {
    let tid = {
        let scheduler = SCHEDULER.lock();
        let is_its = |thread: &&thread::Thread| {
            thread.state != State::Free && thread.pid == pid && pid != Pid(0)
        };
        scheduler
            .threads
            .iter()
            .find(is_its)
            .map(|thread| thread.tid)
    };
    if let Some(tid) = tid {
        thread::join(tid);
    }
    let table = TABLE.lock();
    let process = table
        .processes
        .iter()
        .flatten()
        .find(|process| process.pid == pid);
    process
        .and_then(|process| process.status)
        .ok_or(Error::NoProcess)
}

/// A program did something that cannot be done, and is no page fault.
pub fn exception(cause: u32, ip: usize, value: usize) -> ! {
    record!(Exception {
        cause,
        ip: Address(ip as u64),
        value: value as u64
    });
    give_up(format_args!("exception {cause} at {ip:#x}"))
}

/// Tells of every process that lives.
pub fn dump_state() {
    let table = TABLE.lock();
    for process in table
        .processes
        .iter()
        .flatten()
        .filter(|process| process.status.is_none())
    {
        let (pid, parent_pid, name) = (process.pid, process.parent, process.program.name);
        record!(ProcessStateDump {
            pid,
            parent_pid,
            name: Text::new(name)
        });
    }
}
