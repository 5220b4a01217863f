//! sleeper: sleeps for a day.
#![no_std]
#![no_main]

use demo_user::{Words, sys};

demo_user::program!(main);

fn main(_: Words) -> u8 {
    sys::sleep(864_000_000_000);
    0
}
