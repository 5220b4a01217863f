//! broken ROUNDS: spins with wrong frame pointers, and makes calls with them. Tests check how the
//! samples' chains end.
//! broken exec N: does nothing but start itself again, N times, with a stack of its own each time.
#![no_std]
#![no_main]

mod frame;

use core::fmt::Write;
use core::hint::black_box;

use demo_user::arch::{BEHIND_FRAME, KERNEL};
use demo_user::{Words, number, sys, with_frame_pointer};
use frame::{Frame, SPIN, pointer};

demo_user::program!(main);

const PAGE: usize = 4096;

fn main(mut words: Words) -> u8 {
    let mut rest = words;
    if rest.next() == Some("exec") {
        return again(number(&mut rest));
    }
    let rounds = number(&mut words);
    let heap = sys::map(2).expect("there is room") as usize;
    for _ in 0..rounds {
        first_step(heap);
        later_step(heap);
    }
    0
}

/// Frame pointers that are wrong themselves: a chain has no callers.
#[inline(never)]
fn first_step(heap: usize) {
    let frame = black_box(Frame::called(1, 0));
    let not_code = black_box(Frame {
        caller: 0,
        address: 1,
    });
    // SAFETY: its first page is this function's.
    unsafe { (heap as *mut Frame).write_volatile(frame) };
    with_frame_pointer!("broken_misaligned", pointer(&frame) + 1, SPIN);
    with_frame_pointer!("broken_wild", 0xdead_beef_dead_bee8_usize, SPIN);
    with_frame_pointer!("broken_unmapped", heap + PAGE + 64, SPIN);
    // The second word of this frame is on that page.
    with_frame_pointer!("broken_edge", heap + PAGE - 8 + BEHIND_FRAME, SPIN);
    with_frame_pointer!("broken_kernel", KERNEL + 4 * PAGE, SPIN);
    with_frame_pointer!("broken_not_code", pointer(&not_code), SPIN);
}

/// Frame pointers to one or two good frames, behind which the chain breaks.
#[inline(never)]
fn later_step(heap: usize) {
    let in_heap = heap as *mut Frame;
    let mut stack = [Frame::called(1, 0); 2];
    let stack = black_box(&raw mut stack).cast::<Frame>();
    let set = |frame: *mut Frame, to: Frame| {
        // SAFETY: all are this function's.
        unsafe { frame.write_volatile(to) };
    };
    let second = stack.wrapping_add(1);

    set(stack, Frame::called(1, pointer(second) + 4));
    with_frame_pointer!("broken_later_misaligned", pointer(stack), SPIN);
    set(in_heap, Frame::called(1, heap + PAGE + 64));
    with_frame_pointer!("broken_later_unmapped", pointer(in_heap), SPIN);
    set(stack, Frame::called(1, pointer(stack)));
    with_frame_pointer!("broken_itself", pointer(stack), SPIN);
    set(stack, Frame::called(1, pointer(second)));
    set(second, Frame::called(2, pointer(stack)));
    with_frame_pointer!("broken_circle", pointer(stack), SPIN);
    // The heap is below the stack: a chain may go up to it, as from a signal's stack, not down.
    set(second, Frame::called(2, 0));
    set(in_heap, Frame::called(1, pointer(second)));
    with_frame_pointer!("broken_from_heap", pointer(in_heap), SPIN);
    set(stack, Frame::called(1, pointer(in_heap)));
    with_frame_pointer!("broken_to_heap", pointer(stack), SPIN);
}

/// Starts the program in this process again.
fn again(times: usize) -> u8 {
    let mut line = Line([0; 32], 0);
    if times == 0 || write!(line, "broken exec {}", times - 1).is_err() {
        return 0;
    }
    let text = line.0.get(..line.1).unwrap_or_default();
    sys::exec(core::str::from_utf8(text).unwrap_or_default()) as u8
}

/// A short text, and its length.
struct Line([u8; 32], usize);

impl Write for Line {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let end = self.1 + text.len();
        let place = self.0.get_mut(self.1..end).ok_or(core::fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.1 = end;
        Ok(())
    }
}
