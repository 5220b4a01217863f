//! What the recording counts: processors' counters, the kernel's own, its events.

use kymo_machine::Totals;

use crate::scene::{changes, play};

#[test]
fn counts_belong_to_what_ran_since_the_record_before() {
    let lines = "10 0 switch 0 runnable 5
                 11 0 count switch 2 100 10
                 20 0 call 4
                 21 0 count call 2 150 12
                 30 0 irq 3
                 31 0 count irq 2 180 20
                 40 0 irq-end 3
                 41 0 count switch 2 200 21";
    assert_eq!(
        changes("counted", lines),
        [
            "counted 5 call ? irq ? [50, 2]",
            "counted 5 call 4 irq ? begins [30, 8]",
            "counted 5 call 4 irq 3 begins [20, 1]",
        ]
    );
}

#[test]
fn nothing_is_known_of_counts_while_the_group_was_off_or_stepped_back() {
    let second = |second: &str| {
        let lines = format!("11 0 count switch 2 100\n 21 0 count switch {second}");
        changes("counted", &lines).concat()
    };
    assert_eq!(second("2 150"), "counted ? call ? irq ? [50]");
    for other in ["4 150", "2 50", "2 150 3"] {
        assert_eq!(
            second(other),
            "counted ? call ? irq ? [] not whole",
            "{other}"
        );
    }
    let odd = changes(
        "counted",
        "11 0 count switch 3 100\n 21 0 count switch 3 150",
    );
    assert_eq!(odd, ["counted ? call ? irq ? [] not whole"]);
}

#[test]
fn a_group_that_begins_again_counts_from_zero() {
    let lines = "11 0 count switch 2 100
                 20 0 group 0 0 0
                 21 0 count switch 2 150
                 30 0 group 90 45 160";
    assert_eq!(
        changes("counted group", lines),
        ["group 0 0 [0]", "group 90 45 [160]"]
    );
}

#[test]
fn another_group_has_other_names() {
    let lines = "10 0 name counted 0 cycles\n 20 0 name counted 1 misses";
    let names = |lines: &str| {
        let played = play(lines);
        let names = played.machine.counters().iter();
        names
            .map(|name| name.as_deref().unwrap_or("?").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(lines), ["cycles", "misses"]);
    assert_eq!(
        names(&format!("{lines}\n 30 0 name counted 0 loads")),
        ["loads"]
    );
    assert_eq!(names("10 0 name counted 1 misses"), ["?", "misses"]);
}

#[test]
fn the_kernels_own_counters_are_of_the_cpu_that_counted() {
    let lines = "10 0 own-counter 1 3 40
                 20 0 own-gauge 1 4 -2
                 30 0 own-histogram 1 5 70 2 6 7";
    assert_eq!(
        changes("own bucket", lines),
        [
            "own 1 3 40".to_owned(),
            "own 1 4 -2".to_owned(),
            "bucket 1 5 2 6".to_owned(),
            "bucket 1 5 3 7".to_owned(),
            format!("bucket 1 5 {} 70", kymo::counter::BUCKETS),
        ]
    );
}

#[test]
fn a_session_says_how_much_it_recorded() {
    let changes = [
        kymo_machine::Change::SessionEnd {
            recorded: 10,
            discarded: 2,
        },
        kymo_machine::Change::Mark { id: 1 },
    ];
    let mut totals = Totals::default();
    changes.iter().for_each(|change| totals.add(change));
    // The end of the session is an event too.
    assert_eq!(
        [13, 12, 11].map(|events| totals.missing(events, 0)),
        [0, 1, 2]
    );
    assert_eq!(totals.missing(11, 2), 0);
    assert_eq!(
        self::changes("session-end", "10 0 session-end 7 2"),
        ["session-end 7 2"]
    );
}

#[test]
fn clocks_that_step_back_are_contradictions() {
    let lines = "10 0 clock-behind 2 70\n 20 0 clock-step 30";
    let told = [
        "contradiction clock-back 2 70",
        "contradiction clock-back 30",
    ];
    assert_eq!(changes("contradiction", lines), told);
}
