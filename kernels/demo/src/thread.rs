//! Threads: what is known of each, and what they can ask for.

use core::cell::UnsafeCell;

use kymo::vocabulary::{
    Pid, SwitchReason, ThreadCreate, ThreadDelay, ThreadExit, ThreadResume, ThreadState,
};
use kymo::vocabulary::{ThreadSuspend, ThreadYield};
use kymo::{NameEpoch, Tid};

use crate::arch;
use crate::arch::context::Context;
use crate::ipc::{End, Message};
use crate::sched::{SCHEDULER, Scheduler, settle, switch};

/// Place of a thread in the table.
pub type Slot = usize;

/// Threads that there can be, those of the idle harts included.
pub const THREADS: usize = 64;
const STACK: usize = 16 << 10;

/// The priority of the threads that run when there is nothing to do. All others have 0 or more; who
/// has more goes first.
pub const IDLE: i16 = -1;
/// Ticks of the timer that a thread may run before another one of its priority.
pub const SLICE: u32 = 5;

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// There is none in this place.
    Free,
    /// It runs on its hart.
    Running,
    /// It is in its hart's queue.
    Ready,
    /// It is in the queue of what it waits for.
    Blocked,
    /// It waits for `wake_at`.
    Sleeping,
    /// It waits for `resume`.
    Suspended,
}

impl State {
    /// As the trace has it.
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

/// What is known of a thread.
#[derive(Debug)]
pub struct Thread {
    pub tid: Tid,
    pub pid: Pid,
    pub name: &'static str,
    /// When its name was recorded last, and that of its process.
    pub named: NameEpoch,
    pub process_named: NameEpoch,
    pub state: State,
    /// Its own priority, and the one that it has: waiters for its locks lend it theirs.
    pub base: i16,
    pub prio: i16,
    /// The hart whose queue it is in, or that it runs or ran on.
    pub hart: usize,
    /// The next one in its queue.
    pub next: Option<Slot>,
    /// The mutex that it waits for.
    pub waits_for: Option<usize>,
    /// The thread whose end it waits for.
    pub joins: Option<Tid>,
    /// The port or pipe that it waits at, and what for.
    pub waits_at: Option<(usize, End)>,
    /// A message that a sender gave it directly.
    pub message: Option<Message>,
    /// When it is to wake up.
    pub wake_at: u64,
    /// Ticks that are left of its time.
    pub slice: u32,
    /// It is to be suspended as soon as it could run.
    pub stop: bool,
    /// Its process was killed: it ends before it would go back to the program.
    pub killed: bool,
    /// Its kernel stack pointer, while it does not run.
    pub context: Context,
    /// The root of the space that it runs in.
    pub space: usize,
    pub entry: fn(usize),
    pub argument: usize,
}

impl Thread {
    /// None.
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
    /// Gives it a new share of time, if it has used the one before up.
    pub fn refill(&mut self) {
        if self.slice == 0 {
            self.slice = SLICE;
        }
    }
}

/// The word at the lower end of each stack: whoever needs more room than there is destroys it
/// first.
const CANARY: u64 = 0x57AC_4B07_703D_5EED;

#[repr(C, align(16))]
struct Stack(UnsafeCell<[u64; STACK / 8]>);

// SAFETY: a stack is used by its thread, or by who makes that thread.
unsafe impl Sync for Stack {}

static STACKS: [Stack; THREADS] = [const { Stack(UnsafeCell::new([0; STACK / 8])) }; THREADS];

/// Where a thread's kernel stack ends.
pub fn stack_top(slot: Slot) -> usize {
    STACKS[slot].0.get() as usize + STACK
}

/// Panics if a thread has used more stack than it has.
pub fn check_stack(slot: Slot) {
    // SAFETY: a word of the stack that no thread uses.
    let canary = unsafe { STACKS[slot].0.get().cast::<u64>().read() };
    assert_eq!(
        canary, CANARY,
        "the stack of the thread in place {slot} is too small"
    );
}

/// A new thread, which runs `entry(argument)` and ends.
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
    /// Makes a thread, and lets it run. `None` where the table is full.
    pub fn create(&mut self, new: New) -> Option<Tid> {
        let slot = self
            .threads
            .iter()
            .position(|thread| thread.state == State::Free)?;
        self.last_tid += 1;
        let (tid, parent) = (Tid(self.last_tid), self.running());
        // SAFETY: the place is free, so nobody uses its stack.
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
        self.wake(slot, parent_tid);
        Some(tid)
    }

    /// Has the thread of a process end as soon as it would go back to the program; what it waits
    /// for is not waited for any more.
    pub fn kill(&mut self, slot: Slot) {
        let waker = self.running().tid;
        let thread = &mut self.threads[slot];
        (thread.killed, thread.stop) = (true, false);
        let (state, joined) = (thread.state, thread.joins.take().is_some());
        match state {
            State::Running => arch::poke(thread.hart),
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

/// Where every thread begins, by the switch that led to it first.
extern "C" fn begin() -> ! {
    // SAFETY: the switch has kept the lock for the thread that it goes to.
    let scheduler = unsafe { SCHEDULER.held(true) };
    let Thread {
        entry, argument, ..
    } = *scheduler.running();
    drop(scheduler);
    entry(argument);
    exit()
}

/// Makes a thread of the kernel's.
pub fn spawn(name: &'static str, prio: i16, entry: fn(usize), argument: usize) -> Tid {
    try_spawn(name, prio, entry, argument).expect("the table of threads has room")
}

/// Makes a thread of the kernel's; `None` where the table is full.
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

/// Returns when the thread has ended, or the running one was killed.
pub fn join(tid: Tid) {
    let mut scheduler = SCHEDULER.lock();
    // One that was killed on its way here would not be woken for that again.
    if scheduler.find(tid).is_some() && !scheduler.running().killed {
        scheduler.running_mut().joins = Some(tid);
        switch(scheduler, SwitchReason::Waits, State::Blocked);
    }
}

/// The priority that the running thread has now, lent or its own.
pub fn priority() -> i16 {
    SCHEDULER.lock().running().prio
}

/// Lets others of the running thread's priority go first.
pub fn yield_now() {
    let scheduler = SCHEDULER.lock();
    record!(ThreadYield {
        tid: scheduler.running().tid
    });
    switch(scheduler, SwitchReason::Yielded, State::Ready);
}

/// Sleeps for so many ticks of the clock, or a little longer; not at all if the running thread was
/// killed on its way here.
pub fn sleep(ticks: u64) {
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

/// Takes a thread out, whatever it does, until [`resume`]. False where there is no such thread, or
/// it is out already.
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
                arch::poke(thread.hart);
            }
        }
    }
    true
}

/// Ends what [`suspend`] began. False where the thread was not suspended.
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
