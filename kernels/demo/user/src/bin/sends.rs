//! sends N: sends 0 to port 0, N times.
#![no_std]
#![no_main]

use demo_user::{Words, number, sys};

demo_user::program!(main);

fn main(mut words: Words) -> u8 {
    for _ in 0..number(&mut words) {
        sys::send(0, 0).expect("the port takes it");
    }
    0
}
