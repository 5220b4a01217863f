//! Processes: a space of their own, one thread each, pages as they are touched.

use kymo::vocabulary::{Address, Exception, FaultCause, PageFault, Pid, ProcessExec, ProcessKill, ProcessName};
use kymo::{Text, Tid};

use crate::arch::context::enter_user;
use crate::arch::paging::{self, Access, PAGE, USER};
use crate::arch::{self, user};
use crate::console::println;
use crate::frame;
use crate::lock::Spin;
use crate::sched::{SCHEDULER, settle};
use crate::thread::{self, New, State};

/// Processes that there can be at once.
const PROCESSES: usize = 32;
/// What a process may map, and how far its stack may grow.
const HEAP: usize = USER.start + (256 << 20);
const HEAP_LIMIT: usize = HEAP + (64 << 20);
const STACK: usize = 64 << 10;

/// What is known of a process, besides its thread.
#[derive(Clone, Copy, Debug)]
struct Process {
    /// 0 where there is none.
    pid: Pid,
    /// The root of its space.
    root: usize,
    /// Where its heap ends.
    heap_end: usize,
}

struct Table {
    processes: [Process; PROCESSES],
    last_pid: u32,
}

/// Taken before the scheduler's lock, where both are.
static TABLE: Spin<Table> =
    Spin::new(Table { processes: [Process { pid: Pid(0), root: 0, heap_end: HEAP }; PROCESSES], last_pid: 0 });

impl Table {
    fn find(&mut self, pid: Pid) -> Option<&mut Process> {
        self.processes.iter_mut().find(|process| process.pid == pid)
    }
}

/// Why something cannot be done: the numbers that user programs get, negated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i64)]
pub enum Error {
    /// EINTR
    Interrupted = 4,
    /// ESRCH
    NoProcess = 3,
    /// EAGAIN
    Full = 11,
    /// ENOMEM
    NoMemory = 12,
    /// EFAULT
    Fault = 14,
    /// EINVAL
    Invalid = 22,
    /// ENOSYS
    NoCall = 38,
}

/// Where a process begins a program, with which stack and argument.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    pub entry: usize,
    pub stack: usize,
    pub argument: usize,
}

/// A space with the programs' code in it.
fn new_space() -> Option<usize> {
    let root = frame::alloc_zeroed()?;
    // SAFETY: the frame is new.
    unsafe { paging::new_space(root) };
    for (page, frame) in USER.step_by(PAGE).zip(user::code()) {
        // SAFETY: no hart sees the space yet.
        if unsafe { paging::map(root, page, frame, Access::ReadExecute, frame::alloc_zeroed) }.is_none() {
            free_space(root);
            return None;
        }
    }
    Some(root)
}

/// Gives back all of a space that no hart sees.
fn free_space(root: usize) {
    // SAFETY: no hart sees it.
    unsafe { paging::dismantle(root, |frame| frame::free(frame, 0)) };
}

/// The program and its argument, as the one word that a new thread gets.
fn pack(program: usize, argument: usize) -> usize {
    argument << 8 | program
}

/// Makes a process that runs a program. Gives its id and that of its thread.
pub fn spawn(program: usize, argument: usize, prio: i16) -> Result<(Pid, Tid), Error> {
    let (name, _) = user::program(program).ok_or(Error::Invalid)?;
    let root = new_space().ok_or(Error::NoMemory)?;
    let mut table = TABLE.lock();
    let pid = Pid(table.last_pid + 1);
    let Some(process) = table.find(Pid(0)) else {
        drop(table);
        free_space(root);
        return Err(Error::Full);
    };
    *process = Process { pid, root, heap_end: HEAP };
    let mut scheduler = SCHEDULER.lock();
    record!(ProcessName { pid, name: Text::new(name) });
    let new = New { name, pid, prio, space: root, entry: begin, argument: pack(program, argument) };
    let Some(tid) = scheduler.create(new) else {
        process.pid = Pid(0);
        drop(scheduler);
        drop(table);
        free_space(root);
        return Err(Error::Full);
    };
    table.last_pid = pid.0;
    drop(scheduler);
    drop(table);
    settle(SCHEDULER.lock());
    Ok((pid, tid))
}

/// The running process and its thread's tid.
fn running() -> (Pid, Tid) {
    let scheduler = SCHEDULER.lock();
    (scheduler.running().pid, scheduler.running().tid)
}

/// What the thread of a new process does first.
fn begin(packed: usize) {
    let (program, argument) = (packed & 0xFF, packed >> 8);
    arch::mask();
    let (pid, tid) = running();
    let (name, entry) = user::program(program).expect("the program was there");
    record!(ProcessExec { pid, tid, filename: Text::new(name) });
    let top = thread::stack_top(SCHEDULER.lock().running_slot());
    // SAFETY: interrupts are masked, and it is this thread's stack.
    unsafe { enter_user(top, entry, USER.end, argument) };
}

/// The running process begins another program, in a new space.
pub fn exec(program: usize, argument: usize) -> Result<Start, Error> {
    let (name, entry) = user::program(program).ok_or(Error::Invalid)?;
    let root = new_space().ok_or(Error::NoMemory)?;
    let (pid, tid) = running();
    let old = {
        let mut table = TABLE.lock();
        let process = table.find(pid).ok_or(Error::NoProcess)?;
        process.heap_end = HEAP;
        core::mem::replace(&mut process.root, root)
    };
    move_to(root);
    free_space(old);
    SCHEDULER.lock().running_mut().name = name;
    record!(ProcessName { pid, name: Text::new(name) });
    record!(ProcessExec { pid, tid, filename: Text::new(name) });
    Ok(Start { entry, stack: USER.end, argument })
}

/// The running thread is in this space from here on.
fn move_to(root: usize) {
    let mut scheduler = SCHEDULER.lock();
    scheduler.running_mut().space = root;
    // SAFETY: the kernel's space, or one that was made for this process just now.
    unsafe { paging::activate(root) };
}

/// Ends the running process.
pub fn exit() -> ! {
    let (pid, _) = running();
    move_to(paging::kernel_space());
    let root = {
        let mut table = TABLE.lock();
        let process = table.find(pid).expect("a process runs");
        process.pid = Pid(0);
        process.root
    };
    free_space(root);
    thread::exit()
}

/// Has a process end as soon as it would go back to its program.
pub fn kill(pid: Pid) -> Result<(), Error> {
    let mut scheduler = SCHEDULER.lock();
    let is_its = |thread: &thread::Thread| thread.state != State::Free && thread.pid == pid && !thread.killed;
    let slot = scheduler.threads.iter().position(is_its).filter(|_| pid != Pid(0)).ok_or(Error::NoProcess)?;
    let killer_tid = scheduler.running().tid;
    record!(ProcessKill { pid, killer_tid });
    scheduler.kill(slot);
    settle(scheduler);
    Ok(())
}

/// The running process cannot go on.
fn give_up(why: core::fmt::Arguments<'_>) -> ! {
    let (pid, _) = running();
    println!("demo: process {} is ended: {why}", pid.0);
    record!(ProcessKill { pid, killer_tid: Tid(0) });
    exit()
}

/// The running process goes back to its program from here: unless it was killed.
pub fn leave() {
    if SCHEDULER.lock().running().killed {
        exit();
    }
}

/// Waits until a process has ended; ids are not used again, so it may have ended long ago.
pub fn wait(pid: Pid) -> Result<(), Error> {
    if pid == Pid(0) || pid.0 > TABLE.lock().last_pid {
        return Err(Error::NoProcess);
    }
    let tid = {
        let scheduler = SCHEDULER.lock();
        scheduler.threads.iter().find(|thread| thread.state != State::Free && thread.pid == pid).map(|thread| thread.tid)
    };
    if let Some(tid) = tid {
        thread::join(tid);
    }
    Ok(())
}

/// Makes the running process's heap larger by so many pages, which come when they are touched. Gives where they begin.
pub fn map(pages: usize) -> Result<usize, Error> {
    let (pid, _) = running();
    let mut table = TABLE.lock();
    let process = table.find(pid).ok_or(Error::NoProcess)?;
    let (begin, size) = (process.heap_end, pages.checked_mul(PAGE).ok_or(Error::NoMemory)?);
    let end = begin.checked_add(size).filter(|&end| end <= HEAP_LIMIT).ok_or(Error::NoMemory)?;
    process.heap_end = end;
    Ok(begin)
}

/// The frame behind an address of the running process, which gets one now if it is to have one there.
fn frame_of(address: usize, write: bool) -> Result<usize, Error> {
    let (pid, _) = running();
    let mut table = TABLE.lock();
    let process = table.find(pid).ok_or(Error::NoProcess)?;
    if !USER.contains(&address) {
        return Err(Error::Fault);
    }
    let (root, page) = (process.root, address / PAGE * PAGE);
    // SAFETY: the running process's space.
    match unsafe { paging::translate(root, page) } {
        Some((frame, writable)) => (writable || !write).then_some(frame).ok_or(Error::Fault),
        None if (HEAP..process.heap_end).contains(&address) || address >= USER.end - STACK => {
            let frame = frame::alloc_zeroed().ok_or(Error::NoMemory)?;
            // SAFETY: as above; a process runs on one hart at a time.
            let mapped = unsafe { paging::map(root, page, frame, Access::ReadWrite, frame::alloc_zeroed) };
            if mapped.is_none() {
                frame::free(frame, 0);
                return Err(Error::NoMemory);
            }
            Ok(frame)
        }
        None => Err(Error::Fault),
    }
}

/// The bytes at an address of the running process, into `to`.
pub fn copy_from_user(address: usize, to: &mut [u8]) -> Result<(), Error> {
    for (at, byte) in to.iter_mut().enumerate() {
        let address = address.checked_add(at).ok_or(Error::Fault)?;
        let frame = frame_of(address, false)?;
        // SAFETY: the frame belongs to the running process, and memory is mapped where it is.
        *byte = unsafe { ((frame + address % PAGE) as *const u8).read_volatile() };
    }
    Ok(())
}

/// Bytes to an address of the running process.
pub fn copy_to_user(address: usize, from: &[u8]) -> Result<(), Error> {
    for (at, byte) in from.iter().enumerate() {
        let address = address.checked_add(at).ok_or(Error::Fault)?;
        let frame = frame_of(address, true)?;
        // SAFETY: as in `copy_from_user`; the page is writable.
        unsafe { ((frame + address % PAGE) as *mut u8).write_volatile(*byte) };
    }
    Ok(())
}

/// A program touched a page that is not there, or not for what it tried.
pub fn fault(address: usize, ip: usize, cause: FaultCause) {
    record!(PageFault { address: Address(address as u64), ip: Address(ip as u64), cause, user: true });
    let allowed = match cause {
        // All code is there from the start.
        FaultCause::Fetch => Err(Error::Fault),
        FaultCause::Load => frame_of(address, false),
        FaultCause::Store => frame_of(address, true),
    };
    if let Err(error) = allowed {
        give_up(format_args!("{cause:?} at {address:#x} by {ip:#x}, {error:?}"));
    }
}

/// A program did something else that cannot be done.
pub fn exception(cause: u32, ip: usize, value: usize) -> ! {
    record!(Exception { cause, ip: Address(ip as u64), value: value as u64 });
    give_up(format_args!("exception {cause} at {ip:#x}"))
}
