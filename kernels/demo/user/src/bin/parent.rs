//! parent N: spawns children of all kinds, waits for them, and executes `calls N`.
#![no_std]
#![no_main]

use demo_user::abi::status;
use demo_user::{Words, number, println, sys};

demo_user::program!(main);

fn main(mut words: Words) -> u8 {
    println!("demo: a process");
    let spawn = |line: &str| sys::spawn(line, 0).expect("there is room for a child");
    let mut calls = Line::default();
    let calls = calls.of("calls", number(&mut words));
    let workers = [spawn(calls), spawn("touch 40")];
    // One that computes and one that sleeps, until they are killed.
    let victims = [spawn("loop"), spawn("sleeper")];
    for pid in workers {
        assert_eq!(sys::wait(pid), Ok(0));
    }
    for pid in victims {
        sys::kill(pid).expect("it lives");
        assert_eq!(sys::wait(pid), Ok(status::KILLED));
    }
    // Two that end by a fault.
    for line in ["wild", "illegal"] {
        assert_eq!(sys::wait(spawn(line)), Ok(status::FAULT));
    }
    panic!("{:?}", sys::exec(calls))
}

/// A command line with a number.
#[derive(Default)]
struct Line {
    bytes: [u8; 32],
    len: usize,
}

impl core::fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let end = self.len + text.len();
        self.bytes
            .get_mut(self.len..end)
            .ok_or(core::fmt::Error)?
            .copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

impl Line {
    fn of(&mut self, program: &str, argument: usize) -> &str {
        use core::fmt::Write;
        write!(self, "{program} {argument}").expect("a short line");
        core::str::from_utf8(&self.bytes[..self.len]).expect("text")
    }
}
