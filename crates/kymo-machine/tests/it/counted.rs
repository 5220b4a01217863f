//! What the recording counts: processors' counters, the kernel's own, its events.

use kymo_machine::Totals;

use crate::scene::{changes, play};

#[test]
fn counts_belong_to_what_ran_since_the_record_before() {
    let lines = "10 0 switch 0 runnable 5
                 11 0 count 0 switch 2 100 10
                 20 0 call 4
                 21 0 count 0 call 2 150 12
                 30 0 irq 3
                 31 0 count 0 irq 2 180 20
                 40 0 irq-end 3
                 41 0 count 0 switch 2 200 21";
    assert_eq!(
        changes("counted", lines),
        [
            "counted 0 by 5 call ? irq ? [50, 2]",
            "counted 0 by 5 call 4 irq ? begins [30, 8]",
            "counted 0 by 5 call 4 irq 3 begins [20, 1]",
        ]
    );
}

#[test]
fn nothing_is_known_of_counts_while_the_group_was_off_or_stepped_back() {
    let second = |second: &str| {
        let lines = format!("11 0 count 0 switch 2 100\n 21 0 count 0 switch {second}");
        changes("counted", &lines).concat()
    };
    assert_eq!(second("2 150"), "counted 0 by ? call ? irq ? [50]");
    for other in ["4 150", "2 50", "2 150 3"] {
        assert_eq!(
            second(other),
            "counted 0 by ? call ? irq ? [] not whole",
            "{other}"
        );
    }
    let odd = changes(
        "counted",
        "11 0 count 0 switch 3 100\n 21 0 count 0 switch 3 150",
    );
    assert_eq!(odd, ["counted 0 by ? call ? irq ? [] not whole"]);
}

#[test]
fn a_group_that_begins_again_counts_from_zero() {
    let lines = "11 0 count 0 switch 2 100
                 20 0 group 0 0 0 0
                 21 0 count 0 switch 2 150
                 30 0 group 0 90 45 160";
    assert_eq!(
        changes("counted group", lines),
        ["group 0 0 0 [0]", "group 0 90 45 [160]"]
    );
}

#[test]
fn another_group_has_other_names() {
    let lines = "10 0 name counted 0 cycles\n 20 0 name counted 1 misses";
    let names = |lines: &str| {
        let played = play(lines);
        let names = played.machine.counters(0).iter();
        names
            .map(|name| name.as_deref().unwrap_or("?").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(lines), ["cycles", "misses"]);
    assert_eq!(
        names(&format!("{lines}\n 30 0 name counted 0/1/0/1 loads")),
        ["loads"]
    );
    // Where the first name is lost when names are repeated, those that are known stay.
    assert_eq!(
        names(&format!("{lines}\n 30 0 name counted 1 misses")),
        ["cycles", "misses"]
    );
    assert_eq!(
        names(&format!("{lines}\n 30 0 name counted 0 cycles")),
        ["cycles", "misses"]
    );
    assert_eq!(names("10 0 name counted 1 misses"), ["?", "misses"]);
}

/// Two groups take turns: each interval is between two records of one group, and of the time in
/// which a group was off nothing is known.
#[test]
fn each_group_has_intervals_of_its_own() {
    let lines = "10 0 switch 0 runnable 5
                 11 0 count 0 switch 0 100 10
                 12 0 count 1 switch 4 7
                 20 0 call 4
                 21 0 count 1 call 4 9
                 30 0 irq 3
                 31 0 count 0 irq 2 180 20
                 40 0 irq-end 3
                 41 0 count 0 switch 2 200 21
                 42 0 count 1 switch 6 20
                 43 0 count 1 switch 6 21";
    assert_eq!(
        changes("counted", lines),
        [
            "counted 1 by 5 call ? irq ? [2]",
            "counted 0 by 5 call ? irq ? [] not whole",
            "counted 0 by 5 call 4 irq 3 begins [20, 1]",
            "counted 1 by 5 call 4 irq ? begins [] not whole",
            "counted 1 by 5 call 4 irq ? [1]",
        ]
    );
    // One group that counts from zero again leaves the other as it is.
    let lines = "11 0 count 0 switch 2 100
                 12 0 count 1 switch 2 50
                 20 0 group 1 0 0 0
                 21 0 count 0 switch 2 150
                 22 0 count 1 switch 2 60
                 23 0 group 1 90 45 70";
    assert_eq!(
        changes("counted group", lines),
        [
            "group 1 0 0 [0]",
            "counted 0 by ? call ? irq ? [50]",
            "group 1 90 45 [70]",
        ]
    );
}

#[test]
fn each_group_has_names_of_its_own() {
    let lines = "10 0 name counted 0/2/0/2 cycles
                 11 0 name counted 0/2/1/2 misses
                 12 0 name counted 1/2/0/1 branches";
    let names = |lines: &str| -> Vec<Vec<String>> {
        let machine = play(lines).machine;
        let groups = 0..machine.counter_groups() as u8;
        let names = |group| {
            let names = machine.counters(group).iter();
            names.map(|name| name.as_deref().unwrap_or("?").to_owned())
        };
        groups.map(|group| names(group).collect()).collect()
    };
    assert_eq!(names(lines), [vec!["cycles", "misses"], vec!["branches"]]);
    // A group is there when the first name says so.
    let early = names("10 0 name counted 0/3/0/1 cycles");
    assert_eq!(early, [vec!["cycles"], vec![], vec![]]);
    // Another session counts one group, with one event.
    assert_eq!(
        names(&format!("{lines}\n 20 0 name counted 0/1/0/1 loads")),
        [["loads"]]
    );
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
