//! Wake-ups: of whom, by whom, and how long until the thread runs.

use crate::scene::{changes, play};

/// Thread 5 waits, and 6 runs.
const WAITING: &str = "10 0 switch 0 runnable 5
                       20 0 switch 5 blocked 6\n";

#[test]
fn a_waiting_thread_is_runnable_from_its_wake_up_on() {
    let lines = format!("{WAITING} 30 0 wake 5 by 6\n 50 0 switch 6 blocked 5");
    let played = play(&lines);
    let woken = ["wakeup 5 by 6", "doing 5 blocked 20..30 runnable"];
    assert_eq!(played.changes[2], woken);
    assert_eq!(played.of("latency"), ["latency 5 30 by 6"]);
}

#[test]
fn a_new_thread_is_woken_like_another() {
    let lines = format!("{WAITING} 30 0 wake-new 8 by 6\n 50 0 switch 6 blocked 8");
    assert_eq!(
        changes("wakeup latency", &lines),
        ["wakeup 8 by 6", "latency 8 30 by 6"]
    );
}

#[test]
fn the_waker_is_the_one_named_or_else_what_runs_there() {
    let by = |lines: &str| changes("wakeup", &format!("{WAITING}{lines}")).concat();
    assert_eq!(by("30 0 wake 5 by 8"), "wakeup 5 by 8");
    assert_eq!(by("30 0 wake 5 by 0"), "wakeup 5 by interrupt");
    assert_eq!(by("30 0 wake 5 by ?"), "wakeup 5 by 6");
    assert_eq!(by("29 0 irq 3\n 30 0 wake 5 by ?"), "wakeup 5 by interrupt");
    assert_eq!(by("29 1 irq 3\n 30 0 wake 5 by ?"), "wakeup 5 by 6");
    assert_eq!(by("30 1 wake 5 by ?"), "wakeup 5 by ?");
}

/// An interrupt that the kernel does not trace, or the scheduler, woke the thread.
#[test]
fn an_idle_thread_is_no_waker() {
    let lines = "10 0 switch 5 blocked 0
                 30 0 wake 5 by ?";
    assert_eq!(changes("wakeup", lines), ["wakeup 5 by ?"]);
}

#[test]
fn a_thread_that_does_not_wait_is_woken_in_vain() {
    let of = |lines: &str| changes("wakeup latency doing", lines);
    let running = of("10 0 switch 0 runnable 5\n 20 0 wake 5 by 0");
    assert_eq!(running[2..], ["wakeup 5 by interrupt in vain"]);
    let runnable = of("10 0 switch 5 runnable 6\n 20 0 wake 5 by 6\n 30 0 switch 6 blocked 5");
    assert_eq!(runnable[2..3], ["wakeup 5 by 6 in vain"]);
    assert!(runnable.iter().all(|change| !change.starts_with("latency")));
    let suspended = of("10 0 switch 5 suspended 6\n 20 0 wake 5 by 6");
    assert_eq!(suspended[2..], ["wakeup 5 by 6 in vain"]);
}

#[test]
fn the_first_wake_up_counts() {
    let lines = format!("{WAITING} 30 0 wake 5 by 6\n 40 0 wake 5 by 0\n 50 0 switch 6 blocked 5");
    assert_eq!(changes("latency", &lines), ["latency 5 30 by 6"]);
}

#[test]
fn a_thread_that_is_woken_after_its_end_is_a_new_one() {
    let lines = "10 0 switch 5 ended 6
                 30 0 wake 5 by 6";
    assert_eq!(
        changes("replaced wakeup", lines),
        ["replaced 5", "wakeup 5' by 6"]
    );
}
