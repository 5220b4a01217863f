//! System calls and page faults.

use crate::scene::{changes, play};

#[test]
fn a_call_follows_its_thread() {
    let lines = "10 0 switch 0 runnable 5
                 20 0 call 4
                 30 0 switch 5 blocked 6
                 40 0 call 8
                 50 0 return 8 -1
                 60 1 switch 0 runnable 5
                 70 1 return 4 0";
    assert_eq!(
        changes("call return contradiction", lines),
        [
            "call 4 by 5",
            "call 8 by 6",
            "return 8 by 6 40 failed",
            "return 4 by 5 20"
        ]
    );
}

#[test]
fn a_call_without_an_end_is_unfinished_and_one_without_a_begin_has_no_time() {
    let lines = "10 0 switch 0 runnable 5
                 20 0 return 3 0
                 30 0 call 4
                 40 0 call 8
                 50 0 return 4 0";
    assert_eq!(
        changes("call return contradiction", lines),
        [
            "return 3 by 5 ?",
            "call 4 by 5",
            "call 8 by 5 unfinished 4",
            "contradiction syscall-pair 4 in 8",
            "return 4 by 5 ?",
        ]
    );
}

#[test]
fn a_thread_that_ends_is_in_no_call() {
    let lines = "10 0 switch 0 runnable 5
                 20 0 call 4
                 30 0 switch 5 ended 6
                 40 0 switch 6 blocked 5
                 50 0 return 4 0";
    assert_eq!(
        changes("call return", lines),
        ["call 4 by 5", "return 4 by 5' ?"]
    );
}

#[test]
fn a_fault_is_of_the_running_thread() {
    let lines = "5 0 fault kernel
                 10 0 switch 0 runnable 5
                 20 0 fault user";
    assert_eq!(
        changes("fault", lines),
        ["fault ? kernel store", "fault 5 user store"]
    );
}

#[test]
fn calls_have_names() {
    let played = play("10 0 name call 4 write");
    assert_eq!(played.changes[0], ["named call 4 write"]);
}
