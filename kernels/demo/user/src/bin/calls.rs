//! calls N: makes calls that return at once, N times; sometimes sleeps.
#![no_std]
#![no_main]

use demo_user::{Words, number, sys};

demo_user::program!(main);

fn main(mut words: Words) -> u8 {
    let rounds = number(&mut words);
    for round in 0..rounds {
        sys::span_begin(1);
        sys::getpid();
        sys::mark(7, round as u64);
        sys::yield_now();
        sys::counter(3, (rounds - round) as i64);
        use_stack(round % 8);
        sys::span_end(1);
        if round % 32 == 0 {
            sys::sleep(200);
        }
    }
    // An unassigned number.
    // SAFETY: a refused call writes nothing.
    let _ = unsafe { sys::any(300, [0; 5]) };
    0
}

/// Uses this many more pages of stack, which no call has mapped.
#[inline(never)]
fn use_stack(pages: usize) {
    core::hint::black_box([0_u8; 4096]);
    if pages > 0 {
        use_stack(pages - 1);
    }
}
