//! Processes: their calls, their faults, their ends.

use crate::syscall::PRIO;
use crate::{process, thread};

/// Numbers of programs.
const CALLS: usize = 0;
const TOUCH: usize = 1;
const PARENT: usize = 2;

pub fn run(rounds: u32) {
    let rounds = rounds as usize;
    let programs = [(CALLS, rounds), (TOUCH, 5 * rounds), (PARENT, rounds / 4), (CALLS, rounds), (TOUCH, rounds)];
    let processes = programs.map(|(program, argument)| process::spawn(program, argument, PRIO));
    for process in processes {
        let (_, tid) = process.expect("there is room for a few processes");
        thread::join(tid);
    }
}
