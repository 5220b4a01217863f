//! loop: computes for ever.
#![no_std]
#![no_main]

use demo_user::Words;

demo_user::program!(main);

fn main(_: Words) -> u8 {
    // Not `spin_loop`, after which an emulator looks for something else to do.
    loop {
        core::hint::black_box(());
    }
}
