//! The process table, and the switch between a process and its hart's scheduler.
//!
//! One lock guards the table. It is held across each switch: who switches away takes it, and who
//! is switched to releases it.

use core::cell::UnsafeCell;

use kymo::vocabulary::{
    Cpu, Pid, ProcessExit, ProcessFork, ProcessKill, SchedSwitch, SchedWakeup, SchedWakeupNew,
    SwitchReason, ThreadName, ThreadState,
};
use kymo::{NameEpoch, Text, Tid, trace, trace_masked};

use crate::Kymo;
use crate::cpu::{self, Context};
use crate::spin_lock::{SpinGuard, SpinLock};

const MAX_PROCESSES: usize = 32;
const STACK_SIZE: usize = 16 * 1024;

/// The first process, which inherits the children of those that end.
const SHELL: usize = 0;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    Unused,
    Sleeping,
    Runnable,
    Running,
    Zombie,
}

#[derive(Clone, Copy)]
pub struct Process {
    pub pid: u32,
    pub name: &'static str,
    pub state: State,
    /// What it sleeps on: an address that sleeper and waker agree on.
    channel: usize,
    parent: usize,
    killed: bool,
    status: i32,
    body: fn(usize) -> i32,
    argument: usize,
}

const UNUSED: Process = Process {
    pid: 0,
    name: "",
    state: State::Unused,
    channel: 0,
    parent: SHELL,
    killed: false,
    status: 0,
    body: |_| 0,
    argument: 0,
};

pub struct Table {
    processes: [Process; MAX_PROCESSES],
    /// When each process's name was last recorded.
    named: [NameEpoch; MAX_PROCESSES],
    last_pid: u32,
}

static TABLE: SpinLock<Table> = SpinLock::new(
    "process table",
    Table {
        processes: [UNUSED; MAX_PROCESSES],
        named: [const { NameEpoch::new() }; MAX_PROCESSES],
        last_pid: 0,
    },
);

#[repr(C, align(16))]
struct Stack(UnsafeCell<[u8; STACK_SIZE]>);

// SAFETY: a stack is touched only by its process, through `sp`.
unsafe impl Sync for Stack {}

static STACKS: [Stack; MAX_PROCESSES] =
    [const { Stack(UnsafeCell::new([0; STACK_SIZE])) }; MAX_PROCESSES];

struct Contexts([UnsafeCell<Context>; MAX_PROCESSES]);

// SAFETY: contexts are touched only while the table is locked.
unsafe impl Sync for Contexts {}

static CONTEXTS: Contexts = Contexts([const { UnsafeCell::new(Context::new()) }; MAX_PROCESSES]);

unsafe extern "C" {
    fn switch_context(from: *mut Context, to: *const Context);
}

/// Creates a process that runs `body(argument)` and ends with its result. `None` if the table is
/// full.
pub fn spawn(name: &'static str, body: fn(usize) -> i32, argument: usize) -> Option<u32> {
    let parent = cpu::process().unwrap_or(SHELL);
    let mut table = TABLE.lock();
    let index = table
        .processes
        .iter()
        .position(|process| process.state == State::Unused)?;
    table.last_pid += 1;
    let pid = table.last_pid;
    table.processes[index] = Process {
        pid,
        name,
        state: State::Runnable,
        parent,
        body,
        argument,
        ..UNUSED
    };
    table.named[index] = NameEpoch::new();
    // SAFETY: the table is locked, and no hart runs on this slot's stack.
    unsafe {
        *CONTEXTS.0[index].get() = Context::new();
        (*CONTEXTS.0[index].get()).return_address = first_run as *const () as usize;
        (*CONTEXTS.0[index].get()).stack = STACKS[index].0.get().addr() + STACK_SIZE;
    }
    let parent_tid = running_tid(&table);
    // SAFETY: the table's lock keeps interrupts masked.
    unsafe {
        trace_masked!(ProcessFork {
            parent_tid,
            parent_pid: Pid(parent_tid.0),
            child_tid: Tid(pid),
            child_pid: Pid(pid),
        });
        trace_masked!(SchedWakeupNew {
            tid: Tid(pid),
            waker_tid: Tid::UNKNOWN,
            target_cpu: Cpu::UNKNOWN,
        });
    }
    Some(pid)
}

/// Where a new process arrives from the scheduler.
extern "C" fn first_run() -> ! {
    // SAFETY: this hart's scheduler took the lock and forgot its guard.
    let table = unsafe { TABLE.adopt() };
    let Process { body, argument, .. } = table.processes[current()];
    drop(table);
    cpu::enable_interrupts();
    exit(body(argument))
}

/// Runs processes on this hart, for ever. Each switches back to here.
pub fn scheduler() -> ! {
    let mut last = 0;
    // Idle from the start, until the first switch to a process.
    trace!(SchedSwitch {
        prev_tid: Tid::IDLE,
        next_tid: Tid::IDLE,
        prev_state: ThreadState::Runnable,
        reason: SwitchReason::Idle,
        next_prio: 0,
    });
    loop {
        cpu::enable_interrupts();
        let mut table = TABLE.lock();
        let next = (1..=MAX_PROCESSES)
            .map(|step| (last + step) % MAX_PROCESSES)
            .find(|&index| table.processes[index].state == State::Runnable);
        let Some(next) = next else {
            drop(table);
            // SAFETY: waits for an interrupt. There is one at each tick.
            unsafe { core::arch::asm!("wfi") };
            continue;
        };
        last = next;
        table.processes[next].state = State::Running;
        let cpu = cpu::this();
        cpu.process.set(Some(next));
        let process = &table.processes[next];
        Kymo::named(&table.named[next], || ThreadName {
            tid: Tid(process.pid),
            name: Text::new(process.name),
        });
        // SAFETY: the table's lock keeps interrupts masked.
        unsafe {
            trace_masked!(SchedSwitch {
                prev_tid: Tid::IDLE,
                next_tid: Tid(process.pid),
                prev_state: ThreadState::Runnable,
                reason: SwitchReason::Idle,
                next_prio: 0,
            });
        }
        core::mem::forget(table);
        // SAFETY: the table is locked; whoever was switched away from left this context.
        unsafe { switch_context(cpu.scheduler.get(), CONTEXTS.0[next].get()) };
        cpu.process.set(None);
        // SAFETY: the process that switched back to here took the lock and forgot its guard.
        drop(unsafe { TABLE.adopt() });
    }
}

/// Switches to this hart's scheduler, and returns when the process is chosen again, perhaps on
/// another hart.
fn switch_to_scheduler(table: SpinGuard<'static, Table>) -> SpinGuard<'static, Table> {
    let index = current();
    assert!(table.processes[index].state != State::Running);
    let cpu = cpu::this();
    assert!(cpu.depth.get() == 1, "switch with a lock held");
    let enabled_before = cpu.enabled_before.get();
    let process = &table.processes[index];
    let (prev_state, reason) = match process.state {
        State::Runnable => (ThreadState::Runnable, SwitchReason::Expired),
        State::Zombie => (ThreadState::Ended, SwitchReason::Ended),
        _ => (ThreadState::Blocked, SwitchReason::Waits),
    };
    // SAFETY: the table's lock keeps interrupts masked.
    unsafe {
        trace_masked!(SchedSwitch {
            prev_tid: Tid(process.pid),
            next_tid: Tid::IDLE,
            prev_state,
            reason,
            next_prio: 0,
        });
    }
    core::mem::forget(table);
    // SAFETY: the table is locked; the hart's scheduler left its context when it chose this
    // process.
    unsafe { switch_context(CONTEXTS.0[index].get(), cpu.scheduler.get()) };
    cpu::this().enabled_before.set(enabled_before);
    // SAFETY: the scheduler that chose this process took the lock and forgot its guard.
    unsafe { TABLE.adopt() }
}

/// The process that runs here, or 0, with the table locked.
fn running_tid(table: &Table) -> Tid {
    Tid(cpu::process().map_or(0, |index| table.processes[index].pid))
}

/// Index of the process that runs here, for code that only processes run.
fn current() -> usize {
    cpu::process().expect("no process runs here")
}

/// Lets others run: at a timer interrupt.
pub fn yield_now() {
    let mut table = TABLE.lock();
    table.processes[current()].state = State::Runnable;
    switch_to_scheduler(table);
}

/// Releases `guard` and sleeps until `wakeup(channel)`; no wake-up that comes after the release is
/// missed. Takes the lock again.
pub fn sleep<T>(channel: usize, guard: SpinGuard<'_, T>) -> SpinGuard<'_, T> {
    let table = TABLE.lock();
    let lock = guard.lock_of();
    drop(guard);
    drop(sleep_in(table, channel));
    lock.lock()
}

fn sleep_in(mut table: SpinGuard<'static, Table>, channel: usize) -> SpinGuard<'static, Table> {
    let process = &mut table.processes[current()];
    process.channel = channel;
    process.state = State::Sleeping;
    switch_to_scheduler(table)
}

/// Makes those runnable that sleep on `channel`.
pub fn wakeup(channel: usize) {
    wakeup_in(&mut TABLE.lock(), channel);
}

fn wakeup_in(table: &mut Table, channel: usize) {
    for process in &mut table.processes {
        if process.state == State::Sleeping && process.channel == channel {
            wake(process);
        }
    }
}

fn wake(process: &mut Process) {
    process.state = State::Runnable;
    // SAFETY: the table's lock keeps interrupts masked.
    unsafe {
        trace_masked!(SchedWakeup {
            tid: Tid(process.pid),
            waker_tid: Tid::UNKNOWN,
            target_cpu: Cpu::UNKNOWN,
        });
    }
}

/// Ends this process. Its parent learns `status` by `wait`.
pub fn exit(status: i32) -> ! {
    let index = current();
    let mut table = TABLE.lock();
    assert!(index != SHELL, "the shell ended");
    let parent = table.processes[index].parent;
    for process in &mut table.processes {
        if process.state != State::Unused && process.parent == index {
            process.parent = SHELL;
        }
    }
    let process = &mut table.processes[index];
    process.state = State::Zombie;
    process.status = status;
    let pid = process.pid;
    trace!(ProcessExit {
        tid: Tid(pid),
        pid: Pid(pid),
        status
    });
    wakeup_in(&mut table, wait_channel(parent));
    // An orphan that had ended is the shell's to collect.
    wakeup_in(&mut table, wait_channel(SHELL));
    switch_to_scheduler(table);
    unreachable!("a process that ended was chosen")
}

/// Waits until a child has ended. Returns its pid and status, or `None` without children.
pub fn wait() -> Option<(u32, i32)> {
    let index = current();
    let mut table = TABLE.lock();
    loop {
        if let Some(ended) = collect(&mut table, index) {
            return Some(ended);
        }
        let has_children = table.processes.iter().enumerate().any(|(at, child)| {
            at != index && child.state != State::Unused && child.parent == index
        });
        if !has_children || table.processes[index].killed {
            return None;
        }
        table = sleep_in(table, wait_channel(index));
    }
}

/// A child that has ended, without waiting.
pub fn try_wait() -> Option<(u32, i32)> {
    collect(&mut TABLE.lock(), current())
}

fn collect(table: &mut Table, parent: usize) -> Option<(u32, i32)> {
    let child = table
        .processes
        .iter_mut()
        .find(|child| child.state == State::Zombie && child.parent == parent)?;
    let ended = (child.pid, child.status);
    *child = UNUSED;
    Some(ended)
}

fn wait_channel(index: usize) -> usize {
    STACKS[index].0.get().addr()
}

/// Asks a process to end: it does when it next looks, and it does not sleep before.
pub fn kill(pid: u32) -> bool {
    let mut table = TABLE.lock();
    let killer_tid = running_tid(&table);
    let found = table
        .processes
        .iter_mut()
        .find(|process| process.state != State::Unused && process.pid == pid);
    let Some(process) = found else {
        return false;
    };
    process.killed = true;
    trace!(ProcessKill {
        pid: Pid(pid),
        killer_tid
    });
    if process.state == State::Sleeping {
        wake(process);
    }
    true
}

/// Whether this process was asked to end.
pub fn killed() -> bool {
    let index = current();
    TABLE.lock().processes[index].killed
}

/// Calls `each` with the processes there are.
pub fn list(mut each: impl FnMut(&Process)) {
    let processes = TABLE.lock().processes;
    processes
        .iter()
        .filter(|process| process.state != State::Unused)
        .for_each(&mut each);
}
