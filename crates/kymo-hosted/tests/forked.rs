//! A program that samples itself, and forks or takes SIGPROF for itself.

#![cfg(all(feature = "trace", target_os = "linux", target_arch = "x86_64"))]
#![allow(missing_docs, clippy::unwrap_used)]

use std::ffi::c_int;
use std::mem::zeroed;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kymo::ChannelKind;
use kymo::ring::reader::{Region, View};
use kymo_hosted::{HostedSession, Options, SAMPLES, Sampling};

/// A program has one session at a time.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start() -> Result<HostedSession, kymo::Error> {
    let options = Options {
        max_threads: 4,
        packets: 16,
        sampling: Some(Sampling {
            hz: 200,
            packets: 16,
            ..Sampling::default()
        }),
        ..Options::default()
    };
    kymo_hosted::start(&options, &SAMPLES)
}

/// Works until the calling thread's ring has ten samples of the session, for a minute at most.
/// Gives whether it has.
fn is_sampled(session: &HostedSession) -> bool {
    let (live, ring) = (session.live(), kymo_hosted::ring_number().unwrap());
    let region = Region::open(&live).unwrap();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(60) {
        std::hint::black_box((0..1_000_000_u64).map(|n| n * n % 7).sum::<u64>());
        let reader = region.channel(&live, ring, ChannelKind::Samples).unwrap();
        if reader.events(&live, View::PostMortem).unwrap().0 >= 10 {
            return true;
        }
    }
    false
}

/// Runs this in a forked process; gives what it returns.
fn forked(child: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the tests take turns, so the other threads hold no lock that the child needs.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let code = child();
        // SAFETY: ends the child, without what the parent wants to do at its end.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: waits for the child; the pointer is to a local.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert!(libc::WIFEXITED(status), "{status:x}");
    libc::WEXITSTATUS(status)
}

#[test]
fn a_forked_process_samples_itself() {
    let _turn = turn();
    let session = start().unwrap();
    assert!(is_sampled(&session));
    session.stop().unwrap();
    let code = forked(|| match start() {
        Ok(session) => c_int::from(!is_sampled(&session)),
        Err(_) => 2,
    });
    assert_eq!(code, 0, "1: no samples; 2: no session");
}

#[test]
fn a_forked_process_keeps_timers_of_its_own() {
    let _turn = turn();
    let session = start().unwrap();
    // A process inherits no timers, so its first ones may have ids of the parent's.
    let gone = forked(|| {
        let own = [(); 8].map(|()| {
            // SAFETY: numbers and pointers, which may be zero; the pointers are to locals.
            unsafe {
                let mut event: libc::sigevent = zeroed();
                event.sigev_notify = libc::SIGEV_NONE;
                let mut id: libc::timer_t = null_mut();
                libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut id);
                id
            }
        });
        let _ = session.stop();
        let is_gone = |id: &libc::timer_t| {
            // SAFETY: as above.
            unsafe {
                let mut at: libc::itimerspec = zeroed();
                libc::timer_gettime(*id, &mut at) != 0
            }
        };
        own.iter().filter(|id| is_gone(id)).count() as c_int
    });
    session.stop().unwrap();
    assert_eq!(gone, 0, "timers of its own were deleted");
}

static THEIRS: AtomicU32 = AtomicU32::new(0);
static BEFORE: Mutex<Option<libc::sigaction>> = Mutex::new(None);

/// A handler that passes signals on to the one that was there before it.
extern "C" fn theirs(number: c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    THEIRS.fetch_add(1, SeqCst);
    let before = BEFORE.try_lock().ok().and_then(|before| *before);
    if let Some(before) = before.filter(|before| before.sa_flags & libc::SA_SIGINFO != 0) {
        // SAFETY: the flag says that the handler takes these arguments.
        unsafe {
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                std::mem::transmute(before.sa_sigaction);
            handler(number, info, context);
        }
    }
}

/// The program takes the signal between two sessions: the second one is sampled, and signals of
/// others still reach the program, once.
#[test]
fn a_handler_that_was_installed_between_two_sessions_stays_the_programs() {
    let _turn = turn();
    let first = start().unwrap();
    assert!(is_sampled(&first));
    first.stop().unwrap();
    // SAFETY: an action is numbers and addresses, which may be zero; the pointers are to locals.
    unsafe {
        let (mut own, mut before): (libc::sigaction, libc::sigaction) = (zeroed(), zeroed());
        assert_eq!(libc::sigaction(libc::SIGPROF, null(), &mut before), 0);
        *BEFORE.lock().unwrap() = Some(before);
        own.sa_sigaction = theirs as *const () as libc::sighandler_t;
        own.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGPROF, &own, null_mut()), 0);
    }
    let second = start().unwrap();
    assert!(is_sampled(&second));
    second.stop().unwrap();
    let before = THEIRS.load(SeqCst);
    // SAFETY: sends this thread a signal that has a handler.
    assert_eq!(unsafe { libc::raise(libc::SIGPROF) }, 0);
    assert_eq!(THEIRS.load(SeqCst), before + 1);
}
