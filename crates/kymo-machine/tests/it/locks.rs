//! Locks: waits, owners and holds.

use crate::scene::{changes, play};

#[test]
fn a_wait_ends_with_both_priorities_and_the_owner() {
    let lines = "10 0 switch 0 runnable 6
                 11 0 priority 6 20
                 12 0 acquire 9
                 20 0 switch 6 runnable 5
                 30 0 wait 9 for ?
                 40 0 switch 5 blocked 6
                 50 0 release 9
                 60 0 switch 6 runnable 5
                 70 0 acquire 9 mutex contended";
    let played = play(lines);
    assert_eq!(
        played.of("wait waited acquired released contradiction"),
        [
            "acquired 9 by 6",
            "wait 9 by 5",
            "released 9 by 6 12",
            "waited 9 by 5(3) 30 owner 6(20)",
            "acquired 9 by 5 contended",
        ]
    );
    assert_eq!(played.changes[5][1], "doing 5 running(0) 20..40 blocked(9)");
}

#[test]
fn the_owner_is_the_one_that_the_event_names_or_nobody() {
    let owner = |who: &str| {
        let lines = format!(
            "10 0 switch 0 runnable 5
             20 0 wait 9 for {who}
             30 0 acquire 9"
        );
        changes("waited", &lines).concat()
    };
    assert_eq!(owner("6"), "waited 9 by 5(3) 20 owner 6(?)");
    assert_eq!(owner("?"), "waited 9 by 5(3) 20 owner ?(?)");
    assert_eq!(owner("0"), "waited 9 by 5(3) 20 owner ?(?)");
}

#[test]
fn a_failed_attempt_ends_the_wait_and_holds_nothing() {
    let lines = "10 0 switch 0 runnable 5
                 20 0 wait 9 for 6
                 30 0 fail 9
                 40 0 switch 5 blocked 0";
    let played = play(lines);
    assert_eq!(
        played.changes[2],
        ["waited 9 by 5(3) 20 owner 6(?)", "failed 9 by 5"]
    );
    assert_eq!(played.of("doing")[2], "doing 5 running(0) 10..40 blocked");
}

#[test]
fn another_lock_does_not_end_the_wait() {
    let lines = "10 0 switch 0 runnable 5
                 20 0 wait 9 for 6
                 30 0 acquire 8
                 40 0 acquire 9";
    assert_eq!(changes("waited", lines), ["waited 9 by 5(3) 20 owner 6(?)"]);
}

#[test]
fn a_lock_is_released_by_the_thread_that_holds_it() {
    let of = |lines: &str| changes("contradiction", lines);
    let start = "10 0 switch 0 runnable 5\n 20 0 acquire 9\n";
    assert_eq!(of(&format!("{start} 30 0 release 9")), [""; 0]);
    let twice = format!("{start} 30 0 release 9\n 40 0 release 9");
    assert_eq!(of(&twice), ["contradiction lock-held 9 free"]);
    let other = format!("{start} 30 0 switch 5 runnable 6\n 40 0 release 9");
    assert_eq!(of(&other), ["contradiction lock-held 9 another's"]);
    // It may have been acquired before the trace began, or during a loss.
    assert_eq!(of("10 0 switch 0 runnable 5\n 20 0 release 9"), [""; 0]);
    let lost =
        format!("{start} 30 0 release 9\n 31 - lost 1 30..32\n 34 1 mark 1\n 40 0 release 9");
    assert_eq!(of(&lost), [""; 0]);
}

#[test]
fn a_semaphore_has_no_owner() {
    let lines = "10 0 switch 0 runnable 5
                 20 0 acquire 9 semaphore
                 30 0 release 9 semaphore
                 40 0 release 9 semaphore";
    assert_eq!(
        changes("acquired released contradiction", lines),
        ["acquired 9 by 5", "released 9 by 5 ?", "released 9 by 5 ?"]
    );
}

/// Nobody knows since when, so it has been held for no known time.
#[test]
fn a_state_dump_shows_who_holds_a_lock() {
    let lines = "10 0 lock-state 9 held-by 6
                 20 0 switch 0 runnable 5
                 30 0 wait 9 for ?
                 40 0 switch 5 blocked 6
                 50 0 release 9
                 60 0 switch 6 runnable 5
                 70 0 acquire 9 mutex contended
                 80 0 switch 5 runnable 6
                 90 0 release 9";
    assert_eq!(
        changes("waited released contradiction", lines),
        [
            "released 9 by 6 ?",
            "waited 9 by 5(3) 30 owner 6(?)",
            "contradiction lock-held 9 another's",
            "released 9 by 6 ?",
        ]
    );
}

#[test]
fn a_state_dump_never_overrides_an_event() {
    let lines = "10 0 switch 0 runnable 5
                 20 0 acquire 9
                 30 0 lock-state 9 held-by 5
                 40 0 lock-state 9 held-by 6
                 50 0 release 9";
    assert_eq!(
        changes("released contradiction", lines),
        ["released 9 by 5 20"]
    );
    // An ended thread holds nothing.
    let ended = "10 0 switch 5 ended 6
                 20 0 lock-state 9 held-by 5
                 30 0 wait 9 for ?
                 40 0 acquire 9";
    assert_eq!(changes("waited", ended), ["waited 9 by 6(3) 30 owner ?(?)"]);
}

#[test]
fn a_loss_makes_the_holder_of_a_state_dump_unknown() {
    let owner = |between: &str| {
        let lines = format!(
            "5 1 mark 1
             10 0 lock-state 9 held-by 6
             20 0 switch 0 runnable 5
             {between}
             40 0 wait 9 for ?
             50 0 acquire 9"
        );
        changes("waited", &lines).concat()
    };
    assert_eq!(owner(""), "waited 9 by 5(3) 40 owner 6(?)");
    let lost = "30 - lost 1 25..32\n 35 1 mark 1";
    assert_eq!(owner(lost), "waited 9 by 5(3) 40 owner ?(?)");
}
