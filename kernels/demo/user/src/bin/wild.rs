//! wild: reads an address that it may not access.
#![no_std]
#![no_main]

use demo_user::Words;
use demo_user::arch::KERNEL;

demo_user::program!(main);

fn main(_: Words) -> u8 {
    let kernel = KERNEL as *const u8;
    // SAFETY: none. The kernel ends the process here.
    unsafe { kernel.read_volatile() }
}
