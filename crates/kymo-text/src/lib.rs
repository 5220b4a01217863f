//! Numbers and strings as text and JSON, appended to lines of bytes.
//!
//! `kymo dump` and the exports of `kymo-export` print a dozen numbers an event, most of them small:
//! the functions here write those in a few nanoseconds each. Where a number is long or a string has
//! characters to escape, `itoa` and `serde_json` write it.
//!
//! # What it is not
//! It knows no trace: which field is printed how is up to the caller.
//!
//! # Invariants
//! - Every function only appends, and what it appends is ASCII unless its argument is not.
//! - Nothing fails: memory takes all bytes.
//!
//! # Example
//! ```
//! let mut line = b"n = ".to_vec();
//! kymo_text::decimal(&mut line, 42);
//! assert_eq!(line, b"n = 42");
//! ```
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod number;
mod shown;
mod string;

pub use number::{
    decimal, decimal_wide, decimals, element, float, general, hexadecimal, hexadecimal_digits,
    nine_digits, signed,
};
pub use shown::{count, thousands};
pub use string::{file_name, is_plain, json_string};
/// Appends a value by its `Display`, where speed does not matter.
pub fn display(to: &mut Vec<u8>, value: impl std::fmt::Display) {
    use std::io::Write as _;
    // Memory takes everything.
    let _ = write!(to, "{value}");
}
