//! Processes, each with an address space and one thread.

use kymo::vocabulary::{
    Address, Exception, Pid, ProcessExec, ProcessExit, ProcessFork, ProcessKill, ProcessStateDump,
};
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

/// Most processes at a time.
const PROCESSES: usize = 32;
/// Most bytes of a command line.
pub const LINE: usize = 256;

/// A program's name and arguments.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    bytes: [u8; LINE],
    len: usize,
}

impl Line {
    /// The empty line.
    pub const fn new() -> Line {
        Line {
            bytes: [0; LINE],
            len: 0,
        }
    }

    /// The line with this text. An error if it is too long.
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

/// A process, except its thread.
#[derive(Clone, Copy)]
pub struct Process {
    /// 0 in an unused slot.
    pid: Pid,
    parent: Pid,
    /// Its exit status, until the slot is reused.
    status: Option<u8>,
    /// Its rights: bits of `abi::rights`.
    rights: usize,
    line: Line,
    pub program: &'static Program,
    /// The root of its address space.
    pub root: usize,
    /// End address of its heap.
    pub heap_end: usize,
}

struct Table {
    processes: [Option<Process>; PROCESSES],
    last_pid: u32,
}

/// Taken before the scheduler's lock if both are needed.
static TABLE: Spin<Table> = Spin::new(Table {
    processes: [const { None }; PROCESSES],
    last_pid: 0,
});

impl Table {
    /// The process, if it lives.
    fn find(&mut self, pid: Pid) -> Option<&mut Process> {
        self.processes
            .iter_mut()
            .flatten()
            .find(|process| process.pid == pid && process.status.is_none())
    }

    /// A slot for a new process: an unused one, or that of the process that ended first.
    fn free(&mut self) -> Option<&mut Option<Process>> {
        let is_free =
            |place: &&mut Option<Process>| place.is_none_or(|process| process.status.is_some());
        self.processes
            .iter_mut()
            .filter(is_free)
            .min_by_key(|place| place.map_or(0, |process| process.pid.0))
    }
}

/// Start of a program: entry, stack and arguments.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    pub entry: usize,
    pub stack: usize,
    pub arguments: [usize; 2],
}

/// Creates a process for the program at the beginning of the line, and gives its id.
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
    let (parent_tid, parent) = (scheduler.running().tid, scheduler.running().pid);
    let new = New {
        name: program.name,
        pid,
        prio,
        space: root,
        entry: begin,
        argument: 0,
    };
    let child_tid = scheduler.create(new).ok_or(Error::Full)?;
    record!(ProcessFork {
        parent_tid,
        parent_pid: parent,
        child_tid,
        child_pid: pid
    });
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

/// The running process.
pub fn with_running<T>(look: impl FnOnce(&mut Process) -> T) -> Result<T, Error> {
    let (pid, _) = running();
    TABLE.lock().find(pid).map(look).ok_or(Error::NoProcess)
}

/// The rights of the running process; the kernel itself has all.
pub fn rights() -> usize {
    with_running(|process| process.rights).unwrap_or(usize::MAX)
}

/// Entry of a new process's thread.
fn begin(_: usize) {
    arch::mask();
    let start =
        load().unwrap_or_else(|error| give_up(format_args!("its stack cannot be had, {error:?}")));
    let top = thread::stack_top(SCHEDULER.lock().running_slot());
    // SAFETY: interrupts are masked, and the stack is this thread's.
    unsafe { enter_user(top, start) };
}

/// Copies the command line to the end of the running process's stack.
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

/// Starts another program in the running process, in a new address space.
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

/// Switches the running thread to this address space.
fn move_to(root: usize) {
    let mut scheduler = SCHEDULER.lock();
    scheduler.running_mut().space = root;
    // SAFETY: the kernel's space, or one created for this process just now.
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
    {
        let scheduler = SCHEDULER.lock();
        scheduler.tell_names(scheduler.running_slot());
        record!(ProcessExit {
            tid: scheduler.running().tid,
            pid: scheduler.running().pid,
            status: i32::from(status)
        });
    }
    thread::exit()
}

/// Kills a process: it ends when it would return to its program.
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

/// Ends the running process after a fault.
pub fn give_up(why: core::fmt::Arguments<'_>) -> ! {
    let (pid, _) = running();
    println!("demo: process {} is ended: {why}", pid.0);
    record!(ProcessKill {
        pid,
        killer_tid: Tid(0)
    });
    exit(status::FAULT)
}

/// Called before the running process returns to its program: ends it if it was killed.
pub fn leave() {
    if is_killed() {
        exit(status::KILLED);
    }
}

/// Whether the running process was killed.
pub fn is_killed() -> bool {
    SCHEDULER.lock().running().killed
}

/// Whether a process lives.
pub fn is_alive(pid: Pid) -> bool {
    TABLE.lock().find(pid).is_some()
}

/// Waits until a process has ended, and gives its status, which is kept until many newer processes
/// exist.
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

/// Handles an exception of a program other than a page fault.
pub fn exception(cause: u32, ip: usize, value: usize) -> ! {
    record!(Exception {
        cause,
        ip: Address(ip as u64),
        value: value as u64
    });
    give_up(format_args!("exception {cause} at {ip:#x}"))
}

/// Records every living process.
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
