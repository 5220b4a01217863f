//! The next command, for who has just recorded a trace.

use std::io::IsTerminal as _;
use std::path::Path;

/// Says on a terminal how to see what is in a new trace.
pub fn suggest_report(trace: &Path) {
    suggest("report", trace);
}

/// Says on a terminal with which verb to go on. Scripts know what they do next.
pub fn suggest(verb: &str, trace: &Path) {
    if std::io::stderr().is_terminal() {
        message!(
            "kymo: next: kymo {verb} {}",
            quoted(&trace.display().to_string())
        );
    }
}

/// A path as a shell takes it for one word.
fn quoted(path: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%".contains(c);
    match path.chars().all(is_plain) {
        true => path.to_owned(),
        false => format!("'{}'", path.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn paths_are_one_word() {
        assert_eq!(quoted("out/trace-1"), "out/trace-1");
        assert_eq!(quoted("my trace"), "'my trace'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }
}
