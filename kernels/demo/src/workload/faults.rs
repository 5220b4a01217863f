//! Processes that make system calls, fault, and end.

use super::processes;
use crate::syscall::PRIO;

pub fn run(rounds: u32) {
    processes([
        (format_args!("calls {rounds}"), PRIO),
        (format_args!("touch {}", 5 * rounds), PRIO),
        (format_args!("parent {}", rounds / 4), PRIO),
        (format_args!("calls {rounds}"), PRIO),
        (format_args!("touch {rounds}"), PRIO),
    ]);
}
