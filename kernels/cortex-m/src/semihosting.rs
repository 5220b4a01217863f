//! Arm's semihosting (version 2.0): text, a file, and the end.

use core::arch::asm;
use core::fmt;

use kymo::transport::Sink;

const OPEN: usize = 0x01;
const WRITE0: usize = 0x04;
const WRITE: usize = 0x05;
const EXIT_EXTENDED: usize = 0x20;
const APPLICATION_EXIT: usize = 0x2_0026;
const WRITE_BINARY: usize = 5;

/// # Safety
/// `block` is what the operation takes.
unsafe fn call(operation: usize, block: *const usize) -> usize {
    let result;
    // SAFETY: the caller's promise; the debugger reads the block, and what it points to.
    unsafe { asm!("bkpt 0xab", inlateout("r0") operation => result, in("r1") block) };
    result
}

/// Ends the machine.
pub fn exit(status: usize) -> ! {
    let block = [APPLICATION_EXIT, status];
    loop {
        // SAFETY: two words.
        unsafe { call(EXIT_EXTENDED, block.as_ptr()) };
    }
}

/// The debugger's console.
pub struct Console;

impl fmt::Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for piece in text.as_bytes().chunks(31) {
            let mut zeroed = [0; 32];
            zeroed[..piece.len()].copy_from_slice(piece);
            // SAFETY: a text with a zero at its end.
            unsafe { call(WRITE0, zeroed.as_ptr().cast()) };
        }
        Ok(())
    }
}

/// A file of the host.
pub struct File(usize);

impl File {
    /// A new file in QEMU's folder; `name` ends with a zero.
    pub fn create(name: &core::ffi::CStr) -> File {
        let block = [name.as_ptr() as usize, WRITE_BINARY, name.count_bytes()];
        // SAFETY: a name, a mode, and the name's length.
        File(unsafe { call(OPEN, block.as_ptr()) })
    }
}

impl Sink for File {
    fn offer(&mut self, bytes: &[u8]) -> usize {
        let block = [self.0, bytes.as_ptr() as usize, bytes.len()];
        // SAFETY: a file, and bytes.
        let left = unsafe { call(WRITE, block.as_ptr()) };
        bytes.len().saturating_sub(left)
    }
}
