//! Address spaces of processes: program, heap, stack. Code and constants are mapped at the start.
//! Every other page is allocated when it is touched, by the program (a page fault) or by the kernel
//! on its behalf (the buffer of a call).

use core::ops::Range;

use kymo::count::Software;
use kymo::vocabulary::{Address, FaultCause, PageFault};

use crate::abi::Error;
use crate::arch::paging::{self, Access, PAGE, USER};
use crate::process::{self, Process};
use crate::program::Program;
use crate::{counters, counting, frame};

/// Limits of a process's heap and stack.
pub const HEAP: usize = USER.start + (256 << 20);
const HEAP_LIMIT: usize = HEAP + (64 << 20);
const STACK: usize = 64 << 10;
/// Start of the stack, which grows downwards.
pub const STACK_TOP: usize = USER.end;

/// Creates a space with a program's code and constants, and gives its root.
pub fn new(program: &'static Program) -> Result<usize, Error> {
    let root = frame::alloc_zeroed().ok_or(Error::NoMemory)?;
    // SAFETY: the frame is new.
    unsafe { paging::new_space(root) };
    for segment in program.segments().filter(|segment| !segment.writable) {
        let access = if segment.executable {
            Access::ReadExecute
        } else {
            Access::Read
        };
        let frames = (segment.bytes.as_ptr() as usize..).step_by(PAGE);
        for (page, frame) in segment.pages().zip(frames) {
            // SAFETY: no hart uses the space yet.
            if unsafe { paging::map(root, page, frame, access, frame::alloc_zeroed) }.is_none() {
                free(root);
                return Err(Error::NoMemory);
            }
        }
    }
    Ok(root)
}

/// Frees a space that no hart uses.
pub fn free(root: usize) {
    // SAFETY: no hart uses it.
    unsafe { paging::dismantle(root, |frame| frame::free(frame, 0)) };
}

/// Grows the running process's heap by `pages` pages, and gives the address of the first.
pub fn map(pages: usize) -> Result<usize, Error> {
    process::with_running(|process| {
        let (begin, size) = (
            process.heap_end,
            pages.checked_mul(PAGE).ok_or(Error::NoMemory)?,
        );
        let end = begin
            .checked_add(size)
            .filter(|&end| end <= HEAP_LIMIT)
            .ok_or(Error::NoMemory)?;
        process.heap_end = end;
        Ok(begin)
    })?
}

impl Process {
    /// Initial content of a writable page that is not mapped yet; `None` if the address is not
    /// valid.
    fn first_bytes(&self, page: usize) -> Option<&'static [u8]> {
        if (HEAP..self.heap_end).contains(&page) || (STACK_TOP - STACK..STACK_TOP).contains(&page) {
            return Some(&[]);
        }
        let data = self
            .program
            .segments()
            .find(|segment| segment.writable && segment.pages().any(|own| own == page))?;
        Some(data.bytes_of(page))
    }

    /// Whether the process has a page, or would get it by touching it.
    fn has(&self, page: usize, write: bool) -> bool {
        // SAFETY: the space lives as long as its process.
        match unsafe { paging::translate(self.root, page) } {
            Some((_, writable)) => writable || !write,
            None => self.first_bytes(page).is_some(),
        }
    }

    /// The frame behind a page, which is allocated now if the address is valid.
    fn frame_of(&mut self, page: usize, write: bool) -> Result<usize, Error> {
        if !USER.contains(&page) || !self.has(page, write) {
            return Err(Error::Fault);
        }
        // SAFETY: the space lives as long as its process.
        if let Some((frame, _)) = unsafe { paging::translate(self.root, page) } {
            return Ok(frame);
        }
        let bytes = self.first_bytes(page).ok_or(Error::Fault)?;
        let frame = frame::alloc_zeroed().ok_or(Error::NoMemory)?;
        // SAFETY: the frame is new, memory is mapped at its own address, and `bytes` are at most a
        // page.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), frame as *mut u8, bytes.len()) };
        // SAFETY: the running process's space, and a process runs on one hart at a time.
        let mapped = unsafe {
            paging::map(
                self.root,
                page,
                frame,
                Access::ReadWrite,
                frame::alloc_zeroed,
            )
        };
        mapped.map(|()| frame).ok_or_else(|| {
            frame::free(frame, 0);
            Error::NoMemory
        })
    }
}

fn page_of(address: usize) -> usize {
    address / PAGE * PAGE
}

/// Splits a range at page boundaries.
fn parts(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let mut at = range.start;
    core::iter::from_fn(move || {
        let begin = at;
        at = range.end.min(page_of(begin) + PAGE);
        (begin < range.end).then_some(begin..at)
    })
}

/// Checks a range of user addresses. An empty one is valid at any address.
fn range(address: usize, len: usize) -> Result<Range<usize>, Error> {
    if len == 0 {
        return Ok(USER.start..USER.start);
    }
    let end = address
        .checked_add(len)
        .filter(|&end| end <= USER.end && address >= USER.start);
    end.map(|end| address..end).ok_or(Error::Fault)
}

/// Whether the running process may read (or write) these bytes.
pub fn check(address: usize, len: usize, write: bool) -> Result<(), Error> {
    let range = range(address, len)?;
    let all = process::with_running(|process| {
        parts(range).all(|part| process.has(page_of(part.start), write))
    })?;
    all.then_some(()).ok_or(Error::Fault)
}

/// Allocates the pages of these bytes, which the running process writes.
pub fn touch(address: usize, len: usize) -> Result<(), Error> {
    parts(range(address, len)?).try_for_each(|part| {
        process::with_running(|process| process.frame_of(page_of(part.start), true))?.map(|_| ())
    })
}

/// Reads bytes at an address of the running process.
pub fn copy_from_user(address: usize, to: &mut [u8]) -> Result<(), Error> {
    let mut rest = to;
    for part in parts(range(address, rest.len())?) {
        let frame = process::with_running(|process| process.frame_of(page_of(part.start), false))??;
        let (here, behind) = rest.split_at_mut(part.len());
        // SAFETY: the frame belongs to the running process, memory is mapped at its own address,
        // and the part is inside the frame.
        unsafe {
            core::ptr::copy_nonoverlapping(
                (frame + part.start % PAGE) as *const u8,
                here.as_mut_ptr(),
                here.len(),
            )
        };
        rest = behind;
    }
    Ok(())
}

/// Writes bytes at an address of the running process.
pub fn copy_to_user(address: usize, from: &[u8]) -> Result<(), Error> {
    let mut rest = from;
    for part in parts(range(address, rest.len())?) {
        let frame = process::with_running(|process| process.frame_of(page_of(part.start), true))??;
        let (here, behind) = rest.split_at(part.len());
        // SAFETY: as in `copy_from_user`; the page is writable.
        unsafe {
            core::ptr::copy_nonoverlapping(
                here.as_ptr(),
                (frame + part.start % PAGE) as *mut u8,
                here.len(),
            )
        };
        rest = behind;
    }
    Ok(())
}

/// Reads words at an address of the running process.
pub fn read_words<const N: usize>(address: usize) -> Result<[u64; N], Error> {
    let mut words = [[0; 8]; N];
    copy_from_user(address, words.as_flattened_mut())?;
    Ok(words.map(u64::from_le_bytes))
}

/// Writes words at an address of the running process.
pub fn write_words<const N: usize>(address: usize, words: [u64; N]) -> Result<(), Error> {
    copy_to_user(address, words.map(u64::to_le_bytes).as_flattened())
}

/// Handles a page fault of a program.
pub fn fault(address: usize, ip: usize, cause: FaultCause) {
    counting::happened(Software::PageFaults, false);
    // Pages come from memory: there is no disk.
    counting::happened(Software::MinorFaults, false);
    kymo::count!(counters::PageFaults);
    record!(PageFault {
        address: Address(address as u64),
        ip: Address(ip as u64),
        cause,
        user: true
    });
    let write = match cause {
        FaultCause::Load => Some(false),
        FaultCause::Store => Some(true),
        // All code is mapped at the start.
        FaultCause::Fetch => None,
    };
    let frame = |write| {
        process::with_running(|process| process.frame_of(page_of(address), write))
            .and_then(|frame| frame)
    };
    if let Err(error) = write.ok_or(Error::Fault).and_then(frame) {
        process::give_up(format_args!(
            "{cause:?} at {address:#x} by {ip:#x}, {error:?}"
        ));
    }
}
