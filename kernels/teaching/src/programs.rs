//! What the shell can run.

use kymo::trace;
use kymo::vocabulary::{Object, PipeRead, PipeWrite};

use crate::process;
use crate::sleep_lock::SleepLock;
use crate::spin_lock::SpinLock;
use crate::trap::{sleep_ticks, ticks};

pub struct Program {
    pub name: &'static str,
    pub about: &'static str,
    pub body: fn(usize) -> i32,
}

pub const ALL: [Program; 6] = [
    Program {
        name: "spin",
        about: "computes for 50 ticks",
        body: spin,
    },
    Program {
        name: "loop",
        about: "computes until it is killed",
        body: endless,
    },
    Program {
        name: "nap",
        about: "sleeps ten times for a tick",
        body: nap,
    },
    Program {
        name: "disk",
        about: "takes a sleep lock five times and sleeps a tick with it",
        body: disk,
    },
    Program {
        name: "hog",
        about: "takes the lock of `disk` and computes for 5 ticks with it",
        body: hog,
    },
    Program {
        name: "pipe",
        about: "starts a writer and a reader of 2000 bytes, and waits for them",
        body: pipe,
    },
];

/// The status of a process that was killed.
const KILLED: i32 = -1;

fn spin(_: usize) -> i32 {
    compute(50)
}

fn endless(_: usize) -> i32 {
    compute(u64::MAX)
}

/// Computes until so many ticks have passed, or the process is killed.
fn compute(count: u64) -> i32 {
    let end = ticks().saturating_add(count);
    let mut sum = 0u64;
    while ticks() < end {
        if process::killed() {
            return KILLED;
        }
        for value in 0..100_000 {
            sum = core::hint::black_box(sum.wrapping_add(value));
        }
    }
    0
}

fn nap(_: usize) -> i32 {
    for _ in 0..10 {
        if process::killed() {
            return KILLED;
        }
        sleep_ticks(1);
    }
    0
}

static DISK: SleepLock = SleepLock::new("disk");

fn disk(_: usize) -> i32 {
    for _ in 0..5 {
        if process::killed() {
            return KILLED;
        }
        DISK.acquire();
        sleep_ticks(1);
        DISK.release();
    }
    0
}

fn hog(_: usize) -> i32 {
    DISK.acquire();
    compute(5);
    DISK.release();
    0
}

/// Bytes that a writer or a reader moves.
const BYTES: usize = 2000;

/// A buffer between writers and readers. All copies of `pipe` share it.
struct Pipe {
    bytes: [u8; 64],
    written: usize,
    read: usize,
}

static PIPE: SpinLock<Pipe> = SpinLock::new(
    "pipe",
    Pipe {
        bytes: [0; 64],
        written: 0,
        read: 0,
    },
);

/// What readers wait for: that `written` grows. Writers wait for `read`.
const FOR_BYTES: usize = 0;
const FOR_ROOM: usize = 1;

fn pipe_channel(what: usize) -> usize {
    core::ptr::from_ref(&PIPE).addr() + what
}

fn pipe(_: usize) -> i32 {
    if process::spawn("writer", writer, 0).is_none() {
        return 1;
    }
    if process::spawn("reader", reader, 0).is_none() {
        return 1;
    }
    let mut status = 0;
    while let Some((_, ended)) = process::wait() {
        status |= ended;
    }
    status
}

fn writer(_: usize) -> i32 {
    for byte in 0..BYTES {
        let mut pipe = PIPE.lock();
        while pipe.written - pipe.read == pipe.bytes.len() {
            pipe = process::sleep(pipe_channel(FOR_ROOM), pipe);
            if process::killed() {
                return KILLED;
            }
        }
        let at = pipe.written % pipe.bytes.len();
        pipe.bytes[at] = byte as u8;
        pipe.written += 1;
        trace!(PipeWrite {
            pipe: Object(pipe_channel(0) as u64),
            len: 1
        });
        process::wakeup(pipe_channel(FOR_BYTES));
    }
    0
}

fn reader(_: usize) -> i32 {
    let mut sum = 0u32;
    for _ in 0..BYTES {
        let mut pipe = PIPE.lock();
        while pipe.written == pipe.read {
            pipe = process::sleep(pipe_channel(FOR_BYTES), pipe);
            if process::killed() {
                return KILLED;
            }
        }
        sum += u32::from(pipe.bytes[pipe.read % pipe.bytes.len()]);
        pipe.read += 1;
        trace!(PipeRead {
            pipe: Object(pipe_channel(0) as u64),
            len: 1
        });
        process::wakeup(pipe_channel(FOR_ROOM));
    }
    core::hint::black_box(sum);
    0
}
