//! A thread's place on the processor: its kernel stack, and the exchange of two of them.

use super::trap::Frame;
use crate::process::Start;

unsafe extern "C" {
    /// In trap.s.
    fn switch_stacks(old: *mut usize, new: usize);
    /// In trap.s.
    fn leave_trap() -> !;
}

/// The top of every kernel stack is kept free for the frame of a trap from user mode, and for the
/// hart's `tp` meanwhile: trap.s.
const RESERVED: usize = size_of::<Frame>() + 16;

/// What is kept of a thread that does not run: its stack pointer. All else is on its stack.
#[derive(Clone, Copy, Debug)]
pub struct Context(usize);

impl Context {
    /// That of no thread.
    pub const fn none() -> Context {
        Context(0)
    }

    /// A thread that begins with a call of `entry`, on the stack that ends at `top`.
    ///
    /// # Safety
    /// The stack belongs to that thread alone, and is 16-byte aligned.
    pub unsafe fn new(top: usize, entry: extern "C" fn() -> !) -> Context {
        let frame = top - RESERVED - 14 * size_of::<usize>();
        // SAFETY: inside of the stack. `switch_stacks` takes the first word for the return address;
        // s0 is 0, where a walk of the frame pointers ends.
        unsafe {
            core::ptr::write_bytes(frame as *mut usize, 0, 14);
            (frame as *mut usize).write(entry as usize);
        }
        Context(frame)
    }
}

/// Leaves the running thread, whose context goes to `old`, for the thread of `new`. Returns when a
/// switch comes back, perhaps on another hart.
///
/// # Safety
/// Interrupts are masked; `old` is valid until then; `new` is of a thread that runs nowhere, and no
/// other hart can switch to it; nobody can switch to the old thread before this hart has left it:
/// the scheduler's lock is held.
pub unsafe fn switch(old: *mut Context, new: Context) {
    // SAFETY: as promised; a `Context` is one word.
    unsafe { switch_stacks(old.cast(), new.0) };
}

/// Goes to user mode, from the thread whose kernel stack ends at `top`; what the thread has on that
/// stack is given up.
///
/// # Safety
/// Interrupts are masked; the stack is the running thread's own, which began with [`Context::new`].
pub unsafe fn enter_user(top: usize, start: Start) -> ! {
    /// Interrupts are on after `sret`, which goes to user mode.
    const SPIE: usize = 1 << 5;
    let frame = (top - RESERVED) as *mut Frame;
    // SAFETY: `Context::new` has left this place free; the frames of the functions below it are not
    // used any more.
    unsafe {
        frame.write(Frame::at(start, SPIE));
        core::arch::asm!("mv sp, {frame}", "j {leave}", frame = in(reg) frame, leave = sym leave_trap, options(noreturn));
    }
}
