//! server N: receives N messages from port 0, and returns nonzero ones through port 1.
#![no_std]
#![no_main]

use demo_user::{Words, number, sys};

demo_user::program!(main);

fn main(mut words: Words) -> u8 {
    for _ in 0..number(&mut words) {
        let value = sys::receive(0).expect("the port gives one");
        if value != 0 {
            sys::send(1, value).expect("the port takes it");
        }
    }
    0
}
