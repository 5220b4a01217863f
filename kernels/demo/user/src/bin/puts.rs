//! puts N: writes N bytes to pipe 0, 24 at a time: those of the numbers from 0 on.
#![no_std]
#![no_main]

use demo_user::{Words, number, sys};

demo_user::program!(main);

fn main(mut words: Words) -> u8 {
    let count = number(&mut words);
    let mut put = 0;
    while put < count {
        let bytes: [u8; 24] = core::array::from_fn(|at| (put + at) as u8);
        put += sys::pipe_write(0, &bytes[..bytes.len().min(count - put)])
            .expect("the pipe takes some");
    }
    0
}
