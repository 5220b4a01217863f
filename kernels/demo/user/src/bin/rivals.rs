//! rivals: while one `perf` sends, no other can; after it was killed, another can gather the rest.
#![no_std]
#![no_main]

use demo_user::abi::{rights, status};
use demo_user::{Words, sys};
use kymo::State;

demo_user::program!(main);

/// Number of marks in the session, all of them after the kill.
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
    // A rolling session is read after its stop: the killed reader takes no data with it.
    let first = perf("perf record --rolling --events mark -- sleeper");
    while state() != State::Running as u64 {
        assert!(sys::is_alive(first, demo_user::abi::Kind::Process));
        sys::sleep(1_000);
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
