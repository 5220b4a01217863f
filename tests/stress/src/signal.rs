//! Three signals, each of which may interrupt the handlers of the lower ones, and a timer for each
//! on every thread.

use std::mem::zeroed;
use std::ptr::{from_ref, null_mut};

use crate::event::DEPTHS;
use crate::thread::Thread;
use crate::writer::Writer;

/// The signal of a depth, from 1.
fn signal(depth: usize) -> libc::c_int {
    [libc::SIGUSR1, libc::SIGUSR2, libc::SIGRTMIN()][depth - 1]
}

/// The signals of this depth and those below it.
fn up_to(depth: usize) -> libc::sigset_t {
    // SAFETY: all zero is a valid set, and these are signals.
    unsafe {
        let mut set = zeroed();
        libc::sigemptyset(&mut set);
        for depth in 1..=depth {
            libc::sigaddset(&mut set, signal(depth));
        }
        set
    }
}

/// Installs [`Thread::on_signal`] as the handler.
pub(crate) fn handle_by<W: Writer>() {
    for depth in 1..DEPTHS {
        // SAFETY: all zero is a valid `sigaction`.
        let mut action: libc::sigaction = unsafe { zeroed() };
        action.sa_sigaction = handler::<W> as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        action.sa_mask = up_to(depth);
        // SAFETY: the handler only does what is allowed in a handler: no locks, no allocation.
        let status = unsafe { libc::sigaction(signal(depth), &action, null_mut()) };
        assert_eq!(status, 0, "the signal cannot be handled");
    }
}

extern "C" fn handler<W: Writer>(
    number: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the system passes both; only timers send these signals, and they were given a
    // `Thread` that is never freed.
    let (thread, stopped_at) = unsafe {
        let context = &*context.cast::<libc::ucontext_t>();
        (
            &*(*info).si_value().sival_ptr.cast::<Thread>(),
            context.uc_mcontext.gregs[libc::REG_RIP as usize] as u64,
        )
    };
    let depth = (1..DEPTHS)
        .find(|&depth| signal(depth) == number)
        .unwrap_or(1);
    thread.on_signal::<W>(depth, stopped_at);
}

/// This thread's timers.
pub(crate) struct Timers([libc::timer_t; DEPTHS - 1]);

impl Timers {
    /// One timer per signal, not armed. Their signals go to the calling thread, with `thread`.
    pub(crate) fn new(thread: &'static Thread) -> Timers {
        Timers(std::array::from_fn(|index| {
            // SAFETY: all zero is a valid `sigevent`; the rest is as timer_create(2) has it.
            unsafe {
                let mut event: libc::sigevent = zeroed();
                event.sigev_notify = libc::SIGEV_THREAD_ID;
                event.sigev_notify_thread_id = libc::gettid();
                event.sigev_signo = signal(index + 1);
                event.sigev_value.sival_ptr = from_ref(thread).cast_mut().cast();
                let mut timer = null_mut();
                let status = libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer);
                assert_eq!(status, 0, "a thread gets no timer");
                timer
            }
        }))
    }

    /// Sends the signal of `depth` once, at the earliest in this many nanoseconds. Can be called in
    /// signal handlers.
    pub(crate) fn arm(&self, depth: usize, nanos: u64) {
        // SAFETY: the timer exists; all zero is a valid value.
        unsafe {
            let mut value: libc::itimerspec = zeroed();
            value.it_value.tv_nsec = nanos.clamp(1, 999_999_999) as i64;
            libc::timer_settime(self.0[depth - 1], 0, &value, null_mut());
        }
    }

    /// Deletes the timers. Pending signals are no longer delivered to this thread.
    pub(crate) fn end(&self) {
        let all = up_to(DEPTHS - 1);
        // SAFETY: blocks signals, then removes timers that exist and are not used again.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, &all, null_mut());
            self.0.iter().for_each(|&timer| {
                libc::timer_delete(timer);
            });
        }
    }
}

// SAFETY: a timer is a number.
unsafe impl Send for Timers {}
// SAFETY: as above.
unsafe impl Sync for Timers {}
