//! loop: computes for ever.
#![no_std]
#![no_main]

use demo_user::Words;

demo_user::program!(main);

fn main(_: Words) -> u8 {
    loop {
        core::hint::spin_loop();
    }
}
