//! The order of errors: each call is made with one error, and also with all later ones.

use demo_user::abi::{self, Error, Session};
use demo_user::arch::{KERNEL, USER};
use demo_user::sys;
use kymo::State;

use crate::cells::Cells;
use crate::states::{Call, STATES, TRACE, enter};

/// An address far behind a program.
const UNMAPPED: usize = USER + 0x800_0000;
/// Addresses that a program may not write: page 0, the kernel, its own code, unmapped pages, and
/// the heap's end.
pub const NOT_WRITABLE: [usize; 5] = [0, KERNEL, USER, UNMAPPED, usize::MAX - 7];
/// Addresses that it may not read.
const NOT_READABLE: [usize; 4] = [0, KERNEL, UNMAPPED, usize::MAX - 7];
/// Modes that do not exist, and a mode that this kernel was built without.
const UNKNOWN: [u32; 3] = [3, 9, u32::MAX];
const NO_FLAG: usize = 1 << 5;
/// Rings that fit into no memory.
static LARGE: Session = Session {
    packet_size: 65536,
    packets: 1 << 20,
    names_packets: 4,
    samples_packets: 0,
    period_ns: 0,
    depth: 0,
    driver: 0,
    count: 0,
};

fn raw(call: abi::Call, arguments: [usize; 5]) -> Result<usize, Error> {
    // SAFETY: nobody else uses the memory that the calls below may write.
    unsafe { sys::any(call as usize, arguments) }
}

fn start(mode: u32, flags: usize, rings: &Session, events: &str) -> Result<usize, Error> {
    let rings = &raw const *rings as usize;
    raw(
        abi::Call::PerfStart,
        [
            mode as usize,
            flags,
            rings,
            events.as_ptr() as usize,
            events.len(),
        ],
    )
}

/// Calls with an invalid pointer, and all other errors.
fn with_bad_pointers(cells: &mut Cells, state: State) {
    let rings = &raw const LARGE as usize;
    for mode in [TRACE, UNKNOWN[0]] {
        let mode = mode as usize;
        for address in NOT_READABLE {
            let what = format_args!("start while {state:?}, mode {mode}, rings at {address:#x}");
            cells.equal(
                what,
                raw(abi::Call::PerfStart, [mode, NO_FLAG, address, 0, 0]),
                Err(Error::Fault),
            );
            let what = format_args!("start while {state:?}, mode {mode}, names at {address:#x}");
            cells.equal(
                what,
                raw(abi::Call::PerfStart, [mode, NO_FLAG, rings, address, 4]),
                Err(Error::Fault),
            );
            let what = format_args!("switch while {state:?}, mode {mode}, name at {address:#x}");
            cells.equal(
                what,
                raw(abi::Call::PerfSwitch, [mode, address, 4, 1, 0]),
                Err(Error::Fault),
            );
        }
        for address in NOT_WRITABLE {
            let what = format_args!("read while {state:?}, mode {mode}, buffer at {address:#x}");
            cells.equal(
                what,
                raw(abi::Call::PerfRead, [mode, 99, address, 64, 0]),
                Err(Error::Fault),
            );
            let what = format_args!("finish while {state:?}, mode {mode}, totals at {address:#x}");
            cells.equal(
                what,
                raw(abi::Call::PerfFinish, [mode, address, 0, 0, 0]),
                Err(Error::Fault),
            );
        }
    }
    for address in NOT_WRITABLE {
        cells.equal(
            format_args!("status while {state:?}, at {address:#x}"),
            raw(abi::Call::PerfStatus, [address, 0, 0, 0, 0]),
            Err(Error::Fault),
        );
    }
    // A buffer with a valid beginning and an invalid end.
    let heap = sys::map(1).expect("there is room") as usize;
    cells.equal(
        format_args!("read while {state:?} beyond the heap"),
        raw(
            abi::Call::PerfRead,
            [TRACE as usize, 0, heap + 4000, 200, 0],
        ),
        Err(Error::Fault),
    );
    cells.equal(
        format_args!("read while {state:?} of all addresses"),
        raw(
            abi::Call::PerfRead,
            [TRACE as usize, 0, heap, usize::MAX, 0],
        ),
        Err(Error::Fault),
    );
}

/// Calls with invalid modes.
fn with_bad_modes(cells: &mut Cells, state: State) {
    for mode in UNKNOWN {
        cells.equal(
            format_args!("start of mode {mode} while {state:?}"),
            start(mode, NO_FLAG, &LARGE, "no_event"),
            Err(Error::NoCall),
        );
        for call in Call::ALL {
            cells.equal(
                format_args!("{call:?} of mode {mode} while {state:?}"),
                call.make(mode),
                Err(Error::NoCall),
            );
        }
    }
}

/// Arguments out of range, which are found before the state is checked.
fn with_bad_arguments(cells: &mut Cells, state: State) {
    let invalid = Err(Error::Invalid);
    cells.equal(
        format_args!("start with an unknown flag while {state:?}"),
        start(TRACE, NO_FLAG, &LARGE, ""),
        invalid,
    );
    cells.equal(
        format_args!("start with flags of 64 bits, while {state:?}"),
        start(TRACE, 1 << 32, &LARGE, ""),
        invalid,
    );
    cells.equal(
        format_args!("start with an unknown event while {state:?}"),
        start(TRACE, 0, &LARGE, "mark:x"),
        invalid,
    );
    cells.equal(
        format_args!("switch of no event while {state:?}"),
        sys::perf_switch(TRACE, "no_event", true),
        invalid,
    );
    cells.equal(
        format_args!("switch of \"\" while {state:?}"),
        sys::perf_switch(TRACE, "*x", true),
        invalid,
    );
    let channels = sys::perf_status().map_or(0, |status| status.channels as u32);
    for channel in [channels, 99, u32::MAX] {
        let read = sys::perf_read(TRACE, channel, &mut [0; 64]);
        cells.equal(
            format_args!("read of channel {channel} while {state:?}"),
            read,
            invalid,
        );
    }
    // The metadata fits any buffer of a word, a packet does not; 0 would mean that all was read.
    for len in [0, 3] {
        let read = sys::perf_read(TRACE, 0, &mut [0; 4][..len]);
        cells.equal(
            format_args!("read of the metadata to {len} bytes while {state:?}"),
            read,
            invalid,
        );
    }
    cells.equal(
        format_args!("read to a small buffer while {state:?}"),
        sys::perf_read(TRACE, 1, &mut [0; 64]),
        invalid,
    );
}

pub fn every_refusal_before_the_later_ones(cells: &mut Cells) {
    for state in STATES {
        enter(state);
        with_bad_pointers(cells, state);
        with_bad_modes(cells, state);
        with_bad_arguments(cells, state);
        // Rings are checked last: first impossible numbers, then too large ones.
        let error = |of_rings| {
            Err(if state == State::Idle {
                of_rings
            } else {
                Error::InProgress
            })
        };
        let odd = Session {
            packet_size: 5000,
            ..LARGE
        };
        cells.equal(
            format_args!("start with impossible rings while {state:?}"),
            start(TRACE, 0, &odd, ""),
            error(Error::Invalid),
        );
        cells.equal(
            format_args!("start with large rings while {state:?}"),
            start(TRACE, 0, &LARGE, ""),
            error(Error::NoMemory),
        );
        let still = sys::perf_status().map(|status| status.state);
        cells.equal(
            format_args!("the state after refusals while {state:?}"),
            still,
            Ok(state as u64),
        );
    }
    enter(State::Idle);
}

/// Runs a process without the right, in each state.
pub fn no_right(cells: &mut Cells) {
    for state in STATES {
        enter(state);
        let denied = sys::spawn("callstest denied", 0).expect("there is room for a process");
        cells.equal(
            format_args!("callstest denied while {state:?}"),
            sys::wait(denied),
            Ok(0),
        );
        let still = sys::perf_status().map(|status| status.state);
        cells.equal(
            format_args!("the state after callstest denied while {state:?}"),
            still,
            Ok(state as u64),
        );
    }
    enter(State::Idle);
}

/// The process without the right, which cannot give itself the right either.
pub fn denied(cells: &mut Cells) {
    let denied = Err(Error::NotPermitted);
    for call in Call::ALL {
        cells.equal(
            format_args!("{call:?} without the right"),
            call.make(TRACE),
            denied,
        );
        cells.equal(
            format_args!("{call:?} of an unknown mode"),
            call.make(UNKNOWN[0]),
            Err(Error::NoCall),
        );
    }
    cells.equal(
        format_args!("start with all other errors"),
        start(TRACE, NO_FLAG, &LARGE, "no_event"),
        denied,
    );
    cells.equal(
        format_args!("read of no channel"),
        sys::perf_read(TRACE, u32::MAX, &mut [0; 4]),
        denied,
    );
    cells.equal(
        format_args!("switch of no event"),
        sys::perf_switch(TRACE, "no_event", true),
        denied,
    );
    cells.equal(
        format_args!("start with rings at an invalid address"),
        raw(abi::Call::PerfStart, [0, NO_FLAG, 0, 0, 0]),
        Err(Error::Fault),
    );
    cells.equal(
        format_args!("finish with totals at an invalid address"),
        raw(abi::Call::PerfFinish, [0, 0, 0, 0, 0]),
        Err(Error::Fault),
    );
    cells.equal(
        format_args!("status"),
        sys::perf_status().map(|status| status.state),
        Err(Error::NotPermitted),
    );
    cells.equal(format_args!("dump"), sys::perf_dump(1), denied);
    cells.equal(format_args!("clear"), sys::perf_clear(), denied);
    let status = sys::spawn("perf status", abi::rights::PERF).and_then(sys::wait);
    cells.equal(
        format_args!("perf, spawned with a right that this process does not have"),
        status,
        Ok(1),
    );
}
