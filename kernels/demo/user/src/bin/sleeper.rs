//! sleeper: sleeps for a day.
#![no_std]
#![no_main]

use demo_user::{Words, sys};

demo_user::program!(main);

fn main(_: Words) -> u8 {
    sys::sleep(86_400_000_000);
    0
}
