//! Wrong frame pointers, in the kernel and in programs. Tests check how the samples' chains end.

#[path = "../../user/src/bin/broken/frame.rs"]
mod frame;

use core::hint::black_box;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use super::{processes, together};
use crate::arch::paging::USER;
use crate::arch::{self, BEHIND_FRAME, with_frame_pointer};
use crate::{sched, thread};
use frame::{Frame, SPIN, pointer};

pub fn run(rounds: u32) {
    DONE.store(false, Relaxed);
    together([("other", 9, keeps_a_frame), ("broken", 8, spins)], rounds);
    processes([(format_args!("broken {rounds}"), 5)]);
    processes([(format_args!("broken exec {rounds}"), 5)]);
}

/// The frame pointer for the frame of the thread "other".
static OTHERS: AtomicUsize = AtomicUsize::new(0);
static DONE: AtomicBool = AtomicBool::new(false);

/// Has a good frame on its stack, and sleeps.
fn keeps_a_frame(_: usize) {
    let frame = black_box(Frame::called(1, 0));
    OTHERS.store(pointer(&frame), Relaxed);
    while !DONE.load(Relaxed) {
        thread::sleep(10_000);
    }
}

fn spins(rounds: usize) {
    while OTHERS.load(Relaxed) == 0 {
        thread::yield_now();
    }
    for _ in 0..rounds {
        first_step();
        later_step();
    }
    DONE.store(true, Relaxed);
    OTHERS.store(0, Relaxed);
}

/// The end of the running thread's stack.
fn stack_end() -> usize {
    let interrupts = arch::mask();
    let end = thread::stack_top(sched::running_here().slot);
    arch::restore(interrupts);
    end
}

/// Frame pointers that are wrong themselves: a chain has no callers.
#[inline(never)]
fn first_step() {
    let frame = black_box(Frame::called(1, 0));
    let not_code = black_box(Frame {
        caller: 0,
        address: 1,
    });
    with_frame_pointer!("broken_misaligned", pointer(&frame) + 1, SPIN);
    with_frame_pointer!("broken_wild", 0xdead_beef_dead_bee8_usize, SPIN);
    with_frame_pointer!("broken_unmapped", 64_usize, SPIN);
    with_frame_pointer!("broken_edge", stack_end() - 8 + BEHIND_FRAME, SPIN);
    with_frame_pointer!("broken_programs", USER.start + BEHIND_FRAME, SPIN);
    with_frame_pointer!("broken_others", OTHERS.load(Relaxed), SPIN);
    with_frame_pointer!("broken_not_code", pointer(&not_code), SPIN);
    let interrupts = arch::mask();
    with_frame_pointer!("broken_masked", 64_usize, SPIN);
    arch::restore(interrupts);
}

/// Frame pointers to one or two good frames, behind which the chain breaks.
#[inline(never)]
fn later_step() {
    let mut stack = [Frame::called(1, 0); 2];
    let stack = black_box(&raw mut stack).cast::<Frame>();
    let set = |frame: *mut Frame, to: Frame| {
        // SAFETY: both are this function's.
        unsafe { frame.write_volatile(to) };
    };
    let second = stack.wrapping_add(1);

    set(stack, Frame::called(1, pointer(second) + 4));
    with_frame_pointer!("broken_later_misaligned", pointer(stack), SPIN);
    set(stack, Frame::called(1, 64));
    with_frame_pointer!("broken_later_unmapped", pointer(stack), SPIN);
    set(stack, Frame::called(1, OTHERS.load(Relaxed)));
    with_frame_pointer!("broken_to_others", pointer(stack), SPIN);
    set(stack, Frame::called(1, pointer(stack)));
    with_frame_pointer!("broken_itself", pointer(stack), SPIN);
    set(stack, Frame::called(1, pointer(second)));
    set(second, Frame::called(2, pointer(stack)));
    with_frame_pointer!("broken_circle", pointer(stack), SPIN);
}
