//! Messages, programs' own events, and names.

use crate::scene::{changes, play};

#[test]
fn messages_have_their_mechanism_and_path() {
    let lines = "10 0 send 8\n 20 0 receive 8\n 30 0 write 3\n 40 0 read 2\n 50 0 put\n 60 0 get";
    assert_eq!(
        changes("message", lines),
        [
            "message ipc out fast 8",
            "message ipc in slow 8",
            "message pipe out ? 3",
            "message pipe in ? 2",
            "message queue out ? 0",
            "message queue in ? 0",
        ]
    );
}

#[test]
fn a_span_ends_with_those_inside_it() {
    let lines = "10 0 switch 0 runnable 5
                 20 0 span 1
                 30 0 span 2
                 40 0 switch 5 runnable 6
                 50 0 span-end 1
                 60 0 switch 6 runnable 5
                 70 0 span-end 1";
    assert_eq!(
        changes("span span-end", lines),
        [
            "span 1 by 5",
            "span 2 by 5",
            "span-end 1 by 6 ends 0",
            "span-end 1 by 5 ends 2"
        ]
    );
}

#[test]
fn counters_and_marks_have_numbers() {
    let lines = "10 0 counter 3 -4\n 20 0 mark 6";
    assert_eq!(changes("counter mark", lines), ["counter 3 -4", "mark 6"]);
}

#[test]
fn a_name_is_told_when_it_is_new() {
    for what in ["thread 5", "process 5", "lock 5", "irq 5", "user 5"] {
        let lines = format!(
            "10 0 name {what} one
             20 0 name {what} one
             30 0 name {what} two"
        );
        let played = play(&lines);
        let told = ["one", "two"].map(|name| format!("named {what} {name}"));
        if what.starts_with("lock") {
            // Each `lock_name` is a change, as the lock's kind may differ.
            assert_eq!(played.of("named").last().unwrap(), &told[1]);
        } else {
            assert_eq!(played.of("named"), told);
        }
        assert!(
            played
                .taken
                .iter()
                .all(|taken| *taken == kymo_machine::Taken::Name)
        );
    }
}
