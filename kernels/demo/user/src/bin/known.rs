//! known ROUNDS: work whose division among functions is known, in user mode and in the kernel.
//! Tests compare it with the samples.
#![no_std]
#![no_main]

use demo_user::abi::PART;
use demo_user::{Words, arch, sys};

demo_user::program!(main);

fn main(mut words: Words) -> u8 {
    let rounds = words.next().and_then(|word| word.parse().ok());
    for round in 0..rounds.unwrap_or(1_000_u32) {
        // Between rounds it works for 1 to 32 parts that belong to none of the functions. Rounds
        // of one length would be in step with samples of some periods. (The factor is 2^32 by the
        // golden ratio: its multiples are spread evenly.)
        let parts = 1 + round.wrapping_mul(0x9e37_79b9) as usize / (1 << 27);
        arch::spin(parts * PART);
        user_outer();
        sys::work(false);
        sys::work(true);
    }
    0
}

/// 20 parts of its own.
#[inline(never)]
fn user_outer() {
    arch::spin(20 * PART);
    user_inner();
    user_inlined();
}

/// 15 parts.
#[inline(never)]
fn user_inner() {
    arch::spin(15 * PART);
}

/// 10 parts, in the code of its caller.
#[inline(always)]
fn user_inlined() {
    arch::spin(10 * PART);
}
