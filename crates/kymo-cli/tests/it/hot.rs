//! `kymo hot --tree`.

use crate::flame::{kernel, made};
use crate::run::{kymo, printed};

/// 30 of 40 samples are in the innermost function, all 40 in or below the outermost.
#[test]
fn the_tree_has_callers_above_what_they_call() {
    let mut made = made("hot-tree");
    let trace = made.finish();
    let kernel = kernel();
    let shown = |options: &[&str]| printed(&[&["hot", &kernel], options].concat(), trace);
    let head = " total    self    samples  function\n\
                100.0%   25.0%         40  it::flame::outermost_function\n";
    assert_eq!(
        shown(&["--tree"]),
        (
            Some(0),
            format!("{head} 75.0%   75.0%         30    it::flame::innermost_function\n")
        )
    );
    assert_eq!(
        shown(&["--tree", "--least=75.1%"]),
        (
            Some(0),
            format!("{head} 75.0%                 30    ... 1 smaller branch\n")
        )
    );
    let (_, json) = shown(&["--tree", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["samples"], 40);
    let tree = json["tree"].as_array().unwrap();
    let numbers = tree
        .iter()
        .map(|of| (&of["depth"], &of["total"]["samples"]));
    let numbers: Vec<_> = numbers
        .map(|(depth, samples)| (depth.as_u64(), samples.as_u64()))
        .collect();
    let wanted = [(0, 40), (1, 40), (2, 30)].map(|(depth, samples)| (Some(depth), Some(samples)));
    assert_eq!(numbers, wanted);
    assert_eq!(tree[2]["function"], "it::flame::innermost_function");
    for options in [
        &["--tree", "--least=101"][..],
        &["--tree", "--least=x"],
        &["--least=5"],
        &["--tree", "--top=3"],
        &["--tree", "--by=line"],
    ] {
        let output = kymo(&[&["hot"], options].concat(), trace);
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty());
    }
}
