//! Processes that send each other messages and bytes.

use crate::syscall::PRIO;
use crate::{process, thread};

/// Numbers of programs.
const CLIENT: usize = 7;
const SERVER: usize = 8;
const PUTS: usize = 9;
const GETS: usize = 10;
const SENDS: usize = 11;

pub fn run(rounds: u32) {
    let rounds = rounds as usize;
    let programs = [
        (SERVER, 2 * rounds, PRIO),
        (CLIENT, rounds, PRIO),
        (GETS, 16 * rounds, PRIO),
        (PUTS, 16 * rounds, PRIO),
        // More urgent than the server: it fills the port.
        (SENDS, rounds, PRIO + 1),
    ];
    let processes = programs.map(|(program, argument, prio)| process::spawn(program, argument, prio));
    for process in processes {
        let (_, tid) = process.expect("there is room for a few processes");
        thread::join(tid);
    }
}
