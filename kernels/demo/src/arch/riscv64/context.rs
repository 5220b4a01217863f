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

/// Bytes at the top of every kernel stack, reserved for the frame of a trap from user mode and for
/// the hart's `tp` (trap.s).
const RESERVED: usize = size_of::<Frame>() + 16;

/// The registers with which the program of the thread whose kernel stack ends at `top` entered the
/// kernel.
pub fn user_registers(top: usize) -> Registers {
    let frame = (top - RESERVED) as *const Frame;
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
        let frame = top - RESERVED - 14 * size_of::<usize>();
        // SAFETY: inside the stack. `switch_stacks` takes the first word for the return address,
        // and the third for s1; s0 is 0, which ends a walk of the frame pointers.
        unsafe {
            let words = frame as *mut usize;
            core::ptr::write_bytes(words, 0, 14);
            words.write(start_thread as *const () as usize);
            words.add(2).write(entry as usize);
        }
        Context(frame)
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
    /// Interrupts are on after `sret`, which enters user mode.
    const SPIE: usize = 1 << 5;
    let frame = (top - RESERVED) as *mut Frame;
    // SAFETY: `Context::new` has reserved these bytes; the frames of the functions below are not
    // used any more.
    unsafe {
        frame.write(Frame::at(start, SPIE));
        core::arch::asm!(
            "mv sp, {frame}",
            "j {leave}",
            frame = in(reg) frame,
            leave = sym leave_trap,
            options(noreturn)
        );
    }
}
