//! rivals: while one `perf` sends, no other one can; when it was killed, another one can gather
//! what is left.
#![no_std]
#![no_main]

use demo_user::abi::{rights, status};
use demo_user::{Words, sys};
use kymo::State;

demo_user::program!(main);

/// Marks in the session, all of them behind the kill.
const MARKS: u64 = 100;

fn perf(line: &str) -> usize {
    sys::spawn(line, rights::PERF).expect("there is room for a process")
}

fn state() -> u64 {
    sys::perf_status()
        .expect("this process has the right")
        .state
}

fn main(_: Words) -> u8 {
    // What rolls is read when it has stopped: nothing of it is gone with the reader that is killed.
    let first = perf("perf record --rolling --events mark -- sleeper");
    while state() != State::Running as u64 {
        assert!(sys::is_alive(first, demo_user::abi::Kind::Process));
        sys::sleep(10_000);
    }
    for line in ["perf record", "perf record -- sleeper", "perf stop"] {
        assert_eq!(sys::wait(perf(line)), Ok(1), "{line}");
    }
    assert_eq!(state(), State::Running as u64);
    sys::kill(first).expect("it lives");
    assert_eq!(sys::wait(first), Ok(status::KILLED));
    assert_eq!(state(), State::Running as u64);
    (0..MARKS).for_each(|value| sys::mark(7, value));
    assert_eq!(sys::wait(perf("perf stop")), Ok(0));
    assert_eq!(state(), State::Idle as u64);
    0
}
