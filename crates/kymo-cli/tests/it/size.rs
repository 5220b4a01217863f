//! `kymo size`, on the command itself.

use std::path::Path;
use std::process::Command;

use crate::run::{kymo, printed};

/// A program with symbols.
fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_kymo"))
}

/// The size of its executable sections, as `readelf` prints it.
fn text_size() -> Option<u64> {
    let output = Command::new("readelf")
        .arg("-SW")
        .arg(program())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let sizes = text.lines().filter_map(|line| {
        let (_, columns) = line.split_once(']')?;
        let columns: Vec<&str> = columns.split_whitespace().collect();
        let is_code = columns.get(6).is_some_and(|flags| flags.contains('X'));
        u64::from_str_radix(columns.get(4).filter(|_| is_code)?, 16).ok()
    });
    Some(sizes.sum())
}

#[test]
fn sizes_add_up_and_are_under_crate_and_module() {
    let (code, folded) = printed(&["size", "--format", "folded"], program());
    assert_eq!(code, Some(0));
    let lines: Vec<(&str, u64)> = folded
        .lines()
        .map(|line| {
            let (stack, bytes) = line.rsplit_once(' ').unwrap();
            (stack, bytes.parse().unwrap())
        })
        .collect();
    assert!(lines.is_sorted());
    let total: u64 = lines.iter().map(|(_, bytes)| bytes).sum();
    if let Some(wanted) = text_size() {
        assert_eq!(total, wanted);
    }
    let bytes = |of: fn(&str) -> bool| -> u64 {
        let found = lines.iter().filter(|(name, _)| of(name));
        found.map(|line| line.1).sum()
    };
    // Which functions of the module are inlined is the compiler's choice.
    assert!(bytes(|stack| stack.starts_with("kymo;size;")) > 100);
    let rest = bytes(|stack| stack == "[not in a symbol]");
    assert!((1..total / 5).contains(&rest), "{rest} of {total}");
    let message = String::from_utf8(kymo(&["size"], program()).stderr).unwrap();
    assert!(
        message.starts_with("kymo: ") && message.ends_with(" not in a symbol.\n"),
        "{message}"
    );
}

#[test]
fn the_graph_is_drawn_to_a_file_with_the_total_at_its_root() {
    let file = std::env::temp_dir().join(format!("kymo-size-{}.svg", std::process::id()));
    let output = kymo(&["size", "-o", file.to_str().unwrap()], program());
    let svg = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout.is_empty());
    let message = String::from_utf8(output.stderr).unwrap();
    let total = message.split(' ').nth(1).unwrap();
    assert!(svg.starts_with("<?xml"));
    assert!(svg.contains(&format!("<title>all ({total} bytes, 100%)</title>")));
}
