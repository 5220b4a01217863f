//! The mark up to which the history was cleared, by loom: stored on some CPUs, loaded on another.

use std::sync::Arc;

use super::mark::{Cleared, Mark};
use super::merge::Key;
use crate::ring::models::explore;

const SESSION: u64 = 7;

/// A mark whose times and counts all say `number`.
fn cleared(number: u64) -> Cleared {
    Cleared {
        session: SESSION,
        last: Key {
            time: number,
            packet: number,
            ..Key::default()
        },
        recorded: number,
        discarded: number,
    }
}

/// What is stored in one piece, as far as loom has its words.
fn number_of(cleared: &Cleared) -> u64 {
    assert_eq!(
        cleared.last.time, cleared.discarded,
        "half of one mark and half of another: {cleared:?}"
    );
    cleared.discarded
}

#[test]
fn a_mark_is_loaded_whole_while_it_is_stored() {
    explore("mark, stored twice", 2, || {
        let mark = Arc::new(Mark::new());
        mark.watch();
        let other = mark.clone();
        let reader = loom::thread::spawn(move || {
            let first = other.load(SESSION).map_or(0, |found| number_of(&found));
            let second = other.load(SESSION).map(|found| number_of(&found));
            assert!(second.is_none_or(|second| second >= first), "it goes back");
        });
        mark.store(&cleared(1));
        mark.store(&cleared(2));
        reader.join().unwrap();
        assert_eq!(mark.load(SESSION), Some(cleared(2)));
    });
}

#[test]
fn of_two_marks_at_once_one_is_stored_whole() {
    explore("mark, stored by two", 3, || {
        let mark = Arc::new(Mark::new());
        mark.watch();
        let other = mark.clone();
        let second = loom::thread::spawn(move || other.store(&cleared(2)));
        mark.store(&cleared(1));
        second.join().unwrap();
        let found = mark.load(SESSION).map(|found| number_of(&found));
        assert!(matches!(found, Some(1 | 2)), "{found:?}");
    });
}
