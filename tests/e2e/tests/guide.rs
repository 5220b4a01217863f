//! Every Rust block of the guide is code that is compiled: it stands in `kernels/guide` or in
//! `kernels/teaching`.

use std::fs;
use std::path::{Path, PathBuf};

/// Code without comments, and without what the formatter may change.
fn words(code: &str) -> String {
    let lines = code
        .lines()
        .map(|line| line.split_once("//").map_or(line, |(code, _)| code));
    lines
        .flat_map(str::split_whitespace)
        .collect::<Vec<_>>()
        .join(" ")
}

/// The files of a folder with this extension.
fn files(folder: PathBuf, extension: &str) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect()
}

#[test]
fn every_block_is_code_of_a_kernel() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = ["guide/src", "teaching/src", "teaching"];
    let sources = folders.map(|folder| files(root.join("kernels").join(folder), "rs"));
    let sources = sources.concat();
    let sources: Vec<String> = sources
        .iter()
        .map(|path| words(&fs::read_to_string(path).unwrap()))
        .collect();
    let mut pages = files(root.join("docs/src"), "md");
    pages.push(root.join("README.md"));
    let mut count = 0;
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        for rest in text.split("```rust\n").skip(1) {
            let (block, _) = rest.split_once("```").unwrap();
            let found = sources.iter().any(|source| source.contains(&words(block)));
            assert!(found, "{}: no kernel has\n{block}", page.display());
            count += 1;
        }
    }
    assert!(count >= 30, "{count} blocks");
}
