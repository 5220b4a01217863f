//! Threads from their creation to their end.

use crate::scene::{changes, play};

#[test]
fn a_thread_is_created_with_its_process_and_priority() {
    let played = play("10 0 create 5 in 4");
    let made = ["created 5", "priority 5 7", "doing 5 unknown 0..10 unknown"];
    assert_eq!(played.changes[0], made);
    let thread = &played.machine.threads()[0];
    assert_eq!(
        (thread.pid, thread.prio, thread.created),
        (Some(4), Some(7), Some(10))
    );
}

#[test]
fn a_name_may_precede_the_creation() {
    let lines = "5 0 name thread 5 worker
                 10 0 create 5 in 4";
    assert_eq!(
        changes("named replaced created", lines),
        ["named thread 5 worker", "created 5"]
    );
}

#[test]
fn a_number_that_is_used_again_is_another_thread() {
    let lines = "10 0 create 5 in 4
                 20 0 switch 0 runnable 5
                 30 0 switch 5 ended 0
                 40 0 create 5 in 4
                 50 0 switch 0 runnable 5";
    assert_eq!(
        changes("created ended replaced switch", lines),
        [
            "created 5",
            "switch idle0 runnable idle 5",
            "ended 5",
            "switch 5 ended ended idle0",
            "replaced 5",
            "created 5'",
            "switch idle0 runnable idle 5'",
        ]
    );
}

#[test]
fn a_running_thread_that_exits_ends_with_its_switch() {
    let played = play(
        "10 0 switch 0 runnable 5
         20 0 exit 5
         30 0 switch 5 ended 0",
    );
    assert_eq!(played.changes[1], [""; 0]);
    assert_eq!(played.of("ended"), ["ended 5"]);
    assert_eq!(played.changes[2][1], "doing 5 running(0) 10..30 ended");
    let thread = played.machine.thread_of(5, None).unwrap();
    assert_eq!(played.machine.thread(thread).unwrap().ended, Some(20));
}

#[test]
fn a_waiting_thread_that_exits_ends_at_once_and_only_once() {
    let lines = "10 0 switch 5 blocked 6
                 20 0 exit 5
                 30 0 exit 5";
    assert_eq!(
        changes("doing ended", lines)[2..],
        ["doing 5 blocked 10..20 ended", "ended 5"]
    );
}

/// Without creations in the trace, a number may be used again unnoticed.
#[test]
fn a_thread_runs_after_its_end_only_where_creations_are_recorded() {
    let of = |lines: &str| changes("contradiction replaced", lines);
    let ends = "10 0 switch 5 ended 6\n 20 0 switch 6 blocked 5";
    assert_eq!(of(ends), ["replaced 5"]);
    let with = format!("5 0 create 8 in 1\n {ends}");
    assert_eq!(of(&with), ["contradiction after-end 5", "replaced 5"]);
    let lost = "5 0 create 8 in 1
                10 0 switch 5 ended 6
                12 - lost 1 10..14
                16 1 chooses
                20 0 switch 6 blocked 5";
    assert_eq!(of(lost), ["replaced 5"]);
}

#[test]
fn a_suspended_thread_is_runnable_after_its_resume() {
    let lines = "10 0 switch 5 blocked 6
                 20 0 suspend 5
                 30 0 resume 5";
    assert_eq!(
        changes("doing", lines)[2..],
        [
            "doing 5 blocked 10..20 suspended",
            "doing 5 suspended 20..30 runnable"
        ]
    );
}

/// What it did before is not in the trace, but from then on it is ready to run.
#[test]
fn a_thread_that_was_never_seen_is_runnable_after_its_resume() {
    let lines = "20 0 resume 5
                 30 0 switch 6 blocked 5";
    assert_eq!(changes("doing", lines)[0], "doing 5 unknown 0..20 runnable");
}

#[test]
fn a_suspension_of_a_running_or_ended_thread_and_a_resume_of_a_waiting_one_wait_for_the_switch() {
    for (lines, which) in [
        ("10 0 switch 6 blocked 5\n 20 0 suspend 5", "running"),
        ("10 0 switch 6 blocked 5\n 20 0 resume 5", "running"),
        ("10 0 switch 5 ended 6\n 20 0 suspend 5", "ended"),
        ("10 0 switch 5 ended 6\n 20 0 resume 5", "ended"),
        ("10 0 switch 5 blocked 6\n 20 0 resume 5", "blocked"),
        ("10 0 switch 5 sleeping 6\n 20 0 resume 5", "sleeping"),
        ("10 0 switch 5 runnable 6\n 20 0 resume 5", "runnable"),
    ] {
        assert_eq!(play(lines).changes[1], [""; 0], "{which}");
    }
}

#[test]
fn a_priority_is_set() {
    let played = play("10 0 priority 5 12");
    assert_eq!(played.changes[0], ["priority 5 12"]);
    assert_eq!(played.machine.threads()[0].prio, Some(12));
}

/// An event is more accurate than a dump.
#[test]
fn a_state_dump_names_a_thread_and_never_overrides_an_event() {
    let played = play(
        "10 0 priority 5 12
         20 0 state-of 5 is blocked name worker",
    );
    assert_eq!(played.changes[1], ["named thread 5 worker"]);
    let thread = &played.machine.threads()[0];
    assert_eq!((thread.prio, thread.pid), (Some(12), Some(4)));
    assert_eq!(thread.dumped, Some(kymo::vocabulary::ThreadState::Blocked));
    assert_eq!(thread.doing, kymo_machine::Doing::Unknown);
}

#[test]
fn thread_0_is_idle_and_each_contradiction_is_told_once() {
    for (line, what) in [
        ("create 0 in 1", "created"),
        ("wake 0 by 5", "woken"),
        ("suspend 0", "blocked"),
        ("switch 0 blocked 5", "blocked"),
        ("switch 0 sleeping 5", "blocked"),
        ("exit 0", "ended"),
        ("switch 0 ended 5", "ended"),
        ("name thread 0 worker", "named"),
    ] {
        let again = line.replace('5', "6");
        let lines = format!("10 0 {line}\n 20 1 {again}");
        let told = format!("contradiction idle-thread {what}");
        assert_eq!(changes("contradiction", &lines), [told], "{line}");
    }
    assert_eq!(
        changes("contradiction", "10 0 name thread 0 idle/0"),
        [""; 0]
    );
}
