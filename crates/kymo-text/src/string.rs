//! Strings, most of which have nothing to escape.

/// Whether text is printable ASCII without `"` and `\`, so that neither a terminal, JSON nor Rust
/// needs anything in it escaped.
#[inline]
pub fn is_plain(text: &[u8]) -> bool {
    // Without an early exit, many bytes are compared at once.
    text.iter().fold(true, |plain, &byte| {
        plain & matches!(byte, b' '..=b'~') & !matches!(byte, b'"' | b'\\')
    })
}

/// Appends a JSON string, in quotes (RFC 8259, section 7).
#[inline]
pub fn json_string(line: &mut Vec<u8>, text: &str) {
    if is_plain(text.as_bytes()) {
        line.push(b'"');
        line.extend_from_slice(text.as_bytes());
        line.push(b'"');
    } else {
        // Writing to memory cannot fail.
        let _ = serde_json::to_writer(line, text);
    }
}

/// A name as that of one file: percent-encoded except letters, digits, `-`, and `_` and dots behind
/// the first byte. Different names differ, and none leads out of a directory.
pub fn file_name(name: &str) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for (index, byte) in name.bytes().enumerate() {
        let plain = byte.is_ascii_alphanumeric()
            || byte == b'-'
            || (index > 0 && (byte == b'_' || byte == b'.'));
        let _ = if plain {
            write!(text, "{}", char::from(byte))
        } else {
            write!(text, "%{byte:02X}")
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_stay_in_the_directory_and_differ() {
        assert_eq!(file_name("sched_switch"), "sched_switch");
        assert_eq!(file_name("../a:b"), "%2E.%2Fa%3Ab");
        assert_eq!(file_name("_losses"), "%5Flosses");
        assert_eq!(file_name("a%b"), "a%25b");
    }

    #[test]
    fn plain_text_has_nothing_to_escape() {
        assert!(is_plain(b"") && is_plain(b" a~"));
        for byte in 0..=255 {
            let is_safe = (b' '..=b'~').contains(&byte) && !b"\"\\".contains(&byte);
            assert_eq!(is_plain(&[b'a', byte]), is_safe, "{byte:#x}");
        }
    }

    #[test]
    fn strings_are_what_serde_json_writes() {
        let texts = [
            "",
            "plain",
            "ü\u{1f600}",
            "\"",
            "\\",
            "\n",
            "\u{0}",
            "\u{7f}",
            "\u{85}",
        ];
        for text in texts {
            let mut line = Vec::new();
            json_string(&mut line, text);
            assert_eq!(line, serde_json::to_vec(text).unwrap());
        }
    }
}
