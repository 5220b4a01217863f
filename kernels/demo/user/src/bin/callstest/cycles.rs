//! Sessions in a row.

use core::cell::UnsafeCell;

use demo_user::abi::{READ, Session};
use demo_user::sys;

use crate::cells::Cells;
use crate::states::TRACE;

const CYCLES: usize = 5;

struct Buffer(UnsafeCell<[u8; READ]>);

// SAFETY: a program is one thread.
unsafe impl Sync for Buffer {}

static BUFFER: Buffer = Buffer(UnsafeCell::new([0; READ]));

/// The buffer for reads. It must be borrowed once at a time.
pub fn with_buffer<T>(work: impl FnOnce(&mut [u8; READ]) -> T) -> T {
    // SAFETY: `work` is a function of this program that does not call this one.
    unsafe { work(&mut *BUFFER.0.get()) }
}

fn begin() -> u32 {
    let channels = sys::perf_start(TRACE, 0, &Session::default(), "").expect("nothing is recorded");
    something();
    channels as u32
}

/// Makes calls that record events.
fn something() {
    for value in 0..100 {
        sys::mark(1, value);
    }
}

/// Reads all channels, and gives the number of bytes.
fn read(channels: u32) -> usize {
    let mut total = 0;
    for channel in 0..channels {
        // During a recording, each read records new events.
        for _ in 0..100 {
            let len = with_buffer(|buffer| sys::perf_read(TRACE, channel, buffer))
                .expect("there is a session");
            if len == 0 {
                break;
            }
            total += len;
        }
    }
    total
}

pub fn start_read_finish(cells: &mut Cells) {
    for cycle in 1..=CYCLES {
        let channels = begin();
        let bytes = read(channels);
        cells.is(
            format_args!("cycle {cycle}: {bytes} bytes were read while it ran"),
            bytes > 0,
        );
        let totals = sys::perf_finish(TRACE);
        cells.equal(
            format_args!("finish of cycle {cycle}"),
            totals,
            Ok(Default::default()),
        );
    }
}

/// Checks that reading after `stop` gives the recorded data, and records nothing.
pub fn start_stop_read_finish(cells: &mut Cells) {
    for cycle in 1..=CYCLES {
        let channels = begin();
        cells.equal(
            format_args!("stop of cycle {cycle}"),
            sys::perf_stop(TRACE),
            Ok(channels as usize),
        );
        let retained = || sys::perf_status().map(|status| status.retained);
        let before = retained();
        something();
        let bytes = read(channels);
        cells.is(
            format_args!("cycle {cycle}: {bytes} bytes were read after its stop"),
            bytes > 0,
        );
        cells.is(
            format_args!("cycle {cycle}: {before:?} events in it"),
            before.is_ok_and(|events| events >= 100),
        );
        something();
        cells.equal(
            format_args!("another read after everything was read, in cycle {cycle}"),
            read(channels),
            0,
        );
        cells.equal(
            format_args!("events of cycle {cycle} after they were read"),
            retained(),
            before,
        );
        let totals = sys::perf_finish(TRACE);
        cells.equal(
            format_args!("finish of cycle {cycle} after its stop"),
            totals,
            Ok(Default::default()),
        );
    }
}
