//! Switches. A task that carries a [`Traced`](crate::task) tells of them itself. A switch to one of
//! ArceOS's own tasks (`main`, `idle`, `gc`) is noticed at the end of the switch, where `axtask`
//! enables or disables preemption.

use core::sync::atomic::Ordering::Relaxed;

use axtask::{CurrentTask, TaskState};
use kymo::trace_masked;
use kymo::vocabulary::{Pid, SchedSwitch, SwitchReason, ThreadExit, ThreadState};

use crate::here::{Here, here, masked};
use crate::{task, trap};

unsafe extern "Rust" {
    /// `axtask`'s implementations of `kernel_guard::KernelGuardIf`, by the linker.
    safe fn __real___KernelGuardIf_enable_preempt();
    safe fn __real___KernelGuardIf_disable_preempt();
}

/// The linker has all callers call this instead. A preempted task is switched out in the middle.
#[unsafe(no_mangle)]
#[allow(non_snake_case)] // The linker sets the name.
extern "Rust" fn __wrap___KernelGuardIf_enable_preempt() {
    // First, so that `last` is the task that calls this.
    notice();
    masked(|here| {
        here.enabling.store(here.last.load(Relaxed), Relaxed);
    });
    __real___KernelGuardIf_enable_preempt();
    masked(|here| here.enabling.store(0, Relaxed));
    notice();
}

/// As above: this is the first thing that some new tasks do.
#[unsafe(no_mangle)]
#[allow(non_snake_case)] // As above.
extern "Rust" fn __wrap___KernelGuardIf_disable_preempt() {
    notice();
    __real___KernelGuardIf_disable_preempt();
}

/// Looks whether another task runs here than the last time.
pub fn notice() {
    masked(|here| {
        let Some(current) = axtask::current_may_uninit() else {
            return;
        };
        let id = current.id().as_u64();
        if here.last.load(Relaxed) == id || here.looks_up.load(Relaxed) {
            return;
        }
        // Looking up a name enables preemption, and calls this again.
        here.looks_up.store(true, Relaxed);
        task::meet(&current);
        // SAFETY: interrupts are masked.
        let here = unsafe { self::here() };
        here.looks_up.store(false, Relaxed);
        let prev = here.last.load(Relaxed);
        let state = match prev != 0 && here.left.load(Relaxed) == prev {
            true => TaskState::from(here.left_state.load(Relaxed) as u8),
            false => task::state(prev).unwrap_or(TaskState::Ready),
        };
        switched(here, prev, id, state);
    });
}

/// This CPU is about to switch to the task with this id from the current one, whose state is
/// `state`. Called with interrupts masked.
pub fn to(next: u64, state: TaskState) {
    notice();
    // SAFETY: the caller has masked interrupts.
    let here = unsafe { here() };
    switched(here, here.last.load(Relaxed), next, state);
}

/// The current task is about to leave this CPU. Called with interrupts masked.
pub fn leaves(current: &CurrentTask) {
    notice();
    // SAFETY: the caller has masked interrupts.
    let here = unsafe { here() };
    let state = current.state();
    here.left.store(current.id().as_u64(), Relaxed);
    here.left_state.store(state as u32, Relaxed);
    if state == TaskState::Exited {
        // SAFETY: as above.
        unsafe {
            trace_masked!(ThreadExit {
                tid: task::tid(current),
                pid: Pid(0),
                prev_state: ThreadState::Runnable
            })
        };
    }
}

/// Records a switch, with interrupts masked.
fn switched(here: &Here, prev: u64, next: u64, state: TaskState) {
    here.last.store(next, Relaxed);
    here.left.store(0, Relaxed);
    if here.trap.load(Relaxed) != 0 {
        trap::leave(here);
    }
    if prev == 0 {
        return;
    }
    let (prev_state, reason) = match state {
        TaskState::Blocked => (ThreadState::Blocked, SwitchReason::Waits),
        TaskState::Exited => (ThreadState::Ended, SwitchReason::Ended),
        TaskState::Ready | TaskState::Running => {
            let reason = match task::is_idle(prev) {
                true => SwitchReason::Idle,
                false if here.enabling.load(Relaxed) == prev => SwitchReason::Expired,
                false => SwitchReason::Yielded,
            };
            (ThreadState::Runnable, reason)
        }
    };
    // SAFETY: the caller has masked interrupts.
    unsafe {
        trace_masked!(SchedSwitch {
            prev_tid: task::tid_of(prev),
            next_tid: task::tid_of(next),
            prev_state,
            reason,
            next_prio: 0
        })
    };
}
