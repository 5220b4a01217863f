//! The table of every call in every state, and the following state.

use demo_user::abi::{Error, Session};
use demo_user::sys;
use kymo::State;

use crate::cells::Cells;

pub const TRACE: u32 = kymo::Mode::Trace as u32;

/// The recording calls with valid arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Start,
    Read,
    Switch,
    Stop,
    Finish,
}

impl Call {
    pub const ALL: [Call; 5] = [
        Call::Start,
        Call::Read,
        Call::Switch,
        Call::Stop,
        Call::Finish,
    ];

    pub fn make(self, mode: u32) -> Result<usize, Error> {
        match self {
            Call::Start => sys::perf_start(mode, 0, &Session::default(), ""),
            Call::Read => sys::perf_read(mode, 0, &mut [0; 64]),
            Call::Switch => sys::perf_switch(mode, "mark", true),
            Call::Stop => sys::perf_stop(mode),
            Call::Finish => sys::perf_finish(mode).map(|_| 0),
        }
    }
}

/// The states before a call.
pub const STATES: [State; 3] = [State::Idle, State::Running, State::Stopped];

/// Sets up a state, from any other.
pub fn enter(state: State) {
    let _ = sys::perf_finish(TRACE);
    if state != State::Idle {
        sys::perf_start(TRACE, 0, &Session::default(), "").expect("nothing is recorded");
    }
    if state == State::Stopped {
        sys::perf_stop(TRACE).expect("it runs");
    }
    assert_eq!(current(), state as u64);
}

fn current() -> u64 {
    sys::perf_status().map_or(u64::MAX, |status| status.state)
}

/// The answer of a call (a value stands for any), and the following state.
fn answer(state: State, call: Call) -> (Result<(), Error>, State) {
    match (state, call) {
        (State::Idle, Call::Start) => (Ok(()), State::Running),
        (_, Call::Start) => (Err(Error::InProgress), state),
        (State::Idle, _) => (Err(Error::Invalid), state),
        (_, Call::Read) => (Ok(()), state),
        (_, Call::Finish) => (Ok(()), State::Idle),
        (State::Running, Call::Switch) => (Ok(()), state),
        (State::Running, Call::Stop) => (Ok(()), State::Stopped),
        (_, Call::Switch | Call::Stop) => (Err(Error::Invalid), state),
    }
}

pub fn every_call_in_every_state(cells: &mut Cells) {
    for state in STATES {
        for call in Call::ALL {
            enter(state);
            let (expected, next) = answer(state, call);
            let got = call.make(TRACE);
            cells.equal(
                format_args!("{call:?} while {state:?}"),
                got.map(drop),
                expected,
            );
            cells.equal(
                format_args!("the state after {call:?} while {state:?}"),
                current(),
                next as u64,
            );
            if let (Ok(channels), Call::Start | Call::Stop) = (got, call) {
                cells.is(
                    format_args!("{call:?} gives {channels} channels"),
                    channels % 2 == 1 && channels >= 3,
                );
            }
        }
    }
    enter(State::Idle);
}
