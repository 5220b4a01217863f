//! Messages to the standard error.

/// Prints a line to the standard error and ignores failures. `eprintln!` would panic when the
/// standard error is closed, and the panic would replace the verb's exit code.
macro_rules! message {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}

/// Prints a sentence as a message.
pub fn say(sentence: String) {
    message!("kymo: {sentence}");
}
