//! Which thread runs on each CPU, and what becomes of it.

use crate::scene::{changes, play, play_to};

#[test]
fn a_switch_ends_one_state_and_begins_another() {
    let played = play(
        "10 0 switch 0 runnable 5
         30 0 switch 5 blocked 6",
    );
    let [first, second] = &played.changes[..] else {
        panic!()
    };
    assert_eq!(
        first[..],
        [
            "recognised idle0",
            "doing idle0 unknown 0..10 runnable",
            "switch idle0 runnable idle 5",
            "priority 5 3",
            "doing 5 unknown 0..10 running(0)",
        ]
    );
    assert_eq!(
        second[..],
        [
            "on-cpu 5 10",
            "doing 5 running(0) 10..30 blocked",
            "switch 5 blocked waits 6",
            "priority 6 3",
            "doing 6 unknown 0..30 running(0)",
        ]
    );
    assert_eq!(
        played.machine.cpu_of(0).unwrap().current,
        played.machine.thread_of(6, None)
    );
}

#[test]
fn a_thread_leaves_in_the_state_that_the_switch_names() {
    for state in ["runnable", "blocked", "sleeping", "suspended", "ended"] {
        let lines = format!("10 0 switch 0 runnable 5\n30 0 switch 5 {state} 0");
        let left = format!("doing 5 running(0) 10..30 {state}");
        assert_eq!(play(&lines).changes[1][1], left);
    }
}

#[test]
fn a_thread_is_off_cpu_from_its_switch_to_the_next_one() {
    let lines = "10 0 switch 0 runnable 5
                 30 0 switch 5 runnable 6
                 70 0 switch 6 blocked 5";
    assert_eq!(
        changes("on-cpu off-cpu", lines),
        ["on-cpu 5 10", "on-cpu 6 30", "off-cpu 5 30"]
    );
}

/// Idle threads have no time on or off CPU.
#[test]
fn idle_threads_are_those_with_number_0_the_reason_or_the_name() {
    let lines = "1 0 name thread 8 swapper/1
                 2 0 name thread 9 idleness
                 10 0 switch 0 runnable 8
                 20 0 switch 8 runnable 9
                 30 0 switch 9 runnable 0
                 40 0 switch 0 runnable 8
                 50 0 switch 8 runnable 9";
    assert_eq!(
        changes("on-cpu off-cpu", lines),
        ["on-cpu 9 20", "off-cpu 9 30"]
    );
}

#[test]
fn each_cpu_has_its_own_thread_0() {
    let lines = "10 0 switch 0 runnable 5
                 20 1 switch 0 runnable 6";
    assert_eq!(
        changes("recognised", lines),
        ["recognised idle0", "recognised idle1"]
    );
}

/// Neither of the two threads is known further: not how long they ran, not what they hold.
#[test]
fn a_broken_chain_makes_both_threads_unknown() {
    let lines = "10 0 switch 0 runnable 6
                 11 0 call 2
                 12 0 switch 6 blocked 5
                 20 0 call 4
                 30 0 switch 6 blocked 7
                 40 0 switch 7 blocked 6
                 50 0 return 2 0
                 60 0 switch 6 blocked 5
                 70 0 return 4 0";
    let played = play(lines);
    assert_eq!(
        played.changes[4][..4],
        [
            "contradiction switch-chain 6 left, 5 ran",
            "doing 5 running(0) 12..12 unknown",
            "interrupted 5",
            "doing 6 unknown 12..30 blocked",
        ]
    );
    assert_eq!(played.of("return"), ["return 2 by 6 ?", "return 4 by 5 ?"]);
    assert_eq!(played.of("off-cpu"), ["off-cpu 6 30"]);
}

/// One of the two CPUs is wrong, and nobody knows which.
#[test]
fn a_thread_on_two_cpus_is_on_neither() {
    let lines = "10 0 switch 0 runnable 5
                 20 1 switch 0 runnable 5
                 30 0 irq 3
                 40 0 call 4
                 50 0 switch 5 blocked 6";
    let played = play(lines);
    assert_eq!(
        played.changes[1][2..],
        [
            "doing 5 running(0) 10..10 unknown",
            "interrupted 5",
            "contradiction one-cpu 5 is on 0",
            "forgot 0",
            "switch idle1 runnable idle 5",
            "priority 5 3",
            "doing 5 unknown 20..20 running(1)",
        ]
    );
    assert_eq!(played.of("call"), ["call 4 by ?"]);
    assert_eq!(
        played.of("recognised"),
        ["recognised idle0", "recognised idle1", "recognised 5"]
    );
    assert_eq!(played.of("on-cpu"), [""; 0]);
}

#[test]
fn what_a_stranger_began_belongs_to_the_thread_that_leaves() {
    let lines = "10 0 call 4
                 20 0 acquire 9
                 30 0 switch 5 runnable 6
                 40 0 switch 6 runnable 5
                 50 0 release 9
                 60 0 return 4 0";
    assert_eq!(
        changes("call return acquired released recognised", lines),
        [
            "call 4 by ?",
            "acquired 9 by ?",
            "recognised 5",
            "released 9 by 5 20",
            "return 4 by 5 10",
        ]
    );
}

#[test]
fn the_end_of_a_trace_ends_all_states() {
    let lines = "10 0 switch 0 runnable 5
                 20 0 switch 5 blocked 6";
    let played = play_to(lines, Some(90));
    assert_eq!(
        played.changes[2],
        [
            "doing idle0 runnable 10..90 runnable",
            "doing 5 blocked 20..90 blocked",
            "doing 6 running(0) 20..90 running(0)",
        ]
    );
}

#[test]
fn the_scheduler_and_the_run_queues_are_told() {
    let lines = "10 0 chooses
                 20 0 chose
                 30 0 queue-of 1 4
                 40 0 queue-of ? 2";
    let told = [
        "scheduler begins",
        "scheduler ends",
        "run-queue 1 4",
        "run-queue ? 2",
    ];
    assert_eq!(changes("scheduler run-queue", lines), told);
}
