//! illegal: executes an illegal instruction.
#![no_std]
#![no_main]

use demo_user::{Words, sys};

demo_user::program!(main);

fn main(_: Words) -> u8 {
    sys::give_up()
}
