//! Linux's numbering of thread states and soft interrupts.

use kymo::vocabulary::ThreadState;

/// Conversion of `prev_state` in this release's `sched_switch` to [`ThreadState`]. Without a
/// release, that of current kernels.
pub(super) fn states(release: Option<&str>) -> fn(u64) -> Option<u64> {
    let mut numbers = release
        .unwrap_or_default()
        .split(|c: char| !c.is_ascii_digit())
        .map(|number| number.parse().unwrap_or(u32::MAX));
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if (major, minor) < (3, 9) => before_3_9,
        (Some(major), Some(minor)) if (major, minor) < (4, 14) => before_4_14,
        _ => from_4_14,
    }
}

const STOPPED: u64 = 0x4 | 0x8;
const WAITS: u64 = 0x1 | 0x2;
/// `EXIT_DEAD` and `EXIT_ZOMBIE`.
const EXITED: u64 = 0x10 | 0x20;

/// From 4.14 on: one bit by `task_state_index()`, and `TASK_REPORT_MAX` for a pre-empted thread
/// (include/linux/sched.h, include/trace/events/sched.h). 0x40 is parked, 0x80 an idle kernel
/// thread that waits for work.
fn from_4_14(state: u64) -> Option<u64> {
    value(match state {
        0 | 0x100 => ThreadState::Runnable,
        _ if state & EXITED != 0 => ThreadState::Ended,
        _ if state & STOPPED != 0 => ThreadState::Suspended,
        _ if state & (WAITS | 0x40 | 0x80) != 0 => ThreadState::Blocked,
        _ => return None,
    })
}

/// Before 4.14: the thread's own bits. 0x40 is dead, 0x80 wakes on a fatal signal, 0x200 is parked,
/// 0x400 waits without load (from 4.2 on). A pre-empted thread has `TASK_STATE_MAX` alone, the bit
/// above all others: 0x400, from 4.2 on 0x800, from 4.8 on 0x1000.
fn before_4_14(state: u64) -> Option<u64> {
    value(match state {
        0 | 0x400 | 0x800 | 0x1000 => ThreadState::Runnable,
        _ if state & (EXITED | 0x40) != 0 => ThreadState::Ended,
        _ if state & STOPPED != 0 => ThreadState::Suspended,
        _ if state & (WAITS | 0x200) != 0 => ThreadState::Blocked,
        _ => return None,
    })
}

/// Before 3.9: no thread was parked, and 0x200 was `TASK_STATE_MAX`.
fn before_3_9(state: u64) -> Option<u64> {
    match state {
        0x200 => value(ThreadState::Runnable),
        _ => before_4_14(state),
    }
}

/// Conversion of `status` in LTTng's `lttng_statedump_process_state`.
pub(super) fn dumped(status: u64) -> Option<u64> {
    value(match status {
        // Waits after its fork, waits for a CPU, runs.
        1 | 2 | 6 => ThreadState::Runnable,
        3 | 4 | 7 => ThreadState::Ended,
        5 => ThreadState::Blocked,
        _ => return None,
    })
}

fn value(state: ThreadState) -> Option<u64> {
    Some(state as u64)
}

/// Linux's soft interrupts (include/linux/interrupt.h).
const SOFT: [&str; 10] = [
    "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU",
];

/// The name of one of Linux's soft interrupts.
pub fn softirq_name(vector: u64) -> Option<&'static str> {
    SOFT.get(usize::try_from(vector).ok()?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_those_of_the_release() {
        use ThreadState::{Blocked, Ended, Runnable, Suspended};
        let cases: [(&str, &[(u64, ThreadState)]); 4] = [
            (
                "3.2.0-4-amd64",
                &[
                    (0, Runnable),
                    (0x200, Runnable),
                    (1, Blocked),
                    (0x40, Ended),
                ],
            ),
            (
                "4.1.27",
                &[
                    (0x400, Runnable),
                    (0x82, Blocked),
                    (0x200, Blocked),
                    (0x40, Ended),
                    (0x4, Suspended),
                ],
            ),
            (
                "4.9.0",
                &[(0x402, Blocked), (0x1000, Runnable), (0x800, Runnable)],
            ),
            (
                "6.1.0-13-amd64",
                &[
                    (0x100, Runnable),
                    (2, Blocked),
                    (0x80, Blocked),
                    (0x40, Blocked),
                    (0x10, Ended),
                    (0x20, Ended),
                    (8, Suspended),
                ],
            ),
        ];
        for (release, numbers) in cases {
            for (number, state) in numbers {
                let found = states(Some(release))(*number);
                assert_eq!(found, Some(*state as u64), "{release} {number:#x}");
            }
        }
        assert_eq!(states(None)(0x100), Some(Runnable as u64));
        assert_eq!(states(Some("5.10"))(0x4000), None);
    }
}
