//! The examples run, and print what they promise.

#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod permission;

use std::process::Command;

use permission::may_count;

/// What an example printed. `cargo test --test` does not build the examples.
fn printed(example: &str) -> String {
    let arguments = [
        "run",
        "--quiet",
        "--package",
        "kymo-perf",
        "--example",
        example,
    ];
    let mut cargo = Command::new(env!("CARGO"));
    let output = cargo.args(arguments).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// K-21: ids, counts and rates of a group, by the time that it ran between two readings.
#[test]
fn cache_group_prints_ids_counts_and_rates() {
    if !may_count() {
        return;
    }
    let text = printed("cache_group");
    let ids: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("  id "))
        .map(|line| line.split_whitespace().nth(1).unwrap())
        .collect();
    // Two readings of the same events.
    let (first, second) = ids.split_at(ids.len() / 2);
    assert!(first.len() >= 3 && first == second, "{text}");
    assert!(
        first
            .iter()
            .enumerate()
            .all(|(at, id)| !first[..at].contains(id)),
        "{text}"
    );
    assert!(
        text.lines().filter(|line| line.ends_with("/s")).count() == ids.len(),
        "{text}"
    );
    assert!(
        text.contains("with leaps: the group counted for "),
        "{text}"
    );
}

/// K-21.
#[test]
fn page_faults_happen_once_for_a_page() {
    if !may_count() {
        return;
    }
    let text = printed("page_faults");
    let faults = |what: &str| -> u64 {
        let line = text.lines().find(|line| line.contains(what)).unwrap();
        line.split_whitespace()
            .rev()
            .nth(2)
            .unwrap()
            .parse()
            .unwrap()
    };
    // A page of the kernel may be larger than 4 KiB.
    assert!(faults("the first time") >= 1000 / 512, "{text}");
    assert!(faults("again") <= 1, "{text}");
}
