//! Processes: how they begin, execute programs and end.

use crate::scene::{changes, play};

#[test]
fn a_fork_creates_the_first_thread_unless_the_trace_has_its_creation() {
    let forked = "created forked replaced";
    assert_eq!(
        changes(forked, "20 0 fork 1 to 4 5"),
        ["created 5", "forked 1 to 4 5"]
    );
    let lines = "10 0 create 5 in 1\n 20 0 fork 1 to 4 5";
    let played = play(lines);
    assert_eq!(played.of(forked), ["created 5", "forked 1 to 4 5"]);
    assert_eq!(played.machine.threads()[0].pid, Some(4));
}

#[test]
fn a_child_executes_the_program_of_its_parent() {
    let played = play(
        "10 0 exec 4 5 /bin/old
         20 0 exec 1 6 /bin/init
         30 0 fork 1 to 4 8
         40 0 exec 7 9 /bin/old
         50 0 fork 3 to 7 10",
    );
    let program = |pid| played.machine.program(pid).map(|path| path.to_string());
    assert_eq!(
        (program(4), program(7)),
        (Some("/bin/init".to_owned()), None)
    );
}

/// The kernel may record the end of the call too.
#[test]
fn an_exec_names_the_process_and_ends_the_call() {
    let lines = "10 0 switch 0 runnable 5
                 20 0 call 4
                 30 0 exec 4 5 /bin/sh
                 40 0 return 4 0
                 50 0 call 8";
    assert_eq!(
        changes("named call return exec", lines),
        [
            "call 4 by 5",
            "named process 4 sh",
            "return 4 by 5 20",
            "exec 4 5",
            "call 8 by 5",
        ]
    );
}

#[test]
fn an_exec_by_another_thread_leaves_the_call_of_the_one_that_runs() {
    let lines = "10 0 switch 0 runnable 5
                 20 0 call 4
                 30 0 exec 4 6 /bin/sh
                 40 0 return 4 0";
    assert_eq!(changes("return", lines), ["return 4 by 5 20"]);
}

#[test]
fn a_process_ends_with_its_thread() {
    let lines = "10 0 switch 5 blocked 6
                 20 0 process-exit 4 5";
    assert_eq!(
        changes("ended process-ended", lines),
        ["ended 5", "process-ended 4 5"]
    );
}
