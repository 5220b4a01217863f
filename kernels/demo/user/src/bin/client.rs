//! client N: sends a number to port 0 and waits for it at port 1, N times.
#![no_std]
#![no_main]

use demo_user::{Words, number, sys};

demo_user::program!(main);

fn main(mut words: Words) -> u8 {
    for round in 1..=number(&mut words) {
        sys::send(0, round).expect("the port takes it");
        assert_eq!(sys::receive(1), Ok(round));
    }
    0
}
