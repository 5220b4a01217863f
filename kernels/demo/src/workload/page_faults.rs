//! A process that touches 1,000 pages of its heap, each once.

use super::processes;
use crate::syscall::PRIO;

pub fn run() {
    processes([(format_args!("touch 1000"), PRIO)]);
}
