//! gets N: reads N bytes from pipe 0 and checks them.
#![no_std]
#![no_main]

use demo_user::{Words, number, sys};

demo_user::program!(main);

fn main(mut words: Words) -> u8 {
    let count = number(&mut words);
    let mut got = 0;
    while got < count {
        let mut buffer = [0; 32];
        let len = sys::pipe_read(0, &mut buffer).expect("the pipe gives some");
        assert!(
            buffer[..len]
                .iter()
                .enumerate()
                .all(|(at, &byte)| byte == (got + at) as u8),
            "wrong bytes behind {got}"
        );
        got += len;
    }
    0
}
