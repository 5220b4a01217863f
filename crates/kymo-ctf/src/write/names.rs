//! Names that are valid in CTF 1.8: letters, digits and underscores.

use std::collections::{HashMap, HashSet};

/// The text with underscores in place of characters that CTF 1.8 does not allow in names.
pub(super) fn identifier(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect()
}

/// An identifier for a name without an escaping underscore, such as a clock's.
pub(super) fn word(text: &str) -> String {
    let word = identifier(text);
    let plain = word.starts_with(|c: char| c.is_ascii_alphabetic())
        && !crate::metadata::tsdl::is_keyword(&word);
    if plain { word } else { format!("_{word}") }
}

/// Unique names within a structure.
#[derive(Debug, Default)]
pub(super) struct Names {
    taken: HashSet<String>,
    /// The last number appended to each name.
    last: HashMap<String, u64>,
}

impl Names {
    /// `wanted`, with a number appended if it is taken.
    pub(super) fn free(&mut self, wanted: String) -> String {
        if self.taken.insert(wanted.clone()) {
            return wanted;
        }
        let number = self.last.entry(wanted.clone()).or_insert(1);
        loop {
            *number += 1;
            let numbered = format!("{wanted}_{number}");
            if self.taken.insert(numbered.clone()) {
                return numbered;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_identifiers_and_differ() {
        assert_eq!(identifier("a.b c-é1"), "a_b_c__1");
        assert_eq!(
            (word("event"), word("1a"), word("")),
            ("_event".to_owned(), "_1a".to_owned(), "_".to_owned())
        );
        let mut names = Names::default();
        let given: Vec<String> = ["a", "a_2", "a", "a", "b"]
            .into_iter()
            .map(|name| names.free(name.to_owned()))
            .collect();
        assert_eq!(given, ["a", "a_2", "a_3", "a_4", "b"]);
    }
}
