//! Counts instructions exactly: the processor's trap flag stops the thread after each one.
//!
//! Virtual machines often lack performance counters. This count needs none, and is the same on
//! every run.

use std::arch::asm;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use anyhow::{Result, bail, ensure};

/// The most calls of one count.
pub const MOST_CALLS: usize = 4096;
const TRAP_FLAG: u64 = 1 << 8;

/// Entry of the counted function.
static ENTRY: AtomicUsize = AtomicUsize::new(0);
/// Address after the last instruction: a repeated string instruction stops the thread at each
/// repetition, but counts once.
static LAST: AtomicUsize = AtomicUsize::new(0);
static STEPS: AtomicU64 = AtomicU64::new(0);
static CALLS: AtomicUsize = AtomicUsize::new(0);
/// `STEPS` at the beginning of each call.
static BEGINS: [AtomicU64; MOST_CALLS] = [const { AtomicU64::new(0) }; MOST_CALLS];

/// Instructions from the beginning of each call to that of the next: the function with its `ret`,
/// and the loop.
#[derive(Clone, Debug)]
pub struct Steps(Vec<u64>);

impl Steps {
    /// The median.
    pub fn median(&self) -> u64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or(0)
    }
}

extern "C" fn on_trap(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the system passes the context of the thread that it stopped.
    let at =
        unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize] }
            as usize;
    if LAST.swap(at, Relaxed) == at {
        return;
    }
    let steps = STEPS.load(Relaxed) + 1;
    STEPS.store(steps, Relaxed);
    if at == ENTRY.load(Relaxed) {
        let call = CALLS.load(Relaxed);
        if let Some(begin) = BEGINS.get(call) {
            begin.store(steps, Relaxed);
        }
        CALLS.store(call + 1, Relaxed);
    }
}

/// Runs `work`, which calls the function at `entry` `calls` times.
pub fn count(entry: usize, calls: usize, work: impl FnOnce()) -> Result<Steps> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let Ok(_guard) = ONE_AT_A_TIME.lock() else {
        bail!("an earlier count has panicked")
    };
    ensure!(
        calls <= MOST_CALLS,
        "at most {MOST_CALLS} calls are counted"
    );
    ENTRY.store(entry, Relaxed);
    STEPS.store(0, Relaxed);
    CALLS.store(0, Relaxed);
    // SAFETY: the handler only touches atomics.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_trap as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        if libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut()) != 0 {
            bail!(
                "SIGTRAP cannot be handled: {}",
                std::io::Error::last_os_error()
            );
        }
    }
    // SAFETY: the trap flag only causes the signal that is handled above.
    unsafe { asm!("pushfq", "or qword ptr [rsp], {flag}", "popfq", flag = const TRAP_FLAG) };
    work();
    // SAFETY: as above. The `popfq` itself is the last instruction that traps.
    unsafe {
        asm!("pushfq", "and qword ptr [rsp], {flag}", "popfq", flag = const !(TRAP_FLAG as i32))
    };
    ensure!(
        CALLS.load(Relaxed) == calls,
        "{} calls were seen of {calls}",
        CALLS.load(Relaxed)
    );
    let begins: Vec<u64> = BEGINS
        .iter()
        .take(calls)
        .map(|begin| begin.load(Relaxed))
        .collect();
    Ok(Steps(
        begins
            .windows(2)
            .map(|pair| pair[1].wrapping_sub(pair[0]))
            .collect(),
    ))
}
