//! What a loss makes unknown, and until when.

use kymo_machine::Taken;

use crate::scene::{changes, play, play_to};

/// CPU 0 runs thread 5 until 20 and then 6; CPU 1 runs 7.
const BEFORE: &str = "10 0 switch 0 runnable 5
                      11 1 switch 0 runnable 7
                      15 0 call 4
                      20 0 switch 5 blocked 6
                      25 0 chooses\n";

#[test]
fn a_loss_makes_its_cpu_unknown() {
    let played = play(&format!("{BEFORE} 30 - lost 0 28..40"));
    assert_eq!(
        played.changes[5],
        [
            "lost 0 of 0",
            "forgot 0",
            // It ran at least until the CPU's last event.
            "doing 6 running(0) 20..25 unknown",
            "interrupted 6",
        ]
    );
    assert_eq!(played.taken[5], Taken::Loss(0));
    assert!(played.machine.is_hidden(0) && !played.machine.is_hidden(1));
    assert_eq!(played.machine.running(1), played.machine.thread_of(7, None));
}

#[test]
fn a_loss_without_a_cpu_makes_all_unknown() {
    let played = play(&format!("{BEFORE} 30 - lost * 28..40"));
    assert_eq!(
        played.of("lost forgot"),
        ["lost 0 of ?", "forgot 0", "forgot 1"]
    );
    assert!(played.machine.is_hidden(0) && played.machine.is_hidden(1));
}

#[test]
fn the_time_is_that_of_the_loss() {
    let played = play(&format!("{BEFORE} 30 - lost 0 28..40"));
    assert_eq!((played.machine.now(), played.machine.cpu()), (28, Some(0)));
    // It never steps back.
    let played = play(&format!("{BEFORE} 30 - lost 0 8..40"));
    assert_eq!(played.machine.now(), 25);
}

#[test]
fn the_thread_on_the_cpu_is_unknown_until_its_next_switch() {
    let lines = format!(
        "{BEFORE} 30 - lost 0 28..40
         41 1 chooses
         45 0 call 8
         50 0 switch 6 blocked 5"
    );
    let played = play(&lines);
    assert_eq!(played.of("call"), ["call 4 by 5", "call 8 by ?"]);
    assert_eq!(played.of("recognised").last(), Some(&"recognised 6"));
    assert_eq!(played.of("regained"), ["regained 0 ?"]);
}

/// It may have run meanwhile.
#[test]
fn a_thread_that_was_off_cpu_is_unknown_from_then_on() {
    let lines = format!(
        "{BEFORE} 30 - lost 0 28..40
         41 1 chooses
         50 0 switch 6 blocked 5
         60 0 return 4 0"
    );
    let played = play(&lines);
    let switch = &played.changes[7];
    assert!(switch.contains(&"interrupted 5".to_owned()), "{switch:?}");
    assert!(
        switch.contains(&"doing 5 blocked 20..20 unknown".to_owned()),
        "{switch:?}"
    );
    assert!(
        switch.contains(&"doing 5 unknown 20..50 running(0)".to_owned()),
        "{switch:?}"
    );
    assert_eq!(played.of("return off-cpu"), ["return 4 by 5 ?"]);
}

#[test]
fn a_thread_that_was_woken_before_a_loss_has_no_latency() {
    let lines = format!(
        "{BEFORE} 26 0 wake 5 by 6
         30 - lost 1 28..40
         41 1 chooses
         50 0 switch 6 blocked 5"
    );
    assert_eq!(changes("latency off-cpu", &lines), [""; 0]);
}

#[test]
fn a_thread_that_runs_on_another_cpu_goes_on() {
    let lines = format!("{BEFORE} 30 - lost 0 28..40\n 41 1 chooses\n 50 1 switch 7 blocked 8");
    assert_eq!(changes("on-cpu", &lines), ["on-cpu 5 10", "on-cpu 7 11"]);
}

/// What comes from the CPU during the loss has a time, but does not say what runs from then on.
#[test]
fn events_in_a_loss_leave_the_cpu_unknown() {
    let lines = format!("{BEFORE} 30 - lost * 28..40\n 35 1 switch 7 blocked 8\n 41 0 chooses");
    let played = play(&lines);
    assert_eq!(
        played.changes[6]
            .iter()
            .filter(|of| *of == "forgot 1")
            .count(),
        1
    );
    assert_eq!(played.machine.running(1), None);
}

/// The losses of Kymo lie before the packet that reports them: the stream's next event ends them.
#[test]
fn a_loss_ends_behind_its_time_or_at_the_next_event_of_its_stream() {
    let regained = |line: &str| {
        let played = play(&format!("{BEFORE} 30 - lost 0 28..40\n {line}"));
        played.of("regained").len()
    };
    assert_eq!(regained("35 0 chooses"), 1);
    assert_eq!(regained("35 1 chooses"), 0);
    assert_eq!(regained("40 1 chooses"), 0);
    assert_eq!(regained("41 1 chooses"), 1);
    assert_eq!(regained("41 - lost 1 41..50"), 1);
}

#[test]
fn the_end_of_a_trace_ends_losses() {
    let ends = |lines: &str, end| {
        let played = play_to(&format!("{BEFORE}{lines}"), Some(end));
        played.of("regained").len()
    };
    assert_eq!(
        (
            ends("30 - lost 0 28..40", 41),
            ends("30 - lost 0 28..40", 40)
        ),
        (1, 0)
    );
    assert_eq!(ends("30 - lost 0 28..", 90), 0);
}

#[test]
fn a_loss_whose_end_is_not_known_never_ends() {
    let lines = format!("{BEFORE} 30 - lost 0 28..\n 35 0 chooses\n 40 0 switch 6 blocked 5");
    let played = play(&lines);
    assert_eq!(played.of("regained"), [""; 0]);
    assert!(played.machine.is_hidden(0));
}

/// Kymo counts what it lost before a packet in that packet.
#[test]
fn a_loss_of_kymos_ends_no_later_than_the_packet_that_reports_it_begins() {
    let lines = format!("{BEFORE} 40 0 loses 3\n 50 0 switch 6 blocked 5");
    let played = play(&lines);
    assert_eq!(played.changes[5][..2], ["lost 0 of 0", "forgot 0"]);
    assert_eq!(played.machine.now(), 50);
    assert_eq!(played.changes[6][0], "regained 0 40");
}

#[test]
fn an_unreadable_packet_is_a_loss_until_the_next_event_of_its_stream() {
    let lines = format!("{BEFORE} 30 - damaged 0 packet\n 35 1 chooses\n 50 0 switch 6 blocked 5");
    let played = play(&lines);
    assert_eq!(played.changes[5][..2], ["lost 0 of 0", "forgot 0"]);
    assert_eq!(
        (played.changes[6].len(), &*played.changes[7][0]),
        (1, "regained 0 0")
    );
    assert!(!played.machine.is_hidden(0));
}

/// Its further events can only come from another reading of the file: they do not show what was
/// lost between.
#[test]
fn the_unreadable_rest_of_a_stream_is_lost_for_ever() {
    let lines = format!("{BEFORE} 30 - damaged 0 end\n 50 0 switch 6 blocked 5\n 60 1 chooses");
    let played = play(&lines);
    assert_eq!(played.of("regained"), [""; 0]);
    assert!(played.machine.is_hidden(0) && played.machine.running(0).is_none());
}

#[test]
fn a_corrected_time_and_losses_of_names_and_samples_leave_the_cpus_known() {
    for (line, taken) in [
        ("30 - damaged 0 clamped", Taken::Other),
        ("30 - damaged names packet", Taken::Other),
        ("30 - lost names 28..40", Taken::Loss(0)),
        ("30 - lost samples 28..40", Taken::Loss(0)),
    ] {
        let played = play(&format!("{BEFORE} {line}"));
        assert_eq!(
            (&played.changes[5][..], played.taken[5]),
            (&[][..], taken),
            "{line}"
        );
        assert!(!played.machine.is_hidden(0), "{line}");
    }
}
