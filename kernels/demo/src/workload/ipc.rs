//! Processes that send each other messages and bytes, and kernel threads with a queue between them.

use super::{processes, together};
use crate::ipc;
use crate::syscall::PRIO;

/// The queue between the kernel threads.
const QUEUE: usize = 1;

pub fn run(rounds: u32) {
    processes([
        (format_args!("server {}", 2 * rounds), PRIO),
        (format_args!("client {rounds}"), PRIO),
        (format_args!("gets {}", 16 * rounds), PRIO),
        (format_args!("puts {}", 16 * rounds), PRIO),
        // More urgent than the server, so that it fills the port.
        (format_args!("sends {rounds}"), PRIO + 1),
    ]);
    together([("taker", 5, takes), ("giver", 6, gives)], rounds);
}

fn gives(rounds: usize) {
    (0..rounds as u64).for_each(|value| ipc::put(QUEUE, value).expect("nobody kills it"));
}

fn takes(rounds: usize) {
    (0..rounds as u64).for_each(|value| assert_eq!(ipc::take(QUEUE), Ok(value)));
}
