//! Checks that the kernel writes only the reported bytes to a program's memory.

use demo_user::abi::{Call, Error, Session, Status, status};
use demo_user::sys;

use crate::cells::Cells;
use crate::cycles::with_buffer;
use crate::refusals::NOT_WRITABLE;
use crate::states::TRACE;

/// The initial content of buffers.
const PATTERNS: [u8; 2] = [0x5a, 0xa5];

pub fn nothing_behind_what_was_read(cells: &mut Cells) {
    for pattern in PATTERNS {
        let channels =
            sys::perf_start(TRACE, 0, &Session::default(), "").expect("nothing is recorded") as u32;
        (0..1000).for_each(|value| sys::mark(1, value));
        sys::perf_stop(TRACE).expect("it runs");
        for channel in 0..channels {
            let mut whole = true;
            loop {
                let len = with_buffer(|buffer| {
                    buffer.fill(pattern);
                    let len = sys::perf_read(TRACE, channel, buffer).expect("there is a session");
                    whole &= buffer[len..].iter().all(|&byte| byte == pattern);
                    len
                });
                if len == 0 {
                    break;
                }
            }
            cells.is(
                format_args!(
                    "channel {channel} into {pattern:#x}: nothing was written behind what was read"
                ),
                whole,
            );
        }
        sys::perf_finish(TRACE).expect("it was stopped");
    }
    // The answer does not depend on the buffer's content.
    let answers = PATTERNS.map(|pattern| {
        let mut status = Status::from_words([u64::from_ne_bytes([pattern; 8]); 8]);
        // SAFETY: the call writes the status.
        let answered = unsafe {
            sys::any(
                Call::PerfStatus as usize,
                [&raw mut status as usize, 0, 0, 0, 0],
            )
        };
        answered.map(|_| status)
    });
    cells.equal(
        format_args!("status into two patterns"),
        answers[0],
        answers[1],
    );
}

/// Checks that a call with a bad pointer changes nothing.
pub fn nothing_is_taken_for_nowhere(cells: &mut Cells) {
    const PIPE: usize = 7;
    for address in NOT_WRITABLE {
        let _ = sys::pipe_write(PIPE, b"four");
        // SAFETY: nobody uses the memory that it would write.
        let read = unsafe { sys::any(Call::PipeRead as usize, [PIPE, address, 8, 0, 0]) };
        cells.equal(
            format_args!("pipe_read to {address:#x}"),
            read,
            Err(Error::Fault),
        );
        let _ = sys::pipe_write(PIPE, b"!");
        cells.equal(
            format_args!("pipe_read behind that"),
            sys::pipe_read(PIPE, &mut [0; 8]),
            Ok(5),
        );
    }
}

/// Checks that the longest sleep does not wrap around.
pub fn the_longest_sleep(cells: &mut Cells) {
    let pid = sys::spawn("callstest asleep", 0).expect("there is room for a process");
    sys::sleep(100_000);
    let _ = sys::kill(pid);
    cells.equal(
        format_args!("the status of the process that sleeps for ever"),
        sys::wait(pid),
        Ok(status::KILLED),
    );
}
