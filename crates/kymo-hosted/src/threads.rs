//! The threads that hold rings, with their numbers and names. A program's trace has a "CPU" for each
//! ring, and readers know its thread by what is recorded here.
//!
//! # Invariants
//! - A thread enters the list when it gets a ring, and leaves it before it gives the ring back.
//! - Nothing is recorded while the list is locked.
//! - Signal handlers do not lock the list.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use kymo::platform::Local as _;
use kymo::vocabulary::{Cpu, NAME_BYTES, Pid, ProcessStateDump, ThreadState, ThreadStateDump};
use kymo::{ChannelKind, NameEpoch, Text, Tid, Tracer};

use crate::{Hosted, HostedLocal};

/// The threads that hold rings, in no order.
static HOLDERS: Mutex<Vec<Holder>> = Mutex::new(Vec::new());
/// The process whose threads these are: a forked one has only the thread that forked it.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Whether the process was named in this name epoch.
pub(crate) static PROCESS_NAMED: NameEpoch = NameEpoch::new();

/// A thread that holds a ring.
#[derive(Clone, Copy, Debug)]
struct Holder {
    ring: u32,
    tid: Tid,
    name: Text<NAME_BYTES>,
}

fn holders() -> MutexGuard<'static, Vec<Holder>> {
    HOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes that the calling thread holds this ring from now on, and records its name.
pub(crate) fn enter(ring: u32) {
    let holder = Holder::calling(ring);
    let mut holders = holders();
    forget_parents(&mut holders);
    holders.push(holder);
    drop(holders);
    holder.record();
}

/// Notes that the calling thread is about to give this ring back.
pub(crate) fn leave(ring: u32) {
    holders().retain(|holder| holder.ring != ring);
}

/// Records the names of all threads that hold rings.
pub(crate) fn dump() {
    let mut holders = holders();
    forget_parents(&mut holders);
    let all = holders.clone();
    drop(holders);
    all.iter().for_each(Holder::record);
}

/// In a process that was forked, keeps only the calling thread, which has another number there.
fn forget_parents(holders: &mut Vec<Holder>) {
    let process = std::process::id();
    if PROCESS.swap(process, Relaxed) == process {
        return;
    }
    let own = HostedLocal::cpu().map(|cpu| HostedLocal::control(cpu, ChannelKind::Events).cpu());
    holders.retain(|holder| Some(holder.ring) == own);
    for holder in holders {
        *holder = Holder::calling(holder.ring);
    }
}

impl Holder {
    /// The calling thread.
    fn calling(ring: u32) -> Holder {
        let (tid, name) = calling_thread();
        Holder { ring, tid, name }
    }

    /// Records the process, once in a name epoch, and the thread.
    fn record(&self) {
        let pid = Pid(std::process::id());
        Tracer::<Hosted>::named(&PROCESS_NAMED, || ProcessStateDump {
            pid,
            parent_pid: Pid(0),
            name: program_name(),
        });
        if Tracer::<Hosted>::is_on::<ThreadStateDump>() {
            Tracer::<Hosted>::record(ThreadStateDump {
                tid: self.tid,
                pid,
                prio: 0,
                state: ThreadState::Runnable,
                cpu: Cpu(self.ring),
                name: self.name,
            });
        }
    }
}

/// The name of the program's file.
pub(crate) fn program_name() -> Text<NAME_BYTES> {
    let path = std::env::current_exe().unwrap_or_default();
    let name = path.file_name().map(|name| name.to_string_lossy());
    Text::new(name.as_deref().unwrap_or("program"))
}

/// Number and name of the calling thread, as Linux has them. Linux cuts names to 15 bytes; the name
/// that the program gave is taken where it begins with that.
#[cfg(target_os = "linux")]
fn calling_thread() -> (Tid, Text<NAME_BYTES>) {
    let mut bytes = [0_u8; 16];
    // SAFETY: PR_GET_NAME writes up to 16 bytes, the last of them zero.
    unsafe { libc::prctl(libc::PR_GET_NAME, bytes.as_mut_ptr()) };
    let name = std::ffi::CStr::from_bytes_until_nul(&bytes).ok();
    let name = name.map(|name| name.to_string_lossy()).unwrap_or_default();
    // SAFETY: asks for a number of the calling thread.
    let tid = Tid(unsafe { libc::gettid() } as u32);
    let thread = std::thread::current();
    match thread.name() {
        Some(given) if given.starts_with(&*name) => (tid, Text::new(given)),
        _ => (tid, Text::new(&name)),
    }
}

/// Number and name of the calling thread: the threads are numbered as they get rings.
#[cfg(not(target_os = "linux"))]
fn calling_thread() -> (Tid, Text<NAME_BYTES>) {
    static LAST: AtomicU32 = AtomicU32::new(0);
    thread_local! {
        static NUMBER: u32 = LAST.fetch_add(1, Relaxed) + 1;
    }
    let thread = std::thread::current();
    let number = NUMBER.with(|number| *number);
    (Tid(number), Text::new(thread.name().unwrap_or("")))
}
