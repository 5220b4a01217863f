//! Processes that send each other messages and bytes.

use super::processes;
use crate::syscall::PRIO;

pub fn run(rounds: u32) {
    processes([
        (format_args!("server {}", 2 * rounds), PRIO),
        (format_args!("client {rounds}"), PRIO),
        (format_args!("gets {}", 16 * rounds), PRIO),
        (format_args!("puts {}", 16 * rounds), PRIO),
        // More urgent than the server, so that it fills the port.
        (format_args!("sends {rounds}"), PRIO + 1),
    ]);
}
