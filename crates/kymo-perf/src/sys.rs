//! The system calls: the only unsafe code of this crate.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use perf_event_open_sys::bindings::{
    PERF_FLAG_FD_CLOEXEC, PERF_IOC_FLAG_GROUP, perf_event_attr, perf_event_mmap_page,
};
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

/// Lets an event write its records to the buffer of another one, of the same CPU.
///
/// # Errors
/// Those of `ioctl(2)`.
pub(crate) fn write_to_buffer_of(event: &File, other: &File) -> io::Result<()> {
    // SAFETY: the call takes a number, and touches no memory of this process.
    check(unsafe { ioctls::SET_OUTPUT(event.as_raw_fd(), other.as_raw_fd()) })
}

/// The attributes as the kernel's interface has them in memory, for parsers of records.
pub(crate) fn bytes_of(attributes: &perf_event_attr) -> Vec<u8> {
    let from = std::ptr::from_ref(attributes).cast::<u8>();
    // SAFETY: the structure is the kernel's, without padding, and was zeroed before fields were
    // set, unions too; the slice lives no longer than the borrow.
    unsafe { std::slice::from_raw_parts(from, size_of::<perf_event_attr>()) }.to_vec()
}

/// The memory that the kernel writes an event's records to: a page that says how far it has
/// written, then a ring of pages.
///
/// # Invariants
/// - The mapping stays until the ring is dropped, and begins with a [`perf_event_mmap_page`].
/// - `data` and `len` lie inside the mapping, and `len` is a power of two.
/// - The kernel never writes to the bytes from `data_tail` to `data_head`, which only this side
///   makes free, by advancing `data_tail`.
#[derive(Debug)]
pub(crate) struct Ring {
    map: MmapRaw,
    /// Where the records begin.
    data: usize,
    len: usize,
}

impl Ring {
    /// Maps the buffer of an event, of so many pages of records: a power of two.
    ///
    /// # Errors
    /// Those of `mmap(2)`: `EPERM` where a process may lock no more memory.
    pub(crate) fn map(event: &File, pages: usize) -> io::Result<Ring> {
        let page = rustix::param::page_size();
        let len = pages * page;
        let map = MmapOptions::new().len(page + len).map_raw(event)?;
        Ok(Ring {
            map,
            data: page,
            len,
        })
    }

    fn position(&self, field: usize) -> &AtomicU64 {
        let at = self.map.as_mut_ptr().wrapping_add(field);
        // SAFETY: `field` is the offset of one of the two positions in the mapping's first page,
        // which are aligned; both sides use them as whole words only.
        unsafe { AtomicU64::from_ptr(at.cast()) }
    }

    /// Appends all bytes that the kernel has written, and lets it reuse their place.
    pub(crate) fn drain(&mut self, to: &mut Vec<u8>) {
        let head = self.position(std::mem::offset_of!(perf_event_mmap_page, data_head));
        let tail = self.position(std::mem::offset_of!(perf_event_mmap_page, data_tail));
        // Acquire: pairs with the kernel's barrier before it stores the head.
        let end = head.load(Ordering::Acquire);
        let mut begin = tail.load(Ordering::Relaxed);
        let data = self.map.as_ptr().wrapping_add(self.data);
        while begin < end {
            let at = (begin as usize) & (self.len - 1);
            let len = ((end - begin) as usize).min(self.len - at);
            // SAFETY: `at + len` is at most the ring's length, so the bytes lie in the mapping;
            // they are before the head, and the kernel keeps them until the tail is stored.
            let bytes = unsafe { std::slice::from_raw_parts(data.wrapping_add(at), len) };
            to.extend_from_slice(bytes);
            begin += len as u64;
        }
        // Release: the bytes were copied before the kernel may reuse them.
        tail.store(end, Ordering::Release);
    }
}
