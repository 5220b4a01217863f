//! `include/kymo.h`, `src/vocabulary.rs` and `src/fields.rs` are what the declarations say.
//! `KYMO_BLESS=1 cargo test -p kymo-c --test header` writes them anew.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod generator;

use std::fs;
use std::path::Path;

fn is_made_from_the_declarations(file: &str, made: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os("KYMO_BLESS").is_some() {
        fs::write(&path, made).unwrap();
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == made,
        "{file} is out of date: KYMO_BLESS=1 cargo test -p kymo-c --test header"
    );
}

#[test]
fn the_header_is_what_the_declarations_say() {
    is_made_from_the_declarations("include/kymo.h", &generator::header());
}

#[test]
fn the_librarys_table_is_what_the_declarations_say() {
    is_made_from_the_declarations("src/vocabulary.rs", &generator::table());
    is_made_from_the_declarations("src/fields.rs", &generator::fields());
}

/// The header's macro for the size of the memory is enough for all that it says.
#[test]
fn the_size_of_the_memory_counts_all_of_the_metadata() {
    assert!(generator::fixed_bytes() > generator::metadata().len());
}

/// The chapter on kernels in C has every error, in the order of the table.
#[test]
fn the_book_has_the_table_of_errors() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/c.md");
    let book = fs::read_to_string(path).unwrap();
    assert!(
        book.contains(&generator::table_of_errors()),
        "docs/src/c.md has other errors"
    );
}
