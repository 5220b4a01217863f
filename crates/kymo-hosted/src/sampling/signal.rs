//! The system's part: timers of threads, and the handler of SIGPROF.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::{MaybeUninit, zeroed};
use std::process;
use std::ptr::{null, null_mut};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize};
use std::sync::{Mutex, PoisonError};

use kymo::Error;
use kymo::sample::Registers;

use super::thread::THREAD;

/// The timers send the address of this byte with their signal, which tells it from the signals of
/// any other timer.
static OURS: u8 = 0;
/// The program's action for SIGPROF before this handler was installed last; never freed.
static EARLIER: AtomicPtr<libc::sigaction> = AtomicPtr::new(null_mut());

thread_local! {
    /// Whether a signal is being passed on.
    static PASSES_ON: Cell<bool> = const { Cell::new(false) };
}

/// A timer of a thread's processor time. It expires once each time it is set.
#[derive(Debug)]
pub(super) struct Timer {
    /// The system's id of the timer.
    id: AtomicUsize,
    /// The process that has the timer; 0 for none. A forked one does not inherit it, and may have
    /// one of its own by the same id.
    process: AtomicU32,
}

impl Timer {
    pub(super) const fn new() -> Timer {
        Timer {
            id: AtomicUsize::new(0),
            process: AtomicU32::new(0),
        }
    }

    pub(super) fn is_there(&self) -> bool {
        // Partner: the release in `create`.
        self.process.load(Acquire) == process::id()
    }

    /// Creates the timer of the thread with this clock and number.
    ///
    /// # Errors
    /// [`Error::Sampling`].
    pub(super) fn create(&self, clock: libc::clockid_t, tid: u32) -> Result<(), Error> {
        // SAFETY: numbers and pointers, which may be zero.
        let mut event: libc::sigevent = unsafe { zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGPROF;
        event.sigev_notify_thread_id = tid as c_int;
        event.sigev_value.sival_ptr = (&raw const OURS).cast_mut().cast();
        let mut id: libc::timer_t = null_mut();
        // SAFETY: both pointers are to locals.
        if unsafe { libc::timer_create(clock, &mut event, &mut id) } != 0 {
            return Err(Error::Sampling("the system has no timer left for a thread"));
        }
        self.id.store(id.expose_provenance(), Relaxed);
        // Partner: the acquire in `is_there`.
        self.process.store(process::id(), Release);
        Ok(())
    }

    fn id(&self) -> libc::timer_t {
        std::ptr::with_exposed_provenance_mut(self.id.load(Relaxed))
    }

    /// Sets the timer to expire when the thread's clock shows `nanos`. The handler may call this.
    pub(super) fn set(&self, nanos: u64) {
        if !self.is_there() {
            return;
        }
        // SAFETY: numbers, which may be zero: no interval.
        let mut at: libc::itimerspec = unsafe { zeroed() };
        at.it_value.tv_sec = (nanos / 1_000_000_000) as libc::time_t;
        at.it_value.tv_nsec = (nanos % 1_000_000_000) as _;
        // SAFETY: the timer is there, and `at` is a local. This function may be called in a signal
        // handler (POSIX.1).
        unsafe { libc::timer_settime(self.id(), libc::TIMER_ABSTIME, &at, null_mut()) };
    }

    /// Deletes the timer, if there is one. Its last signal may still come.
    pub(super) fn delete(&self) {
        if self.process.swap(0, Relaxed) == process::id() {
            // SAFETY: it was there, in this process, and nobody else deletes it.
            unsafe { libc::timer_delete(self.id()) };
        }
    }
}

/// The clock of a thread's processor time.
///
/// # Errors
/// [`Error::Sampling`].
pub(super) fn clock_of(thread: libc::pthread_t) -> Result<libc::clockid_t, Error> {
    let mut clock = 0;
    // SAFETY: the thread has not ended: it is in `THREADS`.
    match unsafe { libc::pthread_getcpuclockid(thread, &mut clock) } {
        0 => Ok(clock),
        _ => Err(Error::Sampling("the system has no clock for a thread")),
    }
}

/// The time of a clock, in nanoseconds.
pub(super) fn time_of(clock: libc::clockid_t) -> u64 {
    // SAFETY: two numbers.
    let mut time: libc::timespec = unsafe { zeroed() };
    // SAFETY: the pointer is to a local. The handler may call this (POSIX.1).
    unsafe { libc::clock_gettime(clock, &mut time) };
    (time.tv_sec as u64) * 1_000_000_000 + time.tv_nsec as u64
}

/// Processor time of the calling thread in nanoseconds.
pub(super) fn own_time() -> u64 {
    time_of(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Lets SIGPROF reach the calling thread.
pub(super) fn unblock() {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the first call fills the set in.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGPROF);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), null_mut());
    }
}

/// Installs the handler, unless it is installed: the program may have taken the signal for itself
/// since an earlier session. It stays: a timer's last signal may come late, and must not end the
/// program.
///
/// # Errors
/// [`Error::Sampling`].
pub(super) fn install() -> Result<(), Error> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let refused = Err(Error::Sampling("the system refuses a handler of SIGPROF"));
    // SAFETY: an action is numbers and addresses, which may be zero.
    let (mut earlier, mut own): (libc::sigaction, libc::sigaction) =
        unsafe { (zeroed(), zeroed()) };
    // SAFETY: the pointers are null or to locals.
    if unsafe { libc::sigaction(libc::SIGPROF, null(), &mut earlier) } != 0 {
        return refused;
    }
    own.sa_sigaction = on_signal as *const () as libc::sighandler_t;
    if earlier.sa_sigaction == own.sa_sigaction {
        return Ok(());
    }
    // The handler asks for the earlier action from its first signal on.
    // Partner: the acquire in `pass_on`.
    EARLIER.store(Box::leak(Box::new(earlier)), Release);
    // Not on the thread's signal stack: that of Rust's threads may have no more room than for the
    // registers.
    own.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    // SAFETY: as above; `on_signal` has the signature that SA_SIGINFO asks for.
    match unsafe { libc::sigaction(libc::SIGPROF, &own, null_mut()) } {
        0 => Ok(()),
        _ => refused,
    }
}

extern "C" fn on_signal(number: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the system passes what SA_SIGINFO says, and every thread has an `errno`.
    unsafe {
        let errno = *libc::__errno_location();
        if is_ours(&*info) {
            let at = place(&*context.cast());
            THREAD.with(|thread| thread.on_timer(&at));
        } else if !PASSES_ON.replace(true) {
            pass_on(number, info, context);
            PASSES_ON.set(false);
        }
        *libc::__errno_location() = errno;
    }
}

/// Whether one of Kymo's timers has sent the signal.
fn is_ours(info: &libc::siginfo_t) -> bool {
    // SAFETY: a signal with this code has a value.
    info.si_code == libc::SI_TIMER
        && unsafe { info.si_value() }.sival_ptr.addr() == (&raw const OURS).addr()
}

/// Passes a signal from elsewhere to the program's earlier action. (If that passes it on to this
/// handler, which it found when it was installed, it ends here.)
///
/// # Safety
/// The arguments are those of the handler.
unsafe fn pass_on(number: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // Partner: the release in `install`.
    // SAFETY: what it points to is never freed or changed.
    let Some(earlier) = (unsafe { EARLIER.load(Acquire).as_ref() }) else {
        return;
    };
    match earlier.sa_sigaction {
        libc::SIG_IGN => {}
        libc::SIG_DFL => {
            // The default is the program's end, as soon as this handler has returned.
            // SAFETY: `earlier` is an action that the system gave.
            unsafe {
                libc::sigaction(number, earlier, null_mut());
                libc::raise(number);
            }
        }
        handler if earlier.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: the flag says that the handler takes these arguments.
            unsafe {
                let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                    std::mem::transmute(handler);
                handler(number, info, context);
            }
        }
        handler => {
            // SAFETY: without the flag it takes the number alone.
            unsafe {
                let handler: extern "C" fn(c_int) = std::mem::transmute(handler);
                handler(number);
            }
        }
    }
}

/// Where code was interrupted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) registers: Registers,
    /// The stack pointer.
    pub(super) sp: usize,
    /// The link register; 0 where there is none.
    pub(super) link: usize,
}

#[cfg(target_arch = "x86_64")]
fn place(context: &libc::ucontext_t) -> Place {
    let of = |register: c_int| context.uc_mcontext.gregs[register as usize] as usize;
    Place {
        registers: Registers {
            ip: of(libc::REG_RIP),
            fp: of(libc::REG_RBP),
        },
        sp: of(libc::REG_RSP),
        link: 0,
    }
}

#[cfg(target_arch = "aarch64")]
fn place(context: &libc::ucontext_t) -> Place {
    let machine = &context.uc_mcontext;
    Place {
        registers: Registers {
            ip: machine.pc as usize,
            fp: machine.regs[29] as usize,
        },
        sp: machine.sp as usize,
        link: machine.regs[30] as usize,
    }
}
