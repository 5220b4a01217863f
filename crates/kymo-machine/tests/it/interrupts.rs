//! Interrupts and their nesting.

use crate::scene::changes;

const KINDS: &str = "irq irq-end irq-mismatch contradiction";

#[test]
fn nested_handlers_do_not_count_for_those_below() {
    let lines = "10 0 irq 1
                 20 0 irq 2
                 25 1 irq 1
                 30 0 irq-end 2
                 60 0 irq-end 1";
    assert_eq!(
        changes(KINDS, lines),
        [
            "irq 1 depth 1",
            "irq 2 depth 2",
            "irq 1 depth 1",
            "irq-end 2 20 own 10",
            "irq-end 1 10 own 40",
        ]
    );
}

#[test]
fn an_end_of_another_handler_ends_all() {
    let lines = "5 0 irq-end 1
                 10 0 irq 1
                 20 0 irq 2
                 30 0 irq-end 1
                 40 0 irq 3";
    assert_eq!(
        changes(KINDS, lines),
        [
            "irq-end 1 ?",
            "irq 1 depth 1",
            "irq 2 depth 2",
            "irq-mismatch 1",
            "contradiction irq-pair 1",
            "irq 3 depth 1",
        ]
    );
}
