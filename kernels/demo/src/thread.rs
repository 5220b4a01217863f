//! Threads: their table, creation, end, sleep and suspension.

use core::cell::UnsafeCell;
use core::ops::Range;

use kymo::vocabulary::{
    Pid, SwitchReason, ThreadCreate, ThreadDelay, ThreadExit, ThreadResume, ThreadState,
};
use kymo::vocabulary::{ThreadSuspend, ThreadYield};
use kymo::{NameEpoch, Tid};

use crate::arch::context::Context;
use crate::ipc::{End, Message};
use crate::sched::{SCHEDULER, Scheduler, settle, switch};
use crate::{arch, counting, smp, time};

/// Index of a thread in the table.
pub type Slot = usize;

/// Most threads, idle ones included.
pub const THREADS: usize = 64;
const STACK: usize = 24 << 10;

/// Priority of the idle threads. All others have 0 or more, and larger ones precede.
pub const IDLE: i16 = -1;
/// A thread's time slice, in timer interrupts.
pub const SLICE: u32 = 5;

/// The state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The slot is free.
    Free,
    /// It runs on its hart.
    Running,
    /// It is in its hart's queue.
    Ready,
    /// It waits, in the queue of a lock, port or pipe if any.
    Blocked,
    /// It waits for `wake_at`.
    Sleeping,
    /// It waits for `resume`.
    Suspended,
}

impl State {
    /// The state for the trace.
    pub fn traced(self) -> ThreadState {
        match self {
            State::Free => ThreadState::Ended,
            State::Running | State::Ready => ThreadState::Runnable,
            State::Blocked => ThreadState::Blocked,
            State::Sleeping => ThreadState::Sleeping,
            State::Suspended => ThreadState::Suspended,
        }
    }
}

/// A thread.
#[derive(Debug)]
pub struct Thread {
    pub tid: Tid,
    pub pid: Pid,
    pub name: &'static str,
    /// Name epochs in which its name and that of its process were last recorded.
    pub named: NameEpoch,
    pub process_named: NameEpoch,
    pub state: State,
    /// Its own priority, and the effective one: waiters for its locks lend it theirs.
    pub base: i16,
    pub prio: i16,
    /// The hart of its queue, or on which it runs or ran last.
    pub hart: usize,
    /// The next thread in its queue.
    pub next: Option<Slot>,
    /// The mutex for which it waits.
    pub waits_for: Option<usize>,
    /// The thread for whose end it waits.
    pub joins: Option<Tid>,
    /// The port or pipe at which it waits, and the condition.
    pub waits_at: Option<(usize, End)>,
    /// A message that a sender handed it directly.
    pub message: Option<Message>,
    /// Time of its wake-up.
    pub wake_at: u64,
    /// Ticks left of its time slice.
    pub slice: u32,
    /// Whether it will be suspended as soon as it is ready.
    pub stop: bool,
    /// Whether its process was killed: it ends instead of returning to the program.
    pub killed: bool,
    /// Its kernel stack pointer, while it does not run.
    pub context: Context,
    /// The root of its address space.
    pub space: usize,
    pub entry: fn(usize),
    pub argument: usize,
}

impl Thread {
    /// A free slot.
    pub const fn none() -> Thread {
        Thread {
            tid: Tid(0),
            pid: Pid(0),
            name: "",
            named: NameEpoch::new(),
            process_named: NameEpoch::new(),
            state: State::Free,
            base: IDLE,
            prio: IDLE,
            hart: 0,
            next: None,
            waits_for: None,
            joins: None,
            waits_at: None,
            message: None,
            wake_at: 0,
            slice: SLICE,
            stop: false,
            killed: false,
            context: Context::none(),
            space: 0,
            entry: |_| (),
            argument: 0,
        }
    }
}

impl Thread {
    /// Gives it a new time slice if the old one is used up.
    pub fn refill(&mut self) {
        if self.slice == 0 {
            self.slice = SLICE;
        }
    }
}

/// The word at the lower end of each stack, which an overflow overwrites first.
const CANARY: u64 = 0x57AC_4B07_703D_5EED;

#[repr(C, align(16))]
struct Stack(UnsafeCell<[u64; STACK / 8]>);

// SAFETY: a stack is used by its thread, or by the creator of that thread.
unsafe impl Sync for Stack {}

static STACKS: [Stack; THREADS] = [const { Stack(UnsafeCell::new([0; STACK / 8])) }; THREADS];

/// The top of a thread's kernel stack.
pub fn stack_top(slot: Slot) -> usize {
    STACKS[slot].0.get() as usize + STACK
}

/// A thread's kernel stack.
pub fn stack(slot: Slot) -> Range<usize> {
    let top = stack_top(slot);
    top - STACK..top
}

/// Panics if a thread has overflowed its stack.
pub fn check_stack(slot: Slot) {
    // SAFETY: a word of the stack that no thread uses.
    let canary = unsafe { STACKS[slot].0.get().cast::<u64>().read() };
    assert_eq!(
        canary, CANARY,
        "the stack of the thread in place {slot} is too small"
    );
}

/// A new thread, which calls `entry(argument)` and ends.
#[derive(Clone, Copy, Debug)]
pub struct New {
    pub name: &'static str,
    pub pid: Pid,
    pub prio: i16,
    pub space: usize,
    pub entry: fn(usize),
    pub argument: usize,
}

impl Scheduler {
    /// Creates a thread and readies it. `None` if the table is full.
    pub fn create(&mut self, new: New) -> Option<Tid> {
        let slot = self
            .threads
            .iter()
            .position(|thread| thread.state == State::Free)?;
        counting::begin(slot);
        self.last_tid += 1;
        let (tid, parent) = (Tid(self.last_tid), self.running());
        // SAFETY: the slot is free, so nobody uses its stack.
        let context = unsafe {
            STACKS[slot].0.get().cast::<u64>().write(CANARY);
            Context::new(stack_top(slot), begin)
        };
        let New {
            name,
            pid,
            prio,
            space,
            entry,
            argument,
        } = new;
        let hart = parent.hart;
        let parent_tid = parent.tid;
        self.threads[slot] = Thread {
            tid,
            pid,
            name,
            state: State::Suspended,
            base: prio,
            prio,
            hart,
            context,
            space,
            entry,
            argument,
            ..Thread::none()
        };
        self.tell_names(slot);
        record!(ThreadCreate {
            tid,
            pid,
            parent_tid,
            prio
        });
        self.wake_new(slot, parent_tid);
        Some(tid)
    }

    /// Kills a process's thread: it stops waiting, and ends when it would return to the program.
    pub fn kill(&mut self, slot: Slot) {
        let waker = self.running().tid;
        let thread = &mut self.threads[slot];
        (thread.killed, thread.stop) = (true, false);
        let (state, joined) = (thread.state, thread.joins.take().is_some());
        match state {
            State::Running => smp::poke(thread.hart),
            State::Sleeping | State::Suspended => self.wake(slot, waker),
            State::Blocked if joined || self.stop_waiting(slot) => self.wake(slot, waker),
            _ => {}
        }
    }

    fn find(&self, tid: Tid) -> Option<Slot> {
        self.threads
            .iter()
            .position(|thread| thread.tid == tid && thread.state != State::Free)
    }
}

/// Entry of every thread, reached by the first switch to it.
extern "C" fn begin() -> ! {
    // SAFETY: the switch has kept the lock for the thread to which it leads.
    let scheduler = unsafe { SCHEDULER.held(true) };
    let Thread {
        entry, argument, ..
    } = *scheduler.running();
    drop(scheduler);
    entry(argument);
    exit()
}

/// Creates a kernel thread.
pub fn spawn(name: &'static str, prio: i16, entry: fn(usize), argument: usize) -> Tid {
    try_spawn(name, prio, entry, argument).expect("the table of threads has room")
}

/// Creates a kernel thread; `None` if the table is full.
pub fn try_spawn(name: &'static str, prio: i16, entry: fn(usize), argument: usize) -> Option<Tid> {
    let mut scheduler = SCHEDULER.lock();
    let new = New {
        name,
        pid: Pid(0),
        prio,
        space: arch::paging::kernel_space(),
        entry,
        argument,
    };
    let tid = scheduler.create(new);
    settle(scheduler);
    tid
}

/// Whether a thread lives.
pub fn is_alive(tid: Tid) -> bool {
    SCHEDULER.lock().find(tid).is_some()
}

/// Ends the running thread.
pub fn exit() -> ! {
    let mut scheduler = SCHEDULER.lock();
    let Thread { tid, pid, .. } = *scheduler.running();
    record!(ThreadExit {
        tid,
        pid,
        prev_state: ThreadState::Runnable
    });
    for slot in 0..THREADS {
        if scheduler.threads[slot].joins == Some(tid) {
            scheduler.threads[slot].joins = None;
            scheduler.wake(slot, tid);
        }
    }
    switch(scheduler, SwitchReason::Ended, State::Free);
    unreachable!("an ended thread runs")
}

/// Waits until the thread has ended, or the running one was killed.
pub fn join(tid: Tid) {
    let mut scheduler = SCHEDULER.lock();
    // A thread that was killed before it waits would never be woken.
    if scheduler.find(tid).is_some() && !scheduler.running().killed {
        scheduler.running_mut().joins = Some(tid);
        switch(scheduler, SwitchReason::Waits, State::Blocked);
    }
}

/// The effective priority of the running thread.
pub fn priority() -> i16 {
    SCHEDULER.lock().running().prio
}

/// Yields to other threads of the same priority.
pub fn yield_now() {
    let scheduler = SCHEDULER.lock();
    record!(ThreadYield {
        tid: scheduler.running().tid
    });
    switch(scheduler, SwitchReason::Yielded, State::Ready);
}

/// Sleeps for at least this many microseconds; not at all if the running thread was killed before.
pub fn sleep(us: u64) {
    let ticks = time::ticks(us);
    let mut scheduler = SCHEDULER.lock();
    let thread = scheduler.running_mut();
    if thread.killed {
        return;
    }
    thread.wake_at = arch::timer::time().saturating_add(ticks);
    record!(ThreadDelay {
        tid: thread.tid,
        ticks
    });
    switch(scheduler, SwitchReason::Waits, State::Sleeping);
}

/// Suspends a thread in any state until [`resume`]. False if there is no such thread, or it is
/// already suspended.
pub fn suspend(tid: Tid) -> bool {
    let mut scheduler = SCHEDULER.lock();
    let Some(slot) = scheduler.find(tid) else {
        return false;
    };
    let this = scheduler.running_slot();
    scheduler.tell_names(slot);
    let thread = &mut scheduler.threads[slot];
    if thread.state == State::Suspended || thread.stop {
        return false;
    }
    record!(ThreadSuspend { tid });
    match thread.state {
        State::Ready => {
            thread.state = State::Suspended;
            scheduler.unqueue(slot);
        }
        State::Running if slot == this => {
            switch(scheduler, SwitchReason::Suspended, State::Suspended)
        }
        state => {
            thread.stop = true;
            if state == State::Running {
                smp::poke(thread.hart);
            }
        }
    }
    true
}

/// Resumes a thread. False if it was not suspended.
pub fn resume(tid: Tid) -> bool {
    let mut scheduler = SCHEDULER.lock();
    let Some(slot) = scheduler.find(tid) else {
        return false;
    };
    let waker = scheduler.running().tid;
    scheduler.tell_names(slot);
    let thread = &mut scheduler.threads[slot];
    let suspended = thread.state == State::Suspended;
    if !suspended && !thread.stop {
        return false;
    }
    record!(ThreadResume { tid });
    thread.stop = false;
    if suspended {
        scheduler.wake(slot, waker);
    }
    settle(scheduler);
    true
}
