//! A thread's context: its kernel stack, and the switch between two of them.

use kymo::sample::Registers;

use super::trap::Frame;
use crate::process::Start;

unsafe extern "C" {
    /// In trap.s.
    fn switch_stacks(old: *mut usize, new: usize);
    /// In trap.s.
    fn leave_trap() -> !;
    /// In trap.s.
    fn start_thread();
}

/// Words that `switch_stacks` takes from a stack: x29, x30, and x19 to x28.
const SWITCHED: usize = 12;

/// The registers with which the program of the thread whose kernel stack ends at `top` entered the
/// kernel.
pub fn user_registers(top: usize) -> Registers {
    let frame = (top - size_of::<Frame>()) as *const Frame;
    // SAFETY: `Context::new` has reserved these bytes. The thread that they belong to runs on this
    // hart, in the kernel: nobody writes them.
    unsafe { (*frame).place().registers }
}

/// The stack pointer of a thread that does not run. All else is on its stack.
#[derive(Clone, Copy, Debug)]
pub struct Context(usize);

impl Context {
    /// The context of no thread.
    pub const fn none() -> Context {
        Context(0)
    }

    /// The context of a thread that will call `entry`, on the stack that ends at `top`.
    ///
    /// # Safety
    /// The stack must belong to that thread alone and be 16-byte aligned.
    pub unsafe fn new(top: usize, entry: extern "C" fn() -> !) -> Context {
        // The frame of a trap from user mode is at the top.
        let stack = top - size_of::<Frame>() - SWITCHED * size_of::<usize>();
        // SAFETY: inside the stack. `switch_stacks` takes the second word for the return address,
        // and the third for x19; x29 is 0, which ends a walk of the frame pointers.
        unsafe {
            let words = stack as *mut usize;
            core::ptr::write_bytes(words, 0, SWITCHED);
            words.add(1).write(start_thread as *const () as usize);
            words.add(2).write(entry as usize);
        }
        Context(stack)
    }
}

/// Saves the running thread's context in `old` and switches to the thread of `new`. Returns when a
/// switch comes back, perhaps on another hart.
///
/// # Safety
/// Interrupts must be masked, and `old` valid until the return. `new` must be of a thread that runs
/// nowhere. The scheduler's lock must be held, so that no other hart can switch to either thread
/// meanwhile.
pub unsafe fn switch(old: *mut Context, new: Context) {
    // SAFETY: as promised; a `Context` is one word.
    unsafe { switch_stacks(old.cast(), new.0) };
}

/// Enters user mode from the thread whose kernel stack ends at `top`, and discards that stack's
/// content.
///
/// # Safety
/// Interrupts must be masked, and the stack the running thread's own, from [`Context::new`].
pub unsafe fn enter_user(top: usize, start: Start) -> ! {
    let frame = (top - size_of::<Frame>()) as *mut Frame;
    // SAFETY: `Context::new` has reserved these bytes; the frames of the functions below are not
    // used any more.
    unsafe {
        frame.write(Frame::at(start));
        core::arch::asm!(
            "mov sp, {frame}",
            "b {leave}",
            frame = in(reg) frame,
            leave = sym leave_trap,
            options(noreturn),
        );
    }
}
