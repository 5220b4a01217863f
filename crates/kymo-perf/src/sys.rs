//! The system calls: the only unsafe code of this crate.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use perf_event_open_sys::bindings::{PERF_FLAG_FD_CLOEXEC, PERF_IOC_FLAG_GROUP, perf_event_attr};
use perf_event_open_sys::{ioctls, perf_event_open};

use crate::target::Target;

/// What an event or its group is made to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Its count becomes 0; its times go on.
    Reset,
    /// It counts.
    Enable,
    /// It stops counting.
    Disable,
}

/// Whom a [`Control`] is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One event.
    Event,
    /// The leader's whole group (`PERF_IOC_FLAG_GROUP`).
    Group,
}

/// The calls that a group makes, so that tests can see them and answer as other machines would.
pub trait System {
    /// An open event.
    type Event;

    /// Opens an event for a target, as a member of the leader's group if there is one.
    ///
    /// # Errors
    /// Those of `perf_event_open(2)`.
    fn open(
        &self,
        attributes: &perf_event_attr,
        target: Target,
        leader: Option<&Self::Event>,
    ) -> io::Result<Self::Event>;

    /// The kernel's id of an event, which no other event ever gets.
    ///
    /// # Errors
    /// Those of `ioctl(2)`.
    fn id(&self, event: &Self::Event) -> io::Result<u64>;

    /// Resets, enables or disables.
    ///
    /// # Errors
    /// Those of `ioctl(2)`.
    fn control(&self, event: &Self::Event, control: Control, scope: Scope) -> io::Result<()>;

    /// Makes an event run an eBPF program.
    ///
    /// # Errors
    /// Those of `ioctl(2)`.
    fn set_program(&self, event: &Self::Event, program: BorrowedFd<'_>) -> io::Result<()>;

    /// Reads the counts of the leader's group.
    ///
    /// # Errors
    /// Those of `read(2)`.
    fn read(&self, leader: &Self::Event, buffer: &mut [u8]) -> io::Result<usize>;
}

/// The running kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Linux;

impl System for Linux {
    type Event = File;

    fn open(
        &self,
        attributes: &perf_event_attr,
        target: Target,
        leader: Option<&File>,
    ) -> io::Result<File> {
        let mut attributes = *attributes;
        let (pid, cpu) = target.numbers();
        let leader = leader.map_or(-1, |leader| leader.as_raw_fd());
        let flags = PERF_FLAG_FD_CLOEXEC.into();
        // SAFETY: `attributes` is a whole structure of the size that it states, and lives during
        // the call, which may write to it. No attribute makes the kernel write to other memory.
        let fd = unsafe { perf_event_open(&mut attributes, pid, cpu, leader, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has just opened the descriptor, and nothing else owns it.
        Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    fn id(&self, event: &File) -> io::Result<u64> {
        let mut id = 0;
        // SAFETY: the call writes the id to `id`, which is a u64, as it expects.
        check(unsafe { ioctls::ID(event.as_raw_fd(), &mut id) })?;
        Ok(id)
    }

    fn control(&self, event: &File, control: Control, scope: Scope) -> io::Result<()> {
        let fd = event.as_raw_fd();
        let flags = match scope {
            Scope::Event => 0,
            Scope::Group => PERF_IOC_FLAG_GROUP,
        };
        // SAFETY: these calls take a number, and touch no memory of this process.
        check(unsafe {
            match control {
                Control::Reset => ioctls::RESET(fd, flags),
                Control::Enable => ioctls::ENABLE(fd, flags),
                Control::Disable => ioctls::DISABLE(fd, flags),
            }
        })
    }

    fn set_program(&self, event: &File, program: BorrowedFd<'_>) -> io::Result<()> {
        let program = u32::try_from(program.as_raw_fd()).unwrap_or(u32::MAX);
        // SAFETY: the call takes a number, and touches no memory of this process.
        check(unsafe { ioctls::SET_BPF(event.as_raw_fd(), program) })
    }

    fn read(&self, mut leader: &File, buffer: &mut [u8]) -> io::Result<usize> {
        leader.read(buffer)
    }
}

fn check(result: i32) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes the command's process, before it becomes the command, write its id to `child` as 4 bytes,
/// and wait until it can read a byte there. If `parent`, the other end, is closed first, the
/// process ends.
pub(crate) fn wait_before_exec(command: &mut Command, parent: &UnixStream, child: UnixStream) {
    let parent = parent.as_raw_fd();
    let wait = move || {
        // SAFETY: this process has just been made, as a copy in which no code but this closure
        // runs until it becomes another program: nobody else uses or closes its copy of the
        // descriptor. Without closing it, the read below would wait for this process itself.
        drop(unsafe { OwnedFd::from_raw_fd(parent) });
        (&child).write_all(&std::process::id().to_ne_bytes())?;
        (&child).read_exact(&mut [0])
    };
    // SAFETY: between fork and exec, the closure only closes, writes to and reads from descriptors
    // and asks for its process id; it allocates nothing and takes no lock.
    unsafe { command.pre_exec(wait) };
}
